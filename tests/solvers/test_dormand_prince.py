"""The explicit integrator:

its coefficients, its error control, and the same curves as scipy and diffrax give.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import DOP853, solve_ivp

import tutelage as tu
from tests.problems import pair
from tutelage.solvers import dormand_prince as dp
from tutelage.solvers.program import Options, first_times, padded, step_tolerances
from tutelage.stream.moments import moments_for
from tutelage.stream.order_parameters import as_arrays, initial_overlaps
from tutelage.stream.program import integrate_equations


def test_coefficients_are_those_of_scipy():
    n = dp.STEP_STAGES
    m = dp.STEP_STAGES + 4
    np.testing.assert_array_equal(dp.STAGES[:n, :n], DOP853.A)
    np.testing.assert_array_equal(dp.STAGES[n, :n], DOP853.B)
    np.testing.assert_array_equal(dp.STAGES[n + 1 : m, :m], DOP853.A_EXTRA)
    np.testing.assert_allclose(dp.NODES[:n], DOP853.C, rtol=1e-15)
    np.testing.assert_allclose(dp.NODES[n + 1 : m], DOP853.C_EXTRA, rtol=1e-15)
    np.testing.assert_allclose(dp.ERRORS[0, : n + 1], DOP853.E5, rtol=1e-15)
    np.testing.assert_allclose(dp.ERRORS[1, : n + 1], DOP853.E3, rtol=1e-14, atol=1e-16)
    np.testing.assert_array_equal(dp.table(dp.D, m), DOP853.D)


def test_order_conditions():
    """Sums of the stages that make the step of order 8, its error estimates of order 5 and 3, and the curve of order 7."""
    c = dp.NODES
    a = dp.STAGES
    b = dp.STAGES[dp.STEP_STAGES]
    np.testing.assert_allclose(a.sum(axis=1), c, atol=1e-13)
    for m in range(1, 9):
        np.testing.assert_allclose(b @ c ** (m - 1), 1 / m, rtol=1e-13)
    for m in range(1, 8):
        np.testing.assert_allclose(b @ a @ c ** (m - 1), 1 / (m * (m + 1)), rtol=1e-12)
    for m in range(1, 7):
        np.testing.assert_allclose(
            b @ a @ a @ c ** (m - 1), 1 / (m * (m + 1) * (m + 2)), rtol=1e-12
        )
    np.testing.assert_allclose(
        [dp.ERRORS[0] @ c ** (m - 1) for m in range(1, 6)], 0, atol=1e-14
    )
    np.testing.assert_allclose(
        [dp.ERRORS[1] @ c ** (m - 1) for m in range(1, 4)], 0, atol=1e-14
    )
    assert abs(dp.ERRORS[0] @ c**5) > 1e-6
    x = np.linspace(0, 1, 11)
    for m in range(1, 8):
        curve = (x[:, None] ** np.arange(8)) @ dp.WEIGHTS.T @ c ** (m - 1)
        np.testing.assert_allclose(curve, x**m / m, atol=1e-12)


def one_step(h: float) -> tuple[float, np.ndarray]:
    """y' = y from 1: the errors at the end and in the middle of a step."""
    k = np.zeros(dp.ALL_STAGES)
    for s in range(dp.ALL_STAGES):
        k[s] = 1 + h * dp.STAGES[s] @ k
    weights = 0.5 ** np.arange(8) @ dp.WEIGHTS.T
    return 1 + h * dp.STAGES[dp.STEP_STAGES] @ k - np.exp(
        h
    ), 1 + h * weights @ k - np.exp(h / 2)


def test_a_step_is_of_order_8_and_the_curve_of_order_7():
    coarse = np.array(one_step(1.0))
    fine = np.array(one_step(0.5))
    assert np.log2(np.abs(coarse / fine)) == pytest.approx([9, 8], abs=0.5)


def swing(t, y):
    """A damped pendulum that is pushed."""
    return jnp.stack([y[1], -jnp.sin(y[0]) - 0.2 * y[1] + 0.3 * jnp.cos(t)])


def run(
    rates=swing, y0=(1.0, 0.0), times=(0.0, 30.0), rtol=1e-8, atol=1e-10, **options
):
    usual = {
        "observe": lambda y: y,
        "diverged": lambda y: jnp.any(~(jnp.abs(y) < 1e8)),
        "shortest": 1e-12,
        "max_steps": 5000,
    }
    start = jnp.asarray(y0, float)
    times = jnp.asarray(times, float)
    return jax.jit(
        lambda y: dp.integrate_explicitly(
            dp.ODE(rates, y, times, rtol=rtol, atol=atol, **(usual | options))
        )
    )(start)


def exact(times):
    f = lambda t, y: [y[1], -np.sin(y[0]) - 0.2 * y[1] + 0.3 * np.cos(t)]  # noqa: E731
    return solve_ivp(
        f,
        (0, times[-1]),
        [1.0, 0.0],
        "DOP853",
        np.unique(times),
        rtol=1e-13,
        atol=1e-14,
    ).y.T


@pytest.mark.parametrize("count", [2, 7, 400])
@pytest.mark.parametrize("rtol", [1e-6, 1e-10])
def test_the_curve_is_accurate_at_every_recorded_time(count, rtol):
    times = np.linspace(0, 30, count)
    found = run(times=np.pad(times, (0, 5), mode="edge"), rtol=rtol, atol=rtol)
    assert (int(found.code), float(found.t)) == (tu.errors.Status.FINISHED, 30.0)
    np.testing.assert_allclose(found.records[:count], exact(times), atol=20 * rtol)
    np.testing.assert_array_equal(
        found.records[count:], np.tile(found.records[count - 1], (5, 1))
    )


def test_the_error_between_the_steps_is_controlled(monkeypatch):
    """Without its third error estimate the curve is worse than the steps."""
    times = np.linspace(0, 30, 400)

    def error():
        return float(
            np.max(
                np.abs(run(times=times, rtol=1e-5, atol=1e-5).records - exact(times))
            )
        )

    controlled = error()
    monkeypatch.setattr(dp, "ERRORS", dp.ERRORS * [[1.0], [1.0], [0.0]])
    assert error() > 1.5 * controlled


def test_steps_end_where_the_rates_jump():
    stops = jnp.array([20.0, 3.7, 11.1, 99.0])  # in any order, some beyond the end

    def rates(t, y):
        return jnp.where(t < 3.7, 1.0, jnp.where(t < 11.1, -2.0, 0.5)) * jnp.ones(1)

    times = np.array([0.0, 3.0, 3.7, 5.0, 11.1, 30.0])
    found = run(rates, [0.0], times, stops=stops)
    np.testing.assert_allclose(
        found.records[:, 0], [0, 3, 3.7, 1.1, -11.1, -1.65], atol=1e-13
    )
    assert found.steps < 15 < run(rates, [0.0], times).steps


@pytest.mark.parametrize(
    ("rates", "options", "code", "end"),
    [
        (lambda t, y: y, {}, tu.errors.Status.DIVERGED, np.log(1e8)),
        (
            lambda t, y: y**2,
            {"diverged": lambda y: jnp.any(jnp.isnan(y))},
            tu.errors.Status.FAILED,
            1.0,
        ),
        (lambda t, y: jnp.where(t < 2, y, jnp.nan), {}, tu.errors.Status.FAILED, 2.0),
        (
            lambda t, y: jnp.cos(50 * t) * y,
            {"max_steps": 20},
            tu.errors.Status.MAX_STEPS,
            None,
        ),
    ],
    ids=["grows", "blows up", "NaN", "too many steps"],
)
def test_how_it_ends(rates, options, code, end):
    found = run(rates, [1.0], np.linspace(0, 30, 61), **options)
    assert int(found.code) == code
    assert end is None or end - 0.01 < float(found.t) < end + 3
    reached = np.linspace(0, 30, 61) <= float(found.t)
    np.testing.assert_array_equal(np.isfinite(found.records[:, 0]), reached)


def test_members_of_a_batch_run_as_alone():
    times = jnp.linspace(0, 10, 21)

    def one(push, axis):
        rates = lambda t, y: jnp.stack([y[1], -jnp.sin(y[0]) + push * jnp.cos(t)])  # noqa: E731
        options = {
            "observe": lambda y: y,
            "diverged": lambda y: jnp.abs(y[0]) > 3,
            "shortest": 1e-12,
            "max_steps": 500,
        }
        return dp.integrate_explicitly(
            dp.ODE(
                rates, jnp.array([1.0, 0.0]), times, rtol=1e-8, atol=1e-10, **options
            ),
            axis,
        )

    pushes = jnp.array([0.0, 0.3, 5.0])
    alone = [jax.jit(lambda push: one(push, None))(push) for push in pushes]
    assert [int(x.code) for x in alone] == [0, 0, tu.errors.Status.DIVERGED]
    for axis in (None, "members"):
        batch = jax.jit(
            jax.vmap(lambda push, axis=axis: one(push, axis), axis_name="members")
        )(pushes)
        for i, single in enumerate(alone):
            # an error of 1e-8 is known to 8 digits, and so are the steps that follow
            # from it
            jax.tree.map(
                lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-8),
                batch,
                single,
            )


def test_forward_derivatives():
    """d/da of y = exp(-a t), and of the time of a jump."""

    def last(a, jump):
        rates = lambda t, y: jnp.where(t < jump, -a, -2 * a) * y  # noqa: E731
        options = {
            "observe": lambda y: y[0],
            "diverged": lambda y: jnp.isnan(y[0]),
            "shortest": 1e-12,
            "max_steps": 500,
        }
        times = jnp.array([0.0, 0.7, 1.5])
        stops = jnp.atleast_1d(jump)
        return dp.integrate_explicitly(
            dp.ODE(
                rates,
                jnp.ones(1),
                times,
                rtol=1e-10,
                atol=1e-12,
                stops=stops,
                **options,
            )
        ).records[-1]

    value = last(0.5, 1.0)
    slopes = jax.jacfwd(last, (0, 1))(0.5, 1.0)
    np.testing.assert_allclose(value, np.exp(-1.0), rtol=1e-9)
    np.testing.assert_allclose(
        slopes, [-2 * np.exp(-1.0), 0.5 * np.exp(-1.0)], rtol=1e-8
    )


def test_single_precision():
    with jax.enable_x64(False):
        found = run(times=np.linspace(0, 10, 50), rtol=1e-4, atol=1e-5)
    assert found.records.dtype == np.float32
    np.testing.assert_allclose(found.records, exact(np.linspace(0, 10, 50)), atol=1e-3)


PROBLEMS = {
    "erf units": pair(2, 2, lr=0.5, noise=0.2),
    "ReLU": pair(2, 2, "relu", lr=0.2),
    "a spectrum": pair(2, 2, lr=0.5, inputs=tu.PowerLaw(1.0, 8)),
    "momentum": pair(2, 2, lr=0.5, momentum=0.5),
    "slow momentum": pair(2, 2, lr=0.5, momentum=tu.SlowMomentum(gamma=1.0)),
    "trained readouts": tu.Problem(
        tu.Network(2, "erf", train_readout=True),
        tu.Network(2, "erf"),
        optimizer=tu.SGD(lr=0.5),
    ),
    "logistic loss": tu.Problem(
        tu.Network(1),
        tu.Network(1),
        loss="logistic",
        labels="sign",
        optimizer=tu.SGD(lr=0.5),
    ),
    "a decaying rate": pair(2, 2, lr=tu.schedules.PowerDecay(1.0, 0.5, 10.0)),
    "a rate that jumps": pair(
        2, 2, lr=tu.schedules.Piecewise([4.0, 7.77], [1.0, 0.3, 0.05])
    ),
    "a divergence": pair(2, 2, "relu", lr=3.0),
}


LONG = (
    "erf units",
    "a spectrum",
    "momentum",
    "slow momentum",
    "trained readouts",
    "logistic loss",
    "a decaying rate",
    "ReLU",
    "a divergence",
)  # rates of the same kind for the integrator


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.full if n in LONG else ()) for n in PROBLEMS],
)
def test_the_same_curve_as_by_diffrax(name):
    problem = PROBLEMS[name]
    times = np.linspace(0, 15, 31)
    start = tu.random_start(problem, dim=1000, seed=1)
    moments = moments_for(problem)
    by = {
        gradient: integrate_equations(
            as_arrays(problem),
            moments,
            initial_overlaps(problem, start),
            padded(times),
            step_tolerances(),
            Options(False, "explicit", True, gradient),
        )
        for gradient in ("forward", "reverse")
    }
    ours, theirs = (
        first_times(by[gradient], times.size) for gradient in ("forward", "reverse")
    )
    assert (
        int(ours.status_code)
        == int(theirs.status_code)
        == (tu.errors.Status.DIVERGED if name == "a divergence" else 0)
    )
    both = np.isfinite(ours.error) & np.isfinite(theirs.error)
    assert both.sum() >= 3
    assert abs(both.sum() - np.isfinite(theirs.error).sum()) <= 1
    np.testing.assert_allclose(ours.error[both], theirs.error[both], rtol=5e-7)
    np.testing.assert_allclose(ours.loss[both], theirs.loss[both], rtol=5e-7)
    for seen, expected in zip(
        ours.variables.values(), theirs.variables.values(), strict=True
    ):
        np.testing.assert_allclose(seen[both], expected[both], rtol=5e-7, atol=1e-8)
    assert ours.steps <= theirs.steps + 3
