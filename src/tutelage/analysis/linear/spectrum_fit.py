"""Is this spectrum a power law, and with which beta? lam_k ~ k^-(1+beta) (equation 1 of arXiv 2410.09005).

The exponent is that of `fit_exponent`: a straight line through ln lam against ln k, in a stated window of ranks. Spectra of
real data bend: beta is then an average over the ranks that are asked for, and its error says how far it runs through them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tutelage._errors import InputError, kind_of
from tutelage.analysis.curves.exponents import Exponent, fit_exponent
from tutelage.problem import Inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SpectralExponent:
    """beta ± error from the ranks in `fit.window`. ranks, eigenvalues: largest first. fit: the straight line in full.

    error: of the straight line (scatter of the eigenvalues around it), and half the range through which beta runs from the
    first to the last third of the window, in quadrature.

    >>> import tutelage as tu
    >>> found = tu.analysis.spectral_exponent(tu.Spectrum.from_data(tu.digits()), window=(1, 40))
    >>> found.is_power_law                                                # handwritten digits
    False
    """

    beta: float
    error: float
    ranks: np.ndarray
    eigenvalues: np.ndarray
    fit: Exponent

    @property
    def is_power_law(self) -> bool:
        """Is the local slope constant through the window, within its noise and 5%?"""
        return self.fit.constant

    def __str__(self) -> str:
        low, high = self.fit.window
        lines = [f"lam_k ~ k^-(1 + beta) with beta = {self.beta:.3g} ± {self.error:.2g} for k from {low:.0f} to {high:.0f}"]
        if not self.is_power_law:
            slopes = ", ".join(f"{-1 - s:.3g}" for s in self.fit.parts)
            lines.append(f"NOT a power law there: beta runs {slopes} through the window")
        return "\n".join(lines)

    def plot(self, *, title: str | None = None) -> "Figure":
        """The spectrum, the fitted law, and beta rank by rank, as a Matplotlib figure."""
        from tutelage.plot.spectrum import plot_spectral_exponent

        return plot_spectral_exponent(self, title=title)


def spectral_exponent(inputs: Inputs, window: tuple[float, float] | None = None) -> SpectralExponent:
    """beta of a spectrum, with its error. window: (first, last) rank; None: the longest with a constant slope.

    >>> import tutelage as tu
    >>> found = tu.analysis.spectral_exponent(tu.PowerLaw(beta=0.5, levels=200))
    >>> round(found.beta, 6), found.is_power_law
    (0.5, True)
    """
    if not isinstance(inputs, Inputs):
        raise InputError(f"inputs are {kind_of(inputs)}; measure a spectrum with Spectrum.from_data first.")
    order = np.argsort(-np.asarray(inputs.eigenvalues), kind="stable")
    lam, p = np.asarray(inputs.eigenvalues, dtype=float)[order], np.asarray(inputs.fractions, dtype=float)[order]
    dim = inputs.known_dim or round(1 / float(p.min()))
    ranks = dim * (np.cumsum(p) - p / 2) + 0.5  # the middle of a level; k itself where each has one dimension
    fit = fit_exponent(ranks, lam, window)
    error = float(np.hypot(fit.statistical, np.ptp(fit.parts) / 2))
    return SpectralExponent(-1 - fit.slope, error, ranks, lam, fit)
