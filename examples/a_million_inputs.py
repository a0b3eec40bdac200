"""Does a network of a million inputs follow the theory, and can I afford to find out?

`simulate` draws the law of the overlaps exactly, so a step costs the same at N = 10^6
as at N = 100. One network of a million inputs, two million steps; theory predicts how
far it may stray.
"""

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tutelage as tu

DIM = 10**6
TIMES = tu.linear_times(2, 21)


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the largest distance to the theory, and the steps per second.

    The distance is counted in predicted standard deviations.
    """
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=1.0), noise=0.1
    )
    start = tu.Start(R=[[0.4, 0.1], [0.05, 0.3]], Q=[[0.4, 0.1], [0.1, 0.3]])
    theory = tu.solve(problem, start, TIMES)
    bars = tu.analysis.fluctuations(problem, start, times=TIMES, dim=DIM)
    tu.simulate(problem, start, dim=100, times=TIMES, runs=1)  # compiles
    begin = time.perf_counter()
    run = tu.simulate(problem, start, dim=DIM, times=TIMES, runs=1, seed=1)
    speed = 2 * DIM / (time.perf_counter() - begin)
    z = (run.error[0, 1:] - theory.error[1:]) / bars.sd("error")[1:]
    print(
        f"{2 * DIM} steps at {speed:.2g} steps per second; "
        f"e_g = {run.error[0, -1]:.6f}, theory {theory.error[-1]:.6f}"
    )
    print(
        f"predicted scatter {bars.sd('error')[-1]:.1e}; "
        f"the network is at most {np.abs(z).max():.1f} of it away"
    )
    draw(theory, run, bars.sd("error"), Path(folder))
    error, sd = float(run.error[0, -1]), float(bars.sd("error")[-1])
    return {
        "z": float(np.abs(z).max()),
        "sd": sd,
        "speed": speed,
        "error": error,
        "theory": float(theory.error[-1]),
    }


def draw(
    theory: tu.Trajectory, run: tu.Trajectory, sd: np.ndarray, folder: Path
) -> None:
    """The distance to the theory, which is invisible on the curve itself."""
    folder.mkdir(parents=True, exist_ok=True)
    with tu.plot.style():
        figure = Figure(figsize=(6.5, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.fill_between(
            TIMES,
            -2e6 * sd,
            2e6 * sd,
            alpha=0.3,
            label="two standard deviations, theory",
        )
        axes.plot(
            TIMES,
            1e6 * (run.error[0] - theory.error),
            "o-",
            label="one network of a million inputs",
        )
        axes.set(
            xlabel=r"time $\alpha$ = steps / $N$",
            ylabel=r"$10^6\,\times$ distance of $\epsilon_g$ to theory",
            title="One network of a million inputs, and how far it may stray",
        )
        figure.legend(loc="outside lower center", ncols=2)
    tu.plot.save_figure(figure, folder / "a_million_inputs.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
