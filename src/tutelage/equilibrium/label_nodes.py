"""Teacher fields and labels of one sample, as nodes of an average.

Nodes of the fields end at the places where labels jump, so that what is averaged is
smooth between them. Gaussian noise on real labels is not part of the nodes: it is a
`spread` around each label, which averages add exactly.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from tutelage.equilibrium.quadrature import (
    REACH,
    Nodes,
    even_nodes,
    panel_nodes,
    product_nodes,
    sobol_nodes,
)
from tutelage.equilibrium.setting import Setting
from tutelage.problem.labels import Function as FunctionLabels
from tutelage.problem.labels import Real, Sign

SMOOTH_NODES = 97  # even nodes of a field, for labels that do not jump
PLANE_WIDTH = 1.5  # of the panels of each of two fields
NOISE_NODES = 128  # of the randomness of a label that is a real number
NOISE_CELLS = 48  # in which changes of a discrete label are searched
SEARCH = 4001  # fields among which jumps of a label are searched
BISECTIONS = 50
FEW_LABELS = 8  # a law with so many different labels is discrete
# A change between neighbors of a search is a jump if it exceeds this share of the range
# of all labels, and does not shrink with the distance.
JUMP = 0.02


@dataclass(frozen=True)
class LabelNodes:
    """Fields rho, and the labels y_ij that they may have.

    Attributes
    ----------
    rho, weights
        Nodes of the teacher's fields.
    labels, probabilities
        The labels at each node, and how probable they are there.
    spread
        Standard deviation of Gaussian noise around each label.
    truth_rho, truth, truth_weights
        Fields and the noiseless labels by which the error is judged.
    values
        All labels, if they are the same few at each node.
    """

    rho: Float[np.ndarray, "n F"]
    weights: Float[np.ndarray, " n"]
    labels: Float[np.ndarray, "n J"]
    probabilities: Float[np.ndarray, "n J"]
    spread: float
    truth_rho: Float[np.ndarray, "k F"]
    truth: Float[np.ndarray, "k X"]
    truth_weights: Float[np.ndarray, "k X"]
    values: Float[np.ndarray, " J"] | None

    @property
    def joint(self) -> Float[np.ndarray, "n J"]:
        """The weight of each label at each node."""
        return self.weights[:, None] * self.probabilities


def label_nodes(setting: Setting, refinement: int = 1) -> LabelNodes:
    """Return the nodes of a setting; refinement: more nodes by about this factor."""
    root = np.linalg.cholesky(setting.T)
    nodes = _field_nodes(setting, root, refinement)
    rho = nodes.x @ root.T
    labels, probabilities, spread = labels_at(setting, rho)
    law = setting.problem.labels
    judged_with_noise = isinstance(law, FunctionLabels) and law.random is not False
    if judged_with_noise:
        judged = nodes
        truth = labels
        truth_weights = judged.weights[:, None] * probabilities
    else:
        judged = nodes
        if law.metric == "class" and setting.fields == 1:
            judged = _panels(setting, root, refinement)
        truth = truths_at(setting, judged.x @ root.T)[:, None]
        truth_weights = judged.weights[:, None]
    values = None
    if spread == 0:
        labels, probabilities, values = _collected(labels, probabilities)
    return LabelNodes(
        rho=rho,
        weights=nodes.weights,
        labels=labels,
        probabilities=probabilities,
        spread=spread,
        truth_rho=judged.x @ root.T,
        truth=truth,
        truth_weights=truth_weights,
        values=values,
    )


def _field_nodes(
    setting: Setting, root: Float[np.ndarray, "F F"], refinement: int
) -> Nodes:
    """Return nodes of standard normal numbers z, with rho = root z."""
    if setting.fields == 1:
        if setting.linear and not isinstance(setting.problem.labels, Sign):
            nodes = even_nodes(SMOOTH_NODES * refinement)
            return Nodes(nodes.x[:, None], nodes.weights)
        return _panels(setting, root, refinement)
    width = 1.0 / refinement
    if setting.fields == 2:
        # labels of committees jump where one field, or a sum of both, is zero
        return product_nodes(panel_nodes([], width=PLANE_WIDTH * width, reach=7.5))
    return sobol_nodes(setting.fields)


def _panels(setting: Setting, root: Float[np.ndarray, "1 1"], refinement: int) -> Nodes:
    """Return nodes (n, 1) of one field, in panels that end where labels jump."""
    breaks = [place / root[0, 0] for place in label_breaks(setting)]
    nodes = panel_nodes(breaks, width=1.0 / refinement)
    return Nodes(nodes.x[:, None], nodes.weights)


def labels_at(
    setting: Setting, rho: Float[np.ndarray, "n F"]
) -> tuple[Float[np.ndarray, "n J"], Float[np.ndarray, "n J"], float]:
    """Return labels (n, J), their probabilities and the spread of Gaussian noise."""
    problem = setting.problem
    noise: Any = problem.noise
    law = problem.labels
    output = outputs_at(setting, rho)
    if isinstance(law, Real) and not callable(problem.noise):
        return output[:, None], np.ones((len(rho), 1)), float(problem.noise)
    fields = jnp.asarray(fields_at(setting, rho))
    found = law.outcomes(jnp.asarray(output[0]), fields[0], noise)
    if found is None:
        return *_random_labels(setting, jnp.asarray(output), fields), 0.0

    def outcomes(output: jax.Array, rho: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = law.outcomes(output, rho, noise)
        assert here is not None
        return here

    labels, probabilities = jax.vmap(outcomes)(jnp.asarray(output), fields)
    return np.asarray(labels, float), np.asarray(probabilities, float), 0.0


def _random_labels(
    setting: Setting, output: jax.Array, fields: jax.Array
) -> tuple[Float[np.ndarray, "n J"], Float[np.ndarray, "n J"]]:
    """Return labels whose randomness xi is a continuous number.

    If there are few different labels, those xi at which a label changes are searched,
    so that probabilities are exact.
    """
    n = len(output)

    def labels_for(z: np.ndarray) -> np.ndarray:
        """Return the labels of all nodes (n, z)."""
        place = jnp.repeat(jnp.arange(n), len(z))
        numbers = jnp.tile(jnp.asarray(z), n)
        return np.asarray(setting.label(output[place], fields[place], numbers)).reshape(
            n, -1
        )

    ends = ndtri((np.arange(NOISE_CELLS) + 0.5) / NOISE_CELLS)
    tried = labels_for(ends)
    if len(np.unique(tried)) > FEW_LABELS:
        nodes = even_nodes(NOISE_NODES)
        labels = labels_for(nodes.x)
        return labels, np.broadcast_to(nodes.weights, labels.shape)
    edges = np.broadcast_to(ends, tried.shape)
    changes = np.argwhere(tried[:, :-1] != tried[:, 1:])
    place = changes[:, 0]
    low = ends[changes[:, 1]]
    high = ends[changes[:, 1] + 1]
    first = tried[place, changes[:, 1]]
    here = output[place]
    fields_here = fields[place]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if len(place) == 0:
            break
        value = np.asarray(setting.label(here, fields_here, jnp.asarray(middle)))
        low = np.where(value == first, middle, low)
        high = np.where(value == first, high, middle)
    # u = Phi(z) is uniform: a label has the probability of its interval of u
    ends_of_cells = np.array((edges[:, :-1] + edges[:, 1:]) / 2)
    ends_of_cells[place, changes[:, 1]] = low
    u = ndtr(ends_of_cells)
    zero = np.zeros((len(u), 1))
    return tried, np.diff(np.concatenate([zero, u, zero + 1], axis=1), axis=1)


def outputs_at(
    setting: Setting, rho: Float[np.ndarray, "n F"]
) -> Float[np.ndarray, " n"]:
    """Return the teacher's output at these fields."""
    if setting.linear:
        return rho[:, 0] + setting.offset
    teacher = setting.problem.labeler
    values = teacher.activation(jnp.asarray(fields_at(setting, rho)))
    return np.asarray(values @ jnp.asarray(teacher.readout), float)


def fields_at(
    setting: Setting, rho: Float[np.ndarray, "n F"]
) -> Float[np.ndarray, "n F"]:
    """Return the fields that a label law reads: with the biases of the teacher."""
    bias = setting.problem.labeler.bias
    if setting.linear or bias is None:
        return rho
    return rho + np.asarray(bias, dtype=float)


def truths_at(
    setting: Setting, rho: Float[np.ndarray, "n F"]
) -> Float[np.ndarray, " n"]:
    """Return the noiseless labels."""
    law = setting.problem.labels
    output = jnp.asarray(outputs_at(setting, rho))
    fields = jnp.asarray(fields_at(setting, rho))
    return np.asarray(jax.vmap(law.truth)(output, fields), float)


def _collected(
    labels: Float[np.ndarray, "n J"], probabilities: Float[np.ndarray, "n J"]
) -> tuple[
    Float[np.ndarray, "n J"], Float[np.ndarray, "n J"], Float[np.ndarray, " J"] | None
]:
    """Add the probabilities of equal labels, if there are few different ones."""
    values, place = np.unique(labels, return_inverse=True)
    if len(values) > FEW_LABELS:
        return labels, probabilities, None
    place = place.reshape(labels.shape)
    summed = np.zeros((len(labels), len(values)))
    for j in range(labels.shape[1]):
        np.add.at(summed, (np.arange(len(labels)), place[:, j]), probabilities[:, j])
    everywhere = np.broadcast_to(values, summed.shape)
    return everywhere, summed, values


def label_breaks(setting: Setting) -> list[float]:
    """Return the values of the only field at which labels jump or bend."""
    law = setting.problem.labels
    if setting.linear:
        return [] if law.metric == "squared" else [-setting.offset]
    bias = float(fields_at(setting, np.zeros((1, 1)))[0, 0])
    kinks = [x - bias for x in (0.0, *setting.problem.labeler.activation.breaks)]
    scale = np.sqrt(setting.T[0, 0])

    def label(rho: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return truths_at(setting, rho[:, None])

    return sorted({*kinks, *jumps_of(label, REACH * scale)})


def jumps_of(function, reach: float) -> list[float]:
    """Return the places within reach where a function of an array jumps."""
    x = np.linspace(-reach, reach, SEARCH)
    y = function(x)
    range_of_y = np.ptp(y)
    if range_of_y == 0:
        return []
    places = np.flatnonzero(np.abs(np.diff(y)) > JUMP * range_of_y)
    left = x[places]
    right = x[places + 1]
    low = y[places]
    high = y[places + 1]
    if places.size == 0:
        return []
    for _ in range(BISECTIONS):
        middle = (left + right) / 2
        value = function(middle)
        goes_left = np.abs(value - low) > np.abs(value - high)
        right = np.where(goes_left, middle, right)
        high = np.where(goes_left, value, high)
        left = np.where(goes_left, left, middle)
        low = np.where(goes_left, low, value)
    is_jump = np.abs(high - low) > JUMP / 2 * range_of_y
    return [float(place) for place in left[is_jump]]
