"""The information of one label about the field rho of a teacher unit.

All samples together leave rho Gaussian with mean omega and variance V; omega itself is
Gaussian with variance q over samples. A further label y has the evidence

    Z(y, omega) = E[P(y | rho)],  rho ~ N(omega, V),

and its information about omega is I = E[(d ln Z / d omega)^2]. Since
d ln Z / d omega = (E[rho | y, omega] - omega) / V, it is large if the label moves the
mean of the field far.

    LinearEvidence   y = rho + noise: I = 1 / (V + sigma^2)
    CellEvidence     labels with few values, whose probabilities are constant in cells
                     of rho (signs, flips, sign units); Gaussian noise may be added
    SmoothEvidence   labels with few values and smooth probabilities (logistic)
    NoisyEvidence    y = f(rho) + Gaussian noise
    BranchEvidence   y = f(rho): several rho may have the same label
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from tutelage.equilibrium.label_nodes import (
    FEW_LABELS,
    jumps_of,
    label_breaks,
    labels_at,
)
from tutelage.equilibrium.proximal import normal_density
from tutelage.equilibrium.quadrature import REACH, even_nodes, panel_nodes
from tutelage.equilibrium.setting import Setting
from tutelage.errors import InputError
from tutelage.problem.labels import Function as FunctionLabels
from tutelage.problem.labels import Real

TINY = 1e-300
OUTPUT_NODES = 61  # of omega, where labels are smooth functions of rho
FIELD_NODES = 97  # of rho given omega
CONSTANT = 1e-7  # change of a probability between neighbors of the grid
CELLS = 401  # of labels whose probabilities have no formula
NEAR_AN_EDGE = 2.0**-14  # finest panel of omega next to an edge
LABEL_STEP = 0.6  # of a grid of labels, in units of their noise
FIELD_STEP = 1.1  # of f(rho) on a grid of rho, in units of the noise
LEAST_NOISE = 0.02  # of labels f(rho) + noise that a grid resolves
GRID = 8001  # fields on which f is inverted
NEAR_A_TURN = 401  # more fields next to each turn
MOST_BRANCHES = 12
ROUNDING = 16 * np.finfo(float).eps  # change of f, in units of its size, without a sign
FLAT = 1e-12  # slope of f, in units of its range, that counts as zero


@dataclass(frozen=True)
class Posterior:
    """The law of the field: omega ~ N(0, q), rho ~ N(omega, V)."""

    q: float
    V: float


class Evidence(ABC):
    """The information of labels about one field."""

    @abstractmethod
    def information(self, posterior: Posterior) -> float:
        """Return I = E[(d ln Z / d omega)^2]."""

    def predictive(self, posterior: Posterior) -> "Predictive | None":
        """Return the probabilities of labels at omega; None if labels are continuous."""
        return None


@dataclass(frozen=True)
class Predictive:
    """Probabilities of the labels at nodes of omega.

    weights: of the nodes. evidence: Z_j(omega). values: the labels.
    """

    weights: Float[np.ndarray, " n"]
    evidence: Float[np.ndarray, "n J"]
    values: Float[np.ndarray, " J"]

    @property
    def wrong(self) -> float:
        """The probability that the most probable label is wrong."""
        return float(1 - self.weights @ np.max(self.evidence, axis=1))

    @property
    def log_loss(self) -> float:
        """The mean of -ln Z."""
        Z = np.maximum(self.evidence, TINY)
        return float(-self.weights @ np.sum(Z * np.log(Z), axis=1))

    @property
    def variance(self) -> float:
        """The variance of the label that is left when omega is given."""
        square = self.weights @ (self.evidence @ self.values**2)
        explained = self.weights @ (self.evidence @ self.values) ** 2
        return float(square - explained)


@dataclass(frozen=True)
class LinearEvidence(Evidence):
    """y = rho + noise."""

    noise: float

    def information(self, posterior: Posterior) -> float:
        return 1.0 / (posterior.V + self.noise**2)


@dataclass(frozen=True)
class CellEvidence(Evidence):
    """Labels whose probabilities (cells, J) are constant between edges of rho.

    values, noise: the labels, if Gaussian noise is added to them; noise 0: they are
    seen as they are.
    """

    edges: Float[np.ndarray, " E"]
    probabilities: Float[np.ndarray, "C J"]
    values: Float[np.ndarray, " J"]
    noise: float

    def moments(
        self, posterior: Posterior
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights of omega, Z (omega, J) and dZ / d omega.

        The evidence changes within sqrt(V) of an edge, so the panels of omega end
        there.
        """
        spread = np.sqrt(posterior.V)
        if len(self.edges) > FEW_LABELS:
            nodes = even_nodes(OUTPUT_NODES)
        else:
            breaks = self.edges / np.sqrt(posterior.q)
            nodes = panel_nodes(breaks, width=0.5, finest=NEAR_AN_EDGE)
        omega = np.sqrt(posterior.q) * nodes.x
        z = (self.edges - omega[:, None]) / spread
        below = _with_ends(ndtr(z), 0.0, 1.0)
        # far above an edge small probabilities come from the other tail
        above = _with_ends(ndtr(-z), 1.0, 0.0)
        density = _with_ends(normal_density(z), 0.0, 0.0)
        mass = np.where(
            below[:, 1:] < 0.5, np.diff(below, axis=1), -np.diff(above, axis=1)
        )
        evidence = mass @ self.probabilities
        slope = -np.diff(density, axis=1) @ self.probabilities / spread
        return nodes.weights, evidence, slope

    def predictive(self, posterior: Posterior) -> Predictive:
        weights, evidence, _ = self.moments(posterior)
        return Predictive(weights, evidence, self.values)

    def information(self, posterior: Posterior) -> float:
        weights, evidence, slope = self.moments(posterior)
        if self.noise == 0:
            score = slope**2 / np.maximum(evidence, TINY)
            return float(weights @ np.sum(score, axis=1))
        # sum over labels v_j of evidence times N(y; v_j, noise^2), on a grid of y
        y = _label_grid(self.values, self.noise)
        density = normal_density((y - self.values[:, None]) / self.noise) / self.noise
        score = (slope @ density) ** 2 / np.maximum(evidence @ density, TINY)
        return float(weights @ np.sum(score, axis=1)) * (y[1] - y[0])


def _with_ends(values: np.ndarray, first: float, last: float) -> np.ndarray:
    """Return values at the edges, and at minus and plus infinity."""
    column = np.ones((len(values), 1))
    return np.concatenate([first * column, values, last * column], axis=1)


def _label_grid(values: np.ndarray, noise: float) -> np.ndarray:
    """Return even labels that cover these values with Gaussian noise."""
    low = values.min() - 8 * noise
    high = values.max() + 8 * noise
    return np.linspace(low, high, int((high - low) / (LABEL_STEP * noise)) + 2)


@dataclass(frozen=True)
class Table:
    """A function of rho on a fine grid, linear between its points."""

    rho: Float[np.ndarray, " n"]
    values: Float[np.ndarray, " n"]

    def __call__(self, rho: np.ndarray) -> np.ndarray:
        return np.interp(rho, self.rho, self.values)


@dataclass(frozen=True)
class SmoothEvidence(Evidence):
    """Labels with smooth probabilities P_j(rho)."""

    probabilities: tuple[Table, ...]
    values: Float[np.ndarray, " J"]

    def predictive(self, posterior: Posterior) -> Predictive:
        x, weights = even_nodes(FIELD_NODES)
        u, outer = even_nodes(OUTPUT_NODES)
        rho = np.sqrt(posterior.q) * u[:, None] + np.sqrt(posterior.V) * x
        evidence = [probability(rho) @ weights for probability in self.probabilities]
        return Predictive(outer, np.stack(evidence, axis=1), self.values)

    def information(self, posterior: Posterior) -> float:
        x, weights = even_nodes(FIELD_NODES)
        u, outer = even_nodes(OUTPUT_NODES)
        spread = np.sqrt(posterior.V)
        rho = np.sqrt(posterior.q) * u[:, None] + spread * x
        total = 0.0
        for probability in self.probabilities:
            by_node = probability(rho)
            evidence = by_node @ weights
            slope = by_node @ (weights * x / spread)
            total += float(outer @ (slope**2 / np.maximum(evidence, TINY)))
        return total


@dataclass(frozen=True)
class NoisyEvidence(Evidence):
    """y = f(rho) + noise z; steepest: the largest slope of f."""

    f: Table
    noise: float
    steepest: float

    def information(self, posterior: Posterior) -> float:
        spread = np.sqrt(posterior.V)
        # f(rho) must move by less than the noise from node to node
        step = FIELD_STEP * self.noise / (spread * self.steepest + TINY)
        count = max(FIELD_NODES, int(2 * REACH / step))
        x, weights = even_nodes(count)
        u, outer = even_nodes(OUTPUT_NODES)
        total = 0.0
        for share, middle in zip(outer, np.sqrt(posterior.q) * u, strict=True):
            rho = middle + spread * x
            f = self.f(rho)
            y = _label_grid(f, self.noise)
            density = normal_density((y[:, None] - f) / self.noise) / self.noise
            evidence = density @ weights
            slope = density @ (weights * x) / spread
            score = np.sum(slope**2 / np.maximum(evidence, TINY))
            total += float(share * score) * (y[1] - y[0])
        return total


@dataclass(frozen=True)
class Branch:
    """An interval of rho on which f is monotonic; y increases."""

    y: Float[np.ndarray, " n"]
    rho: Float[np.ndarray, " n"]
    slope: Float[np.ndarray, " n"]


@dataclass(frozen=True)
class BranchEvidence(Evidence):
    """y = f(rho) without noise.

    branches: where f is monotonic. turns: the places between them. flat: f is constant
    in cells, whose label is seen with the probability of the cell.
    """

    f: Table
    turns: Float[np.ndarray, " B"]
    branches: tuple[Branch, ...]
    flat: CellEvidence | None

    def information(self, posterior: Posterior) -> float:
        x, weights = even_nodes(161)
        # near a turn two values of rho with one label come within sqrt(V)
        breaks = self.turns / np.sqrt(posterior.q)
        u, outer = panel_nodes(breaks, finest=NEAR_AN_EDGE)
        spread = np.sqrt(posterior.V)
        omega = np.sqrt(posterior.q) * u[:, None]
        rho = omega + spread * x
        y = self.f(rho)
        total = np.zeros_like(y)
        moved = np.zeros_like(y)
        on_branch = np.zeros(y.shape, bool)
        for branch in self.branches:
            # rho of this branch with the same label, at density N(rho) / |f'(rho)|
            inside = (y >= branch.y[0]) & (y <= branch.y[-1])
            other = np.interp(y, branch.y, branch.rho)
            slope = np.interp(y, branch.y, branch.slope)
            low, high = np.sort(branch.rho[[0, -1]])
            own = (rho >= low) & (rho <= high)
            on_branch |= own
            z = np.where(own, x, (other - omega) / spread)
            # relative to the density of rho itself, so that nothing underflows
            density = np.exp((x**2 - z**2) / 2) / np.maximum(slope, TINY)
            density = np.where(inside, density, 0.0)
            total += density
            moved += density * z
        score = (moved / np.maximum(total, TINY)) ** 2 / posterior.V
        smooth = float(outer @ (np.where(on_branch, score, 0.0) @ weights))
        if self.flat is None:
            return smooth
        return smooth + self.flat.information(posterior)


def evidence_of(setting: Setting, function: str) -> Evidence:
    """Return the evidence of the labels of one field; refuse labels without one."""
    problem = setting.problem
    law = problem.labels
    if problem.has_noise_law:
        raise InputError(
            f"the noise is a quantile function; {function} needs the likelihood of a "
            "label. Give a number, Gaussian noise."
        )
    real = isinstance(law, Real)
    noise = float(problem.noise_deviation) if real else 0.0
    if real and setting.linear:
        return LinearEvidence(noise)
    reach = REACH * np.sqrt(setting.T[0, 0])
    grid = np.linspace(-reach, reach, GRID)
    labels, probabilities, _ = labels_at(setting, grid[:, None])
    if len(np.unique(labels)) <= FEW_LABELS:
        return _few_labels(setting, grid, labels, probabilities, noise)
    if isinstance(law, FunctionLabels) and law.random is not False:
        raise InputError(
            f"the labels are a random function with continuous values; {function} needs "
            "their likelihood. Use labels='real' with noise, or labels with few values."
        )
    f = labels[:, 0]
    if noise > 0:
        if noise < LEAST_NOISE:
            raise InputError(
                f"noise is {noise:g} and the teacher is not linear; {function} resolves "
                f"noise of {LEAST_NOISE:g} or more, or 0."
            )
        steepest = float(np.max(np.abs(np.gradient(f, grid))))
        return NoisyEvidence(Table(grid, f), noise, steepest)
    return _branches(setting, grid, function)


def _few_labels(
    setting: Setting,
    grid: np.ndarray,
    labels: Float[np.ndarray, "n J"],
    probabilities: Float[np.ndarray, "n J"],
    noise: float,
) -> CellEvidence | SmoothEvidence:
    """Return the evidence of labels with few values.

    Their probabilities are constant between jumps, or smooth, or both change: then they
    are constant in many cells.
    """
    reach = grid[-1]
    values = np.unique(labels)

    def by_value(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        columns = [np.sum(probabilities * (labels == v), axis=1) for v in values]
        return np.stack(columns, axis=1)

    def mean(rho: np.ndarray) -> np.ndarray:
        """A number that changes with the label, or with a probability of it."""
        labels, probabilities, _ = labels_at(setting, rho[:, None])
        return np.sum(labels * probabilities, axis=1)

    edges = np.array(jumps_of(mean, reach))
    summed = by_value(labels, probabilities)
    # places away from the jumps, where neighbors on the grid have one probability or not
    changes = np.max(np.abs(np.diff(summed, axis=0)), axis=1)
    between = (grid[:-1] + grid[1:]) / 2
    near = np.searchsorted(between, edges)
    changes[np.clip(np.concatenate([near - 1, near]), 0, len(changes) - 1)] = 0.0
    if np.all(changes < CONSTANT):
        bounds = np.concatenate([[-reach], edges, [reach]])
    elif len(edges) == 0:
        tables = tuple(Table(grid, column) for column in summed.T)
        return SmoothEvidence(tables, values)
    else:
        edges = np.unique(np.concatenate([np.linspace(-reach, reach, CELLS), edges]))
        bounds = np.concatenate([[-reach], edges, [reach]])
    middles = (bounds[:-1] + bounds[1:]) / 2
    labels, probabilities, _ = labels_at(setting, middles[:, None])
    return CellEvidence(edges, by_value(labels, probabilities), values, noise)


def _branches(setting: Setting, grid: np.ndarray, function: str) -> BranchEvidence:
    """Split f into branches on which it is monotonic, and cells on which it is flat."""
    kinks = np.array(label_breaks(setting))
    grid = np.unique(np.concatenate([grid, kinks]))

    def directions(rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f, and whether it rises, falls or is flat between neighbors."""
        f = labels_at(setting, rho[:, None])[0][:, 0]
        change = np.diff(f)
        slope = change / np.diff(rho)
        is_flat = np.abs(slope) <= FLAT * np.ptp(f)
        # a label that saturates, such as tanh, changes by rounding alone
        is_flat |= np.abs(change) <= ROUNDING * np.max(np.abs(f))
        return f, np.where(is_flat, 0.0, np.sign(slope))

    _, direction = directions(grid)
    # the inverse of f has a square root at a turn: more points there
    turns = grid[np.flatnonzero(np.diff(direction)) + 1]
    step = 2 * np.max(np.diff(grid))
    near = np.linspace(-step, step, NEAR_A_TURN)
    more = (turns[:, None] + near).ravel()
    # points that differ by rounding alone would have no slope
    grid = np.unique(np.round(np.concatenate([grid, more]), 9))
    f, direction = directions(grid)
    starts = np.flatnonzero(np.diff(direction)) + 1
    bounds = np.concatenate([[0], starts, [len(direction)]])
    branches = []
    flat_cells = []
    for first, last in pairwise(bounds):
        part = slice(first, last + 1)
        if direction[first] == 0:
            flat_cells.append((grid[first], grid[last], f[first]))
            continue
        rising = slice(None, None, int(direction[first]))
        branches.append(
            Branch(
                y=f[part][rising],
                rho=grid[part][rising],
                slope=np.abs(np.gradient(f[part], grid[part]))[rising],
            )
        )
    if len(branches) > MOST_BRANCHES:
        raise InputError(
            f"the label rises and falls {len(branches)} times; {function} supports "
            f"{MOST_BRANCHES} branches. Add noise."
        )
    return BranchEvidence(
        f=Table(grid, f),
        turns=grid[starts],
        branches=tuple(branches),
        flat=_flat_labels(flat_cells, grid),
    )


def _flat_labels(
    cells: list[tuple[float, float, float]], grid: np.ndarray
) -> CellEvidence | None:
    """Return the evidence of labels that whole intervals of rho have."""
    if not cells:
        return None
    ends = {x for low, high, _ in cells for x in (low, high)}
    edges = np.array(sorted(ends - {grid[0], grid[-1]}))
    bounds = np.concatenate([[grid[0]], edges, [grid[-1]]])
    middles = (bounds[:-1] + bounds[1:]) / 2
    values = np.unique([round(value, 9) for _, _, value in cells])
    probabilities = np.zeros((len(middles), len(values)))
    for low, high, value in cells:
        inside = (middles > low) & (middles < high)
        probabilities[inside, np.searchsorted(values, round(value, 9))] = 1.0
    return CellEvidence(edges, probabilities, values, 0.0)
