"""How much of a first task is forgotten after a second one, and how much replay prevents it?

Two erf units with a head for each task learn two tasks of one unit each. The theory is
solved for fifty similarities at once; one of them is then tried on networks of 500
inputs, without and with replay.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tutelage as tu

START = tu.Start(
    R=[[0.05, 0.02], [-0.01, 0.03]],
    Q=[[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)
TIMES = tu.linear_times(60, 13)


def two_tasks(schedule: object, similarity: float = 0.5) -> tu.Problem:
    """Task 2 follows task 1 at time 30."""
    tasks = tu.Tasks(
        [tu.Network(1, "erf"), tu.Network(1, "erf")], schedule, similarity=similarity
    )
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=1.0)
    )


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the worst similarity, the best replay, and the forgetting."""
    found = tu.analysis.interference(two_tasks(tu.Switch(30.0)), START, TIMES)
    best = tu.analysis.best_replay(two_tasks(tu.Replay(0.0, after=30.0)), START, TIMES)
    print(found, best, sep="\n")
    answer = {"worst": found.worst()[0], "fraction": best.fraction}
    for name, fraction in (("without", 0.0), ("with", best.fraction)):
        problem = two_tasks(tu.Replay(fraction, after=30.0))
        theory = tu.analysis.forgetting(tu.solve(problem, START, TIMES))
        runs = tu.analysis.forgetting(
            tu.simulate(problem, START, dim=500, times=TIMES, runs=10, seed=0)
        )
        answer |= {
            name: theory.amount[0],
            f"networks_{name}": runs.amount[0],
            f"error_{name}": runs.standard_error[0],
        }
        print(
            f"forgetting {name} replay: {theory.amount[0]:.4f}, "
            f"ten networks: {runs.amount[0]:.4f}"
        )
    draw(found.similarity, found.forgetting[:, 0], answer, Path(folder))
    return answer


def draw(
    similarity: np.ndarray,
    forgetting: np.ndarray,
    answer: dict[str, float],
    folder: Path,
) -> None:
    """Forgetting against similarity, and the networks."""
    folder.mkdir(parents=True, exist_ok=True)
    with tu.plot.style():
        figure = Figure(figsize=(6.5, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.plot(similarity, forgetting, label="theory")
        for name, mark in (("without", "o"), ("with", "s")):
            axes.plot(
                [0.5],
                [answer[f"networks_{name}"]],
                mark,
                label=f"networks, $N = 500$, {name} replay",
            )
        axes.set(
            xlabel="similarity $V$ of the tasks",
            ylabel="forgetting of task 1",
            title="Which tasks interfere most?",
        )
        figure.legend(loc="outside right upper")
    tu.plot.save_figure(figure, folder / "forget_and_replay.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
