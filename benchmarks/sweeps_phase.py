"""A phase diagram of 200 x 100 label noises and learning rates, beside a plain loop.

The loop is timed on a sample of the points, evenly spread, and extrapolated; its
program is compiled before the clock starts. The sweep is timed with everything:
processes that start and compile, and files that are written.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import tutelage as tu
from benchmarks.measure import best_of, cores, pick, record
from tutelage.cli.sweep import read_sweep_file

FILE = Path(__file__).parents[1] / "examples" / "phase_diagram.toml"


def phase_diagram() -> None:
    """20000 learning curves, in processes; baseline: one `solve` after the other."""
    problem, arguments, _ = read_sweep_file(FILE)
    thinned = pick(1, 4, 100)
    over = {name: values[::thinned] for name, values in arguments["over"].items()}
    executor = pick("processes", "processes", "serial")
    with tempfile.TemporaryDirectory() as folder:
        options = arguments | {
            "over": over,
            "out": Path(folder) / "phase",
            "executor": executor,
        }
        seconds, swept = best_of(lambda: tu.sweep(problem, **options), 1)
    noise, lr = (axis.ravel() for axis in np.meshgrid(*over.values(), indexing="ij"))
    chosen = np.unique(
        np.linspace(0, noise.size - 1, pick(200, 100, 2)).round().astype(int)
    )
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)

    def one(i: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tu.errors.TutelageWarning)
            alone = tu.solve(
                problem.replace(noise=noise[i], lr=lr[i]),
                start,
                arguments["times"],
                rtol=arguments["rtol"],
            )
        return float(alone.error[-1])

    one(0)
    loop, errors = best_of(lambda: np.array([one(i) for i in chosen]), 1)
    loop *= noise.size / chosen.size
    gap = np.abs(swept["final_error"].values.ravel()[chosen] - errors).max()
    note = (
        f"{noise.size / seconds * cores():.0f} points/s; baseline a loop over solve, "
        f"{chosen.size} points extrapolated"
    )
    record(
        f"phase diagram, {noise.size} points, K=M=2, alpha=1000",
        seconds / cores(),
        loop,
        gap,
        note,
    )


ALL = (phase_diagram,)
