"""Units of other programs: weights, learning rates and time of a training loop.

The library's fields are w . x / sqrt(N), its loss is (y - yhat)^2 / 2, and its time is
alpha = steps / N. One step with the rate eta is

    w_k += (eta / sqrt(N)) Delta v_k g'(lambda_k) x,    v_k += (eta_v / N) Delta g(lambda_k).

A linear layer of PyTorch, Keras or Flax has fields W . x instead. With W = w / sqrt(N)
the same step is W_k += (eta / N) Delta v_k g' x: its learning rate is eta / N. If the
loop scales the inputs, or the fields, by 1/sqrt(N) and keeps w, its rate is eta. A loss
without the factor 1/2, such as the mean squared error, doubles every gradient, so it
needs half the rate. Weight decay enters a step of PyTorch as lr decay W, and here as
(eta kappa / N) w.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.errors import InputError
from tutelage.times import steps_at

__all__ = ["Convention", "alpha", "epochs", "samples", "steps"]

LAYERS = ("linear", "scaled")
LOSSES = ("half", "mean_squared")


def alpha(steps: ArrayLike, dim: int) -> Any:
    """Return the time alpha = steps / N after so many steps.

    Parameters
    ----------
    steps : int or array
        Steps of SGD, whatever the batch.
    dim : int
        N, the number of inputs.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.conventions.alpha(5000, dim=1000)
    5.0
    """
    N = checks.as_count("dim", dim)
    given = checks.as_array("steps", steps, checks.require_nonnegative)
    return _plain(given / N)


def steps(alpha: ArrayLike, dim: int) -> Any:
    """Return the steps after which time alpha is reached, ceil(alpha N).

    Parameters
    ----------
    alpha : float or array
        Times of the theory.
    dim : int
        N, the number of inputs.

    Returns
    -------
    int or array

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.conventions.steps([0.0, 0.5, 20.0], dim=1000)
    array([    0,   500, 20000])
    """
    N = checks.as_count("dim", dim)
    given = checks.as_array("alpha", alpha, checks.require_nonnegative)
    return _plain(steps_at(given, N))


def samples(alpha: ArrayLike, dim: int, batch: int = 1) -> Any:
    """Return the samples that have been used at time alpha, steps times batch.

    Parameters
    ----------
    alpha : float or array
        Times of the theory.
    dim : int
        N, the number of inputs.
    batch : int
        Samples per step.

    Returns
    -------
    int or array

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.conventions.samples(20.0, dim=1000, batch=8)
    160000
    """
    return _plain(np.asarray(steps(alpha, dim)) * checks.as_count("batch", batch))


def epochs(alpha: ArrayLike, dim: int, size: int, batch: int = 1) -> Any:
    """Return the passes through a data set of `size` samples at time alpha.

    The theory of a stream of fresh samples holds for the first one only.

    Parameters
    ----------
    alpha : float or array
        Times of the theory.
    dim : int
        N, the number of inputs.
    size : int
        Samples in the data set.
    batch : int
        Samples per step.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.conventions.epochs(20.0, dim=1000, size=40_000)
    0.5
    """
    used = np.asarray(samples(alpha, dim, batch))
    return _plain(used / checks.as_count("size", size))


@dataclass(frozen=True)
class Convention:
    """The scaling of a training loop, for conversion from and to the library's.

    Parameters
    ----------
    dim : int
        N, the number of inputs.
    layer : str
        "linear": fields W . x of unscaled inputs of variance one, as `nn.Linear`.
        "scaled": the loop divides inputs or fields by sqrt(N).
    loss : str
        "half": (y - yhat)^2 / 2, or any other loss that the problem has too.
        "mean_squared": (y - yhat)^2, as `nn.MSELoss`. Both are means over the batch.

    Examples
    --------
    >>> import tutelage as tu
    >>> torch = tu.conventions.Convention(dim=1000, loss="mean_squared")
    >>> torch.lr(0.5), torch.eta(0.00025)
    (0.00025, 0.5)
    """

    dim: int
    layer: str = "linear"
    loss: str = "half"

    def __post_init__(self) -> None:
        checks.as_count("dim", self.dim)
        checks.known("layer", self.layer, LAYERS)
        checks.known("loss", self.loss, LOSSES)

    @property
    def _gradient(self) -> float:
        """The gradient of the loop's loss in units of that of the library's."""
        return 2.0 if self.loss == "mean_squared" else 1.0

    @property
    def _lr_per_eta(self) -> float:
        """The rate of the hidden layer over eta."""
        if self.layer == "linear":
            return 1 / (self.dim * self._gradient)
        return 1 / self._gradient

    def weights(self, W: ArrayLike) -> np.ndarray:
        """Return weights of the loop's layer in the library's units, for a `Recorder`."""
        if self.layer == "linear":
            return np.sqrt(self.dim) * checks.as_array("W", as_numpy(W))
        return checks.as_array("W", as_numpy(W))

    def layer_weights(self, w: ArrayLike) -> np.ndarray:
        """Return weights of the library in the units of the loop's layer."""
        if self.layer == "linear":
            return checks.as_array("w", as_numpy(w)) / np.sqrt(self.dim)
        return checks.as_array("w", as_numpy(w))

    def lr(self, eta: float) -> float:
        """Return the learning rate of the hidden layer in the loop."""
        return checks.as_positive("eta", eta) * self._lr_per_eta

    def eta(self, lr: float) -> float:
        """Return the learning rate of `SGD` for a rate of the hidden layer in the loop."""
        return checks.as_positive("lr", lr) / self._lr_per_eta

    def readout_lr(self, eta: float) -> float:
        """Return the learning rate of readout and biases in the loop.

        It is eta / N for either kind of layer: a "scaled" loop needs two rates.
        """
        return checks.as_positive("eta", eta) / (self.dim * self._gradient)

    def readout_eta(self, lr: float) -> float:
        """Return `readout_lr` (or `bias_lr`) of `SGD` for a rate in the loop."""
        return checks.as_positive("lr", lr) * self.dim * self._gradient

    def weight_decay(self, kappa: float) -> float:
        """Return the weight decay of the hidden layer in the loop, lr decay W per step."""
        given = checks.as_number("kappa", kappa, checks.require_nonnegative)
        return float(given) / (self.dim * self._lr_per_eta)

    def kappa(self, weight_decay: float) -> float:
        """Return `weight_decay` of `SGD` for the weight decay of the loop."""
        given = checks.as_number(
            "weight_decay", weight_decay, checks.require_nonnegative
        )
        return float(given) * self.dim * self._lr_per_eta

    def hyperparameters(self, optimizer: Any) -> dict[str, float]:
        """Return the settings of the loop that follow an `SGD` of constant rates.

        They are lr and weight_decay of the hidden layer, readout_lr and bias_lr,
        momentum and batch.
        """
        if getattr(optimizer, "kind", None) != "sgd":
            raise InputError(
                f"optimizer is {checks.shown(optimizer)}; the conversion holds for SGD "
                "only, such as SGD(0.5). Other optimizers scale with N in other ways."
            )
        for name in ("lr", "readout_lr", "bias_lr", "weight_decay"):
            if callable(getattr(optimizer, name, None)):
                raise InputError(
                    f"{name} is a schedule; convert it at each time, "
                    "such as convention.lr(schedule(alpha))."
                )
        lr = float(optimizer.lr)
        rates = {}
        for name in ("readout_lr", "bias_lr"):
            eta = getattr(optimizer, name)
            rates[name] = self.readout_lr(lr if eta is None else float(eta))
        momentum = checks.as_number("momentum", optimizer.momentum)
        return {
            "lr": self.lr(lr),
            **rates,
            "weight_decay": self.weight_decay(float(optimizer.weight_decay)),
            "momentum": float(momentum),
            "batch": optimizer.batch,
        }


def _plain(values: np.ndarray) -> Any:
    """Return an array, or the number in an array without axes."""
    return values if np.ndim(values) else np.asarray(values).item()


def as_numpy(values: Any) -> Any:
    """Return an array of NumPy; a PyTorch tensor is detached and moved to the CPU."""
    for method in ("detach", "cpu"):
        if hasattr(values, method):
            values = getattr(values, method)()
    return np.array(values)
