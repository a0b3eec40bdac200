"""Only some of the weights learn: curves and floors in the eigenbasis, on real images, and in raw coordinates."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot.labels import ERROR, TIME, outside_legend
from tutelage.plot.sheet import label_panel, sheet
from tutelage.plot.style import COLOURS, DASHES, INK, MARKERS
from tutelage.replicate.claims import Claim, above, at_least, at_most, close, refuted
from tutelage.replicate.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

FIRST, INSIDE = 0.5, 4.0  # share of the settling time that is left out; a gap in standard errors that is chance
EVEN = 80  # times at which settled networks are looked at


def problem_of(inputs: "tu.Inputs", rate: float) -> "tu.Problem":
    """One linear unit learns from one linear unit."""
    linear = tu.Network(1, "linear")
    return tu.Problem(linear, linear, inputs=inputs, sgd=tu.SGD(rate))


def steps_at(times: np.ndarray, dim: int) -> np.ndarray:
    """ceil(alpha N)."""
    return np.ceil(times * dim - 1e-9).astype(int)


def drawn(rng: np.random.Generator, starts: int, dim: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Student and teacher weights."""
    return scale * rng.standard_normal((starts, dim)), rng.standard_normal((starts, dim))


def eigenbasis_means(
    problem: "tu.Problem", W: np.ndarray, W_teacher: np.ndarray, trained: list[int], times: np.ndarray, learned: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean errors of networks with these weights (case, start, time), and what they would be without noise."""
    means, floors = np.empty((len(trained), len(W), times.size)), np.empty((len(trained), len(W)))
    for i, count in enumerate(trained):
        partly = problem.replace(trainable=list(range(count)))
        for j, (w, t) in enumerate(zip(W, W_teacher, strict=True)):
            w = np.concatenate([t[:count], w[count:]]) if learned else w  # equation 68
            start = tu.Start(R=(w * t)[:, None, None], Q=(w * w)[:, None, None], T=(t * t)[:, None, None])
            network = tu.linear_network(partly, start)
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

    from tutelage.replicate.figures.power.linear_runs import diagonal_error, gaussian, linear_sgd, z_scores

    rng = np.random.default_rng(seed)
    inputs = tu.PowerLaw(beta, levels)
    lam, problem = np.asarray(inputs.eigenvalues), problem_of(inputs, rate)
    W, W_teacher = drawn(rng, starts, levels, scale)
    mask = np.arange(levels) < np.array(trained)[:, None]
    times, even = np.geomspace(1.0, end, points), np.linspace(FIRST * settle, settle, EVEN)
    mismatch = np.broadcast_to(W_teacher - W, (len(trained), starts, levels))
    source, error = gaussian(rng, lam, starts), diagonal_error(lam)
    runs = linear_sgd(mismatch, source, rate, steps_at(times, levels), error, mask)
    settled = linear_sgd(mismatch * ~mask[:, None], source, rate, steps_at(even, levels), error, mask)
    late = np.geomspace(1.0, 1e4, 61)
    means, _ = eigenbasis_means(problem, W, W_teacher, trained, np.concatenate([times, late]), learned=False)
    rest, bare = eigenbasis_means(problem, W, W_teacher, trained, even, learned=True)
    laws = [tu.PowerLawSum(beta, levels, rate, scale, count) for count in trained]
    return xr.Dataset(
        {
            "runs": (("trained", "time"), runs.mean(axis=1)),
            "z": (("trained", "time"), z_scores(runs, means[..., :points])),
            "expected": (("trained", "late"), means[..., points:].mean(axis=1)),
            "floor_z": ("trained", _floor_z(settled, rest)),
            "bare_z": ("trained", _floor_z(settled, bare[..., None])),
            "floor": ("trained", settled.mean(axis=(1, 2))),
            "sum": (("trained", "late"), [law.sum(late) for law in laws]),
            "corrected": (("trained", "late"), [law.integral(late) - law.floor + law.floor_integral for law in laws]),
            "printed": (("trained", "late"), [_printed(law, late) for law in laws]),
            "tail_exact": ("trained", [law.floor for law in laws]),
            "tail_printed": (
                "trained",
                [float((1 + scale**2) / (2 * levels) * lam[count - 1 :].sum()) for count in trained],
            ),
            "tail_other": ("trained", [float((1 + scale**2) / 2 * (1 - lam[:count].sum() / levels)) for count in trained]),
            **_on_images(images, rate, scale, image_trained, image_starts, image_end, points, rng),
        },
        coords={"trained": trained, "time": times, "late": late},
    )


def _printed(law: "tu.PowerLawSum", times: np.ndarray) -> np.ndarray:
    """Equations 11 and 79 as printed: the incomplete gamma functions of all levels, on top of the frozen ones' floor."""
    return tu.PowerLawSum(law.beta, law.levels, law.rate, law.scale).integral(times) + law.floor_integral


def _floor_z(settled: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Time averages of settled networks against expected ones, in standard errors over the starts."""
    gap = (settled - expected).mean(axis=2)
    return gap.mean(axis=1) / (gap.std(axis=1, ddof=1) / np.sqrt(gap.shape[1]))


def _on_images(
    images: str, rate: float, scale: float, trained: list[int], starts: int, end: float, points: int, rng: Any
) -> dict[str, Any]:
    """SGD on the images themselves, in the eigenbasis of their covariance, and the mean that their spectrum predicts."""
    from tutelage.replicate.figures.power.linear_runs import diagonal_error, linear_sgd

    data = tu.digits() if images == "digits" else np.load(images, mmap_mode="r")
    rows = data.reshape(len(data), -1)
    spectrum = tu.Spectrum.from_data(rows)
    lam = np.asarray(spectrum.eigenvalues)
    turn = np.asarray(spectrum.basis).T / np.sqrt(float(np.asarray(spectrum.scale)))
    W, W_teacher = drawn(rng, starts, lam.size, scale)
    times, mask = np.geomspace(1.0, end, points), np.arange(lam.size) < np.array(trained)[:, None]
    mismatch = np.broadcast_to(W_teacher - W, (len(trained), starts, lam.size))
    sampled = lambda count: (rows[rng.integers(len(rows), size=(count, starts))] - spectrum.centre) @ turn  # noqa: E731
    runs = linear_sgd(mismatch, sampled, rate, steps_at(times, lam.size), diagonal_error(lam), mask)
    means, _ = eigenbasis_means(problem_of(spectrum, rate), W, W_teacher, trained, times, learned=False)
    return {
        "image_time": ("image_time", times),
        "image_trained": ("image_trained", trained),
        "image_runs": (("image_trained", "image_time"), runs.mean(axis=1)),
        "image_theory": (("image_trained", "image_time"), means.mean(axis=1)),
    }


def claims_3(data: "Dataset") -> list[Claim]:
    """Curves and floors against the exact mean for the drawn starts; printed sums and integrals; images."""
    claims = [claim for count in data["trained"].values for claim in _run_claims(data.sel(trained=count), f"N_l = {count}")]
    few = data.isel(trained=0)
    name = f"N_l = {int(few['trained'])}"
    at = few.interp(late=100.0)
    total = float(at["sum"])
    gap = abs(data["image_runs"] / data["image_theory"] - 1).max("image_time")
    return [
        *claims,
        refuted(
            close(f"eqs. 11 and 79 as printed at alpha = 100, {name}", float(at["printed"]), total, rel=0.05),
            "the sum of eq. 78 over levels, term by term; as printed the frozen levels are counted twice",
        ),
        close(f"the same with gamma functions that end at N_l, {name}", float(at["corrected"]), total, rel=0.01),
        refuted(
            close(
                f"eqs. 71, 72 and 78 as extracted, sum from N_l, {name}",
                float(few["tail_printed"]),
                float(few["tail_other"]),
                rel=0.01,
            ),
            "the first line of eq. 71, 1 - (1/L) sum of the trained eigenvalues, is the sum from N_l + 1",
        ),
        close(f"the same sum from N_l + 1, {name}", float(few["tail_exact"]), float(few["tail_other"]), rel=1e-10),
        *(
            at_most(
                f"images: largest gap to the prediction from their spectrum, N_l = {count}",
                float(gap.sel(image_trained=count)),
                0.05,
            )
            for count in data["image_trained"].values
        ),
    ]


def _run_claims(case: "Dataset", name: str) -> list[Claim]:
    inside = float(np.mean(np.abs(case["z"]) < INSIDE))
    return [
        at_least(f"share of times with |z| < 4, runs against the exact mean of their starts, {name}", inside, 0.95),
        at_most(
            f"floor: |z| against the finite-rate prediction for the drawn starts, {name}",
            abs(float(case["floor_z"])),
            INSIDE,
        ),
        above(f"floor: z against the small-rate floor (must fail), {name}", float(case["bare_z"]), INSIDE),
    ]


def draw_3(data: "Dataset") -> "Figure":
    """Synthetic inputs and images: runs, predictions, floors."""
    small = (
        "Lines: mean of runs; black dashes: exact mean for their starts; dotted: eq. 79 as printed; marks: settled networks."
    )
    figure, axes = sheet(1, 2, "Only the first $N_l$ directions learn", small, height=3.2)
    for look, count in enumerate(data["trained"].values):
        case = data.sel(trained=count)
        axes[0, 0].plot(case["time"], case["runs"], color=COLOURS[look], label=f"$N_l = {count}$")
        axes[0, 0].plot(case["late"], case["expected"], color=INK, linestyle=DASHES[1], linewidth=0.9)
        axes[0, 0].plot(case["late"], case["printed"], color=COLOURS[look], linestyle=DASHES[2], linewidth=1.0)
        axes[0, 0].plot(1e4, case["floor"], color=COLOURS[look], marker=MARKERS[look], markersize=5, clip_on=False)
    label_panel(axes[0, 0], "Gaussian inputs with a power-law spectrum")
    for look, count in enumerate(data["image_trained"].values):
        case = data.sel(image_trained=count)
        axes[0, 1].plot(case["image_time"], case["image_runs"], color=COLOURS[look], label=f"$N_l = {count}$")
        axes[0, 1].plot(case["image_time"], case["image_theory"], color=INK, linestyle=DASHES[1], linewidth=0.9)
    label_panel(axes[0, 1], "images, trained on as they are")
    for panel in axes[0]:
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4)
    return figure


def compute_15(
    levels: int,
    beta: float,
    rate: float,
    scale: float,
    trained: list[int],
    starts: int,
    end: float,
    settle: float,
    points: int,
    seed: int,
) -> "Dataset":
    """Runs in raw coordinates, from random weights and from the end of eq. 85, against the exact mean for these weights."""
    import xarray as xr

    from tutelage.replicate.figures.power.linear_runs import linear_sgd, z_scores

    rng = np.random.default_rng(seed)
    problem = problem_of(tu.PowerLaw(beta, levels), rate)
    covariance = tu.raw_features(problem, trained[0], seed=seed).covariance
    factor = np.linalg.cholesky(covariance)
    W, W_teacher = drawn(rng, starts, levels, scale)
    ended = np.stack([_at_rest(covariance, W, W_teacher, count) for count in trained])
    mask = np.arange(levels) < np.array(trained)[:, None]
    source = lambda count: rng.standard_normal((count, starts, levels)) @ factor.T  # noqa: E731
    error = lambda D: np.einsum("crn,crn->cr", D @ covariance, D) / (2 * levels)  # noqa: E731
    times, even = np.geomspace(0.1, end, points), np.linspace(FIRST * settle, settle, EVEN)
    random = np.broadcast_to(W_teacher - W, ended.shape)
    runs = linear_sgd(random, source, rate, steps_at(times, levels), error, mask)
    settled = linear_sgd(W_teacher - ended, source, rate, steps_at(even, levels), error, mask)
    features = [
        [tu.RawFeatures(problem, covariance, count, scale, pair) for pair in zip(W, W_teacher, strict=True)]
        for count in trained
    ]
    resting = [
        [tu.RawFeatures(problem, covariance, n, scale, pair) for pair in zip(ended[i], W_teacher, strict=True)]
        for i, n in enumerate(trained)
    ]
    means = np.array([[one.error(times) for one in row] for row in features])
    rest = np.array([[one.error(even) for one in row] for row in resting])
    bare = np.array([[one.floor for one in row] for row in features])
    late = np.geomspace(0.1, 1e4, 61)
    typical = [tu.RawFeatures(problem, covariance, count, scale) for count in trained]
    return xr.Dataset(
        {
            "runs": (("trained", "time"), runs.mean(axis=1)),
            "z": (("trained", "time"), z_scores(runs, means)),
            "floor": ("trained", settled.mean(axis=(1, 2))),
            "floor_z": ("trained", _floor_z(settled, rest)),
            "bare_z": ("trained", _floor_z(settled, bare[..., None])),
            "expected": (("trained", "late"), [np.mean([one.error(late) for one in row], axis=0) for row in features]),
            "bare_floor": ("trained", bare.mean(axis=1)),
            "typical_floor": ("trained", [one.floor for one in typical]),
            "eq_88": ("trained", [_equation_88(covariance, count, scale) for count in trained]),
            "flow_gap": ("trained", [_flow_gap(row[0], rate) for row in features]),
            "overlap_z": (("trained", "letter"), [_overlap_z(covariance, n, scale, rng) for n in trained]),
        },
        coords={"trained": trained, "time": times, "late": late, "letter": ["R", "Q"]},
    )


def _at_rest(covariance: np.ndarray, W: np.ndarray, W_teacher: np.ndarray, n: int) -> np.ndarray:
    """Equation 85: trained components J = B + S^-1 C (B_frozen - J_frozen)."""
    answer = np.linalg.solve(covariance[:n, :n], covariance[:n, n:] @ (W_teacher - W)[:, n:].T).T
    return np.concatenate([W_teacher[:, :n] + answer, W[:, n:]], axis=1)


def _equation_88(covariance: np.ndarray, n: int, scale: float) -> float:
    """As printed."""
    S, C, H = covariance[:n, :n], covariance[:n, n:], covariance[n:, n:]
    N, cross = len(covariance), np.trace(C.T @ np.linalg.solve(S, C))
    return float(1 - np.trace(S) / N + scale**2 * np.trace(H) / N - (1 + scale**2) / N * cross) / 2


def _flow_gap(one: "tu.RawFeatures", rate: float) -> float:
    """Equation 84 by matrix exponentials against the closed small-rate error, largest relative gap at a few times."""
    from scipy.linalg import expm

    assert one.weights is not None
    (W, B), n, Sigma = one.weights, one.trained, one.covariance
    end, times, gaps = _at_rest(Sigma, W[None], B[None], n)[0], [0.5, 5.0, 50.0], []
    for time in times:
        J = W.copy()
        J[:n] = end[:n] + expm(-rate * time * Sigma[:n, :n]) @ (W[:n] - end[:n])
        gaps.append(abs((B - J) @ Sigma @ (B - J) / (2 * one.dim) / float(one.small_rate(time)) - 1))
    return float(max(gaps))


def _overlap_z(covariance: np.ndarray, n: int, scale: float, rng: np.random.Generator) -> list[float]:
    """R and Q of eq. 87 against their mean over drawn weights at rest (eq. 85), in standard errors."""
    N, (J, B) = len(covariance), drawn(rng, 4000, len(covariance), scale)
    J = _at_rest(covariance, J, B, n)
    S, C, H = covariance[:n, :n], covariance[:n, n:], covariance[n:, n:]
    cross = np.trace(C.T @ np.linalg.solve(S, C))
    R = (np.trace(S) + cross) / N
    Q = (np.trace(S) + (1 + scale**2) * cross + scale**2 * np.trace(H) - 2 * scale**2 * cross) / N
    found = [np.einsum("rn,rn->r", J @ covariance, x) / N for x in (B, J)]
    return [float((x.mean() - y) / (x.std(ddof=1) / np.sqrt(x.size))) for x, y in zip(found, (R, Q), strict=True)]


def claims_15(data: "Dataset") -> list[Claim]:
    """Curves, floors, and equations 84 to 88."""
    claims = [claim for count in data["trained"].values for claim in _run_claims(data.sel(trained=count), f"N_l = {count}")]
    floors = np.abs(data["eq_88"] / data["typical_floor"] - 1).max()
    return [
        *claims,
        at_most("largest gap of eq. 88 to the floor from a Cholesky factor", float(floors), 1e-8),
        at_most(
            "largest gap of eq. 84, by matrix exponentials, to the closed small-rate error",
            float(data["flow_gap"].max()),
            1e-8,
        ),
        at_most(
            "largest |z| of R in eqs. 86 and 87 against drawn weights", float(np.abs(data["overlap_z"][:, 0]).max()), INSIDE
        ),
        at_most(
            "largest |z| of Q in eqs. 86 and 87 against drawn weights", float(np.abs(data["overlap_z"][:, 1]).max()), INSIDE
        ),
    ]


def draw_15(data: "Dataset") -> "Figure":
    """Runs, the exact mean, and eq. 88."""
    small = "Lines: mean of runs; dashes: exact mean for their starts; dotted: eq. 88; marks: settled networks."
    figure, axes = sheet(1, 1, "Only the first $N_l$ raw inputs learn, outside the eigenbasis", small, height=3.4, width=7.4)
    panel = axes[0, 0]
    for look, count in enumerate(data["trained"].values):
        case = data.sel(trained=count)
        panel.plot(case["time"], case["runs"], color=COLOURS[look], label=f"$N_l = {count}$")
        panel.plot(case["late"], case["expected"], color=INK, linestyle=DASHES[1], linewidth=0.9)
        panel.axhline(float(case["bare_floor"]), color=COLOURS[look], linestyle=DASHES[2], linewidth=1.0)
        panel.plot(1e4, case["floor"], color=COLOURS[look], marker=MARKERS[look], markersize=5, clip_on=False)
    panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
    outside_legend(panel)
    return figure


COMMON = {"levels": 256, "beta": 1.0, "rate": 0.05, "scale": 0.01, "trained": [50, 100, 150, 200], "seed": 1}
IMAGES = {"images": "digits", "image_trained": [10, 20, 40], "image_starts": 50}

FIGURES = (
    Replica(
        id="power-3",
        source="power",
        figure="Fig. 3",
        title="linear network: only the first directions learn, on a power law and on real images",
        full=COMMON | IMAGES | {"starts": 50, "end": 1000.0, "settle": 100.0, "image_end": 1000.0, "points": 61},
        quick=COMMON | IMAGES | {"starts": 16, "end": 50.0, "settle": 10.0, "image_end": 100.0, "points": 31},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
    Replica(
        id="power-15",
        source="power",
        figure="Fig. 15",
        title="linear network: only some raw inputs learn, outside the eigenbasis of the covariance",
        full=COMMON | {"starts": 300, "end": 30.0, "settle": 20.0, "points": 41},
        quick=COMMON | {"starts": 16, "end": 10.0, "settle": 6.0, "points": 25},
        compute=compute_15,
        draw=draw_15,
        claims=claims_15,
    ),
)
