"""Does a predicted spectrum hold? Eigenvalue by eigenvalue against the numerical landscape, and count by count."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage.analysis.geometry.landscapes import Landscape


@dataclass(frozen=True)
class SpectrumCheck:
    """Predicted against numerical: largest gap of an eigenvalue, gap of e_g, gradient, and two counts of each kind.

    >>> import tutelage as tu
    >>> point = tu.papers.quadratic.critical_points(tu.papers.quadratic.quadratic_network(3, 2).problem, dim=20)[1, 1]
    >>> point.check().passed                                             # against the numerical Hessian
    True
    """

    name: str
    eigenvalue_gap: float
    error_gap: float
    gradient: float
    down: tuple[int, int]
    flat: tuple[int, int]
    along: tuple[int, int]

    @property
    def passed(self) -> bool:
        """Does everything agree, to 1e-8?"""
        gaps = max(self.eigenvalue_gap, self.error_gap, self.gradient)
        return gaps < 1e-8 and all(a == b for a, b in (self.down, self.flat, self.along))

    def __str__(self) -> str:
        counts = ", ".join(f"{what} {a} = {b}" if a == b else f"{what} {a} but {b} found" for what, (a, b) in self._counts())
        verdict = "agrees" if self.passed else "DIFFERS"
        return f"{self.name}: {verdict}; eigenvalues to {self.eigenvalue_gap:.1e}, e_g to {self.error_gap:.1e}; {counts}"

    def _counts(self) -> list[tuple[str, tuple[int, int]]]:
        return [("down", self.down), ("flat", self.flat), ("along equal error", self.along)]


def compare_spectra(point: Any, found: Landscape) -> SpectrumCheck:
    """Of a class of critical points with what was found at one of them."""
    predicted = np.repeat([c.value for c in point.spectrum], [c.multiplicity for c in point.spectrum])
    measured = found.eigenvalues()
    gap = float(np.max(np.abs(predicted - measured))) if predicted.size == measured.size else np.inf
    return SpectrumCheck(
        name=point.name,
        eigenvalue_gap=gap,
        error_gap=abs(point.error - found.error),
        gradient=found.gradient_norm,
        down=(point.index, found.index),
        flat=(point.flat, found.flat),
        along=(point.manifold_dimension, found.orbit),
    )
