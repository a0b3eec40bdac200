"""`Data`, the result of `from_data`: what the theory uses of samples, and what not."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from tutelage._types import ArrayLike, Numbers, Table
from tutelage.analysis.result import AnalysisResult
from tutelage.data.field_shape import FieldShape
from tutelage.data.population import isotropic_range
from tutelage.data.reading import FeatureMap, pieces
from tutelage.errors import InputError, kind_of
from tutelage.problem import Inputs, Mixture, Network, Problem, Spectrum, Tasks
from tutelage.simulation.prepare import level_overlaps

if TYPE_CHECKING:
    from tutelage.data.gap import DataComparison

# Numbers of samples that are held for SGD and for measured errors; of more, random rows
# are taken.
HELD = 2**24
DIRECTIONS = 64  # random ones, in which fields are compared with Gaussian ones
FEW_SAMPLES = 0.25  # directions per sample above which `from_data` warns
# Variance of a class that is constant along a direction, in units of the mean
# eigenvalue.
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Data(AnalysisResult, figure="plot_data"):
    """The measurements of `from_data`.

    Print it for a report, draw it with `plot`, compare it with SGD by `compare`.

    Attributes
    ----------
    rows : array (samples, ...)
        The samples.
    labels : array (samples,) or None
        Their class numbers, or real labels scaled to mean zero and variance one.
    feature_map : function or None
        Maps rows to features.
    classes : array (C,) or None
        The labels of the classes in their order.
    counts : array (C,)
        Samples of each class; without classes C is one.
    spectrum : Spectrum
        Of the covariance (within classes), with center, basis and scale.
    means : array (C, D)
        Class means along the D directions with variance, in the coordinates
        (x - center) basis^T / sqrt(scale).
    covariances : array (C, D, D)
        Within the classes, in the same coordinates.
    lost_means : float
        Share of the squared class means along directions without variance, which are
        dropped.
    teacher : Network or None
        Fitted to real labels.
    teacher_weights : array (1, D) or None
        Its weights along the directions.
    explained : float
        Share of the variance of the labels that the teacher explains.
    corrected : bool
        True if the eigenvalues are estimates for the law behind the samples, not those
        of the samples.
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
    def _direction_variances(self) -> Float[np.ndarray, "C D"]:
        """The variances of each class along each direction."""
        return np.einsum("cii->ci", self.covariances)

    @property
    def _level_variances(self) -> Float[np.ndarray, "C L"]:
        """The mean variances of each class over the directions of a level."""
        first = np.cumsum([0, *self.level_sizes[:-1]])
        means = (
            np.add.reduceat(self._direction_variances, first, axis=1) / self.level_sizes
        )
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
        return self.teacher_weights * np.sqrt(
            self._direction_variances / self.variances
        )

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
        variances = self._direction_variances
        pairs = variances.sum(axis=1) ** 2 - np.sum(variances**2, axis=1)
        expected = self.probabilities @ (pairs / (self.counts - 1))
        whole = self.probabilities @ np.sum(self.covariances**2, axis=(1, 2))
        return float(np.sqrt(expected / whole))

    @cached_property
    def grouping_error(self) -> float:
        """Share of the class covariances lost by grouping eigenvalues into levels.

        It is measured by the Frobenius norm.
        """
        return self._share((self._direction_variances - self.variances)[:, None])

    def _share(self, part: Float[np.ndarray, "C a D"]) -> float:
        """Return the norm of a part of the covariances over their norm."""
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

        Real labels are scaled. Of more than HELD numbers, random rows are taken.
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
            for piece in pieces(rows, self.feature_map)
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
        >>> student = tu.Network(3, "linear", outputs=3)
        >>> data.problem(student, optimizer=tu.SGD(lr=0.1)).loss
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
            outputs = f"{student.outputs} output"
            if student.outputs > 1:
                outputs += "s"
            needed = f"{count}"
            if count == 2:
                needed = "2 or one"
            raise InputError(
                f"the student has {outputs}; "
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
        """Return the numbers of samples, features and directions."""
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
        measured: Table = self.spectrum.arguments() | {"normalize": False}
        laws = []
        for variances in self._level_variances:
            # a class may have no variance in a direction that others vary in
            eigenvalues = np.maximum(variances, np.finfo(float).tiny)
            laws.append(Spectrum(**measured | {"eigenvalues": eigenvalues}))
        overlaps = level_overlaps(means, means, self.level_sizes)
        return Mixture(np.eye(len(means)), overlaps, self.probabilities, laws, labels)
