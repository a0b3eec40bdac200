"""Inputs on a hidden manifold: theory against SGD on them, and the floor of the error.

The inputs are x = sigma(F c / sqrt(D)). The student is tested on fresh x, so that
Gaussian equivalence is tested too. The floor: with the share u of the teacher's fields
unseen, E[g(rho) | visible part] = erf(visible part / sqrt(2 (1 + u))) is a student of
the same width, and leaves

    e_g = (M / pi) (pi/6 - arcsin((1 - u) / 2)).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below
from tutelage_papers.drawing import legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SIGMAS = ("sign", "erf", "relu")
WIDE = 200  # N of the floors; the ratio alone matters


def floor(unseen: Any, units: int = 2) -> Any:
    """The least error of erf students of `units` orthonormal erf teachers."""
    return units / np.pi * (np.pi / 6 - np.arcsin((1 - unseen) / 2))


def features_of(name: str, fields: np.ndarray) -> np.ndarray:
    """Return sigma, centered, written out independently of the library."""
    from scipy.special import erf

    if name == "sign":
        return np.sign(fields)
    if name == "erf":
        return erf(fields / np.sqrt(2))
    return np.maximum(fields, 0.0) - 1 / np.sqrt(2 * np.pi)


def tested_sgd(
    name: str,
    F: Any,
    W: Any,
    beta: Any,
    lr: float,
    steps: np.ndarray,
    runs: int,
    tests: int,
    seed: int,
) -> np.ndarray:
    """Return the error on fresh x, (runs, time), of plain SGD on x.

    All networks start from the weights W; each has its own samples.
    """
    from scipy.special import erf

    N, D = F.shape
    rng = np.random.default_rng(seed)
    W = np.repeat(W[None], runs, axis=0)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and labels."""
        c = rng.standard_normal((count, D))
        x = features_of(name, c @ F.T / np.sqrt(D))
        y = erf(c @ beta.T / np.sqrt(2 * D)).sum(axis=1)
        return x, y

    def test_error(w: np.ndarray) -> float:
        x, y = draw(tests)
        outputs = erf(x @ w.T / np.sqrt(2 * N)).sum(axis=1)
        return float(np.mean((y - outputs) ** 2) / 2)

    errors = []
    for step in range(steps[-1] + 1):
        if step in steps:
            errors.append([test_error(w) for w in W])
        x, y = draw(runs)
        fields = np.einsum("rkn,rn->rk", W, x) / np.sqrt(N)
        residual = y - erf(fields / np.sqrt(2)).sum(axis=1)
        slopes = np.exp(-(fields**2) / 2)
        delta = residual[:, None] * np.sqrt(2 / np.pi) * slopes
        W += lr / np.sqrt(N) * delta[:, :, None] * x[:, None]
    return np.array(errors).T


def compute_2(
    lr: float,
    share: float,
    ratios: list[float],
    scale: float,
    end: float,
    points: int,
    dim: int,
    runs: int,
    tests: int,
    features: str,
    flow_end: float,
    seed: int,
) -> "Dataset":
    """Return theory and measured errors for one D/N, and floors for all D/N.

    blind: the theory without the unseen part. share: D/N of the curves. ratios: D/N of
    the floors. features: F of the floors, "random" or "orthogonal".
    """
    import xarray as xr

    rng = np.random.default_rng(seed)
    D = round(share * dim)
    F = rng.standard_normal((dim, D))
    beta = rng.standard_normal((2, D))
    W = scale * rng.standard_normal((2, dim))
    steps = np.unique(np.linspace(0, end * dim, points).round().astype(int))
    times = steps / dim
    student = tu.Network(2, "erf")
    parts: list[Dataset] = []
    for place, name in enumerate(SIGMAS):
        inputs = tu.HiddenManifold(F, name, levels=dim)
        unseen = inputs.unseen_part(beta)
        teacher = tu.Network(2, "erf", gram=beta @ beta.T / D, unseen=unseen)
        problem = tu.Problem(student, teacher, inputs, tu.SGD(lr))
        blind = problem.replace(**{"teacher.unseen": np.zeros((2, 2))})
        start = tu.start_from_weights(problem, W, beta)
        part = xr.Dataset(coords={"time": times, "ratio": ratios})
        part["error"] = ("time", tu.solve(problem, start, times).error)
        part["blind"] = ("time", tu.solve(blind, start, times).error)
        measured = tested_sgd(
            name=name,
            F=inputs.features,
            W=W,
            beta=beta,
            lr=lr,
            steps=steps,
            runs=runs,
            tests=tests,
            seed=seed + 1 + place,
        )
        error = measured.std(axis=0, ddof=1) / np.sqrt(runs)
        part["measured"] = ("time", measured.mean(axis=0))
        part["measured_se"] = ("time", error)
        floors = [
            _solved_floor(name, ratio, features, lr, flow_end) for ratio in ratios
        ]
        part["flow"] = ("ratio", [error for error, _ in floors])
        part["unseen"] = ("ratio", [share for _, share in floors])
        parts.append(part)
    names = xr.DataArray(list(SIGMAS), dims="sigma", name="sigma")
    data = xr.concat(parts, dim=names)
    return data.assign(features=features, dim=dim, dim_latent=D, runs=runs, lr=lr)


def _solved_floor(
    name: str, ratio: float, features: str, lr: float, end: float
) -> tuple[float, float]:
    """The error of gradient flow after a long time at one D/N, and the unseen share."""
    wide = tu.HiddenManifold(features, name, round(ratio * WIDE), dim=WIDE)
    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf")
    problem = tu.Problem(student, teacher, wide, tu.SGD(lr))
    start = tu.asymmetric_start(problem)
    times = np.concatenate([[0.0], np.geomspace(1.0, end, 20)])
    solved = tu.solve(problem, start, times, gradient_flow=True)
    return float(solved.error[-1]), float(wide.unseen_share)


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Errors within three standard errors, only with the unseen part; the floors."""
    for name in SIGMAS:
        part = data.sel(sigma=name)
        z = (part["measured"] - part["error"]) / part["measured_se"]
        z_blind = (part["measured"] - part["blind"]) / part["measured_se"]
        yield at_most(
            f"{name}: |z| of the test error on fresh x at the end", abs(z[-1]), 3.0
        )
        yield at_most(f"{name}: largest |z| along the curve", np.abs(z).max(), 4.0)
        yield above(
            f"{name}: |z| of the theory without the unseen part, which must fail",
            abs(z_blind[-1]),
            3.0,
        )
        yield below(
            f"{name}: largest relative gap between the floor and that of the unseen "
            "part",
            np.abs(part["flow"] / floor(part["unseen"]) - 1).max(),
            0.01,
        )
    rises = data["unseen"].diff("ratio")
    yield above("least rise of the unseen share between two D/N", rises.min(), 0.0)


def draw_2(data: "Dataset") -> "Figure":
    """Curves with measured errors, and floors against D/N."""
    small = (
        f"Two erf units, rate {float(data['lr']):g}. Left: N = {int(data['dim'])}, "
        f"D = {int(data['dim_latent'])}; thin: theory without the unseen part; marks: "
        f"{int(data['runs'])} networks, fresh x, ± 2 s.e. "
        f"Right: {data['features'].item()} F; marks: gradient flow."
    )
    title = "Inputs on a hidden manifold"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=10.5)
    curves, floors = axes[0]
    for look, name in enumerate(SIGMAS):
        part = data.sel(sigma=name)
        line = line_of(look)
        color = line["color"]
        times = part["time"]
        error = 2 * part["measured_se"]
        curves.plot(times, part["error"], **line, label=name)
        curves.plot(times, part["blind"], **line, linewidth=0.8, alpha=0.4)
        curves.errorbar(
            times, part["measured"], error, fmt="o", markersize=3, color=color
        )
        floors.plot(data["ratio"], floor(part["unseen"]), **line, label=name)
        floors.plot(data["ratio"], part["flow"], "o", color=color, markersize=4)
    curves.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    floors.set(xlabel="latent dimension, D/N", ylabel=r"floor of $\epsilon$")
    label_panel(curves, "learning")
    label_panel(floors, "floors")
    for panel in axes[0]:
        legend_below(panel, columns=3)
    return figure


PRINTED: dict[str, Any] = {"lr": 0.5, "share": 0.5, "scale": 0.5, "seed": 82}

FIGURES = (
    Replica(
        id="inputs-2",
        source="inputs",
        figure="hidden manifold",
        title="Inputs on a hidden manifold: test error on real samples, and its floor",
        full=PRINTED
        | {
            "ratios": [0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0],
            "end": 10.0,
            "points": 11,
            "dim": 800,
            "runs": 12,
            "tests": 10_000,
            "features": "random",
            "flow_end": 3000.0,
        },
        quick=PRINTED
        | {
            "ratios": [0.1, 0.5, 1.0, 2.0],
            "end": 6.0,
            "points": 4,
            "dim": 400,
            "runs": 12,
            "tests": 5_000,
            "features": "orthogonal",
            "flow_end": 1500.0,
        },
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
