"""Averages of any rule over nodes: a grid for two fields, or three of a smooth rule; else a fixed quasi-random set.

Fields z = mean + L e, teacher fields first, L the Cholesky factor of their covariance (teachers first), e standard normal.
With D = E[delta e^T] the mean update is E[delta_k x] = Omega sum_a c_ka u_a with (B | A) = c = D L^-1 (regression: it holds
for rules with jumps too). A field that the others determine has a zero column in L: its coefficient is zero, and the drift
is the same, for its vector is a combination of the other ones.

Derivatives. For a smooth rule JAX differentiates the sums. For a rule that jumps as a function of a student field they would
be silently wrong (the derivative of a jump is zero at every node), so they are taken from the Gaussian density instead
(integration by parts): if L and mean change by dL and dm, then with u = L^-1 (dm + dL e) and s = e.u - tr(L^-1 dL)
    dE[f] = E[f s],    dE[delta e_a] = E[delta (e_a s - u_a)].
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import erfinv
from jaxtyping import Float

from tutelage import checks
from tutelage._jump_search import breaks_of
from tutelage._types import Array, NumpyOrJax
from tutelage.problem import Mixture, Network, Problem
from tutelage.problem.activation import NAMED, Activation, erf
from tutelage.problem.labels import Labels, Logistic, Real, Sign
from tutelage.problem.sample import mean_norm2
from tutelage.problem.traits import is_affine_in_label, missing_traits
from tutelage.randomness import Law, Normal, even_nodes
from tutelage.stream.moments.averages import MeanUpdate, Moments, Situation, safe_sqrt
from tutelage.stream.moments.noise_nodes import (
    LATTICE,
    Fineness,
    NoiseNodes,
    nodes_of,
    one_number,
    random_shifts,
    several_numbers,
)
from tutelage.stream.moments.quadrature import (
    MANY,
    NEAR,
    REACH,
    SETS,
    Sampled,
    factor,
    panels,
    sobol,
)
from tutelage.training.losses import Squared
from tutelage.training.rules import (
    Context,
    Label,
    Parameters,
    PerUnit,
    Reinforce,
    Rule,
    Sample,
    Update,
    is_proportional,
)
from tutelage.training.schedules import is_schedule

ENDS = (-REACH, REACH)
ONE_NODE = np.zeros(1), np.ones(1)
FAR_AWAY = 1e150  # a boundary that is not met
TIE = 1e-12  # outputs that differ by less, in units of their terms, are equal: fields are rounded
SMOOTH_RANGE = 4.0  # fields over which a smooth update varies
SIDE_BY_SIDE = 4  # labels per sample up to which all are averaged at once
MOST_OUTCOMES = (
    3  # labels per sample up to which the grid is split where the update jumps
)
MOST_LABEL_JUMPS = 16  # more are not followed one by one
GRID, GRID_OF_THREE = (
    16,
    12,
)  # nodes of each panel of the grid for two fields, for three
BLOCK = (
    2**11
)  # points that are averaged at once where a compiled program serves sets of many sizes
ROOMY = 2**17  # points for which such a program has room
# divided by the nodes of a panel of a grid: distance of the nodes of the noise, and of labels that may jump with xi
GRID_STEP, JUMP_STEP = 1.6, 0.4
FINE_GRID = 32  # for rules that look at moved fields, or that learn from all samples on both sides of a jump
Nodes = Float[Array | np.ndarray, "P n"]
Weights = Float[Array | np.ndarray, " P"]


def divided(
    L: Float[Array, "n n"], right: Float[Array, "n P"], trans: int = 0
) -> Float[Array, "n P"]:
    """L^-1 right (L^-T right for trans=1), with zero for fields without variance of their own: empty columns of L."""
    empty = (jnp.diagonal(L) == 0)[:, None]
    full = jnp.where(empty.T if trans else empty, jnp.eye(L.shape[0]), L)
    return solve_triangular(full, jnp.where(empty, 0.0, right), lower=True, trans=trans)


class Response(NamedTuple):
    """What a sample with given fields does on average. Nodes stand last: loops over them are loops over neighbors in memory."""

    delta: Float[Array, "K P"]
    pairs: Float[Array, "K K P"]  # delta delta^T
    readout: Float[Array, "*outputs K P"]
    loss: Float[Array, " P"]


class Sums(NamedTuple):
    """Averages over the nodes. D: E[delta e^T], teacher axes first; the rest as in `Response`."""

    D: Float[Array, "K n"]
    delta: Float[Array, " K"]
    pairs: Float[Array, "K K"]
    readout: Float[Array, "*outputs K"]
    loss: Float[Array, ""]


class RuleAtState(eqx.Module):
    """A rule, and all that its averages depend on. mean, L: of the fields, teachers first. noisy: labels vary at given fields.

    numbers: what the rule's xi is made from at every node (`PerUnit`); None: xi is averaged at each. shifts: uniform numbers
    that move the nodes of the label's randomness and of the rule's (moments/noise_nodes.py); None: made here.
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
        """The mean response at every node, over labels and the rule's own randomness."""
        # Many labels (nodes of continuous noise) are made and taken one after the other: XLA then updates all nodes in one fast
        # loop. Labels made beforehand would be a large array, and XLA would compute the teacher's output anew for each.
        M = self.problem.teacher.hidden
        fields = self.mean[:, None] + self.L @ e.T
        rho, student = fields[:M], fields[M:]
        output = jax.vmap(self.problem.teacher.output, -1, -1)(rho)
        norm2 = mean_norm2(self.problem)

        def one(student: Array, rho: Array, label: Array, xi: Array | None) -> Update:
            return self.rule.update(
                Sample(student, rho, label, xi, norm2), self.parameters, self.context
            )

        def over_labels(xi: Array | None) -> Response:
            def response(label: Array) -> Response:
                update = jax.vmap(one, in_axes=(-1, -1, -1, 0), out_axes=-1)(
                    student, rho, label, xi
                )
                pairs = update.delta[:, None] * update.delta
                loss = jnp.asarray(update.loss, float)
                return Response(update.delta, pairs, update.parameters.readout, loss)

            if self._additive:
                return self._over_axes(
                    output, self._kinks(student, rho, output, xi), response
                )
            return self.over_labels(
                rho, output, lambda: self._kinks(student, rho, output, xi), response
            )

        law = self.rule.law(self.problem.student.hidden, self.context.time)
        if law is None:  # the rule draws nothing
            return over_labels(None)
        return _summed(self._of_rule(law, e.shape[0]), over_labels)

    def _of_rule(self, law: Law, points: int) -> NoiseNodes:
        """What the rule draws at every node."""
        everywhere = lambda x: jnp.broadcast_to(x, (points, *jnp.shape(x)))  # noqa: E731
        if isinstance(law, PerUnit) and self.numbers is not None:
            numbers = jnp.asarray(self.numbers)
            patterns = tuple(map(jnp.asarray, law.patterns()))
            return NoiseNodes(
                patterns,
                lambda pattern, share: (
                    law.at_points(pattern, numbers),
                    everywhere(share),
                ),
            )
        enumerated = law.enumerated()
        if enumerated is not None:
            values = tuple(map(jnp.asarray, enumerated))
            return NoiseNodes(
                values, lambda value, share: (everywhere(value), everywhere(share))
            )
        units = law.units if isinstance(law, PerUnit) else 0
        return self._drawn(
            law, self._shifts(points, max(units, 1), from_end=True), scalar=units == 0
        )

    def _drawn(
        self,
        law: Law,
        shifts: Float[NumpyOrJax, "P d"],
        scalar: bool,
        kinks: Array | None = None,
    ) -> NoiseNodes:
        """Draws of a continuous law at every node: numbers, or vectors of as many entries as there are shifts."""
        if shifts.shape[1] > 1:
            normal = several_numbers(shifts, self.fineness)
        else:
            normal = one_number(shifts[:, 0], self.fineness, law.heavy, kinks)

        def place(*term: Array) -> tuple[Array, Array]:
            z, weight = normal.place(*term)
            xi = jnp.asarray(law.from_normal(z))
            return xi if scalar or xi.ndim > 1 else xi[:, None], weight

        return NoiseNodes(normal.terms, place)

    def _shifts(
        self, points: int, count: int, from_end: bool = False
    ) -> Float[NumpyOrJax, "P count"]:
        """Those of the label, or at the end those of the rule."""
        if self.shifts is None:
            return random_shifts(points, count, self.fineness.panel + from_end)
        return (
            self.shifts[:, self.shifts.shape[1] - count :]
            if from_end
            else self.shifts[:, :count]
        )

    def over_labels(
        self,
        rho: Float[Array, "M P"],
        output: Float[Array, "*outputs P"],
        kinks: Callable[[], list[Array]],
        function: Callable[[Label], Any],
    ) -> Any:
        """The mean of a function of the labels (*outputs, P) over their randomness, at every node."""
        problem, labels, points = self.problem, self.problem.labels, rho.shape[1]
        if not self.noisy:
            return function(jax.vmap(problem.labels.truth, (-1, -1), -1)(output, rho))
        if self._affine and isinstance(labels, Real):
            few = jax.vmap(
                lambda output: labels.with_two_moments(output, problem.noise), -1, -1
            )(output)
            return _summed(
                NoiseNodes(few, lambda label, share: (label, share)), function
            )
        outcomes = lambda output, rho: labels.outcomes(output, rho, problem.noise)  # noqa: E731
        if outcomes(output[..., 0], rho[:, 0]) is not None:
            all_labels: Any = jax.vmap(outcomes, -1, -1)(output, rho)
            return _summed(
                NoiseNodes(all_labels, lambda label, share: (label, share)), function
            )
        law = labels.law(problem.noise)
        assert law is not None
        count = labels.numbers(problem.teacher.outputs, problem.noise)
        found = kinks() if count == 1 else []
        at = (
            jnp.stack([jnp.reshape(kink, (points,)) for kink in found])
            if found
            else None
        )
        draws = self._drawn(
            law, self._shifts(points, count), scalar=count == 1, kinks=at
        )
        label = jax.vmap(
            lambda output, rho, xi: labels.label(output, rho, xi, problem.noise),
            (-1, -1, 0),
            -1,
        )

        def place(*term: Array) -> tuple[Array, Array]:
            xi, weight = draws.place(*term)
            return label(output, rho, xi), weight

        return _summed(NoiseNodes(draws.terms, place), function)

    def _over_axes(
        self,
        output: Float[Array, "C P"],
        kinks: list[Array],
        response: Callable[[Label], Response],
    ) -> Response:
        """The mean response where it is a sum of functions of one label each: one axis of the noise at a time.

        With f = f_0 + sum_c (f_c(xi_c) - f_0), E[f f^T] = E[f] E[f]^T + sum_c Cov[f_c].
        """
        noise, law = self.problem.noise, Normal()
        count, points = output.shape
        still = response(output)
        total = Response(
            still.delta, jnp.zeros_like(still.pairs), still.readout, still.loss
        )
        shifts = self._shifts(points, count)
        for c in range(count):
            at = jnp.stack([kink[c] for kink in kinks]) if kinks else None
            draws = self._drawn(law, shifts[:, c : c + 1], scalar=True, kinks=at)

            def place(
                *term: Array, c: int = c, draws: NoiseNodes = draws
            ) -> tuple[Array, Array]:
                xi, weight = draws.place(*term)
                return output.at[c].add(noise * xi), weight

            alone = _summed(NoiseNodes(draws.terms, place), response)
            spread = alone.pairs - alone.delta[:, None] * alone.delta
            total = Response(
                delta=total.delta + alone.delta - still.delta,
                pairs=total.pairs + spread,
                readout=total.readout + alone.readout - still.readout,
                loss=total.loss + alone.loss - still.loss,
            )
        return total._replace(pairs=total.pairs + total.delta[:, None] * total.delta)

    def _kinks(
        self,
        student: Float[Array, "K P"],
        rho: Float[Array, "M P"],
        output: Float[Array, "*outputs P"],
        xi: Array | None,
    ) -> list[Array]:
        """Normal numbers of the label (*outputs, P) at which the update bends or jumps; none where they are not known."""
        problem, rule, labels = self.problem, self.rule, self.problem.labels
        if not isinstance(labels, Real) or not is_affine_in_label(rule):
            return []

        def one(
            student: Array, rho: Array, output: Array, xi: Array | None
        ) -> list[Array]:
            sample = Sample(student, rho, output, xi)
            compared = rule.compared(sample, self.parameters, self.context) or ()
            breaks = [
                label for own in compared for label in problem.loss.label_breaks(own)
            ]
            placed = [labels.placed(label, output, problem.noise) for label in breaks]
            return [z for z in placed if z is not None]

        return jax.vmap(one, in_axes=(-1, -1, -1, 0), out_axes=-1)(
            student, rho, output, xi
        )

    @property
    def _affine(self) -> bool:
        """Is the update affine in the draws of the label's xi?"""
        problem = self.problem
        return (
            is_affine_in_label(self.rule)
            and type(problem.loss) is Squared
            and isinstance(problem.labels, Real)
        )

    @property
    def _additive(self) -> bool:
        """Is the update a sum of functions of one noisy label each?"""
        problem = self.problem
        several = (
            problem.teacher.outputs > 1
            and isinstance(problem.labels, Real)
            and self.noisy
        )
        sums = problem.loss.additive and is_affine_in_label(self.rule)
        return several and sums and not self._affine and not problem.has_noise_law


def _summed(nodes: NoiseNodes, function: Callable[[Array], Any]) -> Any:
    """The weighted sum of a function of the values at every point."""

    def term(each: tuple[Array, ...]) -> Any:
        values, weight = nodes.place(*each)
        return jax.tree.map(lambda x: weight * x, function(values))

    return _added(term, nodes.terms)


def _added(
    function: Callable[[tuple[Array, ...]], Any], over: tuple[Array, ...]
) -> Any:
    """The sum of a function over the first axis of arrays: few terms side by side, many in a loop."""
    count = over[0].shape[0]
    total = function(tuple(x[0] for x in over))
    if count <= SIDE_BY_SIDE:
        for i in range(1, count):
            total = jax.tree.map(jnp.add, total, function(tuple(x[i] for x in over)))
        return total
    again = jax.checkpoint(
        function
    )  # derivatives compute a term again instead of keeping all of them
    step = lambda sums, at: (jax.tree.map(jnp.add, sums, again(at)), None)  # noqa: E731
    return jax.lax.scan(step, total, tuple(x[1:] for x in over))[0]


def node_sums(
    at: RuleAtState, e: Nodes, weights: Weights, each: Response | None = None
) -> Sums:
    """Averages over nodes. each: the responses there, where they are known."""
    each = at.responses(e) if each is None else each
    return Sums((each.delta * weights) @ e, *(x @ weights for x in each))


# the same, with derivatives from the density
scored_sums = eqx.filter_custom_jvp(node_sums)


@scored_sums.def_jvp
def _score_derivative(primals: Any, tangents: Any) -> tuple[Sums, Sums]:
    (at, e, weights), moves = primals, tangents[0]
    each = at.responses(e)
    dL = jnp.zeros_like(at.L) if moves.L is None else moves.L
    d_mean = jnp.zeros_like(at.mean) if moves.mean is None else moves.mean
    u = divided(at.L, (d_mean + e @ dL.T).T).T
    score = jnp.sum(e * u, axis=1) - jnp.trace(divided(at.L, dL))
    value, moved = (
        node_sums(at, e, weights, each),
        node_sums(at, e, weights * score, each),
    )
    moved = moved._replace(D=moved.D - (each.delta * weights) @ u)
    # what readouts, rates and other numbers do at fixed fields
    still = eqx.tree_at(
        lambda a: (a.L, a.mean), moves, (None, None), is_leaf=lambda x: x is None
    )
    if all(
        leaf is None for leaf in jax.tree.leaves(still, is_leaf=lambda x: x is None)
    ):
        return value, moved
    _, direct = eqx.filter_jvp(lambda a: node_sums(a, e, weights), (at,), (still,))
    return value, jax.tree.map(lambda a, b: a if b is None else a + b, moved, direct)


class ErrorMetric(Rule):
    """The error of a student as a rule that never learns: its loss is the metric of the labels.

    metric "squared": |label - output|^2 / 2. "class": 1 if the student's class is not the label's. Ties are broken at random:
    n equal largest outputs, the label's among them, cost 1 - 1/n, and an output of zero costs 1/2 where the class is its sign.
    """

    metric: str = eqx.field(static=True)

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        g = context.student.activation(sample.student)
        output = parameters.readout @ g
        if self.metric == "squared":
            loss = jnp.sum((sample.label - output) ** 2) / 2
        else:
            # identical units whose readouts cancel leave a rounding error, which decides nothing
            rounding = TIE * (jnp.abs(parameters.readout) @ jnp.abs(g))
            loss = _wrong_class(output, sample.label, rounding)
        return self.result(jnp.zeros_like(sample.student), parameters, loss=loss)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        """Where the output of a single unit changes its sign, or its activation breaks."""
        activation = context.student.activation
        places = (
            activation.breaks if self.metric == "squared" else sign_changes(activation)
        )
        return tuple(jnp.asarray(x) for x in places)


def _wrong_class(
    output: Label, label: Label, rounding: Float[Array, "*outputs"]
) -> Float[Array, ""]:
    """The probability that the student's class is not the label's, with ties broken at random.

    rounding: outputs that differ by no more than this are equal.
    """
    if jnp.ndim(output) == 0:
        side = jnp.where(jnp.abs(output) <= rounding, 0.0, jnp.sign(output))
        return (1.0 - side * jnp.sign(label)) / 2
    largest = output >= jnp.max(output) - jnp.max(rounding)
    return 1.0 - jnp.sum(label * largest) / jnp.sum(largest)


@lru_cache(maxsize=64)
def sign_changes(activation: Activation) -> tuple[float, ...]:
    """Where the sign of an activation changes: the class that a single unit predicts."""
    places = breaks_of(lambda x: jnp.sign(activation(x[..., None])), 0)
    return tuple(x for x in places if abs(x) < NEAR)


INVERSES = {
    NAMED["linear"]: lambda y: y,
    NAMED["erf"]: lambda y: np.sqrt(2.0) * erfinv(y),
    NAMED["tanh"]: jnp.arctanh,
}


def has_boundary(student: Network) -> bool:
    """Does the sign of the output change at one value of each field, whatever the other ones?"""
    return student.activation in INVERSES and student.outputs == 1


def _class_error(
    at: RuleAtState, e: Float[Array | np.ndarray, "P m"], weights: Weights
) -> Float[Array, ""]:
    """The probability of a wrong class, by nodes of all fields but the last: its part is a normal probability."""
    # Given the other fields the output v_K g(lambda_K) + rest is positive beyond one value of the last student field, for g is
    # increasing. So the jump of the class is integrated exactly, and the sum over nodes can be differentiated.
    M, v, g = (
        at.problem.teacher.hidden,
        at.parameters.readout,
        at.problem.student.activation,
    )
    fields, mean = (
        at.mean[:-1, None] + at.L[:-1, :-1] @ e.T,
        at.mean[-1] + e @ at.L[-1, :-1],
    )
    rho = fields[:M]
    output = jax.vmap(at.problem.teacher.output, -1, -1)(rho)
    label_sign = at.over_labels(rho, output, list, jnp.sign)
    limit = -(v[:-1] @ g(fields[M:])) / jnp.where(
        jnp.abs(v[-1]) > 1e-12, v[-1], 1e-12
    )  # of g(lambda_K)
    inside = jnp.abs(limit) < (
        1.0 if g.polynomial is None else jnp.inf
    )  # erf and tanh stay between -1 and 1
    boundary = jnp.where(
        inside, INVERSES[g](jnp.where(inside, limit, 0.0)), jnp.sign(limit) * FAR_AWAY
    )
    beyond = (mean - boundary) / jnp.maximum(at.L[-1, -1], 1e-150)
    sign = erf(jnp.sign(v[-1]) * beyond * 0.5**0.5)  # of the output, on average
    # Where the other fields determine the last one (identical units), the terms of the output may cancel: a tie.
    terms = jnp.concatenate([v[:-1, None] * g(fields[M:]), v[-1] * g(mean)[None]])
    cancel = jnp.abs(jnp.sum(terms, axis=0)) <= TIE * (
        jnp.sum(jnp.abs(terms), axis=0) @ weights
    )
    sign = jnp.where((at.L[-1, -1] == 0) & cancel, 0.0, sign)
    return ((1 - sign * label_sign) / 2) @ weights


def confidence(each: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """A bound on the error of the mean of eight independent scramblings (leading axis): 3.5 standard errors."""
    # Student's t with seven degrees of freedom: 99% for one number, so that a whole curve is covered with 95%.
    return 3.5 * np.std(each, axis=0, ddof=1) / np.sqrt(len(each))


class NodeMoments(Moments):
    """Any rule, averaged over a quasi-random set e (teacher axes first) or, where that is None, over a grid.

    grid: nodes per panel for two or three fields (else 0); they are placed at every call, between the fields at which label
    or update jump. jumps: derivatives are taken from the density. noisy: labels vary at given fields.
    label_jumps: teacher fields at which the label jumps or bends (grid only). numbers: what the rule's xi is made from
    at each point of a quasi-random set, for laws that cannot be enumerated. still: the teacher has one unit, whose field does
    not vary (the label of a class of a mixture): its axis has one node. blocks: the number of blocks of `BLOCK` points
    that are averaged, one after the other; the rest of e is room for larger sets. None: all points at once. shifts: uniform
    numbers that move the nodes of what labels and the rule draw, other ones at each point; so the scramblings, and a finer
    grid, do not share these nodes.
    """

    e: Nodes | None
    grid: int = eqx.field(static=True)
    jumps: bool = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    label_jumps: tuple[float, ...] = eqx.field(static=True, default=())
    numbers: Float[NumpyOrJax, "P numbers"] | None = None
    still: bool = eqx.field(static=True, default=False)
    blocks: NumpyOrJax | None = None
    shifts: Float[NumpyOrJax, "P draws"] | None = None

    @property
    def points(self) -> int:
        """Points of a quasi-random set; 0 for a grid."""
        return 0 if self.e is None else self.e.shape[0]

    def matrices(
        self, at: Situation, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        rule = at.problem.optimizer.averaged_rule(at.problem.rule).of_one_sample(
            lambda rule: self._sums(self._of(rule, at)).loss
        )
        own = by_mean = self._of(rule, at)
        sums = of_mean = self._sums(own)
        simple, wider = rule.mean_rule(at.C, at.problem.student.hidden)
        if simple is not rule:
            by_mean = self._of(simple, replace(at, C=wider))
            of_mean = self._sums(by_mean)
        B, A = jnp.split(
            divided(by_mean.L, of_mean.D.T, trans=1).T,
            [at.problem.teacher.hidden],
            axis=1,
        )
        return MeanUpdate(A, B, sums.readout, of_mean.delta), jnp.zeros_like(
            sums.pairs
        ) if flow else sums.pairs

    def error_and_loss(
        self, at: Situation
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The error and the loss, which is NaN for rules of episodes, because they follow none."""
        episodes = at.problem.rule.samples > 1
        return self.error(at), jnp.full((), jnp.nan) if episodes else self._sums(
            self._of(at.problem.rule, at)
        ).loss

    def error(self, at: Situation) -> Float[Array, ""]:
        """The metric of the labels (`ErrorMetric`)."""
        problem, C, v = at.problem, at.C, at.parameters.readout
        units = problem.student, problem.teacher
        increasing = all(
            n.hidden == 1 and n.activation.parity == -1 and n.activation.increasing
            for n in units
        )
        if at.mean is None and increasing and problem.labels.kind == "sign":
            # the angle between two vectors (or a mirror image); accurate and differentiable down to zero
            across = C[0, 0] * C[1, 1] - C[0, 1] ** 2
            along = jnp.sign(v[0] * jnp.asarray(problem.teacher.readout)[0]) * C[0, 1]
            # a zero vector or readout has no angle: its output is zero, and the class a guess
            is_angle = (across > 0) | (along != 0)
            across = jnp.where(is_angle, safe_sqrt(across), 1.0)
            return jnp.arctan2(across, jnp.where(is_angle, along, 0.0)) / np.pi
        judged = replace(self, noisy=bool(getattr(problem.labels, "random", False)))
        by_class, metric = (
            problem.labels.metric == "class",
            ErrorMetric(problem.labels.metric),
        )
        if by_class and C.shape[0] > 2 and has_boundary(problem.student):
            # the unit with the largest readout, which outvotes another one, stands last
            order = jnp.argsort(jnp.abs(v))
            fields = jnp.concatenate([order, jnp.arange(v.size, C.shape[0])])
            mean, readout = (
                None if at.mean is None else at.mean[fields],
                Parameters(v[order], at.parameters.bias),
            )
            turned = judged._of(
                metric,
                replace(at, C=C[fields][:, fields], mean=mean, parameters=readout),
            )
            if self.blocks is not None:
                return self._over_blocks(
                    lambda part, e, weights: _class_error(part, e[:, :-1], weights),
                    turned,
                )
            return _class_error(turned, *judged._nodes(turned, without_last=True))
        return (
            replace(judged, jumps=by_class or self.jumps)
            ._sums(judged._of(metric, at))
            .loss
        )

    def scramblings(self) -> list["NodeMoments"]:
        """The independent parts of a sampled set, each a set of its own."""
        assert self.e is not None
        parts = [
            [None] * SETS if x is None else np.split(np.asarray(x), SETS)
            for x in (self.e, self.numbers, self.shifts)
        ]
        return [
            replace(self, e=e, numbers=numbers, shifts=shifts)
            for e, numbers, shifts in zip(*parts, strict=True)
        ]

    def in_blocks(self) -> "NodeMoments":
        """The same averages, by a program that also serves other numbers of points: nothing is compiled for these."""
        if self.e is None or self.points % BLOCK or self.blocks is not None:
            return self
        room = max(ROOMY, 2 ** int(np.ceil(np.log2(self.points)))) - self.points

        def roomy(x: NumpyOrJax | None) -> np.ndarray | None:
            return None if x is None else np.pad(np.asarray(x), ((0, room), (0, 0)))

        return replace(
            self,
            e=roomy(self.e),
            numbers=roomy(self.numbers),
            shifts=roomy(self.shifts),
            blocks=np.array(self.points // BLOCK),
        )

    def _over_blocks(
        self, average: Callable[[RuleAtState, Nodes, Weights], Any], at: RuleAtState
    ) -> Any:
        """The mean over blocks of points of an average over one of them."""
        weights, e = np.full(BLOCK, 1 / BLOCK), jnp.asarray(self.e)

        def of_block(block: NumpyOrJax) -> Any:
            def rows(x: NumpyOrJax) -> Array:
                return jax.lax.dynamic_slice_in_dim(
                    jnp.asarray(x), block * BLOCK, BLOCK
                )

            numbers = None if self.numbers is None else rows(self.numbers)
            shifts = None if self.shifts is None else rows(self.shifts)
            return average(
                replace(at, numbers=numbers, shifts=shifts), rows(e), weights
            )

        def add(block: Array, total: Any) -> Any:
            return jax.tree.map(jnp.add, total, of_block(block))

        total = jax.lax.fori_loop(
            1, jnp.asarray(self.blocks), add, of_block(np.array(0))
        )
        return jax.tree.map(lambda x: x / jnp.asarray(self.blocks), total)

    def finer(self) -> "NodeMoments":
        """The grid that estimates this one's error: 3/2 the nodes."""
        return replace(self, grid=self.grid * 3 // 2)

    def _of(self, rule: Rule, at: Situation) -> RuleAtState:
        first = lambda x: jnp.roll(x, at.problem.teacher.hidden, axis=-1)  # noqa: E731  teachers first
        L = factor(first(first(at.C).T).T)
        mean = jnp.zeros(at.C.shape[0]) if at.mean is None else first(at.mean)
        # a grid has fewer points, and a finer one: more nodes of the noise at each
        fineness = Fineness()
        if self.grid:
            step = GRID_STEP if isinstance(at.problem.labels, Real) else JUMP_STEP
            fineness = Fineness(step / self.grid, self.grid, LATTICE * self.grid)
        return RuleAtState(
            problem=at.problem,
            rule=rule,
            L=L,
            mean=mean,
            parameters=at.parameters,
            context=at.context,
            numbers=self.numbers,
            noisy=self.noisy,
            shifts=self.shifts,
            fineness=fineness,
        )

    def _sums(self, at: RuleAtState) -> Sums:
        # the nodes of a grid move with the jumps: plain derivatives hold
        sums = scored_sums if self.jumps and not self.grid else node_sums
        return (
            sums(at, *self._nodes(at))
            if self.blocks is None
            else self._over_blocks(sums, at)
        )

    def _nodes(
        self, at: RuleAtState, without_last: bool = False
    ) -> tuple[Nodes, Weights]:
        """The points and their weights, on all axes or on all but the last."""
        # Axes of a grid have even nodes, but that of a single teacher has panels. For two fields the student's axis is split
        # where the rule has breaks.
        if self.e is not None:
            return self.e[:, : self.e.shape[1] - without_last], np.full(
                self.points, 1 / self.points
            )
        teacher, n, rho = (
            at.problem.teacher,
            at.L.shape[0],
            jnp.ones(at.problem.teacher.hidden),
        )
        some_label = at.problem.labels.truth(teacher.output(rho), rho)
        split = n == 2 and bool(at.rule.breaks(some_label, at.parameters, at.context))
        first = even = even_nodes(2 * self.grid, REACH)
        if self.still:
            first = ONE_NODE
        elif teacher.hidden == 1:
            first = self._teacher_axis(at, split)
            even = even if n == 2 else even_nodes(5 * self.grid // 3, REACH)
        if split:
            return self._split_grid(at, *first)
        if without_last:
            even = even_nodes(5 * self.grid, REACH)
        nodes, weights = zip(first, *[even] * (n - 1 - without_last), strict=True)
        e = jnp.stack(jnp.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(
            -1, len(nodes)
        )
        return e, reduce(lambda x, y: jnp.outer(x, y).ravel(), weights)

    def _teacher_axis(self, at: RuleAtState, split: bool) -> tuple[Array, Array]:
        """Panels between the jumps of the label. Late in learning only samples whose field is near a break move the student,
        so the axis is also split before, at and behind them; or where a smooth update hardly varies any more."""
        own, along = jnp.max(jnp.diagonal(at.L)[1:]), jnp.max(jnp.abs(at.L[1:, 0]))
        scale = jnp.where(at.L[0, 0] > 0, at.L[0, 0], 1.0)
        edges = jnp.stack([SMOOTH_RANGE + 6 * own])
        if split:
            size = jnp.abs(_student_breaks(at, jnp.stack([scale, -scale])) - at.mean[1])
            near, middle, far = (
                jnp.maximum(jnp.min(size) - 6 * own, 0.0),
                jnp.max(size),
                jnp.max(size) + 6 * own,
            )
            edges = jnp.stack([near, middle, far])
        reach = jnp.minimum(edges / jnp.maximum(along, 1e-6), REACH)
        jumps = (jnp.asarray(self.label_jumps or (0.0,)) - at.mean[0]) / scale
        return panels(jnp.concatenate([jumps, -reach, reach]), self.grid, ENDS)

    def _split_grid(
        self, at: RuleAtState, teacher: NumpyOrJax, outer: NumpyOrJax
    ) -> tuple[Nodes, Weights]:
        """Nodes of the teacher's axis times panels of the student's axis between the breaks of the rule."""
        own = jnp.where(at.L[1, 1] > 0, at.L[1, 1], 1.0)
        breaks = _student_breaks(at, at.mean[0] + at.L[0, 0] * teacher)
        student, inner = panels(
            (breaks - (at.mean[1] + at.L[1, 0] * teacher)[:, None]) / own,
            self.grid,
            ENDS,
        )
        inner = inner / jnp.sum(
            inner, axis=1, keepdims=True
        )  # one panel alone is wide for its nodes
        e = jnp.stack([jnp.repeat(teacher, student.shape[1]), student.ravel()], axis=1)
        return e, (outer[:, None] * inner).ravel()


def _student_breaks(
    at: RuleAtState, rho: Float[Array, " count"]
) -> Float[Array, "count breaks"]:
    """Fields of the student at which the update jumps or bends, for each of some teacher fields."""

    def one(rho: Array) -> Array:
        problem, output = at.problem, at.problem.teacher.output(rho[None])
        labels = problem.labels.truth(output, rho[None])[None]
        if at.noisy:
            outcomes = problem.labels.outcomes(output, rho[None], problem.noise)
            labels = labels[:0] if outcomes is None else outcomes[0]
        few = labels if labels.shape[0] <= MOST_OUTCOMES else labels[:0]
        found = [
            b for label in few for b in at.rule.breaks(label, at.parameters, at.context)
        ]
        return jnp.stack([jnp.reshape(b, ()) for b in found or [jnp.zeros(())]])

    return jax.vmap(one)(rho)


def node_moments(
    problem: Problem,
    sampled: Sampled | None,
    others: Iterable[Problem],
    still: bool = False,
) -> NodeMoments:
    """A grid for few fields, else a quasi-random set. still: the field of the only teacher does not vary."""
    K, M = problem.student.hidden, problem.teacher.hidden
    jumps, noisy = (
        bool(missing_traits(problem, ("smooth",))),
        any(map(_is_noisy, (problem, *others))),
    )
    grid = _grid_size(problem, jumps, noisy, still) if sampled is None else 0
    if grid:
        return NodeMoments(
            None,
            grid,
            jumps,
            noisy,
            _label_jumps(problem) if M == 1 else (),
            still=still,
        )
    sampled, law = Sampled() if sampled is None else sampled, problem.rule.law(K, 0.0)
    own = (
        law.numbers(sampled.points, sampled.seed)
        if isinstance(law, PerUnit) and not law.enumerable
        else None
    )
    e = sobol(sampled.points, K + M - still, sampled.seed)
    draws = _numbers_drawn(problem, law) if noisy or law is not None else 0
    return NodeMoments(
        e=np.pad(e, ((0, 0), (int(still), 0))),
        grid=0,
        jumps=jumps,
        noisy=noisy,
        numbers=own,
        still=still,
        shifts=random_shifts(len(e), draws, sampled.seed) if draws else None,
    )


def _numbers_drawn(problem: Problem, law: Law | None) -> int:
    """Numbers that a label and the rule draw from continuous laws, at most."""
    of_label = problem.labels.numbers(problem.teacher.outputs, problem.noise)
    of_rule = (
        0
        if law is None or law.enumerated() is not None
        else law.units
        if isinstance(law, PerUnit)
        else 1
    )
    return of_label + of_rule


def _grid_size(problem: Problem, jumps: bool, noisy: bool, still: bool) -> int:
    """Nodes per panel of the grid, 0 where a sample is better."""
    # A grid of two fields can be split, and differentiated, only where it is known at which fields the update jumps. One of
    # three needs an update without jumps or bends, and labels of which it is known where they jump.
    student, teacher, labels, loss, rule = (
        problem.student,
        problem.teacher,
        problem.labels,
        problem.loss,
        problem.rule,
    )
    K, M = student.hidden, teacher.hidden
    if 3 + still < K + M:
        return 0
    if problem.optimizer.averaged_rule(rule) is not rule:
        return 0  # it is not known where the optimizer bends the update
    context = Context(
        student,
        loss,
        jnp.ones(()),
        jnp.zeros(()),
        (jnp.zeros((K, M)), jnp.eye(K), jnp.eye(M)),
    )
    given = jnp.ones(()), Parameters(jnp.asarray(student.readout)), context
    bends = bool(loss.breaks(given[0]) if rule.uses_loss else rule.breaks(*given))
    if K == M == 1:
        known = not jumps or bends
        if jumps and rule.uses_loss:
            # noise of real labels makes a jump for each of its values
            found = (
                bends
                and is_proportional(student.activation)
                and not (noisy and isinstance(labels, Real))
            )
            known = (
                not rule.moves_fields
                and len(student.activation.breaks) <= MANY
                and (found or not loss.jumps)
            )
        return (
            0
            if not known
            else FINE_GRID
            if rule.moves_fields or isinstance(rule, Reinforce)
            else GRID
        )
    if jumps or bends or rule.moves_fields:
        return 0
    known = teacher.outputs == 1 and (labels.metric != "class" or has_boundary(student))
    if M == 2:
        known = type(labels) is Real and teacher.activation.smooth
    return GRID_OF_THREE if known else 0


def terms_per_point(problem: Problem, moments: NodeMoments) -> int:
    """Return how many updates are averaged at a point of a sampled set.

    It is the number of labels that its fields may have, times that of the rule's draws.
    """
    one = (
        problem.in_class() if isinstance(problem.inputs, Mixture) else problem.tasks[0]
    )
    terms = _labels_per_point(one) if moments.noisy else 1
    law = one.rule.law(one.student.hidden, 0.0)
    if law is None:
        return terms
    if isinstance(law, PerUnit) and moments.numbers is not None:
        return terms * len(law.patterns()[1])
    enumerated = law.enumerated()
    if enumerated is not None:
        return terms * len(enumerated[1])
    units = law.units if isinstance(law, PerUnit) else 1
    return terms * nodes_of(units, Fineness(), law.heavy)


def _labels_per_point(problem: Problem) -> int:
    """Return the number of labels that are averaged at given fields, noise included."""
    labels, noise = problem.labels, problem.noise
    if (
        is_affine_in_label(problem.rule)
        and type(problem.loss) is Squared
        and isinstance(labels, Real)
    ):
        return 2 * (1 if problem.has_noise_law else problem.teacher.outputs)
    rho = jnp.zeros(problem.teacher.hidden)
    outcomes = jax.eval_shape(
        lambda rho: labels.outcomes(problem.teacher.output(rho), rho, noise), rho
    )
    if outcomes is not None:
        return outcomes[1].shape[0]
    law = labels.law(noise)
    assert law is not None
    count = labels.numbers(problem.teacher.outputs, noise)
    if (
        problem.loss.additive
        and is_affine_in_label(problem.rule)
        and isinstance(labels, Real)
    ):
        return count * nodes_of(
            1, Fineness(), law.heavy
        )  # one output's noise at a time
    return nodes_of(count, Fineness(), law.heavy)


def is_cheap(problem: Problem) -> bool:
    """Are the averages made without many draws of xi at each of many points? Then hundreds of them take seconds."""
    law = problem.rule.law(problem.student.hidden, 0.0)
    single = problem.student.hidden == problem.references.hidden == 1
    return single or not isinstance(law, PerUnit) or len(law.patterns()[1]) == 1


def _is_noisy(problem: Problem) -> bool:
    """Does the label vary at given fields?"""
    noise: Any = problem.noise
    if is_schedule(noise):
        return True
    if isinstance(problem.labels, Real) and not callable(noise):
        return checks.is_traced(noise) or bool(np.any(np.asarray(noise) != 0))
    return problem.labels.law(noise) is not None  # pyright: ignore


def _label_jumps(problem: Problem) -> tuple[float, ...]:
    """Where the noiseless label jumps or bends, as a function of the single teacher's field."""
    teacher, labels = problem.teacher, problem.labels
    g = teacher.activation
    if type(labels) is Sign and g.parity == -1 and g.increasing:
        return (0.0,)
    if (type(labels) in (Real, Logistic) and g.smooth) or checks.is_traced(
        labels, teacher
    ):
        return ()
    return _found_jumps(
        type(labels),
        getattr(labels, "function", None),
        g,
        float(np.ravel(teacher.readout)[0]),
    )


@lru_cache(maxsize=32)
def _found_jumps(
    kind: Callable[..., Labels],
    function: Callable | None,
    activation: Activation,
    readout: float,
) -> tuple[float, ...]:
    """The same by search; labels of one kind and function have their jumps in one place."""
    labels = kind() if function is None else kind(function)
    label = jnp.vectorize(
        lambda x: jnp.ravel(labels.truth(readout * activation(x[None])[0], x[None])),
        signature="()->(v)",
    )
    places = sorted(
        x for order in (0, 1) for x in breaks_of(label, order) if abs(x) < REACH
    )
    return tuple(places) if len(places) <= MOST_LABEL_JUMPS else ()
