"""The effect of a fixed momentum on the expected gap: a recursion, and ensembles."""

from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import erf_problem, exact_linear, start_of
from tutelage.comparison import expected
from tutelage.comparison.expected import expected_gap
from tutelage.comparison.momentum import momentum_terms
from tutelage.comparison.pairing import pair


def exact_linear_momentum(problem, start, dim, times):
    """Means of R, Q and e_g with velocities v: v <- beta v + eta u, w <- w + v.

    u is the gradient with decay. R, Q and U = v.w*/N, P = w.v/N, S = v.v/N are linear
    in themselves, so the average step is exact.
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
    """By name, exact and expected gaps at N = 400: the next order is a hundredth."""
    optimizer = tu.SGD(0.8 * (1 - beta), batch=batch, weight_decay=decay, momentum=beta)
    linear = tu.Network(1, "linear")
    problem = tu.Problem(linear, linear, optimizer=optimizer, noise=0.3)
    start = tu.Start(R=[[0.1]], Q=[[0.4]], dim=400)
    times = tu.linear_times(6.0, 41)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, times=times, runs=3, seed=0)
    gap = expected_gap(pair(theory, runs))
    assert not gap.rough
    exact = exact_linear_momentum(problem, start, 400, times)
    if beta == 0.0:
        plain = exact_linear(problem, start, 400, times)
        np.testing.assert_allclose(exact, plain, rtol=1e-12)
    return {
        "R": (exact[0] - theory.R[:, 0, 0], gap.values["R"][:, 0, 0]),
        "Q": (exact[1] - theory.Q[:, 0, 0], gap.values["Q"][:, 0, 0]),
        "error": (exact[2] - theory.error, gap.values["error"]),
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
    """Negative controls."""

    def incomplete(beta, steps, rates):
        terms = momentum_terms(beta, steps, rates)
        return replace(terms, **{without: 0 * getattr(terms, without)})

    monkeypatch.setattr(expected, "momentum_terms", incomplete)
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
    found = expected_gap(together)
    assert not found.rough
    for name in ("error", "R", "Q"):
        gap = together.runs[name].mean(axis=0) - together.theory[name]
        error = together.runs[name].std(axis=0, ddof=1) / np.sqrt(4000)
        assert np.max(np.abs(gap[1:] / error[1:])) > 4.5, name
        size = np.max(np.abs(gap))
        left = np.max(np.abs(gap - found.values[name]))
        assert left < 0.25 * size + 4 * np.max(error), name
        np.testing.assert_allclose(found.values[name][0], 0.0, atol=1e-12, err_msg=name)
