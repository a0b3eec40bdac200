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
from tutelage.labels import Labels, Logistic, Real, Sign
from tutelage.losses import Squared
from tutelage.moments.averages import MeanUpdate, Moments, Situation, safe_sqrt
from tutelage.moments.quadrature import MANY, NEAR, REACH, SETS, Sampled, factor, panels, sobol
from tutelage.problem import Network, Problem
from tutelage.problem.activation import NAMED, Activation, erf
from tutelage.problem.sample import mean_norm2
from tutelage.problem.schedules import is_schedule
from tutelage.problem.traits import is_affine_in_label, missing_traits
from tutelage.randomness import even_nodes
from tutelage.rules import Context, Label, Parameters, PerUnit, Reinforce, Rule, Sample, Update, is_proportional

ENDS = (-REACH, REACH)
ONE_NODE = np.zeros(1), np.ones(1)
FAR_AWAY = 1e150  # a boundary that is not met
TIE = 1e-12  # outputs that differ by less, in units of their terms, are equal: fields are rounded
SMOOTH_RANGE = 4.0  # fields over which a smooth update varies
SIDE_BY_SIDE = 4  # labels per sample up to which all are averaged at once
MOST_OUTCOMES = 3  # labels per sample up to which the grid is split where the update jumps
MOST_LABEL_JUMPS = 16  # more are not followed one by one
GRID, GRID_OF_THREE = 16, 12  # nodes of each panel of the grid for two fields, for three
FINE_GRID = 32  # for rules that look at moved fields, or that learn from all samples on both sides of a jump
Nodes = Float[Array | np.ndarray, "P n"]
Weights = Float[Array | np.ndarray, " P"]


def divided(L: Float[Array, "n n"], right: Float[Array, "n P"], trans: int = 0) -> Float[Array, "n P"]:
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

    numbers: what the rule's xi is made from at every node (`PerUnit`); None: the nodes of its law are enumerated at each.
    """

    problem: Problem
    rule: Rule
    L: Float[Array, "n n"]
    mean: Float[Array, " n"]
    parameters: Parameters
    context: Context
    numbers: Float[NumpyOrJax, "P numbers"] | None = None
    noisy: bool = eqx.field(static=True, default=False)

    def responses(self, e: Nodes) -> Response:
        """The mean response at every node, over labels and the rule's own randomness."""
        # Many labels (nodes of continuous noise) are made and taken one after the other: XLA then updates all nodes in one fast
        # loop. Labels made beforehand would be a large array, and XLA would compute the teacher's output anew for each.
        M = self.problem.teacher.hidden
        fields = self.mean[:, None] + self.L @ e.T
        rho, student = fields[:M], fields[M:]
        label_at, labels = self._label_at(rho)
        law, norm2 = self.rule.law(self.problem.student.hidden, self.context.time), mean_norm2(self.problem)
        placed = law if isinstance(law, PerUnit) and self.numbers is not None else None
        draws, shares = jnp.zeros((1, 0)), jnp.ones(1)  # of xi, which a rule without randomness does not see
        if law is not None:
            draws, shares = map(jnp.asarray, law.nodes(False) if placed is None else placed.patterns())

        def one(student: Array, rho: Array, label: Array, xi: Array | None) -> Update:
            return self.rule.update(Sample(student, rho, label, xi, norm2), self.parameters, self.context)

        def given(value: Array, weight: Array, draw: Array, share: Array) -> Response:
            """The part of one label per node and one draw of xi."""
            label, xi = label_at(value), draw if law is not None else None
            if placed is not None:
                xi = placed.at_points(draw, jnp.asarray(self.numbers))
            axes = (-1, -1, -1, None if placed is None else 0)
            update = jax.vmap(one, in_axes=axes, out_axes=-1)(student, rho, label, xi)
            pairs = update.delta[:, None] * update.delta
            each = Response(update.delta, pairs, update.parameters.readout, jnp.asarray(update.loss, float))
            return Response(*(weight * share * x for x in each))

        over_draws = lambda label: _added(lambda draw: given(*label, *draw), (draws, shares))  # noqa: E731
        return _added(over_draws, labels)

    def _label_at(self, rho: Float[Array, "M P"]) -> tuple[Callable[[Array], Array], tuple[Array, Array]]:
        """What makes one label per node, and from which values, with weights: those of the label's xi, or labels themselves."""
        problem, labels = self.problem, self.problem.labels
        if not self.noisy or labels.law(problem.noise) is None or type(labels).outcomes is not Labels.outcomes:
            return lambda label: label, jax.vmap(self.labels, in_axes=1, out_axes=-1)(rho)
        output = jax.vmap(problem.teacher.output, -1, -1)(rho)
        label = lambda output, rho, xi: labels.label(output, rho, xi, problem.noise)  # noqa: E731
        values, weights = labels.draws(output[..., 0], problem.noise, self._affine)
        each = jnp.asarray(values), jnp.asarray(weights)
        return lambda xi: jax.vmap(label, (-1, -1, None), -1)(output, rho, xi), each

    @property
    def _affine(self) -> bool:
        """Is the update affine in the draws of the label's xi?"""
        problem = self.problem
        return is_affine_in_label(self.rule) and type(problem.loss) is Squared and isinstance(problem.labels, Real)

    def labels(self, rho: Float[Array, " M"]) -> tuple[Float[Array, "X ..."], Float[Array, " X"]]:
        """All labels that a sample with given teacher fields may have, and their weights."""
        problem, output = self.problem, self.problem.teacher.output(rho)
        if not self.noisy:
            return problem.labels.truth(output, rho)[None], jnp.ones(1)
        return problem.labels.outcomes(output, rho, problem.noise, self._affine)


def _added(function: Callable[[tuple[Array, ...]], Response], over: tuple[Array, ...]) -> Response:
    """The sum of a function over the first axis of arrays: few terms side by side, many in a loop."""
    count = over[0].shape[0]
    total = function(tuple(x[0] for x in over))
    if count <= SIDE_BY_SIDE:
        for i in range(1, count):
            total = jax.tree.map(jnp.add, total, function(tuple(x[i] for x in over)))
        return total
    again = jax.checkpoint(function)  # derivatives compute a term again instead of keeping all of them
    step = lambda sums, at: (jax.tree.map(jnp.add, sums, again(at)), None)  # noqa: E731
    return jax.lax.scan(step, total, tuple(x[1:] for x in over))[0]


def node_sums(at: RuleAtState, e: Nodes, weights: Weights, each: Response | None = None) -> Sums:
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
    value, moved = node_sums(at, e, weights, each), node_sums(at, e, weights * score, each)
    moved = moved._replace(D=moved.D - (each.delta * weights) @ u)
    # what readouts, rates and other numbers do at fixed fields
    still = eqx.tree_at(lambda a: (a.L, a.mean), moves, (None, None), is_leaf=lambda x: x is None)
    if all(leaf is None for leaf in jax.tree.leaves(still, is_leaf=lambda x: x is None)):
        return value, moved
    _, direct = eqx.filter_jvp(lambda a: node_sums(a, e, weights), (at,), (still,))
    return value, jax.tree.map(lambda a, b: a if b is None else a + b, moved, direct)


class ErrorMetric(Rule):
    """The error of a student as a rule that never learns: its loss is the metric of the labels.

    metric "squared": |label - output|^2 / 2. "class": 1 if the student's class is not the label's. Ties are broken at random:
    n equal largest outputs, the label's among them, cost 1 - 1/n, and an output of zero costs 1/2 where the class is its sign.
    """

    metric: str = eqx.field(static=True)

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        g = context.student.activation(sample.student)
        output = parameters.readout @ g
        if self.metric == "squared":
            loss = jnp.sum((sample.label - output) ** 2) / 2
        else:
            # identical units whose readouts cancel leave a rounding error, which decides nothing
            rounding = TIE * (jnp.abs(parameters.readout) @ jnp.abs(g))
            loss = _wrong_class(output, sample.label, rounding)
        return self.result(jnp.zeros_like(sample.student), parameters, loss=loss)

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        """Where the output of a single unit changes its sign, or its activation breaks."""
        activation = context.student.activation
        places = activation.breaks if self.metric == "squared" else sign_changes(activation)
        return tuple(jnp.asarray(x) for x in places)


def _wrong_class(output: Label, label: Label, rounding: Float[Array, "*outputs"]) -> Float[Array, ""]:
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


INVERSES = {NAMED["linear"]: lambda y: y, NAMED["erf"]: lambda y: np.sqrt(2.0) * erfinv(y), NAMED["tanh"]: jnp.arctanh}


def has_boundary(student: Network) -> bool:
    """Does the sign of the output change at one value of each field, whatever the other ones?"""
    return student.activation in INVERSES and student.outputs == 1


def _class_error(at: RuleAtState, e: Float[Array | np.ndarray, "P m"], weights: Weights) -> Float[Array, ""]:
    """The probability of a wrong class, by nodes of all fields but the last: its part is a normal probability."""
    # Given the other fields the output v_K g(lambda_K) + rest is positive beyond one value of the last student field, for g is
    # increasing. So the jump of the class is integrated exactly, and the sum over nodes can be differentiated.
    M, v, g = at.problem.teacher.hidden, at.parameters.readout, at.problem.student.activation
    fields, mean = at.mean[:-1, None] + at.L[:-1, :-1] @ e.T, at.mean[-1] + e @ at.L[-1, :-1]
    labels, shares = jax.vmap(at.labels, in_axes=1, out_axes=-1)(fields[:M])
    limit = -(v[:-1] @ g(fields[M:])) / jnp.where(jnp.abs(v[-1]) > 1e-12, v[-1], 1e-12)  # of g(lambda_K)
    inside = jnp.abs(limit) < (1.0 if g.polynomial is None else jnp.inf)  # erf and tanh stay between -1 and 1
    boundary = jnp.where(inside, INVERSES[g](jnp.where(inside, limit, 0.0)), jnp.sign(limit) * FAR_AWAY)
    beyond = (mean - boundary) / jnp.maximum(at.L[-1, -1], 1e-150)
    sign = erf(jnp.sign(v[-1]) * beyond * 0.5**0.5)  # of the output, on average
    # Where the other fields determine the last one (identical units), the terms of the output may cancel: a tie.
    terms = jnp.concatenate([v[:-1, None] * g(fields[M:]), v[-1] * g(mean)[None]])
    cancel = jnp.abs(jnp.sum(terms, axis=0)) <= TIE * (jnp.sum(jnp.abs(terms), axis=0) @ weights)
    sign = jnp.where((at.L[-1, -1] == 0) & cancel, 0.0, sign)
    return jnp.sum(shares * (1 - sign * jnp.sign(labels)) / 2, axis=0) @ weights


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
    not vary (the label of a class of a mixture): its axis has one node.
    """

    e: Nodes | None
    grid: int = eqx.field(static=True)
    jumps: bool = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    label_jumps: tuple[float, ...] = eqx.field(static=True, default=())
    numbers: Float[NumpyOrJax, "P numbers"] | None = None
    still: bool = eqx.field(static=True, default=False)

    @property
    def points(self) -> int:
        """Points of a quasi-random set; 0 for a grid."""
        return 0 if self.e is None else self.e.shape[0]

    def matrices(self, at: Situation, flow: bool) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        rule = at.problem.rule.of_one_sample(lambda rule: self._sums(self._of(rule, at)).loss)
        own = by_mean = self._of(rule, at)
        sums = of_mean = self._sums(own)
        simple, wider = rule.mean_rule(at.C, at.problem.student.hidden)
        if simple is not rule:
            by_mean = self._of(simple, replace(at, C=wider))
            of_mean = self._sums(by_mean)
        B, A = jnp.split(divided(by_mean.L, of_mean.D.T, trans=1).T, [at.problem.teacher.hidden], axis=1)
        return MeanUpdate(A, B, sums.readout, of_mean.delta), jnp.zeros_like(sums.pairs) if flow else sums.pairs

    def error_and_loss(self, at: Situation) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The error and the loss, which is NaN for rules of episodes, because they follow none."""
        episodes = at.problem.rule.samples > 1
        return self.error(at), jnp.full((), jnp.nan) if episodes else self._sums(self._of(at.problem.rule, at)).loss

    def error(self, at: Situation) -> Float[Array, ""]:
        """The metric of the labels (`ErrorMetric`)."""
        problem, C, v = at.problem, at.C, at.parameters.readout
        units = problem.student, problem.teacher
        increasing = all(n.hidden == 1 and n.activation.parity == -1 and n.activation.increasing for n in units)
        if at.mean is None and increasing and problem.labels.kind == "sign":
            # the angle between two vectors (or a mirror image); accurate and differentiable down to zero
            across = C[0, 0] * C[1, 1] - C[0, 1] ** 2
            along = jnp.sign(v[0] * jnp.asarray(problem.teacher.readout)[0]) * C[0, 1]
            # a zero vector or readout has no angle: its output is zero, and the class a guess
            is_angle = (across > 0) | (along != 0)
            across = jnp.where(is_angle, safe_sqrt(across), 1.0)
            return jnp.arctan2(across, jnp.where(is_angle, along, 0.0)) / np.pi
        judged = replace(self, noisy=bool(getattr(problem.labels, "random", False)))
        by_class, metric = problem.labels.metric == "class", ErrorMetric(problem.labels.metric)
        if by_class and C.shape[0] > 2 and has_boundary(problem.student):
            # the unit with the largest readout, which outvotes another one, stands last
            order = jnp.argsort(jnp.abs(v))
            fields = jnp.concatenate([order, jnp.arange(v.size, C.shape[0])])
            mean, readout = None if at.mean is None else at.mean[fields], Parameters(v[order], at.parameters.bias)
            turned = judged._of(metric, replace(at, C=C[fields][:, fields], mean=mean, parameters=readout))
            return _class_error(turned, *judged._nodes(turned, without_last=True))
        return replace(judged, jumps=by_class or self.jumps)._sums(judged._of(metric, at)).loss

    def scramblings(self) -> list["NodeMoments"]:
        """The independent parts of a sampled set, each a set of its own."""
        assert self.e is not None
        numbers = [None] * SETS if self.numbers is None else np.split(np.asarray(self.numbers), SETS)
        return [replace(self, e=e, numbers=own) for e, own in zip(np.split(np.asarray(self.e), SETS), numbers, strict=True)]

    def finer(self) -> "NodeMoments":
        """The grid that estimates this one's error: 3/2 the nodes."""
        return replace(self, grid=self.grid * 3 // 2)

    def _of(self, rule: Rule, at: Situation) -> RuleAtState:
        first = lambda x: jnp.roll(x, at.problem.teacher.hidden, axis=-1)  # noqa: E731  teachers first
        L = factor(first(first(at.C).T).T)
        mean = jnp.zeros(at.C.shape[0]) if at.mean is None else first(at.mean)
        return RuleAtState(at.problem, rule, L, mean, at.parameters, at.context, self.numbers, self.noisy)

    def _sums(self, at: RuleAtState) -> Sums:
        # the nodes of a grid move with the jumps: plain derivatives hold
        return (scored_sums if self.jumps and not self.grid else node_sums)(at, *self._nodes(at))

    def _nodes(self, at: RuleAtState, without_last: bool = False) -> tuple[Nodes, Weights]:
        """The points and their weights, on all axes or on all but the last."""
        # Axes of a grid have even nodes, but that of a single teacher has panels. For two fields the student's axis is split
        # where the rule has breaks.
        if self.e is not None:
            return self.e[:, : self.e.shape[1] - without_last], np.full(self.points, 1 / self.points)
        teacher, n, rho = at.problem.teacher, at.L.shape[0], jnp.ones(at.problem.teacher.hidden)
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
        e = jnp.stack(jnp.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(nodes))
        return e, reduce(lambda x, y: jnp.outer(x, y).ravel(), weights)

    def _teacher_axis(self, at: RuleAtState, split: bool) -> tuple[Array, Array]:
        """Panels between the jumps of the label. Late in learning only samples whose field is near a break move the student,
        so the axis is also split before, at and behind them; or where a smooth update hardly varies any more."""
        own, along = jnp.max(jnp.diagonal(at.L)[1:]), jnp.max(jnp.abs(at.L[1:, 0]))
        scale = jnp.where(at.L[0, 0] > 0, at.L[0, 0], 1.0)
        edges = jnp.stack([SMOOTH_RANGE + 6 * own])
        if split:
            size = jnp.abs(_student_breaks(at, jnp.stack([scale, -scale])) - at.mean[1])
            near, middle, far = jnp.maximum(jnp.min(size) - 6 * own, 0.0), jnp.max(size), jnp.max(size) + 6 * own
            edges = jnp.stack([near, middle, far])
        reach = jnp.minimum(edges / jnp.maximum(along, 1e-6), REACH)
        jumps = (jnp.asarray(self.label_jumps or (0.0,)) - at.mean[0]) / scale
        return panels(jnp.concatenate([jumps, -reach, reach]), self.grid, ENDS)

    def _split_grid(self, at: RuleAtState, teacher: NumpyOrJax, outer: NumpyOrJax) -> tuple[Nodes, Weights]:
        """Nodes of the teacher's axis times panels of the student's axis between the breaks of the rule."""
        own = jnp.where(at.L[1, 1] > 0, at.L[1, 1], 1.0)
        breaks = _student_breaks(at, at.mean[0] + at.L[0, 0] * teacher)
        student, inner = panels((breaks - (at.mean[1] + at.L[1, 0] * teacher)[:, None]) / own, self.grid, ENDS)
        inner = inner / jnp.sum(inner, axis=1, keepdims=True)  # one panel alone is wide for its nodes
        e = jnp.stack([jnp.repeat(teacher, student.shape[1]), student.ravel()], axis=1)
        return e, (outer[:, None] * inner).ravel()


def _student_breaks(at: RuleAtState, rho: Float[Array, " count"]) -> Float[Array, "count breaks"]:
    """Fields of the student at which the update jumps or bends, for each of some teacher fields."""

    def one(rho: Array) -> Array:
        problem, output = at.problem, at.problem.teacher.output(rho[None])
        labels = problem.labels.truth(output, rho[None])[None]
        if at.noisy:
            labels = problem.labels.outcomes(output, rho[None], problem.noise, not problem.has_noise_law)[0]
        few = labels if labels.shape[0] <= MOST_OUTCOMES else labels[:0]
        found = [b for label in few for b in at.rule.breaks(label, at.parameters, at.context)]
        return jnp.stack([jnp.reshape(b, ()) for b in found or [jnp.zeros(())]])

    return jax.vmap(one)(rho)


def node_moments(problem: Problem, sampled: Sampled | None, others: Iterable[Problem], still: bool = False) -> NodeMoments:
    """A grid for few fields, else a quasi-random set. still: the field of the only teacher does not vary."""
    K, M = problem.student.hidden, problem.teacher.hidden
    jumps, noisy = bool(missing_traits(problem, ("smooth",))), any(map(_is_noisy, (problem, *others)))
    grid = _grid_size(problem, jumps, noisy, still) if sampled is None else 0
    if grid:
        return NodeMoments(None, grid, jumps, noisy, _label_jumps(problem) if M == 1 else (), still=still)
    sampled, law = Sampled() if sampled is None else sampled, problem.rule.law(K, 0.0)
    own = law.numbers(sampled.points, sampled.seed) if isinstance(law, PerUnit) and not law.enumerable else None
    e = sobol(sampled.points, K + M - still, sampled.seed)
    return NodeMoments(np.pad(e, ((0, 0), (int(still), 0))), 0, jumps, noisy, (), own, still)


def _grid_size(problem: Problem, jumps: bool, noisy: bool, still: bool) -> int:
    """Nodes per panel of the grid, 0 where a sample is better."""
    # A grid of two fields can be split, and differentiated, only where it is known at which fields the update jumps. One of
    # three needs an update without jumps or bends, and labels of which it is known where they jump.
    student, teacher, labels, loss, rule = problem.student, problem.teacher, problem.labels, problem.loss, problem.rule
    K, M = student.hidden, teacher.hidden
    if 3 + still < K + M:
        return 0
    context = Context(student, loss, jnp.ones(()), jnp.zeros(()), (jnp.zeros((K, M)), jnp.eye(K), jnp.eye(M)))
    given = jnp.ones(()), Parameters(jnp.asarray(student.readout)), context
    bends = bool(loss.breaks(given[0]) if rule.uses_loss else rule.breaks(*given))
    if K == M == 1:
        known = not jumps or bends
        if jumps and rule.uses_loss:
            # noise of real labels makes a jump for each of its values
            found = bends and is_proportional(student.activation) and not (noisy and isinstance(labels, Real))
            known = not rule.moves_fields and len(student.activation.breaks) <= MANY and (found or not loss.jumps)
        return 0 if not known else FINE_GRID if rule.moves_fields or isinstance(rule, Reinforce) else GRID
    if jumps or bends or rule.moves_fields:
        return 0
    known = teacher.outputs == 1 and (labels.metric != "class" or has_boundary(student))
    if M == 2:
        known = type(labels) is Real and teacher.activation.smooth
    return GRID_OF_THREE if known else 0


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
    if (type(labels) in (Real, Logistic) and g.smooth) or checks.is_traced(labels, teacher):
        return ()
    return _found_jumps(type(labels), getattr(labels, "function", None), g, float(np.ravel(teacher.readout)[0]))


@lru_cache(maxsize=32)
def _found_jumps(
    kind: Callable[..., Labels], function: Callable | None, activation: Activation, readout: float
) -> tuple[float, ...]:
    """The same by search; labels of one kind and function have their jumps in one place."""
    labels = kind() if function is None else kind(function)
    label = jnp.vectorize(lambda x: jnp.ravel(labels.truth(readout * activation(x[None])[0], x[None])), signature="()->(v)")
    places = sorted(x for order in (0, 1) for x in breaks_of(label, order) if abs(x) < REACH)
    return tuple(places) if len(places) <= MOST_LABEL_JUMPS else ()
