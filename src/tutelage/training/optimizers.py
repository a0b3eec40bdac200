"""Optimizers: how the updates of single samples move the weights.

An optimizer is one class with a name in files (`kind = "sgd"`). Its learning rates are
numbers or schedules (`problem/schedules.py`).
"""

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from tutelage import checks
from tutelage._part import Part
from tutelage._types import ArrayLike, Numbers, Table
from tutelage.errors import InputError

DEFAULT_LR = 0.5  # of a problem, a file or a command that names no learning rate

_rate_field = partial(checks.number_field, schedule=True)
_require_positive_rate = partial(
    checks.require_positive, fix="To freeze weights use `trainable`."
)


class Optimizer(Part):
    """The base class of optimizers; `kind` is the name in files and on the command line.

    `lr`, `weight_decay`, `readout_lr` and `bias_lr` are rates of every optimizer. The
    properties below have the values of an optimizer without the argument of that name.
    """

    kind: ClassVar[str]

    lr: eqx.AbstractVar[Any]
    weight_decay: eqx.AbstractVar[Any]
    readout_lr: eqx.AbstractVar[Any]
    bias_lr: eqx.AbstractVar[Any]

    @property
    def batch(self) -> int:
        """Samples averaged per step."""
        return 1

    @property
    def momentum(self) -> Any:
        """A fixed beta, or a `SlowMomentum`."""
        return 0.0

    @property
    def trainable(self) -> tuple[Any, ...] | None:
        """The levels that learn; None: all."""
        return None

    @property
    def spherical(self) -> bool:
        """True if every student vector keeps its norm."""
        return False


class SlowMomentum(Part):
    """Momentum that forgets on the time scale of learning: 1 - beta = gamma / N.

        Om <- (1 - gamma/N) Om + (k / sqrt(N)) delta x,    w <- w + Om / N

    A fixed beta is simply `momentum=beta`: in the limit, plain SGD with eta / (1 - beta).

    Parameters
    ----------
    gamma : float
        The rate of forgetting.
    k : float or schedule, optional
        Strength of the force. Default: gamma * lr, which tends to plain SGD as gamma
        grows. With k given, lr moves only the readout and the biases.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5, momentum=tu.SlowMomentum(gamma=2.0))
    SGD(lr=0.5, momentum=SlowMomentum(gamma=2))
    """

    gamma: ArrayLike = checks.number_field("gamma", checks.require_positive)
    k: Any = _rate_field("k", _require_positive_rate, optional=True, default=None)


def _as_momentum(momentum: ArrayLike | SlowMomentum) -> Any:
    """Convert `momentum`: a fixed beta in [0, 1), or a `SlowMomentum`."""
    if isinstance(momentum, SlowMomentum):
        return momentum
    beta = checks.as_number("momentum", momentum, checks.require_nonnegative)
    if not checks.is_traced(beta) and beta >= 1:
        raise InputError(
            f"momentum is {float(beta):g}; it must be below 1. "
            "Try 0.9 or SlowMomentum(gamma)."
        )
    return beta


def _require_share(name: str, value: Any) -> None:
    """Refuse a share that is not above 0 and at most 1."""
    checks.require_positive(name, value)
    if not checks.is_traced(value) and float(value) > 1:
        raise InputError(
            f"{name} is {float(value):g}; it must be at most 1, all of the data set."
        )


def _as_trainable(trainable: Numbers | None) -> tuple[Any, ...] | None:
    """Convert `trainable` to a hashable form.

    It is a tuple of level indices, or nested tuples of booleans.
    """
    if trainable is None:
        return None
    try:
        array = np.asarray(trainable)
    except ValueError:
        array = np.asarray("ragged")
    is_mask = array.dtype.kind == "b" and array.ndim in (1, 2)
    is_list_of_levels = array.dtype.kind in "iu" and array.ndim == 1
    if array.size == 0 or not (is_mask or is_list_of_levels):
        raise InputError(
            f"trainable is {checks.shown(trainable)}; "
            "give a list of levels, or a mask (levels,) or (hidden, levels)."
        )
    if array.ndim == 2:
        return tuple(tuple(row) for row in array.tolist())
    return tuple(array.tolist())


def _as_batch(batch: Any) -> Any:
    """Convert `batch` to a count; a traced number stays as it is."""
    if checks.is_traced(batch):
        return batch
    return checks.as_count("batch", batch)


class SGD(Optimizer):
    """Stochastic gradient descent in one pass over fresh batches.

    One step, with Delta = y - yhat, fields lambda_k = w_k . x / sqrt(N) + b_k, and means
    over the batch:

        w_k += (eta / sqrt(N)) mean[ Delta v_k g'(lambda_k) x ] - (eta kappa / N) w_k
        v_k += (eta_v / N) mean[ Delta g(lambda_k) ]
        b_k += (eta_b / N) mean[ Delta v_k g'(lambda_k) ]

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples averaged per step.
    weight_decay : float or schedule
        kappa, of the first layer.
    readout_lr, bias_lr : float or schedule, optional
        eta_v and eta_b. Default: lr.
    momentum : float or SlowMomentum
        A fixed beta in [0, 1), or `SlowMomentum`.
    trainable : list or mask, optional
        Indices of the levels that learn, or a mask of shape (L,) or (K, L); the rest is
        frozen. Default: all learn.
    spherical : bool
        Rescale each student vector to its initial norm after every step.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5)
    SGD(lr=0.5)
    >>> decay = tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0)
    >>> tu.SGD(lr=decay, batch=4, weight_decay=1e-3)
    SGD(lr=PowerDecay(initial=0.5, timescale=50), batch=4, weight_decay=0.001)
    """

    kind: ClassVar[str] = "sgd"

    # lr and the rates below are numbers or schedules; most callers know which
    lr: Any = _rate_field("lr", _require_positive_rate)
    batch: int = eqx.field(converter=_as_batch, default=1, kw_only=True)
    weight_decay: Any = _rate_field(
        "weight_decay", checks.require_nonnegative, default=0.0, kw_only=True
    )
    readout_lr: Any = _rate_field(
        "readout_lr", _require_positive_rate, optional=True, default=None, kw_only=True
    )
    bias_lr: Any = _rate_field(
        "bias_lr", _require_positive_rate, optional=True, default=None, kw_only=True
    )
    momentum: Any = eqx.field(converter=_as_momentum, default=0.0, kw_only=True)
    trainable: tuple[Any, ...] | None = eqx.field(
        static=True, converter=_as_trainable, default=None, kw_only=True
    )
    spherical: bool = eqx.field(
        static=True,
        converter=partial(checks.as_flag, "spherical"),
        default=False,
        kw_only=True,
    )

    def __check_init__(self) -> None:
        if self.spherical and isinstance(self.momentum, SlowMomentum):
            raise InputError(
                "spherical is True and momentum is a SlowMomentum; "
                "they contradict each other. Drop one."
            )
        decay = self.weight_decay
        decays = callable(decay) or (not checks.is_traced(decay) and decay > 0)
        if self.spherical and decays:
            raise InputError(
                f"weight_decay is {checks.shown(decay)} and spherical is True; "
                "a held norm cannot decay."
            )

    def arguments(self) -> Table:
        """Return the constructor arguments, with `trainable` as an array."""
        trainable = self.trainable
        if trainable is not None:
            trainable = np.asarray(trainable)
        return super().arguments() | {"trainable": trainable}


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

    lr: Any = _rate_field("lr", _require_positive_rate)
    share: ArrayLike = checks.number_field("share", _require_share, default=1.0)
    weight_decay: Any = _rate_field(
        "weight_decay", checks.require_nonnegative, default=0.0, kw_only=True
    )
    readout_lr: Any = _rate_field(
        "readout_lr", _require_positive_rate, optional=True, default=None, kw_only=True
    )
    bias_lr: Any = _rate_field(
        "bias_lr", _require_positive_rate, optional=True, default=None, kw_only=True
    )


OPTIMIZERS: dict[str, type[Optimizer]] = {
    SGD.kind: SGD,
    GradientDescent.kind: GradientDescent,
}
