"""The expected finite-N gap is the real one: an exact recursion, and large ensembles of small networks."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import erf_problem, start_of
from tutelage.comparison import expected
from tutelage.comparison.expected import expected_gaps, rough_sizes
from tutelage.comparison.pairing import pair


def exact_linear(problem, start, dim, times):
    """Means of R, Q and e_g of one linear unit at finite N: linear in themselves, so the average step is exact.

    R += (eta/N) (T - R) - (eta kappa/N) R, and with E = T - 2R + Q and a batch of B samples
    Q changes by the mean of |w + dw|^2/N, dw the averaged step with decay.
    """
    eta, kappa, B, s2 = (
        float(x)
        for x in (
            problem.optimizer.lr,
            problem.optimizer.weight_decay,
            problem.optimizer.batch,
            problem.noise**2,
        )
    )
    R, Q, T = float(start.R[0, 0]), float(start.Q[0, 0]), 1.0
    out, wanted = [], {int(round(t * dim)) for t in times}
    for step in range(int(round(times[-1] * dim)) + 1):
        if step in wanted:
            out.append((R, Q, (T - 2 * R + Q) / 2))
        E = T - 2 * R + Q
        mean = eta / dim
        keep = 1 - eta * kappa / dim
        one = eta**2 / dim**2 * ((dim + 2) * E + dim * s2) / B  # the same sample twice
        two = eta**2 / dim**2 * E * (1 - 1 / B)  # two different samples
        R, Q = (
            keep * R + mean * (T - R),
            keep**2 * Q + 2 * keep * mean * (R - Q) + one + two,
        )
    return np.array(out).T


@pytest.mark.parametrize(("batch", "decay"), [(1, 0.0), (3, 0.4)])
def test_linear_network_against_the_exact_recursion(batch, decay):
    problem = tu.Problem(
        tu.Network(1, "linear"),
        tu.Network(1, "linear"),
        optimizer=tu.SGD(0.8, batch=batch, weight_decay=decay),
        noise=0.3,
    )
    start, times = tu.Start(R=[[0.1]], Q=[[0.4]], dim=200), tu.linear_times(6.0, 41)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(
        problem, start, times=times, runs=3, seed=0
    )  # a linear drift has no curvature: any runs will do
    found, rough = expected_gaps(pair(theory, runs))
    assert not rough
    exact = exact_linear(problem, start, 200, times)
    for i, name in enumerate(("R", "Q")):
        gap = exact[i] - theory[name][:, 0, 0]
        np.testing.assert_allclose(
            found[name][:, 0, 0], gap, atol=0.04 * np.max(np.abs(gap))
        )
    gap = exact[2] - theory.error
    np.testing.assert_allclose(found["error"], gap, atol=0.05 * np.max(np.abs(gap)))


def exact_linear_momentum(problem, start, dim, times):
    """The same with velocities v of a fixed momentum: v <- beta v + eta u, w <- w + v.

    u is the gradient with decay. R, Q and U = v.w*/N, P = w.v/N, S = v.v/N are linear in
    themselves, so the average step is exact.
    """
    eta = float(problem.optimizer.lr)
    kappa = float(problem.optimizer.weight_decay)
    batch = float(problem.optimizer.batch)
    beta = float(problem.optimizer.momentum)
    noise = float(problem.noise) ** 2
    R = float(start.R[0, 0])
    Q = float(start.Q[0, 0])
    U = P = S = 0.0
    out = []
    wanted = {int(round(t * dim)) for t in times}
    for step in range(int(round(times[-1] * dim)) + 1):
        E = 1 - 2 * R + Q
        if step in wanted:
            out.append((R, Q, E / 2))
        same = ((dim + 2) * E + dim * noise) / batch  # of the squared step: one sample
        different = E * (1 - 1 / batch)  # two samples of the batch
        decayed = kappa**2 * Q - 2 * kappa * (R - Q)
        squared = eta**2 * (same + different + decayed) / dim**2
        along_v = eta / dim * (U - P - kappa * P)
        S = beta**2 * S + 2 * beta * along_v + squared
        moved = beta * P + eta / dim * (R - Q - kappa * Q)  # w.v of the new velocity
        P = moved + S
        U = beta * U + eta / dim * (1 - R - kappa * R)
        R += U
        Q += 2 * moved + S
    return np.array(out).T


def gaps_with_momentum(beta, batch, decay):
    """At N = 400, where the second order is a hundredth: by name, exact and expected gaps."""
    optimizer = tu.SGD(0.8 * (1 - beta), batch=batch, weight_decay=decay, momentum=beta)
    linear = tu.Network(1, "linear")
    problem = tu.Problem(linear, linear, optimizer=optimizer, noise=0.3)
    start = tu.Start(R=[[0.1]], Q=[[0.4]], dim=400)
    times = tu.linear_times(6.0, 41)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, times=times, runs=3, seed=0)
    found, rough = expected_gaps(pair(theory, runs))
    assert not rough
    exact = exact_linear_momentum(problem, start, 400, times)
    if beta == 0.0:
        plain = exact_linear(problem, start, 400, times)
        np.testing.assert_allclose(exact, plain, rtol=1e-12)
    return {
        "R": (exact[0] - theory.R[:, 0, 0], found["R"][:, 0, 0]),
        "Q": (exact[1] - theory.Q[:, 0, 0], found["Q"][:, 0, 0]),
        "error": (exact[2] - theory.error, found["error"]),
    }


def relative_misses(gaps):
    """By name, the largest miss of a gap over its largest size."""
    return {
        name: np.max(np.abs(estimate - gap)) / np.max(np.abs(gap))
        for name, (gap, estimate) in gaps.items()
    }


@pytest.mark.parametrize(
    ("beta", "batch", "decay"), [(0.0, 1, 0.0), (0.6, 1, 0.0), (0.8, 3, 0.4)]
)
def test_momentum_against_the_exact_recursion(beta, batch, decay):
    misses = relative_misses(gaps_with_momentum(beta, batch, decay))
    assert max(misses.values()) < 0.05, misses


@pytest.mark.parametrize("without", ["lag", "source"])
def test_each_effect_of_momentum_is_needed(without, monkeypatch):
    complete = expected._memory

    def incomplete(beta, steps, rates):
        memory = complete(beta, steps, rates)
        return memory._replace(**{without: 0 * getattr(memory, without)})

    monkeypatch.setattr(expected, "_memory", incomplete)
    misses = relative_misses(gaps_with_momentum(0.6, 1, 0.0))
    assert max(misses.values()) > 0.2, misses


def test_erf_network_with_momentum_against_many_small_ones():
    """Of a gap of many standard errors a quarter is left, as without momentum."""
    optimizer = tu.SGD(0.3, momentum=0.7)
    problem = erf_problem().replace(optimizer=optimizer)
    times = tu.linear_times(8.0, 21)
    start = start_of(2, 2, 50)
    runs = tu.simulate(problem, start, times=times, runs=4000, seed=5)
    together = pair(tu.solve(problem, start, times), runs)
    found, rough = expected_gaps(together)
    assert not rough
    for name in ("error", "R", "Q"):
        gap = together.runs[name].mean(axis=0) - together.theory[name]
        error = together.runs[name].std(axis=0, ddof=1) / np.sqrt(4000)
        assert np.max(np.abs(gap[1:] / error[1:])) > 4.5, name
        size = np.max(np.abs(gap))
        left = np.max(np.abs(gap - found[name]))
        assert left < 0.25 * size + 4 * np.max(error), name
        np.testing.assert_allclose(found[name][0], 0.0, atol=1e-12, err_msg=name)


def test_erf_network_against_many_small_ones():
    """The predicted gap explains the measured one: what is left is noise, though the gap is many standard errors."""
    times, start = tu.linear_times(8.0, 21), start_of(2, 2, 25)
    runs = tu.simulate(erf_problem(), start, times=times, runs=4000, seed=5)
    together = pair(tu.solve(erf_problem(), start, times), runs)
    found, _ = expected_gaps(together)
    for name in ("error", "R", "Q"):
        gap = together.runs[name].mean(axis=0) - together.theory[name]
        error = together.runs[name].std(axis=0, ddof=1) / np.sqrt(4000)
        assert np.max(np.abs(gap[1:] / error[1:])) > 4.5, name
        size = np.max(np.abs(gap))
        assert np.max(np.abs(gap - found[name])) < 0.25 * size + 4 * np.max(error), name


def test_it_shrinks_as_1_over_N():
    sizes = []
    for dim in (100, 400):
        start, times = start_of(2, 2, dim), tu.linear_times(8.0, 41)
        theory = tu.solve(erf_problem(), start, times)
        together = pair(
            theory, tu.simulate(erf_problem(), start, times=times, runs=256, seed=0)
        )
        sizes.append(np.max(np.abs(expected_gaps(together)[0]["Q"])))
    assert sizes[0] / sizes[1] == pytest.approx(4.0, rel=0.35)


def test_a_state_recorded_late_is_expected_late():
    """After ceil(alpha N) steps: at N = 20 the first time, 0.01, is recorded after one step, at 0.05."""
    start, times = start_of(2, 2, 20), np.linspace(0.01, 4.01, 41)
    problem = erf_problem(lr=0.1, noise=0.0)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, times=times, runs=20, seed=0)
    shift = expected_gaps(pair(theory, runs))[0]["R"][0]
    np.testing.assert_allclose(
        shift, 0.04 * (theory.R[1] - theory.R[0]) / (times[1] - times[0]), rtol=1e-6
    )


def test_elsewhere_a_rough_size():
    optimizer = tu.SGD(0.5, momentum=tu.SlowMomentum(5.0))
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=optimizer
    )
    start, times = start_of(2, 2, 100), tu.linear_times(5.0, 41)
    runs = tu.simulate(problem, start, times=times, runs=50, seed=0)
    together = pair(tu.solve(problem, start, times), runs)
    found, rough = expected_gaps(together)
    assert rough
    assert all(np.all(size >= 0) for size in found.values())
    np.testing.assert_array_equal(found["Q"], rough_sizes(together)["Q"])
    assert tu.compare(tu.solve(problem, start, times), runs).agrees
