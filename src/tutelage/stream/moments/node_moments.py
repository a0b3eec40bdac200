"""Averages of any rule over nodes.

For two fields, or three of a smooth rule, the nodes are a grid; else a fixed
quasi-random set. node_sums.py has the averages over given nodes and their derivatives.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._jump_search import breaks_of
from tutelage._types import Array, NumpyOrJax
from tutelage.problem import Problem
from tutelage.problem.activation import Activation
from tutelage.problem.labels import Labels, Logistic, Real, Sign
from tutelage.problem.traits import is_affine_in_label, missing_traits
from tutelage.randomness import Law, even_nodes
from tutelage.stream.moments.averages import FieldState, MeanUpdate, Moments
from tutelage.stream.moments.class_error import (
    ErrorMetric,
    has_boundary,
    wrong_sign_by_angle,
    wrong_sign_by_last_field,
)
from tutelage.stream.moments.node_sums import (
    Nodes,
    RuleAtState,
    Sums,
    Weights,
    divided,
    is_affine_in_noise,
    node_sums,
    scored_sums,
)
from tutelage.stream.moments.noise_nodes import (
    LATTICE,
    Fineness,
    nodes_of,
    random_shifts,
)
from tutelage.stream.moments.quadrature import (
    MANY,
    REACH,
    SETS,
    Sampled,
    factor,
    panels,
    sobol,
)
from tutelage.training.rules import (
    Context,
    Parameters,
    PerUnit,
    Reinforce,
    Rule,
    is_proportional,
)
from tutelage.training.schedules import is_schedule

ENDS = (-REACH, REACH)
ONE_NODE = (np.zeros(1), np.ones(1))
SMOOTH_RANGE = 4.0  # fields over which a smooth update varies
WIDTHS = 6.0  # deviations of a field around a break that panels resolve
# Labels per sample up to which the grid is split where the update jumps.
MOST_OUTCOMES = 3
MOST_LABEL_JUMPS = 16  # more are not followed one by one
# Nodes of each panel of a grid for two fields; the same for rules that evaluate moved
# fields, or that learn from all samples on both sides of a jump; and for three fields.
GRID = 16
FINE_GRID = 32
GRID_OF_THREE = 12
# Points that are averaged at once where a compiled program serves sets of many sizes,
# and the points for which such a program has at least room.
BLOCK = 2**11
CAPACITY = 2**17
# Divided by the nodes of a panel of a grid: the distance of the nodes of the noise, and
# of labels that may jump with xi.
GRID_STEP = 1.6
JUMP_STEP = 0.4
# Student's t with seven degrees of freedom: 99% for one number, so that a whole curve
# is covered with 95%.
STANDARD_ERRORS = 3.5


def confidence(values: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return a bound on the error of the mean of eight independent scramblings.

    They are the leading axis. The bound is 3.5 standard errors.
    """
    standard_error = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    return STANDARD_ERRORS * standard_error


class NodeMoments(Moments):
    """Averages of any rule over a quasi-random set, or over a grid.

    The nodes of a grid are placed at every call, between the fields at which label or
    update jump. The scramblings of a set, and a finer grid, do not share the nodes of
    what labels and the rule draw.

    Parameters
    ----------
    e : array (P, n) or None
        The quasi-random set, teacher axes first; None for a grid.
    grid : int
        Nodes per panel for two or three fields, else 0.
    jumps : bool
        Derivatives are taken from the density.
    noisy : bool
        Labels vary at given fields.
    label_jumps : tuple of float
        Teacher fields at which the label jumps or bends (grid only).
    numbers : array, optional
        The numbers that the rule's xi is made from at each point of a set, for laws
        that cannot be enumerated.
    still : bool
        The teacher has one unit, whose field does not vary (the label of a class of a
        mixture): its axis has one node.
    blocks : int, optional
        The number of blocks of `BLOCK` points that are averaged, one after the other;
        the rest of e is room for larger sets. None: all points at once.
    shifts : array, optional
        Uniform numbers that shift the nodes of what labels and the rule draw, different
        ones at each point.
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
        self, state: FieldState, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        def mean_loss(rule: Rule) -> Array:
            return self._sums(self._of(rule, state)).loss

        problem = state.problem
        averaged = problem.optimizer.averaged_rule(problem.rule)
        rule = averaged.of_one_sample(mean_loss)
        rule_state = self._of(rule, state)
        sums = self._sums(rule_state)
        # a rule may have a simpler rule, at wider fields, with the same mean update
        mean_state = rule_state
        mean_sums = sums
        simpler_rule, wider = rule.mean_rule(state.C, state.problem.student.hidden)
        if simpler_rule is not rule:
            mean_state = self._of(simpler_rule, replace(state, C=wider))
            mean_sums = self._sums(mean_state)
        # (B | A) = D L^-1
        coefficients = divided(mean_state.L, mean_sums.D.T, trans=1).T
        B, A = jnp.split(coefficients, [state.problem.labeler.hidden], axis=1)
        bias = mean_sums.parameters.bias
        update = MeanUpdate(
            A=A,
            B=B,
            readout=sums.parameters.readout,
            bias=mean_sums.delta if bias is None else bias,
        )
        G = jnp.zeros_like(sums.pairs) if flow else sums.pairs
        return update, G

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return the error and the loss, which is NaN for rules of episodes.

        These rules follow no loss.
        """
        error = self.error(state)
        rule = state.problem.rule
        if rule.samples > 1:
            return error, jnp.full((), jnp.nan)
        return error, self._sums(self._of(rule, state)).loss

    def error(self, state: FieldState) -> Float[Array, ""]:
        """Return the metric of the labels (`ErrorMetric`)."""
        problem = state.problem
        v = state.parameters.readout
        has_angle = state.mean is None and problem.labels.kind == "sign"
        for network in (problem.student, problem.labeler):
            g = network.activation
            is_odd = g.parity == -1 and g.increasing
            has_angle = has_angle and network.hidden == 1 and is_odd
        if has_angle:
            teacher_readout = jnp.asarray(problem.labeler.readout)
            return wrong_sign_by_angle(state.C, v, teacher_readout)
        is_random = bool(getattr(problem.labels, "random", False))
        moments = replace(self, noisy=is_random)
        metric = ErrorMetric(problem.labels.metric)
        by_class = problem.labels.metric == "class"
        if by_class and state.C.shape[0] > 2 and has_boundary(problem.student):
            return moments._error_by_last_field(metric, state)
        moments = replace(moments, jumps=by_class or self.jumps)
        return moments._sums(moments._of(metric, state)).loss

    def _error_by_last_field(
        self, metric: ErrorMetric, state: FieldState
    ) -> Float[Array, ""]:
        """Return the probability of a wrong sign, with one field integrated exactly."""
        # the unit with the largest readout, which outvotes another one, stands last
        v = state.parameters.readout
        order = jnp.argsort(jnp.abs(v))
        fields = jnp.concatenate([order, jnp.arange(v.size, state.C.shape[0])])
        reordered = replace(
            state,
            C=state.C[fields][:, fields],
            mean=None if state.mean is None else state.mean[fields],
            parameters=Parameters(v[order], state.parameters.bias),
        )
        rule_state = self._of(metric, reordered)
        if self.blocks is None:
            e, weights = self._nodes(rule_state, without_last=True)
            return wrong_sign_by_last_field(rule_state, e, weights)

        def average(block: RuleAtState, e: Nodes, weights: Weights) -> Array:
            return wrong_sign_by_last_field(block, e[:, :-1], weights)

        return self._over_blocks(average, rule_state)

    def scramblings(self) -> list["NodeMoments"]:
        """Return the independent parts of a sampled set, each a set of its own."""
        assert self.e is not None

        def parts(x: NumpyOrJax | None) -> list[Any]:
            return [None] * SETS if x is None else np.split(np.asarray(x), SETS)

        sets = zip(parts(self.e), parts(self.numbers), parts(self.shifts), strict=True)
        return [
            replace(self, e=e, numbers=numbers, shifts=shifts)
            for e, numbers, shifts in sets
        ]

    def in_blocks(self) -> "NodeMoments":
        """Return the same averages by a program that serves other numbers of points.

        Nothing is compiled for these.
        """
        if self.e is None or self.points % BLOCK or self.blocks is not None:
            return self
        power_of_two = 2 ** int(np.ceil(np.log2(self.points)))
        room = max(CAPACITY, power_of_two) - self.points

        def padded(x: NumpyOrJax | None) -> np.ndarray | None:
            return None if x is None else np.pad(np.asarray(x), ((0, room), (0, 0)))

        return replace(
            self,
            e=padded(self.e),
            numbers=padded(self.numbers),
            shifts=padded(self.shifts),
            blocks=np.array(self.points // BLOCK),
        )

    def _over_blocks(
        self, average: Callable[[RuleAtState, Nodes, Weights], Any], state: RuleAtState
    ) -> Any:
        """Return the mean over blocks of points of an average over one of them."""
        weights = np.full(BLOCK, 1 / BLOCK)

        def of_block(block: NumpyOrJax) -> Any:
            def rows(x: NumpyOrJax | None) -> Any:
                if x is None:
                    return None
                return jax.lax.dynamic_slice_in_dim(
                    jnp.asarray(x), block * BLOCK, BLOCK
                )

            block_state = replace(
                state, numbers=rows(self.numbers), shifts=rows(self.shifts)
            )
            return average(block_state, rows(self.e), weights)

        def add(block: Array, total: Any) -> Any:
            return jax.tree.map(jnp.add, total, of_block(block))

        blocks = jnp.asarray(self.blocks)
        total = jax.lax.fori_loop(1, blocks, add, of_block(np.array(0)))
        return jax.tree.map(lambda x: x / blocks, total)

    def finer(self) -> "NodeMoments":
        """Return the grid that estimates this one's error: 3/2 the nodes."""
        return replace(self, grid=self.grid * 3 // 2)

    def _of(self, rule: Rule, state: FieldState) -> RuleAtState:
        """Return a rule at a state, with the fields in the order of the nodes."""
        M = state.problem.labeler.hidden

        def teachers_first(x: Array) -> Array:
            return jnp.roll(x, M, axis=-1)

        L = factor(teachers_first(teachers_first(state.C).T).T)
        if state.mean is None:
            mean = jnp.zeros(state.C.shape[0])
        else:
            mean = teachers_first(state.mean)
        # a grid has fewer points, and a finer one: more nodes of the noise at each
        fineness = Fineness()
        if self.grid:
            step = GRID_STEP if isinstance(state.problem.labels, Real) else JUMP_STEP
            fineness = Fineness(
                step=step / self.grid, panel=self.grid, lattice=LATTICE * self.grid
            )
        return RuleAtState(
            problem=state.problem,
            rule=rule,
            L=L,
            mean=mean,
            parameters=state.parameters,
            context=state.context,
            numbers=self.numbers,
            noisy=self.noisy,
            shifts=self.shifts,
            fineness=fineness,
        )

    def _sums(self, state: RuleAtState) -> Sums:
        # the nodes of a grid move with the jumps: plain derivatives hold
        sums = scored_sums if self.jumps and not self.grid else node_sums
        if self.blocks is not None:
            return self._over_blocks(sums, state)
        return sums(state, *self._nodes(state))

    def _nodes(
        self, state: RuleAtState, without_last: bool = False
    ) -> tuple[Nodes, Weights]:
        """Return the points and their weights, on all axes or on all but the last."""
        if self.e is not None:
            axes = self.e.shape[1] - without_last
            return self.e[:, :axes], np.full(self.points, 1 / self.points)
        return self._grid_nodes(state, without_last)

    def _grid_nodes(
        self, state: RuleAtState, without_last: bool
    ) -> tuple[Nodes, Weights]:
        """Return the nodes of a grid.

        Its axes have even nodes, but that of a single teacher has panels. For two
        fields the student's axis is split where the rule has breaks.
        """
        teacher = state.problem.labeler
        n = state.L.shape[0]
        rho = jnp.ones(teacher.hidden)
        label = state.problem.labels.truth(teacher.output(rho), rho)
        is_split = False
        if n == 2:
            breaks = state.rule.breaks(label, state.parameters, state.context)
            is_split = bool(breaks)
        even = even_nodes(2 * self.grid, REACH)
        first = even
        if self.still:
            first = ONE_NODE
        elif teacher.hidden == 1:
            first = self._teacher_axis(state, is_split)
            if n > 2:
                even = even_nodes(5 * self.grid // 3, REACH)
        if is_split:
            return self._split_grid(state, *first)
        if without_last:
            even = even_nodes(5 * self.grid, REACH)
        axes: list[Any] = [first] + [even] * (n - 1 - without_last)
        grid = jnp.meshgrid(*[nodes for nodes, _ in axes], indexing="ij")
        e = jnp.stack(grid, axis=-1).reshape(-1, len(axes))

        def outer(x: Array, y: Array) -> Array:
            return jnp.outer(x, y).ravel()

        return e, reduce(outer, [weights for _, weights in axes])

    def _teacher_axis(self, state: RuleAtState, is_split: bool) -> tuple[Array, Array]:
        """Return panels between the jumps of the label.

        Late in learning only samples whose field is near a break move the student, so
        the axis is also split before, at and behind these; or where a smooth update
        hardly varies any more.
        """
        # the student's fields: deviation at a given teacher field, and slope along it
        width = jnp.max(jnp.diagonal(state.L)[1:])
        slope = jnp.max(jnp.abs(state.L[1:, 0]))
        scale = jnp.where(state.L[0, 0] > 0, state.L[0, 0], 1.0)
        if is_split:
            breaks = _student_breaks(state, jnp.stack([scale, -scale]))
            distances = jnp.abs(breaks - state.mean[1])
            nearest = jnp.maximum(jnp.min(distances) - WIDTHS * width, 0.0)
            farthest = jnp.max(distances)
            edges = jnp.stack([nearest, farthest, farthest + WIDTHS * width])
        else:
            edges = jnp.stack([SMOOTH_RANGE + WIDTHS * width])
        reach = jnp.minimum(edges / jnp.maximum(slope, 1e-6), REACH)
        label_jumps = jnp.asarray(self.label_jumps or (0.0,))
        jumps = (label_jumps - state.mean[0]) / scale
        return panels(jnp.concatenate([jumps, -reach, reach]), self.grid, ENDS)

    def _split_grid(
        self,
        state: RuleAtState,
        teacher_nodes: NumpyOrJax,
        teacher_weights: NumpyOrJax,
    ) -> tuple[Nodes, Weights]:
        """Return the teacher's nodes times panels of the student's axis.

        The panels lie between the breaks of the rule.
        """
        width = jnp.where(state.L[1, 1] > 0, state.L[1, 1], 1.0)
        rho = state.mean[0] + state.L[0, 0] * teacher_nodes
        breaks = _student_breaks(state, rho)
        mean = state.mean[1] + state.L[1, 0] * teacher_nodes
        student_nodes, weights = panels(
            (breaks - mean[:, None]) / width, self.grid, ENDS
        )
        # one panel alone is wide for its nodes
        weights = weights / jnp.sum(weights, axis=1, keepdims=True)
        teacher_axis = jnp.repeat(teacher_nodes, student_nodes.shape[1])
        e = jnp.stack([teacher_axis, student_nodes.ravel()], axis=1)
        return e, (teacher_weights[:, None] * weights).ravel()


def _student_breaks(
    state: RuleAtState, rho: Float[Array, " count"]
) -> Float[Array, "count breaks"]:
    """Return the student fields at which the update jumps or bends, for teacher fields.

    Without breaks they are zero.
    """
    problem = state.problem

    def breaks_at(rho: Array) -> Array:
        fields = rho[None]
        output = problem.labeler.output(fields)
        labels = problem.labels.truth(output, fields)[None]
        if state.noisy:
            outcomes = problem.labels.outcomes(output, fields, problem.noise)
            labels = labels[:0] if outcomes is None else outcomes[0]
        if labels.shape[0] > MOST_OUTCOMES:
            labels = labels[:0]
        breaks = []
        for label in labels:
            breaks += state.rule.breaks(label, state.parameters, state.context)
        if not breaks:
            breaks = [jnp.zeros(())]
        return jnp.stack([jnp.reshape(x, ()) for x in breaks])

    return jax.vmap(breaks_at)(rho)


def node_moments(
    problem: Problem,
    sampled: Sampled | None,
    others: Iterable[Problem],
    still: bool = False,
) -> NodeMoments:
    """Return a grid for few fields, else a quasi-random set.

    still: the field of the only teacher does not vary.
    """
    K = problem.student.hidden
    M = problem.labeler.hidden
    jumps = bool(missing_traits(problem, ("smooth",)))
    noisy = any(_is_noisy(other) for other in (problem, *others))
    grid = 0
    if sampled is None:
        grid = _grid_size(problem, jumps, noisy, still)
    if grid:
        return NodeMoments(
            e=None,
            grid=grid,
            jumps=jumps,
            noisy=noisy,
            label_jumps=_label_jumps(problem) if M == 1 else (),
            still=still,
        )
    if sampled is None:
        sampled = Sampled()
    law = problem.rule.law(K, 0.0)
    numbers = None
    if isinstance(law, PerUnit) and not law.enumerable:
        numbers = law.numbers(sampled.points, sampled.seed)
    e = sobol(sampled.points, K + M - still, sampled.seed)
    draws = _draws_per_point(problem, law) if noisy or law is not None else 0
    return NodeMoments(
        e=np.pad(e, ((0, 0), (int(still), 0))),
        grid=0,
        jumps=jumps,
        noisy=noisy,
        numbers=numbers,
        still=still,
        shifts=random_shifts(len(e), draws, sampled.seed) if draws else None,
    )


def _draws_per_point(problem: Problem, law: Law | None) -> int:
    """Return how many numbers label and rule draw from continuous laws, at most."""
    of_label = problem.labels.numbers(problem.labeler.outputs, problem.noise)
    if law is None or law.enumerated() is not None:
        return of_label
    return of_label + (law.units if isinstance(law, PerUnit) else 1)


def _grid_size(problem: Problem, jumps: bool, noisy: bool, still: bool) -> int:
    """Return the nodes per panel of the grid, 0 where a quasi-random set is better.

    A grid of two fields can be split, and differentiated, only where it is known at
    which fields the update jumps. One of three needs an update without jumps or bends,
    and labels of which it is known where they jump.
    """
    student = problem.student
    teacher = problem.labeler
    rule = problem.rule
    if student.hidden + teacher.hidden > 3 + still:
        return 0
    if problem.optimizer.averaged_rule(rule) is not rule:
        return 0  # it is not known where the optimizer bends the update
    bends = _has_known_breaks(problem)
    if student.hidden == teacher.hidden == 1:
        if not _jumps_at_known_fields(problem, jumps, noisy, bends):
            return 0
        is_fine = rule.moves_fields or isinstance(rule, Reinforce)
        return FINE_GRID if is_fine else GRID
    if jumps or bends or rule.moves_fields:
        return 0
    if teacher.hidden == 2:
        is_known = type(problem.labels) is Real and teacher.activation.smooth
    else:
        is_class = problem.labels.metric == "class"
        is_known = teacher.outputs == 1 and (has_boundary(student) or not is_class)
    return GRID_OF_THREE if is_known else 0


def _has_known_breaks(problem: Problem) -> bool:
    """Return True if the loss, or else the rule, lists fields at which it breaks."""
    student = problem.student
    K = student.hidden
    M = problem.labeler.hidden
    label = jnp.ones(())
    if problem.rule.uses_loss:
        return bool(problem.loss.breaks(label))
    context = Context(
        student=student,
        loss=problem.loss,
        lr=jnp.ones(()),
        time=jnp.zeros(()),
        overlaps=(jnp.zeros((K, M)), jnp.eye(K), jnp.eye(M)),
    )
    parameters = Parameters(jnp.asarray(student.readout))
    return bool(problem.rule.breaks(label, parameters, context))


def _jumps_at_known_fields(
    problem: Problem, jumps: bool, noisy: bool, bends: bool
) -> bool:
    """Return True if it is known at which fields the update of a single unit jumps."""
    activation = problem.student.activation
    if not jumps:
        return True
    if not problem.rule.uses_loss:
        return bends
    # noise of real labels makes a jump of the loss for each of its values
    has_many_jumps = noisy and isinstance(problem.labels, Real)
    is_found = bends and is_proportional(activation) and not has_many_jumps
    has_few_breaks = len(activation.breaks) <= MANY
    follows_fields = not problem.rule.moves_fields
    return follows_fields and has_few_breaks and (is_found or not problem.loss.jumps)


def terms_per_point(problem: Problem, moments: NodeMoments) -> int:
    """Return how many updates are averaged at a point of a sampled set.

    It is the number of labels that its fields may have, times that of the rule's draws.
    """
    single = problem.tasks[0].in_class()
    labels = _labels_per_point(single) if moments.noisy else 1
    law = single.rule.law(single.student.hidden, 0.0)
    if law is None:
        return labels
    if isinstance(law, PerUnit) and moments.numbers is not None:
        return labels * len(law.patterns()[1])
    enumerated = law.enumerated()
    if enumerated is not None:
        return labels * len(enumerated[1])
    units = law.units if isinstance(law, PerUnit) else 1
    return labels * nodes_of(units, Fineness(), law.heavy)


def _labels_per_point(problem: Problem) -> int:
    """Return the number of labels that are averaged at given fields, noise included."""
    labels = problem.labels
    noise = problem.noise
    if is_affine_in_noise(problem, problem.rule):
        return 2 * (1 if problem.has_noise_law else problem.labeler.outputs)
    rho = jnp.zeros(problem.labeler.hidden)
    outcomes = jax.eval_shape(
        lambda rho: labels.outcomes(problem.labeler.output(rho), rho, noise), rho
    )
    if outcomes is not None:
        return outcomes[1].shape[0]
    law = labels.law(noise)
    assert law is not None
    count = labels.numbers(problem.labeler.outputs, noise)
    is_sum = problem.loss.additive and is_affine_in_label(problem.rule)
    if is_sum and isinstance(labels, Real):
        # the noise of one output at a time
        return count * nodes_of(1, Fineness(), law.heavy)
    return nodes_of(count, Fineness(), law.heavy)


def is_cheap(problem: Problem) -> bool:
    """Return True if the averages need few draws of xi at each of many points.

    Then hundreds of averages take seconds.
    """
    law = problem.rule.law(problem.student.hidden, 0.0)
    if problem.student.hidden == problem.references.hidden == 1:
        return True
    return not isinstance(law, PerUnit) or len(law.patterns()[1]) == 1


def _is_noisy(problem: Problem) -> bool:
    """Return True if the label varies at given fields."""
    noise: Any = problem.noise
    if is_schedule(noise):
        return True
    if isinstance(problem.labels, Real) and not callable(noise):
        return checks.is_traced(noise) or bool(np.any(np.asarray(noise) != 0))
    return problem.labels.law(noise) is not None  # pyright: ignore


def _label_jumps(problem: Problem) -> tuple[float, ...]:
    """Return the fields of a single teacher unit at which the label jumps or bends."""
    teacher = problem.labeler
    labels = problem.labels
    g = teacher.activation
    if type(labels) is Sign and g.parity == -1 and g.increasing:
        return (0.0,)
    is_smooth = type(labels) in (Real, Logistic) and g.smooth
    if is_smooth or checks.is_traced(labels, teacher):
        return ()
    function = getattr(labels, "function", None)
    readout = float(np.ravel(teacher.readout)[0])
    return _search_label_jumps(type(labels), function, g, readout)


@lru_cache(maxsize=32)
def _search_label_jumps(
    kind: Callable[..., Labels],
    function: Callable | None,
    activation: Activation,
    readout: float,
) -> tuple[float, ...]:
    """Return the same by search.

    Labels of one kind and function have their jumps in one place.
    """
    labels = kind() if function is None else kind(function)

    def label(x: Array) -> Array:
        fields = x[None]
        output = readout * activation(fields)[0]
        return jnp.ravel(labels.truth(output, fields))

    label_of = jnp.vectorize(label, signature="()->(v)")
    places = breaks_of(label_of, 0) + breaks_of(label_of, 1)
    inside = sorted(x for x in places if abs(x) < REACH)
    return tuple(inside) if len(inside) <= MOST_LABEL_JUMPS else ()
