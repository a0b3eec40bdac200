"""`tutelage replicate` without the package of published figures: one message."""

import pytest

import tutelage as tu
from tutelage.cli import replicate


@pytest.mark.parametrize("arguments", [(), ("primer-1", "--quick"), ("--all",)])
def test_it_says_what_to_install(tutelage, folder, monkeypatch, arguments):
    monkeypatch.setattr(replicate, "entry_points", lambda group: ())
    ending = tutelage("replicate", *arguments)
    assert (ending.code, ending.stdout) == (2, "")
    assert "pip install ./papers" in ending.stderr
    assert ending.stderr.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_the_entry_point_is_found_by_its_group(monkeypatch):
    """The group that the library asks for is the one that pyproject.toml of papers declares."""
    asked = []

    class Point:
        def load(self):
            return "papers"

    def entry_points(group):
        asked.append(group)
        return (Point(),)

    monkeypatch.setattr(replicate, "entry_points", entry_points)
    assert replicate.load_papers() == "papers"
    assert asked == ["tutelage.papers"]


def test_the_namespace_of_old_is_a_package_of_its_own():
    with pytest.raises(AttributeError, match=r"tutelage_papers; install it with .pip"):
        tu.papers  # noqa: B018
    assert not hasattr(tu, "papers")
