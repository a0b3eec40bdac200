"""The best that any method can do with a data set, and when learning can start.

`bayes_optimal`: the smallest error that n = ratio N samples allow. `weak_recovery`,
`information_exponent`, `generative_exponent`: how many samples the first step takes.
Equations and sources are in the files of `tutelage.equilibrium`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage._html import ResultCard
from tutelage._types import Numbers
from tutelage.analysis.result import AnalysisResult
from tutelage.equilibrium.bayes import AnyPoint, BayesCurve, optimum, reached
from tutelage.equilibrium.exponents import (
    HIGHEST,
    LabelMeans,
    first_degree,
    label_means,
    recovery,
)
from tutelage.equilibrium.information import evidence_of
from tutelage.equilibrium.setting import (
    Setting,
    ratios_of,
    require_one_law,
    setting_of,
)
from tutelage.equilibrium.two_units import pair_curve
from tutelage.errors import InputError
from tutelage.problem import Problem

PRINTED_RATIOS = 12
SHOWN_BOUND = 5e-4  # relative error of a threshold from which it is printed


@dataclass(frozen=True)
class BayesPoint(ResultCard):
    """One fixed point of Bayes-optimal learning.

    Attributes
    ----------
    Q : array (M, M)
        Overlap of the posterior mean with the teacher, equal to its squared length.
    stable : bool
        True if small deviations shrink.
    free_entropy : float
        Per input dimension; the posterior is at the stable point where it is largest.
    """

    Q: np.ndarray
    stable: bool
    free_entropy: float


@dataclass(frozen=True)
class BayesOptimal(
    AnalysisResult,
    figure="plot_bayes_optimal",
    sources=("barbier2019optimal", "aubin2018committee"),
):
    """The smallest error that n = ratio N samples allow, at large N.

    The teacher's weights are Gaussian, and the method knows this and the law of the
    labels. Arrays have one entry for each ratio; a single ratio gives single numbers.

    Attributes
    ----------
    problem : Problem
        The problem.
    ratio : array (ratio,)
        Samples per input dimension.
    R, Q : array (ratio, M, M)
        Overlap of the posterior mean of the teacher's weights with these weights, and
        of the posterior mean with itself: they are equal.
    error : array (ratio,)
        The smallest error against noiseless labels.
    label_error : array (ratio,)
        The smallest probability of a wrong sign on a fresh label; NaN for real labels.
    loss : array (ratio,)
        The smallest mean loss of fresh labels: squared loss for real labels, -ln of the
        predicted probability for others.
    reached_error : array (ratio,)
        The error that algorithms reach without prior knowledge (approximate message
        passing). It is larger than `error` between the thresholds.
    fixed_points : tuple of tuples of BayesPoint
        All fixed points at each ratio, in the order of their overlap.
    weak_recovery : float
        Ratio below which nothing is learned; 0 if a few samples help.
    algorithmic_threshold, information_threshold : float
        Where the error jumps: algorithms reach the better fixed point above the first,
        and it is the optimum above the second. NaN without a jump.
    perfect_above : float
        Ratio above which the optimum has zero error; infinite if never.
    error_bound : array (ratio,)
        Change of `error` on coarser grids of the averages; 0 for one unit, whose
        averages have no such grids.
    threshold_bound : float
        The same for `algorithmic_threshold`.
    """

    problem: Problem
    ratio: Float[np.ndarray, "*ratios"]
    R: Float[np.ndarray, "*ratios M M"]
    Q: Float[np.ndarray, "*ratios M M"]
    error: Float[np.ndarray, "*ratios"]
    label_error: Float[np.ndarray, "*ratios"]
    loss: Float[np.ndarray, "*ratios"]
    reached_error: Float[np.ndarray, "*ratios"]
    fixed_points: tuple[tuple[BayesPoint, ...], ...]
    weak_recovery: float
    algorithmic_threshold: float
    information_threshold: float
    perfect_above: float
    error_bound: Float[np.ndarray, "*ratios"]
    threshold_bound: float

    def __str__(self) -> str:
        ratios = np.atleast_1d(self.ratio)
        places = range(ratios.size)
        if ratios.size > PRINTED_RATIOS:
            even = np.linspace(0, ratios.size - 1, PRINTED_RATIOS)
            places = [round(place) for place in even]
        lines = []
        for place in places:
            error = np.atleast_1d(self.error)[place]
            reached = np.atleast_1d(self.reached_error)[place]
            line = f"ratio {ratios[place]:.4g}: smallest error {error:.4g}"
            if reached > error * (1 + 1e-6) + 1e-12:
                line += f", {reached:.4g} reached without prior knowledge"
            label_error = np.atleast_1d(self.label_error)[place]
            if np.isfinite(label_error) and label_error > error:
                line += f", {label_error:.4g} on fresh labels"
            lines.append(line)
        return "\n".join([*lines, *self._thresholds_in_words()])

    def _thresholds_in_words(self) -> list[str]:
        lines = []
        if self.weak_recovery > 0:
            lines.append(f"nothing is learned below ratio {self.weak_recovery:.4g}")
        jump = self.information_threshold
        if len(self.Q.T) == 2 and jump == self.algorithmic_threshold:
            line = f"the teacher units are distinguished above ratio {jump:.4g}"
            if self.threshold_bound > SHOWN_BOUND * jump:
                line += f" ± {self.threshold_bound:.1g}"
            lines.append(line)
        elif np.isfinite(jump):
            lines.append(
                f"the smallest error jumps at ratio {self.information_threshold:.4g}; "
                f"algorithms follow at ratio {self.algorithmic_threshold:.4g}"
            )
        if np.isfinite(self.perfect_above):
            lines.append(f"zero error above ratio {self.perfect_above:.4g}")
        return lines


def bayes_optimal(problem: Problem, ratio: Numbers | None = None) -> BayesOptimal:
    """Find the smallest error that any method can reach with n = ratio N samples.

    The posterior of the teacher's weights is computed exactly at large N. All fixed
    points at a ratio are found at once: of the stable ones the optimum has the largest
    free entropy, and algorithms without prior knowledge reach the one of smallest
    overlap.

    Parameters
    ----------
    problem : Problem
        Teacher, labels, noise and inputs are used, the student is not. One teacher unit
        (or several linear ones), or two equal units; labels real with Gaussian noise or
        none, signs with flips, logistic, or a function.
    ratio : float or array, optional
        n / N. Default: that of `problem.data`.

    Returns
    -------
    BayesOptimal

    Examples
    --------
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, loss="logistic", labels="sign")
    >>> print(tu.analysis.bayes_optimal(problem, [1.0, 2.0]))
    ratio 1: smallest error 0.2544
    ratio 2: smallest error 0.1745
    """
    checked = require_one_law(problem, "bayes_optimal")
    ratios = ratios_of(checked, ratio, "bayes_optimal")
    setting = setting_of(checked)
    if setting.fields > 2:
        raise InputError(
            f"the labels depend on {setting.fields} teacher fields; bayes_optimal "
            "supports one or two. weak_recovery and generative_exponent support more."
        )
    curve: Any
    if setting.fields == 1:
        curve = BayesCurve(setting, evidence_of(setting, "bayes_optimal"))
    else:
        curve = pair_curve(setting, "bayes_optimal")
    points_at = [curve.fixed_points(float(ratio)) for ratio in np.ravel(ratios)]
    best = [optimum(points) for points in points_at]
    predictions = [curve.prediction(point) for point in best]
    without_knowledge = [curve.prediction(reached(points)) for points in points_at]
    bounds = [
        curve.error_bound(point, float(ratio))
        for point, ratio in zip(best, np.ravel(ratios), strict=True)
    ]
    shape = np.shape(ratios)

    def shaped(values: list[Any]) -> Any:
        array = np.array(values, float)
        return np.reshape(array, (*shape, *array.shape[1:]))[()]

    thresholds = curve.thresholds
    return BayesOptimal(
        problem=checked,
        ratio=np.asarray(ratios)[()],
        R=shaped([curve.teacher_overlaps(point) for point in best]),
        Q=shaped([point.Q for point in best]),
        error=shaped([point.error for point in predictions]),
        label_error=shaped([point.label_error for point in predictions]),
        loss=shaped([point.loss for point in predictions]),
        reached_error=shaped([point.error for point in without_knowledge]),
        fixed_points=tuple(_shown(points) for points in points_at),
        weak_recovery=thresholds.weak,
        algorithmic_threshold=thresholds.algorithmic,
        information_threshold=thresholds.information,
        perfect_above=thresholds.perfect,
        error_bound=shaped(bounds),
        threshold_bound=thresholds.error,
    )


def _shown(points: Sequence[AnyPoint]) -> tuple[BayesPoint, ...]:
    """Return fixed points as users see them."""
    return tuple(
        BayesPoint(Q=x.Q, stable=x.stable, free_entropy=float(x.free_entropy))
        for x in points
    )


@dataclass(frozen=True)
class WeakRecovery(
    AnalysisResult, figure="plot_weak_recovery", sources=("troiani2025fundamental",)
):
    """The number of samples from which any direction of the teacher can be found.

    Attributes
    ----------
    ratio : float
        n / N above which an algorithm without prior knowledge finds a direction; 0 if
        any ratio is enough, infinite if samples of order N never are.
    linear, quadratic : float
        Largest eigenvalues of E_y[E[z|y] E[z|y]^T] and of M -> E_y[G_y M G_y], where
        G_y = E[z z^T - 1 | y]; z are the standardized fields of the teacher.
    direction : array
        The eigenvector that is found first: (M,), or (M, M) if only squares show it.
    """

    ratio: float
    linear: float
    quadratic: float
    direction: np.ndarray

    def __float__(self) -> float:
        return self.ratio

    def __str__(self) -> str:
        if self.ratio == 0:
            return (
                "any number of samples of order N helps: the labels shift the mean of "
                f"the fields (strength {self.linear:.4g})"
            )
        if np.isinf(self.ratio):
            return (
                "samples of order N are not enough: given the label, mean and variance "
                "of the fields do not change"
            )
        return (
            f"a direction is found above ratio {self.ratio:.4g}: the labels change the "
            "variance of the fields, not their mean"
        )


def weak_recovery(problem: Problem) -> WeakRecovery:
    """Find the ratio n / N from which an algorithm can find any direction at all.

    Inputs are isotropic, or act so: the ratio counts samples per dimension of inputs of
    unit variance. Averages over several fields are sampled if labels are continuous.

    Parameters
    ----------
    problem : Problem
        Teacher, labels and noise are used.

    Returns
    -------
    WeakRecovery

    Examples
    --------
    >>> import tutelage as tu
    >>> square = tu.Problem(tu.Network(1, "quadratic"), tu.Network(1, "quadratic"))
    >>> round(float(tu.analysis.weak_recovery(square)), 3)
    0.5
    """
    setting, averages = _averages(problem, "weak_recovery")
    inputs = setting.problem.inputs
    if inputs.levels > 1:
        raise InputError(
            f"the inputs have {inputs.levels} levels; weak_recovery needs isotropic "
            "inputs. bayes_optimal finds the ratio for one teacher unit."
        )
    found = recovery(averages, setting.fields)
    ratio = np.inf
    if found.linear > averages.zero**2:
        ratio = 0.0
    elif found.quadratic > averages.zero**2:
        ratio = 1.0 / found.quadratic
    return WeakRecovery(
        ratio=float(ratio),
        linear=found.linear,
        quadratic=found.quadratic,
        direction=found.direction,
    )


@dataclass(frozen=True)
class TargetExponent(
    AnalysisResult,
    figure="plot_target_exponent",
    sources=("benarous2021online", "damian2024computational"),
):
    """The lowest degree at which a target shows its directions.

    Attributes
    ----------
    kind : str
        "information" or "generative".
    exponent : int or None
        The degree; None if no degree up to 8 shows any.
    coefficients : array (degree,)
        Size of the degree-k part, k = 1, 2, ..., for labels of unit variance: of
        E[y He_k(z)] (information), of E[He_k(z) | y] (generative).
    zero : float
        Coefficients below this count as zero.
    """

    kind: str
    exponent: int | None
    coefficients: Float[np.ndarray, " degree"]
    zero: float

    def __int__(self) -> int:
        if self.exponent is None:
            raise InputError(f"no degree up to {HIGHEST} shows a direction.")
        return self.exponent

    def __str__(self) -> str:
        if self.exponent is None:
            return f"{self.kind} exponent above {HIGHEST}"
        k = self.exponent
        line = f"{self.kind} exponent {k}: "
        if self.kind == "information":
            needs = {1: "of order N", 2: "of order N ln N"}
            samples = needs.get(k, f"of order N^{k - 1}")
            return line + f"one pass of SGD needs {samples} samples to find a direction"
        needs = {1: "of order N", 2: "of order N"}
        samples = needs.get(k, f"of order N^{k / 2:g}")
        return line + (
            f"{samples} samples are enough if labels are transformed, or samples used "
            "repeatedly"
        )


def information_exponent(problem: Problem) -> TargetExponent:
    """Find the lowest degree of Hermite polynomials in the label.

    It says how many samples one pass of SGD needs to find a direction from random
    weights.

    Parameters
    ----------
    problem : Problem
        Teacher, labels and noise are used.

    Returns
    -------
    TargetExponent

    Examples
    --------
    >>> import tutelage as tu
    >>> cubic = tu.Problem(tu.Network(1, "he3"), tu.Network(1, "he3"))
    >>> tu.analysis.information_exponent(cubic).exponent
    3
    """
    _, averages = _averages(problem, "information_exponent")
    sizes = averages.coefficients
    exponent = first_degree(sizes, averages.zero)
    return TargetExponent("information", exponent, sizes, averages.zero)


def generative_exponent(problem: Problem) -> TargetExponent:
    """Find the lowest degree of Hermite polynomials that the label tells about.

    It is at most the information exponent, and says how many samples are needed if
    labels may be transformed, or samples used repeatedly.

    Parameters
    ----------
    problem : Problem
        Teacher, labels and noise are used.

    Returns
    -------
    TargetExponent

    Examples
    --------
    >>> import tutelage as tu
    >>> cubic = tu.Problem(tu.Network(1, "he3"), tu.Network(1, "he3"))
    >>> tu.analysis.generative_exponent(cubic).exponent
    1
    """
    _, averages = _averages(problem, "generative_exponent")
    sizes = averages.conditional
    exponent = first_degree(sizes, averages.zero)
    return TargetExponent("generative", exponent, sizes, averages.zero)


def _averages(problem: object, function: str) -> tuple[Setting, LabelMeans]:
    """Return the setting of a problem, and what its labels tell about the fields."""
    setting = setting_of(require_one_law(problem, function))
    return setting, label_means(setting, function)
