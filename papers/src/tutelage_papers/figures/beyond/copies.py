"""Students with twice or four times the units of the teacher, reduced to the teacher.

Both layers are trained. The units end as copies of the teacher units, and
`analysis.reduced` merges them (expand and cluster: Martinelli et al. 2023). Copies of one
unit approach each other only as alpha^(-1/2) (soft modes, ext-1), and merging them is
right to first order in their distance. So the errors of the full and of the reduced
student both fall as alpha^(-2). With label noise the scatter of the copies is small, and
merging does not change the error.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.drawing import line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 2


def compute_copies(
    factors: list[int],
    end: float,
    lr: float,
    noisy_lr: float,
    noise: float,
    noisy_end: float,
    seed: int,
) -> "Dataset":
    """Return errors of full and reduced students along gradient flow and with noise.

    factors: student units over teacher units. Gradient flow for time `end`, and SGD with
    label noise for time `noisy_end`.
    """
    import xarray as xr

    times = np.concatenate([[0.0], np.geomspace(10.0, end, 25)])
    noisy_times = np.concatenate([[0.0], np.geomspace(10.0, noisy_end, 9)])
    columns: dict[str, list] = {name: [] for name in COLUMNS}
    for factor in factors:
        problem = _student(factor * TEACHERS, lr, 0.0)
        start = _start(problem, seed)
        flow = tu.solve(problem, start, times, gradient_flow=True, **TOLERANCES)
        columns["full"].append(flow.error)
        columns["reduced"].append([_reduced_error(flow, i) for i in range(times.size)])
        found: Any = tu.analysis.reduced(flow)
        columns["units"].append(found.problem.student.hidden)
        columns["blind"].append(_blind_error(flow, found))

        noisy = _student(factor * TEACHERS, noisy_lr, noise)
        theory = tu.solve(noisy, start, noisy_times)
        few: Any = tu.analysis.reduced(theory)
        columns["noisy_full"].append(theory.error[-1])
        columns["noisy_reduced"].append(few.error)
        columns["noisy_units"].append(few.problem.student.hidden)
    variables = {name: (COLUMNS[name], values) for name, values in columns.items()}
    return xr.Dataset(variables, coords={"factor": factors, "time": times})


COLUMNS = {
    "full": ("factor", "time"),
    "reduced": ("factor", "time"),
    "units": ("factor",),
    "blind": ("factor",),
    "noisy_full": ("factor",),
    "noisy_reduced": ("factor",),
    "noisy_units": ("factor",),
}
TOLERANCES = {"rtol": 1e-8, "atol": 1e-13, "max_steps": 400_000}


def _student(units: int, lr: float, noise: float) -> "tu.Problem":
    """Return a student of which both layers are trained."""
    student = tu.Network(units, "erf", readout=TEACHERS / units, train_readout=True)
    teacher = tu.Network(TEACHERS, "erf")
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


def _start(problem: "tu.Problem", seed: int) -> "tu.Start":
    """Return random overlaps with the teachers of order one, and orthogonal units."""
    K = problem.student.hidden
    R = 0.3 * np.random.default_rng(seed).standard_normal((K, TEACHERS))
    return tu.Start(R, R @ R.T + 0.2 * np.eye(K))


def _reduced_error(flow: "tu.Trajectory", index: int) -> float:
    """Return the error of the reduced student at one recorded time."""
    until = {name: values[: index + 1] for name, values in flow.variables.items()}
    early = tu.Trajectory(
        times=flow.times[: index + 1],
        variables=until,
        error=flow.error[: index + 1],
        status_code=flow.status_code,
        end_time=flow.times[index],
        steps=flow.steps,
        T=flow.T,
        problem=flow.problem,
        start=flow.start,
    )
    fewer_units: Any = tu.analysis.reduced(early)
    return fewer_units.error


def _blind_error(flow: "tu.Trajectory", found: "tu.analysis.Reduced") -> float:
    """Return the error if copies are dropped instead of merged, which must fail."""
    first = [
        int(np.flatnonzero(found.units == new)[0])
        for new in range(len(found.combination))
    ]
    R = flow.R[-1][first]
    Q = flow.Q[-1][np.ix_(first, first)]
    readout = flow.readout[-1][first]
    return float(tu.generalization_error(found.problem, R, Q, flow.T, readout=readout))


def claims_copies(data: "Dataset") -> Iterator[Claim]:
    """Yield the number of units, the errors, their power, and the case with noise."""
    for factor in data["factor"].values:
        part = data.sel(factor=factor)
        who = f"K = {factor} M"
        yield close(
            f"{who}: units after the reduction", part["units"], TEACHERS, absolute=0
        )
        yield at_most(f"{who}: error after the reduction", part["reduced"][-1], 1e-6)
        yield above(
            f"{who}: error if copies are dropped, not merged, which must fail",
            part["blind"],
            1e-6,
        )
        last = data["time"] > 0.02 * float(data["time"][-1])
        t = np.log(data["time"][last])
        slope = np.polyfit(t, np.log(part["full"][last]), 1)[0]
        yield close(f"{who}: d ln e_g / d ln alpha, full", slope, -2.0, absolute=0.3)
        yield close(
            f"{who}, label noise: units after the reduction",
            part["noisy_units"],
            TEACHERS,
            absolute=0,
        )
        yield close(
            f"{who}, label noise: error after the reduction against the full one",
            part["noisy_reduced"],
            part["noisy_full"],
            rel=0.05,
        )


def draw_copies(data: "Dataset") -> "Figure":
    """Draw the errors of full and reduced students."""
    small = "erf, M = 2, both layers trained, gradient flow; the reduced student at each time"
    figure, axes = panel_grid(
        1, 2, "Wide students are reduced to the size of the teacher", small, height=3.2
    )
    times = data["time"].values[1:]
    for place, name in enumerate(("full", "reduced")):
        axes[0, place].set(xscale="log", yscale="log", xlabel=TIME, ylabel=ERROR)
        label_panel(axes[0, place], f"{name} student")
        for index, factor in enumerate(data["factor"].values):
            error = np.maximum(data[name].sel(factor=factor).values[1:], 1e-16)
            axes[0, place].plot(times, error, label=f"K = {factor} M", **line_of(index))
    axes[0, 1].legend()
    return figure


PRINTED = {
    "lr": 1.0,
    "noisy_lr": 0.5,
    "noise": 0.1,
    "noisy_end": 2e5,
    "seed": 3,
}

FIGURES = (
    Replica(
        id="ext-3",
        source="beyond",
        figure="expand and cluster",
        title="wide students are reduced to the size of the teacher",
        full=PRINTED | {"factors": [2, 4], "end": 1e7},
        quick=PRINTED | {"factors": [2], "end": 1e5},
        compute=compute_copies,
        draw=draw_copies,
        claims=claims_copies,
    ),
)
