"""The equations of a quadratic network against networks and against Monte Carlo, and when networks escape (Fig. 1)."""

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
from tutelage_papers.claims import (
    Claim,
    above,
    at_least,
    at_most,
    below,
    close,
    refuted,
)
from tutelage_papers.drawing import color_legend
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

POINTS = 201
BEFORE = (
    0.6  # the band ends at this share of the time at which the theory's loss is halved
)
ALARM = 1e-3  # false alarms of the test of escape times
LATER = 1.1  # escape times so much too long must be seen
LIMIT = 4.0  # standard errors
FEW = 0.01  # share of G that the wrong theory keeps: next to none


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
    """Theory and runs from one start of size N^(-1/2); the law of their escape; the averages of eqs. 33 and 34."""
    import xarray as xr

    from tutelage_papers.bands import band, wrong_theory

    network = tutelage_papers.quadratic.quadratic_network(p, p_teacher, paper_lr)
    start = network.start(dim**-0.5, seed)
    law = network.escape_times(start, dim, samples=samples, seed=seed)
    times = tu.linear_times(reach * float(law.max()), POINTS)
    theory = tu.solve(network.problem, start, times)
    halved = float(network.half_times([start])[0])
    early = int(np.searchsorted(times, BEFORE * halved))
    networks = tu.simulate(
        network.problem, start, dim=dim, times=times, runs=runs, seed=seed
    )
    wrong = wrong_theory(network.problem, start, times, FEW)
    inside = band(*(_until(x, early) for x in (theory, networks, wrong)))
    seen = {}
    for name in ("R", "Q", "error"):
        theirs = np.asarray(getattr(networks, name))
        dims = (
            "time",
            *{"R": ("student", "teacher"), "Q": ("student", "student_2"), "error": ()}[
                name
            ],
        )
        seen[name] = (dims, np.asarray(getattr(theory, name)))
        seen[f"{name}_mean"] = (dims, theirs.mean(0))
        seen[f"{name}_se"] = (dims, theirs.std(0, ddof=1) / np.sqrt(runs))
    escaped = np.array(
        [_half_time(times, error) for error in np.asarray(networks.error)]
    )
    rest = slice(int(0.3 * early / BEFORE), early)
    data = xr.Dataset(seen, coords={"time": times}).assign(
        inside=min(float(inside["inside"]), _mean_norm_inside(theory, networks, early)),
        inside_wrong=min(
            float(inside["inside_wrong"]), _mean_norm_inside(wrong, networks, early)
        ),
        early=float(times[early - 1]),
        halved=halved,
        law=("sample", law),
        escaped=("run", escaped),
        same=_same_law(escaped, law),
        same_later=_same_law(LATER * escaped, law),
        start_to_noise=network.seed_noise().start_to_noise(np.asarray(start.R), dim),
        norm_runs=float(
            np.mean(np.einsum("rtkk->rtk", np.asarray(networks.Q)[:, rest]))
        ),
        norm_theory=float(np.mean(np.einsum("tkk->tk", np.asarray(theory.Q)[rest]))),
        norm_at_rate=network.plateau().norm,
    )
    return data.assign(
        _small_rates(network, start, times, seed) | _averages(network, draws, seed)
    )


def _until(trajectory: "tu.Trajectory", count: int) -> "tu.Trajectory":
    """Its first `count` times."""
    import equinox as eqx

    axis = 1 if trajectory.kind == "simulation" else 0
    variables = {
        name: np.take(np.asarray(x), range(count), axis)
        for name, x in trajectory.variables.items()
    }
    cut = (
        trajectory.times[:count],
        variables,
        np.take(np.asarray(trajectory.error), range(count), axis),
    )
    return eqx.tree_at(lambda t: (t.times, t.variables, t.error), trajectory, cut)


def _mean_norm_inside(
    theory: "tu.Trajectory", runs: "tu.Trajectory", count: int
) -> float:
    """Share of times at which the mean norm is inside its band; it hardly varies, so that few runs judge it sharply."""
    from scipy.stats import norm, t

    expected, seen = (np.einsum("...kk->...", np.asarray(x.Q)) for x in (theory, runs))
    seen = seen[:, 1:count]
    score = np.abs(seen.mean(0) - expected[1:count]) / (
        seen.std(0, ddof=1) / np.sqrt(len(seen))
    )
    return float(np.mean(norm.isf(t.sf(score, len(seen) - 1)) < LIMIT))


def _half_time(times: np.ndarray, error: np.ndarray) -> float:
    """When the error first crosses half its first value; the last time if it does not."""
    below = error < error[0] / 2
    i = int(np.argmax(below))
    if not below.any():
        return float(times[-1])
    return float(
        np.interp(-error[0] / 2, [-error[i - 1], -error[i]], [times[i - 1], times[i]])
    )


def _same_law(one: np.ndarray, other: np.ndarray) -> float:
    """p-value of the two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import ks_2samp

    test: Any = ks_2samp(one, other)
    return float(test.pvalue)


def _small_rates(
    network: "tutelage_papers.quadratic.QuadraticNetwork",
    start: "tu.Start",
    times: np.ndarray,
    seed: int,
) -> dict[str, Any]:
    """Norms and student overlaps on the plateau of a tiny rate; and the same start with overlaps between its students."""
    p = network.students
    k = network.teachers
    slow = tutelage_papers.quadratic.quadratic_network(p, k, 1e-4)
    t = np.linspace(0.0, 8 * p / 6, POINTS)
    tiny = slow.start(1e-5, seed)
    norms = slow.curves(tiny, t, gradient_flow=True).q[-1]
    Q = slow.plateau_norm * np.eye(p) + 1e-3 * (np.ones((p, p)) - np.eye(p))
    beside = tu.solve(
        slow.problem, tu.Start(slow.start(1e-6, seed).R, Q, np.eye(k)), slow.alpha(t)
    )
    mixed = np.random.default_rng(seed).standard_normal((p, p)) * np.sqrt(
        np.mean(np.asarray(start.R) ** 2)
    )
    overlapping = tu.Start(
        start.R, np.eye(p) + np.triu(mixed, 1) + np.triu(mixed, 1).T, start.T
    )
    other = tu.solve(network.problem, overlapping, times)
    return {
        "small_norm": float(np.mean(norms)),
        "norm_solved": float(np.mean(network.curves(tiny, t).q[-1])),
        "omega_Q": float(np.polyfit(t, np.log(np.asarray(beside.Q)[:, 0, 1]), 1)[0]),
        "overlapping_halved": _half_time(times, np.asarray(other.error)),
        "error_overlapping": ("time", np.asarray(other.error)),
    }


def eq_34_noise(Q: np.ndarray, rho: np.ndarray, *, printed: bool) -> np.ndarray:
    """The curly bracket of eq. 34, <F F> p^2/(16 eta^2): as printed, or with the factor of Q that Wick's theorem gives."""
    (p, k), tr, cross = rho.shape, np.trace(Q), rho @ rho.T
    if printed:
        bracket = 1 + 2 / k - (2 * p - 1) / p**2 * tr**2 - np.sum(rho**2) / (p * k)
    else:
        bracket = (
            1
            + 2 / k
            - 2 / p * tr
            + tr**2 / p**2
            + 2 / p**2 * np.sum(Q**2)
            - 4 / (p * k) * np.sum(rho**2)
        )
    rest = (
        (4 / k + 8 / k**2 - 4 / (p * k) * tr) * cross
        + (4 / p**2 * tr - 4 / p) * Q @ Q
        + 8 / p**2 * Q @ Q @ Q
    )
    return Q * bracket + rest - 8 / (p * k) * (cross @ Q + Q @ cross)


def eq_33_and_34(Q: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The terms of order eta of eqs. 33 and 34, per unit of t = eta alpha."""
    (p, k), tr = rho.shape, np.trace(Q)
    drift = 4 / p * (1 + 2 / k - tr / p) * rho - 8 / p**2 * Q @ rho
    return drift, 8 / p * (1 - tr / p) * Q + 16 / (
        p * k
    ) * rho @ rho.T - 16 / p**2 * Q @ Q


def _averages(
    network: "tutelage_papers.quadratic.QuadraticNetwork", draws: int, seed: int
) -> dict[str, Any]:
    """Monte Carlo of <F u>, <F lambda> + transpose and <F F> at a random state, in standard errors from the formulas."""
    p = network.students
    k = network.teachers
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((p + k, 4 * (p + k))) / np.sqrt(4 * (p + k))
    teachers = np.linalg.qr(vectors[p:].T)[0].T
    Q = vectors[:p] @ vectors[:p].T
    rho = vectors[:p] @ teachers.T
    joint = np.block([[Q, rho], [rho.T, np.eye(k)]])
    fields = rng.standard_normal((draws, p + k)) @ np.linalg.cholesky(joint).T
    lam = fields[:, :p]
    u = fields[:, p:]
    F = 4 / p * (np.mean(u**2, 1) - np.mean(lam**2, 1))[:, None] * lam
    drift, dQ = eq_33_and_34(Q, rho)
    symmetric = np.einsum("na,nb->nab", F, lam)
    noise = np.einsum("na,nb->nab", F, F)
    mean = noise.mean(0)
    error = noise.std(0) / np.sqrt(draws)
    upper = np.triu_indices(p)
    right, wrong = (16 / p**2 * eq_34_noise(Q, rho, printed=x) for x in (False, True))
    return {
        "z_33": _largest(np.einsum("na,nb->nab", F, u), drift),
        "z_34_drift": _largest(symmetric + symmetric.swapaxes(1, 2), dQ),
        "z_34": float(np.max(np.abs(right - mean) / error)),
        "z_34_printed": float(
            np.min(np.abs(wrong - mean)[np.diag_indices(p)] / error[np.diag_indices(p)])
        ),
        "noise_drawn": ("entry", mean[upper]),
        "noise_right": ("entry", right[upper]),
        "noise_printed": ("entry", wrong[upper]),
    }


def _largest(draws: np.ndarray, expected: np.ndarray) -> float:
    """Largest distance of a mean from what is expected, in standard errors."""
    return float(
        np.max(np.abs(draws.mean(0) - expected) / (draws.std(0) / np.sqrt(len(draws))))
    )


def claims_1(data: "Dataset") -> list[Claim]:
    """Inside the band before the escape, escape times by their law, norms, and the printed equations."""
    p = data.sizes["student"]
    runs = data.sizes["run"]
    rate = 16 / (p * (p + 2))
    text = f"KS test of the escape times of {runs} runs"
    return [
        at_least(
            "before the escape: share of times inside the band, each overlap, e_g and the mean norm",
            float(data["inside"]),
            0.95,
        ),
        below(
            "the same without G (1% of it), which must fail",
            float(data["inside_wrong"]),
            0.95,
        ),
        at_least(f"{text} against their law, p-value", float(data["same"]), ALARM),
        below(
            f"{text}, all {LATER:g} times as long, which must fail",
            float(data["same_later"]),
            ALARM,
        ),
        above(
            "start over noise of the overlaps: who decides the escape",
            float(data["start_to_noise"]),
            1.0,
        ),
        close(
            "norms on the plateau, small rate: p/(p+2)",
            float(data["small_norm"]),
            p / (p + 2),
            rel=1e-3,
        ),
        close(
            "the same at this rate, closed form",
            float(data["norm_solved"]),
            float(data["norm_at_rate"]),
            rel=1e-3,
        ),
        close(
            "mean norm along the plateau, runs",
            float(data["norm_runs"]),
            float(data["norm_theory"]),
            rel=0.01,
        ),
        close(
            "time to half the loss with overlaps between students, over that without",
            float(data["overlapping_halved"] / data["halved"]),
            1.0,
            rel=0.1,
            says="the qualitative dynamical behavior remains unchanged",
        ),
        at_most(
            "eq. 33 against Monte Carlo: largest distance in standard errors",
            float(data["z_33"]),
            LIMIT,
        ),
        at_most("eq. 34, order eta: the same", float(data["z_34_drift"]), LIMIT),
        at_most(
            "eq. 34, order eta^2, bracket corrected: the same",
            float(data["z_34"]),
            LIMIT,
        ),
        refuted(
            at_most(
                "eq. 34, order eta^2, as printed: least distance of a diagonal entry",
                float(data["z_34_printed"]),
                LIMIT,
            ),
            evidence="by Wick's theorem the bracket of Q_kk' is 1 + 2/p* - (2/p) trQ + (trQ)^2/p^2 + (2/p^2) tr(Q^2) - "
            "(4/(p p*)) sum rho^2, and Monte Carlo agrees with that",
        ),
        close(
            "student overlaps on the plateau: rate in t",
            float(data["omega_Q"]),
            -rate,
            rel=0.01,
        ),
        refuted(
            close(
                "eqs. 11, 12, 35: dQ_kk'/dt = + omega_Q Q_kk'",
                float(data["omega_Q"]),
                rate,
                rel=0.01,
            ),
            evidence="they decay: so say solved curves, eq. 9 at Q_kk = p/(p+2), and the Hessian's eigenvalue 16/(p(p+2))",
        ),
    ]


def draw_1(data: "Dataset") -> "Figure":
    """The four panels of the source, the law of escape times, and eq. 34."""
    title = "A quadratic network: theory, networks, and when they escape"
    small = f"Solid: theory; dashed: mean of {data.sizes['run']} runs and its standard error; dotted: end of the comparison."
    figure, axes = panel_grid(2, 3, title, small, height=2.7)
    p = data.sizes["student"]
    k = data.sizes["teacher"]
    panels = (
        (
            axes[0, 0],
            "R",
            [(i, j) for i in range(p) for j in range(k)],
            r"$\rho_{kl}$",
            "student with teacher",
        ),
        (
            axes[0, 1],
            "Q",
            [(i, j) for i in range(p) for j in range(i)],
            "$Q_{kk'}$",
            "student with student",
        ),
        (axes[1, 0], "Q", [(i, i) for i in range(p)], "$Q_{kk}$", "norms"),
    )
    for panel, name, entries, letter, words in panels:
        for i, j in entries:
            _draw_pair(panel, data, name, (i, j), COLORS[i % len(COLORS)])
        panel.set(xlabel=TIME, ylabel=letter)
        label_panel(panel, words)
    axes[1, 0].axhline(p / (p + 2), color=FAINT, linestyle=DASHES[2])
    _draw_pair(axes[1, 1], data, "error", (), COLORS[0], scale=2.0)
    axes[1, 1].plot(
        data["time"],
        2 * data["error_overlapping"],
        color=COLORS[1],
        linestyle=DASHES[3],
        label="students overlap",
    )
    axes[1, 1].set(xlabel=TIME, ylabel=r"risk $2\epsilon_g$", ylim=(0, None))
    axes[1, 1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    label_panel(axes[1, 1], "generalization")
    for panel in (axes[0, 0], axes[0, 1], axes[1, 0], axes[1, 1]):
        panel.axvline(
            float(data["early"]), color=FAINT, linestyle=DASHES[2], linewidth=0.9
        )
    _draw_law(axes[0, 2], data)
    _draw_noise(axes[1, 2], data)
    color_legend(
        figure,
        "color of overlaps and norms: student",
        [f"$k = {i + 1}$" for i in range(p)],
    )
    return figure


def _draw_pair(
    panel: Any,
    data: "Dataset",
    name: str,
    entry: tuple[int, ...],
    color: str,
    scale: float = 1.0,
) -> None:
    time = data["time"].values
    theory, mean, error = (
        scale * data[f"{name}{x}"].values[:, *entry] for x in ("", "_mean", "_se")
    )
    panel.fill_between(
        time, mean - error, mean + error, color=color, alpha=0.25, linewidth=0
    )
    panel.plot(time, theory, color=color, linewidth=0.9)
    panel.plot(time, mean, color=color, linewidth=0.9, linestyle=DASHES[1])


def _draw_law(panel: Any, data: "Dataset") -> None:
    for values, look, label in (
        (data["law"], {"color": INK}, "law"),
        (data["escaped"], {"color": COLORS[1]}, "runs"),
    ):
        ordered = np.sort(values)
        panel.step(
            ordered,
            np.arange(1, ordered.size + 1) / ordered.size,
            where="post",
            label=label,
            **look,
        )
    panel.axvline(
        float(data["halved"]),
        color=FAINT,
        linestyle=DASHES[2],
        label="theory of the start",
    )
    panel.set(xlabel=r"$\alpha$ at half the loss", ylabel="share of networks")
    panel.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=3,
        fontsize=7,
        handlelength=1.6,
        columnspacing=0.8,
    )
    label_panel(panel, "escape times")


def _draw_noise(panel: Any, data: "Dataset") -> None:
    drawn = data["noise_drawn"].values
    line = np.array([drawn.min(), drawn.max()])
    panel.plot(line, line, color=FAINT, linestyle=DASHES[2])
    for look, (name, label) in enumerate(
        (("right", "corrected"), ("printed", "as printed"))
    ):
        marks = {
            "marker": MARKERS[look],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 4,
        }
        panel.plot(
            drawn, data[f"noise_{name}"], color=COLORS[look], label=label, **marks
        )
    panel.set(
        xlabel=r"$\langle F_k F_{k'}\rangle / \eta^2$, Monte Carlo", ylabel="eq. 34"
    )
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
