"""Fixed points found by the verb:

published numbers, naive loops, long solves; and what their modes do.
"""

import warnings
from math import asin, pi, sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy.optimize import minimize_scalar

import tutelage as tu
from tests import naive
from tests.problems import pair, symmetric_overlaps
from tutelage.analysis.fixed_points import mode_name
from tutelage.plot import plot_fixed_point
from tutelage.stream.linearized import flatten, unflatten


def plateau(K, activation="erf", gradient_flow=False, **options):
    return tu.analysis.fixed_point(
        pair(K, K, activation, **options), gradient_flow=gradient_flow
    )


def naive_drift(point, flow=False):
    """dR and dQ at a fixed point of isotropic inputs and equal readouts, by loops."""
    problem = point.problem
    K = point.R.shape[0]
    C = np.block([[point.Q, point.R], [point.R.T, point.T]]).tolist()
    w = [*(-point.state.readout), *np.asarray(problem.teacher.readout)]
    pull, error = naive.averages(naive.Erf, C, w, K)
    lr = float(problem.optimizer.lr)
    v = point.state.readout
    dR = (
        lr * v[:, None] * pull[:, K:]
        - lr * float(problem.optimizer.weight_decay) * point.R
    )
    dQ = (
        lr * v[:, None] * pull[:, :K]
        - lr * float(problem.optimizer.weight_decay) * point.Q
    )
    G = 0 if flow else naive.spread(naive.Erf, C, w, K, float(problem.noise))
    return dR, dQ + dQ.T + lr**2 * v[:, None] * v * G, error


@pytest.mark.parametrize("K", [2, 3])
def test_plateau_of_gradient_flow_and_its_escape(K):
    point = plateau(K, gradient_flow=True)
    np.testing.assert_allclose(point.Q, 1 / (2 * K - 1), atol=1e-13)
    np.testing.assert_allclose(point.R, 1 / sqrt(K * (2 * K - 1)), atol=1e-13)
    assert point.error == pytest.approx(
        K / pi * (pi / 6 - K * asin(1 / (2 * K))), abs=1e-14
    )
    (escape, *others) = point.unstable
    assert escape.rate == pytest.approx(
        2 * K * 0.5 / (pi * sqrt(2 * K - 1) * (2 * K + 1) ** 1.5), rel=1e-11
    )
    assert escape.multiplicity == len(others) + 1 == (K - 1) ** 2
    assert escape.name.startswith(
        "breaks the symmetry between student units: each turns to different teacher units"
    )


def test_plateau_at_finite_learning_rate():
    point = plateau(2)
    found = [
        f"{x:.6f}"
        for x in (point.R[0, 0], point.Q[0, 0], point.Q[0, 1], point.unstable[0].rate)
    ]
    assert found == ["0.414394", "0.367720", "0.325386", "0.031618"]
    assert f"{point.error:.8f}" == "0.01464485"
    assert point.residual < 1e-15
    assert not point.stable
    dR, dQ, error = naive_drift(point)
    np.testing.assert_allclose(dR, 0, atol=1e-15)
    np.testing.assert_allclose(dQ, 0, atol=1e-15)
    assert error == pytest.approx(point.error, rel=1e-12)
    flow = plateau(2, gradient_flow=True)
    assert (
        np.abs(naive_drift(flow)[1]).max() > 1e-3
    )  # the other question has another answer


def test_relu_plateau_of_gradient_flow():
    point = plateau(2, "relu", gradient_flow=True)
    assert f"{point.Q[0, 0]:.8f}" == f"{point.Q[0, 1]:.8f}" == "0.57064301"
    assert f"{point.R[0, 0]:.8f}" == "0.53415494"
    assert f"{point.error:.8f}" == "0.08851194"


def own_tanh(x):
    """Nobody says that this function is smooth."""
    return jnp.tanh(x)


def test_plateau_of_a_function_of_ones_own():
    """Copies of one student minimize the error over its length along the sum of the teachers: one dimension, by a grid."""
    point = plateau(2, own_tanh, gradient_flow=True)
    x, w = np.polynomial.hermite_e.hermegauss(150)
    a, b = np.meshgrid(x, x)
    weight = np.outer(w, w) / w.sum() ** 2

    def error(s):
        return (
            np.sum(
                weight
                * (np.tanh(a) + np.tanh(b) - 2 * np.tanh(s * (a + b) / sqrt(2))) ** 2
            )
            / 2
        )

    best = minimize_scalar(
        error, bounds=(0.1, 2), method="bounded", options={"xatol": 1e-12}
    )
    np.testing.assert_allclose(point.Q, best.x**2, atol=1e-6)
    np.testing.assert_allclose(point.R, best.x / sqrt(2), atol=1e-6)
    assert point.error == pytest.approx(best.fun, rel=1e-6)


def test_quadratic_plateau_its_growth_and_decay():
    """Readouts 1/p, 1/p*; a loss without the factor 1/2 at rate eta is ours at 2 eta."""
    p = 3
    p_teacher = 2
    eta = 0.01
    problem = pair(
        p,
        p_teacher,
        "quadratic",
        lr=2 * eta,
        student={"readout": 1 / p},
        teacher={"readout": 1 / p_teacher},
    )
    point = tu.analysis.fixed_point(problem, gradient_flow=True)
    np.testing.assert_allclose(point.Q, p / (p + 2) * np.eye(p), atol=1e-13)
    np.testing.assert_allclose(point.R, 0, atol=0)
    rates = {m.name: (m.rate / eta, m.multiplicity) for m in point.modes}
    assert rates["changes the overlaps of student units with teachers"] == (
        pytest.approx(8 / (p * p_teacher)),
        6,
    )
    inside = rates["decays outside the teachers' span"]
    assert inside == (
        pytest.approx(-16 / (p * (p + 2))),
        5,
    )  # three overlaps, two differences of norms
    assert "changes norms and overlaps of all student units equally" in rates


def test_plateau_on_a_power_law_against_a_long_symmetric_solve():
    """Teachers that overlap differently on each level; copies stay copies, so an ordinary solve stays on the plateau."""
    gram = np.array([[[1.0, c], [c, 1.0]] for c in (0.0, 0.3, 0.6)])
    problem = pair(2, 2, inputs=tu.PowerLaw(1.0, 3), teacher={"gram": gram})
    point = tu.analysis.fixed_point(problem, gradient_flow=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
        start = tu.Start(*symmetric_overlaps(2, 0.3, 0.3, 0.4, 0.4))
        out = tu.solve(problem, start, [0, 200], gradient_flow=True, rtol=1e-10)
    np.testing.assert_allclose(point.state.r, out.variables["r"][-1], atol=1e-8)
    np.testing.assert_allclose(point.state.q, out.variables["q"][-1], atol=1e-8)
    assert np.ptp(point.state.r[:, 0, 0]) > 0.05
    assert point.error == pytest.approx(out.error[-1], rel=1e-8)


def test_modes_are_the_eigenvectors_and_predict_a_solve():
    point = plateau(2)
    right, left = (
        np.array([getattr(m, side) for m in point.modes]) for side in ("right", "left")
    )
    np.testing.assert_allclose(left @ right.T, np.eye(len(point.modes)), atol=1e-12)
    assert all(
        isinstance(m.rate, float) and m.right.dtype == float for m in point.modes
    )
    assert list(point.modes) == sorted(point.modes, key=lambda m: -m.growth)
    at = np.asarray(flatten(point.state))
    size = 1e-4
    for i in (0, 3):
        moved = unflatten(jnp.asarray(at + size * right[i]), point.state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
            out = tu.solve(point.problem, tu.Start(moved.r[0], moved.q[0]), [0, 4])
        end = (
            np.concatenate(
                [out.R[-1].ravel(), out.Q[-1][np.triu_indices(2)], point.state.readout]
            )
            - at
        )
        grown = left @ end / size
        assert grown[i] == pytest.approx(np.exp(4 * point.modes[i].rate), rel=1e-3)
        np.testing.assert_allclose(np.delete(grown, i), 0, atol=1e-3)


def test_repeated_rates_have_real_vectors():
    point = plateau(3, gradient_flow=True)
    right, left = (
        np.array([getattr(m, side) for m in point.modes]) for side in ("right", "left")
    )
    np.testing.assert_allclose(left @ right.T, np.eye(15), atol=1e-12)
    assert right.dtype == left.dtype == float


VECTORS = {  # deviations of r (2 x 2), then of Q11, Q12, Q22, then of two readouts
    "breaks the symmetry between student units: each turns to different teacher units": [
        1,
        -1,
        -1,
        1,
        0,
        0,
        0,
        0,
        0,
    ],
    "breaks the symmetry between student units: some grow, some shrink": [
        1,
        1,
        -1,
        -1,
        0.3,
        0,
        -0.3,
        0,
        0,
    ],
    "turns all student units together toward some teacher units": [
        1,
        -1,
        1,
        -1,
        0,
        0,
        0,
        0,
        0,
    ],
    "changes norms and overlaps of all student units equally": [
        1,
        1,
        1,
        1,
        0.3,
        0.2,
        0.3,
        0,
        0,
    ],
    "changes readouts and biases alone": [0, 0, 0, 0, 0, 0, 0, 1, 1],
}


@pytest.mark.parametrize("name", VECTORS)
def test_names_are_measured(name):
    point = plateau(2)
    assert (
        mode_name(point.state, point.t, 1.0, np.array(VECTORS[name], float)[:, None])
        == name
    )


def test_names_do_not_depend_on_the_sign_of_a_teacher():
    """An odd teacher with readout -1 is its mirror image with readout 1."""
    names = [
        [
            m.name
            for m in tu.analysis.fixed_point(pair(2, 2, teacher={"readout": v})).modes
            if "turn" in m.name
        ]
        for v in ([1, 1], [1, -1])
    ]
    assert names[0] == names[1]
    assert len(names[0]) == 2


def test_names_at_the_perfect_solution_say_where_a_mode_lives():
    point = tu.analysis.fixed_point(pair(2, 2), "perfect")
    for m in point.modes:
        dr = m.right[:4].reshape(2, 2)
        dq = np.array([[m.right[4], m.right[5]], [m.right[5], m.right[6]]])
        leaves = np.abs(dq - dr - dr.T).max() > 1e-9
        assert leaves == ("outside the teachers' span" in m.name), m.name
    assert point.stable
    assert point.error == 0
    assert "Stable" in point.stability


@pytest.mark.parametrize("K", [2, 3])
def test_decay_at_the_perfect_solution(K):
    """Inside the teachers' span:

    eigenvalues of a 2 x 2 matrix, K times each, and for K >= 3 one more, K (K-2) times.
    """
    point = tu.analysis.fixed_point(pair(K, K, lr=1.0), "perfect", gradient_flow=True)
    inside = {m.rate: m.multiplicity for m in point.modes if "inside" in m.name}
    matrix = (
        2
        / pi
        * np.array(
            [[1 / (3 * sqrt(3)), (K - 1) / 4], [1 / 4, 1 / sqrt(3) + (K - 2) / 2]]
        )
    )
    expected = dict.fromkeys(np.linalg.eigvals(matrix), K)
    if K > 2:
        expected[2 / pi * (1 / sqrt(3) - 1 / 2)] = K * (K - 2)
    assert sum(inside.values()) == K * K
    for mu, count in expected.items():
        (found,) = [rate for rate in inside if abs(rate + mu) < 1e-9]
        assert inside[found] == count


def test_noisy_asymptotic_state_is_exact():
    point = tu.analysis.fixed_point(pair(2, 2, lr=0.3, noise=0.6), "perfect")
    dR, dQ, error = naive_drift(point)
    np.testing.assert_allclose(dR, 0, atol=1e-14)
    np.testing.assert_allclose(dQ, 0, atol=1e-14)
    assert error == pytest.approx(point.error, rel=1e-10)
    out = tu.solve(point.problem, tu.Start(0.9 * np.eye(2), np.eye(2)), [0, 1500])
    np.testing.assert_allclose(out.R[-1], point.R, atol=1e-7)
    assert out.error[-1] == pytest.approx(point.error, rel=1e-7)
    assert point.stable


def test_extra_units_stay_small_and_the_noisy_state_differs_from_linear_response_at_second_order():
    gaps = []
    for sigma in (0.1, 0.2):
        problem = pair(3, 2, lr=0.1, noise=sigma)
        point = tu.analysis.fixed_point(problem, "perfect")
        gaps.append(
            abs(point.error / sigma**2 - float(tu.analysis.noise_floor(problem)))
        )
        assert point.Q[2, 2] < sigma**2
    assert gaps[1] / gaps[0] == pytest.approx(4, rel=0.1)


def test_linear_network_with_ridge_is_its_closed_form():
    rho = 1.3
    kappa = 0.2
    eta = 0.7
    sigma = 0.4
    problem = pair(
        1,
        1,
        "linear",
        lr=eta,
        noise=sigma,
        weight_decay=kappa,
        teacher={"gram": [[rho]]},
    )
    V = (
        2
        * (1 + kappa)
        / (2 * (1 + kappa) - eta)
        * (rho * kappa**2 / (1 + kappa) ** 2 + sigma**2)
    )
    assert tu.analysis.fixed_point(problem, "perfect").error == pytest.approx(
        (V - sigma**2) / 2, rel=1e-12
    )


def test_strong_weight_decay_merges_the_perfect_solution_with_the_symmetric_one():
    point = tu.analysis.fixed_point(pair(2, 2, lr=0.3, weight_decay=0.5), "perfect")
    assert np.ptp(point.R) < 1e-9
    assert point.error == pytest.approx(0.0525090396, rel=1e-8)
    assert point.distance == pytest.approx(0.8663, rel=1e-3)
    assert point.is_far


def test_linear_units_move_along_flat_directions():
    K = 2
    eta = 0.2
    sigma = 0.3
    point = tu.analysis.fixed_point(
        pair(K, K, "linear", lr=eta, noise=sigma), "perfect"
    )
    assert point.error == pytest.approx(
        sigma**2 * eta * K / (4 - 2 * eta * K), rel=1e-9
    )
    assert sum(m.name == "moves along a flat direction" for m in point.modes) == 3
    assert "do not decay" in point.stability


def test_a_start_is_polished_and_a_far_root_is_said_to_be_far():
    known = plateau(2)
    point = tu.analysis.fixed_point(
        pair(2, 2), tu.Start(known.R + 0.01, known.Q + 0.02)
    )
    np.testing.assert_allclose(point.R, known.R, atol=1e-12)
    assert not point.is_far
    assert "FAR" not in str(point)
    far = tu.analysis.fixed_point(
        pair(2, 2), tu.Start(0.7 * np.eye(2), 0.8 * np.eye(2))
    )
    np.testing.assert_allclose(far.R, np.eye(2), atol=1e-12)
    assert far.is_far
    assert "FAR: an overlap changed by 0.3" in str(far)


def test_a_fixed_point_is_a_start_from_which_nothing_moves():
    point = plateau(2)
    again = tu.analysis.fixed_point(point.problem, point.start)
    assert again.distance < 1e-14
    assert again.error == pytest.approx(point.error, rel=1e-13)


def problem_with(**changes):
    return pair(2, 2).replace(**changes)


REFUSED = {
    "a schedule": (
        lambda: problem_with(lr=tu.schedules.PowerDecay(0.5)),
        "plateau",
        "lr is a schedule",
    ),
    "slow momentum": (
        lambda: problem_with(momentum=tu.SlowMomentum(1.0)),
        "plateau",
        "SlowMomentum",
    ),
    "held norms": (
        lambda: problem_with(spherical=True),
        "plateau",
        "spherical is True",
    ),
    "frozen levels": (lambda: pair(2, 2, trainable=[0]), "perfect", "give a Start"),
    "another place": (lambda: pair(2, 2), "plato", "nearest is 'plateau'"),
    "no problem": (lambda: 3, "plateau", "takes a tutelage Problem"),
    "no symmetry": (lambda: pair(1, 1), "plateau", "no two units"),
    "too few students": (
        lambda: pair(1, 2),
        "perfect",
        "1 student units cannot copy 2 teacher units",
    ),
    "two activations": (
        lambda: tu.Problem(tu.Network(2, "erf"), tu.Network(2, "linear")),
        "perfect",
        "only equal activations",
    ),
    "other readouts": (
        lambda: pair(2, 2, student={"readout": 0.7}),
        "perfect",
        "set them equal, or train them",
    ),
    "loud extra units": (
        lambda: pair(2, 1, "sigmoid"),
        "perfect",
        "no isolated perfect solution",
    ),
    "a kink": (lambda: pair(2, 2, "relu"), "perfect", "has a kink"),
    "above the critical rate": (
        lambda: pair(2, 2, lr=2.5, noise=0.1),
        "perfect",
        "perfect solution is lost",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    problem, near, message = REFUSED[case]
    with pytest.raises(tu.InputError, match=message) as caught:
        tu.analysis.fixed_point(problem(), near)
    assert "\n" not in str(caught.value)


def test_arguments_are_checked():
    with pytest.raises(
        tu.InputError, match="quadrature is 64; it must be a Quadrature"
    ):
        tu.analysis.fixed_point(pair(2, 2), quadrature=64)
    with pytest.raises(
        tu.InputError, match="gradient_flow is 1; it must be True or False"
    ):
        tu.analysis.fixed_point(pair(2, 2), gradient_flow=1)
    with pytest.raises(tu.InputError, match="the problem is traced"):
        jax.jit(lambda lr: tu.analysis.fixed_point(pair(2, 2, lr=lr)).error)(0.5)
    with pytest.raises(tu.InputError, match="this state has 7168 overlaps"):
        tu.analysis.fixed_point(pair(2, 2, inputs=tu.PowerLaw(1.0, 1024)))


def test_a_constant_schedule_is_a_number():
    assert (
        tu.analysis.fixed_point(problem_with(lr=tu.schedules.Constant(0.5))).error
        == plateau(2).error
    )


def test_words_and_figure():
    point = plateau(2)
    text = str(point)
    assert "R = [[0.414394," in text
    assert "e_g = 0.01464485" in text
    assert "breaks the symmetry" in text
    assert "Unstable: 1 of 7 modes grows" in text
    figure = point.plot()
    FigureCanvasAgg(figure).draw()
    _, R, Q, _, modes = figure.axes
    np.testing.assert_array_equal(R.images[0].get_array(), point.R)
    np.testing.assert_array_equal(Q.images[0].get_array(), point.Q)
    labels = [" ".join(label.get_text().split()) for label in modes.get_yticklabels()]
    assert labels[0] == f"+0.03162: {point.modes[0].name}"
    widths = [bar.get_width() for bar in modes.patches]
    np.testing.assert_allclose(widths, [m.rate for m in point.distinct])
    with pytest.raises(tu.InputError, match="give it what fixed_point returned"):
        plot_fixed_point(3)
