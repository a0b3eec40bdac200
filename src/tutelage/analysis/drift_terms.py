"""The central equations: dR/dalpha and dQ/dalpha at a state, term by term.

With delta_i = v_i g'(lambda_i) Delta and Delta = sum_m v*_m g*(rho_m) + sigma xi
- sum_k v_k g(lambda_k), isotropic inputs and batch B (Saad and Solla 1995),
    dR_in/dalpha = eta E[delta_i rho_n]                               (gradient)
    dQ_ik/dalpha = eta (E[delta_i lambda_k] + E[delta_k lambda_i])    (gradient)
                   + (eta^2/B) v_i v_k E[g'_i g'_k Delta_0^2]         (steps)
                   + (eta^2/B) v_i v_k sigma^2 J2(i, k)               (label noise)
where Delta_0 is Delta without noise. The three terms are differences of the same
right-hand side: of gradient flow, of SGD without label noise, and of SGD. This holds
for every spectrum, decay and constraint, because all of them are linear in A, B and G.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage._html import ResultCard
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLOSED
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics
from tutelage.stream.order_parameters import Overlaps, flatten, unflatten

NEEDED = (*CLOSED, "fixed momentum")


@dataclass(frozen=True, repr=False)
class DriftTerm(ResultCard):
    """Rates of change per unit of alpha that one term of the equations gives.

    Attributes
    ----------
    R, Q : arrays (K, M) and (K, K)
        dR/dalpha and dQ/dalpha of the covariances of the fields.
    readout : array (K,)
        Zero for a frozen readout.
    bias : array (K,) or None
        None without biases.
    r, q : arrays (L, K, M) and (L, K, K)
        The rates of each level of the spectrum.
    """

    R: Float[np.ndarray, "K M"]
    Q: Float[np.ndarray, "K K"]
    readout: Float[np.ndarray, " K"]
    bias: Float[np.ndarray, " K"] | None
    r: Float[np.ndarray, "L K M"]
    q: Float[np.ndarray, "L K K"]

    def __repr__(self) -> str:
        K, M = self.R.shape
        return f"<DriftTerm: dR/dalpha ({K}, {M}), dQ/dalpha ({K}, {K})>"


@dataclass(frozen=True, repr=False)
class OverlapDrift(ResultCard):
    """The right-hand sides of the differential equations at a state, term by term.

    Attributes
    ----------
    R, Q, readout, bias : arrays
        dR/dalpha and so on: the sum of the three terms. bias is None without biases.
    gradient : DriftTerm
        The terms of order eta, weight decay included: gradient flow.
    steps : DriftTerm
        The terms of order eta^2 that single steps add without label noise.
    label_noise : DriftTerm
        The terms of order eta^2 sigma^2.
    problem, start
        Those of the call.
    """

    R: Float[np.ndarray, "K M"]
    Q: Float[np.ndarray, "K K"]
    readout: Float[np.ndarray, " K"]
    bias: Float[np.ndarray, " K"] | None
    gradient: DriftTerm
    steps: DriftTerm
    label_noise: DriftTerm
    problem: Problem
    start: Start

    def __repr__(self) -> str:
        return f"<OverlapDrift: {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        K, M = self.R.shape
        blocks = [
            f"drift of {K} student and {M} teacher units per unit of alpha",
            _block("dR/dalpha", self.R),
            _block("dQ/dalpha", self.Q),
            _block("  of order eta", self.gradient.Q),
            _block("  of order eta^2", self.steps.Q),
            _block("  of order eta^2 sigma^2", self.label_noise.Q),
        ]
        if self.problem.student.train_readout:
            blocks.append(_block("dv/dalpha", self.readout))
        if self.bias is not None and self.problem.student.train_bias:
            blocks.append(_block("db/dalpha", self.bias))
        return "\n".join(blocks)


def _block(name: str, values: np.ndarray) -> str:
    """Return an array below its name, indented."""
    printed = np.array2string(values, precision=6, suppress_small=True, prefix="    ")
    return f"{name}:\n    {printed}"


def drift(problem: Problem, start: Start) -> OverlapDrift:
    """Return dR/dalpha and dQ/dalpha at a state, with their terms.

    They are the right-hand sides that `solve` integrates, with alpha = steps / N. The
    terms of order eta, those of order eta^2 and those of the label noise are separate
    fields.

    Parameters
    ----------
    problem : Problem
        Squared loss on real labels, any activation. A schedule counts with its value
        at time zero.
    start : Start
        The state: its overlaps, readout and biases.

    Returns
    -------
    OverlapDrift

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(1, "linear")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5), noise=0.2)
    >>> rates = tu.analysis.drift(problem, tu.Start(R=[[0.0]], Q=[[0.0]]))
    >>> print(round(float(rates.R[0, 0]), 6))  # eta (T - R)
    0.5
    >>> print(round(float(rates.label_noise.Q[0, 0]), 6))  # eta^2 sigma^2
    0.01
    """
    require_problem(problem, "drift", NEEDED)
    start = require_start(start).without_dim()
    flow = _rates(problem, start, gradient_flow=True)
    without_noise = _rates(problem.replace(noise=0.0), start)
    total = _rates(problem, start)
    gradient = _term(problem, flow)
    steps = _term(problem, _difference(without_noise, flow))
    label_noise = _term(problem, _difference(total, without_noise))
    whole = _term(problem, total)
    return OverlapDrift(
        R=whole.R,
        Q=whole.Q,
        readout=whole.readout,
        bias=whole.bias,
        gradient=gradient,
        steps=steps,
        label_noise=label_noise,
        problem=problem,
        start=start,
    )


def _rates(problem: Problem, start: Start, gradient_flow: bool = False) -> Overlaps:
    """Return the rates of change of the state at time zero."""
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow)
    vector = np.asarray(flatten(state))
    return unflatten(LocalDynamics(system, state).drift(vector), state)


def _difference(total: Overlaps, part: Overlaps) -> Overlaps:
    """Return the rates that a part of the terms leaves."""
    bias = None
    if total.bias is not None:
        bias = total.bias - part.bias
    return Overlaps(
        r=total.r - part.r,
        q=total.q - part.q,
        readout=total.readout - part.readout,
        bias=bias,
    )


def _term(problem: Problem, rates: Overlaps) -> DriftTerm:
    """Return rates per level with their sums over levels, sum_l p_l lam_l x_l."""
    weights = np.asarray(problem.inputs.weights, float)
    return DriftTerm(
        R=np.einsum("l,lkm->km", weights, rates.r),
        Q=np.einsum("l,lik->ik", weights, rates.q),
        readout=np.asarray(rates.readout),
        bias=rates.bias,
        r=rates.r,
        q=rates.q,
    )
