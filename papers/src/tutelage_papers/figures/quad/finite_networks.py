"""Fig. 1: the equations of a quadratic network against networks and Monte Carlo.

Also the law of the times at which networks escape from the plateau.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    INK,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import (
    Claim,
    above,
    at_least,
    at_most,
    below,
    close,
    refuted,
)
from tutelage_papers.drawing import GUIDE, color_legend, legend_below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

    from tutelage_papers.quadratic import QuadraticNetwork

POINTS = 201
# The band ends at this share of the time at which the theory's loss is halved.
BEFORE = 0.6
ALARM = 1e-3  # false alarms of the test of escape times
LATER = 1.1  # escape times so much too long must be seen
LIMIT = 4.0  # standard errors
FEW = 0.01  # share of G that the wrong theory keeps: next to none
# Dimensions of the quantities that are compared, after time.
DIMS: dict[str, tuple[str, ...]] = {
    "R": ("student", "teacher"),
    "Q": ("student", "student_2"),
    "error": (),
}


def compute_1(
    p: int,
    p_teacher: int,
    paper_lr: float,
    dim: int,
    runs: int,
    reach: float,
    samples: int,
    draws: int,
    seed: int,
) -> "Dataset":
    """Return theory and runs from one start of size N^(-1/2).

    With the law of their escape, and the averages of eqs. 33 and 34.
    """
    network = tutelage_papers.quadratic.quadratic_network(p, p_teacher, paper_lr)
    start = network.start(dim**-0.5, seed)
    law = network.escape_times(start, dim, samples=samples, seed=seed)
    times = tu.linear_times(reach * float(law.max()), POINTS)
    theory = tu.solve(network.problem, start, times)
    networks = tu.simulate(
        network.problem, start, dim=dim, times=times, runs=runs, seed=seed
    )
    halved = float(network.half_times([start])[0])
    early = int(np.searchsorted(times, BEFORE * halved))
    data = _curves(theory, networks)
    data = data.assign(
        _band_before_escape(network.problem, start, theory, networks, early)
    )
    data = data.assign(early=float(times[early - 1]), halved=halved)
    data = data.assign(_escapes(networks, law))
    noise = network.seed_noise()
    data["start_to_noise"] = noise.start_to_noise(np.asarray(start.R), dim)
    late = slice(int(0.3 * early / BEFORE), early)
    data["norm_runs"] = float(np.mean(_norms(networks)[:, late]))
    data["norm_theory"] = float(np.mean(_norms(theory)[late]))
    data["norm_at_rate"] = network.plateau().norm
    data = data.assign(_small_rate(network, seed))
    data = data.assign(_overlapping_students(network, start, times, seed))
    return data.assign(_averages(network, draws, seed))


def _curves(theory: "tu.Trajectory", networks: "tu.Trajectory") -> "Dataset":
    """Theory, mean of the runs and its standard error, of each quantity in DIMS."""
    import xarray as xr

    data = xr.Dataset(coords={"time": np.asarray(theory.times)})
    for name, axes in DIMS.items():
        dims = ("time", *axes)
        runs = np.asarray(getattr(networks, name))
        data[name] = (dims, np.asarray(getattr(theory, name)))
        data[f"{name}_mean"] = (dims, runs.mean(0))
        data[f"{name}_se"] = (dims, runs.std(0, ddof=1) / np.sqrt(len(runs)))
    return data


def _band_before_escape(
    problem: "tu.Problem",
    start: "tu.Start",
    theory: "tu.Trajectory",
    networks: "tu.Trajectory",
    count: int,
) -> dict[str, float]:
    """Shares of the first `count` times at which theory and wrong theory are inside."""
    from tutelage_papers.bands import band, wrong_theory

    wrong = wrong_theory(problem, start, theory.times, FEW)
    inside = band(_until(theory, count), _until(networks, count), _until(wrong, count))
    norm_inside = _mean_norm_inside(theory, networks, count)
    norm_inside_wrong = _mean_norm_inside(wrong, networks, count)
    return {
        "inside": min(float(inside["inside"]), norm_inside),
        "inside_wrong": min(float(inside["inside_wrong"]), norm_inside_wrong),
    }


def _until(trajectory: "tu.Trajectory", count: int) -> "tu.Trajectory":
    """A trajectory at its first `count` times."""
    import equinox as eqx

    axis = 1 if trajectory.kind == "simulation" else 0

    def first(values: Any) -> np.ndarray:
        return np.take(np.asarray(values), range(count), axis)

    variables = {name: first(x) for name, x in trajectory.variables.items()}
    cut = (trajectory.times[:count], variables, first(trajectory.error))
    return eqx.tree_at(lambda t: (t.times, t.variables, t.error), trajectory, cut)


def _norms(trajectory: "tu.Trajectory") -> np.ndarray:
    """Q_kk at all times."""
    return np.einsum("...kk->...k", np.asarray(trajectory.Q))


def _mean_norm_inside(
    theory: "tu.Trajectory", runs: "tu.Trajectory", count: int
) -> float:
    """Share of times at which the mean norm is inside its band.

    It hardly varies from run to run, so that few runs judge it sharply.
    """
    from scipy.stats import norm, t

    expected = np.einsum("...kk->...", np.asarray(theory.Q))[1:count]
    traces = np.einsum("...kk->...", np.asarray(runs.Q))[:, 1:count]
    error = traces.std(0, ddof=1) / np.sqrt(len(traces))
    score = np.abs(traces.mean(0) - expected) / error
    # The normal score that is as improbable as this t score.
    normal_score = norm.isf(t.sf(score, len(traces) - 1))
    return float(np.mean(normal_score < LIMIT))


def _escapes(networks: "tu.Trajectory", law: np.ndarray) -> dict[str, Any]:
    """Escape times of the runs against their law."""
    times = np.asarray(networks.times)
    errors = np.asarray(networks.error)
    escaped = np.array([_half_time(times, error) for error in errors])
    return {
        "law": ("sample", law),
        "escaped": ("run", escaped),
        "same": _same_law(escaped, law),
        "same_later": _same_law(LATER * escaped, law),
    }


def _half_time(times: np.ndarray, error: np.ndarray) -> float:
    """When the error first crosses half its first value; the last time if it does not."""
    half = error[0] / 2
    below_half = error < half
    if not below_half.any():
        return float(times[-1])
    i = int(np.argmax(below_half))
    # np.interp needs ascending values: minus the error, which falls.
    falling = [-error[i - 1], -error[i]]
    return float(np.interp(-half, falling, [times[i - 1], times[i]]))


def _same_law(one: np.ndarray, other: np.ndarray) -> float:
    """p-value of the two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import ks_2samp

    test: Any = ks_2samp(one, other)
    return float(test.pvalue)


def _small_rate(network: "QuadraticNetwork", seed: int) -> dict[str, Any]:
    """Norms and overlaps between students on the plateau of a tiny rate."""
    p = network.students
    k = network.teachers
    slow = tutelage_papers.quadratic.quadratic_network(p, k, 1e-4)
    t = np.linspace(0.0, 8 * p / 6, POINTS)
    tiny = slow.start(1e-5, seed)
    flow = slow.curves(tiny, t, gradient_flow=True)
    solved = network.curves(tiny, t)
    # Small overlaps between students of the norm of the plateau: they decay.
    off_diagonal = np.ones((p, p)) - np.eye(p)
    Q = slow.plateau_norm * np.eye(p) + 1e-3 * off_diagonal
    start = tu.Start(slow.start(1e-6, seed).R, Q, np.eye(k))
    decay = tu.solve(slow.problem, start, slow.alpha(t))
    overlap = np.asarray(decay.Q)[:, 0, 1]
    return {
        "small_norm": float(np.mean(flow.q[-1])),
        "norm_solved": float(np.mean(solved.q[-1])),
        "omega_Q": float(np.polyfit(t, np.log(overlap), 1)[0]),
    }


def _overlapping_students(
    network: "QuadraticNetwork", start: "tu.Start", times: np.ndarray, seed: int
) -> dict[str, Any]:
    """Solve from a start with overlaps between its students, as large as those in R."""
    p = network.students
    size = np.sqrt(np.mean(np.asarray(start.R) ** 2))
    mixed = np.random.default_rng(seed).standard_normal((p, p)) * size
    Q = np.eye(p) + np.triu(mixed, 1) + np.triu(mixed, 1).T
    theory = tu.solve(network.problem, tu.Start(start.R, Q, start.T), times)
    error = np.asarray(theory.error)
    return {
        "overlapping_halved": _half_time(times, error),
        "error_overlapping": ("time", error),
    }


def eq_34_noise(Q: np.ndarray, rho: np.ndarray, *, printed: bool) -> np.ndarray:
    """Return the curly bracket of eq. 34, <F F> p^2/(16 eta^2).

    As printed, or with the factor of Q that Wick's theorem gives.
    """
    p, k = rho.shape
    trace = np.trace(Q)
    cross = rho @ rho.T
    squares = np.sum(rho**2)
    if printed:
        bracket = 1 + 2 / k - (2 * p - 1) / p**2 * trace**2 - squares / (p * k)
    else:
        bracket = 1 + 2 / k - 2 / p * trace + trace**2 / p**2
        bracket = bracket + 2 / p**2 * np.sum(Q**2)
        bracket = bracket - 4 / (p * k) * squares
    along_teachers = (4 / k + 8 / k**2 - 4 / (p * k) * trace) * cross
    along_students = (4 / p**2 * trace - 4 / p) * Q @ Q
    rest = along_teachers + along_students + 8 / p**2 * Q @ Q @ Q
    return Q * bracket + rest - 8 / (p * k) * (cross @ Q + Q @ cross)


def eq_33_and_34(Q: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms of order eta of eqs. 33 and 34, per unit of t = eta alpha."""
    p, k = rho.shape
    trace = np.trace(Q)
    drift_R = 4 / p * (1 + 2 / k - trace / p) * rho - 8 / p**2 * Q @ rho
    drift_Q = 8 / p * (1 - trace / p) * Q + 16 / (p * k) * rho @ rho.T
    drift_Q = drift_Q - 16 / p**2 * Q @ Q
    return drift_R, drift_Q


def _averages(network: "QuadraticNetwork", draws: int, seed: int) -> dict[str, Any]:
    """Monte Carlo of the averages in eqs. 33 and 34 at a random state.

    <F u>, <F lambda> + transpose, and <F F>, in standard errors from the formulas.
    """
    p = network.students
    k = network.teachers
    dim = 4 * (p + k)
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((p + k, dim)) / np.sqrt(dim)
    students = vectors[:p]
    teachers = np.linalg.qr(vectors[p:].T)[0].T
    Q = students @ students.T
    rho = students @ teachers.T
    joint = np.block([[Q, rho], [rho.T, np.eye(k)]])
    fields = rng.standard_normal((draws, p + k)) @ np.linalg.cholesky(joint).T
    lam = fields[:, :p]
    u = fields[:, p:]
    residual = np.mean(u**2, 1) - np.mean(lam**2, 1)
    F = 4 / p * residual[:, None] * lam
    drift_R, drift_Q = eq_33_and_34(Q, rho)
    step_Q = np.einsum("na,nb->nab", F, lam)
    noise = np.einsum("na,nb->nab", F, F)
    return {
        "z_33": _largest(np.einsum("na,nb->nab", F, u), drift_R),
        "z_34_drift": _largest(step_Q + step_Q.swapaxes(1, 2), drift_Q),
    } | _noise_against_eq_34(noise, Q, rho)


def _noise_against_eq_34(
    noise: np.ndarray, Q: np.ndarray, rho: np.ndarray
) -> dict[str, Any]:
    """Samples of F_k F_k' against eq. 34, corrected and as printed."""
    p = len(Q)
    mean = noise.mean(0)
    error = noise.std(0) / np.sqrt(len(noise))
    right = 16 / p**2 * eq_34_noise(Q, rho, printed=False)
    wrong = 16 / p**2 * eq_34_noise(Q, rho, printed=True)
    diagonal = np.diag_indices(p)
    upper = np.triu_indices(p)
    far = np.abs(wrong - mean)[diagonal] / error[diagonal]
    return {
        "z_34": float(np.max(np.abs(right - mean) / error)),
        "z_34_printed": float(np.min(far)),
        "noise_drawn": ("entry", mean[upper]),
        "noise_right": ("entry", right[upper]),
        "noise_printed": ("entry", wrong[upper]),
    }


def _largest(draws: np.ndarray, expected: np.ndarray) -> float:
    """Largest distance of a mean from what is expected, in standard errors."""
    error = draws.std(0) / np.sqrt(len(draws))
    return float(np.max(np.abs(draws.mean(0) - expected) / error))


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """Compare bands before the escape, escape times, norms, and printed equations."""
    yield from _escape_claims(data)
    yield from _norm_claims(data)
    yield from _equation_claims(data)
    yield from _student_overlap_claims(data)


def _escape_claims(data: "Dataset") -> Iterator[Claim]:
    """The band before the escape, and the law of the escape times."""
    yield at_least(
        "before the escape: share of times inside the band, each overlap, e_g and "
        "the mean norm",
        data["inside"],
        0.95,
    )
    words = "the same without G (1% of it), which must fail"
    yield below(words, data["inside_wrong"], 0.95)
    test = f"KS test of the escape times of {data.sizes['run']} runs"
    yield at_least(f"{test} against their law, p-value", data["same"], ALARM)
    words = f"{test}, all {LATER:g} times as long, which must fail"
    yield below(words, data["same_later"], ALARM)
    words = "start over noise of the overlaps: who decides the escape"
    yield above(words, data["start_to_noise"], 1.0)


def _norm_claims(data: "Dataset") -> Iterator[Claim]:
    """Norms on the plateau, and a start with overlaps between its students."""
    p = data.sizes["student"]
    words = "norms on the plateau, small rate: p/(p+2)"
    yield close(words, data["small_norm"], p / (p + 2), rel=1e-3)
    words = "the same at this rate, closed form"
    yield close(words, data["norm_solved"], data["norm_at_rate"], rel=1e-3)
    words = "mean norm along the plateau, runs"
    yield close(words, data["norm_runs"], data["norm_theory"], rel=0.01)
    yield close(
        "time to half the loss with overlaps between students, over that without",
        data["overlapping_halved"] / data["halved"],
        1.0,
        rel=0.1,
        says="the qualitative dynamical behavior remains unchanged",
    )


def _equation_claims(data: "Dataset") -> Iterator[Claim]:
    """Eqs. 33 and 34 against Monte Carlo."""
    words = "eq. 33 against Monte Carlo: largest distance in standard errors"
    yield at_most(words, data["z_33"], LIMIT)
    yield at_most("eq. 34, order eta: the same", data["z_34_drift"], LIMIT)
    words = "eq. 34, order eta^2, bracket corrected: the same"
    yield at_most(words, data["z_34"], LIMIT)
    words = "eq. 34, order eta^2, as printed: least distance of a diagonal entry"
    yield refuted(
        at_most(words, data["z_34_printed"], LIMIT),
        evidence="by Wick's theorem the bracket of Q_kk' is 1 + 2/p* - (2/p) trQ + "
        "(trQ)^2/p^2 + (2/p^2) tr(Q^2) - (4/(p p*)) sum rho^2, and Monte Carlo agrees "
        "with that",
    )


def _student_overlap_claims(data: "Dataset") -> Iterator[Claim]:
    """Overlaps between students decay on the plateau; the source has them grow."""
    p = data.sizes["student"]
    rate = 16 / (p * (p + 2))
    measured = data["omega_Q"]
    words = "student overlaps on the plateau: rate in t"
    yield close(words, measured, -rate, rel=0.01)
    words = "eqs. 11, 12, 35: dQ_kk'/dt = + omega_Q Q_kk'"
    yield refuted(
        close(words, measured, rate, rel=0.01),
        evidence="they decay: so say solved curves, eq. 9 at Q_kk = p/(p+2), and the "
        "Hessian's eigenvalue 16/(p(p+2))",
    )


def draw_1(data: "Dataset") -> "Figure":
    """Draw the four panels of the source, the law of escape times, and eq. 34."""
    p = data.sizes["student"]
    k = data.sizes["teacher"]
    title = "A quadratic network: theory, networks, and when they escape"
    small = (
        f"Solid: theory; dashed: mean of {data.sizes['run']} runs and its standard "
        "error; dotted: end of the comparison."
    )
    figure, axes = panel_grid(2, 3, title, small, height=2.7)
    teacher_overlaps, student_overlaps, escapes = axes[0]
    norms, error, noise = axes[1]
    entries = list(np.ndindex(p, k))
    _draw_overlaps(teacher_overlaps, data, "R", entries, "student with teacher")
    teacher_overlaps.set_ylabel(r"$\rho_{kl}$")
    entries = [(i, j) for i in range(p) for j in range(i)]
    _draw_overlaps(student_overlaps, data, "Q", entries, "student with student")
    student_overlaps.set_ylabel("$Q_{kk'}$")
    entries = [(i, i) for i in range(p)]
    _draw_overlaps(norms, data, "Q", entries, "norms")
    norms.set_ylabel("$Q_{kk}$")
    norms.axhline(p / (p + 2), **GUIDE)
    _draw_risk(error, data)
    for panel in (teacher_overlaps, student_overlaps, norms, error):
        panel.axvline(float(data["early"]), **GUIDE, linewidth=0.9)
    _draw_law(escapes, data)
    _draw_noise(noise, data)
    students = [f"$k = {i + 1}$" for i in range(p)]
    color_legend(figure, "color of overlaps and norms: student", students)
    return figure


def _draw_overlaps(
    panel: Any, data: "Dataset", name: str, entries: list[Any], words: str
) -> None:
    """Entries of R or Q, in the colors of the students."""
    for i, j in entries:
        _draw_pair(panel, data, name, (i, j), COLORS[i % len(COLORS)])
    panel.set_xlabel(TIME)
    label_panel(panel, words)


def _draw_risk(panel: Any, data: "Dataset") -> None:
    """Twice e_g, and that of a start with overlaps between its students."""
    _draw_pair(panel, data, "error", (), COLORS[0], scale=2.0)
    overlapping = 2 * data["error_overlapping"]
    look = {"color": COLORS[1], "linestyle": DASHES[3]}
    panel.plot(data["time"], overlapping, label="students overlap", **look)
    panel.set(xlabel=TIME, ylabel=r"risk $2\epsilon_g$", ylim=(0, None))
    legend_below(panel, columns=1)
    label_panel(panel, "generalization")


def _draw_pair(
    panel: Any,
    data: "Dataset",
    name: str,
    entry: tuple[int, ...],
    color: str,
    scale: float = 1.0,
) -> None:
    """Theory, and mean of the runs on a band of one standard error to either side."""
    time = data["time"].values
    theory = scale * data[name].values[:, *entry]
    mean = scale * data[f"{name}_mean"].values[:, *entry]
    error = scale * data[f"{name}_se"].values[:, *entry]
    shade = {"color": color, "alpha": 0.25, "linewidth": 0}
    panel.fill_between(time, mean - error, mean + error, **shade)
    panel.plot(time, theory, color=color, linewidth=0.9)
    panel.plot(time, mean, color=color, linewidth=0.9, linestyle=DASHES[1])


def _draw_law(panel: Any, data: "Dataset") -> None:
    """Distribution functions of the escape times: their law and the runs."""
    _draw_distribution(panel, data["law"], color=INK, label="law")
    _draw_distribution(panel, data["escaped"], color=COLORS[1], label="runs")
    panel.axvline(float(data["halved"]), **GUIDE, label="theory of the start")
    panel.set(xlabel=r"$\alpha$ at half the loss", ylabel="share of networks")
    legend_below(panel, columns=3, fontsize=7, handlelength=1.6, columnspacing=0.8)
    label_panel(panel, "escape times")


def _draw_distribution(panel: Any, values: Any, **look: Any) -> None:
    """The share of values up to x, as a step function."""
    ordered = np.sort(values)
    share = np.arange(1, ordered.size + 1) / ordered.size
    panel.step(ordered, share, where="post", **look)


def _draw_noise(panel: Any, data: "Dataset") -> None:
    """Eq. 34, corrected and as printed, against Monte Carlo."""
    drawn = data["noise_drawn"].values
    line = np.array([drawn.min(), drawn.max()])
    panel.plot(line, line, **GUIDE)
    labels = {"right": "corrected", "printed": "as printed"}
    for look, (name, label) in enumerate(labels.items()):
        marks = {
            "marker": MARKERS[look],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 4,
        }
        noise = data[f"noise_{name}"]
        panel.plot(drawn, noise, color=COLORS[look], label=label, **marks)
    panel.set_xlabel(r"$\langle F_k F_{k'}\rangle / \eta^2$, Monte Carlo")
    panel.set_ylabel("eq. 34")
    panel.margins(x=0.06)
    panel.legend(loc="lower left")
    label_panel(panel, r"terms of order $\eta^2$")


WIDTHS = {"p": 6, "p_teacher": 3, "seed": 1}

FIGURES = (
    Replica(
        id="quad-1",
        source="quad",
        figure="Fig. 1",
        title="theory and networks, four panels; escape times; eqs. 33 and 34",
        full=WIDTHS
        | {
            "paper_lr": 0.01,
            "dim": 10_000,
            "runs": 10,
            "reach": 1.6,
            "samples": 1000,
            "draws": 1_000_000,
        },
        quick=WIDTHS
        | {
            "paper_lr": 0.05,
            "dim": 500,
            "runs": 30,
            "reach": 1.1,
            "samples": 300,
            "draws": 200_000,
        },
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
