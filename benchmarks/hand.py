"""Solves against hand-written machine code: the closed form of erf, compiled by numba.

The opponent uses Dormand-Prince 8(5,3) with scipy's coefficients and dense output,
keeps only the upper triangle of Q, evaluates the drift again only where it must, and
records e_g at the same times as `solve`. It knows nothing else: no levels, readouts or
checks. Times are processor seconds of one core. Each program runs at the loosest
tolerance at which its curve is accurate to 1e-7.
"""

import math
import time

import numpy as np
from numba import njit
from scipy.integrate import DOP853

import tutelage as tu
from benchmarks.core import committee
from benchmarks.measure import pick, record

A = np.ascontiguousarray(DOP853.A)
B = np.ascontiguousarray(DOP853.B)
E3 = np.ascontiguousarray(DOP853.E3)
E5 = np.ascontiguousarray(DOP853.E5)
A_EXTRA = np.ascontiguousarray(DOP853.A_EXTRA)
D = np.ascontiguousarray(DOP853.D)
STAGES = 12
EXTRA = 3
ACCURACY = 1e-7  # of the curve
LONGEST = 1.5  # times the time of the opponent
TOLERANCES = 10.0 ** -np.arange(4.0, 11.0, 0.5)
fast = njit(fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")


@fast
def fields(y, K, M, C):
    """Fill the covariance of all fields from R and the upper triangle of Q.

    Teachers do not change.
    """
    at = 0
    for i in range(K):
        for m in range(M):
            C[i, K + m] = C[K + m, i] = y[at]
            at += 1
    for i in range(K):
        for j in range(i, K):
            C[i, j] = C[j, i] = y[at]
            at += 1


@fast
def drift(y, K, M, eta, w, C, slopes, moved, roots, out):
    """Fill dR and dQ of Saad and Solla (1995).

    w = (-1, ..., 1): the weights of all units in the error.
    """
    n = K + M
    fields(y, K, M, C)
    for i in range(K):
        d = 1.0 + C[i, i]
        bend = 0.0
        for a in range(n):
            L3 = d * (1.0 + C[a, a]) - C[i, a] * C[i, a]
            slopes[a] = 2.0 / math.pi * w[a] / math.sqrt(L3)
            bend -= slopes[a] * C[i, a] / d
        slopes[i] += bend
        for b in range(n):
            total = 0.0
            for a in range(n):
                total += slopes[a] * C[a, b]
            moved[i, b] = eta * total
    at = 0
    for i in range(K):
        for m in range(M):
            out[at] = moved[i, K + m]
            at += 1
    for i in range(K):
        for j in range(i, K):
            di = 1.0 + C[i, i]
            dj = 1.0 + C[j, j]
            c = C[i, j]
            L4 = di * dj - c * c
            for a in range(n):
                x = C[i, a]
                z = C[j, a]
                L1 = L4 * (1.0 + C[a, a]) - z * z * di - x * x * dj + 2.0 * c * x * z
                roots[a] = 1.0 / math.sqrt(L1)
            G = 0.0
            for a in range(n):
                for b in range(a, n):
                    L0 = L4 * C[a, b] - C[j, a] * C[j, b] * di - C[i, a] * C[i, b] * dj
                    L0 += c * (C[i, a] * C[j, b] + C[j, a] * C[i, b])
                    angle = w[a] * w[b] * math.asin(L0 * roots[a] * roots[b])
                    G += angle if a == b else 2.0 * angle
            noise = eta * eta * 4.0 / math.pi**2 * G / math.sqrt(L4)
            out[at] = moved[i, j] + moved[j, i] + noise
            at += 1


@fast
def error(y, K, M, w, C):
    """Return e_g."""
    n = K + M
    total = 0.0
    fields(y, K, M, C)
    for a in range(n):
        for b in range(a, n):
            lengths = math.sqrt((1.0 + C[a, a]) * (1.0 + C[b, b]))
            angle = w[a] * w[b] * math.asin(C[a, b] / lengths)
            total += angle if a == b else 2.0 * angle
    return total / math.pi


@fast
def advanced(y, h, row, count, k, out):
    """Fill y + h sum_s row_s k_s."""
    for i in range(y.size):
        total = 0.0
        for s in range(count):
            total += row[s] * k[s, i]
        out[i] = y[i] + h * total


@fast
def integrate(y, K, M, T, eta, times, rtol, atol, A, B, E3, E5, A_EXTRA, D):
    """Return e_g at the times, and the number of steps."""
    n = K + M
    size = y.size
    C = np.zeros((n, n))
    C[K:, K:] = T
    w = np.ones(n)
    w[:K] = -1.0
    errors = np.empty(times.size)
    slopes = np.empty(n)
    moved = np.empty((K, n))
    roots = np.empty(n)
    k = np.empty((STAGES + 1 + EXTRA, size))
    y1 = np.empty(size)
    F = np.empty((7, size))  # coefficients of the dense output
    t = 0.0
    h = 1e-3
    end = times[-1]
    place = 0
    steps = 0
    drift(y, K, M, eta, w, C, slopes, moved, roots, k[0])
    while place < times.size and times[place] <= 0.0:
        errors[place] = error(y, K, M, w, C)
        place += 1
    while t < end:
        h = min(h, end - t)
        for s in range(1, STAGES):
            advanced(y, h, A[s], s, k, y1)
            drift(y1, K, M, eta, w, C, slopes, moved, roots, k[s])
        advanced(y, h, B, STAGES, k, y1)
        fifth = 0.0
        third = 0.0
        for i in range(size):
            a = 0.0
            b = 0.0
            for s in range(STAGES):
                a += E5[s] * k[s, i]
                b += E3[s] * k[s, i]
            scale = atol + rtol * max(abs(y[i]), abs(y1[i]))
            fifth += (a / scale) ** 2
            third += (b / scale) ** 2
        wrong = h * fifth / math.sqrt((fifth + 0.01 * third) * size + 1e-300)
        factor = 0.9 * (wrong + 1e-300) ** (-0.125)
        if wrong >= 1.0:
            h *= max(0.2, factor)
            continue
        drift(y1, K, M, eta, w, C, slopes, moved, roots, k[STAGES])
        t1 = end if t + h >= end else t + h
        if place < times.size and times[place] <= t1:
            for s in range(EXTRA):
                advanced(y, h, A_EXTRA[s], STAGES + 1 + s, k, F[0])
                drift(F[0], K, M, eta, w, C, slopes, moved, roots, k[STAGES + 1 + s])
            for i in range(size):
                change = y1[i] - y[i]
                F[0, i] = change
                F[1, i] = h * k[0, i] - change
                F[2, i] = 2.0 * change - h * (k[STAGES, i] + k[0, i])
                for p in range(4):
                    total = 0.0
                    for s in range(STAGES + 1 + EXTRA):
                        total += D[p, s] * k[s, i]
                    F[3 + p, i] = h * total
            while place < times.size and times[place] <= t1:
                x = (times[place] - t) / h
                for i in range(size):
                    value = 0.0
                    for p in range(6, -1, -1):
                        value = (value + F[p, i]) * (x if p % 2 == 0 else 1.0 - x)
                    k[1, i] = y[i] + value  # the stages between are not needed any more
                errors[place] = error(k[1], K, M, w, C)
                place += 1
        t = t1
        h *= min(10.0, factor)
        steps += 1
        for i in range(size):
            y[i] = y1[i]
            k[0, i] = k[STAGES, i]
    return errors, steps


def solve(start, times, rtol, eta=0.5, atol=1e-12):
    """Return the curve e_g from a start, for isotropic inputs and unit readouts."""
    R = np.array(start.R, float)
    Q = np.array(start.Q, float)
    T = np.array(start.T, float)
    K, M = R.shape
    y = np.concatenate([R.ravel(), Q[np.triu_indices(K)]])
    times = np.asarray(times)
    return integrate(y, K, M, T, eta, times, rtol, atol, A, B, E3, E5, A_EXTRA, D)


def processor_seconds(function):
    """Return the processor time of a call."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


def loosest(curve, exact):
    """Return the loosest tolerance at which a curve is accurate, and its error.

    It is the finest tolerance where none is.
    """
    rtol = TOLERANCES[-1]
    gap = np.inf
    for rtol in TOLERANCES:
        gap = np.abs(curve(rtol) - exact).max()
        if gap <= ACCURACY:
            break
    return rtol, gap


def single_solves():
    """Record warm solves to alpha = 300, 101 records, against hand-written code."""
    times = tu.linear_times(pick(300, 300, 5), 101)
    pairs = pick([(1, 1), (2, 2), (3, 3), (6, 6), (8, 4)], [(2, 2), (3, 3)], [(2, 2)])
    for K, M in pairs:
        single_solve(K, M, times, repeats=pick(30, 10, 1))


def single_solve(K, M, times, repeats):
    """Record one pair of sizes: both at equal accuracy, and both at rtol 1e-6."""
    problem = committee(K, M)
    start = tu.random_start(problem, dim=1000, scale=0.5, seed=1)
    exact = tu.solve(problem, start, times, rtol=1e-12, atol=1e-14).error

    def ours(rtol):
        return tu.solve(problem, start, times, rtol=rtol)

    def theirs(rtol):
        return solve(start, times, rtol)

    our_rtol, gap = loosest(lambda rtol: ours(rtol).error, exact)
    their_rtol, their_gap = loosest(lambda rtol: theirs(rtol)[0], exact)
    our_seconds, their_seconds = seconds_in_turns(
        ours, theirs, our_rtol, their_rtol, repeats
    )
    our_same, their_same = seconds_in_turns(ours, theirs, 1e-6, 1e-6, repeats)
    our_gap_same = np.abs(ours(1e-6).error - exact).max()
    their_gap_same = np.abs(theirs(1e-6)[0] - exact).max()
    ratio = our_seconds / their_seconds
    quick = bool(ratio <= LONGEST)
    reason = "checks and results in Python take one to two ms whatever the size"
    note = (
        f"rtol {our_rtol:.0e} and {their_rtol:.0e} (error {their_gap:.0e}), "
        f"{int(ours(our_rtol).steps)} and {theirs(their_rtol)[1]} steps; both at 1e-6: "
        f"{our_same / their_same:.2f} times its time, errors {our_gap_same:.0e} and "
        f"{their_gap_same:.0e}"
    )
    record(
        f"hand-written code, erf K={K} M={M}, alpha={times[-1]:g}",
        ours=our_seconds,
        theirs=their_seconds,
        accuracy=gap,
        note=note,
        rate=ratio,
        unit="times its time",
        target=f"<= {LONGEST} at error {ACCURACY:g}",
        met=bool(quick and gap <= ACCURACY),
        reason="" if quick else reason,
    )


def seconds_in_turns(ours, theirs, our_rtol, their_rtol, repeats):
    """Return the shortest processor times of two programs that take turns."""
    our_times = []
    their_times = []
    for _ in range(repeats):
        our_times.append(processor_seconds(lambda: ours(our_rtol)))
        their_times.append(processor_seconds(lambda: theirs(their_rtol)))
    return min(our_times), min(their_times)


ALL = (single_solves,)
