"""Figure 3 of the power-law paper: only the first directions learn, in the eigenbasis and on real images."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close, refuted
from tutelage_papers.figures.power.linear_units import (
    COMMON,
    SETTLED_FROM,
    SETTLED_TIMES,
    diagonal_error,
    floor_z,
    gaussian,
    linear_sgd,
    problem_of,
    random_weights,
    run_claims,
    steps_at,
    z_scores,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def eigenbasis_means(
    problem: "tu.Problem",
    W: np.ndarray,
    W_teacher: np.ndarray,
    trained: list[int],
    times: np.ndarray,
    learned: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean errors of networks with these weights (case, start, time), and what they would be without noise."""
    means = np.empty((len(trained), len(W), times.size))
    floors = np.empty((len(trained), len(W)))
    for i, count in enumerate(trained):
        partly = problem.replace(trainable=list(range(count)))
        for j, (w, t) in enumerate(zip(W, W_teacher, strict=True)):
            w = np.concatenate([t[:count], w[count:]]) if learned else w  # equation 68
            start = tu.Start(
                R=(w * t)[:, None, None],
                Q=(w * w)[:, None, None],
                T=(t * t)[:, None, None],
            )
            network = tutelage_papers.power_law.linear_network(partly, start)
            means[i, j] = network.exact_mean(times, w.size)
            floors[i, j] = network.small_rate(1e12)
    return means, floors


def compute_3(
    levels: int,
    beta: float,
    rate: float,
    scale: float,
    trained: list[int],
    starts: int,
    end: float,
    settle: float,
    images: str,
    image_trained: list[int],
    image_starts: int,
    image_end: float,
    points: int,
    seed: int,
) -> "Dataset":
    """Runs from random and from learned weights, closed forms as printed and corrected; the same on images.

    images: "digits", or the name of a .npy file of images.
    """
    import xarray as xr

    rng = np.random.default_rng(seed)
    inputs = tu.PowerLaw(beta, levels)
    lam = np.asarray(inputs.eigenvalues)
    problem = problem_of(inputs, rate)
    W, W_teacher = random_weights(rng, starts, levels, scale)
    mask = np.arange(levels) < np.array(trained)[:, None]
    times = np.geomspace(1.0, end, points)
    even = np.linspace(SETTLED_FROM * settle, settle, SETTLED_TIMES)
    mismatch = np.broadcast_to(W_teacher - W, (len(trained), starts, levels))
    source = gaussian(rng, lam, starts)
    error = diagonal_error(lam)
    runs = linear_sgd(mismatch, source, rate, steps_at(times, levels), error, mask)
    settled = linear_sgd(
        mismatch * ~mask[:, None], source, rate, steps_at(even, levels), error, mask
    )
    late = np.geomspace(1.0, 1e4, 61)
    means, _ = eigenbasis_means(
        problem, W, W_teacher, trained, np.concatenate([times, late]), learned=False
    )
    rest, bare = eigenbasis_means(problem, W, W_teacher, trained, even, learned=True)
    laws = [
        tutelage_papers.power_law.PowerLawSum(beta, levels, rate, scale, count)
        for count in trained
    ]
    return xr.Dataset(
        {
            "runs": (("trained", "time"), runs.mean(axis=1)),
            "z": (("trained", "time"), z_scores(runs, means[..., :points])),
            "expected": (("trained", "late"), means[..., points:].mean(axis=1)),
            "floor_z": ("trained", floor_z(settled, rest)),
            "bare_z": ("trained", floor_z(settled, bare[..., None])),
            "floor": ("trained", settled.mean(axis=(1, 2))),
            "sum": (("trained", "late"), [law.sum(late) for law in laws]),
            "corrected": (
                ("trained", "late"),
                [law.integral(late) - law.floor + law.floor_integral for law in laws],
            ),
            "printed": (("trained", "late"), [_printed(law, late) for law in laws]),
            "tail_exact": ("trained", [law.floor for law in laws]),
            "tail_printed": (
                "trained",
                [
                    float((1 + scale**2) / (2 * levels) * lam[count - 1 :].sum())
                    for count in trained
                ],
            ),
            "tail_other": (
                "trained",
                [
                    float((1 + scale**2) / 2 * (1 - lam[:count].sum() / levels))
                    for count in trained
                ],
            ),
            **_on_images(
                images, rate, scale, image_trained, image_starts, image_end, points, rng
            ),
        },
        coords={"trained": trained, "time": times, "late": late},
    )


def _printed(
    law: "tutelage_papers.power_law.PowerLawSum", times: np.ndarray
) -> np.ndarray:
    """Equations 11 and 79 as printed: the incomplete gamma functions of all levels, on top of the frozen ones' floor."""
    return (
        tutelage_papers.power_law.PowerLawSum(
            law.beta, law.levels, law.rate, law.scale
        ).integral(times)
        + law.floor_integral
    )


def _on_images(
    images: str,
    rate: float,
    scale: float,
    trained: list[int],
    starts: int,
    end: float,
    points: int,
    rng: Any,
) -> dict[str, Any]:
    """SGD on the images themselves, in the eigenbasis of their covariance, and the mean that their spectrum predicts."""
    data = tu.digits() if images == "digits" else np.load(images, mmap_mode="r")
    rows = data.reshape(len(data), -1)
    spectrum: Any = tu.from_data(rows).inputs  # a measured Spectrum
    lam = np.asarray(spectrum.eigenvalues)
    turn = np.asarray(spectrum.basis).T / np.sqrt(float(np.asarray(spectrum.scale)))
    W, W_teacher = random_weights(rng, starts, lam.size, scale)
    times = np.geomspace(1.0, end, points)
    mask = np.arange(lam.size) < np.array(trained)[:, None]
    mismatch = np.broadcast_to(W_teacher - W, (len(trained), starts, lam.size))

    def sampled(count):
        return (
            rows[rng.integers(len(rows), size=(count, starts))] - spectrum.center
        ) @ turn

    runs = linear_sgd(
        mismatch, sampled, rate, steps_at(times, lam.size), diagonal_error(lam), mask
    )
    means, _ = eigenbasis_means(
        problem_of(spectrum, rate), W, W_teacher, trained, times, learned=False
    )
    return {
        "image_time": ("image_time", times),
        "image_trained": ("image_trained", trained),
        "image_runs": (("image_trained", "image_time"), runs.mean(axis=1)),
        "image_theory": (("image_trained", "image_time"), means.mean(axis=1)),
    }


def claims_3(data: "Dataset") -> list[Claim]:
    """Curves and floors against the exact mean for the drawn starts; printed sums and integrals; images."""
    claims = [
        claim
        for count in data["trained"].values
        for claim in run_claims(data.sel(trained=count), f"N_l = {count}")
    ]
    few = data.isel(trained=0)
    name = f"N_l = {int(few['trained'])}"
    at = few.interp(late=100.0)
    total = float(at["sum"])
    gap = abs(data["image_runs"] / data["image_theory"] - 1).max("image_time")
    return [
        *claims,
        refuted(
            close(
                f"eqs. 11 and 79 as printed at alpha = 100, {name}",
                float(at["printed"]),
                total,
                rel=0.05,
            ),
            "the sum of eq. 78 over levels, term by term; as printed the frozen levels are counted twice",
        ),
        close(
            f"the same with gamma functions that end at N_l, {name}",
            float(at["corrected"]),
            total,
            rel=0.01,
        ),
        refuted(
            close(
                f"eqs. 71, 72 and 78 as extracted, sum from N_l, {name}",
                float(few["tail_printed"]),
                float(few["tail_other"]),
                rel=0.01,
            ),
            "the first line of eq. 71, 1 - (1/L) sum of the trained eigenvalues, is the sum from N_l + 1",
        ),
        close(
            f"the same sum from N_l + 1, {name}",
            float(few["tail_exact"]),
            float(few["tail_other"]),
            rel=1e-10,
        ),
        *(
            at_most(
                f"images: largest gap to the prediction from their spectrum, N_l = {count}",
                float(gap.sel(image_trained=count)),
                0.05,
            )
            for count in data["image_trained"].values
        ),
    ]


def draw_3(data: "Dataset") -> "Figure":
    """Synthetic inputs and images: runs, predictions, floors."""
    small = "Lines: mean of runs; black dashes: exact mean for their starts; dotted: eq. 79 as printed; marks: settled networks."
    figure, axes = panel_grid(
        1, 2, "Only the first $N_l$ directions learn", small, height=3.2
    )
    for look, count in enumerate(data["trained"].values):
        case = data.sel(trained=count)
        axes[0, 0].plot(
            case["time"], case["runs"], color=COLORS[look], label=f"$N_l = {count}$"
        )
        axes[0, 0].plot(
            case["late"],
            case["expected"],
            color=INK,
            linestyle=DASHES[1],
            linewidth=0.9,
        )
        axes[0, 0].plot(
            case["late"],
            case["printed"],
            color=COLORS[look],
            linestyle=DASHES[2],
            linewidth=1.0,
        )
        axes[0, 0].plot(
            1e4,
            case["floor"],
            color=COLORS[look],
            marker=MARKERS[look],
            markersize=5,
            clip_on=False,
        )
    label_panel(axes[0, 0], "Gaussian inputs with a power-law spectrum")
    for look, count in enumerate(data["image_trained"].values):
        case = data.sel(image_trained=count)
        axes[0, 1].plot(
            case["image_time"],
            case["image_runs"],
            color=COLORS[look],
            label=f"$N_l = {count}$",
        )
        axes[0, 1].plot(
            case["image_time"],
            case["image_theory"],
            color=INK,
            linestyle=DASHES[1],
            linewidth=0.9,
        )
    label_panel(axes[0, 1], "images, trained on as they are")
    for panel in axes[0]:
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4)
    return figure


IMAGES = {"images": "digits", "image_trained": [10, 20, 40], "image_starts": 50}

FIGURES = (
    Replica(
        id="power-3",
        source="power",
        figure="Fig. 3",
        title="linear network: only the first directions learn, on a power law and on real images",
        full=COMMON
        | IMAGES
        | {
            "starts": 50,
            "end": 1000.0,
            "settle": 100.0,
            "image_end": 1000.0,
            "points": 61,
        },
        quick=COMMON
        | IMAGES
        | {"starts": 16, "end": 50.0, "settle": 10.0, "image_end": 100.0, "points": 31},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
