"""Pages: a trajectory with a slider, and the explorer in one file."""

import pytest

import tutelage as tu


@pytest.fixture(scope="module")
def theory() -> tu.Trajectory:
    network = tu.Network(2, "erf")
    task = tu.Problem(network, network)
    return tu.solve(task, tu.asymmetric_start(task), tu.linear_times(10.0, 11))


def test_a_trajectory_is_a_page(theory, tmp_path):
    page = tu.page.trajectory_page(theory, title="Two units")
    assert page.startswith("<!doctype html>")
    assert "Two units" in page
    saved = page.save(tmp_path / "theory.html")
    assert saved.read_text() == str(page)


def test_the_explorer_is_a_page():
    page = tu.page.standalone(students=2, teachers=2, lr=1.0)
    assert page.startswith("<!doctype html>")
    # It needs no network: no script and no style is loaded from elsewhere.
    assert "<script src=" not in page
    assert "stylesheet" not in page.partition("<style")[0]


def test_the_explorer_takes_problems_only():
    with pytest.raises(tu.InputError, match="takes a tutelage Problem"):
        tu.explore("problem.toml")


def test_notebooks_show_tables(theory):
    assert "<" in theory._repr_html_()
    assert "<" in theory.problem._repr_html_()
