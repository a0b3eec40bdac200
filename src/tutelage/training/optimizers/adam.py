"""Adam, with a memory of squared gradients on the time scale of learning."""

from typing import Any, ClassVar, Self

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.errors import InputError
from tutelage.training.optimizers.base import Optimizer


def _require_beta(name: str, beta: Any) -> None:
    """Refuse a forgetting factor that is not between 0 and 1."""
    checks.require_nonnegative(name, beta)
    if not checks.is_traced(beta) and float(beta) >= 1:
        raise InputError(f"{name} is {float(beta):g}; it must be below 1, such as 0.9.")


class Adam(Optimizer):
    """Adam: an average of gradients, divided by their recent root mean square.

    With the gradient g_ki = mean[delta_k x_i] of a batch, c = 1 / memory and n the number
    of steps,

        m_ki <- beta1 m_ki + (1 - beta1) g_ki,    s_ki += (c / N) (g_ki^2 - s_ki)
        w_ki += (eta / sqrt(N)) [m_ki / (1 - beta1^n)] / sqrt(s_ki / (1 - (1 - c/N)^n))

    m and s begin at zero. A fixed beta1 has no effect in the limit of large N. Weight
    decay is not divided by the scale (as in AdamW). Each readout weight and bias has an m
    and an s for itself. The coordinates i are the eigenvectors of the inputs. The theory
    holds for weights and teachers that are spread over all coordinates.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    beta1 : float
        The forgetting factor of the averaged gradient.
    memory : float
        The time over which squared gradients are averaged, in units of alpha:
        1 / (N (1 - beta2)).
    batch, weight_decay, readout_lr, bias_lr, trainable
        As in `SGD`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.Adam(0.3)
    Adam(lr=0.3)
    >>> tu.optimizers.Adam.from_beta2(0.3, beta1=0.9, beta2=0.999, dim=500)
    Adam(lr=0.3, memory=2)
    """

    kind: ClassVar[str] = "adam"
    kept_vectors: ClassVar[int] = 2
    on_stream: ClassVar[bool] = True
    squares_readout: ClassVar[bool] = True
    has_scales: ClassVar[bool] = True
    corrects_start: ClassVar[bool] = True

    beta1: ArrayLike = checks.number_field("beta1", _require_beta, default=0.9)
    memory: ArrayLike = checks.number_field(
        "memory", checks.require_positive, default=1.0
    )

    @classmethod
    def from_beta2(
        cls, lr: Any, beta1: float = 0.9, beta2: float = 0.999, *, dim: int, **rest: Any
    ) -> Self:
        """Return Adam with the memory 1 / (dim (1 - beta2)).

        Parameters
        ----------
        lr : float or schedule
            The learning rate eta.
        beta1, beta2 : float
            The forgetting factors of gradients and of squared gradients, below 1.
        dim : int
            The input dimension N.
        **rest
            As in `Adam`.
        """
        number = float(checks.as_number("beta2", beta2))
        _require_beta("beta2", number)
        steps = checks.as_count("dim", dim)
        return cls(lr, beta1, 1.0 / (steps * (1.0 - number)), **rest)

    @property
    def lag(self) -> float:
        """Return 1 / (1 - beta1), which the limit of large N neglects."""
        return 1.0 / (1.0 - float(self.beta1))
