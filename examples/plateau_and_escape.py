"""How long does learning stall, and would a more symmetric start stall longer?

Two erf units begin nearly alike. The theory finds the plateau; `escape_time` predicts
its end from the start alone, and what a tenth of the asymmetry would do; a second solve
checks the prediction.
"""

import sys
from pathlib import Path

import numpy as np

import tutelage as tu

TIMES = tu.linear_times(400, 401)


def start(asymmetry: float) -> tu.Start:
    """Unit k has this much more of teacher k than of the other one."""
    R = 0.1 + asymmetry * np.eye(2)
    return tu.Start(R=R, Q=0.1 * np.eye(2))


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the plateau's height, and escape times of two asymmetries.

    The escape times are predicted and solved.
    """
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )
    theory, later = (
        tu.solve(problem, start(asymmetry), TIMES) for asymmetry in (1e-3, 1e-4)
    )
    plateau = tu.analysis.plateaus(theory)[0]
    escape = tu.analysis.escape_time(problem, start(1e-3))
    height = escape.plateau.error
    solved = [
        float(curve.times[np.argmax(curve.error < height / 2)])
        for curve in (theory, later)
    ]
    print(
        f"plateau at {plateau.height:.6f} (fixed point {height:.6f}), "
        f"from {plateau.start:.0f} to {plateau.end:.0f}"
    )
    print(
        f"escape predicted at {escape.time:.1f}, solved {solved[0]:.1f}; "
        "a tenth of the asymmetry: predicted "
        f"{escape.scaled(0.1):.1f}, solved {solved[1]:.1f}"
    )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tu.plot.save_figure(
        tu.analysis.plateaus(theory).plot(), folder / "plateau_and_escape.png"
    )
    tu.page.trajectory_page(theory, title="A plateau and its escape").save(
        folder / "plateau_and_escape.html"
    )
    return {
        "height": plateau.height,
        "fixed_point": float(height),
        "predicted": escape.time,
        "solved": solved[0],
        "predicted_later": escape.scaled(0.1),
        "solved_later": solved[1],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
