"""AdaGrad: gradients divided by the root of the sum of all their squares."""

from functools import partial
from typing import ClassVar

import equinox as eqx

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.training.optimizers.base import Optimizer


class AdaGrad(Optimizer):
    """AdaGrad: gradients divided by the root of the sum of all squares before.

    With the gradient g_ki = mean[delta_k x_i] of a batch,

        s_ki += g_ki^2 / N,    w_ki += (eta / sqrt(N)) g_ki / sqrt(s_ki)

    With norm=True a single scale serves all vectors: s += (1 / N) sum_ki g_ki^2 / N
    (AdaGrad-norm). Weight decay is not divided by the scale. Each readout weight and bias
    has a separate scale. The coordinates i are the eigenvectors of the inputs. Unless
    norm=True, the theory holds for weights and teachers that are spread over all
    coordinates.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    initial_scale : float
        s at the start.
    norm : bool
        One scale for all vectors.
    batch, weight_decay, readout_lr, bias_lr, trainable
        As in `SGD`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.AdaGrad(0.3, norm=True)
    AdaGrad(lr=0.3, norm=True)
    """

    kind: ClassVar[str] = "adagrad"
    kept_vectors: ClassVar[int] = 1
    on_stream: ClassVar[bool] = True
    squares_readout: ClassVar[bool] = True
    has_scales: ClassVar[bool] = True
    sums_squares: ClassVar[bool] = True

    initial_scale: ArrayLike = checks.number_field(
        "initial_scale", checks.require_positive, default=1.0
    )
    norm: bool = eqx.field(
        static=True, converter=partial(checks.as_flag, "norm"), default=False
    )

    @property
    def steps(self) -> str:
        """Return the name of its steps in the loops of simulations."""
        return "adagrad_norm" if self.norm else self.kind
