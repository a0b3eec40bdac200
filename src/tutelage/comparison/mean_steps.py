"""The mean of one step of SGD at finite N, next to a solved curve.

A step moves the student vectors of level l, on average and for one sample, by
Y_l = eta lam_l (A|B) along all vectors (students, then teachers). With weight decay
kappa it is X_l = eta (lam_l (A|B) - kappa (1|0)). The limit of large N keeps the terms
of order N of q_l = W P_l W^T / (N p_l). What one step adds to q_l beyond them, times
N^2, is

    c_l = X_l C_l X_l^T - Y_l C_l Y_l^T / batch
          + 2 (eta^2 / batch) lam_l dG[lam_l C_l],

with C_l the overlaps of all vectors in level l. The first term is the square of the
mean step. The others correct E[delta delta^T |x_l|^2]: given its fields, the length of
an input is not exactly sqrt(N). dG[...] is the derivative of G along a change of the
overlaps (docs/compare.md, "The finite-N bias").
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.stream.linearized import DIFFERENCES, LocalDynamics
from tutelage.stream.moments.matrices import joint_covariance
from tutelage.stream.order_parameters import OrderParameters, Overlaps
from tutelage.stream.validity import INSTANTS
from tutelage.training.schedules import rate_at

LENGTH_STEP = 1e-3  # relative change of a level's overlaps, for the derivative of G


@dataclass(frozen=True)
class MeanSteps:
    """The mean of one step at each instant, by level.

    Attributes
    ----------
    along : array (instant, L, K, n)
        X, the movement of each student along all n = K + M vectors.
    overlaps : array (instant, L, n, n)
        C, of all vectors.
    beyond : array (instant, L, K, K)
        c, N^2 times what the mean step adds to q beyond the limit.
    """

    along: Float[np.ndarray, "instant L K n"]
    overlaps: Float[np.ndarray, "instant L n n"]
    beyond: Float[np.ndarray, "instant L K K"]


class UpdateAverages(NamedTuple):
    """Averages of an update at the instants, which are the leading axis.

    A number without this axis is the same at all instants.

    eta: the rate of the vectors. pull: eta kappa, of weight decay. forces: (A|B).
    noise_slopes: dG[lam_l C_l] of each level l.
    """

    eta: ArrayLike
    pull: ArrayLike
    forces: Float[NumpyOrJax, "instant K n"]
    noise_slopes: Float[NumpyOrJax, "instant L K K"]


def mean_steps(
    local: LocalDynamics, times: Float[np.ndarray, " instant"], states: Overlaps
) -> MeanSteps:
    """Return X, C and c at each instant (see the head of this file)."""
    if local.committee is not None:
        averages = _averages_of_committee(local, states)
    else:
        averages = _averages_in_jax(local.system, times, states)
    problem = local.system.problem
    eta = np.asarray(averages.eta).reshape(-1, 1, 1, 1)
    pull = np.asarray(averages.pull).reshape(-1, 1, 1, 1)
    forces = np.asarray(averages.forces)
    noise_slopes = np.asarray(averages.noise_slopes)
    lam = np.asarray(problem.inputs.eigenvalues)[:, None, None]
    batch = float(problem.optimizer.batch)
    C = joint_covariance(states.r, states.q, local.system.t)
    Y = eta * lam * forces[:, None]
    X = Y - pull * np.eye(*forces.shape[1:])
    square_of_mean = X @ C @ np.swapaxes(X, -1, -2)
    square_of_one = Y @ C @ np.swapaxes(Y, -1, -2) / batch
    squares = square_of_mean - square_of_one
    lengths = 2 * (eta**2 / batch) * lam * noise_slopes
    return MeanSteps(along=X, overlaps=C, beyond=squares + lengths)


def _averages_of_committee(local: LocalDynamics, states: Overlaps) -> UpdateAverages:
    """Average by machine code, at once for all instants; dG by central differences."""
    assert local.committee is not None
    system = local.system
    committee = local.committee.constants
    K = committee.K
    derivatives = system.error_derivatives(states)
    C = joint_covariance(*system.covariances(states))
    lam = committee.lam[: committee.L, None, None]
    directions = lam * joint_covariance(states.r, states.q, system.t)
    distances = LENGTH_STEP * np.arange(1, DIFFERENCES.size + 1)
    moved = distances[:, None, None, None, None] * directions
    # axes: side, distance, instant, level, vector, vector
    covariances = C[:, None] + np.stack([moved, -moved])
    lead = covariances.shape[:4]
    readouts = np.broadcast_to(states.readout[:, None], (*lead, K))
    G = local.committee.update_covariances(
        covariances.reshape(-1, *C.shape[1:]), readouts.reshape(-1, K)
    )
    ahead, behind = G.reshape(*lead, K, K)
    return UpdateAverages(
        eta=committee.eta,
        pull=committee.pull,
        forces=np.concatenate([derivatives.A, derivatives.B], axis=-1),
        noise_slopes=np.tensordot(DIFFERENCES, ahead - behind, 1) / LENGTH_STEP,
    )


def _averages_in_jax(
    system: OrderParameters, times: Float[np.ndarray, " instant"], states: Overlaps
) -> UpdateAverages:
    """Average by a compiled program, always for as many instants.

    The last instant is repeated, so that one program serves any number of them.
    """
    places = np.minimum(np.arange(INSTANTS), times.size - 1)
    padded_states = jax.tree.map(lambda x: x[places], states)
    averages = _compiled_averages(system, times[places], padded_states)
    return jax.tree.map(lambda x: x[: times.size], averages)


@eqx.filter_jit
def _compiled_averages(
    system: OrderParameters, times: NumpyOrJax, states: Overlaps
) -> UpdateAverages:
    """Average at each of the instants."""
    problem = system.problem
    lam = jnp.asarray(problem.inputs.eigenvalues)[:, None, None]

    def averages_at(instant: tuple[Array, Overlaps]) -> UpdateAverages:
        time, state = instant
        eta = system.rates(time)[0]
        mean_update, _ = system.matrices(state, time)

        def update_covariance(R: Array, Q: Array, T: Array) -> Array:
            field_state = system.field_state(R, Q, T, state.readout, state.bias, time)
            # steps are noisy even if the theory is that of gradient flow
            _, G = system.moments.matrices(field_state, False)
            return G

        def noise_slope(r: Array, q: Array, t: Array) -> Array:
            overlaps = system.covariances(state)
            return jax.jvp(update_covariance, overlaps, (r, q, t))[1]

        return UpdateAverages(
            eta=eta,
            pull=eta * rate_at(problem.optimizer.weight_decay, time),
            forces=jnp.concatenate([mean_update.A, mean_update.B], axis=1),
            noise_slopes=jax.vmap(noise_slope)(
                lam * state.r, lam * state.q, lam * system.t
            ),
        )

    return jax.lax.map(averages_at, (times, states))
