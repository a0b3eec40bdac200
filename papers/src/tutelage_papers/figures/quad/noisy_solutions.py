"""Beyond the source: label noise and a finite learning rate on the manifold of solutions.

Without noise G vanishes on the manifold: every perfect student stays where it is, at any
rate. Label noise sigma (eta is our lr, of a loss with 1/2) gives a perfect direction
z = eta sigma^2/2 beside the teachers, extra units z (2 + p*)/(2 + p), and to first order

    e_g = eta sigma^2 v v* p* = eta sigma^2 / p.

In the limit S stays conserved: no drift along the manifold. A step changes R by
(eta/N) Delta 2 v lambda u^T; at a perfect student lambda = S u, so S^T dR is symmetric and
turns nothing. Only what noise has put beside the teachers, zeta, turns S: for p = p* = 2
its angle diffuses with variance D alpha / N,

    D = eta^2 4 v^2 E[Delta^2 (zeta_1 u_2 - zeta_2 u_1)^2] / (4 d^2),

to first order eta^3 sigma^4 / 4: four powers of noise.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    FAINT,
    INK,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
    plain_dots,
)
from tutelage_papers.claims import Claim, at_most, below, between, close
from tutelage_papers.drawing import legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

ALARM = 1e-3  # false alarms of the test of a variance
POINTS = 101
SMALL = 0.005  # a rate at which first orders are tested


def noisy(p: int, k: int, lr: float, noise: float) -> "tu.Problem":
    """Return a problem with readouts 1/p and 1/p*, our learning rate and label noise."""
    student = tu.Network(p, "quadratic", readout=1 / p)
    teacher = tu.Network(k, "quadratic", readout=1 / k)
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


def perfect(p: int, k: int) -> "tu.Start":
    """Return a perfect student: S = the first columns of the identity."""
    S = np.eye(p)[:, :k]
    return tu.Start(R=np.sqrt(p / k) * S, Q=p / k * S @ S.T, T=np.eye(k))


def compute_9(
    widths: list[list[int]],
    lrs: list[float],
    noise: float,
    walk_lr: float,
    walk_noise: float,
    dims: list[int],
    runs: int,
    end: float,
    draws: int,
    seed: int,
) -> "Dataset":
    """Return floors of e_g for several widths and rates.

    Then p = p* = 2: theory and runs that walk along the manifold.
    """
    import xarray as xr

    rest = [[_at_rest(p, k, lr, noise) for lr in lrs] for p, k in widths]
    first_order = [[lr * noise**2 / p for lr in lrs] for p, _ in widths]
    floor, beside, extra = np.moveaxis(np.array(rest), -1, 0)
    data = xr.Dataset(coords={"lr": lrs})
    data["floor"] = (("width", "lr"), floor)
    data["beside"] = (("width", "lr"), beside)
    data["extra"] = (("width", "lr"), extra)
    data["first_order"] = (("width", "lr"), first_order)
    data["p"] = ("width", [p for p, _ in widths])
    data["p_teacher"] = ("width", [k for _, k in widths])
    data["noise"] = noise
    return data.merge(_walk(walk_lr, walk_noise, dims, runs, end, draws, seed))


def _at_rest(p: int, k: int, lr: float, noise: float) -> tuple[float, float, float]:
    """The error and squared lengths beside the teachers after a long time.

    Those of taught directions, and of extra ones (NaN if there are none).
    """
    if p > k:
        # Extra units relax through the noise alone.
        slowest = 4 * lr / p**2 * lr * noise**2
        end = 20 / slowest
    else:
        end = 20 * p * k / lr
    curves = tutelage_papers.quadratic.quadratic_curves(
        noisy(p, k, lr, noise), _nudged(p, k, lr, noise), [0.0, end]
    )
    extra = float(curves.z[-1, -1]) if p > k else np.nan
    return float(curves.error[-1]), float(curves.z[-1, 0]), extra


def _nudged(p: int, k: int, lr: float, noise: float) -> "tu.Start":
    """A perfect student whose extra units have some length: zero would never grow."""
    start = perfect(p, k)
    lengths = np.zeros(p)
    lengths[k:] = lr * noise**2 / 2
    return tu.Start(start.R, np.asarray(start.Q) + np.diag(lengths), start.T)


def _walk(
    lr: float,
    noise: float,
    dims: list[int],
    runs: int,
    end: float,
    draws: int,
    seed: int,
) -> "Dataset":
    """The angle of S for p = p* = 2.

    Conserved in theory; a random walk in runs that begin in the state at rest.
    """
    import xarray as xr

    problem = noisy(2, 2, lr, noise)
    times = tu.linear_times(end, POINTS)
    d, z = _rest_of_two(lr, noise)
    at_rest = tu.Start(R=d * np.eye(2), Q=(z + d**2) * np.eye(2), T=np.eye(2))
    angles = []
    for i, n in enumerate(dims):
        walks = tu.simulate(
            problem, at_rest, dim=n, times=times, runs=runs, seed=seed + i
        )
        angles.append(_angles(walks))
    start = tutelage_papers.quadratic.quadratic_network(2, 2).start(0.05, seed)
    theory = tutelage_papers.quadratic.implicit_bias(problem, start).follow(times)
    data = xr.Dataset(coords={"time": times, "dim": dims})
    data["angle"] = (("dim", "run", "time"), np.array(angles))
    data["diffusion"] = _diffusion(lr, noise, d, z, draws, seed)
    small_d, small_z = _rest_of_two(SMALL, noise)
    small = _diffusion(SMALL, noise, small_d, small_z, draws, seed)
    data["diffusion_small"] = small / (SMALL**3 * noise**4 / 4)
    # Negative control: zeta as long as the students.
    data["diffusion_naive"] = lr**2 * noise**2 * (z + d**2) / (2 * d**2)
    data["moved_theory"] = float(theory.moved.max())
    data["moved_without"] = _moved_without_noise(lr, dims[0], times, seed)
    return data


def _rest_of_two(lr: float, noise: float) -> tuple[float, float]:
    """d and z of the state at rest for p = p* = 2."""
    rest = tutelage_papers.quadratic.quadratic_curves(
        noisy(2, 2, lr, noise), perfect(2, 2), [0.0, 200 / lr]
    )
    return float(rest.d[-1, 0]), float(rest.z[-1, 0])


def _moved_without_noise(lr: float, dim: int, times: np.ndarray, seed: int) -> float:
    """Largest change of R of perfect students without label noise, in two runs."""
    start = perfect(2, 2)
    problem = noisy(2, 2, lr, 0.0)
    runs = tu.simulate(problem, start, dim=dim, times=times, runs=2, seed=seed)
    return float(np.max(np.abs(np.asarray(runs.R) - np.asarray(start.R))))


def _angles(runs: "tu.Trajectory") -> np.ndarray:
    """The angle of the polar factor of R, (run, time)."""
    R = np.asarray(runs.R)
    sine = R[..., 1, 0] - R[..., 0, 1]
    cosine = R[..., 0, 0] + R[..., 1, 1]
    return np.unwrap(np.arctan2(sine, cosine), axis=1)


def _diffusion(
    lr: float, noise: float, d: float, z: float, draws: int, seed: int
) -> float:
    """D of the angle at rest, by Monte Carlo over the fields (module docstring)."""
    u, zeta = np.random.default_rng(seed).standard_normal((2, draws, 2))
    zeta = np.sqrt(z) * zeta
    lam = d * u + zeta
    residual = np.mean(u**2, 1) - np.mean(lam**2, 1)
    turn = zeta[:, 0] * u[:, 1] - zeta[:, 1] * u[:, 0]
    return float(lr**2 * np.mean((residual**2 + noise**2) * turn**2) / (4 * d**2))


def claims_9(data: "Dataset") -> Iterator[Claim]:
    """Compare: no drift in the limit, a floor of the error, a random walk at finite N."""
    yield from _floor_claims(data)
    words = "theory with noise: largest change of an entry of S"
    yield at_most(words, data["moved_theory"], 1e-6)
    words = "runs without noise, from a perfect student: largest change of R"
    yield at_most(words, data["moved_without"], 1e-12)
    yield from _walk_claims(data)
    words = f"lr = {SMALL:g}: D over its first order, lr^3 noise^4 / 4"
    yield close(words, data["diffusion_small"], 1.0, rel=0.1)


def _floor_claims(data: "Dataset") -> Iterator[Claim]:
    """The floor of the error and the lengths of extra units, at the smallest rate."""
    least = data.isel(lr=0)
    lr = float(least["lr"])
    for place in range(least.sizes["width"]):
        case = least.isel(width=place)
        p = int(case["p"])
        k = int(case["p_teacher"])
        words = f"p = {p}, p* = {k}, lr = {lr:g}: e_g / (lr noise^2 / p)"
        yield close(words, case["floor"] / case["first_order"], 1.0, rel=0.02)
    noise = float(data["noise"])
    beside_teachers = lr * noise**2 / 2
    shares = (least["p_teacher"] + 2) / (least["p"] + 2)
    gap = np.abs(least["extra"] / beside_teachers / shares - 1)
    words = (
        "squared lengths of extra units over (lr noise^2/2)(2 + p*)/(2 + p): largest "
        "gap to 1"
    )
    yield at_most(words, gap.max(), 0.02)


def _walk_claims(data: "Dataset") -> Iterator[Claim]:
    """The variance of the angle of the runs over D, and over a D that is too large."""
    from scipy.stats import chi2

    runs = data.sizes["run"]
    end = float(data["time"][-1])
    low = float(chi2.ppf(ALARM / 2, runs) / runs)
    high = float(chi2.ppf(1 - ALARM / 2, runs) / runs)
    final = data["angle"].isel(time=-1)
    measured = {n: float((final.sel(dim=n) ** 2).mean() * n / end) for n in _dims(data)}
    for n, D in measured.items():
        words = f"N = {n}: N Var(angle) / alpha of {runs} runs over D"
        yield between(words, D / data["diffusion"], low, high)
    for n, D in measured.items():
        words = f"N = {n}: the same over D of noise in all directions, which must fail"
        yield below(words, D / data["diffusion_naive"], low)


def _dims(data: "Dataset") -> list[int]:
    return [int(n) for n in data["dim"].values]


def draw_9(data: "Dataset") -> "Figure":
    """Draw floors of the error, and the walk of S along the manifold."""
    title = (
        "Noise lifts the error off the manifold of solutions, and hardly moves along it"
    )
    small = (
        "Left: marks, solved; lines, first order. Middle, right: $p = p^* = 2$, runs; "
        "bars: ± 2 standard errors."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    floor, angle, variance = axes[0]
    _draw_floor(floor, data)
    _draw_angle(angle, data)
    _draw_variance(variance, data)
    label_panel(floor, "floor of the error")
    label_panel(angle, f"angle of $S$, $N = {_dims(data)[0]}$")
    label_panel(variance, "random walk")
    for panel in axes[0]:
        panel.margins(x=0.05)
        legend_below(panel, drop=0.22, handlelength=1.6)
    return figure


def _draw_floor(panel: Any, data: "Dataset") -> None:
    """The final error against the rate, and its first order."""
    for look in range(data.sizes["width"]):
        case = data.isel(width=look)
        label = f"$p = {int(case['p'])}$, $p^* = {int(case['p_teacher'])}$"
        marks = plain_dots(look, 4.5, MARKERS[look])
        panel.plot(data["lr"], case["floor"], label=label, **marks)
        panel.plot(data["lr"], case["first_order"], **line_of(look))
    panel.set(xscale="log", yscale="log", ylabel=r"$\epsilon_g(\infty)$")
    panel.set_xlabel(r"learning rate $\eta$ (loss with 1/2)")


def _draw_angle(panel: Any, data: "Dataset") -> None:
    """Angles of some runs of the smallest N, and two standard deviations in theory."""
    times = data["time"].values
    n = _dims(data)[0]
    some = data["angle"].sel(dim=n).values[:25].T
    panel.plot(times, some, color=FAINT, linewidth=0.6)
    spread = 2 * np.sqrt(float(data["diffusion"]) * times / n)
    panel.plot(times, -spread, color=INK)
    panel.plot(times, spread, color=INK, label=r"$\pm 2\sqrt{D\alpha/N}$")
    panel.set(xlabel=TIME, ylabel="angle of $S$")


def _draw_variance(panel: Any, data: "Dataset") -> None:
    """N times the variance of the angle over the runs, and D alpha."""
    times = data["time"].values
    runs = data.sizes["run"]
    some = slice(10, None, 18)
    panel.plot(times, float(data["diffusion"]) * times, color=INK, label=r"$D\alpha$")
    for look, n in enumerate(_dims(data)):
        angles = data["angle"].sel(dim=n)
        variance = n * (angles**2).mean("run").values[some]
        error = 2 * variance * np.sqrt(2 / runs)
        marks = {
            "marker": MARKERS[look],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 4,
            "capsize": 2,
            "color": COLORS[look],
        }
        # Shifted, so that marks of several N lie side by side.
        places = times[some] + 4 * look
        panel.errorbar(places, variance, error, label=f"$N = {n}$", **marks)
    panel.set(xlabel=TIME, ylabel=r"$N$ Var(angle)", ylim=(0, None))


PRINTED: dict[str, Any] = {
    "widths": [[2, 2], [4, 2], [6, 3], [3, 1]],
    "noise": 0.3,
    "walk_lr": 0.1,
    "walk_noise": 1.0,
    "end": 150.0,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="quad-9",
        source="quad",
        figure="beyond the paper",
        title="noise and finite rates on the manifold of solutions",
        full=PRINTED
        | {
            "lrs": [0.005, 0.01, 0.03, 0.1, 0.3],
            "dims": [200, 800, 3200],
            "runs": 200,
            "draws": 1_000_000,
        },
        quick=PRINTED
        | {"lrs": [0.005, 0.05, 0.3], "dims": [200, 500], "runs": 60, "draws": 200_000},
        compute=compute_9,
        draw=draw_9,
        claims=claims_9,
    ),
)
