"""Where the theory may be trusted: a report about one solve. docs/notation.md, "What the limit drops", explains its lines."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage._html import ResultCard
from tutelage._solve import LIMIT, largest_rate
from tutelage.accuracy import POOR, averages_report, in_words, sampling_error
from tutelage.dynamics import linearized
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, initial_overlaps
from tutelage.dynamics.perfect_learning import critical_rate
from tutelage.moments.quadrature import Quadrature
from tutelage.problem.traits import CLASSIC, missing_traits
from tutelage.trajectory import Trajectory

MOMENTS = 40  # along the curve up to the plateau
START_DECIDES = 10.0  # asymmetry / noise above which the initial condition determines an escape
# for the noise of an escape
FREE = (
    "one Gaussian",
    "differentiable",
    "free norms",
    "all levels",
    "fixed momentum",
    "finite scatter",
)


@dataclass(frozen=True)
class Validity(ResultCard):
    """Where a solve may be trusted; `print` it.

    dim: N, if known. limit_ratio: eta lam_max / N (what the limit drops). dim_needed: N at which that is 0.05.
    effective_rank: (sum p lam)^2 / sum p lam^2, as a fraction of N. start_to_noise: asymmetry of the initial condition in the unstable
    direction of the plateau, divided by the SGD noise there at this N (large: the initial condition determines the escape;
    small: noise does, and single runs differ from this curve at any N). rate_to_critical: lr / eta_c.
    averages: how the rule is averaged; averages_error: estimated relative errors of A and B, and of G. sampling_error: the
    relative error that sampled averages leave in the error curve (95% confidence, at the worst time). None: does not apply,
    `notes` say why.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem, dim=1000), times=tu.linear_times(10, 11))
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
        """The report, one statement per line."""
        out = [f"effective rank: {100 * self.effective_rank:.3g}% of N"]
        if self.limit_ratio is None:
            above = f"for N above {self.dim_needed:.0f}"
            out.append(f"limit: N unknown; corrections of size eta lam_max / N stay below {LIMIT} {above}")
        else:
            word = "negligible" if self.limit_ratio < LIMIT else "NOT negligible"
            size = f"eta lam_max / N = {self.limit_ratio:.2g} at N = {self.dim}"
            out.append(f"limit: {size}: finite-N corrections are {word}")
        if self.start_to_noise is not None:
            ratio, words = self.start_to_noise, who_decides(self.start_to_noise)
            out.append(f"escape: asymmetry/noise = {ratio:.2g} at N = {self.dim}: {words}")
        elif self.noise_dim is not None:
            N = f"{self.noise_dim:.3g}"
            out.append(f"escape: SGD noise matters for N near or below {N}, the initial condition far above it")
        if self.rate_to_critical is not None:
            word = "zero error is stable" if self.rate_to_critical < 1 else "zero error is NOT stable"
            out.append(f"learning rate: {self.rate_to_critical:.3g} of the critical {self.critical_rate:.6g}: {word}")
        out.append(f"averages: {in_words(self.averages, self.averages_error)}")
        if self.sampling_error is not None:
            word = "" if self.sampling_error <= POOR else ": NOT accurate"
            out.append(f"sampling: relative error of the error curve below {self.sampling_error:.1e} (95% confidence){word}")
        return out + list(self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def who_decides(start_to_noise: float) -> str:
    """Whether the initial condition or SGD noise determines the escape, in words, from the ratio of their amplitudes."""
    if start_to_noise > START_DECIDES:
        return "the initial condition determines the escape"
    both = "SGD noise, not only the initial condition, determines the escape of some runs"
    return both if start_to_noise > 3 else "SGD noise determines the escape of single runs"


def assess(trajectory: Trajectory) -> Validity:
    """The report of one solve."""
    problem, start, settings = trajectory.problem, trajectory.start, dict(trajectory.settings)
    assert problem is not None
    assert start is not None
    gradient_flow, given = bool(settings.get("gradient_flow", False)), settings.get("quadrature")
    (state, t), inputs = initial_overlaps(problem, start), problem.inputs
    system = OrderParameters(problem, t, gradient_flow, True, None if given is None else Quadrature(*given))
    dim, largest, noise_dim, critical, notes = start.dim or inputs.known_dim, largest_rate(problem), None, None, list[str]()
    if not gradient_flow and flatten(state).size <= linearized.LARGEST_STATE:
        noise_dim = _escape_noise(system, trajectory, state, notes)
        if not missing_traits(problem, CLASSIC) and not callable(problem.sgd.lr):
            critical = critical_rate(problem, t)
    averages, averages_error = averages_report(system, trajectory)
    return Validity(
        dim=dim,
        limit_ratio=None if dim is None else largest / dim,
        dim_needed=largest / LIMIT,
        effective_rank=float(inputs.weights.sum() ** 2 / (inputs.fractions * inputs.eigenvalues**2).sum()),
        start_to_noise=None if noise_dim is None or dim is None else float(np.sqrt(dim / noise_dim)),
        noise_dim=noise_dim,
        rate_to_critical=None if critical is None else float(np.asarray(problem.sgd.lr)) / critical,
        critical_rate=critical,
        averages=averages,
        averages_error=averages_error,
        sampling_error=sampling_error(trajectory),
        notes=tuple(notes),
    )


def _escape_noise(system: OrderParameters, trajectory: Trajectory, like: Overlaps, notes: list[str]) -> float | None:
    """The N at which SGD noise pushes the unstable direction of the plateau as far as the start does.

    Along the solved curve the adjoint of the unstable direction is carried back to time zero; the variance that the steps
    feed into it is integrated on the way.
    """
    seen = trajectory.variables
    if "r" not in seen or missing_traits(system.problem, FREE):
        return None
    bias = None if like.bias is None else seen["bias"]
    states, times = Overlaps(seen["r"], seen["q"], seen["readout"], bias), np.asarray(trajectory.times)
    local, vectors = linearized.LocalDynamics(system, like), np.asarray(flatten(states))
    drifts = local.drifts(vectors, times)
    speed = np.linalg.norm(drifts, axis=1)
    slowest = slowest_before_rise(speed)
    if slowest is None:
        notes.append("escape: no escape from a plateau within these times")
        return None
    chosen = np.linspace(0, slowest, MOMENTS).astype(int)
    times, vectors = times[chosen], vectors[chosen]
    jacobians = local.jacobians(vectors, times)
    rates, directions = linearized.growing_directions(jacobians[-1])
    if rates.size == 0:
        return None
    amplitudes = drifts[slowest] @ directions / rates
    carried = linearized.propagate_adjoint(linearized.propagators(times, jacobians), directions)
    fed = linearized.noise_covariances(local, times, vectors, carried)
    until = np.trapezoid(fed, times, axis=0)
    after = fed[-1] / (rates[:, None] + rates)  # what is fed later counts less and less
    distance = amplitudes @ np.linalg.pinv(until + after) @ amplitudes
    return float(1 / distance) if distance > 0 else None


def slowest_before_rise(speed: Float[np.ndarray, " time"]) -> int | None:
    """Index of the slowest recorded moment after which the dynamics speeds up at least threefold."""
    rise = np.maximum.accumulate(speed[::-1])[::-1] / np.maximum(speed, 1e-300)
    lowest = [i for i in range(1, speed.size - 1) if speed[i] <= min(speed[i - 1], speed[i + 1]) and rise[i] > 3]
    return min(lowest, key=lambda i: speed[i]) if lowest else None
