"""The averages of a rule over a Gaussian mixture: those of each class, and the change of each level that they make.

In class c a student's field has the mean m_c = sum_l p_l r_l S_c (of the overlaps with the vectors b_m, not weighted by
eigenvalues) and the covariance sum_l p_l lam_cl q_l. With A^c, B^c, G^c of a Gaussian with this mean and covariance, and
d_c = E_c[delta],
    dr_l = eta sum_c P_c (d_c (S_c t_l) + lam_cl (A^c r_l + B^c t_l))
    dq_l = eta sum_c P_c (d_c (S_c r_l^T) + lam_cl (A^c q_l + B^c r_l^T)) + transpose + eta^2 sum_c P_c lam_cl G^c
so that level l moves as with one Gaussian of eigenvalue 1 and the matrices
    A_l = sum_c P_c lam_cl A^c,   B_l = (sum_c P_c lam_cl B^c | sum_c P_c d_c S_c),   G_l = sum_c P_c lam_cl G^c.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array
from tutelage.moments.averages import Covariance, Means
from tutelage.moments.matrices import ClosedMoments, MeanUpdate, Moments, error_weights, joint_covariance
from tutelage.moments.node_moments import NodeMoments
from tutelage.problem import Problem
from tutelage.problem.start import Blocks
from tutelage.rules import Context, Parameters


class MixtureMoments(Moments):
    """The averages of one class, which serve all classes: these differ in numbers only."""

    one: Moments

    def matrices(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        raise NotImplementedError("a mixture has no single covariance; use of_levels")

    def of_levels(
        self, problem: Problem, blocks: Blocks, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "L K K"]]:
        """A_l, B_l and what moves readout and bias, and G_l, for overlaps r, q, t per level; eigenvalues included."""

        def one(inside: Problem, C: Array, mean: Array) -> tuple[MeanUpdate, Array]:
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
        self, problem: Problem, blocks: Blocks, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Error and loss in each class."""

        def one(inside: Problem, C: Array, mean: Array) -> tuple[Array, Array]:
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

    def _over_classes(self, problem: Problem, blocks: Blocks, bias: Array | None, function: Callable[..., Any]) -> Any:
        """A function of the problem in a class and of covariance and mean of its fields, over all classes.

        Averages over nodes are taken class by class, which bounds memory; closed forms for all classes at once.
        """
        targets = jnp.zeros(problem.inputs.classes) if problem.targets is None else jnp.asarray(problem.targets)
        over = targets, *class_fields(problem, blocks, bias)
        one = lambda label, C, mean: function(problem.in_class(label), C, mean)  # noqa: E731
        return jax.lax.map(lambda at: one(*at), over) if isinstance(self.one, NodeMoments) else jax.vmap(one)(*over)


def class_fields(
    problem: Problem, blocks: Blocks, bias: Array | None
) -> tuple[Float[Array, "classes n n"], Float[Array, "classes n"]]:
    """Covariance and mean of the fields in each class: students, then teacher units; or a unit whose field is always 1."""
    (r, q, t), mixture, M = blocks, problem.inputs, problem.label_fields
    p, lam, S = (jnp.asarray(x) for x in (mixture.fractions, mixture.spectra, mixture.coefficients))
    summed = partial(jnp.einsum, "cl,lij->cij", p * lam)
    students = jnp.einsum("l,lkm,cm->ck", p, r[..., M:], S)
    students = students if bias is None else students + bias
    if problem.teacher is None:
        classes, K = students.shape
        R, T, teachers = jnp.zeros((classes, K, 1)), jnp.zeros((classes, 1, 1)), jnp.ones((classes, 1))
    else:
        R, T, teachers = summed(r[..., :M]), summed(t[:, :M, :M]), jnp.einsum("l,lmn,cn->cm", p, t[:, :M, M:], S)
        teachers = teachers if problem.teacher.bias is None else teachers + jnp.asarray(problem.teacher.bias)
    return jax.vmap(joint_covariance)(R, summed(q), T), jnp.concatenate([students, teachers], 1)
