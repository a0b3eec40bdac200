"""Analyses against closed forms of the literature; each result draws its figure."""

from math import pi, sqrt

import numpy as np
import pytest

import tutelage as tu


def committee(K: int = 2, activation="erf", rate=0.5, **options) -> tu.Problem:
    network = tu.Network(K, activation)
    return tu.Problem(network, network, optimizer=tu.SGD(rate), **options)


@pytest.fixture(scope="module")
def theory() -> tu.Trajectory:
    """Two units that leave a plateau."""
    start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    return tu.solve(committee(), start, 400.0)


# Fixed points and learning rates


def test_the_plateau_of_a_finite_learning_rate():
    """Digits of nested loops and SciPy: the noise of SGD separates Q from C."""
    point = tu.analysis.fixed_point(committee())
    assert isinstance(point, tu.analysis.FixedPoint)
    assert point.R[0, 0] == pytest.approx(0.414394, abs=1e-6)
    assert point.Q[0, 0] == pytest.approx(0.367720, abs=1e-6)
    assert point.Q[0, 1] == pytest.approx(0.325386, abs=1e-6)
    assert point.error == pytest.approx(0.01464485, abs=1e-8)
    growing = point.unstable[0]
    assert isinstance(growing, tu.analysis.Mode)
    assert growing.rate == pytest.approx(0.031618, abs=1e-6)
    assert tu.plot.plot_fixed_point(point) is not None


def test_the_escape_rate_of_gradient_flow():
    """2 K eta / (pi sqrt(2K - 1) (2K + 1)^(3/2))."""
    K = 3
    eta = 0.5
    point = tu.analysis.fixed_point(committee(K, rate=eta), gradient_flow=True)
    rate = 2 * K * eta / (pi * sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)
    assert point.modes[0].rate == pytest.approx(rate, rel=1e-7)


@pytest.mark.parametrize(("K", "rate"), [(1, pi * sqrt(5 / 3)), (2, 2.3068277)])
def test_the_critical_learning_rate(K, rate):
    """pi sqrt(5/3) for one erf unit (Saad and Solla 1995)."""
    found = tu.analysis.critical_learning_rate(committee(K))
    assert isinstance(found, tu.analysis.CriticalRate)
    assert float(found) == pytest.approx(rate, rel=1e-7)


def test_the_best_rate_of_one_unit_is_two_thirds_of_the_critical_one():
    found = tu.analysis.best_constant_rate(committee(1))
    assert isinstance(found, tu.analysis.BestRate)
    assert float(found) == pytest.approx(2 / 3 * pi * sqrt(5 / 3), rel=1e-6)
    assert tu.plot.plot_decay_rates(found) is not None


def test_the_decay_rate_of_a_small_learning_rate():
    """The slowest mode: an eigenvalue of a 2 x 2 matrix, to first order in eta."""
    eta = 1e-4
    matrix = 2 / pi * np.array([[1 / (3 * sqrt(3)), 1 / 4], [1 / 4, 1 / sqrt(3)]])
    slowest = np.linalg.eigvals(matrix).real.min()
    found = tu.analysis.decay_rate(committee(rate=eta))
    assert isinstance(found, tu.analysis.DecayRate)
    assert found.inside == pytest.approx(eta * slowest, rel=1e-3)


def test_the_noise_floor_of_a_committee():
    """0.0192042913 sigma^2 at eta = 0.1, by linear response with many digits."""
    found = tu.analysis.noise_floor(committee(rate=0.1, noise=0.05))
    assert isinstance(found, tu.analysis.NoiseFloor)
    assert float(found) == pytest.approx(0.0192042913, abs=1e-10)
    assert tu.plot.plot_noise_floor(found) is not None


def test_the_noise_floor_of_linear_networks():
    """eta K / (4 - 2 eta K)."""
    found = tu.analysis.noise_floor(committee(2, "linear", rate=0.2, noise=0.1))
    assert float(found) == pytest.approx(0.2 * 2 / (4 - 2 * 0.2 * 2), rel=1e-9)


def test_the_drift_of_a_linear_unit():
    """A = -v v^T and B = v v*^T."""
    student = tu.Network(2, "linear", readout=[1.0, 0.5])
    teacher = tu.Network(1, "linear", readout=2.0)
    task = tu.Problem(student, teacher)
    R = np.array([[0.1], [0.2]])
    A, B = tu.analysis.drift_matrices(task, R, np.eye(2), np.eye(1))
    np.testing.assert_allclose(A, [[-1.0, -0.5], [-0.5, -0.25]], atol=1e-12)
    np.testing.assert_allclose(B, [[2.0], [1.0]], atol=1e-12)


def test_the_central_equations_of_a_linear_unit():
    """dR = eta (T - R); dQ = 2 eta (R - Q) + eta^2 (Q - 2 R + T) + eta^2 sigma^2."""
    network = tu.Network(1, "linear")
    task = tu.Problem(network, network, optimizer=tu.SGD(0.4), noise=0.3)
    found = tu.analysis.drift(task, tu.Start(R=[[0.2]], Q=[[0.5]]))
    assert isinstance(found, tu.analysis.OverlapDrift)
    assert isinstance(found.steps, tu.analysis.DriftTerm)
    assert found.R[0, 0] == pytest.approx(0.4 * 0.8)
    assert found.gradient.Q[0, 0] == pytest.approx(2 * 0.4 * (0.2 - 0.5))
    assert found.steps.Q[0, 0] == pytest.approx(0.4**2 * (0.5 - 0.4 + 1.0))
    assert found.label_noise.Q[0, 0] == pytest.approx(0.4**2 * 0.3**2)
    assert "dQ/dalpha" in str(found)


# Curves


def test_the_plateau_of_a_curve(theory):
    found = tu.analysis.plateaus(theory)
    assert isinstance(found, tu.analysis.Plateaus)
    (plateau,) = found
    assert isinstance(plateau, tu.analysis.Plateau)
    # Those of the fixed point; the curve passes it at a distance.
    assert plateau.height == pytest.approx(0.01464485, rel=0.02)
    assert plateau.growth_rate == pytest.approx(0.031618, rel=0.1)
    assert tu.plot.plot_plateaus(found) is not None


def test_units_specialize(theory):
    found = tu.analysis.specialization(theory)
    assert isinstance(found, tu.analysis.Specialization)
    assert found.permutation.tolist() == [0, 1]
    assert found.index[0] < 0.2
    assert found.final > 0.9
    assert tu.plot.plot_specialization(found) is not None


def test_spans_of_units_that_can_rotate():
    """A rotated copy of a quadratic teacher has the output of the teacher."""
    units = tu.Network(2, "quadratic", readout=0.5)
    problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.01))
    turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    theory = tu.solve(problem, tu.Start(turned, np.eye(2)), [0.0, 1.0])
    found = tu.analysis.specialization(theory)
    assert isinstance(found, tu.analysis.SubspaceSpecialization)
    assert theory.error[-1] < 1e-12
    assert found.final == pytest.approx(1.0)
    np.testing.assert_allclose(found.angles[-1], 0.0, atol=1e-6)


def test_copies_are_merged():
    """Two copies of one teacher unit are one unit with the sum of their readouts."""
    student = tu.Network(3, "erf", train_readout=True)
    problem = tu.Problem(student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.1))
    R = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    start = tu.Start(R, R @ R.T, readout=[0.3, 0.7, 1.0])
    found = tu.analysis.reduced(tu.solve(problem, start, [0.0, 1.0]))
    assert isinstance(found, tu.analysis.Reduced)
    np.testing.assert_allclose(found.problem.student.readout, [1.0, 1.0])
    assert found.units.tolist() == [0, 0, 1]


def test_the_phases_of_a_curve(theory):
    found = tu.analysis.phases(theory)
    assert isinstance(found, tu.analysis.Phases)
    assert all(isinstance(phase, tu.analysis.Phase) for phase in found)
    names = [phase.name for phase in found]
    assert names == ["search", "symmetric plateau", "specialization", "convergence"]
    assert tu.plot.plot_phases(found) is not None


def test_the_smallest_error_of_a_curve(theory):
    found = tu.analysis.early_stopping(theory)
    assert isinstance(found, tu.analysis.EarlyStopping)
    assert found.time == 400.0
    assert found.value == theory.error[-1]
    assert tu.plot.plot_early_stopping(found) is not None


def test_each_run_has_its_result():
    start = tu.asymmetric_start(committee(), dim=100)
    runs = tu.simulate(committee(), start, times=tu.linear_times(20.0, 21), runs=3)
    found = tu.analysis.early_stopping(runs)
    assert isinstance(found, tu.analysis.RunResults)
    assert len(found) == 3
    assert tu.plot.plot_per_run(found) is not None


# Escapes


NEAR_SYMMETRY = tu.Start(
    R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000
)


def test_the_escape_time_is_that_of_the_solved_curve():
    task = committee(rate=1.5)
    escape = tu.analysis.escape_time(task, NEAR_SYMMETRY)
    assert isinstance(escape, tu.analysis.EscapeTime)
    theory = tu.solve(task, NEAR_SYMMETRY, tu.linear_times(150.0, 1501))
    beyond = escape.time - 5.0 < theory.times
    after = theory.times[beyond & (theory.error < escape.threshold)]
    assert escape.time == pytest.approx(after[0], rel=0.01)
    assert tu.plot.plot_escape_time(escape) is not None


def test_the_law_of_escape_times():
    law = tu.analysis.escape_distribution(
        committee(rate=1.5), NEAR_SYMMETRY, samples=50
    )
    assert isinstance(law, tu.analysis.EscapeDistribution)
    early, late = law.quantiles([0.05, 0.95])
    assert early < law.mean < late
    assert tu.plot.plot_escape_distribution(law) is not None


# Power laws and landscapes


def test_the_exponent_of_a_power_law():
    x = np.geomspace(1.0, 1000.0, 61)
    found = tu.analysis.fit_exponent(x, 3.0 * x**-0.5)
    assert isinstance(found, tu.analysis.Exponent)
    assert found.slope == pytest.approx(-0.5)
    assert found.amplitude == pytest.approx(3.0)
    assert tu.plot.plot_exponent(found) is not None


def test_the_exponent_of_a_spectrum():
    found = tu.analysis.spectral_exponent(tu.PowerLaw(beta=0.5, levels=200))
    assert isinstance(found, tu.analysis.SpectralExponent)
    assert found.beta == pytest.approx(0.5)
    assert tu.plot.plot_spectral_exponent(found) is not None


def test_the_landscape_of_a_linear_unit():
    """e_g = |w - w*|^2 / 2N:

    the gradient is (w - w*) / sqrt N, every curvature is 1.
    """
    task = committee(1, "linear")
    teacher = np.array([[1.0, 2.0, 3.0, 4.0]])
    student = np.array([[2.0, 0.0, 1.0, 1.0]])
    found = tu.analysis.landscape(task, student, teacher)
    assert isinstance(found, tu.analysis.Landscape)
    assert found.error == pytest.approx(np.sum((student - teacher) ** 2) / 8)
    np.testing.assert_allclose(found.gradient, (student - teacher) / 2.0)
    assert all(isinstance(each, tu.analysis.Curvature) for each in found.spectrum)
    assert sum(each.multiplicity for each in found.spectrum) == 4
    assert all(each.value == pytest.approx(1.0) for each in found.spectrum)
    assert tu.plot.plot_landscape(found) is not None
