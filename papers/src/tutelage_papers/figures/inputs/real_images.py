"""Handwritten digits through a random feature map, labels of a teacher: how far is SGD on them from the Gaussian theory?"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

STUDENTS = {"linear": 1, "erf": 2}  # hidden units, of student and teacher
GAPS = {
    2.5: -0.10,
    10.0: -0.155,
    25.0: -0.07,
}  # of erf on images, relative to the theory, as measured with 100 runs


def random_features(dim: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """x -> erf(F x) for centered images x and a Gaussian F."""
    from scipy.special import erf

    center = tu.digits().reshape(1797, 64).mean(axis=0)
    F = np.random.default_rng(seed).standard_normal((64, dim)) / 32
    return lambda images: erf((images - center) @ F)


def compute_4(
    dim: int, lr: float, times: list[float], runs: int, seed: int
) -> "Dataset":
    """Theory, SGD on Gaussian samples of its law and on the images, for each student."""
    import xarray as xr

    data = tu.from_data(tu.digits(), feature_map=random_features(dim, seed))
    curves: dict[str, list[np.ndarray]] = {
        name: []
        for name in ("theory", "gaussian", "gaussian_se", "images", "images_se")
    }
    for activation, units in STUDENTS.items():
        student = tu.Network(units, activation)
        found = data.compare(
            data.problem(student, student, optimizer=tu.SGD(lr)),
            times,
            runs=runs,
            seed=seed + 2,
        )
        curves["theory"].append(np.asarray(found.theory.error))
        for name, law in (("gaussian", "theory's law"), ("images", "samples")):
            errors = found.error[law]
            curves[name].append(errors.mean(axis=0))
            curves[f"{name}_se"].append(errors.std(axis=0, ddof=1) / np.sqrt(runs))
    isotropic = curves["theory"][0][0] * np.exp(
        -lr * (2 - lr) * np.asarray(times)
    )  # of the linear unit
    kurtosis = data.field_shapes["in random directions"]
    return xr.Dataset(
        {
            name: (("student", "time"), np.stack(values))
            for name, values in curves.items()
        }
        | {"isotropic": ("time", isotropic)},
        coords={"student": list(STUDENTS), "time": times},
        attrs={
            "dim": dim,
            "runs": runs,
            "lr": lr,
            "kurtosis": kurtosis.kurtosis,
            "kurtosis_error": kurtosis.kurtosis_error,
        },
    )


def claims_4(data: "Dataset") -> list[Claim]:
    """Gaussian samples follow the theory, and so does a linear unit on images; two erf units on images do not."""
    later = data.sel(time=data["time"] > 0)
    claims = [
        at_least(
            f"{name}, Gaussian samples: share of times with the theory within 4 s.e. + 3%",
            float(_inside(later.sel(student=name), "gaussian", 0.03).mean()),
            0.95,
        )
        for name in STUDENTS
    ]
    linear, erf = (later.sel(student=name) for name in STUDENTS)
    off = np.abs(linear["images"] / later["isotropic"] - 1)
    claims += [
        at_least(
            "linear, images: share of times with the theory within 4 s.e.",
            float(_inside(linear, "images").mean()),
            0.95,
        ),
        above(
            "linear, images: largest relative gap to isotropic inputs (control)",
            float(off.max()),
            1.0,
        ),
    ]
    gap, error = (
        x.sel(time=10.0) for x in (erf["images"] - erf["theory"], erf["images_se"])
    )
    claims.append(
        above(
            "erf, images: gap at alpha = 10 over its standard error",
            float(abs(gap) / error),
            10.0,
        )
    )
    for time, expected in GAPS.items():
        found = float((erf["images"] / erf["theory"] - 1).sel(time=time))
        claims.append(
            close(
                f"erf, images: relative gap at alpha = {time:g}",
                found,
                expected,
                absolute=0.03,
            )
        )
    size = float(np.max(np.abs(erf["images"] / erf["theory"] - 1)))
    return [
        *claims,
        at_most("erf, images: largest relative gap to the theory", size, 0.2),
    ]


def _inside(data: "Dataset", name: str, share: float = 0.0) -> np.ndarray:
    gap = np.abs(data[name].values - data["theory"].values)
    return gap < 4 * data[f"{name}_se"].values + share * data["theory"].values


def draw_4(data: "Dataset") -> "Figure":
    """Learning curves, and the relative gap of both students."""
    small = (
        f"1797 digits, N = {data.attrs['dim']} features erf(F x), learning rate {data.attrs['lr']:g}. Marks and bands: mean of "
        f"{data.attrs['runs']} runs ± 2 standard errors."
    )
    figure, axes = panel_grid(
        1,
        2,
        "Real images and the Gaussian theory of their covariance",
        small,
        height=3.2,
    )
    (left, right), times = axes[0], data["time"].values
    names = {"linear": "one linear unit", "erf": "two erf units"}
    for i, (name, words) in enumerate(names.items()):
        own = data.sel(student=name)
        draw_band(
            left,
            times,
            own["theory"],
            own["images"],
            own["images_se"],
            look=i,
            label=words,
        )
        for law, dashes in (("images", DASHES[0]), ("gaussian", DASHES[1])):
            gap = own[law] / own["theory"] - 1
            error = 2 * own[f"{law}_se"] / own["theory"]
            look = {
                "color": COLORS[i],
                "linestyle": dashes,
                "linewidth": 1.4,
                "capsize": 2,
            }
            right.errorbar(
                times,
                gap,
                error,
                label=f"{words}, {'images' if law == 'images' else 'Gaussian samples'}",
                **look,
            )
    right.axhline(0.0, color=FAINT, linewidth=0.8)
    left.set(xlabel=TIME, ylabel="error", yscale="log")
    right.set(xlabel=TIME, ylabel="relative gap to the theory", ylim=(-0.25, 0.15))
    label_panel(left, "lines: theory; marks: SGD on images")
    for panel in (left, right):
        panel.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.18),
            ncols=2 if panel is left else 1,
        )
    return figure


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
        title="Real images through a random feature map: the gap to the Gaussian theory",
        full=SETTING | {"runs": 100},
        quick=SETTING | {"runs": 40},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
