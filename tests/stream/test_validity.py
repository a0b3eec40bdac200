"""The report that every solve carries."""

import warnings

import numpy as np
import pytest

import tutelage as tu
from tests.problems import compilations, pair, sample_increments
from tutelage.errors import ValidityWarning

TIMES = tu.linear_times(120, 61)


def escape(asymmetry, lr=0.5, dim=None):
    R = 0.3 + asymmetry * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return tu.solve(
        pair(2, 2, lr=lr), tu.Start(R, [[0.4, 0.3], [0.3, 0.4]], dim=dim), TIMES
    ).validity


def test_critical_rate_and_limit_of_the_committee_machine():
    report = escape(0.02, dim=1000)
    assert report.critical_rate == pytest.approx(2.3068277, rel=1e-6)
    assert report.rate_to_critical == pytest.approx(0.5 / 2.3068277, rel=1e-6)
    assert report.limit_ratio == pytest.approx(0.5 / 1000)
    assert report.effective_rank == pytest.approx(1.0)
    assert report.averages_error is None
    assert any("zero error is stable" in line for line in report.lines())


def test_the_start_decides_when_its_asymmetry_is_large_and_noise_when_it_is_small():
    """The N at which noise matches the start grows as the inverse square of the asymmetry."""
    large = escape(0.02, dim=100_000)
    small = escape(0.005, dim=300)
    assert large.start_to_noise > 10
    assert "the initial condition determines" in str(large)
    assert small.start_to_noise < 3
    assert "SGD noise determines" in str(small)
    assert small.noise_dim / large.noise_dim == pytest.approx(16, rel=0.2)


def test_noise_of_the_escape_against_simulated_amplitudes():
    """Euler-Maruyama on one unstable direction is what the report integrates: rate and strength by a second route.

    Runs of the overlaps' own stochastic equation, u += drift/N + (increment - mean)/N, must scatter around the solved
    curve in the unstable direction as far as the report says.
    """
    import jax
    import jax.numpy as jnp

    from tutelage.stream import OrderParameters, initial_overlaps
    from tutelage.stream.linearized import flatten, unflatten

    # a spread known to 8%; the start is ten times the noise
    N = 500
    asymmetry = 0.02
    runs = 80
    end = 30.0
    R = 0.3 + asymmetry * np.array([[1.0, -1.0], [-1.0, 1.0]])
    problem = pair(2, 2)
    start = tu.Start(R, [[0.4, 0.3], [0.3, 0.4]], dim=N)
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t)
    # steps whose noise is added together; small against the time scales of order N
    chunk = 25

    def run(key):
        def advance(x, key):
            jumps = sample_increments(
                system, jnp.zeros(()), unflatten(x, state), key, chunk
            )
            return x + jumps.sum(axis=0) / N, None

        return jax.lax.scan(
            advance, flatten(state), jax.random.split(key, int(end * N / chunk))
        )[0]

    ends = np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(1), runs)))
    spread = np.std(ends[:, 0] - ends[:, 1] - ends[:, 2] + ends[:, 3], ddof=1)
    theory = tu.solve(problem, start, TIMES)
    at_end = np.argmin(np.abs(theory.times - end))
    R_end = theory.R[at_end]
    signal = R_end[0, 0] - R_end[0, 1] - R_end[1, 0] + R_end[1, 1]
    report = theory.validity
    # at time `end` the noise fed until then has sd `spread`; what comes later adds the
    # rest of the report's number
    rate = 0.0316
    total = signal / report.start_to_noise
    assert spread < total
    assert spread / np.sqrt(1 - np.exp(-2 * rate * end)) == pytest.approx(
        total, rel=0.25
    )


def test_a_broken_limit_is_a_warning_with_its_number():
    problem = pair(2, 2, lr=1.0, inputs=tu.PowerLaw(1.0, 64))
    start = tu.random_start(problem, dim=64, scale=0.5)
    ratio = float(np.max(problem.inputs.eigenvalues)) / 64
    with pytest.warns(tu.errors.ValidityWarning, match=f"{ratio:.3g} at N = 64"):
        tu.solve(problem, start, [0, 1])


def test_a_traced_solve_has_no_report():
    import jax

    out = jax.vmap(
        lambda lr: tu.solve(
            pair(1, 1, "linear", lr=lr),
            tu.Start([[0.3]], [[1.0]]),
            [0, 1],
            gradient="forward",
        )
    )(np.ones(2))
    with pytest.raises(tu.InputError, match="no validity report"):
        _ = out.validity


@pytest.mark.parametrize(
    ("activation", "M", "most"), [("erf", 2, 0), ("quadratic", 3, 3)]
)
def test_the_report_compiles_few_programs(activation, M, most):
    """None for erf, which has machine code; else drift, noise and slopes.

    Single operations on JAX arrays would add dozens.
    """
    problem = pair(3, M, activation, lr=0.02)
    theory = tu.solve(
        problem, tu.random_start(problem, dim=1000), tu.linear_times(150, 31)
    )
    compiled = compilations()
    assert theory.validity.averages == "closed form"
    assert len(compiled) <= most


def test_zero_weights_on_a_kink_are_a_warning():
    """SGD stays where it begins, because JAX's ReLU has slope 0 at 0; the theory learns."""
    unit = tu.Network(1, "relu")
    problem = tu.Problem(unit, unit, optimizer=tu.SGD(0.3))
    still = tu.Start([[0.0]], [[0.0]], dim=50)
    with pytest.warns(ValidityWarning, match="student unit 1 begins with zero weights"):
        theory = tu.solve(problem, still, [0.0, 1.0])
    run = tu.simulate(problem, still, times=[0.0, 1.0], runs=2)
    assert theory.Q[-1, 0, 0] > 0.01
    assert np.all(run.Q == 0)


@pytest.mark.parametrize(
    ("name", "size"), [("relu", 1e-6), ("quadratic", 0.0), ("linear", 0.0)]
)
def test_weights_that_move_have_no_warning(name, size):
    """Small weights move; without a kink at zero, theory and SGD agree."""
    unit = tu.Network(1, name)
    problem = tu.Problem(unit, unit, optimizer=tu.SGD(0.3))
    start = tu.Start([[0.0]], [[size]], dim=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ValidityWarning)
        tu.solve(problem, start, [0.0, 0.1])
