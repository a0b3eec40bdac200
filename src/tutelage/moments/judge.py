"""The error of a student as a rule that never learns: its loss is the metric of the labels."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from tutelage._types import Array
from tutelage.rules import Context, Parameters, Rule, Sample, Update


class Judge(Rule):
    """metric "squared": |label - output|^2 / 2. "class": 1 if the student's class is not the label's (ties count half)."""

    jumps: ClassVar[bool] = True
    metric: str = eqx.field(static=True)

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        output = parameters.readout @ context.student.activation(sample.student)
        if self.metric == "squared":
            loss = jnp.sum((sample.label - output) ** 2) / 2
        elif jnp.ndim(output):
            loss = 1.0 - jnp.sum(sample.label * (output == jnp.max(output)))
        else:
            loss = (1.0 - jnp.sign(output) * jnp.sign(sample.label)) / 2
        return self.result(jnp.zeros_like(sample.student), parameters, loss=loss)

    def breaks(self, label: Array, parameters: Parameters, context: Context) -> tuple[Array, ...]:
        return (jnp.zeros(()),)
