"""Where the inputs come from: x ~ N(0, Omega), of which the theory sees only the spectrum.

A spectrum is a list of levels: eigenvalue lam_l on a fraction p_l of the dimensions, with sum_l p_l lam_l = 1 by
default, so that a teacher with unit weights has unit fields. Everything else about Omega (its eigenvectors) matters
only when weights or data are given; `Spectrum.from_data` keeps it for that.
"""

from typing import Any

import equinox as eqx
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import ArrayLike
from tutelage.problem.images import as_rows, mean_and_covariance

MOST_LEVELS = 10**6


class Inputs(eqx.Module):
    """A law of the inputs. `eigenvalues` and `fractions` have shape (levels,): NumPy arrays unless traced.

    >>> import tutelage as tu
    >>> isinstance(tu.Isotropic(), tu.Inputs), tu.PowerLaw(beta=1.0, levels=4).level_dims(100)
    (True, array([25, 25, 25, 25]))
    """

    eigenvalues: eqx.AbstractVar[Any]
    fractions: eqx.AbstractVar[Any]

    @property
    def levels(self) -> int:
        """How many distinct eigenvalues there are."""
        return self.eigenvalues.shape[0]

    @property
    def weights(self) -> Any:
        """p_l lam_l: what each level contributes to a field covariance."""
        return self.fractions * self.eigenvalues

    @property
    def basis(self) -> np.ndarray | None:
        """Eigenvectors as rows, level by level; None: the coordinates are the eigenvectors, in the order of levels."""
        return None

    @property
    def known_dim(self) -> int | None:
        """The input dimension, where the spectrum was measured on something that has one."""
        return None

    @property
    def usual_dim(self) -> int:
        """N where none is asked for: that of the data, else 1000, or more if there are more levels."""
        return self.known_dim or max(1000, self.levels)

    def level_dims(self, dim: int) -> np.ndarray:
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
    def eigenvalues(self) -> Any:
        return np.ones(1)

    @property
    def fractions(self) -> Any:
        return np.ones(1)

    def __repr__(self) -> str:
        return "Isotropic()"


class PowerLaw(Inputs):
    """lam_l proportional to l^-(1 + beta) on `levels` equal shares of the dimensions, scaled to unit mean.

    >>> import tutelage as tu
    >>> inputs = tu.PowerLaw(beta=1.0, levels=4)
    >>> inputs.eigenvalues.round(3), float(inputs.weights.sum().round(12))
    (array([2.81 , 0.702, 0.312, 0.176]), 1.0)
    """

    beta: ArrayLike = eqx.field(converter=lambda x: checks.as_array("beta", x))
    count: int = eqx.field(static=True)

    def __init__(self, beta: ArrayLike, levels: int):
        self.beta = checks.as_array("beta", beta)
        self.count = checks.as_count("levels", levels, most=MOST_LEVELS)
        checks.require_shape("beta", self.beta, ())
        checks.require_nonnegative("beta", self.beta)

    @property
    def eigenvalues(self) -> Any:
        decay = np.arange(1.0, self.count + 1.0) ** -(1.0 + self.beta)
        return decay / decay.mean()

    @property
    def fractions(self) -> Any:
        return np.full(self.count, 1.0 / self.count)

    def __repr__(self) -> str:
        return f"PowerLaw(beta={checks.shown(self.beta)}, levels={self.count})"


class Spectrum(Inputs):
    """Any spectrum: eigenvalues and the fraction of dimensions that each holds (default: equal shares).

    With `normalize` (default) the eigenvalues are divided by their mean sum_l p_l lam_l, kept as `scale`.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> tu.Spectrum([4.0, 0.25], [0.2, 0.8]).levels
    2
    >>> rows = np.random.default_rng(0).standard_normal((100, 3))
    >>> tu.Spectrum.from_data(rows).levels
    3
    """

    eigenvalues: Any
    fractions: Any
    scale: ArrayLike
    normalize: bool = eqx.field(static=True)
    center: np.ndarray | None
    dropped: int = eqx.field(static=True)
    _basis: np.ndarray | None
    _known_dim: int | None = eqx.field(static=True)

    def __init__(self, eigenvalues: Any, fractions: Any = None, *, normalize: bool = True):
        eigenvalues = checks.as_array("eigenvalues", eigenvalues)
        if np.ndim(eigenvalues) != 1 or np.size(eigenvalues) == 0:
            raise InputError(f"eigenvalues have shape {np.shape(eigenvalues)}; they must be a list of one number or more.")
        checks.require_positive("eigenvalues", eigenvalues, fix="Leave out directions without variance.")
        levels = np.shape(eigenvalues)[0]
        fractions = np.full(levels, 1.0 / levels) if fractions is None else checks.as_array("fractions", fractions)
        checks.require_shape("fractions", fractions, (levels,), fix="One fraction per eigenvalue.")
        checks.require_positive("fractions", fractions)
        if not checks.is_traced(fractions) and abs(np.sum(fractions) - 1.0) > 1e-9:
            total = float(np.sum(fractions))
            raise InputError(f"fractions sum to {total:g}; they must sum to one. Divide them by {total:g}.")
        self.normalize = checks.as_flag("normalize", normalize)
        self.scale = (fractions * eigenvalues).sum() if self.normalize else np.float64(1.0)
        self.eigenvalues = eigenvalues / self.scale
        self.fractions = fractions
        self.center, self.dropped, self._basis, self._known_dim = None, 0, None, None

    @property
    def basis(self) -> np.ndarray | None:
        return self._basis

    @property
    def known_dim(self) -> int | None:
        return self._known_dim

    def without_basis(self) -> "Spectrum":
        """The same spectrum without eigenvectors and center: all that the theory needs, and all that a file keeps."""
        return self._with(center=None, _basis=None)

    @classmethod
    def from_covariance(cls, covariance: Any, levels: int | None = None) -> "Spectrum":
        """The spectrum of a covariance matrix (N, N), directions without variance dropped, unit mean eigenvalue.

        `levels` groups neighboring eigenvalues into that many levels of (nearly) equal size, each with their mean.
        """
        covariance = checks.as_array("covariance", covariance)
        if np.ndim(covariance) != 2 or covariance.shape[0] != covariance.shape[1]:
            raise InputError(f"covariance has shape {np.shape(covariance)}; it must be square, (N, N).")
        checks.require_gram("covariance", covariance)
        values, vectors = np.linalg.eigh(covariance)
        order = np.argsort(values)[::-1]
        if values.size == 0 or values.max() <= 0:
            raise InputError("covariance has no positive eigenvalue; a spectrum needs at least one direction with variance.")
        keep = order[values[order] > 1e-12 * values.max()]
        return cls._measured(values[keep], vectors[:, keep].T, covariance.shape[0] - keep.size, levels)

    @classmethod
    def from_data(cls, data: Any, levels: int | None = None) -> "Spectrum":
        """The spectrum of the rows of an array (samples, N), of images (samples, height, width, ...), or of a .npy file.

        A file is read piece by piece, so it may be larger than memory. The rows are centered (`center`), directions without
        variance dropped (`dropped`), the eigenvalues divided by their mean (`scale`): all three are recorded, and `basis`
        holds the eigenvectors that remain. A file (TOML, JSON, NetCDF) keeps all that the theory needs: the levels, `scale`,
        `dropped` and `known_dim`; `center` and `basis` stay with the data, so weights can be projected only on a spectrum
        measured in this session.
        """
        center, covariance = mean_and_covariance(as_rows(data))
        return cls.from_covariance(covariance, levels)._with(center=center)

    @classmethod
    def _measured(cls, values: np.ndarray, basis: np.ndarray, dropped: int, levels: int | None) -> "Spectrum":
        dim = values.size
        count = dim if levels is None else checks.as_count("levels", levels)
        if count > dim:
            raise InputError(f"levels is {count}; it must be at most {dim}, the number of directions with variance.")
        groups = np.array_split(values, count)
        spectrum = cls([g.mean() for g in groups], [g.size / dim for g in groups])
        return spectrum._with(dropped=dropped, _basis=basis, _known_dim=dim)

    def _with(self, **changes: Any) -> "Spectrum":
        """A copy with fields that the constructor does not take: what was measured, or read from a file."""
        copy = object.__new__(type(self))
        for name, value in (vars(self) | changes).items():
            object.__setattr__(copy, name, value)
        return copy

    def __repr__(self) -> str:
        levels = f"{self.levels} level{'s' * (self.levels != 1)}"
        measured = f", measured on {self.known_dim} directions ({self.dropped} dropped)" if self.known_dim else ""
        largest = checks.shown(self.eigenvalues.max())
        return f"Spectrum({levels}, largest {largest}, scale {checks.shown(self.scale)}{measured})"
