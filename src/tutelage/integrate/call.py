"""How the compiled program is called: what goes in, what comes out.

One program serves all problems of equal shape; learning rates, noise, readouts, spectra, starts, tolerances and (up to a
standard count) times are data to it. diffrax, which takes half a second to import, is loaded only
where one is traced (program.py), not where one is kept (kept.py).
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array
from tutelage.dynamics.error import averages_of
from tutelage.integrate.kept import kept
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.problem import Problem, Spectrum, Start

SOLVERS = ("explicit", "stiff", "implicit")
BOUND = 1e8  # overlaps this much larger than at the start have diverged
FINE = 1e4  # the error is taken in this unit, so that its absolute tolerance is finer than that of the overlaps
USUAL = {"float64": (1e-8, 1e-12), "float32": (1e-4, 1e-6)}  # rtol, atol
COUNTS = (64, 256, 512, 1024, 2048, 4096)  # of times: compiled programs are made for these


def tolerances(rtol: Any = None, atol: Any = None) -> np.ndarray:
    """Relative and absolute tolerance of a step; None: what the precision of JAX's numbers allows."""
    usual = USUAL[np.dtype(jnp.result_type(float)).name]
    given = {"rtol": rtol, "atol": atol}
    return np.array([u if x is None else checks.as_positive(n, x) for (n, x), u in zip(given.items(), usual, strict=True)])


class Options(eqx.Module):
    """What the compiled function depends on besides shapes."""

    gradient_flow: bool = eqx.field(static=True)
    solver: str = eqx.field(static=True)
    keep: bool = eqx.field(static=True)
    gradient: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    progress: bool = eqx.field(static=True)


class Raw(eqx.Module):
    """What comes out of the compiled function."""

    variables: dict[str, Array]
    error: Array
    loss: Array
    status_code: Array
    end_time: Array
    steps: Array
    T: Array | None


@kept
def integrate(problem: Any, moments: Any, start: Any, times: Any, tolerances: Any, options: Options) -> Raw:
    """The dynamics of a problem (or of equations of one's own) from its start, recorded at the times."""
    from tutelage.integrate.lean import counting_back_quickly
    from tutelage.integrate.program import integrated

    # inside another jit, where some of these are constants, XLA must not compute with them beforehand: it rounds otherwise
    numbers, rest = eqx.partition((problem, moments, start), eqx.is_array)
    problem, moments, start = eqx.combine(jax.lax.optimization_barrier(numbers), rest)
    with counting_back_quickly():
        return integrated(problem, moments, start, times, tolerances, options)


def as_arrays(tree: Any) -> Any:
    """Numbers as arrays (data to the compiled function, which takes them to its device), functions and words as they are."""
    if isinstance(tree, Problem) and isinstance(tree.inputs, Spectrum):
        tree = eqx.tree_at(lambda p: p.inputs, tree, tree.inputs.without_basis())
    as_array = lambda x: jnp.asarray(x, float) if isinstance(x, jax.Array) else np.asarray(x, float)  # noqa: E731
    return jax.tree.map(lambda x: as_array(x) if eqx.is_array_like(x) else x, tree)


def padded(times: np.ndarray, problem: Any) -> np.ndarray:
    """The last time repeated up to a standard count: another number of times is then no other program.

    Not where each time costs a quadrature, nor for more times than the largest count.
    """
    costly = isinstance(problem, Problem) and (not problem.classic or isinstance(averages_of(problem), QuadratureAverages))
    count = next((n for n in COUNTS if n >= times.size and not costly), times.size)
    return np.pad(times, (0, count - times.size), mode="edge")


def first_times(raw: Raw, count: int) -> Raw:
    """What was recorded at the first times."""
    variables, error, loss = jax.tree.map(lambda x: x[:count], (raw.variables, raw.error, raw.loss))
    return replace(raw, variables=variables, error=error, loss=loss)


def anonymous(start: Any) -> Any:
    """A start without its N: the limit does not depend on it, so neither must the compiled program."""
    return start.without_dim() if isinstance(start, Start) else start
