"""RMSprop: each coordinate is divided by its recent root mean square."""

from typing import ClassVar

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.training.optimizers.base import Optimizer


class RMSprop(Optimizer):
    """RMSprop: gradients divided by their recent root mean square, for each coordinate.

    With the gradient g_ki = mean[delta_k x_i] of a batch and c = 1 / memory,

        s_ki += (c / N) (g_ki^2 - s_ki),    w_ki += (eta / sqrt(N)) g_ki / sqrt(s_ki)

    Weight decay is not divided by the scale. Each readout weight and bias has a separate
    scale s, v_k += (eta_v / N) h_k / sqrt(s_k). The coordinates i are the eigenvectors
    of the inputs. The theory holds for weights and teachers that are spread over all
    coordinates.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    memory : float
        The time over which squared gradients are averaged, in units of alpha:
        1 / (N (1 - beta2)).
    initial_scale : float
        s at the start.
    batch, weight_decay, readout_lr, bias_lr, trainable
        As in `SGD`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.RMSprop(0.3, memory=2.0)
    RMSprop(lr=0.3, memory=2)
    """

    kind: ClassVar[str] = "rmsprop"
    kept_vectors: ClassVar[int] = 1
    on_stream: ClassVar[bool] = True
    squares_readout: ClassVar[bool] = True
    has_scales: ClassVar[bool] = True

    memory: ArrayLike = checks.number_field(
        "memory", checks.require_positive, default=1.0
    )
    initial_scale: ArrayLike = checks.number_field(
        "initial_scale", checks.require_positive, default=1.0
    )
