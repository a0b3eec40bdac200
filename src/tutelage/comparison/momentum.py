"""The effect of a fixed momentum on the expected finite-N gap.

With momentum beta and velocities v (w <- w + v), the vectors z = w + m v with
m = beta / (1 - beta) make exactly the steps of plain SGD with the rate eta/(1 - beta),
but the error is made at w. Per level, the overlaps of the velocities S = N v v^T and
U = N v (w|w*)^T are stationary after 1/(1 - beta) steps. With the squared noise of one
step g = dq/dalpha - (X C + transpose) (that is eta^2 lam G / batch, the rates being
those of plain SGD with eta/(1 - beta)):

    S = g (1 - beta) / (1 + beta),
    U = X C + (S / (1 - beta) | 0),
    q_z - q_w = (m (dq/dalpha + S) + m^2 S) / N,

and u_z - u_w = m du/dalpha / N for all other variables. A sample moves q_z by its force
times the fields of z, not of w, which adds m (X U^T + transpose) / N to dq_z/dalpha.
Corrections are of relative order 1/(N (1 - beta)).
"""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from tutelage.comparison.mean_steps import MeanSteps
from tutelage.stream.order_parameters import Overlaps, flatten


@dataclass(frozen=True)
class MomentumTerms:
    """The effects of a fixed momentum, times N, in flat coordinates at each instant.

    lag: overlaps of z minus overlaps of w. source: what dq/dalpha of z gains because z
    and w differ. Both vanish for beta = 0.
    """

    lag: Float[np.ndarray, "instant size"]
    source: Float[np.ndarray, "instant size"]


def momentum_terms(beta: float, steps: MeanSteps, rates: Overlaps) -> MomentumTerms:
    """Return the terms to first order in 1/N (see the head of this file).

    rates: du/dalpha of the theory at each instant.
    """
    m = beta / (1 - beta)
    K = steps.along.shape[-2]
    X = steps.along
    XC = X @ steps.overlaps
    g = np.asarray(rates.q) - _twice_symmetric(XC[..., :K])
    S = g * (1 - beta) / (1 + beta)
    U = XC.copy()
    U[..., :K] += S / (1 - beta)
    source = m * _twice_symmetric(X @ np.swapaxes(U, -1, -2))
    lag = jax.tree.map(lambda rate: m * np.asarray(rate), rates)
    lag = lag._replace(q=lag.q + m * (1 + m) * S)
    return MomentumTerms(
        lag=np.asarray(flatten(lag)),
        source=np.asarray(flatten(change_of_q(rates, source))),
    )


def change_of_q(states: Overlaps, q: Float[np.ndarray, "instant L K K"]) -> Overlaps:
    """Return a change of states that changes q alone."""
    bias = None
    if states.bias is not None:
        bias = 0 * states.bias
    return Overlaps(
        r=0 * states.r, q=q, readout=0 * states.readout, bias=bias, velocity=None
    )


def _twice_symmetric(x: np.ndarray) -> np.ndarray:
    """Return x plus its transpose."""
    return x + np.swapaxes(x, -1, -2)
