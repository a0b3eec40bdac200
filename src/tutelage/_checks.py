"""Checks of concrete values when an object is built.

A traced value (inside jit, grad or vmap) has no number to look at yet, so it passes; `solve` reports what it led to.
Every message reads "NAME is GIVEN; it must be RULE. FIX" so that all errors of the library sound alike.
"""

from difflib import get_close_matches
from typing import Any

import jax
import numpy as np

from tutelage._errors import InputError


def is_traced(*values: Any) -> bool:
    """True if any leaf of the values is known only to a JAX transformation."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def as_array(name: str, value: Any) -> Any:
    """Float64 array of the value; tracers and batched leaves pass through untouched."""
    if isinstance(value, jax.core.Tracer):
        return value
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}; it must be a number or an array of numbers.") from None
    array.setflags(write=False)
    return array


def as_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number, {least} or more.")
    return int(value)


def as_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def require_finite(name: str, value: Any) -> None:
    if not is_traced(value) and not np.all(np.isfinite(value)):
        raise InputError(f"{name} contains {_first_bad(value)}; every entry must be a finite number.")


def require_positive(name: str, value: Any, fix: str = "") -> None:
    require_finite(name, value)
    if not is_traced(value) and np.any(np.asarray(value) <= 0):
        raise InputError(_sentence(name, value, "positive", fix))


def require_nonnegative(name: str, value: Any, fix: str = "") -> None:
    require_finite(name, value)
    if not is_traced(value) and np.any(np.asarray(value) < 0):
        raise InputError(_sentence(name, value, "zero or more", fix))


def require_shape(name: str, value: Any, *allowed: tuple[int, ...], fix: str = "") -> None:
    shape = np.shape(value)
    if shape not in allowed:
        rule = " or ".join(str(s) for s in allowed)
        raise InputError(f"{name} has shape {shape}; it must have shape {rule}.{_fix(fix)}")


def require_gram(name: str, matrix: Any) -> None:
    """Symmetric and positive semidefinite, up to rounding, in each leading index."""
    require_finite(name, matrix)
    if is_traced(matrix):
        return
    matrix = np.asarray(matrix)
    scale = max(1.0, float(np.max(np.abs(matrix), initial=0.0)))
    if not np.allclose(matrix, np.swapaxes(matrix, -1, -2), atol=1e-10 * scale, rtol=0):
        raise InputError(f"{name} is not symmetric; a Gram matrix must be. Use (X + X.T)/2 if this is rounding.")
    least = float(np.min(np.linalg.eigvalsh(matrix), initial=0.0))
    if least < -1e-9 * scale:
        raise InputError(
            f"{name} has the eigenvalue {least:.3g}; overlaps of real vectors are positive semidefinite. "
            "Lower the off-diagonal overlaps (|R_km| <= sqrt(Q_kk T_mm)) or raise the norms."
        )


def known(name: str, value: Any, allowed: Any) -> Any:
    """The value if it is one of the allowed words, else an error that suggests the nearest."""
    if value in allowed:
        return value
    near = get_close_matches(str(value), [str(a) for a in allowed], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{name} is {value!r}; it must be one of {', '.join(map(str, allowed))}.{hint}")


def _sentence(name: str, value: Any, rule: str, fix: str) -> str:
    array = np.asarray(value)
    given = f"{array:g}" if array.ndim == 0 else f"an array whose smallest entry is {array.min():g}"
    return f"{name} is {given}; it must be {rule}.{_fix(fix)}"


def _fix(fix: str) -> str:
    return f" {fix}" if fix else ""


def _first_bad(value: Any) -> str:
    array = np.asarray(value)
    return str(array[~np.isfinite(array)].flat[0])
