"""The imports of a source file, read from its text."""

import ast
from typing import NamedTuple


class Import(NamedTuple):
    """One imported name; `name` is empty for `import module`."""

    module: str
    name: str
    line: int
    inside_function: bool

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


def imports_of(tree: ast.AST, package: str) -> list[Import]:
    """All imports anywhere in a file; package: where it lives, for relative imports."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            module_names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = absolute_module(node, package)
            module_names = [(module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in module_names:
            found.append(Import(module, name, node.lineno, id(node) in inside))
    return found


def absolute_module(node: ast.ImportFrom, package: str) -> str:
    """The module of `from module import ...`, also of a relative one."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    base = parents[: len(parents) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def dotted(node: ast.AST) -> str:
    """The text a.b.c of an attribute of a name; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return ""
    inner = dotted(node.value)
    return f"{inner}.{node.attr}" if inner else ""
