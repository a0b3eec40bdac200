"""Muon: the gradient of a layer, made orthogonal."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array
from tutelage.errors import InputError
from tutelage.training.optimizers.base import Optimizer, as_static_batch

SWEEPS = 7  # of Jacobi's method; it converges quadratically
RANK_TOLERANCE = 1e-12  # share of the largest eigenvalue below which one is zero


class Muon(Optimizer):
    """Muon: the gradient matrix of the first layer, with all singular values set to one.

    With the gradient G = sum_b delta_b x_b^T of a batch, a matrix (K, N),

        W += eta (G G^T)^(-1/2) G

    where the pseudo-inverse is taken. The batch must have at least as many samples as
    there are hidden units. Readout and biases follow plain SGD with means over the batch.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples in the sum of a step, at least the number K of hidden units.
    weight_decay, readout_lr, bias_lr
        As in `SGD`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.Muon(0.3, batch=4)
    Muon(lr=0.3, batch=4)
    """

    kind: ClassVar[str] = "muon"
    on_stream: ClassVar[bool] = True
    fixed_batch: ClassVar[bool] = True
    trainable: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    # the theory averages over batches of this size: a number of the program
    batch: int = eqx.field(  # pyright: ignore[reportGeneralTypeIssues]
        static=True, converter=as_static_batch
    )

    def check_student(self, hidden: int) -> None:
        """Refuse a batch with fewer samples than hidden units."""
        if self.batch < hidden:
            raise InputError(
                f"batch is {self.batch} and the student has {hidden} hidden units; "
                f"Muon needs at least as many samples as units, such as batch={hidden}."
            )

    @property
    def averages_batches(self) -> bool:
        return True

    def responses(
        self, delta: Float[Array, "B K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "1 B K"]:
        """Return P = (F F^T)^(-1/2) F of F = delta^T."""
        return (delta @ inverse_root(delta.T @ delta))[None]

    def step_covariance(
        self, delta: Float[Array, "B K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "1 K K"]:
        """Return P P^T: the identity, unless the updates are linearly dependent."""
        P = self.responses(delta, eigenvalues)[0]
        return (P.T @ P)[None]


def inverse_root(S: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """Return the pseudo-inverse S^(-1/2) of a positive semidefinite matrix.

    Jacobi's method with a fixed number of rotations is elementwise arithmetic, which JAX
    computes for many small matrices at once; its own eigenvalues take a call for each.
    """
    K = S.shape[0]
    V = jnp.eye(K)
    for _ in range(SWEEPS if K > 2 else 1):
        for i in range(K):
            for j in range(i + 1, K):
                S, V = _rotated(S, V, i, j)
    values = jnp.diagonal(S)
    is_positive = values > RANK_TOLERANCE * jnp.max(values)
    inverse = jnp.where(
        is_positive, 1.0 / jnp.sqrt(jnp.where(is_positive, values, 1)), 0
    )
    return (V * inverse) @ V.T


def _rotated(
    S: Float[Array, "K K"], V: Float[Array, "K K"], i: int, j: int
) -> tuple[Float[Array, "K K"], Float[Array, "K K"]]:
    """Return S and V after the rotation that makes S_ij zero."""
    angle = 0.5 * jnp.arctan2(2.0 * S[i, j], S[j, j] - S[i, i])
    c = jnp.cos(angle)
    s = jnp.sin(angle)
    rotation = jnp.eye(S.shape[0])
    rotation = rotation.at[i, i].set(c).at[j, j].set(c)
    rotation = rotation.at[i, j].set(s).at[j, i].set(-s)
    return rotation.T @ S @ rotation, V @ rotation
