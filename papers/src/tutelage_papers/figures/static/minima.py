"""The minimum of a regularized convex loss against the number of samples.

min_w sum_mu l(w.x_mu / sqrt N, y_mu) + ridge |w|^2 / 2 over n = ratio N samples. Theory at
large N, direct minimization at finite N, and below both the Bayes-optimal error.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, INK, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, below, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

LOSSES = ("squared", "logistic", "hinge")
QUANTITIES = ("R", "Q", "error", "loss", "train_loss")
# Where theory has smaller training losses few samples make all of them, and their means
# are not Gaussian.
RARE = 0.01
RATIO = "samples per input dimension, $n/N$"
NAMED = {
    "R": "overlap with the teacher",
    "Q": "squared length",
    "loss": "loss on fresh samples",
    "train_loss": "loss on the data set",
    "error": "error",
    "train_error": "error on the data set",
}

# Digits of an independent fixed-point iteration on a trapezoid of 4001 points:
# loss, ratio, ridge, flips, and the numbers in the order of NAMED.
DIGITS = (
    (
        ("logistic", 3.0, 0.03, 0.0),
        (3.485527, 14.485819, 0.288815, 0.098094, 0.131564, 0.001593),
    ),
    (
        ("hinge", 2.0, 0.5, 0.1),
        (0.755374, 1.143317, 0.691200, 0.271448, 0.250298, 0.094566),
    ),
    (
        ("squared", 2.0, 0.5, 0.1),
        (0.459086, 0.428696, 0.421310, 0.172778, 0.252664, 0.070724),
    ),
)
# Ridge regression on real labels: ratio, ridge, noise, and the error.
RIDGE_DIGITS = (
    (2.0, 0.1, 0.3, 0.03860658),
    (0.5, 0.2, 0.0, 0.27074971),
    (3.0, 1.0, 0.5, 0.0788721),
)


def signs(loss: str, flip: float) -> "tu.Problem":
    """One linear unit learns the signs of another one."""
    unit = tu.Network(1, "linear")
    return tu.Problem(unit, unit, loss=loss, labels=tu.labels.Sign(flip))


def compute_1(
    ridges: list[float],
    flips: list[float],
    ratios: int,
    measured: list[float],
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Compute theory, Bayes-optimal error, direct minimization and digits.

    z: distances of runs from the theory; control: those from the theory at twice the
    ridge.
    """
    import xarray as xr

    grid = np.geomspace(0.3, 12.0, ratios)
    shape = (len(LOSSES), len(ridges), len(flips))
    error = np.zeros((*shape, ratios))
    mean = np.zeros((*shape, len(measured)))
    bars = np.zeros((*shape, len(measured)))
    z = np.zeros((*shape, len(measured), len(QUANTITIES)))
    control = np.zeros_like(z)
    for place in np.ndindex(shape):
        problem = signs(LOSSES[place[0]], flips[place[2]])
        ridge = ridges[place[1]]
        error[place] = tu.analysis.empirical_minimum(problem, grid, ridge=ridge).error
        found = tu.analysis.simulate_minimum(
            problem, measured, dim=dim, runs=runs, ridge=ridge, seed=seed
        )
        wrong = tu.analysis.empirical_minimum(problem, measured, ridge=2 * ridge)
        mean[place] = found.mean["error"]
        bars[place] = found.standard_error["error"]
        rare = found.theory.train_loss < RARE
        for column, name in enumerate(QUANTITIES):
            gap = found.mean[name] - getattr(wrong, name)
            bar = np.maximum(found.standard_error[name], 1e-300)
            z[place][:, column] = np.ravel(found.z[name])
            control[place][:, column] = np.ravel(gap / bar)
        z[place][rare, -1] = np.nan
        control[place][rare, -1] = np.nan
    best = [tu.analysis.bayes_optimal(signs("squared", p), grid).error for p in flips]
    dims = ("loss", "ridge", "flip")
    return xr.Dataset(
        {
            "error": ((*dims, "ratio"), error),
            "bayes": (("flip", "ratio"), np.array(best)),
            "mean": ((*dims, "measured"), mean),
            "bar": ((*dims, "measured"), bars),
            "z": ((*dims, "measured", "quantity"), z),
            "control": ((*dims, "measured", "quantity"), control),
            "digits": (("case", "number"), _digits()),
            "ridge_digits": ("regression", _ridge_digits()),
            "dim": dim,
            "runs": runs,
        },
        coords={
            "loss": list(LOSSES),
            "ridge": ridges,
            "flip": flips,
            "ratio": grid,
            "measured": measured,
            "quantity": list(QUANTITIES),
        },
    )


def _digits() -> np.ndarray:
    """The numbers of DIGITS by the library, (case, number)."""
    rows = []
    for (loss, ratio, ridge, flip), _ in DIGITS:
        found = tu.analysis.empirical_minimum(signs(loss, flip), ratio, ridge=ridge)
        rows.append([float(np.ravel(getattr(found, name))[0]) for name in NAMED])
    return np.array(rows)


def _ridge_digits() -> np.ndarray:
    unit = tu.Network(1, "linear")
    errors = []
    for ratio, ridge, noise, _ in RIDGE_DIGITS:
        problem = tu.Problem(unit, unit, noise=noise)
        found = tu.analysis.empirical_minimum(problem, ratio, ridge=ridge)
        errors.append(float(found.error))
    return np.array(errors)


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """Digits, agreement of direct minimization, and the bound by Bayes."""
    for row, ((loss, ratio, ridge, flip), expected) in zip(
        data["digits"].values, DIGITS, strict=True
    ):
        where = f"{loss} loss, ratio {ratio:g}, ridge {ridge:g}, flips {flip:g}"
        for name, measured, value in zip(NAMED, row, expected, strict=True):
            yield close(f"{where}: {NAMED[name]}", measured, value, absolute=4e-6)
    for measured, (ratio, ridge, noise, value) in zip(
        data["ridge_digits"].values, RIDGE_DIGITS, strict=True
    ):
        where = f"ratio {ratio:g}, ridge {ridge:g}, noise {noise:g}"
        yield close(f"ridge regression, {where}: error", measured, value, absolute=1e-8)
    z = data["z"].values
    runs = f"{int(data['runs'])} data sets of N = {int(data['dim'])}"
    yield below(f"{runs}: largest |z|", np.nanmax(np.abs(z)), 4.0)
    yield below(f"{runs}: root mean square of z", np.sqrt(np.nanmean(z**2)), 1.3)
    yield above(
        f"{runs}: root mean square of z for theory at twice the ridge (control)",
        np.sqrt(np.nanmean(data["control"].values ** 2)),
        3.0,
    )
    gap = data["error"] - data["bayes"]
    yield at_least(
        "smallest distance of a minimum from the Bayes-optimal error", gap.min(), 0.0
    )
    yield below(
        "smallest relative distance from the Bayes-optimal error",
        (gap / data["bayes"]).min(),
        0.1,
    )


def draw_1(data: "Dataset") -> "Figure":
    """One panel for each loss and share of flips."""
    small = (
        f"One linear unit learns signs. Lines: theory; marks: {int(data['runs'])} data "
        f"sets of N = {int(data['dim'])}, ± 2 s.e.; black: smallest possible error."
    )
    losses = data["loss"].values
    flips = data["flip"].values
    figure, axes = panel_grid(
        len(flips),
        len(losses),
        "The minimum of a regularized loss",
        small,
        height=2.5,
        width=10.0,
        sharex=True,
        sharey="row",
    )
    for row, flip in enumerate(flips):
        for column, loss in enumerate(losses):
            panel = axes[row, column]
            here = data.sel(loss=loss, flip=flip)
            for place, ridge in enumerate(data["ridge"].values):
                one = here.sel(ridge=ridge)
                look = {"color": COLORS[place]}
                panel.plot(
                    data["ratio"],
                    one["error"],
                    linestyle=DASHES[place],
                    label=f"ridge {ridge:g}",
                    **look,
                )
                panel.errorbar(
                    data["measured"],
                    one["mean"],
                    yerr=2 * one["bar"],
                    linestyle="none",
                    marker="o",
                    markersize=4,
                    markerfacecolor="white",
                    **look,
                )
            panel.plot(
                data["ratio"], here["bayes"], color=INK, linewidth=1.0, label="Bayes"
            )
            panel.set_xscale("log")
            label_panel(panel, f"{loss} loss, {100 * flip:g}% of labels flipped")
        axes[row, 0].set(ylabel="error", ylim=(0.0, None))
    for panel in axes[-1]:
        panel.set_xlabel(RATIO)
    axes[-1, -1].legend(loc="lower left")
    return figure


# Ridge regression on erf(x / sqrt 2) features, two for each latent dimension, ridge .01,
# linear teacher, noise .1: E(h - y)^2 at n / p.
FEATURE_DIGITS = {0.25: 0.687459, 0.5: 0.320488, 1.0: 0.120098, 2.0: 0.082203}
FEATURE_DIGITS[4.0] = 0.067392


def marchenko_pastur_risk(ratio: float, ridge: float, noise: float) -> float:
    """Return E(h - y)^2 of ridge regression on erf features, p = 2 N of them.

    An average over Marchenko and Pastur's law in place of drawn features. V and q are
    iterated as a fixed point; m follows.
    """
    psi = 2.0
    linear_part = 1 / np.pi  # E[z erf(z / sqrt 2)]^2
    rest = 1 / 3 - linear_part  # E[erf(z / sqrt 2)^2] = 1/3
    angle = np.arange(1, 4001) * np.pi / 4001
    s = 1 + psi + 2 * np.sqrt(psi) * np.cos(angle)
    weight = np.sin(angle) ** 2 / s
    weight /= weight.sum()
    eigenvalues = linear_part * s + rest
    V = 1.0
    for _ in range(200_000):
        hat = ratio / (1 + V)
        seen = weight @ (eigenvalues / (ridge + hat * eigenvalues)) / psi
        unseen = (1 - 1 / psi) * rest / (ridge + hat * rest)
        change = seen + unseen - V
        V += change
        if abs(change) < 1e-13 * V:
            break
    hat = ratio / (1 + V)
    D = ridge + hat * eigenvalues
    D0 = ridge + hat * rest
    m = hat * (weight @ (linear_part * s / D))
    flat = weight @ (eigenvalues**2 / D**2) / psi + (1 - 1 / psi) * rest**2 / D0**2
    signal = hat**2 * (weight @ (linear_part * s * eigenvalues / D**2))
    # risk = 1 + noise^2 - 2 m + q and q = ratio risk flat / (1 + V)^2 + signal
    share = ratio * flat / (1 + V) ** 2
    return float((1 + noise**2 - 2 * m + signal) / (1 - share))


def features(latent: int, noise: float) -> "tu.Problem":
    """A linear readout of erf features learns a linear function of the latent vector."""
    unit = tu.Network(1, "linear")
    inputs = tu.HiddenManifold(
        "random", "erf", dim_latent=latent, dim=2 * latent, levels=400
    )
    return tu.Problem(unit, unit, inputs=inputs, noise=noise)


def compute_4(
    ridges: list[float],
    ratios: int,
    measured: list[float],
    noise: float,
    latent: int,
    sampled: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Compute the test error for drawn features, for their law, and on data sets.

    latent: dimensions of the features of the theory; sampled: of those of the runs.
    """
    import xarray as xr

    grid = np.union1d(np.geomspace(0.1, 10.0, ratios), [0.7, 1.0])
    problem = features(latent, noise)
    theory = [
        2 * tu.analysis.empirical_minimum(problem, grid, ridge=x).loss for x in ridges
    ]
    law = [[marchenko_pastur_risk(r, x, noise) for r in grid] for x in ridges]
    drawn = features(sampled, noise)
    mean = []
    z = []
    bar = []
    for ridge in ridges:
        found = tu.analysis.simulate_minimum(
            drawn, measured, dim=2 * sampled, runs=runs, ridge=ridge, seed=seed
        )
        mean.append(2 * found.mean["loss"])
        bar.append(2 * found.standard_error["loss"])
        z.append(found.z["loss"])
    digits = tu.analysis.empirical_minimum(problem, list(FEATURE_DIGITS), ridge=0.01)
    return xr.Dataset(
        {
            "risk": (("ridge", "ratio"), np.array(theory)),
            "law": (("ridge", "ratio"), np.array(law)),
            "mean": (("ridge", "measured"), np.array(mean)),
            "bar": (("ridge", "measured"), np.array(bar)),
            "z": (("ridge", "measured"), np.array(z)),
            "digits": ("place", 2 * digits.loss),
            "dim": 2 * sampled,
            "runs": runs,
            "noise": noise,
        },
        coords={"ridge": ridges, "ratio": grid, "measured": measured},
    )


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """Digits, the law of the features, runs, and the peak where n = p."""
    for measured, (ratio, value) in zip(
        data["digits"].values, FEATURE_DIGITS.items(), strict=True
    ):
        yield close(f"n/p = {ratio:g}, ridge 0.01: risk", measured, value, rel=3e-3)
    gap = np.abs(data["risk"] / data["law"] - 1)
    yield below("drawn features against their law: largest gap", gap.max(), 0.01)
    shifted = np.abs(data["risk"].values[:, 1:] / data["law"].values[:, :-1] - 1)
    yield above("the same gap at the neighboring ratio (control)", shifted.max(), 0.1)
    z = data["z"].values
    runs = f"{int(data['runs'])} data sets of p = {int(data['dim'])}"
    yield below(f"{runs}: largest |z|", np.max(np.abs(z)), 4.0)
    yield below(f"{runs}: root mean square of z", np.sqrt(np.mean(z**2)), 1.5)
    weakest = data["risk"].isel(ridge=int(np.argmin(data["ridge"].values)))
    near = weakest.sel(ratio=slice(0.6, 2.0))
    peak = float(near["ratio"][int(np.argmax(near.values))])
    yield close("smallest ridge: n/p of the peak", peak, 1.0, rel=0.05)
    falls = weakest.sel(ratio=0.7) / weakest.sel(ratio=1.0)
    yield below("smallest ridge: risk at n/p = 0.7 over the peak", falls, 0.6)
    strongest = data["risk"].isel(ridge=int(np.argmax(data["ridge"].values)))
    yield below(
        "largest ridge: largest rise of the risk with samples",
        strongest.diff("ratio").max(),
        0.0,
    )


def draw_4(data: "Dataset") -> "Figure":
    """The test error against n / p for each ridge."""
    small = (
        f"Ridge regression on p = 2N erf features. Lines: theory; marks: "
        f"{int(data['runs'])} data sets with p = {int(data['dim'])}, ± 2 s.e."
    )
    figure, axes = panel_grid(
        1, 1, "Random features: double descent", small, height=3.6, width=7.4
    )
    panel = axes[0, 0]
    for place, ridge in enumerate(data["ridge"].values):
        one = data.sel(ridge=ridge)
        color = COLORS[place]
        panel.plot(
            data["ratio"],
            one["risk"],
            color=color,
            linestyle=DASHES[place % len(DASHES)],
            label=f"ridge {ridge:g}",
        )
        panel.errorbar(
            data["measured"],
            one["mean"],
            yerr=2 * one["bar"],
            linestyle="none",
            marker="o",
            markersize=4,
            markerfacecolor="white",
            color=color,
        )
    panel.set(
        xlabel="samples per feature, $n/p$",
        ylabel="mean square of\noutput − label",
        xscale="log",
        yscale="log",
    )
    panel.legend(loc="lower left")
    return figure


PARAMETERS: dict[str, Any] = {"seed": 46}

FIGURES = (
    Replica(
        id="static-1",
        source="static",
        figure="minimum",
        title="The minimum of squared, logistic and hinge loss against samples",
        full=PARAMETERS
        | {
            "ridges": [0.01, 0.1, 1.0],
            "flips": [0.0, 0.1],
            "ratios": 40,
            "measured": [0.5, 1.0, 2.0, 4.0],
            "dim": 1000,
            "runs": 8,
        },
        quick=PARAMETERS
        | {
            "ridges": [0.1, 1.0],
            "flips": [0.0, 0.1],
            "ratios": 7,
            "measured": [0.7, 2.0],
            "dim": 120,
            "runs": 12,
        },
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
    Replica(
        id="static-4",
        source="static",
        figure="random features",
        title="Random features: double descent of ridge regression",
        full=PARAMETERS
        | {
            "ridges": [1e-4, 1e-2, 1e-1, 1.0],
            "ratios": 41,
            "measured": [0.25, 0.5, 1.0, 2.0, 4.0],
            "noise": 0.1,
            "latent": 600,
            "sampled": 300,
            "runs": 20,
        },
        quick=PARAMETERS
        | {
            "ridges": [1e-4, 1e-2, 1.0],
            "ratios": 13,
            "measured": [0.5, 2.0],
            "noise": 0.1,
            "latent": 300,
            "sampled": 120,
            "runs": 20,
        },
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
