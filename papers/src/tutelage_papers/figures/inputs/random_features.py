"""Random features: the teacher looks at c, and only a linear readout of x = sigma(F c / sqrt(D)) learns.

The readout is one linear unit on x. Whatever the teacher is, y = b rho + rest with b = E[g'(rho)], so that each level obeys a
linear equation for d_l = q_l - 2 b r_l + b^2 t_l, with E = E[(y - yhat)^2] and m1 = sum_l p_l lam_l,
    E = U + sum_l p_l lam_l d_l,   U = E[y^2] - b^2 sum_l p_l lam_l t_l,   d' = -2 eta lam d + eta^2 lam E,
    E(infinity) = U / (1 - eta m1 / 2).
Here these equations are solved by one matrix exponential and compared with `solve`, which knows nothing of them.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, below
from tutelage_papers.drawing import draw_band, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = {
    "linear": 1e-7,
    "erf": 1e-5,
}  # accuracy of `solve`: closed averages; quadrature


def closed_error(
    problem: "tu.Problem", start: "tu.Start", times: np.ndarray
) -> np.ndarray:
    """e_g by the linear equations; the last entry is its limit."""
    from scipy.linalg import expm

    inputs = problem.inputs
    eta = float(problem.optimizer.lr)
    lam = np.asarray(inputs.eigenvalues)
    weights = np.asarray(inputs.weights)
    r, q, t = (np.asarray(x)[:, 0, 0] for x in start.blocks(problem))
    T = weights @ t + float(np.asarray(problem.unseen)[0, 0])
    if problem.labeler.activation.name == "erf":
        b = np.sqrt(2 / np.pi / (1 + T))
        square = 2 / np.pi * np.arcsin(T / (1 + T))
    else:
        b = 1.0
        square = T
    U = square - b**2 * (weights @ t)
    matrix = np.diag(-2 * eta * lam) + eta**2 * np.outer(lam, weights)
    source = eta**2 * lam * U
    rest = -np.linalg.solve(matrix, source)
    start_d = q - 2 * b * r + b**2 * t
    error = [U + weights @ (rest + expm(matrix * a) @ (start_d - rest)) for a in times]
    return np.array([*error, U / (1 - eta * weights.sum() / 2)]) / 2


def readout_problem(
    teacher: str, inputs: "tu.HiddenManifold", lr: float
) -> "tu.Problem":
    """A linear readout of the features learns from one unit on the latent vector."""
    return tu.Problem(
        tu.Network(1, "linear"), tu.Network(1, teacher), inputs, tu.SGD(lr)
    )


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
    """Theory, closed solution and networks for both teachers; errors that remain against the number of features."""
    import xarray as xr

    from tutelage_papers.bands import band, wrong_theory

    inputs = tu.HiddenManifold("random", sigma, round(share * dim), dim=dim)
    times = tu.linear_times(end, points)
    parts: list[xr.Dataset] = []
    for name in TEACHERS:
        problem = readout_problem(name, inputs, lr)
        start = tu.random_start(problem, dim=dim, scale=1.0, seed=seed)
        theory = tu.solve(problem, start, times)
        wrong = wrong_theory(problem, start, times)
        networks = tu.simulate(
            problem, start, times=times, runs=runs, seed=seed, method="weights"
        )
        closed = closed_error(problem, start, np.asarray(times))
        parts.append(band(theory, networks, wrong).assign(closed=("time", closed[:-1])))
    left = np.array(
        [
            [_remaining(name, sigma, flow, ratio, lr) for ratio in ratios]
            for name in TEACHERS
        ]
    )
    data = xr.concat(
        parts,
        dim=xr.DataArray(list(TEACHERS), dims="teacher_kind", name="teacher_kind"),
    )
    return data.assign(
        remaining=(("teacher_kind", "ratio"), left[..., 0]),
        remaining_closed=(("teacher_kind", "ratio"), left[..., 1]),
        **{"ratio": ratios, "dim": dim, "runs": runs, "share": share, "lr": lr},
    )


def _remaining(
    name: str, sigma: str, latent: int, ratio: float, lr: float
) -> tuple[float, float]:
    """The error after a long time by `solve`, and the limit of the closed solution."""
    problem = readout_problem(
        name, tu.HiddenManifold("random", sigma, latent, dim=round(ratio * latent)), lr
    )
    start = tu.asymmetric_start(problem)
    return float(tu.solve(problem, start, [0.0, 300.0]).error[-1]), float(
        closed_error(problem, start, np.zeros(1))[-1]
    )


def claims_3(data: "Dataset") -> list[Claim]:
    """The closed solution is that of the general theory; networks on x itself agree; more features leave less."""
    from tutelage_papers.bands import inside_claims

    claims = []
    for name, accuracy in TEACHERS.items():
        one = data.sel(teacher_kind=name)
        gap, final = (
            np.abs(a / b - 1).max()
            for a, b in (
                (one["closed"], one["error"]),
                (one["remaining_closed"], one["remaining"]),
            )
        )
        claims += [
            below(
                f"{name} teacher: largest relative gap between closed solution and theory",
                float(gap),
                accuracy,
            ),
            below(
                f"{name} teacher: the same for the error that remains",
                float(final),
                accuracy,
            ),
            at_most(
                f"{name} teacher: largest change of the remaining error with more features",
                float(one["remaining"].diff("ratio").max()),
                0.0,
            ),
            *inside_claims(
                one, f"{name} teacher, networks on x, N = {int(data['dim'])}"
            ),
        ]
    return claims


def draw_3(data: "Dataset") -> "Figure":
    """Learning curves, and what remains against the number of features."""
    small = (
        f"A linear unit on sigma(F c), rate {float(data['lr']):g}. Left: D/N = {float(data['share']):g}, N = {int(data['dim'])}; "
        f"crosses: closed; marks: {int(data['runs'])} networks, bands: ± 2 s.e. Right: lines: closed limit; marks: theory."
    )
    figure, axes = panel_grid(
        1, 2, "Random features with a trained readout", small, height=3.2, width=10.5
    )
    left, right = axes[0]
    for i, name in enumerate(TEACHERS):
        one = data.sel(teacher_kind=name)
        draw_band(
            left,
            data["time"].values,
            one["error"],
            one["error_mean"],
            one["error_se"],
            look=i,
            label=f"{name} teacher",
        )
        left.plot(one["time"], one["closed"], "x", color=COLORS[i], markersize=8)
        right.plot(
            data["ratio"],
            one["remaining_closed"],
            color=COLORS[i],
            linestyle=DASHES[i],
            label=f"{name} teacher",
        )
        right.plot(data["ratio"], one["remaining"], "o", color=COLORS[i], markersize=4)
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(
        xlabel="number of features, N/D",
        ylabel="error that remains",
        xscale="log",
        yscale="log",
    )
    tick_each(right, data["ratio"].values)
    for panel, text in zip(axes[0], ("learning", "after long times"), strict=True):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
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
