"""Problems of samples: `from_data` and its result `Data`.

Samples become an input law, labeled samples a mixture or a fitted teacher. `Data` says
which part of the data the theory does not use. The theory uses means and covariances.
Features are centered and rotated into the eigenvectors of their covariance (with
classes: of the mean covariance within the classes), whose mean eigenvalue is scaled to
one. Then

    no labels       a `Spectrum`;
    class labels    a `Mixture`: the class means, and the variances of each class along
                    these eigenvectors;
    real labels     a `Spectrum` and a linear teacher by least squares. What is not
                    linear in the features is `unseen`.
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
from tutelage.errors import (
    InputError,
    TutelageWarning,
    ValidityWarning,
    explained,
    kind_of,
)
from tutelage.problem import Inputs, Mixture, Network, Problem, Spectrum, Tasks
from tutelage.problem.inputs import as_rows
from tutelage.simulation.prepare import level_overlaps

if TYPE_CHECKING:
    from tutelage.data.gap import DataComparison

FeatureMap = Callable[[np.ndarray], Any]
CHUNK = 2**23  # numbers held at a time while moments are measured
# Numbers of samples that are held for SGD and for measured errors; of more, random rows
# are taken.
HELD = 2**24
DIRECTIONS = 64  # random ones, in which fields are compared with Gaussian ones
MEASURED = "measured"
CORRECTED = "corrected"
SPECTRA = (MEASURED, CORRECTED)
FEW_SAMPLES = 0.25  # directions per sample above which `from_data` warns
LONG_MEANS = 0.1  # share of |x|^2 in the class means above which `from_data` warns
# Variance of a class that is constant along a direction, in units of the mean
# eigenvalue.
LEAST_VARIANCE = 1e-12
# Names of the arrays in an .npz file.
FEATURES = ("X", "x", "data", "images", "x_train")
LABELS = ("y", "Y", "target", "labels", "y_train")


class FieldShape(NamedTuple):
    """Skewness and excess kurtosis, means over directions, with standard errors."""

    skewness: float
    kurtosis: float
    skewness_error: float
    kurtosis_error: float

    @classmethod
    def of(
        cls, fields: Sequence[Float[np.ndarray, "n k"]], drawn: bool = True
    ) -> "FieldShape":
        """Measure standardized fields (samples, directions) of groups of samples.

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
    """Return the share of each sample in skewness and kurtosis.

    These are the influence functions of m3 / m2^(3/2) and m4 / m2^2. Their terms of
    lower order come from the mean and the variance, which the same samples estimate.
    """
    third = np.mean(z**3, axis=0)
    fourth = np.mean(z**4, axis=0)
    of_third = z**3 - 3 * z - 1.5 * third * (z**2 - 1)
    of_fourth = z**4 - 4 * third * z - 2 * fourth * (z**2 - 1)
    return np.stack([of_third.mean(axis=1), of_fourth.mean(axis=1)])


@dataclass(frozen=True, eq=False, repr=False)
class Data(AnalysisResult, figure="plot_data"):
    """The measurements of `from_data`.

    Print it for a report, draw it with `plot`, compare it with SGD by `compare`.

    rows: the samples. labels: their class numbers, or real labels scaled to mean zero
    and variance one. classes: the labels of the classes in their order. counts: samples
    of each class. spectrum: of the covariance (within classes), with center, basis and
    scale. means: (C, D), class means along the D directions with variance. covariances:
    (C, D, D), within the classes. Both are in the coordinates (x - center) basis^T /
    sqrt(scale); without classes C is one. teacher: fitted to real labels;
    teacher_weights: (1, D). explained: share of the variance of the labels that it
    explains. lost_means: share of the squared class means along directions without
    variance, which are dropped. corrected: True if the eigenvalues are estimates for
    the law behind the samples, not those of the samples.
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
        """The input law of the theory: a `Spectrum`, with classes a `Mixture`."""
        if self.classes is None:
            return self.spectrum
        return self._mixture(np.eye(len(self.counts)))

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
        """Directions per sample: they spread the measured eigenvalues."""
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
        """The variances that the theory uses.

        They are those of each class along each direction, the mean over its level.
        """
        return np.repeat(self._level_variances, self.level_sizes, axis=1)

    @property
    def grouped_teacher(self) -> Float[np.ndarray, "1 D"] | None:
        """The teacher's weights for the variances of the levels.

        Each direction keeps its share of the explained variance of the labels.
        """
        if self.teacher_weights is None:
            return None
        return self.teacher_weights * np.sqrt(self._own_variances / self.variances)

    @cached_property
    def off_diagonal(self) -> float:
        """Share of the class covariances off the diagonal in the common eigenvectors.

        It is measured by the Frobenius norm. The theory does not use this part.
        """
        return self._share(self.covariances * (1 - np.eye(self.dim)))

    @property
    def chance_off_diagonal(self) -> float:
        """The `off_diagonal` of as many Gaussian samples of diagonal class covariances.

        The covariance of entries i and j of n samples has variance var_i var_j / (n -
        1).
        """
        variances = self._own_variances
        pairs = variances.sum(axis=1) ** 2 - np.sum(variances**2, axis=1)
        expected = self.probabilities @ (pairs / (self.counts - 1))
        whole = self.probabilities @ np.sum(self.covariances**2, axis=(1, 2))
        return float(np.sqrt(expected / whole))

    @cached_property
    def grouping_error(self) -> float:
        """Share of the class covariances lost by grouping eigenvalues into levels.

        It is measured by the Frobenius norm.
        """
        return self._share((self._own_variances - self.variances)[:, None])

    def _share(self, part: Float[np.ndarray, "C a D"]) -> float:
        whole = np.einsum("c,cij->", self.probabilities, self.covariances**2)
        squared = np.einsum("c,cij->", self.probabilities, part**2)
        return float(np.sqrt(squared / whole))

    @property
    def mean_length(self) -> float:
        """The length of the longest class mean; the theory assumes O(1).

        The noise has variance one per direction.
        """
        return float(np.sqrt(np.max(np.sum(self.means**2, axis=1))))

    @cached_property
    def held(self) -> tuple[Float[np.ndarray, "n D"], np.ndarray]:
        """Samples in the coordinates of the theory, and the class or label of each.

        Real labels are scaled.
        Of more than HELD numbers, random rows are taken.
        """
        rows = self.rows
        labels = self.labels
        if labels is None:
            labels = np.zeros(len(rows), dtype=int)
        most = max(2, HELD // self.dim)
        if len(rows) > most:
            rng = np.random.default_rng(0)
            picked = np.sort(rng.choice(len(rows), most, replace=False))
            rows = rows[picked]
            labels = labels[picked]
        to_coordinates = self.basis.T / np.sqrt(float(self.spectrum.scale))
        coordinates = [
            (piece - self.spectrum.center) @ to_coordinates
            for piece in _pieces(rows, self.feature_map)
        ]
        return np.concatenate(coordinates), labels

    @cached_property
    def field_shapes(self) -> dict[str, "FieldShape"]:
        """Skewness and excess kurtosis of fields w.x within the classes.

        Both are zero for Gaussian fields. "in random directions": as of initial
        weights. "toward other classes": samples of class c along mean_k - mean_c, for
        all pairs; a positive skewness is a tail toward the other class. "along the
        teacher": the fitted one.
        """
        x, labels = self.held
        which = labels
        if self.classes is None:
            which = np.zeros(len(x), dtype=int)
        groups = [x[which == c] - mean for c, mean in enumerate(self.means)]

        def pooled(w: Float[np.ndarray, "k D"]) -> FieldShape:
            fields = [self._fields(noise, c, w) for c, noise in enumerate(groups)]
            return FieldShape.of([np.concatenate(fields)])

        rng = np.random.default_rng(0)
        directions = rng.standard_normal((DIRECTIONS, self.dim))
        shapes = {"in random directions": pooled(directions)}
        if self.teacher_weights is not None:
            shapes["along the teacher"] = pooled(self.teacher_weights)
        if self.classes is not None:
            toward_others = []
            for c, mean in enumerate(self.means):
                others = np.delete(self.means - mean, c, 0)
                toward_others.append(self._fields(groups[c], c, others))
            shapes["toward other classes"] = FieldShape.of(toward_others, drawn=False)
        return shapes

    def _fields(
        self, noise: Float[np.ndarray, "n D"], c: int, w: Float[np.ndarray, "k D"]
    ) -> Float[np.ndarray, "n k"]:
        """Return fields of samples of class c in units of their standard deviation.

        noise: the samples without the mean of their class.
        """
        spread = np.sqrt(np.einsum("kd,de,ke->k", w, self.covariances[c], w))
        return noise @ w.T / np.where(spread > 0, spread, 1.0)

    def problem(
        self, student: Network, teacher: Network | Tasks | None = None, **settings: Any
    ) -> Problem:
        """Return the problem that the data pose to a student.

        settings: optimizer, loss, rule, ... of `Problem`. Class labels: the loss is
        "cross_entropy" if the student has one output per class, "logistic" for two
        classes and one output. Real labels: the teacher is the fitted one. No labels:
        give a teacher, which labels the samples.

        >>> import numpy as np
        >>> import tutelage as tu
        >>> X = np.random.default_rng(0).standard_normal((300, 20))
        >>> data = tu.from_data(X, np.arange(300) % 3)
        >>> data.problem(tu.Network(3, "linear", outputs=3), optimizer=tu.SGD(lr=0.1)).loss
        CrossEntropy()
        """
        if not isinstance(student, Network):
            raise InputError(
                f"student is {kind_of(student)}; "
                "it must be a Network, such as Network(2, 'erf')."
            )
        if self.labels is None and teacher is None:
            raise InputError(
                "the data have no labels; give a teacher, such as Network(2, 'erf'), "
                "that labels them."
            )
        if self.labels is not None and teacher is not None:
            raise InputError(
                "the data have labels; leave teacher out, "
                "or measure the data without y."
            )
        if self.classes is None:
            if teacher is None:
                teacher = self.teacher
            return Problem(student, teacher, inputs=self.inputs, **settings)
        count = len(self.counts)
        if student.outputs != count and (student.outputs, count) != (1, 2):
            plural = "s" if student.outputs > 1 else ""
            needed = f"{count} or one" if count == 2 else f"{count}"
            raise InputError(
                f"the student has {student.outputs} output{plural}; "
                f"{count} classes need {needed}. "
                f"Use Network({count}, 'linear', outputs={count})."
            )
        if student.outputs > 1:
            settings.setdefault("loss", "cross_entropy")
            return Problem(student, inputs=self.inputs, **settings)
        settings.setdefault("loss", "logistic")
        return Problem(student, inputs=self._mixture([-1, 1]), **settings)

    def compare(
        self,
        problem: Problem,
        times: ArrayLike | Sequence[float] = 20.0,
        *,
        runs: int = 20,
        seed: int = 0,
        weights: Numbers | tuple[Numbers, Numbers] | None = None,
    ) -> "DataComparison":
        """Run SGD on the samples next to the theory, and split the gap into its causes.

        Each step draws a sample with replacement, so the data set is the population and
        the error is measured on all of it. The same SGD on Gaussian samples, first of
        the theory's law, then of the full covariances, splits the gap.

        problem: from `problem`. times: as in `solve`. runs: networks per law, all from
        the same initial weights. weights: initial weights (K, features) of the student,
        or a pair with the teacher's (M, features); default: entries N(0, 0.1^2), and
        N(0, 1) for a teacher.
        """
        from tutelage.data.gap import compare_data

        return compare_data(self, problem, times, runs, seed, weights)

    def __repr__(self) -> str:
        return f"<Data: {self._size()}{self._spread_in_short()}>"

    def _spread_in_short(self) -> str:
        """Return a remark on the eigenvalues."""
        if self.corrected:
            return ", eigenvalues corrected for the number of samples"
        if self.sampling_ratio > FEW_SAMPLES:
            return ", eigenvalues spread by the few samples"
        return ""

    def _sampling_lines(self) -> list[str]:
        """Return lines on the spread of eigenvalues and on the role of chance."""
        low, high = isotropic_range(self.sampling_ratio)
        spread = f"of an isotropic law they would go from {low:.2g} to {high:.2g}"
        samples = f"{len(self.rows)} samples spread the measured eigenvalues"
        lines = [f"sampling: {samples}; {spread}"]
        if self.corrected:
            lines.append(
                "      the theory uses eigenvalues that are corrected for this"
            )
        elif self.sampling_ratio > FEW_SAMPLES:
            lines.append(
                "      the theory is that of this sample, not of the law behind it"
            )
        if self.classes is not None:
            added = self.dim / self.counts.min()
            lines.append(
                f"      chance adds up to {added:.2g} to the squared length of a "
                "class mean"
            )
        return lines

    @property
    def adjusted(self) -> float:
        """The share of explained variance of real labels, without that by chance.

        NaN if there are too few samples.
        """
        left = self.free_samples - self.dim
        if left <= 0:
            return np.nan
        return 1 - (1 - self.explained) * self.free_samples / left

    def _size(self) -> str:
        features = f"{self.basis.shape[1]} features"
        directions = f"{self.dim} directions with variance"
        return f"{len(self.rows)} samples, {features}, {directions}"

    def __str__(self) -> str:
        lines = [
            self._size(),
            *self._lines_on_used(),
            *self._sampling_lines(),
            "thrown away",
            *self._lines_on_lost(),
        ]
        if self.classes is not None:
            in_dims = f"{self.mean_length / np.sqrt(self.dim):.2f} sqrt(N)"
            length = f"{self.mean_length:.2f}, or {in_dims}"
            lines.append(
                f"scale: the longest class mean is {length}; the theory assumes O(1)"
            )
        return "\n".join(lines)

    def _lines_on_used(self) -> list[str]:
        """Return the lines of the report on the data that the theory uses."""
        count = self.spectrum.levels
        levels = f"{count} level{'s' * (count > 1)}"
        if self.classes is None:
            lines = [f"used: the eigenvalues of the covariance, {levels}"]
        else:
            sizes = f"{self.counts.min()} to {self.counts.max()} samples each"
            classes = f"{len(self.counts)} classes ({sizes})"
            lines = [f"used: means and variances of {classes}, {levels}"]
        if self.teacher is not None:
            share = f"{self.explained:.1%} of the variance of y in these samples"
            without = "not known"
            if np.isfinite(self.adjusted):
                without = f"{max(0.0, self.adjusted):.1%}"
            lines += [
                f"      a linear teacher, which explains {share}; the rest is unseen",
                f"      (without what it fits by chance: {without})",
            ]
        return lines

    def _lines_on_lost(self) -> list[str]:
        """Return the lines of the report on the data that the theory does not use."""
        lines = []
        dropped = self.spectrum.dropped
        if dropped:
            line = f"  {dropped} direction{'s' * (dropped > 1)} without variance"
            if self.lost_means > 1e-6:
                line += f", with {self.lost_means:.2g} of the squared class means"
            lines.append(line)
        if self.spectrum.levels < self.dim:
            share = f"{self.grouping_error:.1%} of the covariance (norm)"
            lines.append(f"  differences of eigenvalues within a level: {share}")
        if self.classes is not None:
            chance = f"norm; by chance {self.chance_off_diagonal:.1%}"
            share = f"{self.off_diagonal:.1%} of them ({chance})"
            lines.append(f"  off-diagonal parts of the class covariances: {share}")
        lines.append("  all moments beyond the second (zero for Gaussian fields)")
        for name, shape in self.field_shapes.items():
            lines.append(f"    {name}: {shape}")
        return lines

    def _mixture(self, labels: Numbers) -> Inputs:
        """Return the mixture of the classes.

        The reference vectors are b_c = sqrt(N) mean_c. Each class has a spectrum in the
        common eigenvectors.
        """
        means = np.sqrt(self.dim) * self.means
        laws = [
            with_fields(self.spectrum, eigenvalues=variances, normalize=False)
            for variances in self._level_variances
        ]
        overlaps = level_overlaps(means, means, self.level_sizes)
        return Mixture(np.eye(len(means)), overlaps, self.probabilities, laws, labels)


def from_data(
    X: Any,
    y: Any = None,
    feature_map: FeatureMap | None = None,
    levels: int | None = None,
    *,
    spectrum: str = MEASURED,
) -> Data:
    """Measure the means and covariances of your data that the theory needs.

    The result makes problems and compares the theory with SGD on the data.

    Parameters
    ----------
    X : array (samples, features), images (samples, height, width, ...), file, data set
        A file ends in .npy or .npz, a data set is one of scikit-learn. A .npy file is
        read piece by piece, so it may be larger than memory. An .npz file holds X (or
        data, images) and perhaps y (or target, labels). A data set with `data` and
        `target` brings its labels.
    y : array (samples,), optional
        Integers, booleans or words are classes; floating-point numbers are real labels.
    feature_map : function, optional
        Maps rows (n, features) to new features (n, F), piece by piece. The theory is
        then about these.
    levels : int, optional
        Merge neighboring eigenvalues into so many levels of equal size. Default: one
        for each eigenvalue.
    spectrum : "measured" or "corrected"
        "measured": the eigenvalues of these samples, which are spread if there are few
        of them: 200 samples of 60 independent features of equal variance have
        eigenvalues from 0.2 to 2.4. "corrected": estimated eigenvalues of the law
        behind the samples (El Karoui 2008). It needs more samples than directions, and
        no labels.

    Returns
    -------
    Data
        `.inputs`, `.problem(student)`, `.compare(problem)`, `.plot()`; printed, a
        report.

    >>> import tutelage as tu
    >>> data = tu.from_data(tu.digits(), levels=8)
    >>> data.inputs.levels, data.dim
    (8, 61)
    """
    corrected = checks.known("spectrum", spectrum, SPECTRA) == CORRECTED
    X, y = _opened(X, y)
    if corrected and y is not None:
        raise InputError(
            "spectrum is 'corrected' and there are labels; class means and teachers "
            "are measured along the directions of the samples. "
            "Leave y out, or use 'measured'."
        )
    rows = as_rows(X, "X")
    if feature_map is not None and not callable(feature_map):
        raise InputError(
            f"feature_map is {kind_of(feature_map)}; "
            "it must be a function of rows (n, features)."
        )
    labels = None
    classes = None
    if y is not None:
        labels, classes = _as_labels(y, len(rows))
    class_numbers = np.zeros(len(rows), dtype=int)
    if labels is not None and classes is not None:
        class_numbers = labels
    real_labels = labels if classes is None else None
    moments = _moments(rows, feature_map, class_numbers, real_labels)
    center = moments.counts @ moments.means / len(rows)
    if len(rows) <= len(center):
        _warn_of_too_few_samples(len(rows), len(center))
    shares = moments.counts / len(rows)
    covariance = np.einsum("c,cij->ij", shares, moments.covariances)
    law = Spectrum.from_covariance(covariance, levels, center)
    basis = law.basis
    assert basis is not None
    scale = float(law.scale)
    differences = moments.means - center
    means = differences @ basis.T / np.sqrt(scale)
    lost = 0.0
    if classes is not None:
        whole = max(np.sum(differences**2), np.finfo(float).tiny)
        lost = 1 - scale * np.sum(means**2) / whole
    data = Data(
        rows=rows,
        labels=labels,
        feature_map=feature_map,
        classes=classes,
        counts=moments.counts,
        spectrum=law,
        means=means,
        covariances=basis @ moments.covariances @ basis.T / scale,
        lost_means=max(float(lost), 0.0),
    )
    if corrected:
        return _with_corrected_spectrum(data)
    is_spread = data.dim > 1 and data.sampling_ratio > FEW_SAMPLES
    if is_spread and len(rows) > len(center):
        _warn_of_few_samples(data)
    if real_labels is not None:
        return _with_teacher(data, real_labels, moments.cross)
    if data.mean_length**2 / data.dim > LONG_MEANS:
        _warn_of_long_means(data)
    return data


def _warn_of_too_few_samples(samples: int, features: int) -> None:
    """Warn of no more samples than features, in which some directions are constant."""
    words = (
        f"there are {samples} samples of {features} features: at most {samples - 1} "
        "directions have variance, and their eigenvalues are those of this sample, not "
        "of the law behind it. Use more samples or fewer features."
    )
    warnings.warn(words, TutelageWarning, stacklevel=3)


def _warn_of_few_samples(data: Data) -> None:
    """Warn of eigenvalues that differ by the small number of samples."""
    low, high = isotropic_range(data.sampling_ratio)
    words = (
        f"{len(data.rows)} samples spread the eigenvalues of {data.dim} directions "
        f"(those of an isotropic law would go from {low:.2g} to {high:.2g}), so the "
        "theory is that of this sample. Use more samples, or "
        "from_data(X, spectrum='corrected') for the law behind them."
    )
    warnings.warn(words, ValidityWarning, stacklevel=3)


def _warn_of_long_means(data: Data) -> None:
    """Warn of class means that are not of order one."""
    share = data.mean_length**2 / data.dim
    words = (
        f"the longest class mean has length {data.mean_length:.3g} where the noise has "
        f"length sqrt(N) = {np.sqrt(data.dim):.3g}; the theory assumes means of order "
        "1. It misses terms of relative order lr times the squared ratio, "
        f"{share:.2g}: use a small lr, and measure the gap with `compare`."
    )
    warnings.warn(words, ValidityWarning, stacklevel=3)


def _with_corrected_spectrum(data: Data) -> Data:
    """Return the data with eigenvalues for the law behind the samples."""
    if data.dim >= data.free_samples:
        raise InputError(
            f"spectrum is 'corrected' and there are {len(data.rows)} samples for "
            f"{data.dim} directions with variance; "
            "it needs more samples than directions."
        )
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


def _with_teacher(
    data: Data, real_labels: Float[np.ndarray, " n"], cross: Float[np.ndarray, " N"]
) -> Data:
    """Return the data with a linear teacher w* by least squares.

    y = w*.x / sqrt(N) + unseen part, for y of mean zero and variance one. cross: the
    covariance of features and labels.
    """
    mean = float(real_labels.mean())
    spread = float(real_labels.std())
    if spread == 0:
        raise InputError(
            f"all labels y are {mean:g}; a teacher needs different ones. "
            "Leave y out to measure the inputs."
        )
    eigenvalues = np.diagonal(data.covariances[0])
    unit = np.sqrt(float(data.spectrum.scale)) * spread
    slopes = data.basis @ cross / (unit * eigenvalues)
    explained = float(np.clip(np.sum(slopes**2 * eigenvalues), 0.0, 1.0))
    data = replace(
        data,
        labels=(real_labels - mean) / spread,
        teacher_weights=np.sqrt(data.dim) * slopes[None],
        explained=explained,
    )
    weights = data.grouped_teacher
    assert weights is not None
    gram = level_overlaps(weights, weights, data.level_sizes)
    teacher = Network(1, "linear", gram=gram, unseen=[[1 - explained]])
    return replace(data, teacher=teacher)


def _opened(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y of a data set of scikit-learn, an .npz file or a data frame.

    A .npy file stays as it is.
    """
    labels_of_X: Any = None
    if isinstance(X, str | os.PathLike):
        if Path(X).suffix == ".npz":
            X, labels_of_X = _archive(Path(X))
    elif hasattr(X, "data") and hasattr(X, "target"):
        labels_of_X = X.target
        X = X.data
    if y is not None and labels_of_X is not None:
        raise InputError(
            "y is given, and X brings its own labels; "
            "leave y out, or give the features alone as X."
        )
    if y is None:
        y = labels_of_X
    return _without_frame(X), _without_frame(y)


def _without_frame(values: Any) -> Any:
    """Return the array of a data frame, else the values themselves."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def _archive(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Return features and labels of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except FileNotFoundError:
        raise InputError(
            f"there is no file {str(path)!r}; "
            "X must be an array or the name of a .npy or .npz file."
        ) from None
    except (ValueError, OSError, EOFError):
        raise InputError(
            f"{str(path)!r} is not an .npz file of numbers; "
            "write it with numpy.savez(name, X=X, y=y)."
        ) from None
    X = _first_named(arrays, FEATURES)
    y = _first_named(arrays, LABELS)
    if X is None and len(arrays) == 1:
        (X,) = arrays.values()
    if X is None:
        names = ", ".join(arrays) or "nothing"
        raise InputError(
            f"{str(path)!r} holds {names}; "
            f"the features must be named {', '.join(FEATURES)}."
        )
    return X, y


def _first_named(
    arrays: dict[str, np.ndarray], names: Sequence[str]
) -> np.ndarray | None:
    """Return the array of the first name that there is."""
    for name in names:
        if name in arrays:
            return arrays[name]
    return None


def _as_labels(y: object, samples: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return class numbers 0, 1, ... and the classes, or real labels and None."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (samples,):
        raise InputError(
            f"y has shape {labels.shape}; it must be ({samples},), one label for each "
            "sample."
        )
    if labels.dtype.kind == "f":
        checks.require_finite("y", labels)
        return labels.astype(float), None
    is_discrete = labels.dtype.kind in "iubUS"
    if not is_discrete and not all(isinstance(label, str) for label in labels):
        raise InputError(
            f"y has type {labels.dtype}; "
            "it must hold classes (integers, booleans, words) or real numbers."
        )
    classes, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) == 1:
        raise InputError(
            f"y has one class only, {classes[0]}; a mixture needs two. "
            "Leave y out to measure the inputs."
        )
    if counts.min() < 2:
        raise InputError(
            f"class {classes[counts.argmin()]} has one sample; a covariance needs two "
            f"or more in each of the {len(classes)} classes. Leave such classes out; "
            "if y is a quantity, give it as floating-point numbers."
        )
    return which, classes


def _pieces(
    rows: np.ndarray, feature_map: FeatureMap | None
) -> Iterator[Float[np.ndarray, "n N"]]:
    """Yield features of the rows, piece by piece, checked."""
    step = max(1, CHUNK // rows.shape[1])
    width = None
    for first in range(0, len(rows), step):
        piece = np.asarray(rows[first : first + step], dtype=float)
        checks.require_finite("X", piece)
        if feature_map is not None:
            piece = _mapped(piece, feature_map, width)
            width = piece.shape[1]
        yield piece


def _mapped(
    piece: np.ndarray, feature_map: FeatureMap, width: int | None
) -> Float[np.ndarray, "n N"]:
    """Return the features of a piece. width: their number in the pieces before."""
    shape = piece.shape
    failure = f"feature_map failed on rows of shape {shape}"
    with explained(failure, "it must take rows (n, features)."):
        features = np.asarray(feature_map(piece), dtype=float)
    is_table = features.ndim == 2 and features.shape[0] == shape[0]
    if not is_table or (width and features.shape[1] != width):
        needed = f"({shape[0]}, {width or 'features'})"
        raise InputError(
            f"feature_map made shape {features.shape} of rows {shape}; "
            f"it must be {needed}."
        )
    checks.require_finite("the output of feature_map", features)
    return features


class Moments(NamedTuple):
    """Moments of the classes, and the covariance of features and real labels."""

    counts: Int[np.ndarray, " C"]
    means: Float[np.ndarray, "C N"]
    covariances: Float[np.ndarray, "C N N"]
    cross: Float[np.ndarray, " N"]


def _moments(
    rows: np.ndarray,
    feature_map: FeatureMap | None,
    class_numbers: Int[np.ndarray, " n"],
    real_labels: Float[np.ndarray, " n"] | None,
) -> Moments:
    """Measure the moments, piece by piece: a file larger than memory is read once.

    The features are shifted by the first row, so that nothing cancels.
    """
    counts = np.bincount(class_numbers)
    done = 0
    shift = np.zeros(0)
    total = np.zeros(0)
    square = np.zeros(0)
    cross = np.zeros(0)
    for piece in _pieces(rows, feature_map):
        if done == 0:
            shift = piece[0].copy()
            C = len(counts)
            N = piece.shape[1]
            arrays = f"covariances of {C} class{'es' * (C > 1)} in {N} features"
            checks.require_memory(arrays, C * N**2, "Use fewer features.")
            total = np.zeros((C, N))
            square = np.zeros((C, N, N))
            cross = np.zeros(N)
        here = slice(done, done + len(piece))
        done += len(piece)
        shifted = piece - shift
        for c in np.unique(class_numbers[here]):
            in_class = shifted[class_numbers[here] == c]
            total[c] += in_class.sum(axis=0)
            square[c] += in_class.T @ in_class
        if real_labels is not None:
            cross = cross + (real_labels[here] - real_labels.mean()) @ shifted
    means = total / counts[:, None]
    products = means[:, :, None] * means[:, None, :]
    covariances = square / counts[:, None, None] - products
    return Moments(
        counts=counts,
        means=shift + means,
        covariances=(covariances + covariances.swapaxes(1, 2)) / 2,
        cross=np.asarray(cross / len(rows)),
    )
