"""Figure 14 of the power-law paper: the spectrum of real images beside a power law.

beta with its error, and how straight the spectrum is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    label_panel,
    outside_legend,
    panel_grid,
    plain_dots,
)
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.drawing import GUIDE, legend_below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


CIFAR = 0.3  # beta that the source reads off the spectrum of CIFAR-5m


def compute_14(
    images: str, window: list[int], beta: float, levels: int, samples: int, seed: int
) -> "Dataset":
    """Return the measured spectrum and its fit.

    With the same fit on an exact power law, on samples of it, and on halves of the images.
    images: "digits", or the name of a .npy file of images. window: first and last rank of
    the fit.
    """
    import xarray as xr

    low, high = window
    rng = np.random.default_rng(seed)
    if images == "digits":
        inputs = tu.from_data(tu.digits()).inputs
        pictures = tu.digits()
    else:
        inputs = tu.from_data(images).inputs
        pictures = np.load(images, mmap_mode="r")
    spectrum = tu.analysis.spectral_exponent(inputs, window=(low, high))
    law = tu.PowerLaw(beta, inputs.levels)
    lengths = np.sqrt(np.asarray(law.eigenvalues))
    rows = rng.standard_normal((samples, inputs.levels)) * lengths
    sampled = _exponent_of(rows, low, high)
    order = rng.permutation(len(pictures))
    halves = []
    for half in np.array_split(order, 2):
        halves.append(_exponent_of(pictures[np.sort(half)], low, high).beta)
    exact = tu.analysis.spectral_exponent(tu.PowerLaw(beta, levels))
    fit = spectrum.fit
    ranks = spectrum.ranks
    attributes = {"low": low, "high": high, "asked": beta}
    data = xr.Dataset(coords={"rank": ranks}, attrs=attributes)
    data["eigenvalues"] = ("rank", spectrum.eigenvalues)
    data["law"] = ("rank", fit.amplitude * ranks**fit.slope)
    data["sampled"] = ("rank", sampled.eigenvalues)
    data["synthetic"] = ("rank", np.asarray(law.eigenvalues))
    data["local_beta"] = ("rank", -1 - fit.local_slope)
    data["parts"] = ("part", [-1 - slope for slope in fit.parts])
    data["halves"] = ("half", halves)
    data["beta"] = spectrum.beta
    data["error"] = spectrum.error
    data["noise"] = fit.statistical
    data["sampled_beta"] = sampled.beta
    data["sampled_error"] = sampled.error
    data["exact_beta"] = exact.beta
    return data


def _exponent_of(rows: np.ndarray, low: int, high: int) -> Any:
    """The fitted spectrum of samples."""
    inputs = tu.from_data(rows).inputs
    return tu.analysis.spectral_exponent(inputs, window=(low, high))


def claims_14(data: "Dataset") -> Iterator[Claim]:
    """Compare the method on known spectra, and the images with a power law."""
    asked = data.attrs["asked"]
    words = f"eq. 1 with beta = {asked:g}: fitted beta"
    yield close(words, data["exact_beta"], asked, rel=1e-6)
    gap = np.abs(data["sampled_beta"] - asked)
    words = (
        f"samples of eq. 1 with beta = {asked:g}: gap of the fitted beta over its error"
    )
    yield at_most(words, gap / data["sampled_error"], 3.0)
    yield from _image_claims(data)


def _image_claims(data: "Dataset") -> Iterator[Claim]:
    """beta of the images: its error holds, and it is no constant."""
    beta = float(data["beta"])
    error = float(data["error"])
    halves = data["halves"].values
    parts = data["parts"].values
    ranks = f"ranks {data.attrs['low']} to {data.attrs['high']}"
    words = f"images: gap of beta between two halves of them, over its error, {ranks}"
    yield at_most(words, np.ptp(halves) / error, 1.0)
    words = f"images: beta of the halves over beta of all, {ranks}"
    yield close(words, halves.mean() / beta, 1.0, rel=0.05)
    yield close(
        f"images: beta, {ranks}, against that of CIFAR-5m in the source",
        beta,
        CIFAR,
        absolute=error,
        evidence=f"beta = {beta:.2f} ± {error:.2f}: it runs from {parts[0]:.2f} to "
        f"{parts[-1]:.2f} through these ranks",
        says="we estimate β ≈ 0.3",
    )
    words = (
        "images: rise of beta through the window over the noise of the fit "
        "(no power law)"
    )
    yield above(words, (parts[-1] - parts[0]) / data["noise"], 3.0)


def draw_14(data: "Dataset") -> "Figure":
    """Draw the spectrum with its law, and beta rank by rank."""
    title = "The spectrum of real images beside a power law"
    small = (
        "A power law is a straight line on the left and a constant on the right; "
        "images bend."
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.1)
    spectrum, local_beta = axes[0]
    _draw_spectrum(spectrum, data)
    _draw_local_beta(local_beta, data)
    return figure


def _draw_spectrum(panel: Any, data: "Dataset") -> None:
    """Eigenvalues of the images, their fit, and those of a power law."""
    rank = data["rank"]
    inside = (rank >= data.attrs["low"]) & (rank <= data.attrs["high"])
    fit = rf"$\beta = {float(data['beta']):.2f} \pm {float(data['error']):.2f}$"
    law = rf"eq. 1, $\beta = {data.attrs['asked']:g}$"
    dashed = {"color": COLORS[2], "linestyle": DASHES[1]}
    panel.plot(rank, data["eigenvalues"], label="images", **plain_dots(0, 3.2))
    panel.plot(rank[inside], data["law"][inside], color=COLORS[1], label=fit)
    panel.plot(rank, data["synthetic"], label=law, **dashed)
    panel.plot(rank, data["sampled"], label="samples of it", **GUIDE)
    panel.set(xlabel="rank $k$", ylabel=r"eigenvalue $\lambda_k$")
    panel.set(xscale="log", yscale="log", ylim=(1e-3, 50))
    legend_below(panel, drop=0.18)


def _draw_local_beta(panel: Any, data: "Dataset") -> None:
    """beta rank by rank, and the window of the fit."""
    low = data.attrs["low"]
    high = data.attrs["high"]
    shade = {"color": FAINT, "alpha": 0.15, "linewidth": 0}
    panel.plot(data["rank"], data["local_beta"], color=COLORS[0], label="images")
    panel.axhline(float(data["beta"]), color=COLORS[1], label="fit")
    panel.axvspan(low, high, label="window", **shade)
    panel.set(xlabel="rank $k$", ylabel=r"local $\beta$", xscale="log", ylim=(-1.5, 4))
    label_panel(panel, r"$-1 - d\ln\lambda / d\ln k$")
    outside_legend(panel)


FOURTEEN = {"images": "digits", "window": [1, 40], "beta": 0.3, "seed": 1}

FIGURES = (
    Replica(
        id="power-14",
        source="power",
        figure="Fig. 14",
        title="the spectrum of real images against a power law: beta with its error",
        full=FOURTEEN | {"levels": 1024, "samples": 20_000},
        quick=FOURTEEN | {"levels": 1024, "samples": 2_000},
        compute=compute_14,
        draw=draw_14,
        claims=claims_14,
    ),
)
