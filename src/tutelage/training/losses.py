"""What a prediction costs: a loss is a function of the student's output and the label.

A loss says only what it costs; `rules.Gradient` takes its derivative with JAX. Any JAX function loss(output, label) serves
as one. `output` is a number for a network with one output and an array (outputs,) otherwise.
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
from tutelage._part import Choice, Part, by_name, with_fields
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
SEARCHED = (
    8.0  # outputs between which jumps of a custom function's derivative are searched
)
TRIED = 256  # outputs and labels on which a custom loss is tried
ROUNDED = 1e-9  # relative difference of equal derivatives
FAR = (
    1e3,
    1e6,
)  # labels between which a slope grows by a factor of 10 if it has no bound
MOST_KINKS = 16  # of a custom loss; averages over label noise are not split at more


class Loss(Part):
    """A loss of one sample, loss(output, label).

    `targets` says which labels it is made for: "real" (any number), "sign" (-1 and 1) or "class" (one-hot vectors).
    `jumps`: its derivative jumps, or may; set it to False in a smooth custom loss. `additive`: with several outputs it is a
    sum of losses of one output and its label.

    >>> import tutelage as tu
    >>> loss = tu.losses.Logistic()
    >>> round(float(loss(0.0, 1.0)), 6)                                        # ln 2
    0.693147
    """

    targets: ClassVar[str] = "real"
    jumps: ClassVar[bool] = True
    additive: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, output: Output, label: Label) -> Scalar:
        """The loss of one sample."""

    def descent(self, output: Output, label: Label) -> Output:
        """Minus the derivative of the loss by the output."""
        return -jax.grad(lambda o: self(o, label))(output)

    def breaks(self, label: Label) -> tuple[Output, ...]:
        """Outputs at which the derivative jumps or bends, for this label."""
        return ()

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        """Labels at which the derivative jumps or bends, for this output; averages over label noise are split there."""
        return ()


class Squared(Loss):
    """|label - output|^2 / 2."""

    jumps: ClassVar[bool] = False
    additive: ClassVar[bool] = True

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jnp.sum((label - output) ** 2) / 2

    def descent(self, output: Output, label: Label) -> Output:
        return label - output


class Absolute(Loss):
    """|label - output|, summed over the outputs."""

    additive: ClassVar[bool] = True

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jnp.sum(jnp.abs(label - output))

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return (label,)

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        return (output,)


class Huber(Loss):
    """Squared within `delta` of the label, linear beyond: robust to heavy-tailed label noise."""

    jumps: ClassVar[bool] = False
    additive: ClassVar[bool] = True
    delta: ArrayLike = checks.number_field(
        "delta", checks.require_positive, default=1.0
    )

    def __call__(self, output: Output, label: Label) -> Scalar:
        size = jnp.abs(label - output)
        near = jnp.minimum(size, self.delta)
        return jnp.sum(near * (size - near / 2))

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return label - self.delta, label + self.delta

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        return output - self.delta, output + self.delta


class Logistic(Loss):
    """ln(1 + exp(-label output)) for labels -1 and 1."""

    targets: ClassVar[str] = "sign"
    jumps: ClassVar[bool] = False

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jax.nn.softplus(-label * output)


class Hinge(Loss):
    """max(0, 1 - label output) for labels -1 and 1."""

    targets: ClassVar[str] = "sign"

    def __call__(self, output: Output, label: Label) -> Scalar:
        return jnp.maximum(1.0 - label * output, 0.0)

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return (label,)


class CrossEntropy(Loss):
    """-ln softmax(output) at the label's class, for one-hot labels and two outputs or more.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> round(float(tu.losses.CrossEntropy()(np.zeros(3), np.array([0.0, 1.0, 0.0]))), 6)      # ln 3
    1.098612
    """

    targets: ClassVar[str] = "class"
    jumps: ClassVar[bool] = False

    def __call__(self, output: Output, label: Label) -> Scalar:
        return -jnp.sum(label * jax.nn.log_softmax(output))


class Function(Loss):
    """A custom JAX function loss(output, label).

    jumps: does its derivative jump? By default a `Problem` finds out, by a search along the output for several labels; say
    True if it jumps only where such a search may not look (beyond outputs of size 8, or for few labels).

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> loss = tu.losses.Function(lambda output, label: jnp.log(jnp.cosh(label - output)))
    >>> round(float(loss(0.0, 1.0)), 6)
    0.433781
    """

    function: Callable[[Array, Array], Array]
    jumps: bool | None = eqx.field(static=True)  # pyright: ignore
    given_jumps: bool | None = eqx.field(static=True)  # None: found out
    additive: bool = eqx.field(static=True)  # pyright: ignore
    kinks: tuple[float, ...] = eqx.field(static=True)

    def __init__(
        self, function: Callable[[Array, Array], Array], jumps: bool | None = None
    ):
        self.function = checks.as_kind(
            "the loss", function, Callable, "a JAX function loss(output, label)"
        )
        self.given_jumps = None if jumps is None else checks.as_flag("jumps", jumps)
        self.jumps = self.given_jumps  # pyright: ignore
        self.additive = False  # pyright: ignore
        self.kinks = ()

    def arguments(self) -> Table:
        return {"function": self.function, "jumps": self.given_jumps}

    def __call__(self, output: Output, label: Label) -> Scalar:
        return self.function(output, label)

    def breaks(self, label: Label) -> tuple[Output, ...]:
        return tuple(label - kink for kink in self.kinks)

    def label_breaks(self, output: Output) -> tuple[Label, ...]:
        return tuple(output + kink for kink in self.kinks)

    def for_outputs(self, outputs: int) -> "Function":
        """The same loss, once it is known whether its derivative jumps, and where if it follows label - output."""
        jumps = self.jumps
        if jumps is None:
            jumps = _derivative_jumps(self.function, outputs)
        kinks = _kinks_of_difference(self.function, outputs)
        additive = outputs > 1 and kinks is not None
        return with_fields(self, jumps=jumps, additive=additive, kinks=kinks or ())


@lru_cache(maxsize=64)
def _kinks_of_difference(
    function: Callable[[Array, Array], Array], outputs: int
) -> tuple[float, ...] | None:
    """Values of label - output at which the derivative jumps or bends.

    None unless the loss is a sum of functions of label - output, one of each output, as
    far as random outputs and labels can tell.
    """
    descent = Function(function, jumps=True).descent
    shape = () if outputs == 1 else (outputs,)
    axes = np.eye(outputs).reshape(outputs, *shape)

    def along_axes(difference: Array) -> Array:
        """The derivative by each output, if this one alone differs from its label."""
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
    """Whether each derivative is a function of label - output of its own output alone."""
    rng = np.random.default_rng(0)
    shape = (TRIED, *axes.shape[1:])
    output = rng.standard_normal(shape)
    label = 3.0 * rng.standard_normal(shape)
    each = jax.vmap(descent)
    slopes = np.asarray(each(jnp.asarray(output), jnp.asarray(label)))
    allowed = ROUNDED * np.max(np.abs(slopes))
    for axis in axes:
        # output and label of one axis move together; the other labels move alone
        shift = 3.0 * rng.standard_normal(shape)
        together = each(jnp.asarray(output + shift * axis), jnp.asarray(label + shift))
        if not np.all(np.abs((together - slopes) * axis) <= allowed):
            return False
    return True


@lru_cache(maxsize=64)
def _derivative_jumps(function: Callable[[Array, Array], Array], outputs: int) -> bool:
    """Does the derivative jump along lines of outputs, for some labels? True where that cannot be found out."""
    if outputs == 1:
        labels, lines = (
            jnp.array([-1.0, 1.0, 0.0, 0.37, -1.83]),
            [(np.zeros(()), np.ones(()))],
        )
    else:
        rng = np.random.default_rng(0)
        labels = jnp.concatenate(
            [jnp.eye(outputs), jnp.asarray(rng.standard_normal((2, outputs)))]
        )
        lines = [tuple(rng.standard_normal((2, outputs))) for _ in range(4)]
    each = jax.vmap(Function(function, jumps=True).descent, (None, 0))

    def slopes(s):
        return jnp.stack([each(at + s * along, labels) for at, along in lines]).ravel()

    try:
        places = breaks_of(jnp.vectorize(slopes, signature="()->(v)"), 0)
    except (TypeError, jax.errors.JAXTypeError):
        return True  # it has no second derivative, or contains numbers that JAX traces
    return any(abs(x) < SEARCHED for x in places)


NAMED: dict[str, type[Loss]] = by_name(
    Squared, Logistic, Hinge, Huber, Absolute, CrossEntropy
)
OTHERS = "a loss such as losses.Huber(0.5), or a JAX function loss(output, label)"
as_loss = Choice("loss", Loss, NAMED, "squared", OTHERS, Function)


def has_bounded_slope(loss: Loss) -> bool:
    """Whether the derivative of a loss of one output stays bounded for labels far away.

    True for a loss with numbers that JAX traces, which cannot be tried.
    """
    if isinstance(loss, Absolute | Huber):
        return True
    slopes = jax.vmap(loss.descent, (None, 0))
    try:
        near, far = (
            float(jnp.max(jnp.abs(slopes(jnp.zeros(()), jnp.array([-size, size])))))
            for size in FAR
        )
    except jax.errors.JAXTypeError:
        return True
    return far < 10 * near


def require_usable(
    loss: Loss, output: Output, labels: Float[Array, "count ..."]
) -> None:
    """The loss maps an output and a label (of some labels) to one finite number that JAX can differentiate."""
    name, label, shape = loss_name(loss), labels[0], jnp.shape(output)
    for what, function, right, rule in (
        ("loss", loss, (), "one number. Sum over the outputs"),
        ("derivative of the loss", loss.descent, shape, f"shape {shape}"),
    ):
        fails = f"the {what} {name!r} fails on an output of shape {shape} and a label of shape {jnp.shape(label)}"
        with explained(fails, "write it with jax.numpy, as loss(output, label)."):
            found = jax.eval_shape(function, output, label)
        if getattr(found, "shape", None) != right:
            given = getattr(found, "shape", type(found).__name__)
            raise InputError(
                f"the {what} {name!r} returns shape {given}; it must return {rule}."
            )
        tried = [
            jax.vmap(function, (None, 0))(jnp.full_like(output, x), labels)
            for x in (-2.0, 0.3, 2.0)
        ]
        if not checks.is_traced(tried) and not np.all(np.isfinite(tried)):
            raise InputError(
                f"the {what} {name!r} is not finite at every output and label; make it finite."
            )


def loss_name(loss: Loss) -> str:
    """The word for a loss in messages and files."""
    if isinstance(loss, Function):
        return checks.name_of(loss.function)
    return as_loss.word(loss) or type(loss).__name__
