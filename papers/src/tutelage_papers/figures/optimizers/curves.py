"""A committee of two that learns by six optimizers, and teachers along the axes.

Digits: means of plain NumPy loops over weights at N = 1000, with their standard errors.
"""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, below
from tutelage_papers.drawing import GUIDE, draw_band, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

R = [[0.3, 0.05], [0.0, 0.2]]
Q = [[0.5, 0.1], [0.1, 0.4]]
END = 4.0
DIGIT_TIMES = [1.0, 2.0, 4.0]
# Errors at these times of plain loops at rate 0.3, and their standard errors.
DIGITS = {
    "sign-SGD, batch 1": ([0.2587, 0.1818, 0.1028], [0.0028, 0.0024, 0.0014]),
    "sign-SGD, batch 4": ([0.0989, 0.0302, 0.0249], [0.0018, 0.0005, 0.0002]),
    "RMSprop": ([0.2287, 0.1287, 0.0399], [0.0015, 0.0017, 0.0006]),
    "Muon, batch 4": ([0.1028, 0.0231, 0.0128], [0.0012, 0.0001, 0.0002]),
}
SAMPLING = 1e-3  # error of averages over a quasi-random set
INSIDE = 0.95
# The error at END of sign-SGD with teachers along the axes, and its standard error.
ALONG_AXES = (0.0890, 0.0010)


def optimizers(lr: float) -> dict[str, "tu.optimizers.Optimizer"]:
    """Return the optimizers by the names of the figure."""
    return {
        "SGD": tu.SGD(lr),
        "sign-SGD, batch 1": tu.optimizers.SignSGD(lr),
        "sign-SGD, batch 4": tu.optimizers.SignSGD(lr, 4),
        "RMSprop": tu.optimizers.RMSprop(lr),
        "Adam": tu.optimizers.Adam(lr),
        "Muon, batch 4": tu.optimizers.Muon(lr, 4),
    }


def committee(optimizer: "tu.optimizers.Optimizer") -> "tu.Problem":
    """Return two erf units that learn two erf units."""
    network = tu.Network(2, "erf")
    return tu.Problem(network, network, optimizer=optimizer)


def compute_1(lr: float, points: int, dim: int, runs: int, seed: int) -> "Dataset":
    """Theory and runs of each optimizer; the wrong theory is that of the next one."""
    import equinox as eqx
    import xarray as xr

    from tutelage_papers.bands import band

    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(END, points)
    problems = {name: committee(x) for name, x in optimizers(lr).items()}
    theories = [
        tu.solve(problem, start, times, accuracy=None) for problem in problems.values()
    ]
    parts: list[Dataset] = []
    for place, problem in enumerate(problems.values()):
        seen = tu.simulate(
            problem,
            start,
            dim=dim,
            times=times,
            runs=runs,
            seed=seed + place,
            method="weights",
        )
        wrong = theories[(place + 1) % len(theories)]
        # `gaps` compares results of one problem
        wrong = eqx.tree_at(lambda theory: theory.problem, wrong, problem)
        parts.append(band(theories[place], seen, wrong))
    names = xr.DataArray(list(problems), dims="optimizer", name="optimizer")
    return xr.concat(parts, dim=names).assign(dim=dim, runs=runs, lr=lr)


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """The table of plain loops, the bands, and what sign-SGD conserves."""
    for name, (means, errors) in DIGITS.items():
        theory = data["error"].sel(optimizer=name, time=DIGIT_TIMES).values
        z = np.abs(theory - means) / (np.array(errors) + SAMPLING / 3)
        yield at_most(f"{name}: largest |z| against plain loops", z.max(), 3.0)
    for name in data["optimizer"].values:
        part = data.sel(optimizer=name)
        words = f"{name}: share of times inside the band of the runs"
        yield at_least(words, part["inside"], INSIDE)
        control = f"{name}: the same with the next optimizer, which must fail"
        yield below(control, part["inside_wrong"], INSIDE)
    one = _change_of_difference(data, "sign-SGD, batch 1")
    four = _change_of_difference(data, "sign-SGD, batch 4")
    yield at_most("sign-SGD, batch 1: change of R11 - R21", one, 1e-3)
    yield above("sign-SGD, batch 4: the same", four, 0.05)


def _change_of_difference(data: "Dataset", name: str) -> float:
    """Return the largest change of R_1m - R_2m in time."""
    overlaps = data["R"].sel(optimizer=name).values
    difference = overlaps[:, 0] - overlaps[:, 1]
    return float(np.max(np.abs(difference - difference[0])))


def draw_1(data: "Dataset") -> "Figure":
    """Draw errors with their runs, and how far two units differ."""
    small = (
        f"Two erf units learn two erf units, η = {float(data['lr']):g}. Lines: theory; "
        f"marks: mean of {int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 "
        "standard errors."
    )
    title = "Six optimizers at one learning rate"
    figure, axes = panel_grid(1, 2, title, small, height=3.1, width=9.5)
    left, right = axes[0]
    times = data["time"].values
    for look, name in enumerate(data["optimizer"].values):
        part = data.sel(optimizer=name)
        columns = [part[f"error{ending}"].values for ending in ("", "_mean", "_se")]
        draw_band(left, times, *columns, look=look)
        overlaps = part["R"].values
        right.plot(
            times,
            overlaps[:, 0, 0] - overlaps[:, 1, 0],
            **line_of(look),
            label=str(name),
        )
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(xlabel=TIME, ylabel="$R_{11} - R_{21}$")
    label_panel(left, "theory and runs")
    label_panel(right, "with single samples sign-SGD moves both units alike")
    outside_legend(right)
    return figure


def compute_5(
    lr: float, points: int, dims: list[int], runs: int, seed: int
) -> "Dataset":
    """Sign-SGD with spread teachers and with teachers along two axes, for each N."""
    import xarray as xr

    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(END, points)
    problem = committee(tu.optimizers.SignSGD(lr))
    theory = tu.solve(problem, start, times, accuracy=None)
    columns: dict[str, list[np.ndarray]] = {}
    warned = []
    for place, dim in enumerate(dims):
        options: dict[str, Any] = {"times": times, "runs": runs, "seed": seed + place}
        spread = tu.simulate(problem, start, dim=dim, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            along = tu.simulate(problem, weights=along_axes(dim, seed), **options)
        warned.append(
            any(issubclass(w.category, tu.errors.ValidityWarning) for w in caught)
        )
        for name, seen in (("spread", spread), ("along", along)):
            error = np.asarray(seen.error)
            scatter = error.std(axis=0, ddof=1) / np.sqrt(runs)
            columns.setdefault(name, []).append(error.mean(axis=0))
            columns.setdefault(f"{name}_se", []).append(scatter)
    data = xr.Dataset(
        {name: (("dim", "time"), values) for name, values in columns.items()},
        coords={"dim": dims, "time": times},
    )
    data["theory"] = ("time", np.asarray(theory.error))
    data["warned"] = ("dim", warned)
    return data.assign(runs=runs, lr=lr)


def along_axes(dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights with the overlaps R and Q whose teachers are two axes."""
    teacher = np.sqrt(dim) * np.eye(2, dim)
    overlaps = np.array(R)
    rest = np.random.default_rng(seed).standard_normal((2, dim - 2))
    basis = np.linalg.qr(rest.T)[0].T * np.sqrt(dim)
    root = np.linalg.cholesky(np.array(Q) - overlaps @ overlaps.T)
    student = np.concatenate([overlaps * np.sqrt(dim), root @ basis], axis=1)
    return student, teacher


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """The limit holds for spread teachers, fails along the axes, and the user is told."""
    last = data.isel(dim=-1)
    theory = float(last["theory"][-1])
    spread = abs(float(last["spread"][-1]) - theory) / float(last["spread_se"][-1])
    along = float(last["along"][-1])
    error = float(last["along_se"][-1])
    mean, scatter = ALONG_AXES
    yield at_most("spread teachers: |z| of the last error", spread, 4.0)
    yield above(
        "teachers along axes: |z| of the last error", (theory - along) / error, 6
    )
    z = abs(along - mean) / np.hypot(error, scatter)
    yield at_most("teachers along axes: |z| against plain loops", z, 4.0)
    yield at_least("share of sizes that warn", data["warned"].mean(), 1.0)


def draw_5(data: "Dataset") -> "Figure":
    """Draw the theory with the runs of both kinds of teachers."""
    last = data.isel(dim=-1)
    small = (
        f"Sign-SGD, batch 1, η = {float(data['lr']):g}. Line: theory; marks: mean of "
        f"{int(data['runs'])} runs, N = {int(last['dim'])}; bands: ± 2 standard errors."
    )
    title = "The limit of coordinate-wise optimizers needs spread teachers"
    figure, axes = panel_grid(1, 2, title, small, height=3.1, width=9.5)
    left, right = axes[0]
    times = data["time"].values
    theory = last["theory"].values
    names = {"spread": "spread teachers", "along": "teachers along two axes"}
    for look, (name, words) in enumerate(names.items()):
        mean = last[name].values
        scatter = last[f"{name}_se"].values
        draw_band(left, times, mean, mean, scatter, look=look)
        right.errorbar(
            data["dim"].values,
            data[name].values[:, -1] / theory[-1],
            2 * data[f"{name}_se"].values[:, -1] / theory[-1],
            **line_of(look),
            marker="o",
            markersize=3.5,
            label=words,
        )
    left.plot(times, theory, color="black", linewidth=1.2, zorder=1)
    right.axhline(1.0, **GUIDE, label="theory")
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(xlabel="N", ylabel="last error / theory", xscale="log")
    label_panel(left, "errors at the largest N")
    label_panel(right, "no larger N helps")
    outside_legend(right)
    return figure


CURVES: dict[str, Any] = {"lr": 0.3, "points": 17, "seed": 1}

FIGURES = (
    Replica(
        id="optim-1",
        source="optim",
        figure="six optimizers",
        title="a committee learns by six optimizers",
        full=CURVES | {"dim": 1000, "runs": 40},
        quick=CURVES | {"dim": 500, "runs": 20},
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
    Replica(
        id="optim-5",
        source="optim",
        figure="teachers along axes",
        title="coordinate-wise optimizers need spread teachers",
        full=CURVES | {"dims": [250, 500, 1000, 2000], "runs": 40},
        quick=CURVES | {"dims": [500, 1000], "runs": 20},
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
)
