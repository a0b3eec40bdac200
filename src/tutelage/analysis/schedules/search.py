"""The search for a learning-rate schedule: greedy rates, schedules as points of a space, and the descent in it.

A point holds the logarithms of the rates at the knots, one row per rate that is sought; between knots ln eta is straight
(`Interpolated`). The value of a point is the final or the integrated error of the solved theory. Its derivative comes from
`solve` itself, in forward mode, one tangent per coordinate: knots, times and numbers are data, so that all designs of equal
shape share one compiled program.

The greedy rate is the one that lowers the error fastest at each moment. The drift of the overlaps is a quadratic in the rate
(A and B enter with eta, the covariance G with eta^2 / batch), and so is the change of the error along it:
    du / dalpha = F0(u) + eta F1(u) + eta^2 F2(u),     d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u)
    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own (a readout or bias with a given rate). A readout or bias that shares lr adds its
|gradient|^2 to a and nothing to b: in the limit its noise vanishes. Label noise enters b; weight decay enters a. The rate
is a feedback, put into the vector field itself, so no iteration is needed.
Only the next moment counts: on a plateau a -> 0, the rate follows and the escape is delayed. D. Saad and M. Rattray, Phys.
Rev. Lett. 79, 2578 (1997), optimize over the whole time instead; so does "optimal".
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from tutelage._errors import TutelageWarning
from tutelage._solve import solve
from tutelage._types import Array
from tutelage.dynamics import OrderParameters, Overlaps, initial_overlaps
from tutelage.integrate.program import FINE, tolerances
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Interpolated, Problem, Start
from tutelage.trajectory import Trajectory

GREEDY_STEPS = 100_000  # of the greedy path
FIRST_STEP = 1e-5  # first step, in units of the whole time
NODES_PER_PIECE, NODES_IN_ALL = 4, 96  # least numbers of Gauss-Legendre nodes, where the error is recorded
SCANNED_RATES = 41  # constant rates that are tried between the bounds
HOPELESS_FACTOR = 1.5  # an error this many times that of no learning at all is hopeless
HOPELESS_ROW = 6  # larger rates are not tried after so many hopeless ones in a row
DIVERGED_VALUE = 50.0  # ln(value) of a schedule that diverges


def rate_expansion(system: OrderParameters, t: Array, state: Overlaps) -> tuple[Any, Any, Any]:
    """Coefficients of 1, eta and eta^2 in (drift, d error / d alpha): exact, since both are quadratic in eta."""

    def along(eta: Array) -> tuple[Overlaps, Array]:
        return eqx.tree_at(lambda s: s.problem.sgd.lr, system, eta).drift_and_error_rate(t, state)

    def slope(eta: Array) -> Any:
        return jax.jvp(along, (eta,), (jnp.ones(()),))

    (constant, linear), (_, twice) = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return constant, linear, jax.tree.map(lambda x: x / 2, twice)


def steepest_rate(linear: Array, quadratic: Array, bounds: tuple[Any, Any]) -> Array:
    """The eta within bounds that makes eta * linear + eta^2 * quadratic (a change of the error) smallest."""
    low, high = bounds
    a, b = -linear, quadratic
    inside = jnp.where(b > 0, a / jnp.where(b > 0, 2 * b, 1.0), jnp.where(a > b * (low + high), high, low))
    return jnp.clip(inside, low, high)


def greedy_rates(
    problem: Problem, start: Start, times: np.ndarray, bounds: tuple[float, float], quadrature: Quadrature | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The greedy rate and the error along its own path, at the times (increasing, from 0); NaN if it does not arrive."""
    state, t = initial_overlaps(problem, start)
    data = jax.tree.map(lambda x: jnp.asarray(x, float) if eqx.is_array_like(x) else x, problem)  # one program for all
    rates, errors = _greedy_path(data, t, state, jnp.asarray(times), tuple(map(jnp.asarray, bounds)), quadrature)
    return np.asarray(rates), np.asarray(errors)


@eqx.filter_jit
def _greedy_path(
    problem: Problem, t: Array, state: Overlaps, times: Array, bounds: tuple[Any, Any], quadrature: Quadrature | None
) -> Any:
    system = OrderParameters(problem, t, quadrature=quadrature)

    def step(time: Any, at: Overlaps) -> tuple[Array, Any]:
        constant, linear, quadratic = rate_expansion(system, time, at)
        eta = steepest_rate(linear[1], quadratic[1], bounds)
        return eta, jax.tree.map(lambda x, y, z: x + eta * y + eta**2 * z, constant, linear, quadratic)

    def field(time: Any, y: Any, _: Any) -> Any:
        drift, error_rate = step(time, y[0])[1]
        return drift, error_rate * FINE

    def error(at: Overlaps) -> Array:
        return system.error(system.observe(at))

    controller: Any = diffrax.PIDController(*tolerances(), pcoeff=0.2, icoeff=0.5)
    switches = eqx.tree_at(lambda s: s.problem.sgd.lr, system, jnp.zeros(())).switches(times[-1])  # of the other rates
    if switches is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=switches)
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        t0=0.0,
        t1=times[-1],
        dt0=FIRST_STEP * times[-1],  # given, for a smaller program than one that chooses it
        y0=(state, error(state) * FINE),
        saveat=diffrax.SaveAt(ts=times, fn=lambda time, y, args: y[0]),
        stepsize_controller=controller,
        max_steps=GREEDY_STEPS,
        throw=False,
    )
    arrived = jnp.isfinite(solution.ts)
    rates = jax.vmap(lambda time, at: step(time, at)[0])(times, solution.ys)
    return tuple(jnp.where(arrived, x, jnp.nan) for x in (rates, jax.vmap(error)(solution.ys)))


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

    def solve_with(self, rates: dict[str, Any], times: np.ndarray | None = None) -> Trajectory:
        """The theory under these rates."""
        times = self.times if times is None else times
        return solve(self.problem.replace(**rates), self.start, times, gradient="forward", quadrature=self.quadrature)

    def solve(self, point: np.ndarray) -> Trajectory:
        """The theory under the schedules of a point."""
        return self.solve_with(self.schedules(point))

    def try_out(self, point: np.ndarray) -> Trajectory:
        """The same without warnings: a trial may diverge, and the final choice is solved with warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TutelageWarning)
            return self.solve(point)

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

    def curve(logs: np.ndarray) -> np.ndarray:
        return np.asarray(search.try_out(search.constant(np.clip(logs, low, high))).error)

    def value(logs: np.ndarray) -> float:
        return search.value(curve(logs))

    nothing = search.value(np.full(search.times.size, curve(np.full(count, low))[0]))  # if nothing were learned
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
    found = optimize.minimize(value, best, method="Nelder-Mead", options=options)
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
    optimize.minimize(
        evaluate,
        point * scales,
        jac=True,
        method="L-BFGS-B",
        bounds=[(low * scale, high * scale) for scale in scales],
        callback=lambda _: history.append(met[-1].log_value),
        options={"maxiter": iterations, "ftol": 1e-8, "gtol": 1e-5},
    )
    return replace(met[-1], history=np.array([*(m.log_value for m in met[1:2]), *history]))
