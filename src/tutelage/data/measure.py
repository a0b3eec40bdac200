"""Problems of samples: `from_data`.

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

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage.data.class_moments import ClassMoments, measure_moments
from tutelage.data.population import isotropic_range, population_eigenvalues
from tutelage.data.reading import FeatureMap, as_labels, open_samples
from tutelage.data.result import FEW_SAMPLES, Data
from tutelage.errors import InputError, TutelageWarning, ValidityWarning, kind_of
from tutelage.problem import Network, Spectrum
from tutelage.problem.inputs import as_rows
from tutelage.simulation.prepare import level_overlaps

MEASURED = "measured"
CORRECTED = "corrected"
SPECTRA = (MEASURED, CORRECTED)
LONG_MEANS = 0.1  # share of |x|^2 in the class means above which `from_data` warns


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
    X, y = open_samples(X, y)
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
    real_labels = None
    class_numbers = np.zeros(len(rows), dtype=int)
    if y is not None:
        labels, classes = as_labels(y, len(rows))
        if classes is None:
            real_labels = labels
        else:
            class_numbers = labels
    moments = measure_moments(rows, feature_map, class_numbers, real_labels)
    features = moments.means.shape[1]
    has_few_rows = len(rows) <= features
    if has_few_rows:
        _warn_of_too_few_samples(len(rows), features)
    data = _in_eigenvectors(rows, labels, classes, feature_map, moments, levels)
    if corrected:
        return _with_corrected_spectrum(data)
    is_spread = data.dim > 1 and data.sampling_ratio > FEW_SAMPLES
    if is_spread and not has_few_rows:
        _warn_of_few_samples(data)
    if real_labels is not None:
        return _with_teacher(data, real_labels, moments.cross)
    if data.mean_length**2 / data.dim > LONG_MEANS:
        _warn_of_long_means(data)
    return data


def _in_eigenvectors(
    rows: np.ndarray,
    labels: np.ndarray | None,
    classes: np.ndarray | None,
    feature_map: FeatureMap | None,
    moments: ClassMoments,
    levels: int | None,
) -> Data:
    """Return the data in the eigenvectors of the mean covariance within the classes."""
    center = moments.counts @ moments.means / len(rows)
    shares = moments.counts / len(rows)
    covariance = np.einsum("c,cij->ij", shares, moments.covariances)
    spectrum = Spectrum.from_covariance(covariance, levels, center)
    basis = spectrum.basis
    assert basis is not None
    scale = float(spectrum.scale)
    differences = moments.means - center
    means = differences @ basis.T / np.sqrt(scale)
    lost = 0.0
    if classes is not None:
        whole = max(np.sum(differences**2), np.finfo(float).tiny)
        lost = 1 - scale * np.sum(means**2) / whole
    return Data(
        rows=rows,
        labels=labels,
        feature_map=feature_map,
        classes=classes,
        counts=moments.counts,
        spectrum=spectrum,
        means=means,
        covariances=basis @ moments.covariances @ basis.T / scale,
        lost_means=max(float(lost), 0.0),
    )


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
        center=data.spectrum.center,
        basis=data.spectrum.basis,
    )
    return replace(data, spectrum=spectrum, corrected=True)


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
