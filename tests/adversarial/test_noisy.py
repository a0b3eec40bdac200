"""Random noisy labels, by the theory and by plain NumPy (noisy.py)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import tutelage as tu
from tests.adversarial import noisy
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.moments import Sampled, moments_for
from tutelage.stream.order_parameters import as_arrays
from tutelage.stream.program import by_nodes

LOSSES = {
    "squared": "squared",
    "absolute": "absolute",
    "huber": tu.losses.Huber(0.3),
    "log cosh": lambda output, label: jnp.sum(
        jnp.logaddexp(label - output, output - label)
    ),
    "insensitive": lambda output, label: jnp.sum(
        jnp.maximum(jnp.abs(label - output) - 0.2, 0.0)
    ),
}
ALARM = 1e-3  # probability that chance alone makes a case alarming
MANY = 60
PART = 10


def problem_of(case):
    outputs = len(case.v)
    networks = []
    for v in (case.v, case.v_teacher):
        readout = v[0] if outputs == 1 else v
        units = v.shape[1]
        networks.append(
            tu.Network(units, case.activation, outputs=outputs, readout=readout)
        )
    keywords = {}
    if case.noise == "rare":
        teacher = networks[1]

        def label(rho, xi):
            clean = jnp.asarray(case.v_teacher[0]) @ teacher.activation(rho)
            return jnp.where(xi < noisy.RARE, noisy.WRONG, 1.0) * clean

        keywords["labels"] = label
    elif isinstance(case.noise, str):
        keywords["noise"] = noisy.LAWS[case.noise].ppf
    else:
        keywords["noise"] = case.noise
    return tu.Problem(
        *networks, loss=LOSSES[case.loss], optimizer=tu.SGD(1.0), **keywords
    )


@eqx.filter_jit
def _drift(system, state):
    return system.drift(0.0, state)


def scores(case, noise=None):
    """z-scores of dR and dQ, with the errors of both averages."""
    mean, error = noisy.one_step(case, noise=noise)
    students = case.students
    teachers = case.teachers
    start = tu.Start(
        students @ teachers.T, students @ students.T, teachers @ teachers.T
    )
    problem = problem_of(case)
    state, t = initial_overlaps(problem, start)

    def drift(moments):
        system = OrderParameters(as_arrays(problem), t, moments=moments)
        found = _drift(system, state)
        return np.concatenate([np.ravel(found.r), np.ravel(found.q)])

    moments = moments_for(problem, None, Sampled(2**12))
    doubt = np.zeros_like(mean)
    nodes = by_nodes(moments)
    if nodes is not None and not nodes.grid:
        parts = [drift(part) for part in nodes.scramblings()]
        doubt = np.std(parts, axis=0, ddof=1) / np.sqrt(len(parts))
    rounding = 1e-4 * np.abs(mean)
    return (drift(moments) - mean) / np.sqrt(error**2 + doubt**2 + rounding**2 + 1e-24)


def alarming(z):
    return bool(np.max(np.abs(z)) > norm.isf(ALARM / (2 * z.size)))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_random_noise(seed):
    case = noisy.draw(seed)
    z = scores(case)
    assert not alarming(z), (str(case), z)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, MANY, PART))
def test_many_random_noises(first):
    cases = [noisy.draw(seed) for seed in range(first, first + PART)]
    found = [scores(case) for case in cases]
    largest = max(float(np.max(np.abs(z))) for z in found)
    print(f"{len(found)} configurations, largest |z| {largest:.2f}")
    bad = [(str(c), z) for c, z in zip(cases, found, strict=True) if alarming(z)]
    assert not bad, bad


def test_another_noise_is_noticed():
    """Negative control: the steps have another strength of noise."""
    seeds = range(100)
    case = next(
        c
        for c in map(noisy.draw, seeds)
        if isinstance(c.noise, float) and c.loss == "squared"
    )
    assert alarming(scores(case, noise=case.noise + 0.5))
