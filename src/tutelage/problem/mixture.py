"""Gaussian mixtures: inputs with classes, each with its own mean and, if wanted, its own spectrum.

    x = mu_c / sqrt(N) + noise of covariance Omega_c,   mu_c = sum_m S_cm b_m,   class c with probability P_c
The vectors b_m are reference vectors, as those of a teacher are: the overlaps R with them are order parameters. The mean of
x has a norm of order one and its noise a norm of order sqrt(N); what a unit sees of both is then of the same order.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import with_fields
from tutelage._types import Numbers, NumpyOrJax, Table
from tutelage.errors import InputError
from tutelage.problem.inputs import HiddenManifold, Inputs, Isotropic, Spectrum
from tutelage.problem.network import Network

Laws: TypeAlias = Inputs | Sequence[Inputs] | None
UNIT = Network(1, "linear")
LARGEST_NORM = 30.0  # of the mean of a class: above it somebody forgot to divide by sqrt(N)


class Mixture(Inputs):
    """A Gaussian mixture: x has mean sum_m S_cm b_m / sqrt(N) and the spectrum of its class c.

    R has one column for each teacher unit, then one for each vector b_m. `error` and `loss` are averages over all
    classes; `trajectory.class_errors` has the errors of single classes. `Mixture.xor`, `Mixture.two_gaussians`,
    `Mixture.simplex` and `Mixture.from_means` make common mixtures.

    Parameters
    ----------
    coefficients : array (classes, m)
        S.
    gram : array (m, m)
        Overlaps b_m . b_n / N, or per level (levels, m, m). The mean of x in class c has the squared norm (S gram S^T)_cc.
    weights : array (classes,), optional
        Probabilities of the classes. Default: equal.
    inputs : Inputs or list
        The law of the noise, one for all classes, or a list with one for each, with common eigenspaces (fractions).
    labels : array, optional
        The label of each class, (classes,) or (classes, outputs); for labels='argmax' the number of the class, counted
        from 0. None: a teacher labels the samples.

    Examples
    --------
    >>> import tutelage as tu
    >>> mixture = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    >>> problem = tu.Problem(tu.Network(1, "linear"), inputs=mixture, loss="logistic", sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.Start(R=[[0.1]], Q=[[0.5]]), times=[0.0, 1.0, 10.0])
    >>> theory.error.round(3)
    array([0.444, 0.145, 0.029])
    """

    coefficients: Float[NumpyOrJax, "classes m"]
    gram: Float[NumpyOrJax, "*L m m"]
    probabilities: Float[NumpyOrJax, " classes"]
    laws: tuple[Inputs, ...]
    labels: Float[NumpyOrJax, "classes ..."] | None

    def __init__(
        self,
        coefficients: Numbers,
        gram: Numbers,
        weights: Numbers | None = None,
        inputs: Laws = None,
        labels: Numbers | None = None,
    ):
        self.coefficients = checks.as_array("coefficients", coefficients, checks.require_finite, shapes=[("classes", "m")])
        classes, m = self.coefficients.shape
        self.probabilities = checks.as_probabilities("weights", weights, classes, fix="One probability for each class.")
        self.laws = _as_laws(inputs, classes)
        self.gram = checks.as_array("gram", gram, checks.require_gram, shapes=[(m, m), (self.levels, m, m)])
        fix, shapes = "One label for each class.", [(classes,), (classes, "outputs")]
        self.labels = checks.as_array("labels", labels, checks.require_finite, shapes=shapes, fix=fix, optional=True)
        if checks.is_traced(self.coefficients, self.gram, self.laws):
            return
        norms = np.sqrt(np.maximum(np.diagonal(self.mean_overlaps()), 0.0))
        if norms.max() > LARGEST_NORM:
            given = f"the mean of x in class {int(norms.argmax())} has norm {norms.max():.3g}"
            raise InputError(f"{given}; it must be of order 1, that of the noise is sqrt(N). Divide the means by sqrt(N).")

    @property
    def eigenvalues(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Averages over the classes; `spectra` has those of each."""
        if len(self.laws) == 1:
            return self.laws[0].eigenvalues
        return self.probabilities @ self.spectra

    @property
    def fractions(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.laws[0].fractions

    @property
    def spectra(self) -> Float[NumpyOrJax, "classes L"]:
        """Eigenvalues of each class."""
        each = [law.eigenvalues for law in self.laws]
        xp: Any = jnp if checks.is_traced(each) else np
        return xp.broadcast_to(xp.stack(each), (self.classes, self.levels))

    @property
    def basis(self) -> Float[np.ndarray, "D N"] | None:  # pyright: ignore
        """Eigenvectors of all classes."""
        return self.laws[0].basis

    @property
    def known_dim(self) -> int | None:  # pyright: ignore
        """N, if the spectrum was measured."""
        return self.laws[0].known_dim

    @property
    def classes(self) -> int:
        """The number of classes."""
        return np.shape(self.coefficients)[0]

    def mean_overlaps(self) -> Float[NumpyOrJax, "classes classes"]:
        """Overlaps of the means of x."""
        S, t = np.asarray(self.coefficients), np.asarray(self.gram)
        t = t if t.ndim == 2 else np.einsum("l,lmn->mn", np.asarray(self.fractions), t)
        return S @ t @ S.T

    def references(self, teacher: Network | None, outputs: int) -> Network:
        """What the columns of R belong to, as one network: units of the teacher, then the b_m, which have no readout.

        They are orthogonal to each other unless the initial condition says more.
        """
        own, M = (UNIT, 0) if teacher is None else (teacher, teacher.hidden)
        m, L = np.shape(self.coefficients)[1], self.levels
        xp: Any = jnp if checks.is_traced(self.gram, self.laws, teacher) else np
        t = xp.broadcast_to(xp.asarray(self.gram), (L, m, m))
        if teacher is not None:
            T = np.eye(M) if teacher.gram is None else teacher.gram
            T = xp.broadcast_to(xp.asarray(T if np.ndim(T) == 3 else T / self.weights.sum()), (L, M, M))
            t = xp.block([[T, xp.zeros((L, M, m))], [xp.zeros((L, m, M)), t]])
        readout = xp.concatenate([own.readout[..., :M], np.zeros((*np.shape(own.readout)[:-1], m))], axis=-1)
        bias = None if own.bias is None else xp.concatenate([own.bias, np.zeros(m)])
        return with_fields(own, hidden=M + m, outputs=outputs, readout=readout, bias=bias, gram=t)

    def targets(self, outputs: int) -> Float[NumpyOrJax, "classes ..."] | None:
        """What stands for the teacher's output in each class; a class number becomes a one-hot vector of `outputs` entries."""
        if self.labels is None or outputs == 1 or np.ndim(self.labels) == 2:
            return self.labels
        if not checks.is_traced(self.labels) and not np.all(np.isin(self.labels, np.arange(outputs))):
            given = f"the labels of the classes are {checks.shown(self.labels)} and there are {outputs} outputs"
            raise InputError(f"{given}; a label must be a number from 0 to {outputs - 1}, or a vector of {outputs} numbers.")
        return jnp.asarray(jnp.asarray(self.labels)[:, None] == np.arange(outputs), float)

    def with_shares(self, shares: Float[NumpyOrJax, " L"], gram: Float[NumpyOrJax, "L m m"] | None = None) -> "Mixture":
        """The same eigenvalues on other shares of the dimensions, as a network of N inputs has them."""
        laws = [Spectrum(law.eigenvalues, shares, normalize=False) for law in self.laws]
        return self.changed(inputs=laws, gram=self.gram if gram is None else gram)

    @classmethod
    def xor(cls, norm: float = 2.0, inputs: Inputs | None = None) -> "Mixture":
        """Four classes with means +-b_1 (label 1) and +-b_2 (label -1), b_1 orthogonal to b_2; norm: of each mean of x."""
        return cls([[1, 0], [-1, 0], [0, 1], [0, -1]], norm**2 * np.eye(2), None, inputs, [1, 1, -1, -1])

    @classmethod
    def two_gaussians(cls, norm: float = 1.0, inputs: Laws = None) -> "Mixture":
        """Two classes with means b (label 1) and -b (label -1); norm: of each mean of x."""
        return cls([[1], [-1]], [[norm**2]], None, inputs, [1, -1])

    @classmethod
    def simplex(cls, classes: int, norm: float = 1.0, inputs: Laws = None) -> "Mixture":
        """Classes whose means are the corners of a simplex around zero; labels are their numbers. norm: of each mean of x.

        >>> import tutelage as tu
        >>> tu.Mixture.simplex(3).mean_overlaps().round(3)[0]
        array([ 1. , -0.5, -0.5])
        """
        count = checks.as_count("classes", classes, least=2)
        gram = norm**2 * (count * np.eye(count) - 1) / (count - 1)
        return cls(np.eye(count), gram, None, inputs, np.arange(count))

    @classmethod
    def from_means(
        cls, means: Numbers, weights: Numbers | None = None, inputs: Laws = None, labels: Numbers | None = None
    ) -> "Mixture":
        """Classes whose means of x are these vectors, (classes, N), in the coordinates of the inputs.

        With several levels the columns are the eigenvectors, level by level, or the coordinates of data that were measured.

        >>> import numpy as np
        >>> import tutelage as tu
        >>> means = np.zeros((2, 100)); means[0, :4], means[1, :4] = 1.0, -1.0
        >>> tu.Mixture.from_means(means, labels=[1, -1]).gram
        array([[ 4., -4.],
               [-4.,  4.]])
        """
        vectors = np.asarray(checks.as_array("means", means, checks.require_finite, shapes=[("classes", "N")]))
        law = _as_laws(inputs, len(vectors))[0]
        vectors = vectors if law.basis is None else vectors @ law.basis.T
        dims = law.level_dims(vectors.shape[1])
        parts = np.split(vectors, np.cumsum(dims)[:-1], axis=1)
        gram = np.stack([part @ part.T / (n / vectors.shape[1]) for part, n in zip(parts, dims, strict=True)])
        return cls(np.eye(len(vectors)), gram[0] if len(gram) == 1 else gram, weights, inputs, labels)

    def arguments(self) -> Table:
        inputs = self.laws[0] if len(self.laws) == 1 else self.laws
        own = {name: getattr(self, name) for name in ("coefficients", "gram", "labels")}
        return own | {"weights": self.probabilities, "inputs": inputs}


def _as_laws(inputs: Laws, classes: int) -> tuple[Inputs, ...]:
    laws = (Isotropic(),) if inputs is None else tuple(inputs) if isinstance(inputs, Sequence) else (inputs,)
    for law in laws:
        if not isinstance(law, Inputs) or isinstance(law, Mixture | HiddenManifold):
            raise InputError(f"inputs is {checks.shown(law)}; give a Gaussian law such as Isotropic(), or a list of laws.")
    if len(laws) not in (1, classes):
        raise InputError(f"{len(laws)} laws of inputs are given for {classes} classes; give one for all, or one for each.")
    if not checks.is_traced(*(law.fractions for law in laws)):
        first = np.asarray(laws[0].fractions)
        for law in laws:
            if law.levels != first.size or not np.allclose(law.fractions, first, rtol=0, atol=1e-9):
                raise InputError("the spectra of the classes have different fractions; only their eigenvalues may differ.")
    return laws
