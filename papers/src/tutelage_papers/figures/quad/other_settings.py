"""Beyond the source: trained readouts, fewer students than teachers, and inputs of unequal variance.

Gradient flow of the weights themselves, J = W / sqrt(N), inputs of covariance Om, E = J*^T v* J* - J^T v J (v diagonal):
    e_g = tr(Om E)^2/2 + tr(Om E Om E),   J' = 2 v J (tr(Om E) Om + 2 Om E Om),   v_k' = tr(Om E) q_k + 2 j_k Om E Om j_k
(unit rates, q_k = j_k Om j_k). It does not depend on N once students and teachers fit, so a handful of dimensions is exact.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    INK,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_least, at_most, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TIME = r"time $\eta\alpha$ (loss with 1/2)"


@dataclass(frozen=True)
class Flow:
    """J (time, p, N), v (time, p) and error (time,) along the gradient flow."""

    times: np.ndarray
    J: np.ndarray
    v: np.ndarray
    error: np.ndarray
    J_teacher: np.ndarray

    def S(self) -> np.ndarray:
        """(time, p, p*): polar factor of J J*^T, also for p < p*."""
        left, _, right = np.linalg.svd(self.J @ self.J_teacher.T, full_matrices=False)
        return left @ right

    def moved(self) -> np.ndarray:
        """Largest change of an entry of S."""
        S = self.S()
        return np.max(np.abs(S - S[0]), axis=(1, 2))


def flow(
    J: np.ndarray,
    J_teacher: np.ndarray,
    times: np.ndarray,
    *,
    covariance: Any = None,
    train: bool = False,
) -> Flow:
    """From readouts 1/p and 1/p*."""
    from scipy.integrate import solve_ivp

    (p, n), k = J.shape, len(J_teacher)
    Om = np.eye(n) if covariance is None else np.diag(covariance)
    target = J_teacher.T @ J_teacher / k

    def parts(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        J = y[: p * n].reshape(p, n)
        v = y[p * n :]
        return J, v, Om @ (target - (J.T * v) @ J)

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        J, v, E = parts(y)
        pull = np.trace(E) * Om + 2 * E @ Om
        moves = np.einsum("ka,ab,kb->k", J, pull, J) if train else 0 * v
        return np.concatenate([(2 * v[:, None] * J @ pull).ravel(), moves])

    first = np.concatenate([J.ravel(), np.full(p, 1 / p)])
    found = solve_ivp(
        rates,
        (0.0, times[-1]),
        first,
        method="LSODA",
        t_eval=times,
        rtol=1e-10,
        atol=1e-13,
    )
    states = [parts(y) for y in found.y.T]
    error = np.array([np.trace(E) ** 2 / 2 + np.trace(E @ E) for _, _, E in states])
    return Flow(
        times,
        np.array([x[0] for x in states]),
        np.array([x[1] for x in states]),
        error,
        J_teacher,
    )


def first_weights(
    p: int, k: int, n: int, overlap: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal teachers on the first axes, and orthonormal students with overlaps of about this size."""
    rng = np.random.default_rng(seed)
    J_teacher = np.eye(n)[:k]
    rough = np.concatenate(
        [overlap * rng.standard_normal((p, k)), rng.standard_normal((p, n - k))], axis=1
    )
    values, vectors = np.linalg.eigh(rough @ rough.T)
    return vectors / np.sqrt(values) @ vectors.T @ rough, J_teacher


def compute_10(
    p: int,
    k: int,
    fewer: int,
    n: int,
    overlap: float,
    spread: list[float],
    end: float,
    points: int,
    starts: int,
    seed: int,
) -> "Dataset":
    """Four flows: the source's setting, readouts trained, fewer students than teachers, unequal variances.

    gain: e_g at the end with trained readouts over that with fixed ones, for several starts.
    """
    import xarray as xr

    times = np.concatenate([[0.0], np.geomspace(0.5, end, points - 1)])
    J, J_teacher = first_weights(p, k, n, overlap, seed)
    few, more = first_weights(fewer, k, n, overlap, seed)
    turned = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[
        0
    ]  # teachers on no axis of the inputs
    flows = {
        "as the source": flow(J, J_teacher, times),
        "readouts trained": flow(J, J_teacher, times, train=True),
        "fewer students": flow(few, more, times),
    }
    for size in spread:
        variances = np.where(np.arange(n) % 2, 1 - size, 1 + size)
        flows[f"variances 1 ± {size:g}"] = flow(
            J @ turned, J_teacher @ turned, times, covariance=variances
        )
    trained = flows["readouts trained"]
    under = flows["fewer students"]
    charge = np.sum(trained.J**2, axis=2) - 2 * trained.v**2
    network = tutelage_papers.quadratic.quadratic_network(fewer, k)
    best = tutelage_papers.quadratic.critical_points(network.problem, n)[fewer, 0]
    end_R = under.J[-1] @ under.J_teacher.T
    uneven = list(flows)[-1]
    return xr.Dataset(
        {
            "error": (("case", "time"), [x.error for x in flows.values()]),
            "moved": (("case", "time"), [x.moved() for x in flows.values()]),
            "charge_change": np.max(np.abs(charge - charge[0])),
            "norm_change": np.max(
                np.abs(np.sum(trained.J[-1] ** 2, 1) - np.sum(trained.J[0] ** 2, 1))
            ),
            "readout_spread": np.ptp(trained.v[-1]),
            "gain": (
                "start",
                [
                    _gain(*first_weights(p, k, n, overlap, seed + i), end)
                    for i in range(starts)
                ],
            ),
            "fewer_end": under.error[-1],
            "fewer_best": best.error,
            "fewer_gap": np.max(np.abs(end_R - np.sqrt(best.alpha) * under.S()[0])),
            "same_manifold": _gram_gap(flows[uneven], k),
            "verb_gap": _verb_gap(flows["as the source"], p, k),
            "half": ("case", [_half(x) for x in flows.values()]),
        },
        coords={"case": list(flows), "time": times},
    )


def _gain(J: np.ndarray, J_teacher: np.ndarray, end: float) -> float:
    """What training the readouts leaves of the error at the end."""
    trained, fixed = (
        flow(J, J_teacher, np.array([0.0, end]), train=train).error[-1]
        for train in (True, False)
    )
    return float(trained / fixed)


def _gram_gap(path: Flow, k: int) -> float:
    """Largest entry of W^T W / p - W*^T W* / p* at the end."""
    p = path.J.shape[1]
    return float(
        np.max(
            np.abs(
                path.J[-1].T @ path.J[-1] / p - path.J_teacher.T @ path.J_teacher / k
            )
        )
    )


def _verb_gap(path: Flow, p: int, k: int) -> float:
    """Overlaps of the flow against quadratic_curves, at the same times."""
    R = path.J[0] @ path.J_teacher.T
    Q = path.J[0] @ path.J[0].T
    network = tutelage_papers.quadratic.quadratic_network(p, k, 0.5)  # lr = 1
    curves = tutelage_papers.quadratic.quadratic_curves(
        network.problem,
        tu.Start(R, (Q + Q.T) / 2, np.eye(k)),
        path.times,
        gradient_flow=True,
    )
    return float(np.max(np.abs(curves.R - path.J @ path.J_teacher.T)))


def _half(path: Flow) -> float:
    """When the error is half its first value."""
    i = int(np.argmax(path.error < path.error[0] / 2))
    return float(
        np.interp(
            -path.error[0] / 2, -path.error[i - 1 : i + 1], path.times[i - 1 : i + 1]
        )
    )


def claims_10(data: "Dataset") -> list[Claim]:
    """What is conserved, what is reached, in each setting."""
    moved = {
        case: float(x.max())
        for case, x in zip(data["case"].values, data["moved"], strict=True)
    }
    ends = {
        case: float(x[-1])
        for case, x in zip(data["case"].values, data["error"], strict=True)
    }
    uneven = [case for case in moved if case.startswith("variances")]
    return [
        at_most(
            "the source's setting: flow of weights against quadratic_curves, largest gap of R",
            float(data["verb_gap"]),
            1e-6,
        ),
        at_most(
            "the source's setting: largest change of an entry of S",
            moved["as the source"],
            1e-6,
        ),
        above(
            "readouts trained: largest change of an entry of S",
            moved["readouts trained"],
            1e-3,
        ),
        at_most(
            "readouts trained: largest change of |w_k|^2 - 2 v_k^2",
            float(data["charge_change"]),
            1e-7,
        ),
        above("of |w_k|^2 alone", float(data["norm_change"]), 1e-2),
        at_most("readouts trained: e_g at the end", ends["readouts trained"], 1e-6),
        above(
            "share of starts from which extra units are switched off: e_g below 1e-3 of that with fixed readouts",
            float(np.mean(data["gain"].values < 1e-3)),
            0.5,
            evidence="the ratios: "
            + ", ".join(f"{x:.2g}" for x in data["gain"].values),
        ),
        close(
            "p < p*: e_g at the end, best fit (p, 0)",
            float(data["fewer_end"]),
            float(data["fewer_best"]),
            rel=1e-4,
        ),
        at_most(
            "p < p*: largest change of an entry of S", moved["fewer students"], 1e-6
        ),
        at_most(
            "p < p*: R at the end against sqrt(alpha) (R0 R0^T)^(-1/2) R0",
            float(data["fewer_gap"]),
            1e-3,
        ),
        *(
            above(f"{case}: largest change of an entry of S", moved[case], 1e-3)
            for case in uneven
        ),
        *(at_most(f"{case}: e_g at the end", ends[case], 1e-5) for case in uneven),
        at_most(
            f"{uneven[-1]}: W^T W / p - W*^T W* / p*, the manifold is the same",
            float(data["same_manifold"]),
            1e-2,
        ),
        at_least(
            f"{uneven[-1]}: time to half the error, isotropic over this",
            float(
                data["half"].sel(case="as the source")
                / data["half"].sel(case=uneven[-1])
            ),
            1.0,
        ),
    ]


def draw_10(data: "Dataset") -> "Figure":
    """Error, and how far S has moved."""
    title = "Beyond the source's setting: what is learned, and is S conserved?"
    small = r"Gradient flow from one start each. $S$: polar factor of $\rho$; dotted: best fit of fewer students."
    figure, axes = panel_grid(1, 2, title, small, height=3.1)
    for look, case in enumerate(data["case"].values):
        part = data.sel(case=case)
        style = {
            "color": COLORS[look],
            "linestyle": DASHES[look % len(DASHES)],
            "label": case,
        }
        axes[0, 0].plot(data["time"][1:], part["error"][1:], **style)
        axes[0, 1].plot(data["time"][1:], np.maximum(part["moved"][1:], 1e-16), **style)
    axes[0, 0].axhline(float(data["fewer_best"]), color=FAINT, linestyle=DASHES[2])
    axes[0, 1].axhline(1e-6, color=INK, linewidth=0.7)
    axes[0, 0].set(
        xlabel=TIME,
        ylabel=r"error $\epsilon_g$",
        xscale="log",
        yscale="log",
        ylim=(1e-12, 2),
    )
    axes[0, 1].set(
        xlabel=TIME,
        ylabel="largest change of an entry of $S$",
        xscale="log",
        yscale="log",
    )
    for panel, name in zip(axes[0], ("error", "is S conserved?"), strict=True):
        label_panel(panel, name)
    outside_legend(axes[0, 1])
    return figure


PRINTED: dict[str, Any] = {
    "p": 4,
    "k": 3,
    "fewer": 2,
    "overlap": 0.05,
    "points": 201,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="quad-10",
        source="quad",
        figure="beyond the paper",
        title="trained readouts, fewer students than teachers, unequal variances",
        full=PRINTED | {"n": 16, "spread": [0.3, 0.6], "end": 20_000.0, "starts": 10},
        quick=PRINTED | {"n": 10, "spread": [0.3, 0.6], "end": 10_000.0, "starts": 3},
        compute=compute_10,
        draw=draw_10,
        claims=claims_10,
    ),
)
