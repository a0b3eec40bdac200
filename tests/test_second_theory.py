"""The seam: a second theory, defined here, is used through the public functions.

Full-batch gradient descent of a linear unit on a data set of n = ratio N samples. It has
memory (every sample is used in every step) and a closed form: the eigenvalues s of
X^T X / N follow the law of Marchenko and Pastur, and each one relaxes alone. Nothing in
the package names this theory.
"""

from typing import Any, ClassVar

import numpy as np
import pytest

import tutelage as tu
from tests.problem.messages import require_refusal
from tutelage.problem.traits import Trait
from tutelage.theories import Observable, Theory
from tutelage.training.optimizers import Optimizer

NODES = 400
TIMES = np.arange(0.0, 41.0, 4.0)


class ToyDescent(Optimizer):
    """w <- (1 - g kappa) w + (g / ratio) / sqrt(N) sum_mu delta_mu x_mu; time:

    steps.
    """

    kind: ClassVar[str] = "toy_descent"
    counts_steps: ClassVar[bool] = True
    counts_steps: ClassVar[bool] = True

    ratio: Any = 4.0


class ToyTheory(Theory):
    """The mean over the spectrum of what each eigenvalue of the data does."""

    name = "a toy data set"
    needs = (
        Trait(
            lambda p: isinstance(p.optimizer, ToyDescent),
            "the optimizer is {optimizer}",
            "optimizer=ToyDescent(lr)",
        ),
        Trait(
            lambda p: (
                p.student.activation.name == p.teacher.activation.name == "linear"
            ),
            "a unit is not linear",
            "linear units",
        ),
        "real",
    )
    observables = (
        Observable("train_error", "training error", panel="error"),
        Observable("train_loss", "loss on the data", panel="loss"),
        Observable("epochs", "passes over the data"),
    )

    def solve(self, problem, start, times, *, nodes=NODES):
        curves = self.curves(problem, start, np.asarray(times), nodes)
        coarse = self.curves(problem, start, np.asarray(times), nodes // 2)
        error = np.abs(curves["error"] - coarse["error"]) + 1e-14
        return trajectory_of(problem, start, times, curves, estimates={"error": error})

    def curves(self, problem, start, times, nodes):
        descent = problem.optimizer
        variance = float(problem.noise) ** 2
        g = descent.lr
        kappa = descent.weight_decay
        ratio = descent.ratio
        theta = np.pi * np.arange(1, nodes + 1) / (nodes + 1)
        s = 1 + ratio + 2 * np.sqrt(ratio) * np.cos(theta)
        mean = 2 * ratio * np.sin(theta) ** 2 / ((nodes + 1) * s)  # weights: sum 1
        (R0,), (Q0,) = np.ravel(start.R), np.ravel(start.Q)
        a = (1 - g * kappa - g * s / ratio) ** times[:, None]
        b = (1 - a) * s / (ratio * kappa + s)
        R = (a * R0 + b) @ mean
        Q = (a**2 * Q0 + 2 * a * b * R0 + b**2 * (1 + variance / s)) @ mean
        fit = a**2 * Q0 - 2 * a * (1 - b) * R0 + (1 - b) ** 2
        train = (s * fit + variance * (b**2 - 2 * b)) @ mean / (
            2 * ratio
        ) + variance / 2
        return {"R": R, "Q": Q, "error": (1 - 2 * R + Q) / 2, "train": train}


def trajectory_of(problem, start, times, curves, **more):
    """A Trajectory of curves (..., time)."""
    lead = curves["error"].shape[:-1]
    return tu.Trajectory(
        times=np.asarray(times, dtype=float),
        variables={name: curves[name][..., None, None] for name in ("R", "Q")},
        error=curves["error"],
        loss=curves["error"] + float(problem.noise) ** 2 / 2,
        status_code=np.zeros(lead, int),
        end_time=np.full(lead, float(np.max(times))),
        steps=np.full(lead, int(np.max(times))),
        problem=problem,
        start=start,
        curves={
            "train_error": curves["train"],
            "train_loss": curves["train"],
            "epochs": np.asarray(times, dtype=float),
        },
        observables=ToyTheory.observables,
        **more,
    )


def simulate_toy(problem, start, *, dim=None, times, runs=20, seed=0):
    """Plain NumPy: draw a data set, then descend on it."""
    rng = np.random.default_rng(seed)
    dim = dim or start.dim
    samples = int(problem.optimizer.ratio * dim)
    curves = {
        name: np.empty((runs, len(times))) for name in ["R", "Q", "error", "train"]
    }
    for run in range(runs):
        frame = np.linalg.qr(rng.standard_normal((dim, 2)))[0].T * np.sqrt(dim)
        R0 = float(start.R[0][0])
        Q0 = float(start.Q[0][0])
        w = R0 * frame[0] + np.sqrt(Q0 - R0**2) * frame[1]
        X = rng.standard_normal((samples, dim)) / np.sqrt(dim)
        y = X @ frame[0] + problem.noise * rng.standard_normal(samples)
        for step in range(int(times[-1]) + 1):
            residual = y - X @ w
            for i in np.flatnonzero(times == step):
                R = w @ frame[0] / dim
                Q = w @ w / dim
                train = residual @ residual / (2 * samples)
                numbers = {"R": R, "Q": Q, "error": (1 - 2 * R + Q) / 2, "train": train}
                for name, value in numbers.items():
                    curves[name][run, i] = value
            pull = problem.optimizer.lr / problem.optimizer.ratio * X.T @ residual
            w = (1 - problem.optimizer.lr * problem.optimizer.weight_decay) * w + pull
    settings = (("dim", dim), ("runs", runs), ("seed", seed))
    made = {"kind": "simulation", "settings": settings}
    return trajectory_of(problem, start, times, curves, **made)


LINEAR = tu.Network(1, "linear")
PROBLEM = tu.Problem(
    LINEAR, LINEAR, optimizer=ToyDescent(0.3, ratio=2.0, weight_decay=0.05), noise=0.5
)
START = tu.Start(R=[[0.2]], Q=[[0.5]])


@pytest.fixture(autouse=True)
def toy():
    """The theory, in the table for the time of a test."""
    theory = tu.theories.register(ToyTheory(simulator=simulate_toy))
    yield theory
    tu.theories.unregister(theory)


@pytest.fixture(scope="module")
def runs():
    return simulate_toy(PROBLEM, START, dim=300, times=TIMES, runs=24, seed=1)


def test_the_theory_of_the_problem_is_found(toy):
    assert tu.theories.theory_of(PROBLEM) is toy
    fresh = PROBLEM.replace(optimizer=tu.SGD(0.3))
    assert tu.theories.theory_of(fresh).name == "fresh samples"


def test_solve_and_simulate_agree(runs):
    theory = tu.solve(PROBLEM, START, TIMES)
    again = tu.simulate(PROBLEM, START, dim=300, times=TIMES, runs=24, seed=1)
    np.testing.assert_array_equal(again.error, runs.error)
    assert theory.train_error[-1] < theory.error[-1] + 0.125
    comparison = tu.compare(theory, runs)
    assert comparison.agrees, str(comparison)
    for name in ("train_error", "error"):
        curves = getattr(runs, name)
        curve = getattr(theory, name)
        standard_error = np.std(curves, axis=0, ddof=1) / np.sqrt(len(curves))
        gap = np.abs(np.mean(curves, axis=0) - curve)
        assert np.all(gap[1:] < 4 * standard_error[1:] + 2e-3), name


def test_a_wrong_theory_is_found(runs):
    """Negative control: twice the data would give another curve."""
    wrong = tu.solve(PROBLEM.replace(ratio=4.0), START, TIMES)
    of_this_problem = trajectory_of(
        PROBLEM,
        START,
        TIMES,
        {
            "R": wrong.R[:, 0, 0],
            "Q": wrong.Q[:, 0, 0],
            "error": wrong.error,
            "train": wrong.train_error,
        },
    )
    assert tu.compare(of_this_problem, runs).agrees is False


def test_files_hold_its_curves(tmp_path, runs):
    theory = tu.solve(PROBLEM, START, TIMES)
    for trajectory in (theory, runs):
        loaded = tu.load(trajectory.save(tmp_path / "toy.nc"))
        assert repr(loaded.problem) == repr(PROBLEM)
        assert loaded.observables == ToyTheory.observables
        np.testing.assert_array_equal(loaded.train_error, trajectory.train_error)
        np.testing.assert_array_equal(loaded.epochs, TIMES)
        np.testing.assert_array_equal(loaded.step, TIMES) if loaded is runs else None
        assert loaded.estimates.keys() == trajectory.estimates.keys()
    assert tu.Problem.from_toml(PROBLEM.to_toml()).optimizer.kind == "toy_descent"


def test_its_curves_are_drawn(runs):
    for trajectory in (tu.solve(PROBLEM, START, TIMES), runs):
        axes = trajectory.plot().axes
        words = axes[0].get_legend_handles_labels()[1]
        assert words == ["error on fresh samples", "training error"]
        assert axes[1].get_ylabel() == "loss"
        assert axes[-1].get_xlabel() == "steps"
        assert "train_error" in trajectory._repr_html_()
    assert tu.solve(PROBLEM, START, TIMES).widget() is not None


def test_it_is_swept():
    measures = ["final_error", "final_train_error", "simulated_final_error"]
    times = TIMES[:4].tolist()
    grid = {"lr": [0.1, 0.3]}
    swept = tu.sweep(
        PROBLEM,
        grid,
        measures,
        times=times,
        start=tu.Start(R=[[0.2]], Q=[[0.5]], dim=50),
        runs=2,
        executor="serial",
    )
    assert not any(swept.dataset["failure"].values)
    for lr, error in zip(grid["lr"], swept["final_error"].values, strict=True):
        alone = tu.solve(PROBLEM.replace(lr=lr), START, times)
        assert error == pytest.approx(alone.error[-1], rel=1e-12)


def test_what_it_does_not_offer_is_refused():
    with pytest.raises(tu.InputError) as caught:
        tu.solve_batch(PROBLEM, {"lr": [0.1, 0.2]}, START, TIMES)
    require_refusal(caught.value, "a toy data set", "solve once")
    with pytest.raises(tu.InputError) as caught:
        tu.solve(PROBLEM, START, TIMES, gradient_flow=True)
    require_refusal(caught.value, "gradient_flow", "leave it out")
    with pytest.raises(tu.InputError) as caught:
        tu.analysis.noise_floor(PROBLEM)
    require_refusal(caught.value, "ToyDescent", "SGD")
    theory = tu.solve(PROBLEM, START, TIMES)
    assert not theory.has_validity
    with pytest.raises(tu.InputError):
        _ = theory.validity


def test_a_problem_without_a_theory_gets_one_message():
    problem = PROBLEM.replace(student=tu.Network(1, "erf"))
    with pytest.raises(tu.InputError) as caught:
        tu.solve(problem, START, TIMES)
    require_refusal(caught.value, "fresh samples", "a toy data set", "linear units")
