"""What can be computed at a point, by name.

    error, loss, final_error, final_loss, overlaps, final_overlaps                of the theory
    simulated_error, simulated_final_error, run_error, run_final_error            of finite networks
    noise_floor, escape_time.rate, plateaus.longest.length, ...                   any analysis, and one number of its result
    my_module:my_function                                                         a custom function

`resolve` finds a measure. A theory that diverges is NaN from there on. An analysis or a custom function is called with what its
parameters are named after: `problem`, `start`, `trajectory` (the solved one), `runs` (simulated).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tutelage import analysis, checks
from tutelage._types import ArrayLike
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem, Start
from tutelage.problem.serialize import imported, modules_in
from tutelage.storage import DIMS, LONG
from tutelage.trajectory import Trajectory

NOT_SOLVED = -1  # `status` of a point that has no solve


@dataclass
class Case:
    """One point with one of its starts. trajectory: its theory, as `solve` would give it; None where no measure needs it."""

    problem: Problem
    start: Start | None
    simulate: Callable[[], Trajectory]
    gradient_flow: bool = False
    trajectory: Trajectory | None = None

    @cached_property
    def runs(self) -> Trajectory:
        """Finite networks from this start, simulated when first asked for; all measures of a point read the same runs."""
        return self.simulate()


@dataclass(frozen=True)
class Measure:
    """values: from a `Case` to its numbers, by the names of the variables. dims: of each variable, after point and start.

    needs: of problem, start, end, curve, runs. A measure that needs the problem alone is computed once for all starts.
    """

    name: str
    values: Callable[[Case], Mapping[str, ArrayLike]]
    dims: Mapping[str, tuple[str, ...]]
    needs: frozenset[str]


def simulation_seed(seed: int, point: int, start: int) -> int:
    """The seed of the runs at a point from a start: different wherever any of the three differs, and of nothing else."""
    return int(np.random.SeedSequence((seed, point, start)).generate_state(1, np.uint64)[0] >> 1)


def _theory(name: str) -> Measure:
    """Variables of the trajectory: curves, or (final_) their last entries, NaN if the solve did not get there."""
    short = name.removeprefix("final_")
    prefix, letters = name.removesuffix(short), ("R", "Q") if short == "overlaps" else (short,)

    def values(case: Case) -> dict[str, np.ndarray]:
        assert case.trajectory is not None
        curves = {f"{prefix}{letter}": np.asarray(getattr(case.trajectory, letter)) for letter in letters}
        if not prefix:
            return curves
        return {key: c[-1] if case.trajectory.finished else np.full(c.shape[1:], np.nan) for key, c in curves.items()}

    time = () if prefix else ("time",)
    dims = {f"{prefix}{letter}": (*time, *DIMS.get(letter, ())) for letter in letters}
    return Measure(name, values, dims, frozenset({"end" if prefix else "curve"}))


def _simulated(name: str) -> Measure:
    """Each run (run_), or the mean over the runs with its standard error (simulated_)."""
    at_end, each = "final_" in name, name.startswith("run_")
    time = () if at_end else ("time",)

    def values(case: Case) -> dict[str, np.ndarray]:
        errors = np.asarray(case.runs.error)
        unfinished = np.count_nonzero(case.runs.status_code)
        if unfinished:
            raise InputError(f"{unfinished} of {len(errors)} runs diverged. Lower the learning rate.")
        errors = errors[:, -1] if at_end else errors
        if each:
            return {name: errors}
        return {name: errors.mean(axis=0), f"{name}_se": errors.std(axis=0, ddof=1) / np.sqrt(len(errors))}

    dims = {name: ("run", *time)} if each else {name: time, f"{name}_se": time}
    return Measure(name, values, dims, frozenset({"start", "runs"}))


THEORY = ("error", "loss", "final_error", "final_loss", "overlaps", "final_overlaps")
RESERVED = ("point", "start", "time", "run", "status", "end_time", "failure", "note")  # variables and dims of every sweep
SIMULATED = ("simulated_error", "simulated_final_error", "run_error", "run_final_error")
TABLE = {name: _theory(name) for name in THEORY} | {name: _simulated(name) for name in SIMULATED}
LABELS = {letter: LONG[letter] for letter in ("error", "loss", "R", "Q")}
LABELS |= {f"final_{letter}": f"{words}{',' * (',' in words)} at the end" for letter, words in LABELS.items()}
FINITE = {"error": "error of finite networks", "final_error": "error of finite networks at the end"}
LABELS |= {f"run_{name}": f"{words}, each" for name, words in FINITE.items()}
LABELS |= {f"simulated_{name}": f"mean {words}" for name, words in FINITE.items()}
LABELS |= {f"simulated_{name}_se": f"standard error of the mean {words}" for name, words in FINITE.items()}


def resolve(name: str, functions: Mapping[str, Callable] | None = None) -> Measure:
    """The measure of this name. functions: custom ones that cannot be imported by name."""
    checks.as_text("a measure", name, fix="Give a name or a function.")
    if name in TABLE:
        return TABLE[name]
    if ":" in name:
        return _custom_measure(name, functions or {})
    short, _, path = name.partition(".")
    if is_analysis(short):
        path = path or AS_NUMBER.get(short)
        if not path:
            raise InputError(
                f"the measure {name!r} does not say which number of the result it takes; give '{short}.<name>'."
            )
        return _of_function(name, getattr(analysis, short), name, path.split("."))
    numbers = [known if known in AS_NUMBER else f"{known}.<number>" for known in analyses()]
    raise InputError(
        f"{name!r} is not a measure; give one of {', '.join(TABLE)}, an analysis with the number to take of its result "
        f"({', '.join(numbers)}), or your own function as 'module:function'.{checks.nearest(name, [*TABLE, *analyses()])}"
    )


# The number that a bare analysis stands for, where its result does not convert to one.
AS_NUMBER = {
    "critical_learning_rate": "rate",
    "decay_rate": "rate",
    "best_constant_rate": "learning_rate",
    "noise_floor": "per_variance",
    "fixed_point": "error",
    "escape_time": "time",
    "specialization": "final",
    "early_stopping": "value",
}
QUICK = (  # a batched solve; or what reads a curve, or the linear dynamics of perfect learning, within milliseconds
    *(*THEORY, "specialization", "early_stopping", "plateaus", "phases"),
    *("critical_learning_rate", "decay_rate", "best_constant_rate", "noise_floor"),
)
ARGUMENTS = {"problem": {"problem"}, "start": {"start"}, "trajectory": {"curve"}, "runs": {"start", "runs"}}


def analyses() -> list[str]:
    """The functions of `tutelage.analysis` that need a problem, a start or a trajectory and nothing else."""
    return [name for name in analysis.__all__ if is_analysis(name)]


def is_analysis(name: str) -> bool:
    """Whether `analyses` lists this name."""
    value = getattr(analysis, name) if name in analysis.__all__ else None
    if not inspect.isfunction(value):
        return False
    needed = {p.name for p in inspect.signature(value).parameters.values() if p.default is inspect.Parameter.empty}
    return bool(needed) and needed <= {"problem", "start", "trajectory"}


def _of_function(name: str, function: Callable, variable: str, path: Sequence[str]) -> Measure:
    """The measure of a function, called with what its parameters name, also with the gradient_flow of the sweep.

    path: the field of a field of its result that counts. A table of numbers gives a variable for each.
    """
    asked = inspect.signature(function).parameters

    def values(case: Case) -> dict[str, float]:
        result = function(**{n: getattr(case, n) for n in asked if n in (*ARGUMENTS, "gradient_flow")})
        if isinstance(result, Mapping):
            return {f"{variable}.{key}": _number(key, value) for key, value in result.items()}
        return {variable: _number(variable, _field(result, path))}

    needs = frozenset().union(*(ARGUMENTS[n] for n in asked if n in ARGUMENTS))
    return Measure(name, values, {variable: ()}, needs)


def _field(result: object, path: Sequence[str]) -> object:
    """A field of a field of a result. If it is None, the words of the result say why."""
    value = result
    for part in path:
        if not hasattr(value, part):
            numbers = [n for n in dir(value) if n[0] != "_" and isinstance(getattr(value, n, None), int | float)]
            raise InputError(f"the result has no {part!r}; its numbers are {', '.join(numbers)}.")
        value = getattr(value, part)
        if value is None:
            raise InputError(f"there is none: {' '.join(str(result).splitlines()[0].split())}")
    return value


def _number(name: str, value: object) -> float:
    array = np.asarray(value)
    if array.ndim == 0 and (array.dtype == bool or np.issubdtype(array.dtype, np.number)):
        return float(array)
    raise InputError(f"{name} is {kind_of(value)}; a measure must be a number. Take one of its fields.")


def _custom_measure(name: str, functions: Mapping[str, Callable]) -> Measure:
    """The measure of a function "module:function", or of one that was given; it returns a number, or several by name."""
    function = functions[name] if name in functions else imported("a measure", name, modules_in(name))
    short = name.rpartition(":")[2]
    if short in RESERVED:
        raise InputError(f"the function {name} has a name that a sweep keeps for itself; call it something else.")
    asked = inspect.signature(function).parameters
    unknown = [n for n, p in asked.items() if n not in ARGUMENTS and p.default is inspect.Parameter.empty]
    if unknown or not set(asked) & set(ARGUMENTS):
        given = ", ".join(ARGUMENTS)
        raise InputError(f"the function {name} takes ({', '.join(asked)}); a sweep gives it what it names of {given}.")
    return _of_function(name, function, short, ())
