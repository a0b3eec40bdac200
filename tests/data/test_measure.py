"""The statistics of data, what is thrown away, and the problems they make."""

from dataclasses import astuple

import numpy as np
import pytest

import tutelage as tu
from tutelage.data.field_shape import FieldShape
from tutelage.errors import TutelageWarning, ValidityWarning

N = 12
C = 3
EIGENVALUES = np.geomspace(4.0, 0.1, N)


@pytest.fixture(scope="module")
def drawn():
    """Samples of three classes, with their means and variances.

    Means are of order one, variances depend on the class, in common directions.
    """
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.standard_normal((N, N)))[0]
    means = rng.standard_normal((C, N)) * 0.2
    widths = np.sqrt(EIGENVALUES) * rng.uniform(0.7, 1.3, (C, N))
    y = np.repeat(np.arange(C), (4000, 6000, 10000))
    x = (rng.standard_normal((y.size, N)) * widths[y] + means[y]) @ basis.T + 3.0
    return x, y


@pytest.fixture(scope="module")
def data(drawn):
    return tu.from_data(*drawn, levels=4)


def coordinates(data, x):
    return (x - x.mean(0)) @ data.basis.T / np.sqrt(data.spectrum.scale)


def test_moments_are_those_of_the_coordinates(drawn, data):
    x, y = drawn
    z = coordinates(data, x)
    np.testing.assert_allclose(data.held[0], z, atol=1e-9)
    assert data.probabilities.tolist() == [0.2, 0.3, 0.5]
    for c in range(C):
        np.testing.assert_allclose(data.means[c], z[y == c].mean(0), atol=1e-9)
        np.testing.assert_allclose(
            data.covariances[c], np.cov(z[y == c].T, bias=True), atol=1e-9
        )
    within = np.einsum("c,cij->ij", data.probabilities, data.covariances)
    np.testing.assert_allclose(
        within, np.diag(np.diag(within)), atol=1e-9
    )  # the common directions are its eigenvectors
    assert np.trace(within) == pytest.approx(N)


def test_the_mixture_has_these_means_and_the_mean_variances_of_its_levels(data):
    mixture = data.inputs
    assert isinstance(mixture, tu.Mixture)
    np.testing.assert_allclose(mixture.probabilities, data.probabilities)
    np.testing.assert_allclose(
        mixture.mean_overlaps(), data.means @ data.means.T, atol=1e-12
    )
    spans = np.split(np.arange(N), 4)
    for level, at in enumerate(spans):
        own = np.einsum("cii->ci", data.covariances)[:, at].mean(axis=1)
        np.testing.assert_allclose(mixture.spectra[:, level], own)
        np.testing.assert_allclose(
            mixture.gram[level], 4 * data.means[:, at] @ data.means[:, at].T
        )  # fraction 1/4


def test_what_is_thrown_away(drawn, data):
    P = data.probabilities
    own = np.einsum("cii->ci", data.covariances)
    whole = P @ np.sum(data.covariances**2, axis=(1, 2))
    off = P @ (np.sum(data.covariances**2, axis=(1, 2)) - np.sum(own**2, axis=1))
    assert data.off_diagonal == pytest.approx(np.sqrt(off / whole))
    assert (
        data.off_diagonal < 0.1
    )  # these classes share their directions, up to the noise of the sample
    grouped = np.concatenate(
        [np.repeat(g.mean(1, keepdims=True), 3, 1) for g in np.split(own, 4, axis=1)],
        axis=1,
    )
    assert data.grouping_error == pytest.approx(
        np.sqrt(P @ np.sum((own - grouped) ** 2, axis=1) / whole)
    )
    x, y = drawn
    turned = x.copy()
    turned[y == 0] = turned[y == 0][:, ::-1]  # a class with other directions
    assert tu.from_data(turned, y).off_diagonal > 0.25
    assert tu.from_data(x).off_diagonal == pytest.approx(
        0.0, abs=1e-6
    )  # no classes: nothing off the diagonal
    assert tu.from_data(x).grouping_error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("together", [False, True])
def test_errors_of_shapes_are_the_scatter_over_data_sets(together):
    """64 directions are 64 times as many numbers only if they are independent."""
    rng = np.random.default_rng(8)
    shapes = []
    for _ in range(60):
        fields = rng.standard_normal((1000, 64))
        if together:
            fields *= rng.choice([0.6, 1.28], size=(1000, 1))
        fields = (fields - fields.mean(axis=0)) / fields.std(axis=0)
        shapes.append(FieldShape.of([fields]))
    scatter = np.std([shape.kurtosis for shape in shapes])
    stated = np.mean([shape.kurtosis_error for shape in shapes])
    assert stated == pytest.approx(scatter, rel=0.5)


def test_shapes_of_fields(drawn):
    """Gaussian samples have none; sums of N Laplace variables have excess kurtosis.

    It is 3 sum w^4 lam^2 / (sum w^2 lam)^2.
    """
    rng = np.random.default_rng(6)
    for shape in tu.from_data(*drawn).field_shapes.values():
        assert abs(shape.skewness) < 4 * shape.skewness_error
        assert abs(shape.kurtosis) < 4 * shape.kurtosis_error
    laplace = tu.from_data(rng.laplace(size=(40_000, 1)))
    assert laplace.field_shapes["in random directions"].kurtosis == pytest.approx(
        3.0, abs=0.4
    )
    skewed = rng.exponential(size=(20_000, 2))
    y = np.repeat([0, 1], 10_000)
    skewed[y == 1] = (
        6.0 - skewed[y == 1]
    )  # the tail of each class reaches toward the other
    with pytest.warns(ValidityWarning):
        toward = tu.from_data(skewed, y).field_shapes["toward other classes"]
    assert toward.skewness == pytest.approx(
        2 / np.sqrt(2), abs=0.1
    )  # a sum of two: 2 / sqrt(2)
    with pytest.warns(ValidityWarning):
        away = tu.from_data(np.where(y[:, None] == 1, 6.0 - skewed, -skewed), y)
    assert away.field_shapes["toward other classes"].skewness < -1


def test_a_linear_teacher_is_found():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((5000, 6)) * np.sqrt([9, 4, 2, 1, 0.5, 0.2]) + 1.0
    slope = np.array([0.3, -1.0, 0.0, 2.0, 0.5, 1.0])
    signal = x @ slope
    noise = rng.standard_normal(5000)
    y = 5.0 + signal + 0.8 * noise
    data = tu.from_data(x, y, levels=3)
    fit, *_ = np.linalg.lstsq(np.column_stack([x, np.ones(5000)]), y, rcond=None)
    found = data.held[0] @ data.teacher_weights[0] / np.sqrt(6) * y.std() + y.mean()
    np.testing.assert_allclose(
        found, np.column_stack([x, np.ones(5000)]) @ fit, atol=1e-8
    )
    assert data.explained == pytest.approx(1 - np.mean((y - found) ** 2) / y.var())
    np.testing.assert_allclose(data.held[1], (y - y.mean()) / y.std())
    problem = data.problem(tu.Network(2, "erf"))
    assert problem.teacher is data.teacher
    np.testing.assert_allclose(data.teacher.unseen, [[1 - data.explained]])
    for each in (data, tu.from_data(x, y)):
        assert each.inputs.weights @ each.teacher.gram[:, 0, 0] == pytest.approx(
            each.explained
        )  # grouped or not
    shuffled = tu.from_data(x, rng.permutation(y))
    assert shuffled.explained < 0.01


def test_labels_of_classes_make_the_loss(data, drawn):
    softmax = data.problem(tu.Network(3, "linear", outputs=3), optimizer=tu.SGD(lr=0.2))
    assert (type(softmax.loss).__name__, float(softmax.optimizer.lr)) == (
        "CrossEntropy",
        0.2,
    )
    x, y = drawn
    two = tu.from_data(x[y < 2], y[y < 2])
    signs = two.problem(tu.Network(2, "erf"))
    assert type(signs.loss).__name__ == "Logistic"
    assert np.asarray(signs.targets).tolist() == [-1.0, 1.0]  # the first class is -1
    squared = two.problem(tu.Network(2, "erf"), loss="squared")
    assert type(squared.loss).__name__ == "Squared"


def test_problems_that_do_not_fit(data, drawn):
    for make, words in (
        (
            lambda: data.problem(tu.Network(2, "erf")),
            "the student has 1 output; 3 classes need 3",
        ),
        (lambda: data.problem(3), "student is of type int"),
        (
            lambda: data.problem(tu.Network(3, "linear", outputs=3), tu.Network(1)),
            "the data have labels; leave teacher out",
        ),
        (
            lambda: tu.from_data(drawn[0]).problem(tu.Network(2)),
            "the data have no labels; give a teacher",
        ),
    ):
        with pytest.raises(tu.InputError, match=words):
            make()


def test_long_means_warn(drawn):
    x, y = drawn
    with pytest.warns(
        ValidityWarning, match="the longest class mean has length .* sqrt\\(N\\) = 3.46"
    ):
        long = tu.from_data(x + 5.0 * np.eye(C, N)[y], y)
    assert long.mean_length == pytest.approx(np.linalg.norm(long.means, axis=1).max())
    assert long.mean_length > 3


def test_the_report_has_its_numbers(data):
    text = str(data)
    for words in (
        "20000 samples, 12 features",
        "means and variances of 3 classes (4000 to 10000 samples each), 4 levels",
    ):
        assert words in text
    for share in (data.off_diagonal, data.grouping_error):
        assert f"{share:.1%}" in text
    assert repr(data).startswith("<Data: 20000 samples")
    assert len(data.plot().axes) == 2
    assert len(tu.from_data(tu.digits()).plot().axes) == 1


def test_means_along_dropped_directions_are_counted():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 500)
    x = np.column_stack(
        [rng.standard_normal((1000, 3)), y]
    )  # the last feature is constant in each class
    data = tu.from_data(x, y)
    assert data.spectrum.dropped == 1
    assert data.lost_means > 0.9
    assert "of the squared class means" in str(data)


def test_a_class_may_be_constant_along_a_direction():
    rng = np.random.default_rng(1)
    y = np.arange(1000) % 2
    x = rng.standard_normal((1000, 4)) * np.where(
        (np.arange(4) == 0) & (y[:, None] == 0), 0.0, 1.0
    )
    data = tu.from_data(x, y)
    assert np.asarray(data.inputs.spectra).min() < 0.01
    assert np.all(np.asarray(data.inputs.spectra) > 0)
    shape = data.field_shapes["toward other classes"]
    assert np.isfinite(astuple(shape)).all()


def test_too_many_classes_for_memory():
    with pytest.raises(
        tu.InputError, match="covariances of 3000 classes in 3000 features"
    ):
        tu.from_data(np.zeros((6000, 3000), dtype=np.int8), np.arange(6000) // 2)


def test_only_a_part_of_many_samples_is_held(monkeypatch):
    from tutelage.data import result

    monkeypatch.setattr(result, "HELD", 300)
    data = tu.from_data(np.random.default_rng(0).standard_normal((1000, 3)))
    assert data.held[0].shape == (100, 3)
    assert len(data.rows) == 1000


def test_few_samples_are_fitted_exactly():
    rng = np.random.default_rng(3)
    with pytest.warns(TutelageWarning, match="5 samples of 8 features"):
        data = tu.from_data(rng.standard_normal((5, 8)), rng.standard_normal(5))
    assert data.explained == pytest.approx(1.0)
