"""Critical, best and decay rates and noise floors:

published numbers, an operator built by loops, long solves.
"""

from itertools import product
from math import pi, sqrt

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy.integrate import quad

import tutelage as tu
from tests.problems import pair


def eta_c(*args, **options):
    return float(tu.analysis.critical_learning_rate(pair(*args, **options)))


def test_critical_rates_of_the_committee_machine():
    assert eta_c(1, 1) == pytest.approx(pi * sqrt(5 / 3), rel=1e-13)
    assert f"{eta_c(2, 2):.7f}" == "2.3068277"


def test_critical_rate_of_wide_networks():
    """K eta_c tends to sqrt(3) pi; the correction is of order 1/K, so two widths extrapolate."""
    two, eight = (K * eta_c(K, K) for K in (2, 8))
    assert (8 * eight - 2 * two) / 6 == pytest.approx(sqrt(3) * pi, rel=7e-3)
    assert eight == pytest.approx(sqrt(3) * pi, rel=0.05)


def loops(problem, copies, t):
    """slow and fast of dX = eta slow X + eta^2 fast X, X (L, K, K) in full, for erf:

    E[g' g' g' g'] is a determinant.
    """
    lam = problem.inputs.eigenvalues
    p = problem.inputs.fractions
    v = np.asarray(problem.student.readout)
    L = lam.size
    K = v.size
    T = np.einsum("l,lab->ab", lam * p, t)
    C = copies @ T @ copies.T

    def moment(*i):
        return (2 / pi) ** (len(i) / 2) / sqrt(
            np.linalg.det(np.eye(len(i)) + C[np.ix_(i, i)])
        )

    A = np.array([[-v[i] * v[j] * moment(i, j) for j in range(K)] for i in range(K)])
    slow, fast = (np.zeros((L, K, K, L, K, K)) for _ in range(2))
    for l, i, j, k in product(range(L), range(K), range(K), range(K)):
        slow[l, i, j, l, k, j] += lam[l] * A[i, k]
        slow[l, i, j, l, i, k] += lam[l] * A[j, k]
        for m, b in product(range(L), range(K)):
            fast[l, i, j, m, k, b] = (
                lam[l] * p[m] * lam[m] * v[i] * v[j] * v[k] * v[b] * moment(i, j, k, b)
            )
    size = L * K * K
    return slow.reshape(size, size), fast.reshape(size, size)


GRAM = np.array([[[1.0, 0.2], [0.2, 0.7]], [[0.5, -0.1], [-0.1, 1.4]]])
CASES = {
    "two levels, overlapping teachers, unequal readouts": (
        pair(
            2,
            2,
            lr=0.4,
            inputs=tu.Spectrum([2.0, 0.6], [0.3, 0.7]),
            teacher={"gram": GRAM, "readout": [1, 0.6]},
        ).replace(**{"student.readout": [1, 0.6]}),
        np.eye(2),
        GRAM,
    ),
    "an extra unit": (pair(3, 2, lr=0.4), np.eye(3, 2), np.eye(2)[None]),
}


@pytest.mark.parametrize("case", CASES)
def test_operator_outside_the_span_by_loops(case):
    problem, copies, t = CASES[case]
    slow, fast = loops(problem, copies, t)
    radius = np.max(np.linalg.eigvals(np.linalg.solve(-slow, fast)).real)
    assert float(tu.analysis.critical_learning_rate(problem)) == pytest.approx(
        1 / radius, rel=1e-10
    )
    slowest = -np.max(np.linalg.eigvals(0.4 * slow + 0.16 * fast).real)
    assert tu.analysis.decay_rate(problem).outside == pytest.approx(slowest, rel=1e-9)
    wrong = -np.max(np.linalg.eigvals(0.4 * slow + 0.8 * 0.16 * fast).real)
    assert tu.analysis.decay_rate(problem).outside != pytest.approx(wrong, rel=1e-3)


def test_batches_and_momentum_move_the_critical_rate_and_trained_readouts_do_not():
    assert eta_c(2, 2, batch=3) == pytest.approx(3 * eta_c(2, 2))
    assert eta_c(2, 2, momentum=0.6) == pytest.approx(0.4 * eta_c(2, 2))
    assert eta_c(2, 2, student={"train_readout": True}) == pytest.approx(
        eta_c(2, 2), rel=1e-12
    )


def test_readouts_are_matched_in_any_order_and_with_either_sign():
    rates = [
        float(
            tu.analysis.critical_learning_rate(
                pair(2, 2, student={"readout": v}, teacher={"readout": [1, 0.5]})
            )
        )
        for v in ([1, 0.5], [0.5, 1], [-0.5, 1])
    ]
    np.testing.assert_allclose(rates, rates[0], rtol=1e-12)


def own_tanh(x):
    return jnp.tanh(x)


def one_unit_of_tanh():
    """eta_c = 2 E[g'^2] / E[g'^4] for one unit."""

    def moment(p):
        return quad(
            lambda x: np.cosh(x) ** -p * np.exp(-(x**2) / 2), -9, 9, epsabs=1e-13
        )[0]

    return 2 * moment(4) / moment(8)


def test_critical_rate_of_other_functions():
    assert eta_c(1, 1, "tanh") == pytest.approx(one_unit_of_tanh(), rel=3e-5)
    assert eta_c(1, 1, "quadratic") == pytest.approx(2 * 4 / (16 * 3), rel=1e-12)


@pytest.mark.full
def test_critical_rate_of_a_function_of_ones_own():
    assert eta_c(1, 1, own_tanh) == pytest.approx(one_unit_of_tanh(), rel=3e-5)


def test_best_constant_rate_of_one_unit_is_two_thirds_of_the_critical():
    best = tu.analysis.best_constant_rate(pair(1, 1))
    assert float(best) == pytest.approx(2 / 3 * pi * sqrt(5 / 3), rel=1e-7)
    rates = [
        float(tu.analysis.decay_rate(pair(1, 1, lr=float(best) * f)))
        for f in (0.99, 1, 1.01)
    ]
    assert rates[1] == pytest.approx(best.rate, rel=1e-7)
    assert rates[1] > max(rates[0], rates[2])


def measured_decay(problem, start, times):
    out = tu.solve(problem, start, np.linspace(0, times[1], 81))
    late = out.times >= times[0]
    return -np.polyfit(out.times[late], np.log(out.error[late]), 1)[0]


@pytest.mark.parametrize(
    ("lr", "side", "times"), [(0.5, "inside", (60, 130)), (3.7, "outside", (20, 60))]
)
def test_the_error_decays_twice_as_fast_as_what_is_inside_the_span_and_as_fast_as_what_is_outside(
    lr, side, times
):
    problem = pair(1, 1, lr=lr)
    decay = tu.analysis.decay_rate(problem)
    assert str(decay).endswith(f"the slower is {side}")
    assert float(decay) == (2 * decay.inside if side == "inside" else decay.outside)
    found = measured_decay(problem, tu.Start([[0.8]], [[0.9]]), times)
    assert found == pytest.approx(float(decay), rel=1e-3)


@pytest.mark.full
@pytest.mark.parametrize(
    ("problem", "times"),
    [
        (pair(2, 2, lr=2.1), (100, 180)),
        (pair(2, 2, student={"train_readout": True}), (900, 1500)),
    ],
    ids=["outside", "inside, with readouts"],
)
def test_decay_of_two_units(problem, times):
    R = np.array([[0.95, 0.1], [0.05, 0.9]])
    Q = np.array([[1.1, 0.1], [0.1, 0.95]])
    assert measured_decay(problem, tu.Start(R, Q), times) == pytest.approx(
        float(tu.analysis.decay_rate(problem)), rel=5e-3
    )


def test_linear_network_on_a_spectrum_is_a_diagonal_plus_rank_one_matrix():
    """E_l = average of (w - w*)^2:

    dE_l = -2 eta lam_l E_l + (eta^2/B) lam_l sum_k p_k lam_k E_k.
    """
    inputs = tu.PowerLaw(1.0, 3)
    batch = 2
    lam = inputs.eigenvalues
    p = inputs.fractions
    problem = pair(1, 1, "linear", inputs=inputs, lr=0.7, batch=batch)

    def slowest(eta):
        J = -2 * eta * np.diag(lam) + eta**2 / batch * np.outer(lam, p * lam)
        return -np.max(np.linalg.eigvals(J).real)

    assert float(tu.analysis.critical_learning_rate(problem)) == pytest.approx(
        2 * batch / np.sum(p * lam), rel=1e-12
    )
    assert tu.analysis.decay_rate(problem).outside == pytest.approx(
        slowest(0.7), rel=1e-12
    )
    assert float(tu.analysis.decay_rate(problem)) == pytest.approx(
        min(slowest(0.7), 2 * 0.7 * lam.min()), rel=1e-12
    )
    trials = np.linspace(0.01, 3.99, 2000)
    best = tu.analysis.best_constant_rate(problem)
    assert best.rate == pytest.approx(
        max(min(slowest(e), 2 * e * lam.min()) for e in trials), rel=1e-5
    )


def test_noise_floors():
    def floor(*args, **options):
        return float(tu.analysis.noise_floor(pair(*args, **options)))

    assert f"{floor(2, 2, lr=0.1):.10f}" == "0.0192042913"
    for extra in (0, 1):  # small rates; the next term is of order eta^2
        small = floor(2 + extra, 2, lr=1e-4) / 1e-4
        assert small == pytest.approx((extra + 2 / sqrt(3)) / (2 * pi), rel=2e-4)
    both = floor(
        2,
        2,
        lr=1e-4,
        student={"train_readout": True, "readout": [1, 0.7]},
        teacher={"readout": [1, 0.7]},
    )  # both layers
    assert both == pytest.approx(1e-4 / (2 * pi * sqrt(3)) * (1 + 0.49), rel=2e-4)
    assert floor(2, 2, "linear", lr=0.2) == pytest.approx(
        0.2 * 2 / (4 - 2 * 0.2 * 2), rel=1e-12
    )  # flat directions and all
    assert floor(2, 2, lr=0.1, batch=2) < floor(2, 2, lr=0.1)


def test_noise_floor_of_a_batch_is_that_of_a_smaller_rate_in_linear_networks():
    """eta / (2 (2 B - eta))."""
    for batch in (1, 3):
        assert float(
            tu.analysis.noise_floor(pair(1, 1, "linear", lr=0.5, batch=batch))
        ) == pytest.approx(0.5 / (2 * (2 * batch - 0.5)))


REFUSED = {
    "too few students": (
        lambda: pair(1, 2),
        "1 student units cannot copy 2 teacher units",
    ),
    "two activations": (
        lambda: tu.Problem(tu.Network(2, "erf"), tu.Network(2, "linear")),
        "only equal activations",
    ),
    "flat directions": (lambda: pair(2, 2, "linear"), "not isolated"),
    "extra units that cancel": (lambda: pair(3, 1), "not isolated"),
    "weight decay": (lambda: pair(2, 2, weight_decay=0.1), "the weights decay"),
    "slow momentum": (
        lambda: pair(2, 2, momentum=tu.SlowMomentum(1.0)),
        "SlowMomentum",
    ),
    "a kink": (lambda: pair(2, 2, "relu"), "has a kink"),
    "no problem": (lambda: None, "takes a tutelage Problem"),
    "other readouts": (lambda: pair(2, 2, student={"readout": 0.7}), "set them equal"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    problem, message = REFUSED[case]
    for verb in (
        tu.analysis.critical_learning_rate,
        tu.analysis.decay_rate,
        tu.analysis.best_constant_rate,
    ):
        with pytest.raises(tu.InputError, match=message) as caught:
            verb(problem())
        assert "\n" not in str(caught.value)


def test_schedules_are_refused_only_where_the_rate_matters():
    problem = pair(2, 2).replace(lr=tu.schedules.Cosine(0.5, 10.0))
    assert float(tu.analysis.critical_learning_rate(problem)) == pytest.approx(
        2.3068277, rel=1e-7
    )
    for verb in (tu.analysis.decay_rate, tu.analysis.noise_floor):
        with pytest.raises(tu.InputError, match="lr is a schedule"):
            verb(problem)
    with pytest.raises(tu.InputError, match="unstable even without noise"):
        tu.analysis.noise_floor(pair(2, 2, lr=2.5))


def test_words_and_marks():
    problem = pair(2, 2, lr=2.5, noise=0.1)
    critical = tu.analysis.critical_learning_rate(problem)
    decay = tu.analysis.decay_rate(problem)
    best = tu.analysis.best_constant_rate(problem)
    assert "NOT stable" in str(critical)
    assert "above it a deviation grows outside the teachers' span" in str(critical)
    assert "zero error is unstable at lr = 2.5" in str(decay)
    assert float(decay) < 0
    assert all("label noise is left out" in str(x) for x in (critical, decay, best))
    (axes,) = best.plot().axes
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(
        lines[f"best constant rate: {float(best):.4g}"].get_xydata(),
        [[float(best), best.rate]],
    )
    np.testing.assert_allclose(
        lines[r"critical rate $\eta_c$: 2.3068"].get_xdata(), float(critical)
    )
    error = lines["the error: the slower"].get_ydata()
    np.testing.assert_allclose(
        error,
        np.minimum(
            lines["inside the span, squared"].get_ydata(),
            lines["outside the span"].get_ydata(),
        ),
    )
    assert error.max() <= best.rate * (1 + 1e-9)


def test_figures_draw_with_legends_outside():
    floor = tu.analysis.noise_floor(pair(2, 2, lr=0.1, noise=0.1))
    assert "0.019204291 sigma^2" in str(floor)
    assert floor.error == pytest.approx(0.019204291 * 0.01, rel=1e-6)
    for result in (
        floor,
        tu.analysis.critical_learning_rate(pair(2, 2)),
        tu.analysis.decay_rate(pair(2, 2)),
    ):
        figure = result.plot()
        FigureCanvasAgg(figure).draw()
        (axes,) = figure.axes
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
