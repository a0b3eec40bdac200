"""A two-layer network without its first-layer weights."""

from collections.abc import Sequence
from typing import Any, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Part, common_entry, special_arguments
from tutelage._types import Array, Numbers, NumpyOrJax, Table
from tutelage.errors import InputError
from tutelage.problem.activation import (
    Activation,
    ActivationLike,
    ActivationPerUnit,
    as_activation,
    per_unit,
)

MOST_UNITS = 10_000  # the overlaps of all pairs of units must fit into memory


class References(Protocol):
    """The vectors that the columns of R belong to, with their readouts and biases.

    A `Network`, several teachers (`Tasks`) and the `Vectors` of a mixture are
    references. gram: their overlaps; None: the identity.
    """

    @property
    def hidden(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def readout(self) -> Float[NumpyOrJax, "*outputs hidden"]: ...
    @property
    def bias(self) -> Float[NumpyOrJax, " hidden"] | None: ...
    @property
    def gram(self) -> Float[NumpyOrJax, "*L hidden hidden"] | None: ...


class Vectors(eqx.Module):
    """Reference vectors of which some have no readout, such as means of classes."""

    hidden: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    readout: Float[NumpyOrJax, "*outputs hidden"]
    bias: Float[NumpyOrJax, " hidden"] | None
    gram: Float[NumpyOrJax, "*L hidden hidden"] | None


class Network(Part):
    """A student or a teacher: output = sum_k v_k g(w_k . x / sqrt(N) + b_k).

    Parameters
    ----------
    hidden : int
        Number of hidden units.
    activation : str, function or tuple
        A name, a JAX function, or a tuple with one for each unit.
    readout : float or array
        v: one number for all units, one for each, or (outputs, hidden). Default: 1;
        the identity if outputs = hidden > 1.
    bias : float or array, optional
        Hidden biases b. Default: none.
    train_readout, train_bias : bool
        Train the readout, or the biases (from zero if bias is None), of the student.
    gram : array, optional
        Overlaps T of the teacher vectors, (M, M) or per level (L, M, M). Default: T of
        the `Start`, else the identity.
    unseen : array (M, M), optional
        Covariance of a Gaussian part of the teacher's fields that is independent of the
        input; no student can learn it.
    outputs : int
        Number of outputs.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.Network(3, "relu", readout=1 / 3)
    Network(3, 'relu', readout=0.333333)
    >>> tu.Network(2, "tanh", readout=[1.0, -1.0], train_readout=True)
    Network(2, 'tanh', readout=[1.0, -1.0], train_readout=True)
    >>> tu.Network(3, "linear", outputs=3).readout.shape        # one output per unit
    (3, 3)
    """

    hidden: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    readout: Float[NumpyOrJax, "*outputs hidden"]
    train_readout: bool = eqx.field(static=True)
    bias: Float[NumpyOrJax, " hidden"] | None
    train_bias: bool = eqx.field(static=True)
    gram: Float[NumpyOrJax, "*L hidden hidden"] | None
    unseen: Float[NumpyOrJax, "hidden hidden"] | None

    def __init__(
        self,
        hidden: int,
        activation: ActivationLike | Sequence[ActivationLike] = "erf",
        *,
        outputs: int = 1,
        readout: Numbers | None = None,
        train_readout: bool = False,
        bias: Numbers | None = None,
        train_bias: bool = False,
        gram: Numbers | None = None,
        unseen: Numbers | None = None,
    ):
        self.hidden = checks.as_count(
            "hidden (the number of hidden units)", hidden, most=MOST_UNITS
        )
        self.activation = _layer_activation(activation, self.hidden)
        self.outputs = checks.as_count("outputs", outputs)
        self.readout = _readout(readout, self.outputs, self.hidden)
        self.train_readout = checks.as_flag("train_readout", train_readout)
        self.train_bias = checks.as_flag("train_bias", train_bias)
        if bias is None and train_bias:
            bias = 0.0
        self.bias = _numbers_per_unit("bias", bias, self.hidden)
        self.gram = as_gram(gram, self.hidden)
        self.unseen = checks.as_array(
            "unseen",
            unseen,
            checks.require_gram,
            shapes=[(self.hidden, self.hidden)],
            fix="A covariance of the fields of all units.",
            optional=True,
        )

    def require_fixed(self) -> None:
        """Refuse trained parameters, for a teacher does not learn."""
        for name in ("train_readout", "train_bias"):
            if getattr(self, name):
                raise InputError(
                    f"{name} is True on a teacher; only the student can learn. "
                    "Leave it out."
                )

    def output(
        self, fields: Float[Array, " hidden"], readout: NumpyOrJax | None = None
    ) -> Float[Array, "*outputs"]:
        """Return the output for fields that include the biases.

        It is a number for one output, else an array (outputs,).
        """
        if readout is None:
            readout = self.readout
        return jnp.asarray(readout) @ self.activation(fields)

    def arguments(self) -> Table:
        """Return the constructor arguments in their shortest form.

        A readout or bias that all units share is one number, the default readout is
        None.
        """
        activation = self.activation
        if isinstance(activation.function, ActivationPerUnit):
            activation = activation.function.units
        readout = common_entry(self.readout)
        default = np.eye(self.hidden) if self.outputs > 1 else 1.0
        if not checks.is_traced(readout) and np.array_equal(readout, default):
            readout = None
        return super().arguments() | {
            "activation": activation,
            "readout": readout,
            "bias": common_entry(self.bias),
        }

    def __repr__(self) -> str:
        words = [str(self.hidden), repr(self.activation.name)]
        for name, value in special_arguments(self).items():
            if name not in ("hidden", "activation"):
                words.append(f"{name}={checks.shown(value)}")
        return f"Network({', '.join(words)})"


def _layer_activation(
    value: ActivationLike | Sequence[ActivationLike], hidden: int
) -> Activation:
    """Convert one activation for all units, or a sequence with one for each."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return as_activation(value)
    if len(value) != hidden:
        raise InputError(
            f"{len(value)} activations are given for {hidden} hidden units; "
            "give one for all, or one each."
        )
    activations = [as_activation(unit) for unit in value]
    if all(activation == activations[0] for activation in activations):
        return activations[0]
    return per_unit(activations)


def _readout(
    value: Numbers | None, outputs: int, hidden: int
) -> Float[NumpyOrJax, "*outputs hidden"]:
    """Convert the readout: (hidden,) for one output, else (outputs, hidden)."""
    if outputs == 1:
        return _numbers_per_unit("readout", 1.0 if value is None else value, hidden)
    if value is None and outputs == hidden:
        return np.eye(hidden)
    if value is None:
        raise InputError(
            f"{outputs} outputs of {hidden} hidden units have no default; "
            f"give readout of shape ({outputs}, {hidden})."
        )
    return checks.as_array(
        "readout",
        value,
        checks.require_finite,
        shapes=[(outputs, hidden)],
        fix="One row per output, one column per hidden unit.",
    )


def _numbers_per_unit(name: str, value: Numbers | None, hidden: int) -> Any:
    """Convert one number for all units, or one for each, to an array (hidden,)."""
    array = checks.as_array(
        name,
        value,
        checks.require_finite,
        shapes=[(), (hidden,)],
        fix="One number for all units, or one each.",
        optional=True,
    )
    if array is not None and np.ndim(array) == 0:
        return array * np.ones(hidden)
    return array


def as_gram(gram: Numbers | None, units: int) -> Float[NumpyOrJax, "*L M M"] | None:
    """Convert the overlaps of teacher units: one matrix, or one per level."""
    return checks.as_array(
        "gram",
        gram,
        checks.require_gram,
        shapes=[(units, units), ("levels", units, units)],
        fix=f"One row and column for each of the {units} units.",
        optional=True,
    )
