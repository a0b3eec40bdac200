"""Checks of concrete values when an object is built.

A traced value (inside jit, grad or vmap) has no number to look at yet, so it passes; `solve` reports what it led to.
Every message reads "NAME is GIVEN; it must be RULE. FIX" on one line, so that all errors of the library sound alike.
"""

import os
import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tutelage._errors import InputError

LARGEST = 2**63 - 1  # a whole number that every array library can hold


def is_traced(*values: Any) -> bool:
    """True if any leaf of the values is known only to a JAX transformation."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def as_array(name: str, value: Any) -> Any:
    """Float64 array of the value, read-only; traced values stay traced. Words, None and booleans are not numbers."""
    if isinstance(value, Tracer):
        return value
    try:
        if is_traced(value):
            return jnp.asarray(value, float)
        array = np.asarray(value)
        if not _numeric(array):
            raise TypeError
        array = np.array(array, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{name} is {shown(value)}; it must be a number or an array of numbers.") from None
    array.setflags(write=False)
    return array


def _numeric(array: np.ndarray) -> bool:
    if array.dtype == object:
        return all(isinstance(entry, Real) and not isinstance(entry, bool) for entry in array.flat)
    return jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)


def as_count(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {shown(value)}; it must be a whole number, {least} or more.")
    if value > most:
        raise InputError(f"{name} is {shown(value)}; it must be at most {most}.")
    return int(value)


def require_memory(what: str, numbers: float, fix: str) -> None:
    """Refuse what could not be held: more than half of this machine's memory in float64 numbers."""
    needed, there = 8 * numbers / 2**30, _memory() / 2**30
    if needed > there / 2:
        raise InputError(f"{what} would need {needed:.3g} GiB; this machine has {there:.3g} GiB. {fix}")


def _memory() -> int:
    """Bytes of memory; where the system does not tell, a usual number."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**34


def as_positive(name: str, value: Any) -> float:
    """A positive number, or a sentence."""
    array = as_array(name, value)
    require_shape(name, array, ())
    require_positive(name, array)
    return float(array)


def as_flag(name: str, value: Any) -> bool:
    """True or False; numbers and words are refused."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {shown(value)}; it must be True or False.")
    return bool(value)


def as_text(name: str, value: Any, fix: str = "") -> str:
    """A text, not a path or an open file."""
    if not isinstance(value, str):
        raise InputError(f"{name} is {shown(value)}; it must be text.{_fix(fix)}")
    return value


def unreadable(error: Exception) -> str:
    """Why a TOML or JSON text that may be well-formed is not read."""
    if isinstance(error, RecursionError):
        return "its lists or tables are nested too deeply; a problem needs three levels"
    return "it holds a number with too many digits"


def require_untraced(name: str, verb: str, *values: Any) -> None:
    """Refuse values that only a JAX transformation knows, for a verb that looks at its numbers."""
    if is_traced(*values):
        raise InputError(f"{name} is traced; {verb} needs numbers. Call it outside jax.jit, grad and vmap.")


def require_finite(name: str, value: Any) -> None:
    """No NaN, no infinity."""
    if is_traced(value) or np.all(np.isfinite(value)):
        return
    if np.ndim(value) == 0:
        raise InputError(f"{name} is {shown(value)}; it must be a finite number.")
    bad = np.asarray(value)[~np.isfinite(value)].flat[0]
    raise InputError(f"{name} contains {bad:g}; every entry must be a finite number.")


def require_positive(name: str, value: Any, fix: str = "") -> None:
    """Finite, and above zero in every entry."""
    require_finite(name, value)
    if not is_traced(value) and np.any(np.asarray(value) <= 0):
        raise InputError(_sentence(name, value, "positive", fix))


def require_nonnegative(name: str, value: Any, fix: str = "") -> None:
    """Finite, and zero or more in every entry."""
    require_finite(name, value)
    if not is_traced(value) and np.any(np.asarray(value) < 0):
        raise InputError(_sentence(name, value, "zero or more", fix))


def require_shape(name: str, value: Any, *allowed: tuple[int, ...], fix: str = "") -> None:
    """One of the allowed shapes; () is a single number."""
    shape = np.shape(value)
    if shape not in allowed:
        shapes = " or ".join(str(s) for s in allowed if s)
        rules = ["be a single number"] * (() in allowed) + ([f"have shape {shapes}"] if shapes else [])
        given = f"has shape {shape}" if shape else f"is {shown(value)}, a single number"
        raise InputError(f"{name} {given}; it must {' or '.join(rules)}.{_fix(fix)}")


def require_gram(name: str, matrix: Any) -> None:
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
        raise InputError(
            f"{name} has the entries {there:g} and {back:g} at {(*level, i, j)} and {(*level, j, i)}; a Gram matrix must be "
            "symmetric. Use (X + X.T)/2 if this is rounding."
        )
    if _factorizes(matrix + 1e-9 * scale * np.eye(matrix.shape[-1])):
        return
    least = float(np.min(np.linalg.eigvalsh(matrix), initial=0.0))
    if least < -1e-9 * scale:
        raise InputError(
            f"{name} has the eigenvalue {least:.3g}; overlaps of real vectors must be positive semidefinite. "
            "Lower the off-diagonal overlaps (|R_km| <= sqrt(Q_kk T_mm)) or raise the norms."
        )


def _factorizes(matrix: np.ndarray) -> bool:
    """Positive definite in each leading index? Ten times faster than its eigenvalues."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def known(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """The value if it is one of the allowed words, else an error that suggests the nearest."""
    allowed = list(allowed)
    if isinstance(value, str | int) and value in allowed:
        return value
    words = [str(word) for word in allowed]
    raise InputError(f"{name} is {shown(value)}; it must be one of {', '.join(words)}.{nearest(value, words)}")


def nearest(value: Any, words: Iterable[str]) -> str:
    """A sentence to add to a list of words: which of them was probably meant; empty if none is near."""
    near = get_close_matches(str(value), list(words), n=1)
    return f" The nearest is {near[0]!r}." if near else ""


def shown(value: Any, digits: int = 6) -> str:
    """A value in at most one short line, for messages and reprs."""
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


def _sentence(name: str, value: Any, rule: str, fix: str) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{name} is {array:g}; it must be {rule}.{_fix(fix)}"
    return f"{name} contains {array.min():g}; every entry must be {rule}.{_fix(fix)}"


def _fix(fix: str) -> str:
    return f" {fix}" if fix else ""
