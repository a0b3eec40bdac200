"""The figure of a spectrum's exponent: eigenvalues against rank with the fitted law, and the local slope below."""

from typing import TYPE_CHECKING, Any

from tutelage._errors import InputError
from tutelage.plot.exponent import plot_exponent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_spectral_exponent(result: Any, *, title: str | None = None) -> "Figure":
    """Eigenvalues and fit on logarithmic axes; below, -(1 + beta) rank by rank. title: "" leaves the head out."""
    if not all(hasattr(result, name) for name in ("beta", "fit", "ranks")):
        raise InputError(f"plot_spectral_exponent got a {type(result).__name__}; give it what spectral_exponent returned.")
    heading = title or ("A power-law spectrum" if result.fit.constant else "A spectrum that is no power law in this window")
    figure = plot_exponent(result.fit, title="" if title == "" else heading)
    top, bottom = figure.axes
    top.set_ylabel(r"eigenvalue $\lambda_k$")
    bottom.set(xlabel=r"rank $k$", ylabel="local slope\n" + r"$-(1 + \beta)$")
    return figure
