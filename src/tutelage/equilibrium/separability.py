"""The ratios at which a loss without ridge has no finite minimum.

Signs are separable by weights w if y w.x > 0 for all samples; then no finite minimum of
a loss of the margin exists. n = ratio N samples of large N are separable if ratio is
below 1 / h (Candes and Sur, Annals of Statistics 48, 27, 2020), with

    h = min_t E[(y t.rho - z)_+^2],    z standard normal

Real labels are fitted exactly by weights that are not unique if ratio is below 1.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from tutelage.equilibrium.label_nodes import label_nodes
from tutelage.equilibrium.proximal import normal_density
from tutelage.equilibrium.setting import Setting

NO_PROBABILITY = 1e-12  # of a label at a node
FARTHEST = 1e4  # of t, in units of the fields


def separable_below(setting: Setting) -> float:
    """Return the ratio below which signs are separable; infinite if they always are."""
    nodes = label_nodes(setting)
    root = np.linalg.cholesky(setting.T)
    standard = nodes.rho @ np.linalg.inv(root).T
    joint = nodes.joint
    labels = nodes.labels

    def excess(t: np.ndarray) -> tuple[float, np.ndarray]:
        """E[(a - z)_+^2] = (1 + a^2) Phi(a) + a phi(a), a = y t.rho; and its gradient."""
        a = labels * (standard @ t)[:, None]
        below = ndtr(a)
        density = normal_density(a)
        value = np.sum(joint * ((1 + a**2) * below + a * density))
        slope = joint * labels * 2 * (a * below + density)
        return float(value), np.sum(slope, axis=1) @ standard

    toward = -np.sum(joint * labels, axis=1) @ standard
    bounds = [(-FARTHEST, FARTHEST)] * setting.fields
    found = minimize(excess, toward, jac=True, method="L-BFGS-B", bounds=bounds)
    # a combination of fields that gives every label its sign: h falls to zero far away
    margin = -labels * (standard @ found.x)[:, None]
    if np.all(margin[joint > NO_PROBABILITY] > 0):
        return np.inf
    return 1.0 / float(found.fun)
