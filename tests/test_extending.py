"""The extension points: each skeleton of CONTRIBUTING.md and docs/extending.md runs as printed, is registered as the text
says, and then works in `solve`, `simulate`, files and commands. `make docs` runs this file, as it runs all code of the pages."""

import re
import sys
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tutelage.cli import main
from tutelage.problem import labels as label_laws
from tutelage.training import losses, rules

pytestmark = pytest.mark.site

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
UNIT = tu.Network(1, "linear")
START = tu.Start([[0.3]], [[0.5]])
TIMES = [0.0, 1.0, 3.0]


def skeleton(heading, number=0):
    """The n-th indented block under a heading."""
    part = CONTRIBUTING.split(f"## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", part, flags=re.MULTILINE)
    return re.sub(r"^    ", "", blocks[number], flags=re.MULTILINE)


def says(*rows):
    """The rows of tables that the text tells the reader to add."""
    text = CONTRIBUTING + (ROOT / "docs" / "extending.md").read_text()
    assert [row for row in rows if f"`{row}`" not in text] == []


def in_module(code, module):
    """What the code defines, in the names of the module where it belongs."""
    names = dict(vars(module))
    exec(
        "from typing import ClassVar\nimport jax\nimport jax.numpy as jnp\n" + code,
        names,
    )
    return {
        name: value
        for name, value in names.items()
        if vars(module).get(name) is not value
    }


def curves(**parts):
    """Theory, and its agreement with networks of 100 inputs."""
    problem = tu.Problem(UNIT, UNIT, optimizer=tu.SGD(lr=0.5), **parts)
    theory = tu.solve(problem, START, TIMES)
    runs = tu.simulate(problem, START, dim=100, times=TIMES, runs=30, seed=1)
    assert tu.compare(theory, runs, fluctuations=False).verdict.outcome == "agree"
    return theory


def check_command(folder, problem, *flags):
    """A problem file with the new name, and the flags that state the same problem, give the curve of `solve`."""
    assert tu.Problem.from_toml(problem.to_toml()) == problem
    (folder / "problem.toml").write_text(problem.to_toml())
    common = ("--times", "3", "--points", "3", "--dim", "200", "--no-validity")
    for number, given in enumerate((("problem.toml",), flags)):
        if given:
            assert main(["solve", *given, *common, "--out", f"{number}.nc"]) == 0
            found = tu.load(folder / f"{number}.nc")
            expected = tu.solve(
                problem,
                tu.random_start(problem, dim=200, scale=0.1, seed=0),
                [0.0, 1.5, 3.0],
            )
            np.testing.assert_allclose(found.error, expected.error, rtol=1e-6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# docs/extending.md


@pytest.fixture(scope="module")
def page():
    """What the blocks of the page define."""
    names = {}
    for block in re.findall(
        r"```python\n(.*?)```",
        (ROOT / "docs" / "extending.md").read_text(),
        flags=re.DOTALL,
    ):
        exec(block, names)
    return names


def test_a_law_of_inputs(page, folder, monkeypatch):
    from tutelage.problem import serialize

    problem = page["problem"]
    levels = np.exp(-0.5 * np.arange(4)) / np.exp(-0.5 * np.arange(4)).mean()
    read = tu.Problem.from_toml(problem.to_toml()).inputs
    assert type(read) is tu.Spectrum
    np.testing.assert_allclose(read.eigenvalues, levels, rtol=1e-14)
    says('"exponential": Exponential', 'kind = "exponential"')
    monkeypatch.setitem(serialize.INPUTS, "exponential", page["Exponential"])
    assert 'kind = "exponential"' in problem.to_toml()
    named = tu.Problem.from_toml(problem.to_toml()).inputs
    assert type(named) is page["Exponential"]
    assert (float(named.rate), named.count) == (0.5, 4)
    check_command(folder, problem)


def test_a_closed_system(page, tmp_path):
    t = np.array([0.0, 1.0, 2.0])
    m = 1 - np.exp(-t)
    q = 1 - 2 * np.exp(-t) + 1.5 * np.exp(-2 * t)
    np.testing.assert_allclose(page["curve"].error, (1 - 2 * m + q) / 2, atol=1e-8)
    slow = page["slow"]
    system = page["system"]
    np.testing.assert_allclose(
        slow["m"], 1 - np.exp(-np.outer(t, [1.0, 0.1])), atol=1e-8
    )
    again = tu.load(slow.save(tmp_path / "slow.nc"))
    np.testing.assert_array_equal(again["m"], slow["m"])
    assert tu.plot.plot_trajectory(slow).axes
    slope = jax.grad(
        lambda x: tu.solve(
            type(system)(jnp.array([x, 0.1])), {"m": np.zeros(2)}, times=[0.0, 1.0]
        ).error[-1]
    )
    assert float(slope(1.0)) == pytest.approx(-np.exp(-2.0) / 2, rel=1e-6)
    assert tu.compare(slow, runs_of(slow)).verdict.outcome == "agree"


def runs_of(theory):
    """Runs around a curve, as a simulation of the same system would return them."""
    noise = np.random.default_rng(0).standard_normal((20, 1)) * [0.0, 1e-3, 1e-3]
    dataset = theory.to_dataset()
    runs = dataset.expand_dims(run=20).copy()
    return tu.Trajectory.from_dataset(
        runs.assign(error=runs["error"] + noise, m=runs["m"] + noise[..., None])
    )


# CONTRIBUTING.md


@pytest.fixture
def swish(monkeypatch):
    """The line of the recipe, where the recipe puts it."""
    from tutelage.problem.activation import NAMED_ACTIVATIONS

    (activation,) = eval(
        skeleton("Add an activation"), {"Activation": tu.Activation, "jax": jax}
    )
    monkeypatch.setitem(NAMED_ACTIVATIONS, activation.name, activation)
    return activation


def test_an_activation_in_one_line(swish, folder):
    problem = tu.Problem(
        tu.Network(1, "swish"), tu.Network(1, "swish"), optimizer=tu.SGD(lr=0.5)
    )
    assert problem.student.activation is swish
    assert tu.Problem.from_toml(problem.to_toml()).student.activation is swish
    start = tu.random_start(problem, dim=200, seed=1)
    theory = tu.solve(problem, start, TIMES)
    assert theory.finished
    for method in ("overlaps", "weights"):
        runs = tu.simulate(problem, start, times=TIMES, runs=4, seed=1, method=method)
        assert np.mean(runs.error[:, 1]) == pytest.approx(theory.error[1], rel=0.2)
    check_command(folder, problem, "-K", "1", "-M", "1", "--activation", "swish")


def test_the_kernel_of_an_activation_lives_where_the_text_says():
    from tutelage.simulation import numba_kernels

    says("src/tutelage/simulation/numba_kernels.py", "activate", "ACTIVATIONS")
    assert callable(numba_kernels.activate)
    assert numba_kernels.ACTIVATIONS[numba_kernels.TANH] == "tanh"


def test_a_family_of_averages(swish, monkeypatch):
    from tutelage.problem.activation import NAMED_ACTIVATIONS, as_activation
    from tutelage.stream.moments import matrices

    names = {"Averages": matrices.Averages, "NAMED_ACTIVATIONS": NAMED_ACTIVATIONS}
    exec(skeleton("Add an activation", 1), names)
    says("FAMILIES", "src/tutelage/stream/moments/averages.py")
    row = eval(f"{{{skeleton('Add an activation', 2)}}}", names)
    monkeypatch.setattr(matrices, "FAMILIES", matrices.FAMILIES | row)
    family = matrices.averages_for(swish, swish, 2, 3)
    assert isinstance(family, names["SwishAverages"])
    assert family.K == 2
    custom = as_activation(lambda x: x / 2 + np.pi * x**2)
    for other in (
        NAMED_ACTIVATIONS["erf"],
        custom,
        tu.Activation("swish", custom.function),
    ):  # negative control: the name alone
        assert not isinstance(
            matrices.averages_for(swish, other, 2, 3), names["SwishAverages"]
        )


LINEAR = ("-K", "1", "-M", "1", "--activation", "linear")


def test_a_loss(folder, monkeypatch):
    loss = in_module(skeleton("Add a loss"), losses)["Cauchy"]
    says("cauchy", "--loss")
    monkeypatch.setitem(losses.NAMED_LOSSES, "cauchy", loss)
    theory = curves(loss="cauchy")
    assert theory.error[-1] < theory.error[0] / 2
    x = (
        np.random.default_rng(0).standard_normal((200_000, 2))
        @ np.linalg.cholesky([[1.0, 0.3], [0.3, 0.5]]).T
    )
    assert float(theory.loss[0]) == pytest.approx(
        np.log1p((x[:, 0] - x[:, 1]) ** 2 / 2).mean(), rel=0.01
    )
    check_command(folder, theory.problem, *LINEAR, "--loss", "cauchy")


def test_labels(folder, monkeypatch):
    labels = in_module(skeleton("Add labels"), label_laws)["Probit"]
    says("probit", "--labels")
    monkeypatch.setitem(label_laws.NAMED_LABELS, "probit", labels)
    theory = curves(loss="logistic", labels="probit")
    assert theory.error[0] == pytest.approx(np.arccos(0.3 / np.sqrt(0.5)) / np.pi)
    assert theory.error[-1] < theory.error[0]
    values = jax.vmap(lambda xi: labels(width=0.5).label(0.3, None, xi, 0.0))(
        jax.random.normal(jax.random.key(0), (100_000,))
    )
    outcomes, weights = labels(width=0.5).outcomes(jnp.asarray(0.3), None, 0.0)
    assert float(outcomes @ weights) == pytest.approx(float(values.mean()), abs=0.01)
    check_command(
        folder, theory.problem, *LINEAR, "--loss", "logistic", "--labels", "probit"
    )


def test_a_rule(folder, monkeypatch):
    rule = in_module(skeleton("Add a rule"), rules)["Lazy"]
    says("lazy", "--rule")
    monkeypatch.setitem(rules.NAMED_RULES, "lazy", rule)
    theory = curves(rule="lazy", labels="sign")
    always, perceptron = (
        tu.solve(
            tu.Problem(UNIT, UNIT, optimizer=tu.SGD(lr=0.5), rule=each, labels="sign"),
            START,
            TIMES,
        )
        for each in (rule(keep=1.0), tu.rules.Perceptron())
    )
    np.testing.assert_allclose(always.error, perceptron.error, rtol=1e-9)
    assert np.all(theory.error[1:] > perceptron.error[1:])
    assert np.all(np.isnan(theory.loss))
    check_command(folder, theory.problem, *LINEAR, "--rule", "lazy", "--labels", "sign")


def test_an_analysis_and_its_figure(folder, monkeypatch):
    """Defined, listed, printed, drawn, and a measure of `tutelage sweep`."""
    from dataclasses import dataclass

    from tutelage import analysis, plot
    from tutelage.analysis import result

    names = {"np": np, "dataclass": dataclass, "AnalysisResult": result.AnalysisResult}
    names |= {"Trajectory": tu.Trajectory, "InputError": tu.InputError}
    exec(skeleton("Add an analysis"), names)
    half_time = names["half_time"]
    code = skeleton("Add a figure of a result")
    tools = {
        name: getattr(plot, name)
        for name in plot.__all__
        if re.search(rf"\b{name}\b", code)
    }
    exec("from __future__ import annotations\n" + code, tools)
    theory = tu.solve(
        tu.Problem(UNIT, UNIT, optimizer=tu.SGD(lr=0.5)),
        START,
        tu.linear_times(4.0, 41),
    )
    found = half_time(theory)
    assert (
        theory.error[theory.times < found.time].min()
        > theory.error[0] / 2
        >= theory.error[theory.times == found.time]
    )
    assert str(found).startswith("half of the error is learned at alpha = ")
    with pytest.raises(tu.InputError, match="never falls to half"):
        half_time(tu.solve(theory.problem, START, [0.0, 0.01]))

    says("src/tutelage/plot/__init__.pyi", 'figure="plot_half_time"')
    monkeypatch.setattr(plot, "plot_half_time", tools["plot_half_time"], raising=False)
    assert found.plot().axes
    with pytest.raises(tu.InputError, match="half_time"):
        tools["plot_half_time"](theory)

    says("src/tutelage/analysis/__init__.pyi", "half_time.time")
    monkeypatch.setattr(analysis, "half_time", half_time, raising=False)
    monkeypatch.setattr(analysis, "__all__", [*analysis.__all__, "half_time"])
    tables = "[start]\nR = [[0.3]]\nQ = [[0.5]]\n[times]\nend = 4.0\npoints = 41\n[over]\nlr = [0.5, 0.25]\n"
    (folder / "sweep.toml").write_text(
        'measure = ["half_time.time"]\n' + theory.problem.to_toml() + tables
    )
    assert main(["sweep", "sweep.toml", "--executor", "serial", "--out", "swept"]) == 0
    times = tu.open_sweep("swept")["half_time.time"].values
    assert times[0] == found.time < times[1]


def test_a_published_figure(monkeypatch, capsys):
    """As printed, with smaller numbers:

    computed, judged, drawn; and listed by `tutelage replicate`.
    """
    import tutelage_papers
    from tutelage import plot
    from tutelage_papers import bands, drawing, registry

    code = skeleton("Add a published figure")
    module = ModuleType("tutelage_papers.figures.primer.seventh")
    used = vars(module)
    used |= {"tu": tu, "START": tu.Start(R=[[0.5, 0.1], [0.1, 0.5]], Q=0.6 * np.eye(2))}
    for source in (tutelage_papers, bands, drawing, plot):
        used |= {
            name: getattr(source, name)
            for name in dir(source)
            if re.search(rf"\b{name}\b", code)
        }
    exec("from __future__ import annotations\n" + code, used)
    (figure,) = used["FIGURES"]
    data = figure.compute(**figure.parameters(quick=True) | {"dim": 50, "runs": 4})
    assert {claim.name for claim in figure.claims(data)} > {"final error"}
    with plot.style():
        assert figure.draw(data).axes
    says("MODULES", "papers/src/tutelage_papers/registry.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "MODULES", (*registry.MODULES, "primer.seventh"))
    assert main(["replicate"]) == 0
    assert "primer-7" in capsys.readouterr().out
