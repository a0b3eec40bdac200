"""ReLU students of a ReLU teacher, with the whole term of order eta^2 (notes on the dynamical analysis of online SGD).

Our copy of the notes lacks its displayed equations, so claims are held against our own derivations (docs/notation.md).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, below
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

UNITS = 2
VANISHING = 1e-9  # times G: the theory without G, by the program that solves it with G


def compute_3(
    lr: float,
    noise: float,
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
    points: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Runs, the theory, the theory with 0.9 G and the one without G (X_flow); e_g by hand with and without a term."""
    from tutelage_papers.bands import band, wrong_theory

    problem = tu.Problem(
        tu.Network(UNITS, "relu"),
        tu.Network(UNITS, "relu"),
        optimizer=tu.SGD(lr=lr),
        noise=noise,
    )
    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    networks = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    theory = tu.solve(problem, start, times)
    flow = wrong_theory(problem, start, times, VANISHING)
    data = band(theory, networks, wrong_theory(problem, start, times))
    without = band(flow, networks, flow)
    by_hand = [
        _error_by_hand(r, q, np.eye(UNITS), whole)
        for whole in (True, False)
        for r, q in _overlaps(theory)
    ]
    whole, partial = np.reshape(by_hand, (2, -1))
    flows: dict[str, Any] = {
        f"{name}_flow": without[name] for name in ("error", "R", "Q")
    } | {"inside_flow": without["inside"]}
    return data.assign(flows).assign(
        error_by_hand=("time", whole),
        error_partial=("time", partial),
        lr=lr,
        dim=dim,
        runs=runs,
    )


def _overlaps(theory: "tu.Trajectory") -> Any:
    return zip(np.asarray(theory.R), np.asarray(theory.Q), strict=True)


def _error_by_hand(R: np.ndarray, Q: np.ndarray, T: np.ndarray, whole: bool) -> float:
    """e_g = E[(sum_i w_i g(x_i))^2] / 2 with w = 1 for students, -1 for teachers, and for g = max(x, 0)

    E[g_a g_b] = ( sqrt(C_aa C_bb - C_ab^2) + C_ab asin c ) / (2 pi) + C_ab / 4,    c = C_ab / sqrt(C_aa C_bb).

    whole = False leaves out the last term, without which this is the average of |x_a| |x_b| / 4 and no more.
    """
    C = np.block([[Q, R], [R.T, T]])
    w = np.repeat([1.0, -1.0], UNITS)
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    c = np.clip(C / size, -1.0, 1.0)
    average = size * (np.sqrt(1 - c**2) + c * np.arcsin(c)) / (2 * np.pi) + (
        C / 4 if whole else 0.0
    )
    return float(w @ average @ w / 2)


def claims_3(data: "Dataset") -> list[Claim]:
    """Inside the band with the whole term of order eta^2, outside without it."""
    from tutelage_papers.bands import inside_claims

    by_hand = np.abs(data["error_by_hand"] - data["error"]).max()
    partial = np.abs(data["error_partial"] - data["error_mean"]) < 4 * data["error_se"]
    return [
        *inside_claims(data, "ReLU"),
        below(
            "ReLU: the same without the term of order eta^2, which must fail",
            float(data["inside_flow"]),
            0.95,
        ),
        at_most(
            "largest gap of e_g to E[relu relu] written out by hand",
            float(by_hand),
            1e-10,
        ),
        below(
            "share of times inside the band without C_ab / 4 in E[relu relu], which must fail",
            float(partial.mean()),
            0.95,
        ),
    ]


def draw_3(data: "Dataset") -> "Figure":
    """Error and overlaps, with and without the term of order eta^2."""
    title = rf"Two ReLU units learn from two others, $\eta$ = {float(data['lr']):g}"
    small = (
        f"Lines: theory; marks: mean of {int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors of it; "
        "dashed gray: without the term of order η²; dotted gray: 0.9 G."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.3)
    times = data["time"].values
    left = axes[0, 0]
    draw_band(
        left,
        times,
        data["error"],
        data["error_mean"],
        data["error_se"],
        label="theory, runs",
    )
    left.plot(
        times,
        data["error_flow"],
        color=FAINT,
        linestyle=DASHES[1],
        linewidth=1.2,
        label=r"without $\eta^2$",
    )
    left.plot(
        times,
        data["error_wrong"],
        color=FAINT,
        linestyle=DASHES[2],
        linewidth=1.2,
        label="0.9 G",
    )
    left.plot(
        times,
        data["error_partial"],
        color=COLORS[1],
        linestyle=DASHES[3],
        linewidth=1.2,
        label=r"without $C_{ab}/4$",
    )
    left.set(ylabel=ERROR, yscale="log")
    for panel, name, text in (
        (axes[0, 1], "R", "with the teachers"),
        (axes[0, 2], "Q", "among the students"),
    ):
        pairs = (
            [(0, 0), (0, 1), (1, 0), (1, 1)]
            if name == "R"
            else [(0, 0), (0, 1), (1, 1)]
        )
        _draw_overlaps(panel, data, name, pairs)
        panel.set_ylabel(f"overlaps ${name}$")
        label_panel(panel, text)
    label_panel(left, "error")
    for panel in axes[0]:
        panel.set_xlabel(TIME)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


def _draw_overlaps(
    panel: Any, data: "Dataset", name: str, pairs: list[tuple[int, int]]
) -> None:
    times = data["time"].values
    for look, (k, l) in enumerate(pairs):
        theory, mean, se, flow = (
            data[f"{name}{ending}"].values[:, k, l]
            for ending in ("", "_mean", "_se", "_flow")
        )
        draw_band(
            panel,
            times,
            theory,
            mean,
            se,
            look=look,
            label=f"${name}_{{{k + 1}{l + 1}}}$",
        )
        panel.plot(times, flow, color=FAINT, linestyle=DASHES[1], linewidth=0.9)


PRINTED: dict[str, Any] = {
    "lr": 0.5,
    "noise": 0.1,
    "R": [[0.45, 0.1], [-0.05, 0.35]],
    "Q": [[0.5, 0.1], [0.1, 0.4]],
    "points": 41,
    "seed": 3,
}

FIGURES = (
    Replica(
        id="notes-3",
        source="notes",
        figure="ReLU networks",
        title="ReLU student and teacher, with and without the term of order eta^2",
        full=PRINTED | {"end": 20.0, "dim": 1000, "runs": 200},
        quick=PRINTED | {"end": 10.0, "dim": 500, "runs": 60},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
