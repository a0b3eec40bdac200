"""`Data.compare`: SGD on the samples themselves next to the theory, and where the gap between them comes from.

The same SGD runs on up to three laws of samples, from the same initial weights:
    theory's law        Gaussian, with the means and variances that the theory uses
    full covariances    Gaussian, with the whole covariance of each class (where the theory throws a part of it away)
    samples             the data themselves, drawn with replacement, with their own labels
The first differs from the theory by finite N and finite steps alone. Each further one adds what the one before leaves out, so
that the gap is a sum of causes. Runs share the order of the samples, and the Gaussian laws their random numbers.
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
from tutelage.moments.node_moments import ErrorMetric
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.sample import context_of, normals_needed, updates_of, with_unseen
from tutelage.problem.traits import MIXTURES
from tutelage.rules import Context, Parameters, Sample, Update
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
from tutelage.storage import error_name
from tutelage.times import linear_times, steps_at
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from tutelage.data.measure import Data

Curves: TypeAlias = Float[np.ndarray, "run time"]
MeanAndError: TypeAlias = tuple[Float[np.ndarray, " time"], Float[np.ndarray, " time"]]
Weights: TypeAlias = Float[np.ndarray, "units D"]
BLOCK = 2**22  # numbers drawn at a time, for all runs together
JUDGED = 1000  # Gaussian samples on which the error of a run is measured; the data are used as a whole
SCALE = 0.1  # of initial weights
SHOWN = 6  # times that are printed
DIVERGED = 1e100  # an error above it is NaN
NONE = 1e-9  # a share that counts as nothing
THEORY, FULL, SAMPLES = "theory's law", "full covariances", "samples"
CAUSES = {THEORY: "finite N", FULL: "covariances", SAMPLES: "not Gaussian"}  # what each law adds to the gap


@dataclass(frozen=True, eq=False, repr=False)
class DataComparison(AnalysisResult, figure="plot_data_comparison"):
    """What `Data.compare` found. Print it for the gap at each time and its causes.

    theory: the solution. times: (time,). error, loss: by law of the samples ("theory's law", "full covariances",
    "samples"), (run, time). Both are measured on the law itself; for "samples" that is the whole data set.
    """

    data: "Data"
    theory: Trajectory
    times: Float[np.ndarray, " time"]
    error: dict[str, Curves]
    loss: dict[str, Curves]

    def gap(self, name: str = "error") -> MeanAndError:
        """SGD on the samples minus theory, mean over runs, and its standard error. name: "error" or "loss"."""
        runs, theory = self._both(name)
        return _mean_and_error(runs[SAMPLES] - theory)

    def causes(self, name: str = "error") -> dict[str, MeanAndError]:
        """The parts of the gap, whose sum it is, with their standard errors.

        "finite N": SGD on the theory's law against the theory. "covariances": what the theory leaves out of them. "not
        Gaussian": the samples against Gaussian ones of the same means and covariances.
        """
        runs, before = self._both(name)
        parts = {}
        for law, values in runs.items():
            parts[CAUSES[law]] = _mean_and_error(values - before)
            before = values
        return parts

    def _both(self, name: str) -> tuple[dict[str, Curves], Float[np.ndarray, " time"]]:
        """Runs by law, and the theory: NaN after a divergence, where the solution ends."""
        runs = getattr(self, checks.known("name", name, ("error", "loss")))
        solved = np.asarray(getattr(self.theory, name), dtype=float)
        return runs, np.pad(solved, (0, len(self.times) - len(solved)), constant_values=np.nan)

    def __str__(self) -> str:
        data, runs = self.data, len(self.error[SAMPLES])
        lines = [
            f"theory next to SGD on {len(data.held[0])} samples drawn with replacement, {runs} runs, N = {data.dim}",
            *self._table("error", error_name(self.theory.problem)),
        ]
        solved, error = (np.asarray(x, dtype=float) for x in (self.theory.loss, self.theory.error))
        if np.isfinite(solved).all() and not np.allclose(solved, error):
            lines += ["", *self._table("loss", "training loss")]
        diverged = int(np.sum(~np.isfinite(self.error[SAMPLES][:, -1])))
        lines += [f"{diverged} of {runs} runs on the samples diverged; lower the learning rate"] * (diverged > 0)
        return "\n".join([*lines, "", *self._explanation()])

    def _table(self, name: str, words: str) -> list[str]:
        causes, (_, theory), (gap, error) = self.causes(name), self._both(name), self.gap(name)
        head = f"{'alpha':>8}{'theory':>9}{'samples':>9}{'gap':>19} = " + " + ".join(f"{law:>17}" for law in causes)
        lines = [words, head]
        for i in np.unique(np.linspace(0, len(self.times) - 1, SHOWN).round().astype(int)):
            parts = " + ".join(f"{mean[i]:>8.4f} ± {se[i]:.4f}" for mean, se in causes.values())
            both = f"{theory[i]:9.4f}{theory[i] + gap[i]:9.4f}"
            lines.append(f"{self.times[i]:8.3g}{both}{gap[i]:10.4f} ± {error[i]:.4f} = {parts}")
        return lines

    def _explanation(self) -> list[str]:
        data, lines = self.data, ["finite N: SGD takes finite steps in finite dimensions; this part vanishes as lr falls"]
        if data.classes is not None:
            largest = data.mean_length**2 / data.dim
            lines.append(f"    squared class means are up to {largest:.2f} N; the theory takes them as of order one")
        if FULL in self.error:
            lost = [f"off-diagonal parts, {data.off_diagonal:.0%} of them (norm)"] * (data.off_diagonal > NONE)
            lost += [f"differences within a level, {data.grouping_error:.0%}"] * (data.grouping_error > NONE)
            lines.append(f"covariances: the theory leaves out {' and '.join(lost)}")
        lines.append("not Gaussian: fields have other moments (zero for Gaussian ones)")
        lines += [f"    {name}: {shape}" for name, shape in data.field_shapes.items()]
        if data.teacher is not None:
            rest = "the part of y that the teacher leaves unexplained depends on x"
            lines.append(f"    {rest}; the theory takes it as independent")
        return lines


def _mean_and_error(values: Curves) -> MeanAndError:
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def compare_data(data: "Data", problem: Problem, times: Any, runs: int, seed: int, weights: Any) -> DataComparison:
    """`Data.compare`."""
    problem = require_problem(problem, "compare", needs=(MIXTURES,))
    if problem.inputs.levels != data.inputs.levels or problem.inputs.known_dim != data.dim:
        raise InputError(
            f"the inputs are {problem.inputs!r}; they must be those of the data. Make the problem with data.problem."
        )
    if data.corrected:
        law = "SGD on the samples follows the eigenvalues of the samples, and those of the data are corrected"
        raise InputError(f"{law}; measure the data again with spectrum='measured'.")
    if data.labels is not None and (callable(problem.noise) or np.any(np.asarray(problem.noise) > 0)):
        raise InputError("noise is set, but the samples have labels; leave noise out.")
    times = linear_times(checks.as_positive("times", times), 21) if np.ndim(times) == 0 else times
    times, seed = checks.as_times(times), checks.as_count("seed", seed, least=0)
    runs = checks.as_count("runs", runs, least=2)
    W, W_teacher = _weights(data, problem, weights, np.random.default_rng(seed))
    r, q, t = (level_overlaps(a, b, data.level_sizes) for a, b in ((W, W_teacher), (W, W), (W_teacher, W_teacher)))
    start = Start(R=r, Q=(q + q.swapaxes(1, 2)) / 2, T=(t + t.swapaxes(1, 2)) / 2)  # no dim: what finite N does is measured
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        theory = solve(problem, start, times)
    roots: dict[str, np.ndarray | None] = {THEORY: np.sqrt(data.variances)}
    if max(data.off_diagonal, data.grouping_error) > NONE:
        roots[FULL] = matrix_roots(data.covariances)
    laws = {name: _Law(data, problem, root) for name, root in (roots | {SAMPLES: None}).items()}
    steps = steps_at(times, data.dim)
    found = {name: _train(problem, law, W, W_teacher, start, steps, runs, seed) for name, law in laws.items()}
    error, loss = ({name: pair[i] for name, pair in found.items()} for i in range(2))
    return DataComparison(data, theory, times, error, loss)


def _weights(data: "Data", problem: Problem, weights: Any, rng: np.random.Generator) -> tuple[Weights, Weights]:
    """W (K, D) and the reference vectors (M, D) along the directions of the theory."""
    fixed = data.grouped_teacher if data.classes is None else np.sqrt(data.dim) * data.means
    given = weights if isinstance(weights, tuple) else (weights, None)
    if len(given) != 2 or (fixed is not None and given[1] is not None):
        allowed = "the student's" if fixed is not None else "the student's, or a pair (W, W_teacher)"
        raise InputError(f"weights hold {len(given)} arrays; give {allowed}.")

    def one(name: str, value: Any, units: int, scale: float) -> np.ndarray:
        if value is None:
            return scale * rng.standard_normal((units, data.dim))
        shape, fix = (units, data.basis.shape[1]), "One row per unit, one column per feature."
        return checks.as_array(name, value, shapes=[shape], fix=fix) @ data.basis.T

    W = one("weights", given[0], problem.student.hidden, SCALE)
    return W, one("teacher weights", given[1], problem.references.hidden, 1.0) if fixed is None else fixed


class _Law:
    """A law of samples, which bring their labels (`labeled`) or have them from a teacher.

    roots: of the Gaussian covariance of each class, standard deviations (C, D) or matrices (C, D, D); None: the data themselves.
    """

    def __init__(self, data: "Data", problem: Problem, roots: np.ndarray | None):
        self.data, self.roots, self.normals = data, roots, normals_needed(problem)
        (self.x, self.labels), self.labeled = data.held, data.labels is not None
        self.targets = None if data.classes is None else np.asarray(problem.targets, dtype=float)

    def samples(
        self, which: Int[np.ndarray, "*n"], rng: np.random.Generator, noise: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs that stand for given rows of the data, and the random numbers of label and rule, after labels if labeled."""
        data, labels = self.data, self.labels[which]
        classes = labels if data.classes is not None else np.zeros(which.shape, dtype=int)
        if self.roots is None:
            x = self.x[which]
        else:
            x, teacher = rng.standard_normal((*which.shape, data.dim)), data.teacher_weights
            if self.roots.ndim == 2:
                x, teacher = x * self.roots[classes], data.grouped_teacher
            else:
                for c, root in enumerate(self.roots):
                    x[classes == c] = x[classes == c] @ root.T
            x += data.means[classes]
            if teacher is not None:
                unseen = np.sqrt(1 - data.explained) * rng.standard_normal(which.shape)
                labels = x @ teacher[0] / np.sqrt(data.dim) + unseen
        xi = noise.standard_normal((*which.shape, self.normals))
        if not self.labeled:
            return x, xi
        labels = labels if self.targets is None else self.targets[classes]
        return x, np.concatenate([labels if labels.ndim == xi.ndim else labels[..., None], xi], axis=-1)


def _respond_to_labels(
    problem: Problem, params: ParameterState, student: Array, teacher: Array, xi: Array, context: Context, norm2: Any
) -> Update:
    """The updates by samples whose labels are the first columns of xi. A mixture has no fields of a teacher."""
    inside, outputs = problem.in_class(), problem.student.outputs
    seen = teacher if inside is problem else jnp.ones((student.shape[0], 1))
    label = xi[:, 0] if outputs == 1 else xi[:, :outputs]
    parameters = Parameters(jnp.asarray(params.readout), jnp.asarray(params.bias))
    return updates_of(inside, student + params.bias, seen, label, xi[:, outputs:], parameters, context, norm2)


def _train(
    problem: Problem, law: _Law, W: Weights, W_teacher: Weights, start: Start, steps: np.ndarray, runs: int, seed: int
) -> tuple[Curves, Curves]:
    """Error and loss at the recorded steps of SGD on samples of this law, all runs at once."""
    D, B, last = W.shape[1], problem.samples_per_step, int(steps[-1])
    dims, constants, block = (
        law.data.level_sizes,
        step_constants(problem, D),
        min(max(1, BLOCK // (runs * D * B)), max(last, 1)),
    )
    layout, rows = weights_layout(problem, dims), len(law.x)
    step = Step(problem, constants, layout, _respond_to_labels if law.labeled else respond, given=True)
    state: Any = place_weights(problem, start, W, W_teacher, layout)
    state = jax.tree.map(lambda a: jnp.broadcast_to(jnp.asarray(a)[..., None], (*np.shape(a), runs)), state)
    orders, normals, noises, judge = (np.random.default_rng([seed, i]) for i in range(1, 5))
    measure = jax.jit(partial(_error_and_loss, problem, law.labeled))

    def draws() -> Iterator[Draws]:
        while True:
            which = orders.integers(rows, size=(runs, block * B))
            x, xi = law.samples(which, normals, noises)
            unseen = None if law.labeled else unseen_fields(problem, xi)
            side_by_side = partial(jax.tree.map, lambda a: jnp.moveaxis(a.reshape(runs, block, B, -1), 0, -1))
            yield Draws(side_by_side(x)[:, :, None], side_by_side(xi), side_by_side(unseen), None, None, None)

    def judged(state: OverlapsState) -> Float[np.ndarray, "run 2"]:
        """Error and loss of all runs on their law, all samples or fresh Gaussian ones; one by one, which bounds memory."""
        found = []
        for run in range(runs):
            own = jax.tree.map(partial(jnp.take, indices=run, axis=-1), state)
            which = np.arange(rows) if law.roots is None else judge.choice(rows, min(rows, JUDGED), replace=False)
            found.append(measure(own, *law.samples(which, judge, judge)))
        return np.asarray(found)

    curves = []
    for taken, now in stops(step, RateTable(problem, D, last), state, steps, block, draws()):
        curves += [judged(now)] * int(np.sum(steps == taken))
    both = np.array(curves).transpose(2, 1, 0)
    error, loss = np.where(np.abs(both) < DIVERGED, both, np.nan)
    return error, loss


def _error_and_loss(problem: Problem, labeled: bool, state: OverlapsState, x: Array, xi: Array) -> tuple[Array, Array]:
    """Of a network on samples x, with their labels first in xi if they bring some."""
    params, respond_to = state.params, _respond_to_labels if labeled else respond
    student, reference = x @ state.students[0, : problem.student.hidden].T, x @ state.teachers[0].T
    loss = jnp.mean(respond_to(problem, params, student, reference, xi, context_of(problem), None).loss)
    if labeled:
        truth = xi[:, 0] if problem.student.outputs == 1 else xi[:, : problem.student.outputs]
    else:
        bias = 0.0 if problem.references.bias is None else problem.references.bias
        reference = with_unseen(problem, reference + bias, xi)
        truth = jax.vmap(lambda rho: problem.labels.truth(problem.teacher.output(rho), rho))(reference)
    parameters = Parameters(jnp.asarray(params.readout), jnp.asarray(params.bias))
    metric = ErrorMetric(problem.labels.metric)

    def error(fields: Array, label: Array) -> ArrayLike:
        sample = Sample(student=fields + params.bias, reference=fields, label=label)
        return metric.update(sample, parameters, context_of(problem)).loss

    return jnp.mean(jax.vmap(error)(student, truth)), loss
