"""`ChangedRule`: a rule whose update an optimizer changes, sample by sample."""

from collections.abc import Callable
from typing import Self

import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.training.rules import Context, Label, Law, Parameters, Rule, Sample


class ChangedRule(Rule):
    """A rule that changes the update of another one.

    All else is that of the other rule. Where its update jumps or bends is not known.
    """

    rule: Rule

    @property
    def jumps(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rule.jumps

    @property
    def uses_loss(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rule.uses_loss

    @property
    def uses_norm(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rule.uses_norm

    @property
    def moves_fields(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rule.moves_fields

    @property
    def samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rule.samples

    def randomness(self, time: ArrayLike) -> Law | None:
        return self.rule.randomness(time)

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        return self.rule.unit_marks(readout)

    def of_one_sample(self, mean_loss: Callable[[Rule], Array]) -> Self:
        return self.changed(rule=self.rule.of_one_sample(mean_loss))

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        return None
