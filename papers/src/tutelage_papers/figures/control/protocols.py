"""The best way to teach a network: protocols of tasks, rates, dropout and noise.

No source prints these figures; the expectations come from independent computations and
exact laws.
"""

from collections.abc import Iterator
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
from tutelage_papers.drawing import draw_band, legend_below, line_of
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
# Largest learning rates that a schedule may take.
HIGHEST = {"perceptron": 3.0, "logistic": 60.0, "AdaTron": 4.0, "Hebb": 3.0}
ANNEALED = 0.15  # of the time, at the end


def _baseline(data: Any, name: str) -> Any:
    """The mean error under a baseline."""
    error = np.asarray(data.baselines[name].trajectory.error)
    if error.ndim == 1:
        return error
    return error.mean(axis=1)


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
    """Return the best protocol of tasks and learning rate with runs, and its baselines.

    The baselines are the best 50/50 and the sequence of both tasks.
    """
    import xarray as xr

    unit = tu.Network(1, "erf")
    student = tu.Network(2, "erf", train_readout=True)
    teachers = tu.Tasks([unit, unit], similarity=similarity)
    problem = tu.Problem(student, teachers, optimizer=tu.SGD(1.0))
    start = tu.Start(**START)
    design = tu.schedules.optimize(
        problem,
        start,
        end,
        {"lr": (0.0, highest), "tasks": (0.0, 1.0)},
        segments=segments,
        baselines={
            "50/50": {"tasks": 0.5},
            "one after the other": {"tasks": tu.Switch(end / 2), "lr": 1.0},
        },
    )
    names = list(design.baselines)
    times = tu.linear_times(end, 13)
    parts = [_compared(design.problem, start, dim, times, runs, seed) for dim in dims]
    data = xr.concat(parts, dim=xr.DataArray(dims, dims="dim", name="dim"))
    data["lr"] = ("segment", np.asarray(design.schedules["lr"].values))
    data["share"] = ("segment", np.asarray(design.schedules["tasks"].shares.values))
    data["fine_time"] = design.trajectory.times
    data["baseline"] = names
    protocol = np.asarray(design.trajectory.error).mean(axis=1)
    data["protocol"] = ("fine_time", protocol)
    data["baseline_error"] = (
        ("baseline", "fine_time"),
        [_baseline(design, name) for name in names],
    )
    data["value"] = design.value
    data["values"] = ("baseline", [design.baselines[name].value for name in names])
    data["starts"] = ("start", design.starts)
    data["end"] = end
    data["runs"] = runs
    return data


def _compared(
    problem: "tu.Problem", start: "tu.Start", dim: int, times: Any, runs: int, seed: int
) -> "Dataset":
    """Theory, runs, and the share of gaps within 4 standard errors (1/N included).

    wrong_agrees: that share of a wrong theory.
    """
    from tutelage_papers.bands import band, wrong_theory

    theory = tu.solve(problem, start, times)
    wrong = wrong_theory(problem, start, times)
    seen = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    right_gaps = tu.compare(theory, seen, fluctuations=False)
    wrong_gaps = tu.compare(wrong, seen, fluctuations=False)
    return band(theory, seen, wrong).assign(
        agrees=right_gaps.verdict.within_bias,
        wrong_agrees=wrong_gaps.verdict.within_bias,
    )


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """The gain over 50/50, the shape of the protocol, and the agreement of runs."""
    value = float(data["value"])
    half = float(data["values"].sel(baseline="50/50"))
    share = data["share"].values
    lr = data["lr"].values
    segments = data.sizes["segment"]
    full = segments >= 24
    yield at_least(
        "error of the best 50/50 protocol over that of the best protocol",
        half / value,
        10.0 if full else 5.0,
    )
    yield close("error of 50/50 at its best constant rate", half, 0.00615, rel=0.01)
    yield close(
        "error of one task after the other",
        data["values"].sel(baseline="one after the other"),
        0.0805,
        rel=0.01,
    )
    yield at_most(
        "relative gap between two starts",
        np.ptp(data["starts"].values) / value,
        0.05 if full else 0.2,
    )
    quarter = segments // 4
    yield between(
        "share of the first task, mean over the middle half",
        share[quarter:-quarter].mean(),
        0.4,
        0.6,
    )
    last = lr[-max(2, round(ANNEALED * segments)) :]
    yield at_most(
        "largest rise of the rate in the last 15%", np.max(np.diff(last)), 0.0
    )
    for dim in data["dim"].values:
        part = data.sel(dim=dim)
        words = (
            f"N = {dim}: share of gaps within 4 standard errors of the runs, "
            "1/N gap included"
        )
        yield at_least(words, part["agrees"], 0.99)
        yield below(f"{words}, with 0.9 G, which must fail", part["wrong_agrees"], 0.99)


def draw_1(data: "Dataset") -> "Figure":
    """The protocol, and its error next to that of the baselines and of runs."""
    small = (
        "Two erf units learn two tasks. Right: mean error of both tasks; marks: "
        f"{int(data['runs'])} runs with this protocol, bands: ± 2 standard errors."
    )
    title = "The best protocol for two tasks"
    figure, axes = panel_grid(1, 3, title, small, height=3.0, width=10.5)
    rate, tasks, error = axes[0]
    _draw_steps(rate, data, "lr", r"learning rate $\eta$")
    _draw_steps(tasks, data, "share", "share of task 1")
    rate.set_yticks(range(4))  # short words: the label stays within the figure
    _draw_protocol_error(error, data)
    label_panel(rate, "rate")
    label_panel(tasks, "tasks")
    label_panel(error, "error")
    return figure


def _draw_steps(panel: Any, data: "Dataset", name: str, label: str) -> None:
    """A control that is constant within each segment."""
    edges = np.linspace(0.0, float(data["end"]), data.sizes["segment"] + 1)
    look = {"color": COLORS[0], "linewidth": 1.8, "baseline": None}
    panel.stairs(data[name].values, edges, **look)
    panel.set(xlabel=TIME, ylabel=label)
    panel.set_ylim(bottom=-0.03)


def _draw_protocol_error(panel: Any, data: "Dataset") -> None:
    fine = data["fine_time"]
    look = {"color": COLORS[0], "linewidth": 1.8}
    panel.plot(fine, data["protocol"], **look, label="best protocol")
    for place, name in enumerate(data["baseline"].values):
        line = line_of(place + 1, dashes=1 + place % 3)
        error = data["baseline_error"].sel(baseline=name)
        panel.plot(fine, error, **line, linewidth=1.4, label=str(name))
    # The band alone: the line of the theory is the best protocol above.
    times = data["time"].values
    largest = data.isel(dim=-1)
    mean = largest["error_mean"].mean("task")
    error = largest["error_se"].mean("task")
    draw_band(panel, times, np.full(times.size, np.nan), mean, error)
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    panel.legend(loc="upper right", bbox_to_anchor=(1.0, -0.2), ncols=2)


# Learning rates of classification rules


def best_power_decay(
    problem: "tu.Problem",
    start: "tu.Start",
    end: float,
    highest: float,
    evaluations: int,
) -> tuple[float, Any]:
    """Return the smallest final error among power decays, and the schedule.

    They are initial / (1 + alpha / timescale)^exponent.
    """
    from scipy.optimize import minimize

    def decay(x: Any) -> Any:
        log_initial, exponent, log_timescale = x
        initial = min(np.exp(log_initial), highest)
        return tu.schedules.PowerDecay(initial, abs(exponent), np.exp(log_timescale))

    def log_final_error(x: Any) -> float:
        scheduled = problem.replace(lr=decay(x))
        solved = tu.solve(scheduled, start, [0.0, end], gradient="forward")
        return float(np.log(solved.error[-1]))

    best = minimize(
        log_final_error,
        [np.log(highest / 2), 1.0, np.log(5.0)],
        method="Nelder-Mead",
        options={"maxfev": evaluations, "xatol": 1e-2},
    )
    return float(np.exp(best.fun)), decay(best.x)


def compute_2(
    R: float,
    Q: float,
    end: float,
    segments: int,
    iterations: int,
    evaluations: int,
    rules: list[str],
) -> "Dataset":
    """Return the best schedule, constant rate and power decay of each rule."""
    import xarray as xr

    unit = tu.Network(1, "linear")
    start = tu.Start([[R]], [[Q]])
    edges = end * np.linspace(0.0, 1.0, segments + 1) ** 2
    cases = []
    for name in rules:
        highest = HIGHEST[name]
        options: dict[str, Any] = {"labels": "sign", **RULES[name]}
        problem = tu.Problem(unit, unit, optimizer=tu.SGD(1.0), **options)
        decayed, _ = best_power_decay(problem, start, end, highest, evaluations)
        design = tu.schedules.optimize(
            problem,
            start,
            end,
            {"lr": (0.0, highest)},
            segments=edges,
            shape="smooth",
            starts=1,
            iterations=iterations,
        )
        times = design.trajectory.times
        case = xr.Dataset(coords={"knot": edges, "time": times})
        case["lr"] = ("knot", np.asarray(design.schedule.values))
        case["error"] = ("time", np.asarray(design.trajectory.error))
        case["constant"] = ("time", _baseline(design, "best constant"))
        case["value"] = design.value
        case["constant_value"] = design.best_constant.value
        case["decay_value"] = decayed
        cases.append(case)
    joined: Any = xr.concat(cases, dim=xr.DataArray(rules, dims="rule", name="rule"))
    return joined.assign(end=end)


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Laws of the annealed rules, and the gain of a free schedule.

    The gain is over constant rates and power decays.
    """
    end = float(data["end"])
    rule_claims = {
        "perceptron": _perceptron_claims,
        "logistic": _logistic_claims,
        "AdaTron": _adatron_claims,
        "Hebb": _hebb_claims,
    }
    for name in data["rule"].values:
        part = data.sel(rule=name)
        yield at_most(
            f"{name}: final error over that of the best constant rate",
            float(part["value"]) / float(part["constant_value"]),
            1.0001,
        )
        yield from rule_claims[str(name)](part, end)


def _perceptron_claims(part: "Dataset", end: float) -> Iterator[Claim]:
    value = float(part["value"])
    yield close(
        "perceptron: final error times alpha, against the law 4/pi",
        value * end,
        4 / np.pi,
        rel=0.06,
    )
    yield close("perceptron: final error", value, 0.01234, rel=0.02)
    yield at_most(
        "perceptron: error of the best constant rate", part["constant_value"], 0.02147
    )
    yield between(
        "perceptron: final error over that of the best power decay",
        value / float(part["decay_value"]),
        0.95,
        1.02,
    )


def _logistic_claims(part: "Dataset", end: float) -> Iterator[Claim]:
    value = float(part["value"])
    decay = float(part["decay_value"])
    yield close("logistic: final error", value, 0.0095, rel=0.03)
    gain = between(
        "logistic: final error over that of the best power decay",
        value / decay,
        0.88,
        0.97,
    )
    yield refuted(
        gain,
        "Under the same bound on the rate a power decay with a free time scale ends at "
        f"{decay:.5f}, as low as the free schedule ({value:.5f}).",
    )


def _adatron_claims(part: "Dataset", end: float) -> Iterator[Claim]:
    yield close(
        "AdaTron: final error times alpha, against the law 4/3",
        float(part["value"]) * end,
        4 / 3,
        rel=0.06,
    )


def _hebb_claims(part: "Dataset", end: float) -> Iterator[Claim]:
    law = 1 / np.sqrt(2 * np.pi * end)
    ratio = float(part["value"]) / law
    yield close("Hebb: final error over 1/sqrt(2 pi alpha)", ratio, 1.0, rel=0.05)


def draw_2(data: "Dataset") -> "Figure":
    """The schedules, and the errors under them and under constant rates (dashed)."""
    small = (
        "One unit learns the sign of its teacher; final time "
        f"{float(data['end']):g}. Dashed: the best constant rate."
    )
    title = "The best learning rate of four rules"
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    schedules, errors = axes[0]
    for place, name in enumerate(data["rule"].values):
        part = data.sel(rule=name)
        line = {"color": COLORS[place], "linewidth": 1.8}
        dashed = {"color": COLORS[place], "linewidth": 1.0, "linestyle": DASHES[1]}
        rates = np.maximum(part["lr"], 1e-3)
        schedules.plot(part["knot"], rates, **line, label=str(name))
        errors.plot(part["time"][1:], part["error"][1:], **line)
        errors.plot(part["time"][1:], part["constant"][1:], **dashed)
    schedules.set(xlabel=TIME, ylabel=r"learning rate $\eta$", yscale="log")
    errors.set(
        xlabel=TIME, ylabel="probability of a wrong sign", xscale="log", yscale="log"
    )
    legend_below(schedules)
    label_panel(schedules, "schedules")
    label_panel(errors, "errors")
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
    """Return the best dropout and the best order of noisy labels, each with runs.

    The total noise of the labels is given.
    """
    import xarray as xr

    student = tu.Network(4, "erf", train_readout=True)
    teacher = tu.Network(1, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(1.0), noise=noise)
    start = tu.Start(np.linspace(0.1, 0.2, 4)[:, None], 0.3 * np.eye(4))
    dropout = tu.schedules.optimize(
        problem.replace(rule=tu.rules.Dropout(0.8)),
        start,
        end,
        {"keep": (0.2, 1.0)},
        segments=segments,
    )
    order = tu.schedules.optimize(
        problem,
        start,
        end,
        {"noise": (0.0, 2 * budget)},
        segments=segments,
        budgets={"noise": (budget * end, None)},
    )
    cases = [
        _with_runs(dropout, "keep", start, end, dim, runs, seed),
        _with_runs(order, "noise", start, end, dim, runs, seed),
    ]
    names = xr.DataArray(["dropout", "label noise"], dims="case", name="case")
    joined: Any = xr.concat(cases, dim=names)
    return joined.assign(end=end, budget=budget, dim=dim, runs=runs)


def _with_runs(
    design: Any,
    name: str,
    start: "tu.Start",
    end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """A designed control `name`, the best constant one, and the last error of runs."""
    import xarray as xr

    seen = tu.simulate(
        design.problem, start, dim=dim, times=[0.0, end], runs=runs, seed=seed
    )
    final = np.asarray(seen.error)[:, -1]
    constant = design.best_constant
    case = xr.Dataset(coords={"time": design.trajectory.times})
    case["control"] = ("segment", np.asarray(design.schedule.values))
    case["error"] = ("time", np.asarray(design.trajectory.error))
    case["constant"] = ("time", _baseline(design, "best constant"))
    case["constant_control"] = float(constant.controls[name])
    case["value"] = design.value
    case["constant_value"] = constant.value
    case["mean"] = design.totals[name] / end
    case["run_mean"] = final.mean()
    case["run_error"] = final.std(ddof=1) / np.sqrt(runs)
    return case


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Gains over constants; the budget is kept; noisy labels come first; runs agree."""
    dropout = data.sel(case="dropout")
    order = data.sel(case="label noise")
    yield at_most(
        "dropout: final error over that of the best constant dropout",
        dropout["value"] / dropout["constant_value"],
        0.9,
    )
    yield at_least(
        "label noise: final error of constant noise over that of the best order",
        order["constant_value"] / order["value"],
        2.0,
    )
    yield close(
        "label noise: mean over time, against the budget",
        order["mean"],
        data["budget"],
        absolute=1e-4,
    )
    noise = order["control"].values
    yield at_least(
        "label noise: first segment over last", noise[0] / max(noise[-1], 1e-9), 3.0
    )
    for name in data["case"].values:
        part = data.sel(case=name)
        gap = abs(float(part["run_mean"] - part["value"]))
        allowed = 4 * float(part["run_error"]) + 0.05 * float(part["value"])
        yield at_most(
            f"{name}: gap between runs (N = {int(data['dim'])}) and theory over "
            "4 standard errors and 5%",
            gap / allowed,
            1.0,
        )


def draw_3(data: "Dataset") -> "Figure":
    """Both controls and the errors under them."""
    small = (
        "Four erf units with a trained readout learn from one. Dashed: best constant; "
        f"marks: {int(data['runs'])} runs, N = {int(data['dim'])}."
    )
    title = "Dropout and noisy labels under control"
    figure, axes = panel_grid(2, 2, title, small, height=2.6, sharex="col")
    labels = {"dropout": "units kept", "label noise": r"label noise $\sigma$"}
    for row, name in zip(axes, data["case"].values, strict=True):
        part = data.sel(case=name)
        _draw_control(row[0], part, labels[str(name)])
        _draw_control_error(row[1], part)
        label_panel(row[0], str(name))
    for panel in axes[-1]:
        panel.set_xlabel(TIME)
    axes[0][0].legend(loc="lower right")
    return figure


CONSTANT = {"color": COLORS[1], "linestyle": DASHES[1]}


def _draw_control(panel: Any, part: "Dataset", label: str) -> None:
    edges = np.linspace(0.0, float(part["end"]), part.sizes["segment"] + 1)
    look = {"color": COLORS[0], "linewidth": 1.8, "baseline": None}
    panel.stairs(part["control"].values, edges, **look, label="best protocol")
    constant = float(part["constant_control"])
    panel.axhline(constant, **CONSTANT, label="best constant")
    panel.set(ylabel=label)
    panel.set_ylim(bottom=0.0)


def _draw_control_error(panel: Any, part: "Dataset") -> None:
    panel.plot(part["time"], part["error"], color=COLORS[0], linewidth=1.8)
    panel.plot(part["time"], part["constant"], **CONSTANT)
    bar = 2 * float(part["run_error"])
    end = [float(part["end"])]
    mean = [float(part["run_mean"])]
    panel.errorbar(end, mean, [bar], fmt="o", color=FAINT, markersize=4)
    panel.set(ylabel=ERROR, yscale="log")


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
