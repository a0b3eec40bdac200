"""Samples used twice: a tanh unit learns a target that single uses cannot find from small overlaps.

The target is -He3(rho) / sqrt(6). With single uses the force on the overlap m is of order m^2. At small m it loses against
the noise of SGD, which turns a vector of fixed length away at a rate of order m. The second use sees the field that the
first has moved, and its force does not vanish with m.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, TIME, label_panel, panel_grid
from tutelage_papers.claims import PASS, Claim, at_least, at_most, below, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

DIGITS = {10.0: 0.273, 20.0: 0.459, 30.0: 0.770, 50.0: 0.948}
ONCE = 0.006  # at time 50
LEARNED = 0.5
UNLEARNED = 0.1
OVERLAP = "overlap $m$"
TAIL = (
    "Single runs scatter. Of 200 runs of N = 1000 that use samples twice, 198 pass 0.5 before time 50, two reach 0.48. Of 20 "
    "runs of N = 10^4 that use them once, 19 stay below 0.1, one reaches 0.107."
)


def correlation(output: Any, label: Any) -> Any:
    """Minus the product of output and label: delta = y g'(lambda)."""
    return -(output * label).sum()


def reused(times: int, lr: float) -> "tu.Problem":
    """A tanh unit of fixed length learns -He3 / sqrt(6)."""
    teacher = tu.Network(1, "he3", readout=-1 / np.sqrt(6))
    student = tu.Network(1, "tanh")
    optimizer = tu.SGD(lr, spherical=True)
    return tu.Problem(
        student,
        teacher,
        loss=correlation,
        rule=tu.rules.Reuse(times),
        optimizer=optimizer,
    )


def begin(dim: int) -> "tu.Start":
    """The overlap of random vectors of this length."""
    return tu.Start([[1 / np.sqrt(dim)]], [[1.0]])


def compute_8(
    lr: float,
    dim: int,
    runs: int,
    large: int,
    large_runs: int,
    end: float,
    points: int,
    fast: list[float],
    seed: int,
) -> "Dataset":
    """m of theory and runs: twice and once, and once at a larger N; theory at larger rates."""
    times = tu.linear_times(end, points)
    theory = [
        tu.solve(reused(n, lr), begin(N), times).R[:, 0, 0]
        for n, N in ((2, dim), (1, dim), (1, large))
    ]
    cases = (
        (2, dim, runs, seed),
        (1, dim, runs, seed + 1),
        (1, large, large_runs, seed + 2),
    )
    found = [
        tu.simulate(
            reused(n, lr),
            begin(N),
            dim=N,
            times=times,
            runs=count,
            seed=s,
            together=True,
        ).R[:, :, 0, 0]
        for n, N, count, s in cases
    ]
    rates = [tu.solve(reused(2, rate), begin(dim), times).R[:, 0, 0] for rate in fast]
    names = ("twice", "once", "large")
    return _dataset(
        {
            f"{name}_theory": ("time", np.asarray(m))
            for name, m in zip(names, theory, strict=True)
        }
        | {
            f"{name}_runs": ((f"{name}_run", "time"), np.asarray(m))
            for name, m in zip(names, found, strict=True)
        }
        | {"fast_theory": (("rate", "time"), np.array(rates))},
        {"time": times, "rate": fast, "lr": lr, "dim": dim, "large": large},
    )


def _dataset(variables: dict[str, Any], coords: dict[str, Any]) -> "Dataset":
    import xarray as xr

    return xr.Dataset(variables, coords=coords)


def claims_8(data: "Dataset") -> list[Claim]:
    """Digits of the theory, and what every run does."""
    N = int(data["dim"])
    large = int(data["large"])
    claims = [
        close(
            f"twice: m({t:g})",
            float(data["twice_theory"].sel(time=t, method="nearest")),
            m,
            absolute=6e-4,
        )
        for t, m in DIGITS.items()
    ]
    twice, once, far = (data[f"{name}_runs"] for name in ("twice", "once", "large"))
    highest = twice.max("time")
    typical = float(abs(once).median("once_run").max())
    claims += [
        close("once: m(50)", float(data["once_theory"][-1]), ONCE, absolute=6e-4),
        _of_every_run(
            at_least(
                f"twice, N = {N}: smallest over runs of the largest m",
                float(highest.min()),
                LEARNED,
            )
        ),
        at_least(
            f"twice, N = {N}: share of runs that pass {LEARNED:g}",
            float((highest > LEARNED).mean()),
            0.98,
        ),
        below(
            f"once, N = {N}: median of |m| over runs, largest of all times",
            typical,
            UNLEARNED,
        ),
        _of_every_run(
            below(
                f"once, N = {large}: largest |m| of all runs",
                float(abs(far).max()),
                UNLEARNED,
            )
        ),
        below(
            f"once, N = {large}: largest m of all runs", float(abs(far).max()), LEARNED
        ),
    ]
    return claims + [
        at_most(
            f"twice, rate {rate:g}: largest m",
            float(data["fast_theory"].sel(rate=rate).max()),
            LEARNED,
        )
        for rate in data["rate"].values
    ]


def _of_every_run(claim: Claim) -> Claim:
    """A sentence about every run: true of tens of runs, not of hundreds."""
    return claim if claim.verdict == PASS else refuted(claim, TAIL)


def draw_8(data: "Dataset") -> "Figure":
    """m against time: samples used twice, used once, and larger rates."""
    small = f"Thick: theory from m = N^(-1/2); thin: single runs, N = {int(data['dim'])}; rate {float(data['lr']):g}."
    figure, axes = panel_grid(1, 3, "Samples used twice", small, height=3.0, width=10.5)
    times = data["time"].values
    for i, (panel, name) in enumerate(zip(axes[0], ("twice", "once"), strict=False)):
        for j, run in enumerate(data[f"{name}_runs"].values[:20]):
            panel.plot(
                times,
                run,
                color=COLORS[2],
                linewidth=0.5,
                label="runs" if j == 0 else None,
            )
        panel.plot(
            times,
            data[f"{name}_theory"],
            color=COLORS[i],
            linestyle=DASHES[i],
            linewidth=2,
            label=f"theory, {name}",
        )
    right = axes[0][2]
    right.plot(
        times,
        data["twice_theory"],
        color=COLORS[0],
        label=f"rate {float(data['lr']):g}",
    )
    for i, rate in enumerate(data["rate"].values, start=1):
        line = data["fast_theory"].sel(rate=rate)
        right.plot(
            times,
            line,
            color=COLORS[i],
            linestyle=DASHES[i % len(DASHES)],
            label=f"rate {rate:g}",
        )
    for panel, text in zip(
        axes[0], ("used twice", "used once", "twice, by rate"), strict=True
    ):
        panel.set(xlabel=TIME, ylabel=OVERLAP, ylim=(-0.3, 1.05))
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


PRINTED: dict[str, Any] = {
    "lr": 0.4,
    "dim": 1000,
    "large": 10_000,
    "end": 50.0,
    "points": 51,
    "seed": 8,
}

FIGURES = (
    Replica(
        id="rules-8",
        source="rules",
        figure="reuse",
        title="Samples used twice find a target that single uses miss",
        full=PRINTED | {"runs": 200, "large_runs": 20, "fast": [0.8, 1.2]},
        quick=PRINTED | {"runs": 30, "large_runs": 3, "fast": [0.8]},
        compute=compute_8,
        draw=draw_8,
        claims=claims_8,
    ),
)
