"""Floors under a learning curve: the errors below which it cannot or will not go.

    minimum   where training on the samples used so far ends (`empirical_minimum`)
    bayes     the smallest error that these samples allow (`bayes_optimal`)
    noise     what label noise leaves at a constant learning rate (`noise_floor`)

Fresh samples: alpha = steps / N has used n = ratio N samples, ratio = batch alpha, so
the first two floors fall with time. A data set: both are constants at its ratio.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.bayes_limits import bayes_optimal
from tutelage.analysis.equilibrium import empirical_minimum
from tutelage.analysis.learning_rates import noise_floor
from tutelage.analysis.result import AnalysisResult
from tutelage.equilibrium.setting import require_one_law, setting_of
from tutelage.errors import InputError, require_fields
from tutelage.problem import Problem
from tutelage.problem.labels import Real
from tutelage.result.trajectory import Trajectory

MOST_RATIOS = 48  # of a floor that falls with time
MOST_PAIR_RATIOS = 12  # of the Bayes-optimal error of two units, which takes longer
SAME_TEACHER = 1e-6  # largest difference of T between trajectory and problem
UNLIKELY = 5.0  # standard deviations of an overlap at finite N
SMALL_OVERLAP = 0.05  # of an initial student unit with the teacher, as a cosine


@dataclass(frozen=True)
class Floor(ResultCard):
    """A floor under a learning curve.

    Attributes
    ----------
    name : str
        "minimum", "bayes" or "noise".
    words : str
        What it is, in words.
    times : array (time,)
        Times of the trajectory; a few of them where the floor falls with time.
    error : array (time,)
        The floor, measured as `trajectory.error`. NaN where it does not exist.
    train_error : array (time,) or None
        That of the minimum on the samples that are used.
    """

    name: str
    words: str
    times: Float[np.ndarray, " time"]
    error: Float[np.ndarray, " time"]
    train_error: Float[np.ndarray, " time"] | None = None


@dataclass(frozen=True)
class Floors(
    AnalysisResult,
    figure="plot_floors",
    sources=("aubin2020generalization", "barbier2019optimal", "aubin2018committee"),
):
    """The floors under a learning curve.

    Attributes
    ----------
    trajectory : Trajectory
        The curve.
    curves : tuple of Floor
        The floors that exist.
    missing : dict
        Why another one does not, by its name.
    """

    trajectory: Trajectory
    curves: tuple[Floor, ...]
    missing: dict[str, str]

    def __getitem__(self, name: str) -> Floor:
        for floor in self.curves:
            if floor.name == name:
                return floor
        reason = self.missing.get(name)
        if reason is None:
            known = ", ".join(repr(x) for x in SEARCHED)
            raise InputError(f"no floor is called {checks.shown(name)}; use {known}.")
        raise InputError(f"this curve has no floor {name!r}: {reason}")

    def __str__(self) -> str:
        final = float(np.asarray(self.trajectory.error)[..., -1].mean())
        lines = [f"the end of the curve: {final:.4g}"]
        for floor in self.curves:
            lines.append(f"{floor.words}: {floor.error[-1]:.4g}")
        for name, reason in self.missing.items():
            lines.append(f"no floor {name!r}: {reason}")
        return "\n".join(lines)


def floors(trajectory: Trajectory) -> Floors:
    """Find the floors under a learning curve.

    Floors are found where their analyses support the problem; `missing` has the reason
    for each of the others. The minimum has the ridge of the training, weight_decay
    times ratio. It can lie above the curve where training that stops early is better.

    Parameters
    ----------
    trajectory : Trajectory
        A solve, or runs of one problem with a single task.

    Returns
    -------
    Floors
        Also drawn by `trajectory.plot(floors=True)`.

    Raises
    ------
    InputError
        If the trajectory has no single problem, or none of the floors exists.

    Examples
    --------
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(
    ...     unit, unit, noise=0.3, data=tu.DataSet(2.0),
    ...     optimizer=tu.optimizers.GradientDescent(lr=0.5, weight_decay=0.05),
    ... )
    >>> theory = tu.solve(problem, times=tu.linear_times(20, 21))
    >>> print(tu.analysis.floors(theory)["minimum"].error[-1].round(5))
    0.03896
    """
    problem = _with_teacher_of(trajectory, _single_problem(trajectory))
    found: list[Floor] = []
    missing: dict[str, str] = {}
    for name, search in SEARCHED.items():
        try:
            found.append(search(trajectory, problem))
        except InputError as error:
            missing[name] = str(error)
    if not found:
        reasons = " ".join(f"{name}: {why}" for name, why in missing.items())
        raise InputError(f"this curve has no floor that can be computed. {reasons}")
    return Floors(trajectory, tuple(found), missing)


def _single_problem(trajectory: Trajectory) -> Problem:
    """Return the problem of a trajectory; refuse several problems or tasks."""
    fields = ("times", "error", "problem", "variables")
    require_fields("floors", trajectory, fields, "what solve or simulate returned")
    checks.require_untraced(
        "the trajectory", "floors", trajectory.times, trajectory.error
    )
    problem = trajectory.problem
    if problem is None:
        raise InputError(
            "this trajectory has no problem; floors needs the samples and labels of "
            "one. Solve a Problem."
        )
    if getattr(trajectory, "tasks", None) is not None:
        raise InputError(
            "this trajectory has several tasks; floors belong to one. Give "
            "trajectory.task(0)."
        )
    if trajectory.kind == "theory" and np.ndim(trajectory.error) > 1:
        raise InputError(
            f"this trajectory has {len(trajectory.error)} problems; floors belong to "
            "one. Solve that problem alone."
        )
    return problem


def _samples_used(trajectory: Trajectory, problem: Problem, most: int) -> np.ndarray:
    """Return places of at most so many recorded times at which samples were used."""
    times = np.atleast_2d(trajectory.times)[0]
    places = np.flatnonzero(times > 0)
    if places.size == 0:
        raise InputError("no time after alpha = 0 is recorded; record more times.")
    if problem.data is not None:
        return np.arange(times.size)
    chosen = np.unique(np.linspace(0, places.size - 1, most).round().astype(int))
    return places[chosen]


def _ratios_at(trajectory: Trajectory, problem: Problem, places: np.ndarray) -> Any:
    """Return n / N at these times; one number for a data set."""
    if problem.data is not None:
        return problem.data.ratio
    times = np.atleast_2d(trajectory.times)[0][places]
    return times * problem.samples_per_step


def _minimum(trajectory: Trajectory, problem: Problem) -> Floor:
    places = _samples_used(trajectory, problem, MOST_RATIOS)
    found = empirical_minimum(problem, _ratios_at(trajectory, problem, places))
    words = "minimum over the samples so far"
    if problem.data is not None:
        words = "minimum of the regularized loss"
    return Floor(
        name="minimum",
        words=words,
        times=np.atleast_2d(trajectory.times)[0][places],
        error=np.broadcast_to(found.error, places.shape),
        train_error=np.broadcast_to(found.train_error, places.shape),
    )


def _bayes(trajectory: Trajectory, problem: Problem) -> Floor:
    most = MOST_RATIOS
    if setting_of(problem).fields > 1:
        most = MOST_PAIR_RATIOS
    places = _samples_used(trajectory, problem, most)
    found = bayes_optimal(problem, _ratios_at(trajectory, problem, places))
    words = "smallest possible error (Bayes)"
    if _knows_the_teacher(trajectory):
        words = "smallest possible error from R = 0"
    return Floor(
        name="bayes",
        words=words,
        times=np.atleast_2d(trajectory.times)[0][places],
        error=np.broadcast_to(found.error, places.shape),
    )


def _noise(trajectory: Trajectory, problem: Problem) -> Floor:
    if problem.data is not None:
        raise InputError(
            "the problem has a data set; noise_floor needs fresh samples. Leave data "
            "out."
        )
    if not isinstance(problem.labels, Real) or callable(problem.noise):
        raise InputError("noise_floor needs labels='real' with a number as noise.")
    variance = float(np.asarray(problem.noise)) ** 2
    if variance == 0:
        raise InputError("the labels have no noise. Give noise a positive number.")
    floor = noise_floor(problem).per_variance * variance
    times = np.atleast_2d(trajectory.times)[0]
    return Floor(
        name="noise",
        words="noise floor at this learning rate",
        times=times,
        error=np.full(times.shape, floor),
    )


SEARCHED: dict[str, Callable[[Trajectory, Problem], Floor]] = {
    "minimum": _minimum,
    "bayes": _bayes,
    "noise": _noise,
}


def _with_teacher_of(trajectory: Trajectory, problem: Problem) -> Problem:
    """Return the problem with the teacher overlaps of a solve.

    Overlaps of a random teacher differ from the stated ones by its finite N. Several
    units keep the stated overlaps if the difference is of this size.
    """
    require_one_law(problem, "floors")
    start = trajectory.start
    if trajectory.kind != "theory" or start is None or problem.inputs.is_latent:
        return problem
    _, _, by_level = start.blocks(problem)
    drawn = np.asarray(by_level, float)
    stated = setting_of(problem).teacher
    difference = np.max(np.abs(drawn - stated))
    if problem.labeler.hidden > 1:
        by_chance = SAME_TEACHER
        if trajectory.dim is not None:
            smallest = min(problem.inputs.level_dims(trajectory.dim))
            by_chance = UNLIKELY * np.sqrt(2 / smallest)
        if difference <= by_chance * np.max(np.abs(stated)):
            return problem
    if difference == 0:
        return problem
    return problem.replace(**{"teacher.gram": drawn})


def _knows_the_teacher(trajectory: Trajectory) -> bool:
    """True if the initial weights have more overlap with the teacher than by chance."""
    R = np.asarray(trajectory.variables["R"], float)[..., 0, :, :]
    Q = np.asarray(trajectory.variables["Q"], float)[..., 0, :, :]
    lengths = np.diagonal(Q, axis1=-2, axis2=-1)[..., :, None]
    lengths = lengths * np.diagonal(np.asarray(trajectory.T, float), axis1=-2, axis2=-1)
    cosines = np.abs(R) / np.sqrt(np.maximum(lengths, 1e-300))
    by_chance = SMALL_OVERLAP
    if trajectory.dim is not None:
        by_chance = UNLIKELY / np.sqrt(trajectory.dim)
    return bool(np.max(cosines) > by_chance)
