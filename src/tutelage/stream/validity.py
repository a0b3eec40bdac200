"""A report of how far the theory can be trusted, about one solve.

docs/notation.md, "What the limit drops", explains its lines.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage._html import ResultCard
from tutelage.problem.traits import CLASSIC, missing_traits
from tutelage.result.trajectory import Trajectory
from tutelage.stream import linearized
from tutelage.stream.accuracy import POOR, averages_report, in_words, sampling_error
from tutelage.stream.moments.quadrature import Quadrature
from tutelage.stream.optimizers import Scales
from tutelage.stream.order_parameters import (
    OrderParameters,
    Overlaps,
    flatten,
    initial_overlaps,
)
from tutelage.stream.perfect_learning import critical_rate
from tutelage.stream.solve import LIMIT, largest_rate

INSTANTS = 40  # along the curve up to the plateau
# Asymmetry / noise above which the initial condition determines an escape, and below
# which noise does in every run.
START_DECIDES = 10.0
NOISE_DECIDES = 3.0
# Of the speed after an instant, which is then an escape from a plateau.
STEEP_RISE = 3.0
# Traits that the noise of an escape needs.
FREE = (
    "one Gaussian",
    "sum of samples",
    "unscaled readout",
    "differentiable",
    "free norms",
    "all levels",
    "fixed momentum",
    "finite scatter",
)


@dataclass(frozen=True)
class Validity(ResultCard):
    """A report of how far one solve can be trusted; `print` it.

    dim: N, if known. limit_ratio: eta lam_max / N (what the limit drops). dim_needed: N
    at which that is 0.05. effective_rank: (sum p lam)^2 / sum p lam^2, as a fraction of
    N. start_to_noise: asymmetry of the initial condition in the unstable direction of
    the plateau, divided by the SGD noise there at this N (large: the initial condition
    determines the escape; small: noise does, and single runs differ from this curve at
    any N). rate_to_critical: lr / eta_c. averages: how the rule is averaged;
    averages_error: estimated relative errors of A and B, and of G. sampling_error: the
    relative error that sampled averages leave in the error curve (95% confidence, at
    the worst time). None: does not apply, `notes` say why.

    >>> import tutelage as tu
    >>> erf = tu.Network(2, "erf")
    >>> problem = tu.Problem(erf, erf, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> theory = tu.solve(problem, start, times=tu.linear_times(10, 11))
    >>> theory.validity.limit_ratio, theory.validity.effective_rank
    (0.0005, 1.0)
    >>> round(theory.validity.rate_to_critical, 4)
    0.2167
    """

    dim: int | None
    limit_ratio: float | None
    dim_needed: float
    effective_rank: float
    start_to_noise: float | None
    noise_dim: float | None
    rate_to_critical: float | None
    critical_rate: float | None
    averages: str
    averages_error: tuple[float, float] | None
    sampling_error: float | None
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the report, one statement per line."""
        lines = [f"effective rank: {100 * self.effective_rank:.3g}% of N"]
        lines.append(f"limit: {self._about_limit()}")
        if self.start_to_noise is not None:
            ratio = f"asymmetry/noise = {self.start_to_noise:.2g} at N = {self.dim}"
            lines.append(f"escape: {ratio}: {who_decides(self.start_to_noise)}")
        elif self.noise_dim is not None:
            lines.append(
                "escape: SGD noise matters for N near or below "
                f"{self.noise_dim:.3g}, the initial condition far above it"
            )
        if self.rate_to_critical is not None:
            word = "stable" if self.rate_to_critical < 1 else "NOT stable"
            lines.append(
                f"learning rate: {self.rate_to_critical:.3g} of the critical "
                f"{self.critical_rate:.6g}: zero error is {word}"
            )
        lines.append(f"averages: {in_words(self.averages, self.averages_error)}")
        if self.sampling_error is not None:
            line = (
                "sampling: relative error of the error curve below "
                f"{self.sampling_error:.1e} (95% confidence)"
            )
            if not self.sampling_error <= POOR:  # NaN too
                line += ": NOT accurate"
            lines.append(line)
        return lines + list(self.notes)

    def _about_limit(self) -> str:
        """Return what the report says about the limit of large N."""
        if self.limit_ratio is None:
            return (
                "N unknown; corrections of size eta lam_max / N stay below "
                f"{LIMIT} for N above {self.dim_needed:.0f}"
            )
        word = "negligible" if self.limit_ratio < LIMIT else "NOT negligible"
        return (
            f"eta lam_max / N = {self.limit_ratio:.2g} at N = {self.dim}: "
            f"finite-N corrections are {word}"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())


def who_decides(start_to_noise: float) -> str:
    """Say whether the initial condition or SGD noise determines the escape.

    start_to_noise: the ratio of their amplitudes.
    """
    if start_to_noise > START_DECIDES:
        return "the initial condition determines the escape"
    if start_to_noise > NOISE_DECIDES:
        return (
            "SGD noise, not only the initial condition, determines the escape of some "
            "runs"
        )
    return "SGD noise determines the escape of single runs"


def assess(trajectory: Trajectory) -> Validity:
    """Return the report of one solve."""
    problem = trajectory.problem
    start = trajectory.start
    assert problem is not None
    assert start is not None
    inputs = problem.inputs
    settings = dict(trajectory.settings)
    gradient_flow = bool(settings.get("gradient_flow", False))
    quadrature = settings.get("quadrature")
    if quadrature is not None:
        quadrature = Quadrature(*quadrature)
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow, True, quadrature)
    dim = start.dim or inputs.known_dim
    largest = largest_rate(problem)
    noise_dim = None
    start_to_noise = None
    critical = None
    rate_to_critical = None
    notes: list[str] = []
    if not gradient_flow and flatten(state).size <= linearized.LARGEST_STATE:
        noise_dim = _escape_noise(system, trajectory, state, notes)
        if noise_dim is not None and dim is not None:
            start_to_noise = float(np.sqrt(dim / noise_dim))
        if not missing_traits(problem, (*CLASSIC, "plain SGD")) and not callable(
            problem.optimizer.lr
        ):
            critical = critical_rate(problem, t)
    notes += system.steps.notes(problem, dim)
    if critical is not None:
        rate_to_critical = float(np.asarray(problem.optimizer.lr)) / critical
    averages, averages_error = averages_report(system, trajectory)
    if averages_error is not None:
        pairs, spread = averages_error
        averages_error = (pairs, spread)  # a plain tuple in the report
    squares = (inputs.fractions * inputs.eigenvalues**2).sum()
    return Validity(
        dim=dim,
        limit_ratio=None if dim is None else largest / dim,
        dim_needed=largest / LIMIT,
        effective_rank=float(inputs.weights.sum() ** 2 / squares),
        start_to_noise=start_to_noise,
        noise_dim=noise_dim,
        rate_to_critical=rate_to_critical,
        critical_rate=critical,
        averages=averages,
        averages_error=averages_error,
        sampling_error=sampling_error(trajectory),
        notes=tuple(notes),
    )


def _escape_noise(
    system: OrderParameters, trajectory: Trajectory, like: Overlaps, notes: list[str]
) -> float | None:
    """Return the N at which SGD noise deflects an escape as far as the start does.

    Along the solved curve the adjoint of the unstable direction of the plateau is
    carried back to time zero; the variance that the steps feed into it is integrated on
    the way.
    """
    recorded = trajectory.variables
    if "r" not in recorded or missing_traits(system.problem, FREE):
        return None
    states = Overlaps(
        r=recorded["r"],
        q=recorded["q"],
        readout=recorded["readout"],
        bias=None if like.bias is None else recorded["bias"],
        scales=None if like.scales is None else Scales(vectors=recorded["scale"]),
    )
    times = np.asarray(trajectory.times)
    vectors = np.asarray(flatten(states))
    local = linearized.LocalDynamics(system, like)
    drifts = local.drifts(vectors, times)
    slowest = slowest_before_rise(np.linalg.norm(drifts, axis=1))
    if slowest is None:
        notes.append("escape: no escape from a plateau within these times")
        return None
    chosen = np.linspace(0, slowest, INSTANTS).astype(int)
    times = times[chosen]
    vectors = vectors[chosen]
    jacobians = local.jacobians(vectors, times)
    rates, directions = linearized.growing_directions(jacobians[-1])
    if rates.size == 0:
        return None
    # what the start leaves in the growing directions at the slowest instant
    amplitudes = drifts[slowest] @ directions / rates
    propagators = linearized.propagators(times, jacobians)
    carried = linearized.propagate_adjoint(propagators, directions)
    fed = linearized.noise_covariances(local, times, vectors, carried)
    until = np.trapezoid(fed, times, axis=0)
    # what is fed later counts less and less: fed exp(-(rate_i + rate_j) t), integrated
    after = fed[-1] / (rates[:, None] + rates)
    distance = amplitudes @ np.linalg.pinv(until + after) @ amplitudes
    return float(1 / distance) if distance > 0 else None


def slowest_before_rise(speed: Float[np.ndarray, " time"]) -> int | None:
    """Return the slowest instant after which the dynamics speeds up at least threefold.

    It is the index of a recorded time, at which the speed has a local minimum.
    """
    largest_later = np.maximum.accumulate(speed[::-1])[::-1]
    rise = largest_later / np.maximum(speed, 1e-300)
    plateaus = []
    for i in range(1, speed.size - 1):
        is_lowest = speed[i] <= min(speed[i - 1], speed[i + 1])
        if is_lowest and rise[i] > STEEP_RISE:
            plateaus.append(i)
    return min(plateaus, key=lambda i: speed[i]) if plateaus else None
