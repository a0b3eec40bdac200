"""`optimize`: which learning-rate schedule ends with the smallest error?

The theory knows the noise of the gradient (G, with the label noise in it), so it knows what every schedule costs.
"optimal" minimizes the final or the integrated error over schedules by following the gradient of the solved theory
(schedule_search.py); "greedy" takes at every moment the rate that lowers the error fastest (greedy_rate.py). The best
constant rate is found beside them, as the measure of both.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.schedules.greedy_rate import greedy_rates
from tutelage.analysis.schedules.result import Candidate, OptimalSchedule
from tutelage.analysis.schedules.search import Descent, Search, best_constants, descend
from tutelage.averages import Quadrature
from tutelage.problem import Interpolated, Problem, SlowMomentum, Start
from tutelage.problem.arguments import require_problem, require_start
from tutelage.problem.schedules import rate_at

RATES = {"lr": ("lr",), "readout_lr": ("readout_lr",), "both": ("lr", "readout_lr")}
BELOW, ABOVE = 1e-3, 1e2  # default bounds, in units of the problem's own learning rate
AT_BOUND = 1e-3  # a rate whose logarithm is this close to a bound lies on it
ROUNDING = 1e-12  # errors below this are not solved to a digit
WORSE = 1.01  # a value this much larger is worse


def optimize(
    problem: Problem,
    start: Start,
    t_max: float,
    *,
    objective: str = "final",
    pieces: Any = 15,
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
    names = RATES[checks.known("which", which, RATES)]
    iterations = checks.as_count("iterations", iterations)
    _check_problem(problem, start, names, method)
    t_max = checks.as_positive("t_max", t_max)
    bounds = _bounds(problem, names, bounds)
    search = Search(problem, start, names, _knots(pieces, t_max), t_max, objective == "final", bounds, quadrature)
    logs, others = best_constants(search)
    constant = _constant(search, logs)
    greedy = _greedy(search)
    if method == "greedy":
        return _greedy_design(search, objective, constant, greedy)
    starts = [search.constant(logs), *(search.constant(np.full(len(names), x)) for x in others)]
    if greedy is not None and greedy.value < constant.value:
        starts.append(_at_knots(search, greedy.rate))
    if guess is not None:
        starts.append(_at_knots(search, guess))
    found = min((descend(search, point, iterations) for point in starts), key=lambda d: d.log_value)
    if not np.isfinite(found.log_value):
        raise InputError("the error has no finite derivative at the best constant rate; it must. Use method='greedy'.")
    return _optimal_design(search, objective, constant, greedy, found)


def _optimal_design(
    search: Search, objective: str, constant: Candidate, greedy: Candidate | None, found: Descent
) -> OptimalSchedule:
    schedules, trajectory = search.schedules(found.point), search.solve(found.point)
    low, high = np.log(search.bounds)
    at_low, at_high = found.point < low + AT_BOUND, found.point > high - AT_BOUND
    free = np.where((at_low & (found.slope > 0)) | (at_high & (found.slope < 0)), 0.0, found.slope)
    notes = [
        f"{name} lies at its {word} bound {bound:g} at {places.sum()} of {places.size} knots; other bounds may gain more"
        for word, bound, rows in zip(("lower", "upper"), search.bounds, (at_low, at_high), strict=True)
        for name, places in zip(search.names, rows.reshape(len(search.names), -1), strict=True)
        if places.any()
    ]
    if greedy is not None and greedy.value > WORSE * constant.value:
        notes.append(
            "greedy is worse than the best constant rate: where the error falls slowly it lowers the rate and stays there"
        )
    return OptimalSchedule(
        problem=search.problem.replace(**schedules),
        objective=objective,
        method="optimal",
        schedules=schedules,
        value=search.value(trajectory.error),
        trajectory=trajectory,
        best_constant=constant,
        greedy=greedy,
        history=np.exp(found.history),
        slope=float(np.max(np.abs(free))),
        notes=tuple(notes),
    )


def _greedy_design(search: Search, objective: str, constant: Candidate, greedy: Candidate | None) -> OptimalSchedule:
    if greedy is None:
        raise InputError(
            f"the greedy rate cannot be followed up to t_max = {search.t_max:g}; its solution must stay finite. "
            "Lower t_max or the upper bound."
        )
    trajectory = search.solve_with(greedy.rates)  # of the interpolated feedback, which is what a schedule can be
    return OptimalSchedule(
        problem=search.problem.replace(**greedy.rates),
        objective=objective,
        method="greedy",
        schedules=greedy.rates,
        value=search.value(trajectory.error),
        trajectory=trajectory,
        best_constant=constant,
        greedy=greedy,
        history=np.array([search.value(trajectory.error)]),
        slope=None,
        notes=(),
    )


def _constant(search: Search, logs: np.ndarray) -> Candidate:
    error = np.asarray(search.try_out(search.constant(logs)).error)
    _check_value(search.value(error), search)
    return Candidate(dict(zip(search.names, np.exp(logs).tolist(), strict=True)), search.times, error, search.value(error))


def _greedy(search: Search) -> Candidate | None:
    """The greedy schedule (of the readout too, where both are sought: the two then share a rate); None: it has none."""
    if search.names[0] != "lr" or isinstance(search.problem.sgd.momentum, SlowMomentum):
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


def _check_problem(problem: Any, start: Any, names: tuple[str, ...], method: str) -> None:
    require_problem(problem, "optimize", needs=("differentiable",))
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
    if method == "greedy" and isinstance(momentum, SlowMomentum):
        raise InputError(
            "method is 'greedy' and momentum is a SlowMomentum; there the rate acts on the error only later. "
            "Use method='optimal'."
        )


def _own_rate(problem: Problem, name: str) -> Any:
    rate = getattr(problem.sgd, name)
    return problem.sgd.lr if rate is None else rate


def _bounds(problem: Problem, names: tuple[str, ...], bounds: Any) -> tuple[float, float]:
    if bounds is None:
        own = [float(np.asarray(_own_rate(problem, name))) for name in names]
        return BELOW * min(own), ABOVE * max(own)
    pair = checks.as_array("bounds", bounds)
    checks.require_shape("bounds", pair, (2,), fix="The lowest and the highest rate.")
    checks.require_positive("bounds", pair)
    if pair[0] >= pair[1]:
        raise InputError(f"bounds are {pair[0]:g} and {pair[1]:g}; the first must be below the second.")
    return float(pair[0]), float(pair[1])


def _knots(pieces: Any, t_max: float) -> np.ndarray:
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


def _check_value(value: float, search: Search) -> None:
    low, high = search.bounds
    if not np.isfinite(value):
        raise InputError(
            f"no constant rate from {low:g} to {high:g} stays finite up to t_max = {search.t_max:g}; one must. "
            "Give bounds with lower rates."
        )
    if value < ROUNDING:
        raise InputError(
            f"the best constant rate already brings the error to {value:.1g}, where rounding begins; there must be more to "
            "gain. Shorten t_max or add noise."
        )
