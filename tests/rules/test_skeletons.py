"""The skeletons of CONTRIBUTING.md for a loss, labels and a rule: run as printed, registered, then solved and simulated."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
UNIT = tu.Network(1, "linear")
START, TIMES = tu.Start([[0.3]], [[0.5]]), [0.0, 1.0, 3.0]


def skeleton(heading, module):
    """What the indented block under a heading defines, in the names of the module where it belongs."""
    part = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    code = re.sub(r"^    ", "", "".join(re.findall(r"^(?:    .*)?\n", part, flags=re.MULTILINE)), flags=re.MULTILINE)
    names = dict(vars(module))
    exec("from typing import ClassVar\nimport jax\nimport jax.numpy as jnp\n" + code, names)
    return {name: value for name, value in names.items() if vars(module).get(name) is not value}


def curves(**parts):
    """Theory, and its agreement with networks of 100 inputs."""
    problem = tu.Problem(UNIT, UNIT, sgd=tu.SGD(lr=0.5), **parts)
    theory = tu.solve(problem, START, TIMES)
    runs = tu.simulate(problem, START, dim=100, times=TIMES, runs=30, seed=1)
    assert tu.compare(theory, runs, fluctuations=False).verdict.outcome == "agree"
    return theory


def test_a_loss(monkeypatch):
    loss = skeleton("Add a loss", tu.losses)["Cauchy"]
    monkeypatch.setitem(tu.losses.NAMED, "cauchy", loss)
    theory = curves(loss="cauchy")
    assert theory.error[-1] < theory.error[0] / 2
    x = np.random.default_rng(0).standard_normal((200_000, 2)) @ np.linalg.cholesky([[1.0, 0.3], [0.3, 0.5]]).T
    assert float(theory.loss[0]) == pytest.approx(np.log1p((x[:, 0] - x[:, 1]) ** 2 / 2).mean(), rel=0.01)


def test_labels(monkeypatch):
    labels = skeleton("Add labels", tu.labels)["Probit"]
    monkeypatch.setitem(tu.labels.NAMED, "probit", labels)
    theory = curves(loss="logistic", labels="probit")
    assert theory.error[0] == pytest.approx(np.arccos(0.3 / np.sqrt(0.5)) / np.pi)
    assert theory.error[-1] < theory.error[0]
    values = jax.vmap(lambda xi: labels(width=0.5).label(0.3, None, xi, 0.0))(
        jax.random.normal(jax.random.key(0), (100_000,))
    )
    outcomes, weights = labels(width=0.5).outcomes(jnp.asarray(0.3), None, 0.0, affine=False)
    assert float(outcomes @ weights) == pytest.approx(float(values.mean()), abs=0.01)


def test_a_rule(monkeypatch):
    rule = skeleton("Add a rule", tu.rules)["Lazy"]
    monkeypatch.setitem(tu.rules.NAMED, "lazy", rule)
    theory = curves(rule="lazy", labels="sign")
    always, perceptron = (
        tu.solve(tu.Problem(UNIT, UNIT, sgd=tu.SGD(lr=0.5), rule=each, labels="sign"), START, TIMES)
        for each in (rule(keep=1.0), tu.rules.Perceptron())
    )
    np.testing.assert_allclose(always.error, perceptron.error, rtol=1e-9)
    assert np.all(theory.error[1:] > perceptron.error[1:])
    assert np.all(np.isnan(theory.loss))
