"""Problems, starts and trajectories that the tests of `compare` share.

They are solved and simulated once.
"""

from functools import cache

import equinox as eqx
import jax
import numpy as np

import tutelage as tu

TIMES = tu.linear_times(20.0, 41)


def start_of(K, M, dim, own=0.1):
    """Every student a little nearer to a teacher of its own."""
    R = np.full((K, M), 0.2)
    R[np.arange(K), np.arange(K) % M] += own * (1 - np.arange(K) / (2 * K))
    return tu.Start(R=R, Q=R @ R.T + 0.1 * np.eye(K), dim=dim)


def erf_problem(noise=0.1, lr=1.0):
    return tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=lr), noise=noise
    )


def linear_problem():
    return tu.Problem(
        tu.Network(1, "linear"),
        tu.Network(1, "linear"),
        optimizer=tu.SGD(lr=0.8),
        noise=0.3,
    )


@cache
def theory(noise=0.1, gradient_flow=False, dim=200):
    return tu.solve(
        erf_problem(noise), start_of(2, 2, dim), TIMES, gradient_flow=gradient_flow
    )


@cache
def runs(count=100, dim=200, seed=3):
    return tu.simulate(
        erf_problem(), start_of(2, 2, dim), times=TIMES, runs=count, seed=seed
    )


def with_(trajectory, **changes):
    """The trajectory with some fields replaced."""
    names = list(changes)
    return eqx.tree_at(
        lambda t: [getattr(t, n) for n in names],
        trajectory,
        list(changes.values()),
        is_leaf=lambda x: x is None,
    )


def with_error(trajectory, error):
    return with_(trajectory, error=error)


def permuted(trajectory, which, order, since=0):
    """Runs `which` with their hidden units in another order, from a time on.

    since: the index of this time.
    """
    variables = {name: np.array(value) for name, value in trajectory.variables.items()}
    for run in which:
        for name, axes in {
            "R": (1,),
            "Q": (1, 2),
            "r": (2,),
            "q": (2, 3),
            "readout": (1,),
        }.items():
            for axis in axes:
                variables[name][run, since:] = np.take(
                    variables[name][run, since:], order, axis=axis
                )
    return with_(trajectory, variables=variables)


def scaled_spread(problem, start, times, factor):
    """A wrong theory: the terms of order eta^2 times `factor`, integrated by scipy."""
    from jax.flatten_util import ravel_pytree
    from scipy.integrate import solve_ivp

    from tutelage.stream import OrderParameters, initial_overlaps

    like, t = initial_overlaps(problem, start)
    first, state_of = ravel_pytree(like)
    system = OrderParameters(problem, t, False, True)
    flow = OrderParameters(problem, t, True, True)

    @eqx.filter_jit
    def drift(t, x):
        full, _ = ravel_pytree(system.drift(t, state_of(x)))
        slow, _ = ravel_pytree(flow.drift(t, state_of(x)))
        return slow + factor * (full - slow)

    path = solve_ivp(
        drift, (0, times[-1]), np.asarray(first), t_eval=times, rtol=1e-8, atol=1e-10
    ).y.T
    seen = jax.jit(jax.vmap(lambda x: system.observe(state_of(x))))(path)
    variables = {name: np.asarray(values) for name, values in seen.items()}
    return with_(
        tu.solve(problem, start, times),
        variables=variables,
        error=np.asarray(jax.jit(jax.vmap(system.error))(seen)),
    )


def exact_linear(problem, start, dim, times):
    """Means of R, Q and e_g of one linear unit at finite N, (3, time).

    They are linear in themselves, so the average step is exact.
    R += (eta/N) (T - R) - (eta kappa/N) R, and with E = T - 2R + Q and a batch of B
    samples Q changes by the mean of |w + dw|^2/N, dw the averaged step with decay.
    """
    eta = float(problem.optimizer.lr)
    kappa = float(problem.optimizer.weight_decay)
    batch = float(problem.optimizer.batch)
    noise = float(problem.noise) ** 2
    R = float(start.R[0, 0])
    Q = float(start.Q[0, 0])
    T = 1.0
    rate = eta / dim
    decay = 1 - eta * kappa / dim
    curves = []
    wanted = {int(round(t * dim)) for t in times}
    for step in range(int(round(times[-1] * dim)) + 1):
        E = T - 2 * R + Q
        if step in wanted:
            curves.append((R, Q, E / 2))
        same = rate**2 * ((dim + 2) * E + dim * noise) / batch  # one sample twice
        different = rate**2 * E * (1 - 1 / batch)  # two samples of the batch
        Q = decay**2 * Q + 2 * decay * rate * (R - Q) + same + different
        R = decay * R + rate * (T - R)
    return np.array(curves).T


def compared(theory, problem, start, times, **options):
    """The theory against runs of a problem that claim to be of the theory's."""
    runs = tu.simulate(problem, start, times=times, **options)
    return tu.compare(theory, with_(runs, problem=theory.problem), fluctuations=False)


@cache
def sampled_theory_and_runs():
    """A theory whose averages are sampled at 512 points, and its runs."""
    teacher = tu.Network(2, "erf", readout=[1.0, 0.5])
    problem = tu.Problem(
        tu.Network(2, "erf"),
        teacher,
        loss="logistic",
        labels="sign",
        optimizer=tu.SGD(lr=1.0),
    )
    start = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
    times = [0.0, 2.0, 4.0]
    simulated = tu.simulate(problem, start, dim=2000, times=times, runs=40, seed=1)
    sampled = tu.solve(problem, start, times, moments=tu.Sampled(2**9, seed=1))
    return sampled, simulated
