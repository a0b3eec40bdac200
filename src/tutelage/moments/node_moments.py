"""Averages of any rule over nodes: a grid for one student unit and one teacher, else a fixed quasi-random set."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.moments.base import Moments
from tutelage.moments.general import At, averages, divide, factor
from tutelage.moments.judge import Judge
from tutelage.moments.matrices import Pull
from tutelage.moments.nodes import REACH, SETS, Sampled, trapezoid
from tutelage.problem import Problem
from tutelage.rules import Context, Parameters

SMOOTH_RANGE = 4.0  # fields over which a smooth update varies
MOST_OUTCOMES = 3  # labels per sample up to which the grid is split where the update jumps


def confidence(each: Any) -> np.ndarray:
    """95% bound on the error of the mean of independent scramblings (leading axis): 2.36 standard errors (Student's t)."""
    return 2.36 * np.std(each, axis=0, ddof=1) / np.sqrt(len(each))


class NodeMoments(Moments):
    """Any rule, averaged over nodes e (P, n) with weights (P,), teacher axes first.

    grid: nodes per panel for one student unit and one teacher (else 0); they are placed at every call, between the fields at
    which label or update jump. jumps: derivatives are taken from the density (general.py). noisy: labels vary at
    given fields.
    """

    e: Any
    weights: Any
    grid: int = eqx.field(static=True)
    jumps: bool = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    sampled: Sampled | None = eqx.field(static=True)
    label_jumps: tuple[float, ...] = eqx.field(static=True, default=())

    def matrices(
        self, problem: Problem, C: Array, mean: Array | None, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[Pull, Array]:
        at = self._at(problem, problem.rule, C, mean, parameters, context)
        sums = self._sums(at, self.jumps, self.noisy)
        c, M = divide(sums.D, at.L), problem.teacher.hidden
        G = jnp.zeros_like(sums.pairs) if flow else sums.pairs
        return Pull(c[:, M:], c[:, :M], sums.readout, sums.delta), G

    def loss(self, problem: Problem, C: Array, mean: Array | None, parameters: Parameters, context: Context) -> Array:
        """The population training loss."""
        at = self._at(problem, problem.rule, C, mean, parameters, context)
        return self._sums(at, self.jumps, self.noisy).loss

    def error(self, problem: Problem, C: Array, mean: Array | None, parameters: Parameters, context: Context) -> Array:
        """The metric of the labels (moments/judge.py)."""
        if mean is None and signs_agree(problem):
            return angle(C, jnp.sign(parameters.readout[0] * jnp.asarray(problem.teacher.readout)[0])) / np.pi
        metric = problem.labels.metric
        at = self._at(problem, Judge(metric), C, mean, parameters, context)
        random = getattr(problem.labels, "random", False)
        return self._sums(at, metric == "class" or self.jumps, bool(random)).loss

    def scramblings(self) -> list["NodeMoments"]:
        """The independent parts of a sampled set, each a set of its own."""
        count = self.e.shape[0] // SETS
        share = np.full(count, 1.0 / count)
        parts = [self.e[i * count : (i + 1) * count] for i in range(SETS)]
        return [NodeMoments(part, share, 0, self.jumps, self.noisy, self.sampled) for part in parts]

    def finer(self) -> "NodeMoments":
        """The grid that estimates this one's error: 3/2 the nodes."""
        parts = (self.jumps, self.noisy, self.sampled, self.label_jumps)
        return NodeMoments(self.e, self.weights, self.grid * 3 // 2, *parts)

    def _at(self, problem: Problem, rule: Any, C: Array, mean: Array | None, parameters: Parameters, context: Context) -> At:
        M = problem.teacher.hidden
        first = lambda x: jnp.roll(x, M, axis=-1)  # noqa: E731  teachers first
        L = factor(first(first(C).T).T)
        return At(problem, rule, L, jnp.zeros(C.shape[0]) if mean is None else first(mean), parameters, context)

    def _sums(self, at: At, jumps: bool, noisy: bool) -> Any:
        if not self.grid:
            return averages(at, self.e, self.weights, jumps=jumps, noisy=noisy)
        e, weights = self._placed(at, noisy)
        return averages(at, e, weights, jumps=False, noisy=noisy)  # nodes that move with the jumps: plain derivatives hold

    def _placed(self, at: At, noisy: bool) -> tuple[Array, Array]:
        """The grid: panels of the teacher's axis between the jumps of the label, times nodes of the student's axis, split
        where the rule has breaks. Late in learning only samples whose field is near a break move the student, so the
        teacher's axis is also split before, at and behind them; or where a smooth update hardly varies any more."""
        H, own = at.L[1, 0], jnp.where(at.L[1, 1] > 0, at.L[1, 1], 1.0)
        scale = jnp.where(at.L[0, 0] > 0, at.L[0, 0], 1.0)
        split = bool(at.rule.breaks(_some_label(at.problem), at.parameters, at.context))
        edges = jnp.stack([SMOOTH_RANGE + 6 * at.L[1, 1]])
        if split:
            size = jnp.abs(self._breaks(at, noisy, jnp.stack([scale, -scale])) - at.mean[1])
            near, far = jnp.maximum(jnp.min(size) - 6 * at.L[1, 1], 0.0), jnp.max(size) + 6 * at.L[1, 1]
            edges = jnp.stack([near, jnp.max(size), far])
        reach = jnp.minimum(edges / jnp.maximum(jnp.abs(H), 1e-6), REACH)
        jumps = (jnp.asarray(self.label_jumps or (0.0,)) - at.mean[0]) / scale
        teacher, outer = _panels(jnp.concatenate([jumps, -reach, reach]), self.grid)
        if split:
            breaks = self._breaks(at, noisy, at.mean[0] + at.L[0, 0] * teacher)
            student, inner = _panels((breaks - (at.mean[1] + H * teacher)[:, None]) / own, self.grid)
            inner = inner / jnp.sum(inner, axis=1, keepdims=True)  # one panel alone is wide for its nodes
        else:
            student, inner = (jnp.broadcast_to(x, (teacher.size, x.size)) for x in trapezoid(2 * self.grid))
        e = jnp.stack([jnp.repeat(teacher, student.shape[1]), student.ravel()], axis=1)
        return e, (outer[:, None] * inner).ravel()

    def _breaks(self, at: At, noisy: bool, rho: Array) -> Array:
        """(count, breaks): fields of the student at which the update jumps or bends, for teacher fields (count,)."""
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


def _panels(breaks: Array, nodes: int) -> tuple[Array, Array]:
    """Nodes and weights (..., P) of a standard normal number: Gauss-Legendre between the breaks (..., count)."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    fixed = jnp.broadcast_to(np.array([-REACH, REACH]), (*breaks.shape[:-1], 2))
    ends = jnp.sort(jnp.concatenate([fixed, jnp.clip(breaks, -REACH, REACH)], axis=-1), axis=-1)
    length = jnp.diff(ends, axis=-1)[..., None]
    z = (ends[..., :-1, None] + length * (x + 1) / 2).reshape(*breaks.shape[:-1], -1)
    return z, (length * w).reshape(z.shape) * jnp.exp(-(z**2) / 2) / np.sqrt(8 * np.pi)


def signs_agree(problem: Problem) -> bool:
    """Is the class error the angle between two vectors? One unit and one teacher, both odd and increasing."""
    units = problem.student, problem.teacher
    increasing = all(n.hidden == 1 and n.activation.parity == -1 and n.activation.increasing for n in units)
    return increasing and problem.labels.kind == "sign"


def angle(C: Array, sign: Array) -> Array:
    """The angle between student and teacher vector (or its mirror image); accurate and differentiable down to zero."""
    Q, R, T = C[0, 0], C[0, 1], C[1, 1]
    across = Q * T - R**2
    return jnp.arctan2(jnp.sqrt(jnp.where(across > 0, across, 1.0)) * (across > 0), sign * R)
