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

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfinv
from jaxtyping import Float

from tutelage._jump_search import find_jumps
from tutelage._types import Array, NumpyOrJax
from tutelage.losses import Squared
from tutelage.moments.averages import Covariance, Means
from tutelage.moments.matrices import MeanUpdate, Moments
from tutelage.moments.nodes import NEAR, REACH, SETS, panels, trapezoid
from tutelage.moments.numerics import divide_left, divide_right, factor
from tutelage.problem import Network, Problem
from tutelage.problem.activation import NAMED, Activation, erf
from tutelage.problem.sample import mean_norm2
from tutelage.rules import Context, Label, Parameters, PerUnit, Rule, Sample, Update, is_affine_in_label

ENDS = (-REACH, REACH)
ONE_NODE = np.zeros(1), np.ones(1)
FAR_AWAY = 1e150  # a boundary that is not met
SMOOTH_RANGE = 4.0  # fields over which a smooth update varies
SIDE_BY_SIDE = 4  # labels per sample up to which all are averaged at once
MOST_OUTCOMES = 3  # labels per sample up to which the grid is split where the update jumps


Nodes = Float[Array | np.ndarray, "P n"]
Weights = Float[Array | np.ndarray, " P"]


class Response(NamedTuple):
    """What the average sample with given fields does: mean over labels and randomness of the rule. Nodes stand last: loops
    over them are then loops over neighbors in memory."""

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
    """A rule, and all that its averages depend on. mean, L: of the fields, teachers first.

    numbers: what the rule's xi is made from at every node (`PerUnit`); None: the nodes of its law are enumerated at each.
    """

    problem: Problem
    rule: Rule
    L: Float[Array, "n n"]
    mean: Float[Array, " n"]
    parameters: Parameters
    context: Context
    numbers: Float[NumpyOrJax, "P numbers"] | None = None

    def responses(self, e: Nodes, noisy: bool) -> Response:
        """The mean response at every node, over labels and the rule's own randomness.

        Many labels (nodes of continuous noise) are taken one after the other: XLA then updates all nodes in one fast loop.
        """
        M = self.problem.teacher.hidden
        fields = self.mean[:, None] + self.L @ e.T
        rho, student = fields[:M], fields[M:]
        labels, weights = jax.vmap(partial(self.labels, noisy), in_axes=1, out_axes=-1)(rho)
        law, norm2 = self.rule.law(self.problem.student.hidden, self.context.time), mean_norm2(self.problem)
        placed = law if isinstance(law, PerUnit) and self.numbers is not None else None
        draws, shares = jnp.zeros((1, 0)), jnp.ones(1)  # of xi, which a rule without randomness does not see
        if law is not None:
            draws, shares = map(jnp.asarray, law.nodes(False) if placed is None else placed.patterns())

        def one(student: Array, rho: Array, label: Array, xi: Array | None) -> Update:
            return self.rule.update(Sample(student, rho, label, xi, norm2), self.parameters, self.context)

        def given(label: Array, weight: Array, draw: Array, share: Array) -> Response:
            """The part of one label per node and one draw of xi."""
            xi = draw if law is not None else None
            if placed is not None:
                xi = placed.at_points(draw, jnp.asarray(self.numbers))
            axes = (-1, -1, -1, None if placed is None else 0)
            update = jax.vmap(one, in_axes=axes, out_axes=-1)(student, rho, label, xi)
            pairs = update.delta[:, None] * update.delta
            each = Response(update.delta, pairs, update.parameters.readout, jnp.asarray(update.loss, float))
            return Response(*(weight * share * x for x in each))

        def over_draws(label: Array, weight: Array) -> Response:
            return _added(lambda at: given(label, weight, *at), (draws, shares))

        return _added(lambda at: over_draws(*at), (labels, weights))

    def labels(self, noisy: bool, rho: Float[Array, " M"]) -> tuple[Float[Array, "X ..."], Float[Array, " X"]]:
        """All labels that a sample with given teacher fields may have, and their weights."""
        problem, output = self.problem, self.problem.teacher.output(rho)
        if not noisy:
            return problem.labels.truth(output, rho)[None], jnp.ones(1)
        affine = is_affine_in_label(self.rule) and type(problem.loss) is Squared
        return problem.labels.outcomes(output, rho, problem.noise, affine)


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


def node_sums(at: RuleAtState, e: Nodes, weights: Weights, *, jumps: bool, noisy: bool) -> Sums:
    """Averages over nodes."""
    if jumps:
        return _with_scores(at, e, weights, noisy)
    return _sums(e, weights, at.responses(e, noisy))


def _sums(e: Nodes, weights: Weights, each: Response) -> Sums:
    return Sums(
        D=(each.delta * weights) @ e,
        delta=each.delta @ weights,
        pairs=each.pairs @ weights,
        readout=each.readout @ weights,
        loss=each.loss @ weights,
    )


@eqx.filter_custom_jvp
def _with_scores(at: RuleAtState, e: Nodes, weights: Weights, noisy: bool) -> Sums:
    return _sums(e, weights, at.responses(e, noisy))


@_with_scores.def_jvp
def _score_derivative(primals: Any, tangents: Any) -> tuple[Sums, Sums]:
    (at, e, weights, noisy), moves = primals, tangents[0]
    each = at.responses(e, noisy)
    value = _sums(e, weights, each)
    dL = jnp.zeros_like(at.L) if moves.L is None else moves.L
    d_mean = jnp.zeros_like(at.mean) if moves.mean is None else moves.mean
    u = divide_left(at.L, (d_mean + e @ dL.T).T).T
    score = jnp.sum(e * u, axis=1) - jnp.trace(divide_left(at.L, dL))
    moved = _sums(e, weights * score, each)
    moved = moved._replace(D=moved.D - (each.delta * weights) @ u)
    # what readouts, rates and other numbers do at fixed fields
    still = eqx.tree_at(lambda a: (a.L, a.mean), moves, (None, None), is_leaf=lambda x: x is None)
    if all(leaf is None for leaf in jax.tree.leaves(still, is_leaf=lambda x: x is None)):
        return value, moved
    _, direct = eqx.filter_jvp(lambda a: _sums(e, weights, a.responses(e, noisy)), (at,), (still,))
    return value, jax.tree.map(lambda a, b: a if b is None else a + b, moved, direct)


class ErrorMetric(Rule):
    """The error of a student as a rule that never learns: its loss is the metric of the labels.

    metric "squared": |label - output|^2 / 2. "class": 1 if the student's class is not the label's (ties count half).
    """

    jumps: ClassVar[bool] = True
    metric: str = eqx.field(static=True)

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        output = parameters.readout @ context.student.activation(sample.student)
        if self.metric == "squared":
            loss = jnp.sum((sample.label - output) ** 2) / 2
        elif jnp.ndim(output):
            loss = 1.0 - jnp.sum(sample.label * (output == jnp.max(output)))
        else:
            loss = (1.0 - jnp.sign(output) * jnp.sign(sample.label)) / 2
        return self.result(jnp.zeros_like(sample.student), parameters, loss=loss)

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        """Where the output of a single unit changes its sign, or its activation breaks."""
        activation = context.student.activation
        places = activation.breaks if self.metric == "squared" else sign_changes(activation)
        return tuple(jnp.asarray(x) for x in places)


@lru_cache(maxsize=64)
def sign_changes(activation: Activation) -> tuple[float, ...]:
    """Where the sign of an activation changes: the class that a single unit predicts."""

    def sign(x: np.ndarray) -> np.ndarray:
        return np.sign(np.asarray(activation(jnp.asarray(x)[:, None])))

    with jax.ensure_compile_time_eval():
        return tuple(find_jumps(sign, NEAR))


INVERSES = {
    NAMED["linear"]: lambda y: y,
    NAMED["erf"]: lambda y: np.sqrt(2.0) * erfinv(y),
    NAMED["tanh"]: jnp.arctanh,
}


def has_boundary(student: Network) -> bool:
    """Does the sign of the output change at one value of each field, whatever the other ones?"""
    return student.activation in INVERSES and student.outputs == 1


def _largest_readout_last(at: RuleAtState, C: Covariance, mean: Means) -> RuleAtState:
    """The same state with the student units in another order: the unit with the largest readout outvotes another one."""
    M, K = at.problem.teacher.hidden, at.problem.student.hidden
    order = jnp.argsort(jnp.abs(at.parameters.readout))
    fields = jnp.concatenate([K + jnp.arange(M), order])
    L, means = factor(C[fields][:, fields]), at.mean if mean is None else mean[fields]
    parameters = Parameters(at.parameters.readout[order], at.parameters.bias)
    return RuleAtState(at.problem, at.rule, L, means, parameters, at.context)


def class_error(at: RuleAtState, e: Float[Array | np.ndarray, "P m"], weights: Weights, noisy: bool) -> Float[Array, ""]:
    """The probability of a wrong class, by nodes of all fields but the last: its part is a normal probability.

    Given the other fields the output v_K g(lambda_K) + rest is positive beyond one value of the last student field, for g is
    increasing. So the jump of the class is integrated exactly, and the sum over nodes can be differentiated.
    """
    M, v, g = at.problem.teacher.hidden, at.parameters.readout, at.problem.student.activation
    fields, mean = at.mean[:-1, None] + at.L[:-1, :-1] @ e.T, at.mean[-1] + e @ at.L[-1, :-1]
    labels, shares = jax.vmap(partial(at.labels, noisy), in_axes=1, out_axes=-1)(fields[:M])
    limit = -(v[:-1] @ g(fields[M:])) / jnp.where(jnp.abs(v[-1]) > 1e-12, v[-1], 1e-12)  # of g(lambda_K)
    inside = jnp.abs(limit) < (1.0 if g.polynomial is None else jnp.inf)  # erf and tanh stay between -1 and 1
    boundary = jnp.where(inside, INVERSES[g](jnp.where(inside, limit, 0.0)), jnp.sign(limit) * FAR_AWAY)
    sign = erf(
        jnp.sign(v[-1]) * (mean - boundary) / jnp.maximum(at.L[-1, -1], 1e-150) * 0.5**0.5
    )  # of the output, on average
    return jnp.sum(shares * (1 - sign * jnp.sign(labels)) / 2, axis=0) @ weights


def confidence(each: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """A bound on the error of the mean of eight independent scramblings (leading axis): 3.5 standard errors.

    Student's t with seven degrees of freedom: 99% for one number, so that a whole curve is covered with 95%.
    """
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

    def matrices(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        rule, M = self._rule(problem, C, mean, parameters, context), problem.teacher.hidden
        at = self._at(problem, rule, C, mean, parameters, context)
        sums = self._sums(at, self.jumps, self.noisy)
        simple, wider = rule.mean_rule(C, problem.student.hidden)
        at_mean, of_mean = at, sums
        if simple is not rule:
            at_mean = self._at(problem, simple, wider, mean, parameters, context)
            of_mean = self._sums(at_mean, self.jumps, self.noisy)
        c = divide_right(of_mean.D, at_mean.L)
        G = jnp.zeros_like(sums.pairs) if flow else sums.pairs
        return MeanUpdate(c[:, M:], c[:, :M], sums.readout, of_mean.delta), G

    def loss(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context
    ) -> Float[Array, ""]:
        """The population training loss; NaN for rules of episodes, which follow none."""
        if problem.rule.samples > 1:
            return jnp.full((), jnp.nan)
        at = self._at(problem, problem.rule, C, mean, parameters, context)
        return self._sums(at, self.jumps, self.noisy).loss

    def error(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context
    ) -> Float[Array, ""]:
        """The metric of the labels (`ErrorMetric`)."""
        if mean is None and signs_agree(problem):
            return angle(C, jnp.sign(parameters.readout[0] * jnp.asarray(problem.teacher.readout)[0])) / np.pi
        metric = problem.labels.metric
        at = self._at(problem, ErrorMetric(metric), C, mean, parameters, context)
        random = bool(getattr(problem.labels, "random", False))
        if metric == "class" and C.shape[0] > 2 and has_boundary(problem.student):
            at = _largest_readout_last(at, C, mean)
            return class_error(at, *self._nodes(at, random, without_last=True), random)
        return self._sums(at, metric == "class" or self.jumps, random).loss

    def scramblings(self) -> list["NodeMoments"]:
        """The independent parts of a sampled set, each a set of its own."""
        assert self.e is not None
        numbers = [None] * SETS if self.numbers is None else np.split(np.asarray(self.numbers), SETS)
        return [replace(self, e=e, numbers=own) for e, own in zip(np.split(np.asarray(self.e), SETS), numbers, strict=True)]

    def finer(self) -> "NodeMoments":
        """The grid that estimates this one's error: 3/2 the nodes."""
        return replace(self, grid=self.grid * 3 // 2)

    def _rule(self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context) -> Rule:
        """The problem's rule; of episodes, the rule of their average sample."""

        def mean_loss(rule: Rule) -> Array:
            return self._sums(self._at(problem, rule, C, mean, parameters, context), self.jumps, self.noisy).loss

        return problem.rule.of_one_sample(mean_loss)

    def _at(
        self, problem: Problem, rule: Rule, C: Covariance, mean: Means, parameters: Parameters, context: Context
    ) -> RuleAtState:
        M = problem.teacher.hidden
        first = lambda x: jnp.roll(x, M, axis=-1)  # noqa: E731  teachers first
        L = factor(first(first(C).T).T)
        mean = jnp.zeros(C.shape[0]) if mean is None else first(mean)
        return RuleAtState(problem, rule, L, mean, parameters, context, self.numbers)

    def _sums(self, at: RuleAtState, jumps: bool, noisy: bool) -> Sums:
        # the nodes of a grid move with the jumps: plain derivatives hold
        return node_sums(at, *self._nodes(at, noisy), jumps=jumps and not self.grid, noisy=noisy)

    def _nodes(self, at: RuleAtState, noisy: bool, without_last: bool = False) -> tuple[Nodes, Weights]:
        """The points and their weights, on all axes or on all but the last.

        Axes of a grid have even nodes, but that of a single teacher has panels. For two fields the student's axis is split
        where the rule has breaks.
        """
        if self.e is not None:
            return self.e[:, : self.e.shape[1] - without_last], np.full(self.points, 1 / self.points)
        M, n = at.problem.teacher.hidden, at.L.shape[0]
        split = n == 2 and bool(at.rule.breaks(_some_label(at.problem), at.parameters, at.context))
        teacher, even = trapezoid(2 * self.grid), trapezoid(2 * self.grid)
        if self.still:
            teacher = ONE_NODE
        elif M == 1:
            teacher = self._teacher_axis(at, noisy, split)
            even = even if n == 2 else trapezoid(5 * self.grid // 3)
        if split:
            return self._split_grid(at, noisy, *teacher)
        if without_last:
            even = trapezoid(5 * self.grid)
        nodes, weights = zip(teacher, *[even] * (n - 1 - without_last), strict=True)
        e = jnp.stack(jnp.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(nodes))
        return e, reduce(lambda x, y: jnp.outer(x, y).ravel(), weights)

    def _teacher_axis(self, at: RuleAtState, noisy: bool, split: bool) -> tuple[Array, Array]:
        """Panels between the jumps of the label. Late in learning only samples whose field is near a break move the student,
        so the axis is also split before, at and behind them; or where a smooth update hardly varies any more."""
        own, along = jnp.max(jnp.diagonal(at.L)[1:]), jnp.max(jnp.abs(at.L[1:, 0]))
        scale = jnp.where(at.L[0, 0] > 0, at.L[0, 0], 1.0)
        edges = jnp.stack([SMOOTH_RANGE + 6 * own])
        if split:
            size = jnp.abs(self._breaks(at, noisy, jnp.stack([scale, -scale])) - at.mean[1])
            near, middle, far = jnp.maximum(jnp.min(size) - 6 * own, 0.0), jnp.max(size), jnp.max(size) + 6 * own
            edges = jnp.stack([near, middle, far])
        reach = jnp.minimum(edges / jnp.maximum(along, 1e-6), REACH)
        jumps = (jnp.asarray(self.label_jumps or (0.0,)) - at.mean[0]) / scale
        return panels(jnp.concatenate([jumps, -reach, reach]), self.grid, ENDS)

    def _split_grid(self, at: RuleAtState, noisy: bool, teacher: NumpyOrJax, outer: NumpyOrJax) -> tuple[Nodes, Weights]:
        """Nodes of the teacher's axis times panels of the student's axis between the breaks of the rule."""
        own = jnp.where(at.L[1, 1] > 0, at.L[1, 1], 1.0)
        breaks = self._breaks(at, noisy, at.mean[0] + at.L[0, 0] * teacher)
        student, inner = panels((breaks - (at.mean[1] + at.L[1, 0] * teacher)[:, None]) / own, self.grid, ENDS)
        inner = inner / jnp.sum(inner, axis=1, keepdims=True)  # one panel alone is wide for its nodes
        e = jnp.stack([jnp.repeat(teacher, student.shape[1]), student.ravel()], axis=1)
        return e, (outer[:, None] * inner).ravel()

    def _breaks(self, at: RuleAtState, noisy: bool, rho: Float[Array, " count"]) -> Float[Array, "count breaks"]:
        """Fields of the student at which the update jumps or bends, for each of some teacher fields."""
        problem = at.problem

        def one(rho: Array) -> Array:
            output = problem.teacher.output(rho[None])
            labels = problem.labels.truth(output, rho[None])[None]
            if noisy:
                labels = problem.labels.outcomes(output, rho[None], problem.noise, True)[0]
            few = labels if labels.shape[0] <= MOST_OUTCOMES else labels[:0]
            found = [b for label in few for b in at.rule.breaks(label, at.parameters, at.context)]
            return jnp.stack([jnp.reshape(b, ()) for b in found or [jnp.zeros(())]])

        return jax.vmap(one)(rho)


def _some_label(problem: Problem) -> Array:
    """Some label of the problem."""
    rho = jnp.ones(problem.teacher.hidden)
    return problem.labels.truth(problem.teacher.output(rho), rho)


def signs_agree(problem: Problem) -> bool:
    """Is the class error the angle between two vectors? One unit and one teacher, both odd and increasing."""
    units = problem.student, problem.teacher
    increasing = all(n.hidden == 1 and n.activation.parity == -1 and n.activation.increasing for n in units)
    return increasing and problem.labels.kind == "sign"


def angle(C: Float[Array, "2 2"], sign: Float[Array, ""]) -> Float[Array, ""]:
    """The angle between student and teacher vector (or its mirror image); accurate and differentiable down to zero."""
    Q, R, T = C[0, 0], C[0, 1], C[1, 1]
    across = Q * T - R**2
    return jnp.arctan2(jnp.sqrt(jnp.where(across > 0, across, 1.0)) * (across > 0), sign * R)
