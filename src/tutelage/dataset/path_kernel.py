"""Machine code: all sample paths at one time of the grid.

A sample path is the history of one sample of the data set: the fields of the student at
the visits of the sample, in the limit N -> infinity. At a grid time t the field is

    h(t) = Z(t) + sum_u Theta(t, s_u) kick_u,        kick_u = delta(s_u) / pv

over the visits s_u < t of this sample. Z is the Gaussian field that the sample would have
if it had never been used; Theta is the response of the weights, and pv the probability of
a visit in one cell. Given the teacher's fields rho, Z has a covariance that all paths
share. Each path factorizes it at its own visits, Z = mean + L zeta, and keeps zeta.

From all paths at time t follow averages over samples (`Sums`):

    E[delta], E[e g], E[delta delta^T], E[delta rho^T],    e = -dl/df
    E[J(t)] and E[d delta(t) / dZ(s)],                     J = d delta / dh
    E[delta(t) kick(s)^T]

Derivatives by Z(s_v) are tangents of the path where the update is smooth:

    d delta(t) / dZ(s_v) = J(t) sum_{u >= v} Theta(t, s_u) D(u, v)
    D(u, v) = d kick_u / dZ(s_v)

Where it jumps, a tangent would lose the delta functions. There Stein's lemma replaces it:
E[d delta / dZ] = E[delta zeta^T] L^-1.

All of the machine code is in this one file (`_numba.py` says why).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage._numba import compiler

# What the loops have, by its name in files: its code is its place here.
ACTIVATIONS = ("polynomial", "erf", "relu", "tanh", "gelu", "sigmoid", "softplus")
LOSSES = ("squared", "absolute", "huber", "logistic", "hinge")
POLYNOMIAL, ERF, RELU, TANH, GELU, SIGMOID, SOFTPLUS = range(len(ACTIVATIONS))
SQUARED, ABSOLUTE, HUBER, LOGISTIC, HINGE = range(len(LOSSES))

SQRT_HALF = 0.7071067811865476
SQRT_2_OVER_PI = 0.7978845608028654
INVERSE_SQRT_2PI = 0.3989422804014327
# Innovations below this share of the variance are rounding errors, and are dropped.
LEAST_INNOVATION = 1e-9
# What a pass over the paths is for: averages of the next step, or the training loss of
# samples that were visited in the present epoch.
STEP, RECORD = range(2)

compiled = compiler(__file__)
inlined = compiler(__file__, forceinline=True)


class Model(NamedTuple):
    """The student and the loss, as codes with their numbers."""

    activation: int
    coefficients: Float[np.ndarray, " degrees"]
    loss: int
    loss_number: float
    by_class: bool  # the error counts wrong signs
    jumps: bool  # delta jumps: responses by Stein's lemma


class Paths(NamedTuple):
    """The constants of each path. Visits of all paths lie one after the other."""

    label: Float[np.ndarray, " S"]
    reference: Float[np.ndarray, "S M"]  # rho
    innovations: Float[np.ndarray, "S most K"]  # zeta of the visits, and the next one
    first: Int[np.ndarray, " S_and_one"]  # of the visits of each path
    visit_cells: Int[np.ndarray, " visits"]
    factor_start: Int[np.ndarray, " S_and_one"]
    tangent_start: Int[np.ndarray, " S_and_one"]


class Memory(NamedTuple):
    """The memory that paths have of their visits."""

    visited: Int[np.ndarray, " S"]  # visits so far
    # rows of L, each with its diagonal inverted (0 if it was dropped), packed
    factors: Float[np.ndarray, " entries"]
    kicks: Float[np.ndarray, "visits K"]
    # D(u, v)[k, j] for v <= u, in the order u, k, v, j, packed; empty with Stein's lemma
    tangents: Float[np.ndarray, " entries"]


class Cell(NamedTuple):
    """One time of the grid, as all paths see it."""

    time: int
    visit_probability: float
    regression: Float[np.ndarray, "K M"]  # of Z on rho
    covariance: Float[np.ndarray, "t_and_one K K"]  # of Z(t) with Z(s), given rho
    response: Float[np.ndarray, "t K K"]  # Theta(t, s)
    readout: Float[np.ndarray, " K"]
    bias: Float[np.ndarray, " K"]


class Sums(NamedTuple):
    """Sums over the paths at one time."""

    memory_response: Float[np.ndarray, "cells K K"]  # d delta(t) / dZ(s), by visit s
    memory_noise: Float[np.ndarray, "cells K K"]  # delta(t) kick(s)^T, by visit s
    response: Float[np.ndarray, "K K"]  # J
    noise: Float[np.ndarray, "K K"]  # delta delta^T
    reference: Float[np.ndarray, "K M"]  # delta rho^T
    readout: Float[np.ndarray, " K"]  # e g
    bias: Float[np.ndarray, " K"]  # delta
    recorded: Float[np.ndarray, " 2"]  # training loss and training error


class Work(NamedTuple):
    """Buffers of one path."""

    row: Float[np.ndarray, "K P"]  # of L for Z(t): covariance with past innovations
    lower: Float[np.ndarray, "K K"]  # the factor of what is new in Z(t)
    field: Float[np.ndarray, " K"]
    center: Float[np.ndarray, " K"]  # the field without the innovation of Z(t)
    output: Float[np.ndarray, " K"]  # g
    slope: Float[np.ndarray, " K"]
    curvature: Float[np.ndarray, " K"]
    delta: Float[np.ndarray, " K"]
    mirrored: Float[np.ndarray, " K"]  # delta with the opposite innovation of Z(t)
    J: Float[np.ndarray, "K K"]
    block: Float[np.ndarray, "K P"]  # d delta(t) / dZ(s_v), columns (v, j)
    backward: Float[np.ndarray, " P"]  # L^-T zeta
    gains: Float[np.ndarray, "K P"]  # row L^-1


@inlined
def activate(code, coefficients, x):
    """Return g(x), g'(x) and g''(x), without delta functions."""
    if code == ERF:
        slope = SQRT_2_OVER_PI * math.exp(-0.5 * x * x)
        return math.erf(x * SQRT_HALF), slope, -x * slope
    if code == POLYNOMIAL:
        g = 0.0
        slope = 0.0
        half_curvature = 0.0
        for i in range(coefficients.size - 1, -1, -1):
            half_curvature = half_curvature * x + slope
            slope = slope * x + g
            g = g * x + coefficients[i]
        return g, slope, 2.0 * half_curvature
    if code == RELU:
        if x > 0.0:
            return x, 1.0, 0.0
        return 0.0, 0.0, 0.0
    if code == TANH:
        g = math.tanh(x)
        slope = 1.0 - g * g
        return g, slope, -2.0 * g * slope
    if code == GELU:
        below = 0.5 * (1.0 + math.erf(x * SQRT_HALF))
        density = INVERSE_SQRT_2PI * math.exp(-0.5 * x * x)
        return x * below, below + x * density, (2.0 - x * x) * density
    sigmoid = 0.5 * (1.0 + math.tanh(0.5 * x))
    slope = sigmoid * (1.0 - sigmoid)
    if code == SIGMOID:
        return sigmoid, slope, slope * (1.0 - 2.0 * sigmoid)
    # softplus
    return max(x, 0.0) + math.log1p(math.exp(-abs(x))), sigmoid, slope


@inlined
def descend(code, number, output, label):
    """Return the loss, e = -dl/df and de/df, without delta functions.

    number: Huber's delta.
    """
    gap = label - output
    if code == SQUARED:
        return 0.5 * gap * gap, gap, -1.0
    if code == LOGISTIC:
        margin = label * output
        loss = max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))
        wrong = 0.5 * (1.0 - math.tanh(0.5 * margin))
        return loss, label * wrong, -wrong * (1.0 - wrong)
    if code == HUBER:
        if abs(gap) < number:
            return 0.5 * gap * gap, gap, -1.0
        return number * (abs(gap) - 0.5 * number), math.copysign(number, gap), 0.0
    if code == ABSOLUTE:
        return abs(gap), math.copysign(1.0, gap), 0.0
    # hinge
    margin = 1.0 - label * output
    if margin > 0.0:
        return margin, label, 0.0
    return 0.0, 0.0, 0.0


@inlined
def gaussian_field(paths, memory, cell, path, visits, work):
    """Set `center`, `row` and `lower` of Z(t) given rho and the past of the path.

    Row by row, L L^T is the covariance of Z at the visits and at t.
    """
    K = cell.readout.size
    past = visits * K
    first = paths.first[path]
    start = paths.factor_start[path]
    factors = memory.factors
    for k in range(K):
        total = 0.0
        for m in range(paths.reference.shape[1]):
            total += cell.regression[k, m] * paths.reference[path, m]
        for visit in range(visits):
            s = paths.visit_cells[first + visit]
            for j in range(K):
                q = visit * K + j
                line = start + q * (q + 1) // 2
                r = cell.covariance[s, k, j]
                for p in range(q):
                    r -= factors[line + p] * work.row[k, p]
                r *= factors[line + q]
                work.row[k, q] = r
                total += r * paths.innovations[path, visit, j]
        work.center[k] = total
    t = cell.time
    for k in range(K):
        for j in range(k + 1):
            x = cell.covariance[t, k, j]
            for q in range(past):
                x -= work.row[k, q] * work.row[j, q]
            for i in range(j):
                x -= work.lower[k, i] * work.lower[j, i]
            if j == k:
                if x > LEAST_INNOVATION * cell.covariance[t, k, k]:
                    work.lower[k, k] = math.sqrt(x)
                else:
                    work.lower[k, k] = 0.0
            elif work.lower[j, j] > 0.0:
                work.lower[k, j] = x / work.lower[j, j]
            else:
                work.lower[k, j] = 0.0


@inlined
def add_kicks(paths, memory, cell, path, visits, work):
    """Add to the field what the visits of the sample itself did to the weights."""
    K = cell.readout.size
    first = paths.first[path]
    for visit in range(visits):
        s = paths.visit_cells[first + visit]
        for k in range(K):
            for j in range(K):
                kick = memory.kicks[first + visit, j]
                work.center[k] += cell.response[s, k, j] * kick


@inlined
def place_field(paths, path, visits, side, work):
    """Set the field: its center, plus or minus what the innovation adds."""
    for k in range(work.field.size):
        total = work.center[k]
        for j in range(k + 1):
            zeta = side * paths.innovations[path, visits, j]
            total += work.lower[k, j] * zeta
        work.field[k] = total


@inlined
def respond(model, cell, label, work, delta):
    """Fill delta, and return output, loss, e and de/df at the field."""
    output = 0.0
    for k in range(work.field.size):
        x = work.field[k] + cell.bias[k]
        g, slope, curvature = activate(model.activation, model.coefficients, x)
        work.output[k] = g
        work.slope[k] = slope
        work.curvature[k] = curvature
        output += cell.readout[k] * g
    loss, e, bend = descend(model.loss, model.loss_number, output, label)
    for k in range(work.field.size):
        delta[k] = e * cell.readout[k] * work.slope[k]
    return output, loss, e, bend


@inlined
def record(model, output, label, loss, sums):
    """Add the training loss and the training error of one path."""
    sums.recorded[0] += loss
    if not model.by_class:
        sums.recorded[1] += 0.5 * (output - label) ** 2
    elif output * label <= 0.0:
        sums.recorded[1] += 1.0


@inlined
def tangent_response(paths, memory, cell, path, visits, e, bend, work, sums):
    """Add J and the tangents d delta(t) / dZ(s_v) of a smooth update."""
    K = cell.readout.size
    for k in range(K):
        steep = cell.readout[k] * work.slope[k]
        for j in range(K):
            work.J[k, j] = bend * steep * cell.readout[j] * work.slope[j]
        work.J[k, k] += e * cell.readout[k] * work.curvature[k]
    for k in range(K):
        for j in range(K):
            sums.response[k, j] += work.J[k, j]
    first = paths.first[path]
    for k in range(K):
        for q in range(visits * K):
            work.block[k, q] = 0.0
    for u in range(visits):
        s = paths.visit_cells[first + u]
        line = paths.tangent_start[path] + u * (u + 1) // 2 * K * K
        columns = (u + 1) * K
        for k in range(K):
            for m in range(K):
                x = 0.0  # J(t) Theta(t, s_u)
                for i in range(K):
                    x += work.J[k, i] * cell.response[s, i, m]
                place = line + m * columns
                for q in range(columns):
                    work.block[k, q] += x * memory.tangents[place + q]
    for v in range(visits):
        s = paths.visit_cells[first + v]
        for k in range(K):
            for j in range(K):
                sums.memory_response[s, k, j] += work.block[k, v * K + j]


@inlined
def stein_response(paths, memory, cell, path, visits, work, sums):
    """Add the same averages by Stein's lemma, for an update that jumps.

    The innovation zeta of Z(t) is paired with -zeta, which keeps the variance finite:

        J = (delta(zeta) - delta(-zeta)) / 2 . (l^-T zeta)^T
        d delta(t) / dZ(s) = mean delta (L^-T past zeta)^T - J row L^-1
    """
    K = cell.readout.size
    past = visits * K
    # x solves l^T x = zeta; a dropped innovation moves nothing
    for k in range(K - 1, -1, -1):
        x = paths.innovations[path, visits, k]
        for j in range(k + 1, K):
            x -= work.lower[j, k] * work.curvature[j]
        if work.lower[k, k] > 0.0:
            work.curvature[k] = x / work.lower[k, k]
        else:
            work.curvature[k] = 0.0
    for k in range(K):
        odd = 0.5 * (work.delta[k] - work.mirrored[k])
        for j in range(K):
            work.J[k, j] = odd * work.curvature[j]
            sums.response[k, j] += work.J[k, j]
    first = paths.first[path]
    start = paths.factor_start[path]
    factors = memory.factors
    for q in range(past):
        work.backward[q] = paths.innovations[path, q // K, q % K]
        for k in range(K):
            work.gains[k, q] = work.row[k, q]
    for q in range(past - 1, -1, -1):
        line = start + q * (q + 1) // 2
        x = work.backward[q] * factors[line + q]
        work.backward[q] = x
        for p in range(q):
            work.backward[p] -= factors[line + p] * x
        for k in range(K):
            x = work.gains[k, q] * factors[line + q]
            work.gains[k, q] = x
            for p in range(q):
                work.gains[k, p] -= factors[line + p] * x
    for v in range(visits):
        s = paths.visit_cells[first + v]
        for k in range(K):
            even = 0.5 * (work.delta[k] + work.mirrored[k])
            for j in range(K):
                q = v * K + j
                x = even * work.backward[q]
                for m in range(K):
                    x -= work.J[k, m] * work.gains[m, q]
                sums.memory_response[s, k, j] += x


@inlined
def add_averages(paths, path, e, delta, share, work, sums):
    """Add the averages of one evaluation of a path, with the weight `share`."""
    K = delta.size
    for k in range(K):
        sums.readout[k] += share * e * work.output[k]
        sums.bias[k] += share * delta[k]
        for m in range(paths.reference.shape[1]):
            sums.reference[k, m] += share * delta[k] * paths.reference[path, m]
        for j in range(K):
            sums.noise[k, j] += share * delta[k] * delta[j]


@inlined
def add_memory_noise(paths, memory, path, visits, share, delta, sums):
    """Add delta(t) kick(s)^T for all visits of a path."""
    first = paths.first[path]
    K = delta.size
    for v in range(visits):
        s = paths.visit_cells[first + v]
        for k in range(K):
            x = share * delta[k]
            for j in range(K):
                sums.memory_noise[s, k, j] += x * memory.kicks[first + v, j]


@inlined
def remember(model, paths, memory, cell, path, visits, work):
    """Store the visit of a path at this time: kick, row of L, tangents."""
    K = cell.readout.size
    probability = cell.visit_probability
    place = paths.first[path] + visits
    for k in range(K):
        memory.kicks[place, k] = work.delta[k] / probability
    past = visits * K
    for k in range(K):
        q = past + k
        line = paths.factor_start[path] + q * (q + 1) // 2
        for p in range(past):
            memory.factors[line + p] = work.row[k, p]
        for j in range(k):
            memory.factors[line + past + j] = work.lower[k, j]
        inverse = 0.0
        if work.lower[k, k] > 0.0:
            inverse = 1.0 / work.lower[k, k]
        memory.factors[line + q] = inverse
    if not model.jumps:
        line = paths.tangent_start[path] + visits * (visits + 1) // 2 * K * K
        columns = past + K
        for k in range(K):
            place = line + k * columns
            for q in range(past):
                memory.tangents[place + q] = work.block[k, q] / probability
            for j in range(K):
                memory.tangents[place + past + j] = work.J[k, j] / probability
    memory.visited[path] = visits + 1


@compiled
def pass_over_paths(model, paths, memory, cell, history, purpose, most, sums):
    """Evaluate all paths at one time, and add to the sums.

    history: the visits of each path that its field contains. In an epoch these are those
    of former epochs, because a sample at its visit has seen no other ones. most: the
    largest number of visits of a path.
    """
    K = cell.readout.size
    # made here: the compiler then knows that these arrays do not overlap with others
    work = Work(
        np.zeros((K, most * K)),
        np.zeros((K, K)),
        np.zeros(K),
        np.zeros(K),
        np.zeros(K),
        np.zeros(K),
        np.zeros(K),
        np.zeros(K),
        np.zeros(K),
        np.zeros((K, K)),
        np.zeros((K, most * K)),
        np.zeros(most * K),
        np.zeros((K, most * K)),
    )
    for path in range(paths.label.size):
        visits = history[path]
        was_visited = memory.visited[path] > visits
        if purpose == RECORD:
            if not was_visited:
                continue
            visits = memory.visited[path]
        gaussian_field(paths, memory, cell, path, visits, work)
        add_kicks(paths, memory, cell, path, visits, work)
        label = paths.label[path]
        share = 1.0
        if model.jumps and purpose == STEP:
            share = 0.5
            place_field(paths, path, visits, -1.0, work)
            _, _, e, _ = respond(model, cell, label, work, work.mirrored)
            add_averages(paths, path, e, work.mirrored, share, work, sums)
            add_memory_noise(paths, memory, path, visits, share, work.mirrored, sums)
        place_field(paths, path, visits, 1.0, work)
        output, loss, e, bend = respond(model, cell, label, work, work.delta)
        if purpose == RECORD or not was_visited:
            record(model, output, label, loss, sums)
        if purpose == RECORD:
            continue
        add_averages(paths, path, e, work.delta, share, work, sums)
        add_memory_noise(paths, memory, path, visits, share, work.delta, sums)
        if model.jumps:
            stein_response(paths, memory, cell, path, visits, work, sums)
        else:
            tangent_response(paths, memory, cell, path, visits, e, bend, work, sums)
        place = paths.first[path] + visits
        is_visited = place < paths.first[path + 1]
        if is_visited and paths.visit_cells[place] == cell.time:
            remember(model, paths, memory, cell, path, visits, work)


@compiled
def update_all(model, cell, labels, fields, share, delta, responses, sums):
    """Fill delta and J of all paths at given fields (K, S), for gradient descent.

    Adds loss, error and E[e g] to the sums; delta functions are not in J. share: the
    weight of E[e g].
    """
    K = cell.readout.size
    output_of = np.zeros(K)
    slope = np.zeros(K)
    curvature = np.zeros(K)
    for path in range(labels.size):
        output = 0.0
        for k in range(K):
            x = fields[k, path] + cell.bias[k]
            g, steep, bent = activate(model.activation, model.coefficients, x)
            output_of[k] = g
            slope[k] = steep
            curvature[k] = bent
            output += cell.readout[k] * g
        label = labels[path]
        loss, e, bend = descend(model.loss, model.loss_number, output, label)
        record(model, output, label, loss, sums)
        for k in range(K):
            steep = cell.readout[k] * slope[k]
            delta[k, path] = e * steep
            sums.readout[k] += share * e * output_of[k]
            for j in range(K):
                change = bend * steep * cell.readout[j] * slope[j]
                responses[k, j, path] = change
            responses[k, k, path] += e * cell.readout[k] * curvature[k]
