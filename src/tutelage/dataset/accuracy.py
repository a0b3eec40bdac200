"""Curves of several grids and scramblings, and how far they are from the exact ones.

Errors of the time step are smooth: f(h) = f + c1 h + c2 h^2 + .... Three grids of steps
4h, 2h and h, with the same paths, give the estimates of second and third order

    f2 = 2 f(h) - f(2h),        f3 = (8 f(h) - 6 f(2h) + f(4h)) / 3

f3 is returned. Its error is estimated as |f3 - f2|, times the ratio by which the last
order became smaller.

Grids have the same paths, so the correction f3 - f(4h) has less noise than f(4h), which
costs a seventh of all three grids. Most scramblings are therefore of the coarsest grid
alone (the multilevel method of Giles 2008): with the share theta of all paths in the
scramblings on all grids,

    f = mean [f3 - (1 - theta) f(4h)]  +  (1 - theta) mean f(4h)

where the first mean is over scramblings on all grids and the second over other ones. The
standard error has one part from each. Gradient descent has one grid, without an error
of the time step.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from tutelage._pool import cores
from tutelage.dataset.estimates import Estimate, Plan, largest_share
from tutelage.dataset.grid import (
    Grid,
    descent_grid,
    epoch_length,
    is_descent,
    stochastic_grid,
)
from tutelage.dataset.paths import require_path_memory
from tutelage.dataset.scramblings import Task, solve_all, stacked
from tutelage.dataset.setting import Setting
from tutelage.dataset.solver import Curves
from tutelage.errors import InputError
from tutelage.training.schedules import rate_values

GRIDS = 3  # of steps 4h, 2h, h
SECOND_ORDER = np.array([0.0, -1.0, 2.0])
THIRD_ORDER = np.array([1.0, -6.0, 8.0]) / 3.0
# The first choice of h: a share of 1 / lr, and of an epoch.
STEP_OF_RATE = 0.1
STEP_OF_EPOCH = 1 / 12
FINER = 3  # the most times that h is halved
# The error of f3 is at least this share of |f3 - f2|.
LEAST_GAIN = 0.25
# Scramblings of a pilot, of a fixed number of paths, and the most of one kind.
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
# The largest of many estimated errors is too large: begin with a share of the paths
# that a pilot asks for.
FIRST_SHARE = 0.3
ROUNDS = 4  # of more scramblings


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
        return Sampler(setting, times, plan, seed, progress).run(plan)
    sampler = Sampler(setting, times, plan, seed, progress)
    found = sampler.run(plan)
    for _ in range(FINER):
        error = found.step_error(doubts=DOUBTS)
        if found.interrupted or error <= STEP_SHARE * accuracy:
            break
        plan = finer_plan(setting, times, found.plan, error / accuracy)
        sampler = Sampler(setting, times, plan, seed, progress)
        found = sampler.run(plan)
    share = FIRST_SHARE
    for _ in range(ROUNDS):
        goal = sampling_goal(found, accuracy)
        if found.interrupted or found.sampling_error() <= goal:
            break
        plan = sampler.better_plan(share * (found.sampling_error() / goal) ** 2)
        share = 1.0
        if plan == found.plan:
            break
        if plan.paths != found.plan.paths:
            sampler = Sampler(setting, times, plan, seed, progress)
        found = sampler.run(plan)
    return found


def sampling_goal(found: Estimate, accuracy: float) -> float:
    """Return the standard error of sampling that leaves room for that of the step."""
    rest = accuracy**2 - found.step_error(doubts=DOUBTS) ** 2
    return float(np.sqrt(max(rest, (accuracy / 2) ** 2)))


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


def finer_plan(
    setting: Setting, times: Float[np.ndarray, " time"], plan: Plan, excess: float
) -> Plan:
    """Return the plan of a pilot with a smaller step; the error falls like h^3.

    excess: the error of the step in units of the accuracy.
    """
    if len(plan.grids) == 1:
        return plan
    halvings = max(1, int(np.ceil(np.log2(excess / STEP_SHARE) / GRIDS)))
    step = plan.grids[-1].longest / 2**halvings
    grids = _grids(setting, float(times[-1]), step)
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


class Sampler:
    """Scramblings of the paths that are solved so far, of one choice of grids.

    all_grids, coarse: curves at the recorded times, with axes of scramblings and grids.
    """

    def __init__(
        self,
        setting: Setting,
        times: Float[np.ndarray, " time"],
        plan: Plan,
        seed: int,
        progress: bool,
    ):
        self.setting = setting
        self.times = times
        self.seed = seed
        self.progress = progress
        self.plan = plan._replace(scramblings=0, coarse_scramblings=0)
        self.all_grids: Curves | None = None
        self.coarse: Curves | None = None

    def run(self, plan: Plan) -> Estimate:
        """Solve what a plan has beyond what is solved, and return the estimate."""
        tasks = []
        for number in range(self.plan.scramblings, plan.scramblings):
            tasks.append(Task(plan.grids, plan.paths, (number,)))
        for number in range(self.plan.coarse_scramblings, plan.coarse_scramblings):
            # other random numbers than those of the scramblings on all grids
            tasks.append(Task(plan.grids[:1], plan.coarse_paths, (1, number)))
        workers = min(max(2, cores()), len(tasks))
        most = max(plan.paths, plan.coarse_paths)
        require_path_memory(self.setting, plan.grids[-1], most, workers)
        solved, interrupted = solve_all(
            self.setting, tasks, self.times, workers, self.seed, self.progress
        )
        on_all_grids = []
        on_coarsest = []
        for task, curves in zip(tasks, solved, strict=False):
            is_coarse = len(task.grids) < len(plan.grids)
            kind = on_coarsest if is_coarse else on_all_grids
            kind.append(curves)
        if interrupted:
            on_coarsest = _complete(on_coarsest)
            complete = _complete(on_all_grids)
            if len(complete) >= 2 or self.all_grids is not None:
                on_all_grids = complete
        self.all_grids = _joined(self.all_grids, on_all_grids)
        self.coarse = _joined(self.coarse, on_coarsest)
        if self.all_grids is None:
            raise KeyboardInterrupt
        self.plan = plan._replace(
            scramblings=_count(self.all_grids),
            coarse_scramblings=_count(self.coarse),
        )
        return replace(self.estimate(), interrupted=interrupted)

    def estimate(self) -> Estimate:
        """Return the estimate of all scramblings so far."""
        plan = self.plan
        assert self.all_grids is not None
        fine = plan.paths * plan.scramblings
        theta = 1.0
        if plan.coarse_scramblings > 1:
            theta = fine / plan.all_paths
        curves = []
        seconds = []
        gains = []
        groups: list[list[np.ndarray]] = [[], []]
        for i, by_grid in enumerate(self.all_grids):
            orders = _orders(by_grid)
            third = orders[-1] - (1.0 - theta) * by_grid[:, 0]
            rest = np.zeros((0, *third.shape[1:]))
            rest_mean = 0.0
            if theta < 1.0:
                assert self.coarse is not None
                rest = (1.0 - theta) * self.coarse[i][:, 0]
                rest_mean = rest.mean(axis=0)
            curves.append(third.mean(axis=0) + rest_mean)
            below = (orders[-1] - orders[-2]).mean(axis=0)
            seconds.append(curves[-1] - below)
            gains.append(_gain(orders))
            groups[0].append(third + rest_mean)
            groups[1].append(rest + third.mean(axis=0))
        kinds = groups if theta < 1.0 else groups[:1]
        return Estimate(
            plan=plan,
            curves=Curves(*curves),
            groups=tuple(Curves(*group) for group in kinds),
            second_order=Curves(*seconds),
            gains=tuple(gains),
        )

    def better_plan(self, growth: float) -> Plan:
        """Return the plan of least cost whose squared error is smaller by a factor.

        growth: the factor. Scramblings on all grids are solved again if each needs more
        paths.
        """
        plan = self.plan
        assert self.all_grids is not None
        found = self.estimate()
        goal = found.sampling_error() ** 2 / growth  # a squared relative error
        most = MOST_SCRAMBLINGS
        if len(plan.grids) == 1:
            needed = _relative_variance(self.all_grids, np.ones(1)) / goal
            return _with_more_paths(plan, needed)
        # of one scrambling with the paths of the plan
        base = _relative_variance(self.all_grids, np.array([1.0, 0.0, 0.0]))
        of_correction = THIRD_ORDER - np.array([1.0, 0.0, 0.0])
        correction = _relative_variance(self.all_grids, of_correction)
        base_cost = float(plan.grids[0].cells)
        cost = float(sum(grid.cells for grid in plan.grids))
        total = np.sqrt(base * base_cost) + np.sqrt(correction * cost)
        needed = np.sqrt(correction / cost) * total / goal
        needed_base = np.sqrt(base / base_cost) * total / goal
        bigger = _with_more_paths(plan, needed)
        scramblings = min(max(bigger.scramblings, PILOT), most)
        coarse_paths = plan.coarse_paths
        if coarse_paths == 0:
            exponent = round(np.log2(max(1.0, needed_base / SCRAMBLINGS)))
            coarse_paths = min(plan.paths * 2**exponent, max(MOST_PATHS, plan.paths))
        coarse = int(np.ceil(needed_base * plan.paths / coarse_paths))
        coarse = min(max(coarse, PILOT, plan.coarse_scramblings), most)
        return bigger._replace(
            scramblings=scramblings,
            coarse_paths=coarse_paths,
            coarse_scramblings=coarse,
        )


def _with_more_paths(plan: Plan, needed: float) -> Plan:
    """Return the plan with so many scramblings on all grids, or larger ones instead."""
    largest = max(MOST_PATHS, plan.paths)
    paths = plan.paths
    while needed > 2 * SCRAMBLINGS and 2 * paths <= largest:
        needed /= 2
        paths *= 2
    count = min(int(np.ceil(needed)), MOST_SCRAMBLINGS)
    if paths == plan.paths:
        return plan._replace(scramblings=max(count, plan.scramblings))
    return Plan(plan.grids, paths, max(count, PILOT))


def _relative_variance(by_grid: Curves, weights: np.ndarray) -> float:
    """Return the variance of one scrambling's combination of grids, of the worst array.

    In units of the squared largest entry of each array.
    """
    largest = 0.0
    for values in by_grid:
        combined = np.tensordot(values, weights, axes=(1, 0))
        deviation = combined.std(axis=0, ddof=1)
        share = largest_share(deviation, values[:, -1].mean(axis=0))
        largest = max(largest, share)
    return largest**2


def _orders(by_grid: Float[np.ndarray, "n grids ..."]) -> tuple[np.ndarray, ...]:
    """Return the estimates of first, second and third order; one grid is exact."""
    finest = by_grid[:, -1]
    if by_grid.shape[1] == 1:
        return finest, finest, finest
    second = np.tensordot(by_grid, SECOND_ORDER, axes=(1, 0))
    third = np.tensordot(by_grid, THIRD_ORDER, axes=(1, 0))
    return finest, second, third


def _gain(orders: tuple[np.ndarray, ...]) -> float:
    """Return by how much the last order became smaller, of the whole array."""
    first, second, third = (members.mean(axis=0) for members in orders)
    last = np.nanmax(np.abs(third - second), initial=0.0)
    before = np.nanmax(np.abs(second - first), initial=0.0)
    if before <= last or not np.isfinite(before):
        return 1.0
    return float(max(last / before, LEAST_GAIN))


def _complete(solved: list[Curves]) -> list[Curves]:
    """Return those that came to the end."""
    return [curves for curves in solved if np.isfinite(curves.Q[:, -1]).all()]


def _joined(known: Curves | None, new: list[Curves]) -> Curves | None:
    """Return the members of two sets of scramblings, with a leading axis."""
    if not new:
        return known
    added = stacked(new)
    if known is None:
        return added
    pairs = zip(known, added, strict=True)
    return Curves(*(np.concatenate(pair) for pair in pairs))


def _count(members: Curves | None) -> int:
    """Return the number of scramblings."""
    return 0 if members is None else len(members.train_loss)
