"""A problem and its start as the numbers that the loops work on: coordinates, constants of the step, and rates.

Rotations within an eigenspace change nothing that SGD on Gaussian inputs can see, so the n_l dimensions of a level enter only
through the span of the vectors in it: M teachers, K students (and K velocities with momentum). In a basis of that span,
scaled by 1/sqrt(n_l):
    r_l = (student coordinates) (teacher coordinates)^T,   q_l = (student coordinates) (student coordinates)^T.
Teachers come first and never move: their coordinates are M columns (lower triangular); students have M columns U and,
beyond, a lower triangular Z. All that lies outside is isotropic to them. A level too small to have an outside (n_l below the
span plus the columns that one batch adds) is held in its actual n_l coordinates. The weights method holds all N dimensions
in this way, as one level of inputs that have the variances of their own: w / sqrt(N) are the coordinates.
"""

from functools import lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from tutelage import labels, losses, rules
from tutelage._types import Array, NumpyOrJax
from tutelage.dynamics.order_parameters import initial_overlaps
from tutelage.errors import InputError
from tutelage.integrate.program import BOUND
from tutelage.problem import Mixture, Problem, SlowMomentum, Start, Tasks
from tutelage.problem.activation import NAMED, Activation
from tutelage.problem.sample import unseen_root
from tutelage.simulation import numba_kernels as codes
from tutelage.simulation.numba_kernels import LevelLayout, ParameterState, StepConstants

STRETCH = 4096  # steps whose rates are computed at once
RANK = 1e-12  # eigenvalues of a Gram matrix below this share of the largest are rounding
ACTIVATIONS = {name: getattr(codes, name.upper()) for name in ("erf", "relu", "sign", "tanh", "gelu", "sigmoid", "softplus")}
LABELS = {labels.Real: codes.REAL_LABEL, labels.Sign: codes.SIGN_LABEL, labels.Logistic: codes.LOGISTIC_LABEL}
LOSSES = {getattr(losses, n): getattr(codes, n.upper()) for n in ("Squared", "Absolute", "Huber", "Logistic", "Hinge")}
UPDATES = {getattr(rules, name): getattr(codes, name.upper()) for name in ("Gradient", "Hebbian", "Perceptron", "AdaTron")}


def level_coordinates(problem: Problem, start: Start, dims: Int[np.ndarray, " L"]) -> list[np.ndarray]:
    """Per level, (M + K, d) with d = min(n_l, M + K): teachers first, then students; lower triangular if there is room."""
    r, q, t = (np.asarray(x, dtype=float) for x in start.blocks(problem))
    grams = np.block([[t, np.swapaxes(r, 1, 2)], [r, q]])
    return [_root((gram + gram.T) / 2, int(dims[i]), i, len(dims)) for i, gram in enumerate(grams)]


def in_random_frames(
    levels: list[np.ndarray], dims: Int[np.ndarray, " L"], rng: np.random.Generator
) -> Float[np.ndarray, "vectors N"]:
    """Vectors (M + K, N) with these coordinates in a random orthonormal frame of each eigenspace, teachers first."""
    parts = []
    for n, coordinate in zip(dims, levels, strict=True):
        frame = np.linalg.qr(rng.standard_normal((n, coordinate.shape[1])))[0]
        parts.append(np.sqrt(n) * coordinate @ frame.T)
    return np.concatenate(parts, axis=1)


def _root(gram: Float[np.ndarray, "v v"], n: int, level: int, levels: int) -> Float[np.ndarray, "v d"]:
    """Coordinates of vectors with this Gram matrix in n dimensions."""
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gram / np.outer(unit, unit))
    rank = int(np.sum(values > RANK * max(values[-1], 1e-300)))
    if rank > n:
        where = f"level {level + 1}" if levels > 1 else "the network"
        raise InputError(
            f"the overlaps of the Start in {where} need {rank} dimensions, but it has only {n}; raise dim, or take a Start that "
            "fits, such as random_start(problem, dim=dim)."
        )
    root = size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    if n < gram.shape[0]:
        return root[:, gram.shape[0] - n :]
    return np.asarray(np.linalg.qr(root.T, mode="r")).T


def level_overlaps(
    a: Float[np.ndarray, "*lead A N"], b: Float[np.ndarray, "*lead B N"], dims: Int[np.ndarray, " L"]
) -> Float[np.ndarray, "*lead L A B"]:
    """a P_l b^T / n_l for every level."""
    edges = np.cumsum(dims)[:-1]
    parts = zip(np.split(a, edges, axis=-1), np.split(b, edges, axis=-1), strict=True)
    return np.stack([x @ y.mT / x.shape[-1] for x, y in parts], axis=-3)


def level_layout(problem: Problem, dims: Int[np.ndarray, " L"]) -> LevelLayout:
    """How each level is held: columns in use, dimensions beyond them, and the scales of its fields and steps."""
    dim, K, M = int(dims.sum()), problem.student.hidden, problem.references.hidden
    span = M + rows_of(problem)
    added = max(min(problem.samples_per_step, K), M if drift_rate(problem) else 0)  # columns that a step adds
    outside = dims - span >= added
    lam, share = np.asarray(problem.inputs.eigenvalues, dtype=float), dims / dim
    width = np.where(outside, span, dims).astype(np.int64)
    return LevelLayout(
        width=width,
        dof=np.where(outside, dims - span, 0).astype(np.int64),
        field=np.sqrt(lam * share),
        step=np.sqrt(lam / share) / dim,
        share=share,
        eigenvalue=lam[:, None],
        mask=np.repeat(_mask(problem)[:, :, None], width.max(), axis=2),
    )


def weights_layout(problem: Problem, dims: Int[np.ndarray, " L"]) -> LevelLayout:
    """All dimensions as one level, in actual coordinates."""
    one, lam = np.ones(1), np.asarray(problem.inputs.eigenvalues, dtype=float)
    return LevelLayout(
        width=np.array([dims.sum()]),
        dof=np.array([0]),
        field=one,
        step=one / dims.sum(),
        share=one,
        eigenvalue=np.repeat(lam, dims)[None],
        mask=np.ascontiguousarray(np.repeat(_mask(problem), dims, axis=0).T[None]),
    )


def _mask(problem: Problem) -> Float[np.ndarray, "L K"]:
    mask = problem.trainable_mask()
    return np.ones((problem.inputs.levels, problem.student.hidden)) if mask is None else np.asarray(mask, dtype=float)


def drift_rate(problem: Problem) -> float:
    """omega of teachers that drift; 0 if they stay."""
    drift = problem.teacher.drift if isinstance(problem.teacher, Tasks) else None
    return 0.0 if drift is None else float(np.asarray(drift.rate))


def matrix_roots(grams: Float[NumpyOrJax, "L n n"]) -> Float[np.ndarray, "L n n"]:
    """Factors F_l of matrices F_l F_l^T: vectors F_l z with Gaussian z have these overlaps, or this covariance."""
    values, vectors = np.linalg.eigh(np.asarray(grams, dtype=float))
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def rows_of(problem: Problem) -> int:
    """Moving vectors: K students, and as many velocities with momentum."""
    momentum = problem.sgd.momentum
    moving = isinstance(momentum, SlowMomentum) or float(np.asarray(momentum)) > 0
    return problem.student.hidden * (2 if moving else 1)


class OverlapsState(NamedTuple):
    """Coordinates of students (then of their velocities) and teachers, and the parameters; in JAX with a last axis of runs.

    Set at the start: roots of the teachers' overlaps, lengths |w_k|^2 / N, and a bound of squared coordinates.
    """

    students: Float[Any, "L rows W *runs"]
    teachers: Float[Any, "L M columns *runs"]
    params: ParameterState
    roots: Float[Any, "L M M *runs"]
    lengths: Float[Any, " K *runs"]
    bound: Any


def place_start(problem: Problem, start: Start, dims: Int[np.ndarray, " L"], layout: LevelLayout) -> OverlapsState:
    """A start in the coordinates of its levels; velocities begin at rest."""
    K, M = problem.student.hidden, problem.references.hidden
    columns = int(np.max(np.where(layout.dof > 0, M, layout.width)))
    students = np.zeros((dims.size, rows_of(problem), int(layout.width.max())))
    teachers = np.zeros((dims.size, M, columns))
    for level, coordinates in enumerate(level_coordinates(problem, start, dims)):
        used = min(coordinates.shape[1], columns)
        teachers[level, :, :used] = coordinates[:M, :used]
        students[level, :K, : coordinates.shape[1]] = coordinates[M:]
    return _state(problem, start, students, teachers, matrix_roots(start.blocks(problem)[2]), layout)


def place_weights(
    problem: Problem, start: Start, W: Float[np.ndarray, "K N"], W_teacher: Float[np.ndarray, "M N"], layout: LevelLayout
) -> OverlapsState:
    """Weights as the coordinates of one level. What moves drifting teachers has their overlaps already: the root is one."""
    students = np.zeros((1, rows_of(problem), W.shape[1]))
    students[0, : len(W)] = W / np.sqrt(W.shape[1])
    teachers = W_teacher[None] / np.sqrt(W.shape[1])
    return _state(problem, start, students, teachers, np.eye(len(W_teacher))[None], layout)


def _state(
    problem: Problem, start: Start, students: np.ndarray, teachers: np.ndarray, roots: np.ndarray, layout: LevelLayout
) -> OverlapsState:
    lengths = np.einsum("l,lkc->k", layout.share, students[:, : problem.student.hidden] ** 2)
    if problem.sgd.spherical and lengths.min() <= 0:
        zero = f"student {int(lengths.argmin()) + 1} starts at zero, which has no direction"
        raise InputError(f"spherical=True, but {zero}; move it away from zero.")
    bound = BOUND * (1.0 + float(np.max(students**2)))
    return OverlapsState(students, teachers, initial_parameters(problem, start), roots, lengths, bound)


def initial_parameters(problem: Problem, start: Start) -> ParameterState:
    """Readout and biases at the start, at rest."""
    if start.bias is not None and not problem.biased:
        raise InputError("the Start has biases, but neither network of the problem has; give the student Network(bias=0.0).")
    state = initial_overlaps(problem, start)[0]
    readout = np.array(state.readout, order="C")  # in one order: numba compiles again for another one
    bias = np.zeros(problem.student.hidden) if state.bias is None else np.array(state.bias)
    rest = [np.zeros_like(x) for _ in range(2) for x in (readout, bias)]
    return ParameterState(readout, bias, *rest)


class RateTable:
    """force, push, eta_v, eta_b, lr and time of every step; of several tasks also the sums of the first probabilities and their
    heads (1 if it learns); last kappa / N and the number of the label (deviation of its noise, quantile of a flip, slope).

    A momentum m takes `force` times the gradient, a weight `push` times m; lr and time are for rules that look at them.
    Plain SGD and a fixed momentum beta (m <- beta m + gradient, w <- w + eta m): force 1, push eta.
    Slow momentum (m <- (1 - gamma/N) m + k gradient, w <- w + m / N): force k (default gamma eta), push 1/N.
    last: the number of steps; beyond them rates stay.
    """

    def __init__(self, problem: Problem, dim: int, last: int):
        sgd, lr, self.dim, self.problem, self.last = problem.sgd, problem.sgd.lr, dim, problem, last
        readout, bias = (lr if own is None else own for own in (sgd.readout_lr, sgd.bias_lr))
        force, push, factor = 1.0, lr, 1.0
        if isinstance(sgd.momentum, SlowMomentum):
            slow, push = sgd.momentum, 1.0 / dim
            force, factor = (lr, float(np.asarray(slow.gamma))) if slow.k is None else (slow.k, 1.0)
        self._columns = {0: force, 1: push, 2: readout, 3: bias, 4: lr, -2: sgd.weight_decay, -1: _label_number(problem)[0]}
        columns_of_tasks = 2 * len(problem.tasks) if isinstance(problem.teacher, Tasks) else 0
        self._factor = np.array([factor, *[1.0] * (5 + columns_of_tasks), 1.0 / dim, 1.0])
        self._stretch = lru_cache(maxsize=16)(self._table)  # all runs ask for the same stretches

    def table(self, first: int, last: int) -> Float[np.ndarray, "steps columns"]:
        """For steps first .. last - 1, at alpha = step / N exactly."""
        origin = first - first % STRETCH
        return self._stretch(origin, max(origin + STRETCH, last))[first - origin : last - origin]

    def _table(self, first: int, last: int) -> Float[np.ndarray, "steps columns"]:
        size = 1 << max(0, last - first - 1).bit_length()  # of times, for schedules: few shapes are compiled
        times = np.minimum(np.arange(first, first + size), max(self.last - 1, 0)) / self.dim
        table = np.repeat(times[:, None], len(self._factor), axis=1)
        for i, column in self._columns.items():
            table[:, i] = _scheduled(column, times) if callable(column) else float(np.asarray(column))
        if isinstance(self.problem.teacher, Tasks):
            table[:, 6:-2] = _scheduled(eqx.Partial(_task_columns, self.problem.teacher), times)
        table = table[: last - first]
        if not np.all(np.isfinite(table)) or table.min(initial=0.0) < 0:
            at = (first + int(np.argmax(~(np.isfinite(table) & (table >= 0)).all(axis=1)))) / self.dim
            raise InputError(f"a learning rate is negative or not finite at alpha = {at:g}; a schedule must be >= 0 there.")
        if isinstance(self.problem.labels, labels.Sign):
            table[:, -1] = -ndtri(table[:, -1])
        return table * self._factor


def _task_columns(tasks: Tasks, t: Any) -> Any:
    """Sums of the probabilities of the first tasks, and whether the head of each task learns."""
    learns = jnp.ones(tasks.count) if tasks.freeze_heads is None else jnp.ravel(tasks.head_rates(t))
    return jnp.concatenate([jnp.cumsum(tasks.probabilities(t)), jnp.broadcast_to(learns, (tasks.count,))])


@eqx.filter_jit
def _scheduled(schedule: Any, times: np.ndarray) -> Array:
    return jax.vmap(lambda t: jnp.asarray(schedule(t), float))(jnp.asarray(times))


def has_kernels(problem: Problem) -> bool:
    """Do the numba loops have this label, loss and rule, and all activations (every polynomial, most named ones)?"""
    known = codes.UNKNOWN not in np.hstack([*_codes_of(problem).values()])
    return problem.student.outputs == problem.references.outputs == 1 and known and not isinstance(problem.inputs, Mixture)


def _codes_of(problem: Problem) -> dict[str, Any]:
    """What a sample does, as codes of the kernels. The loss matters to a rule that follows its gradient alone."""
    return {
        "student": _activation(problem.student.activation),
        "teacher": np.array([_activation(one.references.activation) for one in problem.tasks]),
        "label": codes.UNKNOWN if problem.has_noise_law else LABELS.get(type(problem.labels), codes.UNKNOWN),
        "loss": LOSSES.get(type(problem.loss), codes.UNKNOWN) if problem.rule.uses_loss else codes.SQUARED,
        "update": UPDATES.get(type(problem.rule), codes.UNKNOWN),
    }


def _activation(activation: Activation) -> int:
    if activation.polynomial is not None:
        return codes.POLYNOMIAL
    return ACTIVATIONS.get(activation.name, codes.UNKNOWN) if NAMED.get(activation.name) == activation else codes.UNKNOWN


def _label_number(problem: Problem) -> tuple[Any, bool]:
    """What the label of the kernels needs, a number or a schedule, and whether it takes a random number."""
    kind = problem.labels
    if isinstance(kind, labels.Logistic):
        return kind.slope, True
    number = kind.flip if isinstance(kind, labels.Sign) else 0.0 if problem.has_noise_law else problem.noise
    return number, callable(number) or float(np.asarray(number)) > 0


def step_constants(problem: Problem, dim: int) -> StepConstants:
    """The constants of the step."""
    sgd, teacher = problem.sgd, problem.references
    slow = isinstance(sgd.momentum, SlowMomentum)
    beta = 0.0 if slow else float(np.asarray(sgd.momentum))
    keep = 1.0 - float(np.asarray(sgd.momentum.gamma)) / dim if slow else beta
    polynomials = [one.references.activation.polynomial or (0.0,) for one in problem.tasks]
    return StepConstants(
        **_codes_of(problem),
        student_coefficients=np.array(problem.student.activation.polynomial or [0.0]),
        teacher_coefficients=np.array(list(zip_longest(*polynomials, fillvalue=0.0)), dtype=float).T.copy(),
        teacher_readout=np.ravel(np.array(teacher.readout, dtype=float)),
        teacher_bias=np.zeros(teacher.hidden) if teacher.bias is None else np.array(teacher.bias, dtype=float),
        edges=np.cumsum([0, *(one.references.hidden for one in problem.tasks)]),
        separate=isinstance(problem.teacher, Tasks) and problem.teacher.heads == "separate",
        drift=drift_rate(problem) / dim,
        unseen=np.zeros((0, 0)) if problem.unseen is None else np.ascontiguousarray(unseen_root(problem)),
        draws=_label_number(problem)[1],
        loss_number=float(np.asarray(problem.loss.delta)) if isinstance(problem.loss, losses.Huber) else 0.0,
        update_number=float(np.asarray(problem.rule.margin)) if isinstance(problem.rule, rules.Perceptron) else 0.0,
        dim=dim,
        batch=problem.samples_per_step,
        momentum=slow or beta > 0,
        keep=keep,
        beta=beta,
        train_readout=problem.student.train_readout,
        train_bias=problem.student.train_bias,
        spherical=sgd.spherical,
    )


def with_heads(params: ParameterState) -> ParameterState:
    """Parameters as the numba loops see them: the readout with an axis of heads, the same memory."""
    readouts = {name: x.reshape(-1, x.shape[-1]) for name, x in params._asdict().items() if name.startswith("readout")}
    return params._replace(**readouts)
