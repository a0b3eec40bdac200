"""Figures as files: the right format, complete or absent, the same twice."""

import os

import pytest
from matplotlib.figure import Figure

import tutelage as tu
from tutelage.plot import save_figure

BEGINNINGS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.fixture
def figure():
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1], [0, 1])
    return figure


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_formats(figure, tmp_path, kind):
    first, second = (save_figure(figure, tmp_path / f"{name}.{kind}") for name in "ab")
    assert first.read_bytes().startswith(BEGINNINGS[kind])
    assert first.read_bytes() == second.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{kind}", f"b.{kind}"]


def test_others_may_read_what_the_umask_allows(figure, tmp_path):
    usual = os.umask(0o022)
    try:
        assert save_figure(figure, tmp_path / "a.png").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(usual)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.jpg", "'.jpg'; it must end in .png, .pdf, .svg"),
        ("a", "no ending"),
        ("absent/a.png", "does not exist"),
        ("d.png", "is a folder"),
    ],
)
def test_refusals(figure, tmp_path, name, words):
    (tmp_path / "d.png").mkdir()
    with pytest.raises(tu.InputError, match=words):
        save_figure(figure, tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["d.png"]


def test_failure_leaves_the_old_figure(figure, tmp_path, monkeypatch):
    path = save_figure(figure, tmp_path / "a.png")
    old = path.read_bytes()

    def half(file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(figure, "savefig", half)
    with pytest.raises(KeyboardInterrupt):
        save_figure(figure, path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
