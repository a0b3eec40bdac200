"""Do extra hidden units help when labels are noisy?

Two erf teachers, students of two, three and four units, label noise 0.1, learning rate
0.1. The error ends on a floor, sigma^2 eta / (2 pi) (extra + M / sqrt 3) to first
order: each unit too many costs error for good (Goldt et al. 2019).
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tutelage as tu

SIGMA, ETA, TEACHERS = 0.1, 0.1, 2
TIMES = np.geomspace(1, 3000, 61)


def main(folder: str | Path = "output/examples") -> dict[int, tuple[float, float]]:
    """Print and return the error at the end and the formula's floor.

    They are those of each number of students.
    """
    curves, answer = {}, {}
    for students in (2, 3, 4):
        problem = tu.Problem(
            tu.Network(students, "erf"),
            tu.Network(TEACHERS, "erf"),
            optimizer=tu.SGD(lr=ETA),
            noise=SIGMA,
        )
        theory = tu.solve(problem, tu.asymmetric_start(problem), TIMES)
        floor = (
            SIGMA**2 * ETA / (2 * np.pi) * (students - TEACHERS + TEACHERS / np.sqrt(3))
        )
        curves[students], answer[students] = (
            theory,
            (float(theory.error[-1]), float(floor)),
        )
        print(
            f"{students} students: e_g = {theory.error[-1]:.3e} "
            f"at alpha = {TIMES[-1]:.0f}; formula {floor:.3e}"
        )
    draw(curves, answer, Path(folder))
    return answer


def draw(
    curves: dict[int, tu.Trajectory],
    answer: dict[int, tuple[float, float]],
    folder: Path,
) -> None:
    """Learning curves above their floors."""
    folder.mkdir(parents=True, exist_ok=True)
    with tu.plot.style():
        figure = Figure(figsize=(6.5, 3.5), layout="constrained")
        axes = figure.subplots()
        for students, curve in curves.items():
            (line,) = axes.loglog(
                curve.times, curve.error, label=f"{students} students"
            )
            axes.axhline(answer[students][1], color=line.get_color(), linestyle=":")
        axes.set(
            xlabel=r"time $\alpha$ = steps / $N$",
            ylabel=r"error $\epsilon_g$",
            title="More units, more noise learned (dotted: formula)",
        )
        figure.legend(loc="outside right upper")
    tu.plot.save_figure(figure, folder / "overparameterize_with_noise.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
