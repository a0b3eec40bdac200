"""Analyses with the optimizers that people use, next to runs and to solved curves."""

import numpy as np
import pytest

import tutelage as tu
from tutelage.stream import initial_overlaps
from tutelage.stream.order_parameters import flatten, unflatten

o = tu.optimizers
ERF = tu.Network(2)
ONE = tu.Network(1)
START = tu.Start(R=[[0.3, 0.05], [0.0, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
SYMMETRIC = tu.Start(
    R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000
)
analysis = tu.analysis


def problem_of(
    optimizer: tu.optimizers.Optimizer, network=ERF, **changes
) -> tu.Problem:
    return tu.Problem(network, network, optimizer=optimizer, **changes)


@pytest.mark.parametrize(
    "optimizer", [o.RMSprop(0.3), o.Adam(0.3), o.AdaGrad(0.3, norm=True)], ids=repr
)
def test_scales_are_flat_coordinates(optimizer):
    problem = problem_of(optimizer, inputs=tu.Spectrum([2.0, 0.5], [0.5, 0.5]))
    state, _ = initial_overlaps(problem, START)
    vector = np.arange(flatten(state).size, dtype=float)
    assert np.array_equal(flatten(unflatten(vector, state)), vector)
    stacked = np.stack([vector, -vector])
    assert np.array_equal(flatten(unflatten(stacked, state)), stacked)


REFUSED = [
    (analysis.fixed_point, o.AdaGrad(0.3), "scale of AdaGrad.* grows without end"),
    (analysis.fixed_point, o.SignSGD(0.3), "updates jump, and averages of SignSGD"),
    (analysis.critical_learning_rate, o.Adam(0.3), "optimizer is Adam"),
    (analysis.noise_floor, o.Muon(0.3, 2), "optimizer is Muon"),
    (analysis.best_constant_rate, o.RMSprop(0.3), "optimizer is RMSprop"),
    (analysis.decay_rate, o.SignSGD(0.3, 4), "optimizer is SignSGD"),
]


@pytest.mark.parametrize(("function", "optimizer", "message"), REFUSED)
def test_an_analysis_without_a_result_says_why(function, optimizer, message):
    with pytest.raises(tu.InputError, match=message):
        function(problem_of(optimizer))


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (o.AdaGrad(0.3), "grows without end"),
        (o.Adam(0.3), "bias correction of Adam"),
        (o.SignSGD(0.3), "updates jump"),
    ],
)
def test_an_escape_needs_steady_steps(optimizer, message):
    with pytest.raises(tu.InputError, match=message):
        analysis.escape_time(problem_of(optimizer), SYMMETRIC)
    with pytest.raises(tu.InputError, match=message):
        analysis.escape_distribution(problem_of(optimizer), SYMMETRIC, samples=2)


def test_batches_of_a_rule_that_jumps_have_no_fixed_point():
    unit = tu.Network(1, "linear")
    problem = problem_of(o.SignSGD(0.3, 2), unit, labels="sign", rule="perceptron")
    with pytest.raises(tu.InputError, match="updates jump, and averages of SignSGD"):
        analysis.fixed_point(problem, tu.Start(R=[[0.2]], Q=[[0.5]]))


def test_muon_has_no_fixed_point_of_equal_units():
    """Its step takes all singular values to one, also one that is about to vanish."""
    with pytest.raises(tu.InputError, match=r"steps of Muon.* jump where units are"):
        analysis.fixed_point(problem_of(o.Muon(0.3, 4)))


def test_near_perfect_learning_needs_plain_sgd():
    with pytest.raises(tu.InputError, match=r"near .perfect. .* optimizer is RMSprop"):
        analysis.fixed_point(problem_of(o.RMSprop(0.3)), "perfect")


@pytest.mark.parametrize(
    ("optimizer", "network", "message"),
    [
        (o.Muon(0.3, 2), ERF, "Muon.* is not a sum over its samples"),
        (o.SignSGD(0.3), ONE, "SignSGD.* is not a sum over its samples"),
        (o.SGD(0.3, clip_coordinates=1.0), ONE, "SGD.* is not a sum"),
        (o.Adam(0.3), tu.Network(1, train_readout=True), "readout or .* by Adam"),
    ],
)
def test_scatter_needs_sums_of_samples(optimizer, network, message):
    problem = tu.Problem(network, ERF, optimizer=optimizer)
    with pytest.raises(tu.InputError, match=message):
        analysis.fluctuations(problem, START, 1.0, 100)


def relative_scatter(optimizer, bars_of, network, start, dim, runs, **changes):
    """Standard deviations of R and Q over runs, divided by those of the theory."""
    times = [0.0, 1.0, 3.0]
    problem = problem_of(optimizer, network, noise=0.2, **changes)
    found = tu.simulate(
        problem, start, dim=dim, times=times, runs=runs, method="weights", seed=3
    )
    bars = analysis.fluctuations(
        problem.replace(optimizer=bars_of), start, times, dim, points=2**10
    )
    ratios = []
    for name in ("R", "Q"):
        scatter = np.asarray(found.variables[name]).std(axis=0, ddof=1)
        ratios.append((scatter[1:] / bars.sd(name)[1:]).ravel())
    return np.concatenate(ratios)


def test_scatter_of_rmsprop_and_a_control():
    start = tu.Start(R=[[0.2]], Q=[[0.5]])
    rms = o.RMSprop(0.3, memory=0.5, initial_scale=0.3)
    runs = 300
    allowed = 4.5 / np.sqrt(2 * runs)
    options = {"network": ONE, "start": start, "dim": 200, "runs": runs}
    ratios = relative_scatter(rms, rms, **options)
    assert np.all(np.abs(ratios - 1) < allowed)
    # plain SGD at the same rate has other error bars
    ratios = relative_scatter(rms, o.SGD(0.3), **options)
    assert np.all(np.abs(ratios - 1) > allowed)


@pytest.mark.full
@pytest.mark.parametrize(
    "optimizer",
    [
        o.RMSprop(0.3, memory=0.3, batch=3),
        o.Adam(0.3),
        o.AdaGrad(0.3, initial_scale=0.1),
        o.AdaGrad(0.6, norm=True, initial_scale=0.1),
        o.SGD(1.0, clip=0.4),
    ],
    ids=repr,
)
def test_scatter_of_runs(optimizer):
    runs = 400
    ratios = relative_scatter(optimizer, optimizer, ERF, START, 500, runs)
    assert np.all(np.abs(ratios - 1) < 4.5 / np.sqrt(2 * runs))


@pytest.mark.full
def test_scatter_of_runs_with_two_levels():
    runs = 400
    levels = tu.Spectrum([1.6, 0.4], [0.5, 0.5])
    rms = o.RMSprop(0.3, memory=0.5)
    ratios = relative_scatter(rms, rms, ERF, START, 500, runs, inputs=levels)
    assert np.all(np.abs(ratios - 1) < 4.5 / np.sqrt(2 * runs))


@pytest.mark.full
def test_the_plateau_of_rmsprop_is_left_as_its_modes_say():
    """The solved curve grows at the predicted rate and escapes at the predicted time."""
    problem = problem_of(o.RMSprop(0.05))
    plateau = analysis.fixed_point(problem)
    escape = analysis.escape_time(problem, SYMMETRIC)
    turn = 1e-4 * np.array([[1, -1], [-1, 1]])
    nearby = tu.Start(R=plateau.R + turn, Q=plateau.Q)
    small = tu.solve(problem, nearby, [0.0, 20.0, 60.0])
    asymmetry = small.R[:, 0, 0] - small.R[:, 0, 1]
    rate = np.log(asymmetry[2] / asymmetry[1]) / 40.0
    assert rate == pytest.approx(plateau.unstable[0].growth, rel=0.02)
    theory = tu.solve(problem, SYMMETRIC, np.linspace(0.0, 200.0, 801))
    crossed = theory.times[np.argmax(theory.error < escape.threshold)]
    assert escape.time == pytest.approx(crossed, rel=0.01)
    slow = analysis.fixed_point(problem.replace(lr=0.04)).unstable[0].growth
    assert abs(rate / slow - 1) > 0.1  # the plateau of another rate is left otherwise


@pytest.mark.full
def test_adam_has_the_plateau_of_rmsprop():
    """Their equations differ by the bias correction, which ends."""
    of_rmsprop = analysis.fixed_point(problem_of(o.RMSprop(0.05)))
    of_adam = analysis.fixed_point(problem_of(o.Adam(0.05)))
    np.testing.assert_allclose(of_adam.Q, of_rmsprop.Q, rtol=1e-9)
    assert of_adam.unstable[0].growth == pytest.approx(of_rmsprop.unstable[0].growth)


@pytest.mark.full
def test_the_noise_floor_of_rmsprop_is_a_fixed_point():
    problem = problem_of(o.RMSprop(0.2), ONE, noise=0.3)
    late = tu.solve(problem, tu.Start(R=[[0.2]], Q=[[0.5]]), [0.0, 300.0])
    near = tu.Start(R=late.R[-1] * 1.02, Q=late.Q[-1] * 1.03)
    floor = analysis.fixed_point(problem, near)
    assert floor.stable
    assert floor.error == pytest.approx(late.error[-1], rel=1e-6)


@pytest.mark.full
def test_a_plateau_of_sampled_averages():
    """Its growth is that of a solved curve.

    A finite set of points is not symmetric in the units: the residual shows by how much.
    """
    problem = problem_of(o.SignSGD(0.1, 4))
    plateau = analysis.fixed_point(problem)
    assert plateau.residual < 1e-3
    nearby = tu.Start(R=plateau.R + 2e-2 * np.array([[1, -1], [-1, 1]]), Q=plateau.Q)
    theory = tu.solve(problem, nearby, [0.0, 2.0, 4.0], accuracy=None)
    asymmetry = theory.R[:, 0, 0] - theory.R[:, 0, 1]
    rate = np.log(asymmetry[2] / asymmetry[1]) / 2.0
    assert rate == pytest.approx(plateau.unstable[0].growth, rel=0.1)


@pytest.mark.full
@pytest.mark.parametrize(
    "optimizer",
    [o.RMSprop(0.3), o.Adam(0.3), o.AdaGrad(0.3), o.SignSGD(0.3, 4), o.Muon(0.3, 4)],
    ids=repr,
)
def test_derivatives_by_the_learning_rate(optimizer):
    import jax

    problem = problem_of(optimizer)

    def last_error(lr):
        return tu.solve(problem.replace(lr=lr), START, [0.0, 1.0]).error[-1]

    slope = jax.grad(last_error)(0.3)
    step = 1e-3
    ends = tu.solve_batch(problem, {"lr": [0.3 - step, 0.3 + step]}, START, [0.0, 1.0])
    below, above = np.asarray(ends.error[:, -1])
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-3)


def test_the_noise_of_sign_sgd_has_a_slope_where_units_are_equal():
    import jax

    delta = np.array([[0.3, 0.3, -0.1], [0.2, 0.2, 0.5]])
    slope = jax.jacobian(lambda d: o.SignSGD(0.1, 2).step_covariance(d, np.ones(1)))
    assert np.all(np.isfinite(slope(delta)))
