"""The power of a comparison that agrees: the change of the rate that it would detect.

d theory / d ln eta, from two more solves, gives the gap that a wrong rate leaves. The
comparison detects it if this gap makes the verdict "differ" in nine of ten comparisons
with as many runs.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from tutelage._types import Array, ArrayLike, Rate, Schedule
from tutelage.comparison.gaps import Gaps
from tutelage.comparison.pairing import Pair
from tutelage.comparison.variants import solve_variant
from tutelage.comparison.verdict import AGREE, BIASED, LIMIT, Verdict, holds
from tutelage.problem import Problem, SlowMomentum
from tutelage.training.schedules import rate_at

RATE_STEP = 1e-3  # of ln eta, to either side
CHANGES = np.geomspace(1e-4, 0.5, 400)  # relative changes of the rate that are tried
DETECTED = 0.9  # probability with which a stated change is detected
# Quantiles of a standard error that runs measure.
QUANTILES = (np.arange(100) + 0.5) / 100


@dataclass(frozen=True)
class Power:
    """The smallest relative change of lr that an agreement would have detected.

    change: inf if it is more than a half.
    """

    change: float

    def lines(self) -> list[str]:
        """Return the power in words."""
        if not np.isfinite(self.change):
            return [
                "this comparison might not detect a change of lr by 50%; add runs, or "
                "raise N"
            ]
        change = f"{100 * self.change:.2g}%"
        return [
            f"this comparison would detect a change of lr by {change} or more (in 9 of "
            "10 cases)"
        ]


def detectable_change(pair: Pair, gaps: Gaps, verdict: Verdict) -> Power | None:
    """Compute the power; None without an agreement, or if it cannot be solved for."""
    counted = verdict.counted
    agrees = verdict.counted_outcome in (AGREE, BIASED)
    if pair.problem is None or pair.start is None or not agrees or not counted.any():
        return None
    slower = with_scaled_rate(pair.problem, 1 - RATE_STEP)
    lower = solve_variant(pair, slower, pair.start)
    faster = with_scaled_rate(pair.problem, 1 + RATE_STEP)
    upper = solve_variant(pair, faster, pair.start)
    if lower is None or upper is None:
        return None
    # |d theory / d ln eta|
    slopes = {
        name: np.abs(upper[name] - lower[name]) / (2 * RATE_STEP) for name in gaps
    }
    limit = detected_ratio(pair.count)

    def is_detected(change: float) -> bool:
        inside = []
        for name, gap in gaps.items():
            beyond = np.maximum(change * slopes[name] - gap.allowed, 0.0)
            inside.append(gap.entries(beyond / gap.unit)[counted] < limit)
        return not holds(inside)

    for change in CHANGES:
        if is_detected(change):
            return Power(change=float(change))
    return Power(change=np.inf)


def detected_ratio(runs: int) -> float:
    """Return the gap that is detected, over its measured standard error.

    It has |z| > LIMIT in nine of ten comparisons. Standard errors of few runs scatter,
    both those that are known now and those of the comparison that is to detect: with s
    their ratios to the true one, independent of each other,
        P(ratio s_now + normal > limit s_then) = DETECTED.
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, ndtr, stdtrit

    freedom = runs - 1
    limit = -float(stdtrit(freedom, ndtr(-LIMIT)))  # the ratio whose z-score is LIMIT
    measured = np.sqrt(chdtri(freedom, 1 - QUANTILES) / freedom)

    def excess_probability(ratio: float) -> float:
        beyond = ratio * measured[:, None] - limit * measured
        return float(np.mean(ndtr(beyond))) - DETECTED

    root: Any = brentq(excess_probability, 0.0, 100 * limit)
    return float(root)


def with_scaled_rate(problem: Problem, factor: float) -> Problem:
    """Return the problem with all that moves the first layer faster by a factor.

    The factor is data to the compiled program, which so serves all of them.
    """
    optimizer = problem.optimizer
    changes: dict[str, Rate | SlowMomentum] = {"lr": _scaled(optimizer.lr, factor)}
    momentum = optimizer.momentum
    if isinstance(momentum, SlowMomentum) and momentum.k is not None:
        changes["momentum"] = SlowMomentum(momentum.gamma, _scaled(momentum.k, factor))
    return problem.replace(**changes)


def _scaled(rate: Any, factor: float) -> Any:
    """Return a rate, a number or a schedule, multiplied by a factor."""
    if callable(rate):
        return eqx.Partial(_scaled_schedule, np.float64(factor), rate)
    return rate * factor


def _scaled_schedule(factor: ArrayLike, schedule: Schedule, t: Array) -> Array:
    """Return the rate of a schedule at time t, multiplied by a factor."""
    return rate_at(schedule, t) * factor
