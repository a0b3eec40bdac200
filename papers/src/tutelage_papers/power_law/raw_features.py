"""Training only some of the raw inputs, outside the eigenbasis of their covariance.

Equations 82-88 of arXiv 2410.09005. Split the covariance into the inputs that are trained
and those that are not, Sigma = [[S, C], [C^T, H]], and the mismatch e = a - b (student minus
teacher, readouts included) likewise. The contribution of the frozen inputs to the output is,
given the trained ones, their regression on them plus an independent Gaussian rest. So the
student learns exactly like a linear network that sees only the trained inputs (covariance
S), with

    teacher  b - S^-1 C e_frozen,
    label noise variance  sigma^2 + e_frozen^T (H - C^T S^-1 C) e_frozen / N

at any learning rate and any N. At a small rate the error ends at half the extra noise:
equation 88.

In a random basis the floor for large N follows from the spectrum alone
(`random_basis_floors`). Equation 88 needs a covariance matrix. If its eigenvectors are
random, the trained inputs are a random subspace, and the floor is the part of the signal
that a projection on n random features misses. Its law of large numbers (deterministic
equivalent; e.g. Bach, SIAM J. Math. Data Sci. 6 (2024) 26) has one number kappa:

    sum_l p_l lam_l / (lam_l + kappa) = n/N,        floor = (1 + s^2)/2 * kappa n/N

In the eigenbasis the smallest eigenvalues are lost; here every direction loses the share
kappa/(lam + kappa). On a power law with n << L, kappa = lam_1 (c/n)^(1+beta),
c = (pi/(1+beta))/sin(pi/(1+beta)): the same n^-beta, with the larger prefactor
beta c^(1+beta). Corrections are of relative size (n/L)^beta: for small beta the exponent
shows only at astronomical L.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import brentq

from tutelage import InputError, Inputs, Problem, checks
from tutelage_papers.assumptions import require_pair
from tutelage_papers.power_law.linear.linear_network import (
    no_steady_state,
    require_linear,
)
from tutelage_papers.power_law.linear.relaxation import Relaxation, at_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def raw_features(
    problem: Problem,
    trained: int,
    *,
    dim: int | None = None,
    seed: int = 0,
    scale: float = 0.1,
    weights: Any = None,
) -> "RawFeatures":
    """Return one linear unit of which only the first `trained` raw inputs learn.

    The others keep their initial weights. The raw inputs are those of the data, if the
    spectrum was measured (`from_data`, `Spectrum.from_covariance`); else the spectrum is
    turned at random in `dim` dimensions (default: one per level), by the seed. weights:
    (W, W_teacher), each (N,) or (1, N), in raw coordinates; None: the mean over teacher
    weights N(0, 1) and student weights N(0, scale^2).

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(beta=1.0, levels=16)
    >>> linear = tu.Network(1, "linear")
    >>> problem = tu.Problem(linear, linear, inputs=inputs, optimizer=tu.SGD(lr=0.05))
    >>> features = tutelage_papers.power_law.raw_features(problem, trained=4, scale=0.01)
    >>> bool(features.floor < features.steady_state)     # a finite rate adds to the floor
    True
    """
    problem = require_linear(problem, "raw_features")
    if problem.optimizer.trainable is not None:
        raise InputError(
            "trainable names levels of the eigenbasis; raw_features trains raw inputs. "
            "Leave it out."
        )
    covariance = _raw_covariance(problem, dim, seed)
    N = covariance.shape[0]
    if checks.as_count("trained", trained) > N:
        raise InputError(
            f"trained is {trained}; it must be at most {N}, the number of raw inputs."
        )
    scale = checks.as_array("scale", scale)
    checks.require_shape("scale", scale, ())
    checks.require_nonnegative("scale", scale)
    vectors = None
    if weights is not None:
        vectors = _vectors(weights, N)
    return RawFeatures(
        problem=problem,
        covariance=covariance,
        trained=int(trained),
        scale=float(scale),
        weights=vectors,
    )


@dataclass(frozen=True)
class RawFeatures:
    """A linear unit of which only some raw inputs learn.

    covariance: (N, N) in raw coordinates. trained: how many of them learn. Errors are exact
    means over runs of a network with these N inputs (and over random weights, unless weights
    were given).
    """

    problem: Problem
    covariance: np.ndarray
    trained: int
    scale: float
    weights: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def dim(self) -> int:
        """N."""
        return self.covariance.shape[0]

    def error(self, times: Any) -> np.ndarray:
        """Return the mean e_g after ceil(alpha N) steps."""

        def error(t: np.ndarray) -> np.ndarray:
            return (self._relaxation.total(t) + 2 * self.floor) / 2

        return at_times(times, error)

    def small_rate(self, times: Any) -> np.ndarray:
        """Return e_g with terms of order lr only (equation 84): it ends at `floor`."""

        def error(t: np.ndarray) -> np.ndarray:
            return (self._relaxation.small_rate(t) + 2 * self.floor) / 2

        return at_times(times, error)

    @property
    def floor(self) -> float:
        """The final e_g at a small rate, or its mean (equation 88).

        e_frozen^T (H - C^T S^-1 C) e_frozen / (2 N).
        """
        return float(self.floors(self.trained))

    def floors(self, counts: Any) -> np.ndarray:
        """Return the floor for each number of trained inputs.

        One Cholesky factor L of the covariance serves them all: H - C^T S^-1 C = M M^T with
        M the block of L outside the trained rows and columns.
        """
        counts = np.asarray(counts)
        whole = counts.size > 0 and np.issubdtype(counts.dtype, np.integer)
        if not whole or counts.min() < 0 or counts.max() > self.dim:
            raise InputError(
                f"counts are {checks.shown(counts)}; they must be whole numbers from 0 to "
                f"{self.dim}."
            )
        values = []
        for n in counts.ravel():
            rest = self._rest(self._factor[n:, n:], n)
            values.append(rest / (2 * self.dim))
        return np.array(values).reshape(counts.shape)

    def eigenbasis_floors(self, counts: Any) -> np.ndarray:
        """Return the mean floor if as many eigenvectors were trained instead (eq. 71).

        Those of the largest eigenvalues.
        """
        eigenvalues = np.linalg.eigvalsh(self.covariance)
        left = np.concatenate([[0.0], np.cumsum(eigenvalues)])
        between, _ = self._variances
        return between * left[self.dim - np.asarray(counts)] / (2 * self.dim)

    @property
    def critical_rate(self) -> float:
        """The learning rate above which the mean error with these N inputs grows."""
        return self._relaxation.critical_rate / self._readouts[0] ** 2

    @property
    def stable(self) -> bool:
        """True if the learning rate is below the critical one."""
        return self._relaxation.stable

    @property
    def steady_state(self) -> float:
        """The final e_g at this learning rate.

        Above `floor`, because the frozen inputs act as label noise.
        """
        return self._end(self._relaxation)

    @property
    def limit_steady_state(self) -> float:
        """The final e_g in the limit of large N.

        floor / (1 - lr tr(S) / (2 B N)) without noise and decay.
        """
        return self._end(replace(self._relaxation, dim=None))

    def plot(self, counts: Any = None, *, title: str | None = None) -> "Figure":
        """Draw the floor against the number of trained inputs, raw and in the eigenbasis."""
        from tutelage_papers.power_law.plots import plot_raw_features

        return plot_raw_features(self, counts, title=title)

    def __str__(self) -> str:
        end = "no end: the learning rate is above the critical one"
        if self.stable:
            end = f"{self.steady_state:.6g} finally"
        lr = float(self.problem.optimizer.lr)
        aligned = float(self.eigenbasis_floors(self.trained))
        lines = [
            f"one linear unit, {self.trained} of {self.dim} raw inputs learn, "
            f"learning rate {lr:g}",
            f"error: {float(self.error(0.0)):.6g} initially, {end}",
            f"floor: {self.floor:.6g} at a small rate; {aligned:.6g} if as many "
            "eigenvectors learned",
            f"critical rate: {self.critical_rate:.6g}",
        ]
        return "\n".join(lines)

    def _end(self, at: Relaxation) -> float:
        if not at.stable:
            raise no_steady_state(
                self.problem, at.critical_rate / self._readouts[0] ** 2
            )
        return at.steady_total / 2 + self.floor

    @property
    def _readouts(self) -> tuple[float, float]:
        return float(np.asarray(self.problem.student.readout)[0]), float(
            np.asarray(self.problem.labeler.readout)[0]
        )

    @property
    def _variances(self) -> tuple[float, float]:
        """Variances of the entries of a - b, and of b, for random weights."""
        v, v_teacher = self._readouts
        return v**2 * self.scale**2 + v_teacher**2, v_teacher**2

    @cached_property
    def _factor(self) -> np.ndarray:
        return cholesky(self.covariance, lower=True)

    def _rest(self, M: np.ndarray, trained: int) -> float:
        """e^T M M^T e of the frozen inputs."""
        if self.weights is None:
            return self._variances[0] * float(np.sum(M**2))
        v, v_teacher = self._readouts
        mismatch = v * self.weights[0] - v_teacher * self.weights[1]
        return float(np.sum((M.T @ mismatch[trained:]) ** 2))

    @cached_property
    def _relaxation(self) -> Relaxation:
        """The effective network on the eigenvectors of S, one level of one dimension each."""
        n = self.trained
        optimizer = self.problem.optimizer
        v, v_teacher = self._readouts
        values, vectors = np.linalg.eigh(self.covariance[:n, :n])
        regression = (vectors.T @ self.covariance[:n, n:]) / values[:, None]
        if self.weights is None:
            between, own = self._variances
            bb = own + between * np.sum(regression**2, axis=1)
            ab = np.zeros(n)
            E = bb + v**2 * self.scale**2
        else:
            a = v * self.weights[0]
            b = v_teacher * self.weights[1]
            student = vectors.T @ a[:n]
            teacher = vectors.T @ b[:n] - regression @ (a - b)[n:]
            ab = student * teacher
            bb = teacher**2
            E = (student - teacher) ** 2
        return Relaxation(
            lam=values,
            p=np.full(n, 1 / self.dim),
            E=E,
            ab=ab,
            bb=bb,
            rate=float(optimizer.lr) * v**2,
            decay=float(optimizer.weight_decay) / v**2,
            batch=optimizer.batch,
            force=float(self.problem.noise_deviation) ** 2 + 2 * self.floor,
            dim=self.dim,
        )


def _raw_covariance(problem: Problem, dim: int | None, seed: int) -> np.ndarray:
    """The covariance of the data, or the spectrum turned at random.

    By Haar's measure: the QR factor of a Gaussian matrix.
    """
    inputs = problem.inputs
    basis = inputs.basis
    if basis is None:
        dim = int(inputs.levels) if dim is None else checks.as_count("dim", dim)
        rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
        turned, scales = np.linalg.qr(rng.standard_normal((dim, dim)))
        basis = turned * np.sign(np.diag(scales))
    elif dim is not None and dim != basis.shape[1]:
        raise InputError(
            f"dim is {dim}; the data of this spectrum has {basis.shape[1]} inputs. Leave "
            "it out."
        )
    if basis.shape[0] != basis.shape[1]:
        raise InputError(
            f"{basis.shape[1] - basis.shape[0]} of the {basis.shape[1]} directions of the "
            "data have no variance; all must have some. Drop the constant or dependent "
            "columns first."
        )
    dims = inputs.level_dims(basis.shape[0])
    values = np.repeat(np.asarray(inputs.eigenvalues, dtype=float), dims)
    covariance = (basis.T * values) @ basis
    return (covariance + covariance.T) / 2


def _vectors(weights: Any, N: int) -> tuple[np.ndarray, np.ndarray]:
    arrays = [
        checks.as_array(name, w)
        for name, w in zip(("W", "W_teacher"), require_pair(weights), strict=True)
    ]
    for name, array in zip(("W", "W_teacher"), arrays, strict=True):
        checks.require_shape(name, array, (N,), (1, N), fix="One number per raw input.")
        checks.require_finite(name, array)
    return arrays[0].ravel(), arrays[1].ravel()


# The same for large N, in a random basis


def random_basis_floors(
    inputs: Inputs, trained: Any, *, scale: float = 0.0
) -> np.ndarray:
    """Return the final e_g at a small rate in a random basis, N large.

    If a share `trained` (0 to 1) of the raw inputs learns. Mean over teacher weights N(0, 1)
    and student weights N(0, scale^2). `raw_features` has the same for one covariance.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(1.0, 1024)
    >>> tutelage_papers.power_law.random_basis_floors(inputs, [0.1, 0.5]).round(4)
    array([0.0067, 0.0008])
    """
    if not isinstance(inputs, Inputs):
        raise InputError(
            f"inputs is {checks.shown(inputs)}; it must be Isotropic, PowerLaw or "
            "Spectrum."
        )
    shares = checks.as_array("trained", trained)
    if np.any((shares < 0) | (shares > 1) | ~np.isfinite(shares)):
        raise InputError(
            f"trained is {checks.shown(shares)}; it must be a share of the inputs, from 0 "
            "to 1."
        )
    scale = checks.as_array("scale", scale)
    checks.require_shape("scale", scale, ())
    checks.require_nonnegative("scale", scale)
    lam = np.asarray(inputs.eigenvalues, dtype=float)
    p = np.asarray(inputs.fractions, dtype=float)
    values = [_missed(lam, p, float(share)) for share in shares.ravel()]
    return (1 + float(scale) ** 2) / 2 * np.array(values).reshape(shares.shape)


def _missed(lam: np.ndarray, p: np.ndarray, share: float) -> float:
    """kappa n/N.

    kappa lies between its values if all eigenvalues were the smallest, or the largest.
    """
    if share == 0:
        return float(p @ lam)
    if share == 1:
        return 0.0
    low, high = (np.log(x * (1 - share) / share) for x in (lam.min(), lam.max()))
    if high - low < 1e-14:
        return float(np.exp(high)) * share

    def excess(log_kappa: float) -> float:
        return float(p @ (lam / (lam + np.exp(log_kappa)))) - share

    root: Any = brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-13)
    return share * float(np.exp(root))
