"""The compiled loops over steps; what one sample does to the student is in response.py.

Plain arrays are stepped in place. All loops release the GIL and draw only from the generator that they are given.

One step, for both methods (rates: force, push, eta_v, eta_b; plain SGD has keep = 0, force = 1, push = eta):
    m_k <- keep m_k + force (mean_s[ delta_ks x_s ] / sqrt(N) - (kappa / N) w_k),    w_k <- w_k + push m_k
    v_k <- v_k + (eta_v / N) mean_s[ h_ks ],   b_k <- b_k + (eta_b / N) mean_s[ delta_ks ]
with delta_k = psi v_k g'(lambda_k), h_k = psi g(lambda_k) for gradient descent, psi = -d loss / d output.
"""

import math

import numpy as np

from tutelage.simulation.machine_code import compiled
from tutelage.simulation.response import respond

LOOK = 64  # steps between two looks at the size of the weights
OVERFLOW = 1e100  # an error of this size has diverged whatever the weights say


@compiled
def move_heads(rule, heads, eta_readout, eta_bias):
    """Readout and biases learn from the batch's sums, which start again at zero."""
    scale = 1.0 / (rule.dim * rule.batch)
    for k in range(heads.readout.size):
        if rule.train_readout:
            heads.readout_momentum[k] = rule.beta * heads.readout_momentum[k] + scale * heads.readout_force[k]
            heads.readout[k] += eta_readout * heads.readout_momentum[k]
        if rule.train_bias:
            heads.bias_momentum[k] = rule.beta * heads.bias_momentum[k] + scale * heads.bias_force[k]
            heads.bias[k] += eta_bias * heads.bias_momentum[k]
        heads.readout_force[k] = 0.0
        heads.bias_force[k] = 0.0


@compiled
def chi(rng, dof):
    """The length of a standard normal vector in `dof` dimensions (Marsaglia and Tsang 2000 for the gamma law)."""
    if dof == 1:
        return abs(rng.standard_normal())
    d = 0.5 * dof - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = rng.standard_normal()
        cube = (1.0 + c * x) ** 3
        if cube > 0.0:
            u = rng.random()
            if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - cube + math.log(cube)):
                return math.sqrt(2.0 * d * cube)


@compiled
def fold(rows, extra, first, count, columns):
    """Rotate [Z | extra] so that everything fits into Z again: Z Z^T grows by extra extra^T (Householder LQ).

    Z is rows[:count, first:first + count] and leaves lower triangular; extra is (count, columns), overwritten.
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
def draw_fields(rng, blocks, students, teachers, normals, student_fields, teacher_fields):
    """Normals (L, W) for the coordinates in use, and the fields sum_l sqrt(p_l lam_l) (coordinates . normals)."""
    K, M = student_fields.size, teacher_fields.size
    for k in range(K):
        student_fields[k] = 0.0
    for m in range(M):
        teacher_fields[m] = 0.0
    for level in range(blocks.width.size):
        width, scale = blocks.width[level], blocks.field[level]
        for c in range(width):
            normals[level, c] = rng.standard_normal()
        for k in range(K):
            dot = 0.0
            for c in range(width):
                dot += students[level, k, c] * normals[level, c]
            student_fields[k] += scale * dot
        for m in range(M):
            dot = 0.0
            for c in range(min(width, teachers.shape[2])):
                dot += teachers[level, m, c] * normals[level, c]
            teacher_fields[m] += scale * dot


@compiled
def move_inside(rule, rows, normals, deltas, level, width, scale, mask, force, push):
    """The step along the coordinates in use; rows: students, then (with momentum) their velocities."""
    K = deltas.shape[0]
    for k in range(K):
        for c in range(width):
            pull = 0.0
            for s in range(rule.batch):
                pull += deltas[k, s] * normals[s, level, c]
            kick = force * mask[k] * (scale * pull - rule.decay * rows[k, c])
            if rule.momentum:
                kick += rule.keep * rows[K + k, c]
                rows[K + k, c] = kick
            rows[k, c] += push * kick


@compiled
def move_outside(rng, rule, rows, factor, extra, first, dof, scale, mask, force, push):
    """The step along all other dimensions: new columns factor . F, F Bartlett's factor, folded back into Z."""
    K, columns = factor.shape
    count = rows.shape[0]
    for k in range(K):
        for j in range(columns):
            extra[k, j] = 0.0
    for i in range(columns):
        for j in range(i + 1):
            f = chi(rng, dof - j) if i == j else rng.standard_normal()
            for k in range(K):
                extra[k, j] += factor[k, i] * f
    for k in range(K):
        for j in range(columns):
            kick = force * mask[k] * scale * extra[k, j]
            if rule.momentum:
                extra[K + k, j] = kick
            extra[k, j] = push * kick
    fold(rows, extra, first, count, columns)


@compiled
def onto_sphere(blocks, students, lengths):
    """Each student vector back to its initial length, |w_k|^2 / N = lengths_k."""
    for k in range(lengths.size):
        total = 0.0
        for level in range(blocks.width.size):
            for c in range(blocks.width[level]):
                total += blocks.share[level] * students[level, k, c] ** 2
        scale = math.sqrt(lengths[k] / total)
        for level in range(blocks.width.size):
            for c in range(blocks.width[level]):
                students[level, k, c] *= scale


@compiled
def record_overlaps(at, blocks, students, teachers, heads, records):
    """Field covariances (and overlaps per level, where kept) of the present state."""
    K, M, keep = heads.readout.size, teachers.shape[1], records.r.shape[0] > 0
    for k in range(K):
        records.readout[at, k], records.bias[at, k] = heads.readout[k], heads.bias[k]
        for m in range(M):
            records.R[at, k, m] = 0.0
        for j in range(K):
            records.Q[at, k, j] = 0.0
    for level in range(blocks.width.size):
        weight = blocks.share[level] * blocks.eigenvalue[level]
        for k in range(K):
            for m in range(M):
                dot = 0.0
                for c in range(min(blocks.width[level], teachers.shape[2])):
                    dot += students[level, k, c] * teachers[level, m, c]
                records.R[at, k, m] += weight * dot
                if keep:
                    records.r[at, level, k, m] = dot
            for j in range(K):
                dot = 0.0
                for c in range(blocks.width[level]):
                    dot += students[level, k, c] * students[level, j, c]
                records.Q[at, k, j] += weight * dot
                if keep:
                    records.q[at, level, k, j] = dot


@compiled
def too_large(students, heads, bound):
    """Has a squared coordinate (or a readout) passed the bound, or stopped being a number?"""
    for level in range(students.shape[0]):
        for k in range(students.shape[1]):
            for c in range(students.shape[2]):
                if not students[level, k, c] ** 2 < bound:
                    return True
    size = 0.0
    for k in range(heads.readout.size):
        size += heads.readout[k] ** 2 + heads.bias[k] ** 2
    return not size < bound


@compiled
def reduce_batch(deltas, copy, factor):
    """factor with factor factor^T = deltas deltas^T: all that the other dimensions see of a batch. (K, min(B, K))."""
    K, B = deltas.shape
    for k in range(K):
        for s in range(B):
            copy[k, s] = deltas[k, s]
        for j in range(factor.shape[1]):
            factor[k, j] = deltas[k, j] if B <= K else 0.0
    if B > K:
        fold(factor, copy, 0, K, B)


@compiled
def advance_overlaps(rng, rule, blocks, students, teachers, heads, lengths, bound, rates, first, last, records):
    """Steps first .. last - 1; returns `last`, or minus (the step that diverged + 1)."""
    K, M, L, B = heads.readout.size, teachers.shape[1], blocks.width.size, rule.batch
    normals = np.empty((B, L, students.shape[2]))
    student_fields, teacher_fields = np.empty(K), np.empty(M)
    delta, deltas, copy = np.empty(K), np.empty((K, B)), np.empty((K, B))
    factor, extra = np.zeros((K, min(B, K))), np.empty((students.shape[1], min(B, K)))
    at = 0
    while at < records.steps.size and records.steps[at] < first:
        at += 1
    for step in range(first, last + 1):
        while at < records.steps.size and records.steps[at] == step:
            if too_large(students, heads, bound):
                return -step - 1
            record_overlaps(at, blocks, students, teachers, heads, records)
            at += 1
        if step == last:
            break
        for s in range(B):
            draw_fields(rng, blocks, students, teachers, normals[s], student_fields, teacher_fields)
            z = rng.standard_normal() if rule.draws else 0.0
            error = respond(rule, heads, student_fields, teacher_fields, z, delta)
            for k in range(K):
                deltas[k, s] = delta[k]
            if not abs(error) < OVERFLOW:
                return -step - 1
        reduce_batch(deltas, copy, factor)
        force, push = rates[step - first, 0], rates[step - first, 1]
        for level in range(L):
            rows, mask, scale = students[level], blocks.mask[level], blocks.step[level] / B
            move_inside(rule, rows, normals, deltas, level, blocks.width[level], scale, mask, force, push)
            if blocks.dof[level] > 0:
                move_outside(rng, rule, rows, factor, extra, M, blocks.dof[level], scale, mask, force, push)
        move_heads(rule, heads, rates[step - first, 2], rates[step - first, 3])
        if rule.spherical:
            onto_sphere(blocks, students, lengths)
        if step % LOOK == 0 and too_large(students, heads, bound):
            return -step - 1
    return last


@compiled
def fill_normal(rng, rows):
    """Standard normals, in the order in which NumPy's generator would give them."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] = rng.standard_normal()


@compiled
def advance_weights(rule, rows, noise, W, W_teacher, velocity, gradient, mask, heads, lengths, rates, first):
    """Feed rows (samples, N) to the network; `first` counts the samples seen before them, rates start at their step.

    velocity: (K, N), empty without momentum. mask: (K, N), empty if all learns. gradient: the sum over the batch so far.
    Returns the number of samples taken: fewer than given if the error outgrew every bound.
    """
    K, M, N, B = W.shape[0], W_teacher.shape[0], W.shape[1], rule.batch
    student_fields, teacher_fields, delta = np.empty(K), np.empty(M), np.empty(K)
    root = 1.0 / math.sqrt(rule.dim)
    for sample in range(rows.shape[0]):
        x = rows[sample]
        for k in range(K):
            student_fields[k] = root * inner(W[k], x)
        for m in range(M):
            teacher_fields[m] = root * inner(W_teacher[m], x)
        error = respond(rule, heads, student_fields, teacher_fields, noise[sample], delta)
        if not abs(error) < OVERFLOW:
            return sample
        for k in range(K):
            scale = root * delta[k] / B
            for i in range(N):
                gradient[k, i] += scale * x[i]
        if (first + sample) % B == B - 1:
            at = (first + sample) // B - first // B
            move_weights(rule, W, velocity, gradient, mask, rates[at, 0], rates[at, 1])
            move_heads(rule, heads, rates[at, 2], rates[at, 3])
            if rule.spherical:
                for k in range(K):
                    scale = math.sqrt(lengths[k] * rule.dim / inner(W[k], W[k]))
                    for i in range(N):
                        W[k, i] *= scale
    return rows.shape[0]


@compiled
def inner(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled
def move_weights(rule, W, velocity, gradient, mask, force, push):
    """w and its momentum take the batch's gradient, which starts again at zero."""
    for k in range(W.shape[0]):
        for i in range(W.shape[1]):
            kick = force * (gradient[k, i] - rule.decay * W[k, i])
            gradient[k, i] = 0.0
            if mask.size:
                kick *= mask[k, i]
            if rule.momentum:
                kick += rule.keep * velocity[k, i]
                velocity[k, i] = kick
            W[k, i] += push * kick
