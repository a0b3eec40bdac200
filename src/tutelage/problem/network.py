"""A two-layer network without its first-layer weights: hidden units, activation, readout, biases."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Part, common_entry, special_arguments
from tutelage._types import Array, Numbers, NumpyOrJax, Table
from tutelage.errors import InputError
from tutelage.problem.activation import Activation, ActivationLike, ActivationPerUnit, as_activation, per_unit

MOST_UNITS = 10_000  # the overlaps are the square of it


class Network(Part):
    """A student or a teacher: output = sum_k v_k g(w_k . x / sqrt(N) + b_k).

    Parameters
    ----------
    hidden : int
        Number of hidden units.
    activation : str, function or tuple
        A name, a JAX function, or a tuple with one for each unit.
    readout : float or array
        v: one number for all units, one for each, or (outputs, hidden). Default: 1; the identity if outputs = hidden > 1.
    bias : float or array, optional
        Hidden biases b. Default: none.
    train_readout, train_bias : bool
        Train the readout, or the biases (from zero if bias is None), of the student.
    gram : array, optional
        Overlaps T of the teacher vectors, (M, M) or per level (L, M, M). Default: T of the `Start`, else the identity.
    unseen : array (M, M), optional
        Covariance of a Gaussian part of the teacher's fields that is independent of the input; no student can learn it.
    outputs : int
        Number of outputs.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.Network(3, "relu", readout=1 / 3)
    Network(3, 'relu', readout=0.333333)
    >>> tu.Network(2, "tanh", readout=[1.0, -1.0], train_readout=True)
    Network(2, 'tanh', readout=[1.0, -1.0], train_readout=True)
    >>> tu.Network(3, "linear", outputs=3).readout.shape                       # one output per unit
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
        self.hidden = checks.as_count("hidden (the number of hidden units)", hidden, most=MOST_UNITS)
        self.activation = _activation(activation, self.hidden)
        self.outputs = checks.as_count("outputs", outputs)
        self.readout = _readout(readout, self.outputs, self.hidden)
        self.train_readout = checks.as_flag("train_readout", train_readout)
        self.train_bias = checks.as_flag("train_bias", train_bias)
        self.bias = _per_unit("bias", 0.0 if bias is None and train_bias else bias, self.hidden)
        self.gram = as_gram(gram, self.hidden)
        shapes, fix = [(self.hidden, self.hidden)], "A covariance of the fields of all units."
        self.unseen = checks.as_array("unseen", unseen, checks.require_gram, shapes=shapes, fix=fix, optional=True)

    def require_fixed(self) -> None:
        """A teacher does not learn."""
        for name in ("train_readout", "train_bias"):
            if getattr(self, name):
                raise InputError(f"{name} is True on a teacher; only the student can learn. Leave it out.")

    def output(self, fields: Float[Array, " hidden"], readout: NumpyOrJax | None = None) -> Float[Array, "*outputs"]:
        """The output for fields (hidden,), biases included: a number, or (outputs,) if there are several."""
        return jnp.asarray(self.readout if readout is None else readout) @ self.activation(fields)

    def arguments(self) -> Table:
        """With a readout or bias that all units share as one number, and None for the usual readout."""
        g, readout = self.activation.function, common_entry(self.readout)
        usual = np.eye(self.hidden) if self.outputs > 1 else 1.0
        return super().arguments() | {
            "activation": g.units if isinstance(g, ActivationPerUnit) else self.activation,
            "readout": None if not checks.is_traced(readout) and np.array_equal(readout, usual) else readout,
            "bias": common_entry(self.bias),
        }

    def __repr__(self) -> str:
        options = {n: v for n, v in special_arguments(self).items() if n not in ("hidden", "activation")}
        words = [str(self.hidden), repr(self.activation.name)]
        return f"Network({', '.join(words + [f'{name}={checks.shown(value)}' for name, value in options.items()])})"


def _activation(value: ActivationLike | Sequence[ActivationLike], hidden: int) -> Activation:
    """One activation for all units, or one each."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return as_activation(value)
    if len(value) != hidden:
        raise InputError(f"{len(value)} activations are given for {hidden} hidden units; give one for all, or one each.")
    each = [as_activation(one) for one in value]
    return each[0] if all(one == each[0] for one in each) else per_unit(each)


def _readout(value: Numbers | None, outputs: int, hidden: int) -> Float[NumpyOrJax, "*outputs hidden"]:
    if outputs == 1:
        return _per_unit("readout", 1.0 if value is None else value, hidden)
    if value is None:
        if outputs != hidden:
            given = f"{outputs} outputs of {hidden} hidden units have no default"
            raise InputError(f"{given}; give readout of shape ({outputs}, {hidden}).")
        return np.eye(hidden)
    fix = "One row per output, one column per hidden unit."
    return checks.as_array("readout", value, checks.require_finite, shapes=[(outputs, hidden)], fix=fix)


def _per_unit(name: str, value: Numbers | None, hidden: int) -> Any:
    shapes, fix = [(), (hidden,)], "One number for all units, or one each."
    array = checks.as_array(name, value, checks.require_finite, shapes=shapes, fix=fix, optional=True)
    return array * np.ones(hidden) if array is not None and np.ndim(array) == 0 else array


def as_gram(gram: Numbers | None, units: int) -> Float[NumpyOrJax, "*L M M"] | None:
    """Overlaps of so many teacher units: one matrix, or one per level."""
    shapes, fix = [(units, units), ("levels", units, units)], f"One row and column for each of the {units} units."
    return checks.as_array("gram", gram, checks.require_gram, shapes=shapes, fix=fix, optional=True)
