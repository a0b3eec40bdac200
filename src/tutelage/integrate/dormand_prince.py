"""The explicit integrator: Dormand and Prince's embedded pair 8(5,3) with dense output of order 7, in one `lax.while_loop`.

One step from (t, y) to (t + h, y1), with stages k_s = f(t + c_s h, y + h sum_r a_sr k_r):
    y1 = y + h sum_s b_s k_s,    y(t + x h) = y + h sum_s w_s(x) k_s,  0 <= x <= 1  (four more stages)
Stages 0 to 11 make the step and its error estimate, stages 12 to 15 the polynomials w_s. Both are controlled: a step is
accepted if the estimated error of y1 is below the tolerance, and if recorded times lie in it, also that of the curve
between its ends. The curve's error is estimated from its defect y' - f(t, y) in one point.
It works under jit, vmap and forward-mode differentiation; for reverse mode use diffrax (diffrax_path.py).
Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, 2nd edition, sections II.5 and II.6,
and their program DOP853.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from tutelage._types import Array
from tutelage.times import Status

STEP, ALL = 12, 16  # stages of a step, and with those of the curve between its ends
NODES = np.array([
    0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 1 / 3, 0.25, 4 / 13,
    127 / 195, 0.6, 6 / 7, 1.0, 1.0, 0.1, 0.2, 7 / 9,
])  # c  # fmt: skip
ROWS = (  # a: of each stage the factors of earlier ones; row 12 is b
    {},
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {
        0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328, 5: -0.015319437748624402,
        6: 0.008273789163814023,
    },
    {
        0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726, 5: 27.59209969944671, 6: 20.154067550477894,
        7: -43.48988418106996,
    },
    {
        0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843, 5: 21.230051448181193,
        6: 15.279233632882423, 7: -33.28821096898486, 8: -0.020331201708508627,
    },
    {
        0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295, 5: -8.149787010746927, 6: -18.52006565999696,
        7: 22.739487099350505, 8: 2.4936055526796523, 9: -3.0467644718982196,
    },
    {
        0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625, 5: -17.9589318631188, 6: 27.94888452941996,
        7: -2.8589982771350235, 8: -8.87285693353063, 9: 12.360567175794303, 10: 0.6433927460157636,
    },
    {
        0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585, 8: 0.3111643669578199,
        9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.04471061572777259,
    },
    {
        0: 0.056167502283047954, 6: 0.25350021021662483, 7: -0.2462390374708025, 8: -0.12419142326381637,
        9: 0.15329179827876568, 10: 0.00820105229563469, 11: 0.007567897660545699, 12: -0.008298,
    },
    {
        0: 0.03183464816350214, 5: 0.028300909672366776, 6: 0.053541988307438566, 7: -0.05492374857139099,
        10: -0.00010834732869724932, 11: 0.0003825710908356584, 12: -0.00034046500868740456, 13: 0.1413124436746325,
    },
    {
        0: -0.42889630158379194, 5: -4.697621415361164, 6: 7.683421196062599, 7: 4.06898981839711, 8: 0.3567271874552811,
        12: -0.0013990241651590145, 13: 2.9475147891527724, 14: -9.15095847217987,
    },
)  # fmt: skip
ERROR_5 = {
    0: 0.01312004499419488, 5: -1.2251564463762044, 6: -0.4957589496572502, 7: 1.6643771824549864, 8: -0.35032884874997366,
    9: 0.3341791187130175, 10: 0.08192320648511571, 11: -0.022355307863886294,
}  # y1 less the embedded solution of order 5  # fmt: skip
ORDER_3 = {0: 0.2440944881889764, 8: 0.7338466882816119, 11: 0.022058823529411766}  # the embedded solution of order 3
CURVE = (  # d: the curve's polynomials beyond the cubic that y, y1 and their derivatives determine
    {
        0: -8.428938276109013, 5: 0.5667149535193777, 6: -3.0689499459498917, 7: 2.38466765651207, 8: 2.117034582445028,
        9: -0.871391583777973, 10: 2.2404374302607883, 11: 0.6315787787694688, 12: -0.08899033645133331,
        13: 18.148505520854727, 14: -9.194632392478356, 15: -4.436036387594894,
    },
    {
        0: 10.427508642579134, 5: 242.28349177525817, 6: 165.20045171727028, 7: -374.5467547226902, 8: -22.113666853125306,
        9: 7.733432668472264, 10: -30.674084731089398, 11: -9.332130526430229, 12: 15.697238121770845,
        13: -31.139403219565178, 14: -9.35292435884448, 15: 35.81684148639408,
    },
    {
        0: 19.985053242002433, 5: -387.0373087493518, 6: -189.17813819516758, 7: 527.8081592054236, 8: -11.57390253995963,
        9: 6.8812326946963, 10: -1.0006050966910838, 11: 0.7777137798053443, 12: -2.778205752353508, 13: -60.19669523126412,
        14: 84.32040550667716, 15: 11.99229113618279,
    },
    {
        0: -25.69393346270375, 5: -154.18974869023643, 6: -231.5293791760455, 7: 357.6391179106141, 8: 93.40532418362432,
        9: -37.45832313645163, 10: 104.0996495089623, 11: 29.8402934266605, 12: -43.53345659001114, 13: 96.32455395918828,
        14: -39.17726167561544, 15: -149.72683625798564,
    },
)  # fmt: skip


def _dense(rows: Any) -> np.ndarray:
    """Rows of {stage: factor} as a matrix (row, stage)."""
    matrix = np.zeros((len(rows), ALL))
    for row, factors in zip(matrix, rows, strict=True):
        row[list(factors)] = list(factors.values())
    return matrix


def _curve_weights() -> np.ndarray:
    """(stage, power): w_s(x) = sum_p W_sp x^p, from x (F_0 + (1 - x) (F_1 + x (F_2 + (1 - x) (F_3 + ...))))."""
    b, first, last = _dense(ROWS)[STEP], np.eye(ALL)[0], np.eye(ALL)[STEP]
    terms = [b, first - b, 2 * b - first - last, *_dense(CURVE)]
    x, basis, weights = Polynomial([0.0, 1.0]), Polynomial([1.0]), np.zeros((ALL, len(terms) + 1))
    for place, term in enumerate(terms):
        basis = basis * (1 - x if place % 2 else x)
        weights[:, : basis.coef.size] += np.outer(term, basis.coef)
    return weights


STAGES = _dense(ROWS)
B = STAGES[STEP]
ERRORS = np.stack([_dense([ERROR_5])[0], B - _dense([ORDER_3])[0]])
WEIGHTS = _curve_weights()
PROBE = 0.4  # where the defect of the curve is taken
SAFETY, SLOWEST, FASTEST = 0.9, 0.2, 10.0  # of the step size: factors from one step to the next
FIRST = 1e-3  # the first step; the next ones grow tenfold
RUNNING = -1


def _powers(x: Any) -> Any:
    return x ** np.arange(WEIGHTS.shape[1])


def _defect_share() -> float:
    """The largest error of the curve in a step, per h times its defect at PROBE, where y is a polynomial of degree 8."""
    error = -8 * Polynomial(WEIGHTS.T @ NODES**7) + Polynomial([0.0] * 8 + [1.0])
    return float(np.max(np.abs(error(np.linspace(0.0, 1.0, 1001)))) / abs(error.deriv()(PROBE)))


SHARE = _defect_share()
SLOPE = np.array([Polynomial(row).deriv()(PROBE) for row in WEIGHTS])
# the defect is taken by one more stage, on the curve
STAGES = np.pad(np.vstack([STAGES, WEIGHTS @ _powers(PROBE)]), ((0, 0), (0, 1)))
NODES = np.append(NODES, PROBE)
DEFECT = SHARE * np.append(-SLOPE, 1.0)
ERRORS = np.pad(ERRORS, ((0, 0), (0, 1)))
WEIGHTS = np.pad(WEIGHTS, ((0, 1), (0, 0)))


class Integrated(NamedTuple):
    """records: NaN at times that were not reached. t, y: where it ended. steps: accepted."""

    records: Any
    t: Array
    y: Array
    steps: Array
    code: Array


class _Loop(NamedTuple):
    t: Array
    y: Array
    h: Array
    recorded: Array
    records: Any
    accepted: Array
    tried: Array
    code: Array
    meter: Any


def integrate(
    rates: Callable[[Array, Array], Array],
    y0: Array,
    times: Array,
    *,
    observe: Callable[[Array], Any],
    diverged: Callable[[Array], Array],
    rtol: Array,
    atol: Array,
    shortest: Array,
    max_steps: int,
    stops: Array | None = None,
    meter: Any = None,
    axis: str | None = None,
) -> Integrated:
    """Integrate y' = rates(t, y) from time zero and record observe(y) at the times.

    y0: one vector. times: increasing; the last one may be repeated. rtol, atol: of each number; the root mean square counts.
    stops: times at which the rates jump: a step ends there, and sees the rates before the jump.
    axis: the name of the vmapped axis, if any: its members then run in one loop, which copies no records.
    """
    count, end = times.shape[0], jnp.maximum(times[-1], 1e-12)
    stages, errors, weights, defect, nodes = (jnp.asarray(x, y0.dtype) for x in (STAGES, ERRORS, WEIGHTS, DEFECT, NODES))
    powers, zero = jnp.arange(weights.shape[1]), jnp.zeros((), y0.dtype)

    def any_member(flag: Array) -> Array:
        return flag if axis is None else jax.lax.pmax(flag.astype(int), axis) > 0

    def norm(x: Array, y: Array, y1: Array) -> Array:
        """Root mean square in units of the tolerance."""
        return jnp.sqrt(jnp.mean((x / (atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(y1)))) ** 2))

    def body(now: _Loop) -> _Loop:
        t, y, active = now.t, now.y, now.code == RUNNING
        stop = end if stops is None else jnp.minimum(jnp.min(jnp.where(stops > t, stops, jnp.inf)), end)
        clipped = t + now.h * 1.0001 >= stop
        h = jnp.where(clipped, stop - t, now.h)
        t1 = jnp.where(clipped, stop, t + h)
        latest = t1 if stops is None else t1 * (1 - jnp.finfo(t1.dtype).eps)
        due = times[jnp.minimum(now.recorded, count - 1)] <= t1

        def stage(state: Any) -> Any:
            """One stage; after the last one of the step its error, which decides whether the stages of the curve follow."""
            s, last, error, k = state
            k = k.at[s].set(rates(jnp.minimum(t + nodes[s] * h, latest), y + h * (stages[s] @ k)))

            def judged() -> tuple[Array, Array]:
                fifth, third = (norm(x, y, y + h * (stages[STEP] @ k)) ** 2 for x in errors @ k)
                error = h * fifth / jnp.sqrt(jnp.maximum(fifth + 0.01 * third, jnp.finfo(y.dtype).tiny))
                wanted = any_member(active & (error < 1) & (now.recorded < count) & due)
                return jnp.where(wanted, ALL + 1, STEP), jax.lax.stop_gradient(error)

            return s + 1, *jax.lax.cond(s == STEP - 1, judged, lambda: (last, error)), k

        stages_to_do = jnp.array(0), jnp.array(STEP), zero, jnp.zeros((ALL + 1, y.size), y.dtype)
        _, last, error, k = jax.lax.while_loop(lambda state: state[0] < state[1], stage, stages_to_do)
        y1 = y + h * (stages[STEP] @ k)
        curve_error = jnp.where(last > STEP, norm(h * (defect @ k), y, y1), 0.0)
        error = jax.lax.stop_gradient(jnp.maximum(error, curve_error))
        accept = active & (error < 1)

        def recorded_here(i: Array) -> Array:
            return accept & (i < count) & (times[jnp.minimum(i, count - 1)] <= t1)

        def record(state: Any) -> Any:
            i, records = state
            here = recorded_here(i)
            x = (times[jnp.minimum(i, count - 1)] - t) / h
            seen = observe(y + h * ((weights @ x**powers) @ k))
            place = jnp.where(here, i, count)
            return i + here, jax.tree.map(lambda all_, new: all_.at[place].set(new, mode="drop"), records, seen)

        i, records = jax.lax.while_loop(
            lambda state: any_member(recorded_here(state[0])), record, (now.recorded, now.records)
        )
        factor = jnp.where(error > 0, SAFETY * error ** (-1 / 8), FASTEST)
        factor = jnp.where(jnp.isfinite(error), jnp.clip(factor, SLOWEST, jnp.where(accept, FASTEST, 1.0)), SLOWEST)
        next_h = jnp.where(accept & clipped, jnp.maximum(now.h, factor * h), factor * h)
        t, y = jnp.where(accept, t1, t), jnp.where(accept, y1, y)
        code = jnp.where(next_h < shortest, int(Status.FAILED), RUNNING)
        code = jnp.where(accept & (t >= end), int(Status.FINISHED), code)
        code = jnp.where(accept & diverged(y), int(Status.DIVERGED), code)
        return _Loop(
            t=t,
            y=y,
            h=jax.lax.stop_gradient(jnp.where(active, next_h, now.h)),
            recorded=i,
            records=records,
            accepted=now.accepted + accept,
            tried=now.tried + active,
            code=jnp.where(active, code, now.code),
            meter=now.meter,
        )

    h = FIRST * jnp.minimum(end, 1.0)
    records = jax.tree.map(lambda x: jnp.full((count, *x.shape), jnp.nan, x.dtype), jax.eval_shape(observe, y0))
    begin = _Loop(zero, y0, h, jnp.array(0), records, jnp.array(0), jnp.array(0), jnp.array(RUNNING), None)
    out = jax.lax.while_loop(lambda now: any_member((now.code == RUNNING) & (now.tried < max_steps)), body, begin)
    code = jnp.where(out.code == RUNNING, int(Status.MAX_STEPS), out.code)
    return Integrated(out.records, out.t, out.y, out.accepted, code)

