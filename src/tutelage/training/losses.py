"""Losses: functions of the student's output and the label.

A loss defines only its value; `rules.Gradient` takes its derivative with JAX. Any JAX
function loss(output, label) can be used as a loss. `output` is a number for a network
with one output and an array (outputs,) otherwise.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._jump_search import breaks_of
from tutelage._part import Choice, Part, by_name
from tutelage._types import Array, ArrayLike, Table
from tutelage.errors import InputError, explained

__all__ = [
    "Absolute",
    "CrossEntropy",
    "Function",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Squared",
]

Output: TypeAlias = Float[Array, "*outputs"]
Label: TypeAlias = Float[Array, "*outputs"]
Scalar: TypeAlias = Float[Array, ""]
# Jumps of the derivative of a custom loss are searched between -8 and 8.
SEARCH_RANGE = 8.0
PROBES = 256  # outputs and labels on which a custom loss is tried
ROUNDING = 1e-9  # relative difference of equal derivatives
# A slope without a bound grows by a factor of 10 between these labels.
FAR_LABELS = (1e3, 1e6)
MOST_KINKS = 16  # of a custom loss; averages over label noise are not split at more


class Loss(Part):
    """A loss of one sample, loss(output, label).

    Attributes
    ----------
    targets : str
        The labels that it is made for: "real" (any number), "sign" (-1 and 1) or
        "class" (one-hot vectors).
    jumps : bool
        Its derivative jumps, or may; set it to False in a smooth custom loss.
    additive : bool
        With several outputs it is a sum of losses of one output and its label.

    Examples
    --------
    >>> import tutelage as tu
    >>> loss = tu.losses.Logistic()
    >>> round(float(loss(0.0, 1.0)), 6)  # ln 2
    0.693147
    """

    targets: ClassVar[str] = "real"
    jumps: ClassVar[bool] = True
    additive: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, output: Output, label: Label) -> Scalar:
        """Return the loss of one sample."""

    def descent(self, output: Output, label: Label) -> Output:
        """Return psi, minus the derivative of the loss by the output."""
        return -jax.grad(lambda o: self(o, label))(output)

    def breaks(self, label: Label) -> tuple[Output, ...]:
        """Return outputs at which the derivative jumps or bends, for this label."""
        return ()

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        """Return labels at which the derivative jumps or bends, for this output.

        Averages over label noise are split there.
        """
        return ()


class Squared(Loss):
    """The squared loss, |label - output|^2 / 2."""

    jumps: ClassVar[bool] = False
    additive: ClassVar[bool] = True

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jnp.sum((label - output) ** 2) / 2

    def descent(self, output: Output, label: Label) -> Output:
        return label - output


class Absolute(Loss):
    """The absolute loss, |label - output|, summed over the outputs."""

    additive: ClassVar[bool] = True

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jnp.sum(jnp.abs(label - output))

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return (label,)

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        return (output,)


class Huber(Loss):
    """The Huber loss: squared near the label and linear beyond.

    It is robust to heavy-tailed label noise.

    Parameters
    ----------
    delta : float
        The distance from the label up to which it is squared.
    """

    jumps: ClassVar[bool] = False
    additive: ClassVar[bool] = True
    delta: ArrayLike = checks.number_field(
        "delta", checks.require_positive, default=1.0
    )

    def __call__(self, output: Output, label: Label) -> Scalar:
        # size^2 / 2 up to delta, and delta (size - delta / 2) beyond
        size = jnp.abs(label - output)
        near = jnp.minimum(size, self.delta)
        return jnp.sum(near * (size - near / 2))

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return label - self.delta, label + self.delta

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        return output - self.delta, output + self.delta


class Logistic(Loss):
    """The logistic loss, ln(1 + exp(-label output)), for labels -1 and 1."""

    targets: ClassVar[str] = "sign"
    jumps: ClassVar[bool] = False

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jax.nn.softplus(-label * output)


class Hinge(Loss):
    """The hinge loss, max(0, 1 - label output), for labels -1 and 1."""

    targets: ClassVar[str] = "sign"

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jnp.maximum(1.0 - label * output, 0.0)

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return (label,)


class CrossEntropy(Loss):
    """The cross-entropy, -ln softmax(output) at the label's class.

    It is for one-hot labels and two outputs or more.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> loss = tu.losses.CrossEntropy()
    >>> round(float(loss(np.zeros(3), np.array([0.0, 1.0, 0.0]))), 6)  # ln 3
    1.098612
    """

    targets: ClassVar[str] = "class"
    jumps: ClassVar[bool] = False

    def __call__(self, output: Output, label: Label) -> Scalar:
        return -jnp.sum(label * jax.nn.log_softmax(output))


class Function(Loss):
    """A custom loss: any JAX function of output and label.

    Parameters
    ----------
    function : function
        A JAX function loss(output, label).
    jumps : bool, optional
        True if its derivative jumps. By default a `Problem` finds out, by a search
        along the output for several labels. Set it if the derivative jumps only where
        the search may not look (beyond outputs of size 8, or for few labels).
    outputs : int, optional
        The number of outputs, which a `Problem` fills in.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> def log_cosh(output, label):
    ...     return jnp.log(jnp.cosh(label - output))
    >>> round(float(tu.losses.Function(log_cosh)(0.0, 1.0)), 6)
    0.433781
    """

    function: Callable[[Array, Array], Array]
    jumps: bool | None = eqx.field(static=True)  # pyright: ignore
    given_jumps: bool | None = eqx.field(static=True)  # None: to be found out
    additive: bool = eqx.field(static=True)  # pyright: ignore
    kinks: tuple[float, ...] = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[Array, Array], Array],
        jumps: bool | None = None,
        *,
        outputs: int | None = None,
    ):
        self.function = checks.as_kind(
            "the loss", function, Callable, "a JAX function loss(output, label)"
        )
        self.given_jumps = None if jumps is None else checks.as_flag("jumps", jumps)
        kinks = None
        if outputs is not None:
            if jumps is None:
                jumps = _derivative_jumps(self.function, outputs)
            kinks = _kinks_of_difference(self.function, outputs)
        self.jumps = jumps  # pyright: ignore
        is_sum_over_outputs = outputs is not None and outputs > 1 and kinks is not None
        self.additive = is_sum_over_outputs  # pyright: ignore
        self.kinks = kinks or ()

    def arguments(self) -> Table:
        return {"function": self.function, "jumps": self.given_jumps}

    def __call__(self, output: Output, label: Label) -> Scalar:
        return self.function(output, label)

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return tuple(label - kink for kink in self.kinks)

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        return tuple(output + kink for kink in self.kinks)

    def for_outputs(self, outputs: int) -> "Function":
        """Return the loss with its properties for this number of outputs.

        They are whether its derivative jumps, and where, if it follows label - output.
        """
        return Function(self.function, self.given_jumps, outputs=outputs)


@lru_cache(maxsize=64)
def _kinks_of_difference(
    function: Callable[[Array, Array], Array], outputs: int
) -> tuple[float, ...] | None:
    """Return the values of label - output at which the derivative jumps or bends.

    None unless the loss is a sum of functions of label - output, one of each output, as
    far as random outputs and labels can tell.
    """
    descent = Function(function, jumps=True).descent
    shape = () if outputs == 1 else (outputs,)
    axes = np.eye(outputs).reshape(outputs, *shape)

    def along_axes(difference: Array) -> Array:
        """Return the derivative by each output, if it alone differs from its label."""
        slopes = jax.vmap(descent, (None, 0))(jnp.zeros(shape), difference * axes)
        return jnp.sum(slopes * axes, axis=tuple(range(1, slopes.ndim)))

    try:
        with jax.ensure_compile_time_eval():
            if not _follows_differences(descent, axes):
                return None
        smooth_between = jnp.vectorize(along_axes, signature="()->(v)")
        places = {x for order in (0, 1) for x in breaks_of(smooth_between, order)}
    except (TypeError, jax.errors.JAXTypeError):
        return None  # it has no second derivative, or contains numbers that JAX traces
    return tuple(sorted(places)) if len(places) <= MOST_KINKS else ()


def _follows_differences(
    descent: Callable[[Output, Label], Output], axes: Float[np.ndarray, "outputs ..."]
) -> bool:
    """Return True if each derivative is a function of its own label - output alone."""
    rng = np.random.default_rng(0)
    shape = (PROBES, *axes.shape[1:])
    output = rng.standard_normal(shape)
    label = 3.0 * rng.standard_normal(shape)
    slopes_at = jax.vmap(descent)
    slopes = np.asarray(slopes_at(jnp.asarray(output), jnp.asarray(label)))
    allowed = ROUNDING * np.max(np.abs(slopes))
    for axis in axes:
        # output and label of one axis move together; the other labels move alone
        shift = 3.0 * rng.standard_normal(shape)
        moved_output = jnp.asarray(output + shift * axis)
        moved_slopes = slopes_at(moved_output, jnp.asarray(label + shift))
        if not np.all(np.abs((moved_slopes - slopes) * axis) <= allowed):
            return False
    return True


@lru_cache(maxsize=64)
def _derivative_jumps(function: Callable[[Array, Array], Array], outputs: int) -> bool:
    """Return True if the derivative jumps along a line of outputs, for some label.

    It is also True where a jump cannot be excluded.
    """
    if outputs == 1:
        labels = jnp.array([-1.0, 1.0, 0.0, 0.37, -1.83])
        lines = [(np.zeros(()), np.ones(()))]
    else:
        rng = np.random.default_rng(0)
        random_labels = jnp.asarray(rng.standard_normal((2, outputs)))
        labels = jnp.concatenate([jnp.eye(outputs), random_labels])
        lines = [tuple(rng.standard_normal((2, outputs))) for _ in range(4)]
    slopes_at = jax.vmap(Function(function, jumps=True).descent, (None, 0))

    def slopes(s: Array) -> Array:
        """Return the derivatives at distance s along every line, for every label."""
        along_lines = []
        for origin, direction in lines:
            outputs_at = jnp.asarray(origin + s * direction)
            along_lines.append(slopes_at(outputs_at, labels))
        return jnp.stack(along_lines).ravel()

    try:
        places = breaks_of(jnp.vectorize(slopes, signature="()->(v)"), 0)
    except (TypeError, jax.errors.JAXTypeError):
        return True  # it has no second derivative, or contains numbers that JAX traces
    return any(abs(x) < SEARCH_RANGE for x in places)


NAMED_LOSSES: dict[str, type[Loss]] = by_name(
    Squared, Logistic, Hinge, Huber, Absolute, CrossEntropy
)
as_loss = Choice(
    name="loss",
    base=Loss,
    named=NAMED_LOSSES,
    default="squared",
    others="a loss such as losses.Huber(0.5), or a JAX function loss(output, label)",
    wrapper=Function,
)


def has_bounded_slope(loss: Loss) -> bool:
    """Return True if the derivative of a loss of one output is bounded in the label.

    True for a loss with numbers that JAX traces, which cannot be tried.
    """
    if isinstance(loss, Absolute | Huber):
        return True
    slopes_at = jax.vmap(loss.descent, (None, 0))
    steepest = []
    try:
        for size in FAR_LABELS:
            slopes = slopes_at(jnp.zeros(()), jnp.array([-size, size]))
            steepest.append(float(jnp.max(jnp.abs(slopes))))
    except jax.errors.JAXTypeError:
        return True
    near, far = steepest
    return far < 10 * near


def require_usable(
    loss: Loss, output: Output, labels: Float[Array, "count ..."]
) -> None:
    """Refuse a loss that is not a finite, differentiable number of output and label."""
    shape = jnp.shape(output)
    _require_shape_and_size(
        f"the loss {loss_name(loss)!r}",
        loss,
        output,
        labels,
        shape=(),
        rule="one number. Sum over the outputs",
    )
    _require_shape_and_size(
        f"the derivative of the loss {loss_name(loss)!r}",
        loss.descent,
        output,
        labels,
        shape=shape,
        rule=f"shape {shape}",
    )


def _require_shape_and_size(
    name: str,
    function: Callable[[Output, Label], Array],
    output: Output,
    labels: Float[Array, "count ..."],
    *,
    shape: tuple[int, ...],
    rule: str,
) -> None:
    """Refuse a function of output and label with other shapes or infinite values."""
    label = labels[0]
    fails = (
        f"{name} fails on an output of shape {jnp.shape(output)} "
        f"and a label of shape {jnp.shape(label)}"
    )
    with explained(fails, "write it with jax.numpy, as loss(output, label)."):
        result = jax.eval_shape(function, output, label)
    if getattr(result, "shape", None) != shape:
        returned = getattr(result, "shape", type(result).__name__)
        raise InputError(f"{name} returns shape {returned}; it must return {rule}.")
    values_at = jax.vmap(function, (None, 0))
    values = [values_at(jnp.full_like(output, x), labels) for x in (-2.0, 0.3, 2.0)]
    if not checks.is_traced(values) and not np.all(np.isfinite(values)):
        raise InputError(
            f"{name} is not finite at every output and label; make it finite."
        )


def loss_name(loss: Loss) -> str:
    """Return the word for a loss in messages and files."""
    if isinstance(loss, Function):
        return checks.name_of(loss.function)
    return as_loss.word(loss) or type(loss).__name__
