"""The stiff solver: Rodas5P, a linearly implicit method of order 5, as a diffrax solver, and its use for the overlaps.

One step from (t, y) to (t + h, y1), with J and f_t the derivatives of f at its beginning (a Rosenbrock-Wanner method):
    (1 - h g J) u_i = g (h f(t + c_i h, y + sum_j<i a_ij u_j) + sum_j<i C_ij u_j + h^2 d_i f_t),    i = 1..8
    y1 = y + sum_j a_8j u_j + u_8,    error estimate u_8 (an embedded method of order 4).
No nonlinear equation is solved; the caller provides the solution of (1 - s J) x = b. The method is L-stable, and of full
order for equations with slow parts under fast ones (Prothero and Robinson). Its dense output has order 4.
Source: G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks within the Julia
Differential Equations package, BIT Numerical Mathematics 63 (2023) 27.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jaxtyping import PyTree

from tutelage._types import Array, ArrayLike
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps
from tutelage.dynamics.resolvent import resolvent

Terms: TypeAlias = diffrax.AbstractTerm
ROUNDING = 1e-15  # overlaps are not known better, so neither is the error: no step is refused for less
GAMMA = 0.21193756319429014
NODES = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)  # c
IN_TIME = (GAMMA, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0, 0.0)  # d
LAST = (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946)
STAGES = (  # a
    (),
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    LAST,
    (*LAST, 1.0),
    (*LAST, 1.0, 1.0),
)
COUPLING = (  # C
    (),
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
    (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623, -28.087943162872662),
    (
        37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002,
        -54.66780262877968, -9.48861652309627,
    ),
)  # fmt: skip
BETWEEN = (
    (
        25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204, 0.524948541321073,
        1.1241088310450404, 0.4272876194431874, -0.17202221070155493,
    ),
    (
        -9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796, 20.176138334709044,
        15.98066361424651, -6.789040303419874, -6.710236069923372,
    ),
    (
        11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643, -52.072871366152654,
        -59.78993625266729, -0.15582684282751913, 4.883087185713722,
    ),
)  # fmt: skip


class Between(diffrax.AbstractLocalInterpolation):
    """y(t0 + x h) = (1 - x) y0 + x (y1 + (1 - x) (k_1 + x (k_2 + x k_3))): order 4 in a step."""

    t0: Any  # a time, as of every path of diffrax
    t1: Any
    y0: PyTree
    y1: PyTree
    k: PyTree  # as y, with a first axis of 3

    def evaluate(self, t0: ArrayLike, t1: ArrayLike | None = None, left: bool = True) -> PyTree:
        """The solution at t0, or its change from t0 to t1."""
        if t1 is not None:
            return jax.tree.map(lambda b, a: b - a, self.evaluate(t1), self.evaluate(t0))
        x = (t0 - self.t0) / jnp.where(self.t1 == self.t0, 1.0, self.t1 - self.t0)

        def at(y0: Array, y1: Array, k: Array) -> Array:
            return (1 - x) * y0 + x * (y1 + (1 - x) * (k[0] + x * (k[1] + x * k[2])))

        return jax.tree.map(at, self.y0, self.y1, self.k)


class Rodas5P(diffrax.AbstractAdaptiveSolver):
    """`resolvent(t, y, s)` returns the function b -> (1 - s J)^-1 b at time t and state y."""

    resolvent: Callable[[ArrayLike, PyTree, ArrayLike], Callable[[PyTree], PyTree]]

    term_structure: ClassVar[type[Terms]] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable[..., Between]] = Between

    def order(self, terms: Terms) -> int:
        return 5

    def init(self, terms: Terms, t0: ArrayLike, t1: ArrayLike, y0: PyTree, args: PyTree) -> None:
        return None

    def func(self, terms: Terms, t0: ArrayLike, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Terms, t0: ArrayLike, t1: ArrayLike, y0: PyTree, args: PyTree, solver_state: None, made_jump: ArrayLike
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], None, diffrax.RESULTS]:
        h = t1 - t0
        solve = self.resolvent(t0, y0, h * GAMMA)
        in_time = jax.jvp(lambda t: terms.vf(t, y0, args), (t0,), (jnp.ones_like(t0),))[1]

        def stage(stages: PyTree, row: tuple[Array, ...]) -> tuple[PyTree, None]:
            """Stage i into the stack of all; those after it are still zero."""
            i, node, rate, across, coupled = row
            f = terms.vf(t0 + node * h, _plus(y0, across, stages), args)
            known = jax.tree.map(lambda a, b: GAMMA * h * (a + h * rate * b), f, in_time)
            u = solve(_plus(known, GAMMA * coupled, stages))
            return jax.tree.map(lambda stack, new: stack.at[i].set(new), stages, u), None

        empty = jax.tree.map(lambda y: jnp.zeros((len(NODES), *y.shape)), y0)
        rows = (jnp.arange(len(NODES)), *map(jnp.asarray, (NODES, IN_TIME, _square(STAGES), _square(COUPLING))))
        stages = jax.lax.scan(stage, empty, rows)[0]
        doubt = jax.tree.map(lambda stack: stack[-1], stages)
        y1 = _plus(y0, jnp.array([*STAGES[-1], 1.0]), stages)
        k = jax.tree.map(lambda stack: jnp.tensordot(jnp.asarray(BETWEEN), stack, 1), stages)
        return y1, doubt, {"y0": y0, "y1": y1, "k": k}, None, diffrax.RESULTS.successful


class Guided(Rodas5P):
    """Rodas5P for pairs (state, error), where `guide(state, doubt)` returns the error and its change along doubt.

    Near perfect learning a tolerance on overlaps of order one says nothing about an error of 1e-9, so the error is next to
    the state when a step is judged. Explicit methods integrate it. Here it is computed anew at the end of each step, and
    its uncertainty is the change of the error along the uncertainty of the state: nothing accumulates.
    """

    guide: Callable[[PyTree, PyTree], tuple[Array, Array]]

    def step(
        self, terms: Terms, t0: ArrayLike, t1: ArrayLike, y0: PyTree, args: PyTree, solver_state: None, made_jump: ArrayLike
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], None, diffrax.RESULTS]:
        state, error = y0
        alone = diffrax.ODETerm(lambda t, y, args: terms.vf(t, (y, error), args)[0])
        new, doubt, dense, _, result = super().step(alone, t0, t1, state, args, None, made_jump)
        new_error, error_doubt = self.guide(*jax.lax.stop_gradient((new, doubt)))
        y1 = new, new_error
        dense = {"y0": y0, "y1": y1, "k": (dense["k"], jnp.zeros(3))}
        return y1, (doubt, error_doubt), dense, None, result


def stiff_solver(system: OrderParameters, fine: float) -> Guided:
    """Rodas5P for the overlaps of this system, with the error times `fine` next to them."""

    def guide(state: Overlaps, doubt: Overlaps) -> tuple[Array, Array]:
        error, (p, _) = system.error(system.observe(state)), system.matrices(state)
        slope = system.error_slope(p, doubt)
        rounding = ROUNDING * (jnp.sum(jnp.abs(p.A)) + jnp.sum(jnp.abs(p.B)))
        return fine * error, fine * jnp.where(jnp.abs(slope) < rounding, 0.0, slope)

    return Guided(lambda t, state, shift: resolvent(system, t, state, shift), guide)


def guided_norm(scaled: tuple[PyTree, Array]) -> Array:
    """Root mean square over the state, or the error alone, whichever is larger: one number among thousands must count."""
    state, error = scaled
    return jnp.maximum(optimistix.rms_norm(state), jnp.abs(error))


def _plus(y: PyTree, factors: Array, stages: PyTree) -> PyTree:
    return jax.tree.map(lambda a, stack: a + jnp.tensordot(factors, stack, 1), y, stages)


def _square(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    return np.array([[*row, *[0.0] * (len(rows) - len(row))] for row in rows])
