"""Which learning rate leaves the plateau with the fewest samples, and how it grows with the student (Fig. 2)."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, INK, label_panel, panel_grid
from tutelage_papers.claims import (
    Claim,
    above,
    at_least,
    at_most,
    below,
    close,
    refuted,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RATE = r"learning rate $\eta$ of a loss without 1/2"


def compute_2(
    width: int,
    teachers: int,
    overlap: float,
    starts: int,
    lr_shares: list[float],
    widths: list[int],
    study_starts: int,
    seed: int,
) -> "Dataset":
    """Time to half the loss against the rate (shares of the one at which escape stands still); best rates against p."""
    import xarray as xr

    network = tutelage_papers.quadratic.quadratic_network(width, teachers)
    plateau = network.plateau()
    many = [network.start(overlap, seed + i) for i in range(starts)]
    lrs = np.array(lr_shares) * plateau.standstill_lr
    times = np.array(
        [
            tutelage_papers.quadratic.quadratic_network(width, teachers, x).half_times(
                many
            )
            for x in lrs
        ]
    )
    growth = np.array(
        [
            tutelage_papers.quadratic.quadratic_network(width, teachers, x)
            .plateau()
            .growth
            for x in lrs
        ]
    )
    found = [
        tutelage_papers.quadratic.quadratic_network(p, teachers).fastest(
            overlap=overlap, starts=study_starts, seed=seed
        )
        for p in widths
    ]
    closed = [
        tutelage_papers.quadratic.quadratic_network(p, teachers).plateau()
        for p in widths
    ]
    return xr.Dataset(
        {
            "times": (("lr", "start"), times),
            "growth": ("lr", growth),
            "best": ("p", [x.paper_lr for x in found]),
            "best_time": ("p", [x.time for x in found]),
            "on_plateau": ("p", [x.fastest_lr for x in closed]),
            "standstill": ("p", [x.standstill_lr for x in closed]),
            "largest": ("p", [x.largest_lr for x in closed]),
            "stuck": _stuck(width, teachers, overlap, seed),
            "shown": ("letter", [width, teachers]),
            "shown_standstill": plateau.standstill_lr,
            "shown_largest": plateau.largest_lr,
        },
        coords={"lr": lrs, "p": widths},
    )


def _stuck(p: int, k: int, overlap: float, seed: int) -> float:
    """Between standstill and divergence: squared overlaps after twenty of their e-folding times, over those at the start."""
    plateau = tutelage_papers.quadratic.quadratic_network(p, k).plateau()
    network = tutelage_papers.quadratic.quadratic_network(
        p, k, (plateau.standstill_lr + plateau.largest_lr) / 2
    )
    start = network.start(overlap, seed, norm=network.plateau().norm)
    d = tutelage_papers.quadratic.quadratic_curves(
        network.problem, start, tu.linear_times(20 / abs(network.plateau().growth), 51)
    ).d
    return float(np.sum(d[-1] ** 2) / np.sum(d[0] ** 2))


def line_through(p: np.ndarray, lr: np.ndarray) -> tuple[float, float, float]:
    """Slope, intercept and R^2 of a straight line."""
    slope, intercept = np.polyfit(p, lr, 1)
    return (
        float(slope),
        float(intercept),
        float(1 - np.var(lr - slope * p - intercept) / np.var(lr)),
    )


def claims_2(data: "Dataset") -> list[Claim]:
    """A minimum in between; best rates affine in p, and why."""
    p = data["p"].values
    lr = data["best"].values
    slope, intercept, fit = line_through(p, lr)
    _, closed_intercept, closed_fit = line_through(p, data["on_plateau"].values)
    times = data["times"].mean("start").values
    middle = int(np.argmin(times))
    first = lr[0] / p[0]
    last = lr[-1] / p[-1]
    return [
        above(
            "rates on both sides of the fastest one are slower: least ratio",
            float(min(times[0], times[-1]) / times[middle]),
            1.2,
        ),
        at_least("best rate against p, by solving: R^2 of a straight line", fit, 0.99),
        close("its slope", slope, 0.135, rel=0.05),
        close("its intercept", intercept, -0.142, absolute=0.03),
        below(
            "best rate by solving over the one of fastest growth on the plateau, largest",
            float((lr / data["on_plateau"]).max()),
            1.0,
        ),
        at_least(
            "the latter, in closed form: R^2 of a straight line", closed_fit, 0.99
        ),
        below("and its intercept", closed_intercept, 0.0),
        refuted(
            close(
                f"best rate / p at p = {p[-1]} over that at p = {p[0]}",
                float(last / first),
                1.0,
                rel=0.1,
                says="scales linearly with p; choosing eta proportional to p",
            ),
            evidence="solved curves and the closed form of the plateau at finite rates have a negative intercept: affine in "
            "p, proportional only for p -> infinity",
        ),
        at_most(
            "beyond the standstill rate overlaps shrink: their squares, over those at the start",
            float(data["stuck"]),
            1e-10,
        ),
    ]


def draw_2(data: "Dataset") -> "Figure":
    """Samples to half the loss against the rate; best rate against p."""
    width, teachers = data["shown"].values.tolist()
    title = "The learning rate that escapes with the fewest samples"
    small = f"Left: $p = {width}$, $p^* = {teachers}$, {data.sizes['start']} starts and their mean. Right: $p^* = {teachers}$."
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    panel = axes[0, 0]
    times = data["times"]
    panel.plot(data["lr"], times, ".", color=FAINT, markersize=3)
    panel.plot(
        data["lr"],
        times.mean("start"),
        "o-",
        color=COLORS[0],
        markerfacecolor="white",
        label="mean",
    )
    middle = int(np.argmin(times.mean("start").values))
    constant = float(times.mean("start")[middle] * data["growth"][middle])
    panel.plot(
        data["lr"],
        constant / data["growth"],
        color=COLORS[1],
        linestyle=DASHES[1],
        label="1 / growth on the plateau",
    )
    panel.axvline(
        float(data["shown_standstill"]),
        color=INK,
        linestyle=DASHES[2],
        label="standstill",
    )
    panel.set(xlabel=RATE, ylabel=r"$\alpha_c$: half of the loss", yscale="log")
    slope, intercept, fit = line_through(data["p"].values, data["best"].values)
    panel = axes[0, 1]
    panel.plot(
        data["p"],
        data["best"],
        "o",
        color=COLORS[0],
        markerfacecolor="white",
        label="best, by solving",
    )
    line = np.array([0.0, float(data["p"].max())])
    panel.plot(
        line,
        slope * line + intercept,
        color=COLORS[0],
        label=f"{slope:.3f} p {intercept:+.3f}, $R^2$ = {fit:.4f}",
    )
    named: tuple[tuple[str, str, Any], ...] = (
        ("on_plateau", "fastest growth on the plateau", DASHES[1]),
        ("standstill", "standstill", DASHES[2]),
        ("largest", "norms diverge", DASHES[3]),
    )
    for look, (name, label, dashes) in enumerate(named):
        panel.plot(
            data["p"], data[name], color=COLORS[look + 1], linestyle=dashes, label=label
        )
    panel.axhline(0.0, color=FAINT, linewidth=0.8)
    panel.set(xlabel="student units $p$", ylabel=r"$\eta$")
    for panel, name in zip(axes[0], ("samples needed", "best rate"), strict=True):
        label_panel(panel, name)
        panel.margins(x=0.04)
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, handlelength=1.8
        )
    return figure


PRINTED: dict[str, Any] = {
    "width": 3,
    "teachers": 3,
    "overlap": 0.01,
    "starts": 20,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="quad-2",
        source="quad",
        figure="Fig. 2",
        title="the best learning rate, and how it grows with the student",
        full=PRINTED
        | {
            "lr_shares": [
                0.05,
                0.1,
                0.15,
                0.2,
                0.25,
                0.3,
                0.4,
                0.5,
                0.6,
                0.65,
                0.7,
                0.75,
                0.8,
                0.85,
                0.9,
                0.95,
            ],
            "widths": [3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            "study_starts": 20,
        },
        quick=PRINTED
        | {
            "lr_shares": [0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9],
            "widths": [3, 5, 8, 12],
            "study_starts": 10,
        },
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
