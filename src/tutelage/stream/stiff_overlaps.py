"""The stiff solver of the overlaps: the linear equations of each step, in O(L).

`resolvent` solves (1 - s J) x = b for the overlaps in O(L). The levels are coupled only
through the fields z = (R, Q, v, b), on which A, B, G depend. So J is diagonal over
levels, apart from a part of low rank: with primes for changes,
    r'_l -> eta (lam_l (A r'_l + A' r_l + B' t_l) - kappa r'_l),
    q'_l -> eta (lam_l (A q'_l + B r'_l^T + A' q_l + B' r_l^T) - kappa q'_l)
            + transpose + (eta^2 / batch) lam_l G',
where A', B', G' are linear in z' = (sum_l p_l lam_l r'_l, sum_l p_l lam_l q'_l, v',
b'). A is symmetric (A / 2 is minus the gradient of e_g with respect to Q), so one
eigen-decomposition of this K x K matrix makes every level diagonal. The rest is one
dense system for z', of K M + K (K + 1) / 2 numbers (and K for readouts or biases that
learn). `program.unsuited` lists the problems that do not have this form.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.solvers import ClosedSystem
from tutelage.solvers.diffrax_solvers import Rodas5P, usual_solver
from tutelage.stream import OrderParameters, Overlaps
from tutelage.stream.moments.averages import MeanUpdate, triangle
from tutelage.stream.moments.matrices import joint_covariance
from tutelage.stream.program import unsuited

Matrices: TypeAlias = tuple[MeanUpdate, Array]
# Numbers that the derivatives of G may hold at a time.
TOGETHER = 2**24
# Overlaps are not known better, so neither is the error: no step is refused for less.
ROUNDING = 1e-15


def solver_for(name: str, system: ClosedSystem, fine: float) -> diffrax.AbstractSolver:
    """Return the diffrax solver of a name.

    fine: the factor of the error next to the state.
    """
    if name != "stiff":
        return usual_solver(name)
    if not isinstance(system, OrderParameters):
        raise InputError(
            "solver is 'stiff', which knows only the equations of a Problem; "
            "use solver='implicit'."
        )
    reason = unsuited(system.problem)
    if reason:
        raise InputError(
            f"solver is 'stiff' and {reason}; it does not support that. "
            "Use solver='explicit'."
        )

    def guide(state: Overlaps, doubt: Overlaps) -> tuple[Array, Array]:
        error = system.error(system.observe(state))
        update, _ = system.matrices(state)
        slope = system.error_slope(update, doubt)
        size = jnp.sum(jnp.abs(update.A)) + jnp.sum(jnp.abs(update.B))
        slope = jnp.where(jnp.abs(slope) < ROUNDING * size, 0.0, slope)
        return fine * error, fine * slope

    def resolvent_at(
        t: ArrayLike, state: Overlaps, shift: ArrayLike
    ) -> Callable[[Overlaps], Overlaps]:
        return resolvent(system, t, state, shift)

    return Rodas5P(resolvent_at, guide)


def resolvent(
    system: OrderParameters, t: ArrayLike, state: Overlaps, shift: ArrayLike
) -> Callable[[Overlaps], Overlaps]:
    """Return x -> (1 - shift J)^-1 x, with J the derivative of the drift.

    J is taken at this time and state. The function is differentiable in everything.
    """
    # a rate may be a function
    numbers, functions = eqx.partition((system, t, state, shift), eqx.is_array)
    fixed = eqx.combine(jax.lax.stop_gradient(numbers), functions)
    solve = Levels(*fixed).solve

    def apply(x: Overlaps) -> Overlaps:
        _, J_x = jax.jvp(lambda y: system.drift(t, y), (state,), (x,))
        return jax.tree.map(lambda a, b: a - shift * b, x, J_x)

    def transposed(_: object, x: Overlaps) -> Overlaps:
        return jax.linear_transpose(solve, x)(x)[0]

    def solve_for(x: Overlaps) -> Overlaps:
        return jax.lax.custom_linear_solve(apply, x, lambda _, b: solve(b), transposed)

    return solve_for


class _Slopes(NamedTuple):
    """Derivatives with respect to the fields, a last axis.

    They are those of (A | B) and G, in the eigenbasis of A, and of the mean update of
    readout and bias.
    """

    A_and_B: Float[Array, "K n z"]
    G: Float[Array, "K K z"]
    readout: Array
    bias: Array


class Levels:
    """J at a state in the eigenbasis of A, level by level.

    force: shift eta lam_l. noise: eta / batch.
    rate_v, rate_b: shift eta_v and shift eta_b.
    shrink_r: 1 / (1 - shift eta (lam_l a_k - kappa)).
    shrink_q: 1 / (1 - shift eta (lam_l (a_i + a_j) - 2 kappa)).
    overlaps: of all units with all units.
    dense: the LU decomposition of the system for the change of the fields.
    """

    def __init__(
        self, system: OrderParameters, t: ArrayLike, state: Overlaps, shift: ArrayLike
    ):
        problem = system.problem
        shift = jnp.asarray(shift)
        student = problem.student
        self.learns_readout = student.train_readout
        self.learns_bias = student.train_bias and state.bias is not None
        (update, _), (slope, slope_of_G) = self._matrices(system, state)
        eigenvalues, self.basis = jnp.linalg.eigh(update.A)
        turn = self.basis.T
        # a function may hold traced numbers
        eta, eta_v, eta_b = jax.lax.stop_gradient(system.rates(t))
        lam = jnp.asarray(problem.inputs.eigenvalues)[:, None, None]
        learns = 1.0
        mask = problem.trainable_mask()
        if mask is not None:
            learns = jnp.asarray(mask)[:, :1, None]
        step = shift * eta * learns
        kappa = problem.optimizer.weight_decay
        self.weights = jnp.asarray(problem.inputs.weights)
        self.force = step * lam
        self.noise = eta / problem.optimizer.batch
        self.rate_v = shift * eta_v
        self.rate_b = shift * eta_b
        sums = eigenvalues[:, None] + eigenvalues
        self.shrink_r = 1 / (1 - step * (lam * eigenvalues[:, None] - kappa))
        self.shrink_q = 1 / (1 - step * (lam * sums - 2 * kappa))
        r = turn @ state.r
        q = turn @ state.q @ self.basis
        self.B = turn @ update.B
        self.overlaps = joint_covariance(r, q, jnp.asarray(system.t))
        A = jnp.einsum("ia,ijz,jb->abz", self.basis, slope.A, self.basis)
        G = jnp.einsum("ia,ijz,jb->abz", self.basis, slope_of_G, self.basis)
        B = jnp.einsum("ia,imz->amz", self.basis, slope.B)
        self.slopes = _Slopes(
            A_and_B=jnp.concatenate([A, B], axis=1),
            G=G,
            readout=slope.readout,
            bias=slope.bias,
        )
        self.dense = jax.scipy.linalg.lu_factor(self._system())

    def _matrices(
        self, system: OrderParameters, state: Overlaps
    ) -> tuple[Matrices, Matrices]:
        """Return A, B, G at a state and their derivatives by the fields."""
        R, Q, T = system.covariances(state)
        K = R.shape[0]
        _, _, place = triangle(K)
        flat, unravel = ravel_pytree(self._fields(R, Q, state.readout, state.bias))

        def matrices(fields: Array) -> Matrices:
            R, upper, readout, bias = unravel(fields)
            readout = state.readout if readout is None else readout
            bias = state.bias if bias is None else bias
            field_state = system.field_state(R, upper[place], T, readout, bias)
            return system.moments.matrices(field_state, system.gradient_flow)

        values, derivative = jax.linearize(matrices, flat)
        # G is a sum of (K (K + M))^2 terms
        at_once = max(1, TOGETHER // (K * sum(R.shape)) ** 2)
        slopes = jax.lax.map(
            derivative, jnp.eye(flat.size), batch_size=min(at_once, flat.size)
        )
        return values, jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), slopes)

    def _fields(
        self, R: Array, Q: Array, readout: Array, bias: Array | None
    ) -> tuple[Array | None, ...]:
        """Return the fields on which A, B, G depend, or a change of them.

        They are R, the upper triangle of Q, and the readout and bias if they learn.
        """
        return (
            R,
            Q[np.triu_indices(len(Q))],
            readout if self.learns_readout else None,
            bias if self.learns_bias else None,
        )

    def _system(self) -> Float[Array, "z z"]:
        """Return 1 - d(change of the fields) / d(fields that were assumed).

        It takes sums over levels of K^3 numbers each.
        """
        K = len(self.basis)
        slopes = self.slopes
        basis = self.basis
        to_r = self.weights[:, None, None] * self.force * self.shrink_r
        to_q = self.weights[:, None, None] * self.force * self.shrink_q
        # q_l moves with r_l
        through_r = to_q * self.force * jnp.swapaxes(self.shrink_r, 1, 2)
        with_teachers = jnp.einsum(
            "lk,lnm->knm", to_r[:, :, 0], self.overlaps[:, :, K:]
        )
        with_students = jnp.einsum("lij,lnj->inj", to_q, self.overlaps[:, :, :K])
        by_way_of_r = jnp.einsum(
            "lij,lin->ijn", through_r, self.B @ self.overlaps[:, K:]
        )
        R = jnp.einsum("knz,knm->kmz", slopes.A_and_B, with_teachers)
        Q = jnp.einsum("inz,inj->ijz", slopes.A_and_B, with_students)
        Q += jnp.einsum("jnz,ijn->ijz", slopes.A_and_B, by_way_of_r)
        noise = self.noise * to_q.sum(axis=0)[:, :, None] * slopes.G
        Q += jnp.swapaxes(Q, 0, 1) + noise
        # back from the eigenbasis of A
        R = jnp.einsum("ai,imz->amz", basis, R)
        Q = jnp.einsum("ai,ijz,bj->abz", basis, Q, basis)
        fields = self._fields(
            R, Q, self.rate_v * slopes.readout, self.rate_b * slopes.bias
        )
        columns = R.shape[-1]
        change = jnp.concatenate(
            [x.reshape(-1, columns) for x in jax.tree.leaves(fields)]
        )
        return jnp.eye(len(change)) - change

    def solve(self, x: Overlaps) -> Overlaps:
        """Return (1 - shift J)^-1 x."""
        turn = self.basis.T
        back = self.basis
        K = len(self.basis)
        r = turn @ x.r
        q = turn @ x.q @ back
        # the change of the fields, first with A, B, G as they are
        uncoupled_r, uncoupled_q = self._uncoupled(r, q)
        R = jnp.einsum("l,lab->ab", self.weights, uncoupled_r)
        Q = jnp.einsum("l,lab->ab", self.weights, uncoupled_q)
        uncoupled = self._fields(back @ R, back @ Q @ turn, x.readout, x.bias)
        flat, _ = ravel_pytree(uncoupled)
        fields = jax.scipy.linalg.lu_solve(self.dense, flat)
        # then the levels, with the changes A', B', G'
        force = (self.slopes.A_and_B @ fields) @ self.overlaps
        on_students = force[..., :K]
        G = self.slopes.G @ fields
        symmetric = on_students + jnp.swapaxes(on_students, 1, 2)
        r = r + self.force * force[..., K:]
        q = q + self.force * (symmetric + self.noise * G)
        r, q = self._uncoupled(r, q)
        readout = x.readout
        if self.learns_readout:
            readout = x.readout + self.rate_v * (self.slopes.readout @ fields)
        bias = x.bias
        if self.learns_bias and x.bias is not None:
            bias = x.bias + self.rate_b * (self.slopes.bias @ fields)
        return Overlaps(r=back @ r, q=back @ q @ turn, readout=readout, bias=bias)

    def _uncoupled(
        self, r: Float[Array, "L K M"], q: Float[Array, "L K K"]
    ) -> tuple[Float[Array, "L K M"], Float[Array, "L K K"]]:
        """Solve each level by itself, with A, B, G as they are."""
        r = self.shrink_r * r
        on_students = self.B @ jnp.swapaxes(r, 1, 2)
        symmetric = on_students + jnp.swapaxes(on_students, 1, 2)
        return r, self.shrink_q * (q + self.force * symmetric)
