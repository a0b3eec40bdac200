"""Gradient descent on a finite data set."""

from typing import Any, ClassVar

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.errors import InputError
from tutelage.training.optimizers.base import Optimizer


def _require_share(name: str, value: Any) -> None:
    """Refuse a share that is not above 0 and at most 1."""
    checks.require_positive(name, value)
    if not checks.is_traced(value) and float(value) > 1:
        raise InputError(
            f"{name} is {float(value):g}; it must be at most 1, all of the data set."
        )


class GradientDescent(Optimizer):
    """Gradient descent on a data set: each step uses all samples, or a random share.

    One step, with the sum over the samples mu that it uses:

        w_k <- (1 - eta kappa) w_k + eta / (share ratio sqrt(N)) sum_mu delta_k,mu x_mu
        v_k <- v_k + eta_v mean_mu[ h_k,mu ]
        b_k <- b_k + eta_b mean_mu[ delta_k,mu ]

    Times count steps. It needs a problem with `data`.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    share : float
        The share of the data set that each step uses, above 0 and at most 1.
    weight_decay : float or schedule
        kappa, of the first layer.
    readout_lr, bias_lr : float or schedule, optional
        eta_v and eta_b. Default: lr.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.GradientDescent(lr=0.5)
    GradientDescent(lr=0.5)
    >>> tu.optimizers.GradientDescent(lr=0.5, share=0.1, weight_decay=0.01)
    GradientDescent(lr=0.5, share=0.1, weight_decay=0.01)
    """

    kind: ClassVar[str] = "gradient_descent"
    counts_steps: ClassVar[bool] = True
    batch: ClassVar[int] = 1  # pyright: ignore[reportIncompatibleVariableOverride]
    trainable: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    share: ArrayLike = checks.number_field("share", _require_share, default=1.0)

    @property
    def steps(self) -> str:
        """Return the name of its steps in the loops of simulations."""
        return "plain"
