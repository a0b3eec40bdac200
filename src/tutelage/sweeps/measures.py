"""The measures of a point, by name.

    error, loss, overlaps                          curves of the theory
    final_error, final_loss, final_overlaps        their last values
    simulated_error, simulated_final_error         means over finite networks
    run_error, run_final_error                     each finite network
    noise_floor, escape_time.rate,                 any analysis, and one number of
    plateaus.longest.length, ...                   its result
    my_module:my_function                          a custom function

`resolve` returns a measure. A theory that diverges is NaN from there on. An analysis or
a custom function is called with the arguments that its parameters name: `problem`,
`start`, `trajectory` (the solved one), `runs` (simulated).
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
from tutelage.result.storage import DIMS, LONG
from tutelage.result.trajectory import Trajectory
from tutelage.theories import curve_names

NOT_SOLVED = -1  # `status` of a point that has no solve


@dataclass
class Case:
    """One point with one of its starts.

    trajectory: its theory, as `solve` would give it; None where no measure needs it.
    """

    problem: Problem
    start: Start | None
    simulate: Callable[[], Trajectory]
    gradient_flow: bool = False
    trajectory: Trajectory | None = None

    @cached_property
    def runs(self) -> Trajectory:
        """Finite networks from this start, simulated at the first use.

        All measures of a point read the same runs.
        """
        return self.simulate()


@dataclass(frozen=True)
class Measure:
    """A measure: the variables that it computes at a point.

    values: a function from a `Case` to its numbers, by the names of the variables.
    dims: those of each variable, after point and start. needs: some of problem, start,
    end, curve, runs. A measure that needs the problem alone is computed once for all
    starts.
    """

    name: str
    values: Callable[[Case], Mapping[str, ArrayLike]]
    dims: Mapping[str, tuple[str, ...]]
    needs: frozenset[str]


def simulation_seed(seed: int, point: int, start: int) -> int:
    """Return the seed of the runs at a point from a start.

    It differs wherever any of the three differs, and depends on nothing else.
    """
    sequence = np.random.SeedSequence((seed, point, start))
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def _theory(name: str) -> Measure:
    """Return the measure of the trajectory's curves, or (final_) of their last values.

    The last values are NaN if the solve did not get there.
    """
    field = name.removeprefix("final_")
    is_final = field != name
    letters = ("R", "Q") if field == "overlaps" else (field,)
    dims = {}
    for letter in letters:
        dims_of_value = DIMS.get(letter, ())
        if is_final:
            dims[f"final_{letter}"] = dims_of_value
        else:
            dims[letter] = ("time", *dims_of_value)

    def values(case: Case) -> dict[str, np.ndarray]:
        assert case.trajectory is not None
        values_by_name = {}
        for letter in letters:
            curve = np.asarray(getattr(case.trajectory, letter))
            if not is_final:
                values_by_name[letter] = curve
            elif case.trajectory.finished:
                values_by_name[f"final_{letter}"] = curve[-1]
            else:
                values_by_name[f"final_{letter}"] = np.full(curve.shape[1:], np.nan)
        return values_by_name

    needs = frozenset({"end" if is_final else "curve"})
    return Measure(name=name, values=values, dims=dims, needs=needs)


def _simulated(name: str) -> Measure:
    """Return the measure of each run (run_), or of the mean over the runs (simulated_).

    The mean comes with its standard error.
    """
    at_end = "final_" in name
    of_each_run = name.startswith("run_")
    time = () if at_end else ("time",)
    if of_each_run:
        dims = {name: ("run", *time)}
    else:
        dims = {name: time, f"{name}_se": time}

    def values(case: Case) -> dict[str, np.ndarray]:
        errors = np.asarray(case.runs.error)
        count = len(errors)
        unfinished = np.count_nonzero(case.runs.status_code)
        if unfinished:
            raise InputError(
                f"{unfinished} of {count} runs diverged. Lower the learning rate."
            )
        if at_end:
            errors = errors[:, -1]
        if of_each_run:
            return {name: errors}
        standard_error = errors.std(axis=0, ddof=1) / np.sqrt(count)
        return {name: errors.mean(axis=0), f"{name}_se": standard_error}

    needs = frozenset({"start", "runs"})
    return Measure(name=name, values=values, dims=dims, needs=needs)


def _labels() -> dict[str, str]:
    """Return the long names of the variables of the theory."""
    labels = {letter: LONG[letter] for letter in ("error", "loss", "R", "Q")}
    for letter, words in list(labels.items()):
        # a second comma closes a part of the name that follows a comma
        comma = "," if "," in words else ""
        labels[f"final_{letter}"] = f"{words}{comma} at the end"
    return labels


THEORY = ("error", "loss", "final_error", "final_loss", "overlaps", "final_overlaps")
SIMULATED = ("simulated_error", "simulated_final_error", "run_error", "run_final_error")
TABLE = {name: _theory(name) for name in THEORY}
TABLE |= {name: _simulated(name) for name in SIMULATED}
LABELS = _labels()
# Variables and dims of every sweep
RESERVED = ("point", "start", "time", "run", "status", "end_time", "failure", "note")


def resolve(name: str, functions: Mapping[str, Callable] | None = None) -> Measure:
    """Return the measure of this name.

    functions: custom ones that cannot be imported by name.
    """
    checks.as_kind("a measure", name, str, "a name or a function")
    if name in TABLE:
        return TABLE[name]
    if name.removeprefix("final_") in curve_names():
        return _theory(name)
    if ":" in name:
        return _custom_measure(name, functions or {})
    short, _, path = name.partition(".")
    if is_analysis(short):
        path = path or AS_NUMBER.get(short)
        if not path:
            raise InputError(
                f"the measure {name!r} does not say which number of the result it "
                f"takes; give '{short}.<name>'."
            )
        return _of_function(name, getattr(analysis, short), name, path.split("."))
    raise InputError(
        f"{name!r} is not a measure; give one of {', '.join(TABLE)}, "
        f"an analysis ({', '.join(analyses())}), "
        f"or your own function as 'module:function'."
        f"{checks.nearest(name, [*TABLE, *analyses()])}"
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
# Measures of a batched solve, and those that read a curve, or the linear dynamics of
# perfect learning, within milliseconds.
QUICK = (
    *THEORY,
    "specialization",
    "early_stopping",
    "plateaus",
    "phases",
    "critical_learning_rate",
    "decay_rate",
    "best_constant_rate",
    "noise_floor",
)
# The needs of a measure for each parameter of its function
NEEDS_OF_PARAMETER = {
    "problem": {"problem"},
    "start": {"start"},
    "trajectory": {"curve"},
    "runs": {"start", "runs"},
}


def analyses() -> list[str]:
    """Return the names of the analyses that a sweep can call.

    They are the functions of `tutelage.analysis` that need a problem, a start or a
    trajectory and nothing else.
    """
    return [name for name in analysis.__all__ if is_analysis(name)]


def is_analysis(name: str) -> bool:
    """Return True if `analyses` lists this name."""
    if name not in analysis.__all__:
        return False
    value = getattr(analysis, name)
    if not inspect.isfunction(value):
        return False
    needed = _required_parameters(value)
    return bool(needed) and needed <= {"problem", "start", "trajectory"}


def _required_parameters(function: Callable) -> set[str]:
    """Return the names of the parameters that have no default."""
    required = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is inspect.Parameter.empty:
            required.add(parameter.name)
    return required


def _of_function(
    name: str, function: Callable, variable: str, path: Sequence[str]
) -> Measure:
    """Return the measure of a function, called with the arguments that it names.

    It can also name the gradient_flow of the sweep. path: the field of a field of its
    result that counts. A table of numbers gives a variable for each.
    """
    parameters = inspect.signature(function).parameters
    known = (*NEEDS_OF_PARAMETER, "gradient_flow")
    arguments = [parameter for parameter in parameters if parameter in known]

    def values(case: Case) -> dict[str, float]:
        result = function(
            **{argument: getattr(case, argument) for argument in arguments}
        )
        if isinstance(result, Mapping):
            numbers = {}
            for key, value in result.items():
                numbers[f"{variable}.{key}"] = _number(key, value)
            return numbers
        return {variable: _number(variable, _field(result, path))}

    needs: set[str] = set()
    for argument in arguments:
        needs |= NEEDS_OF_PARAMETER.get(argument, set())
    return Measure(
        name=name, values=values, dims={variable: ()}, needs=frozenset(needs)
    )


def _field(result: object, path: Sequence[str]) -> object:
    """Return a field of a field of a result.

    If it is None, the first line of the result is the error, which says why.
    """
    value = result
    for name in path:
        if not hasattr(value, name):
            raise InputError(
                f"the result has no {name!r}; "
                f"its numbers are {', '.join(_number_fields(value))}."
            )
        value = getattr(value, name)
        if value is None:
            first_line = str(result).splitlines()[0]
            raise InputError(f"there is none: {' '.join(first_line.split())}")
    return value


def _number_fields(value: object) -> list[str]:
    """Return the names of the public attributes that are numbers."""
    names = []
    for name in dir(value):
        is_public = not name.startswith("_")
        if is_public and isinstance(getattr(value, name, None), int | float):
            names.append(name)
    return names


def _number(name: str, value: object) -> float:
    array = np.asarray(value)
    is_number = array.dtype == bool or np.issubdtype(array.dtype, np.number)
    if array.ndim == 0 and is_number:
        return float(array)
    raise InputError(
        f"{name} is {kind_of(value)}; a measure must be a number. "
        "Take one of its fields."
    )


def _custom_measure(name: str, functions: Mapping[str, Callable]) -> Measure:
    """Return the measure of a function "module:function", or of one that was given.

    The function returns a number, or several by name.
    """
    if name in functions:
        function = functions[name]
    else:
        function = imported("a measure", name, modules_in(name))
    short = name.rpartition(":")[2]
    if short in RESERVED:
        raise InputError(
            f"the function {name} has a name that a sweep keeps for itself; "
            "call it something else."
        )
    parameters = inspect.signature(function).parameters
    unknown = _required_parameters(function) - set(NEEDS_OF_PARAMETER)
    if unknown or not set(parameters) & set(NEEDS_OF_PARAMETER):
        raise InputError(
            f"the function {name} takes ({', '.join(parameters)}); "
            f"a sweep gives it what it names of {', '.join(NEEDS_OF_PARAMETER)}."
        )
    return _of_function(name, function, short, ())
