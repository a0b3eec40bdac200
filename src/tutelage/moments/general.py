"""Averages of any rule over weighted nodes: A, B, G, what moves readout and bias, and the loss.

Fields z = mean + L e, teacher fields first, L the Cholesky factor of their covariance (teachers first), e standard normal.
With D = E[delta e^T] the mean update is E[delta_k x] = Omega sum_a c_ka u_a with (B | A) = c = D L^-1 (regression: it holds
for rules with jumps too). A field that the others determine has a zero column in L: its coefficient is zero, and the drift
is the same, for its vector is a combination of the other ones.

Derivatives. For a smooth rule JAX differentiates the sums. For a rule that jumps as a function of a student field they would
be silently wrong (the derivative of a jump is zero at every node), so they are taken from the Gaussian density instead
(integration by parts): if L and mean change by dL and dm, then with u = L^-1 (dm + dL e) and s = e.u - tr(L^-1 dL)
    dE[f] = E[f s],    dE[delta e_a] = E[delta (e_a s - u_a)].
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from tutelage._types import Array
from tutelage.averages._base import safe_ratio, safe_sqrt
from tutelage.losses import Squared
from tutelage.rules import Context, Gradient, Parameters, Rule, Sample

LOST = 1e-15  # relative variance below which a field is a combination of the fields before it


class Response(NamedTuple):
    """What the average sample with given fields does: mean over labels and randomness of the rule."""

    delta: Array  # (..., K)
    pairs: Array  # (..., K, K), delta delta^T
    readout: Array
    loss: Array


class Sums(NamedTuple):
    """Averages over the nodes. D: E[delta e^T] (K, n), teacher axes first; the rest as in `Response`."""

    D: Array
    delta: Array
    pairs: Array
    readout: Array
    loss: Array


def respond(problem: Any, rule: Rule, parameters: Parameters, context: Context, noisy: bool, fields: Array) -> Response:
    """The mean response to fields (n,), teacher fields first, over labels and the rule's own randomness."""
    M = problem.teacher.hidden
    rho, student = fields[:M], fields[M:]
    output = problem.teacher.output(rho)
    if noisy:
        affine = type(rule) is Gradient and type(problem.loss) is Squared
        labels, weights = problem.labels.outcomes(output, rho, problem.noise, affine)
    else:
        labels, weights = problem.labels.truth(output, rho)[None], jnp.ones(1)

    def one(label: Array, xi: Any) -> tuple[Array, Array, Array]:
        update = rule.update(Sample(student, rho, label, xi), parameters, context)
        return update.delta, update.parameters.readout, jnp.asarray(update.loss, float)

    law = rule.randomness(context.time)
    if law is None:
        delta, readout, loss = jax.vmap(lambda y: one(y, None))(labels)
    else:
        draws, shares = (jnp.asarray(x) for x in law.nodes(False))
        each = jax.vmap(jax.vmap(one, (None, 0)), (0, None))(labels, draws)
        delta, readout, loss = (x.reshape(-1, *x.shape[2:]) for x in each)
        weights = (weights[:, None] * shares).ravel()
    pairs = delta[:, :, None] * delta[:, None, :]
    return Response(*(_weighted(weights, x) for x in (delta, pairs, readout, loss)))


def _weighted(weights: Array, values: Array) -> Array:
    """The sum over the first axis. Written as products, which XLA fuses: a small matrix product per node would be a call."""
    if values.shape[0] == 1:
        return values[0] * weights[0]
    return jnp.sum(weights.reshape(-1, *[1] * (values.ndim - 1)) * values, axis=0)


def factor(C: Array) -> Array:
    """Lower triangular L with L L^T = C, teachers first; a field without variance of its own has an empty column."""
    n = C.shape[0]
    L = jnp.zeros_like(C)
    for column in range(n):
        rest = C[:, column] - L @ L[column]
        pivot = jnp.where(rest[column] > LOST * C[column, column], rest[column], 0.0)
        values = safe_ratio(rest, safe_sqrt(pivot))
        L = L.at[:, column].set(jnp.where(jnp.arange(n) < column, 0.0, values))
    return L


def divide(D: Array, L: Array) -> Array:
    """c with c L = D, zero where L has an empty column. (Few fields: a loop over columns, last first.)"""
    n, columns = L.shape[0], []
    for column in reversed(range(n)):
        rest = D[:, column]
        for known, c in columns:
            rest = rest - c * L[known, column]
        columns.append((column, safe_ratio(rest, L[column, column])))
    return jnp.stack([c for _, c in reversed(columns)], axis=1)


class At(eqx.Module):
    """Where an average is taken: the rule, and all that it depends on. mean, L: of the fields, teachers first."""

    problem: Any
    rule: Rule
    L: Array
    mean: Array
    parameters: Parameters
    context: Context

    def responses(self, e: Array, noisy: bool) -> Response:
        """The mean response at every node e (P, n)."""
        fields = self.mean + e @ self.L.T
        return jax.vmap(lambda z: respond(self.problem, self.rule, self.parameters, self.context, noisy, z))(fields)


def averages(at: At, e: Array, weights: Array, *, jumps: bool, noisy: bool) -> Sums:
    """Sums over nodes e (P, n) with weights (P,)."""
    if jumps:
        return _with_scores(at, e, weights, noisy)
    return _sums(e, weights, at.responses(e, noisy))


def _sums(e: Array, weights: Array, each: Response) -> Sums:
    return Sums(
        D=jnp.einsum("p,pk,pa->ka", weights, each.delta, e),
        delta=weights @ each.delta,
        pairs=jnp.tensordot(weights, each.pairs, 1),
        readout=jnp.tensordot(weights, each.readout, 1),
        loss=weights @ each.loss,
    )


@eqx.filter_custom_jvp
def _with_scores(at: At, e: Array, weights: Array, noisy: bool) -> Sums:
    return _sums(e, weights, at.responses(e, noisy))


@_with_scores.def_jvp
def _score_derivative(primals: Any, tangents: Any) -> tuple[Sums, Sums]:
    (at, e, weights, noisy), moves = primals, tangents[0]
    each = at.responses(e, noisy)
    value = _sums(e, weights, each)
    dL = jnp.zeros_like(at.L) if moves.L is None else moves.L
    d_mean = jnp.zeros_like(at.mean) if moves.mean is None else moves.mean
    u = _solve(at.L, (d_mean + e @ dL.T).T).T
    score = jnp.sum(e * u, axis=1) - jnp.trace(_solve(at.L, dL))
    moved = _sums(e, weights * score, each)
    moved = moved._replace(D=moved.D - jnp.einsum("p,pk,pa->ka", weights, each.delta, u))
    # what readouts, rates and other numbers do at fixed fields
    still = eqx.tree_at(lambda a: (a.L, a.mean), moves, (None, None), is_leaf=lambda x: x is None)
    if all(leaf is None for leaf in jax.tree.leaves(still, is_leaf=lambda x: x is None)):
        return value, moved
    _, direct = eqx.filter_jvp(lambda a: _sums(e, weights, a.responses(e, noisy)), (at,), (still,))
    return value, jax.tree.map(lambda a, b: a if b is None else a + b, moved, direct)


def _solve(L: Array, right: Array) -> Array:
    """L^-1 right; rows of fields without variance of their own are zero."""
    rows: list[Array] = []
    for row in range(L.shape[0]):
        rest = right[row]
        for column, known in enumerate(rows):
            rest = rest - L[row, column] * known
        rows.append(safe_ratio(rest, L[row, row]))
    return jnp.stack(rows)
