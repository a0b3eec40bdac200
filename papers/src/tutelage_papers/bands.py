"""The claim that theory and runs agree, and the control that gives it power.

A theory is inside the band of its runs if |theory - mean of runs| < 4 standard errors at 95%
of the times or more, for the error and for every order parameter alone, after hidden units
have been matched. (For few runs "4 standard errors" means: as improbable as 4 are for many,
`tu.gaps`.) The test is worth something only if a wrong theory fails it: `wrong_theory` has
G, the noise of SGD, multiplied by 0.9.

    # solve, simulate and control
    data = against_runs(problem, start, dim=784, times=times, runs=200, seed=1)
    # two claims
    inside_claims(data, "eta = 0.5")
    # several of them
    xr.concat([...], dim=xr.DataArray(labels, dims="case", name="case"))
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from tutelage import (
    Drift,
    Interleave,
    Problem,
    Replay,
    SlowMomentum,
    Start,
    Switch,
    Tasks,
    Trajectory,
    gaps,
    simulate,
    solve,
)
from tutelage.schedules import Cosine, Piecewise, PowerDecay
from tutelage_papers.claims import Claim, at_least, below

if TYPE_CHECKING:
    from xarray import Dataset

LIMIT = 4.0  # standard errors
SHARE = 0.95  # of the times
FACTOR = 0.9  # of G in the wrong theory
# Dimensions of the order parameters, as `Trajectory.to_dataset` names them.
DIMS: dict[str, tuple[str, ...]] = {
    "R": ("student", "teacher"),
    "Q": ("student", "student_2"),
    "readout": ("student",),
    "bias": ("student",),
    "error": (),
}
# The same if there are several tasks.
HEADS: dict[str, tuple[str, ...]] = {
    "readout": ("task", "student"),
    "error": ("task",),
}


def against_runs(
    problem: Problem,
    start: Start,
    *,
    dim: int,
    times: Any,
    runs: int,
    seed: int = 0,
    factor: float = FACTOR,
    **options: Any,
) -> "Dataset":
    """Return theory, runs and the wrong theory of one problem as a Dataset; see `band`.

    factor: of G in the wrong theory. options: of both solves.
    """
    theory = solve(problem, start, times, **options)
    wrong = wrong_theory(problem, start, times, factor, **options)
    seen = simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    return band(theory, seen, wrong)


def band(theory: Trajectory, runs: Trajectory, wrong: Trajectory) -> "Dataset":
    """Return a theory, its runs and a wrong theory as a Dataset.

    For each quantity X (error, R, Q, ...) it holds X of the theory, X_mean and X_se of the
    runs, and X_wrong, along time. `inside` and `inside_wrong` are the shares of times at
    which the theory (the wrong theory) is inside the band, of the worst entry.
    """
    import xarray as xr

    right = gaps(theory, runs)
    control = gaps(wrong, runs)
    times = np.asarray(theory.times, dtype=float)
    data = xr.Dataset(coords={"time": times})
    data["inside"] = _share_inside(right)
    data["inside_wrong"] = _share_inside(control)
    for name, gap in right.items():
        dims = ("time", *_dims_of(name, gap.theory.ndim - 1))
        data[name] = (dims, gap.theory)
        data[f"{name}_mean"] = (dims, gap.mean)
        data[f"{name}_se"] = (dims, gap.standard_error)
        data[f"{name}_wrong"] = (dims, control[name].theory)
    return data


def _dims_of(name: str, axes: int) -> tuple[str, ...]:
    """Dimensions of a quantity besides time; numbered if they have no names."""
    for names in (DIMS.get(name), HEADS.get(name)):
        if names is not None and len(names) == axes:
            return names
    return tuple(f"{name}_{i}" for i in range(axes))


def inside_claims(data: "Dataset", name: str, factor: float = FACTOR) -> list[Claim]:
    """Claim that the theory is inside the band, and that the wrong theory is not."""
    words = f"{name}: share of times inside the band of the runs"
    control = f"{name}: the same with {factor:g} G, which must fail"
    return [
        at_least(words, data["inside"], SHARE),
        below(control, data["inside_wrong"], SHARE),
    ]


def wrong_theory(
    problem: Problem, start: Start, times: Any, factor: float = FACTOR, **options: Any
) -> Trajectory:
    """Return the theory with G multiplied by `factor`, a negative control.

    G enters as eta^2 G beside terms of order eta. With rates `factor` times as large, the
    order parameters at time alpha / factor obey the same equations, except that eta^2 G has
    become factor eta^2 G. options: of the solve.
    """
    times = np.asarray(times, dtype=float)
    slowed = solve(_slowed_problem(problem, factor), start, times / factor, **options)
    return eqx.tree_at(lambda t: (t.times, t.problem), slowed, (times, problem))


def _slowed_problem(problem: Problem, factor: float) -> Problem:
    """The problem with rates `factor` times as large and everything 1 / factor later."""
    optimizer = problem.optimizer
    changes = {}
    for name in ("lr", "readout_lr", "bias_lr"):
        rate = getattr(optimizer, name)
        if rate is not None:
            changes[name] = _slowed(rate, factor)
    if isinstance(optimizer.momentum, SlowMomentum):
        changes["momentum"] = _slowed_momentum(optimizer.momentum, factor)
    if isinstance(problem.teacher, Tasks):
        changes["teacher"] = _slowed_tasks(problem.teacher, factor)
    return problem.replace(**changes)


def _slowed_tasks(tasks: Tasks, factor: float) -> Tasks:
    """Tasks with switches at times / factor and a drift of factor times its rate."""
    drift = None
    if tasks.drift is not None:
        drift = Drift(factor * float(tasks.drift.rate))
    freeze_heads = None
    if tasks.freeze_heads is not None:
        freeze_heads = _later(tasks.freeze_heads, factor)
    return Tasks(
        tasks.teachers,
        _slowed_schedule(tasks.schedule, factor),
        tasks.heads,
        similarity=tasks.similarity,
        gram=tasks.given_gram,
        drift=drift,
        freeze_heads=freeze_heads,
    )


def _slowed_schedule(schedule: Any, factor: float) -> Any:
    """A schedule of tasks at 1 / factor times its times."""
    if isinstance(schedule, Switch):
        return Switch(_later(schedule.times, factor), schedule.order)
    if isinstance(schedule, Replay):
        return Replay(schedule.fraction, _later(schedule.after, factor))
    if isinstance(schedule, Interleave) and callable(schedule.shares):
        return Interleave(_slowed(schedule.shares, factor, power=0))
    return schedule


def _later(times: Any, factor: float) -> np.ndarray:
    return np.asarray(times) / factor


def _slowed(rate: Any, factor: float, power: int = 1) -> Any:
    """The rate factor^power * rate(factor * alpha)."""
    size: Any = factor**power
    if isinstance(rate, PowerDecay):
        return PowerDecay(rate.initial * size, rate.exponent, rate.timescale / factor)
    if isinstance(rate, Cosine):
        return Cosine(rate.initial * size, rate.end / factor, rate.final * size)
    if isinstance(rate, Piecewise):
        return Piecewise(rate.switches / factor, rate.values * size)
    if callable(rate):
        return lambda t: size * rate(factor * t)
    return rate * size


def _slowed_momentum(momentum: SlowMomentum, factor: float) -> SlowMomentum:
    """Slow momentum with gamma per unit of time and k per unit of time squared.

    k = None means gamma * lr, which scales by itself.
    """
    k = None
    if momentum.k is not None:
        k = _slowed(momentum.k, factor, power=2)
    return SlowMomentum(momentum.gamma * factor, k)


def _share_inside(found: Mapping[str, Any]) -> float:
    """The share of times inside the band, of the entry that is least often inside."""
    shares = []
    for gap in found.values():
        inside = np.abs(gap.entries(gap.z)) < LIMIT
        shares.append(float(np.min(np.mean(inside, axis=0))))
    return min(shares)
