"""SGD and gradient descent on a data set that each run draws once.

A run draws n = ratio N samples x with their labels, noise and flips included, and uses
them again and again. With fields h = w.x / sqrt(N) + b, delta and h_k as in
`numba_kernels.py`, one step of SGD with a batch of b samples is

    w_k <- (1 - eta kappa / N) w_k + eta / (b sqrt(N)) sum delta_k x
    v_k <- v_k + eta_v / (b N) sum h_k,        b_k <- b_k + eta_b / (b N) sum delta_k

and one step of gradient descent with m samples (all, or a random share)

    w_k <- (1 - eta kappa) w_k + eta sqrt(N) / m sum delta_k x
    v_k <- v_k + eta_v / m sum h_k,            b_k <- b_k + eta_b / m sum delta_k
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._pool import cores
from tutelage._types import ArrayLike
from tutelage.errors import InputError, Status
from tutelage.problem import GradientDescent, Problem, Start, random_start
from tutelage.problem.data_set import EPOCHS
from tutelage.problem.sample import labels_of, normals_needed
from tutelage.problem.start import weights_by_level
from tutelage.result.observables import Observable
from tutelage.result.trajectory import Trajectory
from tutelage.simulation import numba_kernels as kernels
from tutelage.simulation import prepare
from tutelage.simulation.runs import (
    Ended,
    Records,
    Request,
    ShouldContinue,
    run_in_threads,
    stream,
)
from tutelage.simulation.simulate import (
    agreed_dim,
    as_trajectory,
    checked_starts,
    number_of_runs,
    require_rows,
    rows_or_law,
    steps_per_time,
    warn_if_unfinished,
)
from tutelage.simulation.weights import (
    FRAME,
    INPUTS,
    NOISE,
    drawn_rows,
    given_rows,
)
from tutelage.solvers.program import BOUND
from tutelage.stream.solve import keeps_blocks, require_records
from tutelage.times import steps_at
from tutelage.training.schedules import rate_values

# What training on a data set records besides the error and the loss of fresh samples.
OBSERVABLES = (
    Observable("train_error", "error on the data set", panel="error"),
    Observable("train_loss", "loss on the data set", panel="loss"),
    Observable("epochs", "passes through the data set"),
)
ORDER = 5  # the random stream of the order of samples, next to those of weights.py
STRETCH = 2**12  # steps between two looks at the size of the weights


@dataclass
class DataSetState:
    """A network in training, and its data set.

    samples: in eigencoordinates.
    """

    samples: Float[np.ndarray, "n N"]
    labels: Float[np.ndarray, " n"]
    student: Float[np.ndarray, "K N"]
    teacher: Float[np.ndarray, "M N"]
    readout: Float[np.ndarray, " K"]
    bias: Float[np.ndarray, " K"]

    @property
    def fields(self) -> Float[np.ndarray, "n K"]:
        """The fields of all samples, without biases."""
        return self.samples @ self.student.T / np.sqrt(self.samples.shape[1])


class SampleOrder:
    """The samples that SGD visits, one after the other.

    With replacement, or in epochs that visit every sample once in a new random order.
    """

    def __init__(self, order: str, count: int, rng: np.random.Generator):
        self.order = order
        self.count = count
        self.rng = rng
        self.rest = np.zeros(0, dtype=np.int64)

    def next(self, visits: int) -> Int[np.ndarray, " visits"]:
        """Return the next visits."""
        if self.order != EPOCHS:
            return self.rng.integers(self.count, size=visits)
        parts = [self.rest]
        known = self.rest.size
        while known < visits:
            parts.append(self.rng.permutation(self.count))
            known += self.count
        joined = np.concatenate(parts)
        self.rest = joined[visits:]
        return joined[:visits]


# Returns samples (in eigencoordinates) and labels of a run, from its number and the
# weights of the teacher.
DrawData: TypeAlias = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]


class DataSetMethod:
    """Training on a data set: `run` computes one run.

    draw: where the data sets of the runs come from. Default: the law of the inputs and
    the teacher.
    """

    def __init__(self, request: Request, draw: DrawData | None = None):
        problem = request.problem
        if not prepare.has_student_kernels(problem):
            raise InputError(
                "simulate with a data set needs a named loss and a named activation of "
                "the student, and one is a custom function; name them, or drop data=."
            )
        assert problem.data is not None
        self.draw = draw or self._draw_from_law
        self.request = request
        self.problem = problem
        self.constants = prepare.step_constants(problem, request.dim)
        self.count = max(1, round(float(np.asarray(problem.data.ratio)) * request.dim))
        self.coordinates = [
            prepare.level_coordinates(problem, start, request.dims)
            for start in request.starts
            if request.weights is None
        ]

    def run(
        self, index: int, records: Records, should_continue: ShouldContinue
    ) -> Ended:
        """Compute run `index` and write its records."""
        state = self._initial_state(index)
        rng = stream(self.request.seed, index, ORDER)
        assert self.problem.data is not None
        order = SampleOrder(self.problem.data.order, self.count, rng)
        step = 0
        for place, target in enumerate(self.request.steps):
            while step < target:
                if not should_continue(step):
                    return Status.INTERRUPTED, step
                end = min(int(target), step + STRETCH)
                self._train(state, order, step, end)
                step = end
                if not self._is_finite(state):
                    return Status.DIVERGED, step
            self.record(state, index, records, place)
        should_continue(step)
        return Status.FINISHED, step

    def _initial_state(self, index: int) -> DataSetState:
        """Draw the data set, and place the weights."""
        request = self.request
        problem = self.problem
        which = index % len(request.starts)
        start = request.starts[which]
        if request.weights is not None:
            student, teacher = (np.array(w, order="C") for w in request.weights)
        else:
            M = problem.references.hidden
            frame = stream(request.seed, index, FRAME)
            vectors = prepare.in_random_frames(
                self.coordinates[which], request.dims, frame
            )
            teacher = np.ascontiguousarray(vectors[:M])
            student = np.ascontiguousarray(vectors[M:])
        samples, labels = self.draw(index, teacher)
        parameters = prepare.initial_parameters(problem, start)
        return DataSetState(
            samples=np.ascontiguousarray(samples),
            labels=labels,
            student=student,
            teacher=teacher,
            readout=np.array(parameters.readout, dtype=float),
            bias=np.array(parameters.bias, dtype=float),
        )

    def _draw_from_law(
        self, index: int, teacher: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw inputs of a named law, with labels of the teacher."""
        request = self.request
        assert isinstance(request.inputs, str)
        rng = stream(request.seed, index, INPUTS)
        source = drawn_rows(self.problem, request.dims, request.inputs, rng)
        samples = source(0, self.count)
        return samples, self.labels_of_teacher(index, samples, teacher)

    def labels_of_teacher(
        self, index: int, samples: np.ndarray, teacher: np.ndarray
    ) -> np.ndarray:
        """Return labels with their noise and flips."""
        noise = stream(self.request.seed, index, NOISE)
        normals = noise.standard_normal((self.count, normals_needed(self.problem)))
        rho = samples @ teacher.T / np.sqrt(self.request.dim)
        return np.array(labels_of(self.problem, rho, normals), dtype=float)

    def draw_rows(self, rows: np.ndarray, labels: np.ndarray | None) -> DrawData:
        """Return a draw of random rows of a user, with their labels or the teacher's."""

        def draw(index: int, teacher: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rng = stream(self.request.seed, index, INPUTS)
            chosen = rng.permutation(len(rows))[: self.count]
            source = given_rows(self.problem, rows[chosen], "given", rng)
            samples = source(0, self.count)
            if labels is not None:
                return samples, labels[chosen]
            return samples, self.labels_of_teacher(index, samples, teacher)

        return draw

    def _train(
        self, state: DataSetState, order: SampleOrder, first: int, last: int
    ) -> None:
        """Take the steps first .. last - 1."""
        if isinstance(self.problem.optimizer, GradientDescent):
            rates = self._rates(np.arange(first, last, dtype=float), 1.0)
            for row in rates:
                self._descend(state, order, row)
            return
        dim = self.request.dim
        rates = self._rates(np.arange(first, last) / dim, 1.0 / dim)
        batch = self.problem.optimizer.batch
        visits = order.next((last - first) * batch).reshape(-1, batch)
        kernels.train_on_samples(
            self.constants,
            state.samples,
            state.labels,
            visits,
            rates,
            state.student,
            state.readout,
            state.bias,
        )

    def _rates(
        self, times: Float[np.ndarray, " steps"], scale: float
    ) -> Float[np.ndarray, "steps 4"]:
        """Return eta, scale eta kappa, scale eta_v and scale eta_b of each step."""
        optimizer = self.problem.optimizer
        student = self.problem.student
        lr = rate_values(optimizer.lr, times)
        readout = np.zeros_like(lr)
        if student.train_readout:
            rate: Any = optimizer.readout_lr
            readout = rate_values(optimizer.lr if rate is None else rate, times)
        bias = np.zeros_like(lr)
        if student.train_bias:
            rate = optimizer.bias_lr
            bias = rate_values(optimizer.lr if rate is None else rate, times)
        decay = lr * rate_values(optimizer.weight_decay, times)
        return np.stack([lr, scale * decay, scale * readout, scale * bias], axis=1)

    def _descend(
        self, state: DataSetState, order: SampleOrder, rates: Float[np.ndarray, " 4"]
    ) -> None:
        """Take one step of gradient descent."""
        optimizer = self.problem.optimizer
        assert isinstance(optimizer, GradientDescent)
        samples = state.samples
        labels = state.labels
        used = max(1, round(float(np.asarray(optimizer.share)) * self.count))
        if used < self.count:
            chosen = order.rng.choice(self.count, used, replace=False)
            samples = samples[chosen]
            labels = labels[chosen]
        dim = self.request.dim
        fields = samples @ state.student.T / np.sqrt(dim)
        delta = np.empty_like(fields)
        moves = np.zeros((2, state.bias.size))  # of readout and biases
        kernels.respond_to_samples(
            self.constants, fields, labels, state.readout, state.bias, delta, moves
        )
        lr, decay, readout, bias = rates
        state.student *= 1.0 - decay
        state.student += lr * np.sqrt(dim) / used * (delta.T @ samples)
        state.readout += readout / used * moves[0]
        state.bias += bias / used * moves[1]

    @staticmethod
    def _is_finite(state: DataSetState) -> bool:
        """Return False if the weights have diverged."""
        parameters = (state.student, state.readout, state.bias)
        sizes = [float(np.max(np.abs(values))) for values in parameters]
        return bool(np.all(np.isfinite(sizes))) and max(sizes) < BOUND

    def record(
        self, state: DataSetState, index: int, records: Records, place: int
    ) -> None:
        """Record overlaps, parameters and the performance on the data set."""
        dims = self.request.dims
        records.write(
            place,
            r=prepare.level_overlaps(state.student, state.teacher, dims),
            q=prepare.level_overlaps(state.student, state.student, dims),
            t=prepare.level_overlaps(state.teacher, state.teacher, dims),
            readout=state.readout,
            bias=state.bias,
        )
        error, loss = performance(
            self.problem, state.fields + state.bias, state.readout, state.labels
        )
        records.train_error[place] = error
        records.train_loss[place] = loss


def performance(
    problem: Problem, fields: np.ndarray, readout: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
    """Return the error and the mean loss against stored labels."""
    outputs = np.asarray(problem.student.activation(jnp.asarray(fields))) @ readout
    losses = jax.vmap(problem.loss)(jnp.asarray(outputs), jnp.asarray(labels))
    if problem.labels.metric == "class":
        error = np.mean(outputs * labels <= 0.0)
    else:
        error = np.mean((outputs - labels) ** 2) / 2
    return float(error), float(jnp.mean(losses))


def simulate_data_set(
    problem: Problem,
    start: Start | Sequence[Start] | None = None,
    *,
    dim: int | None = None,
    times: ArrayLike | Sequence[float] = 100.0,
    runs: int | None = None,
    seed: int = 0,
    method: str = "weights",
    weights: tuple[ArrayLike, ArrayLike] | None = None,
    inputs: str | PathLike | ArrayLike = "gaussian",
    labels: ArrayLike | None = None,
    keep: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Trajectory:
    """Train networks on data sets, one for each run, as `tu.simulate` says.

    inputs: the law of the samples, or rows; each run takes n = ratio N random ones of
    them. labels: of the rows, in place of the teacher's.
    """
    checks.require_untraced("the problem", "simulate", problem)
    if method != "weights":
        raise InputError(
            f"method is {checks.shown(method)} and the problem has data; "
            "networks learn a data set with method='weights' only."
        )
    law = rows_or_law(problem, method, inputs)
    starts = checked_starts(problem, start, weights)
    origin = "start" if weights is None else "the weights"
    dim = agreed_dim(problem, dim, starts, origin, law)
    times = checks.as_times(times)
    runs = number_of_runs(runs, start, uses_rows_once=False)
    kept = keeps_blocks(problem, keep)
    require_records(problem, times, runs, kept)
    require_data_memory(problem, dim, min(runs, workers or cores()))
    labels = checked_labels(problem, law, labels, dim)
    problem.require_rates_on(times, solved=False)
    weights_in_eigenbasis = None
    if weights is not None:
        weights_in_eigenbasis = tuple(
            np.concatenate(levels, axis=1)
            for levels in weights_by_level(problem, *weights)
        )
    assert problem.data is not None
    request = Request(
        problem=problem,
        method=method,
        dim=dim,
        dims=problem.inputs.level_dims(dim),
        times=times,
        steps=steps_at(times, steps_per_time(problem, dim)),
        runs=runs,
        seed=checks.as_count("seed", seed, least=0),
        starts=starts or [random_start(problem, dim)],
        weights=weights_in_eigenbasis,
        inputs=law,
        order=problem.data.order,
        keep=kept,
    )
    training = DataSetMethod(request)
    if isinstance(law, np.ndarray):
        training.draw = training.draw_rows(law, labels)
    run = training.run
    progress = checks.as_flag("progress", progress)
    finished = run_in_threads(run, request, workers, progress)
    trajectory = as_trajectory(request, finished, together=False)
    warn_if_unfinished(trajectory, request)
    records, _, _ = finished
    return replace(
        trajectory,
        curves={
            "train_error": records.train_error,
            "train_loss": records.train_loss,
            "epochs": epochs_at(problem, times),
        },
        observables=OBSERVABLES,
    )


def checked_labels(
    problem: Problem, law: str | np.ndarray, labels: ArrayLike | None, dim: int
) -> np.ndarray | None:
    """Return the labels of given rows, after a look at their number."""
    if isinstance(law, str):
        if labels is not None:
            raise InputError(
                "labels are given without inputs; give the rows that they belong to."
            )
        return None
    require_rows(problem, law, dim)
    assert problem.data is not None
    needed = max(1, round(float(np.asarray(problem.data.ratio)) * dim))
    if needed > len(law):
        largest = len(law) / dim
        raise InputError(
            f"inputs have {len(law)} rows, but {problem.data!r} has {needed} samples at "
            f"N = {dim}; lower the ratio to {largest:.6g} or less."
        )
    if labels is None:
        return None
    fix = "One label for each row of inputs."
    found = checks.as_array("labels", labels, shapes=[(len(law),)], fix=fix)
    is_class = problem.labels.metric == "class"
    if is_class and not np.all(np.abs(found) == 1.0):
        raise InputError(
            "labels have other values than -1 and 1, which this problem learns; "
            "map the two classes to -1 and 1."
        )
    return found


def epochs_at(
    problem: Problem, times: Float[np.ndarray, " time"]
) -> Float[np.ndarray, " time"]:
    """Return the passes through the data set up to each time: samples used / n."""
    if isinstance(problem.optimizer, GradientDescent):
        return times * float(np.asarray(problem.optimizer.share))
    assert problem.data is not None
    return times * problem.optimizer.batch / float(np.asarray(problem.data.ratio))


def require_data_memory(problem: Problem, dim: int, workers: int) -> None:
    """Refuse data sets that do not fit into memory."""
    assert problem.data is not None
    count = float(np.asarray(problem.data.ratio)) * dim
    checks.require_memory(
        f"{workers} data sets of {count:.0f} samples at a time",
        2 * workers * count * dim,
        "Lower dim or ratio, or use fewer workers.",
    )
