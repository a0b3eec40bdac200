"""`optimize`: which learning-rate schedule ends with the smallest error?

The theory contains the noise of the gradient (G, with the label noise in it), so it predicts what every schedule costs.
"optimal" minimizes the final or the integrated error over schedules by following the gradient of the solved theory; "greedy"
takes at every moment the rate that lowers the error fastest. The best constant rate is found for comparison.

A point of the search holds the logarithms of the rates at the knots, one row per rate that is sought; between knots ln eta is
straight (`Interpolated`). Its derivative comes from `solve` itself, in forward mode, one tangent per coordinate: knots, times
and numbers are data, so that all designs of equal shape share one compiled program.

The drift of the overlaps is a quadratic in the rate (A and B enter with eta, the covariance G with eta^2 / batch), and so is
the change of the error along it. So the greedy rate is known:
    du / dalpha = F0(u) + eta F1(u) + eta^2 F2(u),     d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u)
    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own (a readout or bias with a given rate). A readout or bias that shares lr adds its
|gradient|^2 to a and nothing to b: in the limit its noise vanishes. Label noise enters b; weight decay enters a. The rate
is a feedback, put into the vector field itself, so no iteration is needed.
Only the next moment counts: on a plateau a -> 0, the rate follows and the escape is delayed. D. Saad and M. Rattray, Phys.
Rev. Lett. 79, 2578 (1997), optimize over the whole time instead; so does "optimal".
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import Array, Rate
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import OrderParameters, Overlaps, initial_overlaps
from tutelage.errors import InputError, TutelageWarning
from tutelage.integrate.program import FINE, tolerances
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Interpolated, Problem, SlowMomentum, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.schedules import rate_at
from tutelage.problem.start import require_start
from tutelage.problem.traits import missing_traits, require_traits
from tutelage.trajectory import Trajectory

Expansion: TypeAlias = tuple[Overlaps, Array]  # of the drift, and of d error / d alpha
Rates: TypeAlias = dict[str, float | Interpolated]  # by name

GREEDY_STEPS = 100_000  # of the greedy path
FIRST_STEP = 1e-5  # first step, in units of the whole time
NODES_PER_PIECE, NODES_IN_ALL = 4, 96  # least numbers of Gauss-Legendre nodes, where the error is recorded
SCANNED_RATES = 41  # constant rates that are tried between the bounds
HOPELESS_FACTOR = 1.5  # an error this many times that of no learning at all is hopeless
HOPELESS_ROW = 6  # larger rates are not tried after so many hopeless ones in a row
DIVERGED_VALUE = 50.0  # ln(value) of a schedule that diverges
SOUGHT_RATES = {"lr": ("lr",), "readout_lr": ("readout_lr",), "both": ("lr", "readout_lr")}
LOWEST_FACTOR, HIGHEST_FACTOR = 1e-3, 1e2  # default bounds, in units of the problem's own learning rate
AT_BOUND = 1e-3  # a rate whose logarithm is this close to a bound lies on it
SMALLEST_VALUE = 1e-12  # errors below this are not solved to a digit
WORSE_FACTOR = 1.01  # a value this much larger is worse


def rate_expansion(system: OrderParameters, t: Array, state: Overlaps) -> tuple[Expansion, Expansion, Expansion]:
    """Coefficients of 1, eta and eta^2 in (drift, d error / d alpha): exact, since both are quadratic in eta."""

    def along(eta: Array) -> Expansion:
        return eqx.tree_at(lambda s: s.problem.sgd.lr, system, eta).drift_and_error_rate(t, state)

    def slope(eta: Array) -> tuple[Expansion, Expansion]:
        return jax.jvp(along, (eta,), (jnp.ones(()),))

    (constant, linear), (_, twice) = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return constant, linear, jax.tree.map(lambda x: x / 2, twice)


def steepest_rate(linear: Array, quadratic: Array, bounds: tuple[ArrayLike, ArrayLike]) -> Array:
    """The eta within bounds that makes eta * linear + eta^2 * quadratic (a change of the error) smallest."""
    low, high = map(jnp.asarray, bounds)
    a, b = -linear, quadratic
    inside = jnp.where(b > 0, a / jnp.where(b > 0, 2 * b, 1.0), jnp.where(a > b * (low + high), high, low))
    return jnp.clip(inside, low, high)


def greedy_rates(
    problem: Problem, start: Start, times: np.ndarray, bounds: tuple[float, float], quadrature: Quadrature | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The greedy rate and the error along its own path, at the times (increasing, from 0); NaN if it does not arrive."""
    state, t = initial_overlaps(problem, start)
    data = jax.tree.map(lambda x: jnp.asarray(x, float) if eqx.is_array_like(x) else x, problem)  # one program for all
    rates, errors = _greedy_path(
        data, t, state, jnp.asarray(times), (jnp.asarray(bounds[0]), jnp.asarray(bounds[1])), quadrature
    )
    return np.asarray(rates), np.asarray(errors)


@eqx.filter_jit
def _greedy_path(
    problem: Problem, t: Array, state: Overlaps, times: Array, bounds: tuple[Array, Array], quadrature: Quadrature | None
) -> tuple[Array, Array]:
    system = OrderParameters(problem, t, quadrature=quadrature)

    def step(time: Array, at: Overlaps) -> tuple[Array, Expansion]:
        constant, linear, quadratic = rate_expansion(system, time, at)
        eta = steepest_rate(linear[1], quadratic[1], bounds)
        return eta, jax.tree.map(lambda x, y, z: x + eta * y + eta**2 * z, constant, linear, quadratic)

    def field(time: ArrayLike, y: Any, _: object) -> Expansion:
        drift, error_rate = step(jnp.asarray(time), y[0])[1]
        return drift, error_rate * FINE

    def error(at: Overlaps) -> Array:
        return system.error(system.observe(at))

    controller = diffrax.PIDController(*tolerances(), pcoeff=0.2, icoeff=0.5)
    switches = eqx.tree_at(lambda s: s.problem.sgd.lr, system, jnp.zeros(())).switches(times[-1])  # of the other rates
    clipped = controller if switches is None else diffrax.ClipStepSizeController(controller, jump_ts=switches)
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        t0=0.0,
        t1=times[-1],
        dt0=FIRST_STEP * times[-1],  # given, for a smaller program than one that chooses it
        y0=(state, error(state) * FINE),
        saveat=diffrax.SaveAt(ts=times, fn=lambda time, y, args: y[0]),
        stepsize_controller=clipped,
        max_steps=GREEDY_STEPS,
        throw=False,
    )
    arrived = jnp.isfinite(solution.ts)
    rates = jax.vmap(lambda time, at: step(time, at)[0])(times, solution.ys)
    return jnp.where(arrived, rates, jnp.nan), jnp.where(arrived, jax.vmap(error)(solution.ys), jnp.nan)


@dataclass(frozen=True)
class Search:
    """names: the rates that are sought. knots: where they are set. final: is it the error at the last time that counts?"""

    problem: Problem
    start: Start
    names: tuple[str, ...]
    knots: np.ndarray
    t_max: float
    final: bool
    bounds: tuple[float, float]
    quadrature: Quadrature | None = None

    @property
    def times(self) -> np.ndarray:
        """0, the nodes of every piece, and the end."""
        return np.concatenate([[0.0], self._nodes()[0], [self.t_max]])

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        edges = np.unique(np.concatenate([[0.0], self.knots, [self.t_max]]))
        x, w = np.polynomial.legendre.leggauss(max(NODES_PER_PIECE, -(-NODES_IN_ALL // (edges.size - 1))))
        half = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()

    def value(self, error: ArrayLike) -> float:
        """The objective, from the error at `times`; infinite if the curve does not reach the end."""
        error = np.asarray(error)
        if error.size < self.times.size or not np.all(np.isfinite(error)):
            return np.inf
        return float(error[-1] if self.final else self._nodes()[1] @ error[1:-1])

    def scales(self) -> np.ndarray:
        """Root of the time that each coordinate rules, in units of the mean: in these units all have about equal weight.

        Of an integral, a rate late in time rules less: only what is still to come.
        """
        time = np.convolve(np.diff(self.knots), [0.5, 0.5])
        if not self.final:
            time = time * (1.1 - self.knots / self.t_max)
        return np.tile(np.sqrt(time / time.mean()), len(self.names))

    def constant(self, logs: ArrayLike) -> np.ndarray:
        """The point of constant rates, given the logarithm of each."""
        return np.repeat(np.atleast_1d(logs), self.knots.size)

    def schedules(self, point: ArrayLike) -> dict[str, Interpolated]:
        """The schedules of a point, by name."""
        rows = jnp.exp(jnp.asarray(point)).reshape(len(self.names), -1)
        return {name: Interpolated(self.knots, row) for name, row in zip(self.names, rows, strict=True)}

    def solve_with(self, rates: Mapping[str, Rate | float], times: np.ndarray | None = None) -> Trajectory:
        """The theory under these rates."""
        times = self.times if times is None else times
        return solve(self.problem.replace(**rates), self.start, times, gradient="forward", quadrature=self.quadrature)

    def error_at(self, point: np.ndarray) -> np.ndarray:
        """The error under the schedules of a point, without warnings: a trial may diverge. The final choice warns."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TutelageWarning)
            return np.asarray(self.solve_with(self.schedules(point)).error)

    def log_value_and_slope(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """ln(value) and its derivative with respect to the logarithms of the rates."""
        nodes, weights = ([self.t_max], [1.0]) if self.final else self._nodes()
        times, weights = np.array(nodes), jnp.asarray(weights)

        def log_value(at: Array) -> Array:
            return jnp.log(weights @ self.solve_with(self.schedules(at), times).error)

        def along(direction: Array) -> tuple[Array, Array]:
            return jax.jvp(log_value, (jnp.asarray(point),), (direction,))

        value, slope = jax.vmap(along, out_axes=(None, 0))(jnp.eye(point.size))
        return float(value), np.asarray(slope)


def best_constants(search: Search) -> tuple[np.ndarray, list[float]]:
    """Logarithms of the best constant rates, and of other constant rates that are worth starting from."""
    low, high = np.log(search.bounds)
    count = len(search.names)

    def value(logs: np.ndarray) -> float:
        return search.value(search.error_at(search.constant(np.clip(logs, low, high))))

    first = search.error_at(search.constant(np.full(count, low)))[0]
    nothing = search.value(np.full(search.times.size, first))  # if nothing were learned
    shared = _scan(lambda x: value(np.full(count, x)), low, high, HOPELESS_FACTOR * nothing)
    best = np.full(count, min(shared, key=lambda place: shared[place]))
    for i in range(1, count):
        alone = _scan(lambda x, i=i: value(np.where(np.arange(count) == i, x, best)), low, high, HOPELESS_FACTOR * nothing)
        best[i] = min(alone, key=lambda place: alone[place])
    if not np.isfinite(min(shared.values())):
        return best, []  # every rate diverges
    step = (high - low) / (SCANNED_RATES - 1)
    simplex = best + step / 2 * np.vstack([-np.ones(count), *(2 * np.eye(count) - 1)])
    options = {"initial_simplex": simplex, "xatol": 1e-4, "fatol": np.inf, "maxiter": 200}
    found = minimize(value, best, method="Nelder-Mead", options=options)
    others = [x for x in _other_starts(shared, nothing) if abs(x - best[0]) > 1.5 * step]
    return np.clip(found.x if found.fun < value(best) else best, low, high), others


def _scan(value: Callable[[float], float], low: float, high: float, hopeless: float) -> dict[float, float]:
    """Values at evenly spaced places, from below; given up where many in a row are hopeless."""
    values: dict[float, float] = {}
    for place in np.linspace(low, high, SCANNED_RATES).tolist():
        values[place] = value(place)
        if len(values) >= HOPELESS_ROW and min(list(values.values())[-HOPELESS_ROW:]) > hopeless:
            break
    return values


def _other_starts(scan: dict[float, float], nothing: float) -> list[float]:
    """Places of all minima of a scan, and half the largest rate that learns: a bold start, which may leave a plateau.

    (On a plateau small rates do better than moderate ones, so a descent from the best constant rate may stay there.)
    """
    places, values = list(scan), np.array([np.inf, *scan.values(), np.inf])
    minima = [x for i, x in enumerate(places) if values[i + 1] <= min(values[i], values[i + 2]) < np.inf]
    learns = [x for x in places if scan[x] < nothing / 2]
    return minima + [x - np.log(2) for x in learns[-1:] if all(abs(x - np.log(2) - y) > 0.5 for y in minima)]


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: point, ln(value), its slope there, and ln(value) after each iteration."""

    point: np.ndarray
    log_value: float
    slope: np.ndarray
    history: np.ndarray


def descend(search: Search, point: np.ndarray, iterations: int) -> Descent:
    """Follow the slope of ln(value) down from a point, within the bounds (L-BFGS-B); the best point met is returned."""
    low, high = np.log(search.bounds)
    scales = search.scales()
    point = np.clip(point, low, high)
    met = [Descent(point, np.inf, np.zeros(point.size), np.array([np.inf]))]  # the last is the best so far

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = search.log_value_and_slope(x / scales)
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return DIVERGED_VALUE, np.zeros(x.size)
        if value < met[-1].log_value:
            met.append(replace(met[0], point=x / scales, log_value=value, slope=slope))
        return value, slope / scales

    history: list[float] = []
    minimize(
        evaluate,
        point * scales,
        jac=True,
        method="L-BFGS-B",
        bounds=[(low * scale, high * scale) for scale in scales],
        callback=lambda _: history.append(met[-1].log_value),
        options={"maxiter": iterations, "ftol": 1e-8, "gtol": 1e-5},
    )
    return replace(met[-1], history=np.array([*(m.log_value for m in met[1:2]), *history]))


@dataclass(frozen=True)
class Candidate:
    """One choice of rates (numbers or schedules, by name), its error at times alpha, and its value."""

    rates: Rates
    times: np.ndarray
    error: np.ndarray
    value: float

    @property
    def rate(self) -> float | Interpolated:
        """The learning rate (the readout's, where only that was sought)."""
        return next(iter(self.rates.values()))

    @property
    def final_error(self) -> float:
        """e_g at the last time."""
        return float(self.error[-1])


@dataclass(frozen=True, repr=False)
class OptimalSchedule(AnalysisResult, figure="plot_schedule"):
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


def _rate_in_words(rate: float | Interpolated) -> str:
    if not isinstance(rate, Interpolated):
        return f"{rate:.4g}"
    values, times = np.asarray(rate.values), np.asarray(rate.times)
    at = f"{values.max():.3g} at alpha = {times[np.argmax(values)]:.3g}"
    return f"from {values[0]:.3g} to {values[-1]:.3g}, at most {at}"


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
    guess: Rate | float | None = None,
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
    constant, greedy = _constant_candidate(search, logs), _greedy_candidate(search)
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
    return _design(search, constant, greedy, search.schedules(found.point), found)


def _design(
    search: Search, constant: Candidate, greedy: Candidate | None, schedules: Mapping[str, Any], found: Descent | None = None
) -> OptimalSchedule:
    """The result, with the theory under the schedules (of the greedy feedback: as interpolated, which a schedule can be)."""
    trajectory = search.solve_with(schedules)
    value = search.value(trajectory.error)
    slope, notes = None, []
    if found is not None:
        low, high = np.log(search.bounds)
        at_low, at_high = found.point < low + AT_BOUND, found.point > high - AT_BOUND
        free = np.where((at_low & (found.slope > 0)) | (at_high & (found.slope < 0)), 0.0, found.slope)
        slope = float(np.max(np.abs(free)))
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
    return OptimalSchedule(
        problem=search.problem.replace(**schedules),
        objective="final" if search.final else "integrated",
        method="greedy" if found is None else "optimal",
        schedules=dict(schedules),
        value=value,
        trajectory=trajectory,
        best_constant=constant,
        greedy=greedy,
        history=np.array([value]) if found is None else np.exp(found.history),
        slope=slope,
        notes=tuple(notes),
    )


def _constant_candidate(search: Search, logs: np.ndarray) -> Candidate:
    error = search.error_at(search.constant(logs))
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


def _at_knots(search: Search, rate: Rate | float) -> np.ndarray:
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


def _own_rate(problem: Problem, name: str) -> Rate:
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
