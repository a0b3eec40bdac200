"""Quadratic networks beyond the source's setting.

Trained readouts, fewer students than teachers, and inputs of unequal variance, by gradient
flow of the weights themselves. With J = W / sqrt(N), inputs of covariance Om, and
E = J*^T v* J* - J^T v J (v diagonal),

    e_g  = tr(Om E)^2/2 + tr(Om E Om E)
    J'   = 2 v J (tr(Om E) Om + 2 Om E Om)
    v_k' = tr(Om E) q_k + 2 j_k Om E Om j_k,   q_k = j_k Om j_k

at unit rates. The flow does not depend on N once students and teachers fit, so a handful of
dimensions is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import INK, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, close
from tutelage_papers.drawing import GUIDE, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TIME = r"time $\eta\alpha$ (loss with 1/2)"
# Keys of the flows, which are labels in the drawing as well.
SOURCE = "as the source"
TRAINED = "readouts trained"
FEWER = "fewer students"
UNEVEN = "variances 1 ± "


@dataclass(frozen=True)
class Flow:
    """J (time, p, N), v (time, p) and error (time,) along the gradient flow."""

    times: np.ndarray
    J: np.ndarray
    v: np.ndarray
    error: np.ndarray
    J_teacher: np.ndarray

    def R(self) -> np.ndarray:
        """Return the overlaps with the teachers, (time, p, p*)."""
        return self.J @ self.J_teacher.T

    def S(self) -> np.ndarray:
        """Return the polar factor of J J*^T, (time, p, p*), also for p < p*."""
        left, _, right = np.linalg.svd(self.R(), full_matrices=False)
        return left @ right

    def moved(self) -> np.ndarray:
        """Return the largest change of an entry of S, (time,)."""
        S = self.S()
        return np.max(np.abs(S - S[0]), axis=(1, 2))


@dataclass(frozen=True)
class FlowEquations:
    """The equations of the module's docstring for a state y = (J, v), flattened."""

    students: int
    covariance: np.ndarray
    target: np.ndarray
    train_readouts: bool

    def weights(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return J (p, N) and v (p,)."""
        split = self.students * len(self.covariance)
        return y[:split].reshape(self.students, -1), y[split:]

    def residual(self, y: np.ndarray) -> np.ndarray:
        """Return Om E."""
        J, v = self.weights(y)
        return self.covariance @ (self.target - (J.T * v) @ J)

    def rates(self, _: float, y: np.ndarray) -> np.ndarray:
        """Return dy/dt."""
        J, v = self.weights(y)
        residual = self.residual(y)
        force = np.trace(residual) * self.covariance + 2 * residual @ self.covariance
        readout_rates = 0 * v
        if self.train_readouts:
            readout_rates = np.einsum("ka,ab,kb->k", J, force, J)
        weight_rates = 2 * v[:, None] * J @ force
        return np.concatenate([weight_rates.ravel(), readout_rates])

    def error(self, y: np.ndarray) -> float:
        """Return e_g."""
        residual = self.residual(y)
        return np.trace(residual) ** 2 / 2 + np.trace(residual @ residual)


def flow(
    J: np.ndarray,
    J_teacher: np.ndarray,
    times: np.ndarray,
    *,
    covariance: Any = None,
    train: bool = False,
) -> Flow:
    """Return the gradient flow from these weights, with readouts 1/p and 1/p* at first.

    covariance: variances of the inputs (default: one). train: whether readouts learn.
    """
    from scipy.integrate import solve_ivp

    p, n = J.shape
    if covariance is None:
        covariance = np.ones(n)
    equations = FlowEquations(
        students=p,
        covariance=np.diag(covariance),
        target=J_teacher.T @ J_teacher / len(J_teacher),
        train_readouts=train,
    )
    first = np.concatenate([J.ravel(), np.full(p, 1 / p)])
    solution = solve_ivp(
        equations.rates,
        (0.0, times[-1]),
        first,
        method="LSODA",
        t_eval=times,
        rtol=1e-10,
        atol=1e-13,
    )
    states = list(solution.y.T)
    weights = [equations.weights(y) for y in states]
    return Flow(
        times=times,
        J=np.array([J for J, _ in weights]),
        v=np.array([v for _, v in weights]),
        error=np.array([equations.error(y) for y in states]),
        J_teacher=J_teacher,
    )


def first_weights(
    p: int, k: int, n: int, overlap: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal students with overlaps of about this size, and teachers.

    The teachers are orthonormal and lie on the first axes.
    """
    rng = np.random.default_rng(seed)
    J_teacher = np.eye(n)[:k]
    along_teachers = overlap * rng.standard_normal((p, k))
    elsewhere = rng.standard_normal((p, n - k))
    rough = np.concatenate([along_teachers, elsewhere], axis=1)
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
    """Return flows in the source's setting and in three others.

    Readouts trained, fewer students than teachers, unequal variances. gain: e_g at the end
    with trained readouts over that with fixed ones, for several starts.
    """
    import xarray as xr

    times = np.concatenate([[0.0], np.geomspace(0.5, end, points - 1)])
    J, J_teacher = first_weights(p, k, n, overlap, seed)
    few, few_teacher = first_weights(fewer, k, n, overlap, seed)
    flows = {
        SOURCE: flow(J, J_teacher, times),
        TRAINED: flow(J, J_teacher, times, train=True),
        FEWER: flow(few, few_teacher, times),
    }
    # Teachers on no axis of the inputs.
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.standard_normal((n, n)))
    for size in spread:
        variances = np.where(np.arange(n) % 2, 1 - size, 1 + size)
        uneven = flow(J @ turned, J_teacher @ turned, times, covariance=variances)
        flows[f"{UNEVEN}{size:g}"] = uneven
    most_uneven = list(flows.values())[-1]
    gain = []
    for i in range(starts):
        first, first_teacher = first_weights(p, k, n, overlap, seed + i)
        gain.append(_gain(first, first_teacher, end))
    data = xr.Dataset(coords={"case": list(flows), "time": times})
    data["error"] = (("case", "time"), [path.error for path in flows.values()])
    data["moved"] = (("case", "time"), [path.moved() for path in flows.values()])
    data = data.assign(_conserved(flows[TRAINED]))
    data["gain"] = ("start", gain)
    data = data.assign(_best_fit(flows[FEWER], fewer, k, n))
    data["same_manifold"] = _gram_gap(most_uneven, k)
    data["verb_gap"] = _verb_gap(flows[SOURCE], p, k)
    data["half"] = ("case", [_half(path) for path in flows.values()])
    return data


def _conserved(trained: Flow) -> dict[str, Any]:
    """Changes of |w_k|^2 - 2 v_k^2 and of |w_k|^2 alone, and the final readouts."""
    norms = np.sum(trained.J**2, axis=2)
    charge = norms - 2 * trained.v**2
    return {
        "charge_change": np.max(np.abs(charge - charge[0])),
        "norm_change": np.max(np.abs(norms[-1] - norms[0])),
        "readout_spread": np.ptp(trained.v[-1]),
    }


def _best_fit(under: Flow, fewer: int, k: int, n: int) -> dict[str, Any]:
    """The end of a flow of fewer students than teachers, and the best they can do."""
    network = tutelage_papers.quadratic.quadratic_network(fewer, k)
    best = tutelage_papers.quadratic.critical_points(network.problem, n)[fewer, 0]
    predicted = np.sqrt(best.alpha) * under.S()[0]
    reached = under.J[-1] @ under.J_teacher.T
    return {
        "fewer_end": under.error[-1],
        "fewer_best": best.error,
        "fewer_gap": np.max(np.abs(reached - predicted)),
    }


def _gain(J: np.ndarray, J_teacher: np.ndarray, end: float) -> float:
    """The error at the end with trained readouts, over that with fixed ones."""
    times = np.array([0.0, end])
    trained = flow(J, J_teacher, times, train=True)
    fixed = flow(J, J_teacher, times)
    return float(trained.error[-1] / fixed.error[-1])


def _gram_gap(path: Flow, k: int) -> float:
    """Largest entry of W^T W / p - W*^T W* / p* at the end."""
    p = path.J.shape[1]
    J = path.J[-1]
    gap = J.T @ J / p - path.J_teacher.T @ path.J_teacher / k
    return float(np.max(np.abs(gap)))


def _verb_gap(path: Flow, p: int, k: int) -> float:
    """Overlaps of the flow against quadratic_curves, at the same times."""
    R = path.J[0] @ path.J_teacher.T
    Q = path.J[0] @ path.J[0].T
    start = tu.Start(R, (Q + Q.T) / 2, np.eye(k))
    network = tutelage_papers.quadratic.quadratic_network(p, k, 0.5)  # lr = 1
    curves = tutelage_papers.quadratic.quadratic_curves(
        network.problem, start, path.times, gradient_flow=True
    )
    return float(np.max(np.abs(curves.R - path.R())))


def _half(path: Flow) -> float:
    """The time at which the error is half its first value."""
    half = path.error[0] / 2
    i = int(np.argmax(path.error < half))
    around = slice(i - 1, i + 1)
    # np.interp needs ascending values: minus the error, which falls.
    return float(np.interp(-half, -path.error[around], path.times[around]))


def claims_10(data: "Dataset") -> Iterator[Claim]:
    """Compare what is conserved and what is reached, in each setting."""
    moved = data["moved"].max("time")
    ends = data["error"].isel(time=-1)
    words = (
        "the source's setting: flow of weights against quadratic_curves, "
        "largest gap of R"
    )
    yield at_most(words, data["verb_gap"], 1e-6)
    words = "the source's setting: largest change of an entry of S"
    yield at_most(words, moved.sel(case=SOURCE), 1e-6)
    yield from _trained_claims(data, moved.sel(case=TRAINED), ends.sel(case=TRAINED))
    yield from _fewer_claims(data, moved.sel(case=FEWER))
    yield from _uneven_claims(data, moved, ends)


def _trained_claims(data: "Dataset", moved: Any, end: Any) -> Iterator[Claim]:
    """Readouts trained: |w_k|^2 - 2 v_k^2 is conserved, S is not."""
    yield above("readouts trained: largest change of an entry of S", moved, 1e-3)
    words = "readouts trained: largest change of |w_k|^2 - 2 v_k^2"
    yield at_most(words, data["charge_change"], 1e-7)
    yield above("of |w_k|^2 alone", data["norm_change"], 1e-2)
    yield at_most("readouts trained: e_g at the end", end, 1e-6)
    gain = data["gain"].values
    ratios = ", ".join(f"{ratio:.2g}" for ratio in gain)
    yield above(
        "share of starts from which extra units are switched off: "
        "e_g below 1e-3 of that with fixed readouts",
        np.mean(gain < 1e-3),
        0.5,
        evidence=f"the ratios: {ratios}",
    )


def _fewer_claims(data: "Dataset", moved: Any) -> Iterator[Claim]:
    """Fewer students than teachers: S is conserved and sets which best fit is reached."""
    words = "p < p*: e_g at the end, best fit (p, 0)"
    yield close(words, data["fewer_end"], data["fewer_best"], rel=1e-4)
    yield at_most("p < p*: largest change of an entry of S", moved, 1e-6)
    words = "p < p*: R at the end against sqrt(alpha) (R0 R0^T)^(-1/2) R0"
    yield at_most(words, data["fewer_gap"], 1e-3)


def _uneven_claims(data: "Dataset", moved: Any, ends: Any) -> Iterator[Claim]:
    """Unequal variances: the manifold of solutions stays, S moves, learning is faster."""
    uneven = [case for case in data["case"].values if case.startswith("variances")]
    for case in uneven:
        words = f"{case}: largest change of an entry of S"
        yield above(words, moved.sel(case=case), 1e-3)
    for case in uneven:
        yield at_most(f"{case}: e_g at the end", ends.sel(case=case), 1e-5)
    last = uneven[-1]
    words = f"{last}: W^T W / p - W*^T W* / p*, the manifold is the same"
    yield at_most(words, data["same_manifold"], 1e-2)
    half = data["half"]
    faster = float(half.sel(case=SOURCE) / half.sel(case=last))
    yield at_least(f"{last}: time to half the error, isotropic over this", faster, 1.0)


def draw_10(data: "Dataset") -> "Figure":
    """Draw the error, and how far S has moved."""
    title = "Beyond the source's setting: what is learned, and is S conserved?"
    small = (
        r"Gradient flow from one start each. $S$: polar factor of $\rho$; "
        "dotted: best fit of fewer students."
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.1)
    error, conserved = axes[0]
    for look, case in enumerate(data["case"].values):
        # Time zero has no place on a logarithmic axis.
        path = data.sel(case=case).isel(time=slice(1, None))
        line = line_of(look)
        error.plot(path["time"], path["error"], label=case, **line)
        moved = np.maximum(path["moved"], 1e-16)
        conserved.plot(path["time"], moved, label=case, **line)
    error.axhline(float(data["fewer_best"]), **GUIDE)
    conserved.axhline(1e-6, color=INK, linewidth=0.7)
    error.set(ylabel=r"error $\epsilon_g$", ylim=(1e-12, 2))
    conserved.set(ylabel="largest change of an entry of $S$")
    for panel in (error, conserved):
        panel.set(xlabel=TIME, xscale="log", yscale="log")
    label_panel(error, "error")
    label_panel(conserved, "is S conserved?")
    outside_legend(conserved)
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
