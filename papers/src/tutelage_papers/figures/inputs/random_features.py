"""Random features: only a linear readout of x = sigma(F c / sqrt(D)) learns.

The teacher looks at c, the readout is one linear unit on x. Whatever the teacher is,
y = b rho + rest with b = E[g'(rho)], so that each level obeys a linear equation for
d_l = q_l - 2 b r_l + b^2 t_l, with E = E[(y - yhat)^2] and m1 = sum_l p_l lam_l,

    E = U + sum_l p_l lam_l d_l,    U = E[y^2] - b^2 sum_l p_l lam_l t_l,
    d' = -2 eta lam d + eta^2 lam E,    E(infinity) = U / (1 - eta m1 / 2).

Here these equations are solved by one matrix exponential and compared with `solve`,
which knows nothing of them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, below
from tutelage_papers.drawing import draw_error, legend_below, line_of, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# Accuracy of `solve`: closed averages for the linear teacher, quadrature for erf.
TEACHERS = {"linear": 1e-7, "erf": 1e-5}


def closed_error(
    problem: "tu.Problem", start: "tu.Start", times: np.ndarray
) -> np.ndarray:
    """Return the error by the linear equations; the last entry is its limit."""
    from scipy.linalg import expm

    inputs = problem.inputs
    eta = float(problem.optimizer.lr)
    lam = np.asarray(inputs.eigenvalues)
    weights = np.asarray(inputs.weights)  # p_l lam_l
    r, q, t = (np.asarray(block)[:, 0, 0] for block in start.blocks(problem))
    T = weights @ t + float(np.asarray(problem.unseen)[0, 0])
    if problem.labeler.activation.name == "erf":
        b = np.sqrt(2 / np.pi / (1 + T))
        square = 2 / np.pi * np.arcsin(T / (1 + T))
    else:
        b = 1.0
        square = T
    U = square - b**2 * (weights @ t)
    # d' = matrix d + source, so that d - rest decays as exp(matrix alpha).
    matrix = np.diag(-2 * eta * lam) + eta**2 * np.outer(lam, weights)
    source = eta**2 * lam * U
    rest = -np.linalg.solve(matrix, source)
    start_d = q - 2 * b * r + b**2 * t
    error = []
    for time in times:
        d = rest + expm(matrix * time) @ (start_d - rest)
        error.append(U + weights @ d)
    error.append(U / (1 - eta * weights.sum() / 2))
    return np.array(error) / 2


def readout_problem(
    teacher: str, inputs: "tu.HiddenManifold", lr: float
) -> "tu.Problem":
    """A linear readout of the features learns from one unit on the latent vector."""
    readout = tu.Network(1, "linear")
    return tu.Problem(readout, tu.Network(1, teacher), inputs, tu.SGD(lr))


def compute_3(
    lr: float,
    sigma: str,
    share: float,
    end: float,
    points: int,
    ratios: list[float],
    flow: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return theory, closed solution and networks for both teachers.

    remaining, remaining_closed: errors that remain, against the number of features.
    """
    import xarray as xr

    from tutelage_papers.bands import band, wrong_theory

    inputs = tu.HiddenManifold("random", sigma, round(share * dim), dim=dim)
    times = tu.linear_times(end, points)
    parts: list[Dataset] = []
    for name in TEACHERS:
        problem = readout_problem(name, inputs, lr)
        start = tu.random_start(problem, dim=dim, scale=1.0, seed=seed)
        theory = tu.solve(problem, start, times)
        wrong = wrong_theory(problem, start, times)
        networks = tu.simulate(
            problem, start, times=times, runs=runs, seed=seed, method="weights"
        )
        closed = closed_error(problem, start, np.asarray(times))
        left = [_remaining(name, sigma, flow, ratio, lr) for ratio in ratios]
        part = band(theory, networks, wrong)
        part["closed"] = ("time", closed[:-1])
        part["ratio"] = ratios
        part["remaining"] = ("ratio", [solved for solved, _ in left])
        part["remaining_closed"] = ("ratio", [limit for _, limit in left])
        parts.append(part)
    names = xr.DataArray(list(TEACHERS), dims="teacher_kind", name="teacher_kind")
    data = xr.concat(parts, dim=names)
    return data.assign(dim=dim, runs=runs, share=share, lr=lr)


def _remaining(
    name: str, sigma: str, latent: int, ratio: float, lr: float
) -> tuple[float, float]:
    """The error after a long time by `solve`, and the limit of the closed solution."""
    inputs = tu.HiddenManifold("random", sigma, latent, dim=round(ratio * latent))
    problem = readout_problem(name, inputs, lr)
    start = tu.asymmetric_start(problem)
    solved = tu.solve(problem, start, [0.0, 300.0])
    limit = closed_error(problem, start, np.zeros(1))[-1]
    return float(solved.error[-1]), float(limit)


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """The closed solution is that of the general theory; networks on x agree.

    More features leave less.
    """
    from tutelage_papers.bands import inside_claims

    for name, accuracy in TEACHERS.items():
        part = data.sel(teacher_kind=name)
        yield below(
            f"{name} teacher: largest relative gap between closed solution and theory",
            np.abs(part["closed"] / part["error"] - 1).max(),
            accuracy,
        )
        yield below(
            f"{name} teacher: the same for the error that remains",
            np.abs(part["remaining_closed"] / part["remaining"] - 1).max(),
            accuracy,
        )
        yield at_most(
            f"{name} teacher: largest change of the remaining error with more features",
            part["remaining"].diff("ratio").max(),
            0.0,
        )
        networks = f"{name} teacher, networks on x, N = {int(data['dim'])}"
        yield from inside_claims(part, networks)


def draw_3(data: "Dataset") -> "Figure":
    """Learning curves, and the error that remains against the number of features."""
    small = (
        f"A linear unit on sigma(F c), rate {float(data['lr']):g}. Left: "
        f"D/N = {float(data['share']):g}, N = {int(data['dim'])}; crosses: closed; "
        f"marks: {int(data['runs'])} networks, bands: ± 2 s.e. Right: lines: closed "
        "limit; marks: theory."
    )
    title = "Random features with a trained readout"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=10.5)
    curves, remaining = axes[0]
    ratios = data["ratio"]
    for look, name in enumerate(TEACHERS):
        part = data.sel(teacher_kind=name)
        line = line_of(look)
        color = line["color"]
        label = f"{name} teacher"
        draw_error(curves, part, look=look, label=label)
        curves.plot(part["time"], part["closed"], "x", color=color, markersize=8)
        remaining.plot(ratios, part["remaining_closed"], **line, label=label)
        remaining.plot(ratios, part["remaining"], "o", color=color, markersize=4)
    curves.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    remaining.set(
        xlabel="number of features, N/D",
        ylabel="error that remains",
        xscale="log",
        yscale="log",
    )
    tick_each(remaining, ratios.values)
    label_panel(curves, "learning")
    label_panel(remaining, "after long times")
    for panel in axes[0]:
        legend_below(panel)
    return figure


PRINTED: dict[str, Any] = {
    "lr": 2.0,
    "sigma": "relu",
    "share": 0.5,
    "flow": 200,
    "seed": 83,
}

FIGURES = (
    Replica(
        id="inputs-3",
        source="inputs",
        figure="random features",
        title="Random features with a trained readout: a closed solution",
        full=PRINTED
        | {
            "end": 10.0,
            "points": 11,
            "ratios": [0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0],
            "dim": 600,
            "runs": 40,
        },
        quick=PRINTED
        | {"end": 6.0, "points": 7, "ratios": [0.5, 1.5, 4.0], "dim": 300, "runs": 60},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
