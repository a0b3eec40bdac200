"""The end of training on a data set, and the best that any method can do with it.

`empirical_minimum`: the minimum of a convex loss over n = ratio N samples.
`simulate_minimum`: the same at finite N. Equations and sources are in the files of
`tutelage.equilibrium`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Numbers
from tutelage.analysis.result import AnalysisResult
from tutelage.equilibrium.direct import Teacher, labeler_of, minimizer
from tutelage.equilibrium.minimum import MinimumPoint, StateEvolution
from tutelage.equilibrium.proximal import Descents, descents_of
from tutelage.equilibrium.setting import ratios_of
from tutelage.equilibrium.student import LinearStudent, linear_student, ridges_of
from tutelage.errors import InputError
from tutelage.problem import Problem

# Keys of the works that the equations follow.
SOURCES = (
    "gardner1989three",
    "aubin2020generalization",
    "loureiro2021learning",
    "candes2020phase",
)
MEASURES = ("error", "loss", "train_error", "train_loss")
PRINTED_RATIOS = 12
LARGEST_Z = 4.0  # of a mean that agrees with the theory
FEWEST_RUNS = 3  # for a standard error
FRESH_SAMPLES = 4000  # on which the error of a run is measured


@dataclass(frozen=True)
class EmpiricalMinimum(
    AnalysisResult, figure="plot_empirical_minimum", sources=SOURCES
):
    """The minimum of a regularized convex loss over n = ratio N samples, at large N.

    Arrays have one entry for each ratio; a single ratio gives single numbers.

    Attributes
    ----------
    problem : Problem
        The problem.
    ratio, ridge : array (ratio,)
        Samples per input dimension, and the ridge in ridge |w|^2 / 2, a penalty on the
        sum of the losses of all samples.
    R : array (ratio, 1, M)
        Overlap of the minimum with the teacher.
    Q : array (ratio, 1, 1)
        Squared length of the minimum.
    susceptibility : array (ratio,)
        V: how far the output on a sample moves with its slope of the loss.
    error, loss : array (ratio,)
        Error against noiseless labels, and mean loss, of fresh samples.
    train_error, train_loss : array (ratio,)
        The same on the samples that were used, with their stored labels and without
        the penalty.
    label_error : array (ratio,)
        Probability of a wrong sign on a fresh label; NaN for real labels.
    exists : array (ratio,)
        False where no finite minimum exists, or it is not unique. Numbers are NaN
        there.
    fits_below : float
        Ratio below which weights without ridge fit all samples.
    """

    problem: Problem
    ratio: Float[np.ndarray, "*ratios"]
    ridge: Float[np.ndarray, "*ratios"]
    R: Float[np.ndarray, "*ratios 1 M"]
    Q: Float[np.ndarray, "*ratios 1 1"]
    susceptibility: Float[np.ndarray, "*ratios"]
    error: Float[np.ndarray, "*ratios"]
    loss: Float[np.ndarray, "*ratios"]
    train_error: Float[np.ndarray, "*ratios"]
    train_loss: Float[np.ndarray, "*ratios"]
    label_error: Float[np.ndarray, "*ratios"]
    exists: np.ndarray
    fits_below: float

    def __str__(self) -> str:
        lines = []
        ratios = np.atleast_1d(self.ratio)
        for place in _printed(ratios.size):
            if not np.atleast_1d(self.exists)[place]:
                lines.append(
                    f"ratio {ratios[place]:.4g}: no finite, unique minimum without "
                    f"ridge below ratio {self.fits_below:.4g}"
                )
                continue
            numbers = {name: getattr(self, name) for name in MEASURES}
            words = [
                f"{name.replace('_', ' ')} {np.atleast_1d(values)[place]:.4g}"
                for name, values in numbers.items()
            ]
            ridge = np.atleast_1d(self.ridge)[place]
            lines.append(
                f"ratio {ratios[place]:.4g}, ridge {ridge:.4g}: {', '.join(words)}"
            )
        return _with_rest(lines, ratios.size)


def empirical_minimum(
    problem: Problem, ratio: Numbers | None = None, *, ridge: Numbers | None = None
) -> EmpiricalMinimum:
    """Find the minimum of sum_mu loss(output_mu, y_mu) + ridge |w|^2 / 2 at large N.

    The sum runs over n = ratio N samples with labels, noise and flips drawn once. This
    is where gradient descent on the data set ends; SGD with a constant learning rate
    stays at a distance that grows with the rate.

    Parameters
    ----------
    problem : Problem
        One linear student unit, a convex loss, any teacher and labels.
    ratio : float or array, optional
        n / N. Default: that of `problem.data`.
    ridge : float or array, optional
        Default: weight_decay times ratio, which has the same minimum as the dynamics.

    Returns
    -------
    EmpiricalMinimum

    Raises
    ------
    InputError
        If the loss has no unique minimum: several units, a nonlinear unit, a loss that
        is not convex; or if no finite minimum exists at any ratio.

    Examples
    --------
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, loss="logistic", labels="sign")
    >>> print(tu.analysis.empirical_minimum(problem, 3.0, ridge=0.03))
    ratio 3, ridge 0.03: error 0.1316, loss 0.2888, train error 0.001593, train loss 0.09809
    """
    student = linear_student(problem, "empirical_minimum")
    ratios = ratios_of(problem, ratio, "empirical_minimum")
    ridges = ridges_of(problem, ratios, ridge, "empirical_minimum")
    evolution = StateEvolution(student.setting, student.scale)
    flat_ratios = np.ravel(ratios)
    flat_ridges = np.ravel(ridges)
    points: list[MinimumPoint | None] = [None] * flat_ratios.size
    start = None
    for place in np.argsort(flat_ratios):
        here = float(flat_ratios[place])
        penalty = float(flat_ridges[place])
        if penalty == 0 and here <= student.fits_below:
            continue
        if penalty == 0 and student.exact:
            points[place] = _perfect(student)
            continue
        points[place] = evolution.solve(here, penalty, start)
        if points[place] is None and start is not None:
            points[place] = evolution.solve(here, penalty, None)
        found = points[place]
        start = None if found is None else found.conjugates
    if all(point is None for point in points):
        raise InputError(_missing(student, flat_ratios, flat_ridges))
    return _minimum_of(student, ratios, ridges, points)


def _missing(student: LinearStudent, ratios: np.ndarray, ridges: np.ndarray) -> str:
    """Return the message about a minimum that does not exist."""
    below = student.fits_below
    largest = ratios.max()
    if np.all(ridges == 0) and largest <= below:
        limit = f"below ratio {below:.4g}"
        remedy = "Give a positive ridge, or a larger ratio."
        if np.isinf(below):
            limit = "at every ratio"
            remedy = "Give a positive ridge."
        return (
            f"ratio is {checks.shown(largest)} and ridge is 0; {limit} some weights fit "
            f"all samples, so no finite minimum exists or it is not unique. {remedy}"
        )
    return (
        f"the order parameters have no finite fixed point at ratio "
        f"{checks.shown(largest)}; raise ridge."
    )


def _perfect(student: LinearStudent) -> MinimumPoint:
    """Return the minimum of noiseless samples that determine the teacher: w = w*."""
    setting = student.setting
    T = setting.T[0, 0]
    visible = np.einsum("l,lmn->mn", setting.p * setting.lam, setting.teacher)
    return MinimumPoint(
        R=visible @ setting.combine[0] / student.scale,
        Q=T / student.scale**2,
        V=np.nan,
        error=0.0,
        loss=0.0,
        train_error=0.0,
        train_loss=0.0,
        label_error=np.nan,
        conjugates=None,  # pyright: ignore
    )


def _minimum_of(
    student: LinearStudent,
    ratios: np.ndarray,
    ridges: np.ndarray,
    points: list[MinimumPoint | None],
) -> EmpiricalMinimum:
    """Collect points to arrays over ratios."""
    shape = np.shape(ratios)
    M = student.setting.teacher.shape[1]

    def collected(name: str) -> np.ndarray:
        values = [np.nan if p is None else getattr(p, name) for p in points]
        return np.reshape(np.array(values, float), shape)[()]

    R = [np.full(M, np.nan) if p is None else p.R for p in points]
    exists = np.reshape([point is not None for point in points], shape)[()]
    return EmpiricalMinimum(
        problem=student.setting.problem,
        ratio=np.asarray(ratios)[()],
        ridge=ridges[()],
        R=np.reshape(R, (*shape, 1, M)),
        Q=np.reshape(collected("Q"), (*shape, 1, 1)),
        susceptibility=collected("V"),
        error=collected("error"),
        loss=collected("loss"),
        train_error=collected("train_error"),
        train_loss=collected("train_loss"),
        label_error=collected("label_error"),
        exists=exists,
        fits_below=student.fits_below,
    )


@dataclass(frozen=True)
class MinimumRuns(AnalysisResult, figure="plot_minimum_runs", sources=SOURCES):
    """Minima of finite data sets, one for each run, next to the theory.

    Attributes
    ----------
    theory : EmpiricalMinimum
        The limit of large N at the same ratios.
    dim : int
        N of the runs.
    ratio, ridge : array (ratio,)
        Those of the theory.
    R : array (run, ratio, 1, M)
        Overlaps with the teacher.
    Q : array (run, ratio, 1, 1)
        Squared lengths.
    error, loss, train_error, train_loss : array (run, ratio)
        As in `EmpiricalMinimum`; error and loss are measured on fresh samples.
    """

    theory: EmpiricalMinimum
    dim: int
    ratio: Float[np.ndarray, "*ratios"]
    ridge: Float[np.ndarray, "*ratios"]
    R: Float[np.ndarray, "runs *ratios 1 M"]
    Q: Float[np.ndarray, "runs *ratios 1 1"]
    error: Float[np.ndarray, "runs ..."]
    loss: Float[np.ndarray, "runs ..."]
    train_error: Float[np.ndarray, "runs ..."]
    train_loss: Float[np.ndarray, "runs ..."]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.error)

    @property
    def mean(self) -> dict[str, np.ndarray]:
        """The mean over runs, by name."""
        return {
            name: getattr(self, name).mean(axis=0) for name in ("R", "Q", *MEASURES)
        }

    @property
    def standard_error(self) -> dict[str, np.ndarray]:
        """The standard error of the mean, by name."""
        errors = {}
        for name in ("R", "Q", *MEASURES):
            values = getattr(self, name)
            errors[name] = values.std(axis=0, ddof=1) / np.sqrt(self.runs)
        return errors

    @property
    def z(self) -> dict[str, np.ndarray]:
        """Distance of the mean from the theory as a normal deviate, by name.

        Few runs have a rough standard error: Student's t is turned into the normal
        deviate of equal probability.
        """
        from scipy.special import ndtri, stdtr

        mean = self.mean
        scores = {}
        for name, error in self.standard_error.items():
            distance = mean[name] - getattr(self.theory, name)
            # a quantity that is the same in all runs has no standard error
            t = np.divide(distance, error, out=np.zeros_like(distance), where=error > 0)
            tail = np.maximum(stdtr(self.runs - 1, -np.abs(t)), 1e-299)
            scores[name] = -np.sign(t) * ndtri(tail)
        return scores

    @property
    def largest_z(self) -> float:
        """The largest distance of all quantities and ratios, in standard errors."""
        return float(max(np.max(np.abs(z)) for z in self.z.values()))

    @property
    def verdict(self) -> str:
        """The word "agree" or "disagree", by the largest distance."""
        return "agree" if self.largest_z < LARGEST_Z else "disagree"

    def __str__(self) -> str:
        ratios = np.atleast_1d(self.ratio)
        lines = [
            f"{self.verdict}: {self.runs} runs at N = {self.dim}, largest distance "
            f"{self.largest_z:.2g} standard errors"
        ]
        mean = self.mean
        error = self.standard_error
        for place in _printed(ratios.size):
            words = []
            for name in MEASURES:
                value = np.atleast_1d(mean[name])[place]
                deviation = np.atleast_1d(error[name])[place]
                expected = np.atleast_1d(getattr(self.theory, name))[place]
                words.append(
                    f"{name.replace('_', ' ')} {value:.4g} ± {deviation:.1g} "
                    f"({expected:.4g})"
                )
            lines.append(f"ratio {ratios[place]:.4g}: {', '.join(words)}")
        return _with_rest(lines, ratios.size)


def simulate_minimum(
    problem: Problem,
    ratio: Numbers | None = None,
    *,
    dim: int,
    runs: int,
    ridge: Numbers | None = None,
    seed: int = 0,
) -> MinimumRuns:
    """Minimize the regularized loss of finite data sets, and compare with the theory.

    Each run draws a teacher and n = ratio dim samples, and minimizes by a convex solver:
    normal equations (squared loss), L-BFGS (smooth losses), the dual quadratic program
    (hinge and absolute loss; linear programs without ridge). For a `HiddenManifold` the
    samples are its features, not Gaussian vectors.

    Parameters
    ----------
    problem : Problem
        As for `empirical_minimum`.
    ratio : float or array, optional
        n / N. Default: that of `problem.data`.
    dim : int
        N.
    runs : int
        Data sets per ratio, 3 or more.
    ridge : float or array, optional
        Default: weight_decay times ratio.
    seed : int
        Of teachers and samples.

    Returns
    -------
    MinimumRuns

    Examples
    --------
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, noise=0.3)
    >>> runs = tu.analysis.simulate_minimum(problem, 2.0, dim=200, runs=20, ridge=0.1)
    >>> runs.verdict
    'agree'
    """
    student = linear_student(problem, "simulate_minimum")
    N = checks.as_count("dim", dim)
    count = checks.as_count("runs", runs, least=FEWEST_RUNS)
    seed = checks.as_count("seed", seed, least=0)
    theory = empirical_minimum(problem, ratio, ridge=ridge)
    if not np.all(theory.exists):
        missing = np.atleast_1d(theory.ratio)[~np.atleast_1d(theory.exists)]
        raise InputError(
            f"no unique minimum exists at ratio {checks.shown(missing)}; leave these "
            "ratios out, or give a positive ridge."
        )
    shape = np.shape(theory.ratio)
    ratios = np.ravel(theory.ratio)
    ridges = np.ravel(theory.ridge)
    descents = descents_of(student.setting.problem.loss)
    labeler = labeler_of(student.setting)
    measured: dict[str, list] = {name: [] for name in ("R", "Q", *MEASURES)}
    for run in range(count):
        for place in range(ratios.size):
            rng = np.random.default_rng([seed, run, place])
            teacher = Teacher.drawn(student.setting, labeler, N, rng)
            size = max(1, round(ratios[place] * N))
            numbers = _one_run(student, descents, teacher, size, ridges[place], rng)
            for name, value in numbers.items():
                measured[name].append(value)
    M = student.setting.teacher.shape[1]
    endings = {"R": (1, M), "Q": (1, 1)}
    arrays = {
        name: np.reshape(values, (count, *shape, *endings.get(name, ())))
        for name, values in measured.items()
    }
    return MinimumRuns(
        theory=theory,
        dim=N,
        ratio=theory.ratio,
        ridge=theory.ridge,
        **arrays,
    )


def _one_run(
    student: LinearStudent,
    descents: Descents,
    teacher: Teacher,
    size: int,
    ridge: float,
    rng: np.random.Generator,
) -> dict[str, np.ndarray | float]:
    """Return the order parameters, errors and losses of one data set of this size."""
    stored = teacher.samples(size, rng)
    w = minimizer(descents, stored, student.scale, ridge)
    fresh = teacher.samples(FRESH_SAMPLES, rng)
    metric = student.setting.problem.labels.metric
    adapted = student.scale * (stored.X @ w)
    output = student.scale * (fresh.X @ w)
    covariance = teacher.covariance_with(w) / w.size
    return {
        "R": teacher.weights @ covariance,
        "Q": float(w @ covariance),
        "error": _error(metric, output, fresh.truth),
        "loss": float(np.mean(descents.value(output, fresh.labels))),
        "train_error": _error(metric, adapted, stored.labels),
        "train_loss": float(np.mean(descents.value(adapted, stored.labels))),
    }


def _error(metric: str, output: np.ndarray, labels: np.ndarray) -> float:
    """Return the error of outputs against labels: wrong signs, or squares."""
    if metric == "class":
        return float(np.mean((output < 0) != (labels < 0)))
    return float(np.mean((output - labels) ** 2)) / 2


def _printed(count: int) -> list[int]:
    """Return the places of the ratios that are printed, evenly over all."""
    if count <= PRINTED_RATIOS:
        return list(range(count))
    places = np.linspace(0, count - 1, PRINTED_RATIOS)
    return [round(place) for place in places]


def _with_rest(lines: list[str], count: int) -> str:
    """Join lines; add how many ratios are not printed."""
    rest = count - PRINTED_RATIOS
    if rest > 0:
        lines = [*lines, f"... and {rest} ratios between them"]
    return "\n".join(lines)
