"""Dropout of hidden units in an overparameterized student with label noise: late in learning, keeping all units is best."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, between, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

DIGITS = {0.5: 0.0367, 0.8: 0.0128, 0.9: 0.0085, 0.95: 0.0072, 1.0: 0.0067}
SMALL = {
    3.0: 0.07929251,
    15.0: 0.04875065,
    30.0: 0.04858041,
    60.0: 0.04883478,
}  # two units, keep 0.8
PAIR: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}
FOUR: dict[str, Any] = {
    "R": [[0.3, 0.05], [0.02, 0.2], [0.1, 0.15], [0.2, 0.1]],
    "Q": (0.4 * np.eye(4) + 0.1).tolist(),
    "readout": [0.6, 0.4, 0.3, 0.2],
}


def dropped(units: int, keep: float, lr: float, noise: float = 0.0) -> "tu.Problem":
    """Erf units learn from two others; the readouts of four units learn too, those of two are one."""
    student = tu.Network(units, "erf", train_readout=units > 2)
    return tu.Problem(
        student,
        tu.Network(2, "erf"),
        noise=noise,
        optimizer=tu.SGD(lr),
        rule=tu.rules.Dropout(keep),
    )


def compute_6(
    lr: float,
    noise: float,
    end: float,
    points: int,
    early: float,
    early_lr: float,
    early_noise: float,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Theory of four units for several keep, late and early; two units: digits, runs and the wrong theory."""
    from tutelage_papers.bands import against_runs

    four = tu.Start(**FOUR)
    pair = tu.Start(**PAIR)
    keeps = list(DIGITS)
    late = tu.solve_batch(
        dropped(4, 1.0, lr, noise),
        {"rule.keep": keeps},
        four,
        tu.linear_times(end, points),
    )
    noisy = dropped(4, 1.0, early_lr, early_noise)
    first = tu.solve_batch(
        noisy, {"rule.keep": keeps}, four, tu.linear_times(early, points)
    )
    digits = np.interp(
        np.arange(11), [0, 3, 5, 7, 10], [0.0, *SMALL]
    )  # as many times as the runs: one program
    small = tu.solve(dropped(2, 0.8, lr), pair, digits)
    data = against_runs(
        dropped(2, 0.8, lr),
        pair,
        dim=dim,
        times=tu.linear_times(runs_end, 11),
        runs=runs,
        seed=seed,
    )
    return data.assign(
        late_error=(("keep", "late"), np.asarray(late.error)),
        early_error=(("keep", "early"), np.asarray(first.error)),
        small_error=("digit", np.asarray(small.error)),
        keep=keeps,
        late=np.asarray(late.times).reshape(-1, points)[0],
        early=np.asarray(first.times).reshape(-1, points)[0],
        digit=digits,
        dim=dim,
        runs=runs,
    )


def claims_6(data: "Dataset") -> list[Claim]:
    """Digits, the order of the errors late in learning, and the small gain early."""
    from tutelage_papers.bands import inside_claims

    small = data["small_error"]
    late = data["late_error"].isel(late=-1)
    early = data["early_error"].isel(early=-1)
    claims = [
        close(
            f"two units, keep 0.8: e_g({t:g})", float(small.sel(digit=t)), x, rel=1e-6
        )
        for t, x in SMALL.items()
    ]
    end = float(data["late"][-1])
    claims += [
        close(f"keep {k:g}: e_g({end:g})", float(late.sel(keep=k)), x, rel=0.015)
        for k, x in DIGITS.items()
    ]
    best = float(data["keep"][int(late.argmin("keep"))])
    gain = 1 - float(early.min()) / float(early.sel(keep=1.0))
    return [
        *claims,
        close(f"best keep at alpha = {end:g}", best, 1.0, rel=1e-9),
        between(
            f"largest gain at alpha = {float(data['early'][-1]):g} with strong noise",
            gain,
            0.0,
            0.02,
        ),
        *inside_claims(data, f"two units, keep 0.8, N = {int(data['dim'])}"),
    ]


def draw_6(data: "Dataset") -> "Figure":
    """The error for several keep, late and early, and runs of two units."""
    small = (
        "Left: label noise 0.3, rate 1. Middle: label noise 1, rate 0.5. Right: two units; line: theory; marks: mean of "
        f"{int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors of it."
    )
    figure, axes = panel_grid(
        1, 3, "Dropout of hidden units", small, height=3.0, width=10.5
    )
    left, middle, right = axes[0]
    for i, keep in enumerate(data["keep"].values):
        look: dict[str, Any] = {
            "color": COLORS[i],
            "linestyle": DASHES[i % len(DASHES)],
            "label": f"keep {keep:g}",
        }
        left.plot(data["late"], data["late_error"].sel(keep=keep), **look)
        middle.plot(data["early"], data["early_error"].sel(keep=keep), **look)
    draw_band(
        right,
        data["time"].values,
        data["error"],
        data["error_mean"],
        data["error_se"],
        label="keep 0.8",
    )
    right.plot(
        data["time"],
        data["error_wrong"],
        color=FAINT,
        linestyle=DASHES[2],
        linewidth=1.2,
        label="0.9 G",
    )
    for panel, text in zip(axes[0], ("late", "early", "networks"), strict=True):
        panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


PRINTED: dict[str, Any] = {
    **{"lr": 1.0, "noise": 0.3, "end": 400.0, "points": 101},
    **{"early": 30.0, "early_lr": 0.5, "early_noise": 1.0, "seed": 6},
}

FIGURES = (
    Replica(
        id="rules-6",
        source="rules",
        figure="dropout",
        title="Dropout of hidden units under label noise",
        full=PRINTED | {"runs_end": 15.0, "dim": 1000, "runs": 200},
        quick=PRINTED | {"runs_end": 5.0, "dim": 400, "runs": 60},
        compute=compute_6,
        draw=draw_6,
        claims=claims_6,
    ),
)
