"""Both layers learn (primer, after Goldt et al. 2019): theory and runs, and what label noise leaves of the error."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    INK,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, below, between, close, refuted
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 2
POINTS = (
    25  # recorded times of every solve: one compiled program for each number of units
)
EARLY = 1e4  # a long training, and yet early in the drift of the readouts
FADED = 0.1  # a unit with a smaller readout has faded
FROZEN = 1e-15  # readouts with this learning rate stay as they are, in the program that also trains them
WITHOUT = (
    1e-3  # the control of the bands is a theory with this share of G: practically none
)


def network(hidden: int, lr: float, noise: float, trained: bool = True) -> "tu.Problem":
    """A student of `hidden` erf units, whose readouts learn or stay at one, and a teacher of two."""
    student = tu.Network(hidden, "erf", train_readout=True)
    optimizer = tu.SGD(lr=lr, readout_lr=lr if trained else FROZEN)
    return tu.Problem(
        student, tu.Network(TEACHERS, "erf"), optimizer=optimizer, noise=noise
    )


def shared_start(hidden: int, seed: int) -> "tu.Start":
    """Each unit leans towards one of the two teachers; generic otherwise, with generic readouts."""
    rng = np.random.default_rng(seed)
    rest = 0.3 * rng.standard_normal((hidden, 400)) / 20
    along = 0.1 * rng.standard_normal((hidden, TEACHERS)) + 0.5 * _taught(hidden)
    return tu.Start(
        along, along @ along.T + rest @ rest.T, readout=rng.uniform(0.3, 1.0, hidden)
    )


def split_start(hidden: int) -> "tu.Start":
    """Near the equal split: every unit a copy of a teacher (but for 1%), with equal readouts."""
    rng = np.random.default_rng(0)
    along = _taught(hidden) + 0.01 * rng.standard_normal((hidden, TEACHERS))
    return tu.Start(
        along,
        along @ along.T + 1e-4 * np.eye(hidden),
        readout=np.full(hidden, TEACHERS / hidden),
    )


def fixed_start(hidden: int, seed: int | None) -> "tu.Start":
    """Two units lean towards their teachers. The extra ones start at exactly zero, or with a seed as random vectors."""
    along = np.zeros((hidden, TEACHERS))
    along[:TEACHERS] = [[0.9, 0.05], [-0.05, 0.85]]
    rest = np.zeros((hidden, 400))
    if seed is not None:
        rng = np.random.default_rng(seed)
        along = 0.2 * rng.standard_normal((hidden, TEACHERS)) + 0.6 * np.eye(
            hidden, TEACHERS
        )
        rest = rng.standard_normal((hidden, 400)) / 20
    return tu.Start(along, along @ along.T + rest @ rest.T, readout=np.ones(hidden))


def _taught(hidden: int) -> np.ndarray:
    """Unit k goes with teacher k mod 2."""
    return np.eye(TEACHERS)[np.arange(hidden) % TEACHERS]


def late(problem: "tu.Problem", start: "tu.Start", end: float) -> "tu.Trajectory":
    """The solve at times evenly spaced in the logarithm; units that start alike stay alike, and are meant to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
        return tu.solve(problem, start, tu.log_times(100.0, end, POINTS))


def compute_4(
    lr: float,
    cases: list[list[Any]],
    end: float,
    split: list[int],
    split_noise: float,
    split_end: float,
    fixed: list[int],
    fixed_lr: float,
    fixed_noise: float,
    fixed_end: float,
    generic: list[list[Any]],
    generic_noise: float,
    generic_end: float,
    band: list[int],
    band_noise: float,
    band_end: float,
    band_dim: int,
    band_runs: int,
    seed: int,
) -> "Dataset":
    """Bands of theory and runs; the drift of the readouts; and final errors, per variance of the noise and learning rate.

    cases: (K, sigma, seeds) of starts with trained readouts. generic: (K, seeds) of starts with fixed ones, with more noise,
    since with less the slow end of learning itself is seen for longer. All seeds that were tried are there.
    """

    def floor(problem: "tu.Problem", start: "tu.Start", last: float) -> float:
        scale = (
            float(np.asarray(problem.optimizer.lr))
            * float(np.asarray(problem.noise)) ** 2
        )
        return float(late(problem, start, last).error[-1]) / scale

    def still(K: int, which: int | None, noise: float, last: float) -> float:
        return floor(
            network(K, fixed_lr, noise, trained=False), fixed_start(K, which), last
        )

    data = _drifts(
        lr, [(K, noise, one) for K, noise, seeds in cases for one in seeds], end
    )
    data = data.merge(_bands(lr, band, band_noise, band_end, band_dim, band_runs, seed))
    others = [(K, one) for K, seeds in generic for one in seeds]
    columns = {
        "split": (
            split,
            [
                floor(network(K, lr, split_noise), split_start(K), split_end)
                for K in split
            ],
        ),
        "fixed": (fixed, [still(K, None, fixed_noise, fixed_end) for K in fixed]),
        "generic": (
            [K for K, _ in others],
            [still(*other, generic_noise, generic_end) for other in others],
        ),
    }
    for name, (hidden, values) in columns.items():
        data = data.assign(
            {
                name: (f"{name}_start", values),
                f"{name}_hidden": (f"{name}_start", hidden),
            }
        )
    return data.assign(lr=lr, band_dim=band_dim, band_runs=band_runs)


def _drifts(lr: float, cases: list[tuple[int, float, int]], end: float) -> "Dataset":
    """For each (K, sigma, seed): e_g per eta sigma^2, and the readouts (NaN for units that are not there).

    bare: where the noise is not the largest, what is left in the end without any, in the same unit: learning is not over.
    """
    import xarray as xr

    error = np.empty((len(cases), POINTS))
    readout = np.full((len(cases), POINTS, max(case[0] for case in cases)), np.nan)
    times = np.empty(0)
    bare = np.full(len(cases), np.nan)
    most = max(case[1] for case in cases)
    for i, (hidden, noise, seed) in enumerate(cases):
        start = shared_start(hidden, seed)
        if noise < most:
            bare[i] = late(network(hidden, lr, 0.0), start, end).error[-1] / (
                lr * noise**2
            )
        curve = late(network(hidden, lr, noise), start, end)
        times, error[i], readout[i, :, :hidden] = (
            curve.times,
            curve.error / (lr * noise**2),
            curve.variables["readout"],
        )
    variables: dict[str, Any] = {
        "error": (("case", "time"), error),
        "readout": (("case", "time", "unit"), readout),
    }
    variables |= {"bare": ("case", bare)}
    names = ("hidden", "noise", "start_seed")
    variables |= {
        name: ("case", list(values))
        for name, values in zip(names, zip(*cases, strict=True), strict=True)
    }
    return xr.Dataset(variables, coords={"time": times})


def _bands(
    lr: float,
    hidden: list[int],
    noise: float,
    end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """e_g of theory and runs for each number of units, and whether all order parameters are inside the band."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    parts = []
    for K in hidden:
        times = tu.linear_times(end, POINTS)
        start = shared_start(K, seed)
        whole = against_runs(
            network(K, lr, noise),
            start,
            dim=dim,
            times=times,
            runs=runs,
            seed=seed + K,
            factor=WITHOUT,
        )
        parts.append(
            whole[
                [
                    "error",
                    "error_mean",
                    "error_se",
                    "error_wrong",
                    "inside",
                    "inside_wrong",
                ]
            ]
        )
    out = xr.concat(parts, dim=xr.DataArray(hidden, dims="band", name="band")).rename(
        time="band_time"
    )
    return out.rename({name: f"band_{name}" for name in out.data_vars})


def reached(case: "Dataset") -> Any:
    """Sum of the squared readouts along time."""
    return (case["readout"] ** 2).sum("unit")


def trained_law(squares: Any) -> Any:
    """e_g(infinity) / (eta sigma^2) where both layers learn, every unit having become a copy of a teacher."""
    return squares / (2 * np.pi * np.sqrt(3))


def fixed_law(hidden: Any) -> Any:
    """e_g(infinity) / (eta sigma^2) with fixed readouts, the extra units at zero."""
    return (hidden - TEACHERS + TEACHERS / np.sqrt(3)) / (2 * np.pi)


def share(case: "Dataset") -> Any:
    """K/4 sum v^2: one at the equal split, more otherwise."""
    return reached(case) * case["hidden"] / TEACHERS**2


def equal_since(case: "Dataset") -> float:
    """The time since when the sum of squares is within 5% of that of the equal split; infinite: not yet."""
    off = abs(share(case).values - 1)
    times = case["time"].values
    i = int(np.flatnonzero(off > 0.05)[-1])
    if i == times.size - 1:
        return float("inf")
    return float(np.exp(np.interp(-0.05, -off[i : i + 2], np.log(times[i : i + 2]))))


def claims_4(data: "Dataset") -> list[Claim]:
    """Inside the bands; the law with the readouts reached; the drift to the equal split, or not; fixed readouts."""
    from tutelage_papers.bands import inside_claims

    claims = []
    for K in data["band"].values:
        part = data.sel(band=K)[["band_inside", "band_inside_wrong"]]
        part = part.rename(band_inside="inside", band_inside_wrong="inside_wrong")
        claims += inside_claims(part, f"K = {K}, both layers", WITHOUT)
    for K, noise in _groups(data):
        claims += _drift_claims(
            data.isel(
                case=(data["hidden"].values == K) & (data["noise"].values == noise)
            )
        )
    for K, value in zip(data["split_hidden"].values, data["split"].values, strict=True):
        law = trained_law(TEACHERS**2 / K)
        claims.append(
            close(
                f"K = {K}, from the equal split: e_g / (eta sigma^2), falling as 1/K",
                value,
                law,
                rel=0.05,
            )
        )
    zero = dict(zip(data["fixed_hidden"].values, data["fixed"].values, strict=True))
    for K, value in zero.items():
        claims.append(
            close(
                f"K = {K}, readouts fixed, extra units from zero",
                value,
                fixed_law(K),
                rel=0.05,
            )
        )
    for K in np.unique(data["generic_hidden"].values):
        ratios = data["generic"].values[data["generic_hidden"].values == K] / zero[K]
        name = f"K = {K}, readouts fixed: e_g of generic starts / that from zero, largest of {ratios.size}"
        claims.append(
            below(name, ratios.max(), 1.0, evidence=f"all of them: {_listed(ratios)}")
        )
    return claims


def _groups(data: "Dataset") -> list[tuple[int, float]]:
    """Numbers of units and noises of the drifts, in order."""
    return list(
        dict.fromkeys(
            (int(K), float(s))
            for K, s in zip(data["hidden"].values, data["noise"].values, strict=True)
        )
    )


def _listed(values: Any) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _drift_claims(part: "Dataset") -> list[Claim]:
    """Of all starts of one K and sigma."""
    K = int(part["hidden"][0])
    noise = float(part["noise"][0])
    count = part.sizes["case"]
    final = part.isel(time=-1)
    name = f"K = {K}, sigma = {noise:g}, {count} start{'s' * (count > 1)}"
    laws = _law_claims(name, final)
    if K == TEACHERS:
        return laws
    shares = share(final).values
    weakest = abs(final["readout"]).min("unit").values
    end = f"{float(part['time'][-1]):.0e}"
    early = np.median(share(part.sel(time=EARLY, method="nearest")).values)
    reason = f"K/4 sum v^2 of all starts at alpha = {end}: {_listed(shares)}; weakest readouts: {_listed(weakest)}"
    claims = [
        *laws,
        _not_equal(
            f"{name}: K/4 sum v^2 at alpha = 1e4, median, which 1/K needs at one",
            float(early),
            reason,
        ),
    ]
    since = np.array([equal_since(part.isel(case=i)) for i in range(count)])
    if np.all(np.isfinite(since)):
        middle = f"{name}: time since when sum v^2 is within 5% of 4/K, median"
        return [
            *claims,
            between(
                middle,
                float(np.median(since)),
                1e5,
                1e6,
                evidence=f"all of them: {_listed(since)}",
            ),
        ]
    faded = f"{int(np.sum(weakest < FADED))} of {count} starts have a readout below {FADED:g}. {reason}"
    return [
        *claims,
        _not_equal(
            f"{name}: K/4 sum v^2 at alpha = {end}, largest", float(shares.max()), faded
        ),
    ]


def _law_claims(name: str, final: "Dataset") -> list[Claim]:
    """e_g against the law with the readouts reached, of the worst start; less what is left without noise, where known."""
    law = trained_law(reached(final).values)
    bare = final["bare"].values
    claims = []
    ratios = final["error"].values / law
    worst = close(
        f"{name}: e_g / law with the readouts reached, worst",
        _farthest(ratios),
        1.0,
        rel=0.05,
    )
    if not np.all(np.isfinite(bare)):
        return [worst]
    claims.append(
        close(
            f"{name}: (e_g - e_g without noise) / law, worst",
            _farthest(ratios - bare / law),
            1.0,
            rel=0.05,
        )
    )
    evidence = f"learning is not over: without noise e_g / law is {_listed(bare / law)}; less that, the law holds"
    return [*claims, refuted(worst, evidence)]


def _farthest(ratios: np.ndarray) -> float:
    """The one farthest from one."""
    return float(ratios[np.argmax(abs(ratios - 1))])


def _not_equal(name: str, measured: float, evidence: str) -> Claim:
    return refuted(close(name, measured, 1.0, rel=0.05), evidence)


def draw_4(data: "Dataset") -> "Figure":
    """Bands; final errors against K; the drift of the sum of squares; the readouts of one case."""
    dim = int(data["band_dim"])
    runs = int(data["band_runs"])
    title = "Both layers learn, M = 2"
    small = f"Top left: theory (lines), mean of {runs} runs with N = {dim} (marks), ± 2 standard errors; dotted: without G."
    figure, axes = panel_grid(2, 2, title, small, height=2.9)
    for i, K in enumerate(data["band"].values):
        part = data.sel(band=K)
        columns = [part[f"band_{name}"] for name in ("error", "error_mean", "error_se")]
        draw_band(
            axes[0, 0],
            data["band_time"].values,
            *columns,
            look=i,
            dashes=0,
            label=f"$K = {K}$",
        )
        axes[0, 0].plot(
            data["band_time"],
            part["band_error_wrong"],
            color=FAINT,
            linestyle=DASHES[2],
            linewidth=1.0,
        )
    axes[0, 0].set(xlabel=TIME, ylabel=ERROR, yscale="log")
    outside_legend(axes[0, 0])
    label_panel(axes[0, 0], "theory and runs")
    _draw_floors(axes[0, 1], data)
    _draw_drift(axes[1, 0], data)
    _draw_readouts(axes[1, 1], data)
    return figure


def _draw_floors(panel: Any, data: "Dataset") -> None:
    ends = data.isel(time=-1)
    K = np.linspace(TEACHERS, 8, 61)
    ends = ends.isel(case=ends["noise"].values == ends["noise"].values.max())
    panel.plot(K, fixed_law(K), color=COLORS[1], label="fixed readouts, law")
    panel.plot(
        data["fixed_hidden"],
        data["fixed"],
        "s",
        color=COLORS[1],
        markerfacecolor="white",
        label="extra from zero",
    )
    panel.plot(
        data["generic_hidden"],
        data["generic"],
        "x",
        color=COLORS[1],
        label="generic starts",
    )
    panel.plot(
        K,
        trained_law(TEACHERS**2 / K),
        color=COLORS[0],
        linestyle=DASHES[1],
        label="trained, $1/K$",
    )
    panel.plot(
        data["split_hidden"],
        data["split"],
        "^",
        color=COLORS[0],
        markerfacecolor="white",
        label="from equal split",
    )
    panel.plot(
        ends["hidden"],
        ends["error"],
        "o",
        color=COLORS[2],
        markersize=4,
        label="generic starts, late",
    )
    panel.plot(
        ends["hidden"],
        trained_law(reached(ends)),
        "_",
        color=INK,
        markersize=11,
        label=r"law with $\sum_k v_k^2$",
    )
    panel.set(
        xlabel="units of the student $K$",
        ylabel=r"$\epsilon_g(\infty)\,/\,\eta\sigma^2$",
        yscale="log",
    )
    panel.set_xticks([2, 4, 6, 8])
    panel.margins(x=0.06)
    outside_legend(panel)
    label_panel(panel, "what label noise leaves")


def _draw_drift(panel: Any, data: "Dataset") -> None:
    for i, (K, noise) in enumerate(_groups(data)):
        part = data.isel(
            case=(data["hidden"].values == K) & (data["noise"].values == noise),
            time=slice(1, None),
        )
        look = {
            "color": COLORS[i % len(COLORS)],
            "linestyle": DASHES[0 if noise == data["noise"].max() else 1],
        }
        curves = share(part).values
        panel.plot(
            part["time"],
            curves[0],
            label=f"$K = {K}$, $\\sigma = {noise:g}$",
            linewidth=1.1,
            **look,
        )
        panel.plot(part["time"], curves[1:].T, linewidth=1.1, **look)
    panel.axhline(1.0, color=INK, linewidth=0.8, linestyle=DASHES[2])
    panel.set(
        xlabel=TIME, ylabel=r"$\frac{K}{4}\sum_k v_k^2$", xscale="log", yscale="log"
    )
    panel.set_yticks([1, 2, 4], ["1", "2", "4"])
    panel.set_yticks([], minor=True)
    outside_legend(panel)
    label_panel(panel, "the slow drift to an equal split, all starts")


def _draw_readouts(panel: Any, data: "Dataset") -> None:
    """Of the start that is farthest from the equal split in the end."""
    worst = int(
        np.argmax(
            share(data.isel(time=-1)).values
            * (data["noise"].values == data["noise"].values.max())
        )
    )
    case = data.isel(case=worst, time=slice(1, None))
    K = int(case["hidden"])
    for k in range(K):
        line = {"color": COLORS[k % len(COLORS)], "linestyle": DASHES[k % TEACHERS]}
        panel.plot(
            case["time"], case["readout"].isel(unit=k), label=f"$v_{k + 1}$", **line
        )
    panel.axhline(TEACHERS / K, color=INK, linewidth=0.8, linestyle=DASHES[2])
    panel.set(xlabel=TIME, ylabel="readouts $v_k$", xscale="log")
    outside_legend(panel)
    label_panel(
        panel, f"$K = {K}$, start {int(case['start_seed'])}; dotted: equal split, $2/K$"
    )


PRINTED_4: dict[str, Any] = {
    "lr": 0.05,
    "split_noise": 0.01,
    "split_end": 3e4,
    "fixed_lr": 0.02,
    "fixed_noise": 0.01,
    "fixed_end": 3e4,
    "generic_noise": 0.1,
    "band_noise": 0.1,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="primer-4",
        source="primer",
        figure="Fig. 4",
        title="both layers learn: theory and runs, and what label noise leaves of the error",
        full=PRINTED_4
        | {
            "cases": [
                [2, 0.1, [1]],
                [4, 0.1, [1, 2, 3, 4, 5, 6]],
                [6, 0.1, [1, 2, 3, 4]],
                [8, 0.1, [1, 2]],
                [4, 0.01, [1, 2, 3]],
            ],
            "end": 1e6,
            "split": [2, 4, 6, 8],
            "fixed": [2, 4, 6, 8],
            "generic_end": 3e5,
            "generic": [[4, [1, 2, 3, 4, 5]], [6, [1, 2, 3]]],
            "band": [2, 4, 6, 8],
            "band_end": 100.0,
            "band_dim": 1000,
            "band_runs": 50,
        },
        quick=PRINTED_4
        | {
            "cases": [[4, 0.1, [1, 2, 3]]],
            "end": 4e5,
            "split": [4],
            "fixed": [4],
            "generic_end": 3e4,
            "generic": [[4, [1, 2, 3]]],
            "band": [4],
            "band_end": 40.0,
            "band_dim": 400,
            "band_runs": 60,
        },
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
