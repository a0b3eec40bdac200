"""(1 - s J)^-1 for the dynamics of overlaps, in O(L): what an implicit method needs at every step.

The levels talk to each other only through the fields z = (R, Q, v, b), on which A, B, G depend. So the Jacobian J of the
drift is diagonal over levels, apart from a part of low rank: with primes for changes,
    r'_l -> eta (lam_l (A r'_l + A' r_l + B' t_l) - kappa r'_l),
    q'_l -> eta (lam_l (A q'_l + B r'_l^T + A' q_l + B' r_l^T) - kappa q'_l) + transpose + (eta^2 / batch) lam_l G',
where A', B', G' are linear in z' = (sum_l p_l lam_l r'_l, sum_l p_l lam_l q'_l, v', b'). A is symmetric (A / 2 is minus the
gradient of e_g with respect to Q), so one eigen-decomposition of this K x K matrix makes every level diagonal; what remains
is one dense system for z', of K M + K (K + 1) / 2 numbers (and K for readouts or biases that learn).
Frozen levels have rate zero. Masks that differ between the students of a level, vectors on a sphere and slow momentum
do not have this form (`unsuited`).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps
from tutelage.problem import Problem
from tutelage.problem.traits import CLASSIC, missing_traits, said_instead

TOGETHER = 2**24  # numbers that the derivatives of G may hold at a time


def unsuited(problem: Problem) -> str | None:
    """Why the dynamics of a problem does not have this form; None if it has."""
    missing = missing_traits(problem, (*CLASSIC, "fixed momentum", "free norms"))
    if missing:
        return said_instead(problem, missing[:1])
    if {"noise", "weight_decay"} & set(problem.schedules()):
        return "the label noise or the weight decay is a schedule"
    mask = problem.trainable_mask()
    if mask is not None and np.any(mask != mask[:, :1]):
        return "trainable differs between student units of one level"
    return None


class Fields(eqx.Module):
    """What A, B, G depend on, or a change of it: R, the upper triangle of Q, and the readout and bias if they learn."""

    R: Float[Array, "K M *z"]
    Q: Float[Array, " pairs *z"]
    readout: Float[Array, " K *z"] | None
    bias: Float[Array, " K *z"] | None


class Controls(eqx.Module):
    """What drives the levels, readout and bias; or a change of it."""

    A: Float[Array, "K K *z"]
    B: Float[Array, "K M *z"]
    G: Float[Array, "K K *z"]
    readout: Float[Array, " K *z"]
    bias: Float[Array, " K *z"]


def resolvent(system: OrderParameters, t: ArrayLike, state: Overlaps, shift: ArrayLike) -> Callable[[Overlaps], Overlaps]:
    """x -> (1 - shift J)^-1 x, with J the derivative of the drift at this time and state. Differentiable in everything."""
    numbers, functions = eqx.partition((system, t, state, shift), eqx.is_array)  # a rate may be a function
    levels = Levels(*eqx.combine(jax.lax.stop_gradient(numbers), functions))
    solve = jax.lax.stop_gradient(levels).solve  # a function may hold traced numbers of its own

    def apply(x: Overlaps) -> Overlaps:
        moved = jax.jvp(lambda y: system.drift(t, y), (state,), (x,))[1]
        return jax.tree.map(lambda a, b: a - shift * b, x, moved)

    def transposed(_: object, x: Overlaps) -> Overlaps:
        return jax.linear_transpose(solve, x)(x)[0]

    return lambda x: jax.lax.custom_linear_solve(apply, x, lambda _, b: solve(b), transposed)


class Levels(eqx.Module):
    """J at a state in the eigenbasis of A, level by level, and the dense system for the change of the fields."""

    basis: Float[Array, "K K"]  # columns are eigenvectors of A
    weights: Float[Array, " L"]  # p_l lam_l
    force: Float[Array, "L 1 1"]  # shift eta lam_l
    noise: Float[Array, ""]  # eta / batch
    shrink_r: Float[Array, "L K 1"]  # 1 / (1 - shift eta (lam_l a_k - kappa))
    shrink_q: Float[Array, "L K K"]  # 1 / (1 - shift eta (lam_l (a_i + a_j) - 2 kappa))
    r: Float[Array, "L K M"]
    q: Float[Array, "L K K"]
    t: Float[Array, "L M M"]
    B: Float[Array, "K M"]
    rates: tuple[Float[Array, ""], Float[Array, ""]]  # shift eta_v, shift eta_b
    slopes: Controls  # d controls / d fields: a last axis more
    dense: tuple[Array, Array]  # LU of the system for the change of the fields
    trained: tuple[bool, bool] = eqx.field(static=True)

    def __init__(self, system: OrderParameters, t: ArrayLike, state: Overlaps, shift: ArrayLike):
        problem, shift = system.problem, jnp.asarray(shift)
        inputs, sgd, student = problem.inputs, problem.sgd, problem.student
        self.trained = student.train_readout, student.train_bias and state.bias is not None
        now, slopes = self._controls(system, state)
        values, self.basis = jnp.linalg.eigh(now.A)
        turn = self.basis.T
        eta, eta_v, eta_b = system.rates(t)
        mask, lam = problem.trainable_mask(), jnp.asarray(inputs.eigenvalues)[:, None, None]
        eta_l = shift * eta * (1.0 if mask is None else jnp.asarray(mask)[:, :1, None])
        kappa = sgd.weight_decay
        self.weights, self.force, self.noise = jnp.asarray(inputs.weights), eta_l * lam, eta / sgd.batch
        self.shrink_r = 1 / (1 - eta_l * (lam * values[:, None] - kappa))
        self.shrink_q = 1 / (1 - eta_l * (lam * (values[:, None] + values) - 2 * kappa))
        self.r, self.q, self.t, self.B = turn @ state.r, turn @ state.q @ self.basis, system.t, turn @ now.B
        self.rates = shift * eta_v, shift * eta_b
        A, G = (jnp.einsum("ia,ijz,jb->abz", self.basis, x, self.basis) for x in (slopes.A, slopes.G))
        self.slopes = Controls(A, jnp.einsum("ia,imz->amz", self.basis, slopes.B), G, slopes.readout, slopes.bias)
        self.dense = jax.scipy.linalg.lu_factor(self._system())

    def _controls(self, system: OrderParameters, state: Overlaps) -> tuple[Controls, Controls]:
        """The controls at a state and their derivatives with respect to the fields."""
        R, Q, T = system.covariances(state)
        K = R.shape[0]
        flat, unravel = ravel_pytree(self._fields(R, Q, state.readout, state.bias))

        def controls(fields: Array) -> Controls:
            z = unravel(fields)
            readout = state.readout if z.readout is None else z.readout
            bias = state.bias if z.bias is None else z.bias
            p, G = system.matrices_at(z.R, _symmetric(z.Q, K), T, readout, bias)
            return Controls(p.A, p.B, G, p.readout, p.bias)

        now, along = jax.linearize(controls, flat)
        together = max(1, TOGETHER // (K * sum(R.shape)) ** 2)  # G is a sum of (K (K + M))^2 terms
        rows = jax.lax.map(along, jnp.eye(flat.size), batch_size=min(together, flat.size))
        return now, jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), rows)

    def _fields(self, R: Array, Q: Array, readout: Array, bias: Array | None) -> Fields:
        rows, columns = np.triu_indices(Q.shape[0])
        return Fields(R, Q[rows, columns], readout if self.trained[0] else None, bias if self.trained[1] else None)

    def _system(self) -> Float[Array, "z z"]:
        """1 - d(change of the fields) / d(fields that were assumed), by sums over levels of K^3 numbers each."""
        w, f, A, B, G = self.weights, self.force, self.slopes.A, self.slopes.B, self.slopes.G
        to_r, to_q = (w[:, None, None] * f * x for x in (self.shrink_r, self.shrink_q))
        through = to_q * f * jnp.swapaxes(self.shrink_r, 1, 2)  # q_l moves with r_l
        t_B, r_B = self.B @ self.t, self.B @ jnp.swapaxes(self.r, 1, 2)
        sums = jnp.einsum
        R = sums("kjz,kjm->kmz", A, sums("lk,ljm->kjm", to_r[:, :, 0], self.r))
        R += sums("kjz,kjm->kmz", B, sums("lk,ljm->kjm", to_r[:, :, 0], self.t))
        Q = sums("inz,inj->ijz", A, sums("lij,lnj->inj", to_q, self.q))
        Q += sums("imz,ijm->ijz", B, sums("lij,ljm->ijm", to_q, self.r))
        Q += sums("jnz,ijn->ijz", A, sums("lij,lin->ijn", through, r_B))
        Q += sums("jnz,ijn->ijz", B, sums("lij,lin->ijn", through, t_B))
        Q += jnp.swapaxes(Q, 0, 1) + self.noise * to_q.sum(axis=0)[:, :, None] * G
        R, Q = sums("ai,imz->amz", self.basis, R), sums("ai,ijz,bj->abz", self.basis, Q, self.basis)
        moved = self._fields(R, Q, self.rates[0] * self.slopes.readout, self.rates[1] * self.slopes.bias)
        flat = jnp.concatenate([x.reshape(-1, R.shape[-1]) for x in jax.tree.leaves(moved)])
        return jnp.eye(len(flat)) - flat

    def solve(self, x: Overlaps) -> Overlaps:
        """(1 - shift J)^-1 x."""
        turn, back = self.basis.T, self.basis
        r, q = turn @ x.r, turn @ x.q @ back
        free = self._alone(r, q)
        R, Q = (jnp.einsum("l,lab->ab", self.weights, y) for y in free)
        flat = ravel_pytree(self._fields(back @ R, back @ Q @ turn, x.readout, x.bias))[0]
        fields = jax.scipy.linalg.lu_solve(self.dense, flat)
        change = jax.tree.map(lambda slope: slope @ fields, self.slopes)
        push = change.A @ self.q + change.B @ jnp.swapaxes(self.r, 1, 2)
        r = r + self.force * (change.A @ self.r + change.B @ self.t)
        q = q + self.force * (push + jnp.swapaxes(push, 1, 2) + self.noise * change.G)
        r, q = self._alone(r, q)
        readout = x.readout + self.rates[0] * change.readout if self.trained[0] else x.readout
        bias = x.bias + self.rates[1] * change.bias if self.trained[1] and x.bias is not None else x.bias
        return Overlaps(back @ r, back @ q @ turn, readout, bias, None)

    def _alone(
        self, r: Float[Array, "L K M"], q: Float[Array, "L K K"]
    ) -> tuple[Float[Array, "L K M"], Float[Array, "L K K"]]:
        """Each level for itself, with A, B, G as they are."""
        r = self.shrink_r * r
        push = self.B @ jnp.swapaxes(r, 1, 2)
        return r, self.shrink_q * (q + self.force * (push + jnp.swapaxes(push, 1, 2)))


def _symmetric(upper: Float[Array, " pairs"], K: int) -> Float[Array, "K K"]:
    rows, columns = np.triu_indices(K)
    return jnp.zeros((K, K)).at[rows, columns].set(upper).at[columns, rows].set(upper)
