"""The numba kernels of SGD at finite N, and the data that they work on.

All of it is in this one file (_numba.py says why). Arrays are stepped in place. All
loops release the GIL and draw only from the generator that they are given.

One step, for both methods:

    m_k <- mu m_k + force (mean_s[ delta_ks x_s ] / sqrt(N) - (kappa / N) w_k)
    w_k <- w_k + push m_k
    v_k <- v_k + (eta_v / N) mean_s[ h_ks ]
    b_k <- b_k + (eta_b / N) mean_s[ delta_ks ]

with delta_k = psi v_k g'(lambda_k), h_k = psi g(lambda_k) for gradient descent, where
psi = -d loss / d output. Plain SGD has mu = 0 (`momentum_factor`), force = 1 and push =
eta. `respond` computes delta and h of one sample, as problem/sample.py does. Labels,
losses, rules and activations are codes, each with its number or coefficients. Other
optimizers move all N coordinates of the weights method by `move_weights`, in the
equations of training/optimizers/.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage._numba import compiler
from tutelage._types import NumpyOrJax

# What the loops have, by its name in files: its code is its place here. Steps are those
# of optimizers (`Optimizer.steps`).
ACTIVATIONS = (
    "polynomial", "erf", "relu", "sign", "tanh", "gelu", "sigmoid", "softplus",
)  # fmt: skip
LABELS = ("real", "sign", "logistic")
LOSSES = ("squared", "absolute", "huber", "logistic", "hinge")
RULES = ("gradient", "hebbian", "perceptron", "adatron")
STEPS = (
    "plain", "clipped", "sign_sgd", "rmsprop", "adam", "adagrad", "adagrad_norm", "muon",
)  # fmt: skip
POLYNOMIAL, ERF, RELU, SIGN, TANH, GELU, SIGMOID, SOFTPLUS = range(len(ACTIVATIONS))
REAL_LABEL, SIGN_LABEL, LOGISTIC_LABEL = range(len(LABELS))
SQUARED, ABSOLUTE, HUBER, LOGISTIC, HINGE = range(len(LOSSES))
GRADIENT, HEBBIAN, PERCEPTRON, ADATRON = range(len(RULES))
PLAIN, CLIPPED, SIGN_SGD, RMSPROP, ADAM, ADAGRAD, ADAGRAD_NORM, MUON = range(len(STEPS))
UNKNOWN = -1  # the loops do not have it

# Columns of a `RateTable`, also for the steps in JAX. Several tasks have columns from
# FIRST_TASK on: cumulative probabilities of all tasks, then 1 for each head that
# learns.
FORCE, PUSH, READOUT_RATE, BIAS_RATE, LR, TIME, FIRST_TASK = range(7)
DECAY = -2  # kappa / N
LABEL_NUMBER = -1  # deviation of the noise, quantile of a flip, or slope of a link
COLUMNS = 8  # of a single task

STEPS_BETWEEN_CHECKS = 64  # of the size of the weights
OVERFLOW = 1e100  # an error of this size has diverged, whatever the weights are

TINY = 1e-300
SQRT_HALF = 0.7071067811865476
SQRT_2_OVER_PI = 0.7978845608028654
INVERSE_SQRT_2PI = 0.3989422804014327

compiled = compiler(__file__)
# A call copies all fields of the tuples it is given, which is a fifth of a step's time.
inlined = compiler(__file__, forceinline=True)


class StepConstants(NamedTuple):
    """The constants of a step.

    A problem with one teacher is one task. Labels, losses and rules are codes, each
    with the number that it needs.
    """

    student: int  # code of the activation
    student_coefficients: Float[np.ndarray, " degrees"]
    teacher: Int[np.ndarray, " tasks"]  # codes of the activations of the teachers
    teacher_coefficients: Float[np.ndarray, "tasks degrees"]
    teacher_readout: Float[np.ndarray, " M"]
    teacher_bias: Float[np.ndarray, " M"]
    # task s has the units edges[s] .. edges[s + 1] - 1
    edges: Int[np.ndarray, " tasks_and_one"]
    separate: bool  # each task has its own readout of the student
    drift: float  # omega / N of the teachers
    # a factor of the covariance of the teachers' unseen fields; empty if all are seen
    unseen: Float[np.ndarray, "M M"]
    label: int
    draws: bool  # a label is random: it takes a standard normal number
    loss: int
    loss_number: float
    update: int
    update_number: float
    dim: int
    batch: int
    momentum: bool
    momentum_factor: float  # the factor of a momentum's old value
    beta: float  # the same for readout and biases
    train_readout: bool
    train_bias: bool
    spherical: bool
    optimizer: int  # code
    clip: float  # the largest update of a coordinate
    gain: float  # how much of a squared gradient a scale gains in a step
    forget: float  # the share of a scale that a step forgets
    beta1: float  # the forgetting factor of Adam's mean gradient


class ParameterState(NamedTuple):
    """Readout and biases, their momenta, and the batch sums that will move them.

    The scales are those of adaptive optimizers. readout has shape (heads, K) here. In
    JAX it is (K,) or (outputs, K), with a leading axis of tasks for separate heads.
    """

    readout: NumpyOrJax
    bias: Float[NumpyOrJax, " K"]
    readout_momentum: NumpyOrJax
    bias_momentum: Float[NumpyOrJax, " K"]
    readout_sum: NumpyOrJax
    bias_sum: Float[NumpyOrJax, " K"]
    readout_scale: NumpyOrJax
    bias_scale: Float[NumpyOrJax, " K"]


class LevelLayout(NamedTuple):
    """Levels of the spectrum, as prepare.py lays them out."""

    width: Int[np.ndarray, " L"]  # columns in use
    dof: Int[np.ndarray, " L"]  # dimensions beyond them
    field: Float[np.ndarray, " L"]  # factor of coordinates in a field
    step: Float[np.ndarray, " L"]  # factor of an update in the coordinates
    share: Float[np.ndarray, " L"]  # of the dimensions
    eigenvalue: Float[np.ndarray, "L columns"]  # of each column, or one for all
    mask: Float[np.ndarray, "L K W"]  # 1 where a column of a student vector learns


class Samples(NamedTuple):
    """Random numbers that the weights method is given for some steps.

    The kernel draws those whose array is empty; in the overlaps method these are all.
    """

    x: Float[np.ndarray, "steps B 1 N"]  # inputs
    unseen: Float[np.ndarray, "steps B M"]  # the unseen part of the teachers' fields
    moves: Float[np.ndarray, "steps M N"]  # zeta of teachers that drift


class Snapshots(NamedTuple):
    """The states after given numbers of steps, to be filled."""

    steps: Int[np.ndarray, " time"]
    students: Float[np.ndarray, "time L rows W"]
    teachers: Float[np.ndarray, "time L M columns"]
    readout: Float[np.ndarray, "time heads K"]
    bias: Float[np.ndarray, "time K"]


@inlined
def sign(x):
    """Return -1, 0 or 1."""
    if x > 0.0:
        return 1.0
    if x < 0.0:
        return -1.0
    return 0.0


@inlined
def activate(code, coefficients, x):
    """Return g(x) and g'(x)."""
    if code == ERF:
        return math.erf(x * SQRT_HALF), SQRT_2_OVER_PI * math.exp(-0.5 * x * x)
    if code == POLYNOMIAL:
        g = 0.0
        slope = 0.0
        for i in range(coefficients.size - 1, -1, -1):
            slope = slope * x + g
            g = g * x + coefficients[i]
        return g, slope
    if code == RELU:
        if x > 0:
            return max(x, 0.0), 1.0
        return max(x, 0.0), 0.0
    if code == SIGN:
        return sign(x), 0.0
    if code == TANH:
        g = math.tanh(x)
        return g, 1.0 - g * g
    if code == GELU:
        below = 0.5 * (1.0 + math.erf(x * SQRT_HALF))
        return x * below, below + INVERSE_SQRT_2PI * x * math.exp(-0.5 * x * x)
    sigmoid = 0.5 * (1.0 + math.tanh(0.5 * x))
    if code == SIGMOID:
        return sigmoid, sigmoid * (1.0 - sigmoid)
    return max(x, 0.0) + math.log1p(math.exp(-abs(x))), sigmoid


@compiled
def label(code, number, output, z):
    """Return the label for a teacher output and a standard normal number z.

    number: the noise; the z above which a sign is flipped; or the slope of the link.
    """
    if code == REAL_LABEL:
        return output + number * z
    if code == SIGN_LABEL:
        side = -1.0 if output < 0.0 else 1.0
        if z > number:
            return -side
        return side
    u = 0.5 * math.erfc(-SQRT_HALF * z)
    if u * (1.0 + math.exp(-number * output)) < 1.0:
        return 1.0
    return -1.0


@compiled
def descent(code, number, output, label):
    """Return psi, minus the derivative of the loss by the output.

    number: Huber's delta.
    """
    gap = label - output
    if code == SQUARED:
        return gap
    if code == LOGISTIC:
        return label / (1.0 + math.exp(label * output))
    if code == HUBER:
        return max(min(gap, number), -number)
    if code == ABSOLUTE:
        return sign(gap)
    if label * output < 1.0:
        return label
    return 0.0


@compiled
def classical(code, number, field, label):
    """Return delta of a unit under the Hebbian, Perceptron and AdaTron rules.

    number: the margin.
    """
    if code == HEBBIAN:
        return label
    if code == ADATRON:
        if label * field < 0.0:
            return -field
        return 0.0
    if label * field < number:
        return label
    return 0.0


@inlined
def respond(
    constants, params, student_fields, teacher_fields, task, learns, number, z, delta
):
    """Fill delta_k of one sample of a task, and return label - output.

    The sums that move the params grow. learns: 1, or 0 if the head of the task is
    frozen. number: of the label law. The student's fields are overwritten. The result
    is huge, or NaN, in a run that diverges. Classical rules look at fields: their sum
    is the output.
    """
    output = 0.0
    head = task if constants.separate else 0
    code = constants.teacher[task]
    coefficients = constants.teacher_coefficients[task]
    for m in range(constants.edges[task], constants.edges[task + 1]):
        rho = teacher_fields[m] + constants.teacher_bias[m]
        g, _ = activate(code, coefficients, rho)
        output += constants.teacher_readout[m] * g
    y = label(constants.label, number, output, z)
    output = 0.0
    if constants.update != GRADIENT:
        for k in range(student_fields.size):
            field = student_fields[k] + params.bias[k]
            delta[k] = classical(constants.update, constants.update_number, field, y)
            params.bias_sum[k] += delta[k]
            output += field
        return y - output
    for k in range(student_fields.size):
        field = student_fields[k] + params.bias[k]
        g, slope = activate(constants.student, constants.student_coefficients, field)
        student_fields[k] = g
        delta[k] = slope
        output += params.readout[head, k] * g
    psi = descent(constants.loss, constants.loss_number, output, y)
    for k in range(student_fields.size):
        params.readout_sum[head, k] += learns * psi * student_fields[k]
        delta[k] *= psi * params.readout[head, k]
        params.bias_sum[k] += delta[k]
    return y - output


@inlined
def move_parameters(constants, params, eta_readout, eta_bias):
    """Move readout and biases by the batch's sums, and set these to zero."""
    scale = 1.0 / (constants.dim * constants.batch)
    for k in range(params.bias.size):
        for h in range(params.readout.shape[0]):
            if constants.train_readout:
                kept = constants.beta * params.readout_momentum[h, k]
                params.readout_momentum[h, k] = kept + scale * params.readout_sum[h, k]
                params.readout[h, k] += eta_readout * params.readout_momentum[h, k]
            params.readout_sum[h, k] = 0.0
        if constants.train_bias:
            kept = constants.beta * params.bias_momentum[k]
            params.bias_momentum[k] = kept + scale * params.bias_sum[k]
            params.bias[k] += eta_bias * params.bias_momentum[k]
        params.bias_sum[k] = 0.0


@inlined
def corrections(constants, step):
    """Return the factors of Adam's mean gradient and scale, which begin at zero."""
    if constants.optimizer != ADAM:
        return 1.0, 1.0
    count = step + 1
    of_mean = 1.0 / (1.0 - constants.beta1**count)
    of_scale = 1.0 / -math.expm1(count * math.log1p(-constants.forget))
    return of_mean, of_scale


@inlined
def adapted(constants, g, mean, scale, of_mean, of_scale):
    """Return the step of a parameter by a gradient, its new mean gradient and scale."""
    if constants.optimizer == ADAM:
        mean = constants.beta1 * mean + (1.0 - constants.beta1) * g
    else:
        mean = g
    scale += constants.gain * g * g - constants.forget * scale
    used = of_scale * scale
    if used > 0.0:
        return of_mean * mean / math.sqrt(used), mean, scale
    return 0.0, mean, scale


@compiled
def move_adapted(constants, params, eta_readout, eta_bias, step):
    """Move readout and biases under sign-SGD and the adaptive optimizers.

    The sums over the batch are set to zero.
    """
    of_mean, of_scale = corrections(constants, step)
    for k in range(params.bias.size):
        for h in range(params.readout.shape[0]):
            if constants.train_readout:
                g = params.readout_sum[h, k] / constants.batch
                move = sign(g)
                if constants.optimizer != SIGN_SGD:
                    move, mean, scale = adapted(
                        constants,
                        g,
                        params.readout_momentum[h, k],
                        params.readout_scale[h, k],
                        of_mean,
                        of_scale,
                    )
                    params.readout_momentum[h, k] = mean
                    params.readout_scale[h, k] = scale
                params.readout[h, k] += eta_readout / constants.dim * move
            params.readout_sum[h, k] = 0.0
        if constants.train_bias:
            g = params.bias_sum[k] / constants.batch
            move = sign(g)
            if constants.optimizer != SIGN_SGD:
                move, mean, scale = adapted(
                    constants,
                    g,
                    params.bias_momentum[k],
                    params.bias_scale[k],
                    of_mean,
                    of_scale,
                )
                params.bias_momentum[k] = mean
                params.bias_scale[k] = scale
            params.bias[k] += eta_bias / constants.dim * move
        params.bias_sum[k] = 0.0


@compiled
def sum_gradients(deltas, x, mask, scale, gradients):
    """Set gradients (K, N) to scale sum_b delta_kb x_b, zero where a level is frozen."""
    K, B = deltas.shape
    for k in range(K):
        row = gradients[k]
        for c in range(row.size):
            row[c] = deltas[k, 0] * x[0, 0, c]
        for b in range(1, B):
            for c in range(row.size):
                row[c] += deltas[k, b] * x[b, 0, c]
        for c in range(row.size):
            row[c] *= scale * mask[k, c]


@compiled
def inverse_root(S, V):
    """Turn S into its pseudo-inverse root by Jacobi's method; V is room for vectors."""
    K = S.shape[0]
    V[:] = 0.0
    for i in range(K):
        V[i, i] = 1.0
    for _ in range(50):
        off = 0.0
        total = 0.0
        for i in range(K):
            for j in range(K):
                total += S[i, j] * S[i, j]
                if i != j:
                    off += S[i, j] * S[i, j]
        if off <= 1e-30 * total:
            break
        for i in range(K):
            for j in range(i + 1, K):
                angle = 0.5 * math.atan2(2.0 * S[i, j], S[j, j] - S[i, i])
                c = math.cos(angle)
                s = math.sin(angle)
                for m in range(K):
                    a = S[m, i]
                    b = S[m, j]
                    S[m, i] = c * a - s * b
                    S[m, j] = s * a + c * b
                for m in range(K):
                    a = S[i, m]
                    b = S[j, m]
                    S[i, m] = c * a - s * b
                    S[j, m] = s * a + c * b
                for m in range(K):
                    a = V[m, i]
                    b = V[m, j]
                    V[m, i] = c * a - s * b
                    V[m, j] = s * a + c * b
    largest = 0.0
    for i in range(K):
        largest = max(largest, S[i, i])
    values = np.zeros(K)
    for i in range(K):
        if S[i, i] > 1e-12 * largest:
            values[i] = 1.0 / math.sqrt(S[i, i])
    S[:] = 0.0
    for i in range(K):
        for j in range(K):
            for m in range(K):
                S[i, j] += V[i, m] * values[m] * V[j, m]


@compiled
def orthogonalize(gradients, products, vectors):
    """Turn gradients G (K, N) into (G G^T)^(-1/2) G."""
    K, N = gradients.shape
    for i in range(K):
        for j in range(K):
            products[i, j] = inner(gradients[i], gradients[j])
    inverse_root(products, vectors)
    column = np.empty(K)
    for c in range(N):
        for k in range(K):
            column[k] = gradients[k, c]
        for k in range(K):
            gradients[k, c] = inner(products[k], column)


@compiled
def divide(constants, gradient, scales):
    """Update the scales by a gradient, and divide it by their roots."""
    gain = constants.gain
    remembered = 1.0 - constants.forget
    for c in range(gradient.size):
        g = gradient[c]
        scale = remembered * scales[c] + gain * g * g
        scales[c] = scale
        gradient[c] = g / math.sqrt(scale)


@compiled
def average_and_divide(constants, gradient, means, scales, of_mean, of_scale):
    """Update Adam's mean gradient and scales, and set the gradient to its step."""
    gain = constants.gain
    remembered = 1.0 - constants.forget
    beta1 = constants.beta1
    for c in range(gradient.size):
        g = gradient[c]
        mean = beta1 * means[c] + (1.0 - beta1) * g
        scale = remembered * scales[c] + gain * g * g
        means[c] = mean
        scales[c] = scale
        # the tiny number keeps a gradient that has always been zero at zero
        gradient[c] = of_mean * mean / math.sqrt(of_scale * scale + TINY)


@compiled
def move_weights(constants, rows, deltas, x, gradients, mask, eta, decay, step):
    """Take one step of the weights, w / sqrt(N), under any optimizer but plain SGD.

    rows: students, then Adam's mean gradients, then the scales. x: the inputs.
    """
    K, N = gradients.shape
    optimizer = constants.optimizer
    sums = optimizer in (SIGN_SGD, MUON)
    sum_gradients(deltas, x, mask, 1.0 if sums else 1.0 / constants.batch, gradients)
    push = eta / N
    if optimizer == MUON:
        orthogonalize(gradients, np.empty((K, K)), np.empty((K, K)))
        push = eta / math.sqrt(N)
    elif optimizer == ADAGRAD_NORM:
        total = 0.0
        for k in range(K):
            total += inner(gradients[k], gradients[k]) / N
        scale = rows[K, 0] + constants.gain * total
        push = eta / (N * math.sqrt(scale))
        for c in range(N):
            rows[K, c] = scale
    of_mean, of_scale = corrections(constants, step)
    first_scale = rows.shape[0] - K
    for k in range(K):
        moves = gradients[k]
        if optimizer == SIGN_SGD:
            for c in range(N):
                moves[c] = sign(moves[c])
        elif optimizer == CLIPPED:
            for c in range(N):
                moves[c] = max(min(moves[c], constants.clip), -constants.clip)
        elif optimizer in (RMSPROP, ADAGRAD):
            divide(constants, moves, rows[first_scale + k])
        elif optimizer == ADAM:
            average_and_divide(
                constants, moves, rows[K + k], rows[first_scale + k], of_mean, of_scale
            )
        row = rows[k]
        for c in range(N):
            row[c] += push * moves[c] - eta * decay * mask[k, c] * row[c]


@compiled
def chi(rng, dof):
    """Draw the length of a standard normal vector in `dof` dimensions.

    The gamma law follows Marsaglia and Tsang (2000).
    """
    if dof == 1:
        return abs(rng.standard_normal())
    d = 0.5 * dof - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = rng.standard_normal()
        cube = (1.0 + c * x) ** 3
        if cube > 0.0:
            u = rng.random()
            if u < 1.0 - 0.0331 * x**4:
                return math.sqrt(2.0 * d * cube)
            if math.log(u) < 0.5 * x * x + d * (1.0 - cube + math.log(cube)):
                return math.sqrt(2.0 * d * cube)


@compiled
def fold(rows, extra, first, count, columns):
    """Rotate [Z | extra] so that everything fits into Z again (Householder LQ).

    Z Z^T grows by extra extra^T. Z is rows[:count, first:first + count] and becomes
    lower triangular; extra is (count, columns) and overwritten.
    """
    for j in range(count):
        tail = 0.0
        for c in range(first + j + 1, first + count):
            tail += rows[j, c] * rows[j, c]
        for c in range(columns):
            tail += extra[j, c] * extra[j, c]
        if tail < 1e-280:
            continue
        head = rows[j, first + j]
        norm = math.sqrt(head * head + tail)
        image = -norm if head > 0 else norm
        u0 = head - image
        strength = 1.0 / (norm * (norm + abs(head)))
        for i in range(j + 1, count):
            dot = u0 * rows[i, first + j]
            for c in range(first + j + 1, first + count):
                dot += rows[j, c] * rows[i, c]
            for c in range(columns):
                dot += extra[j, c] * extra[i, c]
            dot *= strength
            rows[i, first + j] -= dot * u0
            for c in range(first + j + 1, first + count):
                rows[i, c] -= dot * rows[j, c]
            for c in range(columns):
                extra[i, c] -= dot * extra[j, c]
        rows[j, first + j] = image
        for c in range(first + j + 1, first + count):
            rows[j, c] = 0.0


@compiled
def copy(source, target, scale=1.0):
    """Set target to scale source, both (rows, columns).

    An assignment of whole arrays takes seconds to compile.
    """
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = scale * source[i, j]


@compiled
def inner(a, b):
    """Return the inner product of the first a.size entries."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@inlined
def draw_normals(rng, layout, normals):
    """Draw a standard normal number for each coordinate in use, (L, W)."""
    for level in range(layout.width.size):
        for c in range(layout.width[level]):
            normals[level, c] = rng.standard_normal()


@inlined
def compute_fields(layout, vectors, normals, fields):
    """Set the first fields to sum_l sqrt(p_l lam_l) (coordinates . normals)."""
    fields[:] = 0.0
    for level in range(layout.width.size):
        width = layout.width[level]
        scale = layout.field[level]
        for i in range(fields.size):
            fields[i] += scale * inner(vectors[level, i, :width], normals[level])


@inlined
def move_inside(
    constants, rows, normals, deltas, gradient, level, width, scale, mask, now
):
    """Step along the coordinates in use.

    rows: students, then (with momentum) their velocities. now: the rates of this step.
    """
    K = deltas.shape[0]
    # read once: the compiler cannot know that rows and rates do not overlap
    force = now[FORCE]
    push = now[PUSH]
    decay = now[DECAY]
    for k in range(K):
        for c in range(width):
            gradient[c] = deltas[k, 0] * normals[0, level, c]
        for s in range(1, constants.batch):
            for c in range(width):
                gradient[c] += deltas[k, s] * normals[s, level, c]
        for c in range(width):
            downhill = scale * gradient[c] - decay * rows[k, c]
            kick = force * mask[k, c] * downhill
            if constants.momentum:
                kick += constants.momentum_factor * rows[K + k, c]
                rows[K + k, c] = kick
            rows[k, c] += push * kick


@inlined
def times_bartlett(rng, factor, dof, extra):
    """Set extra to factor . F, with Bartlett's factor F of Gaussian vectors.

    The vectors have `dof` dimensions. Further rows of extra become zero.
    """
    extra[:] = 0.0
    for i in range(factor.shape[1]):
        for j in range(i + 1):
            f = chi(rng, dof - j) if i == j else rng.standard_normal()
            for k in range(factor.shape[0]):
                extra[k, j] += factor[k, i] * f


@inlined
def move_outside(rng, constants, rows, factor, extra, first, dof, scale, mask, now):
    """Step along all other dimensions, of which the rows of Z keep only the span.

    The step is new columns factor . F, with Bartlett's factor F, folded back into Z.
    """
    K, columns = factor.shape
    force = now[FORCE]
    push = now[PUSH]
    times_bartlett(rng, factor, dof, extra)
    for k in range(K):
        for j in range(columns):
            kick = force * mask[k, 0] * scale * extra[k, j]
            if constants.momentum:
                extra[K + k, j] = kick
            extra[k, j] = push * kick
    fold(rows, extra, first, rows.shape[0], columns)


@compiled
def move_teachers(rng, drift, root, rows, teachers, width, dof, vectors, extra):
    """Move teachers in one level: w* <- (1 - drift) w* + sqrt(2 drift) zeta.

    zeta is Gaussian with the overlaps root root^T of the teachers; drift is omega / N.
    All vectors move into a new basis in which the teachers are lower triangular again.
    """
    M, columns = teachers.shape
    scale = math.sqrt(2.0 * drift / (width + dof))
    vectors[:M] = 0.0
    copy(teachers, vectors[:M, :columns], 1.0 - drift)
    copy(rows, vectors[M:])
    for c in range(width):
        for i in range(M):
            z = scale * rng.standard_normal()
            for m in range(M):
                vectors[m, c] += root[m, i] * z
    if dof > 0:
        times_bartlett(rng, root, dof, extra)
        copy(extra, extra, scale)
        fold(vectors, extra, 0, vectors.shape[0], M)
    copy(vectors[:M, :columns], teachers)
    copy(vectors[M:], rows)


@compiled
def move_given(drift, teachers, zeta):
    """Move teachers in all N coordinates by given zeta."""
    scale = math.sqrt(2.0 * drift / teachers.shape[1])
    for m in range(teachers.shape[0]):
        for i in range(teachers.shape[1]):
            teachers[m, i] = (1.0 - drift) * teachers[m, i] + scale * zeta[m, i]


@compiled
def onto_sphere(layout, students, lengths):
    """Rescale each student vector to its initial length, |w_k|^2 / N = lengths_k."""
    for k in range(lengths.size):
        total = 0.0
        for level in range(layout.width.size):
            row = students[level, k]
            total += layout.share[level] * inner(row, row)
        scale = math.sqrt(lengths[k] / total)
        for level in range(layout.width.size):
            for c in range(students.shape[2]):
                students[level, k, c] *= scale


@compiled
def too_large(students, params, bound):
    """Return True if a squared coordinate or readout passed the bound, or is NaN."""
    size = inner(params.bias, params.bias)
    for head in params.readout:
        size += inner(head, head)
    for level in students:
        for row in level:
            for x in row:
                if x == x:
                    size = max(size, x * x)
                else:
                    size = math.inf
    return not size < bound


@inlined
def reduce_batch(deltas, factor):
    """Set factor (K, min(B, K)), so that factor factor^T = deltas deltas^T.

    The dimensions outside of the span depend on a batch through this product alone.
    """
    K, B = deltas.shape
    if B <= K:
        for k in range(K):
            for s in range(B):
                factor[k, s] = deltas[k, s]
    else:
        factor[:] = 0.0
        fold(factor, deltas.copy(), 0, K, B)


@inlined
def take_snapshot(states, at, students, teachers, params):
    """Copy the state into place `at` of the snapshots."""
    for level in range(students.shape[0]):
        copy(students[level], states.students[at, level])
        copy(teachers[level], states.teachers[at, level])
    copy(params.readout, states.readout[at])
    for k in range(params.bias.size):
        states.bias[at, k] = params.bias[k]


@inlined
def add_unseen(rng, constants, given, place, s, fields):
    """Add the unseen part to the teachers' fields of sample s: as given, or drawn."""
    if given.size:
        for m in range(fields.size):
            fields[m] += given[place, s, m]
    else:
        for i in range(constants.unseen.shape[0]):
            z = rng.standard_normal()
            for m in range(fields.size):
                fields[m] += constants.unseen[m, i] * z


# One function: calls with this many arrays would take almost as long as a step.
@compiled
def advance(
    rng,
    constants,
    layout,
    samples,
    students,
    teachers,
    params,
    roots,
    lengths,
    bound,
    rates,
    first,
    last,
    states,
):
    """Take steps first .. last - 1, and fill the snapshots whose steps are passed.

    Return `last`, or minus (the step that diverged + 1). roots: of the teachers'
    overlaps.
    """
    K = params.bias.size
    M = teachers.shape[1]
    L = layout.width.size
    B = constants.batch
    rows_of_students = students.shape[1]
    columns = students.shape[2]
    tasks = constants.teacher.size
    task = 0
    learns = 1.0
    vectors = np.zeros((M + rows_of_students, columns))
    outside_vectors = np.zeros((M + rows_of_students, M))
    normals = np.empty((B, L, columns))
    gradient = np.empty(columns)
    student_fields = np.empty(K)
    teacher_fields = np.empty(M)
    delta = np.empty(K)
    deltas = np.empty((K, B))
    factor = np.zeros((K, min(B, K)))
    extra = np.empty((rows_of_students, min(B, K)))
    gradients = np.empty((K, columns if constants.optimizer != PLAIN else 0))
    taken = 0  # snapshots
    for step in range(first, last + 1):
        while taken < states.steps.size and states.steps[taken] == step:
            if too_large(students, params, bound):
                return -step - 1
            take_snapshot(states, taken, students, teachers, params)
            taken += 1
        if step == last:
            break
        place = step - first
        now = rates[place]
        if samples.x.size:
            normals = samples.x[place]
        for s in range(B):
            if not samples.x.size:
                draw_normals(rng, layout, normals[s])
            compute_fields(layout, students, normals[s], student_fields)
            compute_fields(layout, teachers, normals[s], teacher_fields)
            add_unseen(rng, constants, samples.unseen, place, s, teacher_fields)
            z = 0.0
            if constants.draws:
                z = rng.standard_normal()
            if now.size > COLUMNS:
                cumulative = now[FIRST_TASK : FIRST_TASK + tasks - 1]
                task = np.searchsorted(cumulative, rng.random())
                learns = now[FIRST_TASK + tasks + task]
            error = respond(
                constants,
                params,
                student_fields,
                teacher_fields,
                task,
                learns,
                now[LABEL_NUMBER],
                z,
                delta,
            )
            for k in range(K):
                deltas[k, s] = delta[k]
            if not abs(error) < OVERFLOW:
                return -step - 1
        if constants.optimizer != PLAIN:
            move_weights(
                constants,
                students[0],
                deltas,
                normals,
                gradients,
                layout.mask[0],
                now[PUSH],
                now[DECAY],
                step,
            )
            if constants.optimizer in (CLIPPED, MUON):
                move_parameters(constants, params, now[READOUT_RATE], now[BIAS_RATE])
            else:
                move_adapted(constants, params, now[READOUT_RATE], now[BIAS_RATE], step)
            if samples.moves.size:
                move_given(constants.drift, teachers[0], samples.moves[place])
            if step % STEPS_BETWEEN_CHECKS == 0 and too_large(students, params, bound):
                return -step - 1
            continue
        reduce_batch(deltas, factor)
        for level in range(L):
            rows = students[level]
            mask = layout.mask[level]
            scale = layout.step[level] / B
            width = layout.width[level]
            dof = layout.dof[level]
            move_inside(
                constants,
                rows,
                normals,
                deltas,
                gradient,
                level,
                width,
                scale,
                mask,
                now,
            )
            if dof > 0:
                move_outside(
                    rng, constants, rows, factor, extra, M, dof, scale, mask, now
                )
        move_parameters(constants, params, now[READOUT_RATE], now[BIAS_RATE])
        if constants.spherical:
            onto_sphere(layout, students, lengths)
        if samples.moves.size:
            move_given(constants.drift, teachers[0], samples.moves[place])
        elif constants.drift > 0.0:
            for level in range(L):
                move_teachers(
                    rng,
                    constants.drift,
                    roots[level],
                    students[level],
                    teachers[level],
                    layout.width[level],
                    layout.dof[level],
                    vectors,
                    outside_vectors,
                )
        if step % STEPS_BETWEEN_CHECKS == 0 and too_large(students, params, bound):
            return -step - 1
    return last


@compiled
def normal_numbers(rng, shape):
    """Draw the standard normals of NumPy's generator, in less than half its time."""
    rows = np.empty(shape)
    for i in range(shape[0]):
        for j in range(shape[1]):
            rows[i, j] = rng.standard_normal()
    return rows


@compiled
def respond_to_samples(constants, fields, labels, readout, bias, delta, moves):
    """Fill delta (samples, K) of stored samples, and add the moves of readout and biases.

    fields: without biases. moves: sums of h_k, then of delta_k.
    """
    coefficients = constants.student_coefficients
    K = readout.size
    g = np.empty(K)
    for s in range(labels.size):
        output = 0.0
        for k in range(K):
            field = fields[s, k] + bias[k]
            g[k], delta[s, k] = activate(constants.student, coefficients, field)
            output += readout[k] * g[k]
        psi = descent(constants.loss, constants.loss_number, output, labels[s])
        for k in range(K):
            delta[s, k] *= psi * readout[k]
            moves[0, k] += psi * g[k]
            moves[1, k] += delta[s, k]


@compiled
def train_on_samples(constants, samples, labels, visits, rates, weights, readout, bias):
    """Take SGD steps on stored samples; weights, readout and bias move in place.

    visits: (steps, batch), the samples of each step. rates: of each step eta, the share
    that weights lose by decay, and the rates of readout and biases divided by N.
    """
    N = samples.shape[1]
    K = weights.shape[0]
    batch = visits.shape[1]
    fields = np.empty((batch, K))
    delta = np.empty((batch, K))
    chosen = np.empty(batch)
    moves = np.zeros((2, K))
    scale = 1.0 / math.sqrt(N)
    for step in range(visits.shape[0]):
        for s in range(batch):
            x = samples[visits[step, s]]
            chosen[s] = labels[visits[step, s]]
            for k in range(K):
                fields[s, k] = scale * inner(x, weights[k])
        moves[:] = 0.0
        respond_to_samples(constants, fields, chosen, readout, bias, delta, moves)
        push = rates[step, 0] * scale / batch
        for k in range(K):
            w = weights[k]
            # the first sample of a step also carries the decay of the weights
            decay_factor = 1.0 - rates[step, 1]
            for s in range(batch):
                x = samples[visits[step, s]]
                kick = push * delta[s, k]
                for i in range(N):
                    w[i] = decay_factor * w[i] + kick * x[i]
                decay_factor = 1.0
            readout[k] += rates[step, 2] / batch * moves[0, k]
            bias[k] += rates[step, 3] / batch * moves[1, k]
