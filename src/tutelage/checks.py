"""Checks of arguments, for this library and for the author of an extension.

An extension is an input law, a loss, a rule or an analysis. Every message reads "NAME
is GIVEN; it must be RULE. FIX" on one line. A traced value (inside jit, grad or vmap)
has no number yet, so it passes; `solve` reports what it led to. `as_...` return the
value in its standard form, `require_...` nothing.

A letter in a shape stands for any size of one or more, the same one wherever it occurs:
("N", "N") is a square matrix.

>>> from tutelage import InputError, checks
>>> def annealed(steps, decay):
...     steps = checks.as_count("steps", steps)
...     return checks.as_array(
...         "decay",
...         decay,
...         checks.require_positive,
...         shapes=[(steps,)],
...         fix="One number per step.",
...     )
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

# of names that users type
SYNONYMS = {
    "learning_rate": "lr",
    "eta": "lr",
    "batch_size": "batch",
    "units": "hidden",
}
Requirement: TypeAlias = Callable[[str, Any], None]  # raises InputError about a value
Shape: TypeAlias = tuple[int | str, ...]
Word = TypeVar("Word", bound=str | int)
BATCH = (
    "Batch over several with jax.vmap."  # the fix for several numbers in place of one
)
EVEN_TIMES = 201  # recorded where only the last time is given
MOST_TIMES = 10**7
LARGEST = 2**63 - 1  # a whole number that every array library can hold
DEFAULT_MEMORY = 16.0  # GiB, where the system does not report its memory


def is_traced(*values: object) -> bool:
    """Return True if any leaf of the values is known only to a JAX transformation."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def as_array(
    name: str,
    value: object,
    *requirements: Requirement,
    shapes: Iterable[Shape] = (),
    fix: str = "",
    optional: bool = False,
) -> Any:
    """Convert a value to a read-only float64 NumPy array; traced values stay traced.

    Words, None and booleans are not numbers. The array must have one of the shapes, if
    any are given, and meet the requirements. optional: None is allowed, and returned.
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
        is_integer = jnp.issubdtype(array.dtype, jnp.integer)
        if not is_integer and not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError
        array = np.array(array, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(
            f"{name} is {shown(value)}; it must be a number or an array of numbers."
        ) from None
    array.setflags(write=False)
    return array


def as_count(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """Convert a value to a whole number from `least` to `most`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise InputError(
            f"{name} is {shown(value)}; it must be a whole number, {least} or more."
        )
    if value > most:
        raise InputError(f"{name} is {shown(value)}; it must be at most {most}.")
    return int(value)


def as_times(given: object) -> np.ndarray:
    """Convert a list of increasing times, or the end of 201 even ones."""
    if is_traced(given):
        raise InputError(
            "times are traced; they must be known when solve is called. "
            "Close over them instead."
        )
    times = as_array("times", given)
    if times.ndim == 0:
        return np.linspace(0.0, as_positive("end", float(times)), EVEN_TIMES)
    require_increasing("times", times)
    return times


def require_memory(what: str, numbers: float, fix: str) -> None:
    """Refuse more float64 numbers than fit into half of this machine's memory."""
    available = DEFAULT_MEMORY
    with suppress(AttributeError, ValueError, OSError):
        pages = os.sysconf("SC_PHYS_PAGES")
        available = os.sysconf("SC_PAGE_SIZE") * pages / 2**30
    needed = 8 * numbers / 2**30
    if needed > available / 2:
        raise InputError(
            f"{what} would need {needed:.3g} GiB; "
            f"this machine has {available:.3g} GiB. {fix}"
        )


def as_number(
    name: str,
    value: object,
    *requirements: Requirement,
    schedule: bool = False,
    fix: str = "",
) -> Any:
    """Convert a value to one finite number, an array of shape ().

    schedule: a function of time is allowed too, and returned as it is.
    """
    if schedule and (value is None or isinstance(value, type)):
        raise InputError(
            f"{name} is {shown(value)}; "
            "it must be a number or a schedule, such as schedules.PowerDecay(0.5)."
        )
    # `schedules.Constant` is kept as its number
    value = getattr(value, "constant_value", value)
    if schedule and callable(value):
        return value
    return as_array(name, value, require_finite, *requirements, shapes=[()], fix=fix)


def number_field(
    name: str,
    *requirements: Requirement,
    schedule: bool = False,
    optional: bool = False,
    **field: Any,
) -> Any:
    """Declare a field of a module that holds one finite number.

    It may also hold a schedule of time, or None, if these are allowed. The number is
    checked when the module is made.
    """

    def convert(value: object) -> Any:
        if optional and value is None:
            return None
        return as_number(name, value, *requirements, schedule=schedule, fix=BATCH)

    return eqx.field(converter=convert, metadata={"schedule": schedule}, **field)


def as_positive(name: str, value: object) -> float:
    """Convert a value to a positive number."""
    return float(as_number(name, value, require_positive))


def as_kind(name: str, value: object, kind: Any, must: str) -> Any:
    """Return the value, if it is of this class (or one of these).

    must: the allowed values in words, for the message.
    """
    if not isinstance(value, kind):
        raise InputError(f"{name} is {shown(value)}; it must be {must}.")
    return value


def as_flag(name: str, value: object) -> bool:
    """Return True or False; refuse numbers and words."""
    return bool(as_kind(name, value, bool | np.bool_, "True or False"))


def require_untraced(name: str, verb: str, *values: object) -> None:
    """Refuse traced numbers, for a function (`verb`) that must read them."""
    if is_traced(*values):
        raise InputError(
            f"{name} is traced; {verb} needs numbers. "
            "Call it outside jax.jit, grad and vmap."
        )


def require_finite(name: str, value: Numbers) -> None:
    """Refuse NaN and infinity."""
    if is_traced(value) or np.all(np.isfinite(value)):
        return
    if np.ndim(value) == 0:
        raise InputError(f"{name} is {shown(value)}; it must be a finite number.")
    bad = np.asarray(value)[~np.isfinite(value)].flat[0]
    raise InputError(f"{name} contains {bad:g}; every entry must be a finite number.")


def require_positive(name: str, value: Numbers, fix: str = "") -> None:
    """Refuse entries that are not finite and above zero."""
    _require_sign(name, value, "positive", fix, np.less_equal)


def require_nonnegative(name: str, value: Numbers, fix: str = "") -> None:
    """Refuse entries that are not finite and zero or more."""
    _require_sign(name, value, "zero or more", fix, np.less)


def _require_sign(
    name: str, value: Numbers, rule: str, fix: str, is_wrong: np.ufunc
) -> None:
    if is_traced(value):
        return
    require_finite(name, value)
    array = np.asarray(value)
    if not np.any(is_wrong(array, 0)):
        return
    if array.ndim == 0:
        message = f"{name} is {array:g}; it must be {rule}."
    else:
        message = f"{name} contains {array.min():g}; every entry must be {rule}."
    raise InputError(f"{message} {fix}".rstrip())


def require_probability(name: str, value: Numbers) -> None:
    """Refuse a number that is not between 0 and 1."""
    if not is_traced(value) and not 0 <= float(np.asarray(value)) <= 1:
        raise InputError(
            f"{name} is {shown(value)}; it must be a probability between 0 and 1."
        )


def require_probabilities(name: str, values: Numbers, when: str = "") -> None:
    """Refuse numbers below zero, or with another sum than one."""
    if is_traced(values):
        return
    p = np.asarray(values)
    total = p.sum()
    if not np.all(p >= 0) or not abs(total - 1) < 1e-9:
        raise InputError(
            f"{name} are {shown(p)}{when}, with sum {total:g}; "
            "they must be zero or more with sum 1."
        )


def as_probabilities(name: str, values: object, count: int, fix: str) -> Any:
    """Convert `count` positive numbers with sum one; None: equal ones."""
    if values is None:
        values = np.full(count, 1.0 / count)
    return as_array(
        name,
        values,
        require_positive,
        require_probabilities,
        shapes=[(count,)],
        fix=fix,
    )


def require_increasing(name: str, values: Numbers) -> None:
    """Refuse anything but a list of increasing numbers, zero or more, such as times."""
    if np.ndim(values) != 1 or np.size(values) == 0:
        raise InputError(
            f"{name} has shape {np.shape(values)}; "
            "it must be a list of one number or more."
        )
    require_nonnegative(name, values)
    if is_traced(values):
        return
    does_not_rise = np.diff(values) <= 0
    if np.any(does_not_rise):
        place = int(np.argmax(does_not_rise))
        before, after = np.asarray(values)[place : place + 2]
        raise InputError(
            f"{name} goes from {before:g} to {after:g}; the entries must increase. "
            "Use np.unique."
        )


def require_shape(name: str, value: Numbers, *allowed: Shape, fix: str = "") -> None:
    """Refuse an array without one of the allowed shapes.

    () is a single number, a letter any size of one or more.
    """
    shape = np.shape(value)
    if any(_fits(shape, rule) for rule in allowed):
        return
    rules = []
    if () in allowed:
        rules.append("be a single number")
    shapes = [str(rule).replace("'", "") for rule in allowed if rule]
    if shapes:
        rules.append(f"have shape {' or '.join(shapes)}")
    given = f"has shape {shape}" if shape else f"is {shown(value)}, a single number"
    raise InputError(f"{name} {given}; it must {' or '.join(rules)}. {fix}".rstrip())


def _fits(shape: tuple[int, ...], rule: Shape) -> bool:
    """Compare a shape with a rule, in which equal letters are equal sizes."""
    if len(shape) != len(rule):
        return False
    size_of_letter: dict[str, int] = {}
    for size, wanted in zip(shape, rule, strict=True):
        if isinstance(wanted, str):
            wanted = size_of_letter.setdefault(wanted, max(size, 1))
        if size != wanted:
            return False
    return True


def require_gram(name: str, matrix: Numbers) -> None:
    """Refuse a matrix, in any leading index, that no real vectors have as overlaps.

    It must be symmetric and positive semidefinite, up to rounding.
    """
    require_finite(name, matrix)
    if is_traced(matrix):
        return
    matrix = np.asarray(matrix)
    scale = max(1.0, float(np.max(np.abs(matrix), initial=0.0)))
    gap = np.abs(matrix - np.swapaxes(matrix, -1, -2))
    if np.max(gap, initial=0.0) > 1e-10 * scale:
        *level, i, j = (int(k) for k in np.unravel_index(np.argmax(gap), gap.shape))
        upper = (*level, i, j)
        lower = (*level, j, i)
        raise InputError(
            f"{name} has the entries {matrix[upper]:g} and {matrix[lower]:g} at {upper} "
            f"and {lower}; a Gram matrix must be symmetric. "
            "Use (X + X.T)/2 if this is rounding."
        )
    least = float(np.min(np.linalg.eigvalsh(matrix), initial=0.0))
    if least < -1e-9 * scale:
        raise InputError(
            f"{name} has the eigenvalue {least:.3g}; overlaps of real vectors must be "
            "positive semidefinite. Lower the off-diagonal overlaps "
            "(|R_km| <= sqrt(Q_kk T_mm)) or raise the norms."
        )


def known(name: str, value: object, allowed: Iterable[Word]) -> Word:
    """Return the value, if it is an allowed word; the message suggests the nearest."""
    allowed = list(allowed)
    if isinstance(value, str | int):
        for word in allowed:
            if word == value:
                return word
    words = [str(word) for word in allowed]
    raise InputError(
        f"{name} is {shown(value)}; "
        f"it must be one of {', '.join(words)}.{nearest(value, words)}"
    )


def name_of(function: object) -> str:
    """Return the name of a function or a class, else that of the object's class."""
    return getattr(function, "__name__", type(function).__name__)


def nearest(value: object, words: Iterable[str]) -> str:
    """Return a sentence that suggests the nearest word; empty if none is near."""
    words = list(words)
    synonym = SYNONYMS.get(str(value))
    near = [synonym] if synonym in words else get_close_matches(str(value), words, n=1)
    return f" The nearest is {near[0]!r}." if near else ""


def shown(value: object, digits: int = 6) -> str:
    """Return a value in at most one short line, for messages and reprs."""
    is_module = isinstance(value, eqx.Module)
    if is_module and type(value).__repr__ is not eqx.Module.__repr__:
        return repr(value)
    if is_traced(value):
        return "traced"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, FunctionType):
        return f"<function {value.__name__}>"
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        if array.dtype.kind in "iufb":
            return _shown_numbers(array, digits)
    return " ".join(_SHORT.repr(value).split())


def _shown_numbers(array: np.ndarray, digits: int) -> str:
    is_float = array.dtype.kind == "f"
    if array.ndim == 0:
        return f"{array.item():.{digits}g}" if is_float else repr(array.item())
    if array.size > 16:
        return f"<array {array.shape}>"
    return str((np.round(array, digits) if is_float else array).tolist())


_SHORT = reprlib.Repr()
_SHORT.maxother = 60
_SHORT.maxstring = 60
_SHORT.maxlist = 6
_SHORT.maxtuple = 6
_SHORT.maxdict = 6
