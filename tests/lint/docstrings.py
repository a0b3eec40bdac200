"""Files say what they are for; public names are explained, functions by an example."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from tests.lint.findings import PACKAGE, PAPERS, Finding
from tests.lint.reference import all_public_names, groups, value_of

SHORTEST = 15  # characters of a first line
# Functions that help to write extensions need no example.
FOR_AUTHORS = (
    "checks",
    "plot",
    "tutelage_papers",
    "losses",
    "labels",
    "rules",
    "moments",
    "theories",
)


def check() -> Iterator[Finding]:
    yield from check_files()
    yield from check_names()
    yield from check_examples()


def check_files() -> Iterator[Finding]:
    for file in sorted([*PACKAGE.rglob("*.py"), *PAPERS.rglob("*.py")]):
        documented = ast.get_docstring(ast.parse(file.read_text()))
        if file.name != "_version.py" and not documented:
            yield Finding(file, 1, "a module docstring is missing")


def check_names() -> Iterator[Finding]:
    """Every public function and class, and the methods of the classes."""
    for space, names in all_public_names().items():
        for name in names:
            full_name = f"{space}.{name}".removeprefix("tutelage.")
            if name == "__version__" or name.isupper():
                continue
            value = value_of(full_name)
            file, line = place_of(value)
            if not own_docstring(value):
                yield Finding(file, line, f"{full_name} has no docstring")
            for method in undocumented_methods(value):
                message = f"the method {method} of {full_name} has no docstring"
                yield Finding(file, line, message)


def check_examples() -> Iterator[Finding]:
    """Public names have a sentence, and functions an example that runs as a doctest."""
    for names in groups().values():
        for name in names:
            value = value_of(name)
            file, line = place_of(value)
            text = value.__doc__ or ""
            first_line = text.strip().partition("\n")[0]
            if len(first_line) <= SHORTEST:
                yield Finding(file, line, f"the docstring of {name} says too little")
            by_authors = name.split(".")[0] in FOR_AUTHORS
            if inspect.isfunction(value) and not by_authors and ">>> " not in text:
                yield Finding(
                    file, line, f"{name} has no example that runs as a doctest"
                )


def place_of(value: object) -> tuple[Path, int]:
    """The file and line where a name is defined; the root where that is not known."""
    try:
        unwrapped = inspect.unwrap(value)
        file = Path(inspect.getsourcefile(unwrapped) or PACKAGE / "__init__.py")
        line = inspect.getsourcelines(unwrapped)[1] or 1
    except (OSError, TypeError):
        return PACKAGE / "__init__.py", 1
    if not file.is_relative_to(PACKAGE) and not file.is_relative_to(PAPERS):
        return PACKAGE / "__init__.py", 1
    return file, line


def own_docstring(value: object) -> str:
    """The docstring, unless it is the signature that dataclasses write by themselves."""
    text = inspect.getdoc(value) or ""
    return "" if text.startswith(f"{getattr(value, '__name__', '?')}(") else text


def undocumented_methods(value: object) -> list[str]:
    """Public methods and properties of a class without a docstring of their own."""
    if not inspect.isclass(value):
        return []
    missing = []
    for name, member in vars(value).items():
        is_method = callable(member) or isinstance(
            member, property | classmethod | staticmethod
        )
        if name.startswith("_") or not is_method:
            continue
        if not inspect.getdoc(member) and not inherits_docstring(value, name):
            missing.append(name)
    return missing


def inherits_docstring(cls: type, member: str) -> bool:
    """Overridden, or declared and explained in the docstring of a base class."""
    for base in cls.__mro__[1:]:
        if member in vars(base):
            return bool(inspect.getdoc(inspect.getattr_static(base, member)))
        if member in getattr(base, "__annotations__", {}):
            return f"`{member}`" in (inspect.getdoc(base) or "")
    return False
