"""Integration by diffrax.

It serves reverse-mode gradients, the implicit solver, and a stiff solver of any system
whose linear equations (1 - s J) x = b can be solved.

The stiff solver is Rodas5P, a Rosenbrock-Wanner method: linearly implicit, L-stable, of
order 5 (its dense output: 4). One step from (t, y) to (t + h, y1), with J and f_t the
derivatives of f at its beginning, solves no nonlinear equation:
    (1 - h g J) u_i = g (h f(t + c_i h, y + sum_j<i a_ij u_j)
                         + sum_j<i C_ij u_j + h^2 d_i f_t),    i = 1..8
    y1 = y + sum_j a_8j u_j + u_8,
    error estimate u_8 (an embedded method of order 4).
Source: G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P ..., BIT
Numerical Mathematics 63 (2023) 27.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import diffrax
import jax
import jax.numpy as jnp
import optimistix
from jaxtyping import PyTree

from tutelage._types import Array, ArrayLike
from tutelage.errors import Status
from tutelage.progress import progress_bar
from tutelage.solvers.dormand_prince import ODE, Integrated, table

Terms: TypeAlias = diffrax.AbstractTerm
CODES = (
    (diffrax.RESULTS.successful, Status.FINISHED),
    (diffrax.RESULTS.event_occurred, Status.DIVERGED),
    (diffrax.RESULTS.max_steps_reached, Status.MAX_STEPS),
)

# The coefficients of Rodas5P: g, c, d, a, C of the equations above, k of `Between`.
# fmt: off
GAMMA = 0.21193756319429014
NODES = (  # c
    0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716,
    0.4288403609558664, 1.0, 1.0, 1.0,
)
IN_TIME = (  # d
    GAMMA, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
    2.325825639765069, 0.0, 0.0, 0.0,
)
LAST = (
    -7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
    0.030198172008377946,
)
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
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125,
     -0.6610691825249471),
    (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783,
     -19.097331116725623,
     -28.087943162872662),
    (37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047,
     -40.06618937091002, -54.66780262877968,
     -9.48861652309627),
)
BETWEEN = (  # k of `Between`
    (25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204,
     0.524948541321073,
     1.1241088310450404, 0.4272876194431874, -0.17202221070155493),
    (-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796,
     20.176138334709044,
     15.98066361424651, -6.789040303419874, -6.710236069923372),
    (11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643,
     -52.072871366152654, -59.78993625266729,
     -0.15582684282751913, 4.883087185713722),
)
# fmt: on


def usual_solver(name: str) -> diffrax.AbstractSolver:
    """Return the solver of any system of equations: "explicit" or "implicit"."""
    if name == "explicit":
        return diffrax.Dopri8()
    return diffrax.Kvaerno5()


class ProgressBar(diffrax.TqdmProgressMeter):
    """diffrax's own meter, which the explicit integrator moves, too."""

    @staticmethod
    def _init_bar() -> Any:
        shape = "{desc}: {percentage:3.0f}% |{bar}| [{elapsed}<{remaining}]"
        return progress_bar(100, "solving", bar_format=shape)

    @staticmethod
    def _step_bar(bar: Any, progress: Any) -> None:
        bar.update(round(100 * float(progress), 2) - bar.n)


def integrate_by_diffrax(
    ode: ODE, solver: diffrax.AbstractSolver, reverse: bool
) -> Integrated:
    """Integrate as `dormand_prince.integrate_explicitly`.

    For the stiff solver y is a pair of state and error. reverse: for gradients in
    reverse mode.
    """
    is_guided = isinstance(ode.y0, tuple)
    controller = diffrax.PIDController(
        ode.rtol,
        ode.atol,
        pcoeff=0.2,
        icoeff=0.5,
        dtmin=ode.shortest,
        force_dtmin=False,
        norm=guided_norm if is_guided else optimistix.rms_norm,
    )
    if ode.stops is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=ode.stops)
    recorded = diffrax.SubSaveAt(ts=ode.times, fn=lambda t, y, args: ode.observe(y))
    adjoint: Any = diffrax.ForwardMode()
    if reverse:
        adjoint = diffrax.RecursiveCheckpointAdjoint()
    meter = ode.meter
    if meter is None:
        meter = diffrax.NoProgressMeter()
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: ode.rates(jnp.asarray(t), y)),
        solver,
        t0=0.0,
        t1=jnp.maximum(ode.times[-1], 1e-12),
        dt0=None,
        y0=ode.y0,
        saveat=diffrax.SaveAt(subs=[recorded, diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=controller,
        adjoint=adjoint,
        event=diffrax.Event(lambda t, y, args, **_: ode.diverged(y)),
        max_steps=ode.max_steps,
        throw=False,
        progress_meter=meter,
    )
    saved_times, end_times = solution.ts
    records, end_states = solution.ys
    is_reached = jnp.isfinite(saved_times)
    is_start = ode.times <= 0  # recorded even if no step is accepted

    def with_start(record: Array, first: Array) -> Array:
        """Return a record with the start, and NaN at times that were not reached."""
        shape = (-1, *[1] * first.ndim)
        later = jnp.where(is_reached.reshape(shape), record, jnp.nan)
        return jnp.where(is_start.reshape(shape), first, later)

    code = jnp.array(int(Status.FAILED))
    for reason, status in CODES:
        code = jnp.where(solution.result == reason, int(status), code)
    return Integrated(
        records=jax.tree.map(with_start, records, ode.observe(ode.y0)),
        t=end_times[-1],
        y=jax.tree.map(lambda x: x[-1], end_states),
        steps=solution.stats["num_accepted_steps"],
        code=code,
    )


class Between(diffrax.AbstractLocalInterpolation):
    """The curve within a step, of order 4.

    y(t0 + x h) = (1 - x) y0 + x (y1 + (1 - x) (k_1 + x (k_2 + x k_3))).
    """

    t0: Any  # a time, as of every path of diffrax
    t1: Any
    y0: PyTree
    y1: PyTree
    k: PyTree  # as y, with a first axis of 3

    def evaluate(
        self, t0: ArrayLike, t1: ArrayLike | None = None, left: bool = True
    ) -> PyTree:
        """Return the solution at t0, or its change from t0 to t1."""
        if t1 is not None:
            ends = self.evaluate(t1)
            return jax.tree.map(lambda b, a: b - a, ends, self.evaluate(t0))
        length = jnp.where(self.t1 == self.t0, 1.0, self.t1 - self.t0)
        x = (t0 - self.t0) / length

        def value(y0: Array, y1: Array, k: Array) -> Array:
            return (1 - x) * y0 + x * (y1 + (1 - x) * (k[0] + x * (k[1] + x * k[2])))

        return jax.tree.map(value, self.y0, self.y1, self.k)


class Rodas5P(diffrax.AbstractAdaptiveSolver):
    """The Rosenbrock-Wanner method for a pair y = (state, error).

    `resolvent(t, state, s)` returns the function b -> (1 - s J)^-1 b there.
    Near perfect learning a tolerance on overlaps of order one says nothing about an
    error of 1e-9, so the error is next to the state when a step is judged. Explicit
    methods integrate it. Here `guide(state, doubt)` computes it anew at the end of each
    step, and its change along the uncertainty of the state: nothing accumulates.
    """

    resolvent: Callable[[ArrayLike, PyTree, ArrayLike], Callable[[PyTree], PyTree]]
    guide: Callable[[PyTree, PyTree], tuple[Array, Array]]

    term_structure: ClassVar[type[Terms]] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable[..., Between]] = Between

    def order(self, terms: Terms) -> int:
        return 5

    def init(
        self, terms: Terms, t0: ArrayLike, t1: ArrayLike, y0: PyTree, args: PyTree
    ) -> None:
        return None

    def func(self, terms: Terms, t0: ArrayLike, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)

    def step(
        self,
        terms: Terms,
        t0: ArrayLike,
        t1: ArrayLike,
        y0: PyTree,
        args: PyTree,
        solver_state: None,
        made_jump: ArrayLike,
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], None, diffrax.RESULTS]:
        state, error = y0
        h = t1 - t0

        def f(t: ArrayLike, state: PyTree) -> PyTree:
            drift, _ = terms.vf(t, (state, error), args)
            return drift

        solve = self.resolvent(t0, state, h * GAMMA)
        _, f_t = jax.jvp(lambda t: f(t, state), (t0,), (jnp.ones_like(t0),))

        def stage(stages: PyTree, row: _Row) -> tuple[PyTree, None]:
            """Put stage i into the stack of all; those after it are still zero."""
            drift = f(t0 + row.c * h, _plus(state, row.a, stages))
            right_side = jax.tree.map(
                lambda f_i, f_t: GAMMA * h * (f_i + h * row.d * f_t), drift, f_t
            )
            u = solve(_plus(right_side, GAMMA * row.C, stages))
            stages = jax.tree.map(
                lambda stack, new: stack.at[row.i].set(new), stages, u
            )
            return stages, None

        count = len(NODES)
        empty = jax.tree.map(lambda y: jnp.zeros((count, *y.shape)), state)
        rows = _Row(
            i=jnp.arange(count),
            c=jnp.asarray(NODES),
            d=jnp.asarray(IN_TIME),
            a=jnp.asarray(table(STAGES, count)),
            C=jnp.asarray(table(COUPLING, count)),
        )
        stages, _ = jax.lax.scan(stage, empty, rows)
        new_state = _plus(state, jnp.array([*STAGES[-1], 1.0]), stages)
        doubt = jax.tree.map(lambda stack: stack[-1], stages)
        k = jax.tree.map(
            lambda stack: jnp.tensordot(jnp.asarray(BETWEEN), stack, 1), stages
        )
        new_error, error_doubt = self.guide(*jax.lax.stop_gradient((new_state, doubt)))
        y1 = (new_state, new_error)
        curve = {"y0": y0, "y1": y1, "k": (k, jnp.zeros(3))}
        return y1, (doubt, error_doubt), curve, None, diffrax.RESULTS.successful


class _Row(NamedTuple):
    """The coefficients c_i, d_i, a_ij, C_ij of stage i, or of all stages."""

    i: Array
    c: Array
    d: Array
    a: Array
    C: Array


def guided_norm(scaled: tuple[PyTree, Array]) -> Array:
    """Return the root mean square over the state, or the error if it is larger.

    One number among thousands must count.
    """
    state, error = scaled
    return jnp.maximum(optimistix.rms_norm(state), jnp.abs(error))


def _plus(y: PyTree, factors: Array, stages: PyTree) -> PyTree:
    """Return y + sum_j factors_j u_j."""
    return jax.tree.map(
        lambda a, stack: a + jnp.tensordot(factors, stack, 1), y, stages
    )
