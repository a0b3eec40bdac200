"""Concentration of the notes: one step's mean and variance by Monte Carlo, and what is left at finite dimension d = N.

The theorem of the notes asks that the mean of a step tends to the drift, that its variance vanishes, and that starts
concentrate; whole runs then stay within N^(-1/2) of the ODE. It is tried with inputs of four laws. For three of them fields
become Gaussian up to 1/N. Student's t with three degrees of freedom is where this ends: with density |x|^-4 far out, the
fourth moment of an input is infinite, the inputs beyond N^(1/2) alone change the mean of a bounded function of a field by
N P(|x| > N^(1/2)) = N^(-1/2), and so the drift; and the variance of one step, through |x|^4, is infinite.
"""

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
    """For each law of the inputs: the moments of one step at N = `dim`, and all that must vanish against N in `dims`.

    X, X_se: mean, variance, start and runs as `tutelage_papers.notes.concentration` measures them; X_exponent: of N, NaN where X drowns in
    noise. drift, diffusion (with _se, _theory): one of `steps` steps, entry by entry.
    """
    import xarray as xr

    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=lr), noise=noise
    )
    start = tu.Start(R=R, Q=Q)
    parts: list[xr.Dataset] = []
    for i, law in enumerate(LAWS):
        found = tutelage_papers.notes.concentration(
            problem,
            start,
            dims,
            samples=samples,
            inputs=law,
            end=end,
            runs=runs,
            seed=seed + 100 * i,
        )
        step = tu.analysis.step_moments(
            problem, start, dim, samples=steps, inputs=law, seed=seed + 100 * i + 50
        )
        parts.append(_against_dimension(found).assign(_one_step(step)))
    return xr.concat(
        parts, dim=xr.DataArray(list(LAWS), dims="law", name="law")
    ).assign(step_dim=dim, steps=steps)


def _against_dimension(found: "tutelage_papers.notes.Concentration") -> "Dataset":
    import xarray as xr

    columns: dict[str, Any] = {}
    for name in MEASURED:
        condition = found[name]
        slope = np.nan if condition.exponent is None else condition.exponent.slope
        columns |= {
            name: ("dim", condition.values),
            f"{name}_se": ("dim", condition.errors),
            f"{name}_exponent": slope,
        }
    for name in ("variance", "start"):
        columns[f"{name}_theory"] = ("dim", found[name].theory)
    return xr.Dataset(columns, coords={"dim": found["mean"].dims})


def _one_step(step: "tu.analysis.StepMoments") -> dict[str, Any]:
    upper = np.triu_indices(len(step.names))
    columns: dict[str, Any] = {}
    for ending, drift, diffusion in (
        ("", step.drift, step.diffusion),
        ("_se", step.drift_error, step.diffusion_error),
        ("_theory", step.drift_theory, step.diffusion_theory),
    ):
        columns |= {
            f"drift{ending}": ("entry", drift),
            f"diffusion{ending}": ("pair", diffusion[upper]),
        }
    return columns


def claims_2(data: "Dataset") -> list[Claim]:
    """The moments of one step, the exponents, the agreement of three laws at large N, and the slower fourth."""
    claims = []
    dims = data["dim"].values
    for law in LIGHT:
        part = data.sel(law=law)
        name = LAWS[law]
        for moment in ("drift", "diffusion"):
            z = np.abs(part[moment] - part[f"{moment}_theory"]) / part[f"{moment}_se"]
            claims.append(
                at_most(
                    f"{name}: {moment} of one step against theory, largest |z|",
                    float(z.max()),
                    WORST,
                )
            )
        for which, expected in (("variance", -1.0), ("runs", -0.5)):
            claims.append(_exponent(part, which, name, expected))
    normal = data.sel(law="gaussian")
    claims += [
        _exponent(normal, "mean", "normal", -1.0),
        _exponent(normal, "start", "weights at the start", -0.5),
    ]
    gap = _disagreement(data)
    heavy = float(data["mean_exponent"].sel(law="student_t3"))
    return [
        *claims,
        at_most(
            f"variance of a step, N = {dims[-1]}: three laws pairwise, largest |z|",
            gap[-1],
            LIMIT,
        ),
        above(
            f"variance of a step, N = {dims[0]}: three laws pairwise, largest |z|",
            gap[0],
            LIMIT,
        ),
        close(
            "Student t(3): exponent of N in the gap of the mean to the drift",
            heavy,
            -0.5,
            absolute=0.15,
        ),
    ]


def _exponent(part: "Dataset", which: str, name: str, expected: float) -> Claim:
    text = {
        "mean": "gap of the mean to the drift",
        "variance": "noise of a unit of time",
        "start": "scatter",
        "runs": "distance of runs to the ODE",
    }[which]
    return close(
        f"{name}: exponent of N in the {text}",
        float(part[f"{which}_exponent"]),
        expected,
        absolute=0.15,
    )


def _disagreement(data: "Dataset") -> np.ndarray:
    """Largest difference between the variances of two of the three light laws, in its standard errors, at each N."""
    value, error = (
        data[name].sel(law=list(LIGHT)).values for name in ("variance", "variance_se")
    )
    pairs = [(i, j) for i in range(len(LIGHT)) for j in range(i)]
    return np.max(
        [np.abs(value[i] - value[j]) / np.hypot(error[i], error[j]) for i, j in pairs],
        axis=0,
    )


def draw_2(data: "Dataset") -> "Figure":
    """Above: moments of one step, and the gap of its mean; below: its variance, whole runs, starts."""
    title = (
        "Why there is a curve at all: overlaps concentrate, for inputs of several laws"
    )
    small = (
        f"Two erf units learn from two others. First two panels: {int(data['steps'])} single steps, N = "
        f"{int(data['step_dim'])}. Bars: 2 standard errors; triangles: less than this."
    )
    figure, axes = panel_grid(2, 3, title, small, height=2.7)
    _draw_moments(
        axes[0, 0], data, "drift", r"$N\,E[\Delta u]$", "drift $f(u)$, theory"
    )
    _draw_moments(
        axes[0, 1],
        data,
        "diffusion",
        r"$N^2\,\mathrm{Cov}(\Delta u)$",
        "diffusion $D(u)$, theory",
    )
    _draw_vanishing(
        axes[0, 2], data, "mean", r"$|N\,E[\Delta u] - f(u)|$", (-1.0, -0.5)
    )
    _draw_variance(axes[1, 0], data)
    _draw_vanishing(axes[1, 1], data, "runs", r"largest $|u_N - u|$", (-0.5,))
    _draw_start(axes[1, 2], data.sel(law="gaussian"))
    texts = (
        "mean of one step",
        "covariance of one step",
        "gap of the mean to the drift",
    )
    texts += (
        "variance of one step / theory",
        "whole runs to the ODE",
        "scatter of starts",
    )
    for panel, text in zip(axes.ravel(), texts, strict=True):
        label_panel(panel, text)
    for panel in [axes[0, 2], *axes[1]]:
        panel.set_xlabel("input dimension $N$")
        tick_each(panel, data["dim"].values)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(LAWS))
    return figure


def _look(law: str) -> dict[str, Any]:
    i = list(LAWS).index(law)
    return {
        "color": COLORS[i],
        "marker": MARKERS[i],
        "markersize": 4.5,
        "markerfacecolor": "white",
    }


def _bars(panel: Any, x: Any, y: Any, error: Any, law: str, **more: Any) -> None:
    panel.errorbar(
        x,
        y,
        2 * np.asarray(error),
        label=LAWS[law],
        capsize=1.5,
        elinewidth=0.9,
        **_look(law),
        **more,
    )


def _draw_moments(panel: Any, data: "Dataset", name: str, up: str, across: str) -> None:
    for law in LAWS:
        part = data.sel(law=law)
        _bars(
            panel,
            part[f"{name}_theory"],
            part[name],
            part[f"{name}_se"],
            law,
            linestyle="none",
        )
    ends = [float(data[f"{name}_theory"].min()), float(data[f"{name}_theory"].max())]
    panel.plot(ends, ends, color=FAINT, linewidth=1.0, zorder=0)
    panel.set(xlabel=across, ylabel=f"{up}, measured")
    panel.margins(x=0.06)


def _draw_vanishing(
    panel: Any, data: "Dataset", name: str, up: str, exponents: tuple[float, ...]
) -> None:
    dims = data["dim"].values
    for i, (law, first) in enumerate(
        zip(("gaussian", "student_t3"), exponents, strict=False)
    ):
        text = {-1.0: "$N^{-1}$", -0.5: "$N^{-1/2}$"}[first]
        draw_power(
            panel, dims, float(data[name].sel(law=law)[0]), first, text, dashes=2 + i
        )
        last = (
            dims[-1],
            float(data[name].sel(law=law)[0]) * (dims[-1] / dims[0]) ** first,
        )
        panel.annotate(text, last, (2, 5), textcoords="offset points", fontsize=8)
    for law in LAWS:
        value, error = (
            data[which].sel(law=law).values for which in (name, f"{name}_se")
        )
        clear = value > 2 * error
        _bars(panel, dims[clear], value[clear], error[clear], law, linewidth=0.8)
        below = _look(law) | {"marker": "v", "linestyle": "none"}
        panel.plot(dims[~clear], (value + 2 * error)[~clear], **below)
    panel.set(xscale="log", yscale="log", ylabel=up)
    panel.margins(x=0.1)


def _draw_variance(panel: Any, data: "Dataset") -> None:
    for law in LAWS:
        part = data.sel(law=law)
        theory = part["variance_theory"].values
        _bars(
            panel,
            data["dim"],
            part["variance"] / theory,
            part["variance_se"] / theory,
            law,
            linewidth=0.8,
        )
    panel.axhline(1.0, color=FAINT, linewidth=1.0, zorder=0)
    panel.set(
        xscale="log",
        yscale="log",
        ylabel=r"$\mathrm{tr}\,N^2\,\mathrm{Cov}(\Delta u)\,/\,\mathrm{tr}\,D$",
    )
    panel.margins(x=0.1)


def _draw_start(panel: Any, part: "Dataset") -> None:
    panel.plot(
        part["dim"],
        part["start_theory"],
        color=FAINT,
        linewidth=2.4,
        alpha=0.6,
        label="theory",
    )
    marks = {
        "fmt": "o",
        "markersize": 4.5,
        "markerfacecolor": "white",
        "capsize": 1.5,
        "elinewidth": 0.9,
    }
    panel.errorbar(
        part["dim"],
        part["start"],
        2 * part["start_se"],
        color=COLORS[0],
        label="random weights",
        **marks,
    )
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
        title="one step's mean and variance, and what is left at finite N, for four laws of the inputs",
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
