"""Movements of weights and tangent kernel, by two routes.

The routes are overlaps at any N, and SGD on weights written out. In the first, the
initial weights are K more teachers with readout zero: they teach nothing, and the
overlaps with them are followed like all others.
"""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu

if TYPE_CHECKING:
    from xarray import Dataset


def movements(
    K: int,
    M: int,
    lr: float,
    stds: list[float],
    dim: int,
    runs: int,
    end: float,
    seed: int,
) -> "Dataset":
    """Return relative movements of weights and tangent kernel until `end`.

    They are means and sd over networks. left: the share of the error that is left.
    """
    import xarray as xr

    measures = {"weights": weights_moved, "kernel": kernel_moved}
    data = xr.Dataset(coords={"std": stds})
    movements: dict[str, list[list[float]]] = {name: [] for name in measures}
    left = []
    for place, std in enumerate(stds):
        first_seed = 1000 * seed + 100 * place
        problem = _problem_with_past(K, M, lr)
        starts = [
            _start_with_past(K, M, std, dim, first_seed + run) for run in range(runs)
        ]
        late = tu.simulate(problem, starts, dim=dim, times=[0.0, end], seed=seed)
        past = np.asarray(late.Q)[:, 0]
        moved = np.asarray(late.R)[:, -1, :, M:]
        now = np.asarray(late.Q)[:, -1]
        for name, measure in measures.items():
            networks = zip(now, moved, past, strict=True)
            movements[name].append([measure(*network) for network in networks])
        left.append(np.mean(late.error[:, -1] / late.error[:, 0]))
    for name, moved in movements.items():
        data[name] = ("std", np.mean(moved, axis=1))
        data[f"{name}_sd"] = ("std", np.std(moved, axis=1, ddof=1))
    data["left"] = ("std", left)
    return data


def _problem_with_past(K: int, M: int, lr: float) -> "tu.Problem":
    """The problem with the student's initial weights as teachers of readout zero."""
    readout = np.concatenate([np.ones(M), np.zeros(K)])
    student = tu.Network(K, "erf")
    teacher = tu.Network(M + K, "erf", readout=readout)
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))


def _start_with_past(K: int, M: int, std: float, dim: int, seed: int) -> "tu.Start":
    """Random weights, with their overlaps with themselves as teachers."""
    student = tu.Network(K, "erf")
    teacher = tu.Network(M, "erf", gram=np.eye(M))
    start = tu.random_start(tu.Problem(student, teacher), dim=dim, scale=std, seed=seed)
    R = np.asarray(start.R)
    Q = np.asarray(start.Q)
    T = np.block([[np.eye(M), R.T], [R, Q]])
    return tu.Start(np.hstack([R, Q]), Q, T)


def weights_moved(now: np.ndarray, moved: np.ndarray, past: np.ndarray) -> float:
    """Return ||W(t) - W(0)|| / ||W(0)|| from overlaps.

    They are W(t)W(t)^T (now), W(t)W(0)^T (moved) and W(0)W(0)^T (past).
    """
    return float(np.sqrt(np.trace(now - 2 * moved + past) / np.trace(past)))


def kernel_moved(now: np.ndarray, moved: np.ndarray, past: np.ndarray) -> float:
    """Return ||k_t - k_0|| / ||k_0|| over independent inputs x, x'.

    The kernel is k(x, x') = (x.x'/N) sum_k g'(lambda_k(x)) g'(lambda_k(x')). For large
    N the factor x.x'/N is independent of the fields, so that E[k_t k_0] = sum_kj
    E[g'_k(t) g'_j(0)]^2 / N with E[g'_a g'_b] = (2/pi) / sqrt((1 + C_aa)(1 + C_bb) -
    C_ab^2), and the same for E[k_t k_t] and E[k_0 k_0].
    """

    def product(one: np.ndarray, both: np.ndarray, other: np.ndarray) -> float:
        lengths = np.outer(1 + np.diag(one), 1 + np.diag(other))
        return float(np.sum((2 / np.pi) ** 2 / (lengths - both**2)))

    new = product(now, now, now)
    mixed = product(now, moved, past)
    old = product(past, past, past)
    return float(np.sqrt((new - 2 * mixed + old) / old))


def by_hand(
    K: int,
    M: int,
    lr: float,
    std: float,
    dim: int,
    end: float,
    runs: int,
    points: int,
    seed: int,
) -> np.ndarray:
    """Return both movements by SGD on weights and fresh kernels; (runs, 2)."""
    rng = np.random.default_rng(seed)
    movements = []
    for _ in range(runs):
        first = std * rng.standard_normal((K, dim))
        # Teachers times sqrt(N): their fields need no root.
        teachers = np.linalg.qr(rng.standard_normal((dim, M)))[0].T
        inputs = rng.standard_normal((int(end * dim), dim))
        last = _trained(first / np.sqrt(dim), teachers, inputs, lr)
        x, y = rng.standard_normal((2, points, dim))
        before = _kernel(first / np.sqrt(dim), x, y)
        weights = _relative_change(np.sqrt(dim) * last, first)
        kernel = _relative_change(_kernel(last, x, y), before)
        movements.append([weights, kernel])
    return np.array(movements)


def _trained(
    W: np.ndarray, teachers: np.ndarray, inputs: np.ndarray, lr: float
) -> np.ndarray:
    """The weights after one step of SGD for each input; W without its 1/sqrt(N)."""
    from scipy.special import erf

    dim = W.shape[1]
    for x in inputs:
        fields = W @ x
        label = erf(teachers @ x / np.sqrt(2)).sum()
        delta = label - erf(fields / np.sqrt(2)).sum()
        slopes = np.exp(-(fields**2) / 2)
        W = W + (lr / dim * delta * np.sqrt(2 / np.pi)) * np.outer(slopes, x)
    return W


def _relative_change(last: np.ndarray, first: np.ndarray) -> np.floating:
    return np.linalg.norm(last - first) / np.linalg.norm(first)


def _kernel(W: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The tangent kernel between inputs x and y; W without its 1/sqrt(N)."""
    slopes_x = np.exp(-((x @ W.T) ** 2) / 2)
    slopes_y = np.exp(-((y @ W.T) ** 2) / 2)
    return 2 / np.pi * (slopes_x @ slopes_y.T) * (x @ y.T) / x.shape[1]
