"""Logistic regression by gradient descent: separable labels, noisy labels, weight decay.

Labels of a teacher without noise can be separated: the loss has no minimum, and the norm
of the weights grows with the logarithm of the number of steps (Soudry et al. 2018).
Flipped labels of enough samples cannot be separated, and weight decay gives a minimum,
whose overlaps are known without any dynamics.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import GUIDE
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

FLIP = 0.1


def problem(ratio: float, flip: float, lr: float, decay: float) -> "tu.Problem":
    """A logistic unit learns the sign of another one."""
    unit = tu.Network(1, "linear")
    return tu.Problem(
        unit,
        unit,
        labels=tu.labels.Sign(flip=flip),
        loss="logistic",
        optimizer=tu.optimizers.GradientDescent(lr, weight_decay=decay),
        data=tu.DataSet(ratio),
    )


def compute_5(
    ratios: list[float],
    noisy_ratio: float,
    decays: list[float],
    steps: int,
    lr: float,
    paths: int,
    seed: int,
) -> "Dataset":
    """Return curves of separable and noisy labels, and of weight decay with its end."""
    import xarray as xr

    start = tu.Start(R=[[0.1]], Q=[[0.5]])
    times = np.unique(np.geomspace(1, steps, 40).astype(int))
    times = np.append(0, times)
    moments = tu.Sampled(paths, seed)
    cases = [(ratio, 0.0, 0.0) for ratio in ratios]
    cases.append((noisy_ratio, FLIP, 0.0))
    cases += [(noisy_ratio, FLIP, decay) for decay in decays]
    parts = []
    for ratio, flip, decay in cases:
        task = problem(ratio, flip, lr, decay)
        parts.append(_curves(tu.solve(task, start, times, moments=moments)))
    data = xr.concat(parts, dim="case")
    ratio, flip, decay = np.array(cases).T
    data = data.assign_coords(ratio=("case", ratio), flip=("case", flip))
    data = data.assign_coords(decay=("case", decay))
    overlaps = np.full((len(cases), 3), np.nan)
    for i in range(len(ratios) + 1, len(cases)):
        task = problem(*cases[i][:2], lr, cases[i][2])
        end = tu.analysis.empirical_minimum(task)
        values = [np.ravel(x)[0] for x in (end.R, end.Q, end.train_loss)]
        overlaps[i] = values
    data["minimum"] = (("case", "overlap"), overlaps)
    return data.assign(steps=steps, separable=len(ratios))


def _curves(theory: "tu.Trajectory") -> "Dataset":
    import xarray as xr

    curves = {
        "R": theory.R[:, 0, 0],
        "Q": theory.Q[:, 0, 0],
        "train": theory.train_loss,
        "error": theory.error,
        "Q_bound": theory.sampling_errors["Q"][:, 0, 0],
    }
    variables = {name: ("time", values) for name, values in curves.items()}
    return xr.Dataset(variables, coords={"time": theory.times})


def slopes(case: "Dataset") -> tuple[float, float]:
    """Return d norm / d ln t over the last decade, of its first and its second half."""
    last = float(case["time"][-1])
    late = case.sel(time=slice(last / 10, last))
    middle = np.sqrt(10) * last / 10
    halves = (late.sel(time=slice(0, middle)), late.sel(time=slice(middle, last)))
    return tuple(_slope(half) for half in halves)  # type: ignore[return-value]


def _slope(curves: "Dataset") -> float:
    logs = np.log(curves["time"].values)
    return float(np.polyfit(logs, np.sqrt(curves["Q"].values), 1)[0])


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """The norm grows with the logarithm of time only where labels are separable."""
    separable = int(data["separable"])
    grown = []
    for i in range(separable):
        case = data.isel(case=i)
        first, second = slopes(case)
        grown.append(second)
        name = f"separable, ratio {float(case['ratio']):g}"
        yield close(
            f"{name}: slope of the norm in ln t, second half decade over the first",
            second / first,
            1.0,
            absolute=0.25,
        )
        yield below(f"{name}: training loss at the end", case["train"][-1], 0.15)
    noisy = data.isel(case=separable)
    _, second = slopes(noisy)
    yield at_most(
        "flipped labels: slope of the norm in ln t over that of separable labels",
        second / min(grown),
        0.35,
    )
    yield above("flipped labels: training loss at the end", noisy["train"][-1], 0.2)
    for i in range(separable + 1, data.sizes["case"]):
        case = data.isel(case=i)
        last = case.isel(time=-1)
        words = f"decay {float(case['decay']):g}: {{}} at the end over the minimum"
        for place, name in enumerate(("R", "Q", "train")):
            ratio = float(last[name]) / float(case["minimum"][place])
            yield close(words.format(name), ratio, 1.0, rel=0.03)
    first, last = data["minimum"].values[[separable + 1, -1], 1]
    yield below(
        "minimum of the other decay, which must differ: ratio of Q", last / first, 0.8
    )


def draw_5(data: "Dataset") -> "Figure":
    """Norm and test error against the number of steps."""
    title = "Logistic regression on a data set"
    small = "Gradient descent. Dotted: the minimum of the regularized loss."
    figure, axes = panel_grid(1, 2, title, small, height=3.4)
    for i in range(data.sizes["case"]):
        case = data.isel(case=i, time=slice(1, None))
        ratio = float(case["ratio"])
        name = f"ratio {ratio:g}"
        if float(case["flip"]) > 0:
            name += f", flips, decay {float(case['decay']):g}"
        look = {"color": COLORS[i % 7], "linestyle": DASHES[i % len(DASHES)]}
        norm = np.sqrt(case["Q"])
        axes[0, 0].semilogx(case["time"], norm, **look, label=name)
        axes[0, 1].loglog(case["time"], case["error"], **look)
        if np.isfinite(case["minimum"][1]):
            axes[0, 0].axhline(float(np.sqrt(case["minimum"][1])), **GUIDE)
    axes[0, 0].legend()
    axes[0, 0].set_ylabel(r"norm $\sqrt{Q}$")
    axes[0, 1].set_ylabel("test error")
    label_panel(axes[0, 0], "Norm of the weights")
    label_panel(axes[0, 1], "Share of wrong signs on fresh samples")
    for panel in axes[0]:
        panel.set_xlabel("steps")
    return figure


FIGURES = (
    Replica(
        id="data-5",
        source="data",
        figure="Logistic regression",
        title="separable labels, noisy labels and weight decay by gradient descent",
        full={
            "ratios": [0.8, 2.0],
            "noisy_ratio": 8.0,
            "decays": [0.05, 0.2],
            "steps": 800,
            "lr": 2.0,
            "paths": 2**15,
            "seed": 1,
        },
        quick={
            "ratios": [0.8],
            "noisy_ratio": 8.0,
            "decays": [0.05, 0.2],
            "steps": 120,
            "lr": 2.0,
            "paths": 2**13,
            "seed": 1,
        },
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
)
