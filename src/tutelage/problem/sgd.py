"""The training algorithm: one-pass SGD on fresh batches, plain or with momentum that the limit remembers."""

from functools import partial
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import ArrayLike, Numbers, NumpyOrJax, Rate
from tutelage.errors import InputError
from tutelage.problem.schedules import as_number_or_schedule, as_rate

USUAL_LR = 0.5  # of a problem, a file or a command that names no learning rate


class SlowMomentum(eqx.Module):
    """Momentum that forgets on the time scale of learning: 1 - beta = gamma / N.

        Om <- (1 - gamma/N) Om + (k / sqrt(N)) delta x,    w <- w + Om / N
    k: strength of the force; None: gamma * lr, which tends to plain SGD as gamma grows. With k given, lr moves only the
    readout and the biases. (A fixed beta is simply `momentum=beta`: in the limit, plain SGD with eta / (1 - beta).)

    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5, momentum=tu.SlowMomentum(gamma=2.0))
    SGD(lr=0.5, momentum=SlowMomentum(gamma=2))
    """

    gamma: Float[NumpyOrJax, ""] = eqx.field(converter=partial(checks.as_array, "gamma"))
    k: Rate | None = eqx.field(converter=partial(as_rate, "k"), default=None)

    def __check_init__(self) -> None:
        checks.require_shape("gamma", self.gamma, ())
        checks.require_positive("gamma", self.gamma)


class SGD(eqx.Module):
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
    SGD(lr=PowerDecay(initial=0.5, exponent=1, timescale=50), batch=4, weight_decay=0.001)
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
        self.weight_decay = as_number_or_schedule("weight_decay", weight_decay)
        self.readout_lr = as_rate("readout_lr", readout_lr)
        self.bias_lr = as_rate("bias_lr", bias_lr)
        self.momentum = momentum if isinstance(momentum, SlowMomentum) else checks.as_array("momentum", momentum)
        self.trainable = _frozen(trainable)
        self.spherical = checks.as_flag("spherical", spherical)
        self._check()

    def _check(self) -> None:
        decays = callable(self.weight_decay)
        if not decays:
            checks.require_shape("weight_decay", self.weight_decay, (), fix="Batch over several with jax.vmap.")
            checks.require_nonnegative("weight_decay", self.weight_decay)
            decays = not checks.is_traced(self.weight_decay) and float(self.weight_decay) > 0
        momentum = self.momentum
        if not isinstance(momentum, SlowMomentum):
            checks.require_shape("momentum", momentum, ())
            checks.require_nonnegative("momentum", momentum)
            if not checks.is_traced(momentum) and momentum >= 1:
                raise InputError(f"momentum is {float(momentum):g}; it must be below 1. Try 0.9 or SlowMomentum(gamma).")
        elif self.spherical:
            raise InputError(
                "spherical is True and momentum is a SlowMomentum; they contradict each other. Drop one of them."
            )
        if self.spherical and decays:
            raise InputError(
                f"weight_decay is {_show(self.weight_decay)} and spherical is True; a norm that is held cannot decay. "
                "Drop one of them."
            )

    def __repr__(self) -> str:
        usual = {"batch": 1, "weight_decay": 0.0, "readout_lr": None, "bias_lr": None, "momentum": 0.0}
        parts = [f"lr={_show(self.lr)}"]
        parts += [f"{name}={_show(getattr(self, name))}" for name, value in usual.items() if self._differs(name, value)]
        if self.trainable is not None:
            parts.append(f"trainable={checks.shown(np.asarray(self.trainable))}")
        if self.spherical:
            parts.append("spherical=True")
        return f"SGD({', '.join(parts)})"

    def _differs(self, name: str, usual: float | None) -> bool:
        value = getattr(self, name)
        if value is None or isinstance(value, eqx.Module) or callable(value) or checks.is_traced(value):
            return value is not None
        return bool(np.any(np.asarray(value) != usual))


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
        f"trainable is {checks.shown(trainable)}; it must be a list of level indices, or a boolean mask of shape "
        "(levels,) or (hidden, levels)."
    )


def _show(value: object) -> str:
    custom = callable(value) and not isinstance(value, eqx.Module)
    return getattr(value, "__name__", "a function") if custom else checks.shown(value)
