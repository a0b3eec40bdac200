"""The state of the overlaps, its dynamics and its error, for any activation and any spectrum (moments/matrices.py: A, B, G).

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

from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from tutelage import checks
from tutelage._types import Array, ArrayLike, Numbers, NumpyOrJax
from tutelage.dynamics.equations import ClosedSystem
from tutelage.errors import InputError
from tutelage.moments import Moments, moments_for
from tutelage.moments.averages import Averages, ErfAverages, MeanUpdate, Situation, array_module, triangle
from tutelage.moments.matrices import (
    ClosedMoments,
    MixtureMoments,
    TaskMoments,
    averages_for,
    joint_covariance,
    mean_update,
    single_moments,
    summed_levels,
)
from tutelage.moments.quadrature import Quadrature
from tutelage.problem import Isotropic, Problem, SlowMomentum, Start, Tasks
from tutelage.problem.schedules import rate_at, switch_times
from tutelage.problem.traits import CLASSIC, CONSTANT_RATES, TASKS, missing_traits, require_traits
from tutelage.rules import Context, Parameters

SMALL_PRODUCT = 2**11  # products of numbers in a product of matrices that is small


class Overlaps(NamedTuple):
    """Overlaps r and q, and what else learns; velocity: None without slow momentum.

    JAX arrays inside of compiled programs, NumPy arrays elsewhere; several states may be stacked along leading axes.
    """

    r: Float[Any, "*lead L K M"]
    q: Float[Any, "*lead L K K"]
    readout: Float[Any, "*lead_outputs_K"]
    bias: Float[Any, "*lead K"] | None = None
    velocity: "Velocity | None" = None


class Velocity(NamedTuple):
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
        parts = single_moments(self.moments)
        return not isinstance(self.moments, MixtureMoments) and all(isinstance(part, ClosedMoments) for part in parts)

    @property
    def error_rounding(self) -> float:
        """The rounding error of e_g, from its averages."""
        closed = [one.averages.error_rounding for one in single_moments(self.moments) if isinstance(one, ClosedMoments)]
        return max(closed, default=0.0)

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
        gain = 1.0 if isinstance(sgd.momentum, SlowMomentum) else 1 - sgd.momentum
        lr, readout, bias = (rate_at(sgd.lr if x is None else x, t) / gain for x in (None, sgd.readout_lr, sgd.bias_lr))
        return lr, readout, bias

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        tasks = self.problem.teacher.switches(end) if isinstance(self.problem.teacher, Tasks) else None
        return switch_times(end, *self.problem.schedules().values(), known=() if tasks is None else (tasks,))

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
        at = self.situation(*self.covariances(state), state.readout, state.bias, t)
        if isinstance(self.moments, MixtureMoments):
            return self.moments.of_levels(at, (state.r, state.q, self.t), self.gradient_flow)
        return self.moments.matrices(at, self.gradient_flow)

    def situation(self, R: Array, Q: Array, T: Array, readout: Array, bias: Array | None, t: ArrayLike = 0.0) -> Situation:
        """What the averages of the rule depend on, at covariances of the fields."""
        problem, mean = self.problem.labeled_at(t), field_means(self.problem, bias)
        return Situation(problem, joint_covariance(R, Q, T), mean, Parameters(readout, bias), self.context(t, R, Q, T))

    def context(self, t: ArrayLike, R: Float[Array, "K M"], Q: Float[Array, "K K"], T: Float[Array, "M M"]) -> Context:
        """What a rule may look at besides the sample."""
        return Context(self.problem.student, self.problem.loss, rate_at(self.problem.sgd.lr, t), t, (R, Q, T))

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        return self._drift(t, state, *self.matrices(state, t))

    def drift_and_error_rate(self, t: ArrayLike, state: Overlaps) -> tuple[Overlaps, Float[Array, "*tasks"]]:
        # the matrices give the slope of the training loss; for other metrics the overlaps alone guide the steps
        if not self.closed:
            return self.drift(t, state), jnp.zeros(())
        p, G = self.matrices(state, t)
        d = self._drift(t, state, p, G)
        if not isinstance(self.moments, TaskMoments):  # p has the derivatives of e_g if the rule is its gradient
            return d, self.error_slope(self.error_derivatives(state) if missing_traits(self.problem, CLASSIC) else p, d)
        at, tasks, rates = self.situation(*self.covariances(state), state.readout, state.bias, t), self.problem.teacher, []
        moments: Any
        for s, moments in enumerate(self.moments.each):  # a task sees the overlaps with its teacher, and its head
            own = d._replace(r=d.r[..., tasks.units(s)], readout=tasks.head(d.readout, s))
            rates.append(self.error_slope(moments.error_derivatives(at.of_task(s)), own))
        return d, jnp.stack(rates)

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
                velocity = velocity._replace(teacher=velocity.teacher - omega * state.velocity.teacher)
        return Overlaps(dr, dq, readout, bias, velocity)

    def _mask(self) -> Float[Array, "L K 1"]:
        """Which student vectors learn on which level."""
        mask = self.problem.trainable_mask()
        return jnp.ones((1, 1, 1)) if mask is None else jnp.asarray(mask)[:, :, None]

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
        return mask * dr, mask * fq, mask * noise * _T(mask)

    def onto_sphere(
        self, state: Overlaps, dr: Float[Any, "*lead L K M"], dq: Float[Any, "*lead L K K"]
    ) -> tuple[Float[Any, "*lead L K M"], Float[Any, "*lead L K K"]]:
        """Subtract from each student vector its change of length: mu_k = d|w_k|^2 / (2 |w_k|^2)."""
        fractions, xp = self.problem.inputs.fractions, array_module(dq)
        length, change = (xp.einsum("l,...lkk->...k", xp.asarray(fractions), x) for x in (state.q, dq))
        mu = (change / (2 * length))[..., None, :, None]
        return dr - mu * state.r, dq - (mu + xp.swapaxes(mu, -1, -2)) * state.q

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
        on_own = mask * k * (self._lam * (p.A @ velocity.student + p.B @ _T(velocity.teacher)) - kappa * velocity.student)
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
        return self.error_and_loss(observed)[0]

    def error_and_loss(
        self, observed: dict[str, Array], t: ArrayLike = 0.0
    ) -> tuple[Float[Array, "*tasks"], Float[Array, "*tasks"]]:
        if isinstance(self.moments, MixtureMoments):
            errors, losses = self.class_errors(observed, t)
            return self.problem.inputs.probabilities @ errors, self.problem.inputs.probabilities @ losses
        return self.moments.error_and_loss(self._observed(observed, self.teacher_covariance, t))

    def class_errors(
        self, observed: dict[str, Array], t: ArrayLike = 0.0
    ) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Error and loss in each class of a mixture, at time t."""
        assert isinstance(self.moments, MixtureMoments)
        blocks = observed["r"], observed["q"], self.t
        R, Q, T = map(self._summed, blocks)
        return self.moments.errors(self._observed(observed | {"R": R, "Q": Q}, T, t), blocks)

    def _observed(self, observed: dict[str, Array], T: Float[Array, "M M"], t: ArrayLike) -> Situation:
        return self.situation(observed["R"], observed["Q"], T, observed["readout"], observed.get("bias"), t)


def initial_overlaps(problem: Problem, start: Start) -> tuple[Overlaps, Float[Any, "L M M"]]:
    """The state at time zero and the teacher's overlaps t per level."""
    # They are NumPy arrays unless something is traced, because JAX compiles every single operation outside of a program.
    xp: Any = jnp if checks.is_traced(problem, start) else np
    as_array = lambda x: xp.asarray(x, float)  # noqa: E731
    r, q, t = (as_array(x) for x in start.blocks(problem))
    readout, bias = as_array(start.readout_of(problem)), start.bias_of(problem)
    slow = isinstance(problem.sgd.momentum, SlowMomentum)
    velocity = Velocity(xp.zeros_like(r), xp.zeros_like(q), xp.zeros_like(q)) if slow else None
    return Overlaps(r, q, readout, None if bias is None else as_array(bias), velocity), t


def is_committee(problem: object, moments: Moments | None) -> TypeGuard[Problem]:
    """Squared loss with one teacher, erf (or sign as teacher), plain SGD, known numbers: what committee_kernel.py computes?"""
    if not isinstance(problem, Problem) or missing_traits(problem, (*CLASSIC, *CONSTANT_RATES, "all levels")):
        return False
    erf = isinstance(moments, ClosedMoments) and isinstance(moments.averages, ErfAverages)
    return erf and not checks.is_traced(problem) and jnp.result_type(float) == np.float64


def as_arrays(tree: PyTree) -> PyTree:
    """A problem or a start as a compiled program takes it: numbers as arrays, functions and words as they are."""
    # The limit depends neither on N nor on the eigenvectors of the inputs, so neither does the program.
    if isinstance(tree, Problem):
        tree = eqx.tree_at(lambda p: p.inputs, tree, tree.inputs.levels_only())
    elif isinstance(tree, Start):
        tree = tree.without_dim()
    as_array = lambda x: jnp.asarray(x, float) if isinstance(x, jax.Array) else np.asarray(x, float)  # noqa: E731
    return jax.tree.map(lambda x: as_array(x) if eqx.is_array_like(x) else x, tree)


def flatten(state: Overlaps) -> Float[Any, "*lead size"]:
    """(r, upper triangle of q, readout, bias) of a state, or of a drift, in one vector; any leading axes are kept."""
    # Each independent number is there once, so that eigenvalues and eigenvectors of a Jacobian mean what they should.
    rows, columns, _ = triangle(state.q.shape[-1])
    parts = [x for x in (state.r, state.q[..., rows, columns], state.readout, state.bias) if x is not None]
    xp = array_module(*parts)
    return xp.concatenate([xp.reshape(x, (*state.r.shape[:-3], -1)) for x in parts], axis=-1)


def unflatten(vector: Float[Any, "*lead size"], like: Overlaps) -> Overlaps:
    """The state, or the states, with these coordinates."""
    (L, K, M), lead = like.r.shape, vector.shape[:-1]
    rows, _, place = triangle(K)
    sizes = np.cumsum([L * K * M, L * rows.size, like.readout.size])
    r, upper, readout, bias = (vector[..., a:b] for a, b in zip((0, *sizes), (*sizes, vector.shape[-1]), strict=True))
    q = upper.reshape(*lead, L, rows.size)[..., place]
    r, readout = r.reshape(*lead, L, K, M), readout.reshape(*lead, *like.readout.shape)
    return Overlaps(r, q, readout, None if like.bias is None else bias)


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
        Default: those of the problem. For `Tasks` with separate heads readout is (tasks, K).
    quadrature : Quadrature, optional
        As in `solve`.

    Returns
    -------
    array
        e_g = E[(noiseless y - yhat)^2] / 2 for real labels, the probability of a wrong class for signs and classes; with
        a last axis of tasks for `Tasks`.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> float(tu.generalization_error(problem, np.eye(2), np.eye(2)))
    0.0
    >>> round(float(tu.generalization_error(problem, np.zeros((2, 2)), np.zeros((2, 2)))), 6)     # 2 arcsin(1/2)/pi
    0.333333
    """
    require_traits(problem, "generalization_error", (TASKS,))
    K, M = problem.student.hidden, problem.references.hidden
    R, Q = jnp.asarray(R, float), jnp.asarray(Q, float)
    if R.shape[-2:] != (K, M) or Q.shape != (*R.shape[:-2], K, K):
        raise InputError(f"R has shape {R.shape} and Q {Q.shape}; they must be (..., {K}, {M}) and (..., {K}, {K}).")
    if T is None:
        gram, unseen = problem.references.gram, problem.unseen
        T = jnp.eye(M) if gram is None else jnp.asarray(gram)
        T = T if T.ndim == 2 else summed_levels(problem.inputs.weights, T)
        T = T if unseen is None else T + unseen
    T = jnp.asarray(T, float)
    if T.shape != (M, M):
        raise InputError(f"T has shape {T.shape}; it must be ({M}, {M}).")
    readout = jnp.broadcast_to(problem.student.readout, problem.readout_shape) if readout is None else readout
    bias = problem.student.bias if bias is None else bias
    rest = {"readout": readout} if bias is None else {"readout": readout, "bias": bias}
    system = at_covariances(problem, T, moments_for(problem, quadrature))
    return _errors_at(system, R, Q, {name: jnp.asarray(x, float) for name, x in rest.items()})


def at_covariances(problem: Problem, T: Float[Array, "M M"], moments: Moments) -> OrderParameters:
    """The error depends on the covariances of the fields alone, of which T has all: one level is enough for it."""
    return OrderParameters(eqx.tree_at(lambda p: p.inputs, problem.all_seen(), Isotropic()), T[None], moments=moments)


@eqx.filter_jit
def _errors_at(
    system: OrderParameters, R: Float[Array, "*lead K M"], Q: Float[Array, "*lead K K"], rest: dict[str, Array]
) -> Float[Array, "*lead_tasks"]:
    pairs = R.reshape(-1, *R.shape[-2:]), Q.reshape(-1, *Q.shape[-2:])
    one = lambda pair: system.error({"R": pair[0], "Q": pair[1]} | rest)  # noqa: E731
    found = jax.vmap(one)(pairs) if system.closed else jax.lax.map(one, pairs)
    return found.reshape(*R.shape[:-2], *found.shape[1:])


def averages_of(problem: Problem, quadrature: Quadrature | None = None) -> Averages:
    """The Gaussian averages of a problem's two activations, of which its squared loss is made."""
    require_traits(problem, "the closed form of squared loss", CLASSIC)
    student, teacher = problem.student, problem.teacher
    return averages_for(student.activation, teacher.activation, student.hidden, teacher.hidden, problem.biased, quadrature)


def field_means(problem: Problem, bias: Float[NumpyOrJax, " K"] | None) -> Float[Array, " n"] | None:
    """Hidden biases of all n fields, or None where there are none."""
    if not problem.biased:
        return None
    student = jnp.zeros(problem.student.hidden) if bias is None else jnp.asarray(bias, float)
    teacher = problem.references.bias
    return jnp.concatenate([student, jnp.zeros(problem.references.hidden) if teacher is None else jnp.asarray(teacher)])


def _product(a: Float[Array, "*L K n"], b: Float[Array, "L n n"]) -> Float[Array, "L K n"]:
    """a @ b. Of few numbers as a sum, which XLA joins with what stands around it; a product is a call."""
    small = a.ndim == 2 and a.size * b[:, 0].size <= SMALL_PRODUCT
    return jnp.sum(a[:, :, None] * b[:, None], axis=2) if small else a @ b


def _T(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)
