"""Specialization and forgetting, decided by the scales of both layers at the start.

Both layers are trained. The first layer begins with squared length s^2 and the readouts
with v. One task: a committee of two erf units, and the time at which it specializes. Two
tasks in sequence with a head each: how much of the first task the second one costs. A
theory of initialization was published for deep linear and two-layer networks (Jarvis et
al. 2025); here the whole plane is solved, and runs are compared at its corners. The first
layer is not smaller than 0.1: below, overlaps with the teachers are smaller than the noise
of SGD, which then decides when units specialize. At readouts of 2 the rate is close to the
critical one, and corrections of order 1/N are visible at N = 1000.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

COSINES = np.array([[0.30, 0.05], [0.02, 0.20]])  # of student with teacher units
BETWEEN = np.array([[1.0, 0.1], [0.1, 1.0]])  # of student units with each other
HEADS = np.array([[1.0, 0.4], [0.8, -0.4]])  # of two tasks, in units of the scale


def compute_plane(
    lengths: list[float],
    readouts: list[float],
    lr: float,
    end: float,
    switch: float,
    similarity: float,
    dim: int,
    runs: int,
    band_end: float,
    seed: int,
) -> "Dataset":
    """Return specialization times and forgetting over the plane, and runs at its corners."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    one = _one_task(lr)
    two = _two_tasks(lr, switch, similarity)
    times = tu.linear_times(end, 401)
    task_times = np.array([0.0, switch, 2 * switch])
    specialized = np.full((len(lengths), len(readouts)), np.inf)
    forgotten = np.zeros_like(specialized)
    for i, length in enumerate(lengths):
        for j, readout in enumerate(readouts):
            theory = tu.solve(one, _start(length, [readout] * 2), times)
            found: Any = tu.analysis.specialization(theory)
            time = found.transition_time
            specialized[i, j] = np.inf if time is None else time
            curve = tu.solve(
                two, _start(length, readout * HEADS, tasks=True), task_times
            )
            forgotten[i, j] = curve.error[2, 0] - curve.error[1, 0]
    corners = [(lengths[i], readouts[j]) for i in (0, -1) for j in (0, -1)]
    bands = [
        against_runs(
            one,
            _start(length, [readout] * 2),
            dim=dim,
            times=np.linspace(0.0, band_end, 16),
            runs=runs,
            seed=seed,
            factor=0.5,
        )
        for length, readout in corners
    ]
    names = [f"s = {length:g}, v = {readout:g}" for length, readout in corners]
    data = xr.concat(bands, dim=xr.DataArray(names, dims="corner", name="corner"))
    data["specialized"] = (("length", "readout_scale"), specialized)
    data["forgotten"] = (("length", "readout_scale"), forgotten)
    return data.assign_coords(length=lengths, readout_scale=readouts).assign(end=end)


def _one_task(lr: float) -> "tu.Problem":
    student = tu.Network(2, "erf", train_readout=True)
    return tu.Problem(student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=lr))


def _two_tasks(lr: float, switch: float, similarity: float) -> "tu.Problem":
    unit = tu.Network(1, "erf")
    student = tu.Network(2, "erf", train_readout=True)
    tasks = tu.Tasks([unit, unit], tu.Switch(switch), similarity=similarity)
    return tu.Problem(student, tasks, optimizer=tu.SGD(lr=lr))


def _start(length: float, readout: Any, tasks: bool = False) -> "tu.Start":
    """Return units of this length with the same directions everywhere in the plane."""
    R = length * (0.3 * COSINES if tasks else COSINES)
    return tu.Start(R, length**2 * BETWEEN, readout=np.asarray(readout))


def claims_plane(data: "Dataset") -> Iterator[Claim]:
    """Yield the runs at the corners, and how much the plane changes both numbers."""
    for corner in data["corner"].values:
        part = data.sel(corner=corner)
        yield at_least(
            f"{corner}: share of times inside the band", part["inside"], 0.95
        )
    yield below(
        "share inside the band with 0.5 G, lowest corner, which must fail",
        data["inside_wrong"].min(),
        0.95,
    )
    times = np.minimum(data["specialized"].values, float(data["end"]))
    yield above(
        "longest over shortest specialization time", times.max() / times.min(), 1.5
    )
    forgotten = data["forgotten"].values
    spread = forgotten.max() - forgotten.min()
    yield above("largest minus smallest forgetting", spread, 0.05)


def draw_plane(data: "Dataset") -> "Figure":
    """Draw both maps with their numbers."""
    small = "erf, K = 2, both layers trained. Left: one task, M = 2; right: two tasks, M = 1 each"
    figure, axes = panel_grid(
        1, 2, "The scales of the initial weights decide both", small, height=3.4
    )
    end = float(data["end"])
    times = np.minimum(data["specialized"].values, end)
    for panel, values, text in (
        (axes[0, 0], times, "time to specialize"),
        (axes[0, 1], data["forgotten"].values, "forgetting of the first task"),
    ):
        panel.imshow(values, origin="lower", aspect="auto", cmap="Blues", alpha=0.6)
        for (i, j), value in np.ndenumerate(values):
            mark = f"> {end:.0f}" if value >= end else f"{value:.3g}"
            panel.text(j, i, mark, ha="center", va="center", fontsize=7)
        panel.set_xticks(
            range(data.sizes["readout_scale"]), data["readout_scale"].values
        )
        panel.set_yticks(range(data.sizes["length"]), data["length"].values)
        panel.set(xlabel="readout scale v", ylabel="first-layer scale s")
        panel.grid(visible=False)
        label_panel(panel, text)
    return figure


PRINTED = {
    "lr": 0.5,
    "end": 600.0,
    "switch": 60.0,
    "similarity": 0.5,
    "dim": 1000,
    "band_end": 30.0,
    "seed": 2,
}

FIGURES = (
    Replica(
        id="ext-2",
        source="beyond",
        figure="initialization",
        title="scales of both layers against specialization and forgetting",
        full=PRINTED
        | {
            "lengths": [0.1, 0.2, 0.5, 1.0, 2.0],
            "readouts": [0.03, 0.1, 0.3, 1.0, 2.0],
            "runs": 100,
            "dim": 4000,
            "band_end": 15.0,
        },
        quick=PRINTED
        | {
            "lengths": [0.1, 1.0],
            "readouts": [0.1, 1.0],
            "runs": 60,
            "dim": 400,
            "band_end": 20.0,
        },
        compute=compute_plane,
        draw=draw_plane,
        claims=claims_plane,
    ),
)
