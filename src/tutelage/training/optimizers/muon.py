"""Muon: the gradient of a layer, made orthogonal."""

from typing import Any, ClassVar

import equinox as eqx

from tutelage import checks
from tutelage.errors import InputError
from tutelage.training.optimizers.base import Optimizer, as_batch


class Muon(Optimizer):
    """Muon: the gradient matrix of the first layer, with all singular values set to one.

    With the gradient G = sum_b delta_b x_b^T of a batch, a matrix (K, N),

        W += eta (G G^T)^(-1/2) G

    where the pseudo-inverse is taken. The batch must have at least as many samples as
    there are hidden units. Readout and biases follow plain SGD with means over the batch.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples in the sum of a step, at least the number K of hidden units.
    weight_decay, readout_lr, bias_lr
        As in `SGD`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.Muon(0.3, batch=4)
    Muon(lr=0.3, batch=4)
    """

    kind: ClassVar[str] = "muon"
    on_stream: ClassVar[bool] = True
    trainable: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    batch: Any = eqx.field(converter=as_batch)  # pyright: ignore[reportGeneralTypeIssues]

    def check_student(self, hidden: int) -> None:
        """Refuse a batch with fewer samples than hidden units."""
        if not checks.is_traced(self.batch) and self.batch < hidden:
            raise InputError(
                f"batch is {self.batch} and the student has {hidden} hidden units; "
                f"Muon needs at least as many samples as units, such as batch={hidden}."
            )
