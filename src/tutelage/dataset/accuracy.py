"""Curves of several grids and scramblings, and how far they are from the exact ones.

Errors of the time step are smooth: f(h) = f + c1 h + c2 h^2 + .... Three grids of steps
4h, 2h and h, with the same paths, give the estimates of second and third order

    f2 = 2 f(h) - f(2h),        f3 = (8 f(h) - 6 f(2h) + f(4h)) / 3

f3 is returned and |f3 - f2| counts as its error. Independent scramblings of the paths
give the standard error of their mean. Gradient descent has one grid, without such an
error.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from scipy.special import stdtrit

from tutelage._pool import cores
from tutelage.dataset.grid import (
    Grid,
    descent_grid,
    epoch_length,
    is_descent,
    stochastic_grid,
)
from tutelage.dataset.paths import draw_paths, most_visits, require_path_memory
from tutelage.dataset.setting import Setting
from tutelage.dataset.solver import Curves, solve_on_grid
from tutelage.errors import InputError
from tutelage.progress import progress_bar
from tutelage.training.schedules import rate_values

GRIDS = 3  # of steps 4h, 2h, h
SECOND_ORDER = np.array([0.0, -1.0, 2.0])
THIRD_ORDER = np.array([1.0, -6.0, 8.0]) / 3.0
# The first choice of h: a share of 1 / lr, and of an epoch.
STEP_OF_RATE = 0.1
STEP_OF_EPOCH = 1 / 12
FINER = 3  # the most times that h is halved
# Scramblings: of a pilot that chooses steps and paths, and of a solve.
PILOT = 4
SCRAMBLINGS = 8
MOST_SCRAMBLINGS = 64
FEWEST_PATHS = 2048
MOST_PATHS = 16384
# Visits per cell of the finest grid below which averages are too noisy to be stable.
VISITS_PER_CELL = 16
FEWEST_VISITS = 4  # below, a user's number of paths is refused
DOUBTS = 2.0  # standard errors by which a pilot may overrate the error of its step
STEP_SHARE = 0.8  # of the accuracy that the error of the time step may take
HOPE = 1.6  # the power by which paths in all grow with the relative error
CONFIDENCE = 0.975  # of each side of a 95% interval


class Plan(NamedTuple):
    """The grids, the paths of one scrambling, and the number of scramblings."""

    grids: tuple[Grid, ...]
    paths: int
    scramblings: int


@dataclass(frozen=True)
class Estimate:
    """Curves at the recorded times, with a leading axis of scramblings.

    members: of highest order in the time step. coarse_members: of the order below.
    """

    plan: Plan
    members: Curves
    coarse_members: Curves

    @property
    def curves(self) -> Curves:
        """The mean over the scramblings."""
        return _mapped(lambda x: x.mean(axis=0), self.members)

    @property
    def coarse(self) -> Curves:
        """The mean of lower order in the time step."""
        return _mapped(lambda x: x.mean(axis=0), self.coarse_members)

    def bounds(self) -> Curves:
        """Return 95% bounds on the errors of all curves."""
        bounds = [
            error_bound(np.asarray(members), curve - coarse)
            for members, curve, coarse in zip(
                self.members, self.curves, self.coarse, strict=True
            )
        ]
        return Curves(*bounds)

    def reached(self) -> float:
        """Return the largest standard error relative to the largest entry of its array.

        The error of the time step is included.
        """
        sampling, discretization = self.relative_errors()
        return float(np.hypot(sampling, discretization))

    def relative_errors(self, doubts: float = 0.0) -> tuple[float, float]:
        """Return the errors of sampling and of the time step, of the worst array.

        doubts: the error of the time step is itself sampled; so many of its standard
        errors are taken off.
        """
        sampling = 0.0
        discretization = 0.0
        for members, coarse in zip(self.members, self.coarse_members, strict=True):
            curve = members.mean(axis=0)
            steps = members - coarse
            finite = np.isfinite(curve)
            if not np.any(finite):
                continue
            scale = np.max(np.abs(curve[finite]))
            if scale == 0:
                continue
            error = standard_error(members)[finite]
            sampling = max(sampling, float(np.max(error)) / scale)
            uncertainty = doubts * standard_error(steps)
            step_error = (np.abs(steps.mean(axis=0)) - uncertainty)[finite]
            discretization = max(discretization, float(np.max(step_error)) / scale)
        return sampling, discretization


def standard_error(members: Float[np.ndarray, "n ..."]) -> np.ndarray:
    """Return the standard error of the mean over the first axis."""
    return members.std(axis=0, ddof=1) / np.sqrt(len(members))


def error_bound(members: Float[np.ndarray, "n ..."], step_error: np.ndarray) -> Any:
    """Return the 95% bound of a mean over scramblings, with the error of the step."""
    quantile = stdtrit(len(members) - 1, CONFIDENCE)
    return np.hypot(quantile * standard_error(members), step_error)


def estimate(
    setting: Setting,
    times: Float[np.ndarray, " time"],
    accuracy: float,
    seed: int,
    paths: int | None,
    progress: bool,
) -> Estimate:
    """Return curves whose standard error is below `accuracy`, if the cost allows it.

    accuracy: relative to the largest entry of each array. paths: of all scramblings
    together, in place of the number that the accuracy needs.
    """
    plan = first_plan(setting, times)
    if paths is not None:
        each = 2 ** int(np.ceil(np.log2(max(2, paths / SCRAMBLINGS))))
        _require_visits(plan.grids[-1], each, paths)
        plan = plan._replace(paths=each, scramblings=SCRAMBLINGS)
        return run(setting, plan, times, seed, progress)
    pilot = run(setting, plan, times, _pilot_seed(seed), progress)
    plan = better_plan(setting, times, pilot, accuracy)
    found = run(setting, plan, times, seed, progress)
    sampling, discretization = found.relative_errors()
    goal = np.sqrt(max(accuracy**2 - discretization**2, (accuracy / 2) ** 2))
    if sampling <= goal:
        return found
    # more scramblings: the squared error of their mean falls like 1 / n
    needed = int(np.ceil(plan.scramblings * (sampling / goal) ** 2))
    more = min(needed, MOST_SCRAMBLINGS)
    return run(setting, plan._replace(scramblings=more), times, seed, progress, found)


def _pilot_seed(seed: int) -> int:
    """Return a seed whose scramblings are not those of the solve."""
    return seed + 2**40


def first_plan(setting: Setting, times: Float[np.ndarray, " time"]) -> Plan:
    """Return the grids and paths of the pilot."""
    problem = setting.problem
    end = float(times[-1])
    if is_descent(problem):
        grids = (descent_grid(problem, end),)
    else:
        span = np.linspace(0.0, end, 257)
        largest = float(np.max(rate_values(problem.optimizer.lr, span)))
        eigenvalue = float(setting.eigenvalues.max())
        step = STEP_OF_EPOCH * epoch_length(problem)
        if largest * eigenvalue > 0:
            step = min(step, STEP_OF_RATE / (largest * eigenvalue))
        grids = _grids(setting, end, step)
    return Plan(grids, _least_paths(grids), PILOT)


def _grids(setting: Setting, end: float, step: float) -> tuple[Grid, ...]:
    """Return the grids of steps 4h, 2h and h, with h of about `step`."""
    coarsest = 2 ** (GRIDS - 1) * step
    return tuple(
        stochastic_grid(setting.problem, end, coarsest, level) for level in range(GRIDS)
    )


def _least_paths(grids: tuple[Grid, ...]) -> int:
    """Return the smallest number of paths with enough visits in each cell."""
    probability = grids[-1].visit_probability
    needed = VISITS_PER_CELL / float(np.max(probability))
    if float(np.sum(probability)) < 1:  # too few visits for an instability
        needed = min(needed, 2 * FEWEST_PATHS)
    return max(FEWEST_PATHS, 2 ** int(np.ceil(np.log2(needed))))


def _require_visits(grid: Grid, each: int, paths: int) -> None:
    """Refuse so few paths that the averages over one cell mean nothing."""
    most = float(np.max(grid.visit_probability))
    is_visited_often = float(np.sum(grid.visit_probability)) >= 1
    if is_visited_often and each * most < FEWEST_VISITS:
        needed = SCRAMBLINGS * 2 ** int(np.ceil(np.log2(FEWEST_VISITS / most)))
        raise InputError(
            f"moments has {paths} points, which is too few sample paths for these epochs; "
            f"give {needed} or more, or leave moments out."
        )


def better_plan(
    setting: Setting,
    times: Float[np.ndarray, " time"],
    pilot: Estimate,
    accuracy: float,
) -> Plan:
    """Return the plan that reaches the accuracy, as the errors of a pilot predict."""
    sampling, discretization = pilot.relative_errors(doubts=DOUBTS)
    grids = pilot.plan.grids
    allowed = STEP_SHARE * accuracy
    if len(grids) > 1 and discretization > allowed:
        # |f3 - f2| falls like h^2
        halvings = int(np.ceil(np.log2(discretization / allowed) / 2))
        step = grids[-1].longest / 2 ** min(halvings, FINER)
        grids = _grids(setting, float(times[-1]), step)
    # The error of quasi-random paths falls faster than one over the root of their number,
    # and the largest of many estimated errors is too large: begin with few paths.
    all_paths = PILOT * pilot.plan.paths * (sampling / accuracy) ** HOPE
    each = 2 ** round(np.log2(max(2.0, all_paths / SCRAMBLINGS)))
    least = _least_paths(grids)
    each = max(least, min(each, max(MOST_PATHS, least)))
    return Plan(grids, each, SCRAMBLINGS)


def run(
    setting: Setting,
    plan: Plan,
    times: Float[np.ndarray, " time"],
    seed: int,
    progress: bool,
    known: Estimate | None = None,
) -> Estimate:
    """Solve on all grids with all scramblings, in threads.

    known: an estimate of the same plan with fewer scramblings, the first ones.
    """
    begun = 0 if known is None else known.plan.scramblings
    finest = plan.grids[-1]
    workers = min(cores(), plan.scramblings)
    require_path_memory(setting, finest, plan.paths, workers)
    with (
        ThreadPoolExecutor(workers) as pool,
        progress_bar(plan.scramblings - begun, "scramblings", progress) as bar,
    ):

        def of_scrambling(number: int) -> tuple[Curves, Curves]:
            # grids of all steps have the same paths
            seeds = np.random.SeedSequence(seed, spawn_key=(number,))
            scrambling = int(seeds.generate_state(1, np.uint64)[0])
            largest = max(plan.grids, key=most_visits)
            draws = draw_paths(setting, largest, plan.paths, scrambling)
            found = []
            for grid in plan.grids:
                curves = solve_on_grid(setting, grid, draws)
                found.append(at_times(curves, grid, times, is_descent(setting.problem)))
            bar.update()
            return _extrapolated(found)

        pairs = list(pool.map(of_scrambling, range(begun, plan.scramblings)))
    fine = _stacked([pair[0] for pair in pairs])
    coarse = _stacked([pair[1] for pair in pairs])
    if known is not None:
        fine = _joined(known.members, fine)
        coarse = _joined(known.coarse_members, coarse)
    return Estimate(plan=plan, members=fine, coarse_members=coarse)


def _joined(first: Curves, second: Curves) -> Curves:
    """Return the members of two sets of scramblings."""
    return Curves(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))


def _extrapolated(by_grid: list[Curves]) -> tuple[Curves, Curves]:
    """Return the curves of third and of second order; one grid is exact."""
    if len(by_grid) == 1:
        return by_grid[0], by_grid[0]
    stacked = _stacked(by_grid)
    third = _mapped(lambda x: np.tensordot(THIRD_ORDER, x, 1), stacked)
    second = _mapped(lambda x: np.tensordot(SECOND_ORDER, x, 1), stacked)
    return third, second


def _stacked(curves: list[Curves]) -> Curves:
    """Return curves with a leading axis."""
    return Curves(*(np.stack(arrays) for arrays in zip(*curves, strict=True)))


def _mapped(function: Callable[[np.ndarray], np.ndarray], curves: Curves) -> Curves:
    """Return a function of each array."""
    return Curves(*(function(values) for values in curves))


def at_times(
    curves: Curves, grid: Grid, times: Float[np.ndarray, " time"], in_steps: bool
) -> Curves:
    """Return curves of a grid at the recorded times.

    in_steps: the state after ceil(time) steps. Otherwise by cubic splines, one for each
    smooth stretch.
    """
    if in_steps:
        steps = np.ceil(times - 1e-9).astype(int)
        return _mapped(lambda x: x[steps], curves)

    def interpolated(values: np.ndarray) -> np.ndarray:
        found = np.full((times.size, *values.shape[1:]), np.nan)
        for first, last in itertools.pairwise(grid.breaks):
            x = grid.edges[first : last + 1]
            inside = (times >= x[0] - 1e-12) & (times <= x[-1] + 1e-9)
            if np.any(inside):
                found[inside] = _spline(x, values[first : last + 1], times[inside])
        return found

    return _mapped(interpolated, curves)


def _spline(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return a cubic spline of the finite values, NaN beyond them."""
    finite = np.isfinite(y.reshape(len(y), -1)).all(axis=1)
    count = int(finite.sum())  # values are finite up to a divergence
    if count < 2:
        return np.full((at.size, *y.shape[1:]), np.nan)
    spline = CubicSpline(x[:count], y[:count], axis=0)
    found = spline(at)
    found[at > x[count - 1] + 1e-9] = np.nan
    return found
