"""The state of the overlaps, its dynamics and its error, for any activation.

moments/matrices.py computes A, B and G. In each level l of the spectrum a student
vector w feels the force
    F = eta (lam_l (A w + B w*) - kappa w),
which changes the overlaps r_l, q_l, the readout v and the biases b at the rates
    dr_l = F . w*
         = eta (lam_l (A r_l + B t_l) - kappa r_l)
    dq_l = F . w + transpose + (eta^2 / batch) lam_l G
     F . w = eta (lam_l (A q_l + B r_l^T) - kappa q_l)
    dv   = eta_v E[Delta g]
    db   = eta_b v E[Delta g'].
These features change the equations:
- frozen components lose their rows of F and of G;
- spherical weights are pulled back by mu_k = d ln|w_k| / dalpha;
- slow momentum puts a velocity between force and weights, a fixed momentum beta divides
  every rate by 1 - beta;
- a mixture (moments/matrices.py) has A, B, G of its own for every level, and lam_l = 1
  here;
- a part of the teacher's fields that the inputs do not carry (`Problem.unseen`) adds to
  T in A, B and G, not to t_l;
- several tasks (problem/tasks.py) mix their A, B, G;
- teachers that drift with the rate omega take omega r_l from dr_l.
"""

import math
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from tutelage import checks
from tutelage._types import Array, ArrayLike, Numbers, NumpyOrJax
from tutelage.errors import InputError
from tutelage.problem import Isotropic, Problem, SlowMomentum, Start
from tutelage.problem.traits import (
    ANY_THEORY,
    CLASSIC,
    CONSTANT_RATES,
    OPTIMIZERS,
    TASKS,
    missing_traits,
    require_traits,
)
from tutelage.solvers.equations import ClosedSystem
from tutelage.stream.moments import Moments, moments_for
from tutelage.stream.moments.averages import (
    Averages,
    ErfAverages,
    FieldState,
    MeanUpdate,
    array_module,
    triangle,
)
from tutelage.stream.moments.matrices import (
    ClosedMoments,
    MixtureMoments,
    TaskMoments,
    averages_for,
    joint_covariance,
    mean_update,
    single_moments,
    summed_levels,
)
from tutelage.stream.moments.quadrature import Quadrature
from tutelage.stream.optimizers import Motion, Scales, StepTheory, step_theory_of
from tutelage.stream.optimizers.base import Moment
from tutelage.training.rules import Context, Parameters
from tutelage.training.schedules import rate_at, switch_times

# A product of matrices is small up to this number of multiplications.
SMALL_PRODUCT = 2**11


class Overlaps(NamedTuple):
    """The overlaps r and q, and all else that learns.

    velocity is None without slow momentum, scales without an adaptive optimizer. The
    arrays are of JAX inside of compiled programs and of NumPy elsewhere. Several states
    may be stacked along leading axes.
    """

    r: Float[Any, "*lead L K M"]
    q: Float[Any, "*lead L K K"]
    readout: Float[Any, "*lead_outputs_K"]
    bias: Float[Any, "*lead K"] | None = None
    velocity: "Velocity | None" = None
    scales: Scales | None = None


class Velocity(NamedTuple):
    """The overlaps per level of the momentum vectors Om.

    teacher: with the teachers, Om P_l W*^T / (N p_l).
    student: with the students, W P_l Om^T / (N p_l); the first index is the student.
    own: with each other, Om P_l Om^T / (N p_l).
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
        if moments is None:
            moments = moments_for(problem, quadrature)
        self.problem = problem
        self.t = t
        self.moments = moments
        self.gradient_flow = gradient_flow
        # the error of a mixture needs the overlaps of every level
        self.keep_blocks = keep_blocks or isinstance(moments, MixtureMoments)

    @property
    def closed(self) -> bool:
        """True if the averages are of squared loss.

        They are closed forms, or quadratures over pairs of fields.
        """
        if isinstance(self.moments, MixtureMoments):
            return False
        tasks = single_moments(self.moments)
        return all(isinstance(task, ClosedMoments) for task in tasks)

    @property
    def error_rounding(self) -> float:
        """The rounding error of e_g, from its averages."""
        roundings = [
            task.averages.error_rounding
            for task in single_moments(self.moments)
            if isinstance(task, ClosedMoments)
        ]
        return max(roundings, default=0.0)

    @property
    def averages(self) -> Averages:
        """The Gaussian averages of the activations.

        The closed forms of squared loss are made of them.
        """
        if not isinstance(self.moments, ClosedMoments):
            raise InputError(
                "the averages of activations exist for squared loss only; "
                "this problem is averaged over nodes."
            )
        return self.moments.averages

    @property
    def steps(self) -> StepTheory:
        """The theory of the optimizer's steps."""
        return step_theory_of(self.problem.optimizer)

    @property
    def _lam(self) -> Float[Array, "L 1 1"]:
        """The eigenvalues that multiply A, B and G."""
        inputs = self.problem.inputs
        if isinstance(self.moments, MixtureMoments):
            return jnp.ones((inputs.levels, 1, 1))
        return jnp.asarray(inputs.eigenvalues)[:, None, None]

    def rates(
        self, t: ArrayLike
    ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        """Return eta, eta_v, eta_b at time t; a fixed momentum is included."""
        optimizer = self.problem.optimizer
        fraction = 1.0
        if optimizer.slow_momentum is None:
            fraction = 1 - optimizer.momentum

        def effective(rate: Any) -> Float[Array, ""]:
            # readout and biases learn at the rate of the vectors by default
            if rate is None:
                rate = optimizer.lr
            return rate_at(rate, t) / fraction

        return (
            effective(optimizer.lr),
            effective(optimizer.readout_lr),
            effective(optimizer.bias_lr),
        )

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        schedules = self.problem.schedules.values()
        known: tuple[ArrayLike, ...] = ()
        if self.problem.several_tasks is not None:
            switches_of_tasks = self.problem.several_tasks.switches(end)
            if switches_of_tasks is not None:
                known = (switches_of_tasks,)
        return switch_times(end, *schedules, known=known)

    def covariances(
        self, state: Overlaps
    ) -> tuple[Float[Array, "K M"], Float[Array, "K K"], Float[Array, "M M"]]:
        """Return R, Q, T of the fields."""
        return self._summed(state.r), self._summed(state.q), self.teacher_covariance

    @property
    def teacher_covariance(self) -> Float[Array, "M M"]:
        """T of the fields: the part that the inputs carry, and the unseen part."""
        seen = self._summed(self.t)
        unseen = self.problem.unseen
        if unseen is None:
            return seen
        return seen + unseen

    def _summed(self, blocks: Float[Array, "L a b"]) -> Float[Array, "a b"]:
        """Return sum_l p_l lam_l x_l."""
        return summed_levels(self.problem.inputs.weights, blocks)

    def matrices(self, state: Overlaps, t: ArrayLike = 0.0) -> tuple[MeanUpdate, Array]:
        """Return A, B (with the mean update of readout and bias) and G at a state."""
        R, Q, T = self.covariances(state)
        field_state = self.field_state(R, Q, T, state.readout, state.bias, t)
        without_G = self.gradient_flow and not self.steps.needs_G
        if isinstance(self.moments, MixtureMoments):
            blocks = (state.r, state.q, self.t)
            return self.moments.of_levels(field_state, blocks, without_G)
        return self.moments.matrices(field_state, without_G)

    def field_state(
        self,
        R: Array,
        Q: Array,
        T: Array,
        readout: Array,
        bias: Array | None,
        t: ArrayLike = 0.0,
    ) -> FieldState:
        """Return all that the averages of the rule depend on."""
        return FieldState(
            problem=self.problem.labeled_at(t),
            C=joint_covariance(R, Q, T),
            mean=field_means(self.problem, bias),
            parameters=Parameters(readout, bias),
            context=self.context(t, R, Q, T),
        )

    def context(
        self,
        t: ArrayLike,
        R: Float[Array, "K M"],
        Q: Float[Array, "K K"],
        T: Float[Array, "M M"],
    ) -> Context:
        """Return the quantities besides the sample that a rule may read."""
        return Context(
            student=self.problem.student,
            loss=self.problem.loss,
            lr=rate_at(self.problem.optimizer.lr, t),
            time=t,
            overlaps=(R, Q, T),
        )

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        update, G = self.matrices(state, t)
        return self._drift(t, state, update, G)

    def drift_and_error_rate(
        self, t: ArrayLike, state: Overlaps
    ) -> tuple[Overlaps, Float[Array, "*tasks"]]:
        # A and B give the slope of the training loss. The error is another number if it
        # is averaged over nodes: then the overlaps alone guide the steps.
        if not self.closed:
            return self.drift(t, state), jnp.zeros(())
        update, G = self.matrices(state, t)
        drift = self._drift(t, state, update, G)
        if isinstance(self.moments, TaskMoments):
            return drift, self._error_slopes_of_tasks(t, state, drift)
        # the mean update is the gradient of e_g only if the rule is backpropagation
        derivatives = update
        if missing_traits(self.problem, CLASSIC):
            derivatives = self.error_derivatives(state)
        return drift, self.error_slope(derivatives, drift)

    def _error_slopes_of_tasks(
        self, t: ArrayLike, state: Overlaps, drift: Overlaps
    ) -> Float[Array, " tasks"]:
        """Return d e_g / dalpha of each task along a drift."""
        assert isinstance(self.moments, TaskMoments)
        tasks = self.problem.several_tasks
        assert tasks is not None
        R, Q, T = self.covariances(state)
        field_state = self.field_state(R, Q, T, state.readout, state.bias, t)
        slopes = []
        moments: Any
        for task, moments in enumerate(self.moments.by_task):
            # the error depends on the overlaps with the task's teacher, and on its head
            drift_of_task = drift._replace(
                r=drift.r[..., tasks.units(task)],
                readout=tasks.head(drift.readout, task),
            )
            derivatives = moments.error_derivatives(field_state.of_task(task))
            slopes.append(self.error_slope(derivatives, drift_of_task))
        return jnp.stack(slopes)

    def error_derivatives(self, state: Overlaps) -> MeanUpdate:
        """Return minus the derivatives of e_g by Q (twice), R, readout and bias.

        They are the mean update of backpropagation.
        """
        return mean_update(
            self.averages,
            joint_covariance(*self.covariances(state)),
            field_means(self.problem, state.bias),
            state.readout,
            self.problem.references.readout,
        )

    def error_slope(self, derivatives: MeanUpdate, change: Overlaps) -> Array:
        """Return the change of e_g along a change of the state.

        derivatives: minus the derivatives of e_g, as of `error_derivatives`.
        """
        student = self.problem.student
        slope = -jnp.sum(derivatives.A * self._summed(change.q)) / 2
        slope = slope - jnp.sum(derivatives.B * self._summed(change.r))
        if student.train_readout:
            slope = slope - jnp.sum(derivatives.readout * change.readout)
        if change.bias is not None and student.train_bias:
            slope = slope - derivatives.bias @ change.bias
        return slope

    def _drift(
        self, t: ArrayLike, state: Overlaps, update: MeanUpdate, G: Array
    ) -> Overlaps:
        """Return d state / dalpha for given A, B and G."""
        optimizer = self.problem.optimizer
        eta, eta_v, eta_b = self.rates(t)
        scales = None
        if isinstance(optimizer.momentum, SlowMomentum):
            dr, dq, velocity = self._slow(t, state, update, G, optimizer.momentum)
        else:
            motion = self._motion(t, state, update, G, eta)
            update = motion.update
            scales = motion.scales
            dr, force_on_students, noise = self._forces(t, state, motion, eta)
            dq = force_on_students + _T(force_on_students) + noise
            if optimizer.spherical:
                dr, dq = self.onto_sphere(state, dr, dq)
            velocity = None
        drift = Overlaps(
            r=dr,
            q=dq,
            readout=self._readout_drift(t, state, update, eta_v),
            bias=self._bias_drift(state, update, eta_b),
            velocity=velocity,
            scales=scales,
        )
        return self._with_drifting_teachers(state, drift)

    def _readout_drift(
        self, t: ArrayLike, state: Overlaps, update: MeanUpdate, eta_v: Array
    ) -> Float[Array, "*outputs K"]:
        """Return dv = eta_v E[Delta g], zero for frozen readouts."""
        tasks = self.problem.several_tasks
        if self.problem.student.train_readout:
            dv = eta_v * update.readout
        else:
            dv = jnp.zeros_like(state.readout)
        if tasks is not None and tasks.freeze_heads is not None:
            dv = tasks.head_rates(t) * dv
        return dv

    def _bias_drift(
        self, state: Overlaps, update: MeanUpdate, eta_b: Array
    ) -> Float[Array, " K"] | None:
        """Return db = eta_b v E[Delta g'], None if there are no biases."""
        if state.bias is None:
            return None
        if self.problem.student.train_bias:
            return eta_b * update.bias
        return jnp.zeros_like(state.bias)

    def _with_drifting_teachers(self, state: Overlaps, drift: Overlaps) -> Overlaps:
        """Return a drift with the motion of the teachers, if they move.

        They leave students and momentum vectors behind at the rate omega.
        """
        tasks = self.problem.several_tasks
        if tasks is None or tasks.drift is None:
            return drift
        omega = jnp.asarray(tasks.drift.rate)
        velocity = drift.velocity
        if velocity is not None and state.velocity is not None:
            loss_of_overlap = omega * state.velocity.teacher
            velocity = velocity._replace(teacher=velocity.teacher - loss_of_overlap)
        return drift._replace(r=drift.r - omega * state.r, velocity=velocity)

    def _mask(self) -> Float[Array, "L K 1"]:
        """Return 1 where a student vector learns on a level, else 0."""
        mask = self.problem.trainable_mask()
        if mask is None:
            return jnp.ones((1, 1, 1))
        return jnp.asarray(mask)[:, :, None]

    def _motion(
        self, t: ArrayLike, state: Overlaps, update: MeanUpdate, G: Array, eta: Array
    ) -> Motion:
        """Return what the optimizer makes of the averages, at the rate eta."""
        moment = Moment(
            problem=self.problem,
            eigenvalues=self._lam,
            samples=self.problem.samples_per_step,
            time=t,
            scales=state.scales,
            update=update,
            G=G,
            eta=eta,
            gradient_flow=self.gradient_flow,
        )
        return self.steps.motion(moment)

    def _forces(
        self, t: ArrayLike, state: Overlaps, motion: Motion, eta: Array
    ) -> tuple[Float[Array, "L K M"], Float[Array, "L K K"], Float[Array, "L K K"]]:
        """Return F . w*, F . w and the noise of a step, at the rate eta."""
        mask = self._mask()
        kappa = rate_at(self.problem.optimizer.weight_decay, t)
        r = state.r
        q = state.q
        K = q.shape[-1]
        # one product of (A | B) with [[q, r], [r^T, t]] makes A q + B r^T and A r + B t
        overlaps_of_students = jnp.concatenate([q, r], -1)
        overlaps_of_teachers = jnp.concatenate([_T(r), self.t], -1)
        overlaps = jnp.concatenate([overlaps_of_students, overlaps_of_teachers], -2)
        coefficients = jnp.concatenate([motion.update.A, motion.update.B], -1)
        force = _product(coefficients, overlaps)
        on_teachers = eta * (motion.force * force[..., K:] - kappa * r)
        on_students = eta * (motion.force * force[..., :K] - kappa * q)
        return mask * on_teachers, mask * on_students, mask * motion.noise * _T(mask)

    def onto_sphere(
        self,
        state: Overlaps,
        dr: Float[Any, "*lead L K M"],
        dq: Float[Any, "*lead L K K"],
    ) -> tuple[Float[Any, "*lead L K M"], Float[Any, "*lead L K K"]]:
        """Subtract from each student vector its change of length.

        mu_k = d|w_k|^2 / (2 |w_k|^2) is its relative rate.
        """
        xp = array_module(dq)
        fractions = xp.asarray(self.problem.inputs.fractions)
        length = xp.einsum("l,...lkk->...k", fractions, state.q)
        change = xp.einsum("l,...lkk->...k", fractions, dq)
        mu = (change / (2 * length))[..., None, :, None]
        dr = dr - mu * state.r
        dq = dq - (mu + xp.swapaxes(mu, -1, -2)) * state.q
        return dr, dq

    def _slow(
        self,
        t: ArrayLike,
        state: Overlaps,
        update: MeanUpdate,
        G: Array,
        momentum: SlowMomentum,
    ) -> tuple[Array, Array, Velocity]:
        """Return dr, dq and the drift of the velocity for slow momentum.

        In each level, with U, V and W2 the overlaps of the momentum vectors with
        teachers, students and themselves (`Velocity`),
            dr = U,          dU  = -gamma U + k E[delta rho],
            dq = V + V^T,    dV  = W2 - gamma V + k E[lambda delta],
                             dW2 = -2 gamma W2 + k (E[delta om] + transpose) + k^2 G.
        Weight decay acts as part of the force.
        """
        optimizer = self.problem.optimizer
        mask = self._mask()
        velocity = state.velocity
        assert velocity is not None
        gamma = jnp.asarray(momentum.gamma)
        kappa = rate_at(optimizer.weight_decay, t)
        if momentum.k is None:
            k = gamma * rate_at(optimizer.lr, t)
        else:
            k = rate_at(momentum.k, t)
        motion = self._motion(t, state, update, G, k)
        on_teacher, on_student, noise = self._forces(t, state, motion, k)
        mean = update.A @ velocity.student + update.B @ _T(velocity.teacher)
        on_own = mask * k * (self._lam * mean - kappa * velocity.student)
        dU = on_teacher - gamma * velocity.teacher
        dV = velocity.own - gamma * velocity.student + _T(on_student)
        dW2 = on_own + _T(on_own) - 2 * gamma * velocity.own + noise
        dr = velocity.teacher
        dq = velocity.student + _T(velocity.student)
        return dr, dq, Velocity(teacher=dU, student=dV, own=dW2)

    def observe(self, state: Overlaps) -> dict[str, Array]:
        R, Q, _ = self.covariances(state)
        observed = {"R": R, "Q": Q, "readout": state.readout}
        if state.bias is not None:
            observed["bias"] = state.bias
        if self.keep_blocks:
            observed |= {"r": state.r, "q": state.q}
            if state.scales is not None:
                observed["scale"] = state.scales.vectors
        return observed

    def error(self, observed: dict[str, Array]) -> Float[Array, "*tasks"]:
        error, _ = self.error_and_loss(observed)
        return error

    def error_and_loss(
        self, observed: dict[str, Array], t: ArrayLike = 0.0
    ) -> tuple[Float[Array, "*tasks"], Float[Array, "*tasks"]]:
        if isinstance(self.moments, MixtureMoments):
            errors, losses = self.class_errors(observed, t)
            assert self.problem.mixture is not None
            probabilities = jnp.asarray(self.problem.mixture.probabilities)
            return probabilities @ errors, probabilities @ losses
        field_state = self._field_state_of(observed, self.teacher_covariance, t)
        return self.moments.error_and_loss(field_state)

    def class_errors(
        self, observed: dict[str, Array], t: ArrayLike = 0.0
    ) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Return error and loss in each class of a mixture, at time t."""
        assert isinstance(self.moments, MixtureMoments)
        r = observed["r"]
        q = observed["q"]
        covariances = {"R": self._summed(r), "Q": self._summed(q)}
        T = self._summed(self.t)
        field_state = self._field_state_of(observed | covariances, T, t)
        return self.moments.errors(field_state, (r, q, self.t))

    def _field_state_of(
        self, observed: dict[str, Array], T: Float[Array, "M M"], t: ArrayLike
    ) -> FieldState:
        """Return all that the averages depend on, from recorded quantities."""
        return self.field_state(
            observed["R"],
            observed["Q"],
            T,
            observed["readout"],
            observed.get("bias"),
            t,
        )


def initial_overlaps(
    problem: Problem, start: Start
) -> tuple[Overlaps, Float[Any, "L M M"]]:
    """Return the state at time zero and the teacher's overlaps t per level."""
    # They are NumPy arrays unless something is traced, because JAX compiles every
    # single operation outside of a program.
    xp: Any = jnp if checks.is_traced(problem, start) else np
    r, q, t = (xp.asarray(x, float) for x in start.blocks(problem))
    readout = xp.asarray(start.readout_of(problem), float)
    bias = start.bias_of(problem)
    if bias is not None:
        bias = xp.asarray(bias, float)
    velocity = None
    if problem.optimizer.slow_momentum is not None:
        velocity = Velocity(
            teacher=xp.zeros_like(r), student=xp.zeros_like(q), own=xp.zeros_like(q)
        )
    scales = None
    if problem.optimizer.on_stream:
        steps = step_theory_of(problem.optimizer)
        scales = steps.initial(problem, readout, bias, xp)
    state = Overlaps(
        r=r, q=q, readout=readout, bias=bias, velocity=velocity, scales=scales
    )
    return state, t


def is_committee(problem: object, moments: Moments | None) -> TypeGuard[Problem]:
    """Return True for a problem that committee_kernel.py computes.

    It has squared loss with one teacher, erf units (or sign as teacher), plain SGD and
    numbers that are known.
    """
    if not isinstance(problem, Problem):
        return False
    needed = (*CLASSIC, *CONSTANT_RATES, "all levels", "plain SGD")
    if missing_traits(problem, needed):
        return False
    if not isinstance(moments, ClosedMoments):
        return False
    if not isinstance(moments.averages, ErfAverages) or checks.is_traced(problem):
        return False
    return bool(jnp.result_type(float) == np.float64)


def as_arrays(tree: PyTree) -> PyTree:
    """Return a problem or a start as a compiled program takes it.

    Numbers become arrays; functions and words stay.
    """
    # The limit depends neither on N nor on the eigenvectors of the inputs, so neither
    # does the program.
    if isinstance(tree, Problem):
        tree = eqx.tree_at(lambda p: p.inputs, tree, tree.inputs.levels_only())
    elif isinstance(tree, Start):
        tree = tree.without_dim()

    def as_array(x: Any) -> Any:
        if not eqx.is_array_like(x):
            return x
        xp: Any = jnp if isinstance(x, jax.Array) else np
        return xp.asarray(x, float)

    return jax.tree.map(as_array, tree)


def flatten(state: Overlaps) -> Float[Any, "*lead size"]:
    """Return (r, upper triangle of q, readout, bias, scales) in one vector.

    It serves states and drifts. Leading axes are kept.
    """
    # Each independent number occurs once, so that eigenvalues and eigenvectors of a
    # Jacobian mean what they should.
    rows, columns, _ = triangle(state.q.shape[-1])
    blocks = [state.r, state.q[..., rows, columns], state.readout]
    if state.bias is not None:
        blocks.append(state.bias)
    if state.scales is not None:
        blocks += [scale for scale in state.scales if scale is not None]
    xp = array_module(*blocks)
    lead = state.r.shape[:-3]
    return xp.concatenate([xp.reshape(x, (*lead, -1)) for x in blocks], axis=-1)


def unflatten(vector: Float[Any, "*lead size"], like: Overlaps) -> Overlaps:
    """Return the state, or the states, with these coordinates."""
    L, K, M = like.r.shape
    lead = vector.shape[:-1]
    rows, _, place = triangle(K)
    used = 0

    def next_block(*shape: int) -> Any:
        nonlocal used
        end = used + math.prod(shape)
        block = vector[..., used:end].reshape((*lead, *shape))
        used = end
        return block

    def next_like(array: Any) -> Any:
        return None if array is None else next_block(*np.shape(array))

    r = next_block(L, K, M)
    upper = next_block(L, rows.size)
    readout = next_block(*like.readout.shape)
    bias = next_like(like.bias)
    scales = None
    if like.scales is not None:
        scales = Scales(*(next_like(scale) for scale in like.scales))
    return Overlaps(r=r, q=upper[..., place], readout=readout, bias=bias, scales=scales)


def generalization_error(
    problem: Problem,
    R: Numbers,
    Q: Numbers,
    T: Numbers | None = None,
    readout: Numbers | None = None,
    bias: Numbers | None = None,
    quadrature: Quadrature | None = None,
) -> Float[Array, "..."]:
    """The error at given overlaps of student and teacher.

    Parameters
    ----------
    problem : Problem
        Activations, labels and readouts are used.
    R, Q : arrays (..., K, M) and (..., K, K)
        Covariances of the fields.
    T : array (M, M), optional
        Default: the gram of the teacher or the identity, and the unseen part.
    readout, bias : array, optional
        Default: those of the problem. For `Tasks` with separate heads readout is
        (tasks, K).
    quadrature : Quadrature, optional
        As in `solve`.

    Returns
    -------
    array
        e_g = E[(noiseless y - yhat)^2] / 2 for real labels, the probability of a wrong
        class for signs and classes; with a last axis of tasks for `Tasks`.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> float(tu.generalization_error(problem, np.eye(2), np.eye(2)))
    0.0
    >>> zero = np.zeros((2, 2))
    >>> error = tu.generalization_error(problem, zero, zero)  # 2 arcsin(1/2) / pi
    >>> round(float(error), 6)
    0.333333
    """
    require_traits(problem, "generalization_error", (TASKS, OPTIMIZERS, ANY_THEORY))
    K = problem.student.hidden
    M = problem.references.hidden
    R = jnp.asarray(R, float)
    Q = jnp.asarray(Q, float)
    if R.shape[-2:] != (K, M) or Q.shape != (*R.shape[:-2], K, K):
        raise InputError(
            f"R has shape {R.shape} and Q {Q.shape}; "
            f"they must be (..., {K}, {M}) and (..., {K}, {K})."
        )
    T = jnp.asarray(_default_covariance(problem) if T is None else T, float)
    if T.shape != (M, M):
        raise InputError(f"T has shape {T.shape}; it must be ({M}, {M}).")
    if readout is None:
        readout = jnp.broadcast_to(problem.student.readout, problem.readout_shape)
    if bias is None:
        bias = problem.student.bias
    parameters = {"readout": jnp.asarray(readout, float)}
    if bias is not None:
        parameters["bias"] = jnp.asarray(bias, float)
    system = at_covariances(problem, T, moments_for(problem, quadrature))
    return _errors_at(system, R, Q, parameters)


def _default_covariance(problem: Problem) -> Float[NumpyOrJax, "M M"]:
    """Return T of the fields from the teacher's gram, with the unseen part."""
    gram = problem.references.gram
    if gram is None:
        T = jnp.eye(problem.references.hidden)
    else:
        T = jnp.asarray(gram)
    if T.ndim == 3:
        T = summed_levels(problem.inputs.weights, T)
    unseen = problem.unseen
    if unseen is None:
        return T
    return T + unseen


def at_covariances(
    problem: Problem, T: Float[Array, "M M"], moments: Moments
) -> OrderParameters:
    """Return a system of one level for the error at covariances of the fields.

    One level is enough, because the error depends on these covariances alone. T is that
    of all fields, the unseen part included.
    """
    one_level = eqx.tree_at(lambda p: p.inputs, problem.all_seen(), Isotropic())
    return OrderParameters(one_level, T[None], moments=moments)


@eqx.filter_jit
def _errors_at(
    system: OrderParameters,
    R: Float[Array, "*lead K M"],
    Q: Float[Array, "*lead K K"],
    parameters: dict[str, Array],
) -> Float[Array, "*lead_tasks"]:
    """Return the errors at stacked covariances."""

    def error(pair: tuple[Array, Array]) -> Array:
        return system.error({"R": pair[0], "Q": pair[1]} | parameters)

    pairs = (R.reshape(-1, *R.shape[-2:]), Q.reshape(-1, *Q.shape[-2:]))
    if system.closed:
        errors = jax.vmap(error)(pairs)
    else:
        # averages over nodes take much memory: one after the other
        errors = jax.lax.map(error, pairs)
    return errors.reshape(*R.shape[:-2], *errors.shape[1:])


def averages_of(problem: Problem, quadrature: Quadrature | None = None) -> Averages:
    """Return the Gaussian averages of a problem's two activations.

    Its squared loss is made of them.
    """
    require_traits(problem, "the closed form of squared loss", (*CLASSIC, OPTIMIZERS))
    student = problem.student
    teacher = problem.labeler
    return averages_for(
        student.activation,
        teacher.activation,
        student.hidden,
        teacher.hidden,
        problem.biased,
        quadrature,
    )


def field_means(
    problem: Problem, bias: Float[NumpyOrJax, " K"] | None
) -> Float[Array, " n"] | None:
    """Return the hidden biases of all n fields, or None if there are none."""
    if not problem.biased:
        return None
    student_bias = _bias_or_zeros(bias, problem.student.hidden)
    teacher = problem.references
    return jnp.concatenate([student_bias, _bias_or_zeros(teacher.bias, teacher.hidden)])


def _bias_or_zeros(bias: Any, units: int) -> Float[Array, " units"]:
    """Return biases, zero for each unit if there are none."""
    if bias is None:
        return jnp.zeros(units)
    return jnp.asarray(bias, float)


def _product(
    a: Float[Array, "*L K n"], b: Float[Array, "L n n"]
) -> Float[Array, "L K n"]:
    """Return a @ b.

    A product of few numbers is written as a sum, which XLA fuses with the operations
    around it; a product of matrices would be a call.
    """
    is_small = a.ndim == 2 and a.size * b[:, 0].size <= SMALL_PRODUCT
    if is_small:
        return jnp.sum(a[:, :, None] * b[:, None], axis=2)
    return a @ b


def _T(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)
