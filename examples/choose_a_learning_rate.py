"""Which constant learning rate should I take if I can afford 100 N samples, and which one diverges?

Two erf units learn from two, labels have noise 0.1. The theory is solved at forty rates
at once; the answer is then tried on networks of 2000 inputs.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tutelage as tu


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the best rate, its error, and the critical rate.

    The error of networks at the best rate is returned, too.
    """
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5), noise=0.1
    )
    start = tu.Start(R=[[0.40, 0.05], [0.05, 0.41]], Q=[[0.5, 0.0], [0.0, 0.5]])
    critical = float(tu.analysis.critical_learning_rate(problem.replace(noise=0.0)))
    rates = np.geomspace(0.1, 0.95 * critical, 40)
    errors = tu.solve_batch(problem, {"lr": rates}, start, times=[0.0, 100.0]).error[
        :, -1
    ]
    best = float(rates[np.argmin(errors)])
    runs = tu.simulate(
        problem.replace(lr=best), start, dim=2000, times=[0.0, 100.0], runs=4, seed=0
    )
    answer = {
        "rate": best,
        "error": float(errors.min()),
        "critical": critical,
        "networks": float(runs.error[:, -1].mean()),
    }
    print(
        f"best constant rate {best:.3f}: "
        f"e_g = {answer['error']:.3e} after 100 N samples"
    )
    print(
        f"four networks of 2000 inputs: {answer['networks']:.3e}; "
        f"zero error is unstable above {critical:.4f}"
    )
    draw(rates, errors, answer, Path(folder))
    return answer


def draw(
    rates: np.ndarray, errors: np.ndarray, answer: dict[str, float], folder: Path
) -> None:
    """The final error against the rate."""
    folder.mkdir(parents=True, exist_ok=True)
    with tu.plot.style():
        figure = Figure(figsize=(6.5, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.loglog(rates, errors, label="theory")
        axes.plot(answer["rate"], answer["networks"], "o", label="networks, $N = 2000$")
        axes.axvline(
            answer["critical"],
            linestyle=":",
            color="gray",
            label=r"critical rate $\eta_c$",
        )
        axes.set(
            xlabel=r"learning rate $\eta$",
            ylabel=r"error $\epsilon_g$ at $\alpha = 100$",
            title="Which rate ends lowest?",
        )
        figure.legend(loc="outside right upper")
    tu.plot.save_figure(figure, folder / "choose_a_learning_rate.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
