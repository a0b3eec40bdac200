"""Dropout of hidden units in an overparameterized student with label noise.

Late in learning, keeping all units is best.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, between, close
from tutelage_papers.drawing import (
    draw_error,
    draw_wrong_error,
    legend_below,
    line_of,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# By keep: the error of four units in the end.
DIGITS = {0.5: 0.0367, 0.8: 0.0128, 0.9: 0.0085, 0.95: 0.0072, 1.0: 0.0067}
# By time: the error of two units, keep 0.8.
SMALL = {3.0: 0.07929251, 15.0: 0.04875065, 30.0: 0.04858041, 60.0: 0.04883478}
PAIR: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}
FOUR: dict[str, Any] = {
    "R": [[0.3, 0.05], [0.02, 0.2], [0.1, 0.15], [0.2, 0.1]],
    "Q": (0.4 * np.eye(4) + 0.1).tolist(),
    "readout": [0.6, 0.4, 0.3, 0.2],
}


def dropped(units: int, keep: float, lr: float, noise: float = 0.0) -> "tu.Problem":
    """Erf units learn from two others.

    The readouts of four units learn too, those of two are one.
    """
    student = tu.Network(units, "erf", train_readout=units > 2)
    teacher = tu.Network(2, "erf")
    rule = tu.rules.Dropout(keep)
    return tu.Problem(student, teacher, noise=noise, optimizer=tu.SGD(lr), rule=rule)


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
    """Return theory of four units for several keep, and two units with runs.

    late_error, early_error: of four units. small_error: of two units, at the times of
    SMALL.
    """
    from tutelage_papers.bands import against_runs

    four = tu.Start(**FOUR)
    pair = tu.Start(**PAIR)
    keeps = list(DIGITS)
    late_times = tu.linear_times(end, points)
    early_times = tu.linear_times(early, points)
    quiet = dropped(4, 1.0, lr, noise)
    noisy = dropped(4, 1.0, early_lr, early_noise)
    late_curves = tu.solve_batch(quiet, {"rule.keep": keeps}, four, late_times)
    early_curves = tu.solve_batch(noisy, {"rule.keep": keeps}, four, early_times)

    # As many times as those of the runs, so that one compiled program serves both.
    two = dropped(2, 0.8, lr)
    run_times = tu.linear_times(runs_end, 11)
    digit_times = np.interp(np.arange(11), [0, 3, 5, 7, 10], [0.0, *SMALL])
    small = tu.solve(two, pair, digit_times)
    data = against_runs(two, pair, dim=dim, times=run_times, runs=runs, seed=seed)
    data["keep"] = keeps
    data["late"] = np.asarray(late_times)
    data["early"] = np.asarray(early_times)
    data["digit"] = digit_times
    data["late_error"] = (("keep", "late"), np.asarray(late_curves.error))
    data["early_error"] = (("keep", "early"), np.asarray(early_curves.error))
    data["small_error"] = ("digit", np.asarray(small.error))
    return data.assign(dim=dim, runs=runs)


def claims_6(data: "Dataset") -> Iterator[Claim]:
    """Digits, the order of the errors late in learning, and the small gain early."""
    from tutelage_papers.bands import inside_claims

    for time, error in SMALL.items():
        yield close(
            f"two units, keep 0.8: e_g({time:g})",
            data["small_error"].sel(digit=time),
            error,
            rel=1e-6,
        )
    late = data["late_error"].isel(late=-1)
    end = float(data["late"][-1])
    for keep, error in DIGITS.items():
        yield close(
            f"keep {keep:g}: e_g({end:g})", late.sel(keep=keep), error, rel=0.015
        )
    best = data["keep"][int(late.argmin("keep"))]
    yield close(f"best keep at alpha = {end:g}", best, 1.0, rel=1e-9)
    early = data["early_error"].isel(early=-1)
    yield between(
        f"largest gain at alpha = {float(data['early'][-1]):g} with strong noise",
        1 - float(early.min()) / float(early.sel(keep=1.0)),
        0.0,
        0.02,
    )
    yield from inside_claims(data, f"two units, keep 0.8, N = {int(data['dim'])}")


def draw_6(data: "Dataset") -> "Figure":
    """The error for several keep, late and early, and runs of two units."""
    small = (
        "Left: label noise 0.3, rate 1. Middle: label noise 1, rate 0.5. Right: two "
        f"units; line: theory; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; bands: ± 2 standard errors of it."
    )
    title = "Dropout of hidden units"
    figure, axes = panel_grid(1, 3, title, small, height=3.0, width=10.5)
    late, early, networks = axes[0]
    for look, keep in enumerate(data["keep"].values):
        line = line_of(look) | {"label": f"keep {keep:g}"}
        late.plot(data["late"], data["late_error"].sel(keep=keep), **line)
        early.plot(data["early"], data["early_error"].sel(keep=keep), **line)
    draw_error(networks, data, label="keep 0.8")
    draw_wrong_error(networks, data)
    label_panel(late, "late")
    label_panel(early, "early")
    label_panel(networks, "networks")
    for panel in axes[0]:
        panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
        legend_below(panel)
    return figure


PRINTED: dict[str, Any] = {
    "lr": 1.0,
    "noise": 0.3,
    "end": 400.0,
    "points": 101,
    "early": 30.0,
    "early_lr": 0.5,
    "early_noise": 1.0,
    "seed": 6,
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
