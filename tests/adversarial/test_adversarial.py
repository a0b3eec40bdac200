"""Random problems against plain NumPy: single steps, curves and laws (checks.py).

A failure prints its seed.
"""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.adversarial import checks, described, functions, packaged

FEW = {"drift": range(2), "law": (1,), "curve": (2,)}
# seeds of the long version, and of one test of it
MANY = 200
PART = 10
READY = (
    "erf_of_x",
    "leaky_called_relu",
    "small_jump",
    "cube_and_sign",
    "far_kink",
)  # of functions.HARD and HARD_JUMPS: those that the package's quadrature resolves

LONG = (
    "erf_of_x",
    "small_jump",
    "cube_and_sign",
    "far_kink",
)  # moments/test_jumps.py has their averages


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *((kind, seed) for kind, seeds in FEW.items() for seed in seeds),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (("drift", 2), ("drift", 3), ("curve", 8))
        ),
    ],
)
def test_random_problem(kind, seed):
    scores = checks.look(kind, described.draw(seed, bounded=kind != "drift"))
    assert not scores.alarming, scores


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, MANY, PART))
def test_many_random_problems(first):
    done = checks.survey(range(first, first + PART))
    print(checks.summary(done))
    assert not any(scores.alarming for scores in done), "\n".join(
        str(s) for s in done if s.alarming
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.full if n in LONG else ()) for n in READY],
)
def test_hard_function(name):
    case = replace(
        RICH,
        student=name if name in functions.HARD else "erf",
        teacher=name,
        b=None,
        b_teacher=None,
    )
    scores = checks.look("drift", replace(case, train_bias=False))
    assert not scores.alarming, scores


RICH = replace(
    described.draw(1),
    student="tanh",
    teacher="relu",
    lr=1.0,
    noise=0.5,
    batch=2,
    decay=0.3,
    momentum=0.3,
    slow=None,
    spherical=False,
    mask=None,
    train_readout=True,
    train_bias=True,
    b=np.array([0.4, -0.3]),
    b_teacher=np.array([0.2, 0.5]),
)
WRONG = {
    "noise": {"noise": 0.6},
    "batch": {"batch": 3},
    "decay": {"decay": 0.25},
    "momentum": {"momentum": 0.25},
    "bias": {"b": np.array([0.4, -0.2])},
    "sphere": {"spherical": True, "decay": 0.0},
    "mask": {"mask": np.arange(RICH.K * RICH.levels[0].size).reshape(RICH.K, -1) > 0},
}


def test_the_rich_problem_is_right():
    assert not checks.look("drift", RICH).alarming


@pytest.mark.parametrize("change", WRONG)
def test_the_theory_of_another_problem_is_noticed(change):
    """Negative control: one ingredient of the theory is wrong."""
    assert checks.drift(
        RICH, theory=packaged.drift(replace(RICH, **WRONG[change]))
    ).alarming


def test_a_wrong_four_field_average_is_noticed():
    """Negative control: G times 0.9, which is a tenth of the way to gradient flow."""
    right = packaged.drift(RICH)
    flow = packaged.drift(RICH, gradient_flow=True)
    assert checks.drift(
        RICH, theory={name: 0.9 * right[name] + 0.1 * flow[name] for name in right}
    ).alarming


def test_gradient_flow_is_noticed_in_curves():
    """Negative control: the curve without its eta^2 term."""
    case = replace(described.draw(FEW["curve"][0], bounded=True), noise=1.0)
    steps = np.array([0, int(0.6 * case.dim), int(1.2 * case.dim)])
    assert checks.curve(
        case, theory=packaged.solved(case, steps / case.dim, gradient_flow=True)
    ).alarming


def test_another_rate_is_noticed_in_laws():
    """Negative control: the simulated networks learn 20% faster."""
    case = replace(described.draw(FEW["law"][0], bounded=True), lr=0.3)
    assert not checks.look("law", case).alarming
    assert checks.law(case, other=replace(case, lr=0.36)).alarming


@pytest.mark.parametrize("name", ["functions", "described", "plain", "noisy"])
def test_the_reference_is_independent(name):
    """The plain half of this suite imports NumPy, SciPy and itself."""
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text())
    modules = {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    modules |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    homes = {m.split(".")[0] for m in modules}
    assert homes <= {"numpy", "scipy", "dataclasses", "typing", "tests"}
    assert not any(
        "packaged" in ast.unparse(n)
        for n in ast.walk(tree)
        if isinstance(n, ast.Import | ast.ImportFrom)
    )
