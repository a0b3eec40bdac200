"""What label noise leaves of the error, for students with more units than the teacher (Goldt et al. 2019)."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 2
GAP = 1e-4  # relative gap between linear response and solve
ONE = 0.0192042913  # e_g / sigma^2 at eta = 0.1 without extra units, sigma -> 0


def student(extra: int, room: int, lr: float, noise: float) -> "tu.Problem":
    """A student with `extra` units more than the teacher.

    It has room for more: further units have readout 0, with which they neither speak nor learn, so that one compiled
    program serves every number of extra units.
    """
    speaks = (np.arange(TEACHERS + room) < TEACHERS + extra).astype(float)
    student = tu.Network(TEACHERS + room, "erf", readout=speaks)
    teacher = tu.Network(TEACHERS, "erf")
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


def compute_floor(
    extras: list[int],
    lrs: list[float],
    noise: float,
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
) -> "Dataset":
    """The final error for each number of extra units and each learning rate, by three routes.

    floor: linear response, per variance of the noise; exact, exact_half: the fixed point of the dynamics at the noise and
    at half of it; solved: the dynamics itself at time end / lr. NaN where zero error is unstable even without noise, above
    the rates `critical`. floor_fine: linear response on the finer grid of rates lr_fine.
    """
    import xarray as xr

    fine = np.geomspace(min(lrs), max(lrs), 121)
    columns: dict[str, Any] = {
        name: np.full((len(extras), len(lrs)), np.nan)
        for name in ("floor", "exact", "exact_half", "solved")
    }
    columns["floor_fine"], critical = np.full((len(extras), fine.size), np.nan), []
    for i, extra in enumerate(extras):
        response = tu.analysis.noise_floor(
            student(extra, max(extras), min(lrs), noise)
        ).dynamics
        critical.append(_last_stable(response))
        columns["floor_fine"][i] = [
            response.noise_floor(lr) if lr < critical[i] else np.nan for lr in fine
        ]
        for j, lr in enumerate(lrs):
            if lr < critical[i]:
                whole, half = (
                    student(extra, max(extras), lr, share * noise)
                    for share in (1.0, 0.5)
                )
                columns["floor"][i, j] = response.noise_floor(lr)
                columns["exact"][i, j] = tu.analysis.fixed_point(whole, "perfect").error
                columns["exact_half"][i, j] = tu.analysis.fixed_point(
                    half, "perfect"
                ).error
                columns["solved"][i, j] = _long_after(whole, R, Q, end / lr)
    variables: dict[str, Any] = {
        name: (("extra", "lr"), columns[name])
        for name in ("floor", "exact", "exact_half", "solved")
    }
    variables |= {
        "floor_fine": (("extra", "lr_fine"), columns["floor_fine"]),
        "critical": ("extra", critical),
    }
    return xr.Dataset(
        variables, coords={"extra": extras, "lr": lrs, "lr_fine": fine}
    ).assign(noise=noise)


def _last_stable(response: Any) -> float:
    """The learning rate above which zero error is unstable, by bisection."""
    low = 0.0
    high = 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if response.is_stable(middle) else (low, middle)
    return low


def _long_after(
    problem: "tu.Problem", R: list[list[float]], Q: list[list[float]], end: float
) -> float:
    """e_g at a late time, from students near their teachers and extra units at exactly zero (which stay alike)."""
    K = problem.student.hidden
    start_R = np.zeros((K, TEACHERS))
    start_Q = np.zeros((K, K))
    start_R[:TEACHERS], start_Q[:TEACHERS, :TEACHERS] = R, Q
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
        return float(
            tu.solve(problem, tu.Start(start_R, start_Q), [0.0, end]).error[-1]
        )


def law(extra: Any, lr: Any) -> Any:
    """e_g(infinity) / sigma^2 to first order in eta."""
    return lr * (extra + TEACHERS / np.sqrt(3)) / (2 * np.pi)


def claims_floor(data: "Dataset") -> list[Claim]:
    """The law at the smallest rate; linear response, fixed point and solve against each other."""
    lrs = data["lr"]
    critical = data["critical"]
    variance = float(data["noise"]) ** 2
    small = float(lrs.min())
    off = [
        float(data["floor"].sel(extra=e, lr=small)) / law(e, small) - 1
        for e in data["extra"].values
    ]
    linear = variance * data["floor"]
    gap = abs(linear / data["solved"] - 1)
    exact_gap = abs(data["exact"] / data["solved"] - 1)
    high = lrs > 0.35
    ratios = (data["exact"] / linear - 1) / (4 * data["exact_half"] / linear - 1)
    orders = np.log2(ratios.where(high & (lrs < 0.95 * critical)).values)
    without = float(data["floor"].sel(extra=0, lr=0.1))
    versus = "linear response against the long-time solve"
    return [
        at_most(
            f"small-eta law against linear response at eta = {small:g}, worst of all",
            max(map(abs, off)),
            0.05,
        ),
        close(
            "e_g / sigma^2 by linear response, eta = 0.1, no extra units",
            without,
            ONE,
            rel=1e-8,
        ),
        at_most(
            f"{versus}, eta < 0.35, worst of all", float(gap.where(~high).max()), GAP
        ),
        at_most(
            "exact response at this sigma against the long-time solve, worst of all",
            float(exact_gap.max()),
            GAP,
        ),
        refuted(
            at_most(
                f"{versus}, eta > 0.35, worst of all", float(gap.where(high).max()), GAP
            ),
            evidence="terms of higher order in sigma: the gap falls as sigma^2 (next claim), the exact response has none",
        ),
        close(
            "exponent of sigma in that gap, up to 0.95 of the critical rate, worst of all",
            orders.flat[np.nanargmax(abs(orders - 2))],
            2.0,
            absolute=0.05,
        ),
    ]


def draw_floor(data: "Dataset") -> "Figure":
    """Final error against the rate; against the law; and the gap of linear response."""
    sigma = float(data["noise"])
    small = (
        f"M = 2, K = 2 + extra, erf, σ = {sigma:g}. Marks: long-time solve; lines: linear response; dotted: law of small η "
        "(left), critical rates (middle)."
    )
    figure, axes = panel_grid(
        1, 3, "What label noise leaves of the error", small, height=3.0
    )
    left, middle, right = axes[0]
    rates = data["lr"].values
    fine = data["lr_fine"].values
    for i, extra in enumerate(data["extra"].values):
        part = data.sel(extra=extra)
        look = {"color": COLORS[i % len(COLORS)]}
        marks = look | {
            "marker": MARKERS[i % len(MARKERS)],
            "markerfacecolor": "white",
            "markersize": 4.2,
        }
        left.plot(fine, part["floor_fine"], **look)
        left.plot(fine, law(extra, fine), linestyle=DASHES[2], linewidth=1.0, **look)
        left.plot(rates, part["solved"] / sigma**2, linestyle="none", **marks)
        middle.plot(fine, part["floor_fine"] / law(extra, fine), **look)
        middle.plot(
            rates,
            part["solved"] / sigma**2 / law(extra, rates),
            linestyle="none",
            **marks,
        )
        middle.axvline(
            float(part["critical"]), linestyle=DASHES[2], linewidth=0.8, **look
        )
        right.plot(
            rates,
            abs(sigma**2 * part["floor"] / part["solved"] - 1),
            label=f"{extra}",
            **marks,
        )
    right.plot(
        rates,
        abs(data["exact"] / data["solved"] - 1).max("extra"),
        ".",
        color=FAINT,
        label="exact response",
    )
    right.axhline(GAP, color=INK, linewidth=0.8, linestyle=DASHES[1])
    top = float((data["solved"] / sigma**2).max())
    left.set(
        ylabel=r"$\epsilon_g(\infty)\,/\,\sigma^2$", yscale="log", ylim=(None, 3 * top)
    )
    middle.set(ylabel="the same / law of small $\\eta$", ylim=(0.9, 4.0))
    right.set(ylabel="linear response against solve", yscale="log")
    for panel, text in zip(
        axes[0], ("final error", "corrections in $\\eta$", "relative gap"), strict=True
    ):
        panel.set(
            xlabel=r"learning rate $\eta$",
            xscale="log",
            xlim=(rates[0] / 1.1, rates[-1] * 1.1),
        )
        label_panel(panel, text)
    outside_legend(right, title="extra units")
    return figure


PRINTED: dict[str, Any] = {
    "noise": 0.01,
    "R": [[0.9, 0.05], [-0.05, 0.85]],
    "Q": [[0.95, 0.02], [0.02, 0.9]],
    "end": 600.0,
}

FIGURES = (
    Replica(
        id="goldt-1",
        source="beyond",
        figure="noise floors",
        title="what label noise leaves of the error, for students with extra units",
        full=PRINTED
        | {
            "extras": [0, 1, 2, 3, 4, 5],
            "lrs": [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0],
        },
        quick=PRINTED | {"extras": [0, 2], "lrs": [0.01, 0.1, 0.3, 0.6]},
        compute=compute_floor,
        draw=draw_floor,
        claims=claims_floor,
    ),
)
