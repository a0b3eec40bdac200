"""Formulas of papers, claims, and the list of figures: every public name is used."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers as papers

POWER_LAW = tu.PowerLaw(beta=1.0, levels=3)
COMMITTEE = papers.power_law.committee(2, inputs=POWER_LAW, lr=0.25)
LINEAR = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), noise=0.1)


@pytest.mark.parametrize("namespace", ["", ".notes", ".power_law", ".quadratic"])
def test_every_public_name_is_used_below(namespace):
    source = Path(__file__).read_text()
    names = import_module(f"tutelage_papers{namespace}").__all__
    unused = [
        name for name in names if not re.search(rf"papers{namespace}\.{name}\b", source)
    ]
    assert unused == []


@pytest.mark.parametrize("namespace", ["", ".notes", ".power_law", ".quadratic"])
def test_a_stub_lists_what_it_imports(namespace):
    """lazy_loader loads the imports; type checkers see `__all__`."""
    module = import_module(f"tutelage_papers{namespace}")
    stub = Path(module.__file__ or "").with_suffix(".pyi")
    imported = [
        alias.asname or alias.name
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(imported) == sorted(module.__all__)
    assert set(module.__all__) <= set(dir(module))


def test_functions_are_functions_also_after_all_modules_were_imported():
    code = """
import importlib, pkgutil, types, tutelage_papers
for module in pkgutil.walk_packages(tutelage_papers.__path__, "tutelage_papers."):
    if not module.name.startswith("tutelage_papers.figures"):
        importlib.import_module(module.name)
for name in ("linear_network", "symmetric_plateau", "asymptotic_decay", "weight_flow", "committee"):
    assert isinstance(getattr(tutelage_papers.power_law, name), types.FunctionType), name
assert isinstance(tutelage_papers.replicate, types.FunctionType)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_version_is_that_of_the_library():
    assert papers.__version__ == tu.__version__


# Claims and figures


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (papers.above("x", 2.0, 1.0), "pass"),
        (papers.above("x", 1.0, 1.0), "FAIL"),
        (papers.at_least("x", 1.0, 1.0), "pass"),
        (papers.at_most("x", 2.0, 1.0), "FAIL"),
        (papers.below("x", 1.0, 1.0), "FAIL"),
        (papers.between("x", 1.5, 1.0, 2.0), "pass"),
        (papers.close("x", 1.01, 1.0, rel=0.02), "pass"),
        (papers.close("x", 1.01, 1.0, absolute=0.005), "FAIL"),
    ],
)
def test_a_claim_passes_or_fails_by_its_number(claim, verdict):
    assert isinstance(claim, papers.Claim)
    assert claim.verdict.lower() == verdict.lower()


def test_a_claim_of_the_source_is_refuted_by_evidence():
    claim = papers.refuted(papers.close("x", 2.0, 1.0, rel=0.1), "arithmetic")
    assert claim.evidence == "arithmetic"
    assert claim.verdict.lower() != "fail"


def test_figures_are_found_by_their_names():
    (figure,) = papers.find(["power-7"])
    assert isinstance(figure, papers.Replica)
    assert figure is papers.replicas()["power-7"]
    with pytest.raises(tu.InputError, match="power-7"):
        papers.find(["power-77"])


def test_a_figure_is_replicated(tmp_path):
    (figure,) = papers.find(["power-7"])
    result = papers.replicate(figure, tmp_path, quick=True)
    assert isinstance(result, papers.Result)
    assert not result.failed
    assert result.files["png"].is_file()


# Notes


def test_linear_regression_settles_at_its_floor():
    """A linear unit: sigma^2 eta / (4 - 2 eta), here for noise of variance 0.1."""
    task = papers.notes.linear_regression(lr=0.5, ridge=0.0, noise_variance=0.1)
    theory = tu.solve(task, {"m": 0.0, "q": 0.0}, [0.0, 50.0])
    assert theory.error[-1] == pytest.approx(0.1 * 0.5 / (4 - 2 * 0.5), rel=1e-6)


def test_fluctuations_fall_with_the_dimension():
    network = tu.Network(1, "erf")
    task = tu.Problem(network, network)
    sizes = (16, 32, 64, 128, 256)
    start = tu.asymmetric_start(task)
    found = papers.notes.concentration(task, start, sizes, samples=1000)
    assert isinstance(found, papers.notes.Concentration)
    assert -1.4 < found["variance"].exponent.slope < -0.6


# Power laws


def test_the_readouts_of_a_committee():
    task = papers.power_law.committee(4, 2)
    np.testing.assert_allclose(task.student.readout, np.sqrt(2) / 4)
    np.testing.assert_allclose(task.teacher.readout, 1 / np.sqrt(2))


def test_a_linear_network_in_closed_form():
    start = tu.Start([[0.0]], [[0.0]])
    network = papers.power_law.linear_network(LINEAR, start)
    theory = tu.solve(LINEAR, start, [0.0, 1.0, 10.0])
    assert isinstance(network, papers.power_law.LinearNetwork)
    assert isinstance(network.modes, papers.power_law.LinearModes)
    assert network.critical_rate == pytest.approx(2.0)
    np.testing.assert_allclose(network.error(theory.times), theory.error, rtol=1e-7)


def test_the_symmetric_plateau_of_a_power_law():
    start = tu.random_start(COMMITTEE, dim=3000, scale=0.01)
    exact = papers.power_law.symmetric_plateau(COMMITTEE, start)
    formulas = papers.power_law.plateau_formulas(COMMITTEE, start)
    assert isinstance(exact, papers.power_law.SymmetricPlateau)
    assert isinstance(formulas, papers.power_law.PlateauFormulas)
    assert formulas.error == pytest.approx(exact.error, rel=0.05)


def test_the_last_stage_of_learning():
    near = tu.Start(0.99 * np.eye(2), 0.99 * np.eye(2), np.eye(2))
    decay = papers.power_law.asymptotic_decay(COMMITTEE, near)
    theory = tu.solve(COMMITTEE, near, [0.0, 50.0], gradient_flow=True)
    assert isinstance(decay, papers.power_law.AsymptoticDecay)
    np.testing.assert_allclose(decay.error(theory.times), theory.error, rtol=0.05)


def test_the_length_of_a_plateau():
    start = tu.random_start(COMMITTEE, dim=3000, scale=0.01)
    task = COMMITTEE.replace(lr=1.0)
    theory = tu.solve(task, start, tu.linear_times(400), gradient_flow=True)
    found = papers.power_law.plateau_length(theory, begin=40.0, factor=1.5)
    assert isinstance(found, papers.power_law.PlateauLength)
    assert found.end == pytest.approx(found.observed, rel=0.15)


def test_every_weight_of_a_linear_unit():
    """Without teacher weights a component decays as exp(-lr lam alpha)."""
    found = papers.power_law.linear_weights(LINEAR, (np.ones(3), np.zeros(3)), [2.0])
    assert isinstance(found, papers.power_law.LinearWeights)
    np.testing.assert_allclose(found.weights[0], np.exp(-2.0 * LINEAR.optimizer.lr))


def test_flows_of_overlaps_and_of_weights():
    start = tu.Start(R=0.1 + 0.1 * np.eye(2), Q=0.1 + 0.2 * np.eye(2))
    times = [0.0, 1.0, 5.0]
    flow = papers.power_law.symmetric_flow(COMMITTEE, start, times)
    theory = tu.solve(COMMITTEE, start, times, gradient_flow=True)
    assert isinstance(flow, papers.power_law.SymmetricFlow)
    np.testing.assert_allclose(flow.trajectory.error, theory.error, rtol=1e-4)


def test_the_flow_of_given_weights():
    task = papers.power_law.committee(2, lr=0.5)
    teacher = np.random.default_rng(0).standard_normal((2, 20))
    flow = papers.power_law.weight_flow(task, (0.5 * teacher, teacher), [0.0, 2.0])
    start = tu.start_from_weights(task, 0.5 * teacher, teacher)
    theory = tu.solve(task, start, [0.0, 2.0], gradient_flow=True)
    assert isinstance(flow, papers.power_law.WeightFlow)
    np.testing.assert_allclose(flow.trajectory.error, theory.error, rtol=1e-4)


def test_moments_of_overlaps_and_teachers():
    start = tu.random_start(COMMITTEE, dim=3000, scale=0.01)
    moments = papers.power_law.overlap_moments(start, 1, COMMITTEE)
    assert isinstance(moments, papers.power_law.Moments)
    weights = COMMITTEE.inputs.fractions * COMMITTEE.inputs.eigenvalues
    expected = np.einsum("l,lab->ab", weights, start.T)
    np.testing.assert_allclose(moments.T, expected)
    teachers = papers.power_law.teacher_moments(tu.PowerLaw(1.0, 4), dim=1000)
    assert isinstance(teachers, papers.power_law.TeacherMoments)
    eigenvalues = tu.PowerLaw(1.0, 4).eigenvalues
    expected = [np.mean(eigenvalues**order) for order in range(5)]
    np.testing.assert_allclose(teachers.mean, expected)


def test_the_sum_of_a_power_law():
    """The error of a linear network decays as alpha^-(beta / (1 + beta))."""
    law = papers.power_law.PowerLawSum(beta=1.0, levels=4096, rate=0.1, scale=0.01)
    assert law.exponent == 0.5
    early, late = law.sum([5.0, 20.0])
    # The finite number of levels ends the law later; here it adds 1.4%.
    assert early / late == pytest.approx(2.0, rel=0.03)


def test_features_that_are_not_trained_leave_a_floor():
    task = LINEAR.replace(inputs=tu.PowerLaw(1.0, 16), noise=0.0, lr=0.05)
    features = papers.power_law.raw_features(task, trained=4, scale=0.01)
    assert isinstance(features, papers.power_law.RawFeatures)
    assert 0.0 < features.floor < features.steady_state
    floors = papers.power_law.random_basis_floors(tu.PowerLaw(1.0, 64), [0.1, 0.5, 1.0])
    assert floors[0] > floors[1] > floors[2]
    assert floors[2] == pytest.approx(0.0, abs=1e-9)


def test_the_reduced_system_has_the_rates_of_the_fixed_point():
    task = papers.power_law.committee(3, lr=0.1)
    reduced = papers.power_law.reduced_system(task, "perfect")
    assert isinstance(reduced, papers.power_law.ReducedSystem)
    point = tu.analysis.fixed_point(task, near="perfect", gradient_flow=True)
    rates = np.array([mode.rate for mode in point.modes])
    fastest, *_, slowest = 0.1 * np.sort(reduced.own_rates)
    assert np.min(np.abs(rates - fastest)) < 1e-8
    assert np.min(np.abs(rates - slowest)) < 1e-8


# Quadratic networks


@pytest.fixture(scope="module")
def quadratic():
    return papers.quadratic.quadratic_network(3, 2)


def test_the_rates_of_a_quadratic_network(quadratic):
    """Norms settle at p / (p + 2), overlaps grow at 8 / (p p*)."""
    assert isinstance(quadratic, papers.quadratic.QuadraticNetwork)
    assert quadratic.plateau_norm == pytest.approx(3 / 5)
    assert quadratic.overlap_rate == pytest.approx(8 / 6)


def test_the_curves_of_a_quadratic_network(quadratic):
    start = quadratic.start(overlap=0.05, seed=0)
    times = [0.0, 10.0, 100.0]
    curves = papers.quadratic.quadratic_curves(quadratic.problem, start, times)
    theory = tu.solve(quadratic.problem, start, times)
    assert isinstance(curves, papers.quadratic.QuadraticCurves)
    np.testing.assert_allclose(curves.error, theory.error, rtol=1e-5)


def test_the_critical_points_of_a_quadratic_network(quadratic):
    points = papers.quadratic.critical_points(quadratic.problem, dim=10)
    assert isinstance(points, papers.quadratic.CriticalPoints)
    solution = points[2, 0]
    assert isinstance(solution, papers.quadratic.CriticalPoint)
    assert solution.error == 0.0
    check = solution.check()
    assert isinstance(check, papers.quadratic.SpectrumCheck)


def test_the_solution_that_a_start_selects(quadratic):
    start = tu.Start(R=[[0.1, 0.0], [0.0, 0.05], [0.02, 0.0]], Q=np.eye(3), T=np.eye(2))
    bias = papers.quadratic.implicit_bias(quadratic.problem, start)
    assert isinstance(bias, papers.quadratic.ImplicitBias)
    assert bias.conserved
    np.testing.assert_allclose(bias.S.T @ bias.S, np.eye(2), atol=1e-12)
    theory = tu.solve(quadratic.problem, start, [0.0, 10.0, 20_000.0])
    path = bias.along(theory)
    assert isinstance(path, papers.quadratic.BiasPath)
    assert path.confirmed


def test_the_manifold_of_solutions():
    """pn - p(p - 1) / 2 degrees of freedom for p <= n, n (n + 1) / 2 beyond."""
    wide = papers.quadratic.solution_manifold(students=6, teachers=3, dim=5)
    assert isinstance(wide, papers.quadratic.SolutionManifold)
    assert wide.degrees_of_freedom == 15
    tangents = wide.tangents()
    assert isinstance(tangents, papers.quadratic.Tangents)
    assert tangents.ranks == (wide.rotations, wide.exchanges) == (3, 9)
    narrow = papers.quadratic.solution_manifold(students=2, teachers=2, dim=5)
    assert narrow.degrees_of_freedom == 2 * 5 - 1
