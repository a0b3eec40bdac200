"""Handwritten digits through a random feature map: SGD on them and the Gaussian theory.

The labels are those of a teacher.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, close
from tutelage_papers.drawing import draw_band, legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

STUDENTS = {"linear": 1, "erf": 2}  # hidden units, of student and teacher
# By time: the gap of erf units on images, relative to the theory, measured with 100
# runs.
GAPS = {2.5: -0.10, 10.0: -0.155, 25.0: -0.07}


def random_features(dim: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return x -> erf(F x) for centered images x and a Gaussian F."""
    from scipy.special import erf

    center = tu.digits().reshape(1797, 64).mean(axis=0)
    F = np.random.default_rng(seed).standard_normal((64, dim)) / 32
    return lambda images: erf((images - center) @ F)


def compute_4(
    dim: int, lr: float, times: list[float], runs: int, seed: int
) -> "Dataset":
    """Return theory, and SGD on Gaussian samples of its law and on images."""
    import xarray as xr

    inputs = tu.from_data(tu.digits(), feature_map=random_features(dim, seed))
    parts: list[Dataset] = []
    for activation, units in STUDENTS.items():
        student = tu.Network(units, activation)
        problem = inputs.problem(student, student, optimizer=tu.SGD(lr))
        compared = inputs.compare(problem, times, runs=runs, seed=seed + 2)
        part = xr.Dataset(coords={"time": times})
        part["theory"] = ("time", np.asarray(compared.theory.error))
        for name, law in (("gaussian", "theory's law"), ("images", "samples")):
            errors = compared.error[law]
            part[name] = ("time", errors.mean(axis=0))
            part[f"{name}_se"] = ("time", errors.std(axis=0, ddof=1) / np.sqrt(runs))
        parts.append(part)
    students = xr.DataArray(list(STUDENTS), dims="student", name="student")
    data = xr.concat(parts, dim=students)
    # A linear unit on isotropic inputs, a control.
    decay = np.exp(-lr * (2 - lr) * np.asarray(times))
    data["isotropic"] = ("time", parts[0]["theory"].values[0] * decay)
    shape = inputs.field_shapes["in random directions"]
    return data.assign_attrs(
        dim=dim,
        runs=runs,
        lr=lr,
        kurtosis=shape.kurtosis,
        kurtosis_error=shape.kurtosis_error,
    )


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """Gaussian samples follow the theory, and so does a linear unit on images.

    Two erf units on images do not.
    """
    later = data.sel(time=data["time"] > 0)
    for name in STUDENTS:
        yield at_least(
            f"{name}, Gaussian samples: share of times with the theory within "
            "4 s.e. + 3%",
            _inside(later.sel(student=name), "gaussian", 0.03).mean(),
            0.95,
        )
    linear = later.sel(student="linear")
    yield at_least(
        "linear, images: share of times with the theory within 4 s.e.",
        _inside(linear, "images").mean(),
        0.95,
    )
    yield above(
        "linear, images: largest relative gap to isotropic inputs (control)",
        np.abs(linear["images"] / later["isotropic"] - 1).max(),
        1.0,
    )
    erf = later.sel(student="erf")
    gap = (erf["images"] - erf["theory"]).sel(time=10.0)
    yield above(
        "erf, images: gap at alpha = 10 over its standard error",
        abs(gap) / erf["images_se"].sel(time=10.0),
        10.0,
    )
    relative = erf["images"] / erf["theory"] - 1
    for time, expected in GAPS.items():
        yield close(
            f"erf, images: relative gap at alpha = {time:g}",
            relative.sel(time=time),
            expected,
            absolute=0.03,
        )
    yield at_most(
        "erf, images: largest relative gap to the theory", np.max(np.abs(relative)), 0.2
    )


def _inside(data: "Dataset", name: str, share: float = 0.0) -> np.ndarray:
    """True where runs are within 4 standard errors and a share of the theory."""
    theory = data["theory"].values
    gap = np.abs(data[name].values - theory)
    return gap < 4 * data[f"{name}_se"].values + share * theory


def draw_4(data: "Dataset") -> "Figure":
    """Learning curves, and the relative gap of both students."""
    small = (
        f"1797 digits, N = {data.attrs['dim']} features erf(F x), learning rate "
        f"{data.attrs['lr']:g}. Marks and bands: mean of {data.attrs['runs']} runs "
        "± 2 standard errors."
    )
    title = "Real images and the Gaussian theory of their covariance"
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    curves, gaps = axes[0]
    times = data["time"].values
    labels = {"linear": "one linear unit", "erf": "two erf units"}
    for look, (name, label) in enumerate(labels.items()):
        part = data.sel(student=name)
        mean = part["images"]
        error = part["images_se"]
        draw_band(curves, times, part["theory"], mean, error, look=look, label=label)
        _draw_gap(gaps, part, "images", f"{label}, images", line_of(look, 0))
        _draw_gap(
            gaps, part, "gaussian", f"{label}, Gaussian samples", line_of(look, 1)
        )
    gaps.axhline(0.0, color=FAINT, linewidth=0.8)
    curves.set(xlabel=TIME, ylabel="error", yscale="log")
    gaps.set(xlabel=TIME, ylabel="relative gap to the theory", ylim=(-0.25, 0.15))
    label_panel(curves, "lines: theory; marks: SGD on images")
    legend_below(curves, columns=2, drop=0.18)
    legend_below(gaps, columns=1, drop=0.18)
    return figure


def _draw_gap(
    panel: Any, part: "Dataset", name: str, label: str, line: dict[str, Any]
) -> None:
    """The relative gap of runs to the theory."""
    gap = part[name] / part["theory"] - 1
    error = 2 * part[f"{name}_se"] / part["theory"]
    look = line | {"linewidth": 1.4, "capsize": 2, "label": label}
    panel.errorbar(part["time"].values, gap, error, **look)


SETTING = {
    "dim": 200,
    "lr": 0.2,
    "times": [0.0, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 25.0],
    "seed": 0,
}

FIGURES = (
    Replica(
        id="inputs-4",
        source="inputs",
        figure="real images",
        title="Real images through a random feature map: the gap to the Gaussian "
        "theory",
        full=SETTING | {"runs": 100},
        quick=SETTING | {"runs": 40},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
