"""The exclusive or of two directions, as a mixture of four Gaussians: how many units does it take?"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_least, at_most, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

NORM = 2.0  # of the mean of each class
CORNERS = np.array(
    [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
)  # means in units of b_1, b_2
DIGITS = {
    5.0: 0.424265357,
    10.0: 0.343177533,
    20.0: 0.306108464,
}  # E[(y - output)^2] / 2 of four quadratic units
ERRORS = {1: 0.500, 2: 0.379, 4: 0.167, 8: 0.167}  # of K ReLU units at alpha = 40
BEST = 0.1449  # error of the best classifier, which compares |x . b_1| with |x . b_2|
QUADRATIC: dict[str, Any] = {
    "R": [[0.2, 0.05], [-0.1, 0.1], [0.05, 0.2], [0.02, -0.15]],
    "Q": [
        [0.112, -0.002, 0.004, -0.004],
        [-0.002, 0.093, 0.002, -0.007],
        [0.004, 0.002, 0.107, -0.001],
        [-0.004, -0.007, -0.001, 0.095],
    ],
    "readout": [0.5, 0.4, -0.5, -0.4],
}


def quadratic_error(times: list[float]) -> np.ndarray:
    """The error of four quadratic units that learn by squared loss, at the times."""
    student = tu.Network(4, "quadratic", train_readout=True)
    problem = tu.Problem(student, inputs=tu.Mixture.xor(NORM), optimizer=tu.SGD(lr=0.1))
    return np.asarray(tu.solve(problem, tu.Start(**QUADRATIC), [0.0, *times]).error[1:])


def units(count: int, activation: str, lr: float) -> "tuple[tu.Problem, tu.Start]":
    """Units with readouts 1 and -1 in turn, which begin near the four means; the second four nearer to zero."""
    student = tu.Network(count, activation, readout=np.resize([1.0, -1.0], count))
    problem = tu.Problem(
        student, inputs=tu.Mixture.xor(NORM), loss="logistic", optimizer=tu.SGD(lr)
    )
    along = np.array([CORNERS[k % 4] * (0.1 if k < 4 else 0.05) for k in range(count)])
    R = along * NORM**2
    return problem, tu.Start(R=R, Q=R @ along.T + 0.1 * np.eye(count))


def compute_1(
    lr: float,
    end: float,
    points: int,
    samples: int,
    widths: list[int],
    dim: int,
    runs: int,
    runs_end: float,
    seed: int,
) -> "Dataset":
    """Curves of ReLU units for every width, runs of the widest but one, erf units, and the digits of quadratic units."""
    import xarray as xr

    times = tu.linear_times(end, points)
    sampled = tu.Sampled(samples)
    errors = []
    losses = []
    for count in widths:
        problem, start = units(count, "relu", lr)
        theory = tu.solve(problem, start, times, moments=sampled)
        errors.append(np.asarray(theory.error))
        losses.append(np.asarray(theory.loss))
    problem, start = units(4, "erf", lr)
    erf = tu.solve(problem, start, times, moments=sampled)
    problem, start = units(4, "relu", lr)
    early = times[times <= runs_end]
    seen = tu.simulate(problem, start, dim=dim, times=early, runs=runs, seed=seed)
    pad = np.full(times.size - early.size, np.nan)
    return xr.Dataset(
        {
            "error": (("width", "time"), np.stack(errors)),
            "loss": (("width", "time"), np.stack(losses)),
            "erf_error": ("time", np.asarray(erf.error)),
            "erf_loss": ("time", np.asarray(erf.loss)),
            "runs_mean": ("time", np.concatenate([seen.error.mean(axis=0), pad])),
            "runs_se": (
                "time",
                np.concatenate([seen.error.std(axis=0, ddof=1) / np.sqrt(runs), pad]),
            ),
            "quadratic": ("late", quadratic_error(list(DIGITS))),
        },
        coords={"width": widths, "time": times, "late": list(DIGITS)},
        attrs={"dim": dim, "runs": runs, "lr": lr},
    )


def claims_1(data: "Dataset") -> list[Claim]:
    """Digits of quadratic units; errors against width; what erf units cannot do; runs."""
    claims = [
        close(
            f"four quadratic units: error at {t:g}",
            float(data["quadratic"].sel(late=t)),
            x,
            absolute=2e-9,
        )
        for t, x in DIGITS.items()
    ]
    last = data["error"].isel(time=-1)
    for K in map(int, data["width"].values):
        claims.append(
            close(
                f"{K} ReLU unit{'s' * (K > 1)}: error at 40",
                float(last.sel(width=K)),
                ERRORS[K],
                absolute=0.01,
            )
        )
    claims += [
        at_least(
            "four ReLU units: error at 40 above the best possible",
            float(last.sel(width=4)),
            BEST,
        ),
        close(
            "four erf units without biases: error",
            float(np.max(np.abs(data["erf_error"] - 0.5))),
            0.0,
            absolute=2e-3,
        ),
        at_least(
            "four erf units: smallest loss",
            float(data["erf_loss"].min()),
            np.log(2.0) - 1e-3,
        ),
    ]
    if 8 in data["width"].values:
        gain = float(last.sel(width=4) - last.sel(width=8))
        claims.append(at_most("error that eight units gain over four", gain, 0.005))
    theory, mean, se = (data[name].values for name in ("error", "runs_mean", "runs_se"))
    counted = np.isfinite(mean) & (se > 0)
    z = (
        np.abs(mean - theory[list(data["width"].values).index(4)])[counted]
        / se[counted]
    )
    claims.append(
        at_least(
            f"runs of N = {data.attrs['dim']}: share of times within 4 s.e.",
            float(np.mean(z < 4)),
            0.95,
        )
    )
    return claims


def draw_1(data: "Dataset") -> "Figure":
    """Error and loss against time for each width, with runs of four units."""
    small = (
        f"Means ±b₁ (label 1) and ±b₂ (label −1) of norm 2; logistic loss, learning rate {data.attrs['lr']:g}. Marks: "
        f"{data.attrs['runs']} runs, N = {data.attrs['dim']}."
    )
    figure, axes = panel_grid(
        1, 2, "Exclusive or: four units are enough", small, height=3.2, width=9.5
    )
    left, right = axes[0]
    times = data["time"].values
    for i, K in enumerate(map(int, data["width"].values)):
        look = {
            "color": COLORS[i],
            "linestyle": DASHES[i % len(DASHES)],
            "label": f"{K} ReLU unit{'s' * (K > 1)}",
        }
        left.plot(times, data["error"].sel(width=K), **look)
        right.plot(times, data["loss"].sel(width=K), **look)
    which = list(data["width"].values).index(4)
    seen = data.sel(time=np.isfinite(data["runs_mean"]))
    draw_band(
        left,
        seen["time"].values,
        np.full(seen["time"].size, np.nan),
        seen["runs_mean"],
        seen["runs_se"],
        look=which,
    )
    right.plot(times, data["erf_loss"], color=FAINT, label="4 erf units")
    left.axhline(BEST, color=FAINT, linewidth=1.0, label="best possible")
    right.axhline(
        np.log(2.0),
        color=FAINT,
        linewidth=1.0,
        linestyle=DASHES[1],
        label="ln 2: guessing",
    )
    left.set(xlabel=TIME, ylabel="probability of a wrong class")
    right.set(xlabel=TIME, ylabel="logistic loss")
    for panel, text in zip(axes[0], ("error", "training loss"), strict=True):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    return figure


PRINTED: dict[str, Any] = {"lr": 0.5, "end": 40.0, "points": 41, "seed": 81}

FIGURES = (
    Replica(
        id="inputs-1",
        source="inputs",
        figure="exclusive or",
        title="Exclusive or of two directions: four units are enough",
        full=PRINTED
        | {
            "samples": 2**14,
            "widths": [1, 2, 4, 8],
            "dim": 1000,
            "runs": 40,
            "runs_end": 20.0,
        },
        quick=PRINTED
        | {
            "samples": 2**11,
            "widths": [1, 2, 4],
            "dim": 400,
            "runs": 12,
            "runs_end": 4.0,
        },
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
