"""The stiff solver:

the resolvent against a dense inverse, the order of the method, its answers against
others, its cost.
"""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
from tests.problems import generic_overlaps, jacobian, linear_regression, pair
from tests.stream.test_spectra import matrices
from tutelage.solvers.diffrax_solvers import Rodas5P
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.order_parameters import flatten, unflatten
from tutelage.stream.program import choose
from tutelage.stream.stiff_overlaps import Levels, resolvent

WIDE = tu.Spectrum([200.0, 5.0, 1.0, 0.1], [0.01, 0.19, 0.3, 0.5], normalize=False)
BLOCKS = tuple(
    np.stack([generic_overlaps(2, 2, seed, 0.6)[i] for seed in range(4)])
    for i in range(3)
)
START = tu.Start(*BLOCKS)
RICH = pair(
    2, 2, lr=tu.schedules.Piecewise([3.7], [0.4, 0.15]), noise=0.3, inputs=WIDE, weight_decay=0.03, batch=2, readout_lr=0.2,
    trainable=[0, 1, 3], student={"readout": [0.7, -0.4], "train_readout": True},
)  # fmt: skip
PLAIN = pair(2, 2, lr=0.1, inputs=WIDE)
RELU = pair(2, 2, "relu", lr=0.1, inputs=WIDE)
BIASED = tu.Problem(
    tu.Network(2, "tanh", bias=[0.1, -0.2], train_bias=True),
    tu.Network(2, "tanh"),
    inputs=WIDE,
    optimizer=tu.SGD(0.2),
)


# The resolvent


def solved_and_dense(problem, shifts, gradient_flow=False):
    """(1 - shift J)^-1 x by levels and by a dense matrix, for a random x that moves only what learns."""
    state, t = initial_overlaps(problem, START)
    system = OrderParameters(problem, t, gradient_flow)
    J = np.asarray(jacobian(system, 0.3, state))
    x = unflatten(jnp.asarray(np.random.default_rng(0).standard_normal(len(J))), state)
    if not problem.student.train_readout:
        x = eqx.tree_at(lambda y: y.readout, x, jnp.zeros(2))
    ours = jax.jit(
        lambda shift: flatten(resolvent(system, jnp.array(0.3), state, shift)(x))
    )
    return [
        (ours(shift), np.linalg.solve(np.eye(len(J)) - shift * J, flatten(x)))
        for shift in shifts
    ]


@pytest.mark.parametrize(
    ("problem", "flow"),
    [
        (RICH, False),
        pytest.param(BIASED, True, marks=pytest.mark.full),
        pytest.param(RELU, False, marks=pytest.mark.full),
        pytest.param(
            pair(2, 2, "quadratic", lr=0.01, inputs=WIDE), False, marks=pytest.mark.full
        ),
    ],
    ids=["rich", "biases", "relu", "quadratic"],
)
def test_the_resolvent_is_the_inverse_of_a_dense_matrix(problem, flow):
    for ours, dense in solved_and_dense(problem, (0.01, 30.0), flow):
        np.testing.assert_allclose(ours, dense, atol=1e-10 * np.abs(dense).max())


def without_fields(system, t, state, shift):
    """A negative control:

    each level for itself, as if A, B, G did not depend on the overlaps.
    """
    levels = Levels(system, t, state, shift)
    levels.slopes = jax.tree.map(jnp.zeros_like, levels.slopes)
    return levels.solve


# The method


def observed_order(errors, sizes):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


def with_error(f):
    return lambda t, y, args: (f(t, y[0], args), jnp.zeros(()))


def unguided(state, doubt):
    return jnp.zeros(()), jnp.zeros(())


def test_rodas5p_has_order_five_and_order_four_between():
    """y' = -50 (y^2 - cos^2 t) y - sin t + ..., a nonlinear equation with time in it, whose solution is (cos t, t e^-t)."""

    def f(t, y, args):
        a, b = y
        return jnp.stack(
            [
                -jnp.sin(t) - 2 * (a**2 - jnp.cos(t) ** 2) * b,
                jnp.exp(-t) - b + 3 * (a - jnp.cos(t)),
            ]
        )

    def dense(t, y, shift):
        return lambda b: jnp.linalg.solve(
            jnp.eye(2) - shift * jax.jacfwd(lambda y: f(t, y, None))(y), b
        )

    @jax.jit
    def at(dt):
        saveat = diffrax.SaveAt(ts=jnp.linspace(0.0, 2.0, 41), t1=True)
        terms = diffrax.ODETerm(with_error(f))
        start = (jnp.array([1.0, 0.0]), jnp.zeros(()))
        return diffrax.diffeqsolve(
            terms,
            Rodas5P(dense, unguided),
            0.0,
            2.0,
            dt,
            start,
            saveat=saveat,
            max_steps=256,
        ).ys[0]

    times = np.append(np.linspace(0.0, 2.0, 41), 2.0)
    exact = np.stack([np.cos(times), times * np.exp(-times)], axis=1)
    sizes = 2.0 / np.array([8, 12, 18, 27])
    gaps = np.array([np.abs(at(size) - exact).max(axis=1) for size in sizes])
    assert observed_order(gaps[:, -1], sizes) > 4.7
    assert observed_order(gaps.max(axis=1), sizes) > 3.8
    assert gaps[-1].max() < 1e-5


def at_fixed_steps(solver):
    """R, Q at time 4 by steps of equal length, as a function of the length."""
    state, t = initial_overlaps(PLAIN, START)
    system = OrderParameters(PLAIN, t, gradient_flow=True)
    terms = diffrax.ODETerm(with_error(lambda t, y, args: system.drift(t, y)))
    method = Rodas5P(lambda t, y, shift: solver(system, t, y, shift), unguided)

    @jax.jit
    def at(dt):
        end = diffrax.diffeqsolve(
            terms, method, 0.0, 4.0, dt, (state, jnp.zeros(())), max_steps=1024
        ).ys[0]
        return jnp.concatenate([jnp.ravel(x[-1]) for x in (end.r, end.q)])

    return at


@pytest.mark.full  # the two parts, resolvent and order of the method, are tested above
def test_the_order_holds_for_overlaps_and_needs_the_whole_jacobian():
    """Steps up to 5 time constants of the fastest level.

    Control: without the fields' part the order is lost.
    """
    counts = np.array([64, 96, 144])
    whole = at_fixed_steps(resolvent)
    part = at_fixed_steps(without_fields)
    best = whole(4.0 / 400)  # its error is 200 times smaller than the smallest below
    gaps = [np.abs(whole(4.0 / n) - best).max() for n in counts]
    assert observed_order(gaps, 4.0 / counts) > 4.5
    crude = [np.abs(part(4.0 / n) - best).max() for n in counts]
    assert not (
        observed_order(crude, 4.0 / counts) > 3.0 and max(crude) < 100 * max(gaps)
    )


# Its answers


def agree(problem, times, start=START, **options):
    stiff = tu.solve(problem, start, times, solver="stiff", rtol=1e-9, **options)
    explicit = tu.solve(problem, start, times, solver="explicit", rtol=1e-11, **options)
    np.testing.assert_allclose(stiff.error, explicit.error, rtol=2e-7)
    for name in ("r", "q", "readout"):
        np.testing.assert_allclose(
            stiff.variables[name], explicit.variables[name], atol=2e-8
        )
    return stiff


def test_equals_explicit_with_jumps_decay_noise_frozen_levels_and_trained_readouts():
    agree(RICH, np.linspace(0.0, 12.0, 25))


@pytest.mark.full
@pytest.mark.parametrize(
    ("problem", "flow"),
    [
        (RELU, False),
        (BIASED, True),
        (pair(2, 2, "quadratic", lr=0.01, inputs=WIDE), False),
        (
            pair(
                2,
                2,
                "linear",
                lr=tu.schedules.PowerDecay(0.2),
                inputs=WIDE,
                noise=0.2,
                momentum=0.3,
            ),
            False,
        ),
    ],
    ids=["relu", "biases", "quadratic", "linear"],
)
def test_equals_explicit(problem, flow):
    agree(problem, np.linspace(0.0, 8.0, 17), gradient_flow=flow)


def test_equals_scipy_on_the_equations_written_out():
    lam = np.asarray(WIDE.eigenvalues)
    p = np.asarray(WIDE.fractions)
    eta = 0.1
    r, q, t = BLOCKS

    def rhs(time, y):
        r = y[:16].reshape(4, 2, 2)
        q = y[16:].reshape(4, 2, 2)
        A, B, G = matrices(
            *(np.einsum("l,lab->ab", p * lam, x) for x in (r, q, t)), 0.0
        )
        dr = A @ r + B @ t
        fq = A @ q + B @ np.swapaxes(r, 1, 2)
        scale = eta * lam[:, None, None]
        return np.concatenate(
            [
                (scale * dr).ravel(),
                (scale * (fq + np.swapaxes(fq, 1, 2) + eta * G)).ravel(),
            ]
        )

    y0 = np.concatenate([r.ravel(), q.ravel()])
    times = [0.0, 1.0, 5.0]
    reference = solve_ivp(rhs, (0, 5), y0, "DOP853", times, rtol=1e-8, atol=1e-11).y.T
    ours = tu.solve(PLAIN, START, times, solver="stiff", rtol=1e-9)
    np.testing.assert_allclose(ours.r.reshape(3, -1), reference[:, :16], atol=1e-6)
    np.testing.assert_allclose(ours.q.reshape(3, -1), reference[:, 16:], atol=1e-6)


@pytest.mark.full
def test_accurate_near_perfect_learning():
    """Errors fall below 1e-9; at equal tolerance the stiff solver is as close as the explicit one: rtol, or rounding."""
    problem = pair(2, 2, lr=1.0, inputs=tu.Spectrum([2.0, 1.2, 1.0, 0.8]))
    start = tu.Start(
        *(np.stack([size * np.eye(2)] * 4) for size in (0.9, 0.85, 1.0))
    )  # of the shape of the others
    times = np.linspace(0.0, 240.0, 9)
    best = tu.solve(problem, start, times, rtol=1e-12, solver="explicit").error
    assert best[-1] < 1e-9
    for solver in ("stiff", "explicit"):
        error = tu.solve(problem, start, times, rtol=1e-7, solver=solver).error
        np.testing.assert_allclose(
            error, best, rtol=2e-7, atol=3e-15
        )  # a few roundings of overlaps of order one


def test_the_number_of_steps_grows_slower_than_the_time():
    """Also past perfect learning, where only rounding moves."""
    steps = [
        int(tu.solve(PLAIN, START, [0.0, end], solver="stiff", rtol=1e-6).steps)
        for end in (10.0, 100.0, 1e4, 1e6)
    ]
    assert steps[-1] < 5 * steps[0]
    explicit = [
        int(tu.solve(PLAIN, START, [0.0, end], solver="explicit", rtol=1e-6).steps)
        for end in (10.0, 100.0)
    ]
    assert explicit[1] > 5 * explicit[0]  # control


@pytest.mark.full
def test_a_divergence_is_seen():
    problem = pair(2, 2, "linear", lr=3.0, inputs=WIDE)
    with pytest.warns(tu.errors.DivergenceWarning, match="diverged at alpha"):
        stiff = tu.solve(problem, START, 100.0, solver="stiff")
    with pytest.warns(tu.errors.DivergenceWarning, match="diverged at alpha"):
        explicit = tu.solve(problem, START, 100.0, solver="explicit")
    assert stiff.end_time == pytest.approx(float(explicit.end_time), rel=0.1)


# Transformations


def late_error(lr, **options):
    return tu.solve(
        PLAIN.replace(lr=lr), START, [0.0, 30.0], solver="stiff", rtol=1e-9, **options
    ).error[-1]


@pytest.mark.full
def test_jvp_equals_finite_differences():
    _, slope = jax.jvp(lambda lr: late_error(lr, gradient="forward"), (0.1,), (1.0,))
    assert slope == pytest.approx(
        float(late_error(0.1001) - late_error(0.0999)) / 2e-4, rel=1e-4
    )


@pytest.mark.full
def test_grad_equals_finite_differences():
    assert jax.grad(late_error)(0.1) == pytest.approx(
        float(late_error(0.1001) - late_error(0.0999)) / 2e-4, rel=1e-4
    )


@pytest.mark.full
def test_vmap_equals_the_loop():
    rates = np.array([0.05, 0.1])
    batched = jax.vmap(late_error)(rates)
    np.testing.assert_allclose(batched, [late_error(lr) for lr in rates], rtol=1e-6)


# The choice


def test_auto_takes_the_stiff_solver_where_it_pays():
    long = np.array([0.0, 1e4])
    short = np.array([0.0, 100.0])
    assert choose("auto", PLAIN, long) == "stiff"
    assert choose("auto", PLAIN, short) == "explicit"
    assert choose("auto", pair(2, 2, lr=0.1), long) == "explicit"  # no wide spectrum
    assert (
        choose(
            "auto", pair(2, 2, lr=tu.schedules.PowerDecay(0.1, 2.0), inputs=WIDE), long
        )
        == "explicit"
    )  # the rate decays before
    assert (
        choose(
            "auto", pair(2, 2, lr=0.1, inputs=WIDE, momentum=tu.SlowMomentum(1.0)), long
        )
        == "explicit"
    )
    assert tu.solve(PLAIN, START, long, rtol=1e-6).settings == (
        ("gradient_flow", False),
        ("rtol", 1e-6),
        ("solver", "stiff"),
    )


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ({"momentum": tu.SlowMomentum(1.0)}, "SlowMomentum"),
        ({"spherical": True}, "spherical"),
        ({"trainable": np.array([[True] * 4, [True, False, True, True]])}, "trainable"),
    ],
)
def test_other_structures_are_refused(optimizer, words):
    with pytest.raises(tu.InputError, match=f"{words}.*Use solver='explicit'"):
        tu.solve(
            pair(2, 2, lr=0.1, inputs=WIDE, **optimizer),
            START,
            [0.0, 1.0],
            solver="stiff",
        )


def test_equations_of_ones_own_are_refused():
    with pytest.raises(tu.InputError, match="use solver='implicit'"):
        tu.solve(
            linear_regression(),
            {"m": 0.0, "q": 1.0},
            [0.0, 1.0],
            solver="stiff",
        )
