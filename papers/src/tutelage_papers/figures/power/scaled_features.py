"""Figure 3 of the power-law paper: only the first directions learn.

In the eigenbasis and on real images.
"""

from collections.abc import Iterator
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
from tutelage_papers.drawing import legend_below
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
    """Return exact mean errors of networks with these weights, (case, start, time).

    And what they would be without noise. learned: whether the trained weights begin at
    their end (equation 68).
    """
    means = np.empty((len(trained), len(W), times.size))
    floors = np.empty((len(trained), len(W)))
    for i, count in enumerate(trained):
        partly = problem.replace(trainable=list(range(count)))
        for j, (student, teacher) in enumerate(zip(W, W_teacher, strict=True)):
            if learned:
                student = np.concatenate([teacher[:count], student[count:]])
            start = tu.Start(
                R=(student * teacher)[:, None, None],
                Q=(student * student)[:, None, None],
                T=(teacher * teacher)[:, None, None],
            )
            network = tutelage_papers.power_law.linear_network(partly, start)
            means[i, j] = network.exact_mean(times, student.size)
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
    """Return runs from random and from learned weights, and closed forms.

    As printed and corrected; the same on images. images: "digits", or the name of a .npy
    file of images.
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
    # Equation 68: trained weights at their end.
    learned = mismatch * ~mask[:, None]
    source = gaussian(rng, lam, starts)
    error = diagonal_error(lam)
    runs = linear_sgd(mismatch, source, rate, steps_at(times, levels), error, mask)
    settled = linear_sgd(learned, source, rate, steps_at(even, levels), error, mask)
    late = np.geomspace(1.0, 1e4, 61)
    data = xr.Dataset(coords={"trained": trained, "time": times, "late": late})
    all_times = np.concatenate([times, late])
    means, _ = eigenbasis_means(
        problem, W, W_teacher, trained, all_times, learned=False
    )
    data["runs"] = (("trained", "time"), runs.mean(axis=1))
    data["z"] = (("trained", "time"), z_scores(runs, means[..., :points]))
    data["expected"] = (("trained", "late"), means[..., points:].mean(axis=1))
    rest, bare = eigenbasis_means(problem, W, W_teacher, trained, even, learned=True)
    data = data.assign(_floors(settled, rest, bare))
    data = data.assign(_sums(beta, levels, rate, scale, trained, late))
    data = data.assign(_tails(lam, scale, trained))
    on_images = _on_images(
        images, rate, scale, image_trained, image_starts, image_end, points, rng
    )
    return data.merge(on_images)


def _floors(settled: np.ndarray, rest: np.ndarray, bare: np.ndarray) -> dict[str, Any]:
    """Errors of settled networks, against exact means and small-rate floors."""
    return {
        "floor_z": ("trained", floor_z(settled, rest)),
        "bare_z": ("trained", floor_z(settled, bare[..., None])),
        "floor": ("trained", settled.mean(axis=(1, 2))),
    }


def _sums(
    beta: float,
    levels: int,
    rate: float,
    scale: float,
    trained: list[int],
    times: np.ndarray,
) -> dict[str, Any]:
    """Equation 78 term by term, and its integrals: corrected and as printed."""
    sums = []
    corrected = []
    printed = []
    floors = []
    # Equations 11 and 79 have the incomplete gamma functions of all levels.
    all_levels = tutelage_papers.power_law.PowerLawSum(beta, levels, rate, scale)
    for count in trained:
        law = tutelage_papers.power_law.PowerLawSum(beta, levels, rate, scale, count)
        sums.append(law.sum(times))
        corrected.append(law.integral(times) - law.floor + law.floor_integral)
        printed.append(all_levels.integral(times) + law.floor_integral)
        floors.append(law.floor)
    return {
        "sum": (("trained", "late"), sums),
        "corrected": (("trained", "late"), corrected),
        "printed": (("trained", "late"), printed),
        "tail_exact": ("trained", floors),
    }


def _tails(lam: np.ndarray, scale: float, trained: list[int]) -> dict[str, Any]:
    """The floor of the frozen levels by both lines of eq. 71.

    printed: the sum from N_l. other: one less the mean of the trained eigenvalues.
    """
    levels = lam.size
    printed = []
    other = []
    for count in trained:
        printed.append((1 + scale**2) / (2 * levels) * lam[count - 1 :].sum())
        other.append((1 + scale**2) / 2 * (1 - lam[:count].sum() / levels))
    return {
        "tail_printed": ("trained", np.array(printed)),
        "tail_other": ("trained", np.array(other)),
    }


def _on_images(
    images: str,
    rate: float,
    scale: float,
    trained: list[int],
    starts: int,
    end: float,
    points: int,
    rng: np.random.Generator,
) -> "Dataset":
    """SGD on the images themselves, in the eigenbasis of their covariance.

    And the mean that their spectrum predicts.
    """
    import xarray as xr

    if images == "digits":
        pictures = tu.digits()
    else:
        pictures = np.load(images, mmap_mode="r")
    rows = pictures.reshape(len(pictures), -1)
    spectrum: Any = tu.from_data(rows).inputs  # a measured Spectrum
    lam = np.asarray(spectrum.eigenvalues)
    unit = np.sqrt(float(np.asarray(spectrum.scale)))
    to_eigenbasis = np.asarray(spectrum.basis).T / unit
    W, W_teacher = random_weights(rng, starts, lam.size, scale)
    times = np.geomspace(1.0, end, points)
    mask = np.arange(lam.size) < np.array(trained)[:, None]
    mismatch = np.broadcast_to(W_teacher - W, (len(trained), starts, lam.size))

    def draw(count: int) -> np.ndarray:
        chosen = rows[rng.integers(len(rows), size=(count, starts))]
        return (chosen - spectrum.center) @ to_eigenbasis

    steps = steps_at(times, lam.size)
    runs = linear_sgd(mismatch, draw, rate, steps, diagonal_error(lam), mask)
    problem = problem_of(spectrum, rate)
    means, _ = eigenbasis_means(problem, W, W_teacher, trained, times, learned=False)
    data = xr.Dataset(coords={"image_time": times, "image_trained": trained})
    data["image_runs"] = (("image_trained", "image_time"), runs.mean(axis=1))
    data["image_theory"] = (("image_trained", "image_time"), means.mean(axis=1))
    return data


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Compare curves and floors with exact means, printed sums, and images."""
    for count in data["trained"].values:
        yield from run_claims(data.sel(trained=count), f"N_l = {count}")
    yield from _printed_claims(data.isel(trained=0))
    gap = abs(data["image_runs"] / data["image_theory"] - 1).max("image_time")
    for count in data["image_trained"].values:
        words = (
            f"images: largest gap to the prediction from their spectrum, N_l = {count}"
        )
        yield at_most(words, gap.sel(image_trained=count), 0.05)


def _printed_claims(few: "Dataset") -> Iterator[Claim]:
    """Printed sums and integrals, for the smallest number of trained directions."""
    name = f"N_l = {int(few['trained'])}"
    hundred = few.interp(late=100.0)
    words = f"eqs. 11 and 79 as printed at alpha = 100, {name}"
    yield refuted(
        close(words, hundred["printed"], hundred["sum"], rel=0.05),
        evidence="the sum of eq. 78 over levels, term by term; as printed the frozen "
        "levels are counted twice",
    )
    words = f"the same with gamma functions that end at N_l, {name}"
    yield close(words, hundred["corrected"], hundred["sum"], rel=0.01)
    words = f"eqs. 71, 72 and 78 as extracted, sum from N_l, {name}"
    yield refuted(
        close(words, few["tail_printed"], few["tail_other"], rel=0.01),
        evidence="the first line of eq. 71, 1 - (1/L) sum of the trained eigenvalues, is "
        "the sum from N_l + 1",
    )
    words = f"the same sum from N_l + 1, {name}"
    yield close(words, few["tail_exact"], few["tail_other"], rel=1e-10)


def draw_3(data: "Dataset") -> "Figure":
    """Draw synthetic inputs and images: runs, predictions, floors."""
    title = "Only the first $N_l$ directions learn"
    small = (
        "Lines: mean of runs; black dashes: exact mean for their starts; dotted: eq. 79 "
        "as printed; marks: settled networks."
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    synthetic, images = axes[0]
    _draw_synthetic(synthetic, data)
    label_panel(synthetic, "Gaussian inputs with a power-law spectrum")
    _draw_images(images, data)
    label_panel(images, "images, trained on as they are")
    for panel in axes[0]:
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        legend_below(panel, columns=4, drop=0.18)
    return figure


# Line of the exact mean.
EXACT: dict[str, Any] = {"color": INK, "linestyle": DASHES[1], "linewidth": 0.9}


def _draw_synthetic(panel: Any, data: "Dataset") -> None:
    """Runs, exact means, eq. 79 as printed, and settled networks."""
    for look, count in enumerate(data["trained"].values):
        case = data.sel(trained=count)
        color = COLORS[look]
        dotted = {"color": color, "linestyle": DASHES[2], "linewidth": 1.0}
        mark = {"color": color, "marker": MARKERS[look], "markersize": 5}
        panel.plot(case["time"], case["runs"], color=color, label=f"$N_l = {count}$")
        panel.plot(case["late"], case["expected"], **EXACT)
        panel.plot(case["late"], case["printed"], **dotted)
        panel.plot(1e4, case["floor"], clip_on=False, **mark)


def _draw_images(panel: Any, data: "Dataset") -> None:
    """Runs on images and the means that their spectrum predicts."""
    times = data["image_time"]
    for look, count in enumerate(data["image_trained"].values):
        case = data.sel(image_trained=count)
        label = f"$N_l = {count}$"
        panel.plot(times, case["image_runs"], color=COLORS[look], label=label)
        panel.plot(times, case["image_theory"], **EXACT)


IMAGES = {"images": "digits", "image_trained": [10, 20, 40], "image_starts": 50}

FIGURES = (
    Replica(
        id="power-3",
        source="power",
        figure="Fig. 3",
        title="linear network: only the first directions learn, on a power law and on "
        "real images",
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
