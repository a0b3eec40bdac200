"""The averages of a rule over a Gaussian mixture: those of each class, and the change of each level that they make.

In class c a student's field has the mean m_c = sum_l p_l r_l S_c (of the overlaps with the vectors b_m, not weighted by
eigenvalues) and the covariance sum_l p_l lam_cl q_l. With A^c, B^c, G^c of a Gaussian with this mean and covariance, and
d_c = E_c[delta],
    dr_l = eta sum_c P_c (d_c (S_c t_l) + lam_cl (A^c r_l + B^c t_l))
    dq_l = eta sum_c P_c (d_c (S_c r_l^T) + lam_cl (A^c q_l + B^c r_l^T)) + transpose + eta^2 sum_c P_c lam_cl G^c
so that level l moves as with one Gaussian of eigenvalue 1 and the matrices
    A_l = sum_c P_c lam_cl A^c,   B_l = (sum_c P_c lam_cl B^c | sum_c P_c d_c S_c),   G_l = sum_c P_c lam_cl G^c.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array
from tutelage.moments.averages import Covariance, Means
from tutelage.moments.matrices import ClosedMoments, MeanUpdate, Moments, error_weights
from tutelage.moments.node_moments import NodeMoments
from tutelage.problem import Problem
from tutelage.rules import Context, Parameters


class MixtureMoments(Moments):
    """The averages of one class, which serve all classes: these differ in numbers only."""

    one: Moments

    def matrices(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        raise NotImplementedError("a mixture has no single covariance; use of_levels")

    def of_levels(
        self,
        problem: Problem,
        blocks: tuple[Float[Array, "L K M"], Float[Array, "L K K"], Float[Array, "L M M"]],
        parameters: Parameters,
        context: Context,
        flow: bool,
    ) -> tuple[MeanUpdate, Float[Array, "L K K"]]:
        """A_l, B_l and what moves readout and bias, and G_l, for overlaps r, q, t per level; eigenvalues included."""

        def one(at: tuple[Problem, Array, Array]) -> tuple[MeanUpdate, Array]:
            inside, C, mean = at
            return self.one.matrices(inside, C, mean, parameters, context, flow)

        mixture, M = problem.inputs, problem.label_fields
        each, G = self._over_classes(problem, blocks, parameters.bias, one)
        P, S, lam = (jnp.asarray(x) for x in (mixture.probabilities, mixture.coefficients, mixture.spectra))
        share = P[:, None] * lam
        A, B, G = (jnp.einsum("cl,cij->lij", share, x) for x in (each.A, each.B, G))
        along_means = jnp.broadcast_to(jnp.einsum("c,ck,cm->km", P, each.bias, S), (lam.shape[1], A.shape[1], S.shape[1]))
        B = jnp.concatenate([B[..., :M], along_means], axis=-1)
        return MeanUpdate(A, B, jnp.tensordot(P, each.readout, 1), P @ each.bias), G

    def errors(
        self,
        problem: Problem,
        blocks: tuple[Float[Array, "L K M"], Float[Array, "L K K"], Float[Array, "L M M"]],
        parameters: Parameters,
        context: Context,
    ) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Error and loss in each class."""

        def one(at: tuple[Problem, Array, Array]) -> tuple[Array, Array]:
            inside, C, mean = at
            if isinstance(self.one, NodeMoments):
                seen = inside, C, mean, parameters, context
                return self.one.error(*seen), self.one.loss(*seen)
            assert isinstance(self.one, ClosedMoments)
            w = error_weights(parameters.readout, jnp.asarray(inside.teacher.readout))
            error = jnp.maximum(w @ self.one.averages.outputs(C, mean) @ w / 2, 0.0)
            return error, error + jnp.asarray(problem.noise) ** 2 / 2

        return self._over_classes(problem, blocks, parameters.bias, one)

    def scramblings(self) -> "list[Moments]":
        """The independent parts of a sampled set."""
        assert isinstance(self.one, NodeMoments)
        return [MixtureMoments(part) for part in self.one.scramblings()]

    def _over_classes(self, problem: Problem, blocks: tuple[Array, Array, Array], bias: Array | None, function):
        """A function of (the problem in a class, covariance and mean of its fields), over all classes.

        Averages over nodes are taken class by class, which bounds memory; closed forms for all classes at once.
        """
        covariances, means = class_fields(problem, blocks, bias)
        targets = jnp.zeros(problem.inputs.classes) if problem.targets is None else jnp.asarray(problem.targets)

        def one(at: tuple[Array, Array, Array]):
            label, C, mean = at
            return function((problem.in_class(label), C, mean))

        over = targets, covariances, means
        return jax.lax.map(one, over) if isinstance(self.one, NodeMoments) else jax.vmap(lambda *x: one(x))(*over)


def class_fields(
    problem: Problem, blocks: tuple[Array, Array, Array], bias: Array | None
) -> tuple[Float[Array, "classes n n"], Float[Array, "classes n"]]:
    """Covariance and mean of the fields in each class: students, then teacher units; or a unit whose field is always 1."""
    (r, q, t), mixture, M = blocks, problem.inputs, problem.label_fields
    p, lam, S = (jnp.asarray(x) for x in (mixture.fractions, mixture.spectra, mixture.coefficients))
    K, weights = q.shape[-1], p * lam
    means = jnp.einsum("l,lkm,cm->ck", p, r[..., M:], S)
    means = means if bias is None else means + bias
    Q = jnp.einsum("cl,lij->cij", weights, q)
    Q = (Q + jnp.swapaxes(Q, 1, 2)) / 2
    if problem.teacher is None:
        return jnp.pad(Q, ((0, 0), (0, 1), (0, 1))), jnp.pad(means, ((0, 0), (0, 1)), constant_values=1.0)
    R, T = jnp.einsum("cl,lkm->ckm", weights, r[..., :M]), jnp.einsum("cl,lmn->cmn", weights, t[:, :M, :M])
    above, below = jnp.concatenate([Q, R], 2), jnp.concatenate([jnp.swapaxes(R, 1, 2), T], 2)
    own = jnp.einsum("l,lmn,cn->cm", p, t[:, :M, M:], S)
    own = own if problem.teacher.bias is None else own + jnp.asarray(problem.teacher.bias)
    return jnp.concatenate([above, below], 1).reshape(-1, K + M, K + M), jnp.concatenate([means, own], 1)
