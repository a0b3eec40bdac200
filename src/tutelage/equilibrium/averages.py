"""Averages of g = -l'(h) over one sample: what the samples do to the weights.

Given the teacher's fields rho, the left-out output omega is Gaussian with mean
mu = m^T T^-1 rho and variance s^2 = q - m^T T^-1 m. Three ways to average over it:

    ClippedAverages   g is a clipped line: exact at each node of rho and label
    ProfileAverages   g on a grid of omega for each label (of omega - label, if the loss
                      is a function of the difference), times the density of omega
    NodeAverages      any convex loss and labels: nodes of omega at each label

E[dg/domega] always comes from Stein's lemma: no derivative of a kink is sampled.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from tutelage.equilibrium.label_nodes import LabelNodes, label_nodes
from tutelage.equilibrium.proximal import (
    ClippedLine,
    Descents,
    clipped_line,
    descents_of,
    follows_difference,
    normal_density,
    proximal_point,
)
from tutelage.equilibrium.quadrature import even_nodes, panel_nodes
from tutelage.equilibrium.setting import Setting
from tutelage.problem.labels import Sign

FEWEST_POINTS = 321  # of a grid of omega, for a smooth loss
FEWEST_WITH_KINKS = 2401  # for a loss whose derivative may jump
MOST_POINTS = 6001
GRID_REACH = 8.5
POINTS_PER_DEVIATION = 1.4  # of the Gaussian of a grid: trapezoids are exact to 1e-11
KINK_WIDTH = 1.0  # of g, in units of omega
SPREAD_NODES = 25  # of the noise around a label
OUTPUT_NODES = 49  # of omega at each label


@dataclass(frozen=True)
class MinimumState:
    """Order parameters of the minimum: m (F,), q, and the susceptibility V."""

    m: Float[np.ndarray, " F"]
    q: float
    V: float


@dataclass(frozen=True)
class SampleAverages:
    """Averages over a sample that is used for training.

    second: E[g^2]. slope: -E[dg/domega]. with_fields: E[g rho]. loss: E[l(h)]. residual:
    E[(y - h)^2], by labels as they are stored. test_loss: E[l(omega)].
    """

    second: float
    slope: float
    with_fields: Float[np.ndarray, " F"]
    loss: float
    residual: float
    test_loss: float


class Averages(ABC):
    """Averages of one loss over the labels of a setting."""

    def __init__(self, setting: Setting, nodes: LabelNodes):
        self.setting = setting
        self.nodes = nodes
        self.inverse_T = np.linalg.inv(setting.T)

    @abstractmethod
    def at(self, overlaps: MinimumState, everything: bool = False) -> SampleAverages:
        """Return the averages; everything: also those of the losses."""

    def means(self, overlaps: MinimumState) -> Float[np.ndarray, " n"]:
        """Return mu = m^T T^-1 rho at the nodes."""
        return self.nodes.rho @ (self.inverse_T @ overlaps.m)

    def deviation(self, overlaps: MinimumState) -> float:
        """Return s, the deviation of omega at given fields of the teacher."""
        m = overlaps.m
        variance = overlaps.q - m @ self.inverse_T @ m
        return float(np.sqrt(max(variance, 1e-14 * overlaps.q)))

    def sharpness(self, overlaps: MinimumState) -> float:
        """Return s in units of the deviation of mu."""
        m = overlaps.m
        return self.deviation(overlaps) / float(
            np.sqrt(m @ self.inverse_T @ m + 1e-300)
        )

    def residual_of(
        self, overlaps: MinimumState, product: float, second: float
    ) -> float:
        """Return E[(y - h)^2] = E[(y - omega)^2] - 2 V E[(y - omega) g] + V^2 E[g^2]."""
        nodes = self.nodes
        y = nodes.labels
        joint = nodes.joint
        square = float(np.sum(joint * y**2)) + nodes.spread**2
        with_output = float(self.means(overlaps) @ np.sum(joint * y, axis=1))
        left_out = square - 2 * with_output + overlaps.q
        V = overlaps.V
        return left_out - 2 * V * product + V**2 * second


class ClippedAverages(Averages):
    """Averages for squared, Huber, absolute and hinge loss."""

    def __init__(self, setting: Setting, nodes: LabelNodes, line: ClippedLine):
        super().__init__(setting, nodes)
        self.line = line

    def at(self, overlaps: MinimumState, everything: bool = False) -> SampleAverages:
        nodes = self.nodes
        joint = nodes.joint
        # label - omega is Gaussian at given fields, with the noise of the label
        deviation = float(np.hypot(self.deviation(overlaps), nodes.spread))
        mean = self.means(overlaps)[:, None]
        moments = self.line.moments(nodes.labels, mean, deviation, overlaps.V)
        second = float(np.sum(joint * moments.second))
        first = np.sum(joint * moments.first, axis=1)
        loss = test_loss = residual = np.nan
        if everything:
            left_out = self.line.moments(nodes.labels, mean, deviation, 0.0)
            loss = float(np.sum(joint * moments.adapted))
            test_loss = float(np.sum(joint * left_out.adapted))
            # E[(y - omega) g]; for labels +-1 it is E[(1 - y omega) y g] too
            product = float(np.sum(joint * moments.product))
            residual = self.residual_of(overlaps, product, second)
        return SampleAverages(
            second=second,
            slope=float(np.sum(joint * moments.slope)),
            with_fields=first @ nodes.rho,
            loss=loss,
            residual=residual,
            test_loss=test_loss,
        )


@dataclass(frozen=True)
class Density:
    """The law of omega (or omega - label) together with one label, on a grid.

    Attributes
    ----------
    x
        The grid.
    label
        The label of the loss at this grid.
    weight
        Its probability at the grid points.
    with_fields
        The mean of the fields there, times the probability.
    falling
        Minus the derivative of the density by omega, times the grid's step.
    """

    x: Float[np.ndarray, " X"]
    label: float
    weight: Float[np.ndarray, " X"]
    with_fields: Float[np.ndarray, "X F"]
    falling: Float[np.ndarray, " X"]


class ProfileAverages(Averages):
    """Averages for a loss whose g is a function of omega for few labels.

    difference: the loss depends on label - output only.
    """

    def __init__(
        self,
        setting: Setting,
        nodes: LabelNodes,
        descents: Descents,
        difference: bool,
    ):
        super().__init__(setting, nodes)
        self.descents = descents
        self.difference = difference and nodes.values is None
        self.points = FEWEST_POINTS
        if setting.problem.loss.jumps:
            self.points = FEWEST_WITH_KINKS

    def at(self, overlaps: MinimumState, everything: bool = False) -> SampleAverages:
        second = slope = loss = test_loss = product = 0.0
        with_fields = np.zeros(self.setting.fields)
        for density in self.densities(overlaps):
            y = np.full_like(density.x, density.label)
            h = proximal_point(self.descents, density.x, y, overlaps.V)
            g = (h - density.x) / overlaps.V
            second += float(density.weight @ g**2)
            slope -= float(density.falling @ g)
            with_fields = with_fields + g @ density.with_fields
            if everything:
                loss += float(density.weight @ self.descents.value(h, y))
                left_out = self.descents.value(density.x, y)
                test_loss += float(density.weight @ left_out)
                product += float(density.weight @ ((y - density.x) * g))
        return SampleAverages(
            second=second,
            slope=slope,
            with_fields=with_fields,
            loss=loss,
            residual=self.residual_of(overlaps, product, second),
            test_loss=test_loss,
        )

    def densities(self, overlaps: MinimumState) -> list[Density]:
        """Return the law of omega with each label."""
        setting = self.setting
        is_sign = type(setting.problem.labels) is Sign
        if is_sign and setting.linear and setting.offset == 0:
            return self._behind_a_sign(overlaps)
        nodes = self.nodes
        means = self.means(overlaps)
        deviation = self.deviation(overlaps)
        if not self.difference:
            assert nodes.values is not None
            grid, kernel = _kernel(means, deviation, self.points)
            columns = nodes.joint
            return [
                self._density(grid, kernel, deviation, label, means, weights, nodes.rho)
                for label, weights in zip(nodes.values, columns.T, strict=True)
            ]
        J = nodes.labels.shape[1]
        centers = (means[:, None] - nodes.labels).ravel()
        width = float(np.hypot(deviation, nodes.spread))
        grid, kernel = _kernel(centers, width, self.points)
        rho = np.repeat(nodes.rho, J, axis=0)
        weights = nodes.joint.ravel()
        return [self._density(grid, kernel, width, 0.0, centers, weights, rho)]

    @staticmethod
    def _density(
        grid: np.ndarray,
        kernel: Float[np.ndarray, "X n"],
        deviation: float,
        label: float,
        centers: np.ndarray,
        weights: np.ndarray,
        rho: Float[np.ndarray, "n F"],
    ) -> Density:
        """Return the density of a mixture of Gaussians around centers."""
        columns = np.column_stack([weights, weights * centers, weights[:, None] * rho])
        sums = kernel @ columns
        weight = sums[:, 0]
        return Density(
            x=grid,
            label=float(label),
            weight=weight,
            with_fields=sums[:, 2:],
            falling=(grid * weight - sums[:, 1]) / deviation**2,
        )

    def _behind_a_sign(self, overlaps: MinimumState) -> list[Density]:
        """Return the law of omega with labels sign(rho), by its closed form.

        With u = omega / sqrt(q), correlation c and s = sqrt(1 - c^2):
        P(y | omega) = p + (1 - 2p) Phi(y c u / s),
        E[rho; y | omega] = sqrt(T) ((1 - 2p) (y s phi(c u / s) + c u Phi(y c u / s))
        + p c u).
        """
        law = self.setting.problem.labels
        p = float(np.asarray(law.flip))  # pyright: ignore
        T = self.setting.T[0, 0]
        q = overlaps.q
        m = overlaps.m[0]
        c = m / np.sqrt(q * T)
        s = self.deviation(overlaps) / np.sqrt(q)
        u, weights = _SIGN_NODES
        densities = []
        for y in (-1.0, 1.0):
            below = ndtr(y * c * u / s)
            probability = p + (1 - 2 * p) * below
            field = y * s * normal_density(c * u / s) + c * u * below
            field = np.sqrt(T) * ((1 - 2 * p) * field + p * c * u)
            # minus the derivative of the density: (omega - E[mu]) / s^2
            mean = m / T * field
            falling = (np.sqrt(q) * u * probability - mean) / (s**2 * q)
            densities.append(
                Density(
                    x=np.sqrt(q) * u,
                    label=y,
                    weight=weights * probability,
                    with_fields=(weights * field)[:, None],
                    falling=weights * falling,
                )
            )
        return densities


_SIGN_NODES = panel_nodes([0.0])


def _kernel(
    centers: np.ndarray, deviation: float, fewest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of omega and the Gaussian around each center on it, (X, n)."""
    low = centers.min() - GRID_REACH * deviation
    high = centers.max() + GRID_REACH * deviation
    finest = min(deviation, KINK_WIDTH)
    count = int((high - low) / finest * POINTS_PER_DEVIATION)
    grid = np.linspace(low, high, int(np.clip(count, fewest, MOST_POINTS)))
    step = grid[1] - grid[0]
    z = (grid[:, None] - centers) / deviation
    return grid, normal_density(z) * (step / deviation)


class NodeAverages(Averages):
    """Averages for any convex loss of labels with any values."""

    def __init__(self, setting: Setting, nodes: LabelNodes, descents: Descents):
        super().__init__(setting, nodes)
        self.descents = descents
        noise = (
            even_nodes(SPREAD_NODES, 7.0) if nodes.spread > 0 else even_nodes(1, 0.0)
        )
        labels = nodes.labels[..., None] + nodes.spread * noise.x
        self.labels = labels.reshape(len(labels), -1, 1)
        joint = nodes.joint[..., None] * noise.weights
        self.joint = joint.reshape(len(labels), -1, 1)
        self.outputs = even_nodes(OUTPUT_NODES, 7.5)

    def at(self, overlaps: MinimumState, everything: bool = False) -> SampleAverages:
        z, weights = self.outputs
        s = self.deviation(overlaps)
        omega = self.means(overlaps)[:, None, None] + s * z
        omega, y = np.broadcast_arrays(omega, self.labels)
        h = proximal_point(self.descents, omega, y, overlaps.V)
        g = (h - omega) / overlaps.V
        joint = self.joint * weights
        second = float(np.sum(joint * g**2))
        loss = test_loss = residual = np.nan
        if everything:
            loss = float(np.sum(joint * self.descents.value(h, y)))
            test_loss = float(np.sum(joint * self.descents.value(omega, y)))
            residual = float(np.sum(joint * (y - h) ** 2))
        return SampleAverages(
            second=second,
            slope=-float(np.sum(joint * g * z)) / s,
            with_fields=np.sum(joint * g, axis=(1, 2)) @ self.nodes.rho,
            loss=loss,
            residual=residual,
            test_loss=test_loss,
        )


def averages_for(setting: Setting, refinement: int = 1) -> Averages:
    """Return the averages of the loss of a setting."""
    loss = setting.problem.loss
    nodes = label_nodes(setting, refinement)
    line = clipped_line(loss)
    if line is not None:
        return ClippedAverages(setting, nodes, line)
    descents = descents_of(loss)
    difference = not descents.is_logistic and follows_difference(descents)
    if nodes.values is not None or difference:
        return ProfileAverages(setting, nodes, descents, difference)
    return NodeAverages(setting, nodes, descents)
