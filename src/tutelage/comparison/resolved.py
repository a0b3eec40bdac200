"""The theory solved again under another condition of the same comparison, and what that changes.

- The theory spreads the dimensions over the levels of a spectrum by their fractions p_l; a network of N inputs has n_l / N.
  Where p_l N is not whole, the difference is known exactly: the theory is solved with n_l / N, and the gap between both
  theories is expected of a right one.
- How small a change of the learning rate would the comparison have noticed? d theory / d ln eta, from two more solves, gives
  the gap that a wrong rate leaves. It is noticed if the criteria of the verdict then say "differ" although chance takes
  away 1.3 standard errors: in about nine of ten comparisons.
"""

import warnings
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np

from tutelage._errors import TutelageWarning
from tutelage._solve import solve
from tutelage._types import Array, ArrayLike
from tutelage.comparison.gaps import Gap, z_score
from tutelage.comparison.pairing import Pair
from tutelage.comparison.verdict import LIMIT, holds
from tutelage.integrate import SOLVERS
from tutelage.problem import Problem, SlowMomentum, Spectrum, Start
from tutelage.problem.schedules import rate_at
from tutelage.trajectory import Trajectory

STEP = 1e-3  # of ln eta, to either side
CHANGES = np.geomspace(1e-4, 0.5, 400)  # relative changes of the rate that are tried
CHANCE = 1.28  # standard errors by which chance reduces a gap once in ten times


def solved_as(theory: Trajectory) -> dict[str, Any] | None:
    """How the theory was solved, as arguments of `solve`; None if it was not (a closed form, equations of one's own)."""
    settings = dict(theory.settings)
    if theory.kind != "theory" or settings.get("solver") not in SOLVERS:
        return None
    return {name: settings[name] for name in ("gradient_flow", "rtol", "solver") if name in settings}


def with_shift(pair: Pair, theory: Trajectory) -> Pair:
    """The pair with what the shares n_l / N of its dimensions change; unchanged where p_l N is whole."""
    how, problem = solved_as(theory), pair.problem
    if how is None or problem is None or pair.start is None or pair.dim is None or pair.dim < problem.inputs.levels:
        return pair
    shares = problem.inputs.level_dims(pair.dim) / pair.dim
    if np.max(np.abs(shares / np.asarray(problem.inputs.fractions) - 1)) < 1e-9:
        return pair
    shifted = _solved(*_with_shares(problem, pair.start, shares), pair, how)
    if shifted is None:
        return pair
    note = f"of {pair.dim} dimensions the levels hold {_largest_change(problem, shares)}, which is part of the expected gap"
    shift = {name: shifted[name] - pair.theory[name] for name in pair.compared}
    return replace(pair, shift=shift, notes=(*pair.notes, note))


def _with_shares(problem: Problem, start: Start, shares: np.ndarray) -> tuple[Problem, Start]:
    """The same weights, level by level, where each level has another share of the dimensions."""
    r, q, t = (np.asarray(x) for x in start.blocks(problem))
    given = problem.teacher.gram is not None
    inputs = Spectrum(problem.inputs.eigenvalues, shares, normalize=False)
    changed = problem.replace(inputs=inputs, **({"teacher.gram": t} if given else {}))
    return changed, Start(R=r, Q=q, T=None if given else t, readout=start.readout, bias=start.bias)


def _largest_change(problem: Problem, shares: np.ndarray) -> str:
    fractions = np.asarray(problem.inputs.fractions)
    level = int(np.argmax(np.abs(shares / fractions - 1)))
    return f"whole numbers (level {level + 1}: {shares[level]:.5g} of them instead of {fractions[level]:.5g})"


def noticeable_change(pair: Pair, theory: Trajectory, gaps: dict[str, Gap], counted: np.ndarray) -> float | None:
    """The smallest relative change of lr that this comparison would have noticed; inf: more than half, None: not known."""
    how = solved_as(theory)
    if how is None or pair.problem is None or pair.start is None or pair.count < 2 or not counted.any():
        return None
    ends = [_solved(_scaled(pair.problem, factor), pair.start, pair, how) for factor in (1 - STEP, 1 + STEP)]
    if ends[0] is None or ends[1] is None:
        return None
    slopes = {name: np.abs(ends[1][name] - ends[0][name]) / (2 * STEP) for name in gaps}

    def noticed(change: float) -> bool:
        scores = [np.maximum(change * slopes[name] - gap.allowed, 0.0) / gap.unit - CHANCE for name, gap in gaps.items()]
        inside = [gap.entries(z_score(x, pair.count))[counted] < LIMIT for gap, x in zip(gaps.values(), scores, strict=True)]
        return not holds(inside)

    return next((float(change) for change in CHANGES if noticed(change)), np.inf)


def power_words(change: float) -> str:
    """What the comparison would have noticed, in words."""
    if not np.isfinite(change):
        return "even a change of lr by 50% might go unnoticed; add runs, or raise N"
    return f"would have noticed a change of lr by {100 * change:.2g}% or more (in nine of ten comparisons)"


class Scaled(eqx.Module):
    """A schedule times a number."""

    rate: Any
    factor: ArrayLike

    def __call__(self, t: Array) -> Array:
        return rate_at(self.rate, t) * self.factor


def _scaled(problem: Problem, factor: float) -> Problem:
    """All that moves the first layer, faster by a factor."""
    sgd = problem.sgd
    changes: dict[str, Any] = {"lr": _times(sgd.lr, factor)}
    if isinstance(sgd.momentum, SlowMomentum) and sgd.momentum.k is not None:
        changes["momentum"] = SlowMomentum(sgd.momentum.gamma, _times(sgd.momentum.k, factor))
    return problem.replace(**changes)


def _times(rate: Any, factor: float) -> Any:
    return Scaled(rate, np.float64(factor)) if callable(rate) else rate * factor


def _solved(problem: Problem, start: Start, pair: Pair, how: dict[str, Any]) -> dict[str, np.ndarray] | None:
    """The compared quantities at the times of the pair; None if the solve does not reach the last."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # said when the theory itself was solved
        found = solve(problem, start, pair.times, **how)
    if len(found.times) != pair.times.size:
        return None
    return {name: np.asarray(found.error if name == "error" else found[name], dtype=float) for name in pair.compared}
