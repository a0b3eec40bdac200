"""What a prediction costs: a loss is a function of the student's output and the label.

A loss says only what it costs; `rules.Gradient` takes its derivative with JAX. Any JAX function loss(output, label) serves
as one. `output` is a number for a network with one output and an array (outputs,) otherwise.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tutelage import checks
from tutelage._errors import InputError, cause
from tutelage._types import Array, ArrayLike


class Loss(eqx.Module):
    """A loss of one sample, loss(output, label).

    `targets` says which labels it is made for: "real" (any number), "sign" (-1 and 1) or "class" (one-hot vectors).
    `jumps` says whether its derivative jumps; `breaks(label)` lists the outputs at which the derivative jumps or bends.

    >>> import tutelage as tu
    >>> loss = tu.losses.Logistic()
    >>> round(float(loss(0.0, 1.0)), 6)                                        # ln 2
    0.693147
    """

    targets: ClassVar[str] = "real"
    jumps: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, output: Array, label: Array) -> Array:
        """The loss of one sample."""

    def descent(self, output: Array, label: Array) -> Array:
        """Minus the derivative of the loss by the output."""
        return -jax.grad(lambda o: self(o, label))(output)

    def breaks(self, label: Array) -> tuple[Array, ...]:
        """Outputs at which the derivative jumps or bends, for this label."""
        return ()


class Squared(Loss):
    """|label - output|^2 / 2.

    >>> import tutelage as tu
    >>> float(tu.losses.Squared()(0.0, 2.0))
    2.0
    """

    def __call__(self, output: Array, label: Array) -> Array:
        return jnp.sum((label - output) ** 2) / 2

    def descent(self, output: Array, label: Array) -> Array:
        return label - output


class Absolute(Loss):
    """|label - output|, summed over the outputs.

    >>> import tutelage as tu
    >>> float(tu.losses.Absolute()(0.5, 2.0))
    1.5
    """

    jumps: ClassVar[bool] = True

    def __call__(self, output: Array, label: Array) -> Array:
        return jnp.sum(jnp.abs(label - output))

    def descent(self, output: Array, label: Array) -> Array:
        return jnp.sign(label - output)

    def breaks(self, label: Array) -> tuple[Array, ...]:
        return (label,)


class Huber(Loss):
    """Squared within `delta` of the label, linear beyond: robust to heavy-tailed label noise.

    >>> import tutelage as tu
    >>> float(tu.losses.Huber(1.0)(0.0, 3.0))                                  # 1 (3 - 1/2)
    2.5
    """

    delta: ArrayLike = eqx.field(converter=lambda x: checks.as_array("delta", x), default=1.0)

    def __check_init__(self) -> None:
        checks.require_shape("delta", self.delta, ())
        checks.require_positive("delta", self.delta)

    def __call__(self, output: Array, label: Array) -> Array:
        size = jnp.abs(label - output)
        near = jnp.minimum(size, self.delta)
        return jnp.sum(near * (size - near / 2))

    def descent(self, output: Array, label: Array) -> Array:
        return jnp.clip(label - output, -self.delta, self.delta)

    def breaks(self, label: Array) -> tuple[Array, ...]:
        return label - self.delta, label + self.delta

    def __repr__(self) -> str:
        return f"Huber(delta={checks.shown(self.delta)})"


class Logistic(Loss):
    """ln(1 + exp(-label output)) for labels -1 and 1.

    >>> import tutelage as tu
    >>> round(float(tu.losses.Logistic()(2.0, -1.0)), 6)
    2.126928
    """

    targets: ClassVar[str] = "sign"

    def __call__(self, output: Array, label: Array) -> Array:
        return jax.nn.softplus(-label * output)

    def descent(self, output: Array, label: Array) -> Array:
        return label * jax.nn.sigmoid(-label * output)


class Hinge(Loss):
    """max(0, 1 - label output) for labels -1 and 1.

    >>> import tutelage as tu
    >>> float(tu.losses.Hinge()(0.25, 1.0))
    0.75
    """

    targets: ClassVar[str] = "sign"
    jumps: ClassVar[bool] = True

    def __call__(self, output: Array, label: Array) -> Array:
        return jnp.maximum(1.0 - label * output, 0.0)

    def descent(self, output: Array, label: Array) -> Array:
        return jnp.where(label * output < 1.0, label, 0.0)

    def breaks(self, label: Array) -> tuple[Array, ...]:
        return (label,)


class CrossEntropy(Loss):
    """-ln softmax(output) at the label's class, for one-hot labels and two outputs or more.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> round(float(tu.losses.CrossEntropy()(np.zeros(3), np.array([0.0, 1.0, 0.0]))), 6)      # ln 3
    1.098612
    """

    targets: ClassVar[str] = "class"

    def __call__(self, output: Array, label: Array) -> Array:
        return -jnp.sum(label * jax.nn.log_softmax(output))

    def descent(self, output: Array, label: Array) -> Array:
        return label - jax.nn.softmax(output) * jnp.sum(label)


class Function(Loss):
    """A JAX function loss(output, label) of your own. Set `jumps=True` if its derivative jumps.

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> loss = tu.losses.Function(lambda output, label: jnp.log(jnp.cosh(label - output)))
    >>> round(float(loss(0.0, 1.0)), 6)
    0.433781
    """

    function: Callable[[Array, Array], Array]
    derivative_jumps: bool = eqx.field(static=True, default=False)

    def __init__(self, function: Callable[[Array, Array], Array], jumps: bool = False):
        if not callable(function):
            raise InputError(f"the loss is {checks.shown(function)}; it must be a JAX function loss(output, label).")
        self.function, self.derivative_jumps = function, checks.as_flag("jumps", jumps)

    @property
    def jumps(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Does its derivative jump?"""
        return self.derivative_jumps

    def __call__(self, output: Array, label: Array) -> Array:
        return self.function(output, label)


NAMED: dict[str, type[Loss]] = {
    "squared": Squared,
    "logistic": Logistic,
    "hinge": Hinge,
    "huber": Huber,
    "absolute": Absolute,
    "cross_entropy": CrossEntropy,
}


def as_loss(value: Any) -> Loss:
    """A loss from its name, from a JAX function, or as it is."""
    if isinstance(value, Loss):
        return value
    if isinstance(value, str):
        return NAMED[checks.known("loss", value, NAMED)]()
    if isinstance(value, type) and issubclass(value, Loss):
        raise InputError(f"loss is the class {value.__name__}; it must be a loss. Make one, such as {value.__name__}().")
    if not callable(value):
        raise InputError(
            f"loss is {checks.shown(value)}; it must be a name ({', '.join(NAMED)}), a loss such as losses.Huber(0.5), or "
            "a JAX function loss(output, label)."
        )
    function: Any = value
    return Function(function)


def require_usable(loss: Loss, output: Any, labels: Any) -> None:
    """The loss maps an output and a label of these shapes to one finite number that JAX can differentiate.

    labels: some labels of the problem, (count, ...).
    """
    name, label = loss_name(loss), labels[0]
    value = _shapes(loss, loss, output, label)
    if not hasattr(value, "shape") or value.shape != ():
        raise InputError(
            f"the loss {name!r} returns shape {getattr(value, 'shape', type(value).__name__)}; it must return one number. "
            "Sum over the outputs."
        )
    slope = _shapes(loss, loss.descent, output, label)
    if slope.shape != jnp.shape(output):
        raise InputError(f"the derivative of the loss {name!r} has shape {slope.shape}; it must be {jnp.shape(output)}.")
    if checks.is_traced(loss, output, labels):
        return
    for size in (-2.0, 0.3, 2.0):
        at = jnp.full_like(output, size)
        tried = jax.vmap(loss, (None, 0))(at, labels), jax.vmap(loss.descent, (None, 0))(at, labels)
        if not all(bool(jnp.all(jnp.isfinite(each))) for each in tried):
            raise InputError(
                f"the loss {name!r} or its derivative is not finite at output {size:g} for some label; it must be finite at "
                "every output and label."
            )


def _shapes(loss: Loss, function: Callable[..., Any], output: Any, label: Any) -> Any:
    """Shapes of what a function of the loss returns, or one message about why it fails."""
    try:
        return jax.eval_shape(function, output, label)
    except Exception as error:
        raise InputError(
            f"the loss {loss_name(loss)!r} fails on an output of shape {jnp.shape(output)} and a label of shape "
            f"{jnp.shape(label)} ({cause(error)}); write it with jax.numpy, as loss(output, label)."
        ) from None


def loss_name(loss: Loss) -> str:
    """The word for a loss in messages and files."""
    if isinstance(loss, Function):
        return getattr(loss.function, "__name__", type(loss.function).__name__)
    return next((name for name, kind in NAMED.items() if type(loss) is kind), type(loss).__name__)
