"""May I use an activation that nobody has integrated by hand?

Two units with g(z) = z / (1 + z^2), as student and as teacher. Their Gaussian averages
are found by quadrature; networks of 300 inputs say whether the theory built on them is
right.
"""

import sys
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import tutelage as tu


def bump(z: jax.Array) -> jax.Array:
    """Rises like z, falls like 1/z."""
    return z / (1 + z**2)


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return an average by two rules, and the distance of networks to theory.

    The distance is counted in standard errors.
    """
    problem = tu.Problem(
        tu.Network(2, bump), tu.Network(2, bump), optimizer=tu.SGD(lr=2.0)
    )
    start = tu.Start(R=[[0.6, 0.1], [0.1, 0.5]], Q=[[0.6, 0.1], [0.1, 0.6]])
    times = tu.linear_times(10, 21)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, dim=300, times=times, runs=20, seed=0)
    gap = runs.error.mean(axis=0) - theory.error
    z = gap[1:] / (runs.error.std(axis=0, ddof=1)[1:] / np.sqrt(20))
    C = np.array(
        [[0.6, 0.5], [0.5, 1.0]]
    )  # covariance of a student's and a teacher's field
    usual, finer = (
        float(tu.moments.I2(bump, C, quadrature=tu.Quadrature(nodes=nodes)))
        for nodes in (64, 400)
    )
    answer = {
        "average": usual,
        "finer": finer,
        "z": float(np.abs(z).max()),
        "error": float(theory.error[-1]),
    }
    print(f"E[g(a) g(b)] = {usual:.10f}, with a finer rule {finer:.10f}")
    print(
        f"e_g at alpha = 10: {theory.error[-1]:.5f}, "
        f"networks {runs.error[:, -1].mean():.5f}; largest |z| {answer['z']:.1f}"
    )
    draw(theory, runs, Path(folder))
    return answer


def draw(theory: tu.Trajectory, runs: tu.Trajectory, folder: Path) -> None:
    """Theory as a line, networks thin, their mean as marks."""
    folder.mkdir(parents=True, exist_ok=True)
    with tu.plot.style():
        figure = Figure(figsize=(6.5, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.plot(theory.times, runs.error.T, color="gray", linewidth=0.5, alpha=0.5)
        axes.plot(theory.times, theory.error, label="theory")
        axes.plot(
            theory.times,
            runs.error.mean(axis=0),
            "o",
            label="mean of 20 networks,\n$N = 300$",
        )
        axes.set(
            xlabel=r"time $\alpha$ = steps / $N$",
            ylabel=r"error $\epsilon_g$",
            title="Units that compute $z/(1 + z^2)$",
        )
        figure.legend(loc="outside right upper")
    tu.plot.save_figure(figure, folder / "own_activation.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
