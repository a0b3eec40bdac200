"""Gaussian mixtures: inputs with classes, each with its own mean and its own spectrum.

    x = mu_c / sqrt(N) + noise of covariance Omega_c,    class c with probability P_c
    mu_c = sum_m S_cm b_m

The vectors b_m are reference vectors, as those of a teacher are: the overlaps R with
them are order parameters. The mean of x has a norm of order one and its noise a norm of
order sqrt(N); their contributions to the field of a unit are then of the same order.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Numbers, NumpyOrJax, Table
from tutelage.errors import InputError
from tutelage.problem.inputs import Inputs, Isotropic, Spectrum
from tutelage.problem.network import Network, Vectors

Laws: TypeAlias = Inputs | Sequence[Inputs] | None
UNIT = Network(1, "linear")
# Largest norm of the mean of a class: larger means were not divided by sqrt(N).
LARGEST_NORM = 30.0


class Mixture(Inputs):
    """A Gaussian mixture, whose classes have their own means and spectra.

    In class c the mean of x is sum_m S_cm b_m / sqrt(N).

    R has one column for each teacher unit, then one for each vector b_m. `error` and
    `loss` are averages over all classes; `trajectory.class_errors` has the errors of
    single classes. `Mixture.xor`, `Mixture.two_gaussians`, `Mixture.simplex` and
    `Mixture.from_means` make common mixtures.

    Parameters
    ----------
    coefficients : array (classes, m)
        S.
    gram : array (m, m)
        Overlaps b_m . b_n / N, or per level (levels, m, m). The mean of x in class c
        has the squared norm (S gram S^T)_cc.
    weights : array (classes,), optional
        Probabilities of the classes. Default: equal.
    inputs : Inputs or list
        The law of the noise, one for all classes, or a list with one for each, with
        common eigenspaces (fractions).
    labels : array, optional
        The label of each class, (classes,) or (classes, outputs); for labels='argmax'
        the number of the class, counted from 0. None: a teacher labels the samples.

    Examples
    --------
    >>> import tutelage as tu
    >>> mixture = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    >>> student = tu.Network(1, "linear")
    >>> problem = tu.Problem(student, inputs=mixture, loss="logistic")
    >>> start = tu.Start(R=[[0.1]], Q=[[0.5]])
    >>> theory = tu.solve(problem, start, times=[0.0, 1.0, 10.0])
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
        self.coefficients = checks.as_array(
            "coefficients",
            coefficients,
            checks.require_finite,
            shapes=[("classes", "m")],
        )
        classes, m = self.coefficients.shape
        self.probabilities = checks.as_probabilities(
            "weights", weights, classes, fix="One probability for each class."
        )
        self.laws = _as_laws(inputs, classes)
        self.gram = checks.as_array(
            "gram", gram, checks.require_gram, shapes=[(m, m), (self.levels, m, m)]
        )
        self.labels = checks.as_array(
            "labels",
            labels,
            checks.require_finite,
            shapes=[(classes,), (classes, "outputs")],
            fix="One label for each class.",
            optional=True,
        )
        if not checks.is_traced(self.coefficients, self.gram, self.laws):
            self._require_small_means()

    def _require_small_means(self) -> None:
        """Refuse means whose norm is not of order one."""
        squares = np.diagonal(self.mean_overlaps())
        norms = np.sqrt(np.maximum(squares, 0.0))
        if norms.max() > LARGEST_NORM:
            raise InputError(
                f"the mean of x in class {int(norms.argmax())} has norm "
                f"{norms.max():.3g}; it must be of order 1, that of the noise is "
                "sqrt(N). Divide the means by sqrt(N)."
            )

    @property
    def eigenvalues(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> Float[NumpyOrJax, " L"]:
        """Mean eigenvalues of the classes; `spectra` has those of each class."""
        if len(self.laws) == 1:
            return self.laws[0].eigenvalues
        return self.probabilities @ self.spectra

    @property
    def fractions(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> Float[NumpyOrJax, " L"]:
        """The fraction of dimensions of each level, common to all classes."""
        return self.laws[0].fractions

    @property
    def spectra(self) -> Float[NumpyOrJax, "classes L"]:
        """Eigenvalues of each class."""
        eigenvalues = [law.eigenvalues for law in self.laws]
        xp: Any = jnp if checks.is_traced(eigenvalues) else np
        return xp.broadcast_to(xp.stack(eigenvalues), (self.classes, self.levels))

    @property
    def basis(self) -> Float[np.ndarray, "D N"] | None:  # pyright: ignore
        """Eigenvectors of all classes as rows."""
        return self.laws[0].basis

    @property
    def known_dim(self) -> int | None:  # pyright: ignore
        """The input dimension N, if the spectrum was measured."""
        return self.laws[0].known_dim

    @property
    def classes(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of classes."""
        return np.shape(self.coefficients)[0]

    def mean_overlaps(self) -> Float[NumpyOrJax, "classes classes"]:
        """Return the overlaps of the means of x."""
        S = np.asarray(self.coefficients)
        t = np.asarray(self.gram)
        if t.ndim == 3:
            t = np.einsum("l,lmn->mn", np.asarray(self.fractions), t)
        return S @ t @ S.T

    def references(self, teacher: Network | None, outputs: int) -> Vectors:
        """Return the vectors that the columns of R belong to.

        These are the units of the teacher, then the b_m, which have no readout. Both
        are orthogonal to each other unless the initial condition says more.
        """
        m = np.shape(self.coefficients)[1]
        levels = self.levels
        xp: Any = jnp if checks.is_traced(self.gram, self.laws, teacher) else np
        t = xp.broadcast_to(xp.asarray(self.gram), (levels, m, m))
        M = 0
        if teacher is not None:
            M = teacher.hidden
            T = np.eye(M) if teacher.gram is None else teacher.gram
            if np.ndim(T) == 2:
                T = T / self.weights.sum()
            T = xp.broadcast_to(xp.asarray(T), (levels, M, M))
            apart = xp.zeros((levels, M, m))
            t = xp.block([[T, apart], [xp.swapaxes(apart, 1, 2), t]])
        labeler = UNIT if teacher is None else teacher
        no_readout = np.zeros((*np.shape(labeler.readout)[:-1], m))
        readout = xp.concatenate([labeler.readout[..., :M], no_readout], axis=-1)
        bias = labeler.bias
        if bias is not None:
            bias = xp.concatenate([bias, np.zeros(m)])
        return Vectors(
            hidden=M + m, outputs=outputs, readout=readout, bias=bias, gram=t
        )

    def targets(self, outputs: int) -> Float[NumpyOrJax, "classes ..."] | None:
        """Return the label of each class, which replaces the teacher's output.

        A class number becomes a one-hot vector of `outputs` entries.
        """
        if self.labels is None or outputs == 1 or np.ndim(self.labels) == 2:
            return self.labels
        numbers = np.arange(outputs)
        is_known = not checks.is_traced(self.labels)
        if is_known and not np.all(np.isin(self.labels, numbers)):
            raise InputError(
                f"the labels of the classes are {checks.shown(self.labels)} and there "
                f"are {outputs} outputs; a label must be a number from 0 to "
                f"{outputs - 1}, or a vector of {outputs} numbers."
            )
        is_class = jnp.asarray(self.labels)[:, None] == numbers
        return jnp.asarray(is_class, float)

    def with_shares(
        self,
        shares: Float[NumpyOrJax, " L"],
        gram: Float[NumpyOrJax, "L m m"] | None = None,
    ) -> "Mixture":
        """Return the same eigenvalues on other shares of the dimensions.

        A network of N inputs has shares that are multiples of 1/N.
        """
        laws = [Spectrum(law.eigenvalues, shares, normalize=False) for law in self.laws]
        return self.changed(inputs=laws, gram=self.gram if gram is None else gram)

    @classmethod
    def xor(cls, norm: float = 2.0, inputs: Inputs | None = None) -> "Mixture":
        """Return four classes with the labels of an exclusive or.

        Their means are +-b_1 (label 1) and +-b_2 (label -1), b_1 orthogonal to b_2.
        norm: of each mean of x.
        """
        return cls(
            coefficients=[[1, 0], [-1, 0], [0, 1], [0, -1]],
            gram=norm**2 * np.eye(2),
            inputs=inputs,
            labels=[1, 1, -1, -1],
        )

    @classmethod
    def two_gaussians(cls, norm: float = 1.0, inputs: Laws = None) -> "Mixture":
        """Return two classes with means b (label 1) and -b (label -1).

        norm: of each mean of x.
        """
        return cls(
            coefficients=[[1], [-1]], gram=[[norm**2]], inputs=inputs, labels=[1, -1]
        )

    @classmethod
    def simplex(cls, classes: int, norm: float = 1.0, inputs: Laws = None) -> "Mixture":
        """Return classes whose means are the corners of a simplex around zero.

        Their labels are their numbers. norm: of each mean of x.

        >>> import tutelage as tu
        >>> tu.Mixture.simplex(3).mean_overlaps().round(3)[0]
        array([ 1. , -0.5, -0.5])
        """
        count = checks.as_count("classes", classes, least=2)
        return cls(
            coefficients=np.eye(count),
            gram=norm**2 * (count * np.eye(count) - 1) / (count - 1),
            inputs=inputs,
            labels=np.arange(count),
        )

    @classmethod
    def from_means(
        cls,
        means: Numbers,
        weights: Numbers | None = None,
        inputs: Laws = None,
        labels: Numbers | None = None,
    ) -> "Mixture":
        """Return classes whose means of x are given vectors, (classes, N).

        The vectors are in the coordinates of the inputs. With several levels the
        columns are the eigenvectors, level by level, or the coordinates of data that
        were measured.

        >>> import numpy as np
        >>> import tutelage as tu
        >>> means = np.zeros((2, 100))
        >>> means[:, :4] = [[1.0], [-1.0]]
        >>> tu.Mixture.from_means(means, labels=[1, -1]).gram
        array([[ 4., -4.],
               [-4.,  4.]])
        """
        vectors = np.asarray(
            checks.as_array(
                "means", means, checks.require_finite, shapes=[("classes", "N")]
            )
        )
        classes = len(vectors)
        law = _as_laws(inputs, classes)[0]
        if law.basis is not None:
            vectors = vectors @ law.basis.T
        dim = vectors.shape[1]
        dims = law.level_dims(dim)
        parts = np.split(vectors, np.cumsum(dims)[:-1], axis=1)
        overlaps = [
            part @ part.T / (n / dim) for part, n in zip(parts, dims, strict=True)
        ]
        return cls(
            coefficients=np.eye(classes),
            gram=overlaps[0] if len(overlaps) == 1 else np.stack(overlaps),
            weights=weights,
            inputs=inputs,
            labels=labels,
        )

    def arguments(self) -> Table:
        """Return the constructor arguments that build this mixture again."""
        return {
            "coefficients": self.coefficients,
            "gram": self.gram,
            "labels": self.labels,
            "weights": self.probabilities,
            "inputs": self.laws[0] if len(self.laws) == 1 else self.laws,
        }


def _as_laws(inputs: Laws, classes: int) -> tuple[Inputs, ...]:
    """Convert `inputs` to one Gaussian law, or one for each class."""
    if inputs is None:
        laws = (Isotropic(),)
    elif isinstance(inputs, Sequence):
        laws = tuple(inputs)
    else:
        laws = (inputs,)
    for law in laws:
        is_law = isinstance(law, Inputs)
        if not is_law or law.classes is not None or law.is_latent:
            raise InputError(
                f"inputs is {checks.shown(law)}; "
                "give a Gaussian law such as Isotropic(), or a list of laws."
            )
    if len(laws) not in (1, classes):
        raise InputError(
            f"{len(laws)} laws of inputs are given for {classes} classes; "
            "give one for all, or one for each."
        )
    if not checks.is_traced(*(law.fractions for law in laws)):
        _require_common_fractions(laws)
    return laws


def _require_common_fractions(laws: tuple[Inputs, ...]) -> None:
    """Refuse spectra whose levels have different fractions of the dimensions."""
    first = np.asarray(laws[0].fractions)
    for law in laws:
        has_same_levels = law.levels == first.size
        if not has_same_levels or not np.allclose(
            law.fractions, first, rtol=0, atol=1e-9
        ):
            raise InputError(
                "the spectra of the classes have different fractions; "
                "only their eigenvalues may differ."
            )
