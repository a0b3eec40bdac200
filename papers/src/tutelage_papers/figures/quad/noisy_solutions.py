"""Beyond the source: what label noise and a finite learning rate do to the manifold of perfect students.

Without noise G vanishes on the manifold: every perfect student stays where it is, at any rate. Label noise sigma (eta is our
lr, of a loss with 1/2) gives a perfect direction z = eta sigma^2/2 beside the teachers, extra units z (2 + p*)/(2 + p), and
    e_g = eta sigma^2 v v* p* = eta sigma^2 / p     to first order.
In the limit S stays conserved: no drift along the manifold. A step changes R by (eta/N) Delta 2 v lambda u^T; at a perfect
student lambda = S u, so S^T dR is symmetric and turns nothing. Only what noise has put beside the teachers, zeta, turns S:
for p = p* = 2 its angle diffuses with variance D alpha / N,
    D = eta^2 4 v^2 E[Delta^2 (zeta_1 u_2 - zeta_2 u_1)^2] / (4 d^2), to first order eta^3 sigma^4 / 4: four powers of noise.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, below, between, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

ALARM = 1e-3  # false alarms of the test of a variance
POINTS = 101
SMALL = 0.005  # a rate at which first orders are tested


def noisy(p: int, k: int, lr: float, noise: float) -> "tu.Problem":
    """Readouts 1/p and 1/p*, our learning rate, label noise."""
    student = tu.Network(p, "quadratic", readout=1 / p)
    teacher = tu.Network(k, "quadratic", readout=1 / k)
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


def perfect(p: int, k: int) -> "tu.Start":
    """A perfect student: S = the first columns of the identity."""
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
    """Floors of e_g for several widths and rates; then p = p* = 2: theory and runs that walk along the manifold."""
    import xarray as xr

    rest = np.array([[_at_rest(p, k, lr, noise) for lr in lrs] for p, k in widths])
    return xr.Dataset(
        {
            "floor": (("width", "lr"), rest[..., 0]),
            "beside": (("width", "lr"), rest[..., 1]),
            "extra": (("width", "lr"), rest[..., 2]),
            "first_order": (
                ("width", "lr"),
                [[lr * noise**2 / p for lr in lrs] for p, _ in widths],
            ),
            "p": ("width", [w[0] for w in widths]),
            "p_teacher": ("width", [w[1] for w in widths]),
            "noise": noise,
        },
        coords={"lr": lrs},
    ).merge(_walk(walk_lr, walk_noise, dims, runs, end, draws, seed))


def _at_rest(p: int, k: int, lr: float, noise: float) -> tuple[float, float, float]:
    """e_g and the squared lengths beside the teachers, of taught and of extra directions, after a long time."""
    slowest = 4 * lr / p**2 * lr * noise**2  # extra units relax through the noise alone
    curves = tutelage_papers.quadratic.quadratic_curves(
        noisy(p, k, lr, noise),
        _nudged(p, k, lr, noise),
        [0.0, 20 / slowest if p > k else 20 * p * k / lr],
    )
    return (
        float(curves.error[-1]),
        float(curves.z[-1, 0]),
        float(curves.z[-1, -1]) if p > k else np.nan,
    )


def _nudged(p: int, k: int, lr: float, noise: float) -> "tu.Start":
    """A perfect student whose extra units have some length, for nothing grows from exactly zero."""
    at = perfect(p, k)
    return tu.Start(
        at.R,
        np.asarray(at.Q) + np.diag([0.0] * k + [lr * noise**2 / 2] * (p - k)),
        at.T,
    )


def _walk(
    lr: float,
    noise: float,
    dims: list[int],
    runs: int,
    end: float,
    draws: int,
    seed: int,
) -> "Dataset":
    """The angle of S for p = p* = 2: conserved in theory, a random walk in runs from the state at rest."""
    import xarray as xr

    problem = noisy(2, 2, lr, noise)
    times = tu.linear_times(end, POINTS)
    rest = tutelage_papers.quadratic.quadratic_curves(
        problem, perfect(2, 2), [0.0, 200 / lr]
    )
    d = float(rest.d[-1, 0])
    z = float(rest.z[-1, 0])
    at_rest = tu.Start(R=d * np.eye(2), Q=(z + d**2) * np.eye(2), T=np.eye(2))
    angles = np.array(
        [
            _angles(
                tu.simulate(
                    problem, at_rest, dim=n, times=times, runs=runs, seed=seed + i
                )
            )
            for i, n in enumerate(dims)
        ]
    )
    without = tu.simulate(
        noisy(2, 2, lr, 0.0), perfect(2, 2), dim=dims[0], times=times, runs=2, seed=seed
    )
    theory = tutelage_papers.quadratic.implicit_bias(
        problem, tutelage_papers.quadratic.quadratic_network(2, 2).start(0.05, seed)
    ).follow(times)
    return xr.Dataset(
        {
            "angle": (("dim", "run", "time"), angles),
            "diffusion": _diffusion(lr, noise, d, z, draws, seed),
            "diffusion_small": _small_diffusion(SMALL, noise, draws, seed)
            / (SMALL**3 * noise**4 / 4),
            "diffusion_naive": lr**2
            * noise**2
            * (z + d**2)
            / (2 * d**2),  # if zeta were as long as the students
            "moved_theory": float(theory.moved.max()),
            "moved_without": float(
                np.max(np.abs(np.asarray(without.R) - np.asarray(perfect(2, 2).R)))
            ),
        },
        coords={"time": times, "dim": dims},
    )


def _small_diffusion(lr: float, noise: float, draws: int, seed: int) -> float:
    """D at a small rate."""
    rest = tutelage_papers.quadratic.quadratic_curves(
        noisy(2, 2, lr, noise), perfect(2, 2), [0.0, 200 / lr]
    )
    return _diffusion(
        lr, noise, float(rest.d[-1, 0]), float(rest.z[-1, 0]), draws, seed
    )


def _angles(runs: "tu.Trajectory") -> np.ndarray:
    """(run, time): the angle of the polar factor of R."""
    R = np.asarray(runs.R)
    return np.unwrap(
        np.arctan2(R[..., 1, 0] - R[..., 0, 1], R[..., 0, 0] + R[..., 1, 1]), axis=1
    )


def _diffusion(
    lr: float, noise: float, d: float, z: float, draws: int, seed: int
) -> float:
    """D of the angle at rest, by Monte Carlo over the fields."""
    u, zeta = np.random.default_rng(seed).standard_normal((2, draws, 2))
    zeta = np.sqrt(z) * zeta
    lam = d * u + zeta
    gap = np.mean(u**2, 1) - np.mean(lam**2, 1)
    turn = zeta[:, 0] * u[:, 1] - zeta[:, 1] * u[:, 0]
    return float(lr**2 * np.mean((gap**2 + noise**2) * turn**2) / (4 * d**2))


def claims_9(data: "Dataset") -> list[Claim]:
    """No drift in the limit, a floor of the error, and a random walk at finite N."""
    from scipy.stats import chi2

    least = data.isel(lr=0)
    noise = float(data["noise"])
    floors = [
        close(
            f"p = {int(w['p'])}, p* = {int(w['p_teacher'])}, lr = {float(w['lr']):g}: e_g / (lr noise^2 / p)",
            float(w["floor"] / w["first_order"]),
            1.0,
            rel=0.02,
        )
        for w in (least.isel(width=i) for i in range(least.sizes["width"]))
    ]
    shares = (least["p_teacher"] + 2) / (least["p"] + 2)
    extra = np.abs(
        least["extra"] / (float(least["lr"]) * noise**2 / 2) / shares - 1
    ).max()
    runs = data.sizes["run"]
    end = float(data["time"][-1])
    low, high = (float(chi2.ppf(x, runs) / runs) for x in (ALARM / 2, 1 - ALARM / 2))
    walks = {
        int(n): float((data["angle"].sel(dim=n)[:, -1] ** 2).mean() * n / end)
        for n in data["dim"].values
    }
    return [
        *floors,
        at_most(
            "squared lengths of extra units over (lr noise^2/2)(2 + p*)/(2 + p): largest gap to 1",
            float(extra),
            0.02,
        ),
        at_most(
            "theory with noise: largest change of an entry of S",
            float(data["moved_theory"]),
            1e-6,
        ),
        at_most(
            "runs without noise, from a perfect student: largest change of R",
            float(data["moved_without"]),
            1e-12,
        ),
        *(
            between(
                f"N = {n}: N Var(angle) / alpha of {runs} runs over D",
                D / float(data["diffusion"]),
                low,
                high,
            )
            for n, D in walks.items()
        ),
        *(
            below(
                f"N = {n}: the same over D of noise in all directions, which must fail",
                D / float(data["diffusion_naive"]),
                low,
            )
            for n, D in walks.items()
        ),
        close(
            f"lr = {SMALL:g}: D over its first order, lr^3 noise^4 / 4",
            float(data["diffusion_small"]),
            1.0,
            rel=0.1,
        ),
    ]


def draw_9(data: "Dataset") -> "Figure":
    """Floors of the error, and the walk of S along the manifold."""
    title = (
        "Noise lifts the error off the manifold of solutions, and hardly moves along it"
    )
    small = "Left: marks, solved; lines, first order. Middle, right: $p = p^* = 2$, runs; bars: ± 2 standard errors."
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    for look in range(data.sizes["width"]):
        part = data.isel(width=look)
        label = f"$p = {int(part['p'])}$, $p^* = {int(part['p_teacher'])}$"
        marks = {
            "marker": MARKERS[look],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 4.5,
        }
        axes[0, 0].plot(
            data["lr"], part["floor"], color=COLORS[look], label=label, **marks
        )
        axes[0, 0].plot(
            data["lr"],
            part["first_order"],
            color=COLORS[look],
            linestyle=DASHES[look % len(DASHES)],
        )
    axes[0, 0].set(
        xlabel=r"learning rate $\eta$ (loss with 1/2)",
        ylabel=r"$\epsilon_g(\infty)$",
        xscale="log",
        yscale="log",
    )
    times = data["time"].values
    first = int(data["dim"][0])
    axes[0, 1].plot(
        times, data["angle"].sel(dim=first).values[:25].T, color=FAINT, linewidth=0.6
    )
    spread = 2 * np.sqrt(float(data["diffusion"]) * times / first)
    for sign in (-1, 1):
        axes[0, 1].plot(
            times,
            sign * spread,
            color=INK,
            label=r"$\pm 2\sqrt{D\alpha/N}$" if sign > 0 else None,
        )
    axes[0, 1].set(xlabel=TIME, ylabel="angle of $S$")
    _draw_variance(axes[0, 2], data)
    for panel, name in zip(
        axes[0],
        ("floor of the error", f"angle of $S$, $N = {first}$", "random walk"),
        strict=True,
    ):
        label_panel(panel, name)
        panel.margins(x=0.05)
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, handlelength=1.6
        )
    return figure


def _draw_variance(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    runs = data.sizes["run"]
    panel.plot(times, float(data["diffusion"]) * times, color=INK, label=r"$D\alpha$")
    for look, n in enumerate(data["dim"].values):
        variance = n * (data["angle"].sel(dim=n) ** 2).mean("run").values
        some = slice(10, None, 18)
        marks = {
            "marker": MARKERS[look],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 4,
            "capsize": 2,
        }
        error = 2 * variance[some] * np.sqrt(2 / runs)
        panel.errorbar(
            times[some] + 4 * look,
            variance[some],
            error,
            color=COLORS[look],
            label=f"$N = {n}$",
            **marks,
        )
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
