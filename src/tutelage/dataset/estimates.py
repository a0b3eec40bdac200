"""Curves with their errors: of sampling, from several scramblings, and of the time step."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from tutelage.dataset.grid import Grid
from tutelage.dataset.solver import Curves

CONFIDENCE = 0.975  # of each side of a 95% interval


class Plan(NamedTuple):
    """The grids, and how many paths and scramblings each kind of solve has.

    paths: of one scrambling on all grids. coarse_paths: of one on the coarsest grid.
    """

    grids: tuple[Grid, ...]
    paths: int
    scramblings: int
    coarse_paths: int = 0
    coarse_scramblings: int = 0

    @property
    def all_paths(self) -> int:
        """The number of paths of all scramblings."""
        coarse = self.coarse_paths * self.coarse_scramblings
        return self.paths * self.scramblings + coarse


@dataclass(frozen=True)
class Estimate:
    """Curves at the recorded times, and what their errors follow from.

    groups: for each kind of scrambling, what it gives with the mean of the other kind:
    a leading axis of scramblings, and the curves are its mean. second_order: the curves
    of the order below. gains: by which factor the error of the time step of each array
    is below their difference. interrupted: Ctrl-C ended the solve.
    """

    plan: Plan
    curves: Curves
    groups: tuple[Curves, ...]
    second_order: Curves
    gains: tuple[float, ...]
    interrupted: bool = False

    def bounds(self) -> Curves:
        """Return 95% bounds on the errors of all curves."""
        bounds = []
        for i, curve in enumerate(self.curves):
            members = [group[i] for group in self.groups]
            step_error = self.gains[i] * (curve - self.second_order[i])
            bounds.append(error_bound(members, step_error))
        return Curves(*bounds)

    def reached(self) -> float:
        """Return the largest standard error relative to the largest entry of its array.

        The error of the time step is included.
        """
        return float(np.hypot(self.sampling_error(), self.step_error()))

    def sampling_error(self) -> float:
        """Return the standard error of sampling, relative, of the worst array."""
        largest = 0.0
        for i, curve in enumerate(self.curves):
            error = standard_error([group[i] for group in self.groups])
            largest = max(largest, largest_share(error, curve))
        return largest

    def step_error(self, doubts: float = 0.0) -> float:
        """Return the error of the time step, relative, of the worst array.

        doubts: it is itself sampled; so many standard errors are taken off.
        """
        largest = 0.0
        for i, curve in enumerate(self.curves):
            error = np.abs(curve - self.second_order[i])
            noise = standard_error([group[i] for group in self.groups])
            certain = self.gains[i] * (error - doubts * noise)
            largest = max(largest, largest_share(certain, curve))
        return largest


def largest_share(error: np.ndarray, curve: np.ndarray) -> float:
    """Return the largest error in units of the largest entry of an array."""
    finite = np.isfinite(curve) & np.isfinite(error)
    if not np.any(finite):
        return 0.0
    scale = np.max(np.abs(curve[finite]))
    if scale == 0:
        return 0.0
    return float(np.max(error[finite]) / scale)


def standard_error(groups: list[Float[np.ndarray, "n ..."]]) -> np.ndarray:
    """Return the standard error of a sum of means, each over a first axis."""
    total = 0.0
    for members in groups:
        total = total + variance_of_mean(members)
    return np.sqrt(total)


def variance_of_mean(members: Float[np.ndarray, "n ..."]) -> np.ndarray:
    """Return the variance of the mean over the first axis."""
    return members.var(axis=0, ddof=1) / len(members)


def error_bound(
    groups: list[Float[np.ndarray, "n ..."]], step_error: np.ndarray
) -> np.ndarray:
    """Return the 95% bound of a sum of means, with the error of the step.

    Student's t with the degrees of freedom of Welch and Satterthwaite.
    """
    variance = 0.0
    spread = 0.0
    for members in groups:
        part = variance_of_mean(members)
        variance = variance + part
        spread = spread + part**2 / (len(members) - 1)
    variance = np.asarray(variance)
    fewest = min(len(members) for members in groups) - 1
    freedom = np.full(variance.shape, float(fewest))
    np.divide(variance**2, spread, out=freedom, where=np.asarray(spread) > 0)
    quantile = stdtrit(freedom, CONFIDENCE)
    return np.hypot(quantile * np.sqrt(variance), step_error)
