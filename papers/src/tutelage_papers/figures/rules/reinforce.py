"""The RL perceptron: T decisions, one reward if all are right. Penalties can capture it at a bad fixed point."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

R0 = 0.3
Q0 = 1.0
DIGITS = {
    1.0: (0.505284, 0.366426),
    5.0: (1.684416, 0.269125),
    10.0: (3.716924, 0.207726),
    20.0: (8.739384, 0.151685),
}
CAPTURED = {
    2: 8.47,
    3: 1.954,
    5: 0.539,
    9: 0.099,
    13: 0.0192,
}  # penalties over the reward
REACH = {
    1: 10.3,
    3: 10.9,
    5: 18.7,
    13: 333.0,
}  # times at which the error is 0.2, without penalty
TARGET = 0.2
PENALIZED = (5, 0.05, 14.7)
EPISODES = r"time $\alpha$ = episodes / N"


def episodes(decisions: int, penalty: float) -> "tu.Problem":
    """A unit learns signs from rewards of one."""
    unit = tu.Network(1, "linear")
    rule = tu.rules.Reinforce(decisions, 1.0, penalty)
    return tu.Problem(unit, unit, optimizer=tu.SGD(1.0), labels="sign", rule=rule)


def slopes(decisions: int, penalty: float, state: Any) -> list[float]:
    """d(R, Q) in closed form: with c = R / sqrt(Q), P = 1 - arccos(c) / pi and f = (1 + penalty) P^(T-1) (1 + c)."""
    R, Q = state
    c = min(R / np.sqrt(Q), 1.0)
    P = 1 - np.arccos(c) / np.pi
    f = (1 + penalty) * P ** (decisions - 1) * (1 + c)
    all_right = P**decisions
    noise = (all_right + penalty**2 * (1 - all_right)) / decisions
    root = np.sqrt(2 * np.pi)
    return [
        (f - 2 * penalty * c) / root,
        2 * np.sqrt(Q) * (f - 2 * penalty) / root + noise,
    ]


def closed_form(
    decisions: int, penalty: float, times: Any, learned: float | None = None
) -> tuple[np.ndarray, float, bool]:
    """Error at the times, balance of the last state, and whether the error has fallen below `learned` (then it stops).

    balance: (1 + penalty) P^(T-1) (1 + c) / (2 penalty c), which is one where R does not move.
    """
    from scipy.integrate import solve_ivp

    def gap(_: float, state: Any) -> float:
        return float(
            np.arccos(min(state[0] / np.sqrt(state[1]), 1.0)) / np.pi
            - (-1.0 if learned is None else learned)
        )

    gap.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(
        lambda _, state: slopes(decisions, penalty, state),
        (0.0, times[-1]),
        [R0, Q0],
        "LSODA",
        times if learned is None else None,
        events=gap,
        rtol=1e-9,
        atol=1e-12,
    )
    error = np.arccos(np.minimum(found.y[0] / np.sqrt(found.y[1]), 1.0)) / np.pi
    c = np.cos(np.pi * error[-1])
    P = 1 - error[-1]
    balance = (
        (1 + penalty) * P ** (decisions - 1) * (1 + c) / (2 * penalty * c)
        if penalty > 0
        else np.inf
    )
    return error, float(balance), bool(found.t_events[0].size)


def threshold(decisions: int, guess: float, end: float) -> float:
    """The penalty above which learning is captured, by bisection within a factor of two of a guess."""
    low = guess / 2
    high = guess * 2
    for _ in range(11):
        middle = np.sqrt(low * high)
        low, high = (
            (middle, high)
            if closed_form(decisions, middle, [end], 0.05)[2]
            else (low, middle)
        )
    return float(np.sqrt(low * high))


def compute_7(
    decisions: list[int],
    end: float,
    points: int,
    long: float,
    near: float,
    near_end: float,
    near_dims: list[int],
    near_runs: int,
    penalty: float,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """General theory and closed form for several T; thresholds; theory and runs near one of them; runs inside a band."""
    from tutelage_papers.bands import against_runs

    start = tu.Start([[R0]], [[Q0]])
    times = np.concatenate([[0.0], np.geomspace(0.1, end, points - 1)])
    general = [tu.solve(episodes(T, 0.0), start, times).error for T in decisions]
    digits = tu.solve(
        episodes(3, 0.0),
        start,
        np.interp(np.arange(points), np.linspace(0, points - 1, 5), [0.0, *DIGITS]),
    )
    found = {T: threshold(T, guess, long) for T, guess in CAPTURED.items()}
    at = [found[3] * (2 - near), found[3] * near]
    close_by = tu.solve_batch(
        episodes(3, 0.0), {"rule.penalty": at}, start, tu.linear_times(near_end, 101)
    )
    options: dict[str, Any] = {
        "times": tu.linear_times(near_end, 11),
        "runs": near_runs,
        "together": True,
    }
    left = [
        tu.simulate(episodes(3, at[1]), start, dim=n, seed=seed + n, **options).error
        for n in near_dims
    ]
    data = against_runs(
        episodes(3, penalty),
        start,
        dim=dim,
        times=tu.linear_times(runs_end, 11),
        runs=runs,
        seed=seed,
    )
    balance = [closed_form(T, 1.05 * x, [long])[1] for T, x in found.items()]
    picked = np.linspace(0, points - 1, 5).astype(int)[1:]
    return data.assign(
        general=(("decisions", "alpha"), np.array(general)),
        closed=(
            ("decisions", "alpha"),
            np.array([closed_form(T, 0.0, times)[0] for T in decisions]),
        ),
        penalized=("alpha", closed_form(*PENALIZED[:2], times)[0]),
        digit_R=("digit", np.asarray(digits.R)[picked, 0, 0]),
        digit_error=("digit", np.asarray(digits.error)[picked]),
        threshold=("captured", list(found.values())),
        balance=("captured", balance),
        free=((), float(closed_form(1, 100.0, [long], 0.05)[2])),
        near_error=(("side", "near_time"), np.asarray(close_by.error)),
        near_penalty=("side", at),
        left_error=(("near_dim", "run", "run_time"), np.array(left)),
        decisions=decisions,
        alpha=times,
        digit=list(DIGITS),
        captured=list(CAPTURED),
        near_time=tu.linear_times(near_end, 101),
        run_time=options["times"],
        near_dim=near_dims,
        penalty=penalty,
        dim=dim,
        runs=runs,
    )


def claims_7(data: "Dataset") -> list[Claim]:
    """Digits, the closed form, thresholds, times of learning, and what finite networks do near a threshold."""
    from tutelage_papers.bands import inside_claims

    claims = []
    for i, (t, (R, error)) in enumerate(DIGITS.items()):
        claims.append(close(f"T = 3: R({t:g})", float(data["digit_R"][i]), R, rel=2e-6))
        claims.append(
            close(
                f"T = 3: error({t:g})", float(data["digit_error"][i]), error, rel=4e-6
            )
        )
    gap = float(np.max(np.abs(data["general"] / data["closed"] - 1)))
    claims.append(
        at_most("general theory over closed form - 1, all T and times", gap, 1e-5)
    )
    for T, x in CAPTURED.items():
        claims.append(
            close(
                f"T = {T}: captured above a penalty of",
                float(data["threshold"].sel(captured=T)),
                x,
                rel=0.005,
            )
        )
        balance = float(data["balance"].sel(captured=T))
        claims.append(
            close(f"T = {T}: balance where it is captured", balance, 1.0, absolute=1e-4)
        )
    claims.append(
        close(
            "T = 1: learns even with a penalty of 100",
            float(data["free"]),
            1.0,
            absolute=0.0,
        )
    )
    for T in data["decisions"].values:
        if T in REACH:
            reached = _time(
                data["alpha"].values, data["closed"].sel(decisions=T).values
            )
            claims.append(
                close(
                    f"T = {T}: time to an error of {TARGET:g}",
                    reached,
                    REACH[int(T)],
                    rel=0.005,
                )
            )
    T, r, time = PENALIZED
    reached = _time(data["alpha"].values, data["penalized"].values)
    claims.append(
        close(f"T = {T}, penalty {r:g}: the same, sooner", reached, time, rel=0.005)
    )
    below_it, above_it = data["near_error"].isel(near_time=-1).values
    r = float(data["near_penalty"][1])
    share = (
        data["left_error"].isel(run_time=-1) < below_it + (above_it - below_it) / 2
    ).mean("run")
    small = int(data["near_dim"][0])
    large = int(data["near_dim"][-1])
    end = float(data["run_time"][-1])
    return [
        *claims,
        below(
            f"T = 3, penalty {float(data['near_penalty'][0]):.3g}: general theory, error({end:g})",
            below_it,
            0.1,
        ),
        above(f"T = 3, penalty {r:.3g}: general theory, error({end:g})", above_it, 0.3),
        above(
            f"T = 3, penalty {r:.3g}: share of runs that escape, N = {small}",
            float(share[0]),
            0.5,
        ),
        below(
            f"T = 3, penalty {r:.3g}: share of runs that escape, N = {large}",
            float(share[-1]),
            0.1 + 0.4 * float(share[0]),
        ),
        *inside_claims(
            data, f"T = 3, penalty {float(data['penalty']):g}, N = {int(data['dim'])}"
        ),
    ]


def _time(times: np.ndarray, error: np.ndarray) -> float:
    """When the error has fallen to the target."""
    return float(np.interp(-TARGET, -error[1:], times[1:]))


def draw_7(data: "Dataset") -> "Figure":
    """Learning curves by number of decisions, theory and runs near a threshold, and runs inside a band."""
    small = (
        "Left: no penalty; lines: general theory; dots: closed form. Middle: T = 3; thick: theory; thin: single runs, "
        f"N = {int(data['near_dim'][0])}. Right: mean of {int(data['runs'])} runs, N = {int(data['dim'])}, ± 2 standard errors."
    )
    figure, axes = panel_grid(1, 3, "The RL perceptron", small, height=3.0, width=10.5)
    left, middle, right = axes[0]
    times = data["alpha"].values[1:]
    for i, T in enumerate(data["decisions"].values):
        line = data["general"].sel(decisions=T).values[1:]
        left.plot(
            times,
            line,
            color=COLORS[i % len(COLORS)],
            linestyle=DASHES[i % len(DASHES)],
            label=f"T = {T}",
        )
        left.plot(
            times[::25],
            data["closed"].sel(decisions=T).values[1::25],
            ".",
            color=COLORS[i % len(COLORS)],
            markersize=3,
        )
    for i, (penalty, line) in enumerate(
        zip(data["near_penalty"].values, data["near_error"].values, strict=True)
    ):
        middle.plot(
            data["near_time"],
            line,
            color=COLORS[i],
            linestyle=DASHES[i],
            label=f"penalty {penalty:.3g}",
        )
    for i, run in enumerate(data["left_error"].values[0][:15]):
        label = (
            f"runs, penalty {float(data['near_penalty'][1]):.3g}" if i == 0 else None
        )
        middle.plot(data["run_time"], run, color=COLORS[2], linewidth=0.5, label=label)
    name = f"penalty {float(data['penalty']):g}"
    draw_band(
        right,
        data["time"].values,
        data["error"],
        data["error_mean"],
        data["error_se"],
        label=name,
    )
    right.plot(
        data["time"],
        data["error_wrong"],
        color=FAINT,
        linestyle=DASHES[2],
        linewidth=1.2,
        label="0.9 G",
    )
    left.set(xscale="log")
    for panel, text in zip(
        axes[0], ("number of decisions", "a penalty captures", "networks"), strict=True
    ):
        panel.set(xlabel=EPISODES, ylabel=ERROR)
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


PRINTED: dict[str, Any] = {
    "end": 400.0,
    "points": 201,
    "long": 3000.0,
    "near": 1.05,
    "near_end": 100.0,
    "seed": 7,
}

FIGURES = (
    Replica(
        id="rules-7",
        source="rules",
        figure="reinforce",
        title="The RL perceptron: one reward for several decisions",
        full=PRINTED
        | {
            "decisions": [1, 2, 3, 5, 9, 13],
            "near_dims": [100, 400, 1600],
            "near_runs": 200,
        }
        | {"penalty": 1.0, "runs_end": 20.0, "dim": 1000, "runs": 200},
        quick=PRINTED
        | {"decisions": [1, 3, 5], "near_dims": [100, 400], "near_runs": 60}
        | {"penalty": 1.0, "runs_end": 5.0, "dim": 400, "runs": 60},
        compute=compute_7,
        draw=draw_7,
        claims=claims_7,
    ),
)
