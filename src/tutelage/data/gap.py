"""SGD on the samples themselves next to the theory, and the causes of the gap.

This is `Data.compare`. The same SGD runs on up to three laws of samples, from the same
initial weights:

    theory's law        Gaussian, with the means and variances that the theory uses
    full covariances    Gaussian, with the whole covariance of each class (where the
                        theory does not use a part of it)
    samples             the data themselves, drawn with replacement, with their own
    labels

The first differs from the theory by finite N and finite steps alone. Each further one
adds what the one before leaves out, so that the gap is a sum of causes. Runs share the
order of the samples, and the Gaussian laws their random numbers.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import Array, ArrayLike
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError, ValidityWarning
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.sample import context_of, normals_needed, updates_of, with_unseen
from tutelage.problem.traits import MIXTURES
from tutelage.result.storage import error_name
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.draws import unseen_fields
from tutelage.simulation.jax_steps import Draws, Step, respond, stops
from tutelage.simulation.numba_kernels import ParameterState
from tutelage.simulation.prepare import (
    OverlapsState,
    RateTable,
    level_overlaps,
    matrix_roots,
    place_weights,
    step_constants,
    weights_layout,
)
from tutelage.stream.moments.node_moments import ErrorMetric
from tutelage.times import linear_times, steps_at
from tutelage.training.rules import Context, Parameters, Sample, Update

if TYPE_CHECKING:
    from tutelage.data.measure import Data

Curves: TypeAlias = Float[np.ndarray, "run time"]
MeanAndError: TypeAlias = tuple[Float[np.ndarray, " time"], Float[np.ndarray, " time"]]
Weights: TypeAlias = Float[np.ndarray, "units D"]
BLOCK = 2**22  # numbers drawn at a time, for all runs together
# Gaussian samples on which the error of a run is measured; the data are used as a
# whole.
JUDGED = 1000
SCALE = 0.1  # of initial weights
DEFAULT_TIMES = 21  # recorded times if only the last one is given
SHOWN = 6  # times that are printed
DIVERGED = 1e100  # an error above it is NaN
NONE = 1e-9  # a share that counts as nothing
THEORY = "theory's law"
FULL = "full covariances"
SAMPLES = "samples"
# The part that each law adds to the gap.
CAUSES = {THEORY: "finite N", FULL: "covariances", SAMPLES: "not Gaussian"}


@dataclass(frozen=True, eq=False, repr=False)
class DataComparison(AnalysisResult, figure="plot_data_comparison"):
    """The result of `Data.compare`. Print it for the gap at each time and its causes.

    theory: the solution. times: (time,). error, loss: by law of the samples ("theory's
    law", "full covariances", "samples"), (run, time). Both are measured on the law
    itself; for "samples" that is the whole data set.
    """

    data: "Data"
    theory: Trajectory
    times: Float[np.ndarray, " time"]
    error: dict[str, Curves]
    loss: dict[str, Curves]

    def gap(self, name: str = "error") -> MeanAndError:
        """Return SGD on the samples minus theory, and its standard error.

        It is a mean over runs. name: "error" or "loss".
        """
        runs, theory = self._both(name)
        return _mean_and_error(runs[SAMPLES] - theory)

    def causes(self, name: str = "error") -> dict[str, MeanAndError]:
        """Return the parts of the gap, whose sum it is, with their standard errors.

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
        runs = getattr(self, checks.known("name", name, ("error", "loss")))
        solved = np.asarray(getattr(self.theory, name), dtype=float)
        missing = len(self.times) - len(solved)
        return runs, np.pad(solved, (0, missing), constant_values=np.nan)

    def __str__(self) -> str:
        samples = f"{len(self.data.held[0])} samples drawn with replacement"
        runs = len(self.error[SAMPLES])
        lines = [
            f"theory next to SGD on {samples}, {runs} runs, N = {self.data.dim}",
            *self._table("error", error_name(self.theory.problem)),
        ]
        loss = np.asarray(self.theory.loss, dtype=float)
        error = np.asarray(self.theory.error, dtype=float)
        if np.isfinite(loss).all() and not np.allclose(loss, error):
            lines += ["", *self._table("loss", "training loss")]
        diverged = int(np.sum(~np.isfinite(self.error[SAMPLES][:, -1])))
        if diverged:
            lines.append(
                f"{diverged} of {runs} runs on the samples diverged; "
                "lower the learning rate"
            )
        return "\n".join([*lines, "", *self._explanation()])

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
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


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
    W, W_teacher = _weights(data, problem, weights, np.random.default_rng(seed))
    start = _start_of(data, W, W_teacher)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        theory = solve(problem, start, times)
    laws = {THEORY: _Law(data, problem, np.sqrt(data.variances))}
    if max(data.off_diagonal, data.grouping_error) > NONE:
        laws[FULL] = _Law(data, problem, matrix_roots(data.covariances))
    laws[SAMPLES] = _Law(data, problem, None)
    steps = steps_at(times, data.dim)
    error = {}
    loss = {}
    for name, law in laws.items():
        error[name], loss[name] = _train(
            problem, law, W, W_teacher, start, steps, runs, seed
        )
    return DataComparison(data=data, theory=theory, times=times, error=error, loss=loss)


def _checked_problem(data: "Data", problem: Problem) -> Problem:
    """Return the problem if it is one of the data."""
    problem = require_problem(problem, "compare", needs=(MIXTURES,))
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
    return callable(problem.noise) or bool(np.any(np.asarray(problem.noise) > 0))


def _start_of(data: "Data", W: Weights, W_teacher: Weights) -> Start:
    """Return the overlaps of weights, without N: its effect is measured."""
    sizes = data.level_sizes
    r = level_overlaps(W, W_teacher, sizes)
    q = level_overlaps(W, W, sizes)
    t = level_overlaps(W_teacher, W_teacher, sizes)
    return Start(R=r, Q=(q + q.swapaxes(1, 2)) / 2, T=(t + t.swapaxes(1, 2)) / 2)


def _weights(
    data: "Data", problem: Problem, weights: Any, rng: np.random.Generator
) -> tuple[Weights, Weights]:
    """Return W (K, D) and reference vectors (M, D) along the theory's directions."""
    if data.classes is None:
        fixed = data.grouped_teacher
    else:
        fixed = np.sqrt(data.dim) * data.means
    pair = weights if isinstance(weights, tuple) else (weights, None)
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
    if fixed is not None:
        return W, fixed
    units = problem.references.hidden
    return W, along_directions("teacher weights", teacher, units, 1.0)


class _Law:
    """A law of samples, which bring their labels (`labeled`) or get a teacher's.

    roots: of the Gaussian covariance of each class, standard deviations (C, D) or
    matrices (C, D, D); None: the data themselves.
    """

    def __init__(self, data: "Data", problem: Problem, roots: np.ndarray | None):
        self.data = data
        self.roots = roots
        self.normals = normals_needed(problem)
        self.x, self.labels = data.held
        self.labeled = data.labels is not None
        self.targets = None
        if data.classes is not None:
            self.targets = np.asarray(problem.targets, dtype=float)

    def samples(
        self,
        which: Int[np.ndarray, "*n"],
        rng: np.random.Generator,
        noise: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs that stand for given rows of the data, and random numbers.

        The numbers are those of label and rule, after labels if the law is labeled.
        """
        labels = self.labels[which]
        classes = np.zeros(which.shape, dtype=int)
        if self.data.classes is not None:
            classes = labels
        if self.roots is None:
            x = self.x[which]
        else:
            x = self._gaussian_inputs(self.roots, classes, rng)
            labels = self._fitted_labels(x, labels, rng)
        xi = noise.standard_normal((*which.shape, self.normals))
        if not self.labeled:
            return x, xi
        if self.targets is not None:
            labels = self.targets[classes]
        if labels.ndim != xi.ndim:
            labels = labels[..., None]
        return x, np.concatenate([labels, xi], axis=-1)

    def _gaussian_inputs(
        self, roots: np.ndarray, classes: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return Gaussian inputs of the given classes."""
        x = rng.standard_normal((*classes.shape, self.data.dim))
        if roots.ndim == 2:
            x = x * roots[classes]
        else:
            for c, root in enumerate(roots):
                x[classes == c] = x[classes == c] @ root.T
        x += self.data.means[classes]
        return x

    def _fitted_labels(
        self, x: np.ndarray, labels: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the fitted teacher's labels for inputs x; without it, those given."""
        data = self.data
        teacher = data.teacher_weights
        if self.roots is not None and self.roots.ndim == 2:
            teacher = data.grouped_teacher
        if teacher is None:
            return labels
        unseen = np.sqrt(1 - data.explained) * rng.standard_normal(labels.shape)
        return x @ teacher[0] / np.sqrt(data.dim) + unseen


def _respond_to_labels(
    problem: Problem,
    params: ParameterState,
    student: Array,
    teacher: Array,
    xi: Array,
    context: Context,
    norm2: Any,
) -> Update:
    """Return the updates by samples whose labels are the first columns of xi.

    A mixture has no fields of a teacher.
    """
    inside = problem.in_class()
    reference = teacher
    if inside is not problem:
        reference = jnp.ones((student.shape[0], 1))
    return updates_of(
        inside,
        student + params.bias,
        reference,
        _labels_in(problem, xi),
        xi[:, problem.student.outputs :],
        _parameters(params),
        context,
        norm2,
    )


def _labels_in(problem: Problem, xi: Array) -> Array:
    """Return the labels, the first columns of xi."""
    outputs = problem.student.outputs
    return xi[:, 0] if outputs == 1 else xi[:, :outputs]


def _parameters(params: ParameterState) -> Parameters:
    return Parameters(jnp.asarray(params.readout), jnp.asarray(params.bias))


def _train(
    problem: Problem,
    law: _Law,
    W: Weights,
    W_teacher: Weights,
    start: Start,
    steps: np.ndarray,
    runs: int,
    seed: int,
) -> tuple[Curves, Curves]:
    """Return error and loss at the recorded steps of SGD on samples of this law.

    All runs are computed at once.
    """
    D = W.shape[1]
    batch = problem.samples_per_step
    last = int(steps[-1])
    block = min(max(1, BLOCK // (runs * D * batch)), max(last, 1))
    rows = len(law.x)
    layout = weights_layout(problem, law.data.level_sizes)
    constants = step_constants(problem, D)
    respond_to = _respond_to_labels if law.labeled else respond
    step = Step(problem, constants, layout, respond_to, given=True)

    def for_all_runs(value: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(value)[..., None], (*np.shape(value), runs))

    state: Any = place_weights(problem, start, W, W_teacher, layout)
    state = jax.tree.map(for_all_runs, state)
    orders = np.random.default_rng([seed, 1])
    normals = np.random.default_rng([seed, 2])
    noises = np.random.default_rng([seed, 3])
    judge = np.random.default_rng([seed, 4])
    measure = jax.jit(partial(_error_and_loss, problem, law.labeled))

    def side_by_side(values: Any) -> Any:
        """Return values (run, sample, ...) as (step, sample, ..., run)."""
        return jax.tree.map(
            lambda a: jnp.moveaxis(a.reshape(runs, block, batch, -1), 0, -1), values
        )

    def draws() -> Iterator[Draws]:
        while True:
            which = orders.integers(rows, size=(runs, block * batch))
            x, xi = law.samples(which, normals, noises)
            unseen = None if law.labeled else unseen_fields(problem, xi)
            yield Draws(
                normals=side_by_side(x)[:, :, None],
                noise=side_by_side(xi),
                unseen=side_by_side(unseen),
                outside=None,
                moves=None,
                far_moves=None,
            )

    def judged(state: OverlapsState) -> Float[np.ndarray, "run 2"]:
        """Return error and loss of all runs on their law.

        They are measured on all samples or fresh Gaussian ones; one run after another,
        which bounds memory.
        """
        values = []
        for run in range(runs):
            state_of_run = jax.tree.map(partial(jnp.take, indices=run, axis=-1), state)
            which = np.arange(rows)
            if law.roots is not None:
                which = judge.choice(rows, min(rows, JUDGED), replace=False)
            values.append(measure(state_of_run, *law.samples(which, judge, judge)))
        return np.asarray(values)

    curves = []
    rates = RateTable(problem, D, last)
    for taken, now in stops(step, rates, state, steps, block, draws()):
        curves += [judged(now)] * int(np.sum(steps == taken))
    both = np.array(curves).transpose(2, 1, 0)
    error, loss = np.where(np.abs(both) < DIVERGED, both, np.nan)
    return error, loss


def _error_and_loss(
    problem: Problem, labeled: bool, state: OverlapsState, x: Array, xi: Array
) -> tuple[Array, Array]:
    """Return error and loss of a network on samples x.

    Their labels come first in xi if they are labeled.
    """
    params = state.params
    respond_to = _respond_to_labels if labeled else respond
    context = context_of(problem)
    student = x @ state.students[0, : problem.student.hidden].T
    reference = x @ state.teachers[0].T
    update = respond_to(problem, params, student, reference, xi, context, None)
    if labeled:
        truth = _labels_in(problem, xi)
    else:
        truth = _truth(problem, reference, xi)
    parameters = _parameters(params)
    metric = ErrorMetric(problem.labels.metric)

    def error(fields: Array, label: Array) -> ArrayLike:
        sample = Sample(student=fields + params.bias, reference=fields, label=label)
        return metric.update(sample, parameters, context).loss

    return jnp.mean(jax.vmap(error)(student, truth)), jnp.mean(update.loss)


def _truth(problem: Problem, reference: Array, xi: Array) -> Array:
    """Return the labels without noise, from the fields of the teacher."""
    bias = 0.0 if problem.references.bias is None else problem.references.bias
    fields = with_unseen(problem, reference + bias, xi)

    def truth(rho: Array) -> Array:
        return problem.labels.truth(problem.teacher.output(rho), rho)

    return jax.vmap(truth)(fields)
