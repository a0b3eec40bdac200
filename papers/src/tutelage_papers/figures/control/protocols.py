"""How should one teach a network? The best protocols of tasks and rates, of rates alone, and of dropout and label noise.

No source prints these figures; the expectations come from independent computations and exact laws.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import (
    Claim,
    at_least,
    at_most,
    below,
    between,
    close,
    refuted,
)
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START: dict[str, Any] = {
    "R": [[0.05, 0.02], [-0.01, 0.03]],
    "Q": [[0.3, 0.02], [0.02, 0.2]],
    "readout": [[0.3, 0.1], [0.2, -0.1]],
}
RULES: dict[str, dict[str, str]] = {
    "perceptron": {"rule": "perceptron"},
    "logistic": {"loss": "logistic"},
    "AdaTron": {"rule": "adatron"},
    "Hebb": {"rule": "hebbian"},
}
HIGHEST = {
    "perceptron": 3.0,
    "logistic": 60.0,
    "AdaTron": 4.0,
    "Hebb": 3.0,
}  # learning rates
ANNEALED = 0.15  # of the time, at the end


def _baseline(data: Any, name: str) -> Any:
    """The mean error under a baseline."""
    error = np.asarray(data.baselines[name].trajectory.error)
    return error if error.ndim == 1 else error.mean(axis=1)


# Two tasks


def compute_1(
    similarity: float,
    end: float,
    highest: float,
    segments: int,
    dims: list[int],
    runs: int,
    seed: int,
) -> "Dataset":
    """The best protocol of tasks and learning rate, the best 50/50 and the sequence of both tasks, and runs of the first."""
    import xarray as xr

    unit = tu.Network(1, "erf")
    start = tu.Start(**START)
    teachers = tu.Tasks([unit, unit], similarity=similarity)
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), teachers, optimizer=tu.SGD(1.0)
    )
    others = {
        "50/50": {"tasks": 0.5},
        "one after the other": {"tasks": tu.Switch(end / 2), "lr": 1.0},
    }
    controls = {"lr": (0.0, highest), "tasks": (0.0, 1.0)}
    found = tu.schedules.optimize(
        problem, start, end, controls, segments=segments, baselines=others
    )
    each = [
        _compared(found.problem, start, dim, tu.linear_times(end, 13), runs, seed)
        for dim in dims
    ]
    return xr.concat(each, dim=xr.DataArray(dims, dims="dim", name="dim")).assign(
        lr=("segment", np.asarray(found.schedules["lr"].values)),
        share=("segment", np.asarray(found.schedules["tasks"].shares.values)),
        fine_time=found.trajectory.times,
        protocol=("fine_time", np.asarray(found.trajectory.error).mean(axis=1)),
        baseline_error=(
            ("baseline", "fine_time"),
            [_baseline(found, name) for name in found.baselines],
        ),
        baseline=list(found.baselines),
        value=found.value,
        values=("baseline", [one.value for one in found.baselines.values()]),
        starts=("start", found.starts),
        end=end,
        runs=runs,
    )


def _compared(
    problem: "tu.Problem", start: "tu.Start", dim: int, times: Any, runs: int, seed: int
) -> "Dataset":
    """Theory and runs; the shares of gaps within 4 standard errors, the 1/N gap included, also for a wrong theory."""
    from tutelage_papers.bands import band, wrong_theory

    theory = tu.solve(problem, start, times)
    wrong = wrong_theory(problem, start, times)
    seen = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    shares = [
        tu.compare(one, seen, fluctuations=False).verdict.within_bias
        for one in (theory, wrong)
    ]
    return band(theory, seen, wrong).assign(agrees=shares[0], wrong_agrees=shares[1])


def claims_1(data: "Dataset") -> list[Claim]:
    """How far below 50/50; the shape of the protocol; and whether runs agree."""
    value = float(data["value"])
    half = float(data["values"].sel(baseline="50/50"))
    share = data["share"].values
    lr = data["lr"].values
    segments = data.sizes["segment"]
    middle = share[segments // 4 : -(segments // 4)]
    last = lr[-max(2, round(ANNEALED * segments)) :]
    full = segments >= 24
    runs = []
    for dim in data["dim"].values:
        words = f"N = {dim}: share of gaps within 4 standard errors of the runs, 1/N gap included"
        runs.append(at_least(words, float(data["agrees"].sel(dim=dim)), 0.99))
        runs.append(
            below(
                f"{words}, with 0.9 G, which must fail",
                float(data["wrong_agrees"].sel(dim=dim)),
                0.99,
            )
        )
    return [
        at_least(
            "error of the best 50/50 protocol over that of the best protocol",
            half / value,
            10.0 if full else 5.0,
        ),
        close("error of 50/50 at its best constant rate", half, 0.00615, rel=0.01),
        close(
            "error of one task after the other",
            float(data["values"].sel(baseline="one after the other")),
            0.0805,
            rel=0.01,
        ),
        at_most(
            "relative gap between two starts",
            float(np.ptp(data["starts"].values) / value),
            0.05 if full else 0.2,
        ),
        between(
            "share of the first task, mean over the middle half",
            float(middle.mean()),
            0.4,
            0.6,
        ),
        at_most(
            "largest rise of the rate in the last 15%",
            float(np.max(np.diff(last))),
            0.0,
        ),
        *runs,
    ]


def draw_1(data: "Dataset") -> "Figure":
    """The protocol, and its error next to that of the baselines and of runs."""
    small = (
        f"Two erf units learn two tasks. Right: mean error of both tasks; marks: {int(data['runs'])} runs with this protocol, "
        "bands: ± 2 standard errors."
    )
    figure, axes = panel_grid(
        1, 3, "The best protocol for two tasks", small, height=3.0, width=10.5
    )
    edges = np.linspace(0.0, float(data["end"]), data.sizes["segment"] + 1)
    for panel, name, label in zip(
        axes[0],
        ("lr", "share"),
        (r"learning rate $\eta$", "share of task 1"),
        strict=False,
    ):
        panel.stairs(
            data[name].values, edges, color=COLORS[0], linewidth=1.8, baseline=None
        )
        panel.set(xlabel=TIME, ylabel=label)
        panel.set_ylim(bottom=-0.03)
    axes[0][0].set_yticks(range(4))  # short words: the label stays within the figure
    right = axes[0][2]
    right.plot(
        data["fine_time"],
        data["protocol"],
        color=COLORS[0],
        linewidth=1.8,
        label="best protocol",
    )
    for i, name in enumerate(data["baseline"].values):
        look: dict[str, Any] = {
            "color": COLORS[i + 1],
            "linestyle": DASHES[1 + i % 3],
            "linewidth": 1.4,
        }
        right.plot(
            data["fine_time"],
            data["baseline_error"].sel(baseline=name),
            label=str(name),
            **look,
        )
    times = data["time"].values
    columns = [
        data[name].isel(dim=-1).mean("task") for name in ("error_mean", "error_se")
    ]
    draw_band(right, times, np.full(times.size, np.nan), *columns, look=0)
    right.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    for panel, text in zip(axes[0], ("rate", "tasks", "error"), strict=True):
        label_panel(panel, text)
    right.legend(loc="upper right", bbox_to_anchor=(1.0, -0.2), ncols=2)
    return figure


# Learning rates of classification rules


def best_power_decay(
    problem: "tu.Problem",
    start: "tu.Start",
    end: float,
    highest: float,
    evaluations: int,
) -> tuple[float, Any]:
    """The smallest final error among schedules initial / (1 + alpha / timescale)^exponent, and the schedule."""
    from scipy.optimize import minimize

    def final(x: Any) -> float:
        decay = tu.schedules.PowerDecay(
            min(np.exp(x[0]), highest), abs(x[1]), np.exp(x[2])
        )
        return float(
            np.log(
                tu.solve(
                    problem.replace(lr=decay), start, [0.0, end], gradient="forward"
                ).error[-1]
            )
        )

    found = minimize(
        final,
        [np.log(highest / 2), 1.0, np.log(5.0)],
        method="Nelder-Mead",
        options={"maxfev": evaluations, "xatol": 1e-2},
    )
    initial = min(np.exp(found.x[0]), highest)
    exponent = abs(found.x[1])
    timescale = np.exp(found.x[2])
    return float(np.exp(found.fun)), tu.schedules.PowerDecay(
        initial, exponent, timescale
    )


def compute_2(
    R: float,
    Q: float,
    end: float,
    segments: int,
    iterations: int,
    evaluations: int,
    rules: list[str],
) -> "Dataset":
    """For each rule the best schedule of its learning rate, the best constant rate and the best power decay."""
    import xarray as xr

    unit = tu.Network(1, "linear")
    start = tu.Start([[R]], [[Q]])
    cases = []
    edges = end * np.linspace(0.0, 1.0, segments + 1) ** 2
    for name in rules:
        options: dict[str, Any] = {"labels": "sign", **RULES[name]}
        problem = tu.Problem(unit, unit, optimizer=tu.SGD(1.0), **options)
        decayed, _ = best_power_decay(problem, start, end, HIGHEST[name], evaluations)
        how: dict[str, Any] = {
            "segments": edges,
            "shape": "smooth",
            "starts": 1,
            "iterations": iterations,
        }
        found = tu.schedules.optimize(
            problem, start, end, {"lr": (0.0, HIGHEST[name])}, **how
        )
        cases.append(
            xr.Dataset(
                {
                    "lr": ("knot", np.asarray(found.schedule.values)),
                    "error": ("time", np.asarray(found.trajectory.error)),
                    "constant": ("time", _baseline(found, "best constant")),
                    "value": found.value,
                    "constant_value": found.best_constant.value,
                    "decay_value": decayed,
                },
                coords={"knot": edges, "time": found.trajectory.times},
            )
        )
    joined: Any = xr.concat(cases, dim=xr.DataArray(rules, dims="rule", name="rule"))
    return joined.assign(end=end)


def claims_2(data: "Dataset") -> list[Claim]:
    """Laws of the annealed rules, and what a free schedule gains over constant rates and power decays."""
    end = float(data["end"])
    claims = []
    laws = {"perceptron": (4 / np.pi, "4/pi"), "AdaTron": (4 / 3, "4/3")}
    for name in data["rule"].values:
        one = data.sel(rule=name)
        value, constant, decay = (
            float(one[which]) for which in ("value", "constant_value", "decay_value")
        )
        claims.append(
            at_most(
                f"{name}: final error over that of the best constant rate",
                value / constant,
                1.0001,
            )
        )
        if name in laws:
            law, words = laws[name]
            claims.append(
                close(
                    f"{name}: final error times alpha, against the law {words}",
                    value * end,
                    law,
                    rel=0.06,
                )
            )
        if name == "perceptron":
            claims.append(close("perceptron: final error", value, 0.01234, rel=0.02))
            claims.append(
                at_most(
                    "perceptron: error of the best constant rate", constant, 0.02147
                )
            )
            claims.append(
                between(
                    "perceptron: final error over that of the best power decay",
                    value / decay,
                    0.95,
                    1.02,
                )
            )
        if name == "logistic":
            claims.append(close("logistic: final error", value, 0.0095, rel=0.03))
            gain = between(
                "logistic: final error over that of the best power decay",
                value / decay,
                0.88,
                0.97,
            )
            why = (
                f"Under the same bound on the rate a power decay with a free time scale ends at {decay:.5f}, as low as the free "
                f"schedule ({value:.5f})."
            )
            claims.append(refuted(gain, why))
        if name == "Hebb":
            law = 1 / np.sqrt(2 * np.pi * end)
            claims.append(
                close(
                    "Hebb: final error over 1/sqrt(2 pi alpha)",
                    value / law,
                    1.0,
                    rel=0.05,
                )
            )
    return claims


def draw_2(data: "Dataset") -> "Figure":
    """The schedules, and the errors under them and under the best constant rates (dashed)."""
    small = f"One unit learns the sign of its teacher; final time {float(data['end']):g}. Dashed: the best constant rate."
    figure, axes = panel_grid(
        1, 2, "The best learning rate of four rules", small, height=3.2
    )
    for i, name in enumerate(data["rule"].values):
        one = data.sel(rule=name)
        look = {"color": COLORS[i], "linewidth": 1.8}
        axes[0][0].plot(
            one["knot"], np.maximum(one["lr"], 1e-3), label=str(name), **look
        )
        axes[0][1].plot(one["time"][1:], one["error"][1:], **look)
        axes[0][1].plot(
            one["time"][1:],
            one["constant"][1:],
            color=COLORS[i],
            linewidth=1.0,
            linestyle=DASHES[1],
        )
    axes[0][0].set(xlabel=TIME, ylabel=r"learning rate $\eta$", yscale="log")
    axes[0][1].set(
        xlabel=TIME, ylabel="probability of a wrong sign", xscale="log", yscale="log"
    )
    axes[0][0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    for panel, text in zip(axes[0], ("schedules", "errors"), strict=True):
        label_panel(panel, text)
    return figure


# Dropout, and a curriculum of label noise


def compute_3(
    end: float,
    noise: float,
    segments: int,
    budget: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """The best dropout, and the best order of noisy labels when their total noise is given; each with runs."""
    import xarray as xr

    student = tu.Network(4, "erf", train_readout=True)
    teacher = tu.Network(1, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(1.0), noise=noise)
    start = tu.Start(np.linspace(0.1, 0.2, 4)[:, None], 0.3 * np.eye(4))
    dropped = problem.replace(rule=tu.rules.Dropout(0.8))
    least = 0.0
    most = 2 * budget
    keep = tu.schedules.optimize(
        dropped, start, end, {"keep": (0.2, 1.0)}, segments=segments
    )
    order = tu.schedules.optimize(
        problem,
        start,
        end,
        {"noise": (least, most)},
        segments=segments,
        budgets={"noise": (budget * end, None)},
    )
    cases = []
    for found in (keep, order):
        name = next(iter(found.schedules))
        seen = np.asarray(
            tu.simulate(
                found.problem, start, dim=dim, times=[0.0, end], runs=runs, seed=seed
            ).error
        )[:, -1]
        cases.append(
            xr.Dataset(
                {
                    "control": ("segment", np.asarray(found.schedule.values)),
                    "error": ("time", np.asarray(found.trajectory.error)),
                    "constant": ("time", _baseline(found, "best constant")),
                    "constant_control": float(found.best_constant.controls[name]),
                    "value": found.value,
                    "constant_value": found.best_constant.value,
                    "mean": found.totals[name] / end,
                    "run_mean": seen.mean(),
                    "run_error": seen.std(ddof=1) / np.sqrt(runs),
                },
                coords={"time": found.trajectory.times},
            )
        )
    joined: Any = xr.concat(
        cases, dim=xr.DataArray(["dropout", "label noise"], dims="case", name="case")
    )
    return joined.assign(end=end, budget=budget, dim=dim, runs=runs)


def claims_3(data: "Dataset") -> list[Claim]:
    """Gains over the best constants; the budget is kept; noisy labels come first; runs agree."""
    keep = data.sel(case="dropout")
    order = data.sel(case="label noise")
    gain = float(order["constant_value"] / order["value"])
    noise = order["control"].values
    budget = float(data["budget"])
    claims = [
        at_most(
            "dropout: final error over that of the best constant dropout",
            float(keep["value"] / keep["constant_value"]),
            0.9,
        ),
        at_least(
            "label noise: final error of constant noise over that of the best order",
            gain,
            2.0,
        ),
        close(
            "label noise: mean over time, against the budget",
            float(order["mean"]),
            budget,
            absolute=1e-4,
        ),
        at_least(
            "label noise: first segment over last",
            float(noise[0] / max(noise[-1], 1e-9)),
            3.0,
        ),
    ]
    for name in data["case"].values:
        one = data.sel(case=name)
        gap = abs(float(one["run_mean"] - one["value"]))
        allowed = 4 * float(one["run_error"]) + 0.05 * float(one["value"])
        words = f"{name}: gap between runs (N = {int(data['dim'])}) and theory over 4 standard errors and 5%"
        claims.append(at_most(words, gap / allowed, 1.0))
    return claims


def draw_3(data: "Dataset") -> "Figure":
    """Both controls and the errors under them."""
    marks = f"{int(data['runs'])} runs, N = {int(data['dim'])}"
    small = f"Four erf units with a trained readout learn from one. Dashed: best constant; marks: {marks}."
    figure, axes = panel_grid(
        2, 2, "Dropout and noisy labels under control", small, height=2.6, sharex="col"
    )
    edges = np.linspace(0.0, float(data["end"]), data.sizes["segment"] + 1)
    labels = {"dropout": "units kept", "label noise": r"label noise $\sigma$"}
    for row, name in zip(axes, data["case"].values, strict=True):
        one = data.sel(case=name)
        row[0].stairs(
            one["control"].values,
            edges,
            color=COLORS[0],
            linewidth=1.8,
            baseline=None,
            label="best protocol",
        )
        row[0].axhline(
            float(one["constant_control"]),
            color=COLORS[1],
            linestyle=DASHES[1],
            label="best constant",
        )
        row[0].set(ylabel=labels[str(name)])
        row[0].set_ylim(bottom=0.0)
        row[1].plot(one["time"], one["error"], color=COLORS[0], linewidth=1.8)
        row[1].plot(one["time"], one["constant"], color=COLORS[1], linestyle=DASHES[1])
        bar = 2 * float(one["run_error"])
        row[1].errorbar(
            [float(data["end"])],
            [float(one["run_mean"])],
            [bar],
            fmt="o",
            color=FAINT,
            markersize=4,
        )
        row[1].set(ylabel=ERROR, yscale="log")
        label_panel(row[0], str(name))
    for panel in axes[-1]:
        panel.set_xlabel(TIME)
    axes[0][0].legend(loc="lower right")
    return figure


TASKS: dict[str, Any] = {"similarity": 0.5, "end": 60.0, "highest": 3.0, "seed": 81}
RATES: dict[str, Any] = {"R": 0.1, "Q": 0.5, "end": 100.0}
NOISE: dict[str, Any] = {"end": 20.0, "noise": 0.3, "budget": 0.5, "seed": 83}

FIGURES = (
    Replica(
        id="control-1",
        source="control",
        figure="two tasks",
        title="the best order of two tasks and the best learning rate",
        full=TASKS | {"segments": 24, "dims": [500, 2000], "runs": 100},
        quick=TASKS | {"segments": 8, "dims": [500], "runs": 40},
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
    Replica(
        id="control-2",
        source="control",
        figure="learning rates",
        title="the best learning rate of four rules of classification",
        full=RATES
        | {"segments": 16, "iterations": 100, "evaluations": 120, "rules": list(RULES)},
        quick=RATES
        | {"segments": 6, "iterations": 30, "evaluations": 40, "rules": ["perceptron"]},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
    Replica(
        id="control-3",
        source="control",
        figure="dropout and noise",
        title="the best dropout, and the best order of noisy labels",
        full=NOISE | {"segments": 12, "dim": 1000, "runs": 100},
        quick=NOISE | {"segments": 6, "dim": 500, "runs": 40},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
