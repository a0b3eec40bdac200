"""One sample of a problem: its label, and the update it makes. Simulations, error bars and step checks all call this.

Randomness comes as standard normal numbers (`normals_needed` of them per sample), so that every caller may draw them in its
own way: first those of the label, then those of the rule, those of unseen teacher fields, then one for the task or the class.
"""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.labels import Sign
from tutelage.problem.mixture import Mixture
from tutelage.problem.problem import Problem
from tutelage.problem.tasks import Tasks
from tutelage.rules import Context, Parameters, PerUnit, Sample, Update

Overlaps: TypeAlias = tuple[Array, Array, Array] | None  # R, Q, T, if a rule may look at them


def normals_needed(problem: Problem) -> int:
    """Standard normal numbers that the label, the rule and the task (or class) of one sample are made from."""
    if isinstance(problem.teacher, Tasks):
        return max(map(normals_needed, problem.tasks)) + 1
    beyond = 0 if problem.unseen is None else problem.teacher.hidden
    return sum(_of_label_and_rule(problem)) + beyond + isinstance(problem.inputs, Mixture)


def _of_label_and_rule(problem: Problem) -> tuple[int, int]:
    """Numbers of the label and of the rule. Signs have one even if none is flipped: a traced probability may be zero or not."""
    noise = problem.labeled_at(0.0).noise
    certain = problem.labels.law(noise) is None and not isinstance(problem.labels, Sign)
    of_label = 0 if certain else problem.labels.numbers(problem.references.outputs, noise)
    law = problem.rule.law(problem.student.hidden, 0.0)
    of_rule = 0 if law is None else law.units if isinstance(law, PerUnit) else 1
    return of_label, of_rule


def with_unseen(problem: Problem, reference: Float[Array, "*S M"], normals: Float[Array, "*S n"]) -> Float[Array, "*S M"]:
    """Fields of one teacher, complete: what the inputs carry of them is given, the part that they do not is added."""
    if problem.unseen is None:
        return reference
    first = sum(_of_label_and_rule(problem))
    return reference + normals[..., first : first + problem.teacher.hidden] @ jnp.asarray(unseen_root(problem)).T


def unseen_root(problem: Problem) -> Float[NumpyOrJax, "M M"]:
    """A factor F of the part of the teacher's fields that the inputs do not carry, unseen = F F^T."""
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
    """What samples with these fields (biases included) do to the student, (S, ...): their tasks are drawn, labels made.

    reference: what the inputs carry of the teacher's fields. norm2: |x|^2 / N; default: its limit. All samples of an
    episode belong to one task. Of a mixture the fields are those of the class that `class_of` reads from the same numbers.
    """
    problem = problem.labeled_at(context.time)
    if not isinstance(problem.teacher, Tasks):
        inside, targets = problem.in_class(), problem.targets
        if targets is None:
            seen = with_unseen(problem, reference[:, : problem.label_fields], normals)
            labels = jax.vmap(lambda rho, z: label_of(inside, rho, z))(seen, normals)
        else:
            seen, told = jnp.ones((student.shape[0], 1)), jnp.asarray(targets)[class_of(problem.inputs, normals)]
            labels = jax.vmap(lambda y, rho, z: label_of(problem.in_class(y), rho, z))(told, seen, normals)
        return updates_of(inside, student, seen, labels, normals, parameters, context, norm2)
    tasks, updates, every = problem.teacher, [], jnp.arange(student.shape[0])
    for s, one in enumerate(problem.tasks):
        units, seen = tasks.units(s), context
        if context.overlaps is not None:
            R, Q, T = context.overlaps
            seen = Context(context.student, context.loss, context.lr, context.time, (R[:, units], Q, T[units, units]))
        own = Parameters(tasks.head(parameters.readout, s), parameters.bias)
        update = learn(one, student, reference[:, units], normals, own, seen, norm2)
        updates.append(Update(update.delta, update.parameters, jnp.asarray(update.loss, float)))
    edges, episodes = jnp.cumsum(tasks.probabilities(context.time)), problem.rule.samples
    task = jnp.sum(ndtr(normals[::episodes, -1:]) > edges[:-1], axis=1).repeat(episodes)
    chosen = jax.tree.map(lambda *x: jnp.stack(x)[task, every], *updates)
    readout = chosen.parameters.readout
    if tasks.heads == "separate":
        readout = jnp.zeros((every.size, *parameters.readout.shape)).at[every, task].set(readout)
    if tasks.freeze_heads is not None:
        readout = tasks.head_rates(context.time) * readout
    return Update(chosen.delta, Parameters(readout, chosen.parameters.bias), chosen.loss)


def class_of(mixture: Mixture, normals: Float[Array, "*S draws"]) -> Int[Array, "*S"]:
    """The classes of samples: the last of their normal numbers decides."""
    edges = jnp.cumsum(jnp.asarray(mixture.probabilities))
    return jnp.sum(ndtr(normals[..., -1:]) > edges[:-1], axis=-1)


def label_of(problem: Problem, reference: Float[Array, " M"], normals: Float[Array, " draws"]) -> Float[Array, "*outputs"]:
    """The label of a sample with teacher fields (M,), biases included."""
    law, count = problem.labels.law(problem.noise), _of_label_and_rule(problem)[0]
    xi = None
    if law is not None:
        xi = jnp.asarray(law.from_normal(normals[:count] if count > 1 else normals[0]))
    return problem.labels.label(problem.teacher.output(reference), reference, xi, problem.noise)


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
    """What samples with these fields (biases included) and labels do to the student; episodes take them in their order."""
    rule, law = problem.rule, problem.rule.law(problem.student.hidden, context.time)

    def seen(student: Array, reference: Array, label: Array, normals: Array, norm2: Array) -> Sample:
        own, xi = normals[_of_label_and_rule(problem)[0] :], None
        if law is not None:
            xi = jnp.asarray(law.from_normal(own[: law.units] if isinstance(law, PerUnit) else own[0]))
        return Sample(student, reference, label, xi, norm2)

    limit = mean_norm2(problem)
    norm2 = jnp.broadcast_to(limit, (student.shape[0], *limit.shape)) if norm2 is None else norm2
    samples = jax.vmap(seen)(student, reference, label, normals, norm2)
    one = lambda sample: rule.update(sample, parameters, context)  # noqa: E731
    if rule.samples == 1:
        return jax.vmap(one)(samples)
    update = jax.vmap(one)(jax.tree.map(lambda x: x.reshape(-1, rule.samples, *x.shape[1:]), samples))
    update = Update(update.delta, update.parameters, jnp.broadcast_to(update.loss, update.delta.shape[:2]))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), update)


def mean_norm2(problem: Problem) -> Float[Array, "*K"]:
    """The mean of |x|^2 / N, the trace of the input covariance divided by N; per unit where levels are frozen."""
    weights, mask = jnp.asarray(problem.inputs.weights), problem.trainable_mask()
    return jnp.sum(weights) if mask is None else weights @ mask


def context_of(problem: Problem, lr: ArrayLike = 0.0, time: ArrayLike = 0.0, overlaps: Overlaps = None) -> Context:
    """What the rule may look at besides the sample."""
    return Context(problem.student, problem.loss, jnp.asarray(lr, float), jnp.asarray(time, float), overlaps)
