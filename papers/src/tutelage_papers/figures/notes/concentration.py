"""Concentration of the notes: one step's mean and variance by Monte Carlo.

The figure also shows what is left of the fluctuations at finite dimension d = N.

The theorem of the notes asks that the mean of a step tends to the drift, that its
variance vanishes, and that starts concentrate; whole runs then stay within N^(-1/2) of
the ODE. It is tried with inputs of four laws. For three of them fields become Gaussian
up to 1/N. Student's t with three degrees of freedom is where this ends: with density
|x|^-4 far out, the fourth moment of an input is infinite, the inputs beyond N^(1/2)
alone change the mean of a bounded function of a field by N P(|x| > N^(1/2)) = N^(-1/2),
and so the drift; and the variance of one step, through |x|^4, is infinite.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, FAINT, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.drawing import draw_power, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

LAWS = {
    "gaussian": "normal",
    "rademacher": "Rademacher",
    "uniform": "uniform",
    "student_t3": "Student t(3)",
}
LIGHT = ("gaussian", "rademacher", "uniform")
MEASURED = ("mean", "variance", "start", "runs")
LIMIT = 4.0  # standard errors
WORST = 5.0  # the largest of some thirty |z|


def compute_2(
    lr: float,
    noise: float,
    R: list[list[float]],
    Q: list[list[float]],
    dims: list[int],
    samples: int,
    end: float,
    runs: int,
    dim: int,
    steps: int,
    seed: int,
) -> "Dataset":
    """Return moments of one step and all that must vanish, for laws of the inputs.

    The moments are those at N = `dim`, the others are taken against N in `dims`.

    X, X_se: mean, variance, start and runs as `tutelage_papers.notes.concentration`
    measures them; X_exponent: of N, NaN where X drowns in noise. drift, diffusion (with
    _se, _theory): one of `steps` steps, entry by entry.
    """
    import xarray as xr

    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)
    start = tu.Start(R=R, Q=Q)
    parts: list[xr.Dataset] = []
    for place, law in enumerate(LAWS):
        law_seed = seed + 100 * place
        measured = tutelage_papers.notes.concentration(
            problem,
            start,
            dims,
            samples=samples,
            inputs=law,
            end=end,
            runs=runs,
            seed=law_seed,
        )
        step = tu.analysis.step_moments(
            problem, start, dim, samples=steps, inputs=law, seed=law_seed + 50
        )
        parts.append(_against_dimension(measured).assign(_one_step(step)))
    data = xr.concat(parts, dim=xr.DataArray(list(LAWS), dims="law", name="law"))
    return data.assign(step_dim=dim, steps=steps)


def _against_dimension(measured: "tutelage_papers.notes.Concentration") -> "Dataset":
    """Conditions against N: values, errors and exponents, and theory where known."""
    import xarray as xr

    data = xr.Dataset(coords={"dim": measured["mean"].dims})
    for name in MEASURED:
        condition = measured[name]
        slope = np.nan
        if condition.exponent is not None:
            slope = condition.exponent.slope
        data[name] = ("dim", condition.values)
        data[f"{name}_se"] = ("dim", condition.errors)
        data[f"{name}_exponent"] = slope
    data["variance_theory"] = ("dim", measured["variance"].theory)
    data["start_theory"] = ("dim", measured["start"].theory)
    return data


def _one_step(step: "tu.analysis.StepMoments") -> dict[str, Any]:
    """Drift and diffusion of one step; of the diffusion the upper triangle."""
    upper = np.triu_indices(len(step.names))
    return {
        "drift": ("entry", step.drift),
        "drift_se": ("entry", step.drift_error),
        "drift_theory": ("entry", step.drift_theory),
        "diffusion": ("pair", step.diffusion[upper]),
        "diffusion_se": ("pair", step.diffusion_error[upper]),
        "diffusion_theory": ("pair", step.diffusion_theory[upper]),
    }


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Moments of one step, exponents, three laws that agree, and the fourth."""
    for law in LIGHT:
        part = data.sel(law=law)
        name = LAWS[law]
        for moment in ("drift", "diffusion"):
            gap = np.abs(part[moment] - part[f"{moment}_theory"])
            z = gap / part[f"{moment}_se"]
            yield at_most(
                f"{name}: {moment} of one step against theory, largest |z|",
                z.max(),
                WORST,
            )
        yield _exponent(part, "variance", name, -1.0)
        yield _exponent(part, "runs", name, -0.5)
    normal = data.sel(law="gaussian")
    yield _exponent(normal, "mean", "normal", -1.0)
    yield _exponent(normal, "start", "weights at the start", -0.5)
    dims = data["dim"].values
    disagreement = _disagreement(data)
    yield at_most(
        f"variance of a step, N = {dims[-1]}: three laws pairwise, largest |z|",
        disagreement[-1],
        LIMIT,
    )
    yield above(
        f"variance of a step, N = {dims[0]}: three laws pairwise, largest |z|",
        disagreement[0],
        LIMIT,
    )
    yield close(
        "Student t(3): exponent of N in the gap of the mean to the drift",
        data["mean_exponent"].sel(law="student_t3"),
        -0.5,
        absolute=0.15,
    )


def _exponent(part: "Dataset", which: str, name: str, expected: float) -> Claim:
    words = {
        "mean": "gap of the mean to the drift",
        "variance": "noise of a unit of time",
        "start": "scatter",
        "runs": "distance of runs to the ODE",
    }
    return close(
        f"{name}: exponent of N in the {words[which]}",
        float(part[f"{which}_exponent"]),
        expected,
        absolute=0.15,
    )


def _disagreement(data: "Dataset") -> np.ndarray:
    """Largest difference between the variances of two light laws, at each N.

    It is counted in standard errors.
    """
    light = data.sel(law=list(LIGHT))
    value = light["variance"].values
    error = light["variance_se"].values
    z = []
    for one, other in combinations(range(len(LIGHT)), 2):
        difference = np.abs(value[one] - value[other])
        z.append(difference / np.hypot(error[one], error[other]))
    return np.max(z, axis=0)


def draw_2(data: "Dataset") -> "Figure":
    """Moments of one step and the gap of its mean; its variance, whole runs, starts."""
    title = (
        "Why there is a curve at all: overlaps concentrate, for inputs of several laws"
    )
    small = (
        "Two erf units learn from two others. First two panels: "
        f"{int(data['steps'])} single steps, N = {int(data['step_dim'])}. "
        "Bars: 2 standard errors; triangles: less than this."
    )
    figure, axes = panel_grid(2, 3, title, small, height=2.7)
    drift, diffusion, gap, variance, runs, start = axes.ravel()
    _draw_moments(drift, data, "drift")
    drift.set(xlabel="drift $f(u)$, theory", ylabel=r"$N\,E[\Delta u]$, measured")
    _draw_moments(diffusion, data, "diffusion")
    diffusion.set(
        xlabel="diffusion $D(u)$, theory",
        ylabel=r"$N^2\,\mathrm{Cov}(\Delta u)$, measured",
    )
    _draw_power(gap, data, "mean", "gaussian", -1.0)
    _draw_power(gap, data, "mean", "student_t3", -0.5, dashes=3)
    _draw_vanishing(gap, data, "mean", r"$|N\,E[\Delta u] - f(u)|$")
    _draw_variance(variance, data)
    _draw_power(runs, data, "runs", "gaussian", -0.5)
    _draw_vanishing(runs, data, "runs", r"largest $|u_N - u|$")
    _draw_start(start, data.sel(law="gaussian"))
    label_panel(drift, "mean of one step")
    label_panel(diffusion, "covariance of one step")
    label_panel(gap, "gap of the mean to the drift")
    label_panel(variance, "variance of one step / theory")
    label_panel(runs, "whole runs to the ODE")
    label_panel(start, "scatter of starts")
    for panel in (gap, variance, runs, start):
        panel.set_xlabel("input dimension $N$")
        tick_each(panel, data["dim"].values)
    handles, labels = drift.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(LAWS))
    return figure


def _look(law: str) -> dict[str, Any]:
    """Color and marker of a law of the inputs."""
    place = list(LAWS).index(law)
    return {
        "color": COLORS[place],
        "marker": MARKERS[place],
        "markersize": 4.5,
        "markerfacecolor": "white",
    }


def _bars(panel: Any, x: Any, y: Any, error: Any, law: str, **more: Any) -> None:
    """Marks with two standard errors."""
    look = _look(law) | {"capsize": 1.5, "elinewidth": 0.9, "label": LAWS[law]}
    panel.errorbar(x, y, 2 * np.asarray(error), **look, **more)


def _draw_moments(panel: Any, data: "Dataset", name: str) -> None:
    """A moment of one step, measured against theory, entry by entry."""
    theory = data[f"{name}_theory"]
    for law in LAWS:
        part = data.sel(law=law)
        x = theory.sel(law=law)
        _bars(panel, x, part[name], part[f"{name}_se"], law, linestyle="none")
    ends = [float(theory.min()), float(theory.max())]
    panel.plot(ends, ends, color=FAINT, linewidth=1.0, zorder=0)
    panel.margins(x=0.06)


def _draw_power(
    panel: Any, data: "Dataset", name: str, law: str, exponent: float, dashes: int = 2
) -> None:
    """A power of N through the first value of a law."""
    dims = data["dim"].values
    first = float(data[name].sel(law=law)[0])
    words = {-1.0: "$N^{-1}$", -0.5: "$N^{-1/2}$"}[exponent]
    draw_power(panel, dims, first, exponent, words, dashes=dashes)
    last = (dims[-1], first * (dims[-1] / dims[0]) ** exponent)
    panel.annotate(words, last, (2, 5), textcoords="offset points", fontsize=8)


def _draw_vanishing(panel: Any, data: "Dataset", name: str, label: str) -> None:
    """A quantity that must vanish; a triangle where it is lost in noise."""
    dims = data["dim"].values
    for law in LAWS:
        value = data[name].sel(law=law).values
        error = data[f"{name}_se"].sel(law=law).values
        clear = value > 2 * error
        _bars(panel, dims[clear], value[clear], error[clear], law, linewidth=0.8)
        triangles = _look(law) | {"marker": "v", "linestyle": "none"}
        panel.plot(dims[~clear], (value + 2 * error)[~clear], **triangles)
    panel.set(xscale="log", yscale="log", ylabel=label)
    panel.margins(x=0.1)


def _draw_variance(panel: Any, data: "Dataset") -> None:
    dims = data["dim"]
    for law in LAWS:
        part = data.sel(law=law)
        theory = part["variance_theory"].values
        ratio = part["variance"] / theory
        error = part["variance_se"] / theory
        _bars(panel, dims, ratio, error, law, linewidth=0.8)
    panel.axhline(1.0, color=FAINT, linewidth=1.0, zorder=0)
    label = r"$\mathrm{tr}\,N^2\,\mathrm{Cov}(\Delta u)\,/\,\mathrm{tr}\,D$"
    panel.set(xscale="log", yscale="log", ylabel=label)
    panel.margins(x=0.1)


def _draw_start(panel: Any, part: "Dataset") -> None:
    dims = part["dim"]
    line = {"color": FAINT, "linewidth": 2.4, "alpha": 0.6}
    panel.plot(dims, part["start_theory"], **line, label="theory")
    marks = {
        "color": COLORS[0],
        "fmt": "o",
        "markersize": 4.5,
        "markerfacecolor": "white",
        "capsize": 1.5,
        "elinewidth": 0.9,
    }
    error = 2 * part["start_se"]
    panel.errorbar(dims, part["start"], error, **marks, label="random weights")
    panel.set(xscale="log", yscale="log", ylabel=r"rms $|u(0) - E\,u(0)|$")
    panel.margins(x=0.1)
    panel.legend(loc="upper right")


PRINTED_2: dict[str, Any] = {
    "lr": 1.0,
    "noise": 0.1,
    "R": [[0.45, 0.1], [-0.05, 0.35]],
    "Q": [[0.5, 0.1], [0.1, 0.4]],
    "end": 3.0,
    "dim": 400,
    "seed": 2,
}

FIGURES = (
    Replica(
        id="notes-2",
        source="notes",
        figure="concentration",
        title="one step's mean and variance, and what is left at finite N, for four "
        "laws of the inputs",
        full=PRINTED_2
        | {
            "dims": [8, 16, 32, 64, 128, 256, 512],
            "samples": 400_000,
            "runs": 200,
            "steps": 100_000,
        },
        quick=PRINTED_2
        | {
            "dims": [8, 16, 32, 64, 128],
            "samples": 50_000,
            "runs": 48,
            "steps": 20_000,
        },
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
