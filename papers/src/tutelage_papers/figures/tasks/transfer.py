"""Transfer: how long a second task takes after the first, compared with learning it from scratch."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, label_panel, panel_grid
from tutelage_papers.claims import Claim, between, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START: dict[str, Any] = {
    "R": [[0.05, 0.02], [-0.01, 0.03]],
    "Q": [[0.3, 0.02], [0.02, 0.2]],
    "readout": [[0.3, 0.1], [0.2, -0.1]],
}
DIGITS = {0.0: 11.9, 0.1: 12.4, 0.3: 12.0, 0.5: 10.75, 0.6: 9.75, 0.8: 7.05, 1.0: 2.9}
SCRATCH = 10.45
SHOWN = (0.1, 0.5, 0.9)  # similarities whose curves are drawn


def compute_3(
    lr: float,
    switch: float,
    end: float,
    points: int,
    count: int,
    target: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Time to the target for many similarities and from scratch; the mean of some runs at one similarity."""
    import jax
    import xarray as xr

    tasks = tu.Tasks(
        [tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(switch), similarity=0.8
    )
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr)
    )
    start = tu.Start(**START)
    times = np.union1d(
        np.linspace(0.0, end - switch, points), np.linspace(switch, end, points)
    )
    V = np.linspace(0.0, 0.99, count)
    found = tu.analysis.interference(problem, start, times, V)
    scratch = tu.analysis.transfer(problem, start, times, target=target)
    at_one = np.asarray(
        jax.jit(lambda V: tu.solve(problem.replace(similarity=V), start, times).error)(
            1.0
        )
    )[:, 1]
    later = times >= switch - 1e-9
    networks = tu.simulate(
        problem, start, dim=dim, times=times[later][::4], runs=runs, seed=seed
    )
    measured = _first_below(
        networks.times - switch, np.asarray(networks.error)[..., 1].mean(axis=0), target
    )
    early = times <= end - switch + 1e-9
    return xr.Dataset(
        {
            "time_to": ("similarity", found.time_to(target)),
            "time_at_one": _first_below(times[later] - switch, at_one[later], target),
            "time_scratch": scratch.scratch,
            "time_theory": scratch.after,
            "time_runs": measured,
            "curves": (
                ("shown", "since"),
                np.array([_curve(found, v)[later] for v in SHOWN]),
            ),
            "scratch_curve": ("early", np.asarray(scratch.alone.error)[early]),
        },
        coords={
            "similarity": V,
            "shown": list(SHOWN),
            "since": times[later] - switch,
            "early": times[early],
        },
        attrs={"target": target, "dim": dim, "runs": runs},
    )


def _curve(found: Any, similarity: float) -> np.ndarray:
    return found.error[int(np.argmin(np.abs(found.similarity - similarity))), :, 1]


def _first_below(times: np.ndarray, error: np.ndarray, target: float) -> float:
    """The first time below the target, interpolated in the logarithm of the error."""
    i = int(np.argmax(error <= target))
    return float(
        np.interp(-np.log(target), -np.log(error[i - 1 : i + 1]), times[i - 1 : i + 1])
    )


def claims_3(data: "Dataset") -> list[Claim]:
    """Digits, the sign of the transfer, the slowest similarity, and networks."""
    V = data["similarity"].values
    time = data["time_to"].values
    scratch = float(data["time_scratch"])
    found = {
        v: float(data["time_at_one"]) if v == 1 else float(np.interp(v, V, time))
        for v in DIGITS
    }
    claims = [
        close(f"time to the target at V = {v:g}", found[v], x, absolute=0.06)
        for v, x in DIGITS.items()
    ]
    late = np.arange(V.size) >= np.argmax(time)
    equal = float(np.interp(-scratch, -time[late], V[late]))
    return [
        *claims,
        close("time to the target from scratch", scratch, SCRATCH, absolute=0.06),
        close(
            "similarity beyond which transfer is positive", equal, 0.53, absolute=0.01
        ),
        between(
            "similarity of the slowest transfer", float(V[np.argmax(time)]), 0.05, 0.2
        ),
        close(
            "mean of runs at V = 0.8: time to the target",
            float(data["time_runs"]),
            float(data["time_theory"]),
            rel=0.05,
        ),
    ]


def draw_3(data: "Dataset") -> "Figure":
    """Learning curves of the second task from its beginning, and the time to the target against similarity."""
    target = data.attrs["target"]
    small = f"Task 2 after 60 units of time on task 1, compared with task 2 alone. Target: error {target:g}."
    figure, axes = panel_grid(
        1, 2, "Transfer against similarity", small, height=3.2, width=9.5
    )
    left, right = axes[0]
    for i, v in enumerate(data["shown"].values):
        look: dict[str, Any] = {
            "color": COLORS[i],
            "linestyle": DASHES[i],
            "label": f"after task 1, $V={v:g}$",
        }
        left.plot(data["since"], data["curves"].sel(shown=v), **look)
    left.plot(
        data["early"],
        data["scratch_curve"],
        color=COLORS[3],
        linestyle=DASHES[3],
        label="from scratch",
    )
    left.axhline(target, color=FAINT, linewidth=0.9, label="target")
    right.plot(
        data["similarity"], data["time_to"], color=COLORS[0], label="after task 1"
    )
    right.plot(
        [1.0],
        [float(data["time_at_one"])],
        "o",
        color=COLORS[0],
        markersize=4.5,
        clip_on=False,
    )
    right.axhline(
        float(data["time_scratch"]),
        color=COLORS[3],
        linestyle=DASHES[3],
        label="from scratch",
    )
    networks = f"mean of {data.attrs['runs']} runs, $N={data.attrs['dim']}$"
    right.plot(
        [0.8],
        [float(data["time_runs"])],
        "s",
        color=COLORS[1],
        markersize=5,
        label=networks,
    )
    left.set(xlabel=r"time $\alpha$ since the task began", ylabel=ERROR, yscale="log")
    right.set(xlabel="similarity $V$ of the tasks", ylabel="time to the target")
    right.set_ylim(bottom=0.0)
    for panel, text in zip(
        axes[0], ("learning curves of task 2", "time to learn task 2"), strict=True
    ):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


PRINTED: dict[str, Any] = {
    "lr": 1.0,
    "switch": 60.0,
    "end": 76.0,
    "target": 0.01,
    "seed": 73,
}

FIGURES = (
    Replica(
        id="tasks-3",
        source="tasks",
        figure="transfer",
        title="Transfer: a second task after the first, against learning from scratch",
        full=PRINTED | {"points": 161, "count": 100, "dim": 1000, "runs": 40},
        quick=PRINTED | {"points": 81, "count": 34, "dim": 300, "runs": 20},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
