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
    *("tutelage", "tutelage.losses", "tutelage.labels", "tutelage.rules", "tutelage.schedules", "tutelage.analysis"),
    *("tutelage.plot", "tutelage.page", "tutelage.checks", "tutelage.errors"),
    *("tutelage.papers", "tutelage.papers.notes", "tutelage.papers.power_law", "tutelage.papers.quadratic"),
)


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package with a stub; an unknown name is answered with the nearest one."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        if name in names or name.startswith("__"):
            return load(name)
        raise AttributeError(f"{package} has no name {name!r}.{_hint(name)}")

    return get, listed, names


@lru_cache
def public_names() -> dict[str, tuple[str, ...]]:
    """The public names of each namespace: its `__all__`, or what it defines. Nothing is imported for it."""
    found = {}
    for space in NAMESPACES:
        path = PACKAGE.joinpath(*space.split(".")[1:])
        files = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
        body = ast.parse(next(file for file in files if file.is_file()).read_text()).body
        lists = [n for n in body if isinstance(n, ast.Assign | ast.AugAssign) and ast.unparse(n).startswith("__all__")]
        listed = [name for each in lists for name in ast.literal_eval(each.value)]
        defined = [n.name for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name[0] != "_"]
        found[space] = tuple(listed or defined)
    return found


def _hint(name: str) -> str:
    """Where a name lives if not here, else the name nearest to it; nothing for the private names that tools ask for."""
    if name.startswith("_"):
        return ""
    homes = {each: space for space, names in reversed(public_names().items()) for each in names}
    if name in homes:
        return f" It is {homes[name]}.{name}."
    near = get_close_matches(name, homes, n=1)
    return f" The nearest is {homes[near[0]]}.{near[0]}." if near else ""
