"""One linear unit: the theory against the spectrum of its data set (Marchenko, Pastur).

X X^T / N of n = ratio N samples has eigenvalues s. Along an eigenvector, training keeps
the share A of the initial weights and learns the share B = 1 - A of the teacher (no
weight decay):

    R = <A R0 + B>,   Q = <A^2 Q0 + 2 A B R0 + B^2 + sigma^2 B^2 / s>
    2 ratio L = <s (A^2 Q0 - 2 A^2 R0 + A^2) + sigma^2 (B^2 - 2 B)> + sigma^2 ratio

with A = (1 - g s / ratio)^t of gradient descent. SGD with replacement has A =
exp(-eta s alpha / ratio), and its noise adds a convolution with the training loss L
itself (Volterra; Paquette et al. 2021).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, between
from tutelage_papers.drawing import tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

R0 = 0.1
Q0 = 0.5
NOISE = 0.3
LR = 0.5  # of SGD
STEP = 0.3  # of gradient descent
NODES = 400
POINTS = 1200  # of the Volterra equation
NAMES = ("R", "Q", "train")


def spectrum(ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues s of X X^T / N and their weights, at Chebyshev nodes."""
    low = (np.sqrt(ratio) - 1) ** 2
    high = (np.sqrt(ratio) + 1) ** 2
    angle = np.arange(1, NODES + 1) * np.pi / (NODES + 1)
    s = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    root = (high - low) / 2 * np.sin(angle)
    weights = root**2 / (2 * (NODES + 1) * s)
    if ratio < 1:  # directions without samples
        s = np.append(s, 0.0)
        weights = np.append(weights, 1 - ratio)
    return s, weights


def curves_of_shares(ratio: float, kept: np.ndarray) -> np.ndarray:
    """Return R, Q and training loss (rows) for shares A (time, eigenvalue)."""
    s, weights = spectrum(ratio)
    learned = np.where(s > 0, 1 - kept, 0.0)
    by_noise = np.divide(learned, s, out=np.zeros_like(learned), where=s > 0)
    R = kept * R0 + learned
    Q = kept**2 * Q0 + 2 * kept * learned * R0 + learned**2
    Q += NOISE**2 * learned * by_noise
    loss = s * kept**2 * (Q0 - 2 * R0 + 1) + NOISE**2 * (learned**2 - 2 * learned)
    train = (loss @ weights + NOISE**2 * ratio) / (2 * ratio)
    return np.array([R @ weights, Q @ weights, train])


def descent(ratio: float, steps: np.ndarray) -> np.ndarray:
    """Return R, Q and training loss of gradient descent after numbers of steps."""
    s, _ = spectrum(ratio)
    return curves_of_shares(ratio, (1 - STEP * s / ratio) ** np.asarray(steps)[:, None])


def stochastic(ratio: float, times: np.ndarray) -> np.ndarray:
    """Return R, Q and training loss of SGD at times, by the trapezoidal rule."""
    grid = np.linspace(0.0, times[-1], POINTS + 1)
    step = grid[1]
    s, weights = spectrum(ratio)
    kept = np.exp(-LR * s / ratio * grid[:, None])
    R, Q, flow = curves_of_shares(ratio, kept)
    of_loss = LR**2 / ratio**2 * kept**2 @ (weights * s**2)
    of_Q = 2 * LR**2 / ratio * kept**2 @ (weights * s)
    loss = flow.copy()
    for i in range(1, POINTS + 1):
        past = of_loss[i:0:-1] @ loss[:i] - of_loss[i] * loss[0] / 2
        loss[i] = (flow[i] + step * past) / (1 - step * of_loss[0] / 2)
        ends = (of_Q[i] * loss[0] + of_Q[0] * loss[i]) / 2
        Q[i] += step * (of_Q[i::-1] @ loss[: i + 1] - ends)
    return np.array([np.interp(times, grid, values) for values in (R, Q, loss)])


def problem(ratio: float, optimizer: Any) -> "tu.Problem":
    """One linear unit learns from another one with label noise."""
    unit = tu.Network(1, "linear")
    data = tu.DataSet(ratio)
    return tu.Problem(unit, unit, noise=NOISE, optimizer=optimizer, data=data)


def compute_4(
    ratios: list[float],
    end: float,
    steps: int,
    accuracy: float,
    late: list[int],
    fine: int,
) -> "Dataset":
    """Return theory and closed form of both kinds of training, and error by ratio.

    late: numbers of steps at which the test error is drawn against the ratio.
    """
    import xarray as xr

    start = tu.Start(R=[[R0]], Q=[[Q0]])
    times = np.linspace(0.0, end, 13)
    counts = np.unique(np.linspace(0, steps, 13).astype(int))
    kinds = {
        "sgd": (tu.SGD(LR), times, stochastic),
        "descent": (tu.optimizers.GradientDescent(STEP), counts, descent),
    }
    data = xr.Dataset(coords={"ratio": ratios, "quantity": list(NAMES)})
    for kind, (optimizer, at, closed) in kinds.items():
        dims = ("ratio", "quantity", f"{kind}_time")
        shape = (len(ratios), len(NAMES), len(at))
        theory = np.empty(shape)
        bounds = np.empty(shape)
        exact = np.empty(shape)
        for i, ratio in enumerate(ratios):
            task = problem(ratio, optimizer)
            solved = tu.solve(task, start, at, accuracy=accuracy)
            errors = solved.sampling_errors
            theory[i] = [solved.R.ravel(), solved.Q.ravel(), solved.train_loss]
            bounds[i] = [
                errors["R"].ravel(),
                errors["Q"].ravel(),
                errors["train_loss"],
            ]
            exact[i] = closed(ratio, np.asarray(at, dtype=float))
        data[kind] = (dims, theory)
        data[f"{kind}_bound"] = (dims, bounds)
        data[f"{kind}_exact"] = (dims, exact)
        data = data.assign_coords({f"{kind}_time": at})
    fine_ratios = np.geomspace(0.5, 5.0, fine)
    error = np.empty((len(late), fine))
    for j, ratio in enumerate(fine_ratios):
        R, Q, _ = descent(ratio, np.array(late))
        error[:, j] = (Q - 2 * R + 1) / 2
    data["by_ratio"] = (("late", "fine"), error)
    data = data.assign_coords(late=late, fine=fine_ratios)
    return data.assign(accuracy=accuracy)


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """The theory against both closed forms, and where the error of descent peaks."""
    accuracy = float(data["accuracy"])
    for kind, words in (("sgd", "SGD"), ("descent", "gradient descent")):
        gap = abs(data[kind] - data[f"{kind}_exact"])
        scale = abs(data[f"{kind}_exact"]).max(f"{kind}_time")
        yield at_most(
            f"{words}: largest relative difference from the closed form",
            (gap / scale).max(),
            3 * accuracy,
        )
    covered = [
        abs(data[kind] - data[f"{kind}_exact"]) <= data[f"{kind}_bound"] + 1e-9
        for kind in ("sgd", "descent")
    ]
    share = np.mean([float(inside.mean()) for inside in covered])
    yield above("share of differences that the 95% bounds cover", share, 0.9)
    wrong = abs(data["sgd_exact"] - data["sgd_exact"].roll(ratio=1))
    yield above(
        "difference from the closed form of another ratio, which must be large",
        wrong.max(),
        0.1,
    )
    last = data["by_ratio"].isel(late=-1)
    place = int(np.argmax(last.values))
    yield between(
        "ratio at which the test error after the most steps is largest",
        data["fine"][place],
        0.85,
        1.15,
    )
    yield above("this peak over the error at ratio 5", last[place] / last[-1], 5.0)
    first = data["by_ratio"].isel(late=0)
    yield at_most(
        "early in training there is no peak: error at ratio 1 over that at ratio 0.5",
        float(first.sel(fine=1.0, method="nearest") / first[0]),
        1.0,
    )


def draw_4(data: "Dataset") -> "Figure":
    """Training losses on their closed forms, and test error against the ratio."""
    title = "A linear unit on a data set: theory and closed forms"
    small = "Lines: closed forms. Marks: averages over sample paths."
    figure, axes = panel_grid(1, 3, title, small, height=3.2, width=11.0)
    for place, ratio in enumerate(data["ratio"].values):
        curves = data.sel(ratio=ratio, quantity="train")
        color = COLORS[place]
        marks = {"color": color, "linestyle": "none", "markersize": 4.0}
        marks["marker"] = MARKERS[place]
        line = {"color": color, "linestyle": DASHES[place]}
        for panel, kind in zip(axes[0], ("sgd", "descent"), strict=False):
            times = data[f"{kind}_time"].values
            panel.plot(times, curves[f"{kind}_exact"], **line, label=f"ratio {ratio:g}")
            panel.plot(times, curves[kind], **marks)
    for place, late in enumerate(data["late"].values):
        look = {"color": COLORS[place], "linestyle": DASHES[place]}
        error = data["by_ratio"].sel(late=late)
        axes[0, 2].loglog(data["fine"], error, **look, label=f"{late} steps")
    tick_each(axes[0, 2], [0.5, 1.0, 2.0, 5.0])
    labels = ("SGD: training loss", "Gradient descent: training loss", "Test error")
    names = (r"$\alpha$", "steps", "samples per dimension")
    for panel, label, name in zip(axes[0], labels, names, strict=True):
        label_panel(panel, label)
        panel.set_xlabel(name)
        panel.set_yscale("log")
        panel.legend()
    return figure


FIGURES = (
    Replica(
        id="data-4",
        source="data",
        figure="Closed forms",
        title="one linear unit: Volterra, Marchenko-Pastur, double descent in time",
        full={
            "ratios": [0.6, 1.0, 1.5, 3.0],
            "end": 9.0,
            "steps": 40,
            "accuracy": 1e-3,
            "late": [3, 30, 300, 3000],
            "fine": 121,
        },
        quick={
            "ratios": [0.6, 1.5],
            "end": 4.0,
            "steps": 20,
            "accuracy": 5e-3,
            "late": [3, 30, 300, 3000],
            "fine": 61,
        },
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
