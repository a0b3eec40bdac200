"""What the figures share in which only some weights of one linear unit learn (3: eigenbasis, 15: raw coordinates)."""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage.papers.claims import Claim, above, at_least, at_most

if TYPE_CHECKING:
    from xarray import Dataset

FIRST, INSIDE = 0.5, 4.0  # share of the settling time that is left out; a gap in standard errors that is chance
EVEN = 80  # times at which settled networks are looked at
COMMON = {"levels": 256, "beta": 1.0, "rate": 0.05, "scale": 0.01, "trained": [50, 100, 150, 200], "seed": 1}


def problem_of(inputs: "tu.Inputs", rate: float) -> "tu.Problem":
    """One linear unit learns from one linear unit."""
    linear = tu.Network(1, "linear")
    return tu.Problem(linear, linear, inputs=inputs, sgd=tu.SGD(rate))


def steps_at(times: np.ndarray, dim: int) -> np.ndarray:
    """ceil(alpha N)."""
    return np.ceil(times * dim - 1e-9).astype(int)


def drawn(rng: np.random.Generator, starts: int, dim: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Student and teacher weights."""
    return scale * rng.standard_normal((starts, dim)), rng.standard_normal((starts, dim))


def floor_z(settled: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Time averages of settled networks against expected ones, in standard errors over the starts."""
    gap = (settled - expected).mean(axis=2)
    return gap.mean(axis=1) / (gap.std(axis=1, ddof=1) / np.sqrt(gap.shape[1]))


def run_claims(case: "Dataset", name: str) -> list[Claim]:
    """Runs agree with the exact mean of their starts, and their floor with the finite rate, not with the small one."""
    inside = float(np.mean(np.abs(case["z"]) < INSIDE))
    return [
        at_least(f"share of times with |z| < 4, runs against the exact mean of their starts, {name}", inside, 0.95),
        at_most(
            f"floor: |z| against the finite-rate prediction for the drawn starts, {name}",
            abs(float(case["floor_z"])),
            INSIDE,
        ),
        above(f"floor: z against the small-rate floor (must fail), {name}", float(case["bare_z"]), INSIDE),
    ]
