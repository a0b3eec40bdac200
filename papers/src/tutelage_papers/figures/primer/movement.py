"""How far weights and tangent kernel move, by two routes: overlaps at any N, and SGD on weights written out.

In the first, the initial weights are K more teachers with readout zero: nobody hears them, and the overlaps with them are
followed like all others.
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
    """Relative movements of weights and tangent kernel until `end`, mean and sd over networks; what is left of e_g."""
    import xarray as xr

    measures = {"weights": weights_moved, "kernel": kernel_moved}
    columns = {
        name: np.empty(len(stds))
        for name in ("weights", "weights_sd", "kernel", "kernel_sd", "left")
    }
    for i, std in enumerate(stds):
        pairs = [
            _with_own_past(K, M, lr, std, dim, 1000 * seed + 100 * i + j)
            for j in range(runs)
        ]
        late = tu.simulate(
            pairs[0][0],
            [start for _, start in pairs],
            dim=dim,
            times=[0.0, end],
            seed=seed,
        )
        past = np.asarray(late.Q)[:, 0]
        moved = np.asarray(late.R)[:, -1, :, M:]
        now = np.asarray(late.Q)[:, -1]
        for name, measure in measures.items():
            each = [measure(*one) for one in zip(now, moved, past, strict=True)]
            columns[name][i], columns[f"{name}_sd"][i] = (
                np.mean(each),
                np.std(each, ddof=1),
            )
        columns["left"][i] = np.mean(late.error[:, -1] / late.error[:, 0])
    return xr.Dataset(
        {name: ("std", values) for name, values in columns.items()},
        coords={"std": stds},
    )


def _with_own_past(
    K: int, M: int, lr: float, std: float, dim: int, seed: int
) -> "tuple[tu.Problem, tu.Start]":
    """The problem in which the student's initial weights are teachers that nobody hears, and its start."""
    plain = tu.Problem(tu.Network(K, "erf"), tu.Network(M, "erf", gram=np.eye(M)))
    first = tu.random_start(plain, dim=dim, scale=std, seed=seed)
    R = np.asarray(first.R)
    Q = np.asarray(first.Q)
    teacher = tu.Network(
        M + K, "erf", readout=np.concatenate([np.ones(M), np.zeros(K)])
    )
    T = np.block([[np.eye(M), R.T], [R, Q]])
    return tu.Problem(tu.Network(K, "erf"), teacher, optimizer=tu.SGD(lr=lr)), tu.Start(
        np.hstack([R, Q]), Q, T
    )


def weights_moved(now: np.ndarray, moved: np.ndarray, past: np.ndarray) -> float:
    """||W(t) - W(0)|| / ||W(0)|| from the overlaps W(t)W(t)^T, W(t)W(0)^T and W(0)W(0)^T."""
    return float(np.sqrt(np.trace(now - 2 * moved + past) / np.trace(past)))


def kernel_moved(now: np.ndarray, moved: np.ndarray, past: np.ndarray) -> float:
    """||k_t - k_0|| / ||k_0||, k(x, x') = (x.x'/N) sum_k g'(lambda_k(x)) g'(lambda_k(x')), over independent inputs x, x'.

    For large N the factor x.x'/N is independent of the fields, so that E[k_t k_0] = sum_kj E[g'_k(t) g'_j(0)]^2 / N with
    E[g'_a g'_b] = (2/pi) / sqrt((1 + C_aa)(1 + C_bb) - C_ab^2), and the same for E[k_t k_t] and E[k_0 k_0].
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
    """The same two numbers by a second route, SGD on weights and kernels between fresh inputs; (runs, 2)."""
    from scipy.special import erf

    rng = np.random.default_rng(seed)
    found = []
    for _ in range(runs):
        first = std * rng.standard_normal((K, dim))
        taught = np.linalg.qr(rng.standard_normal((dim, M)))[
            0
        ].T  # times sqrt(N): the fields need no root
        W = first / np.sqrt(dim)
        for x in rng.standard_normal((int(end * dim), dim)):
            fields = W @ x
            delta = erf(taught @ x / np.sqrt(2)).sum() - erf(fields / np.sqrt(2)).sum()
            W += (lr / dim * delta * np.sqrt(2 / np.pi)) * np.outer(
                np.exp(-(fields**2) / 2), x
            )
        x, y = rng.standard_normal((2, points, dim))
        before = _kernel(first / np.sqrt(dim), x, y)
        moves = (np.sqrt(dim) * W - first, first), (_kernel(W, x, y) - before, before)
        found.append(
            [np.linalg.norm(change) / np.linalg.norm(whole) for change, whole in moves]
        )
    return np.array(found)


def _kernel(W: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The tangent kernel between inputs x and y; W without its 1/sqrt(N)."""
    slopes = [np.exp(-((z @ W.T) ** 2) / 2) for z in (x, y)]
    return 2 / np.pi * (slopes[0] @ slopes[1].T) * (x @ y.T) / x.shape[1]
