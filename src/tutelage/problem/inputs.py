"""Input laws: x ~ N(0, Omega), of which the theory sees only the spectrum. Also rows of data, from which one is measured.

A spectrum is a list of levels: eigenvalue lam_l on a fraction p_l of the dimensions, with sum_l p_l lam_l = 1 by
default, so that a teacher with unit weights has unit fields. The eigenvectors of Omega matter only when weights or data are
given; a measured spectrum (`from_data`, `Spectrum.from_covariance`) keeps them for that.
"""

import os
from pathlib import Path
from typing import Any, Literal, overload

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._part import Part, common_entry, with_fields
from tutelage._types import Numbers, NumpyOrJax, Table
from tutelage.errors import InputError

MOST_LEVELS = 10**6
NUMBERS = "iuf"  # kinds of real numbers


class Inputs(Part):
    """A law of the inputs. `eigenvalues` and `fractions` have shape (levels,): NumPy arrays unless traced.

    >>> import tutelage as tu
    >>> isinstance(tu.Isotropic(), tu.Inputs), tu.PowerLaw(beta=1.0, levels=4).level_dims(100)
    (True, array([25, 25, 25, 25]))
    """

    eigenvalues: eqx.AbstractVar[Float[NumpyOrJax, " L"]]
    fractions: eqx.AbstractVar[Float[NumpyOrJax, " L"]]

    @property
    def levels(self) -> int:
        """How many distinct eigenvalues there are."""
        return self.eigenvalues.shape[0]

    @property
    def weights(self) -> Float[NumpyOrJax, " L"]:
        """p_l lam_l: what each level contributes to a field covariance."""
        return self.fractions * self.eigenvalues

    @property
    def basis(self) -> Float[np.ndarray, "D N"] | None:
        """Eigenvectors as rows, level by level; None: the coordinates are the eigenvectors, in the order of levels."""
        return None

    @property
    def known_dim(self) -> int | None:
        """The input dimension, where the spectrum was measured on something that has one."""
        return None

    def without_basis(self) -> "Inputs":
        """The same law without what only weights and data need: all that a file keeps."""
        return self

    def levels_only(self) -> "Inputs":
        """The numbers that the theory needs and nothing else, so that laws of one kind share compiled programs."""
        return self.without_basis()

    @property
    def usual_dim(self) -> int:
        """N where none is asked for: that of the data, else 1000, or more if there are more levels."""
        return self.known_dim or max(1000, self.levels)

    def level_dims(self, dim: int) -> Int[np.ndarray, " L"]:
        """Whole numbers of dimensions per level that sum to `dim`: the nearest to p_l N, at least one each."""
        dim = checks.as_count("dim", dim)
        if dim < self.levels:
            raise InputError(f"dim is {dim}; {self.levels} levels need at least {self.levels} dimensions.")
        checks.require_untraced("the list of fractions", "a count of dimensions", self.fractions)
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
    """Independent inputs of unit variance: one level.

    >>> import tutelage as tu
    >>> tu.Isotropic().eigenvalues, tu.Isotropic().fractions
    (array([1.]), array([1.]))
    """

    def __init__(self) -> None:
        pass

    @property
    def eigenvalues(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.ones(1)

    @property
    def fractions(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.ones(1)


class PowerLaw(Inputs):
    """lam_l proportional to l^-(1 + beta) on `levels` equal shares of the dimensions, scaled to unit mean.

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
    def levels(self) -> int:
        return self.count

    @property
    def eigenvalues(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        decay = np.arange(1.0, self.count + 1.0) ** -(1.0 + self.beta)
        return decay / decay.mean()

    @property
    def fractions(self) -> Float[NumpyOrJax, " L"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.full(self.count, 1.0 / self.count)


class Spectrum(Inputs):
    """Any spectrum: eigenvalues and the fraction of dimensions that each holds (default: equal shares).

    With `normalize` (default) the eigenvalues are divided by their mean sum_l p_l lam_l, kept as `scale`. A stored spectrum
    gives the scale by which its eigenvalues are already divided; if it was measured, also `known_dim`, the number of
    directions, and how many without variance were `dropped`.

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
    _basis: Float[np.ndarray, "D N"] | None
    _known_dim: int | None = eqx.field(static=True)

    def __init__(
        self,
        eigenvalues: Numbers,
        fractions: Numbers | None = None,
        *,
        normalize: bool = True,
        scale: float | NumpyOrJax | None = None,
        dropped: int = 0,
        known_dim: int | None = None,
    ):
        lam = checks.as_array("eigenvalues", eigenvalues, shapes=[("levels",)], fix="One number or more.")
        checks.require_positive("eigenvalues", lam, fix="Leave out directions without variance.")
        p = checks.as_probabilities("fractions", fractions, lam.size, fix="One fraction per eigenvalue.")
        self.normalize = checks.as_flag("normalize", normalize)
        if scale is None:
            self.scale = (p * lam).sum() if self.normalize else np.float64(1.0)
            lam = lam / self.scale
        else:
            self.scale = checks.as_number("scale", scale, checks.require_positive)[()]
        self.eigenvalues, self.fractions = lam, p
        self.dropped = checks.as_count("dropped", dropped, least=0)
        self._known_dim = None if known_dim is None else checks.as_count("known_dim", known_dim)
        self.center, self._basis = None, None

    def changed(self, **changes: Any) -> "Spectrum":
        """The spectrum of other eigenvalues or fractions, which are scaled anew. Equal fractions stay equal."""
        equal = np.ndim(common_entry(self.fractions)) == 0
        eigenvalues = self.eigenvalues * self.scale if self.normalize else self.eigenvalues
        fractions = None if equal else self.fractions
        given: Table = {"eigenvalues": eigenvalues, "fractions": fractions, "normalize": self.normalize}
        return Spectrum(**given | changes)

    @property
    def basis(self) -> Float[np.ndarray, "D N"] | None:
        return self._basis

    @property
    def known_dim(self) -> int | None:
        return self._known_dim

    def without_basis(self) -> "Spectrum":
        """The same spectrum without eigenvectors and center: all that the theory needs, and all that a file keeps."""
        return with_fields(self, center=None, _basis=None)

    @classmethod
    def from_covariance(
        cls, covariance: Numbers, levels: int | None = None, center: Float[np.ndarray, " N"] | None = None
    ) -> "Spectrum":
        """The spectrum of a covariance matrix (N, N): what `from_data` measures on samples.

        Directions without variance are dropped (`dropped`) and eigenvalues divided by their mean (`scale`). `levels` groups
        neighboring eigenvalues into that many levels of (nearly) equal size, each with their mean. `basis` holds the
        eigenvectors, `center` the mean of the samples, which is subtracted from them. A file (TOML, JSON, NetCDF) keeps all
        but these two, so weights can be projected only on a spectrum measured in this session.
        """
        matrix = checks.as_array("covariance", covariance, checks.require_gram, shapes=[("N", "N")], fix="It is square.")
        values, vectors = np.linalg.eigh(matrix)
        order = np.argsort(values)[::-1]
        if values.size == 0 or values.max() <= 0:
            raise InputError(
                "the covariance has no positive eigenvalue; a spectrum needs one direction with variance or more."
            )
        keep = order[values[order] > 1e-12 * values.max()]
        count = keep.size if levels is None else checks.as_count("levels", levels)
        if count > keep.size:
            raise InputError(f"levels is {count}; it must be at most {keep.size}, the number of directions with variance.")
        groups = np.array_split(values[keep], count)
        fractions = [g.size / keep.size for g in groups]
        dropped = matrix.shape[0] - keep.size
        spectrum = cls([g.mean() for g in groups], fractions, dropped=dropped, known_dim=keep.size)
        return with_fields(spectrum, center=center, _basis=vectors[:, keep].T)

    def with_eigenvalues(self, eigenvalues: Float[np.ndarray, " L"]) -> "Spectrum":
        """The same eigenspaces with other eigenvalues, on the same scale: the spectrum of one class of samples."""
        checks.require_shape("eigenvalues", eigenvalues, np.shape(self.eigenvalues), fix="One for each level.")
        checks.require_positive("eigenvalues", eigenvalues)
        return with_fields(self, eigenvalues=eigenvalues, normalize=False)

    def __repr__(self) -> str:
        levels = f"{self.levels} level{'s' * (self.levels != 1)}"
        measured = f", measured on {self.known_dim} directions ({self.dropped} dropped)" if self.known_dim else ""
        largest = checks.shown(self.eigenvalues.max())
        return f"Spectrum({levels}, largest {largest}, scale {checks.shown(self.scale)}{measured})"


@overload
def digits(labels: Literal[False] = False) -> Float[np.ndarray, "1797 8 8"]: ...
@overload
def digits(labels: Literal[True]) -> tuple[Float[np.ndarray, "1797 8 8"], Int[np.ndarray, " 1797"]]: ...
def digits(labels: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """1797 handwritten digits, (1797, 8, 8), values 0 to 16: the example of real data (source: problem/data/README.md).

    labels: return the pair (images, digits shown) instead of the images.

    >>> import tutelage as tu
    >>> tu.digits().shape
    (1797, 8, 8)
    """
    with np.load(Path(__file__).parent / "data" / "digits.npz") as file:
        images = file["images"].astype(float)
        return (images, file["labels"].astype(int)) if checks.as_flag("labels", labels) else images


def as_rows(data: Numbers | str | os.PathLike, name: str) -> Float[np.ndarray, "samples N"]:
    """Samples as rows (samples, N) of an array of samples, or of a .npy file, which stays on disk; images are flattened."""
    if isinstance(data, str | os.PathLike):
        samples = _on_disk(Path(data), name)
    elif isinstance(data, np.ndarray) and data.dtype.kind in NUMBERS:
        samples = data
    else:
        samples = checks.as_array(name, data)
    checks.require_untraced(name, "a measured spectrum", samples)
    if samples.ndim < 2 or samples.shape[0] < 2 or samples.size == 0:
        raise InputError(
            f"{name} has shape {samples.shape}; it must be (samples, features) or images, with two samples or more."
        )
    return samples.reshape(samples.shape[0], -1)


def _on_disk(path: Path, name: str) -> np.ndarray:
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}; {name} must be an array or the name of a .npy file.") from None
    except (ValueError, OSError, EOFError):
        data = None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in NUMBERS:
        raise InputError(f"{str(path)!r} is not a .npy file of numbers; write one with numpy.save(name, array).")
    return data
