"""Averages over the randomness of labels:

against SciPy's integrals and against one step of plain NumPy.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import erf, ndtr

import tutelage as tu
from tutelage.problem.traits import missing_traits
from tutelage.randomness import Quantile
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.moments import Sampled, moments_for
from tutelage.stream.moments.node_moments import confidence
from tutelage.stream.moments.noise_nodes import (
    Fineness,
    one_number,
    random_shifts,
    several_numbers,
)
from tutelage.stream.order_parameters import as_arrays
from tutelage.training import losses

LAWS = {
    "t(3)": stats.t(3),
    "t(2.5)": stats.t(2.5),
    "t(2.1)": stats.t(2.1),
    "lognormal": stats.lognorm(1.0),
    "Pareto": stats.pareto(2.1),
    "exponential": stats.expon(3.0),
    "normal": stats.norm(),
    "far from zero": stats.t(3, loc=1000.0, scale=0.1),
}
POINTS = np.arange(64)
SHIFTS = (POINTS + 0.5) / 64


@pytest.mark.parametrize("name", LAWS)
def test_a_law_by_its_quantile_function_has_its_variance(name):
    law = LAWS[name]
    quantile = Quantile(law.ppf)
    mean, variance = quantile.mean_and_variance()
    np.testing.assert_allclose(mean, law.mean(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, law.var(), rtol=1e-5)
    cut_off = np.var(
        law.ppf((np.arange(400) + 0.5) / 400)
    )  # control: mid-quantiles have another variance
    assert abs(cut_off / law.var() - 1) > 1e-3


@pytest.mark.parametrize("name", ["t(2.1)", "lognormal", "exponential"])
def test_draws_of_a_law_are_its_quantiles_in_both_tails(name):
    law = LAWS[name]
    z = np.linspace(-7.0, 7.0, 400)
    exact = np.where(z > 0, law.isf(ndtr(-z)), law.ppf(ndtr(z)))
    drawn = np.asarray(Quantile(law.ppf).from_normal(jnp.asarray(z)))
    np.testing.assert_allclose(drawn, exact, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        Quantile(law.ppf).to_normal(jnp.asarray(exact[100:300])), z[100:300], atol=1e-3
    )


def test_a_quantile_function_with_jumps_is_a_discrete_law():
    quantile = Quantile(lambda u: np.where(u < 0.3, -1.0, 1.0))
    assert quantile.mean_and_variance() == pytest.approx((0.4, 0.84), rel=1e-9)
    z = jnp.array([-5.0, -0.53, -0.52, 5.0])  # 30% lie below -0.524
    np.testing.assert_allclose(quantile.from_normal(z), [-1.0, -1.0, 1.0, 1.0])


@pytest.mark.parametrize("degrees", [1.0, 1.5, 2.0])
def test_squared_loss_needs_a_variance(degrees):
    with pytest.raises(tu.InputError, match="infinite variance"):
        Quantile(stats.t(degrees).ppf).mean_and_variance()


def averaged(function, nodes):
    """The weighted sum at every point."""
    place = jax.vmap(nodes.place)
    values, weights = place(*nodes.terms)
    return np.asarray(jnp.sum(weights * function(values), axis=0))


def test_shifted_nodes_are_exact_for_smooth_functions_and_right_on_average_for_jumps():
    nodes = one_number(SHIFTS, Fineness(), heavy=False)
    np.testing.assert_allclose(
        averaged(lambda z: jnp.exp(z), nodes), np.exp(0.5), rtol=1e-9
    )
    for place in (0.0, 0.3, -3.24):
        share = averaged(lambda z, place=place: (z < place) * 1.0, nodes)
        assert np.mean(share) == pytest.approx(ndtr(place), rel=2e-2)
        assert np.std(share) > 1e-2 * ndtr(
            place
        )  # a single shift does not resolve the jump
    few = one_number(SHIFTS, Fineness(step=3.0), heavy=False)
    assert (
        np.max(np.abs(averaged(lambda z: jnp.exp(z), few) - np.exp(0.5))) > 1e-3
    )  # control


def test_panels_put_kinks_into_the_integral():
    kinks = jnp.linspace(-2.5, 2.5, 64)
    nodes = one_number(SHIFTS, Fineness(), heavy=False, kinks=kinks[None])
    sign = averaged(lambda z: jnp.sign(z - kinks), nodes)
    np.testing.assert_allclose(sign, 1 - 2 * ndtr(kinks), atol=1e-6)
    slope = jax.grad(lambda k: jnp.sum(jnp.sign(at_kink(k)[0] - k) * at_kink(k)[1]))(
        0.3
    )
    assert slope == pytest.approx(
        -2 * stats.norm.pdf(0.3), abs=1e-5
    )  # the nodes move with the kink
    even = averaged(
        lambda z: jnp.sign(z - kinks), one_number(SHIFTS, Fineness(), heavy=False)
    )
    assert np.max(np.abs(even - (1 - 2 * ndtr(kinks)))) > 1e-2  # control


def at_kink(kink):
    nodes = one_number(
        SHIFTS[:1], Fineness(), heavy=False, kinks=jnp.full((1, 1), kink)
    )
    return jax.vmap(nodes.place)(*nodes.terms)


@pytest.mark.parametrize("kinks", [None, np.full((1, 64), 0.7)])
def test_heavy_tails_are_reached(kinks):
    law = Quantile(stats.t(1.1).ppf)
    exact = (
        2
        * integrate.quad(
            lambda u: stats.t(1.1).isf(np.exp(-u)) * np.exp(-u),
            np.log(2),
            600,
            limit=500,
        )[0]
    )
    nodes = one_number(SHIFTS, Fineness(step=0.2), heavy=True, kinks=kinks)
    found = averaged(lambda z: jnp.abs(law.from_normal(z)), nodes)
    np.testing.assert_allclose(found.mean(), exact, rtol=1e-3)
    short = one_number(SHIFTS, Fineness(step=0.2), heavy=False)
    assert (
        np.mean(averaged(lambda z: jnp.abs(law.from_normal(z)), short)) < 0.97 * exact
    )  # control


def test_lattices_are_right_on_average():
    shifts = random_shifts(4096, 3, seed=0)
    nodes = several_numbers(shifts, Fineness())
    values, weights = jax.vmap(nodes.place)(*nodes.terms)
    share = jnp.sum(
        weights * jnp.all(values > jnp.array([0.2, -0.4, 1.0]), axis=-1), axis=0
    )
    exact = np.prod(ndtr([-0.2, 0.4, -1.0]))
    assert float(jnp.mean(share)) == pytest.approx(exact, rel=2e-3)
    spread = jnp.sum(
        weights[..., None, None] * values[..., None] * values[..., None, :], axis=0
    )
    np.testing.assert_allclose(jnp.mean(spread, axis=0), np.eye(3), atol=0.01)


START = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
ROOT = np.linalg.cholesky(np.block([[START.Q, START.R], [START.R.T, np.eye(2)]]))
READOUT = np.array([[1.0, 0.5], [-0.3, 0.8]])
TEACHER = np.array([[1.0, -0.4], [0.6, 1.0]])
DESCENT = {
    "absolute": np.sign,
    "huber": lambda d: np.clip(d, -0.5, 0.5),
    "log cosh": np.tanh,
}
LOSSES = {
    "absolute": "absolute",
    "huber": tu.losses.Huber(0.5),
    "log cosh": lambda output, label: jnp.sum(
        jnp.logaddexp(label - output, output - label)
    ),
}


def g(fields):
    return erf(fields / np.sqrt(2))


def slope(fields):
    return np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)


def one_step(descent, noise, samples=100_000, parts=20):
    """Mean and standard error of dR, dQ and dv of one step, by NumPy:

    two outputs, rate 1.
    """
    rng = np.random.default_rng(0)
    found = []
    for _ in range(parts):
        z = rng.standard_normal((samples // parts, 4)) @ ROOT.T
        student = z[:, :2]
        teacher = z[:, 2:]
        label = g(teacher) @ TEACHER.T + noise * rng.standard_normal((len(z), 2))
        psi = descent(label - g(student) @ READOUT.T)
        delta = (psi @ READOUT) * slope(student)
        half = delta.T @ student
        steps = delta.T @ teacher, half + half.T + delta.T @ delta, psi.T @ g(student)
        found.append(np.concatenate([step.ravel() for step in steps]) / len(z))
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(parts)


@eqx.filter_jit
def _drift(system, state):
    return system.drift(0.0, state)


def drift(problem, start, moments):
    """dR, dQ and dv by the theory."""
    state, t = initial_overlaps(problem, start)
    found = _drift(OrderParameters(as_arrays(problem), t, moments=moments), state)
    return np.concatenate([np.ravel(x) for x in (found.r, found.q, found.readout)])


def with_estimate(problem, start, points=2**13):
    """The drift over a sampled set, and the bound of its error by the scramblings."""
    moments = moments_for(problem, None, Sampled(points))
    return drift(problem, start, moments), confidence(
        [drift(problem, start, part) for part in moments.scramblings()]
    )


@pytest.mark.parametrize(
    "name",
    [
        "huber",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("absolute", "log cosh")
        ),
    ],
)
def test_noise_on_several_outputs(name):
    """Two points per output, which have the mean and the covariance, give numbers that are off by tens of standard errors."""
    student = tu.Network(2, "erf", outputs=2, readout=READOUT, train_readout=True)
    teacher = tu.Network(2, "erf", outputs=2, readout=TEACHER)
    problem = tu.Problem(
        student, teacher, loss=LOSSES[name], noise=1.0, optimizer=tu.SGD(1.0)
    )
    found, doubt = with_estimate(problem, START, 2**11)
    mean, error = one_step(DESCENT[name], 1.0)
    assert np.all(np.abs(found - mean) < 4.5 * error + doubt)
    noisier, _ = one_step(DESCENT[name], 1.3)  # control
    assert np.any(np.abs(found - noisier) > 4.5 * error + doubt)


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("absolute", 0.01),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (("absolute", 0.003), ("huber", 0.03))
        ),
    ],
)
def test_the_force_near_the_teacher(name, distance):
    """Even nodes of the noise make the sign of the error a staircase, and the force 2 to 20 times too large."""
    sigma = 0.5
    delta = 0.03
    x = np.random.default_rng(0).standard_normal((100_000, 4))
    student = x[:, :2] + distance * x[:, 2:]
    gap = g(x[:, :2]).sum(axis=1) - g(student).sum(axis=1)
    if name == "absolute":
        psi = 2 * ndtr(gap / sigma) - 1
    else:
        low = (-delta - gap) / sigma
        high = (delta - gap) / sigma
        inside = gap * (ndtr(high) - ndtr(low)) + sigma * (
            stats.norm.pdf(low) - stats.norm.pdf(high)
        )
        psi = delta * (ndtr(-high) - ndtr(low)) + inside
    exact = np.mean(psi * slope(student[:, 0]) * x[:, 2] * distance)
    loss = "absolute" if name == "absolute" else tu.losses.Huber(delta)
    unit = tu.Network(2, "erf")
    problem = tu.Problem(unit, unit, loss=loss, noise=sigma, optimizer=tu.SGD(1e-9))
    start = tu.Start(np.eye(2), np.eye(2) * (1 + distance**2))
    found = drift(problem, start, moments_for(problem, None, Sampled(2**13)))
    force = (found[4] / 2 - found[0]) / 1e-9
    assert force == pytest.approx(exact, rel=0.015)


def test_a_rare_event_of_the_label_happens():
    """With probability .0006 the label is 40 times as large:

    against the weighted sum of both labels.
    """

    def rare(rho, xi):
        return jnp.where(xi < 6e-4, -40.0, 1.0) * jnp.tanh(rho[0] + rho[1])

    unit = tu.Network(2, "erf")
    problem = tu.Problem(unit, unit, labels=rare, optimizer=tu.SGD(1.0))
    found, doubt = with_estimate(problem, START)
    z = np.random.default_rng(0).standard_normal((200_000, 4)) @ ROOT.T
    exact = np.zeros(8)
    for share, factor in ((6e-4, -40.0), (1 - 6e-4, 1.0)):
        error = factor * np.tanh(z[:, 2:].sum(axis=1)) - g(z[:, :2]).sum(axis=1)
        delta = error[:, None] * slope(z[:, :2])
        half = delta.T @ z[:, :2]
        parts = delta.T @ z[:, 2:], half + half.T + delta.T @ delta
        exact += share * np.concatenate([part.ravel() for part in parts]) / len(z)
    np.testing.assert_allclose(found[:8], exact, rtol=0.025, atol=doubt.max())
    assert exact[4] > 3 * 0.069  # control: without the rare event dQ is .069


def test_labels_that_read_xi_are_random():
    """Whether a label reads xi is not found out by a few values of xi."""
    rare = tu.labels.Function(lambda rho, xi: jnp.where(xi < 1e-9, -rho[0], rho[0]))
    never = tu.labels.Function(lambda rho, xi: rho[0] ** 2)
    assert rare.for_fields(1).random
    assert not never.for_fields(1).random


def test_the_parts_of_an_estimate_have_their_own_noise():
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), loss="absolute", noise=0.5
    )
    shifts = [part.shifts for part in moments_for(problem).scramblings()]
    assert len({float(part[0, 0]) for part in shifts}) == len(shifts)
    assert all(np.unique(part).size == part.size for part in shifts)


def pinball(output, label):
    return jnp.maximum(0.8 * (label - output), 0.2 * (output - label))


def insensitive(output, label):
    return jnp.maximum(jnp.abs(label - output) - 0.2, 0.0)


def force_near_the_teacher(loss, distance, sigma=0.5):
    """The restoring force on a unit of a committee of two, by the theory, divided by the rate."""
    unit = tu.Network(2, "erf")
    problem = tu.Problem(unit, unit, loss=loss, noise=sigma, optimizer=tu.SGD(1e-9))
    start = tu.Start(np.eye(2), np.eye(2) * (1 + distance**2))
    found = drift(problem, start, moments_for(problem, None, Sampled(2**13)))
    return (found[4] / 2 - found[0]) / 1e-9


@pytest.mark.parametrize(
    "distance", [0.01, pytest.param(0.003, marks=pytest.mark.full)]
)
def test_kinks_of_a_custom_loss_are_found(distance):
    """Nodes that do not respect the kink of a custom loss give a noisy force, off by 1 to 4%."""
    named = force_near_the_teacher("absolute", distance)
    custom = force_near_the_teacher(
        lambda output, label: jnp.abs(label - output), distance
    )
    assert custom == pytest.approx(named, rel=1e-6)
    unknown = tu.losses.Function(
        lambda output, label: jnp.abs(label - output) * (1 + 1e-7 * label**2)
    )
    control = force_near_the_teacher(unknown, distance)
    assert control != pytest.approx(named, rel=1e-3)


@pytest.mark.full
def test_the_force_of_an_insensitive_loss():
    """Against the closed average over the noise: P(error > .2) - P(error < -.2)."""
    distance = 0.01
    x = np.random.default_rng(0).standard_normal((100_000, 4))
    student = x[:, :2] + distance * x[:, 2:]
    gap = g(x[:, :2]).sum(axis=1) - g(student).sum(axis=1)
    psi = ndtr((gap - 0.2) / 0.5) - ndtr((-gap - 0.2) / 0.5)
    exact = np.mean(psi * slope(student[:, 0]) * x[:, 2] * distance)
    assert force_near_the_teacher(insensitive, distance) == pytest.approx(
        exact, rel=0.01
    )


@pytest.mark.parametrize(
    ("function", "outputs", "kinks"),
    [
        (insensitive, 1, (-0.2, 0.2)),
        (pinball, 1, (0.0,)),
        (lambda output, label: jnp.log(jnp.cosh(label - output)), 1, ()),
        (
            lambda output, label: jnp.sum(
                jnp.abs(label - output) * jnp.array([1.0, 2.0])
            ),
            2,
            (0.0,),
        ),
        (lambda output, label: jnp.abs(label - output) / (1 + label**2), 1, None),
        (lambda output, label: jnp.maximum(0.0, 1.0 - output * label), 1, None),
        (
            lambda output, label: jnp.sqrt(1e-3 + jnp.sum((label - output) ** 2)),
            2,
            None,
        ),
    ],
)
def test_kinks_in_label_minus_output(function, outputs, kinks):
    """None: the loss is no sum of functions of label - output."""
    found = losses._kinks_of_difference(function, outputs)
    assert (found is None) == (kinks is None)
    if kinks is not None:
        np.testing.assert_allclose(found, kinks, atol=1e-9)


def test_scatter_of_networks_needs_a_fourth_moment():
    """Steps of Q are squares of errors:

    their variance is infinite for t(3), whatever a finite set of draws shows.
    """
    unit = tu.Network(1, "erf")
    for degrees in (3, 4):
        problem = tu.Problem(unit, unit, noise=stats.t(degrees).ppf)
        with pytest.raises(tu.InputError, match="infinite fourth moment"):
            tu.analysis.fluctuations(
                problem, tu.Start([[0.3]], [[0.5]]), times=[0, 1.0], dim=100
            )
    for law, loss in (
        (stats.t(5), "squared"),
        (stats.t(3), "huber"),
        (stats.lognorm(1), "squared"),
    ):
        problem = tu.Problem(unit, unit, noise=law.ppf, loss=loss)
        assert not missing_traits(problem, ("finite scatter",))


def test_a_custom_loss_without_bound_needs_a_variance():
    """An asymmetric squared loss, whose derivative grows as that of squared loss does."""
    unit = tu.Network(1, "erf")
    steep = tu.Problem(
        unit,
        unit,
        noise=stats.t(2).ppf,
        loss=lambda output, label: (
            jnp.where(label > output, 2, 1) * (label - output) ** 2
        ),
    )
    with pytest.raises(tu.InputError, match="infinite variance"):
        tu.solve(steep, tu.Start([[0.3]], [[0.5]]), [0, 0.1])
    assert losses.has_bounded_slope(
        tu.losses.Function(lambda o, y: jnp.logaddexp(o - y, y - o))
    )
