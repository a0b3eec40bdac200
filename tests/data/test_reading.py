"""Data as arrays, files, data sets and data frames; feature maps; bad data."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import tutelage as tu
from tutelage.data import reading
from tutelage.data.class_moments import measure_moments


def test_the_digits_are_those_of_the_repository():
    images, labels = tu.digits(labels=True)
    assert np.array_equal(images, tu.digits())
    assert np.array_equal(images, load_digits().images)
    assert np.array_equal(labels, load_digits().target)


def test_images_are_rows_of_pixels():
    pictures = tu.digits()
    flat = tu.from_data(pictures.reshape(1797, 64)).inputs
    square = tu.from_data(pictures).inputs
    assert np.array_equal(flat.eigenvalues, square.eigenvalues)
    assert (square.known_dim, square.dropped) == (61, 3)
    assert np.array_equal(
        tu.from_data(pictures.astype(np.uint8)).inputs.eigenvalues, square.eigenvalues
    )


def test_a_file_gives_what_its_array_gives(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data = (
        rng.standard_normal((501, 3, 4)) @ rng.standard_normal((4, 4)) + 100
    ).astype(np.float32)
    np.save(tmp_path / "images.npy", data)
    whole = tu.from_data(data).inputs
    # seven rows at a time, the last piece shorter
    monkeypatch.setattr(reading, "CHUNK", 12 * 7)
    for name in (tmp_path / "images.npy", str(tmp_path / "images.npy")):
        pieces = tu.from_data(name).inputs
        np.testing.assert_allclose(pieces.eigenvalues, whole.eigenvalues, rtol=1e-9)
        np.testing.assert_allclose(
            pieces.center, data.reshape(501, 12).mean(axis=0, dtype=float), rtol=1e-12
        )


def test_covariance_of_data_far_from_zero():
    """A mean of 1e6 leaves ten digits, of which E[xx] - E[x]E[x] would keep four."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 5)) + 1e6
    moments = measure_moments(rows, None, np.zeros(300, dtype=int), None)
    exact = np.cov(rows, rowvar=False, bias=True)
    np.testing.assert_allclose(moments.covariances[0], exact, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(moments.means[0], rows.mean(axis=0), rtol=1e-14)


def test_data_sets_archives_and_frames_bring_their_labels(tmp_path):
    digits = load_digits()
    kept = digits.target < 3
    X = digits.data[kept]
    y = digits.target[kept]
    with pytest.warns(tu.errors.ValidityWarning):
        expected = tu.from_data(X, y)
    np.savez(tmp_path / "digits.npz", images=X.reshape(-1, 8, 8), labels=y)
    words = np.array(["zero", "one", "two"])[y]
    for given in (
        (SimpleNamespace(data=X, target=y),),
        (tmp_path / "digits.npz",),
        (pandas_like(X), pandas_like(y)),
        (X, y[:, None]),
        (X, words),
    ):
        with pytest.warns(tu.errors.ValidityWarning):
            found = tu.from_data(*given)
        order = [
            found.classes.tolist().index(c)
            for c in (["zero", "one", "two"] if given[-1] is words else range(3))
        ]
        np.testing.assert_allclose(found.means[order], expected.means)
    np.savez(tmp_path / "one.npz", anything=X)
    assert (
        tu.from_data(tmp_path / "one.npz").inputs.levels
        == tu.from_data(X).inputs.levels
    )


def pandas_like(array):
    """What from_data uses of a data frame or a series."""
    return SimpleNamespace(to_numpy=lambda: array)


def test_a_feature_map_is_applied_piece_by_piece(monkeypatch):
    rows = np.random.default_rng(2).standard_normal((50, 4))
    sizes = []

    def squares(x):
        sizes.append(len(x))
        return np.concatenate([x, x**2], axis=1)

    monkeypatch.setattr(reading, "CHUNK", 4 * 20)
    found = tu.from_data(rows, feature_map=squares).inputs
    assert max(sizes) == 20
    np.testing.assert_allclose(
        found.eigenvalues, tu.from_data(squares(rows)).inputs.eigenvalues
    )


X = np.random.default_rng(0).standard_normal((20, 4))
BAD = {
    "labels of wrong length": (
        lambda: tu.from_data(X, np.arange(19)),
        ["y has shape (19,)", "(20,)"],
    ),
    "NaN label": (lambda: tu.from_data(X, np.full(20, np.nan)), ["y contains nan"]),
    "one class": (
        lambda: tu.from_data(X, np.zeros(20, dtype=int)),
        ["one class only, 0", "Leave y out"],
    ),
    "class of one sample": (
        lambda: tu.from_data(X, [0] * 19 + [7]),
        ["class 7 has one sample", "floating-point"],
    ),
    "constant label": (
        lambda: tu.from_data(X, np.ones(20)),
        ["all labels y are 1", "Leave y out"],
    ),
    "labels of objects": (
        lambda: tu.from_data(X, [None] * 20),
        ["y has type object", "classes"],
    ),
    "complex label": (
        lambda: tu.from_data(X, np.ones(20) * 1j),
        ["y has type complex128"],
    ),
    "two labels": (
        lambda: tu.from_data(SimpleNamespace(data=X, target=X[:, 0]), X[:, 0]),
        ["y is given", "leave y out"],
    ),
    "no function": (
        lambda: tu.from_data(X, feature_map=3),
        ["feature_map is of type int", "function"],
    ),
    "map fails": (
        lambda: tu.from_data(X, feature_map=lambda x: x @ np.eye(3)),
        ["feature_map failed", "(20, 4)"],
    ),
    "map of wrong shape": (
        lambda: tu.from_data(X, feature_map=lambda x: x[:5]),
        ["feature_map made shape (5, 4)"],
    ),
    "map makes NaN": (
        lambda: tu.from_data(X, feature_map=lambda x: x * np.nan),
        ["output of feature_map contains nan"],
    ),
    "constant features": (
        lambda: tu.from_data(np.ones((5, 3))),
        ["no positive eigenvalue", "variance"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data(name):
    make, words = BAD[name]
    with pytest.raises(tu.InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_few_samples_warn():
    with pytest.warns(
        tu.errors.TutelageWarning,
        match="4 samples of 10 features: at most 3 directions have variance",
    ):
        tu.from_data(X.reshape(-1, 10)[:4])


def test_refusals_of_files(tmp_path):
    (tmp_path / "words.npy").write_text("no array")
    (tmp_path / "words.npz").write_text("no array")
    np.save(tmp_path / "words2.npy", np.array(["a", "b"]))
    np.savez(tmp_path / "several.npz", a=np.eye(3), b=np.eye(2))
    for name in ("nowhere.npy", "nowhere.npz"):
        with pytest.raises(
            tu.InputError, match=f"there is no file '{name}'; X must be an array"
        ):
            tu.from_data(name)
    for name in ("words.npy", "words2.npy"):
        with pytest.raises(
            tu.InputError,
            match=r"not a \.npy file of numbers; write one with numpy.save",
        ):
            tu.from_data(tmp_path / name)
    with pytest.raises(tu.InputError, match=r"not an \.npz file of numbers"):
        tu.from_data(tmp_path / "words.npz")
    with pytest.raises(
        tu.InputError, match=r"several.npz' holds a, b; the features must be named X, "
    ):
        tu.from_data(tmp_path / "several.npz")
    np.save(tmp_path / "nan.npy", np.array([[0.0, np.nan], [1.0, 2.0]]))
    with pytest.raises(tu.InputError, match="X contains nan"):
        tu.from_data(tmp_path / "nan.npy")
    with pytest.raises(tu.InputError, match="two samples or more"):
        tu.from_data(np.ones((1, 8, 8)))
