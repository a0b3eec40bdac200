"""The training algorithm: one-pass SGD on fresh batches, plain or with momentum that the limit remembers."""

from functools import partial
from typing import Any

import equinox as eqx
import numpy as np

from tutelage import checks
from tutelage._part import Part
from tutelage._types import ArrayLike, Numbers, Rate, Table
from tutelage.errors import InputError
from tutelage.problem.schedules import as_rate

USUAL_LR = 0.5  # of a problem, a file or a command that names no learning rate


class SlowMomentum(Part):
    """Momentum that forgets on the time scale of learning: 1 - beta = gamma / N.

        Om <- (1 - gamma/N) Om + (k / sqrt(N)) delta x,    w <- w + Om / N
    k: strength of the force; None: gamma * lr, which tends to plain SGD as gamma grows. With k given, lr moves only the
    readout and the biases. (A fixed beta is simply `momentum=beta`: in the limit, plain SGD with eta / (1 - beta).)

    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5, momentum=tu.SlowMomentum(gamma=2.0))
    SGD(lr=0.5, momentum=SlowMomentum(gamma=2))
    """

    gamma: ArrayLike = checks.number_field("gamma", checks.require_positive)
    k: Rate | None = eqx.field(converter=partial(as_rate, "k"), default=None)


class SGD(Part):
    """How the student learns: one-pass SGD on fresh batches.

    One step, with Delta = y - yhat, fields lambda_k = w_k . x / sqrt(N) + b_k, and means over the batch:

        w_k += (eta / sqrt(N)) mean[ Delta v_k g'(lambda_k) x ] - (eta kappa / N) w_k
        v_k += (eta_v / N) mean[ Delta g(lambda_k) ],    b_k += (eta_b / N) mean[ Delta v_k g'(lambda_k) ]

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
        Indices of the levels that learn, or a mask of shape (L,) or (K, L); other components are frozen. Default: all
        learn.
    spherical : bool
        Rescale each student vector to its initial norm after every step.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5)
    SGD(lr=0.5)
    >>> tu.SGD(lr=tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0), batch=4, weight_decay=1e-3)
    SGD(lr=PowerDecay(initial=0.5, timescale=50), batch=4, weight_decay=0.001)
    """

    lr: Any  # a number or a schedule; most callers know which, as for the rates below and momentum
    batch: int
    weight_decay: Any
    readout_lr: Any
    bias_lr: Any
    momentum: Any
    trainable: tuple[int, ...] | tuple[tuple[bool, ...], ...] | None = eqx.field(static=True)
    spherical: bool = eqx.field(static=True)

    def __init__(
        self,
        lr: Rate | float,
        *,
        batch: int = 1,
        weight_decay: Rate | float = 0.0,
        readout_lr: Rate | float | None = None,
        bias_lr: Rate | float | None = None,
        momentum: ArrayLike | SlowMomentum = 0.0,
        trainable: Numbers | None = None,
        spherical: bool = False,
    ):
        if lr is None:
            raise InputError("lr is None; give a positive number or a schedule such as tu.schedules.PowerDecay(0.5).")
        self.lr = as_rate("lr", lr)
        self.batch = batch if checks.is_traced(batch) else checks.as_count("batch", batch)
        self.weight_decay = checks.as_number(
            "weight_decay", weight_decay, checks.require_nonnegative, schedule=True, fix=checks.BATCH
        )
        self.readout_lr = as_rate("readout_lr", readout_lr)
        self.bias_lr = as_rate("bias_lr", bias_lr)
        slow = isinstance(momentum, SlowMomentum)
        self.momentum = momentum if slow else checks.as_number("momentum", momentum, checks.require_nonnegative)
        self.trainable = _frozen(trainable)
        self.spherical = checks.as_flag("spherical", spherical)
        self._check()

    def arguments(self) -> Table:
        trainable = None if self.trainable is None else np.asarray(self.trainable)
        return super().arguments() | {"trainable": trainable}

    def _check(self) -> None:
        momentum, decay = self.momentum, self.weight_decay
        slow = isinstance(momentum, SlowMomentum)
        if not slow and not checks.is_traced(momentum) and momentum >= 1:
            raise InputError(f"momentum is {float(momentum):g}; it must be below 1. Try 0.9 or SlowMomentum(gamma).")
        if self.spherical and slow:
            raise InputError("spherical is True and momentum is a SlowMomentum; they contradict each other. Drop one.")
        if self.spherical and (callable(decay) or (not checks.is_traced(decay) and decay > 0)):
            raise InputError(
                f"weight_decay is {checks.shown(decay)} and spherical is True; a held norm cannot decay. Drop one."
            )


def _frozen(trainable: Numbers | None) -> tuple[int, ...] | tuple[tuple[bool, ...], ...] | None:
    """Hashable form of `trainable`: a tuple of level indices, or nested tuples of booleans."""
    if trainable is None:
        return None
    try:
        array = np.asarray(trainable)
    except ValueError:
        array = np.asarray("ragged")
    if array.dtype == bool and array.ndim in (1, 2) and array.size:
        return tuple(map(tuple, array.tolist())) if array.ndim == 2 else tuple(array.tolist())
    if array.ndim == 1 and array.size and np.issubdtype(array.dtype, np.integer):
        return tuple(int(level) for level in array)
    raise InputError(
        f"trainable is {checks.shown(trainable)}; it must be a list of levels, or a mask (levels,) or (hidden, levels)."
    )
