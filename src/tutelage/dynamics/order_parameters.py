"""The state of the overlaps and its dynamics, for any activation and any spectrum (moments/matrices.py has A, B, G).

Per level l, with the force on a student vector F = eta (lam_l (A w + B w*) - kappa w):
    dr_l = F . w*           = eta (lam_l (A r_l + B t_l) - kappa r_l)
    dq_l = F . w + transpose + (eta^2 / batch) lam_l G,   F . w = eta (lam_l (A q_l + B r_l^T) - kappa q_l)
    dv   = eta_v E[Delta g],    db = eta_b v E[Delta g']
Frozen components lose their rows of F (and of G); spherical weights are pulled back by mu_k = d ln|w_k| / dalpha;
slow momentum puts a velocity between force and weights; a fixed momentum beta divides every rate by 1 - beta.
A mixture (moments/matrices.py) has A, B, G of its own for every level, with lam_l = 1 here.
A part of the teacher's fields that the inputs do not carry (`Problem.unseen`) adds to T in A, B and G, not to t_l.
Several tasks (problem/tasks.py) mix their A, B, G; teachers that drift with the rate omega take omega r_l from dr_l.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.dynamics.equations import ClosedSystem
from tutelage.dynamics.error import Point, field_means, population_error, shared_parity
from tutelage.errors import InputError
from tutelage.moments import (
    ClosedMoments,
    MixtureMoments,
    Moments,
    NodeMoments,
    TaskMoments,
    moments_for,
    single_moments,
)
from tutelage.moments.averages import Averages, MeanUpdate, Situation
from tutelage.moments.matrices import joint_covariance, mean_update, mixed, summed_levels
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Problem, SlowMomentum, Start, Tasks
from tutelage.problem.schedules import rate_at, switch_times
from tutelage.rules import Context, Parameters

SMALL_PRODUCT = 2**11  # products of numbers in a product of matrices that is small


class Overlaps(eqx.Module):
    """Overlaps r and q, and what else learns; velocity: None without slow momentum.

    JAX arrays inside of compiled programs, NumPy arrays elsewhere; several states may be stacked along leading axes.
    """

    r: Float[Any, "*lead L K M"]
    q: Float[Any, "*lead L K K"]
    readout: Float[Any, "*lead_outputs_K"]
    bias: Float[Any, "*lead K"] | None
    velocity: "Velocity | None"


class Velocity(eqx.Module):
    """Overlaps of the momentum vectors Om per level: with teachers, students and themselves.

    teacher: Om P_l W*^T / (N p_l); student: W P_l Om^T / (N p_l), first index the student; own: Om P_l Om^T / (N p_l).
    """

    teacher: Float[Array, "L K M"]
    student: Float[Array, "L K K"]
    own: Float[Array, "L K K"]


class OrderParameters(ClosedSystem):
    """The closed system of a problem whose teacher has overlaps t (L, M, M)."""

    problem: Problem
    t: Float[Any, "L M M"]
    moments: Moments
    gradient_flow: bool = eqx.field(static=True)
    keep_blocks: bool = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        t: Float[Any, "L M M"],
        gradient_flow: bool = False,
        keep_blocks: bool = False,
        quadrature: Quadrature | None = None,
        moments: Moments | None = None,
    ):
        self.problem, self.t = problem, t
        self.moments = moments_for(problem, quadrature) if moments is None else moments
        # the error of a mixture needs the overlaps of every level
        self.gradient_flow, self.keep_blocks = gradient_flow, keep_blocks or isinstance(self.moments, MixtureMoments)

    @property
    def closed(self) -> bool:
        """Are the averages those of squared loss, by closed forms or quadrature of pairs?"""
        if isinstance(self.moments, MixtureMoments):
            return False
        return all(isinstance(moments, ClosedMoments) for moments in single_moments(self.moments))

    @property
    def error_rounding(self) -> float:
        """The rounding error of e_g, from its averages."""
        closed = [moments for moments in single_moments(self.moments) if isinstance(moments, ClosedMoments)]
        return max((moments.averages.error_rounding for moments in closed), default=0.0)

    @property
    def averages(self) -> Averages:
        """The Gaussian averages of the activations, from which the closed forms of squared loss are made."""
        if not isinstance(self.moments, ClosedMoments):
            raise InputError("the averages of activations exist for squared loss only; this problem is averaged over nodes.")
        return self.moments.averages

    @property
    def _lam(self) -> Float[Array, "L 1 1"]:
        if isinstance(self.moments, MixtureMoments):
            return jnp.ones((self.problem.inputs.levels, 1, 1))
        return jnp.asarray(self.problem.inputs.eigenvalues)[:, None, None]

    def rates(self, t: ArrayLike) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        """eta, eta_v, eta_b at time t, a fixed momentum included."""
        sgd = self.problem.sgd
        lr = rate_at(sgd.lr, t)
        readout = lr if sgd.readout_lr is None else rate_at(sgd.readout_lr, t)
        bias = lr if sgd.bias_lr is None else rate_at(sgd.bias_lr, t)
        if isinstance(sgd.momentum, SlowMomentum):
            return lr, readout, bias
        gain = 1 - sgd.momentum
        return lr / gain, readout / gain, bias / gain

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        rates = switch_times(end, *self.problem.schedules().values())
        tasks = self.problem.teacher.switches(end) if isinstance(self.problem.teacher, Tasks) else None
        known = [times for times in (rates, tasks) if times is not None]
        return jnp.concatenate(known) if known else None

    def covariances(self, state: Overlaps) -> tuple[Float[Array, "K M"], Float[Array, "K K"], Float[Array, "M M"]]:
        """R, Q, T of the fields."""
        return self._summed(state.r), self._summed(state.q), self.teacher_covariance

    @property
    def teacher_covariance(self) -> Float[Array, "M M"]:
        """T of the fields: what the inputs carry, and what they do not."""
        seen, unseen = self._summed(self.t), self.problem.unseen
        return seen if unseen is None else seen + unseen

    def _summed(self, blocks: Float[Array, "L a b"]) -> Float[Array, "a b"]:
        return summed_levels(self.problem.inputs.weights, blocks)

    def matrices(self, state: Overlaps, t: ArrayLike = 0.0) -> tuple[MeanUpdate, Array]:
        """A, B (with what moves readout and bias) and G at a state."""
        if isinstance(self.moments, MixtureMoments):
            at = self.situation(*self.covariances(state), state.readout, state.bias, t)
            return self.moments.of_levels(at, (state.r, state.q, self.t), self.gradient_flow)
        return self.matrices_at(*self.covariances(state), state.readout, state.bias, t)

    def matrices_at(
        self, R: Array, Q: Array, T: Array, readout: Array, bias: Array | None, t: ArrayLike = 0.0
    ) -> tuple[MeanUpdate, Array]:
        """The same as functions of the fields' covariances, the readout and the biases: on nothing else do they depend."""
        return self.moments.matrices(self.situation(R, Q, T, readout, bias, t), self.gradient_flow)

    def situation(self, R: Array, Q: Array, T: Array, readout: Array, bias: Array | None, t: ArrayLike = 0.0) -> Situation:
        """What the averages of the rule depend on, at covariances of the fields."""
        problem, mean = self.problem.labeled_at(t), field_means(self.problem, bias)
        return Situation(problem, joint_covariance(R, Q, T), mean, Parameters(readout, bias), self.context(t, R, Q, T))

    def context(self, t: ArrayLike, R: Float[Array, "K M"], Q: Float[Array, "K K"], T: Float[Array, "M M"]) -> Context:
        """What a rule may look at besides the sample."""
        return Context(self.problem.student, self.problem.loss, rate_at(self.problem.sgd.lr, t), t, (R, Q, T))

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        return self._drift(t, state, *self.matrices(state, t))

    def drift_and_error_rate(self, t: ArrayLike, state: Overlaps) -> tuple[Overlaps, Array]:
        if isinstance(self.moments, TaskMoments):
            return self._drift_and_error_rates(t, state, self.moments)
        p, G = self.matrices(state, t)
        d = self._drift(t, state, p, G)
        # the matrices give the slope of the training loss; for other metrics the overlaps alone guide the steps
        if not self.closed:
            return d, jnp.zeros(())
        return d, self.error_slope(p if self.problem.classic else self.error_derivatives(state), d)

    def _drift_and_error_rates(self, t: ArrayLike, state: Overlaps, moments: TaskMoments) -> tuple[Overlaps, Array]:
        """The drift, and the change of the error of each task (task,)."""
        at = self.situation(*self.covariances(state), state.readout, state.bias, t)
        each = moments.of_tasks(at, self.gradient_flow)
        d = self._drift(t, state, *mixed(at.problem, each, at.context))
        if not self.closed:
            return d, jnp.zeros(())
        slopes = []
        for s, (p, _) in enumerate(each):
            one = self.task(s)
            p = p if one.problem.classic else one.error_derivatives(self.task_part(state, s))
            slopes.append(one.error_slope(p, self.task_part(d, s)))
        return d, jnp.stack(slopes)

    def task(self, task: int) -> "OrderParameters":
        """The closed system of one task alone."""
        units = self.problem.teacher.units(task)
        moments = single_moments(self.moments)[task]
        return OrderParameters(self.problem.task(task), self.t[:, units, units], self.gradient_flow, moments=moments)

    def task_part(self, state: Overlaps, task: int) -> Overlaps:
        """What a state, or a change of it, is to one task: the overlaps with its teacher, and its head."""
        tasks = self.problem.teacher
        return Overlaps(state.r[..., tasks.units(task)], state.q, tasks.head(state.readout, task), state.bias, None)

    def _of_tasks(self, observed: dict[str, Array]) -> list[tuple["OrderParameters", dict[str, Array]]]:
        """For each task its system and what it sees of an observation."""
        tasks = self.problem.teacher

        def seen(task: int) -> dict[str, Array]:
            own = {"R": observed["R"][:, tasks.units(task)], "readout": tasks.head(observed["readout"], task)}
            return {name: value for name, value in observed.items() if name in ("Q", "bias")} | own

        return [(self.task(task), seen(task)) for task in range(tasks.count)]

    def error_derivatives(self, state: Overlaps) -> MeanUpdate:
        """Minus the derivatives of e_g by Q (twice), R, readout and bias: the mean update of backpropagation."""
        C, mean = joint_covariance(*self.covariances(state)), field_means(self.problem, state.bias)
        return mean_update(self.averages, C, mean, state.readout, self.problem.teacher.readout)

    def error_slope(self, p: MeanUpdate, d: Overlaps) -> Array:
        """The change of e_g along a change of the state, where its derivatives are -p."""
        slope = -jnp.sum(p.A * self._summed(d.q)) / 2 - jnp.sum(p.B * self._summed(d.r))
        if self.problem.student.train_readout:
            slope = slope - jnp.sum(p.readout * d.readout)
        if d.bias is not None and self.problem.student.train_bias:
            slope = slope - p.bias @ d.bias
        return slope

    def _drift(self, t: ArrayLike, state: Overlaps, p: MeanUpdate, G: Array) -> Overlaps:
        sgd, student = self.problem.sgd, self.problem.student
        eta, eta_v, eta_b = self.rates(t)
        readout = eta_v * p.readout if student.train_readout else jnp.zeros_like(state.readout)
        tasks = self.problem.teacher if isinstance(self.problem.teacher, Tasks) else None
        if tasks is not None and tasks.freeze_heads is not None:
            readout = tasks.head_rates(t) * readout
        bias = None if state.bias is None else (eta_b * p.bias if student.train_bias else jnp.zeros_like(state.bias))
        if isinstance(sgd.momentum, SlowMomentum):
            dr, dq, velocity = self._slow(t, state, p, G, sgd.momentum)
        else:
            dr, change, noise = self._forces(t, state, p, G, eta)
            dq = change + _T(change) + noise
            dr, dq = self.onto_sphere(state, dr, dq) if sgd.spherical else (dr, dq)
            velocity = None
        if tasks is not None and tasks.drift is not None:  # the teachers move away from students and velocities
            omega = jnp.asarray(tasks.drift.rate)
            dr = dr - omega * state.r
            if velocity is not None and state.velocity is not None:
                moved = velocity.teacher - omega * state.velocity.teacher
                velocity = Velocity(moved, velocity.student, velocity.own)
        return Overlaps(dr, dq, readout, bias, velocity)

    def _mask(self) -> Float[Array, "L K 1"] | None:
        """Which student vectors learn on which level; None if everything does."""
        mask = self.problem.trainable_mask()
        return None if mask is None else jnp.asarray(mask)[:, :, None]

    def _forces(
        self, t: ArrayLike, state: Overlaps, p: MeanUpdate, G: Array, eta: Array
    ) -> tuple[Float[Array, "L K M"], Float[Array, "L K K"], Float[Array, "L K K"]]:
        """F . w*, F . w and the noise of a step, at the rate eta."""
        lam, mask, kappa = self._lam, self._mask(), rate_at(self.problem.sgd.weight_decay, t)
        r, q = state.r, state.q
        K, overlaps = q.shape[-1], jnp.concatenate([jnp.concatenate([q, r], -1), jnp.concatenate([_T(r), self.t], -1)], -2)
        force = _product(jnp.concatenate([p.A, p.B], -1), overlaps)
        dr = eta * (lam * force[..., K:] - kappa * r)
        fq = eta * (lam * force[..., :K] - kappa * q)
        noise = (eta**2 / self.problem.samples_per_step) * lam * G
        if mask is not None:
            dr, fq, noise = mask * dr, mask * fq, mask * noise * _T(mask)
        return dr, fq, noise

    def onto_sphere(
        self, state: Overlaps, dr: Float[Array, "L K M"], dq: Float[Array, "L K K"]
    ) -> tuple[Float[Array, "L K M"], Float[Array, "L K K"]]:
        """Subtract from each student vector its change of length: mu_k = d|w_k|^2 / (2 |w_k|^2)."""
        fractions = jnp.asarray(self.problem.inputs.fractions)
        length, change = (jnp.einsum("l,lkk->k", fractions, x) for x in (state.q, dq))
        mu = (change / (2 * length))[:, None]
        return dr - mu * state.r, dq - (mu + mu.T) * state.q

    def _slow(
        self, t: ArrayLike, state: Overlaps, p: MeanUpdate, G: Array, momentum: SlowMomentum
    ) -> tuple[Array, Array, Velocity]:
        """dR = U, dU = -gamma U + k E[delta rho], dQ = V + V^T, dV = W2 - gamma V + k E[lambda delta],
        dW2 = -2 gamma W2 + k (E[delta om] + transpose) + k^2 G, each per level; decay acts as part of the force."""
        sgd, mask, velocity = self.problem.sgd, self._mask(), state.velocity
        assert velocity is not None
        gamma, kappa = jnp.asarray(momentum.gamma), rate_at(sgd.weight_decay, t)
        k = gamma * rate_at(sgd.lr, t) if momentum.k is None else rate_at(momentum.k, t)
        on_teacher, on_student, noise = self._forces(t, state, p, G, k)
        on_own = k * (self._lam * (p.A @ velocity.student + p.B @ _T(velocity.teacher)) - kappa * velocity.student)
        on_own = on_own if mask is None else mask * on_own
        return (
            velocity.teacher,
            velocity.student + _T(velocity.student),
            Velocity(
                teacher=on_teacher - gamma * velocity.teacher,
                student=velocity.own - gamma * velocity.student + _T(on_student),
                own=on_own + _T(on_own) - 2 * gamma * velocity.own + noise,
            ),
        )

    def observe(self, state: Overlaps) -> dict[str, Array]:
        R, Q, _ = self.covariances(state)
        seen = {"R": R, "Q": Q, "readout": state.readout}
        if state.bias is not None:
            seen["bias"] = state.bias
        if self.keep_blocks:
            seen |= {"r": state.r, "q": state.q}
        return seen

    def error(self, observed: dict[str, Array]) -> Float[Array, "*tasks"]:
        """The error of one observation: a number, or one for each task."""
        problem = self.problem
        if isinstance(problem.teacher, Tasks):
            return jnp.stack([one.error(seen) for one, seen in self._of_tasks(observed)])
        if isinstance(self.moments, MixtureMoments):
            return jnp.asarray(problem.inputs.probabilities) @ self.class_errors(observed)[0]
        if isinstance(self.moments, NodeMoments):
            return self.moments.error(self._seen(observed))
        readouts = observed["readout"], jnp.asarray(problem.teacher.readout)
        at = Point(observed["R"], observed["Q"], self.teacher_covariance, *readouts)
        return population_error(self.averages, at, field_means(problem, observed.get("bias")), shared_parity(problem))

    def loss(self, observed: dict[str, Array], t: ArrayLike = 0.0) -> Float[Array, "*tasks"]:
        """The population training loss: what training labels, noise at time t included, cost on average; of each task."""
        if isinstance(self.problem.teacher, Tasks):
            return jnp.stack([one.loss(seen, t) for one, seen in self._of_tasks(observed)])
        if isinstance(self.moments, MixtureMoments):
            return jnp.asarray(self.problem.inputs.probabilities) @ self.class_errors(observed, t)[1]
        if isinstance(self.moments, NodeMoments):
            return self.moments.loss(self._seen(observed, t))
        return self.error(observed) + jnp.asarray(self.problem.labeled_at(t).noise) ** 2 / 2

    def class_errors(
        self, observed: dict[str, Array], t: ArrayLike = 0.0
    ) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Error and loss in each class of a mixture, at time t."""
        assert isinstance(self.moments, MixtureMoments)
        blocks = observed["r"], observed["q"], self.t
        at = self.situation(*map(self._summed, blocks), observed["readout"], observed.get("bias"), t)
        return self.moments.errors(at, blocks)

    def _seen(self, observed: dict[str, Array], t: ArrayLike = 0.0) -> Situation:
        R, Q, readout, bias = (observed.get(name) for name in ("R", "Q", "readout", "bias"))
        return self.situation(R, Q, self.teacher_covariance, readout, bias, t)


def initial_overlaps(problem: Problem, start: Start) -> tuple[Overlaps, Float[Any, "L M M"]]:
    """The state at time zero and the teacher's overlaps t per level.

    They are NumPy arrays unless something is traced, because JAX compiles every single operation outside of a program.
    """
    xp: Any = jnp if checks.is_traced(problem, start) else np
    as_array = lambda x: xp.asarray(x, float)  # noqa: E731
    r, q, t = (as_array(x) for x in start.blocks(problem))
    readout = as_array(start.readout_of(problem))
    bias = problem.student.bias if start.bias is None else start.bias
    if bias is None and problem.biased:
        bias = np.zeros(problem.student.hidden)
    slow = isinstance(problem.sgd.momentum, SlowMomentum)
    velocity = Velocity(jnp.zeros_like(r), jnp.zeros_like(q), jnp.zeros_like(q)) if slow else None
    return Overlaps(r, q, readout, None if bias is None else as_array(bias), velocity), t


def as_arrays(tree: PyTree) -> PyTree:
    """Numbers as arrays (data to the compiled function, which takes them to its device), functions and words as they are."""
    if isinstance(tree, Problem):
        tree = eqx.tree_at(lambda p: p.inputs, tree, tree.inputs.levels_only())
    as_array = lambda x: jnp.asarray(x, float) if isinstance(x, jax.Array) else np.asarray(x, float)  # noqa: E731
    return jax.tree.map(lambda x: as_array(x) if eqx.is_array_like(x) else x, tree)


def flatten(state: Overlaps) -> Float[Any, "*lead size"]:
    """(r, upper triangle of q, readout, bias) of a state, or of a drift, in one vector; any leading axes are kept.

    Each independent number is there once, so that eigenvalues and eigenvectors of a Jacobian mean what they should.
    """
    rows, columns = np.triu_indices(state.q.shape[-1])
    parts = [x for x in (state.r, state.q[..., rows, columns], state.readout, state.bias) if x is not None]
    xp = checks.array_module(*parts)
    return xp.concatenate([xp.reshape(x, (*state.r.shape[:-3], -1)) for x in parts], axis=-1)


def unflatten(vector: Float[Any, "*lead size"], like: Overlaps) -> Overlaps:
    """The state, or the states, with these coordinates."""
    (L, K, M), lead = like.r.shape, vector.shape[:-1]
    rows, columns = np.triu_indices(K)
    place = np.zeros((K, K), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    sizes = np.cumsum([L * K * M, L * rows.size, like.readout.size])
    r, upper, readout, bias = (vector[..., a:b] for a, b in zip((0, *sizes), (*sizes, vector.shape[-1]), strict=True))
    q = upper.reshape(*lead, L, rows.size)[..., place]
    r, readout = r.reshape(*lead, L, K, M), readout.reshape(*lead, *like.readout.shape)
    return Overlaps(r, q, readout, None if like.bias is None else bias, None)


def _product(a: Float[Array, "*L K n"], b: Float[Array, "L n n"]) -> Float[Array, "L K n"]:
    """a @ b. Of few numbers as a sum, which XLA joins with what stands around it; a product is a call."""
    small = a.ndim == 2 and a.size * b[:, 0].size <= SMALL_PRODUCT
    return jnp.sum(a[:, :, None] * b[:, None], axis=2) if small else a @ b


def _T(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)
