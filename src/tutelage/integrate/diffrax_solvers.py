"""Integration by diffrax: reverse-mode gradients, the implicit solver, and a stiff solver for the overlaps.

The stiff solver is Rodas5P, a Rosenbrock-Wanner method: linearly implicit, L-stable, of order 5 (its dense output: 4). One
step from (t, y) to (t + h, y1), with J and f_t the derivatives of f at its beginning, solves no nonlinear equation:
    (1 - h g J) u_i = g (h f(t + c_i h, y + sum_j<i a_ij u_j) + sum_j<i C_ij u_j + h^2 d_i f_t),    i = 1..8
    y1 = y + sum_j a_8j u_j + u_8,    error estimate u_8 (an embedded method of order 4).
Source: G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P ..., BIT Numerical Mathematics 63 (2023) 27.

`resolvent` solves (1 - s J) x = b for the overlaps in O(L). The levels talk to each other only through the fields
z = (R, Q, v, b), on which A, B, G depend. So J is diagonal over levels, apart from a part of low rank: with primes for
changes,
    r'_l -> eta (lam_l (A r'_l + A' r_l + B' t_l) - kappa r'_l),
    q'_l -> eta (lam_l (A q'_l + B r'_l^T + A' q_l + B' r_l^T) - kappa q'_l) + transpose + (eta^2 / batch) lam_l G',
where A', B', G' are linear in z' = (sum_l p_l lam_l r'_l, sum_l p_l lam_l q'_l, v', b'). A is symmetric (A / 2 is minus the
gradient of e_g with respect to Q), so one eigen-decomposition of this K x K matrix makes every level diagonal; what remains
is one dense system for z', of K M + K (K + 1) / 2 numbers (and K for readouts or biases that learn).
`program.unsuited` lists what does not have this form.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree

from tutelage._types import Array, ArrayLike
from tutelage.dynamics import ClosedSystem, OrderParameters, Overlaps
from tutelage.errors import InputError, Status
from tutelage.integrate.dormand_prince import ODE, Integrated, table
from tutelage.integrate.program import unsuited
from tutelage.moments.averages import MeanUpdate, triangle
from tutelage.moments.matrices import joint_covariance
from tutelage.progress import progress_bar

Terms: TypeAlias = diffrax.AbstractTerm
Matrices: TypeAlias = tuple[MeanUpdate, Array]
TOGETHER = 2**24  # numbers that the derivatives of G may hold at a time
CODES = (
    (diffrax.RESULTS.successful, Status.FINISHED),
    (diffrax.RESULTS.event_occurred, Status.DIVERGED),
    (diffrax.RESULTS.max_steps_reached, Status.MAX_STEPS),
)
ROUNDING = 1e-15  # overlaps are not known better, so neither is the error: no step is refused for less
GAMMA = 0.21193756319429014
NODES = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)  # c
IN_TIME = (GAMMA, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0, 0.0)  # d
LAST = (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946)
STAGES = (  # a
    (),
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    LAST,
    (*LAST, 1.0),
    (*LAST, 1.0, 1.0),
)
COUPLING = (  # C
    (),
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
    (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623,
     -28.087943162872662),
    (37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002, -54.66780262877968,
     -9.48861652309627),
)  # fmt: skip
BETWEEN = (  # k of `Between`
    (25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204, 0.524948541321073,
     1.1241088310450404, 0.4272876194431874, -0.17202221070155493),
    (-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796, 20.176138334709044,
     15.98066361424651, -6.789040303419874, -6.710236069923372),
    (11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643, -52.072871366152654, -59.78993625266729,
     -0.15582684282751913, 4.883087185713722),
)  # fmt: skip


def solver_for(name: str, system: ClosedSystem, fine: float) -> diffrax.AbstractSolver:
    """The diffrax solver of this name; `fine` is the factor of the error next to the state."""
    if name != "stiff":
        return diffrax.Dopri8() if name == "explicit" else diffrax.Kvaerno5()
    if not isinstance(system, OrderParameters):
        raise InputError("solver is 'stiff', which knows only the equations of a Problem; use solver='implicit'.")
    reason = unsuited(system.problem)
    if reason:
        raise InputError(f"solver is 'stiff' and {reason}; it does not support that. Use solver='explicit'.")

    def guide(state: Overlaps, doubt: Overlaps) -> tuple[Array, Array]:
        error, (p, _) = system.error(system.observe(state)), system.matrices(state)
        slope = system.error_slope(p, doubt)
        rounding = ROUNDING * (jnp.sum(jnp.abs(p.A)) + jnp.sum(jnp.abs(p.B)))
        return fine * error, fine * jnp.where(jnp.abs(slope) < rounding, 0.0, slope)

    return Rodas5P(lambda t, state, shift: resolvent(system, t, state, shift), guide)


class ProgressBar(diffrax.TqdmProgressMeter):
    """diffrax's own meter, which also the explicit integrator moves."""

    @staticmethod
    def _init_bar() -> Any:
        return progress_bar(100, "solving", bar_format="{desc}: {percentage:3.0f}% |{bar}| [{elapsed}<{remaining}]")

    @staticmethod
    def _step_bar(bar: Any, progress: Any) -> None:
        bar.update(round(100 * float(progress), 2) - bar.n)


def integrate(ode: ODE, solver: diffrax.AbstractSolver, reverse: bool) -> Integrated:
    """As `dormand_prince.integrate`; for the stiff solver y is a pair of state and error."""
    norm = guided_norm if isinstance(ode.y0, tuple) else optimistix.rms_norm
    control = {"pcoeff": 0.2, "icoeff": 0.5, "dtmin": ode.shortest, "force_dtmin": False}
    controller = diffrax.PIDController(ode.rtol, ode.atol, norm=norm, **control)
    if ode.stops is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=ode.stops)
    recorded = diffrax.SubSaveAt(ts=ode.times, fn=lambda t, y, args: ode.observe(y))
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: ode.rates(jnp.asarray(t), y)),
        solver,
        t0=0.0,
        t1=jnp.maximum(ode.times[-1], 1e-12),
        dt0=None,
        y0=ode.y0,
        saveat=diffrax.SaveAt(subs=[recorded, diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=controller,
        adjoint=diffrax.RecursiveCheckpointAdjoint() if reverse else diffrax.ForwardMode(),
        event=diffrax.Event(lambda t, y, args, **_: ode.diverged(y)),
        max_steps=ode.max_steps,
        throw=False,
        progress_meter=diffrax.NoProgressMeter() if ode.meter is None else ode.meter,
    )
    (saved, end), (records, last) = solution.ts, solution.ys
    reached = jnp.isfinite(saved)
    at_start = ode.times <= 0  # recorded even if no step is accepted

    def known(record: Array, first: Array) -> Array:
        shape = (-1, *[1] * first.ndim)
        later = jnp.where(reached.reshape(shape), record, jnp.nan)
        return jnp.where(at_start.reshape(shape), first, later)

    records = jax.tree.map(known, records, ode.observe(ode.y0))
    code = jnp.array(int(Status.FAILED))
    for reason, status in CODES:
        code = jnp.where(solution.result == reason, int(status), code)
    y = jax.tree.map(lambda x: x[-1], last)
    return Integrated(records, end[-1], y, solution.stats["num_accepted_steps"], code)


class Between(diffrax.AbstractLocalInterpolation):
    """y(t0 + x h) = (1 - x) y0 + x (y1 + (1 - x) (k_1 + x (k_2 + x k_3))): order 4 in a step."""

    t0: Any  # a time, as of every path of diffrax
    t1: Any
    y0: PyTree
    y1: PyTree
    k: PyTree  # as y, with a first axis of 3

    def evaluate(self, t0: ArrayLike, t1: ArrayLike | None = None, left: bool = True) -> PyTree:
        """The solution at t0, or its change from t0 to t1."""
        if t1 is not None:
            return jax.tree.map(lambda b, a: b - a, self.evaluate(t1), self.evaluate(t0))
        x = (t0 - self.t0) / jnp.where(self.t1 == self.t0, 1.0, self.t1 - self.t0)

        def at(y0: Array, y1: Array, k: Array) -> Array:
            return (1 - x) * y0 + x * (y1 + (1 - x) * (k[0] + x * (k[1] + x * k[2])))

        return jax.tree.map(at, self.y0, self.y1, self.k)


class Rodas5P(diffrax.AbstractAdaptiveSolver):
    """One step of a pair y = (state, error). `resolvent(t, state, s)` returns the function b -> (1 - s J)^-1 b there.

    Near perfect learning a tolerance on overlaps of order one says nothing about an error of 1e-9, so the error is next to
    the state when a step is judged. Explicit methods integrate it. Here `guide(state, doubt)` computes it anew at the end of
    each step, and its change along the uncertainty of the state: nothing accumulates.
    """

    resolvent: Callable[[ArrayLike, PyTree, ArrayLike], Callable[[PyTree], PyTree]]
    guide: Callable[[PyTree, PyTree], tuple[Array, Array]]

    term_structure: ClassVar[type[Terms]] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable[..., Between]] = Between

    def order(self, terms: Terms) -> int:
        return 5

    def init(self, terms: Terms, t0: ArrayLike, t1: ArrayLike, y0: PyTree, args: PyTree) -> None:
        return None

    def func(self, terms: Terms, t0: ArrayLike, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Terms, t0: ArrayLike, t1: ArrayLike, y0: PyTree, args: PyTree, solver_state: None, made_jump: ArrayLike
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], None, diffrax.RESULTS]:
        (state, error), h = y0, t1 - t0
        f = lambda t, y: terms.vf(t, (y, error), args)[0]  # noqa: E731
        solve = self.resolvent(t0, state, h * GAMMA)
        in_time = jax.jvp(lambda t: f(t, state), (t0,), (jnp.ones_like(t0),))[1]

        def stage(stages: PyTree, row: tuple[Array, ...]) -> tuple[PyTree, None]:
            """Stage i into the stack of all; those after it are still zero."""
            i, node, rate, across, coupled = row
            now = f(t0 + node * h, _plus(state, across, stages))
            known = jax.tree.map(lambda a, b: GAMMA * h * (a + h * rate * b), now, in_time)
            u = solve(_plus(known, GAMMA * coupled, stages))
            return jax.tree.map(lambda stack, new: stack.at[i].set(new), stages, u), None

        count = len(NODES)
        empty = jax.tree.map(lambda y: jnp.zeros((count, *y.shape)), state)
        factors = NODES, IN_TIME, table(STAGES, count), table(COUPLING, count)
        stages = jax.lax.scan(stage, empty, (jnp.arange(count), *map(jnp.asarray, factors)))[0]
        new, doubt = _plus(state, jnp.array([*STAGES[-1], 1.0]), stages), jax.tree.map(lambda stack: stack[-1], stages)
        k = jax.tree.map(lambda stack: jnp.tensordot(jnp.asarray(BETWEEN), stack, 1), stages)
        new_error, error_doubt = self.guide(*jax.lax.stop_gradient((new, doubt)))
        y1, known = (new, new_error), {"y0": y0, "y1": (new, new_error), "k": (k, jnp.zeros(3))}
        return y1, (doubt, error_doubt), known, None, diffrax.RESULTS.successful


def guided_norm(scaled: tuple[PyTree, Array]) -> Array:
    """Root mean square over the state, or the error alone, whichever is larger: one number among thousands must count."""
    state, error = scaled
    return jnp.maximum(optimistix.rms_norm(state), jnp.abs(error))


def _plus(y: PyTree, factors: Array, stages: PyTree) -> PyTree:
    return jax.tree.map(lambda a, stack: a + jnp.tensordot(factors, stack, 1), y, stages)


def resolvent(system: OrderParameters, t: ArrayLike, state: Overlaps, shift: ArrayLike) -> Callable[[Overlaps], Overlaps]:
    """x -> (1 - shift J)^-1 x, with J the derivative of the drift at this time and state. Differentiable in everything."""
    numbers, functions = eqx.partition((system, t, state, shift), eqx.is_array)  # a rate may be a function
    solve = Levels(*eqx.combine(jax.lax.stop_gradient(numbers), functions)).solve

    def apply(x: Overlaps) -> Overlaps:
        moved = jax.jvp(lambda y: system.drift(t, y), (state,), (x,))[1]
        return jax.tree.map(lambda a, b: a - shift * b, x, moved)

    def transposed(_: object, x: Overlaps) -> Overlaps:
        return jax.linear_transpose(solve, x)(x)[0]

    return lambda x: jax.lax.custom_linear_solve(apply, x, lambda _, b: solve(b), transposed)


class Levels:
    """J at a state in the eigenbasis of A, level by level, and the dense system for the change of the fields.

    force: shift eta lam_l. noise: eta / batch. rates: shift eta_v and shift eta_b. dense: LU of the system for the fields.
    shrink_r: 1 / (1 - shift eta (lam_l a_k - kappa)). shrink_q: 1 / (1 - shift eta (lam_l (a_i + a_j) - 2 kappa)).
    overlaps: of all units with all units. slopes: d ((A | B), G, what moves readout and bias) / d fields, a last axis more.
    """

    def __init__(self, system: OrderParameters, t: ArrayLike, state: Overlaps, shift: ArrayLike):
        problem, shift = system.problem, jnp.asarray(shift)
        inputs, sgd, student = problem.inputs, problem.sgd, problem.student
        self.trained = student.train_readout, student.train_bias and state.bias is not None
        (p, _), (dp, dG) = self._matrices(system, state)
        values, self.basis = jnp.linalg.eigh(p.A)
        turn = self.basis.T
        eta, eta_v, eta_b = jax.lax.stop_gradient(system.rates(t))  # a function may hold traced numbers
        mask, lam = problem.trainable_mask(), jnp.asarray(inputs.eigenvalues)[:, None, None]
        eta_l = shift * eta * (1.0 if mask is None else jnp.asarray(mask)[:, :1, None])
        kappa = sgd.weight_decay
        self.weights, self.force, self.noise = jnp.asarray(inputs.weights), eta_l * lam, eta / sgd.batch
        self.shrink_r = 1 / (1 - eta_l * (lam * values[:, None] - kappa))
        self.shrink_q = 1 / (1 - eta_l * (lam * (values[:, None] + values) - 2 * kappa))
        r, q = turn @ state.r, turn @ state.q @ self.basis
        self.B, self.overlaps = turn @ p.B, joint_covariance(r, q, jnp.asarray(system.t))
        self.rates = shift * eta_v, shift * eta_b
        A, G = (jnp.einsum("ia,ijz,jb->abz", self.basis, x, self.basis) for x in (dp.A, dG))
        both = jnp.concatenate([A, jnp.einsum("ia,imz->amz", self.basis, dp.B)], axis=1)
        self.slopes = both, G, dp.readout, dp.bias
        self.dense = jax.scipy.linalg.lu_factor(self._system())

    def _matrices(self, system: OrderParameters, state: Overlaps) -> tuple[Matrices, Matrices]:
        """A, B, G at a state and their derivatives with respect to the fields."""
        R, Q, T = system.covariances(state)
        K, place = R.shape[0], triangle(R.shape[0])[2]
        flat, unravel = ravel_pytree(self._fields(R, Q, state.readout, state.bias))

        def matrices(fields: Array) -> Matrices:
            R, upper, readout, bias = unravel(fields)
            readout, bias = state.readout if readout is None else readout, state.bias if bias is None else bias
            return system.moments.matrices(system.situation(R, upper[place], T, readout, bias), system.gradient_flow)

        now, along = jax.linearize(matrices, flat)
        together = max(1, TOGETHER // (K * sum(R.shape)) ** 2)  # G is a sum of (K (K + M))^2 terms
        slopes = jax.lax.map(along, jnp.eye(flat.size), batch_size=min(together, flat.size))
        return now, jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), slopes)

    def _fields(self, R: Array, Q: Array, readout: Array, bias: Array | None) -> tuple[Array | None, ...]:
        """What A, B, G depend on, or a change of it: R, the upper triangle of Q, and the readout and bias if they learn."""
        return R, Q[np.triu_indices(len(Q))], readout if self.trained[0] else None, bias if self.trained[1] else None

    def _system(self) -> Float[Array, "z z"]:
        """1 - d(change of the fields) / d(fields that were assumed), by sums over levels of K^3 numbers each."""
        w, f, (both, G, readout, bias), K = self.weights, self.force, self.slopes, len(self.basis)
        to_r, to_q = (w[:, None, None] * f * x for x in (self.shrink_r, self.shrink_q))
        through = to_q * f * jnp.swapaxes(self.shrink_r, 1, 2)  # q_l moves with r_l
        sums = jnp.einsum
        R = sums("knz,knm->kmz", both, sums("lk,lnm->knm", to_r[:, :, 0], self.overlaps[:, :, K:]))
        Q = sums("inz,inj->ijz", both, sums("lij,lnj->inj", to_q, self.overlaps[:, :, :K]))
        Q += sums("jnz,ijn->ijz", both, sums("lij,lin->ijn", through, self.B @ self.overlaps[:, K:]))
        Q += jnp.swapaxes(Q, 0, 1) + self.noise * to_q.sum(axis=0)[:, :, None] * G
        R, Q = sums("ai,imz->amz", self.basis, R), sums("ai,ijz,bj->abz", self.basis, Q, self.basis)
        moved = self._fields(R, Q, self.rates[0] * readout, self.rates[1] * bias)
        flat = jnp.concatenate([x.reshape(-1, R.shape[-1]) for x in jax.tree.leaves(moved)])
        return jnp.eye(len(flat)) - flat

    def solve(self, x: Overlaps) -> Overlaps:
        """(1 - shift J)^-1 x."""
        turn, back, K = self.basis.T, self.basis, len(self.basis)
        r, q = turn @ x.r, turn @ x.q @ back
        free = self._alone(r, q)
        R, Q = (jnp.einsum("l,lab->ab", self.weights, y) for y in free)
        flat = ravel_pytree(self._fields(back @ R, back @ Q @ turn, x.readout, x.bias))[0]
        fields = jax.scipy.linalg.lu_solve(self.dense, flat)
        both, G, readout, bias = (slope @ fields for slope in self.slopes)
        change = both @ self.overlaps
        push = change[..., :K]
        r = r + self.force * change[..., K:]
        q = q + self.force * (push + jnp.swapaxes(push, 1, 2) + self.noise * G)
        r, q = self._alone(r, q)
        readout = x.readout + self.rates[0] * readout if self.trained[0] else x.readout
        bias = x.bias + self.rates[1] * bias if self.trained[1] and x.bias is not None else x.bias
        return Overlaps(back @ r, back @ q @ turn, readout, bias)

    def _alone(
        self, r: Float[Array, "L K M"], q: Float[Array, "L K K"]
    ) -> tuple[Float[Array, "L K M"], Float[Array, "L K K"]]:
        """Each level for itself, with A, B, G as they are."""
        r = self.shrink_r * r
        push = self.B @ jnp.swapaxes(r, 1, 2)
        return r, self.shrink_q * (q + self.force * (push + jnp.swapaxes(push, 1, 2)))
