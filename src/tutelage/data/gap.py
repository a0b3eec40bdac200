"""SGD on the samples themselves next to the theory, and the causes of the gap.

This is `Data.compare`. The same SGD runs on up to three laws of samples, from the same
initial weights:

    theory's law        Gaussian, with the means and variances that the theory uses
    full covariances    Gaussian, with the whole covariance of each class (where the
                        theory does not use a part of it)
    samples             the data themselves, drawn with replacement, with their own
    labels

With a data set, each run uses a part of the samples again and again (`epochs.py`).

The first differs from the theory by finite N and finite steps alone. Each further one
adds what the one before leaves out, so that the gap is a sum of causes. Runs share the
order of the samples, and the Gaussian laws their random numbers.
"""

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve
from tutelage.analysis.result import AnalysisResult
from tutelage.data.laws import SampleLaw
from tutelage.data.training import Curves, InitialWeights, Weights, train
from tutelage.errors import InputError, ValidityWarning
from tutelage.few_runs import error_of_mean
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import ANY_THEORY, MIXTURES, OPTIMIZERS
from tutelage.result.storage import error_name
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.prepare import level_overlaps, matrix_roots
from tutelage.times import linear_times, steps_at

if TYPE_CHECKING:
    from tutelage.data.result import Data

MeanAndError: TypeAlias = tuple[Float[np.ndarray, " time"], Float[np.ndarray, " time"]]
SCALE = 0.1  # of initial weights
DEFAULT_TIMES = 21  # recorded times if only the last one is given
SHOWN = 6  # times that are printed
NONE = 1e-9  # a share that counts as nothing
THEORY = "theory's law"
FULL = "full covariances"
SAMPLES = "samples"
# The part that each law adds to the gap.
CAUSES = {THEORY: "finite N", FULL: "covariances", SAMPLES: "not Gaussian"}


@dataclass(frozen=True, eq=False, repr=False)
class DataComparison(AnalysisResult, figure="plot_data_comparison"):
    """The result of `Data.compare`. Print it for the gap at each time and its causes.

    Attributes
    ----------
    data : Data
        The measured samples.
    theory : Trajectory
        The solution.
    times : array (time,)
        The recorded times.
    error, loss : dicts of arrays (run, time)
        By law of the samples ("theory's law", "full covariances", "samples"). Both are
        measured on the law itself; for "samples" that is the whole data set, or what a
        run is not trained on.
    train_error, train_loss : dicts of arrays (run, time)
        The same on the samples that a run is trained on, of a problem with `data`.
    """

    data: "Data"
    theory: Trajectory
    times: Float[np.ndarray, " time"]
    error: dict[str, Curves]
    loss: dict[str, Curves]
    train_error: dict[str, Curves] = field(default_factory=dict)
    train_loss: dict[str, Curves] = field(default_factory=dict)

    def gap(self, name: str = "error") -> MeanAndError:
        """Return SGD on the samples minus theory, and its error.

        It is a mean over runs; two of its errors cover 95%. name: "error" or "loss";
        with a data set also "train_error" or "train_loss".
        """
        runs, theory = self._both(name)
        return _mean_and_error(runs[SAMPLES] - theory)

    def causes(self, name: str = "error") -> dict[str, MeanAndError]:
        """Return the parts of the gap, whose sum it is, with their errors.

        "finite N": SGD on the theory's law against the theory. "covariances": what the
        theory leaves out of them. "not Gaussian": the samples against Gaussian ones of
        the same means and covariances.
        """
        runs, before = self._both(name)
        parts = {}
        for law, values in runs.items():
            parts[CAUSES[law]] = _mean_and_error(values - before)
            before = values
        return parts

    def _both(self, name: str) -> tuple[dict[str, Curves], Float[np.ndarray, " time"]]:
        """Return the runs by law, and the theory: NaN after a divergence."""
        names = ("error", "loss")
        if self.train_loss:
            names += ("train_error", "train_loss")
        runs = getattr(self, checks.known("name", name, names))
        solved = np.asarray(getattr(self.theory, name), dtype=float)
        missing = len(self.times) - len(solved)
        return runs, np.pad(solved, (0, missing), constant_values=np.nan)

    def __str__(self) -> str:
        samples = f"{len(self.data.held[0])} samples drawn with replacement"
        if self.train_loss:
            samples = self._data_set_in_words()
        runs = len(self.error[SAMPLES])
        lines = [
            f"theory next to SGD on {samples}, {runs} runs, N = {self.data.dim}",
            *self._table("error", error_name(self.theory.problem)),
        ]
        loss = np.asarray(self.theory.loss, dtype=float)
        error = np.asarray(self.theory.error, dtype=float)
        if np.isfinite(loss).all() and not np.allclose(loss, error):
            title = "loss on other samples" if self.train_loss else "training loss"
            lines += ["", *self._table("loss", title)]
        if self.train_loss:
            lines += ["", *self._table("train_loss", "loss on the data set")]
        diverged = int(np.sum(~np.isfinite(self.error[SAMPLES][:, -1])))
        if diverged:
            lines.append(
                f"{diverged} of {runs} runs on the samples diverged; "
                "lower the learning rate"
            )
        return "\n".join([*lines, "", *self._explanation()])

    def _data_set_in_words(self) -> str:
        """Return the size of the data set of a run, and its epochs."""
        problem = self.theory.problem
        assert problem is not None
        assert problem.data is not None
        count = round(float(np.asarray(problem.data.ratio)) * self.data.dim)
        epochs = float(self.theory.epochs[-1])
        return f"{count} of {len(self.data.held[0])} samples for {epochs:.3g} epochs"

    def _table(self, name: str, title: str) -> list[str]:
        """Return the lines of a table of the gap and its parts at a few times."""
        causes = self.causes(name)
        _, theory = self._both(name)
        gap, error = self.gap(name)
        left = f"{'alpha':>8}{'theory':>9}{'samples':>9}{'gap':>19}"
        right = " + ".join(f"{cause:>17}" for cause in causes)
        lines = [title, f"{left} = {right}"]
        places = np.linspace(0, len(self.times) - 1, SHOWN).round().astype(int)
        for i in np.unique(places):
            parts = " + ".join(
                f"{mean[i]:>8.4f} ± {part_error[i]:.4f}"
                for mean, part_error in causes.values()
            )
            values = f"{self.times[i]:8.3g}{theory[i]:9.4f}{theory[i] + gap[i]:9.4f}"
            lines.append(f"{values}{gap[i]:10.4f} ± {error[i]:.4f} = {parts}")
        return lines

    def _explanation(self) -> list[str]:
        """Return the lines on the causes of the gap."""
        data = self.data
        lines = [
            "finite N: SGD takes finite steps in finite dimensions; "
            "this part vanishes as lr falls"
        ]
        if data.classes is not None:
            largest = data.mean_length**2 / data.dim
            lines.append(
                f"    squared class means are up to {largest:.2f} N; "
                "the theory takes them as of order one"
            )
        if FULL in self.error:
            left_out = []
            if data.off_diagonal > NONE:
                share = f"{data.off_diagonal:.0%} of them (norm)"
                left_out.append(f"off-diagonal parts, {share}")
            if data.grouping_error > NONE:
                share = f"{data.grouping_error:.0%}"
                left_out.append(f"differences within a level, {share}")
            lines.append(f"covariances: the theory leaves out {' and '.join(left_out)}")
        lines.append("not Gaussian: fields have other moments (zero for Gaussian ones)")
        for name, shape in data.field_shapes.items():
            lines.append(f"    {name}: {shape}")
        if data.teacher is not None:
            lines.append(
                "    the part of y that the teacher leaves unexplained depends on x; "
                "the theory takes it as independent"
            )
        return lines


def _mean_and_error(values: Curves) -> MeanAndError:
    """Return the mean over runs and its error, two of which cover 95%."""
    return values.mean(axis=0), error_of_mean(values)


def compare_data(
    data: "Data", problem: Problem, times: Any, runs: int, seed: int, weights: Any
) -> DataComparison:
    """Run SGD on the laws of samples next to the theory; see `Data.compare`."""
    problem = _checked_problem(data, problem)
    if np.ndim(times) == 0:
        times = linear_times(checks.as_positive("times", times), DEFAULT_TIMES)
    times = checks.as_times(times)
    seed = checks.as_count("seed", seed, least=0)
    runs = checks.as_count("runs", runs, least=2)
    initial = _initial_weights(data, problem, weights, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        theory = solve(problem, initial.start, times)
    roots: dict[str, np.ndarray | None] = {THEORY: np.sqrt(data.variances)}
    if max(data.off_diagonal, data.grouping_error) > NONE:
        roots[FULL] = matrix_roots(data.covariances)
    roots[SAMPLES] = None
    if problem.data is not None:
        return _compare_data_sets(data, problem, theory, roots, initial, runs, seed)
    steps = steps_at(times, data.dim)
    error = {}
    loss = {}
    for name, root in roots.items():
        law = SampleLaw(data=data, problem=problem, roots=root)
        curves = train(problem, law, initial, steps, runs, seed)
        error[name] = curves.error
        loss[name] = curves.loss
    return DataComparison(data=data, theory=theory, times=times, error=error, loss=loss)


def _compare_data_sets(
    data: "Data",
    problem: Problem,
    theory: Trajectory,
    roots: dict[str, np.ndarray | None],
    initial: InitialWeights,
    runs: int,
    seed: int,
) -> DataComparison:
    """Run the training on data sets of all laws next to the theory."""
    from tutelage.data.epochs import train_on_data_sets

    times = np.asarray(theory.times)
    found = {}
    for name, root in roots.items():
        law = SampleLaw(data=data, problem=problem, roots=root)
        found[name] = train_on_data_sets(problem, law, initial, times, runs, seed)
    return DataComparison(
        data=data,
        theory=theory,
        times=times,
        error={name: curves.error for name, curves in found.items()},
        loss={name: curves.loss for name, curves in found.items()},
        train_error={name: curves.train_error for name, curves in found.items()},
        train_loss={name: curves.train_loss for name, curves in found.items()},
    )


def _checked_problem(data: "Data", problem: Problem) -> Problem:
    """Return the problem if it is one of the data."""
    needs: tuple[str, ...] = (MIXTURES,)
    if isinstance(problem, Problem) and problem.data is not None:
        needs = (MIXTURES, OPTIMIZERS, ANY_THEORY)  # what lacks, `solve` says
    problem = require_problem(problem, "compare", needs=needs)
    inputs = problem.inputs
    if inputs.levels != data.inputs.levels or inputs.known_dim != data.dim:
        raise InputError(
            f"the inputs are {inputs!r}; they must be those of the data. "
            "Make the problem with data.problem."
        )
    if data.corrected:
        raise InputError(
            "SGD on the samples follows the eigenvalues of the samples, and those of "
            "the data are corrected; measure the data again with spectrum='measured'."
        )
    if data.labels is not None and _has_noise(problem):
        raise InputError("noise is set, but the samples have labels; leave noise out.")
    return problem


def _has_noise(problem: Problem) -> bool:
    """Return True if the labels have noise."""
    return callable(problem.noise) or bool(np.any(np.asarray(problem.noise) > 0))


def _start_of(data: "Data", W: Weights, W_teacher: Weights) -> Start:
    """Return the overlaps of weights, without N: its effect is measured."""
    sizes = data.level_sizes
    r = level_overlaps(W, W_teacher, sizes)
    q = level_overlaps(W, W, sizes)
    t = level_overlaps(W_teacher, W_teacher, sizes)
    return Start(R=r, Q=(q + q.swapaxes(1, 2)) / 2, T=(t + t.swapaxes(1, 2)) / 2)


def _initial_weights(
    data: "Data", problem: Problem, weights: Any, rng: np.random.Generator
) -> InitialWeights:
    """Return the weights of students and references along the theory's directions."""
    if data.classes is None:
        fixed = data.grouped_teacher
    else:
        fixed = np.sqrt(data.dim) * data.means
    pair = weights
    if not isinstance(weights, tuple):
        pair = (weights, None)
    if len(pair) != 2 or (fixed is not None and pair[1] is not None):
        allowed = "the student's"
        if fixed is None:
            allowed += ", or a pair (W, W_teacher)"
        raise InputError(f"weights hold {len(pair)} arrays; give {allowed}.")
    student, teacher = pair

    def along_directions(name: str, value: Any, units: int, scale: float) -> np.ndarray:
        if value is None:
            return scale * rng.standard_normal((units, data.dim))
        shape = (units, data.basis.shape[1])
        fix = "One row per unit, one column per feature."
        return checks.as_array(name, value, shapes=[shape], fix=fix) @ data.basis.T

    W = along_directions("weights", student, problem.student.hidden, SCALE)
    W_teacher = fixed
    if W_teacher is None:
        units = problem.references.hidden
        W_teacher = along_directions("teacher weights", teacher, units, 1.0)
    start = _start_of(data, W, W_teacher)
    return InitialWeights(student=W, teacher=W_teacher, start=start)
