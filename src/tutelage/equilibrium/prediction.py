"""The best prediction of a label, when the weights are known as well as possible.

Given omega, the field is N(omega, V). The most probable label has the fewest errors, the
mean of the label the smallest squared error.
"""

from typing import NamedTuple

import numpy as np

from tutelage.equilibrium.information import (
    CellEvidence,
    Evidence,
    LinearEvidence,
    Posterior,
    Predictive,
    SmoothEvidence,
)
from tutelage.equilibrium.label_nodes import (
    jumps_of,
    label_breaks,
    labels_at,
    truths_at,
)
from tutelage.equilibrium.quadrature import REACH, even_nodes, panel_nodes
from tutelage.equilibrium.setting import Setting

TINY = 1e-14  # smallest q and V in averages
INNER_NODES = 241


class Prediction(NamedTuple):
    """The smallest errors and losses that a prediction can have.

    error: against noiseless labels. label_error: the probability of a wrong sign on a
    fresh label, NaN for real ones. loss: squared loss of real labels, -ln Z of others.
    """

    error: float
    label_error: float
    loss: float


def best_prediction(
    setting: Setting,
    evidence: Evidence,
    truth_cells: CellEvidence | None,
    q: float,
    V: float,
) -> Prediction:
    """Return the errors of the best prediction at these overlaps.

    truth_cells: what `truth_cells_of` returns.
    """
    posterior = Posterior(q=max(q, TINY), V=max(V, TINY))
    problem = setting.problem
    if V == 0 and problem.labels.metric == "squared":
        return Prediction(0.0, np.nan, 0.0)  # perfect knowledge, only without noise
    predictive = evidence.predictive(posterior)
    if problem.labels.metric == "class":
        assert isinstance(predictive, Predictive)
        error = predictive.wrong
        if truth_cells is not None:
            error = truth_cells.predictive(posterior).wrong
        return Prediction(error, predictive.wrong, predictive.log_loss)
    if isinstance(evidence, LinearEvidence):
        variance = V
    elif isinstance(evidence, CellEvidence | SmoothEvidence):
        assert predictive is not None
        variance = predictive.variance
    else:
        variance = _unexplained(setting, posterior)
    noise = 0.0
    if not callable(problem.noise):
        noise = float(problem.noise)
    return Prediction(variance / 2, np.nan, (variance + noise**2) / 2)


def truth_cells_of(setting: Setting) -> CellEvidence | None:
    """Return the noiseless classes in cells of the field.

    None if the error is not a matter of classes, or is judged by random labels.
    """
    law = setting.problem.labels
    if law.metric != "class" or getattr(law, "random", False) is not False:
        return None
    reach = REACH * np.sqrt(setting.T[0, 0])

    def truth(rho: np.ndarray) -> np.ndarray:
        return truths_at(setting, rho[:, None])

    edges = np.array(jumps_of(truth, reach))
    bounds = np.concatenate([[-reach], edges, [reach]])
    labels = truth((bounds[:-1] + bounds[1:]) / 2)
    values = np.unique(labels)
    return CellEvidence(edges, (labels[:, None] == values) * 1.0, values, 0.0)


def _unexplained(setting: Setting, posterior: Posterior) -> float:
    """Return the variance of f(rho) that is left when omega is given."""
    breaks = np.array(label_breaks(setting)) / np.sqrt(posterior.q)
    u, outer = panel_nodes(breaks, width=0.5)
    x, inner = even_nodes(INNER_NODES)
    rho = np.sqrt(posterior.q) * u[:, None] + np.sqrt(posterior.V) * x
    f = labels_at(setting, rho.reshape(-1, 1))[0][:, 0].reshape(rho.shape)
    mean = f @ inner
    # the variance at each omega, without the difference of two large numbers
    return float(outer @ ((f - mean[:, None]) ** 2 @ inner))
