"""SGD on samples next to the theory, and the causes of the gap.

The loop is plain SGD, the parts of the gap are right, and each cause is found.
"""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tests.data.cases import mixture_samples
from tutelage.data.laws import SampleLaw
from tutelage.simulation.prepare import matrix_roots

TIMES = [0.0, 1.0, 3.0]
SOFTMAX = tu.Network(3, "linear", outputs=3)


@pytest.fixture(scope="module")
def gaussian():
    data = tu.from_data(*mixture_samples(6000, 60, 1), levels=1)
    problem = data.problem(SOFTMAX, optimizer=tu.SGD(lr=0.5))
    return data, data.compare(problem, TIMES, runs=30, seed=3)


def test_gaussian_samples_leave_no_gap_beyond_finite_n(gaussian):
    _, found = gaussian
    part, error = found.causes()["not Gaussian"]
    # the moments of 6000 samples themselves differ a little
    assert np.all(np.abs(part) < 4 * error + 0.01)
    assert np.all(np.abs(found.gap()[0]) < 0.1 * found.theory.error)
    assert found.theory.error[-1] < 0.75 * found.theory.error[0]  # they learned


def test_the_parts_add_up_to_the_gap(gaussian):
    _, found = gaussian
    for name in ("error", "loss"):
        parts = sum(part for part, _ in found.causes(name).values())
        np.testing.assert_allclose(parts, found.gap(name)[0], atol=1e-12)
        np.testing.assert_allclose(
            found.gap(name)[0],
            getattr(found, name)["samples"].mean(0) - getattr(found.theory, name),
            atol=1e-12,
        )


def test_the_report_and_the_figure_show_the_gap(gaussian):
    _, found = gaussian
    text = str(found)
    value, error = found.gap()
    assert f"{value[-1]:.4f} ± {error[-1]:.4f}" in text
    for words in (
        "6000 samples drawn with replacement, 30 runs, N = 60",
        "finite N",
        "not Gaussian",
        "training loss",
    ):
        assert words in text
    assert len(found.plot().axes) == 2
    with pytest.raises(tu.InputError, match="name"):
        found.gap("R")


@pytest.mark.parametrize(
    ("law", "cause"),
    [
        ("scaled", "not Gaussian"),
        ("wide", "covariances"),
        pytest.param("none", None, marks=pytest.mark.full),
    ],
)
def test_each_cause_is_found(law, cause):
    """Samples that differ in one respect from the theory's law show it in that part.

    Negative controls: the other parts do not show it.
    """
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6000, 30))
    if law == "scaled":  # the length of each sample varies: fields have heavy tails
        x *= np.where(rng.random((6000, 1)) < 0.2, 2.0, 0.5)
    if law == "wide":  # eigenvalues that one level merges
        x *= np.sqrt(np.geomspace(4.0, 0.1, 30))
    data = tu.from_data(x, levels=1)
    student = tu.Network(1, "erf")
    assert (data.grouping_error > 0.5) == (law == "wide")
    found = data.compare(
        data.problem(student, student, optimizer=tu.SGD(lr=0.5)),
        [0.0, 2.0, 6.0, 15.0],
        runs=30,
        seed=4,
    )
    z = {
        name: np.max(np.abs(part / error)[1:])
        for name, (part, error) in found.causes().items()
        if name != "finite N"
    }
    assert cause is None or z.pop(cause) > 8
    assert all(value < 5 for value in z.values())


def test_gaussian_samples_have_the_moments_of_their_class():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 4))
    y = np.arange(3000) % 2
    x[y == 1] = 2.0 * x[y == 1][:, ::-1] + [2.0, 0.0, 0.0, 1.0]
    data = tu.from_data(x, y, levels=2)
    problem = data.problem(tu.Network(1, "linear"))
    which = np.repeat(np.arange(2), 40_000)
    for roots, expected in (
        (matrix_roots(data.covariances), data.covariances),
        (np.sqrt(data.variances), [np.diag(v) for v in data.variances]),
    ):
        drawn, numbers = SampleLaw(data, problem, roots).samples(
            which, rng, np.random.default_rng(0)
        )
        for c in range(2):
            own = drawn[which == c]
            np.testing.assert_allclose(own.mean(0), data.means[c], atol=0.06)
            np.testing.assert_allclose(np.cov(own.T), expected[c], atol=0.1)
            assert np.all(numbers[which == c, 0] == 2 * c - 1)  # the labels come first


def test_the_loop_is_plain_sgd_on_the_samples():
    """The same samples in the same order, by a loop of NumPy."""
    x, y = mixture_samples(200, 8, 5)
    with pytest.warns(tu.errors.ValidityWarning):
        data = tu.from_data(x, y, levels=1)
    problem = data.problem(SOFTMAX, optimizer=tu.SGD(lr=0.3))
    runs = 2
    seed = 6
    D = 8
    W0 = np.random.default_rng(0).standard_normal((3, 8))
    found = data.compare(problem, [0.0, 2.0, 5.0], runs=runs, seed=seed, weights=W0)
    z = (x - x.mean(0)) @ data.basis.T / np.sqrt(data.spectrum.scale)
    order = np.random.default_rng([seed, 1]).integers(200, size=(runs, 5 * D))
    for run in range(runs):
        W = W0 @ data.basis.T
        for step, i in enumerate(order[run]):
            if step in (0, 2 * D):
                require_measured(found, run, {0: 0, 2 * D: 1}[step], W, z, y)
            outputs = W @ z[i] / np.sqrt(D)
            shares = np.exp(outputs) / np.exp(outputs).sum()
            W = W + 0.3 / np.sqrt(D) * np.outer(np.eye(3)[y[i]] - shares, z[i])
        require_measured(found, run, 2, W, z, y)


def require_measured(found, run, time, W, z, y):
    outputs = z @ W.T / np.sqrt(W.shape[1])
    assert found.error["samples"][run, time] == pytest.approx(
        np.mean(outputs.argmax(1) != y), abs=1e-12
    )
    loss = np.log(np.exp(outputs).sum(1)) - outputs[np.arange(len(y)), y]
    assert found.loss["samples"][run, time] == pytest.approx(loss.mean(), rel=1e-10)


def test_outputs_that_tie_are_guesses():
    """With zero weights all three classes tie: the error is 2/3.

    It is so by theory and samples, however frequent the first class is.
    """
    x, y = mixture_samples(400, 40, 5)
    data = tu.from_data(x, np.where(np.arange(400) % 2, y, 0), levels=1)
    found = data.compare(
        data.problem(SOFTMAX, optimizer=tu.SGD(lr=0.3)),
        [0.0, 0.1],
        runs=2,
        weights=np.zeros((3, 40)),
    )
    assert found.theory.error[0] == pytest.approx(2 / 3, abs=1e-12)
    for errors in found.error.values():
        np.testing.assert_allclose(errors[:, 0], 2 / 3, atol=1e-12)


def test_labels_of_a_teacher_and_trained_readouts():
    """A teacher labels real samples; a run by NumPy, of batch 2, trains readouts."""
    rng = np.random.default_rng(8)
    x = rng.exponential(size=(300, 6))
    data = tu.from_data(x)
    student = tu.Network(2, "erf", train_readout=True, readout=[0.5, 0.8])
    problem = data.problem(
        student, tu.Network(1, "erf"), optimizer=tu.SGD(lr=0.4, batch=2)
    )
    W = rng.standard_normal((2, 6))
    W_teacher = rng.standard_normal((1, 6))
    found = data.compare(problem, [0.0, 3.0], runs=2, seed=1, weights=(W, W_teacher))
    z = (x - x.mean(0)) @ data.basis.T / np.sqrt(data.spectrum.scale)
    order = (
        np.random.default_rng([1, 1]).integers(300, size=(2, 18 * 2)).reshape(2, 18, 2)
    )
    w = W @ data.basis.T
    v = np.array([0.5, 0.8])
    w_teacher = W_teacher @ data.basis.T
    g = lambda field: erf(field / np.sqrt(2))  # noqa: E731
    for pair in order[0]:
        fields = z[pair] @ w.T / np.sqrt(6)
        delta = g(z[pair] @ w_teacher[0] / np.sqrt(6)) - g(fields) @ v
        slope = np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2) * v * delta[:, None]
        w = w + 0.4 / np.sqrt(6) * slope.T @ z[pair] / 2
        v = v + 0.4 / 6 * np.mean(delta[:, None] * g(fields), axis=0)
    labels = g(z @ w_teacher[0] / np.sqrt(6))
    outputs = g(z @ w.T / np.sqrt(6)) @ v
    error = np.mean((labels - outputs) ** 2) / 2
    assert found.error["samples"][0, -1] == pytest.approx(error, rel=1e-9)
    # one level each: nothing is left out of the covariance
    assert list(found.error) == ["theory's law", "samples"]


def test_real_labels():
    """Samples of the fitted teacher with independent noise follow the theory.

    The unseen part is the floor of the error.
    """
    rng = np.random.default_rng(9)
    x = rng.standard_normal((8000, 50)) * np.sqrt(np.geomspace(3, 0.3, 50))
    y = x @ rng.standard_normal(50) / 5 + rng.standard_normal(8000)
    data = tu.from_data(x, y)
    problem = data.problem(tu.Network(1, "linear"), optimizer=tu.SGD(lr=0.3))
    found = data.compare(problem, [0.0, 2.0, 10.0], runs=40, seed=2)
    assert found.theory.error[0] == pytest.approx(0.5, abs=0.05)
    for part, error in found.causes().values():
        assert np.all(np.abs(part) < 4 * error + 0.01)
    assert found.theory.error[-1] > (1 - data.explained) / 2


@pytest.mark.full
def test_labels_that_are_not_linear():
    """The student learns a part of y that is not linear in x, unseen to the theory."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((4000, 20))
    data = tu.from_data(x, x[:, 0] ** 2 + 0.5 * x[:, 1], levels=1)
    problem = data.problem(tu.Network(1, "quadratic"), optimizer=tu.SGD(lr=0.05))
    found = data.compare(problem, [0.0, 10.0], runs=10, weights=np.eye(1, 20), seed=2)
    part, error = (values[-1] for values in found.causes()["not Gaussian"])
    assert part < -8 * error
    assert "depends on x" in str(found)


def test_what_compare_does_not_support():
    data = tu.from_data(*mixture_samples(300, 40, 7))
    problem = data.problem(SOFTMAX)
    other = tu.Problem(tu.Network(2), tu.Network(2))
    free = tu.from_data(mixture_samples(300, 40, 7)[0])
    tasks = tu.Tasks([tu.Network(1), tu.Network(1)], tu.Switch(5.0))
    for make, words in (
        (
            lambda: data.compare(other),
            "must be those of the data. Make the problem with data.problem",
        ),
        (lambda: data.compare(3), "compare takes a tutelage Problem"),
        (lambda: data.compare(problem, runs=1), "runs is 1"),
        (
            lambda: data.compare(problem, weights=(np.ones((3, 40)), np.ones((3, 40)))),
            "weights hold 2 arrays",
        ),
        (
            lambda: data.compare(problem, weights=np.ones((3, 41))),
            r"weights has shape \(3, 41\)",
        ),
        (
            lambda: free.compare(free.problem(tu.Network(1), tasks)),
            "compare does not support this problem",
        ),
    ):
        with pytest.raises(tu.InputError, match=words):
            make()


def test_times_of_one_number_are_few():
    data = tu.from_data(mixture_samples(300, 40, 7)[0], levels=2)
    student = tu.Network(1, "linear")
    found = data.compare(data.problem(student, student), 1.0, runs=2)
    np.testing.assert_allclose(found.times, tu.linear_times(1.0, 21))
    assert np.all(np.isfinite(found.error["samples"]))


def test_divergence_is_said():
    data = tu.from_data(mixture_samples(300, 40, 7)[0], levels=2)
    student = tu.Network(1, "linear")
    with pytest.warns(tu.errors.DivergenceWarning):
        found = data.compare(
            data.problem(student, student, optimizer=tu.SGD(lr=20.0)),
            [0.0, 20.0, 60.0],
            runs=2,
        )
    assert "2 of 2 runs on the samples diverged; lower the learning rate" in str(found)
    assert len(found.plot().axes) == 2
    with pytest.raises(tu.InputError, match="times is 'long'"):
        data.compare(data.problem(student, student), "long")
