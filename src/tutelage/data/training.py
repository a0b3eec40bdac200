"""SGD on samples of a law, many runs at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage._types import Array, ArrayLike
from tutelage.data.laws import SampleLaw
from tutelage.problem import Problem, Start
from tutelage.problem.sample import context_of, updates_of, with_unseen
from tutelage.simulation.draws import unseen_fields
from tutelage.simulation.jax_steps import Draws, Step, respond, stops
from tutelage.simulation.numba_kernels import ParameterState
from tutelage.simulation.prepare import (
    OverlapsState,
    RateTable,
    place_weights,
    step_constants,
    weights_layout,
)
from tutelage.stream.moments.node_moments import ErrorMetric
from tutelage.training.rules import Context, Parameters, Sample, Update

Curves: TypeAlias = Float[np.ndarray, "run time"]
Weights: TypeAlias = Float[np.ndarray, "units D"]
BLOCK = 2**22  # numbers drawn at a time, for all runs together
# Gaussian samples on which the error of a run is measured; the data are used as a
# whole.
JUDGED = 1000
DIVERGED = 1e100  # an error above it is NaN


@dataclass(frozen=True, eq=False)
class InitialWeights:
    """Weights of all runs at time zero, in the coordinates of the theory.

    student: (K, D). teacher: reference vectors (M, D). start: their overlaps.
    """

    student: Weights
    teacher: Weights
    start: Start


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """Error and loss of each run at the recorded times; NaN after a divergence."""

    error: Curves
    loss: Curves


def train(
    problem: Problem,
    law: SampleLaw,
    initial: InitialWeights,
    steps: Int[np.ndarray, " time"],
    runs: int,
    seed: int,
) -> LearningCurves:
    """Return error and loss at the recorded steps of SGD on samples of a law.

    All runs are computed at once.
    """
    D = initial.student.shape[1]
    batch = problem.samples_per_step
    last = int(steps[-1])
    block = min(max(1, BLOCK // (runs * D * batch)), max(last, 1))
    layout = weights_layout(problem, law.data.level_sizes)
    step = Step(
        problem, step_constants(problem, D), layout, _response(law.labeled), given=True
    )
    state = place_weights(
        problem, initial.start, initial.student, initial.teacher, layout
    )

    def for_all_runs(value: Any) -> Array:
        return jnp.broadcast_to(jnp.asarray(value)[..., None], (*np.shape(value), runs))

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
        """Yield the samples of so many steps as a block has."""
        while True:
            which = orders.integers(law.size, size=(runs, block * batch))
            x, xi = law.samples(which, normals, noises)
            unseen = None
            if not law.labeled:
                unseen = unseen_fields(problem, xi)
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
            which = np.arange(law.size)
            if law.roots is not None:
                few = min(law.size, JUDGED)
                which = judge.choice(law.size, few, replace=False)
            x, xi = law.samples(which, judge, judge)
            values.append(measure(state_of_run, x, xi))
        return np.asarray(values)

    curves = []
    rates = RateTable(problem, D, last)
    for taken, now in stops(step, rates, state, steps, block, draws()):
        curves += [judged(now)] * int(np.sum(steps == taken))
    both = np.array(curves).transpose(2, 1, 0)
    error, loss = np.where(np.abs(both) < DIVERGED, both, np.nan)
    return LearningCurves(error=error, loss=loss)


def _response(labeled: bool) -> Callable[..., Update]:
    """Return the function that maps samples to updates."""
    if labeled:
        return _respond_to_labels
    return respond


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
    if outputs == 1:
        return xi[:, 0]
    return xi[:, :outputs]


def _parameters(params: ParameterState) -> Parameters:
    """Return readout and bias of a run as a rule reads them."""
    return Parameters(jnp.asarray(params.readout), jnp.asarray(params.bias))


def _error_and_loss(
    problem: Problem, labeled: bool, state: OverlapsState, x: Array, xi: Array
) -> tuple[Array, Array]:
    """Return error and loss of a network on samples x.

    Their labels come first in xi if they are labeled.
    """
    params = state.params
    respond_to = _response(labeled)
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
    bias = problem.references.bias
    if bias is None:
        bias = 0.0
    fields = with_unseen(problem, reference + bias, xi)

    def truth(rho: Array) -> Array:
        return problem.labels.truth(problem.labeler.output(rho), rho)

    return jax.vmap(truth)(fields)
