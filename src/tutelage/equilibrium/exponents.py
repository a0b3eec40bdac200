"""Which part of a target learning finds first.

Labels y of standardized teacher fields z = T^(-1/2) rho, He_k normalized:

    information exponent   lowest degree k >= 1 with E[y He_k(z)] != 0. One pass of SGD
                           needs of order N samples for k = 1, N ln N for k = 2 and
                           N^(k - 1) beyond (Ben Arous, Gheissari and Jagannath, JMLR 22,
                           1, 2021)
    generative exponent    lowest k >= 1 with E_y[E[He_k(z) | y]^2] != 0: no change of
                           the labels, and no use of samples again, needs less than of
                           order N^(k / 2) samples (Damian, Pillaud-Vivien, Lee and
                           Bruna, COLT 2024)
    weak recovery          with n = ratio N samples a direction is found for ratio above
                           1 / nu, nu the largest eigenvalue of M -> E_y[G_y M G_y],
                           G_y = E[z z^T - 1 | y]; at any ratio if E[z | y] != 0
                           (Troiani et al., AISTATS 2025)

Conditional means of one field follow from all values of the field that have a label. Of
several fields they are means over cells of neighboring labels, and sampled.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Float
from numpy.polynomial.hermite_e import hermeval
from scipy.special import ndtr, ndtri

from tutelage.equilibrium.information import (
    BranchEvidence,
    CellEvidence,
    Evidence,
    LinearEvidence,
    NoisyEvidence,
    SmoothEvidence,
    evidence_of,
)
from tutelage.equilibrium.label_nodes import FEW_LABELS, label_nodes, labels_at
from tutelage.equilibrium.quadrature import (
    Nodes,
    even_nodes,
    panel_nodes,
    sobol_nodes,
)
from tutelage.equilibrium.setting import Setting

HIGHEST = 8  # degree that is tried
ZERO = 0.01  # a coefficient below this, of labels of unit variance, is zero
SAMPLED_ZERO = 0.05  # the same where averages are sampled
SAMPLES_LOG2 = 16
CELLS = 64  # of continuous labels of several fields
NOISE_STEP = 0.5  # of a grid of labels, in units of their noise
LABEL_CELLS = 40_000  # of continuous labels of one field
LINE_NODES = 2001  # of one field, for labels with noise


@dataclass(frozen=True)
class LabelMeans:
    """Averages of Hermite products of the fields, with and without a given label.

    Attributes
    ----------
    probability
        The weight of each label (or cell of labels).
    means
        E[He(z) | y], one array (labels, products) for each degree 1, 2, ...
    coefficients
        |E[y He_k(z)]| for k = 1, 2, ..., of labels of mean 0 and variance 1.
    zero
        A coefficient below this counts as zero.
    """

    probability: Float[np.ndarray, " Y"]
    means: list[Float[np.ndarray, "Y P"]]
    coefficients: Float[np.ndarray, " D"]
    zero: float

    @property
    def conditional(self) -> Float[np.ndarray, " D"]:
        """sqrt(E_y[|E[He_k | y]|^2]) for k = 1, 2, ..."""
        squares = [self.probability @ np.sum(x**2, axis=1) for x in self.means]
        return np.sqrt(np.array(squares))


def label_means(setting: Setting, function: str) -> LabelMeans:
    """Return the averages of a setting."""
    if setting.fields == 1:
        return _of_one_field(setting, evidence_of(setting, function))
    return _of_several_fields(setting)


def hermite_products(
    z: Float[np.ndarray, "n F"], degree: int
) -> Float[np.ndarray, "n P"]:
    """Return all products of normalized Hermite polynomials of a total degree."""
    n, F = z.shape
    columns = []
    for units in combinations_with_replacement(range(F), degree):
        product = np.ones(n)
        for unit in range(F):
            k = units.count(unit)
            if k > 0:
                norm = np.sqrt(float(np.prod(np.arange(1, k + 1))))
                product = product * hermeval(z[:, unit], [0] * k + [1]) / norm
        columns.append(product)
    return np.stack(columns, axis=1)


def _degrees(z: Float[np.ndarray, "n F"]) -> list[Float[np.ndarray, "n P"]]:
    return [hermite_products(z, degree) for degree in range(1, HIGHEST + 1)]


def _of_one_field(setting: Setting, evidence: Evidence) -> LabelMeans:
    root = np.sqrt(setting.T[0, 0])
    nodes = _line(setting, evidence)
    z = nodes.x[:, None]
    products = np.concatenate(_degrees(z), axis=1)
    labels, probabilities, noise = labels_at(setting, root * z)
    joint = nodes.weights[:, None] * probabilities
    coefficients = _coefficients(joint, labels, noise, products)
    if isinstance(evidence, BranchEvidence):
        probability, means = _on_branches(evidence, root)
    elif isinstance(evidence, LinearEvidence) and evidence.noise == 0:
        probability = nodes.weights
        means = products
    elif noise > 0:
        probability, means = _with_noise(nodes, labels[:, 0], noise, products)
    else:
        assert isinstance(evidence, CellEvidence | SmoothEvidence)
        values = evidence.values
        by_value = np.stack(
            [np.sum(joint * (labels == value), axis=1) for value in values], axis=1
        )
        probability = by_value.sum(axis=0)
        means = (by_value.T @ products) / probability[:, None]
    return LabelMeans(
        probability=probability,
        means=[means[:, [k]] for k in range(HIGHEST)],
        coefficients=coefficients,
        zero=ZERO,
    )


def _line(setting: Setting, evidence: Evidence) -> Nodes:
    """Return nodes of one standard field that end where labels jump or turn."""
    root = np.sqrt(setting.T[0, 0])
    if isinstance(evidence, CellEvidence) and len(evidence.edges) <= FEW_LABELS:
        return panel_nodes(evidence.edges / root, width=0.5)
    if isinstance(evidence, BranchEvidence):
        return panel_nodes(evidence.turns / root, width=0.1)
    if isinstance(evidence, NoisyEvidence | CellEvidence):
        return even_nodes(LINE_NODES)
    return panel_nodes([0.0], width=0.25)


def _coefficients(
    joint: np.ndarray, labels: np.ndarray, noise: float, products: np.ndarray
) -> Float[np.ndarray, " D"]:
    """Return |E[y He_k]| of labels with mean 0 and variance 1."""
    total = joint.sum()
    mean = np.sum(joint * labels) / total
    variance = np.sum(joint * (labels - mean) ** 2) / total + noise**2
    centered = np.sum(joint * (labels - mean), axis=1)
    return np.abs(centered @ products) / np.sqrt(variance)


def _with_noise(
    nodes: Nodes, f: np.ndarray, noise: float, products: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the law of y = f + noise on a grid, and means given y."""
    low = f[nodes.weights > 1e-12].min() - 8 * noise
    high = f[nodes.weights > 1e-12].max() + 8 * noise
    y = np.linspace(low, high, int((high - low) / (NOISE_STEP * noise)) + 2)
    kernel = np.exp(-(((y[:, None] - f) / noise) ** 2) / 2) * nodes.weights
    density = np.maximum(kernel.sum(axis=1), 1e-300)
    return density / density.sum(), (kernel @ products) / density[:, None]


def _on_branches(
    evidence: BranchEvidence, root: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of narrow cells of labels, and means given the cell.

    On each branch a cell of labels is an interval of the field, over which He_k has the
    exact integral: that of He_k phi is -He_(k-1) phi.
    """
    # cells end at the labels of evenly probable fields
    quantiles = (np.arange(LABEL_CELLS) + 0.5) / LABEL_CELLS
    edges = np.unique(evidence.f(root * ndtri(quantiles)))
    lowest = min(branch.y[0] for branch in evidence.branches)
    highest = max(branch.y[-1] for branch in evidence.branches)
    edges = np.unique(np.concatenate([[lowest], edges, [highest]]))
    sums = np.zeros((len(edges) - 1, HIGHEST + 1))
    for branch in evidence.branches:
        z = np.interp(edges, branch.y, branch.rho) / root
        integrals = _hermite_integrals(z)
        sums += np.sign(branch.rho[-1] - branch.rho[0]) * np.diff(integrals, axis=0)
    if evidence.flat is not None:
        ends = np.concatenate([[-np.inf], evidence.flat.edges / root, [np.inf]])
        integrals = np.diff(_hermite_integrals(ends), axis=0)
        flat = evidence.flat.probabilities.T @ integrals
        sums = np.concatenate([sums, flat])
    kept = sums[:, 0] > 1e-12
    return sums[kept, 0], sums[kept, 1:] / sums[kept, :1]


def _hermite_integrals(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n D"]:
    """Return the integrals of normalized He_k phi up to z, for k = 0, 1, ..."""
    columns = [ndtr(z)]
    finite = np.where(np.isfinite(z), z, 40.0)
    density = np.exp(-(finite**2) / 2) / np.sqrt(2 * np.pi)
    norm = 1.0
    for k in range(1, HIGHEST + 1):
        norm *= np.sqrt(k)
        columns.append(-hermeval(finite, [0] * (k - 1) + [1]) * density / norm)
    return np.stack(columns, axis=1)


def _of_several_fields(setting: Setting) -> LabelMeans:
    nodes = label_nodes(setting, refinement=2)
    root = np.linalg.cholesky(setting.T)
    standard = nodes.rho @ np.linalg.inv(root).T
    zero = ZERO if setting.fields == 2 else SAMPLED_ZERO
    labels = nodes.labels
    joint = nodes.joint
    if nodes.values is None:
        # continuous labels: independent points, with their noise
        zero = SAMPLED_ZERO
        points = sobol_nodes(setting.fields + 1, SAMPLES_LOG2).x
        standard = points[:, :-1]
        labels, probabilities, noise = labels_at(setting, standard @ root.T)
        labels = labels + noise * points[:, -1:]
        joint = probabilities / len(points)
    J = labels.shape[1]
    z = np.repeat(standard, J, axis=0)
    y = labels.ravel()
    weights = joint.ravel()
    cell = _cells(y, weights)
    probability = np.bincount(cell, weights)
    means = []
    coefficients = []
    mean = weights @ y
    deviation = np.sqrt(weights @ (y - mean) ** 2)
    for products in _degrees(z):
        columns = [np.bincount(cell, weights * column) for column in products.T]
        sums = np.stack(columns, axis=1)
        means.append(sums / np.maximum(probability, 1e-300)[:, None])
        moment = (weights * (y - mean) / deviation) @ products
        coefficients.append(float(np.linalg.norm(moment)))
    return LabelMeans(
        probability=probability,
        means=means,
        coefficients=np.array(coefficients),
        zero=zero,
    )


def _cells(y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the cell of each label: equal labels, or neighbors of equal total weight."""
    values, cell = np.unique(np.round(y, 10), return_inverse=True)
    if len(values) <= FEW_LABELS:
        return cell
    mass = np.bincount(cell, weights)
    middle = np.cumsum(mass) - mass / 2
    coarse = np.minimum((middle * CELLS).astype(int), CELLS - 1)
    return coarse[cell]


def first_degree(sizes: Float[np.ndarray, " D"], zero: float) -> int | None:
    """Return the lowest degree whose coefficient is not zero; None if all are."""
    above = np.flatnonzero(sizes > zero)
    if above.size == 0:
        return None
    return int(above[0]) + 1


@dataclass(frozen=True)
class Recovery:
    """The strength of what labels tell about directions without prior knowledge.

    linear: the largest eigenvalue of E_y[E[z|y] E[z|y]^T]. quadratic: that of
    M -> E_y[G_y M G_y]. direction: the eigenvector of the one that comes first, (F,) or
    (F, F), in standardized fields.
    """

    linear: float
    quadratic: float
    direction: np.ndarray


def recovery(averages: LabelMeans, fields: int) -> Recovery:
    """Return the strengths of the first two orders."""
    probability = averages.probability
    first = averages.means[0]
    covariance = np.einsum("y,ya,yb->ab", probability, first, first)
    values, vectors = np.linalg.eigh(covariance)
    G = _second_moments(averages.means[1], fields)
    # rows (a, d), columns (b, e): (G M G)_ad = sum_be G_ab M_be G_ed
    operator = np.einsum("y,yab,yed->adbe", probability, G, G)
    matrix = operator.reshape(fields**2, fields**2)
    strengths, patterns = np.linalg.eigh((matrix + matrix.T) / 2)
    linear = float(values[-1])
    direction = vectors[:, -1]
    if linear <= averages.zero**2:
        direction = patterns[:, -1].reshape(fields, fields)
    return Recovery(linear, float(strengths[-1]), direction)


def _second_moments(
    means: Float[np.ndarray, "Y P"], fields: int
) -> Float[np.ndarray, "Y F F"]:
    """Return G_y = E[z z^T - 1 | y] from normalized Hermite products of degree 2."""
    G = np.zeros((len(means), fields, fields))
    pairs = combinations_with_replacement(range(fields), 2)
    for column, (a, b) in zip(means.T, pairs, strict=True):
        scale = np.sqrt(2.0) if a == b else 1.0
        G[:, a, b] = scale * column
        G[:, b, a] = scale * column
    return G
