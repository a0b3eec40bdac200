"""How the teacher's fields become a label, and by which error the student is judged.

    label y = label(output, rho, xi, noise)        output: of the teacher network, rho: its fields, xi: randomness of its own
Any JAX function label(rho, xi), with xi uniform on (0, 1), makes a multi-index target of your own (`Function`).

The error of a trajectory follows from the labels, whatever the loss: E[(student - noiseless label)^2]/2 for "squared", and for
"class" the probability that the class of the student (the sign of its output, or the largest entry) differs from it.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Choice, Part, by_name, with_fields
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError, explained
from tutelage.randomness import (
    UNIFORM,
    Discrete,
    Law,
    Normal,
    Quantile,
    QuantileFunction,
    quantile_table,
)

__all__ = ["Argmax", "Function", "Labels", "Logistic", "Real", "Sign"]

Output: TypeAlias = Float[Array, "*outputs"]  # of the teacher
Fields: TypeAlias = Float[Array, " M"]  # rho
Label: TypeAlias = Float[Array, "*outputs"]
Draw: TypeAlias = Float[Array, ""] | None  # of xi; None: the noiseless label
Noise: TypeAlias = ArrayLike | QuantileFunction
Outcomes: TypeAlias = tuple[
    Float[Array, "X ..."], Float[Array, " X"]
]  # labels and their weights
METRICS = {
    "squared": "generalization error e_g",
    "class": "probability of a wrong class",
}  # of an error, and its name


class Labels(Part):
    """A law of labels given the teacher's fields.

    `kind` says which labels it makes: "real" (any number), "sign" (-1 and 1) or "class" (one-hot vectors). `metric` is the
    error by which the student is judged.

    >>> import tutelage as tu
    >>> float(tu.labels.Sign().truth(-0.3, None))
    -1.0
    """

    kind: ClassVar[str] = "real"

    @property
    def metric(self) -> str:
        """The error of a trajectory: "squared" or "class"."""
        return "squared" if self.kind == "real" else "class"

    def law(self, noise: Noise) -> Law | None:
        """The law of xi; None: the label is a function of the fields."""
        return None

    @abstractmethod
    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        """The label for a teacher output, its fields and one draw of xi."""

    def truth(self, output: Output, rho: Fields) -> Label:
        """The noiseless label."""
        return self.label(output, rho, None, 0.0)

    def numbers(self, outputs: int, noise: Noise) -> int:
        """Independent numbers that xi consists of: a vector if there are several, which may depend on the outputs."""
        return 1

    def outcomes(self, output: Output, rho: Fields, noise: Noise) -> Outcomes | None:
        """All labels that these fields may have, with their weights; None if xi has a continuous law."""
        law = self.law(noise)
        if law is None:
            return self.truth(output, rho)[None], jnp.ones(1)
        enumerated = law.enumerated()
        if enumerated is None:
            return None
        values, weights = enumerated
        return jax.vmap(lambda xi: self.label(output, rho, xi, noise))(
            jnp.asarray(values)
        ), jnp.asarray(weights)

    def placed(self, label: Label, output: Output, noise: Noise) -> Array | None:
        """The normal number that makes a label from an output, entry by entry; None where no formula gives it."""
        return None


class Real(Labels):
    """The teacher's output, plus the problem's `noise` times a standard normal number (or drawn by its quantile function)."""

    def law(self, noise: Noise) -> Law | None:
        return Quantile(noise) if callable(noise) else Normal()

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        if xi is None:
            return jnp.asarray(output)
        return output + (xi if callable(noise) else noise * xi)

    def numbers(self, outputs: int, noise: Noise) -> int:
        return 1 if callable(noise) else outputs

    def placed(self, label: Label, output: Output, noise: Noise) -> Array | None:
        if callable(noise):
            return jnp.asarray(Quantile(noise).to_normal(label - output))
        sigma = jnp.asarray(noise, float)
        return (label - output) / jnp.where(sigma > 0, sigma, 1.0)

    @staticmethod
    def with_two_moments(output: Output, noise: Noise) -> Outcomes:
        """A few labels with the mean and the covariance of all, which is enough for averages of squares."""
        if callable(noise):
            # Simulations also record the squared loss of noise of infinite variance: it is infinite.
            table = quantile_table(noise)
            away = np.sqrt(table.variance) * np.array([-1.0, 1.0])
            return output + table.mean + jnp.asarray(away), jnp.full(2, 0.5)
        if jnp.ndim(output) == 0:
            return output + noise * jnp.array([-1.0, 1.0]), jnp.full(2, 0.5)
        C = jnp.shape(output)[0]
        axes = np.sqrt(C) * np.concatenate([np.eye(C), -np.eye(C)])
        return output + noise * jnp.asarray(axes), jnp.full(2 * C, 1 / (2 * C))


class Sign(Labels):
    """The sign of the teacher's output, -1 or 1, flipped with probability `flip`, a number or a schedule."""

    kind: ClassVar[str] = "sign"
    flip: Any = checks.number_field(
        "flip", checks.require_probability, schedule=True, default=0.0
    )

    def law(self, noise: Noise) -> Law | None:
        if callable(self.flip):
            return Discrete(
                np.array([1.0, -1.0]), np.array([0.5, 0.5])
            )  # of any time; `Problem.labeled_at` knows which
        if not checks.is_traced(self.flip) and float(self.flip) == 0:
            return None
        return Discrete(
            np.array([1.0, -1.0]),
            jnp.stack([1.0 - self.flip, jnp.asarray(self.flip, float)]),
        )

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        side = jnp.where(output < 0, -1.0, 1.0)
        return side if xi is None else side * xi


class Logistic(Labels):
    """1 with probability 1 / (1 + exp(-slope output)), else -1: a Bernoulli label by a logistic link."""

    kind: ClassVar[str] = "sign"
    slope: ArrayLike = checks.number_field(
        "slope", checks.require_positive, default=1.0
    )

    def law(self, noise: Noise) -> Law | None:
        return UNIFORM

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        one = output >= 0 if xi is None else xi < jax.nn.sigmoid(self.slope * output)
        return jnp.where(one, 1.0, -1.0)

    def outcomes(self, output: Output, rho: Fields, noise: Noise) -> Outcomes:
        p = jax.nn.sigmoid(self.slope * output)
        return jnp.array([1.0, -1.0]), jnp.stack([p, 1.0 - p])


class Argmax(Labels):
    """The one-hot vector of the teacher's largest output (two outputs or more).

    >>> import numpy as np
    >>> import tutelage as tu
    >>> tu.labels.Argmax().truth(np.array([0.1, 0.7, -0.2]), None).tolist()
    [0.0, 1.0, 0.0]
    """

    kind: ClassVar[str] = "class"

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        output = jnp.asarray(output)
        return jax.nn.one_hot(jnp.argmax(output), output.shape[-1], dtype=output.dtype)


class Function(Labels):
    """A JAX function label(rho, xi) of the teacher's fields (M,) and a number xi, uniform on (0, 1): any multi-index target.

    metric: "squared" (E[(student - label)^2] / 2) or "class" (probability that the signs differ). Where the label depends on
    xi, the error is averaged over xi too: nobody knows which part of it is noise.

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> parity = tu.labels.Function(lambda rho, xi: jnp.sign(rho[0] * rho[1] * rho[2]), metric="class")
    >>> float(parity.label(None, jnp.array([1.0, -2.0, 0.5]), 0.5, 0.0))
    -1.0
    """

    function: Callable[[Array, Array], Array]
    judged_by: str = eqx.field(static=True)
    random: bool | None = eqx.field(
        static=True
    )  # does it depend on xi? None: not known yet

    def __init__(
        self, function: Callable[[Array, Array], Array], metric: str = "squared"
    ):
        self.function = checks.as_kind(
            "the label", function, Callable, "a JAX function label(rho, xi)"
        )
        self.judged_by, self.random = checks.known("metric", metric, METRICS), None

    @property
    def metric(self) -> str:
        return self.judged_by

    def for_fields(self, M: int) -> "Function":
        """The same labels, tried on M fields: do they depend on the fields, and on xi?"""
        rho, xi = (
            np.random.default_rng(0).standard_normal((64, M)),
            (np.arange(64) + 0.5) / 64,
        )
        name, labels = (
            f"the label function {checks.name_of(self.function)!r}",
            jax.vmap(self.function),
        )
        fails = f"{name} fails on {M} teacher field{'s' * (M > 1)}"
        with explained(
            fails, "write it with jax.numpy, as label(rho, xi) with rho (M,)."
        ):
            both = np.asarray(labels(jnp.asarray(rho), jnp.asarray(xi)))
            fixed_xi = np.asarray(labels(jnp.asarray(rho), jnp.full(64, 0.37)))
        if both.ndim > 2:
            raise InputError(
                f"{name} returns shape {both.shape[1:]}; it must return a number or a vector."
            )
        if not np.all(np.isfinite(both)):
            raise InputError(
                f"{name} returns NaN or infinity; every label must be a finite number."
            )
        if np.ptp(fixed_xi, axis=0).max() == 0:
            always = checks.shown(fixed_xi[0])
            raise InputError(
                f"{name} returns {always} whatever the teacher fields are; a label must depend on rho."
            )
        return with_fields(self, random=_uses_xi(self.function, M))

    def law(self, noise: Noise) -> Law | None:
        return None if self.random is False else UNIFORM

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        return jnp.asarray(
            self.function(rho, jnp.asarray(0.5) if xi is None else xi), float
        )


def _uses_xi(function: Callable[[Array, Any], Array], M: int) -> bool:
    """Whether a label function reads xi. A few values of xi would not show a rare event."""
    try:
        jax.eval_shape(lambda rho: function(rho, object()), jnp.zeros(M))
    except Exception:
        return True
    return False


NAMED: dict[str, type[Labels]] = by_name(Real, Sign, Logistic, Argmax)
OTHERS = "labels such as labels.Sign(0.1), or a JAX function label(rho, xi)"
as_labels = Choice("labels", Labels, NAMED, "real", OTHERS, Function)
