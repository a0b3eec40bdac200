"""Which of its solutions a quadratic network reaches, and what is conserved on the way (Figs. 3 and 4)."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, INK, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

POINTS = 201
CLAIM = "The student network converges to the zero-error solution that is closest to its starting point"


def compute_3(
    p: int,
    p_teacher: int,
    paper_lr: float,
    overlap: float,
    others: int,
    samples: int,
    seed: int,
) -> "Dataset":
    """Distance to the predicted end and risk, along the curve of its own start and of others."""
    import xarray as xr

    network = tutelage_papers.quadratic.quadratic_network(p, p_teacher, paper_lr)
    bias = tutelage_papers.quadratic.implicit_bias(
        network.problem, network.start(overlap, seed)
    )
    own = bias.follow()
    starts = [network.start(overlap, seed + 1 + i) for i in range(others)]
    paths = [
        own,
        *(bias.along(tu.solve(network.problem, x, own.times)) for x in starts),
    ]
    exact = tutelage_papers.quadratic.quadratic_curves(
        network.problem, bias.start, own.times
    )
    rng = np.random.default_rng(seed)
    frames = np.linalg.qr(rng.standard_normal((samples, p, p_teacher)))[0]
    scale = np.sqrt(p / p_teacher)
    norms = np.trace(np.asarray(bias.start.Q)) + np.trace(bias.Q)
    distances = norms - 2 * scale * np.sum(
        frames * np.asarray(bias.start.R), axis=(1, 2)
    )
    halved = float(np.interp(-own.error[0] / 2, -own.error, own.times))
    learned = float(np.interp(-own.error[0] * 1e-4, -own.error, own.times))
    return xr.Dataset(
        {
            "gap": (("start", "time"), [path.gap for path in paths]),
            "risk": (("start", "time"), [2 * path.error for path in paths]),
            "moved": (("start", "time"), [path.moved for path in paths]),
            "by_modes": np.max(
                np.abs(
                    exact.R
                    - np.asarray(tu.solve(network.problem, bias.start, own.times).R)
                )
            ),
            "closest": bias.distance,
            "random_closest": distances.min(),
            "late_power": _late_power(own.times, own.error),
            "halved": halved,
            "learned": learned,
        },
        coords={"time": own.times},
    )


def _late_power(times: np.ndarray, error: np.ndarray) -> float:
    late = times > 0.1 * times[-1]
    return float(np.polyfit(np.log(times[late]), np.log(error[late]), 1)[0])


def claims_3(data: "Dataset") -> list[Claim]:
    """Own start arrives, others stay away, all are perfect; the last part of the way is slow."""
    own = data["gap"][0, -1]
    others = data["gap"][1:, -1]
    return [
        at_most(
            "own start: distance to the predicted end, at the end", float(own), 1e-3
        ),
        at_least(
            "other starts: least distance to it, at the end", float(others.min()), 0.5
        ),
        at_most(
            "largest risk of any of them, at the end",
            float(data["risk"][:, -1].max()),
            1e-4,
        ),
        at_most(
            "own start: largest change of an entry of S",
            float(data["moved"][0].max()),
            1e-6,
        ),
        at_most(
            "solve against the curves mode by mode: largest gap of R",
            float(data["by_modes"]),
            1e-6,
        ),
        above(
            "closest of random solutions, squared distance beyond that of the predicted one",
            float(data["random_closest"] - data["closest"]),
            0.0,
        ),
        close(
            "p > p*: power of time with which the risk vanishes",
            float(data["late_power"]),
            -2.0,
            absolute=0.05,
        ),
        refuted(
            at_most(
                "time from half the loss to 1e-4 of it, over the time to half the loss",
                float((data["learned"] - data["halved"]) / data["halved"]),
                0.5,
                says="the final descent toward the solution manifold occurs on a much shorter timescale",
            ),
            evidence="p > p*: the norms of extra units vanish as 1/alpha along merely flat directions (quad-8), the risk as "
            "1/alpha^2; solve and the curves mode by mode agree",
        ),
    ]


def draw_3(data: "Dataset") -> "Figure":
    """Distance to the predicted end, and risk."""
    title = "Learning ends at the solution that its start predicts"
    small = (
        "Black: the start that made the prediction; gray: other starts of the same law."
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.0)
    for row in range(data.sizes["start"] - 1, -1, -1):
        look = (
            {"color": FAINT, "linewidth": 1.0}
            if row
            else {"color": INK, "linewidth": 2.0}
        )
        for panel, name in zip(axes[0], ("gap", "risk"), strict=True):
            panel.plot(data["time"][1:], data[name][row, 1:], **look)
    labels = (r"distance $|\rho(t) - \bar\rho|$", r"risk $\mathcal{R} = 2\epsilon_g$")
    for panel, label in zip(axes[0], labels, strict=True):
        panel.set(xlabel=TIME, ylabel=label, xscale="log", yscale="log")
    return figure


CASES = (
    "orthonormal students",
    "large learning rate",
    "in order, not isotropic",
    "overlaps of N = 10^4",
    "unequal norms",
    "teachers not in order",
)
IN_ORDER = CASES[:3]


def compute_4(
    p: int,
    p_teacher: int,
    paper_lr: float,
    large_lr: float,
    overlap: float,
    spread: float,
    end: float,
    seed: int,
) -> "Dataset":
    """S(t) from starts in order and from others, and where each ends."""
    import xarray as xr

    network = tutelage_papers.quadratic.quadratic_network(p, p_teacher, paper_lr)
    fast = tutelage_papers.quadratic.quadratic_network(p, p_teacher, large_lr)
    plain = network.start(overlap, seed)
    R = np.asarray(plain.R)
    rng = np.random.default_rng(seed + 1)
    noise = rng.standard_normal((p, p))
    small = np.eye(p) + 0.01 * (noise + noise.T) / 2
    unequal = np.diag(np.linspace(1 - spread, 1 + spread, p))
    T = np.eye(p_teacher) + 0.3 * (np.ones((p_teacher, p_teacher)) - np.eye(p_teacher))
    starts = [
        (network, plain),
        (fast, plain),
        (
            network,
            tu.Start(R, np.eye(p) + 0.5 * R @ R.T / np.max(R @ R.T), np.eye(p_teacher)),
        ),
        (network, tu.Start(R, small, np.eye(p_teacher))),
        (network, tu.Start(R, unequal, np.eye(p_teacher))),
        (network, tu.Start(R, np.eye(p), T)),
    ]
    rows = []
    for which, start in starts:
        bias = tutelage_papers.quadratic.implicit_bias(which.problem, start)
        last = end * paper_lr / which.paper_lr
        path = bias.follow(tu.log_times(0.003 * last, last, POINTS))
        rows.append(
            {
                "S": path.S,
                "moved": path.moved,
                "gap": path.gap,
                "time": path.times,
                "error": path.error,
            }
        )
        rows[-1]["disorder"] = max(bias.disorder)
    names = {
        "S": ("time", "student", "teacher"),
        "moved": ("time",),
        "gap": ("time",),
        "error": ("time",),
        "disorder": (),
    }
    variables: dict[str, Any] = {
        name: (("case", *dims), np.array([row[name] for row in rows]))
        for name, dims in names.items()
    }
    variables["alpha"] = (("case", "time"), np.array([row["time"] for row in rows]))
    return xr.Dataset(variables, coords={"case": list(CASES)})


def claims_4(data: "Dataset") -> list[Claim]:
    """Constant if Q(0) commutes with rho0 rho0^T, at any rate; not otherwise."""
    moved = {case: float(data["moved"].sel(case=case).max()) for case in CASES}
    disorder = {case: float(data["disorder"].sel(case=case)) for case in CASES}
    lost = "unequal norms"
    return [
        *(
            at_most(f"{case}: largest change of an entry of S", moved[case], 1e-6)
            for case in IN_ORDER
        ),
        *(
            at_most(
                f"{case}: commutator of Q(0) and rho0 rho0^T", disorder[case], 1e-10
            )
            for case in IN_ORDER
        ),
        above(f"{lost}: commutator of Q(0) and rho0 rho0^T", disorder[lost], 0.01),
        above(f"{lost}: largest change of an entry of S", moved[lost], 1e-3),
        above(
            "teachers not in order: largest change of an entry of S",
            moved["teachers not in order"],
            1e-3,
        ),
        at_most(
            "overlaps of N = 10^4: largest change of an entry of S",
            moved["overlaps of N = 10^4"],
            0.05,
        ),
        refuted(
            at_most(
                f"{lost}: distance to the closest solution, at the end",
                float(data["gap"].sel(case=lost)[-1]),
                1e-3,
                says=CLAIM,
            ),
            evidence=f"the risk vanishes (at the end {2 * float(data['error'].sel(case=lost)[-1]):.1g}), but S has moved; "
            "it is conserved only if Q(0) commutes with rho0 rho0^T, which the proof assumes (Q(0) = 1)",
        ),
    ]


def draw_4(data: "Dataset") -> "Figure":
    """The entries of S along learning, a panel for each kind of start."""
    title = r"The polar factor of the overlaps is conserved by learning if the start is in order"
    small = r"Entries of $S = \rho\,(\rho^T \rho)^{-1/2}$; colors: student units; lines: teachers. Numbers: movement of $S$."
    figure, axes = panel_grid(2, 3, title, small, height=2.4)
    for panel, case in zip(axes.ravel(), CASES, strict=True):
        part = data.sel(case=case)
        for k, m in np.ndindex(data.sizes["student"], data.sizes["teacher"]):
            look = {
                "color": COLORS[k % len(COLORS)],
                "linestyle": DASHES[m % len(DASHES)],
                "linewidth": 1.1,
            }
            panel.plot(part["alpha"][1:], part["S"][1:, k, m], **look)
        panel.set(
            xscale="log", ylim=(-1.05, 1.05), xlabel=TIME, ylabel="entries of $S$"
        )
        label_panel(panel, f"{case}: {float(part['moved'].max()):.1g}")
    return figure


PRINTED = {"p": 6, "p_teacher": 3, "paper_lr": 0.01, "overlap": 0.01, "seed": 1}

FIGURES = (
    Replica(
        id="quad-3",
        source="quad",
        figure="Fig. 3",
        title="distance to the predicted solution",
        full=PRINTED | {"others": 20, "samples": 100_000},
        quick=PRINTED | {"others": 8, "samples": 10_000},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
    Replica(
        id="quad-4",
        source="quad",
        figure="Fig. 4",
        title="what is conserved along learning",
        full=PRINTED | {"large_lr": 0.5, "spread": 0.7, "end": 50_000.0},
        quick=PRINTED | {"large_lr": 0.5, "spread": 0.7, "end": 20_000.0},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
