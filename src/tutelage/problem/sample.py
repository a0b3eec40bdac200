"""One sample of a problem: its label, and the update it makes. Simulations, error bars and step checks all call this.

Randomness comes as standard normal numbers (`normals_needed` of them per sample), so that every caller may draw them in its
own way: first those of the label, then those of the rule, then one for the task.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.problem.problem import Problem
from tutelage.problem.tasks import Tasks
from tutelage.rules import Context, Parameters, PerUnit, Sample, Update


def normals_needed(problem: Problem) -> int:
    """Standard normal numbers that the label, the rule and the task of one sample are made from."""
    if isinstance(problem.teacher, Tasks):
        return max(map(normals_needed, problem.tasks)) + 1
    law = problem.rule.law(problem.student.hidden, 0.0)
    own = 0 if law is None else law.units if isinstance(law, PerUnit) else 1
    return _of_label(problem) + own


def learn(
    problem: Problem,
    student: Float[Array, " K"],
    reference: Float[Array, " M"],
    normals: Float[Array, " draws"],
    parameters: Parameters,
    context: Context,
) -> Update:
    """What a sample with these fields (biases included) does to the student: its task is drawn, its label made."""
    if not isinstance(problem.teacher, Tasks):
        label = label_of(problem, reference, normals)
        return update_of(problem, student, reference, label, normals, parameters, context)
    tasks, updates = problem.teacher, []
    for s, one in enumerate(problem.tasks):
        units, seen = tasks.units(s), context
        if context.overlaps is not None:
            R, Q, T = context.overlaps
            seen = Context(context.student, context.loss, context.lr, context.time, (R[:, units], Q, T[units, units]))
        own = Parameters(tasks.head(parameters.readout, s), parameters.bias)
        update = learn(one, student, reference[units], normals, own, seen)
        updates.append(Update(update.delta, update.parameters, jnp.asarray(update.loss, float)))
    edges = jnp.cumsum(tasks.probabilities(context.time))
    task = jnp.sum(ndtr(normals[-1]) > edges[:-1])
    chosen = jax.tree.map(lambda *x: jnp.stack(x)[task], *updates)
    readout = chosen.parameters.readout
    if tasks.heads == "separate":
        readout = jnp.zeros_like(parameters.readout).at[task].set(readout)
    if tasks.freeze_heads is not None:
        readout = tasks.head_rates(context.time) * readout
    return Update(chosen.delta, Parameters(readout, chosen.parameters.bias), chosen.loss)


def label_of(problem: Problem, reference: Float[Array, " M"], normals: Float[Array, " draws"]) -> Float[Array, "*outputs"]:
    """The label of a sample with teacher fields (M,), biases included."""
    law, count = problem.labels.law(problem.noise), _of_label(problem)
    xi = None
    if law is not None:
        xi = jnp.asarray(law.from_normal(normals[:count] if problem.teacher.outputs > 1 else normals[0]))
    return problem.labels.label(problem.teacher.output(reference), reference, xi, problem.noise)


def update_of(
    problem: Problem,
    student: Float[Array, " K"],
    reference: Float[Array, " M"],
    label: Float[Array, "*outputs"],
    normals: Float[Array, " draws"],
    parameters: Parameters,
    context: Context,
) -> Update:
    """What a sample with these fields (biases included) and this label does to the student."""
    law, xi = problem.rule.law(problem.student.hidden, context.time), None
    if law is not None:
        own = normals[_of_label(problem) :]
        xi = jnp.asarray(law.from_normal(own if isinstance(law, PerUnit) else own[0]))
    return problem.rule.update(Sample(student, reference, label, xi), parameters, context)


def _of_label(problem: Problem) -> int:
    if problem.labels.law(problem.noise) is None:
        return 0
    return problem.teacher.outputs if problem.teacher.outputs > 1 and not callable(problem.noise) else 1


def context_of(
    problem: Problem, lr: ArrayLike = 0.0, time: ArrayLike = 0.0, overlaps: tuple[Array, Array, Array] | None = None
) -> Context:
    """What the rule may look at besides the sample."""
    return Context(problem.student, problem.loss, jnp.asarray(lr, float), jnp.asarray(time, float), overlaps)
