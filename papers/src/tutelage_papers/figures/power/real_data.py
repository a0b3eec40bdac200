"""The spectrum of real images beside a power law: beta with its error, and how straight the spectrum is."""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, FAINT, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


CIFAR = 0.3  # beta that the source reads off the spectrum of CIFAR-5m


def compute_14(
    images: str, window: list[int], beta: float, levels: int, samples: int, seed: int
) -> "Dataset":
    """The measured spectrum and its fit; the same fit on an exact power law, on samples of it, and on half of the images.

    images: "digits", or the name of a .npy file of images. window: first and last rank of the fit.
    """
    import xarray as xr

    data = tu.digits() if images == "digits" else images
    low, high = window
    inputs = tu.from_data(data).inputs
    found = tu.analysis.spectral_exponent(inputs, window=(low, high))
    rng = np.random.default_rng(seed)
    law = tu.PowerLaw(beta, inputs.levels)
    rows = rng.standard_normal((samples, inputs.levels)) * np.sqrt(
        np.asarray(law.eigenvalues)
    )
    sampled = tu.analysis.spectral_exponent(
        tu.from_data(rows).inputs, window=(low, high)
    )
    pictures = tu.digits() if images == "digits" else np.load(images, mmap_mode="r")
    order = rng.permutation(len(pictures))
    halves = [
        tu.analysis.spectral_exponent(
            tu.from_data(pictures[np.sort(half)]).inputs, window=(low, high)
        ).beta
        for half in np.array_split(order, 2)
    ]
    exact = tu.analysis.spectral_exponent(tu.PowerLaw(beta, levels))
    ranks = found.ranks
    return xr.Dataset(
        {
            "eigenvalues": ("rank", found.eigenvalues),
            "law": ("rank", found.fit.amplitude * ranks**found.fit.slope),
            "sampled": ("rank", sampled.eigenvalues),
            "synthetic": ("rank", np.asarray(law.eigenvalues)),
            "local_beta": ("rank", -1 - found.fit.local_slope),
            "parts": ("part", [-1 - slope for slope in found.fit.parts]),
            "halves": ("half", halves),
            "beta": found.beta,
            "error": found.error,
            "noise": found.fit.statistical,
            "sampled_beta": sampled.beta,
            "sampled_error": sampled.error,
            "exact_beta": exact.beta,
        },
        coords={"rank": ranks},
        attrs={"low": low, "high": high, "asked": beta},
    )


def claims_14(data: "Dataset") -> list[Claim]:
    """The method on known spectra, and the images."""
    asked = data.attrs["asked"]
    beta = float(data["beta"])
    error = float(data["error"])
    sampled = abs(float(data["sampled_beta"]) - asked) / float(data["sampled_error"])
    halves = data["halves"].values
    parts = data["parts"].values
    name = f"ranks {data.attrs['low']} to {data.attrs['high']}"
    return [
        close(
            f"eq. 1 with beta = {asked:g}: fitted beta",
            float(data["exact_beta"]),
            asked,
            rel=1e-6,
        ),
        at_most(
            f"samples of eq. 1 with beta = {asked:g}: gap of the fitted beta over its error",
            sampled,
            3.0,
        ),
        at_most(
            f"images: gap of beta between two halves of them, over its error, {name}",
            float(np.ptp(halves)) / error,
            1.0,
        ),
        close(
            f"images: beta of the halves over beta of all, {name}",
            float(halves.mean()) / beta,
            1.0,
            rel=0.05,
        ),
        close(
            f"images: beta, {name}, against that of CIFAR-5m in the source",
            beta,
            CIFAR,
            absolute=error,
            evidence=f"beta = {beta:.2f} ± {error:.2f}: it runs from {parts[0]:.2f} to {parts[-1]:.2f} through these ranks",
            says="we estimate β ≈ 0.3",
        ),
        above(
            "images: rise of beta through the window over the noise of the fit (no power law)",
            (parts[-1] - parts[0]) / float(data["noise"]),
            3.0,
        ),
    ]


def draw_14(data: "Dataset") -> "Figure":
    """The spectrum with its law, and beta rank by rank."""
    beta = float(data["beta"])
    error = float(data["error"])
    small = "A power law is a straight line on the left and a constant on the right; images bend."
    figure, axes = panel_grid(
        1, 2, "The spectrum of real images beside a power law", small, height=3.1
    )
    left, right = axes[0]
    marks = {
        "linestyle": "none",
        "marker": "o",
        "markersize": 3.2,
        "markerfacecolor": "white",
    }
    left.plot(
        data["rank"], data["eigenvalues"], color=COLORS[0], label="images", **marks
    )
    inside = (data["rank"] >= data.attrs["low"]) & (data["rank"] <= data.attrs["high"])
    left.plot(
        data["rank"][inside],
        data["law"][inside],
        color=COLORS[1],
        label=rf"$\beta = {beta:.2f} \pm {error:.2f}$",
    )
    left.plot(
        data["rank"],
        data["synthetic"],
        color=COLORS[2],
        linestyle=DASHES[1],
        label=rf"eq. 1, $\beta = {data.attrs['asked']:g}$",
    )
    left.plot(
        data["rank"],
        data["sampled"],
        color=FAINT,
        linestyle=DASHES[2],
        label="samples of it",
    )
    left.set(
        xlabel="rank $k$",
        ylabel=r"eigenvalue $\lambda_k$",
        xscale="log",
        yscale="log",
        ylim=(1e-3, 50),
    )
    right.plot(data["rank"], data["local_beta"], color=COLORS[0], label="images")
    right.axhline(beta, color=COLORS[1], label="fit")
    right.axvspan(
        data.attrs["low"],
        data.attrs["high"],
        color=FAINT,
        alpha=0.15,
        linewidth=0,
        label="window",
    )
    right.set(xlabel="rank $k$", ylabel=r"local $\beta$", xscale="log", ylim=(-1.5, 4))
    label_panel(right, r"$-1 - d\ln\lambda / d\ln k$")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    outside_legend(right)
    return figure


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
