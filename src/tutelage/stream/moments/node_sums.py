"""Averages of a rule over given nodes, and their derivatives.

The fields are z = mean + L e, teacher fields first, where L is the Cholesky factor of
their covariance (teachers first) and e is standard normal. With D = E[delta e^T] the
mean update is

    E[delta_k x] = Omega sum_a c_ka u_a,    (B | A) = c = D L^-1

This is regression on the fields, so it also holds for rules with jumps. A field that
the others determine has a zero column in L: its coefficient is zero, and the drift is
the same, because its vector is a combination of the other vectors.

For a smooth rule JAX differentiates the sums. For a rule that jumps as a function of a
student field such derivatives would be silently wrong: the derivative of a jump is zero
at every node. They are taken from the Gaussian density instead (integration by parts).
If L and mean change by dL and dm, then with u = L^-1 (dm + dL e) and
s = e.u - tr(L^-1 dL)

    dE[f] = E[f s],    dE[delta e_a] = E[delta (e_a s - u_a)]
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax
from tutelage.problem import Problem
from tutelage.problem.labels import Real
from tutelage.problem.sample import mean_norm2
from tutelage.problem.traits import is_affine_in_label
from tutelage.randomness import Law, Normal
from tutelage.stream.moments.noise_nodes import (
    Fineness,
    NoiseNodes,
    one_number,
    random_shifts,
    several_numbers,
)
from tutelage.training.losses import Squared
from tutelage.training.rules import (
    Context,
    Label,
    Parameters,
    PerUnit,
    Rule,
    Sample,
    Update,
)

SIDE_BY_SIDE = 4  # labels per sample up to which all are averaged at once
Nodes = Float[Array | np.ndarray, "P n"]
Weights = Float[Array | np.ndarray, " P"]


def divided(
    L: Float[Array, "n n"], right: Float[Array, "n P"], trans: int = 0
) -> Float[Array, "n P"]:
    """Return L^-1 right (L^-T right for trans=1).

    It is zero for fields that others determine: empty columns of L.
    """
    is_empty = (jnp.diagonal(L) == 0)[:, None]
    replaced = is_empty.T if trans else is_empty
    full = jnp.where(replaced, jnp.eye(L.shape[0]), L)
    right = jnp.where(is_empty, 0.0, right)
    return solve_triangular(full, right, lower=True, trans=trans)


class Response(NamedTuple):
    """The mean effect of samples with given fields.

    Nodes stand last: loops over them are loops over neighbors in memory.
    """

    delta: Float[Array, "K P"]
    pairs: Float[Array, "K K P"]  # delta delta^T
    parameters: Parameters  # the changes; a last axis of nodes in every array
    loss: Float[Array, " P"]


class Sums(NamedTuple):
    """Averages over the nodes: D = E[delta e^T], and the fields of `Response`."""

    D: Float[Array, "K n"]  # teacher axes first
    delta: Float[Array, " K"]
    pairs: Float[Array, "K K"]
    parameters: Parameters
    loss: Float[Array, ""]


class RuleAtState(eqx.Module):
    """A rule, and everything that its averages depend on.

    Parameters
    ----------
    L, mean : array
        Of the fields, teachers first.
    numbers : array, optional
        The numbers that the rule's xi is made from at every node (`PerUnit`). None: xi
        is averaged at each node.
    noisy : bool
        Labels vary at given fields.
    shifts : array, optional
        Uniform numbers that shift the nodes of the label's randomness and of the rule's
        (noise_nodes.py). None: they are made here.
    """

    problem: Problem
    rule: Rule
    L: Float[Array, "n n"]
    mean: Float[Array, " n"]
    parameters: Parameters
    context: Context
    numbers: Float[NumpyOrJax, "P numbers"] | None = None
    noisy: bool = eqx.field(static=True, default=False)
    shifts: Float[NumpyOrJax, "P draws"] | None = None
    fineness: Fineness = eqx.field(static=True, default=Fineness())

    def responses(self, e: Nodes) -> Response:
        """Return the mean response at every node, over labels and the rule's draws."""
        # Many labels (nodes of continuous noise) are made and used one after the other:
        # XLA then updates all nodes in one fast loop. Labels made beforehand would be a
        # large array, and XLA would compute the teacher's output again for each.
        M = self.problem.labeler.hidden
        fields = self.mean[:, None] + self.L @ e.T
        rho = fields[:M]
        student = fields[M:]
        output = jax.vmap(self.problem.labeler.output, -1, -1)(rho)
        norm2 = mean_norm2(self.problem)

        def update_of(
            student: Array, rho: Array, label: Array, xi: Array | None
        ) -> Update:
            sample = Sample(student, rho, label, xi, norm2)
            return self.rule.update(sample, self.parameters, self.context)

        updates_of = jax.vmap(update_of, in_axes=(-1, -1, -1, 0), out_axes=-1)

        def response_to_draw(xi: Array | None) -> Response:
            def response_to_label(label: Array) -> Response:
                update = updates_of(student, rho, label, xi)
                return Response(
                    delta=update.delta,
                    pairs=update.delta[:, None] * update.delta,
                    parameters=update.parameters,
                    loss=jnp.asarray(update.loss, float),
                )

            def kinks() -> list[Array]:
                return self._kinks(student, rho, output, xi)

            if self._additive:
                return self._over_axes(output, kinks(), response_to_label)
            return self.over_labels(rho, output, kinks, response_to_label)

        law = self.rule.law(self.problem.student.hidden, self.context.time)
        if law is None:  # the rule draws nothing
            return response_to_draw(None)
        return _summed(self._draws_of_rule(law, e.shape[0]), response_to_draw)

    def _draws_of_rule(self, law: Law, points: int) -> NoiseNodes:
        """Return the draws of the rule at every node."""

        def everywhere(x: Array) -> Array:
            return jnp.broadcast_to(x, (points, *jnp.shape(x)))

        if isinstance(law, PerUnit) and self.numbers is not None:
            numbers = jnp.asarray(self.numbers)
            patterns, weights = law.patterns()

            def place_pattern(pattern: Array, weight: Array) -> tuple[Array, Array]:
                return law.at_points(pattern, numbers), everywhere(weight)

            terms = (jnp.asarray(patterns), jnp.asarray(weights))
            return NoiseNodes(terms, place_pattern)
        enumerated = law.enumerated()
        if enumerated is not None:

            def place_value(value: Array, weight: Array) -> tuple[Array, Array]:
                return everywhere(value), everywhere(weight)

            values, weights = enumerated
            return NoiseNodes((jnp.asarray(values), jnp.asarray(weights)), place_value)
        is_per_unit = isinstance(law, PerUnit)
        count = law.units if is_per_unit else 1
        shifts = self._shifts(points, count, from_end=True)
        return self._drawn(law, shifts, scalar=not is_per_unit)

    def _drawn(
        self,
        law: Law,
        shifts: Float[NumpyOrJax, "P d"],
        scalar: bool,
        kinks: Array | None = None,
    ) -> NoiseNodes:
        """Return draws of a continuous law at every node.

        They are numbers, or vectors with as many entries as there are shifts.
        """
        if shifts.shape[1] > 1:
            normal = several_numbers(shifts, self.fineness)
        else:
            normal = one_number(shifts[:, 0], self.fineness, law.heavy, kinks)

        def place(*term: Array) -> tuple[Array, Array]:
            z, weight = normal.place(*term)
            xi = jnp.asarray(law.from_normal(z))
            if not scalar and xi.ndim == 1:
                xi = xi[:, None]
            return xi, weight

        return NoiseNodes(normal.terms, place)

    def _shifts(
        self, points: int, count: int, from_end: bool = False
    ) -> Float[NumpyOrJax, "P count"]:
        """Return the shifts of the label, or from the end those of the rule."""
        if self.shifts is None:
            seed = self.fineness.panel + from_end
            return random_shifts(points, count, seed)
        if from_end:
            return self.shifts[:, self.shifts.shape[1] - count :]
        return self.shifts[:, :count]

    def over_labels(
        self,
        rho: Float[Array, "M P"],
        output: Float[Array, "*outputs P"],
        kinks: Callable[[], list[Array]],
        function: Callable[[Label], Any],
    ) -> Any:
        """Return the mean of a function of the labels (*outputs, P) at every node."""
        if not self.noisy:
            truth = jax.vmap(self.problem.labels.truth, (-1, -1), -1)
            return function(truth(output, rho))
        return _summed(self._noisy_labels(rho, output, kinks), function)

    def _noisy_labels(
        self,
        rho: Float[Array, "M P"],
        output: Float[Array, "*outputs P"],
        kinks: Callable[[], list[Array]],
    ) -> NoiseNodes:
        """Return the labels at every node and their weights."""
        noise = self.problem.noise
        labels = self.problem.labels
        if self._affine and isinstance(labels, Real):
            few_labels = jax.vmap(lambda y: labels.with_two_moments(y, noise), -1, -1)
            return _as_given(few_labels(output))

        def outcomes(output: Array, rho: Array) -> tuple[Array, Array] | None:
            return labels.outcomes(output, rho, noise)

        if outcomes(output[..., 0], rho[:, 0]) is not None:
            all_labels: Any = jax.vmap(outcomes, -1, -1)
            return _as_given(all_labels(output, rho))
        law = labels.law(noise)
        assert law is not None
        points = rho.shape[1]
        count = labels.numbers(self.problem.labeler.outputs, noise)
        kinks_of_number = None
        if count == 1:
            kinks_of_number = _stacked([jnp.reshape(z, (points,)) for z in kinks()])
        draws = self._drawn(
            law, self._shifts(points, count), scalar=count == 1, kinks=kinks_of_number
        )

        def label_of(output: Array, rho: Array, xi: Array) -> Label:
            return labels.label(output, rho, xi, noise)

        labels_of = jax.vmap(label_of, (-1, -1, 0), -1)

        def place(*term: Array) -> tuple[Array, Array]:
            xi, weight = draws.place(*term)
            return labels_of(output, rho, xi), weight

        return NoiseNodes(draws.terms, place)

    def _over_axes(
        self,
        output: Float[Array, "C P"],
        kinks: list[Array],
        response: Callable[[Label], Response],
    ) -> Response:
        """Return the mean response, one axis of the noise at a time.

        The response must be a sum of functions of one label each,
        f = f_0 + sum_c (f_c(xi_c) - f_0). Then
        E[f f^T] = E[f] E[f]^T + sum_c Cov[f_c].
        """
        noise = self.problem.noise_deviation
        outputs, points = output.shape
        noiseless = response(output)
        total = noiseless._replace(pairs=jnp.zeros_like(noiseless.pairs))
        shifts = self._shifts(points, outputs)
        for c in range(outputs):
            kinks_of_axis = _stacked([kink[c] for kink in kinks])
            draws = self._drawn(
                Normal(), shifts[:, c : c + 1], scalar=True, kinks=kinks_of_axis
            )

            def place(
                *term: Array, c: int = c, draws: NoiseNodes = draws
            ) -> tuple[Array, Array]:
                xi, weight = draws.place(*term)
                return output.at[c].add(noise * xi), weight

            of_axis = _summed(NoiseNodes(draws.terms, place), response)
            covariance = of_axis.pairs - of_axis.delta[:, None] * of_axis.delta
            total = Response(
                delta=total.delta + of_axis.delta - noiseless.delta,
                pairs=total.pairs + covariance,
                parameters=jax.tree.map(
                    lambda sum, one, none: sum + one - none,
                    total.parameters,
                    of_axis.parameters,
                    noiseless.parameters,
                ),
                loss=total.loss + of_axis.loss - noiseless.loss,
            )
        return total._replace(pairs=total.pairs + total.delta[:, None] * total.delta)

    def _kinks(
        self,
        student: Float[Array, "K P"],
        rho: Float[Array, "M P"],
        output: Float[Array, "*outputs P"],
        xi: Array | None,
    ) -> list[Array]:
        """Return normal numbers of the label at which the update bends or jumps.

        Each is (*outputs, P). The list is empty where they are not known.
        """
        labels = self.problem.labels
        if not isinstance(labels, Real) or not is_affine_in_label(self.rule):
            return []

        def kinks_at(
            student: Array, rho: Array, output: Array, xi: Array | None
        ) -> list[Array]:
            sample = Sample(student, rho, output, xi)
            compared = self.rule.compared(sample, self.parameters, self.context) or ()
            kinks = []
            for student_output in compared:
                for label in self.problem.loss.label_breaks(student_output):
                    z = labels.placed(label, output, self.problem.noise)
                    if z is not None:
                        kinks.append(z)
            return kinks

        at_nodes = jax.vmap(kinks_at, in_axes=(-1, -1, -1, 0), out_axes=-1)
        return at_nodes(student, rho, output, xi)

    @property
    def _affine(self) -> bool:
        """True if the update is affine in the draws of the label's xi."""
        return is_affine_in_noise(self.problem, self.rule)

    @property
    def _additive(self) -> bool:
        """True if the update is a sum of functions of one noisy label each."""
        problem = self.problem
        has_several_noisy_labels = (
            problem.labeler.outputs > 1
            and isinstance(problem.labels, Real)
            and self.noisy
            and not problem.has_noise_law
        )
        is_sum = problem.loss.additive and is_affine_in_label(self.rule)
        return has_several_noisy_labels and is_sum and not self._affine


def is_affine_in_noise(problem: Problem, rule: Rule) -> bool:
    """Return True if the update is affine in the noise of real labels."""
    has_affine_loss = type(problem.loss) is Squared and isinstance(problem.labels, Real)
    return has_affine_loss and is_affine_in_label(rule)


def _stacked(arrays: list[Array]) -> Array | None:
    """Return the arrays along a new first axis, or None if there are none."""
    return jnp.stack(arrays) if arrays else None


def _as_given(values_and_weights: tuple[Array, Array]) -> NoiseNodes:
    """Return nodes whose terms are the values at every point and their weights."""
    return NoiseNodes(values_and_weights, lambda value, weight: (value, weight))


def _summed(nodes: NoiseNodes, function: Callable[[Array], Any]) -> Any:
    """Return the weighted sum of a function of the values at every point."""

    def weighted(term: tuple[Array, ...]) -> Any:
        values, weight = nodes.place(*term)
        return jax.tree.map(lambda x: weight * x, function(values))

    return _added(weighted, nodes.terms)


def _added(
    function: Callable[[tuple[Array, ...]], Any], terms: tuple[Array, ...]
) -> Any:
    """Return the sum of a function over the first axis of arrays.

    Few terms are added side by side, many in a loop.
    """
    count = terms[0].shape[0]
    total = function(tuple(x[0] for x in terms))
    if count <= SIDE_BY_SIDE:
        for i in range(1, count):
            value = function(tuple(x[i] for x in terms))
            total = jax.tree.map(jnp.add, total, value)
        return total
    # derivatives compute a term again instead of storing all terms
    recomputed = jax.checkpoint(function)

    def add(total: Any, term: tuple[Array, ...]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, recomputed(term)), None

    return jax.lax.scan(add, total, tuple(x[1:] for x in terms))[0]


def node_sums(
    state: RuleAtState, e: Nodes, weights: Weights, response: Response | None = None
) -> Sums:
    """Return averages over nodes; response: at the nodes, if it is known."""
    if response is None:
        response = state.responses(e)
    return Sums(
        D=(response.delta * weights) @ e,
        delta=response.delta @ weights,
        pairs=response.pairs @ weights,
        parameters=jax.tree.map(lambda x: x @ weights, response.parameters),
        loss=response.loss @ weights,
    )


# The same, with derivatives from the density.
scored_sums = eqx.filter_custom_jvp(node_sums)


@scored_sums.def_jvp
def _score_derivative(primals: Any, tangents: Any) -> tuple[Sums, Sums]:
    state, e, weights = primals
    change = tangents[0]
    response = state.responses(e)
    dL = jnp.zeros_like(state.L) if change.L is None else change.L
    d_mean = jnp.zeros_like(state.mean) if change.mean is None else change.mean
    # u and s of the head of this file
    u = divided(state.L, (d_mean + e @ dL.T).T).T
    score = jnp.sum(e * u, axis=1) - jnp.trace(divided(state.L, dL))
    value = node_sums(state, e, weights, response)
    derivative = node_sums(state, e, weights * score, response)
    derivative = derivative._replace(D=derivative.D - (response.delta * weights) @ u)
    # readouts, rates and other numbers act at fixed fields
    direct_change = eqx.tree_at(
        lambda a: (a.L, a.mean), change, (None, None), is_leaf=_is_none
    )
    leaves = jax.tree.leaves(direct_change, is_leaf=_is_none)
    if all(leaf is None for leaf in leaves):
        return value, derivative
    _, direct = eqx.filter_jvp(
        lambda a: node_sums(a, e, weights), (state,), (direct_change,)
    )

    def add(a: Array, b: Array | None) -> Array:
        return a if b is None else a + b

    return value, jax.tree.map(add, derivative, direct)


def _is_none(leaf: object) -> bool:
    return leaf is None
