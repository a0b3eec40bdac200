"""The kernels of the weights: noise C, memory Gamma, response Theta, and the overlaps.

Per component, the weights of level l (variance lam, fraction p of the dimensions) obey

    dw = eta [ sqrt(lam) u dt + lam (Gamma * w + Gs w*) dt ] - eta kappa w dt

with Gaussian u of covariance C and (Gamma * w)(t) = int_0^t Gamma(t, s) w(s) ds. On the
grid, with pv the probability of a visit in a cell and sums over samples as averages over
paths,

    C(t, s) = E[delta(t) kick(s)^T], s visited        C(t, t) = E[delta delta^T] / pv
    Gamma(t, s) = ratio E[d delta(t) / dZ(s)]          Gamma(t, t) = ratio E[J]
    Gs(t) = (ratio E[delta rho^T] - sum_s Gamma(t, s) R(s)) T^-1

The last line is Stein's lemma: no label is differentiated, so labels may jump. The linear
equations of one level have the response Theta_l and the propagators b, c of the initial
weights and of the teacher:

    Theta_l(t+1, .) = keep Theta_l(t, .) + kick lam Gamma(t, .) Theta_l,  Theta_l(t+1, t) = kick
    b(t+1) = keep b(t) + kick lam Gamma(t, .) b
    c(t+1) = keep c(t) + kick lam (Gamma(t, .) c + Gs(t))
    R_l(t) = b(t) R_l(0) + c(t) T_l
    Q_l(t, s) = [b, c](t) [[Q, R], [R^T, T]]_l [b, c](s)^T + p lam ratio Theta_l C Theta_l^T

They are positive by construction. A sample sees Theta = sum_l p lam Theta_l.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage.dataset.grid import Grid
from tutelage.dataset.path_kernel import Cell, Sums
from tutelage.dataset.setting import Setting


class Covariances(NamedTuple):
    """Field covariances at one time: R per level, and Q with all former times."""

    R: Float[np.ndarray, "L K M"]
    Q: Float[np.ndarray, "L K K"]
    field_Q: Float[np.ndarray, "t_and_one K K"]  # of Z(t) with Z(s), s <= t


class Kernels:
    """The kernels up to the present time, one more cell with each `advance`.

    Rows and columns of the large matrices are cells times units: entry (t K + k).
    """

    def __init__(self, setting: Setting, grid: Grid):
        self.setting = setting
        self.grid = grid
        self.time = 0
        L = setting.eigenvalues.size
        K = setting.hidden
        M = setting.R.shape[2]
        size = grid.cells * K
        self.theta = np.zeros((L, size + K, size))
        self.noise = np.zeros((size, size))
        self.propagators = np.zeros((L, size + K, K + M))
        self.propagators[:, :K, :K] = np.eye(K)
        self.initial = np.concatenate(
            [
                np.concatenate([setting.Q, setting.R], axis=2),
                np.concatenate([setting.R.transpose(0, 2, 1), setting.T], axis=2),
            ],
            axis=1,
        )
        eigenvalues = setting.eigenvalues
        self.inverse_T = np.linalg.inv(setting.reference_covariance)
        self.R = np.zeros((grid.cells + 1, K, M))  # of the fields, at all times
        self.R[0] = np.einsum("l,lkm->km", eigenvalues, setting.R)
        self.now = Covariances(
            R=setting.R.copy(),
            Q=setting.Q.copy(),
            field_Q=np.einsum("l,lkj->kj", eigenvalues, setting.Q)[None],
        )

    def cell(self, readout: np.ndarray, bias: np.ndarray) -> Cell:
        """Return the present time as the sample paths see it."""
        t = self.time
        K = self.setting.hidden
        probability = self.grid.visit_probability[min(t, self.grid.cells - 1)]
        regression = self.R[t] @ self.inverse_T
        explained = np.einsum("km,sjm->skj", regression, self.R[: t + 1])
        weights = self.setting.eigenvalues * self.setting.fractions
        row = np.einsum("l,lks->ks", weights, self.theta[:, t * K : t * K + K, : t * K])
        response = row.reshape(K, t, K).transpose(1, 0, 2)
        return Cell(
            time=t,
            visit_probability=float(probability),
            regression=np.ascontiguousarray(regression),
            covariance=np.ascontiguousarray(self.now.field_Q - explained),
            response=np.ascontiguousarray(response),
            readout=readout,
            bias=bias,
        )

    def advance(self, sums: Sums, count: int) -> None:
        """Take one cell of time, with the sums over `count` paths at its beginning."""
        t = self.time
        K = self.setting.hidden
        now = slice(t * K, t * K + K)
        after = slice(t * K + K, t * K + 2 * K)
        past = t * K
        known = past + K
        gamma = self._gamma(sums, count)
        self._set_noise(sums, count)
        delta_rho = self.setting.ratio * sums.reference / count
        memory_R = gamma @ self.R[: t + 1].reshape(known, -1)
        drive = (delta_rho - memory_R) @ self.inverse_T  # Gs

        keep = self.grid.keep[t]
        R = np.empty_like(self.setting.R)
        Q = np.empty_like(self.setting.Q)
        field_Q = np.zeros((t + 2, K, K))
        for level, eigenvalue in enumerate(self.setting.eigenvalues):
            theta = self.theta[level]
            propagators = self.propagators[level]
            initial = self.initial[level]
            kick = self.grid.kick[t]
            pull = kick * eigenvalue * gamma
            theta[after, :past] = keep * theta[now, :past] + pull @ theta[:known, :past]
            theta[after, now] = kick * np.eye(K)
            propagators[after] = keep * propagators[now] + pull @ propagators[:known]
            propagators[after, K:] += kick * eigenvalue * drive
            factor = self.setting.fractions[level] * eigenvalue * self.setting.ratio
            driven = factor * theta[after, :known] @ self.noise[:known, :known]
            row = driven @ theta[: known + K, :known].T
            row += propagators[after] @ initial @ propagators[: known + K].T
            by_time = row.reshape(K, t + 2, K).transpose(1, 0, 2)
            field_Q += eigenvalue * by_time
            Q[level] = by_time[-1]
            R[level] = propagators[after] @ initial[:, K:]
        self.time = t + 1
        self.R[t + 1] = np.einsum("l,lkm->km", self.setting.eigenvalues, R)
        self.now = Covariances(R=R, Q=Q, field_Q=field_Q)

    def _gamma(self, sums: Sums, count: int) -> Float[np.ndarray, "K known"]:
        """Return Gamma(t, s) for s <= t."""
        t = self.time
        K = self.setting.hidden
        blocks = np.concatenate([sums.memory_response[:t], sums.response[None]])
        row = blocks.transpose(1, 0, 2).reshape(K, -1)
        return self.setting.ratio / count * row

    def _set_noise(self, sums: Sums, count: int) -> None:
        """Write C(t, s) for s <= t, and its transpose."""
        t = self.time
        K = self.setting.hidden
        now = slice(t * K, t * K + K)
        row = sums.memory_noise[:t].transpose(1, 0, 2).reshape(K, -1) / count
        self.noise[now, : t * K] = row
        self.noise[: t * K, now] = row.T
        probability = self.grid.visit_probability[t]
        self.noise[now, now] = sums.noise / (count * probability)
