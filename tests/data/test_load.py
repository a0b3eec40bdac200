"""Data as rows: images, files larger than a piece, and the digits of the package."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import tutelage as tu
from tutelage.problem import inputs


def test_the_digits_are_those_of_the_repository():
    assert np.array_equal(tu.digits(), load_digits().images)


def test_images_are_rows_of_pixels():
    pictures = tu.digits()
    flat, square = tu.from_data(pictures.reshape(1797, 64)).inputs, tu.from_data(pictures).inputs
    assert np.array_equal(flat.eigenvalues, square.eigenvalues)
    assert (square.known_dim, square.dropped) == (61, 3)
    assert np.array_equal(tu.from_data(pictures.astype(np.uint8)).inputs.eigenvalues, square.eigenvalues)


def test_a_file_gives_what_its_array_gives(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((501, 3, 4)) @ rng.standard_normal((4, 4)) + 100).astype(np.float32)
    np.save(tmp_path / "images.npy", data)
    whole = tu.from_data(data).inputs
    monkeypatch.setattr(inputs, "CHUNK", 12 * 7)  # seven rows at a time, the last piece shorter
    for name in (tmp_path / "images.npy", str(tmp_path / "images.npy")):
        pieces = tu.from_data(name).inputs
        np.testing.assert_allclose(pieces.eigenvalues, whole.eigenvalues, rtol=1e-9)
        np.testing.assert_allclose(pieces.center, data.reshape(501, 12).mean(axis=0, dtype=float), rtol=1e-12)


def test_covariance_of_data_far_from_zero():
    """A mean of 1e6 leaves ten digits; the plain formula E[xx] - E[x]E[x] would keep four."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 5)) + 1e6
    center, covariance = inputs._mean_and_covariance(rows)
    np.testing.assert_allclose(covariance, np.cov(rows, rowvar=False, bias=True), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(center, rows.mean(axis=0), rtol=1e-14)


def test_refusals(tmp_path):
    (tmp_path / "words.npy").write_text("no array")
    np.save(tmp_path / "words2.npy", np.array(["a", "b"]))
    np.savez(tmp_path / "several.npz", a=np.eye(3))
    with pytest.raises(tu.InputError, match=r"there is no file 'nowhere.npy'"):
        tu.from_data("nowhere.npy").inputs
    for name in ("words.npy", "words2.npy", "several.npz"):
        with pytest.raises(tu.InputError, match=r"not a \.npy file of numbers; write one with numpy.save"):
            tu.from_data(tmp_path / name).inputs
    np.save(tmp_path / "nan.npy", np.array([[0.0, np.nan], [1.0, 2.0]]))
    with pytest.raises(tu.InputError, match="data contains nan"):
        tu.from_data(tmp_path / "nan.npy").inputs
    with pytest.raises(tu.InputError, match="two samples or more"):
        tu.from_data(np.ones((1, 8, 8))).inputs
