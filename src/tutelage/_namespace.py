"""Public namespaces: the names in a stub file (`__init__.pyi`), each loaded when it is first used."""

import ast
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import lazy_loader

PACKAGE = Path(__file__).parent
NAMESPACES = (
    "",
    "analysis",
    "schedules",
    "losses",
    "labels",
    "rules",
    "plot",
    "page",
    "papers",
    "papers.power_law",
    "papers.quadratic",
)


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package with a stub; an unknown name is answered with the nearest one."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        if name in names or name.startswith("__"):
            return load(name)
        raise AttributeError(f"{package} has no name {name!r}.{_hint(name)}")

    return get, listed, names


def _hint(name: str) -> str:
    """Where a name lives if not here, else the name nearest to it."""
    known = _known()
    for where, names in known.items():
        if name in names:
            return f" It is {where}{name}."
    homes = {each: where for where, names in reversed(known.items()) for each in names}
    near = get_close_matches(name, homes, n=1)
    return f" The nearest is {homes[near[0]]}{near[0]}." if near else ""


@lru_cache
def _known() -> dict[str, list[str]]:
    """The public names of each namespace, read from the files: nothing is imported for a message."""
    found = {}
    for space in NAMESPACES:
        path = PACKAGE.joinpath(*space.split(".")) if space else PACKAGE
        files = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
        source = next(file for file in files if file.is_file())
        lists = [
            node.value
            for node in ast.parse(source.read_text()).body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ]
        found[".".join(("tutelage", *space.split("."), "")) if space else "tutelage."] = (
            [name for name in ast.literal_eval(lists[0]) if name[0] != "_"] if lists else []
        )
    return found
