"""The random numbers of sample paths: each path is one point of a scrambled Sobol set.

A point has the teacher's fields rho, the randomness of the label, and for each visit an
innovation of the field and the time of the visit. All of them belong to the path, not to
the grid. The innovation of visit v serves every evaluation until that visit happens, which
is valid because visits do not depend on it. So grids of different steps have the same
paths, and an extrapolation in the step adds no noise.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from scipy.stats import qmc

from tutelage import checks
from tutelage.dataset.grid import Grid
from tutelage.dataset.path_kernel import Memory, Paths
from tutelage.dataset.setting import Setting
from tutelage.errors import InputError
from tutelage.problem.sample import normals_needed

# Uniform numbers stay this far from 0 and 1.
MARGIN = 1e-10
# Standard deviations above the mean for which a path has numbers.
SIGMAS = 7.0
# The share of the data in a step of gradient descent from which on all steps are
# treated as possible visits.
MANY = 0.2
PROBES = 8  # random signs of each path, for its responses in gradient descent
MOST_DIMENSIONS = qmc.Sobol.MAXDIM


class Draws(NamedTuple):
    """The numbers of all paths of one scrambling, for grids of any step."""

    label: Float[np.ndarray, " S"]
    reference: Float[np.ndarray, "S M"]
    innovations: Float[np.ndarray, "S most K"]
    visits: Float[np.ndarray, "S most"]  # uniform
    seed: int  # of random signs


def most_visits(grid: Grid) -> int:
    """Return the number of visits for which a path needs random numbers."""
    if grid.epochs.size:
        return grid.epochs.size + 1
    if many_visits(grid):
        return grid.cells + 1
    mean = float(np.sum(grid.visit_probability))
    usual = mean + SIGMAS * math.sqrt(mean) + 8
    return min(int(usual), grid.cells) + 1


def many_visits(grid: Grid) -> bool:
    """Return True for gradient descent with a large share of the data in each step."""
    return grid.in_steps and float(np.mean(grid.visit_probability)) > MANY


def draw_paths(setting: Setting, grid: Grid, count: int, seed: int) -> Draws:
    """Draw the numbers of `count` paths (a power of two) for one scrambling."""
    K = setting.hidden
    M = setting.R.shape[2]
    label_numbers = normals_needed(setting.problem)
    most = most_visits(grid)
    dimensions = M + label_numbers + most * (K + 1)
    if dimensions > MOST_DIMENSIONS:
        raise InputError(
            f"a sample path needs {dimensions} random numbers, of at most "
            f"{MOST_DIMENSIONS}; solve for fewer epochs."
        )
    sobol = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed))
    uniform = np.clip(sobol.random(count), MARGIN, 1.0 - MARGIN)
    white = _whitened(ndtri(uniform[:, :M]))
    rho = white @ np.linalg.cholesky(setting.reference_covariance).T
    normals = ndtri(uniform[:, M : M + label_numbers])
    by_visit = uniform[:, M + label_numbers :].reshape(count, most, K + 1)
    return Draws(
        label=setting.labels(rho, normals),
        reference=np.ascontiguousarray(rho),
        innovations=np.ascontiguousarray(ndtri(by_visit[:, :, :K])),
        visits=np.ascontiguousarray(by_visit[:, :, K]),
        seed=seed,
    )


def _whitened(x: Float[np.ndarray, "S M"]) -> Float[np.ndarray, "S M"]:
    """Return the points moved and turned to mean 0 and covariance 1 exactly."""
    centered = x - x.mean(axis=0)
    factor = np.linalg.cholesky(centered.T @ centered / len(x))
    return centered @ np.linalg.inv(factor).T


def paths_on(grid: Grid, draws: Draws) -> Paths:
    """Return the paths with their visits on a grid."""
    cells = _visit_cells(grid, draws.visits)
    happens = cells < grid.cells
    visits = happens.sum(axis=1)
    K = draws.innovations.shape[2]
    columns = visits * K
    return Paths(
        label=draws.label,
        reference=draws.reference,
        innovations=draws.innovations,
        first=_offsets(visits),
        visit_cells=cells[happens],
        factor_start=_offsets(columns * (columns + 1) // 2),
        tangent_start=_offsets(visits * (visits + 1) // 2 * K**2),
    )


def _visit_cells(
    grid: Grid, uniform: Float[np.ndarray, "S most"]
) -> Int[np.ndarray, "S most"]:
    """Return the cell of each visit, increasing along a path; some beyond the grid.

    With replacement, each cell has a visit with its probability pv: the next visit is
    where the sum of -ln(1 - pv) after the last one exceeds -ln of a uniform number. In
    epochs, one time of each epoch is chosen.
    """
    count, most = uniform.shape
    if grid.epochs.size:
        times = grid.epoch_length * (np.arange(most) + uniform)
        cells = np.searchsorted(grid.edges, times, side="right") - 1
        return np.minimum(cells, grid.cells).astype(np.int64)
    if np.all(grid.visit_probability >= 1.0):
        return np.tile(np.arange(most), (count, 1))
    hazard = np.append(0.0, np.cumsum(-np.log1p(-grid.visit_probability)))
    cells = np.empty((count, most), dtype=np.int64)
    following = np.zeros(count, dtype=np.int64)
    for visit in range(most):
        reached = hazard[following] - np.log(uniform[:, visit])
        cells[:, visit] = np.searchsorted(hazard, reached) - 1
        following = np.minimum(cells[:, visit] + 1, grid.cells)
    # the last numbers of a path only serve evaluations after its last visit
    cells[:, -1] = np.maximum(cells[:, -1], grid.cells)
    return cells


def _offsets(counts: Int[np.ndarray, " S"]) -> Int[np.ndarray, " S_and_one"]:
    """Return where the entries of each path begin, and the end."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def empty_memory(paths: Paths, jumps: bool) -> Memory:
    """Return the memory of paths that have not been visited yet."""
    K = paths.innovations.shape[2]
    tangents = 0 if jumps else int(paths.tangent_start[-1])
    return Memory(
        visited=np.zeros(paths.label.size, dtype=np.int64),
        factors=np.zeros(int(paths.factor_start[-1])),
        kicks=np.zeros((int(paths.first[-1]), K)),
        tangents=np.zeros(tangents),
    )


def require_path_memory(setting: Setting, grid: Grid, count: int, solves: int) -> None:
    """Refuse paths and kernels that do not fit into memory.

    solves: how many passes run side by side.
    """
    K = setting.hidden
    L = setting.eigenvalues.size
    mean = float(np.sum(grid.visit_probability))
    columns = grid.cells * K
    if many_visits(grid):
        # innovations, kicks and visits in double precision; signs and two responses of
        # each probe in single
        of_paths = count * columns * (3 + 1 / K + 1.5 * PROBES)
    else:
        squared = mean**2 + mean  # of a Poisson number
        of_paths = count * (squared * K**2 + most_visits(grid) * (K + 1) * 2)
    of_kernels = (L + 2) * columns**2
    checks.require_memory(
        f"the memory of {count} sample paths with {mean:.3g} visits each, "
        f"on {grid.cells} cells of time,",
        solves * (of_paths + of_kernels),
        "Solve for fewer epochs, or loosen accuracy.",
    )
