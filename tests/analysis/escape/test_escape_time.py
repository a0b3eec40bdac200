"""When a plateau is left:

the prediction from the growing modes against the solved curve.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair, symmetric_overlaps
from tutelage.analysis.escapes import assigned_teachers, last_fall, plateau_path

COUNT = 1001  # recorded times of every solve: one program per shape


def tilted(K, asymmetry, seed=1):
    """All units alike, but for an asymmetry of R of this largest entry."""
    A = np.random.default_rng(seed).standard_normal((K, K))
    return tu.Start(0.1 + asymmetry * A / np.abs(A).max(), 0.2 * np.eye(K) + 0.05)


def solved(problem, start, found, gradient_flow=False):
    """The solved curve, and when it falls below the threshold of the prediction."""
    curve = tu.solve(
        problem,
        start,
        tu.linear_times(1.5 * found.time, COUNT),
        gradient_flow=gradient_flow,
    )
    return curve, last_fall(curve.times, curve.error, found.threshold)


QUICK = [(2, 0.5, 1e-1), (2, 0.5, 1e-5), (2, 0.05, 1e-4), (3, 0.5, 1e-1)]
LONG = [
    (K, lr, a)
    for K in (2, 3)
    for lr in (0.5, 0.05)
    for a in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
    if (K, lr, a) not in QUICK
]


@pytest.mark.parametrize(
    ("K", "lr", "asymmetry"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.full) for case in LONG)],
)
def test_the_predicted_time_is_that_of_the_solved_curve(K, lr, asymmetry):
    """Asked is 5%; found is within 0.5%, over four decades of asymmetry."""
    problem = pair(K, K, lr=lr)
    start = tilted(K, asymmetry)
    found = tu.analysis.escape_time(problem, start)
    curve, time = solved(problem, start, found)
    assert found.time == pytest.approx(time, rel=0.01)
    assert found.threshold == pytest.approx(found.plateau.error / 2)
    assert found.teachers == tuple(assigned_teachers(problem, curve.R[-1], curve.T))
    here = (found.times > found.time / 10) & (
        found.times < found.time
    )  # earlier the solved curve is recorded too coarsely
    np.testing.assert_allclose(
        found.errors[here],
        np.interp(found.times[here], curve.times, curve.error),
        rtol=0.15,
    )


@pytest.mark.full
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("asymmetry", [1e-1, 1e-3, 1e-5])
def test_the_predicted_time_of_gradient_flow(K, asymmetry):
    problem = pair(K, K, lr=0.2)
    start = tilted(K, asymmetry)
    found = tu.analysis.escape_time(problem, start, gradient_flow=True)
    assert found.time == pytest.approx(
        solved(problem, start, found, gradient_flow=True)[1], rel=0.01
    )


@pytest.mark.full
@pytest.mark.parametrize("lr", [1.0, 1.5])
def test_several_rates_of_growth(lr):
    """Three units at large rates: six growing modes with two different rates."""
    problem = pair(3, 3, lr=lr)
    start = tilted(3, 1e-3)
    found = tu.analysis.escape_time(problem, start)
    assert len({round(mode.rate, 9) for mode in found.plateau.unstable}) == (
        2 if lr == 1.5 else 1
    )
    assert found.time == pytest.approx(solved(problem, start, found)[1], rel=0.01)


@pytest.mark.full
@pytest.mark.parametrize(
    "problem",
    [
        pair(3, 2),
        pair(2, 3),
        pair(2, 2, noise=0.3, batch=4, weight_decay=0.01),
        pair(2, 2, momentum=0.5, lr=0.2),
        pair(2, 2, student={"train_readout": True}),
        pair(
            2, 2, student={"readout": [1.0, 2.0]}, teacher={"gram": np.eye(2)}
        ),  # only teachers are exchanged
        pair(2, 2, "relu", lr=0.3),
        pair(
            3,
            2,
            "quadratic",
            lr=0.02,
            student={"readout": 1 / 3},
            teacher={"readout": 1 / 2},
        ),
    ],
    ids=lambda p: f"{p.student}{p.optimizer}",
)
def test_other_problems(problem):
    start = tu.random_start(problem, dim=1000, scale=0.3, seed=3)
    found = tu.analysis.escape_time(problem, start)
    assert found.time == pytest.approx(solved(problem, start, found)[1], rel=0.01)


@pytest.mark.full
def test_random_weights_bring_teachers_of_their_own():
    problem = pair(2, 2)
    start = tu.random_start(problem, dim=1000, seed=3)
    found = tu.analysis.escape_time(problem, start)
    np.testing.assert_allclose(found.plateau.T, start.T)
    assert found.time == pytest.approx(solved(problem, start, found)[1], rel=0.01)


def test_label_noise_raises_the_threshold():
    """To the geometric mean with the error in the end."""
    problem = pair(2, 2, noise=0.4)
    start = tilted(2, 1e-3)
    found = tu.analysis.escape_time(problem, start)
    assert found.threshold > 0.55 * found.plateau.error
    curve, time = solved(problem, start, found)
    assert found.threshold == pytest.approx(
        np.sqrt(found.plateau.error * curve.error[-1]), rel=0.02
    )
    assert found.time == pytest.approx(time, rel=0.01)


@pytest.mark.full
def test_a_spectrum_of_two_levels():
    problem = pair(2, 2, inputs=tu.Spectrum([0.5, 1.5], [0.5, 0.5]))
    start = tilted(2, 1e-3)
    found = tu.analysis.escape_time(problem, start)
    assert found.time == pytest.approx(solved(problem, start, found)[1], rel=0.01)
    alone = tu.analysis.escape_time(pair(2, 2), start)
    assert abs(alone.time / found.time - 1) > 0.1  # the levels do matter


def on_the_plateau(asymmetry):
    """A published plateau (K = M = 2, lr 0.5), tilted."""
    R, Q = symmetric_overlaps(2, 0.414394, 0.414394, 0.367720, 0.325386)
    return tu.Start(R + asymmetry * np.array([[1.0, -1.0], [-1.0, 1.0]]), Q)


def test_the_asymmetry_grows_at_the_rate_of_the_jacobian():
    """0.031618 is the published rate; growth is measured on the solved curve as well."""
    problem = pair(2, 2)
    start = on_the_plateau(1e-6)
    found = tu.analysis.escape_time(problem, start)
    assert found.rate == pytest.approx(0.031618, rel=1e-4)
    assert found.slope * found.rate == pytest.approx(1, rel=1e-3)
    curve, _ = solved(problem, start, found)
    spread = curve.R[:, 0, 0] - curve.R[:, 0, 1]
    window = (spread > 1e-5) & (spread < 1e-3)
    assert np.polyfit(curve.times[window], np.log(spread[window]), 1)[
        0
    ] == pytest.approx(found.rate, rel=0.01)


def test_an_e_th_of_the_asymmetry_escapes_one_over_the_rate_later():
    problem = pair(2, 2)
    near, far = (
        tu.analysis.escape_time(problem, on_the_plateau(a)) for a in (1e-4, 1e-6)
    )
    assert (far.time - near.time) / np.log(100) == pytest.approx(
        1 / near.rate, rel=2e-3
    )
    assert near.scaled(0.01) == pytest.approx(far.time, rel=1e-3)
    assert near.amplitude / far.amplitude == pytest.approx(100, rel=0.01)
    assert near.constant == pytest.approx(far.constant, rel=0.01)
    assert near.per_log_dim == pytest.approx(1 / (2 * near.rate))


def test_far_from_rest_the_slope_is_that_of_the_way_and_not_of_the_plateau():
    """q_ii - q_ij of this start is far from its plateau and relaxes ten times slower than the asymmetry grows."""
    problem = pair(2, 2, lr=0.05)
    near, far = (tu.analysis.escape_time(problem, tilted(2, a)) for a in (1e-3, 0.9e-3))
    assert (far.time - near.time) / np.log(1 / 0.9) == pytest.approx(
        near.slope, rel=0.01
    )
    assert near.slope > 1.04 / near.rate


def test_what_will_grow_is_told_by_the_adjoint_at_every_moment():
    """Second route:

    the difference of two solved curves, projected at later moments, gives the same
    amplitude.
    """
    problem = pair(2, 2)
    start = tilted(2, 1e-7)
    path = plateau_path(problem, start)
    b = path.amplitudes(path.start)
    moments = [0, 60, 110, 150, 180]
    rest = tu.linear_times(path.times[180], COUNT - 3)[1:-1]
    curve = tu.solve(
        problem, start, np.sort(np.concatenate([rest, path.times[moments]]))
    )
    at = np.searchsorted(curve.times, path.times[moments])
    upper = np.triu_indices(2)
    vectors = np.array(
        [
            [*R.ravel(), *Q[upper], 1, 1]
            for R, Q in zip(curve.R[at], curve.Q[at], strict=True)
        ]
    )
    deviations = vectors - path.path[moments]
    found = np.einsum("mnd,mn->md", path.left[moments], deviations)
    np.testing.assert_allclose(found, np.broadcast_to(b, found.shape), rtol=2e-3)
    late = deviations[-1] / np.linalg.norm(deviations[-1])
    carried = path.right[moments[-1]] @ b
    np.testing.assert_allclose(carried / np.linalg.norm(carried), late, atol=5e-3)
    wrong = np.einsum(
        "mnd,mn->md", path.left[[0] * 5], deviations
    )  # the projection of the start, not carried
    assert abs(wrong[-1, 0] / b[0] - 1) > 0.5


def test_the_report_and_the_figure():
    found = tu.analysis.escape_time(pair(2, 2), tilted(2, 1e-3))
    text = str(found)
    assert f"escape at alpha = {found.time:.5g}" in text
    assert "exp(0.031618 alpha)" in text
    assert "ln N later" in text
    figure = found.plot()
    upper, lower = figure.axes
    assert "generalization" in upper.get_ylabel()
    assert "steps" in lower.get_xlabel()
    assert lower.get_yscale() == "log"
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("problem", "start", "words"),
    [
        (pair(1, 1), tu.Start([[0.1]], [[0.1]]), "no plateau to escape from"),
        (pair(2, 2), tilted(2, 0.0), "exactly identical"),
        (
            pair(2, 2),
            tu.Start([[0.1, 0.2], [0.1, 0.2]], np.eye(2)),
            "does not grow on the plateau",
        ),
        (pair(2, 2), tu.Start(0.6 * np.eye(2), np.eye(2)), "must be below 0.25"),
        (
            pair(2, 2, lr=tu.schedules.PowerDecay(0.5, 1.0)),
            tilted(2, 1e-3),
            "lr is a schedule",
        ),
        (pair(2, 2, momentum=tu.SlowMomentum(1.0)), tilted(2, 1e-3), "SlowMomentum"),
        (pair(2, 2, trainable=[0]), tilted(2, 1e-3), "frozen"),
        (pair(2, 2), np.eye(2), "start is of type ndarray"),
        ("problem", tilted(2, 1e-3), "problem is of type str"),
    ],
    ids=range(9),
)
def test_what_cannot_be_answered_is_refused(problem, start, words):
    with pytest.raises(tu.InputError, match=words) as refusal:
        tu.analysis.escape_time(problem, start)
    assert "\n" not in str(refusal.value)


@pytest.mark.full
def test_a_stable_symmetric_state_is_refused():
    """Linear units share the work for ever."""
    with pytest.raises(tu.InputError, match="stable"):
        tu.analysis.escape_time(pair(2, 2, "linear", lr=0.3), tilted(2, 1e-3))
