"""Public namespaces: the names in a stub file, each loaded when it is first used.

The stub of a package is its `__init__.pyi`.
"""

import ast
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import lazy_loader

PACKAGE = Path(__file__).parent
NAMESPACES = (
    "tutelage",
    "tutelage.losses",
    "tutelage.labels",
    "tutelage.rules",
    "tutelage.optimizers",
    "tutelage.schedules",
    "tutelage.theories",
    "tutelage.conventions",
    "tutelage.analysis",
    "tutelage.plot",
    "tutelage.page",
    "tutelage.checks",
    "tutelage.errors",
)
# said by `tu.papers`, and by `tutelage replicate` where the package is not installed
INSTALL_PAPERS = (
    "published figures and the formulas of single papers are a separate package, "
    "tutelage_papers; install it with 'pip install ./papers' in a clone of tutelage."
)

# Names of other packages and pages, and what to use here (docs/coming-from.md).
TRANSLATIONS = {
    "ComparisonPlotter": "tutelage.compare(theory, runs).plot()",
    "GaussianDataset": (
        "the teacher's gram and the noise of tutelage.Problem; "
        "d is dim of tutelage.simulate"
    ),
    "GaussianLinearMseEquations": (
        "tutelage_papers.notes.linear_regression(rho, noise_variance, lr, ridge)"
    ),
    "LinearRegression": "tutelage.Network(1, 'linear')",
    "MSELoss": "nothing: squared loss is the default of tutelage.Problem",
    "ODESolver": "tutelage.solve(equations, initial_values, times)",
    "OnlineEquations": "tutelage.Equations(names, drift, error)",
    "OnlineSimulation": "tutelage.simulate(problem, start, times=times, runs=5)",
    "SimulationConfig": "arguments of tutelage.simulate: dim, times, runs and seed",
    "TwoLayerReLUEquations": (
        "tutelage.Problem(tutelage.Network(k, 'relu'), tutelage.Network(m, 'relu'))"
    ),
    "get_I2": "tutelage.moments.I2('erf', Q, R, T)",
    "get_I3": "tutelage.moments.I3('erf', Q, R, T)",
    "get_I4": "tutelage.moments.I4('erf', Q, R, T)",
    "get_J2": "tutelage.moments.J2('erf', Q, R, T)",
    "order_parameter_loss": (
        "tutelage.generalization_error(problem, R, Q, T) + sigma**2 / 2"
    ),
}


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package with a stub.

    An unknown name is answered with the nearest one, a name of another package with
    its translation.
    """
    load, list_names, names = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        if name in names or name.startswith("__"):
            return load(name)
        if name == "papers":
            raise AttributeError(f"{package} has no name 'papers': {INSTALL_PAPERS}")
        if name in TRANSLATIONS:
            use = f"use {TRANSLATIONS[name]} (docs/coming-from.md)."
            raise AttributeError(f"{package} has no name {name!r}; {use}")
        raise AttributeError(f"{package} has no name {name!r}.{_hint(name)}")

    return get, list_names, names


@lru_cache
def public_names() -> dict[str, tuple[str, ...]]:
    """Return the public names of each namespace: its `__all__`, or what it defines.

    Nothing is imported for it.
    """
    return {namespace: _names_in(_source_of(namespace)) for namespace in NAMESPACES}


def _source_of(namespace: str) -> Path:
    """Return the file that lists the names of a namespace: its stub, if it has one."""
    path = PACKAGE.joinpath(*namespace.split(".")[1:])
    files = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
    return next(file for file in files if file.is_file())


def _names_in(file: Path) -> tuple[str, ...]:
    """Return the names of the `__all__` of a file, else those that it defines."""
    listed: list[str] = []
    defined: list[str] = []
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Assign | ast.AugAssign):
            if ast.unparse(statement).startswith("__all__"):
                listed += ast.literal_eval(statement.value)
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
            defined.append(statement.name)
    public = [name for name in defined if not name.startswith("_")]
    return tuple(listed or public)


def _hint(name: str) -> str:
    """Return a sentence with the home of a name, else with the name nearest to it.

    It is empty for the private names that tools ask for.
    """
    if name.startswith("_"):
        return ""
    # from the last namespace to the first, which wins
    homes = {}
    for namespace, names in reversed(public_names().items()):
        for public_name in names:
            homes[public_name] = namespace
    if name in homes:
        return f" It is {homes[name]}.{name}."
    matches = get_close_matches(name, homes, n=1)
    if not matches:
        return ""
    nearest = matches[0]
    return f" The nearest is {homes[nearest]}.{nearest}."
