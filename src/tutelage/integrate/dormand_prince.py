"""The explicit integrator: Dormand and Prince's embedded pair 8(5,3) with dense output of order 7, in one `lax.while_loop`.

One step goes from (t, y) to (t + h, y1), with stages k_s = f(t + c_s h, y + h sum_r a_sr k_r):
    y1 = y + h sum_s b_s k_s,    y(t + x h) = y + h sum_s w_s(x) k_s,  0 <= x <= 1
Stages 0 to 11 make the step and its error estimate. Stage 12 lies at its end and is stage 0 of the next step. Stages 13 to
15 make the curve between the ends (the polynomials w_s), and stage 16 lies on this curve: there the defect y' - f(t, y)
estimates the error of the curve. The last four stages are computed only if recorded times lie in the step. A step is
accepted if both error estimates are below the tolerance.
It works under jit, vmap and forward-mode differentiation; reverse mode needs diffrax (diffrax_solvers.py).
Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, 2nd edition, sections II.5 and II.6,
and their program DOP853.
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

STEP, ALL = 12, 17  # stages of a step, and with those of the curve between its ends
PROBE = 0.4  # where the last one lies on the curve
C = (
    0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 1 / 3, 0.25, 4 / 13,
    127 / 195, 0.6, 6 / 7, 1.0, 1.0, 0.1, 0.2, 7 / 9, PROBE,
)  # fmt: skip
A = (  # row s: factors of the earlier stages; row 12 is b
    (),
    (0.05260015195876773,),
    (0.0197250569845379, 0.0591751709536137),
    (0.02958758547680685, 0, 0.08876275643042054),
    (0.2413651341592667, 0, -0.8845494793282861, 0.924834003261792),
    (0.037037037037037035, 0, 0, 0.17082860872947386, 0.12546768756682242),
    (0.037109375, 0, 0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
    (0.03709200011850479, 0, 0, 0.17038392571223998, 0.10726203044637328, -0.015319437748624402, 0.008273789163814023),
    (0.6241109587160757, 0, 0, -3.3608926294469414, -0.868219346841726, 27.59209969944671, 20.154067550477894,
     -43.48988418106996),
    (0.47766253643826434, 0, 0, -2.4881146199716677, -0.590290826836843, 21.230051448181193, 15.279233632882423,
     -33.28821096898486, -0.020331201708508627),
    (-0.9371424300859873, 0, 0, 5.186372428844064, 1.0914373489967295, -8.149787010746927, -18.52006565999696,
     22.739487099350505, 2.4936055526796523, -3.0467644718982196),
    (2.273310147516538, 0, 0, -10.53449546673725, -2.0008720582248625, -17.9589318631188, 27.94888452941996,
     -2.8589982771350235, -8.87285693353063, 12.360567175794303, 0.6433927460157636),
    (0.054293734116568765, 0, 0, 0, 0, 4.450312892752409, 1.8915178993145003, -5.801203960010585, 0.3111643669578199,
     -0.1521609496625161, 0.20136540080403034, 0.04471061572777259),
    (0.056167502283047954, 0, 0, 0, 0, 0, 0.25350021021662483, -0.2462390374708025, -0.12419142326381637,
     0.15329179827876568, 0.00820105229563469, 0.007567897660545699, -0.008298),
    (0.03183464816350214, 0, 0, 0, 0, 0.028300909672366776, 0.053541988307438566, -0.05492374857139099, 0, 0,
     -0.00010834732869724932, 0.0003825710908356584, -0.00034046500868740456, 0.1413124436746325),
    (-0.42889630158379194, 0, 0, 0, 0, -4.697621415361164, 7.683421196062599, 4.06898981839711, 0.3567271874552811, 0, 0,
     0, -0.0013990241651590145, 2.9475147891527724, -9.15095847217987),
)  # fmt: skip
# y1 less the embedded solution of order 5, and the embedded solution of order 3
ERROR_5 = (0.01312004499419488, 0, 0, 0, 0, -1.2251564463762044, -0.4957589496572502, 1.6643771824549864,
           -0.35032884874997366, 0.3341791187130175, 0.08192320648511571, -0.022355307863886294)  # fmt: skip
ORDER_3 = (0.2440944881889764, 0, 0, 0, 0, 0, 0, 0, 0.7338466882816119, 0, 0, 0.022058823529411766)
D = (  # the curve beyond the cubic that y, y1 and their derivatives determine
    (-8.428938276109013, 0, 0, 0, 0, 0.5667149535193777, -3.0689499459498917, 2.38466765651207, 2.117034582445028,
     -0.871391583777973, 2.2404374302607883, 0.6315787787694688, -0.08899033645133331, 18.148505520854727,
     -9.194632392478356, -4.436036387594894),
    (10.427508642579134, 0, 0, 0, 0, 242.28349177525817, 165.20045171727028, -374.5467547226902, -22.113666853125306,
     7.733432668472264, -30.674084731089398, -9.332130526430229, 15.697238121770845, -31.139403219565178,
     -9.35292435884448, 35.81684148639408),
    (19.985053242002433, 0, 0, 0, 0, -387.0373087493518, -189.17813819516758, 527.8081592054236, -11.57390253995963,
     6.8812326946963, -1.0006050966910838, 0.7777137798053443, -2.778205752353508, -60.19669523126412, 84.32040550667716,
     11.99229113618279),
    (-25.69393346270375, 0, 0, 0, 0, -154.18974869023643, -231.5293791760455, 357.6391179106141, 93.40532418362432,
     -37.45832313645163, 104.0996495089623, 29.8402934266605, -43.53345659001114, 96.32455395918828, -39.17726167561544,
     -149.72683625798564),
)  # fmt: skip
SAFETY, SLOWEST, FASTEST = 0.9, 0.2, 10.0  # of the step size: factors from one step to the next
FIRST = 1e-3  # the first step; the next ones grow tenfold
ALMOST = 1.0001  # a step that would end this close to a stop ends there
RUNNING = -1


def table(rows: Sequence[Any], width: int) -> np.ndarray:
    """Rows of factors, filled up with zeros."""
    return np.array([np.pad(row, (0, width - len(row))) for row in rows])


def _curve_weights() -> np.ndarray:
    """(stage, power): w_s(x) = sum_p W_sp x^p, from x (F_0 + (1 - x) (F_1 + x (F_2 + (1 - x) (F_3 + ...))))."""
    b, first, last = table(A, ALL)[STEP], *np.eye(ALL)[[0, STEP]]
    basis, weights = Polynomial([1.0]), np.zeros((ALL, 8))
    for place, term in enumerate([b, first - b, 2 * b - first - last, *table(D, ALL)]):
        basis = basis * Polynomial([1.0, -1.0] if place % 2 else [0.0, 1.0])
        weights[:, : basis.coef.size] += np.outer(term, basis.coef)
    return weights


def _defect_weights() -> np.ndarray:
    """(stage,): h sum_s u_s k_s estimates the largest error of the curve from its defect at PROBE."""
    # Their ratio is that of a solution of degree 8, the lowest that the curve does not follow.
    error = Polynomial([*[0.0] * 8, 1.0]) - 8 * Polynomial(WEIGHTS.T @ NODES**7)
    share = np.max(np.abs(error(np.linspace(0.0, 1.0, 1001)))) / abs(error.deriv()(PROBE))
    return share * (np.eye(ALL)[-1] - [Polynomial(row).deriv()(PROBE) for row in WEIGHTS])


NODES, WEIGHTS = np.array(C), _curve_weights()
STAGES = table([*A, WEIGHTS @ PROBE ** np.arange(8)], ALL)
ERRORS = table([ERROR_5, STAGES[STEP] - table([ORDER_3], ALL)[0], _defect_weights()], ALL)


class ODE(NamedTuple):
    """y' = rates(t, y) from y0 at time zero, and observe(y) to record at the times.

    y0: one vector. times: increasing; the last one may be repeated. diverged(y): where to stop.
    rtol, atol: tolerances of each number. The root mean square of their errors in a step counts, on the curve the largest.
    shortest: a shorter step is a failure. max_steps: accepted and rejected ones. meter: a diffrax progress meter.
    stops: times at which the rates jump; a step ends there and sees the rates before the jump.
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
    """The result. records: NaN at times that were not reached. t, y: where it ended. steps: accepted. code: a `Status`."""

    records: PyTree
    t: Array
    y: PyTree
    steps: Array
    code: Array


class _Loop(NamedTuple):
    """Where the integration is. f: rates at (t, y), once fresh is false. h: the next step. next: the next recorded time."""

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


def integrate(ode: ODE, axis: str | None = None) -> Integrated:
    """Integrate from time zero to the last of the times.

    axis: the name of the vmapped axis, if any: its members then share one loop, which ends with the last of them and copies
    no records of the others.
    """
    y0, times, stops, meter = ode.y0, ode.times, ode.stops, ode.meter
    stages, errors, weights, nodes = (jnp.asarray(x, y0.dtype) for x in (STAGES, ERRORS, WEIGHTS, NODES))
    count, end, zero = times.shape[0], jnp.maximum(times[-1], 1e-12), jnp.zeros((), y0.dtype)
    tiny, eps = jnp.finfo(y0.dtype).tiny, jnp.finfo(y0.dtype).eps
    observed, as_observed = ravel_pytree(ode.observe(y0))  # one vector a time: each part of its own would be more to do

    def any_member(flag: Array) -> Array:
        return flag if axis is None else jax.lax.pmax(flag.astype(int), axis) > 0

    def time(place: Array) -> Array:
        return jnp.where(place < count, entry(times, place), jnp.inf)

    def entry(rows: Array, place: Array) -> Array:
        return jax.lax.dynamic_index_in_dim(rows, place, keepdims=False)

    def combined(factors: Array, k: Array) -> Array:
        """A sum, which XLA joins with what stands around it; a product of matrices would be a call."""
        return jnp.sum(factors[:, None] * k, axis=0)

    def running(now: _Loop) -> Array:
        return (now.code == RUNNING) & (now.tried < ode.max_steps)

    def step(now: _Loop) -> _Loop:
        t, y, active = now.t, now.y, running(now)
        stop = end if stops is None else jnp.minimum(jnp.min(jnp.where(stops > t, stops, jnp.inf)), end)
        clipped = t + now.h * ALMOST >= stop
        h, t1 = jnp.where(clipped, stop - t, now.h), jnp.where(clipped, stop, t + now.h)
        latest = t1 if stops is None else t1 * (1 - eps)

        def sizes(x: Array, y1: Array) -> Array:
            """Of each number in units of the tolerance."""
            return jnp.abs(x) / (ode.atol + ode.rtol * jnp.maximum(jnp.abs(y), jnp.abs(y1)))

        def stage(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            """One stage. The last one of the step gives its error, which decides whether those of the curve follow."""
            s, last, error, k = state
            f = ode.rates(jnp.minimum(t + entry(nodes, s) * h, latest), y + h * combined(entry(stages, s), k))
            k = jax.lax.dynamic_update_index_in_dim(k, f, s, 0)

            def judged() -> tuple[Array, Array]:
                y1 = y + h * combined(stages[STEP], k)
                fifth, third = (jnp.mean(sizes(combined(errors[i], k), y1) ** 2) for i in (0, 1))
                error = h * fifth / jnp.sqrt(jnp.maximum(fifth + 0.01 * third, tiny))
                accept, seen = active & (error < 1), time(now.next) <= t1
                return jnp.where(any_member(accept & seen), ALL, STEP + any_member(accept)), error

            last, error = jax.lax.cond(s == STEP - 1, judged, lambda: (last, error))
            return s + 1, last, jax.lax.stop_gradient(error), k

        begin = 1 - any_member(active & now.fresh), jnp.array(STEP), zero, jnp.zeros((ALL, y.size), y.dtype).at[0].set(now.f)
        _, _, error, k = jax.lax.while_loop(lambda state: state[0] < state[1], stage, begin)
        y1 = y + h * combined(stages[STEP], k)
        curve_error = h * jnp.max(sizes(jax.lax.stop_gradient(combined(errors[2], k)), y1))  # no number is far off
        curve_error = jnp.where((error < 1) & (time(now.next) <= t1), curve_error, 0.0)  # whatever other members record
        error = jax.lax.stop_gradient(jnp.maximum(error, curve_error))
        accept = active & (error < 1)

        def record(state: tuple[Array, Array]) -> tuple[Array, Array]:
            place, records = state
            here = accept & (time(place) <= t1)
            x = jnp.where(here, time(place) - t, 0.0) / h
            seen, _ = ravel_pytree(ode.observe(y + h * combined(jnp.sum(weights * x ** jnp.arange(8), axis=1), k)))
            seen = jnp.where(here, seen, entry(records, place))
            return place + here, jax.lax.dynamic_update_index_in_dim(records, seen, place, 0)

        unrecorded = lambda state: any_member(accept & (time(state[0]) <= t1))  # noqa: E731
        place, records = jax.lax.while_loop(unrecorded, record, (now.next, now.records))
        factor = jnp.clip(SAFETY * jnp.maximum(error, tiny) ** (-1 / 8), SLOWEST, jnp.where(accept, FASTEST, 1.0))
        longer = jnp.where(jnp.isfinite(error), factor, SLOWEST) * h
        longer = jnp.where(accept & clipped, jnp.maximum(longer, now.h), longer)
        t, y = jnp.where(accept, t1, t), jnp.where(accept, y1, y)
        code = jnp.where(longer < ode.shortest, int(Status.FAILED), RUNNING)
        code = jnp.where(accept & (t >= end), int(Status.FINISHED), code)
        code = jnp.where(accept & ode.diverged(y), int(Status.DIVERGED), code)
        return _Loop(
            t=t,
            y=y,
            f=jnp.where(accept, k[STEP], k[0]),
            fresh=jnp.array(False) if stops is None else jnp.any(stops == t),  # the rates jump there
            h=jax.lax.stop_gradient(jnp.where(active, longer, now.h)),
            next=place,
            records=records,
            accepted=now.accepted + accept,
            tried=now.tried + active,
            code=jnp.where(active, code, now.code),
            meter=None if meter is None else meter.step(now.meter, t / end),
        )

    now = _Loop(
        t=zero,
        y=y0,
        f=jnp.zeros_like(y0),
        fresh=jnp.array(True),
        h=(FIRST * jnp.minimum(end, 1.0)).astype(y0.dtype),
        next=jnp.array(0),
        records=jnp.where((ode.times <= 0)[:, None], observed, jnp.nan),  # the start, even if no step is accepted
        accepted=jnp.array(0),
        tried=jnp.array(0),
        code=jnp.array(RUNNING),
        meter=None if meter is None else meter.init(),
    )
    now = jax.lax.while_loop(lambda now: any_member(running(now)), step, now)
    if meter is not None:
        meter.close(now.meter)
    code = jnp.where(now.code == RUNNING, int(Status.MAX_STEPS), now.code)
    return Integrated(jax.vmap(as_observed)(now.records), now.t, now.y, now.accepted, code)
