"""The phase diagram of label noise and learning rate for K = M = 2 (200 x 100 points), beside a plain loop over `solve`.

    python -m benchmarks.sweeps_phase            about two minutes on two idle cores

The loop is timed on a sample of the points, evenly spread, and extrapolated; its program is compiled before the clock
starts. The sweep is timed with everything: processes that start and compile, and files that are written.
"""

import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import tutelage as tu
from benchmarks.core import record
from tutelage.cli.sweep_file import read_sweep_file

FILE = Path(__file__).parents[1] / "examples" / "phase_diagram.toml"
SAMPLE = 200  # points of the loop


def cpu() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def timed(work):
    """(seconds on the wall, seconds of processors, result)."""
    wall, processors = time.perf_counter(), cpu()
    result = work()
    return time.perf_counter() - wall, cpu() - processors, result


def phase_diagram() -> None:
    """20000 learning curves, in processes; baseline: one `solve` after the other."""
    problem, arguments, _ = read_sweep_file(FILE)
    with tempfile.TemporaryDirectory() as folder:
        wall, processors, swept = timed(
            lambda: tu.sweep(problem, **arguments, out=Path(folder) / "phase", executor="processes")
        )
    noise, lr = (axis.ravel() for axis in np.meshgrid(*arguments["over"].values(), indexing="ij"))
    chosen = np.linspace(0, noise.size - 1, SAMPLE).round().astype(int)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)

    def one(i: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tu.TutelageWarning)
            alone = tu.solve(problem.replace(noise=noise[i], lr=lr[i]), start, arguments["times"], rtol=arguments["rtol"])
        return float(alone.error[-1])

    one(0)
    loop, loop_processors, errors = timed(lambda: np.array([one(i) for i in chosen]))
    share = noise.size / SAMPLE
    gap = np.abs(swept["final_error"].values.ravel()[chosen] - errors).max()
    note = f"processor time {processors:.0f} s against {loop_processors * share:.0f} s"
    record(f"phase diagram, {noise.size} points, K=M=2, alpha=1000", wall, loop * share, gap, note)


ALL = (phase_diagram,)

if __name__ == "__main__":
    from benchmarks.core import ROWS

    phase_diagram()
    print(ROWS[-1])
