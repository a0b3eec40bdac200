"""Exact curves of one linear unit with squared loss, by the spectrum of its data set.

X X^T / N of n = ratio N samples has eigenvalues s by the law of Marchenko and Pastur
(1967). Along an eigenvector, training keeps the share A of the initial weights and learns
the share B = (1 - A) s / (ratio kappa + s) of the teacher. SGD with replacement adds the
noise of its steps, whose size is the training loss itself: a Volterra equation
(Paquette et al. 2021).
"""

from typing import NamedTuple

import numpy as np


class Linear(NamedTuple):
    """One linear unit that learns from another one, T = 1."""

    ratio: float
    R: float
    Q: float
    noise: float
    decay: float


class Curve(NamedTuple):
    """Overlaps and training loss against time."""

    R: np.ndarray
    Q: np.ndarray
    train_loss: np.ndarray


def spectrum(ratio: float, nodes: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and weights; Chebyshev nodes integrate the density exactly."""
    low = (np.sqrt(ratio) - 1) ** 2
    high = (np.sqrt(ratio) + 1) ** 2
    angle = np.arange(1, nodes + 1) * np.pi / (nodes + 1)
    s = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    root = (high - low) / 2 * np.sin(angle)
    weights = np.pi / (nodes + 1) * root**2 / (2 * np.pi * s)
    if ratio < 1:  # directions without samples
        s = np.append(s, 0.0)
        weights = np.append(weights, 1 - ratio)
    return s, weights


def by_shares(
    unit: Linear, kept: np.ndarray, s: np.ndarray, weights: np.ndarray
) -> Curve:
    """Return the curves for shares A (time, node)."""
    reach = np.divide(s, unit.ratio * unit.decay + s, out=np.zeros_like(s), where=s > 0)
    learned = reach * (1 - kept)
    by_noise = np.divide(learned, s, out=np.zeros_like(learned), where=s > 0)
    R = (kept * unit.R + learned) @ weights
    Q = kept**2 * unit.Q + 2 * kept * learned * unit.R + learned**2
    Q = (Q + unit.noise**2 * learned * by_noise) @ weights
    rest = kept**2 * unit.Q - 2 * kept * (1 - learned) * unit.R + (1 - learned) ** 2
    loss = (s * rest + unit.noise**2 * (learned**2 - 2 * learned)) @ weights
    return Curve(R, Q, (loss + unit.noise**2 * unit.ratio) / (2 * unit.ratio))


def descent(unit: Linear, lr: float, steps: np.ndarray) -> Curve:
    """Return gradient descent after numbers of steps."""
    s, weights = spectrum(unit.ratio)
    kept = (1 - lr * unit.decay - lr * s / unit.ratio) ** np.asarray(steps)[:, None]
    return by_shares(unit, kept, s, weights)


def stochastic(unit: Linear, lr: float, end: float, points: int = 2000) -> Curve:
    """Return SGD with replacement, batch 1, at even times from 0 to `end`.

    L = L_flow + K * L and Q = Q_flow + K_Q * L, by the trapezoidal rule.
    """
    times = np.linspace(0, end, points + 1)
    step = times[1]
    s, weights = spectrum(unit.ratio)
    decay = np.exp(-(unit.decay + s / unit.ratio) * lr * times[:, None])
    flow = by_shares(unit, decay, s, weights)
    of_loss = lr**2 / unit.ratio**2 * decay**2 @ (weights * s**2)
    of_Q = 2 * lr**2 / unit.ratio * decay**2 @ (weights * s)
    loss = np.empty_like(times)
    loss[0] = flow.train_loss[0]
    for i in range(1, points + 1):
        past = of_loss[i:0:-1] @ loss[:i] - of_loss[i] * loss[0] / 2
        known = flow.train_loss[i] + step * past
        loss[i] = known / (1 - step * of_loss[0] / 2)
    Q = flow.Q.copy()
    for i in range(1, points + 1):
        ends = of_Q[i] * loss[0] / 2 + of_Q[0] * loss[i] / 2
        Q[i] += step * (of_Q[i::-1] @ loss[: i + 1] - ends)
    return Curve(flow.R, Q, loss)
