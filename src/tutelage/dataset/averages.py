"""Averages over sample paths at one time of the grid.

Two ways to the same averages. `VisitAverages` is for paths that are visited seldom: each
path has a Cholesky factor of the covariance of its field at its own visits, and tangents
between all pairs of visits. `StepAverages` is for gradient descent, where a path is
visited in a large share of all steps: all paths share one Cholesky factor of the
covariance at all times, and with S paths and T steps everything is a product of
matrices.

There, the response of a path to its past would cost T^3. It enters averages only,

    Gamma(t, s) = ratio E[d delta(t) / dZ(s)],

and is probed: with random signs omega(s) of each path, X(t) = sum_s d delta(t) / dZ(s)
omega(s) obeys the same recursion as one column of it, and E[X(t) omega(s)^T] is the
wanted average, because E[omega(s) omega(s')^T] = 1 for s = s' and 0 otherwise
(Hutchinson 1990). The response of a path with the mean of J instead of its own needs no
probes, so that only the difference from it is probed: for linear units nothing.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular

from tutelage.dataset.grid import Grid
from tutelage.dataset.path_kernel import (
    LEAST_INNOVATION,
    RECORD,
    STEP,
    Cell,
    Sums,
    pass_over_paths,
    update_all,
)
from tutelage.dataset.paths import PROBES, Draws, empty_memory, paths_on
from tutelage.dataset.setting import Setting


class VisitAverages:
    """Averages over paths with few visits each."""

    def __init__(self, setting: Setting, grid: Grid, draws: Draws):
        self.setting = setting
        self.paths = paths_on(grid, draws)
        self.memory = empty_memory(self.paths, setting.model.jumps)
        self.most = max(1, int(np.max(np.diff(self.paths.first))))
        self.epochs = set(grid.epochs.tolist())
        self.history = self.memory.visited

    def sums(self, cell: Cell) -> Sums:
        """Return the sums over all paths at the time of the cell.

        In epochs the training loss also needs the fields of samples after their visit
        in the present epoch.
        """
        sums = empty_sums(self.setting, cell.time)
        if cell.time in self.epochs:
            self.history = self.memory.visited.copy()
        purposes = (STEP,)
        if self.epochs:
            purposes = (RECORD, STEP)
        for purpose in purposes:
            pass_over_paths(
                self.setting.model,
                self.paths,
                self.memory,
                cell,
                self.history,
                purpose,
                self.most,
                sums,
            )
        return sums


class StepAverages:
    """Averages over paths that are visited in many of all steps.

    Rows of the matrices are times and units, columns are paths (and probes). Innovations
    that are rounding errors are dropped; `factor` and `innovations` have rows for the
    other ones, whose times and units are `kept`.
    """

    def __init__(self, setting: Setting, grid: Grid, draws: Draws):
        self.setting = setting
        self.draws = draws
        self.grid = grid
        K = setting.hidden
        rows = (grid.cells + 1) * K
        S = draws.label.size
        self.visits = _visit_weights(grid, draws)
        self.kept = np.zeros(0, dtype=np.int64)
        self.factor = np.zeros((rows, rows))
        self.innovations = np.zeros((rows, S))
        self.kicks = np.zeros((grid.cells * K, S))
        probes = 0 if setting.model.jumps else PROBES * S
        shape = (grid.cells * K, probes)
        # a sampled average: single precision is far more than it has
        self.tangents = np.zeros(shape, dtype=np.float32)
        self.mean_tangents = np.zeros(shape, dtype=np.float32)
        size = 0 if setting.model.jumps else grid.cells * K
        self.mean_response = np.zeros((size, size))
        signs = np.random.default_rng(draws.seed).integers(2, size=shape, dtype=np.int8)
        self.signs = (2.0 * signs - 1.0).astype(np.float32)

    def sums(self, cell: Cell) -> Sums:
        """Return the sums over all paths at the time of the cell."""
        K = self.setting.hidden
        t = cell.time
        past = t * K
        sums = empty_sums(self.setting, t)
        row, lower = self._factorize(cell)
        old = self.kept.size
        response = cell.response.transpose(1, 0, 2).reshape(K, past)
        center = cell.regression @ self.draws.reference.T
        center += row @ self.innovations[:old]
        center += response @ self.kicks[:past]
        new = lower @ self.draws.innovations[:, t].T
        if self.setting.model.jumps:
            self._add_pair(cell, sums, center, new, row, lower)
        else:
            delta, J = self._update(cell, sums, center + new, 1.0)
            self._add_memory(cell, sums, delta, 1.0)
            self._add_tangents(cell, sums, response, J)
            self._remember(cell, delta)
        self._keep(t, row, lower)
        return sums

    def _factorize(self, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of L for Z(t): with the kept innovations, and with its own."""
        K = self.setting.hidden
        t = cell.time
        old = self.kept.size
        covariance = cell.covariance.transpose(1, 0, 2).reshape(K, -1)
        row = np.zeros((K, old))
        if old:
            row = solve_triangular(
                self.factor[:old, :old],
                covariance[:, self.kept].T,
                lower=True,
                check_finite=False,
            ).T
        rest = covariance[:, t * K :] - row @ row.T
        lower = np.zeros((K, K))
        for k in range(K):
            for j in range(k):
                if lower[j, j] > 0.0:
                    shared = rest[k, j] - lower[k, :j] @ lower[j, :j]
                    lower[k, j] = shared / lower[j, j]
            variance = rest[k, k] - lower[k, :k] @ lower[k, :k]
            if variance > LEAST_INNOVATION * covariance[k, t * K + k]:
                lower[k, k] = np.sqrt(variance)
        return row, lower

    def _keep(self, t: int, row: np.ndarray, lower: np.ndarray) -> None:
        """Append the innovations of this time that are more than rounding errors."""
        K = self.setting.hidden
        units = np.flatnonzero(np.diag(lower) > 0.0)
        old = self.kept.size
        new = old + units.size
        self.factor[old:new, :old] = row[units]
        self.factor[old:new, old:new] = lower[np.ix_(units, units)]
        self.innovations[old:new] = self.draws.innovations[:, t, units].T
        self.kept = np.append(self.kept, t * K + units)

    def _update(
        self, cell: Cell, sums: Sums, fields: np.ndarray, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add the averages of all paths at these fields; return delta and J."""
        K, S = fields.shape
        delta = np.empty((K, S))
        J = np.zeros((K, K, S))
        update_all(
            self.setting.model, cell, self.draws.label, fields, share, delta, J, sums
        )
        sums.bias[:] += share * delta.sum(axis=1)
        sums.noise[:] += share * delta @ delta.T
        sums.reference[:] += share * delta @ self.draws.reference
        return delta, J

    def _add_memory(
        self, cell: Cell, sums: Sums, delta: np.ndarray, share: float
    ) -> None:
        """Add delta(t) kick(s)^T of all former times."""
        K = self.setting.hidden
        past = cell.time * K
        noise = share * delta @ self.kicks[:past].T
        sums.memory_noise[:] += noise.reshape(K, -1, K).transpose(1, 0, 2)

    def _remember(self, cell: Cell, delta: np.ndarray) -> None:
        """Store the kicks of this time; none at the end of the grid."""
        K = self.setting.hidden
        t = cell.time
        if t < self.grid.cells:
            self.kicks[t * K : t * K + K] = delta * self.visits[t]

    def _add_tangents(
        self, cell: Cell, sums: Sums, response: np.ndarray, J: np.ndarray
    ) -> None:
        """Add J and d delta(t) / dZ(s): that of the mean J, and the probed rest."""
        K = self.setting.hidden
        t = cell.time
        past = t * K
        now = slice(past, past + K)
        sums.response[:] += J.sum(axis=2)
        if t == self.grid.cells:
            return
        S = self.draws.label.size
        mean_J = J.mean(axis=2)
        of_mean = mean_J @ response @ self.mean_response[:past, :past]
        self.mean_response[now, :past] = of_mean
        self.mean_response[now, now] = mean_J

        J = J.astype(np.float32)[:, :, None]
        mean_J = mean_J.astype(np.float32)
        response = response.astype(np.float32)
        signs = self.signs[now]
        moved = (response @ self.tangents[:past]).reshape(K, PROBES, S)
        mean_moved = response @ self.mean_tangents[:past]
        probed = np.einsum("kips,ips->kps", J, moved).reshape(K, -1)
        rest = probed - mean_J @ mean_moved
        memory = S * of_mean + (rest @ self.signs[:past].T).astype(float) / PROBES
        sums.memory_response[:] += memory.reshape(K, t, K).transpose(1, 0, 2)

        kicked = np.einsum("kips,ips->kps", J, signs.reshape(K, PROBES, S) + moved)
        kicked *= self.visits[t].astype(np.float32)
        self.tangents[now] = kicked.reshape(K, -1)
        self.mean_tangents[now] = mean_J @ (signs + mean_moved)

    def _add_pair(
        self,
        cell: Cell,
        sums: Sums,
        center: np.ndarray,
        new: np.ndarray,
        row: np.ndarray,
        lower: np.ndarray,
    ) -> None:
        """Add averages of an update that jumps, whose responses are Stein's lemma.

        The innovation of Z(t) is paired with its opposite.
        """
        K = self.setting.hidden
        t = cell.time
        old = self.kept.size
        mirrored, _ = self._update(cell, sums, center - new, 0.5)
        recorded = sums.recorded.copy()
        delta, _ = self._update(cell, sums, center + new, 0.5)
        # the training loss is that of the path itself
        sums.recorded[:] = sums.recorded - recorded
        for side in (mirrored, delta):
            self._add_memory(cell, sums, side, 0.5)
        self._remember(cell, delta)
        even = 0.5 * (delta + mirrored)
        odd = 0.5 * (delta - mirrored)
        units = np.flatnonzero(np.diag(lower) > 0.0)
        new_innovations = self.draws.innovations[:, t, units]
        with_past = even @ self.innovations[:old].T
        with_now = odd @ new_innovations
        # [with_past, with_now] L^-1, by blocks
        own = lower[np.ix_(units, units)]
        response = np.zeros((K, K))
        if units.size:
            solved = solve_triangular(own, with_now.T, lower=True, trans=1).T
            response[:, units] = solved
        rest = with_past - response @ row
        memory = np.zeros((K, t * K))
        if old:
            memory[:, self.kept] = solve_triangular(
                self.factor[:old, :old], rest.T, lower=True, trans=1
            ).T
        sums.response[:] += response
        sums.memory_response[:] += memory.reshape(K, t, K).transpose(1, 0, 2)


def _visit_weights(grid: Grid, draws: Draws) -> Float[np.ndarray, "cells S"]:
    """Return 1 / pv where a path is visited in a cell, otherwise 0."""
    S = draws.label.size
    weights = np.zeros((grid.cells, S))
    paths = paths_on(grid, draws)
    owners = np.repeat(np.arange(S), np.diff(paths.first))
    weights[paths.visit_cells, owners] = 1.0
    return weights / grid.visit_probability[:, None]


def empty_sums(setting: Setting, cells: int) -> Sums:
    """Return sums of zero for a time with so many cells before it."""
    K = setting.hidden
    M = setting.R.shape[2]
    return Sums(
        memory_response=np.zeros((cells, K, K)),
        memory_noise=np.zeros((cells, K, K)),
        response=np.zeros((K, K)),
        noise=np.zeros((K, K)),
        reference=np.zeros((K, M)),
        readout=np.zeros(K),
        bias=np.zeros(K),
        recorded=np.zeros(2),
    )
