"""Does overparameterization help to leave the plateau? Eq. 13 against exact curves, and a study in p and p* (sec. 4.1)."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, INK, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, between, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SMALL_LR = 1e-3  # gradient flow: only the unit of time
WINDOW = (1e-5, 3e-3)  # relative loss reductions between which its growth is measured
FALL = 1e-3  # relative loss reduction at which the prefactor is read
SCALED = r"rescaled time $\tilde t = \eta\alpha / p$"


def compute_7(
    widths: list[int],
    teachers: int,
    overlaps: list[float],
    starts: int,
    study_teachers: list[int],
    study_widths: list[int],
    study_overlap: float,
    study_starts: int,
    points: int,
    seed: int,
) -> "Dataset":
    """Loss reduction from the plateau for every p, its rate and prefactor; then the time to half the loss in p and p*."""
    import xarray as xr

    coarse = max(overlaps)
    fine = min(overlaps)
    rows = [_from_plateau(p, teachers, coarse, starts, points, seed) for p in widths]
    finer = [_from_plateau(p, teachers, fine, starts, points, seed) for p in widths]
    study = np.full((2, len(study_teachers), len(study_widths)), np.nan)
    for i, k in enumerate(study_teachers):
        for j, p in enumerate(study_widths):
            if p >= k:
                study[:, i, j] = _study(p, k, study_overlap, study_starts, seed)
    return xr.Dataset(
        {
            "time": (("p", "point"), [row["time"] for row in rows]),
            "reduction": (("p", "start", "point"), [row["reduction"] for row in rows]),
            "compensated": (("p", "point"), [row["compensated"] for row in rows]),
            "plateau_risk": ("p", [row["plateau_risk"] for row in rows]),
            "rate": (("p", "start"), [row["rate"] for row in rows]),
            "prefactor": (("p", "start"), [row["prefactor"] for row in finer]),
            "without_p": ("p", [row["without_p"] for row in finer]),
            "half_time": (("teachers", "width"), study[0]),
            "study_rate": (("teachers", "width"), study[1]),
            "p_teacher": teachers,
        },
        coords={"p": widths, "teachers": study_teachers, "width": study_widths},
    )


def _from_plateau(
    p: int, k: int, overlap: float, starts: int, points: int, seed: int
) -> dict[str, Any]:
    """Curves from Q = p/(p+2), in time eta alpha / p; eq. 13 with each start's own overlaps, and its mean over starts."""
    network = tutelage_papers.quadratic.quadratic_network(p, k, SMALL_LR)
    many = [
        network.start(overlap, seed + i, norm=network.plateau_norm)
        for i in range(starts)
    ]
    time = np.linspace(0.0, (2 * np.log(1 / overlap) + np.log(0.02)) * k / 16, points)
    risk = 2 * network.curves(many, p * time, gradient_flow=True).error
    reduction = 1 - risk / risk[:, :1]
    squares = np.array([np.sum(np.asarray(x.R) ** 2) for x in many])
    own = np.array([network.loss_reduction(p * time, x) for x in squares])
    slopes = [_growth(time, row) for row in reduction]
    at = [int(np.argmax(row > FALL)) for row in reduction]
    naive = (
        4 * squares[0] * np.expm1(16 / k * time) / network.plateau_risk
    )  # p p* left out of the prefactor
    return {
        "time": time,
        "reduction": reduction,
        "compensated": _compensated(
            time, reduction, 4 * squares[:, None] / (p * k), 16 / k
        ),
        "plateau_risk": network.plateau_risk,
        "rate": slopes,
        "prefactor": [
            row[i] / law[i] for row, law, i in zip(reduction, own, at, strict=True)
        ],
        "without_p": reduction[0][at[0]] / naive[at[0]],
    }


def _compensated(
    time: np.ndarray, reduction: np.ndarray, size: np.ndarray, rate: float
) -> np.ndarray:
    """The reduction without overlaps and growth, averaged over starts: 1/R(0) by eq. 13. Undefined at time zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.mean(reduction / size / np.expm1(rate * time), axis=0)


def _growth(time: np.ndarray, reduction: np.ndarray) -> float:
    """Exponential rate of the reduction: slope of the logarithm of its derivative, inside the window."""
    inside = (reduction > WINDOW[0]) & (reduction < WINDOW[1])
    return float(
        np.polyfit(time[inside], np.log(np.gradient(reduction, time)[inside]), 1)[0]
    )


def _study(
    p: int, k: int, overlap: float, starts: int, seed: int
) -> tuple[float, float]:
    """From eq. 8: mean time to half the loss, in eta alpha / p, and the rate at which overlaps grow on the plateau."""
    network = tutelage_papers.quadratic.quadratic_network(p, k, SMALL_LR)
    many = [network.start(overlap, seed + i) for i in range(starts)]
    scaled = network.half_times(many) * SMALL_LR / p
    tiny = network.start(1e-6, seed, norm=network.plateau_norm)
    t = np.linspace(0.0, 5.0 / network.overlap_rate, 50)
    d = network.curves(tiny, t, gradient_flow=True).d[:, 0]
    return float(np.mean(scaled)), float(2 * p * np.polyfit(t, np.log(d), 1)[0])


def claims_7(data: "Dataset") -> list[Claim]:
    """Rate 16/p*, prefactor, and what p does to the time of escape."""
    k = int(data["p_teacher"])
    rates = [
        close(
            f"p = {p}: rate of the loss reduction in eta alpha / p",
            float(data["rate"].sel(p=p).mean()),
            16 / k,
            rel=0.02,
        )
        for p in data["p"].values
    ]
    worst = float(np.abs(data["prefactor"] - 1).max())
    widest = int(data["p"].max())
    study = data["study_rate"] * data["teachers"] / 16
    gains = {int(m): _gain(data, int(m)) for m in data["teachers"].values}
    return [
        *rates,
        at_most(
            "prefactor over 4 sum rho^2/(p p* R(0)): largest gap to 1, all p and starts",
            worst,
            0.03,
        ),
        above(
            "the same without 1/(p p*), which must fail",
            float(np.abs(data["without_p"] - 1).min()),
            0.03,
        ),
        refuted(
            close(
                f"p = {widest}: rate 16/p* if t is eta alpha",
                float(data["rate"].sel(p=widest).mean()) / widest,
                16 / k,
                rel=0.1,
            ),
            evidence="in t = eta alpha the curves grow as 16/(p p*), as the appendix derives before it puts t/p for t",
        ),
        at_most(
            f"rate 16/p*, p up to {int(data['width'].max())}, p* up to {int(data['teachers'].max())}: largest relative gap",
            float(np.abs(study - 1).max()),
            0.02,
        ),
        *(
            between(
                f"p* = {m}: half time of the widest student over that of p = p*, in eta alpha / p",
                gain,
                0.5,
                1.0,
            )
            for m, gain in gains.items()
        ),
    ]


def _gain(data: "Dataset", teachers: int) -> float:
    times = data["half_time"].sel(teachers=teachers)
    return float(times[-1] / times.sel(width=teachers))


def draw_7(data: "Dataset") -> "Figure":
    """Loss reduction and eq. 13; rates and prefactors against p; half times."""
    k = int(data["p_teacher"])
    title = "Overparameterization changes the prefactor of the escape, hardly its time"
    small = f"Gradient flow. Left, middle: from the plateau, $p^* = {k}$; dashed: eq. 13. Right: from orthonormal students."
    figure, axes = panel_grid(1, 3, title, small, height=3.1)
    for look, p in enumerate(data["p"].values[:: max(1, data.sizes["p"] // 4)]):
        part = data.sel(p=p)
        axes[0, 0].plot(
            part["time"][2:],
            part["compensated"][2:],
            color=COLORS[look],
            label=f"$p = {p}$",
        )
        axes[0, 0].axhline(
            1 / float(part["plateau_risk"]),
            color=INK,
            linestyle=DASHES[1],
            linewidth=0.9,
        )
    growth = r"$\,4\,\Sigma\rho^2\,(e^{16\tilde t/p^*} - 1)\,/\,p p^*$"
    axes[0, 0].set(
        xlabel=SCALED,
        ylabel=r"$(1 - \mathcal{R}/\mathcal{R}(0))\;/$" + growth,
        ylim=(0, None),
    )
    marks = {
        "linestyle": "none",
        "markerfacecolor": "white",
        "markersize": 5,
        "capsize": 2,
    }
    for look, (name, scale, label) in enumerate(
        (("rate", k / 16, r"rate $\times p^*/16$"), ("prefactor", 1.0, "prefactor"))
    ):
        mean = data[name].mean("start") * scale
        spread = data[name].std("start") * scale
        place = data["p"] + 0.2 * (look - 0.5)
        axes[0, 1].errorbar(
            place,
            mean,
            spread,
            color=COLORS[look],
            marker=MARKERS[look],
            label=label,
            **marks,
        )
    axes[0, 1].axhline(1.0, color=FAINT, linestyle=DASHES[2])
    axes[0, 1].set(
        xlabel="student units $p$", ylabel="measured / eq. 13", ylim=(0.98, 1.02)
    )
    for look, m in enumerate(data["teachers"].values):
        part = data["half_time"].sel(teachers=m).dropna("width")
        style = {
            "color": COLORS[look],
            "marker": MARKERS[look],
            "linestyle": DASHES[look],
            "markerfacecolor": "white",
        }
        axes[0, 2].plot(part["width"], part, label=f"$p^* = {m}$", **style)
    axes[0, 2].set(
        xlabel="student units $p$",
        ylabel=r"half of the loss at $\tilde t$",
        ylim=(0, None),
    )
    for panel, name in zip(
        axes[0], ("loss reduction", "rate and prefactor", "time of escape"), strict=True
    ):
        label_panel(panel, name)
        panel.margins(x=0.05)
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, handlelength=1.6
        )
    return figure


PRINTED: dict[str, Any] = {
    "widths": [1, 2, 3, 4, 5, 6, 7, 8],
    "teachers": 3,
    "overlaps": [1e-3, 1e-4],
    "study_teachers": [1, 2, 4, 8],
    "study_widths": [1, 2, 4, 8, 12, 16],
    "study_overlap": 0.01,
    "points": 401,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="quad-7",
        source="quad",
        figure="eq. 13",
        title="loss reduction on leaving the plateau, and what more students change",
        full=PRINTED | {"starts": 20, "study_starts": 40},
        quick=PRINTED | {"starts": 5, "study_starts": 10},
        compute=compute_7,
        draw=draw_7,
        claims=claims_7,
    ),
)
