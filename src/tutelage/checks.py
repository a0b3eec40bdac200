"""Checks of arguments, for this library and for the author of an extension (an input law, a loss, a rule, an analysis).

Every message reads "NAME is GIVEN; it must be RULE. FIX" on one line. A traced value (inside jit, grad or vmap) has no number
yet, so it passes; `solve` reports what it led to. `as_...` return the value in its standard form, `require_...` nothing.

A letter in a shape stands for any size of one or more, the same one wherever it occurs: ("N", "N") is a square matrix.

>>> from tutelage import InputError, checks
>>> def annealed(steps, decay):
...     steps = checks.as_count("steps", steps)
...     return checks.as_array("decay", decay, checks.require_positive, shapes=[(steps,)], fix="One number per step.")
>>> annealed(2, [0.5, 0.25])
array([0.5 , 0.25])
>>> try:
...     annealed(3, [0.5, 0.25])
... except InputError as error:
...     print(error)
decay has shape (2,); it must have shape (3,). One number per step.
"""

import os
import reprlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tutelage._types import Numbers
from tutelage.errors import InputError

SYNONYMS = {"learning_rate": "lr", "eta": "lr", "batch_size": "batch", "units": "hidden"}  # of names that users type
Requirement: TypeAlias = Callable[[str, Any], None]  # raises InputError about a value, by its name
Shape: TypeAlias = tuple[int | str, ...]
Word = TypeVar("Word", bound=str | int)
BATCH = "Batch over several with jax.vmap."  # how to give several numbers for one
EVEN_TIMES, MOST_TIMES = 201, 10**7  # recorded where only the last one is given, and at most
LARGEST = 2**63 - 1  # a whole number that every array library can hold


def is_traced(*values: object) -> bool:
    """True if any leaf of the values is known only to a JAX transformation."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def as_array(
    name: str, value: object, *requirements: Requirement, shapes: Iterable[Shape] = (), fix: str = "", optional: bool = False
) -> Any:
    """Float64 NumPy array of the value, read-only; traced values stay traced. Words, None and booleans are not numbers.

    It must have one of the shapes, if any are given, and meet the requirements. optional: None is allowed, and returned.
    """
    if value is None and optional:
        return None
    array = value if isinstance(value, Tracer) else _float_array(name, value)
    if shapes:
        require_shape(name, array, *shapes, fix=fix)
    for require in requirements:
        require(name, array)
    return array


def _float_array(name: str, value: object) -> Any:
    try:
        if is_traced(value):
            return jnp.asarray(value, float)
        array = np.asarray(value)
        if not (jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)):
            raise TypeError
        array = np.array(array, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{name} is {shown(value)}; it must be a number or an array of numbers.") from None
    array.setflags(write=False)
    return array


def as_count(name: str, value: object, least: int = 1, most: int = LARGEST) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {shown(value)}; it must be a whole number, {least} or more.")
    if value > most:
        raise InputError(f"{name} is {shown(value)}; it must be at most {most}.")
    return int(value)


def as_times(given: object) -> np.ndarray:
    """Increasing times to record, from a list, or 201 even ones up to a number."""
    if is_traced(given):
        raise InputError("times are traced; they must be known when solve is called. Close over them instead.")
    times = as_array("times", given)
    if times.ndim == 0:
        return np.linspace(0.0, as_positive("end", float(times)), EVEN_TIMES)
    require_increasing("times", times)
    return times


def require_memory(what: str, numbers: float, fix: str) -> None:
    """At most half of this machine's memory in float64 numbers."""
    there = 16.0  # GiB, where the system does not tell
    with suppress(AttributeError, ValueError, OSError):
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    needed = 8 * numbers / 2**30
    if needed > there / 2:
        raise InputError(f"{what} would need {needed:.3g} GiB; this machine has {there:.3g} GiB. {fix}")


def as_number(name: str, value: object, *requirements: Requirement, schedule: bool = False, fix: str = "") -> Any:
    """One finite number, as an array of shape (). schedule: a function of time is allowed too, and returned as it is."""
    if schedule and (value is None or isinstance(value, type)):
        raise InputError(f"{name} is {shown(value)}; it must be a number or a schedule, such as schedules.PowerDecay(0.5).")
    value = getattr(value, "constant_value", value)  # of `schedules.Constant`
    if schedule and callable(value):
        return value
    return as_array(name, value, require_finite, *requirements, shapes=[()], fix=fix)


def number_field(name: str, *requirements: Requirement, schedule: bool = False, optional: bool = False, **field: Any) -> Any:
    """A field of a module that holds one finite number, or a schedule of time, or None, checked when the module is made."""

    def convert(value: object) -> Any:
        return None if optional and value is None else as_number(name, value, *requirements, schedule=schedule, fix=BATCH)

    return eqx.field(converter=convert, metadata={"schedule": schedule}, **field)


def as_positive(name: str, value: object) -> float:
    """A positive number."""
    return float(as_number(name, value, require_positive))


def as_kind(name: str, value: object, kind: Any, must: str) -> Any:
    """The value, if it is of this class (or one of these); `must` says what it must be."""
    if not isinstance(value, kind):
        raise InputError(f"{name} is {shown(value)}; it must be {must}.")
    return value


def as_flag(name: str, value: object) -> bool:
    """True or False; numbers and words are not."""
    return bool(as_kind(name, value, bool | np.bool_, "True or False"))


def require_untraced(name: str, verb: str, *values: object) -> None:
    """Known numbers, for a function (`verb`) that must look at them."""
    if is_traced(*values):
        raise InputError(f"{name} is traced; {verb} needs numbers. Call it outside jax.jit, grad and vmap.")


def require_finite(name: str, value: Numbers) -> None:
    """No NaN, no infinity."""
    if is_traced(value) or np.all(np.isfinite(value)):
        return
    if np.ndim(value) == 0:
        raise InputError(f"{name} is {shown(value)}; it must be a finite number.")
    bad = np.asarray(value)[~np.isfinite(value)].flat[0]
    raise InputError(f"{name} contains {bad:g}; every entry must be a finite number.")


def require_positive(name: str, value: Numbers, fix: str = "") -> None:
    """Finite, and above zero in every entry."""
    _require_sign(name, value, "positive", fix, np.less_equal)


def require_nonnegative(name: str, value: Numbers, fix: str = "") -> None:
    """Finite, and zero or more in every entry."""
    _require_sign(name, value, "zero or more", fix, np.less)


def _require_sign(name: str, value: Numbers, rule: str, fix: str, wrong: np.ufunc) -> None:
    if is_traced(value):
        return
    require_finite(name, value)
    array = np.asarray(value)
    if np.any(wrong(array, 0)):
        given = f"is {array:g}; it" if array.ndim == 0 else f"contains {array.min():g}; every entry"
        raise InputError(f"{name} {given} must be {rule}. {fix}".rstrip())


def require_probability(name: str, value: Numbers) -> None:
    """Between 0 and 1."""
    if not is_traced(value) and not 0 <= float(np.asarray(value)) <= 1:
        raise InputError(f"{name} is {shown(value)}; it must be a probability between 0 and 1.")


def require_probabilities(name: str, values: Numbers, when: str = "") -> None:
    """Zero or more, with sum one."""
    if is_traced(values):
        return
    p = np.asarray(values)
    if not (np.all(p >= 0) and abs(p.sum() - 1) < 1e-9):
        raise InputError(f"{name} are {shown(p)}{when}, with sum {p.sum():g}; they must be zero or more with sum 1.")


def as_probabilities(name: str, values: object, count: int, fix: str) -> Any:
    """Positive numbers with sum one, so many of them; None: equal ones."""
    values = np.full(count, 1.0 / count) if values is None else values
    return as_array(name, values, require_positive, require_probabilities, shapes=[(count,)], fix=fix)


def require_increasing(name: str, values: Numbers) -> None:
    """A list of one number or more, zero or more and increasing, such as times."""
    if np.ndim(values) != 1 or np.size(values) == 0:
        raise InputError(f"{name} has shape {np.shape(values)}; it must be a list of one number or more.")
    require_nonnegative(name, values)
    if not is_traced(values) and np.any(falls := np.diff(values) <= 0):
        before, after = np.asarray(values)[int(np.argmax(falls)) :][:2]
        raise InputError(f"{name} goes from {before:g} to {after:g}; the entries must increase. Use np.unique.")


def require_shape(name: str, value: Numbers, *allowed: Shape, fix: str = "") -> None:
    """One of the allowed shapes; () is a single number, a letter is any size of one or more."""
    shape = np.shape(value)
    if not any(_fits(shape, rule) for rule in allowed):
        shapes = " or ".join(str(rule).replace("'", "") for rule in allowed if rule)
        rules = ["be a single number"] * (() in allowed) + ([f"have shape {shapes}"] if shapes else [])
        given = f"has shape {shape}" if shape else f"is {shown(value)}, a single number"
        raise InputError(f"{name} {given}; it must {' or '.join(rules)}. {fix}".rstrip())


def _fits(shape: tuple[int, ...], rule: Shape) -> bool:
    sizes: dict[str, int] = {}
    pairs = zip(shape, rule, strict=False)
    each = (sizes.setdefault(want, max(size, 1)) if isinstance(want, str) else want for size, want in pairs)
    return len(shape) == len(rule) and shape == tuple(each)


def require_gram(name: str, matrix: Numbers) -> None:
    """Symmetric and positive semidefinite, up to rounding, in each leading index."""
    require_finite(name, matrix)
    if is_traced(matrix):
        return
    matrix = np.asarray(matrix)
    scale = max(1.0, float(np.max(np.abs(matrix), initial=0.0)))
    gap = np.abs(matrix - np.swapaxes(matrix, -1, -2))
    if np.max(gap, initial=0.0) > 1e-10 * scale:
        *level, i, j = (int(k) for k in np.unravel_index(np.argmax(gap), gap.shape))
        there, back = matrix[(*level, i, j)], matrix[(*level, j, i)]
        given = f"{name} has the entries {there:g} and {back:g} at {(*level, i, j)} and {(*level, j, i)}"
        raise InputError(f"{given}; a Gram matrix must be symmetric. Use (X + X.T)/2 if this is rounding.")
    least = float(np.min(np.linalg.eigvalsh(matrix), initial=0.0))
    if least < -1e-9 * scale:
        given = f"{name} has the eigenvalue {least:.3g}; overlaps of real vectors must be positive semidefinite"
        raise InputError(f"{given}. Lower the off-diagonal overlaps (|R_km| <= sqrt(Q_kk T_mm)) or raise the norms.")


def known(name: str, value: object, allowed: Iterable[Word]) -> Word:
    """The value, if it is one of the allowed words; the message suggests the nearest."""
    allowed = list(allowed)
    if same := [word for word in allowed if isinstance(value, str | int) and word == value]:
        return same[0]
    words = [str(word) for word in allowed]
    raise InputError(f"{name} is {shown(value)}; it must be one of {', '.join(words)}.{nearest(value, words)}")


def name_of(function: object) -> str:
    """The name of a function or a class, else that of the object's class."""
    return getattr(function, "__name__", type(function).__name__)


def nearest(value: object, words: Iterable[str]) -> str:
    """An addition to a list of words: which of them was probably meant; empty if none is near."""
    words = list(words)
    meant = SYNONYMS.get(str(value))
    near = [meant] if meant in words else get_close_matches(str(value), words, n=1)
    return f" The nearest is {near[0]!r}." if near else ""


def shown(value: object, digits: int = 6) -> str:
    """A value in at most one short line, for messages and reprs."""
    if isinstance(value, eqx.Module) and type(value).__repr__ is not eqx.Module.__repr__:
        return repr(value)
    if is_traced(value):
        return "traced"
    if isinstance(value, type | FunctionType):
        return f"the class {value.__name__}" if isinstance(value, type) else f"<function {value.__name__}>"
    if isinstance(value, np.ndarray | np.generic | jax.Array) and np.asarray(value).dtype.kind in "iufb":
        array = np.asarray(value)
        if array.ndim == 0:
            return f"{array.item():.{digits}g}" if array.dtype.kind == "f" else repr(array.item())
        array = np.round(array, digits) if array.dtype.kind == "f" else array
        return str(array.tolist()) if array.size <= 16 else f"<array {array.shape}>"
    return " ".join(_SHORT.repr(value).split())


_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = 60
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 6
