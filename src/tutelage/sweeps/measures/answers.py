"""Numbers out of answers: any verb of the library, or a function of one's own.

A verb is asked with what its parameters are called: `problem`, `start`, `trajectory` (the solved one), `runs` (simulated).
"verb.name" takes that field of its answer, "verb.one.two" a field of a field; a bare verb its own number, where it has one.
One's own function is asked in the same way and returns a number, or several by name.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from tutelage._errors import InputError, kind_of
from tutelage.sweeps.measures.base import Case, Measure

# The number that a bare verb stands for, where its answer does not convert to one.
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
ARGUMENTS = {"problem": {"problem"}, "start": {"start"}, "trajectory": {"curve", "overlaps"}, "runs": {"start", "runs"}}
NO_QUESTIONS = ("solve", "simulate", "sweep", "random_start", "asymmetric_start", "trajectory_page")  # give no numbers
QUICK = (  # read a curve, or the linear dynamics of perfect learning, within milliseconds
    *("specialization", "early_stopping", "plateaus", "phases"),
    *("critical_learning_rate", "decay_rate", "best_constant_rate", "noise_floor"),
)


@cache
def verbs() -> tuple[str, ...]:
    """The public functions whose question a problem, a start or a trajectory states."""
    import tutelage

    return tuple(name for name in tutelage.__all__ if is_verb(name))


def is_verb(name: str) -> bool:
    """Is this one of them?"""
    import tutelage

    if name not in tutelage.__all__ or not name[0].islower() or name in NO_QUESTIONS:
        return False
    value = getattr(tutelage, name)
    return inspect.isfunction(value) and _is_asked_by(value)


def _is_asked_by(function: Callable) -> bool:
    needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is inspect.Parameter.empty]
    return bool(needed) and all(name in ("problem", "start", "trajectory") for name in needed)


def verb_measure(name: str) -> Measure:
    """The measure "verb.field": one number of a verb's answer."""
    import tutelage

    verb, _, path = name.partition(".")
    path = path or AS_NUMBER.get(verb, "")
    if not path:
        raise InputError(
            f"the measure {name!r} does not say which number of the answer it takes; give {verb + '.<name>'!r}."
        )
    function = getattr(tutelage, verb)

    def values(case: Case) -> dict[str, float]:
        answer = function(**_arguments(function, case))
        return {name: _number(name, _field(answer, path.split(".")))}

    return Measure(name, values, {name: ()}, _needs(function), {name: in_words(name)}, looped=verb not in QUICK)


def in_words(name: str) -> str:
    """A measure for labels."""
    return name.replace("_", " ").replace(".", ", ")


def _field(answer: Any, path: list[str]) -> Any:
    """A field of a field of an answer. Nothing there: the answer's own words say why."""
    value = answer
    for part in path:
        if not hasattr(value, part):
            numbers = [n for n in dir(value) if n[0] != "_" and isinstance(getattr(value, n, None), int | float)]
            raise InputError(f"the answer has no {part!r}; its numbers are {', '.join(numbers)}.")
        value = getattr(value, part)
        if value is None:
            raise InputError(f"there is none: {' '.join(str(answer).splitlines()[0].split())}")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or (np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number)):
        return float(value)
    raise InputError(f"{name} is {kind_of(value)}; a measure must be a number. Take one of its fields.")


def _needs(function: Callable) -> frozenset[str]:
    asked = [name for name in inspect.signature(function).parameters if name in ARGUMENTS]
    return frozenset().union(*(ARGUMENTS[name] for name in asked))


def _arguments(function: Callable, case: Case) -> dict[str, Any]:
    """What the function asks for by name; a sweep of gradient flow asks its verbs about gradient flow."""
    have = {"problem": lambda: case.problem, "start": lambda: case.start, "trajectory": lambda: case.solved}
    have |= {"runs": lambda: case.runs, "gradient_flow": lambda: case.gradient_flow}
    return {name: have[name]() for name in inspect.signature(function).parameters if name in have}


# One's own functions.


def own_measure(name: str, functions: Mapping[str, Callable]) -> Measure:
    """The measure of a user's function "module:function", or of one that was handed over."""
    function = functions[name] if name in functions else imported(name)
    short = name.rpartition(":")[2]
    asked = inspect.signature(function).parameters
    unknown = [n for n, p in asked.items() if n not in ARGUMENTS and p.default is inspect.Parameter.empty]
    if unknown or not set(asked) & set(ARGUMENTS):
        raise InputError(
            f"the function {name} takes ({', '.join(asked)}); a sweep gives it what it names of {', '.join(ARGUMENTS)}."
        )

    def values(case: Case) -> dict[str, float]:
        answer = function(**_arguments(function, case))
        if isinstance(answer, Mapping):
            return {f"{short}.{key}": _number(key, value) for key, value in answer.items()}
        return {short: _number(short, answer)}

    return Measure(name, values, {short: ()}, _needs(function), {short: in_words(short)}, looped=True)


def imported(name: str) -> Callable:
    """The function "module:function"."""
    module, _, path = name.partition(":")
    try:
        value: Any = import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"the function {name} cannot be imported ({error}); put its folder into PYTHONPATH.") from None
    if not callable(value):
        raise InputError(f"{name} is {type(value).__name__}; a measure must be a function.")
    return value
