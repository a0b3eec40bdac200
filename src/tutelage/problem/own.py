"""Functions of one's own in files: written as "module:function", imported only from modules that the user allows."""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tutelage import checks
from tutelage._errors import InputError


def is_path(value: Any) -> bool:
    """Is this the text "module:function"?"""
    return isinstance(value, str) and ":" in value


def path_of(value: Any) -> str | None:
    """The text "module:name" of a function or class, if importing that gives it back; None for local functions."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value else None


def paths_in(data: Any) -> list[str]:
    """Every "module:function" in a tree of plain data."""
    if isinstance(data, dict):
        return [path for value in data.values() for path in paths_in(value)]
    if isinstance(data, list | tuple):
        return [path for value in data for path in paths_in(value)]
    return [data] if is_path(data) else []


def modules_in(data: Any) -> tuple[str, ...]:
    """The modules that a tree of plain data names."""
    return tuple(dict.fromkeys(path.partition(":")[0] for path in paths_in(data)))


def as_modules(allow: Any) -> tuple[str, ...]:
    """Names of modules, checked."""
    names: tuple[Any, ...] = (allow,)
    if isinstance(allow, Iterable) and not isinstance(allow, str):
        names = tuple(allow)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"allow is {checks.shown(allow)}; it must be a list of names of modules.")
    return names


def imported(where: str, path: str, allow: Iterable[str]) -> Any:
    """What "module:function" names, if the user allows that module."""
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise InputError(f"{where} is {path!r}; a function of your own must be given as 'module:function'.")
    if module not in allow:
        raise InputError(
            f"{where} is {path!r} and you have not allowed the module {module!r}; give allow=[{module!r}], or --import "
            f"{module} on the command line, if you trust it."
        )
    try:
        home: Any = import_module(module)
    except Exception as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(
            f"{where} is {path!r} and its module cannot be imported ({said}); mend it, or put its folder into PYTHONPATH."
        ) from None
    value = home
    for part in name.split("."):
        if not hasattr(value, part):
            near = checks.nearest(part, [known for known in dir(value) if not known.startswith("_")])
            raise InputError(f"{where} is {path!r}; the module has no {name!r}.{near}")
        value = getattr(value, part)
    if not callable(value):
        raise InputError(f"{where} is {path!r}, which is {checks.shown(value)}; it must be a function.")
    return value
