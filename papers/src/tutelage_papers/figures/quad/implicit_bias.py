"""Figs. 3 and 4: which of its solutions a quadratic network reaches, and why.

S = rho (rho^T rho)^(-1/2), the polar factor of the overlaps with the teachers, is conserved
along learning, and sets the end.
"""

from collections.abc import Iterator
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
CLAIM = (
    "The student network converges to the zero-error solution that is closest to its "
    "starting point"
)


def compute_3(
    p: int,
    p_teacher: int,
    paper_lr: float,
    overlap: float,
    others: int,
    samples: int,
    seed: int,
) -> "Dataset":
    """Return distance to the predicted end and risk along curves.

    Those of the start that made the prediction, and of others.
    """
    import xarray as xr

    network = tutelage_papers.quadratic.quadratic_network(p, p_teacher, paper_lr)
    problem = network.problem
    start = network.start(overlap, seed)
    bias = tutelage_papers.quadratic.implicit_bias(problem, start)
    own = bias.follow()
    times = own.times
    paths = [own]
    for i in range(others):
        other = network.start(overlap, seed + 1 + i)
        paths.append(bias.along(tu.solve(problem, other, times)))
    exact = tutelage_papers.quadratic.quadratic_curves(problem, bias.start, times)
    solved = tu.solve(problem, bias.start, times)
    data = xr.Dataset(coords={"time": times})
    data["gap"] = (("start", "time"), [path.gap for path in paths])
    data["risk"] = (("start", "time"), [2 * path.error for path in paths])
    data["moved"] = (("start", "time"), [path.moved for path in paths])
    data["by_modes"] = np.max(np.abs(exact.R - np.asarray(solved.R)))
    data["closest"] = bias.distance
    data["random_closest"] = _closest_random_solution(bias, samples, seed)
    data["late_power"] = _late_power(times, own.error)
    data["halved"] = _time_at_share(times, own.error, 1 / 2)
    data["learned"] = _time_at_share(times, own.error, 1e-4)
    return data


def _closest_random_solution(bias: Any, samples: int, seed: int) -> float:
    """Least squared distance between the start and random solutions.

    |W - W_end|^2 = tr Q + tr Q_end - 2 sqrt(p/p*) sum(S R) with a random frame S.
    """
    R = np.asarray(bias.start.R)
    p, p_teacher = R.shape
    rng = np.random.default_rng(seed)
    frames, _ = np.linalg.qr(rng.standard_normal((samples, p, p_teacher)))
    scale = np.sqrt(p / p_teacher)
    norms = np.trace(np.asarray(bias.start.Q)) + np.trace(bias.Q)
    distances = norms - 2 * scale * np.sum(frames * R, axis=(1, 2))
    return distances.min()


def _time_at_share(times: np.ndarray, error: np.ndarray, share: float) -> float:
    """When the error is this share of its first value."""
    # np.interp needs ascending values: minus the error, which falls.
    return float(np.interp(-error[0] * share, -error, times))


def _late_power(times: np.ndarray, error: np.ndarray) -> float:
    """The power of time with which the error vanishes."""
    late = times > 0.1 * times[-1]
    return float(np.polyfit(np.log(times[late]), np.log(error[late]), 1)[0])


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Compare ends: the own start arrives, others stay away, all are perfect, slowly."""
    own = data["gap"][0, -1]
    others = data["gap"][1:, -1]
    words = "own start: distance to the predicted end, at the end"
    yield at_most(words, own, 1e-3)
    words = "other starts: least distance to it, at the end"
    yield at_least(words, others.min(), 0.5)
    words = "largest risk of any of them, at the end"
    yield at_most(words, data["risk"][:, -1].max(), 1e-4)
    words = "own start: largest change of an entry of S"
    yield at_most(words, data["moved"][0].max(), 1e-6)
    words = "solve against the curves mode by mode: largest gap of R"
    yield at_most(words, data["by_modes"], 1e-6)
    words = (
        "closest of random solutions, squared distance beyond that of the predicted one"
    )
    yield above(words, data["random_closest"] - data["closest"], 0.0)
    words = "p > p*: power of time with which the risk vanishes"
    yield close(words, data["late_power"], -2.0, absolute=0.05)
    descent = at_most(
        "time from half the loss to 1e-4 of it, over the time to half the loss",
        (data["learned"] - data["halved"]) / data["halved"],
        0.5,
        says="the final descent toward the solution manifold occurs on a much shorter "
        "timescale",
    )
    yield refuted(
        descent,
        evidence="p > p*: the norms of extra units vanish as 1/alpha along merely flat "
        "directions (quad-8), the risk as 1/alpha^2; solve and the curves mode by mode "
        "agree",
    )


def draw_3(data: "Dataset") -> "Figure":
    """Draw the distance to the predicted end, and the risk."""
    title = "Learning ends at the solution that its start predicts"
    small = (
        "Black: the start that made the prediction; gray: other starts of the same law."
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.0)
    labels = {
        "gap": r"distance $|\rho(t) - \bar\rho|$",
        "risk": r"risk $\mathcal{R} = 2\epsilon_g$",
    }
    # Time zero has no place on a logarithmic axis.
    shown = data.isel(time=slice(1, None))
    for panel, (name, label) in zip(axes[0], labels.items(), strict=True):
        for other in shown[name][:0:-1]:
            panel.plot(shown["time"], other, color=FAINT, linewidth=1.0)
        panel.plot(shown["time"], shown[name][0], color=INK, linewidth=2.0)
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
# Starts from which S is conserved: Q(0) commutes with rho0 rho0^T, teachers are orthonormal.
IN_ORDER = CASES[:3]
# Dimensions of what is kept along each path, after the case.
PATH_DIMS: dict[str, tuple[str, ...]] = {
    "S": ("time", "student", "teacher"),
    "moved": ("time",),
    "gap": ("time",),
    "error": ("time",),
}


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
    """Return S(t) from starts in order and from others, and where each ends."""
    import xarray as xr

    network = tutelage_papers.quadratic.quadratic_network(p, p_teacher, paper_lr)
    fast = tutelage_papers.quadratic.quadratic_network(p, p_teacher, large_lr)
    starts = _starts_of_cases(network.start(overlap, seed), spread, seed)
    paths = []
    disorder = []
    for case, start in starts.items():
        case_network = fast if case == "large learning rate" else network
        bias = tutelage_papers.quadratic.implicit_bias(case_network.problem, start)
        # The same time in units of the learning rate.
        last = end * paper_lr / case_network.paper_lr
        paths.append(bias.follow(tu.log_times(0.003 * last, last, POINTS)))
        disorder.append(max(bias.disorder))
    data = xr.Dataset(coords={"case": list(starts)})
    for name, dims in PATH_DIMS.items():
        values = np.array([getattr(path, name) for path in paths])
        data[name] = (("case", *dims), values)
    data["disorder"] = ("case", disorder)
    data["alpha"] = (("case", "time"), np.array([path.times for path in paths]))
    return data


def _starts_of_cases(
    plain: "tu.Start", spread: float, seed: int
) -> dict[str, "tu.Start"]:
    """A start for each of CASES, with the same overlaps R."""
    R = np.asarray(plain.R)
    p, p_teacher = R.shape
    orthonormal = np.eye(p_teacher)
    anisotropic = np.eye(p) + 0.5 * R @ R.T / np.max(R @ R.T)
    rng = np.random.default_rng(seed + 1)
    noise = rng.standard_normal((p, p))
    overlapping = np.eye(p) + 0.01 * (noise + noise.T) / 2
    unequal = np.diag(np.linspace(1 - spread, 1 + spread, p))
    off_diagonal = np.ones((p_teacher, p_teacher)) - np.eye(p_teacher)
    T = np.eye(p_teacher) + 0.3 * off_diagonal
    return {
        "orthonormal students": plain,
        "large learning rate": plain,
        "in order, not isotropic": tu.Start(R, anisotropic, orthonormal),
        "overlaps of N = 10^4": tu.Start(R, overlapping, orthonormal),
        "unequal norms": tu.Start(R, unequal, orthonormal),
        "teachers not in order": tu.Start(R, np.eye(p), T),
    }


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """Compare S: constant if Q(0) commutes with rho0 rho0^T, at any rate; else not."""
    moved = data["moved"].max("time")
    disorder = data["disorder"]
    for case in IN_ORDER:
        words = f"{case}: largest change of an entry of S"
        yield at_most(words, moved.sel(case=case), 1e-6)
    for case in IN_ORDER:
        words = f"{case}: commutator of Q(0) and rho0 rho0^T"
        yield at_most(words, disorder.sel(case=case), 1e-10)
    lost = "unequal norms"
    words = f"{lost}: commutator of Q(0) and rho0 rho0^T"
    yield above(words, disorder.sel(case=lost), 0.01)
    for case in (lost, "teachers not in order"):
        words = f"{case}: largest change of an entry of S"
        yield above(words, moved.sel(case=case), 1e-3)
    words = "overlaps of N = 10^4: largest change of an entry of S"
    yield at_most(words, moved.sel(case="overlaps of N = 10^4"), 0.05)
    arrives = at_most(
        f"{lost}: distance to the closest solution, at the end",
        data["gap"].sel(case=lost)[-1],
        1e-3,
        says=CLAIM,
    )
    risk = 2 * float(data["error"].sel(case=lost)[-1])
    yield refuted(
        arrives,
        evidence=f"the risk vanishes (at the end {risk:.1g}), but S has moved; it is "
        "conserved only if Q(0) commutes with rho0 rho0^T, which the proof assumes "
        "(Q(0) = 1)",
    )


def draw_4(data: "Dataset") -> "Figure":
    """Draw the entries of S along learning, a panel for each kind of start."""
    title = (
        "The polar factor of the overlaps is conserved by learning if the start is in "
        "order"
    )
    small = (
        r"Entries of $S = \rho\,(\rho^T \rho)^{-1/2}$; colors: student units; lines: "
        "teachers. Numbers: movement of $S$."
    )
    figure, axes = panel_grid(2, 3, title, small, height=2.4)
    for panel, case in zip(axes.ravel(), CASES, strict=True):
        path = data.sel(case=case)
        shown = path.isel(time=slice(1, None))
        for k, m in np.ndindex(data.sizes["student"], data.sizes["teacher"]):
            look = {
                "color": COLORS[k % len(COLORS)],
                "linestyle": DASHES[m % len(DASHES)],
                "linewidth": 1.1,
            }
            panel.plot(shown["alpha"], shown["S"][:, k, m], **look)
        panel.set(xscale="log", ylim=(-1.05, 1.05))
        panel.set(xlabel=TIME, ylabel="entries of $S$")
        label_panel(panel, f"{case}: {float(path['moved'].max()):.1g}")
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
