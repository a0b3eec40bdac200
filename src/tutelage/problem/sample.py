"""One sample of a problem: its label, and the update it makes. Simulations, error bars and step checks all call this.

Randomness comes as standard normal numbers (`normals_needed` of them per sample), so that every caller may draw them in its
own way: first those of the label, then those of the rule.
"""

import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.problem.problem import Problem
from tutelage.rules import Context, Parameters, PerUnit, Sample, Update


def normals_needed(problem: Problem) -> int:
    """Standard normal numbers that the label and the rule of one sample are made from."""
    law = problem.rule.law(problem.student.hidden, 0.0)
    own = 0 if law is None else law.units if isinstance(law, PerUnit) else 1
    return _of_label(problem) + own


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
