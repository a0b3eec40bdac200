"""`from_data`: samples become an input law, labeled samples a mixture or a fitted teacher. `Data` says what was thrown away.

The theory uses means and covariances. Features are centered and rotated into the eigenvectors of their covariance (with
classes: of the mean covariance within the classes), whose mean eigenvalue is scaled to one. Then
    no labels       a `Spectrum`;
    class labels    a `Mixture`: the class means, and the variances of each class along these eigenvectors;
    real labels     a `Spectrum` and a linear teacher by least squares. What is not linear in the features is `unseen`.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._part import with_fields
from tutelage._types import ArrayLike, Numbers
from tutelage.analysis.result import AnalysisResult
from tutelage.data.population import isotropic_range, population_eigenvalues
from tutelage.errors import InputError, TutelageWarning, ValidityWarning, explained, kind_of
from tutelage.problem import Inputs, Mixture, Network, Problem, Spectrum, Tasks
from tutelage.problem.inputs import as_rows
from tutelage.simulation.prepare import level_overlaps

if TYPE_CHECKING:
    from tutelage.data.gap import DataComparison

FeatureMap = Callable[[np.ndarray], Any]
CHUNK = 2**23  # numbers held at a time while moments are measured
HELD = 2**24  # numbers of samples that are held for SGD and for measured errors; of more, random rows are taken
DIRECTIONS = 64  # random ones, in which fields are compared with Gaussian ones
MEASURED, CORRECTED = SPECTRA = ("measured", "corrected")
FEW_SAMPLES = 0.25  # directions per sample above which `from_data` warns
LONG_MEANS = 0.1  # share of |x|^2 in the class means above which `from_data` warns
LEAST_VARIANCE = 1e-12  # of a class that is constant along a direction, in units of the mean eigenvalue
FEATURES, LABELS = ("X", "x", "data", "images", "x_train"), ("y", "Y", "target", "labels", "y_train")  # in an .npz file


class FieldShape(NamedTuple):
    """Skewness and excess kurtosis, means over directions, with standard errors."""

    skewness: float
    kurtosis: float
    skewness_error: float
    kurtosis_error: float

    @classmethod
    def of(cls, fields: Sequence[Float[np.ndarray, "n k"]], drawn: bool = True) -> "FieldShape":
        """Of standardized fields (samples, directions) of several groups of samples.

        The directions share their samples. Each error combines the scatter of the
        samples' shares in the mean over directions with the scatter over directions,
        if these are `drawn` at random.
        """
        count = sum(z.shape[1] for z in fields)
        skewness = np.concatenate([np.mean(z**3, axis=0) for z in fields])
        fourth = np.concatenate([np.mean(z**4, axis=0) for z in fields])
        variances = np.zeros(2)
        if drawn:
            variances = np.array([skewness.var(), fourth.var()]) / count
        for z in fields:
            shares = _moment_shares(z)
            of_group = z.shape[1] / count  # the weight of the group in the mean
            variances += (of_group * shares.std(axis=1)) ** 2 / len(z)
        skewness_error, kurtosis_error = np.sqrt(variances)
        return cls(
            skewness=float(skewness.mean()),
            kurtosis=float(fourth.mean() - 3),
            skewness_error=float(skewness_error),
            kurtosis_error=float(kurtosis_error),
        )

    def __str__(self) -> str:
        tails = f"excess kurtosis {self.kurtosis:.2f} ± {self.kurtosis_error:.2f}"
        return f"skewness {self.skewness:.2f} ± {self.skewness_error:.2f}, {tails}"


def _moment_shares(z: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "2 n"]:
    """What each sample adds to skewness and kurtosis, means over directions.

    These are the influence functions of m3 / m2^(3/2) and m4 / m2^2. Their terms of lower
    order come from the mean and the variance, which the same samples estimate.
    """
    third = np.mean(z**3, axis=0)
    fourth = np.mean(z**4, axis=0)
    of_third = z**3 - 3 * z - 1.5 * third * (z**2 - 1)
    of_fourth = z**4 - 4 * third * z - 2 * fourth * (z**2 - 1)
    return np.stack([of_third.mean(axis=1), of_fourth.mean(axis=1)])


@dataclass(frozen=True, eq=False, repr=False)
class Data(AnalysisResult, figure="plot_data"):
    """What `from_data` measured. Print it for a report, draw it with `plot`, compare it with SGD by `compare`.

    rows: the samples. labels: their class numbers, or real labels scaled to mean zero and variance one. classes: the labels
    of the classes in their order. counts: samples of each class. spectrum: of the covariance (within classes), with center,
    basis and scale. means: (C, D), class means along the D directions with variance. covariances: (C, D, D), within the
    classes. Both are in the coordinates (x - center) basis^T / sqrt(scale); without classes C is one.
    teacher: fitted to real labels; teacher_weights: (1, D). explained: share of the variance of the labels that it explains.
    lost_means: share of the squared class means along directions without variance, which are dropped.
    corrected: whether the eigenvalues are estimates for the law behind the samples, not those of the samples.
    """

    rows: np.ndarray
    labels: np.ndarray | None
    feature_map: FeatureMap | None
    classes: np.ndarray | None
    counts: Int[np.ndarray, " C"]
    spectrum: Spectrum
    means: Float[np.ndarray, "C D"]
    covariances: Float[np.ndarray, "C D D"]
    lost_means: float = 0.0
    teacher: Network | None = None
    teacher_weights: Float[np.ndarray, "1 D"] | None = None
    explained: float = 1.0
    corrected: bool = False

    @cached_property
    def inputs(self) -> Inputs:
        """The input law of the theory: a `Spectrum`, or a `Mixture` if there are classes."""
        return self.spectrum if self.classes is None else self._mixture(np.eye(len(self.counts)))

    @property
    def basis(self) -> Float[np.ndarray, "D N"]:
        """The directions with variance, as rows."""
        assert self.spectrum.basis is not None
        return self.spectrum.basis

    @property
    def dim(self) -> int:
        """D, the number of directions with variance: the N of the theory."""
        return self.basis.shape[0]

    @property
    def free_samples(self) -> int:
        """The number of samples, less one for each mean that is subtracted."""
        return max(1, len(self.rows) - len(self.counts))

    @property
    def sampling_ratio(self) -> float:
        """Directions per sample, which spread the measured eigenvalues; 0 for many samples."""
        return self.dim / self.free_samples

    @property
    def probabilities(self) -> Float[np.ndarray, " C"]:
        """The share of the samples in each class."""
        return self.counts / len(self.rows)

    @property
    def level_sizes(self) -> Int[np.ndarray, " L"]:
        """The number of directions in each level."""
        return self.spectrum.level_dims(self.dim)

    @property
    def _own_variances(self) -> Float[np.ndarray, "C D"]:
        return np.einsum("cii->ci", self.covariances)

    @property
    def _level_variances(self) -> Float[np.ndarray, "C L"]:
        first = np.cumsum([0, *self.level_sizes[:-1]])
        means = np.add.reduceat(self._own_variances, first, axis=1) / self.level_sizes
        return np.maximum(means, LEAST_VARIANCE)

    @property
    def variances(self) -> Float[np.ndarray, "C D"]:
        """The variances that the theory uses: of each class along each direction, the mean over its level."""
        return np.repeat(self._level_variances, self.level_sizes, axis=1)

    @property
    def grouped_teacher(self) -> Float[np.ndarray, "1 D"] | None:
        """The teacher's weights for the variances of the levels: each direction keeps what it explains of the labels."""
        own = self.teacher_weights
        return None if own is None else own * np.sqrt(self._own_variances / self.variances)

    @cached_property
    def off_diagonal(self) -> float:
        """Share of the class covariances, by Frobenius norm, off the diagonal in the common eigenvectors: thrown away."""
        return self._share(self.covariances * (1 - np.eye(self.dim)))

    @property
    def chance_off_diagonal(self) -> float:
        """The `off_diagonal` of as many Gaussian samples whose class covariances are diagonal.

        The covariance of entries i and j of n samples has variance var_i var_j / (n - 1).
        """
        variances = self._own_variances
        pairs = variances.sum(axis=1) ** 2 - np.sum(variances**2, axis=1)
        expected = self.probabilities @ (pairs / (self.counts - 1))
        whole = self.probabilities @ np.sum(self.covariances**2, axis=(1, 2))
        return float(np.sqrt(expected / whole))

    @cached_property
    def grouping_error(self) -> float:
        """Share of the class covariances, by Frobenius norm, that grouping eigenvalues into levels throws away."""
        return self._share((self._own_variances - self.variances)[:, None])

    def _share(self, part: Float[np.ndarray, "C a D"]) -> float:
        whole = np.einsum("c,cij->", self.probabilities, self.covariances**2)
        return float(np.sqrt(np.einsum("c,cij->", self.probabilities, part**2) / whole))

    @property
    def mean_length(self) -> float:
        """The length of the longest class mean, where the noise has variance one per direction; the theory assumes O(1)."""
        return float(np.sqrt(np.max(np.sum(self.means**2, axis=1))))

    @cached_property
    def held(self) -> tuple[Float[np.ndarray, "n D"], np.ndarray]:
        """Samples in the coordinates of the theory, and the class of each (real labels: its scaled label).

        Of more than HELD numbers, random rows are taken.
        """
        most, rows, labels = max(2, HELD // self.dim), self.rows, self.labels
        labels = np.zeros(len(rows), dtype=int) if labels is None else labels
        if len(rows) > most:
            which = np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))
            rows, labels = rows[which], labels[which]
        to_coordinates = self.basis.T / np.sqrt(float(self.spectrum.scale))
        parts = [(x - self.spectrum.center) @ to_coordinates for x in _pieces(rows, self.feature_map)]
        return np.concatenate(parts), labels

    @cached_property
    def field_shapes(self) -> dict[str, "FieldShape"]:
        """Skewness and excess kurtosis of fields w.x within the classes; both are zero for Gaussian ones.

        "in random directions": as of initial weights. "toward other classes": samples of class c along mean_k - mean_c, for all
        pairs; a positive skewness is a tail toward the other class. "along the teacher": the fitted one.
        """
        x, labels = self.held
        which = labels if self.classes is not None else np.zeros(len(x), dtype=int)
        groups = [x[which == c] - mean for c, mean in enumerate(self.means)]

        def pooled(w: Float[np.ndarray, "k D"]) -> FieldShape:
            return FieldShape.of([np.concatenate([self._fields(own, c, w) for c, own in enumerate(groups)])])

        found = {"in random directions": pooled(np.random.default_rng(0).standard_normal((DIRECTIONS, self.dim)))}
        if self.teacher_weights is not None:
            found["along the teacher"] = pooled(self.teacher_weights)
        if self.classes is not None:
            others = [np.delete(self.means - mean, c, 0) for c, mean in enumerate(self.means)]
            found["toward other classes"] = FieldShape.of(
                [self._fields(groups[c], c, w) for c, w in enumerate(others)], drawn=False
            )
        return found

    def _fields(self, noise: Float[np.ndarray, "n D"], c: int, w: Float[np.ndarray, "k D"]) -> Float[np.ndarray, "n k"]:
        """Fields of samples of class c without its mean, in units of their standard deviation."""
        spread = np.sqrt(np.einsum("kd,de,ke->k", w, self.covariances[c], w))
        return noise @ w.T / np.where(spread > 0, spread, 1.0)

    def problem(self, student: Network, teacher: Network | Tasks | None = None, **settings: Any) -> Problem:
        """The problem that the data pose to a student. settings: sgd, loss, rule, ... of `Problem`.

        Class labels: the loss is "cross_entropy" if the student has one output per class, "logistic" for two classes and one
        output. Real labels: the teacher is the fitted one. No labels: give a teacher, which labels the samples.

        >>> import numpy as np
        >>> import tutelage as tu
        >>> data = tu.from_data(np.random.default_rng(0).standard_normal((300, 20)), np.arange(300) % 3)
        >>> data.problem(tu.Network(3, "linear", outputs=3), sgd=tu.SGD(lr=0.1)).loss
        CrossEntropy()
        """
        if not isinstance(student, Network):
            raise InputError(f"student is {kind_of(student)}; it must be a Network, such as Network(2, 'erf').")
        if self.labels is None and teacher is None:
            raise InputError("the data have no labels; give a teacher, such as Network(2, 'erf'), that labels them.")
        if self.labels is not None and teacher is not None:
            raise InputError("the data have labels; leave teacher out, or measure the data without y.")
        if self.classes is None:
            return Problem(student, self.teacher if teacher is None else teacher, inputs=self.inputs, **settings)
        count = len(self.counts)
        if student.outputs != count and (student.outputs, count) != (1, 2):
            has = f"the student has {student.outputs} output{'s' * (student.outputs > 1)}"
            needed = f"{count} classes need {count}{' or one' * (count == 2)}"
            raise InputError(f"{has}; {needed}. Use Network({count}, 'linear', outputs={count}).")
        settings = {"loss": "cross_entropy" if student.outputs > 1 else "logistic"} | settings
        return Problem(student, inputs=self.inputs if student.outputs > 1 else self._mixture([-1, 1]), **settings)

    def compare(
        self,
        problem: Problem,
        times: ArrayLike | Sequence[float] = 20.0,
        *,
        runs: int = 20,
        seed: int = 0,
        weights: Numbers | tuple[Numbers, Numbers] | None = None,
    ) -> "DataComparison":
        """SGD on the samples themselves next to the theory, and where the gap between them comes from.

        Each step draws a sample with replacement, so the data set is the population and the error is measured on all of it.
        The same SGD on Gaussian samples, first of the theory's law, then of the full covariances, splits the gap.

        problem: from `problem`. times: as in `solve`. runs: networks per law, all from the same initial weights.
        weights: initial weights (K, features) of the student, or a pair with the teacher's (M, features); default: entries
        N(0, 0.1^2), and N(0, 1) for a teacher.
        """
        from tutelage.data.gap import compare_data

        return compare_data(self, problem, times, runs, seed, weights)

    def __repr__(self) -> str:
        return f"<Data: {self._size()}{self._spread_in_short()}>"

    def _spread_in_short(self) -> str:
        if self.corrected:
            return ", eigenvalues corrected for the number of samples"
        if self.sampling_ratio > FEW_SAMPLES:
            return ", eigenvalues spread by the few samples"
        return ""

    def _sampling_lines(self) -> list[str]:
        """The spread of the measured eigenvalues, and what chance adds to other numbers."""
        low, high = isotropic_range(self.sampling_ratio)
        spread = f"of an isotropic law they would go from {low:.2g} to {high:.2g}"
        lines = [f"sampling: {len(self.rows)} samples spread the measured eigenvalues; {spread}"]
        if self.corrected:
            lines.append("      the theory uses eigenvalues that are corrected for this")
        elif self.sampling_ratio > FEW_SAMPLES:
            lines.append("      the theory is that of this sample, not of the law behind it")
        if self.classes is not None:
            added = self.dim / self.counts.min()
            lines.append(f"      chance adds up to {added:.2g} to the squared length of a class mean")
        return lines

    @property
    def adjusted(self) -> float:
        """The share of the variance of real labels that the teacher explains, without what it fits by chance."""
        left = self.free_samples - self.dim
        return 1 - (1 - self.explained) * self.free_samples / left if left > 0 else np.nan

    def _size(self) -> str:
        return f"{len(self.rows)} samples, {self.basis.shape[1]} features, {self.dim} directions with variance"

    def __str__(self) -> str:
        spectrum, levels = self.spectrum, f"{self.spectrum.levels} level{'s' * (self.spectrum.levels > 1)}"
        lines = [self._size(), f"used: the eigenvalues of the covariance, {levels}"]
        if self.classes is not None:
            sizes = f"{self.counts.min()} to {self.counts.max()} samples each"
            lines[1] = f"used: means and variances of {len(self.counts)} classes ({sizes}), {levels}"
        if self.teacher is not None:
            share = f"{self.explained:.1%} of the variance of y in these samples"
            lines.append(f"      a linear teacher, which explains {share}; the rest is unseen")
            without = f"{max(0.0, self.adjusted):.1%}" if np.isfinite(self.adjusted) else "not known"
            lines.append(f"      (without what it fits by chance: {without})")
        lines += self._sampling_lines()
        lines.append("thrown away")
        if spectrum.dropped:
            means = f", with {self.lost_means:.2g} of the squared class means" * (self.lost_means > 1e-6)
            lines.append(f"  {spectrum.dropped} direction{'s' * (spectrum.dropped > 1)} without variance{means}")
        if spectrum.levels < self.dim:
            lines.append(f"  differences of eigenvalues within a level: {self.grouping_error:.1%} of the covariance (norm)")
        if self.classes is not None:
            share = f"{self.off_diagonal:.1%} of them (norm; by chance {self.chance_off_diagonal:.1%})"
            lines.append(f"  off-diagonal parts of the class covariances: {share}")
        lines.append("  all moments beyond the second (zero for Gaussian fields)")
        lines += [f"    {name}: {shape}" for name, shape in self.field_shapes.items()]
        if self.classes is not None:
            length = f"{self.mean_length:.2f}, or {self.mean_length / np.sqrt(self.dim):.2f} sqrt(N)"
            lines.append(f"scale: the longest class mean is {length}; the theory assumes O(1)")
        return "\n".join(lines)

    def _mixture(self, labels: Numbers) -> Inputs:
        """Class means as reference vectors b_c = sqrt(N) mean_c; a spectrum for each class in the common eigenvectors."""
        means = np.sqrt(self.dim) * self.means
        laws = [with_fields(self.spectrum, eigenvalues=lam, normalize=False) for lam in self._level_variances]
        return Mixture(np.eye(len(means)), level_overlaps(means, means, self.level_sizes), self.probabilities, laws, labels)


def from_data(
    X: Any,
    y: Any = None,
    feature_map: FeatureMap | None = None,
    levels: int | None = None,
    *,
    spectrum: str = MEASURED,
) -> Data:
    """Measure what the theory needs of your data; the result makes problems and compares the theory with SGD on the data.

    Parameters
    ----------
    X : array (samples, features), images (samples, height, width, ...), a .npy or .npz file, or a data set of scikit-learn
        A .npy file is read piece by piece, so it may be larger than memory. An .npz file holds X (or data, images) and
        perhaps y (or target, labels). A data set with `data` and `target` brings its labels.
    y : array (samples,), optional
        Integers, booleans or words are classes; floating-point numbers are real labels.
    feature_map : function, optional
        Maps rows (n, features) to new features (n, F), piece by piece. The theory is then about these.
    levels : int, optional
        Merge neighboring eigenvalues into so many levels of equal size. Default: one for each eigenvalue.
    spectrum : "measured" or "corrected"
        "measured": the eigenvalues of these samples, which are spread if there are few of them: 200 samples of 60
        independent features of equal variance have eigenvalues from 0.2 to 2.4. "corrected": estimated eigenvalues of
        the law behind the samples (El Karoui 2008). It needs more samples than directions, and no labels.

    Returns
    -------
    Data
        `.inputs`, `.problem(student)`, `.compare(problem)`, `.plot()`; printed, a report.

    >>> import tutelage as tu
    >>> data = tu.from_data(tu.digits(), levels=8)
    >>> data.inputs
    Spectrum(8 levels, largest 5.13853, scale 19.6964, measured on 61 directions (3 dropped))
    """
    corrected = checks.known("spectrum", spectrum, SPECTRA) == CORRECTED
    X, y = _opened(X, y)
    if corrected and y is not None:
        measured = "class means and teachers are measured along the directions of the samples"
        raise InputError(f"spectrum is 'corrected' and there are labels; {measured}. Leave y out, or use 'measured'.")
    rows = as_rows(X, "X")
    if feature_map is not None and not callable(feature_map):
        raise InputError(f"feature_map is {kind_of(feature_map)}; it must be a function of rows (n, features).")
    labels, classes = (None, None) if y is None else _as_labels(y, len(rows))
    which = np.zeros(len(rows), dtype=int) if labels is None or classes is None else labels
    real = labels if classes is None else None
    counts, centers, covariances, cross = _moments(rows, feature_map, which, real)
    center = counts @ centers / len(rows)
    if len(rows) <= len(center):
        few = f"there are {len(rows)} samples of {len(center)} features: at most {len(rows) - 1} directions have variance"
        rest = "their eigenvalues are those of this sample, not of the law behind it. Use more samples or fewer features."
        warnings.warn(f"{few}, and {rest}", TutelageWarning, stacklevel=2)
    covariance = np.einsum("c,cij->ij", counts / len(rows), covariances)
    law = Spectrum.from_covariance(covariance, levels, center)
    basis, scale = law.basis, float(law.scale)
    assert basis is not None
    differences = centers - center
    means = differences @ basis.T / np.sqrt(scale)
    lost = 0.0 if classes is None else 1 - scale * np.sum(means**2) / max(np.sum(differences**2), np.finfo(float).tiny)
    covariances = basis @ covariances @ basis.T / scale
    data = Data(
        rows=rows,
        labels=labels,
        feature_map=feature_map,
        classes=classes,
        counts=counts,
        spectrum=law,
        means=means,
        covariances=covariances,
        lost_means=max(float(lost), 0.0),
    )
    if corrected:
        return _with_corrected_spectrum(data)
    if data.dim > 1 and data.sampling_ratio > FEW_SAMPLES and len(rows) > len(center):
        _warn_of_few_samples(data)
    if real is not None:
        return _with_teacher(data, real, cross)
    share = data.mean_length**2 / data.dim
    if share > LONG_MEANS:
        noise = f"the noise has length sqrt(N) = {np.sqrt(data.dim):.3g}; the theory assumes means of order 1"
        missed = f"It misses terms of relative order lr times the squared ratio, {share:.2g}"
        words = f"the longest class mean has length {data.mean_length:.3g} where {noise}. {missed}"
        warnings.warn(f"{words}: use a small lr, and measure the gap with `compare`.", ValidityWarning, stacklevel=2)
    return data


def _warn_of_few_samples(data: Data) -> None:
    low, high = isotropic_range(data.sampling_ratio)
    what = f"{len(data.rows)} samples spread the eigenvalues of {data.dim} directions"
    size = f"those of an isotropic law would go from {low:.2g} to {high:.2g}"
    fix = "Use more samples, or from_data(X, spectrum='corrected') for the law behind them"
    words = f"{what} ({size}), so the theory is that of this sample. {fix}."
    warnings.warn(words, ValidityWarning, stacklevel=3)


def _with_corrected_spectrum(data: Data) -> Data:
    """The same data, with eigenvalues for the law behind the samples in their directions."""
    if data.dim >= data.free_samples:
        few = f"there are {len(data.rows)} samples for {data.dim} directions with variance"
        raise InputError(f"spectrum is 'corrected' and {few}; it needs more samples than directions.")
    measured = np.sort(np.einsum("cii->i", data.covariances))[::-1]
    eigenvalues = population_eigenvalues(measured, data.free_samples)
    groups = np.split(eigenvalues, np.cumsum(data.level_sizes)[:-1])
    unbiased = float(data.spectrum.scale) * len(data.rows) / data.free_samples
    spectrum = Spectrum(
        [float(group.mean()) for group in groups],
        data.spectrum.fractions,
        scale=unbiased,
        dropped=data.spectrum.dropped,
        known_dim=data.dim,
    )
    law = with_fields(spectrum, center=data.spectrum.center, basis=data.spectrum.basis)
    return replace(data, spectrum=law, corrected=True)


def _with_teacher(data: Data, real: Float[np.ndarray, " n"], cross: Float[np.ndarray, " N"]) -> Data:
    """A linear teacher w* by least squares: y = w*.x / sqrt(N) + unseen part, for y of mean zero and variance one."""
    mean, spread = float(real.mean()), float(real.std())
    if spread == 0:
        raise InputError(f"all labels y are {mean:g}; a teacher needs different ones. Leave y out to measure the inputs.")
    eigenvalues = np.diagonal(data.covariances[0])
    slopes = data.basis @ cross / (np.sqrt(float(data.spectrum.scale)) * spread * eigenvalues)
    explained = float(np.clip(np.sum(slopes**2 * eigenvalues), 0.0, 1.0))
    labels = (real - mean) / spread
    data = replace(data, labels=labels, teacher_weights=np.sqrt(data.dim) * slopes[None], explained=explained)
    assert data.grouped_teacher is not None
    gram = level_overlaps(data.grouped_teacher, data.grouped_teacher, data.level_sizes)
    return replace(data, teacher=Network(1, "linear", gram=gram, unseen=[[1 - explained]]))


def _opened(X: Any, y: Any) -> tuple[Any, Any]:
    """X and y of a data set of scikit-learn, an .npz file or a data frame; a .npy file stays as it is."""
    own: Any = None
    if isinstance(X, str | os.PathLike):
        X, own = _archive(Path(X)) if Path(X).suffix == ".npz" else (X, None)
    elif hasattr(X, "data") and hasattr(X, "target"):
        X, own = X.data, X.target
    if y is not None and own is not None:
        raise InputError("y is given, and X brings its own labels; leave y out, or give the features alone as X.")
    y = own if y is None else y
    X, y = (value.to_numpy() if hasattr(value, "to_numpy") else value for value in (X, y))
    return X, y


def _archive(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}; X must be an array or the name of a .npy or .npz file.") from None
    except (ValueError, OSError, EOFError):
        raise InputError(
            f"{str(path)!r} is not an .npz file of numbers; write it with numpy.savez(name, X=X, y=y)."
        ) from None
    X, y = (next((arrays[name] for name in known if name in arrays), None) for known in (FEATURES, LABELS))
    if X is None and len(arrays) == 1:
        (X,) = arrays.values()
    if X is None:
        held = ", ".join(arrays) or "nothing"
        raise InputError(f"{str(path)!r} holds {held}; the features must be named {', '.join(FEATURES)}.")
    return X, y


def _as_labels(y: object, samples: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Class numbers 0, 1, ... and the classes, or real labels and None."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (samples,):
        raise InputError(f"y has shape {labels.shape}; it must be ({samples},), one label for each sample.")
    if labels.dtype.kind == "f":
        checks.require_finite("y", labels)
        return labels.astype(float), None
    if labels.dtype.kind not in "iubUS" and not all(isinstance(one, str) for one in labels):
        raise InputError(f"y has type {labels.dtype}; it must hold classes (integers, booleans, words) or real numbers.")
    classes, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) == 1:
        raise InputError(f"y has one class only, {classes[0]}; a mixture needs two. Leave y out to measure the inputs.")
    if counts.min() < 2:
        raise InputError(
            f"class {classes[counts.argmin()]} has one sample; a covariance needs two or more in each of the {len(classes)} "
            "classes. Leave such classes out; if y is a quantity, give it as floating-point numbers."
        )
    return which, classes


def _pieces(rows: np.ndarray, feature_map: FeatureMap | None) -> Iterator[Float[np.ndarray, "n N"]]:
    """Features of the rows, piece by piece, checked."""
    step, width = max(1, CHUNK // rows.shape[1]), None
    for first in range(0, len(rows), step):
        piece = np.asarray(rows[first : first + step], dtype=float)
        checks.require_finite("X", piece)
        if feature_map is not None:
            given = piece.shape
            with explained(f"feature_map failed on rows of shape {given}", "it must take rows (n, features)."):
                piece = np.asarray(feature_map(piece), dtype=float)
            if piece.ndim != 2 or piece.shape != (given[0], width or piece.shape[1]):
                needed = f"({given[0]}, {width or 'features'})"
                raise InputError(f"feature_map made shape {piece.shape} of rows {given}; it must be {needed}.")
            checks.require_finite("the output of feature_map", piece)
            width = piece.shape[1]
        yield piece


def _moments(
    rows: np.ndarray, feature_map: FeatureMap | None, which: Int[np.ndarray, " n"], real: Float[np.ndarray, " n"] | None
) -> tuple[Int[np.ndarray, " C"], Float[np.ndarray, "C N"], Float[np.ndarray, "C N N"], Float[np.ndarray, " N"]]:
    """Counts, means and covariances of the classes, and the covariance of features and real labels, piece by piece.

    Shifted by the first row, so that nothing cancels: a file larger than memory is read once.
    """
    counts, done = np.bincount(which), 0
    shift = total = square = cross = np.zeros(0)
    for piece in _pieces(rows, feature_map):
        if done == 0:
            shift, (C, N) = piece[0].copy(), (len(counts), piece.shape[1])
            what = f"covariances of {C} class{'es' * (C > 1)} in {N} features"
            checks.require_memory(what, C * N**2, "Use fewer features.")
            total, square, cross = np.zeros((C, N)), np.zeros((C, N, N)), np.zeros(N)
        here = slice(done, done + len(piece))
        done += len(piece)
        piece = piece - shift
        for c in np.unique(which[here]):
            own = piece[which[here] == c]
            total[c] += own.sum(axis=0)
            square[c] += own.T @ own
        if real is not None:
            cross = cross + (real[here] - real.mean()) @ piece
    means = total / counts[:, None]
    covariances = square / counts[:, None, None] - means[:, :, None] * means[:, None, :]
    return counts, shift + means, (covariances + covariances.swapaxes(1, 2)) / 2, np.asarray(cross / len(rows))
