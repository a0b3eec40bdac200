"""`optimize`: which learning-rate schedule ends with the smallest error?

The theory contains the noise of the gradient (G, with the label noise in it), so it predicts what every schedule costs.
"optimal" minimizes the final or the integrated error over schedules by following the gradient of the solved theory; "greedy"
takes at every moment the rate that lowers the error fastest (search.py). The best constant rate is found for comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.result import AnalysisResult
from tutelage.analysis.schedules.search import Descent, Search, best_constants, descend, greedy_rates
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Interpolated, Problem, SlowMomentum, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.schedules import rate_at
from tutelage.problem.start import require_start
from tutelage.problem.traits import missing_traits, require_traits
from tutelage.trajectory import Trajectory

SOUGHT_RATES = {"lr": ("lr",), "readout_lr": ("readout_lr",), "both": ("lr", "readout_lr")}
LOWEST_FACTOR, HIGHEST_FACTOR = 1e-3, 1e2  # default bounds, in units of the problem's own learning rate
AT_BOUND = 1e-3  # a rate whose logarithm is this close to a bound lies on it
SMALLEST_VALUE = 1e-12  # errors below this are not solved to a digit
WORSE_FACTOR = 1.01  # a value this much larger is worse


@dataclass(frozen=True)
class Candidate:
    """One choice of rates (numbers or schedules, by name), its error at times alpha, and its value."""

    rates: dict[str, Any]
    times: np.ndarray
    error: np.ndarray
    value: float

    @property
    def rate(self) -> Any:
        """The learning rate (the readout's, where only that was sought)."""
        return next(iter(self.rates.values()))

    @property
    def final_error(self) -> float:
        """e_g at the last time."""
        return float(self.error[-1])


@dataclass(frozen=True)
class OptimalSchedule(AnalysisResult):
    """What `optimize` found. problem: the problem with the designed schedules, as `solve` and `simulate` take it.

    schedules: by name ("lr", "readout_lr"). value: the objective, e_g at the end or its integral. trajectory: the theory
    under the schedules. best_constant, greedy: what else was tried (greedy: None where it has no meaning). history: the
    objective after each iteration. slope: largest |d ln value / d ln rate| that is left, 0 at an optimum; None for "greedy".
    notes: warnings that belong to the numbers.
    """

    problem: Problem
    objective: str
    method: str
    schedules: dict[str, Interpolated]
    value: float
    trajectory: Trajectory
    best_constant: Candidate
    greedy: Candidate | None
    history: np.ndarray
    slope: float | None
    notes: tuple[str, ...]

    @property
    def schedule(self) -> Interpolated:
        """The learning rate (the readout's, where only that was sought), for `SGD(lr=...)`."""
        return next(iter(self.schedules.values()))

    @property
    def final_error(self) -> float:
        """e_g at the end under the schedules."""
        return float(self.trajectory.error[-1])

    @property
    def gain(self) -> float:
        """How many times smaller the objective is than with the best constant rate."""
        return self.best_constant.value / self.value

    def __str__(self) -> str:
        end, what = self.trajectory.times[-1], "final" if self.objective == "final" else "integrated"
        names = " and ".join(self.schedules)
        rows = [(self.method, self.value, self.schedules), ("constant", self.best_constant.value, self.best_constant.rates)]
        if self.greedy is not None and self.method != "greedy":
            rows.append(("greedy", self.greedy.value, self.greedy.rates))
        lines = [f"schedule of {names} for the smallest {what} error at alpha = {end:g}"]
        for name, value, rates in rows:
            words = ", ".join(f"{which} {_rate_in_words(rate)}" for which, rate in rates.items())
            lines.append(f"  {name:<9} {value:<11.4g} {words}")
        lines.append(f"gain over the best constant rate: {self.gain:.3g}")
        if self.slope is not None:
            lines.append(f"largest slope d ln value / d ln rate left: {self.slope:.1e}")
        return "\n".join([*lines, *self.notes])


def _rate_in_words(rate: Any) -> str:
    if not callable(rate):
        return f"{rate:.4g}"
    values, top = np.asarray(rate.values), int(np.argmax(rate.values))
    return f"from {values[0]:.3g} to {values[-1]:.3g}, at most {values[top]:.3g} at alpha = {rate.times[top]:.3g}"


def optimize(
    problem: Problem,
    start: Start,
    t_max: float,
    *,
    objective: str = "final",
    pieces: ArrayLike = 15,
    which: str = "lr",
    method: str = "optimal",
    bounds: tuple[float, float] | None = None,
    guess: Any = None,
    iterations: int = 100,
    quadrature: Quadrature | None = None,
) -> OptimalSchedule:
    """The learning-rate schedule on [0, t_max] that makes the error smallest, in the limit of large N.

    objective: "final", e_g(t_max), or "integrated", int_0^t_max e_g dalpha. which: "lr", "readout_lr" or "both"; a rate
    that is None in the problem follows lr. pieces: number of pieces of the schedule, between knots that are dense at both
    ends, t_max (1 - cos(pi i / pieces)) / 2; or the times of the knots. method: "optimal", the best such schedule, or
    "greedy", the locally optimal rate a / (2 b) at each moment. bounds: lowest and highest rate allowed (default: 1/1000 and
    100 times the problem's own). guess: a rate or schedule to start from too. iterations: at most so many from each start.
    quadrature: as in `solve`; activations without closed form take minutes, a coarser rule less.

    The search is local, from several starts: the best constant rate (so the result is never worse), other rates that stand
    out among the constant ones, a large one, and the greedy schedule where it is better than all of these.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5), noise=0.1)
    >>> design = tu.schedules.optimize(problem, tu.Start([[0.0]], [[0.0]]), t_max=20.0, pieces=3, iterations=10)
    >>> design.gain > 1                                                  # over the best constant rate
    True
    """
    objective = checks.known("objective", objective, ("final", "integrated"))
    method = checks.known("method", method, ("optimal", "greedy"))
    names = SOUGHT_RATES[checks.known("which", which, SOUGHT_RATES)]
    iterations = checks.as_count("iterations", iterations)
    _check_problem(problem, start, names, method)
    t_max = checks.as_positive("t_max", t_max)
    bounds = _bounds(problem, names, bounds)
    search = Search(problem, start, names, _knots(pieces, t_max), t_max, objective == "final", bounds, quadrature)
    logs, others = best_constants(search)
    constant = _constant_candidate(search, logs)
    greedy = _greedy_candidate(search)
    if method == "greedy":
        if greedy is None:
            raise InputError(
                f"the greedy rate cannot be followed up to t_max = {search.t_max:g}; its solution must stay finite. "
                "Lower t_max or the upper bound."
            )
        return _design(search, constant, greedy, greedy.rates)
    starts = [search.constant(logs), *(search.constant(np.full(len(names), x)) for x in others)]
    if greedy is not None and greedy.value < constant.value:
        starts.append(_at_knots(search, greedy.rate))
    if guess is not None:
        starts.append(_at_knots(search, guess))
    found = min((descend(search, point, iterations) for point in starts), key=lambda d: d.log_value)
    if not np.isfinite(found.log_value):
        raise InputError(
            "cannot optimize: the gradient of the error is not finite at the best constant rate. Try method='greedy'."
        )
    return _optimal_design(search, constant, greedy, found)


def _optimal_design(search: Search, constant: Candidate, greedy: Candidate | None, found: Descent) -> OptimalSchedule:
    low, high = np.log(search.bounds)
    at_low, at_high = found.point < low + AT_BOUND, found.point > high - AT_BOUND
    free = np.where((at_low & (found.slope > 0)) | (at_high & (found.slope < 0)), 0.0, found.slope)
    notes = [
        f"{name} lies at its {word} bound {bound:g} at {places.sum()} of {places.size} knots; other bounds may gain more"
        for word, bound, rows in zip(("lower", "upper"), search.bounds, (at_low, at_high), strict=True)
        for name, places in zip(search.names, rows.reshape(len(search.names), -1), strict=True)
        if places.any()
    ]
    if greedy is not None and greedy.value > WORSE_FACTOR * constant.value:
        notes.append(
            "greedy is worse than the best constant rate: where the error falls slowly it lowers the rate and stays there"
        )
    slope, schedules = float(np.max(np.abs(free))), search.schedules(found.point)
    return _design(search, constant, greedy, schedules, np.exp(found.history), slope, notes)


def _design(
    search: Search,
    constant: Candidate,
    greedy: Candidate | None,
    schedules: dict[str, Any],
    history: np.ndarray | None = None,
    slope: float | None = None,
    notes: Sequence[str] = (),
) -> OptimalSchedule:
    """The result, with the theory under the schedules (of the greedy feedback: as interpolated, which a schedule can be)."""
    trajectory = search.solve_with(schedules)
    value = search.value(trajectory.error)
    return OptimalSchedule(
        problem=search.problem.replace(**schedules),
        objective="final" if search.final else "integrated",
        method="greedy" if slope is None else "optimal",
        schedules=schedules,
        value=value,
        trajectory=trajectory,
        best_constant=constant,
        greedy=greedy,
        history=np.array([value]) if history is None else history,
        slope=slope,
        notes=tuple(notes),
    )


def _constant_candidate(search: Search, logs: np.ndarray) -> Candidate:
    error = np.asarray(search.try_out(search.constant(logs)).error)
    value, (low, high) = search.value(error), search.bounds
    if not np.isfinite(value):
        raise InputError(
            f"no constant rate from {low:g} to {high:g} stays finite up to t_max = {search.t_max:g}; one must. "
            "Give bounds with lower rates."
        )
    if value < SMALLEST_VALUE:
        raise InputError(
            f"the best constant rate already brings the error to {value:.1g}, where rounding begins; there must be more to "
            "gain. Shorten t_max or add noise."
        )
    return Candidate(dict(zip(search.names, np.exp(logs).tolist(), strict=True)), search.times, error, value)


def _greedy_candidate(search: Search) -> Candidate | None:
    """The greedy schedule (of the readout too, where both are sought: the two then share a rate); None: it has none."""
    if search.names[0] != "lr" or missing_traits(search.problem, ("fixed momentum",)):
        return None
    tied = search.problem.replace(readout_lr=None) if len(search.names) > 1 else search.problem
    rates, error = greedy_rates(tied, search.start, search.times, search.bounds, search.quadrature)
    if not np.all(np.isfinite(rates) & np.isfinite(error)):
        return None
    schedule = Interpolated(search.times, rates)
    return Candidate(dict.fromkeys(search.names, schedule), search.times, error, search.value(error))


def _at_knots(search: Search, rate: Any) -> np.ndarray:
    """A rate, the same for all names, as a point of the search."""
    if not callable(rate):
        return search.constant(np.full(len(search.names), np.log(checks.as_positive("guess", rate))))
    values = np.asarray(jax.vmap(lambda t: rate_at(rate, t))(jnp.asarray(search.knots)))
    checks.require_positive("guess (at the knots)", values)
    return np.tile(np.log(values), len(search.names))


def _check_problem(given: object, start: object, names: tuple[str, ...], method: str) -> None:
    problem = require_problem(given, "optimize", needs=("differentiable",))
    checks.require_untraced("the start", "optimize", require_start(start))
    momentum = problem.sgd.momentum
    if isinstance(momentum, SlowMomentum) and momentum.k is not None and "lr" in names:
        raise InputError(
            "momentum has a force k of its own, so lr does not move the first layer; it must. Use SlowMomentum(gamma)."
        )
    for name in names:
        if callable(_own_rate(problem, name)):
            raise InputError(
                f"{name} is already a schedule; it must be a number, which sets the scale of the search. "
                f"Use problem.replace({name}=0.5)."
            )
    if "readout_lr" in names and not problem.student.train_readout:
        raise InputError(
            f"which asks for {' and '.join(names)}, but the readout is not trained; it must be. "
            "Use Network(..., train_readout=True)."
        )
    if method == "greedy" and names != ("lr",):
        raise InputError(
            "method is 'greedy' and which asks for readout_lr; in the limit the error falls the faster the larger that rate "
            "is, so none is best. Use method='optimal', with bounds."
        )
    if method == "greedy":
        require_traits(problem, "optimize with method='greedy'", ("fixed momentum",))


def _own_rate(problem: Problem, name: str) -> Any:
    rate = getattr(problem.sgd, name)
    return problem.sgd.lr if rate is None else rate


def _bounds(problem: Problem, names: tuple[str, ...], bounds: tuple[float, float] | None) -> tuple[float, float]:
    if bounds is None:
        own = [float(np.asarray(_own_rate(problem, name))) for name in names]
        return LOWEST_FACTOR * min(own), HIGHEST_FACTOR * max(own)
    pair = checks.as_array("bounds", bounds)
    checks.require_shape("bounds", pair, (2,), fix="The lowest and the highest rate.")
    checks.require_positive("bounds", pair)
    if pair[0] >= pair[1]:
        raise InputError(f"bounds are {pair[0]:g} and {pair[1]:g}; the first must be below the second.")
    return float(pair[0]), float(pair[1])


def _knots(pieces: ArrayLike, t_max: float) -> np.ndarray:
    """Dense at both ends, where the best rate changes fastest: the first transient, and the last annealing."""
    if np.ndim(pieces) == 0:
        count = checks.as_count("pieces", pieces)
        return t_max * (1 - np.cos(np.pi * np.arange(count + 1) / count)) / 2
    knots = checks.as_array("pieces", pieces)
    checks.require_nonnegative("pieces (times of the knots)", knots)
    if knots.ndim != 1 or knots.size < 2 or np.any(np.diff(knots) <= 0) or knots[-1] > t_max:
        raise InputError(
            f"pieces are {checks.shown(knots)}; times of knots must be two or more that increase up to at most t_max = "
            f"{t_max:g}. Or give their number."
        )
    return knots
