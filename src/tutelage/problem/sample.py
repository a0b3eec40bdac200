"""One sample of a problem: its label, and the update it makes.

Simulations, error bars and step checks all call this. Randomness comes as standard
normal numbers (`normals_needed` of them per sample), so that every caller may draw them
in its own way: first those of the label, then those of the rule, those of unseen
teacher fields, then one for the task or the class.
"""

from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.problem.labels import Sign
from tutelage.problem.mixture import Mixture
from tutelage.problem.problem import Problem
from tutelage.training.rules import Context, Parameters, PerUnit, Sample, Update

OverlapsOfRule: TypeAlias = (
    tuple[Array, Array, Array] | None
)  # R, Q, T for rules that use them


class NormalCounts(NamedTuple):
    """Standard normal numbers of one sample, by their use."""

    label: int
    rule: int


def _normal_counts(problem: Problem) -> NormalCounts:
    """Count the numbers that the label and the rule of one sample are made from."""
    noise = problem.labeled_at(0.0).noise
    label_law = problem.labels.law(noise)
    # Signs use a number even if none is flipped: a traced probability may be zero or
    # not.
    if label_law is None and not isinstance(problem.labels, Sign):
        label = 0
    else:
        label = problem.labels.numbers(problem.references.outputs, noise)
    rule_law = problem.rule.law(problem.student.hidden, 0.0)
    if rule_law is None:
        rule = 0
    elif isinstance(rule_law, PerUnit):
        rule = rule_law.units
    else:
        rule = 1
    return NormalCounts(label=label, rule=rule)


def normals_needed(problem: Problem) -> int:
    """Return the count of standard normal numbers that one sample is made from.

    They make its label, the randomness of the rule and its task or class.
    """
    if problem.several_tasks is not None:
        return max(normals_needed(task) for task in problem.tasks) + 1
    unseen = 0 if problem.unseen is None else problem.labeler.hidden
    choice_of_class = problem.inputs.classes is not None
    return sum(_normal_counts(problem)) + unseen + choice_of_class


def with_unseen(
    problem: Problem, reference: Float[Array, "*S M"], normals: Float[Array, "*S n"]
) -> Float[Array, "*S M"]:
    """Complete the fields of one teacher.

    The part that the inputs carry is given, the part that they do not carry is added.
    """
    if problem.unseen is None:
        return reference
    first = sum(_normal_counts(problem))
    numbers = normals[..., first : first + problem.labeler.hidden]
    return reference + numbers @ jnp.asarray(unseen_root(problem)).T


def unseen_root(problem: Problem) -> Float[NumpyOrJax, "M M"]:
    """Return a factor F of the unseen part of the teacher's fields: unseen = F F^T."""
    xp: Any = jnp if checks.is_traced(problem.unseen) else np
    values, vectors = xp.linalg.eigh(problem.unseen)
    return vectors * xp.sqrt(xp.maximum(values, 0.0))


def learn(
    problem: Problem,
    student: Float[Array, "S K"],
    reference: Float[Array, "S M"],
    normals: Float[Array, "S draws"],
    parameters: Parameters,
    context: Context,
    norm2: Float[Array, "S ..."] | None = None,
) -> Update:
    """Draw the tasks of samples, make their labels, and return their updates (S, ...).

    student: fields of the student, biases included. reference: the part of the
    teacher's fields that the inputs carry. norm2: |x|^2 / N; default: its limit. All
    samples of an episode belong to one task. Of a mixture the fields are those of the
    class that `class_of` reads from the same numbers.
    """
    problem = problem.labeled_at(context.time)
    if problem.several_tasks is not None:
        return _learn_tasks(
            problem, student, reference, normals, parameters, context, norm2
        )
    targets = problem.targets
    if problem.mixture is None or targets is None:
        fields = with_unseen(problem, reference[:, : problem.label_fields], normals)
        inside = problem.in_class()
        labels = jax.vmap(lambda rho, z: label_of(inside, rho, z))(fields, normals)
    else:
        # a reference unit with field 1 and the class's label as its readout
        fields = jnp.ones((student.shape[0], 1))
        outputs = jnp.asarray(targets)[class_of(problem.mixture, normals)]
        labels = jax.vmap(lambda y, rho, z: label_of(problem.in_class(y), rho, z))(
            outputs, fields, normals
        )
        inside = problem.in_class()
    return updates_of(
        inside, student, fields, labels, normals, parameters, context, norm2
    )


def _learn_tasks(
    problem: Problem,
    student: Float[Array, "S K"],
    reference: Float[Array, "S M"],
    normals: Float[Array, "S draws"],
    parameters: Parameters,
    context: Context,
    norm2: Float[Array, "S ..."] | None,
) -> Update:
    """Return the updates of samples, each of a random task."""
    tasks = problem.several_tasks
    assert tasks is not None
    updates = []
    for number, task_problem in enumerate(problem.tasks):
        units = tasks.units(number)
        head = Parameters(tasks.head(parameters.readout, number), parameters.bias)
        update = learn(
            task_problem,
            student,
            reference[:, units],
            normals,
            head,
            _context_of_task(context, units),
            norm2,
        )
        updates.append(replace(update, loss=jnp.asarray(update.loss, float)))
    episode = problem.rule.samples
    edges = jnp.cumsum(tasks.probabilities(context.time))
    task_of_episode = jnp.sum(ndtr(normals[::episode, -1:]) > edges[:-1], axis=1)
    task = task_of_episode.repeat(episode)
    every = jnp.arange(student.shape[0])
    chosen = jax.tree.map(lambda *x: jnp.stack(x)[task, every], *updates)
    readout = chosen.parameters.readout
    if tasks.heads == "separate":
        other_heads = jnp.zeros((every.size, *parameters.readout.shape))
        readout = other_heads.at[every, task].set(readout)
    if tasks.freeze_heads is not None:
        readout = tasks.head_rates(context.time) * readout
    parameters = replace(chosen.parameters, readout=readout)
    return replace(chosen, parameters=parameters)


def _context_of_task(context: Context, units: slice) -> Context:
    """Return the context with the overlaps of one task's teacher units."""
    if context.overlaps is None:
        return context
    R, Q, T = context.overlaps
    return Context(
        student=context.student,
        loss=context.loss,
        lr=context.lr,
        time=context.time,
        overlaps=(R[:, units], Q, T[units, units]),
    )


def class_of(mixture: Mixture, normals: Float[Array, "*S draws"]) -> Int[Array, "*S"]:
    """Return the classes of samples, from the last of their normal numbers."""
    edges = jnp.cumsum(jnp.asarray(mixture.probabilities))
    return jnp.sum(ndtr(normals[..., -1:]) > edges[:-1], axis=-1)


def label_of(
    problem: Problem, reference: Float[Array, " M"], normals: Float[Array, " draws"]
) -> Float[Array, "*outputs"]:
    """Return the label of a sample with teacher fields (M,), biases included."""
    law = problem.labels.law(problem.noise)
    xi = None
    if law is not None:
        count = _normal_counts(problem).label
        numbers = normals[:count] if count > 1 else normals[0]
        xi = jnp.asarray(law.from_normal(numbers))
    output = problem.labeler.output(reference)
    return problem.labels.label(output, reference, xi, problem.noise)


def labels_of(
    problem: Problem,
    reference: Float[NumpyOrJax, "S M"],
    normals: Float[NumpyOrJax, "S draws"],
) -> Float[Array, "S ..."]:
    """Return the labels of samples with these fields of the teacher.

    Biases and the part that the inputs do not carry are added.
    """
    fields = with_unseen(problem, jnp.asarray(reference), jnp.asarray(normals))
    if problem.labeler.bias is not None:
        fields = fields + jnp.asarray(problem.labeler.bias)
    each = jax.vmap(lambda x, z: label_of(problem, x, z))
    return each(fields, jnp.asarray(normals))


def updates_of(
    problem: Problem,
    student: Float[Array, "S K"],
    reference: Float[Array, "S M"],
    label: Float[Array, "S ..."],
    normals: Float[Array, "S draws"],
    parameters: Parameters,
    context: Context,
    norm2: Float[Array, "S ..."] | None = None,
) -> Update:
    """Return the updates of samples with given fields (biases included) and labels.

    Episodes take the samples in their order.
    """
    rule = problem.optimizer.sample_rule(problem.rule)
    law = rule.law(problem.student.hidden, context.time)
    first = _normal_counts(problem).label

    def sample_of(
        student: Array, reference: Array, label: Array, normals: Array, norm2: Array
    ) -> Sample:
        xi = None
        if law is not None:
            numbers = normals[first:]
            numbers = numbers[: law.units] if isinstance(law, PerUnit) else numbers[0]
            xi = jnp.asarray(law.from_normal(numbers))
        return Sample(student, reference, label, xi, norm2)

    def update_of(sample: Sample) -> Update:
        return rule.update(sample, parameters, context)

    if norm2 is None:
        limit = mean_norm2(problem)
        norm2 = jnp.broadcast_to(limit, (student.shape[0], *limit.shape))
    samples = jax.vmap(sample_of)(student, reference, label, normals, norm2)
    if rule.samples == 1:
        return jax.vmap(update_of)(samples)
    episodes = jax.tree.map(
        lambda x: x.reshape(-1, rule.samples, *x.shape[1:]), samples
    )
    update = jax.vmap(update_of)(episodes)
    # every sample of an episode gets the whole change: means over samples are those
    # over episodes
    of_episode = (update.parameters, jnp.asarray(update.loss, float))
    parameters, loss = jax.tree.map(lambda x: x.repeat(rule.samples, 0), of_episode)
    delta = update.delta.reshape(-1, update.delta.shape[-1])
    return Update(delta=delta, parameters=parameters, loss=loss)


def mean_norm2(problem: Problem) -> Float[Array, "*K"]:
    """Return the mean of |x|^2 / N, the trace of the input covariance divided by N.

    It is one number per unit where levels are frozen.
    """
    weights = jnp.asarray(problem.inputs.weights)
    mask = problem.trainable_mask()
    return jnp.sum(weights) if mask is None else weights @ mask


def context_of(
    problem: Problem,
    lr: ArrayLike = 0.0,
    time: ArrayLike = 0.0,
    overlaps: OverlapsOfRule = None,
) -> Context:
    """Return the context that a rule may use beside the sample."""
    return Context(
        student=problem.student,
        loss=problem.loss,
        lr=jnp.asarray(lr, float),
        time=jnp.asarray(time, float),
        overlaps=overlaps,
    )
