"""Fig. 2: which learning rate leaves the plateau with the fewest samples.

And how that rate grows with the student.
"""

from collections.abc import Iterator
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
from tutelage_papers.drawing import legend_below
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
    """Return the time to half the loss against the rate, and best rates against p.

    lr_shares: rates over the one at which the escape stands still.
    """
    import xarray as xr

    network = tutelage_papers.quadratic.quadratic_network(width, teachers)
    plateau = network.plateau()
    several_starts = [network.start(overlap, seed + i) for i in range(starts)]
    lrs = np.array(lr_shares) * plateau.standstill_lr
    times = []
    growth = []
    for lr in lrs:
        at_rate = tutelage_papers.quadratic.quadratic_network(width, teachers, lr)
        times.append(at_rate.half_times(several_starts))
        growth.append(at_rate.plateau().growth)
    fastest = []
    plateaus = []
    for p in widths:
        wider = tutelage_papers.quadratic.quadratic_network(p, teachers)
        fastest.append(wider.fastest(overlap=overlap, starts=study_starts, seed=seed))
        plateaus.append(wider.plateau())
    data = xr.Dataset(coords={"lr": lrs, "p": widths})
    data["times"] = (("lr", "start"), np.array(times))
    data["growth"] = ("lr", np.array(growth))
    data["best"] = ("p", [escape.paper_lr for escape in fastest])
    data["best_time"] = ("p", [escape.time for escape in fastest])
    data["on_plateau"] = ("p", [closed.fastest_lr for closed in plateaus])
    data["standstill"] = ("p", [closed.standstill_lr for closed in plateaus])
    data["largest"] = ("p", [closed.largest_lr for closed in plateaus])
    data["stuck"] = _stuck(width, teachers, overlap, seed)
    data["shown"] = ("letter", [width, teachers])
    data["shown_standstill"] = plateau.standstill_lr
    data["shown_largest"] = plateau.largest_lr
    return data


def _stuck(p: int, k: int, overlap: float, seed: int) -> float:
    """Squared overlaps between standstill and divergence, over those at the start.

    After twenty of their e-folding times, at a rate amid the two.
    """
    slow = tutelage_papers.quadratic.quadratic_network(p, k).plateau()
    lr = (slow.standstill_lr + slow.largest_lr) / 2
    network = tutelage_papers.quadratic.quadratic_network(p, k, lr)
    plateau = network.plateau()
    start = network.start(overlap, seed, norm=plateau.norm)
    times = tu.linear_times(20 / abs(plateau.growth), 51)
    curves = tutelage_papers.quadratic.quadratic_curves(network.problem, start, times)
    d = curves.d
    return float(np.sum(d[-1] ** 2) / np.sum(d[0] ** 2))


def line_through(p: np.ndarray, lr: np.ndarray) -> tuple[float, float, float]:
    """Return slope, intercept and R^2 of a straight line."""
    slope, intercept = np.polyfit(p, lr, 1)
    residual = lr - slope * p - intercept
    fit = 1 - np.var(residual) / np.var(lr)
    return float(slope), float(intercept), float(fit)


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Compare rates: the best one is in between and affine in p, and why."""
    times = data["times"].mean("start").values
    slower = min(times[0], times[-1]) / times.min()
    words = "rates on both sides of the fastest one are slower: least ratio"
    yield above(words, slower, 1.2)
    yield from _affine_claims(data)
    words = (
        "beyond the standstill rate overlaps shrink: their squares, over those at the "
        "start"
    )
    yield at_most(words, data["stuck"], 1e-10)


def _affine_claims(data: "Dataset") -> Iterator[Claim]:
    """The best rate is affine in p, by solving and in closed form; not proportional."""
    p = data["p"].values
    lr = data["best"].values
    slope, intercept, fit = line_through(p, lr)
    _, closed_intercept, closed_fit = line_through(p, data["on_plateau"].values)
    words = "best rate against p, by solving: R^2 of a straight line"
    yield at_least(words, fit, 0.99)
    yield close("its slope", slope, 0.135, rel=0.05)
    yield close("its intercept", intercept, -0.142, absolute=0.03)
    words = (
        "best rate by solving over the one of fastest growth on the plateau, largest"
    )
    yield below(words, (lr / data["on_plateau"]).max(), 1.0)
    words = "the latter, in closed form: R^2 of a straight line"
    yield at_least(words, closed_fit, 0.99)
    yield below("and its intercept", closed_intercept, 0.0)
    first = lr[0] / p[0]
    last = lr[-1] / p[-1]
    proportional = close(
        f"best rate / p at p = {p[-1]} over that at p = {p[0]}",
        last / first,
        1.0,
        rel=0.1,
        says="scales linearly with p; choosing eta proportional to p",
    )
    yield refuted(
        proportional,
        evidence="solved curves and the closed form of the plateau at finite rates have "
        "a negative intercept: affine in p, proportional only for p -> infinity",
    )


def draw_2(data: "Dataset") -> "Figure":
    """Draw samples to half the loss against the rate, and the best rate against p."""
    width, teachers = data["shown"].values.tolist()
    title = "The learning rate that escapes with the fewest samples"
    small = (
        f"Left: $p = {width}$, $p^* = {teachers}$, {data.sizes['start']} starts and "
        f"their mean. Right: $p^* = {teachers}$."
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    samples, best = axes[0]
    _draw_samples(samples, data)
    _draw_best(best, data)
    label_panel(samples, "samples needed")
    label_panel(best, "best rate")
    for panel in (samples, best):
        panel.margins(x=0.04)
        legend_below(panel, handlelength=1.8)
    return figure


def _draw_samples(panel: Any, data: "Dataset") -> None:
    """Times to half the loss, and 1 / growth on the plateau through the fastest one."""
    mean = data["times"].mean("start")
    dots = {"color": COLORS[0], "markerfacecolor": "white"}
    panel.plot(data["lr"], data["times"], ".", color=FAINT, markersize=3)
    panel.plot(data["lr"], mean, "o-", label="mean", **dots)
    fastest = int(np.argmin(mean.values))
    constant = float(mean[fastest] * data["growth"][fastest])
    law = {"color": COLORS[1], "linestyle": DASHES[1]}
    label = "1 / growth on the plateau"
    panel.plot(data["lr"], constant / data["growth"], label=label, **law)
    standstill = float(data["shown_standstill"])
    panel.axvline(standstill, color=INK, linestyle=DASHES[2], label="standstill")
    panel.set(xlabel=RATE, ylabel=r"$\alpha_c$: half of the loss", yscale="log")


def _draw_best(panel: Any, data: "Dataset") -> None:
    """The best rate against p with its straight line, and rates in closed form."""
    slope, intercept, fit = line_through(data["p"].values, data["best"].values)
    dots = {"color": COLORS[0], "markerfacecolor": "white"}
    panel.plot(data["p"], data["best"], "o", label="best, by solving", **dots)
    line = np.array([0.0, float(data["p"].max())])
    label = f"{slope:.3f} p {intercept:+.3f}, $R^2$ = {fit:.4f}"
    panel.plot(line, slope * line + intercept, color=COLORS[0], label=label)
    closed = {
        "on_plateau": "fastest growth on the plateau",
        "standstill": "standstill",
        "largest": "norms diverge",
    }
    for look, (name, label) in enumerate(closed.items(), start=1):
        law: dict[str, Any] = {"color": COLORS[look], "linestyle": DASHES[look]}
        panel.plot(data["p"], data[name], label=label, **law)
    panel.axhline(0.0, color=FAINT, linewidth=0.8)
    panel.set(xlabel="student units $p$", ylabel=r"$\eta$")


PRINTED: dict[str, Any] = {
    "width": 3,
    "teachers": 3,
    "overlap": 0.01,
    "starts": 20,
    "seed": 1,
}
LR_SHARES = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7]
LR_SHARES += [0.75, 0.8, 0.85, 0.9, 0.95]

FIGURES = (
    Replica(
        id="quad-2",
        source="quad",
        figure="Fig. 2",
        title="the best learning rate, and how it grows with the student",
        full=PRINTED
        | {
            "lr_shares": LR_SHARES,
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
