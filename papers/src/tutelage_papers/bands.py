"""Inside the band: the one test by which a figure says that theory and runs agree, and the control that gives it power.

A theory is inside the band of its runs if |theory - mean of runs| < 4 standard errors at 95% of the times or more, for the
error and for every order parameter alone, after hidden units have been matched. (For few runs "4 standard errors" means: as
improbable as 4 are for many, `tu.gaps`.) The test is worth something only if a wrong theory fails it: `wrong_theory`
has G, the noise of SGD, multiplied by 0.9.

    data = against_runs(problem, start, dim=784, times=times, runs=200, seed=1)     # solve, simulate and control
    inside_claims(data, "eta = 0.5")                                                # two claims
    xr.concat([...], dim=xr.DataArray(labels, dims="case", name="case"))            # several of them
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

LIMIT = 4.0
SHARE = 0.95
FACTOR = 0.9
DIMS = {  # as `Trajectory.to_dataset` names them
    "R": ("student", "teacher"),
    "Q": ("student", "student_2"),
    "readout": ("student",),
    "bias": ("student",),
    "error": (),
}
HEADS = {"readout": ("task", "student"), "error": ("task",)}  # of several tasks


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
    """Theory, runs and the wrong theory of one problem as a Dataset; see `band`. options: of both solves."""
    theory = solve(problem, start, times, **options)
    wrong = wrong_theory(problem, start, times, factor, **options)
    return band(
        theory,
        simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed),
        wrong,
    )


def band(theory: Trajectory, runs: Trajectory, wrong: Trajectory) -> "Dataset":
    """For each quantity X (error, R, Q, ...): X of the theory, X_mean and X_se of the runs, X_wrong; along time.

    inside, inside_wrong: the share of times at which the theory (the wrong theory) is inside the band, of the worst entry.
    """
    import xarray as xr

    right = gaps(theory, runs)
    control = gaps(wrong, runs)
    variables: dict[str, Any] = {
        "inside": ((), _share(right)),
        "inside_wrong": ((), _share(control)),
    }
    for name, gap in right.items():
        axes = gap.theory.ndim - 1
        named = next(
            (
                d
                for d in (DIMS.get(name), HEADS.get(name))
                if d is not None and len(d) == axes
            ),
            None,
        )
        dims = (
            "time",
            *(tuple(f"{name}_{i}" for i in range(axes)) if named is None else named),
        )
        columns = {
            "": gap.theory,
            "_mean": gap.mean,
            "_se": gap.standard_error,
            "_wrong": control[name].theory,
        }
        variables |= {
            f"{name}{ending}": (dims, values) for ending, values in columns.items()
        }
    return xr.Dataset(variables, coords={"time": np.asarray(theory.times, dtype=float)})


def inside_claims(data: "Dataset", name: str, factor: float = FACTOR) -> list[Claim]:
    """The theory is inside the band, and the wrong theory is not."""
    return [
        at_least(
            f"{name}: share of times inside the band of the runs",
            float(data["inside"]),
            SHARE,
        ),
        below(
            f"{name}: the same with {factor:g} G, which must fail",
            float(data["inside_wrong"]),
            SHARE,
        ),
    ]


def wrong_theory(
    problem: Problem, start: Start, times: Any, factor: float = FACTOR, **options: Any
) -> Trajectory:
    """The theory with G multiplied by `factor`, a negative control. options: of the solve.

    G enters as eta^2 G beside terms of order eta. With rates `factor` times as large, the order parameters at time
    alpha / factor obey the same equations but for eta^2 G, which has become factor eta^2 G.
    """
    times = np.asarray(times, dtype=float)
    optimizer = problem.optimizer
    changes = {
        name: _slowed(getattr(optimizer, name), factor)
        for name in ("lr", "readout_lr", "bias_lr")
    }
    if isinstance(optimizer.momentum, SlowMomentum):
        changes["momentum"] = _slowed_momentum(optimizer.momentum, factor)
    if isinstance(problem.teacher, Tasks):
        changes["teacher"] = _slowed_tasks(problem.teacher, factor)
    changes = {name: value for name, value in changes.items() if value is not None}
    slowed = solve(problem.replace(**changes), start, times / factor, **options)
    return eqx.tree_at(lambda t: (t.times, t.problem), slowed, (times, problem))


def _slowed_tasks(tasks: Tasks, factor: float) -> Tasks:
    """The same tasks with switches at times / factor and a drift of factor times its rate."""
    schedule = tasks.schedule

    def times(slow_times: Any) -> np.ndarray:
        return np.asarray(slow_times) / factor

    if isinstance(schedule, Switch):
        schedule = Switch(times(schedule.times), schedule.order)
    elif isinstance(schedule, Replay):
        schedule = Replay(schedule.fraction, times(schedule.after))
    elif isinstance(schedule, Interleave) and callable(schedule.shares):
        schedule = Interleave(_slowed(schedule.shares, factor, power=0))
    drift = None if tasks.drift is None else Drift(factor * float(tasks.drift.rate))
    return Tasks(
        tasks.teachers, schedule, tasks.heads, similarity=tasks.similarity, gram=tasks.given_gram, drift=drift,
        freeze_heads=None if tasks.freeze_heads is None else times(tasks.freeze_heads),
    )  # fmt: skip


def _slowed(rate: Any, factor: float, power: int = 1) -> Any:
    """The rate factor^power * rate(factor * alpha)."""
    size: Any = factor**power
    if isinstance(rate, PowerDecay):
        return PowerDecay(rate.initial * size, rate.exponent, rate.timescale / factor)
    if isinstance(rate, Cosine):
        return Cosine(rate.initial * size, rate.end / factor, rate.final * size)
    if isinstance(rate, Piecewise):
        return Piecewise(rate.switches / factor, rate.values * size)
    if rate is None:
        return None
    return (lambda t: size * rate(factor * t)) if callable(rate) else rate * size


def _slowed_momentum(momentum: SlowMomentum, factor: float) -> SlowMomentum:
    """gamma counts per unit of time, k per unit of time squared (k = None means gamma * lr, which scales by itself)."""
    return SlowMomentum(momentum.gamma * factor, _slowed(momentum.k, factor, power=2))


def _share(found: Mapping[str, Any]) -> float:
    """Of the entry that is least often inside."""
    return min(
        float(np.min(np.mean(np.abs(gap.entries(gap.z)) < LIMIT, axis=0)))
        for gap in found.values()
    )
