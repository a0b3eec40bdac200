"""Where in the plane of learning rate and label noise does learning succeed?

Two erf units, 16 rates times 9 noise levels, the error after 300 N samples. Two lines
come from theory alone: where zero error loses its stability, and where label noise
leaves an error of 0.01 in the end.
"""

import sys
from pathlib import Path

import numpy as np

import tutelage as tu

LEVEL = 0.01


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the share of the plane with e_g < 0.01.

    The rate at which noiseless learning is lost is returned, too.
    """
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )
    start = tu.Start(R=[[0.6, 0.2], [0.2, 0.5]], Q=[[0.5, 0.1], [0.1, 0.5]])
    rates, noises = np.geomspace(0.1, 3.2, 16), np.linspace(0.0, 0.4, 9)
    found = tu.sweep(
        problem,
        over={"lr": rates, "noise": noises},
        start=start,
        times=[0.0, 300.0],
        executor="serial",
    )
    error = found["final_error"].transpose("lr", "noise").values
    good = error < LEVEL
    lost = float(rates[np.argmax(~good[:, 0])])
    critical = float(tu.analysis.critical_learning_rate(problem))
    floor = float(
        tu.analysis.noise_floor(problem.replace(lr=rates[8], noise=noises[1])).error
    )
    print(found)
    print(
        f"e_g < {LEVEL} on {good.mean():.0%} of the plane; "
        f"without noise lost at {lost:.2f}, critical rate {critical:.2f}"
    )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["critical_learning_rate", "noise_floor"]
    tu.plot.save_figure(
        found.plot(boundary=lines, level=LEVEL), folder / "phase_diagram.png"
    )
    return {
        "share": float(good.mean()),
        "lost": lost,
        "critical": critical,
        "error_at_low_noise": float(error[8, 1]),
        "floor_at_low_noise": floor,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
