"""Laws of the labels given the teacher's fields, and the error that belongs to them.

    y = label(output, rho, xi, noise)

output: of the teacher network. rho: its fields. xi: randomness of the label. Any JAX
function label(rho, xi), with xi uniform on (0, 1), makes a custom multi-index target
(`Function`).

The error of a trajectory follows from the labels, whatever the loss. For "squared" it
is E[(student - noiseless label)^2]/2. For "class" it is the probability that the class
of the student (the sign of its output, or the largest entry) is not the label's.
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
from tutelage._part import Choice, Part, by_name
from tutelage._types import Array, ArrayLike, Table
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
# Labels and their weights.
Outcomes: TypeAlias = tuple[Float[Array, "X ..."], Float[Array, " X"]]
# The name of each error.
METRICS = {
    "squared": "generalization error e_g",
    "class": "probability of a wrong class",
}
PROBES = 64  # fields and xi on which a custom label function is tried


class Labels(Part):
    """A law of labels given the teacher's fields.

    Attributes
    ----------
    kind : str
        The labels that it makes: "real" (any number), "sign" (-1 and 1) or "class"
        (one-hot vectors).
    metric : str
        The error by which the student is judged, "squared" or "class".

    Examples
    --------
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
        """Return the law of xi, or None if the label is a function of the fields."""
        return None

    @abstractmethod
    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        """Return the label for a teacher output, its fields and one draw of xi."""

    def truth(self, output: Output, rho: Fields) -> Label:
        """Return the noiseless label."""
        return self.label(output, rho, None, 0.0)

    def numbers(self, outputs: int, noise: Noise) -> int:
        """Return how many independent numbers xi consists of.

        Several numbers are a vector, whose length may depend on the outputs.
        """
        return 1

    def outcomes(self, output: Output, rho: Fields, noise: Noise) -> Outcomes | None:
        """Return all labels that these fields may have, with their weights.

        None: xi has a continuous law.
        """
        law = self.law(noise)
        if law is None:
            return self.truth(output, rho)[None], jnp.ones(1)
        enumerated = law.enumerated()
        if enumerated is None:
            return None
        values, weights = enumerated

        def label_of(xi: Draw) -> Label:
            return self.label(output, rho, xi, noise)

        return jax.vmap(label_of)(jnp.asarray(values)), jnp.asarray(weights)

    def placed(self, label: Label, output: Output, noise: Noise) -> Array | None:
        """Return the normal numbers that make a label from an output, entry by entry.

        None: no formula gives them.
        """
        return None


class Real(Labels):
    """The teacher's output plus the problem's `noise`.

    The noise is a factor of a standard normal number, or a quantile function.
    """

    def law(self, noise: Noise) -> Law | None:
        return Quantile(noise) if callable(noise) else Normal()

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        if xi is None:
            return jnp.asarray(output)
        if callable(noise):
            return output + xi
        return output + noise * xi

    def numbers(self, outputs: int, noise: Noise) -> int:
        return 1 if callable(noise) else outputs

    def placed(self, label: Label, output: Output, noise: Noise) -> Array | None:
        if callable(noise):
            return jnp.asarray(Quantile(noise).to_normal(label - output))
        sigma = jnp.asarray(noise, float)
        return (label - output) / jnp.where(sigma > 0, sigma, 1.0)

    @staticmethod
    def with_two_moments(output: Output, noise: Noise) -> Outcomes:
        """Return a few labels with the mean and the covariance of all labels.

        They are enough for averages of squares.
        """
        halves = jnp.full(2, 0.5)
        if callable(noise):
            # Simulations also record the squared loss of noise of infinite variance: it
            # is infinite.
            table = quantile_table(noise)
            deviations = np.sqrt(table.variance) * np.array([-1.0, 1.0])
            return output + table.mean + jnp.asarray(deviations), halves
        if jnp.ndim(output) == 0:
            return output + noise * jnp.array([-1.0, 1.0]), halves
        outputs = jnp.shape(output)[0]
        axes = np.concatenate([np.eye(outputs), -np.eye(outputs)])
        deviations = np.sqrt(outputs) * axes
        weights = jnp.full(2 * outputs, 1 / (2 * outputs))
        return output + noise * jnp.asarray(deviations), weights


class Sign(Labels):
    """The sign of the teacher's output, -1 or 1, flipped at random.

    Parameters
    ----------
    flip : float or schedule
        The probability that a sign is flipped.
    """

    kind: ClassVar[str] = "sign"
    flip: Any = checks.number_field(
        "flip", checks.require_probability, schedule=True, default=0.0
    )

    def law(self, noise: Noise) -> Law | None:
        signs = np.array([1.0, -1.0])
        if callable(self.flip):
            # a placeholder: `Problem.labeled_at` puts the number of each time
            return Discrete(signs, np.array([0.5, 0.5]))
        if not checks.is_traced(self.flip) and float(self.flip) == 0:
            return None
        flip = jnp.asarray(self.flip, float)
        return Discrete(signs, jnp.stack([1.0 - self.flip, flip]))

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        sign = jnp.where(output < 0, -1.0, 1.0)
        return sign if xi is None else sign * xi


class Logistic(Labels):
    """A Bernoulli label by a logistic link.

    The label is 1 with probability 1 / (1 + exp(-slope output)), else -1.

    Parameters
    ----------
    slope : float
        The slope of the link.
    """

    kind: ClassVar[str] = "sign"
    slope: ArrayLike = checks.number_field(
        "slope", checks.require_positive, default=1.0
    )

    def law(self, noise: Noise) -> Law | None:
        return UNIFORM

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        if xi is None:
            is_positive = output >= 0
        else:
            is_positive = xi < jax.nn.sigmoid(self.slope * output)
        return jnp.where(is_positive, 1.0, -1.0)

    def outcomes(self, output: Output, rho: Fields, noise: Noise) -> Outcomes:
        p = jax.nn.sigmoid(self.slope * output)
        return jnp.array([1.0, -1.0]), jnp.stack([p, 1.0 - p])


class Argmax(Labels):
    """The one-hot vector of the teacher's largest output (two outputs or more).

    Examples
    --------
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
    """A custom label function: any multi-index target.

    If the label depends on xi, the error is averaged over xi too, because the function
    does not say which part of xi is noise.

    Parameters
    ----------
    function : function
        A JAX function label(rho, xi) of the teacher's fields (M,) and a number xi,
        uniform on (0, 1).
    metric : str
        "squared" (E[(student - label)^2] / 2) or "class" (the probability that the
        signs differ).
    fields : int, optional
        M, which a `Problem` fills in.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> def parity(rho, xi):
    ...     return jnp.sign(rho[0] * rho[1] * rho[2])
    >>> labels = tu.labels.Function(parity, metric="class")
    >>> float(labels.label(None, jnp.array([1.0, -2.0, 0.5]), 0.5, 0.0))
    -1.0
    """

    function: Callable[[Array, Array], Array]
    judged_by: str = eqx.field(static=True)
    # True if the label depends on xi; None: not known yet
    random: bool | None = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[Array, Array], Array],
        metric: str = "squared",
        *,
        fields: int | None = None,
    ):
        self.function = checks.as_kind(
            "the label", function, Callable, "a JAX function label(rho, xi)"
        )
        self.judged_by = checks.known("metric", metric, METRICS)
        self.random = None if fields is None else _uses_xi(self.function, fields)

    def arguments(self) -> Table:
        return {"function": self.function, "metric": self.judged_by}

    @property
    def metric(self) -> str:
        """The error of a trajectory: "squared" or "class"."""
        return self.judged_by

    def for_fields(self, M: int) -> "Function":
        """Return the labels for M fields, after trying the function on some of them.

        A function that does not depend on the fields raises `InputError`; `random` then
        says whether it depends on xi.
        """
        rho = jnp.asarray(np.random.default_rng(0).standard_normal((PROBES, M)))
        xi = jnp.asarray((np.arange(PROBES) + 0.5) / PROBES)
        name = f"the label function {checks.name_of(self.function)!r}"
        labels_of = jax.vmap(self.function)
        fails = f"{name} fails on {M} teacher field{'s' * (M > 1)}"
        fix = "write it with jax.numpy, as label(rho, xi) with rho (M,)."
        with explained(fails, fix):
            labels = np.asarray(labels_of(rho, xi))
            labels_at_fixed_xi = np.asarray(labels_of(rho, jnp.full(PROBES, 0.37)))
        if labels.ndim > 2:
            raise InputError(
                f"{name} returns shape {labels.shape[1:]}; "
                "it must return a number or a vector."
            )
        if not np.all(np.isfinite(labels)):
            raise InputError(
                f"{name} returns NaN or infinity; every label must be a finite number."
            )
        if np.ptp(labels_at_fixed_xi, axis=0).max() == 0:
            constant = checks.shown(labels_at_fixed_xi[0])
            raise InputError(
                f"{name} returns {constant} whatever the teacher fields are; "
                "a label must depend on rho."
            )
        return Function(self.function, self.judged_by, fields=M)

    def law(self, noise: Noise) -> Law | None:
        return None if self.random is False else UNIFORM

    def label(self, output: Output, rho: Fields, xi: Draw, noise: Noise) -> Label:
        if xi is None:
            xi = jnp.asarray(0.5)
        return jnp.asarray(self.function(rho, xi), float)


def _uses_xi(function: Callable[[Array, Any], Array], M: int) -> bool:
    """Return True if a label function reads xi.

    It is traced with an object that is not a number, because a few values of xi would
    not show a rare event.
    """
    try:
        jax.eval_shape(lambda rho: function(rho, object()), jnp.zeros(M))
    except Exception:
        return True
    return False


NAMED_LABELS: dict[str, type[Labels]] = by_name(Real, Sign, Logistic, Argmax)
as_labels = Choice(
    name="labels",
    base=Labels,
    named=NAMED_LABELS,
    default="real",
    others="labels such as labels.Sign(0.1), or a JAX function label(rho, xi)",
    wrapper=Function,
)
