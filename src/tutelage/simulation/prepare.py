"""A problem and its start as the numbers that the loops of simulations work on.

These are coordinates, constants of a step, and rates. Rotations within an eigenspace change
nothing that SGD on Gaussian inputs can see, so the n_l dimensions of a level enter only
through the span of the vectors in it: M teachers, K students (and K velocities with
momentum). In a basis of that span, scaled by 1/sqrt(n_l):

    r_l = (student coordinates) (teacher coordinates)^T
    q_l = (student coordinates) (student coordinates)^T

Teachers come first and never move: their coordinates are M columns (lower triangular).
Students have M columns U and, beyond, a lower triangular Z. All that lies outside is
isotropic to them. A level too small to have an outside (n_l below the span plus the columns
that one batch adds) is held in its actual n_l coordinates. The weights method holds all N
dimensions in this way, as one level of inputs that have the variances of their own:
w / sqrt(N) are the coordinates.
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

from tutelage._types import Array, NumpyOrJax
from tutelage.errors import InputError
from tutelage.problem import Problem, SlowMomentum, Start, Tasks, labels
from tutelage.problem.activation import NAMED_ACTIVATIONS, Activation
from tutelage.problem.labels import as_labels
from tutelage.problem.sample import unseen_root
from tutelage.simulation import numba_kernels as kernels
from tutelage.simulation.numba_kernels import (
    LevelLayout,
    ParameterState,
    StepConstants,
)
from tutelage.solvers.program import BOUND
from tutelage.stream.order_parameters import initial_overlaps
from tutelage.training import losses, rules
from tutelage.training.losses import as_loss
from tutelage.training.rules import as_rule

STRETCH = 4096  # steps whose rates are computed at once
# Eigenvalues of a Gram matrix below this share of the largest are rounding.
RANK_TOLERANCE = 1e-12


def level_coordinates(
    problem: Problem, start: Start, dims: Int[np.ndarray, " L"]
) -> list[np.ndarray]:
    """Return the coordinates (M + K, d) of each level, d = min(n_l, M + K).

    Teachers come first, then students; the matrix is lower triangular if there is room.
    """
    r, q, t = (np.asarray(x, dtype=float) for x in start.blocks(problem))
    grams = np.block([[t, np.swapaxes(r, 1, 2)], [r, q]])
    coordinates = []
    for level, gram in enumerate(grams):
        where = f"level {level + 1}" if len(dims) > 1 else "the network"
        symmetric = (gram + gram.T) / 2
        coordinates.append(_gram_root(symmetric, int(dims[level]), where))
    return coordinates


def in_random_frames(
    levels: list[np.ndarray], dims: Int[np.ndarray, " L"], rng: np.random.Generator
) -> Float[np.ndarray, "vectors N"]:
    """Return vectors (M + K, N) with given coordinates, teachers first.

    The frame of each eigenspace is random and orthonormal.
    """
    parts = []
    for n, coordinates in zip(dims, levels, strict=True):
        normals = rng.standard_normal((n, coordinates.shape[1]))
        frame, _ = np.linalg.qr(normals)
        parts.append(np.sqrt(n) * coordinates @ frame.T)
    return np.concatenate(parts, axis=1)


def _gram_root(
    gram: Float[np.ndarray, "v v"], n: int, where: str
) -> Float[np.ndarray, "v d"]:
    """Return coordinates of vectors with this Gram matrix in n dimensions.

    where: the place of the vectors, for the message.
    """
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    unit = np.where(lengths > 0, lengths, 1.0)
    values, vectors = np.linalg.eigh(gram / np.outer(unit, unit))
    rank = int(np.sum(values > RANK_TOLERANCE * max(values[-1], 1e-300)))
    if rank > n:
        raise InputError(
            f"the overlaps of the Start in {where} need {rank} dimensions, but it has "
            f"only {n}; raise dim, or take a Start that fits, "
            "such as random_start(problem, dim=dim)."
        )
    root = lengths[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    count = gram.shape[0]
    if n < count:
        return root[:, count - n :]
    return np.asarray(np.linalg.qr(root.T, mode="r")).T


def level_overlaps(
    a: Float[np.ndarray, "*lead A N"],
    b: Float[np.ndarray, "*lead B N"],
    dims: Int[np.ndarray, " L"],
) -> Float[np.ndarray, "*lead L A B"]:
    """Return a P_l b^T / n_l for every level."""
    edges = np.cumsum(dims)[:-1]
    parts_of_a = np.split(a, edges, axis=-1)
    parts_of_b = np.split(b, edges, axis=-1)
    overlaps = [
        x @ y.mT / x.shape[-1] for x, y in zip(parts_of_a, parts_of_b, strict=True)
    ]
    return np.stack(overlaps, axis=-3)


def level_layout(problem: Problem, dims: Int[np.ndarray, " L"]) -> LevelLayout:
    """Lay out the levels: columns in use, dimensions beyond them, and scales."""
    dim = int(dims.sum())
    K = problem.student.hidden
    M = problem.references.hidden
    span = M + moving_vectors(problem)
    added_by_batch = min(problem.samples_per_step, K)
    added_by_drift = M if drift_rate(problem) else 0
    has_outside = dims - span >= max(added_by_batch, added_by_drift)
    lam = np.asarray(problem.inputs.eigenvalues, dtype=float)
    share = dims / dim
    width = np.where(has_outside, span, dims).astype(np.int64)
    return LevelLayout(
        width=width,
        dof=np.where(has_outside, dims - span, 0).astype(np.int64),
        field=np.sqrt(lam * share),
        step=np.sqrt(lam / share) / dim,
        share=share,
        eigenvalue=lam[:, None],
        mask=np.repeat(_mask(problem)[:, :, None], width.max(), axis=2),
    )


def weights_layout(problem: Problem, dims: Int[np.ndarray, " L"]) -> LevelLayout:
    """Lay out all dimensions as one level, in actual coordinates."""
    one = np.ones(1)
    lam = np.asarray(problem.inputs.eigenvalues, dtype=float)
    mask_of_columns = np.repeat(_mask(problem), dims, axis=0).T
    return LevelLayout(
        width=np.array([dims.sum()]),
        dof=np.array([0]),
        field=one,
        step=one / dims.sum(),
        share=one,
        eigenvalue=np.repeat(lam, dims)[None],
        mask=np.ascontiguousarray(mask_of_columns[None]),
    )


def _mask(problem: Problem) -> Float[np.ndarray, "L K"]:
    """Return 1 where a level of a student vector learns, else 0."""
    mask = problem.trainable_mask()
    if mask is None:
        return np.ones((problem.inputs.levels, problem.student.hidden))
    return np.asarray(mask, dtype=float)


def drift_rate(problem: Problem) -> float:
    """Return omega of teachers that drift; 0 if they stay."""
    tasks = problem.several_tasks
    if tasks is None or tasks.drift is None:
        return 0.0
    return float(np.asarray(tasks.drift.rate))


def matrix_roots(grams: Float[NumpyOrJax, "L n n"]) -> Float[np.ndarray, "L n n"]:
    """Return factors F_l of matrices F_l F_l^T.

    Vectors F_l z with Gaussian z have these overlaps, or this covariance.
    """
    values, vectors = np.linalg.eigh(np.asarray(grams, dtype=float))
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def _has_momentum(problem: Problem) -> bool:
    momentum = problem.optimizer.momentum
    return isinstance(momentum, SlowMomentum) or float(np.asarray(momentum)) > 0


def optimizer_code(problem: Problem) -> int:
    """Return the code of the optimizer's steps; PLAIN if all moves along delta x."""
    optimizer = problem.optimizer
    code = _code_of(optimizer.steps, kernels.STEPS)
    if code == kernels.UNKNOWN:
        raise InputError(
            f"simulate does not have the optimizer {type(optimizer).__name__}; "
            "use one of tu.optimizers."
        )
    return code


def moving_vectors(problem: Problem) -> int:
    """Return the number of vectors that move.

    They are K students, K velocities or mean gradients if any, and K scales if any.
    """
    groups = 1 + _has_momentum(problem)
    groups += problem.optimizer.kept_vectors
    return problem.student.hidden * groups


class OverlapsState(NamedTuple):
    """Coordinates of all vectors, and the parameters; in JAX with a last axis of runs.

    `students` are followed by their velocities. The last three fields are set at the start.
    """

    students: Float[Any, "L rows W *runs"]
    teachers: Float[Any, "L M columns *runs"]
    params: ParameterState
    roots: Float[Any, "L M M *runs"]  # of the teachers' overlaps
    lengths: Float[Any, " K *runs"]  # |w_k|^2 / N
    bound: Any  # of squared coordinates


def place_start(
    problem: Problem, start: Start, dims: Int[np.ndarray, " L"], layout: LevelLayout
) -> OverlapsState:
    """Place a start in the coordinates of its levels; velocities begin at rest."""
    K = problem.student.hidden
    M = problem.references.hidden
    columns = int(np.max(np.where(layout.dof > 0, M, layout.width)))
    students = np.zeros((dims.size, moving_vectors(problem), int(layout.width.max())))
    teachers = np.zeros((dims.size, M, columns))
    for level, coordinates in enumerate(level_coordinates(problem, start, dims)):
        used = min(coordinates.shape[1], columns)
        teachers[level, :, :used] = coordinates[:M, :used]
        students[level, :K, : coordinates.shape[1]] = coordinates[M:]
    _, _, t = start.blocks(problem)
    return _initial_state(problem, start, students, teachers, matrix_roots(t), layout)


def place_weights(
    problem: Problem,
    start: Start,
    W: Float[np.ndarray, "K N"],
    W_teacher: Float[np.ndarray, "M N"],
    layout: LevelLayout,
) -> OverlapsState:
    """Place weights as the coordinates of one level.

    The noise of drifting teachers has their overlaps already: the root is one.
    """
    students = np.zeros((1, moving_vectors(problem), W.shape[1]))
    students[0, len(W) :] = initial_scale(problem)
    students[0, : len(W)] = W / np.sqrt(W.shape[1])
    teachers = W_teacher[None] / np.sqrt(W.shape[1])
    roots = np.eye(len(W_teacher))[None]
    return _initial_state(problem, start, students, teachers, roots, layout)


def initial_scale(problem: Problem) -> float:
    """Return the scales of an adaptive optimizer at the start; 0 for other vectors."""
    return float(np.asarray(getattr(problem.optimizer, "initial_scale", 0.0)))


def _initial_state(
    problem: Problem,
    start: Start,
    students: np.ndarray,
    teachers: np.ndarray,
    roots: np.ndarray,
    layout: LevelLayout,
) -> OverlapsState:
    weights = students[:, : problem.student.hidden]
    lengths = np.einsum("l,lkc->k", layout.share, weights**2)
    if problem.optimizer.spherical and lengths.min() <= 0:
        unit = int(lengths.argmin()) + 1
        raise InputError(
            f"spherical=True, but student {unit} starts at zero, which has no direction; "
            "move it away from zero."
        )
    return OverlapsState(
        students=students,
        teachers=teachers,
        params=initial_parameters(problem, start),
        roots=roots,
        lengths=lengths,
        bound=BOUND * (1.0 + float(np.max(students**2))),
    )


def initial_parameters(problem: Problem, start: Start) -> ParameterState:
    """Return readout and biases at the start, at rest."""
    if start.bias is not None and not problem.biased:
        raise InputError(
            "the Start has biases, but neither network of the problem has; "
            "give the student Network(bias=0.0)."
        )
    state = initial_overlaps(problem, start)[0]
    # in one memory order: numba compiles again for another one
    readout = np.array(state.readout, order="C")
    bias = np.zeros(problem.student.hidden)
    if state.bias is not None:
        bias = np.array(state.bias)
    return ParameterState(
        readout=readout,
        bias=bias,
        readout_momentum=np.zeros_like(readout),
        bias_momentum=np.zeros_like(bias),
        readout_sum=np.zeros_like(readout),
        bias_sum=np.zeros_like(bias),
        readout_scale=np.full_like(readout, initial_scale(problem)),
        bias_scale=np.full_like(bias, initial_scale(problem)),
    )


class RateTable:
    """The rates of every step, in the columns that numba_kernels.py names.

    A momentum m takes `force` times the gradient, a weight `push` times m; lr and time are
    for rules that look at them. Plain SGD and a fixed momentum beta (m <- beta m +
    gradient, w <- w + eta m) have force 1 and push eta. Slow momentum (m <- (1 - gamma/N) m
    + k gradient, w <- w + m / N) has force k (default gamma eta) and push 1/N.

    last: the number of steps; beyond them rates stay.
    """

    def __init__(self, problem: Problem, dim: int, last: int):
        optimizer = problem.optimizer
        self.dim = dim
        self.problem = problem
        self.last = last
        force = 1.0
        force_factor = 1.0
        push = optimizer.lr
        if optimizer.slow_momentum is not None:
            push = 1.0 / dim
            if optimizer.momentum.k is None:
                force = optimizer.lr
                force_factor = float(np.asarray(optimizer.momentum.gamma))
            else:
                force = optimizer.momentum.k
        label_number, _ = _label_number(problem)
        self._columns = {
            kernels.FORCE: force,
            kernels.PUSH: push,
            kernels.READOUT_RATE: optimizer.lr
            if optimizer.readout_lr is None
            else optimizer.readout_lr,
            kernels.BIAS_RATE: optimizer.lr
            if optimizer.bias_lr is None
            else optimizer.bias_lr,
            kernels.LR: optimizer.lr,
            kernels.DECAY: optimizer.weight_decay,
            kernels.LABEL_NUMBER: label_number,
        }
        columns_of_tasks = 0
        if problem.several_tasks is not None:
            columns_of_tasks = 2 * len(problem.tasks)
        self._factors = np.ones(kernels.COLUMNS + columns_of_tasks)
        self._factors[kernels.FORCE] = force_factor
        self._factors[kernels.DECAY] = 1.0 / dim
        # all runs ask for the same stretches
        self._stretch = lru_cache(maxsize=16)(self._computed)

    def table(self, first: int, last: int) -> Float[np.ndarray, "steps columns"]:
        """Return the rates of steps first .. last - 1, at alpha = step / N exactly."""
        origin = first - first % STRETCH
        stretch = self._stretch(origin, max(origin + STRETCH, last))
        return stretch[first - origin : last - origin]

    def _computed(self, first: int, last: int) -> Float[np.ndarray, "steps columns"]:
        # schedules are compiled for few numbers of times: powers of two
        size = 1 << max(0, last - first - 1).bit_length()
        steps = np.arange(first, first + size)
        times = np.minimum(steps, max(self.last - 1, 0)) / self.dim
        table = np.repeat(times[:, None], self._factors.size, axis=1)
        for column, rate in self._columns.items():
            if callable(rate):
                table[:, column] = _scheduled(rate, times)
            else:
                table[:, column] = float(np.asarray(rate))
        if self.problem.several_tasks is not None:
            of_time = eqx.Partial(_task_columns, self.problem.several_tasks)
            columns = slice(kernels.FIRST_TASK, kernels.DECAY)
            table[:, columns] = _scheduled(of_time, times)
        table = table[: last - first]
        self._require_rates(table, first)
        if isinstance(self.problem.labels, labels.Sign):
            probability = table[:, kernels.LABEL_NUMBER]
            table[:, kernels.LABEL_NUMBER] = -ndtri(probability)
        return table * self._factors

    def _require_rates(self, table: np.ndarray, first: int) -> None:
        """Refuse rates that are negative or not finite, and name the first such time."""
        is_rate = np.isfinite(table) & (table >= 0)
        if not np.all(is_rate):
            step = first + int(np.argmax(~is_rate.all(axis=1)))
            raise InputError(
                f"a learning rate is negative or not finite at alpha = "
                f"{step / self.dim:g}; a schedule must be >= 0 there."
            )


def _task_columns(tasks: Tasks, t: Any) -> Any:
    """Return cumulative probabilities of the tasks, and 1 for each head that learns."""
    learns = jnp.ones(tasks.count)
    if tasks.freeze_heads is not None:
        learns = jnp.ravel(tasks.head_rates(t))
    cumulative = jnp.cumsum(tasks.probabilities(t))
    return jnp.concatenate([cumulative, jnp.broadcast_to(learns, (tasks.count,))])


@eqx.filter_jit
def _scheduled(schedule: Any, times: np.ndarray) -> Array:
    """Return the values of a schedule at all times."""
    return jax.vmap(lambda t: jnp.asarray(schedule(t), float))(jnp.asarray(times))


def has_kernels(problem: Problem) -> bool:
    """Return True if the numba loops have the label, loss, rule and activations.

    They have every polynomial, and most named activations.
    """
    codes = np.hstack(list(_codes_of(problem).values()))
    outputs = (problem.student.outputs, problem.references.outputs)
    is_mixture = problem.inputs.classes is not None
    return outputs == (1, 1) and kernels.UNKNOWN not in codes and not is_mixture


def has_student_kernels(problem: Problem) -> bool:
    """Return True if the numba loops have the student's activation and the loss.

    Training on stored samples needs no more, because their labels are made before.
    """
    codes = _codes_of(problem)
    return kernels.UNKNOWN not in (codes["student"], codes["loss"])


def _codes_of(problem: Problem) -> dict[str, Any]:
    """Return the codes of all that decides the update of a sample."""
    label = _code_of(as_labels.word(problem.labels), kernels.LABELS)
    if problem.has_noise_law:
        label = kernels.UNKNOWN
    # the loss matters only to a rule that follows its gradient
    loss = kernels.SQUARED
    if problem.rule.uses_loss:
        loss = _code_of(as_loss.word(problem.loss), kernels.LOSSES)
    teachers = [task.labeler.activation for task in problem.tasks]
    rule = problem.optimizer.sample_rule(problem.rule)
    return {
        "student": _activation_code(problem.student.activation),
        "teacher": np.array([_activation_code(teacher) for teacher in teachers]),
        "label": label,
        "loss": loss,
        "update": _code_of(as_rule.word(rule), kernels.RULES),
    }


def _code_of(name: str | None, names: tuple[str, ...]) -> int:
    """Return the code of what has this name in files; UNKNOWN if the loops lack it."""
    return names.index(name) if name in names else kernels.UNKNOWN


def _activation_code(activation: Activation) -> int:
    if activation.polynomial is not None:
        return kernels.POLYNOMIAL
    if NAMED_ACTIVATIONS.get(activation.name) != activation:
        return kernels.UNKNOWN
    return _code_of(activation.name, kernels.ACTIVATIONS)


def _label_number(problem: Problem) -> tuple[Any, bool]:
    """Return the number of the label law, and whether a label is random.

    The number, or a schedule of it, is the slope of the link, the probability of a flip or
    the deviation of the noise.
    """
    law = problem.labels
    if isinstance(law, labels.Logistic):
        return law.slope, True
    if isinstance(law, labels.Sign):
        number = law.flip
    else:
        number = 0.0 if problem.has_noise_law else problem.noise
    return number, callable(number) or float(np.asarray(number)) > 0


def step_constants(problem: Problem, dim: int) -> StepConstants:
    """Return the constants of a step."""
    optimizer = problem.optimizer
    teacher = problem.references
    if optimizer.slow_momentum is not None:
        beta = 0.0
        keep = 1.0 - float(np.asarray(optimizer.momentum.gamma)) / dim
    else:
        beta = float(np.asarray(optimizer.momentum))
        keep = beta
    tasks = problem.tasks
    polynomials = [task.labeler.activation.polynomial or (0.0,) for task in tasks]
    degrees_first = list(zip_longest(*polynomials, fillvalue=0.0))
    teacher_bias = np.zeros(teacher.hidden)
    if teacher.bias is not None:
        teacher_bias = np.array(teacher.bias, dtype=float)
    unseen = np.zeros((0, 0))
    if problem.unseen is not None:
        unseen = np.ascontiguousarray(unseen_root(problem))
    loss_number = 0.0
    if isinstance(problem.loss, losses.Huber):
        loss_number = float(np.asarray(problem.loss.delta))
    update_number = 0.0
    if isinstance(problem.rule, rules.Perceptron):
        update_number = float(np.asarray(problem.rule.margin))
    _, draws = _label_number(problem)
    several = problem.several_tasks
    return StepConstants(
        **_codes_of(problem),
        student_coefficients=np.array(problem.student.activation.polynomial or [0.0]),
        teacher_coefficients=np.array(degrees_first, dtype=float).T.copy(),
        teacher_readout=np.ravel(np.array(teacher.readout, dtype=float)),
        teacher_bias=teacher_bias,
        edges=np.cumsum([0, *(task.references.hidden for task in tasks)]),
        separate=several is not None and several.heads == "separate",
        drift=drift_rate(problem) / dim,
        unseen=unseen,
        draws=draws,
        loss_number=loss_number,
        update_number=update_number,
        dim=dim,
        batch=problem.samples_per_step,
        momentum=problem.optimizer.has_momentum,
        momentum_factor=keep,
        beta=beta,
        train_readout=problem.student.train_readout,
        train_bias=problem.student.train_bias,
        spherical=optimizer.spherical,
        optimizer=optimizer_code(problem),
        **_optimizer_numbers(problem, dim),
    )


def _optimizer_numbers(problem: Problem, dim: int) -> dict[str, Any]:
    """Return the numbers of an optimizer other than plain SGD."""
    optimizer = problem.optimizer

    def number(name: str, default: float) -> float:
        value = getattr(optimizer, name, None)
        return default if value is None else float(np.asarray(value))

    gain = 0.0
    forget = 0.0
    if optimizer.sums_squares:
        gain = 1.0 / dim
    elif optimizer.has_scales:
        gain = 1.0 / (dim * number("memory", 1.0))
        forget = gain
    if forget >= 1:
        raise InputError(
            f"memory is {number('memory', 1.0):g} at N = {dim}: a step would forget the "
            f"whole scale. memory must be above 1 / N; raise it or dim."
        )
    return {
        "clip": number("clip_coordinates", 0.0),
        "gain": gain,
        "forget": forget,
        "beta1": number("beta1", 0.0),
    }


def with_heads(params: ParameterState) -> ParameterState:
    """Return parameters as the numba loops see them, in the same memory.

    The readout and all that belongs to it get an axis of heads.
    """

    def by_head(readout: NumpyOrJax) -> NumpyOrJax:
        return readout.reshape(-1, readout.shape[-1])

    return params._replace(
        readout=by_head(params.readout),
        readout_momentum=by_head(params.readout_momentum),
        readout_sum=by_head(params.readout_sum),
        readout_scale=by_head(params.readout_scale),
    )
