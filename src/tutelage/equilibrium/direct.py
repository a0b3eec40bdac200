"""The minimum at finite N: data sets drawn once, minimized by a convex solver.

    min_w sum_mu l(scale w.x_mu / sqrt(N), y_mu) + ridge |w|^2 / 2

squared: normal equations. Smooth losses: L-BFGS. hinge and absolute, whose derivative
jumps: L-BFGS-B on the dual, a quadratic function in a box; with u_mu = -l'(h_mu) and
w = X^T u / ridge,

    max_u  sum_mu u_mu b_mu - |X^T u|^2 / (2 ridge),

b = y and -1 <= u <= 1 for absolute loss; for hinge u = y a with 0 <= a <= 1, b u = a.
The duality gap is checked. Without ridge both are linear programs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import linprog, minimize

from tutelage.equilibrium.proximal import Descents
from tutelage.equilibrium.setting import Setting
from tutelage.errors import InputError
from tutelage.problem import HiddenManifold
from tutelage.problem.sample import label_of, normals_needed, with_unseen
from tutelage.training.losses import Absolute, Hinge, Squared, loss_name

GRADIENT = 1e-7  # largest entry of the gradient at the minimum
GAP = 1e-5  # largest duality gap, in units of the loss
MOST_STEPS = 20_000


Labeler: TypeAlias = Callable[[np.ndarray, np.ndarray], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Samples:
    """n samples of dimension N, divided by sqrt(N), with labels and teacher fields."""

    X: Float[np.ndarray, "n N"]
    labels: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]


@dataclass(frozen=True)
class Teacher:
    """One draw of teacher weights, and how inputs are made from them.

    weights: (M, N) along the eigenvectors of the inputs. deviations: of the inputs
    along these, (N,). labeler: see `labeler_of`. features: for a HiddenManifold, F
    (N, D) and beta (M, D).
    """

    setting: Setting
    weights: Float[np.ndarray, "M N"]
    deviations: Float[np.ndarray, " N"]
    labeler: Labeler
    features: tuple[np.ndarray, np.ndarray] | None

    @classmethod
    def drawn(
        cls, setting: Setting, labeler: Labeler, dim: int, rng: np.random.Generator
    ) -> "Teacher":
        """Draw teacher weights with exactly the overlaps t_l of each level."""
        manifold = setting.problem.hidden_manifold
        if manifold is not None:
            return cls._latent(setting, labeler, manifold, dim, rng)
        dims = setting.problem.inputs.level_dims(dim)
        blocks = [
            _vectors_with(t, n, rng) for t, n in zip(setting.teacher, dims, strict=True)
        ]
        return cls(
            setting=setting,
            weights=np.concatenate(blocks, axis=1),
            deviations=np.sqrt(np.repeat(setting.lam, dims)),
            labeler=labeler,
            features=None,
        )

    @classmethod
    def _latent(
        cls,
        setting: Setting,
        labeler: Labeler,
        inputs: HiddenManifold,
        dim: int,
        rng: np.random.Generator,
    ) -> "Teacher":
        if dim != inputs.dim:
            raise InputError(
                f"dim is {dim} and the hidden manifold has N = {inputs.dim}; "
                "they must be equal."
            )
        gram = setting.problem.labeler.gram
        M = setting.problem.labeler.hidden
        latent = np.eye(M) if gram is None else np.asarray(gram)
        realized = inputs.realized()
        beta = _vectors_with(latent, inputs.dim_latent, rng)
        return cls(
            setting=setting,
            weights=inputs_weights(inputs, realized, beta),
            deviations=np.sqrt(realized.eigenvalues),
            labeler=labeler,
            features=(realized.matrix, beta),
        )

    def covariance_with(self, w: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return Omega w."""
        manifold = self.setting.problem.hidden_manifold
        if manifold is None:
            return self.deviations**2 * w
        basis = manifold.realized().basis
        return basis.T @ (self.deviations**2 * (basis @ w))

    def samples(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw samples with labels, noise and flips."""
        problem = self.setting.problem
        N = self.weights.shape[1]
        if self.features is None:
            X = rng.standard_normal((count, N)) * self.deviations
            rho = X @ self.weights.T / np.sqrt(N)
        else:
            matrix, beta = self.features
            D = beta.shape[1]
            latent = rng.standard_normal((count, D))
            assert problem.hidden_manifold is not None
            X = np.asarray(problem.hidden_manifold.samples(latent, matrix))
            rho = latent @ beta.T / np.sqrt(D)
        needed = max(1, normals_needed(problem))
        normals = rng.standard_normal((count, needed))
        labels, truth = self.labeler(rho, normals)
        return Samples(
            X=X / np.sqrt(N),
            labels=np.asarray(labels, float),
            truth=np.asarray(truth, float),
        )


def labeler_of(setting: Setting) -> Labeler:
    """Return a compiled function of visible fields and normal numbers.

    It returns labels, and the labels by which the error is judged.
    """
    problem = setting.problem
    law = problem.labels
    judged_with_noise = getattr(law, "random", False) is not False
    is_latent = problem.hidden_manifold is not None

    def one(rho: jax.Array, normals: jax.Array) -> tuple[jax.Array, jax.Array]:
        label = label_of(problem, rho, normals)
        if judged_with_noise:
            return label, label
        return label, law.truth(problem.labeler.output(rho), rho)

    @jax.jit
    def labels(rho: jax.Array, normals: jax.Array) -> tuple[jax.Array, jax.Array]:
        fields = rho
        if not is_latent:  # latent vectors have the unseen part in their fields
            fields = with_unseen(problem, fields, normals)
        if problem.labeler.bias is not None:
            fields = fields + jnp.asarray(problem.labeler.bias)
        return jax.vmap(one)(fields, normals)

    return labels


def inputs_weights(
    inputs: HiddenManifold, realized, beta: Float[np.ndarray, "M D"]
) -> Float[np.ndarray, "M N"]:
    """Return the visible teacher of latent vectors, in the coordinates of x."""
    N = inputs.dim
    b = beta @ realized.latent.T
    visible = np.zeros((len(beta), N))
    shown = min(N, b.shape[1])
    visible[:, :shown] = b[:, :shown]
    return (realized.amplitudes * visible) @ realized.basis


def _vectors_with(
    gram: Float[np.ndarray, "M M"], n: int, rng: np.random.Generator
) -> Float[np.ndarray, "M n"]:
    """Return random vectors whose overlaps per dimension are exactly these."""
    M = len(gram)
    if n < M:
        raise InputError(
            f"a level has {n} dimensions and there are {M} teacher units; raise dim."
        )
    frame = np.linalg.qr(rng.standard_normal((n, M)))[0].T * np.sqrt(n)
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ frame


def minimizer(
    descents: Descents, samples: Samples, scale: float, ridge: float
) -> Float[np.ndarray, " N"]:
    """Return the weights w that minimize the regularized loss.

    descents: the loss and its derivatives.
    """
    loss = descents.loss
    X = scale * samples.X
    if type(loss) is Squared:
        return _ridge_regression(X, samples.labels, ridge)
    if type(loss) in (Hinge, Absolute):
        margin = type(loss) is Hinge
        if ridge == 0:
            return _linear_program(X, samples.labels, margin)
        return _by_dual(X, samples.labels, ridge, margin)
    if loss.jumps:
        raise InputError(
            f"the derivative of the loss {loss_name(loss)!r} may jump; the minimum at "
            "finite N is found for smooth losses, hinge and absolute loss. Give "
            "losses.Function(function, jumps=False) if it is smooth."
        )
    return _by_gradient(descents, X, samples.labels, ridge)


def _ridge_regression(X: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    n, N = X.shape
    if ridge > 0 and n < N:
        factor = cho_factor(X @ X.T + ridge * np.eye(n))
        return X.T @ cho_solve(factor, y)
    factor = cho_factor(X.T @ X + ridge * np.eye(N))
    return cho_solve(factor, X.T @ y)


def _by_gradient(
    descents: Descents, X: np.ndarray, y: np.ndarray, ridge: float
) -> np.ndarray:
    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        h = X @ w
        value = float(np.sum(descents.value(h, y))) + ridge * float(w @ w) / 2
        return value, ridge * w - X.T @ descents.descent(h, y)

    options = {"maxiter": MOST_STEPS, "gtol": GRADIENT, "ftol": 0.0, "maxcor": 20}
    start = np.zeros(X.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    largest = float(np.max(np.abs(objective(found.x)[1])))
    if largest > 1e3 * GRADIENT:
        raise InputError(
            f"the convex solver stopped at a gradient of {largest:.2g}; raise ridge."
        )
    return found.x


def _by_dual(X: np.ndarray, y: np.ndarray, ridge: float, margin: bool) -> np.ndarray:
    """Minimize hinge (margin) or absolute loss by the dual."""
    if margin:
        rows = y[:, None] * X
        target = np.ones_like(y)
        bounds = [(0.0, 1.0)] * len(y)
    else:
        rows = X
        target = y
        bounds = [(-1.0, 1.0)] * len(y)

    def negative_dual(u: np.ndarray) -> tuple[float, np.ndarray]:
        pull = rows.T @ u
        value = float(pull @ pull) / (2 * ridge) - float(target @ u)
        return value, rows @ pull / ridge - target

    start = np.full(len(y), 0.5 if margin else 0.0)
    options = {"maxiter": MOST_STEPS, "maxfun": 10 * MOST_STEPS, "ftol": 1e-15}
    options |= {"gtol": 1e-8, "maxcor": 30}
    found = minimize(
        negative_dual,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=options,
    )
    w = rows.T @ found.x / ridge
    distance = target - rows @ w
    losses = np.maximum(distance, 0.0) if margin else np.abs(distance)
    primal = float(np.sum(losses)) + ridge * float(w @ w) / 2
    if primal + found.fun > GAP * max(primal, 1e-300):
        raise InputError(
            f"the convex solver left a duality gap of {(primal + found.fun):.2g} at a "
            f"loss of {primal:.4g}; raise ridge."
        )
    return w


def _linear_program(X: np.ndarray, y: np.ndarray, margin: bool) -> np.ndarray:
    """Minimize hinge (margin) or absolute loss without ridge.

    Variables are w and the loss of each sample, which is above one line or two.
    """
    n, N = X.shape
    rows = y[:, None] * X if margin else X
    target = np.ones(n) if margin else y
    above = np.hstack([-rows, -np.eye(n)])
    limits = -target
    if not margin:
        above = np.vstack([above, np.hstack([rows, -np.eye(n)])])
        limits = np.concatenate([limits, target])
    cost = np.concatenate([np.zeros(N), np.ones(n)])
    bounds = [(None, None)] * N + [(0.0, None)] * n
    found = linprog(cost, A_ub=above, b_ub=limits, bounds=bounds, method="highs")
    if not found.success:
        raise InputError(f"the linear program has no solution: {found.message}")
    return found.x[:N]
