"""Lines that theory draws on a phase diagram.

critical_learning_rate    the learning rate above which zero error is unstable, label noise aside
noise_floor               the label noise that leaves an error of `level` in the end, to first order in its variance

Neither solves anything: both come from the linear dynamics around perfect learning (the analyses of these names), so that
they check independently what a sweep has computed. A custom function works as well.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.problem import Problem
from tutelage.sweeps.points import known_names, parts_of
from tutelage.sweeps.spec import SweepSpec

MOST = 41  # places along an axis at which a boundary is computed


@dataclass(frozen=True)
class Boundary:
    """value: of the axis with this full name, at a problem; `level` is the value of the measure that is looked for."""

    axis: str
    value: Callable[[Problem, float | None], float]
    words: str


@dataclass(frozen=True)
class Line:
    """A boundary as it is drawn: x and y are values of the first and second axis of the figure."""

    label: str
    x: np.ndarray
    y: np.ndarray


def _critical_rate(problem: Problem, level: float | None) -> float:
    from tutelage.analysis.learning_rates import critical_learning_rate

    return critical_learning_rate(problem).rate


def _noise_for_floor(problem: Problem, level: float | None) -> float:
    """sigma with per_variance sigma^2 = level."""
    from tutelage.analysis.learning_rates import noise_floor

    if level is None:
        raise InputError("the boundary 'noise_floor' is that of an error; give level=, such as level=0.01.")
    return float(np.sqrt(level / noise_floor(problem).per_variance))


BOUNDARIES = {
    "critical_learning_rate": Boundary("sgd.lr", _critical_rate, r"critical learning rate $\eta_c$"),
    "noise_floor": Boundary("noise", _noise_for_floor, "noise floor, linear response"),
}


def boundary_lines(spec: SweepSpec, values: Any, boundary: Any, level: float | None) -> list[Line]:
    """The boundaries on the figure of these values. A name, a function, several, or several with labels."""
    dims = [str(dim) for dim in values.dims if dim != "start"]
    lines = []
    for label, one in _labeled(boundary):
        if isinstance(one, str):
            known = BOUNDARIES[checks.known("boundary", one, BOUNDARIES)]
            across = _axis(spec, dims, known.axis, one)
            lines.append(
                _line(spec, values, dims, across, known.value, label or _with_level(known.words, one, level), level)
            )
        elif callable(one):
            lines.append(_line(spec, values, dims, dims[1], lambda p, _, f=one: f(p), label or one.__name__, level))
        else:
            raise InputError(f"boundary is {checks.shown(one)}; it must be one of {', '.join(BOUNDARIES)}, or a function.")
    return lines


def _labeled(boundary: Any) -> Iterable[tuple[str | None, Any]]:
    if isinstance(boundary, Mapping):
        return boundary.items()
    return [(None, one) for one in (boundary if isinstance(boundary, list | tuple) else [boundary])]


def _with_level(words: str, name: str, level: float | None) -> str:
    return f"{words}: $\\epsilon_g={level:g}$" if name == "noise_floor" and level is not None else words


def _axis(spec: SweepSpec, dims: list[str], full: str, name: str) -> str:
    """The axis of the figure on which the boundary has its values."""
    known = known_names(spec.base)
    found = [dim for dim in dims if full in {known.get(part) for part in parts_of(dim)}]
    if not found:
        raise InputError(f"the boundary {name!r} is a value of {full}; this figure has the axes {' and '.join(dims)}.")
    return found[0]


def _line(
    spec: SweepSpec, values: Any, dims: list[str], across: str, value: Callable, label: str, level: float | None
) -> Line:
    """Compute it along the other axis; where the analysis has no result there is a gap."""
    along = next(dim for dim in dims if dim != across)
    held = {str(name): c.item() for name, c in values.coords.items() if c.ndim == 0 and str(name) in spec.all_points.names}
    asked = _spread(values[along].values)
    found, refusal = [], InputError("its values are not finite.")
    for at in asked.tolist():
        try:
            found.append(float(value(spec.problem_at(held | {along: at}), level)))
        except InputError as error:
            refusal = error
            found.append(np.nan)
    if not np.any(np.isfinite(found)):
        raise InputError(f"the boundary {label!r} has no value along {along}: {refusal}")
    return Line(label, asked, np.array(found)) if along == dims[0] else Line(label, np.array(found), asked)


def _spread(values: np.ndarray) -> np.ndarray:
    """Where to ask along an axis: MOST places from its first value to its last; counts and words only as they are."""
    if values.dtype.kind != "f":
        return values
    return np.interp(np.linspace(0, values.size - 1, MOST), np.arange(values.size), values)
