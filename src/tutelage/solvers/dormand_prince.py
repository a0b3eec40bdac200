"""The explicit integrator: Dormand and Prince's pair 8(5,3) with dense output.

One `lax.while_loop` makes the steps. A step goes from (t, y) to (t + h, y1), with
stages k_s = f(t + c_s h, y + h sum_r a_sr k_r):
    y1 = y + h sum_s b_s k_s,
    y(t + x h) = y + h sum_s w_s(x) k_s,  0 <= x <= 1.
Stages 0 to 11 make the step and its error estimate. Stage 12 lies at its end and is
stage 0 of the next step. Stages 13 to 15 make the curve between the ends (the
polynomials w_s), and stage 16 lies on this curve: there the defect y' - f(t, y)
estimates the error of the curve. The last four stages are computed only if recorded
times lie in the step. A step is accepted if both error estimates are below the
tolerance. It works under jit, vmap and forward-mode differentiation; reverse mode needs
diffrax (diffrax_solvers.py). Source: E. Hairer, S. P. Norsett, G. Wanner, Solving
Ordinary Differential Equations I, 2nd edition, sections II.5 and II.6, and their
program DOP853.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from numpy.polynomial import Polynomial

from tutelage._types import Array
from tutelage.errors import Status

# Stages of a step, and with those of the curve between its ends.
STEP_STAGES = 12
ALL_STAGES = 17
# Position x of the last stage on the curve.
PROBE = 0.4

# The coefficients of DOP853, first the nodes c_s.
# fmt: off
C = (
    0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274,
    0.2816496580927726, 1 / 3, 0.25, 4 / 13,
    127 / 195, 0.6, 6 / 7, 1.0, 1.0, 0.1, 0.2, 7 / 9, PROBE,
)

# Row s: factors of the earlier stages; row 12 is b.
A = (
    (),
    (0.05260015195876773,),
    (0.0197250569845379, 0.0591751709536137),
    (0.02958758547680685, 0, 0.08876275643042054),
    (0.2413651341592667, 0, -0.8845494793282861, 0.924834003261792),
    (0.037037037037037035, 0, 0, 0.17082860872947386, 0.12546768756682242),
    (0.037109375, 0, 0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
    (0.03709200011850479, 0, 0, 0.17038392571223998, 0.10726203044637328,
     -0.015319437748624402, 0.008273789163814023),
    (0.6241109587160757, 0, 0, -3.3608926294469414, -0.868219346841726,
     27.59209969944671, 20.154067550477894,
     -43.48988418106996),
    (0.47766253643826434, 0, 0, -2.4881146199716677, -0.590290826836843,
     21.230051448181193, 15.279233632882423,
     -33.28821096898486, -0.020331201708508627),
    (-0.9371424300859873, 0, 0, 5.186372428844064, 1.0914373489967295,
     -8.149787010746927, -18.52006565999696,
     22.739487099350505, 2.4936055526796523, -3.0467644718982196),
    (2.273310147516538, 0, 0, -10.53449546673725, -2.0008720582248625,
     -17.9589318631188, 27.94888452941996,
     -2.8589982771350235, -8.87285693353063, 12.360567175794303, 0.6433927460157636),
    (0.054293734116568765, 0, 0, 0, 0, 4.450312892752409, 1.8915178993145003,
     -5.801203960010585, 0.3111643669578199,
     -0.1521609496625161, 0.20136540080403034, 0.04471061572777259),
    (0.056167502283047954, 0, 0, 0, 0, 0, 0.25350021021662483, -0.2462390374708025,
     -0.12419142326381637,
     0.15329179827876568, 0.00820105229563469, 0.007567897660545699, -0.008298),
    (0.03183464816350214, 0, 0, 0, 0, 0.028300909672366776, 0.053541988307438566,
     -0.05492374857139099, 0, 0,
     -0.00010834732869724932, 0.0003825710908356584, -0.00034046500868740456,
     0.1413124436746325),
    (-0.42889630158379194, 0, 0, 0, 0, -4.697621415361164, 7.683421196062599,
     4.06898981839711, 0.3567271874552811, 0, 0,
     0, -0.0013990241651590145, 2.9475147891527724, -9.15095847217987),
)

# y1 less the embedded solution of order 5, and the embedded solution of order 3.
ERROR_5 = (0.01312004499419488, 0, 0, 0, 0, -1.2251564463762044, -0.4957589496572502,
           1.6643771824549864,
           -0.35032884874997366, 0.3341791187130175, 0.08192320648511571,
           -0.022355307863886294)
ORDER_3 = (0.2440944881889764, 0, 0, 0, 0, 0, 0, 0, 0.7338466882816119, 0, 0,
           0.022058823529411766)

# The curve beyond the cubic that y, y1 and their derivatives determine.
D = (
    (-8.428938276109013, 0, 0, 0, 0, 0.5667149535193777, -3.0689499459498917,
     2.38466765651207, 2.117034582445028,
     -0.871391583777973, 2.2404374302607883, 0.6315787787694688, -0.08899033645133331,
     18.148505520854727,
     -9.194632392478356, -4.436036387594894),
    (10.427508642579134, 0, 0, 0, 0, 242.28349177525817, 165.20045171727028,
     -374.5467547226902, -22.113666853125306,
     7.733432668472264, -30.674084731089398, -9.332130526430229, 15.697238121770845,
     -31.139403219565178,
     -9.35292435884448, 35.81684148639408),
    (19.985053242002433, 0, 0, 0, 0, -387.0373087493518, -189.17813819516758,
     527.8081592054236, -11.57390253995963,
     6.8812326946963, -1.0006050966910838, 0.7777137798053443, -2.778205752353508,
     -60.19669523126412, 84.32040550667716,
     11.99229113618279),
    (-25.69393346270375, 0, 0, 0, 0, -154.18974869023643, -231.5293791760455,
     357.6391179106141, 93.40532418362432,
     -37.45832313645163, 104.0996495089623, 29.8402934266605, -43.53345659001114,
     96.32455395918828, -39.17726167561544,
     -149.72683625798564),
)
# fmt: on

# Factors of the step size from one step to the next.
SAFETY = 0.9
SLOWEST = 0.2
FASTEST = 10.0
# The first step; the next ones grow tenfold.
FIRST = 1e-3
# A step that would end this close to a stop ends there.
ALMOST = 1.0001
RUNNING = -1


def table(rows: Sequence[Any], width: int) -> np.ndarray:
    """Return rows of factors, filled up with zeros."""
    return np.array([np.pad(row, (0, width - len(row))) for row in rows])


def _curve_weights() -> np.ndarray:
    """Return W (stage, power) with w_s(x) = sum_p W_sp x^p.

    The curve is x (F_0 + (1 - x) (F_1 + x (F_2 + (1 - x) (F_3 + ...)))).
    """
    b = table(A, ALL_STAGES)[STEP_STAGES]
    first = np.eye(ALL_STAGES)[0]
    last = np.eye(ALL_STAGES)[STEP_STAGES]
    terms = [b, first - b, 2 * b - first - last, *table(D, ALL_STAGES)]
    basis = Polynomial([1.0])
    weights = np.zeros((ALL_STAGES, 8))
    for degree, term in enumerate(terms):
        is_even = degree % 2 == 0
        basis = basis * Polynomial([0.0, 1.0] if is_even else [1.0, -1.0])
        weights[:, : basis.coef.size] += np.outer(term, basis.coef)
    return weights


def _defect_weights() -> np.ndarray:
    """Return u (stage): h sum_s u_s k_s estimates the largest error of the curve.

    The estimate follows from the defect at PROBE.
    """
    # Their ratio is that of a solution of degree 8, the lowest that the curve does not
    # follow.
    solution = Polynomial([*[0.0] * 8, 1.0])
    error = solution - 8 * Polynomial(WEIGHTS.T @ NODES**7)
    largest_error = np.max(np.abs(error(np.linspace(0.0, 1.0, 1001))))
    ratio = largest_error / abs(error.deriv()(PROBE))
    slopes_of_curve = [Polynomial(row).deriv()(PROBE) for row in WEIGHTS]
    return ratio * (np.eye(ALL_STAGES)[-1] - slopes_of_curve)


NODES = np.array(C)
WEIGHTS = _curve_weights()
STAGES = table([*A, WEIGHTS @ PROBE ** np.arange(8)], ALL_STAGES)
# Rows: the errors of order 5 and 3 of a step, and the error of the curve.
ERRORS = table(
    [ERROR_5, STAGES[STEP_STAGES] - table([ORDER_3], ALL_STAGES)[0], _defect_weights()],
    ALL_STAGES,
)


class ODE(NamedTuple):
    """An initial value problem: y' = rates(t, y) from y0 at time zero.

    y0: one vector.
    times: increasing; the last one may be repeated.
    observe(y): the quantities to record at the times.
    diverged(y): the test for a divergence, at which the integration stops.
    rtol, atol: tolerances of each number. In a step the root mean square of the errors
        counts, on the curve the largest.
    shortest: a shorter step is a failure.
    max_steps: accepted and rejected ones.
    stops: times at which the rates jump; a step ends there and sees the rates before
        the jump.
    meter: a diffrax progress meter.
    """

    rates: Callable[[Array, Any], Any]
    y0: PyTree
    times: Array
    observe: Callable[[Any], PyTree]
    diverged: Callable[[Any], Array]
    rtol: Array
    atol: Array
    shortest: Array
    max_steps: int
    stops: Array | None = None
    meter: Any = None


class Integrated(NamedTuple):
    """The result.

    records: NaN at times that were not reached. t, y: the last time and its state.
    steps: accepted. code: a `Status`.
    """

    records: PyTree
    t: Array
    y: PyTree
    steps: Array
    code: Array


class _Loop(NamedTuple):
    """The state of the integration.

    f: the rates at (t, y), once fresh is false.
    h: the next step.
    next: the index of the next recorded time.
    accepted, tried: the number of accepted and of all steps.
    """

    t: Array
    y: Array
    f: Array
    fresh: Array
    h: Array
    next: Array
    records: Array
    accepted: Array
    tried: Array
    code: Array
    meter: Any


class _Stages(NamedTuple):
    """The stages of a step that are computed so far.

    s: the next stage. end: the stage to stop before. error: of the step in units of the
    tolerance, once stage 11 is known. k: the rates at all stages.
    """

    s: Array
    end: Array
    error: Array
    k: Array


def _entry(rows: Array, index: Array) -> Array:
    """Return one row, for a traced index."""
    return jax.lax.dynamic_index_in_dim(rows, index, keepdims=False)


def _combined(factors: Array, k: Array) -> Array:
    """Return sum_s factors_s k_s.

    XLA fuses a sum with the operations around it; a product of matrices would be a
    call.
    """
    return jnp.sum(factors[:, None] * k, axis=0)


def integrate_explicitly(ode: ODE, axis: str | None = None) -> Integrated:
    """Integrate from time zero to the last of the times.

    axis: the name of the vmapped axis, if any: its members then share one loop, which
    ends with the last of them and copies no records of the others.
    """
    integrator = _Integrator(ode, axis)
    loop = jax.lax.while_loop(
        lambda loop: integrator.any_member(integrator.is_running(loop)),
        integrator.step,
        integrator.beginning(),
    )
    if ode.meter is not None:
        ode.meter.close(loop.meter)
    code = jnp.where(loop.code == RUNNING, int(Status.MAX_STEPS), loop.code)
    return Integrated(
        records=jax.vmap(integrator.as_observed)(loop.records),
        t=loop.t,
        y=loop.y,
        steps=loop.accepted,
        code=code,
    )


class _Integrator:
    """The steps of one integration. Its arrays have the precision of the state."""

    def __init__(self, ode: ODE, axis: str | None):
        dtype = ode.y0.dtype
        self.ode = ode
        self.axis = axis
        self.end = jnp.maximum(ode.times[-1], 1e-12)
        self.stages = jnp.asarray(STAGES, dtype)
        self.errors = jnp.asarray(ERRORS, dtype)
        self.weights = jnp.asarray(WEIGHTS, dtype)
        self.nodes = jnp.asarray(NODES, dtype)
        self.tiny = jnp.finfo(dtype).tiny
        self.eps = jnp.finfo(dtype).eps
        # one vector for each time: single parts would be more to do
        self.observed, self.as_observed = ravel_pytree(ode.observe(ode.y0))

    def beginning(self) -> _Loop:
        """Return the state of the integration at time zero."""
        y0 = self.ode.y0
        meter = self.ode.meter
        # the start is recorded even if no step is accepted
        at_start = (self.ode.times <= 0)[:, None]
        return _Loop(
            t=jnp.zeros((), y0.dtype),
            y=y0,
            f=jnp.zeros_like(y0),
            fresh=jnp.array(True),
            h=(FIRST * jnp.minimum(self.end, 1.0)).astype(y0.dtype),
            next=jnp.array(0),
            records=jnp.where(at_start, self.observed, jnp.nan),
            accepted=jnp.array(0),
            tried=jnp.array(0),
            code=jnp.array(RUNNING),
            meter=None if meter is None else meter.init(),
        )

    def any_member(self, flag: Array) -> Array:
        """Return True if the flag of any member of the vmapped axis is true."""
        if self.axis is None:
            return flag
        return jax.lax.pmax(flag.astype(int), self.axis) > 0

    def is_running(self, loop: _Loop) -> Array:
        return (loop.code == RUNNING) & (loop.tried < self.ode.max_steps)

    def recorded_time(self, index: Array) -> Array:
        """Return a recorded time, infinity after the last one."""
        times = self.ode.times
        return jnp.where(index < times.shape[0], _entry(times, index), jnp.inf)

    def sizes(self, x: Array, y: Array, y1: Array) -> Array:
        """Return the size of each number in units of its tolerance."""
        largest = jnp.maximum(jnp.abs(y), jnp.abs(y1))
        return jnp.abs(x) / (self.ode.atol + self.ode.rtol * largest)

    def step(self, loop: _Loop) -> _Loop:
        """Try one step."""
        ode = self.ode
        t = loop.t
        y = loop.y
        active = self.is_running(loop)
        stop = self.end
        if ode.stops is not None:
            next_stop = jnp.min(jnp.where(ode.stops > t, ode.stops, jnp.inf))
            stop = jnp.minimum(next_stop, self.end)
        is_clipped = t + loop.h * ALMOST >= stop
        h = jnp.where(is_clipped, stop - t, loop.h)
        t1 = jnp.where(is_clipped, stop, t + loop.h)

        error, k = self.stages_of_step(loop, h, t1)
        y1 = y + h * _combined(self.stages[STEP_STAGES], k)
        # the largest number counts here: none is far off
        curve_defect = jax.lax.stop_gradient(_combined(self.errors[2], k))
        curve_error = h * jnp.max(self.sizes(curve_defect, y, y1))
        # it does not depend on what other members record
        is_recorded = (error < 1) & (self.recorded_time(loop.next) <= t1)
        curve_error = jnp.where(is_recorded, curve_error, 0.0)
        error = jax.lax.stop_gradient(jnp.maximum(error, curve_error))
        accept = active & (error < 1)
        index, records = self.recorded(loop, h, t1, k, accept)

        # the error grows as h^8: the next step aims at an error of SAFETY^8
        factor = SAFETY * jnp.maximum(error, self.tiny) ** (-1 / 8)
        factor = jnp.clip(factor, SLOWEST, jnp.where(accept, FASTEST, 1.0))
        next_h = jnp.where(jnp.isfinite(error), factor, SLOWEST) * h
        # a step that a stop has cut does not shorten the next one
        next_h = jnp.where(accept & is_clipped, jnp.maximum(next_h, loop.h), next_h)
        t = jnp.where(accept, t1, t)
        y = jnp.where(accept, y1, y)
        code = jnp.where(next_h < ode.shortest, int(Status.FAILED), RUNNING)
        code = jnp.where(accept & (t >= self.end), int(Status.FINISHED), code)
        code = jnp.where(accept & ode.diverged(y), int(Status.DIVERGED), code)
        fresh = jnp.array(False)
        if ode.stops is not None:
            fresh = jnp.any(ode.stops == t)  # the rates jump there
        meter = None
        if ode.meter is not None:
            meter = ode.meter.step(loop.meter, t / self.end)
        return _Loop(
            t=t,
            y=y,
            f=jnp.where(accept, k[STEP_STAGES], k[0]),
            fresh=fresh,
            h=jax.lax.stop_gradient(jnp.where(active, next_h, loop.h)),
            next=index,
            records=records,
            accepted=loop.accepted + accept,
            tried=loop.tried + active,
            code=jnp.where(active, code, loop.code),
            meter=meter,
        )

    def stages_of_step(self, loop: _Loop, h: Array, t1: Array) -> tuple[Array, Array]:
        """Return the error of a step and the rates at its stages.

        Stages that nobody needs are zero.
        """
        ode = self.ode
        t = loop.t
        y = loop.y
        active = self.is_running(loop)
        latest = t1
        if ode.stops is not None:
            latest = t1 * (1 - self.eps)  # before the jump at a stop

        def judged(k: Array) -> tuple[Array, Array]:
            """Return the stage to stop before, and the error of the step."""
            y1 = y + h * _combined(self.stages[STEP_STAGES], k)
            fifth = jnp.mean(self.sizes(_combined(self.errors[0], k), y, y1) ** 2)
            third = jnp.mean(self.sizes(_combined(self.errors[1], k), y, y1) ** 2)
            # DOP853: err_5^2 / sqrt(err_5^2 + err_3^2 / 100), of order 8 in h, where both
            # errors are root mean squares in units of the tolerance
            error = h * fifth / jnp.sqrt(jnp.maximum(fifth + 0.01 * third, self.tiny))
            accept = active & (error < 1)
            is_recorded = self.recorded_time(loop.next) <= t1
            end = jnp.where(
                self.any_member(accept & is_recorded),
                ALL_STAGES,
                STEP_STAGES + self.any_member(accept),
            )
            return end, error

        def stage(stages: _Stages) -> _Stages:
            """Compute a stage. The last one of the step decides which ones follow."""
            s = stages.s
            time = jnp.minimum(t + _entry(self.nodes, s) * h, latest)
            point = y + h * _combined(_entry(self.stages, s), stages.k)
            f = ode.rates(time, point)
            k = jax.lax.dynamic_update_index_in_dim(stages.k, f, s, 0)
            end, error = jax.lax.cond(
                s == STEP_STAGES - 1,
                lambda: judged(k),
                lambda: (stages.end, stages.error),
            )
            return _Stages(s=s + 1, end=end, error=jax.lax.stop_gradient(error), k=k)

        # stage 0 is known, except after a jump of the rates
        first = _Stages(
            s=1 - self.any_member(active & loop.fresh),
            end=jnp.array(STEP_STAGES),
            error=jnp.zeros((), y.dtype),
            k=jnp.zeros((ALL_STAGES, y.size), y.dtype).at[0].set(loop.f),
        )
        stages = jax.lax.while_loop(lambda now: now.s < now.end, stage, first)
        return stages.error, stages.k

    def recorded(
        self, loop: _Loop, h: Array, t1: Array, k: Array, accept: Array
    ) -> tuple[Array, Array]:
        """Record the curve of an accepted step.

        Returns the index of the next recorded time, and the records.
        """

        def is_in_step(index: Array) -> Array:
            return accept & (self.recorded_time(index) <= t1)

        def record(state: tuple[Array, Array]) -> tuple[Array, Array]:
            index, records = state
            here = is_in_step(index)
            x = jnp.where(here, self.recorded_time(index) - loop.t, 0.0) / h
            weights = jnp.sum(self.weights * x ** jnp.arange(8), axis=1)
            y = loop.y + h * _combined(weights, k)
            observed, _ = ravel_pytree(self.ode.observe(y))
            observed = jnp.where(here, observed, _entry(records, index))
            records = jax.lax.dynamic_update_index_in_dim(records, observed, index, 0)
            return index + here, records

        return jax.lax.while_loop(
            lambda state: self.any_member(is_in_step(state[0])),
            record,
            (loop.next, loop.records),
        )
