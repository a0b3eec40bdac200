"""Input laws: x ~ N(0, Omega), and rows of data, from which such a law is measured.

The theory sees only the spectrum of Omega, a list of levels: eigenvalue lam_l on a
fraction p_l of the dimensions, with sum_l p_l lam_l = 1 by default. The eigenvectors of
Omega matter only when weights or data are given; a measured spectrum keeps them for
that.

A `HiddenManifold` has inputs x = sigma(F c / sqrt(D)) with Gaussian c in D dimensions,
and a teacher that looks at c. In high dimensions x acts as a Gaussian vector of the
same covariance (Gaussian equivalence; Goldt et al. 2020). With rows |F_i|^2 = D, a
centered sigma, k1 = E[z sigma(z)], k*^2 = E[sigma^2] - k1^2 and the singular values s_i
of F / sqrt(D):

    Omega = k1^2 F F^T / D + k*^2,    eigenvalues omega_i = k1^2 s_i^2 + k*^2

    visible teacher   w* = sqrt(N/D) Omega^-1 k1 F beta / sqrt(D)
    along direction i:  a_i beta_i,  a_i = sqrt(N/D) k1 s_i / omega_i

    unseen part       beta beta^T / D - w* Omega w*^T / N
    along direction i:  (k*^2 / omega_i) beta_i beta_i^T / D

beta_i is the component of the latent teacher vectors beta (M, D) along the i-th right
singular vector of F. If D > N, x depends on N directions of c only; what beta has in
the other ones is unseen. For isotropic beta with overlaps T = beta beta^T / D every
level has t_l = visible_l T, and the unseen part is unseen_share T.
"""

import os
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._part import Part, common_entry
from tutelage._types import Array, Numbers, NumpyOrJax, Table
from tutelage.errors import InputError
from tutelage.problem.activation import Activation, ActivationLike, as_activation

MOST_LEVELS = 10**6
WORDS = ("random", "orthogonal")
# Averages over a standard normal number go from -REACH to REACH, in panels of one unit.
REACH = 12
PANEL_NODES = 40
# Points at which the law of Marchenko and Pastur is summed.
QUANTILES = 2**14
# Relative difference of singular values that are one level.
EQUAL = 1e-6
# Relative difference of row lengths at which an orthogonal matrix is accepted.
SAME_LENGTH = 1e-8
# Share of the largest eigenvalue of a covariance below which a direction has no
# variance.
NO_VARIANCE = 1e-12
# Share of E[sigma^2] below which sigma has no linear, or no nonlinear, part.
NO_PART = 1e-12
# Kinds of real numbers in NumPy.
NUMBERS = "iuf"


class Inputs(Part):
    """A law of the inputs.

    `eigenvalues` and `fractions` have shape (levels,): NumPy arrays unless traced.
    basis: eigenvectors as rows, level by level. None: the coordinates are the
    eigenvectors, in the order of levels.
    known_dim: the input dimension, if the spectrum was measured on something that has
    one.

    >>> import tutelage as tu
    >>> tu.PowerLaw(beta=1.0, levels=4).level_dims(100)
    array([25, 25, 25, 25])
    """

    eigenvalues: eqx.AbstractVar[Float[NumpyOrJax, " L"]]
    fractions: eqx.AbstractVar[Float[NumpyOrJax, " L"]]
    basis: ClassVar[Any] = None
    known_dim: ClassVar[int | None] = None
    classes: ClassVar[int | None] = None  # of a mixture
    is_latent: ClassVar[bool] = (
        False  # the teacher reads a latent vector, not the input
    )

    @property
    def levels(self) -> int:
        """The number of distinct eigenvalues."""
        return self.fractions.shape[0]

    @property
    def weights(self) -> Float[NumpyOrJax, " L"]:
        """The share p_l lam_l of each level in a field covariance."""
        return self.fractions * self.eigenvalues

    def without_basis(self) -> "Inputs":
        """Return the law without eigenvectors, which only weights and data need.

        This is all that a file keeps.
        """
        return self

    def levels_only(self) -> "Inputs":
        """Return a law with the numbers that the theory needs and nothing else.

        Laws of one kind then share compiled programs.
        """
        return self.without_basis()

    @property
    def usual_dim(self) -> int:
        """The default of N.

        It is that of the data, else 1000, or more if there are more levels.
        """
        return self.known_dim or max(1000, self.levels)

    def level_dims(self, dim: int) -> Int[np.ndarray, " L"]:
        """Return whole numbers of dimensions per level that sum to `dim`.

        They are the nearest to p_l N, at least one each.
        """
        dim = checks.as_count("dim", dim)
        if dim < self.levels:
            raise InputError(
                f"dim is {dim}; {self.levels} levels need at least {self.levels} "
                "dimensions."
            )
        checks.require_untraced(
            "the list of fractions", "a count of dimensions", self.fractions
        )
        exact = np.asarray(self.fractions) * dim
        dims = np.maximum(np.floor(exact + 1e-9).astype(int), 1)
        while dims.sum() != dim:
            gap = exact - dims
            if dims.sum() < dim:
                dims[np.argmax(gap)] += 1
            else:
                dims[np.argmin(np.where(dims > 1, gap, np.inf))] -= 1
        return dims


class Isotropic(Inputs):
    """Independent inputs of unit variance: one level."""

    def __init__(self) -> None:
        pass

    @property
    def eigenvalues(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore
        return np.ones(1)

    @property
    def fractions(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore
        return np.ones(1)


class PowerLaw(Inputs):
    """Eigenvalues lam_l proportional to l^-(1 + beta), scaled to unit mean.

    The `levels` hold equal shares of the dimensions.

    >>> import tutelage as tu
    >>> inputs = tu.PowerLaw(beta=1.0, levels=4)
    >>> inputs.eigenvalues.round(3), float(inputs.weights.sum().round(12))
    (array([2.81 , 0.702, 0.312, 0.176]), 1.0)
    """

    beta: Float[NumpyOrJax, ""]
    count: int = eqx.field(static=True)

    def __init__(self, beta: float | NumpyOrJax, levels: int):
        self.beta = checks.as_number("beta", beta, checks.require_nonnegative)
        self.count = checks.as_count("levels", levels, most=MOST_LEVELS)

    @property
    def eigenvalues(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore
        decay = np.arange(1.0, self.count + 1.0) ** -(1.0 + self.beta)
        return decay / decay.mean()

    @property
    def fractions(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore
        return np.full(self.count, 1.0 / self.count)


class Spectrum(Inputs):
    """Any spectrum: eigenvalues, and the fraction of dimensions that each holds.

    The default is equal shares. With `normalize` (default) the eigenvalues are divided
    by their mean sum_l p_l lam_l, kept as `scale`. A stored spectrum gives the scale by
    which its eigenvalues are already divided; if it was measured, also `known_dim`, the
    number of directions, and how many without variance were `dropped`. Before it is
    stored it has the eigenvectors, the rows of `basis`, and the mean of the samples,
    `center`.

    >>> import tutelage as tu
    >>> tu.Spectrum([4.0, 0.25], [0.2, 0.8]).levels
    2
    >>> tu.Spectrum.from_covariance([[2.0, 1.0], [1.0, 2.0]]).eigenvalues
    array([1.5, 0.5])
    """

    eigenvalues: Float[NumpyOrJax, " L"]
    fractions: Float[NumpyOrJax, " L"]
    scale: Float[NumpyOrJax, ""] | np.floating
    normalize: bool = eqx.field(static=True)
    center: Float[np.ndarray, " N"] | None
    dropped: int = eqx.field(static=True)
    basis: Float[np.ndarray, "D N"] | None  # pyright: ignore
    known_dim: int | None = eqx.field(static=True)  # pyright: ignore

    def __init__(
        self,
        eigenvalues: Numbers,
        fractions: Numbers | None = None,
        *,
        normalize: bool = True,
        scale: float | NumpyOrJax | None = None,
        dropped: int = 0,
        known_dim: int | None = None,
        center: Float[np.ndarray, " N"] | None = None,
        basis: Float[np.ndarray, "D N"] | None = None,
    ):
        lam = checks.as_array(
            "eigenvalues", eigenvalues, shapes=[("levels",)], fix="One number or more."
        )
        fix = "Leave out directions without variance."
        checks.require_positive("eigenvalues", lam, fix=fix)
        p = checks.as_probabilities(
            "fractions", fractions, lam.size, fix="One fraction per eigenvalue."
        )
        self.normalize = checks.as_flag("normalize", normalize)
        if scale is not None:
            self.scale = checks.as_number("scale", scale, checks.require_positive)[()]
        elif self.normalize:
            self.scale = (p * lam).sum()
            lam = lam / self.scale
        else:
            self.scale = np.float64(1.0)
        self.eigenvalues = lam
        self.fractions = p
        self.dropped = checks.as_count("dropped", dropped, least=0)
        if known_dim is not None:
            known_dim = checks.as_count("known_dim", known_dim)
        self.known_dim = known_dim  # pyright: ignore
        self.center = center
        self.basis = basis  # pyright: ignore

    def changed(self, **changes: Any) -> "Spectrum":
        """Return the spectrum of other eigenvalues or fractions, scaled anew.

        Equal fractions stay equal.
        """
        has_equal_fractions = np.ndim(common_entry(self.fractions)) == 0
        eigenvalues = self.eigenvalues
        if self.normalize:
            eigenvalues = self.eigenvalues * self.scale
        arguments: Table = {
            "eigenvalues": eigenvalues,
            "fractions": None if has_equal_fractions else self.fractions,
            "normalize": self.normalize,
        }
        return Spectrum(**arguments | changes)

    def without_basis(self) -> "Spectrum":
        return self.with_directions(center=None, basis=None)

    def with_directions(
        self,
        center: Float[np.ndarray, " N"] | None,
        basis: Float[np.ndarray, "D N"] | None,
    ) -> "Spectrum":
        """Return the spectrum with other eigenvectors and another mean of the samples."""
        directions: Table = {"center": center, "basis": basis}
        return Spectrum(**self.arguments() | directions)

    @classmethod
    def from_covariance(
        cls,
        covariance: Numbers,
        levels: int | None = None,
        center: Numbers | None = None,
    ) -> "Spectrum":
        """Return the spectrum of a covariance matrix (N, N).

        `from_data` measures it on samples. Directions without variance are dropped
        (`dropped`) and eigenvalues divided by their mean (`scale`). `levels` groups
        neighboring eigenvalues into that many levels of (nearly) equal size, each with
        their mean. A file does not keep `basis`, the eigenvectors, and `center`, the
        mean of the samples, which is subtracted from them.
        """
        matrix = checks.as_array(
            "covariance",
            covariance,
            checks.require_gram,
            shapes=[("N", "N")],
            fix="It is square.",
        )
        values, vectors = np.linalg.eigh(matrix)
        if values.max() <= 0:
            raise InputError(
                "the covariance has no positive eigenvalue; "
                "a spectrum needs a direction with variance."
            )
        kept = int(np.sum(values > NO_VARIANCE * values.max()))
        count = kept if levels is None else checks.as_count("levels", levels)
        if count > kept:
            raise InputError(
                f"levels is {count}; it must be at most {kept}, "
                "the number of directions with variance."
            )
        largest_first = values[::-1][:kept]
        groups = np.array_split(largest_first, count)
        return cls(
            eigenvalues=[group.mean() for group in groups],
            fractions=[group.size / kept for group in groups],
            dropped=len(matrix) - kept,
            known_dim=kept,
            center=None if center is None else np.asarray(center),
            basis=vectors[:, ::-1][:, :kept].T,
        )

    def __repr__(self) -> str:
        levels = f"{self.levels} level{'s' * (self.levels != 1)}"
        largest = checks.shown(self.eigenvalues.max())
        words = [levels, f"largest {largest}", f"scale {checks.shown(self.scale)}"]
        if self.known_dim:
            words.append(
                f"measured on {self.known_dim} directions ({self.dropped} dropped)"
            )
        return f"Spectrum({', '.join(words)})"


class Coefficients(NamedTuple):
    """Averages of an activation."""

    mean: float
    linear: float  # k1 = E[z sigma(z)]
    rest: float  # k*^2 = E[sigma^2] - mean^2 - k1^2


class Realized(NamedTuple):
    """A feature matrix with rows of length sqrt(D), and its directions by level."""

    inputs: "HiddenManifold"
    matrix: Float[np.ndarray, "N D"]
    basis: Float[np.ndarray, "N N"]  # eigenvectors of x as rows
    amplitudes: Float[np.ndarray, " N"]  # a_i
    eigenvalues: Float[np.ndarray, " N"]  # omega_i
    # right singular vectors as rows, those of the directions of x first
    latent: Float[np.ndarray, "D D"]

    def with_amplitudes(
        self, teacher: Float[np.ndarray, "M N"], usual: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, "M N"]:
        """Return a visible teacher with the amplitudes of this matrix.

        usual: the amplitudes that the teacher has, one for all directions of a level.
        """
        none = np.zeros_like(usual)
        return teacher * np.divide(self.amplitudes, usual, out=none, where=usual > 0)

    def latent_teacher(
        self, teacher: np.ndarray, unseen: np.ndarray, rng: np.random.Generator
    ) -> Float[np.ndarray, "M D"]:
        """Return beta of a visible teacher (M, N).

        Latent directions that x does not show hold the rest of its unseen part.
        """
        N, D = self.matrix.shape
        M = len(teacher)
        shown = min(N, D)
        # beta_i = w*_i / a_i
        a = self.amplitudes[:shown]
        none = np.zeros((M, shown))
        b = np.divide(teacher[:, :shown], a, out=none, where=a > 0)
        beta = b @ self.latent[:shown]
        if D <= N:
            return beta
        # what is left of D times the unseen part after sum_i (k*^2 / omega_i) beta_i
        # beta_i^T
        seen = (b * self.inputs.coefficients.rest / self.eigenvalues) @ b.T
        values, vectors = np.linalg.eigh(D * unseen - seen)
        count = min(M, D - N)
        frame = np.linalg.qr(rng.standard_normal((D - N, count)))[0]
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        largest = root[:, ::-1][:, : frame.shape[1]]
        return beta + largest @ frame.T @ self.latent[N:]


class LatentInputs(Inputs):
    """Inputs of which a teacher reads a latent vector: what the theory needs of them.

    Parameters
    ----------
    eigenvalues, fractions : array (L,)
        The spectrum of the inputs.
    visible : array (L,)
        The overlaps of the visible teacher on each level, in units of T.
    unseen_by_level : array (L,)
        The share of each level in the unseen part of the teacher's fields.
    unseen_share : float
        The unseen part of the teacher's fields, in units of T.
    """

    eigenvalues: Float[NumpyOrJax, " L"]
    fractions: Float[NumpyOrJax, " L"]
    visible: Float[np.ndarray, " L"]
    unseen_by_level: Float[np.ndarray, " L"]
    unseen_share: Float[np.ndarray, ""]
    is_latent: ClassVar[bool] = True


class HiddenManifold(LatentInputs):
    """Inputs x = sigma(F c / sqrt(D)) of a Gaussian latent vector c.

    The teacher's fields are beta . c / sqrt(D). sigma is centered by its mean. The
    theory replaces x by a Gaussian vector of the same covariance; the visible teacher
    and the unseen part of its fields follow from F. `simulate(..., method="weights")`
    uses x itself, so that `compare` tests this equivalence; `inputs="gaussian"` and
    method="overlaps" use the Gaussian vector.

    The teacher's `gram` (default: the identity) holds the latent overlaps
    T = beta beta^T / D. For given beta use
    `Network(M, unseen=inputs.unseen_part(beta), gram=beta @ beta.T / D)` and
    `start_from_weights(problem, W, beta)`.

    Parameters
    ----------
    features : array (N, D), "random" or "orthogonal"
        F. The rows of a matrix are scaled to length sqrt(D). "random": rows of a
        Gaussian matrix, whose singular values follow the law of Marchenko and Pastur.
        "orthogonal": orthogonal columns (rows if D > N), two levels. Or a list of the
        min(N, D) largest eigenvalues of F F^T / D, all that the theory needs of a
        matrix.
    activation : name or JAX function
        sigma, not linear.
    dim_latent : int, optional
        D; of a matrix, its number of columns.
    dim : int, optional
        N; of a matrix, its number of rows.
    levels : int
        At most so many levels: neighboring eigenvalues are grouped (default 32).
    seed : int
        Of the matrix that a simulation draws for "random" and "orthogonal".

    Examples -------- >>> import tutelage as tu >>> inputs =
    tu.HiddenManifold("orthogonal", "erf", dim_latent=250, dim=1000) >>>
    inputs.eigenvalues.round(4), inputs.fractions, inputs.unseen_share.round(4)
    (array([1.2883, 0.015 ]), array([0.25, 0.75]), np.float64(0.0117)) >>> problem =
    tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), inputs, tu.SGD(lr=0.5)) >>>
    tu.solve(problem, tu.asymmetric_start(problem), times=10.0).T.round(3) array([[1.,
    0.],
           [0., 1.]])
    """

    squares: Float[np.ndarray, " n"]
    activation: Activation = eqx.field(static=True)
    coefficients: Coefficients = eqx.field(static=True)
    word: str | None = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    known_dim: int | None = eqx.field(static=True)  # pyright: ignore
    dim_latent: int = eqx.field(static=True)
    most_levels: int = eqx.field(static=True)
    seed: int = eqx.field(static=True)
    _matrix: Float[np.ndarray, "N D"] | None

    def __init__(
        self,
        features: Numbers | str = "random",
        activation: ActivationLike = "erf",
        dim_latent: int | None = None,
        *,
        dim: int | None = None,
        levels: int = 32,
        seed: int = 0,
    ):
        self.activation = as_activation(activation)
        self.coefficients = _coefficients(self.activation)
        self.most_levels = checks.as_count("levels", levels)
        self.seed = checks.as_count("seed", seed, least=0)
        self._matrix = None
        self.word = None
        array = np.zeros(0)
        rows = None
        columns = None
        if isinstance(features, str):
            self.word = checks.known("features", features, WORDS)
        else:
            checks.require_untraced("features", "HiddenManifold", features)
            array = checks.as_array("features", features, checks.require_finite)
            array = np.asarray(array)
            if array.ndim > 1:
                rows = array.shape[0]
                columns = array.shape[-1]
        N = checks.as_count("dim (N)", rows if dim is None else dim)
        D = checks.as_count(
            "dim_latent (D)", columns if dim_latent is None else dim_latent
        )
        self.dim = N
        self.known_dim = N  # pyright: ignore
        self.dim_latent = D
        if self.word is not None:
            self.squares = _typical_squares(self.word, N, D)
        elif array.ndim > 1:
            checks.require_shape("features", array, (N, D), fix="A matrix (N, D).")
            self._matrix = _equal_rows(array)
            self.squares = np.linalg.svd(self._matrix, compute_uv=False) ** 2 / D
        else:
            fix = "A list of min(N, D) eigenvalues of F F^T / D."
            checks.require_shape("features", array, (min(N, D),), fix=fix)
            name = "features (eigenvalues of F F^T / D)"
            checks.require_nonnegative(name, array)
            self.squares = np.sort(array)[::-1]
        self._set_levels()

    def _set_levels(self) -> None:
        """Group the directions of x to levels.

        A level is a group of singular values; one more has the directions that F does
        not reach.
        """
        N = self.dim
        D = self.dim_latent
        linear_square = self.coefficients.linear**2
        unreached = N - self.squares.size
        groups = self._groups_of_squares(most=self.most_levels - (unreached > 0))
        # each level's share of beta
        latent = [group.size / D for group in groups]
        if unreached:
            groups = [*groups, np.zeros(unreached)]
            latent = [*latent, 0.0]
        # omega_i = k1^2 s_i^2 + k*^2, and the share of beta that x shows,
        # k1^2 s_i^2 / (omega_i D) summed over a level
        omega = [linear_square * group + self.coefficients.rest for group in groups]
        shown = np.array(
            [
                np.sum(linear_square * group / (values * D))
                for group, values in zip(groups, omega, strict=True)
            ]
        )
        self.eigenvalues = np.array([values.mean() for values in omega])
        self.fractions = np.array([values.size / N for values in omega])
        self.visible = shown / (self.fractions * self.eigenvalues)
        self.unseen_by_level = np.array(latent) - shown
        self.unseen_share = np.asarray(1.0 - shown.sum())

    def _groups_of_squares(self, most: int) -> list[Float[np.ndarray, " size"]]:
        """Return groups of equal squared singular values.

        If these are too many, `most` groups of neighbors take their place.
        """
        if most < 1:
            raise InputError(
                f"levels is {self.most_levels}; D = {self.dim_latent} < N = {self.dim} "
                "needs two levels or more."
            )
        falls = np.diff(self.squares) < -EQUAL * self.squares[0]
        groups = np.split(self.squares, np.flatnonzero(falls) + 1)
        if len(groups) > most:
            groups = np.array_split(self.squares, most)
        return groups

    @property
    def basis(self) -> Float[np.ndarray, "N N"] | None:  # pyright: ignore
        """Eigenvectors as rows, if the matrix is known."""
        return None if self._matrix is None else self.realized().basis

    @property
    def features(self) -> str | Float[np.ndarray, "..."]:
        """The matrix, its rows scaled; else the word or the list of eigenvalues."""
        if self.word is not None:
            return self.word
        if self._matrix is not None:
            return self._matrix
        return self.squares

    def without_basis(self) -> "HiddenManifold":
        """Return the manifold of the same eigenvalues without its matrix."""
        return self if self._matrix is None else self.changed(features=self.squares)

    def levels_only(self) -> LatentInputs:
        return LatentInputs(
            eigenvalues=self.eigenvalues,
            fractions=self.fractions,
            visible=self.visible,
            unseen_by_level=self.unseen_by_level,
            unseen_share=self.unseen_share,
        )

    def arguments(self) -> Table:
        return super().arguments() | {"levels": self.most_levels}

    def visible_teacher(self, beta: Numbers) -> Float[np.ndarray, "M N"]:
        """Return w* of latent teacher vectors beta (M, D), in input coordinates.

        w* . x / sqrt(N) is the best guess of their fields.
        """
        _, w, realized = self._components(beta)
        return w @ realized.basis

    def unseen_part(self, beta: Numbers) -> Float[np.ndarray, "M M"]:
        """Return the covariance of the teacher's fields that x does not carry.

        beta: latent teacher vectors (M, D).
        """
        b, w, realized = self._components(beta)
        # beta beta^T / D - w* Omega w*^T / N
        unseen = b @ b.T / self.dim_latent - (w * realized.eigenvalues) @ w.T / self.dim
        return (unseen + unseen.T) / 2

    def _components(
        self, beta: Numbers
    ) -> tuple[Float[np.ndarray, "M D"], Float[np.ndarray, "M N"], Realized]:
        """Return beta along the right singular vectors, and the visible teacher.

        The visible teacher is along the directions of x.
        """
        N = self.dim
        D = self.dim_latent
        fix = "One row per teacher unit, D columns."
        array = checks.as_array(
            "beta", beta, checks.require_finite, shapes=[("M", D)], fix=fix
        )
        if self._matrix is None:
            raise InputError(
                f"{self!r} has no matrix, which latent vectors need; "
                "give one, as inputs.realized().matrix."
            )
        realized = self.realized()
        b = array @ realized.latent.T
        # w*_i = a_i beta_i; directions that F does not reach have none
        b_of_directions = np.pad(b[:, :N], ((0, 0), (0, max(0, N - D))))
        return b, realized.amplitudes * b_of_directions, realized

    def realized(self) -> Realized:
        """Return the matrix, or one that `seed` draws, and its directions."""
        if self.word is None and self._matrix is None:
            raise InputError(
                "the features are only eigenvalues; inputs need the matrix. "
                "Give it, or use method='overlaps'."
            )
        N = self.dim
        D = self.dim_latent
        linear = self.coefficients.linear
        F: Any = self._matrix
        if self.word is not None:
            F = _drawn(self.word, N, D, np.random.default_rng(self.seed))
        left, s, right = np.linalg.svd(F / np.sqrt(D))
        s = np.pad(s, (0, N - s.size))
        omega = linear**2 * s**2 + self.coefficients.rest
        return Realized(
            inputs=self,
            matrix=F,
            basis=np.ascontiguousarray(left.T),
            amplitudes=np.sqrt(N / D) * linear * s / omega,
            eigenvalues=omega,
            latent=right,
        )

    def samples(
        self, latent: Float[NumpyOrJax, "S D"], features: Float[NumpyOrJax, "N D"]
    ) -> Float[Array, "S N"]:
        """Return x of latent vectors."""
        fields = jnp.asarray(latent @ features.T) / np.sqrt(self.dim_latent)
        return self.activation(fields) - self.coefficients.mean


def _equal_rows(F: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Return F with rows of length sqrt(D)."""
    lengths = np.linalg.norm(F, axis=1, keepdims=True)
    if np.any(lengths == 0):
        row = int(np.argmin(lengths[:, 0])) + 1
        raise InputError(
            f"row {row} of the features is zero; every input must depend on the latent "
            "vector. Leave it out."
        )
    return F * (np.sqrt(F.shape[1]) / lengths)


def _coefficients(activation: Activation) -> Coefficients:
    """Return the averages of sigma by Gauss-Legendre panels that end at its breaks."""
    breaks = [x for x in activation.breaks if abs(x) < REACH]
    edges = np.unique(np.r_[np.arange(-REACH, REACH + 1.0), breaks])
    x, w = np.polynomial.legendre.leggauss(PANEL_NODES)
    half = np.diff(edges)[:, None] / 2
    z = ((edges[:-1, None] + half) + half * x).ravel()
    weights = (half * w).ravel() * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    with jax.ensure_compile_time_eval():
        values = np.asarray(activation(jnp.asarray(z)))
    mean = float(weights @ values)
    linear = float(weights @ (z * values))
    rest = float(weights @ (values - mean - linear * z) ** 2)
    coefficients = Coefficients(mean, linear, rest)
    _require_both_parts(activation, coefficients)
    return coefficients


def _require_both_parts(activation: Activation, coefficients: Coefficients) -> None:
    """Refuse features that are linear, or that do not show the latent vector."""
    linear = coefficients.linear
    rest = coefficients.rest
    remedies = {
        "nonlinear": "Use a Spectrum",
        "linear": "Use an activation that is not even",
    }
    sizes = {"nonlinear": rest, "linear": linear**2}
    for part, size in sizes.items():
        if not size > NO_PART * (linear**2 + rest):
            raise InputError(
                f"the activation of the features {activation.name!r} has no {part} "
                f"part (k1 = {linear:.3g}, k*^2 = {rest:.3g}); both must be positive. "
                f"{remedies[part]}, or 'erf'."
            )


def _typical_squares(kind: str, N: int, D: int) -> Float[np.ndarray, " n"]:
    """Return the nonzero eigenvalues of F F^T / D of random or orthogonal features.

    The largest comes first; their sum is N.
    """
    count = min(N, D)
    if kind != "random":
        return np.full(count, N / count)
    # the law of Marchenko and Pastur has support (1 +- sqrt(ratio))^2;
    # x = 1 + ratio + 2 sqrt(ratio) cos(angle), with the density sin(angle)^2 / x
    ratio = N / D
    angle = (np.arange(QUANTILES) + 0.5) * np.pi / QUANTILES
    x = 1 + ratio + 2 * np.sqrt(ratio) * np.cos(angle)
    density = np.sin(angle) ** 2 / x
    above = np.cumsum(density)  # the angle grows as x falls
    # quantiles at the middles of equal shares
    share_above = (above - 0.5 * density) / above[-1]
    squares = np.interp((np.arange(count) + 0.5) / count, share_above, x)
    return squares * (N / squares.sum())


def _drawn(
    kind: str, N: int, D: int, rng: np.random.Generator
) -> Float[np.ndarray, "N D"]:
    """Return random features, or orthogonal ones.

    Orthogonal ones come by turns: equal rows, then orthogonal columns, until both hold.
    """
    F = _equal_rows(rng.standard_normal((N, D)))
    if kind == "random":
        return F
    while True:
        left, _, right = np.linalg.svd(F, full_matrices=False)
        F = left @ right * np.sqrt(max(N, D))
        squared_lengths = np.sum(F**2, axis=1)
        if np.ptp(squared_lengths) <= SAME_LENGTH * D:
            return F
        F = _equal_rows(F)


def digits(labels: bool = False) -> Any:
    """Return 1797 handwritten digits, (1797, 8, 8), values 0 to 16.

    They are the example of real data (source: problem/data/README.md).

    labels: return the pair (images, digits shown) instead of the images.

    >>> import tutelage as tu
    >>> tu.digits().shape
    (1797, 8, 8)
    """
    with_labels = checks.as_flag("labels", labels)
    with np.load(Path(__file__).parent / "data" / "digits.npz") as file:
        images = file["images"].astype(float)
        if not with_labels:
            return images
        return images, file["labels"].astype(int)


def as_rows(
    data: Numbers | str | os.PathLike, name: str
) -> Float[np.ndarray, "samples N"]:
    """Return samples as rows (samples, N); images are flattened.

    data: an array of samples, or the name of a .npy file, which stays on disk.
    """
    if isinstance(data, str | os.PathLike):
        samples = _on_disk(Path(data), name)
    elif isinstance(data, np.ndarray) and data.dtype.kind in NUMBERS:
        samples = data
    else:
        samples = checks.as_array(name, data)
    checks.require_untraced(name, "a measured spectrum", samples)
    if samples.ndim < 2 or samples.shape[0] < 2 or samples.size == 0:
        raise InputError(
            f"{name} has shape {samples.shape}; it must be (samples, features) or "
            "images, two samples or more."
        )
    return samples.reshape(samples.shape[0], -1)


def _on_disk(path: Path, name: str) -> np.ndarray:
    """Return the array of a .npy file, which stays on disk."""
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(
            f"there is no file {str(path)!r}; {name} must be an array or the name of a "
            ".npy file."
        ) from None
    except (ValueError, OSError, EOFError):
        data = None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in NUMBERS:
        raise InputError(
            f"{str(path)!r} is not a .npy file of numbers; "
            "write one with numpy.save(name, array)."
        )
    return data
