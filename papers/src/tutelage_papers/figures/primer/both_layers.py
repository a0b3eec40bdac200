"""Figure 4 of the primer (after Goldt et al. 2019): both layers learn.

It shows theory and runs, and the error that label noise leaves.
"""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, below, between, close, refuted
from tutelage_papers.drawing import GUIDE, draw_band, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 2
# Recorded times of every solve: one compiled program for each number of units.
POINTS = 25
EARLY = 1e4  # a long training, and yet early in the drift of the readouts
FADED = 0.1  # a unit with a smaller readout has faded
# Readouts with this learning rate stay as they are, in the program that also trains
# them.
FROZEN = 1e-15
# The control of the bands is a theory with this share of G: practically none.
WITHOUT = 1e-3


def network(hidden: int, lr: float, noise: float, trained: bool = True) -> "tu.Problem":
    """`hidden` erf units, whose readouts learn or stay at one, learn from two."""
    student = tu.Network(hidden, "erf", train_readout=True)
    teacher = tu.Network(TEACHERS, "erf")
    readout_lr = lr if trained else FROZEN
    optimizer = tu.SGD(lr=lr, readout_lr=readout_lr)
    return tu.Problem(student, teacher, optimizer=optimizer, noise=noise)


def shared_start(hidden: int, seed: int) -> "tu.Start":
    """Each unit leans towards one of the two teachers; generic otherwise.

    The readouts are generic, too.
    """
    rng = np.random.default_rng(seed)
    rest = 0.3 * rng.standard_normal((hidden, 400)) / 20
    along = 0.1 * rng.standard_normal((hidden, TEACHERS)) + 0.5 * _taught(hidden)
    readout = rng.uniform(0.3, 1.0, hidden)
    return tu.Start(along, along @ along.T + rest @ rest.T, readout=readout)


def split_start(hidden: int) -> "tu.Start":
    """Near the equal split: each unit copies a teacher (but for 1%), equal readouts."""
    rng = np.random.default_rng(0)
    along = _taught(hidden) + 0.01 * rng.standard_normal((hidden, TEACHERS))
    rest = 1e-4 * np.eye(hidden)
    readout = np.full(hidden, TEACHERS / hidden)
    return tu.Start(along, along @ along.T + rest, readout=readout)


def fixed_start(hidden: int, seed: int | None) -> "tu.Start":
    """Two units lean towards their teachers; the extra ones start at exactly zero.

    With a seed the extra ones start as random vectors.
    """
    if seed is None:
        along = np.zeros((hidden, TEACHERS))
        along[:TEACHERS] = [[0.9, 0.05], [-0.05, 0.85]]
        rest = np.zeros((hidden, 400))
    else:
        rng = np.random.default_rng(seed)
        toward = 0.6 * np.eye(hidden, TEACHERS)
        along = 0.2 * rng.standard_normal((hidden, TEACHERS)) + toward
        rest = rng.standard_normal((hidden, 400)) / 20
    return tu.Start(along, along @ along.T + rest @ rest.T, readout=np.ones(hidden))


def _taught(hidden: int) -> np.ndarray:
    """Unit k goes with teacher k mod 2."""
    return np.eye(TEACHERS)[np.arange(hidden) % TEACHERS]


def late(problem: "tu.Problem", start: "tu.Start", end: float) -> "tu.Trajectory":
    """The solve at times evenly spaced in the logarithm.

    Units that start alike stay alike, and are meant to.
    """
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
    """Return bands of theory and runs, the drift of the readouts, and final errors.

    Final errors are per variance of the noise and learning rate. cases: (K, sigma,
    seeds) of starts with trained readouts. generic: (K, seeds) of starts with fixed
    ones, with more noise, since with less the slow end of learning itself is seen for
    longer. All seeds that were tried are there.
    """
    drift_cases = [(K, noise, start) for K, noise, starts in cases for start in starts]
    data = _drifts(lr, drift_cases, end)
    data = data.merge(_bands(lr, band, band_noise, band_end, band_dim, band_runs, seed))

    data["split_hidden"] = ("split_start", split)
    data["split"] = (
        "split_start",
        [_floor(network(K, lr, split_noise), split_start(K), split_end) for K in split],
    )
    data["fixed_hidden"] = ("fixed_start", fixed)
    data["fixed"] = (
        "fixed_start",
        [
            _floor(
                network(K, fixed_lr, fixed_noise, trained=False),
                fixed_start(K, None),
                fixed_end,
            )
            for K in fixed
        ],
    )
    others = [(K, start_seed) for K, seeds in generic for start_seed in seeds]
    data["generic_hidden"] = ("generic_start", [K for K, _ in others])
    data["generic"] = (
        "generic_start",
        [
            _floor(
                network(K, fixed_lr, generic_noise, trained=False),
                fixed_start(K, start_seed),
                generic_end,
            )
            for K, start_seed in others
        ],
    )
    return data.assign(lr=lr, band_dim=band_dim, band_runs=band_runs)


def _floor(problem: "tu.Problem", start: "tu.Start", end: float) -> float:
    """The error at the end, in units of eta sigma^2."""
    lr = float(np.asarray(problem.optimizer.lr))
    scale = lr * float(np.asarray(problem.noise)) ** 2
    return float(late(problem, start, end).error[-1]) / scale


def _drifts(lr: float, cases: list[tuple[int, float, int]], end: float) -> "Dataset":
    """The error per eta sigma^2 and the readouts for each (K, sigma, seed).

    Readouts are NaN for units that are not there. bare: where the noise is not the
    largest, what is left in the end without any, in the same unit: learning is not
    over.
    """
    import xarray as xr

    most_units = max(hidden for hidden, _, _ in cases)
    most_noise = max(noise for _, noise, _ in cases)
    error = np.empty((len(cases), POINTS))
    readout = np.full((len(cases), POINTS, most_units), np.nan)
    bare = np.full(len(cases), np.nan)
    times = np.empty(0)
    for row, (hidden, noise, seed) in enumerate(cases):
        start = shared_start(hidden, seed)
        unit = lr * noise**2
        if noise < most_noise:
            bare[row] = late(network(hidden, lr, 0.0), start, end).error[-1] / unit
        curve = late(network(hidden, lr, noise), start, end)
        times = curve.times
        error[row] = curve.error / unit
        readout[row, :, :hidden] = curve.variables["readout"]
    data = xr.Dataset(coords={"time": times})
    data["error"] = (("case", "time"), error)
    data["readout"] = (("case", "time", "unit"), readout)
    data["bare"] = ("case", bare)
    data["hidden"] = ("case", [hidden for hidden, _, _ in cases])
    data["noise"] = ("case", [noise for _, noise, _ in cases])
    data["start_seed"] = ("case", [seed for _, _, seed in cases])
    return data


def _bands(
    lr: float,
    hidden: list[int],
    noise: float,
    end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Errors of theory and runs for each K, and the shares inside the band.

    The shares are those of all order parameters; names begin with "band_".
    """
    import xarray as xr

    from tutelage_papers.bands import against_runs

    kept = ["error", "error_mean", "error_se", "error_wrong", "inside", "inside_wrong"]
    times = tu.linear_times(end, POINTS)
    parts: list[Dataset] = []
    for K in hidden:
        whole = against_runs(
            network(K, lr, noise),
            shared_start(K, seed),
            dim=dim,
            times=times,
            runs=runs,
            seed=seed + K,
            factor=WITHOUT,
        )
        parts.append(whole[kept])
    data = xr.concat(parts, dim=xr.DataArray(hidden, dims="band", name="band"))
    names = {name: f"band_{name}" for name in ("time", *kept)}
    return data.rename(names)


def reached(case: "Dataset") -> Any:
    """Sum of the squared readouts along time."""
    return (case["readout"] ** 2).sum("unit")


def trained_law(squares: Any) -> Any:
    """e_g(infinity) / (eta sigma^2) where both layers learn.

    Every unit has become a copy of a teacher. squares: the sum of v_k^2.
    """
    return squares / (2 * np.pi * np.sqrt(3))


def fixed_law(hidden: Any) -> Any:
    """e_g(infinity) / (eta sigma^2) with fixed readouts, the extra units at zero."""
    return (hidden - TEACHERS + TEACHERS / np.sqrt(3)) / (2 * np.pi)


def share(case: "Dataset") -> Any:
    """K/4 sum v^2: one at the equal split, more otherwise."""
    return reached(case) * case["hidden"] / TEACHERS**2


def equal_since(case: "Dataset") -> float:
    """The time since when the sum of squares is within 5% of that of the equal split.

    Infinite: not yet.
    """
    off = abs(share(case).values - 1)
    times = case["time"].values
    last = int(np.flatnonzero(off > 0.05)[-1])
    if last == times.size - 1:
        return float("inf")
    around = slice(last, last + 2)
    return float(np.exp(np.interp(-0.05, -off[around], np.log(times[around]))))


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """Bands; the law with the readouts reached; their drift; fixed readouts."""
    from tutelage_papers.bands import inside_claims

    for K in data["band"].values:
        part = data.sel(band=K)[["band_inside", "band_inside_wrong"]]
        part = part.rename(band_inside="inside", band_inside_wrong="inside_wrong")
        yield from inside_claims(part, f"K = {K}, both layers", WITHOUT)
    for K, noise in _groups(data):
        yield from _drift_claims(data.isel(case=_in_group(data, K, noise)))
    for K, value in zip(data["split_hidden"].values, data["split"].values, strict=True):
        yield close(
            f"K = {K}, from the equal split: e_g / (eta sigma^2), falling as 1/K",
            value,
            trained_law(TEACHERS**2 / K),
            rel=0.05,
        )
    yield from _fixed_claims(data)


def _fixed_claims(data: "Dataset") -> Iterator[Claim]:
    """Readouts that do not learn."""
    zero = dict(zip(data["fixed_hidden"].values, data["fixed"].values, strict=True))
    for K, value in zero.items():
        yield close(
            f"K = {K}, readouts fixed, extra units from zero",
            value,
            fixed_law(K),
            rel=0.05,
        )
    hidden = data["generic_hidden"].values
    for K in np.unique(hidden):
        ratios = data["generic"].values[hidden == K] / zero[K]
        yield below(
            f"K = {K}, readouts fixed: e_g of generic starts / that from zero, "
            f"largest of {ratios.size}",
            ratios.max(),
            1.0,
            evidence=f"all of them: {_listed(ratios)}",
        )


def _groups(data: "Dataset") -> list[tuple[int, float]]:
    """Numbers of units and noises of the drifts, in order."""
    pairs = zip(data["hidden"].values, data["noise"].values, strict=True)
    return list(dict.fromkeys((int(K), float(noise)) for K, noise in pairs))


def _in_group(data: "Dataset", K: int, noise: float) -> np.ndarray:
    """A mask of the cases with this number of units and this noise."""
    return (data["hidden"].values == K) & (data["noise"].values == noise)


def _listed(values: Any) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _drift_claims(part: "Dataset") -> Iterator[Claim]:
    """Claims about all starts of one K and sigma."""
    K = int(part["hidden"][0])
    noise = float(part["noise"][0])
    count = part.sizes["case"]
    final = part.isel(time=-1)
    starts = "start" if count == 1 else "starts"
    name = f"K = {K}, sigma = {noise:g}, {count} {starts}"
    yield from _law_claims(name, final)
    if K == TEACHERS:
        return
    shares = share(final).values
    weakest = abs(final["readout"]).min("unit").values
    end = f"{float(part['time'][-1]):.0e}"
    reason = (
        f"K/4 sum v^2 of all starts at alpha = {end}: {_listed(shares)}; "
        f"weakest readouts: {_listed(weakest)}"
    )
    yield _not_equal(
        f"{name}: K/4 sum v^2 at alpha = 1e4, median, which 1/K needs at one",
        np.median(share(part.sel(time=EARLY, method="nearest")).values),
        reason,
    )
    since = np.array([equal_since(part.isel(case=case)) for case in range(count)])
    if np.all(np.isfinite(since)):
        yield between(
            f"{name}: time since when sum v^2 is within 5% of 4/K, median",
            np.median(since),
            1e5,
            1e6,
            evidence=f"all of them: {_listed(since)}",
        )
    else:
        faded = int(np.sum(weakest < FADED))
        yield _not_equal(
            f"{name}: K/4 sum v^2 at alpha = {end}, largest",
            shares.max(),
            f"{faded} of {count} starts have a readout below {FADED:g}. {reason}",
        )


def _law_claims(name: str, final: "Dataset") -> Iterator[Claim]:
    """The error against the law with the readouts reached, of the worst start.

    Where it is known, what is left without noise is subtracted.
    """
    law = trained_law(reached(final).values)
    ratios = final["error"].values / law
    worst = close(
        f"{name}: e_g / law with the readouts reached, worst",
        _farthest(ratios),
        1.0,
        rel=0.05,
    )
    bare = final["bare"].values / law
    if not np.all(np.isfinite(bare)):
        yield worst
        return
    yield close(
        f"{name}: (e_g - e_g without noise) / law, worst",
        _farthest(ratios - bare),
        1.0,
        rel=0.05,
    )
    evidence = (
        f"learning is not over: without noise e_g / law is {_listed(bare)}; "
        "less that, the law holds"
    )
    yield refuted(worst, evidence)


def _farthest(ratios: np.ndarray) -> float:
    """The one farthest from one."""
    return float(ratios[np.argmax(abs(ratios - 1))])


def _not_equal(name: str, measured: Any, evidence: str) -> Claim:
    return refuted(close(name, measured, 1.0, rel=0.05), evidence)


def draw_4(data: "Dataset") -> "Figure":
    """Bands; final errors against K; the drift of the sum of squares; readouts."""
    dim = int(data["band_dim"])
    runs = int(data["band_runs"])
    title = "Both layers learn, M = 2"
    small = (
        f"Top left: theory (lines), mean of {runs} runs with N = {dim} (marks), "
        "± 2 standard errors; dotted: without G."
    )
    figure, axes = panel_grid(2, 2, title, small, height=2.9)
    _draw_bands(axes[0, 0], data)
    _draw_floors(axes[0, 1], data)
    _draw_drift(axes[1, 0], data)
    _draw_readouts(axes[1, 1], data)
    return figure


def _draw_bands(panel: Any, data: "Dataset") -> None:
    times = data["band_time"].values
    for look, K in enumerate(data["band"].values):
        part = data.sel(band=K)
        theory = part["band_error"]
        mean = part["band_error_mean"]
        error = part["band_error_se"]
        label = f"$K = {K}$"
        draw_band(panel, times, theory, mean, error, look=look, dashes=0, label=label)
        panel.plot(times, part["band_error_wrong"], **GUIDE, linewidth=1.0)
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    outside_legend(panel)
    label_panel(panel, "theory and runs")


def _draw_floors(panel: Any, data: "Dataset") -> None:
    """Final errors against K: laws, and starts at zero, at the equal split, generic."""
    ends = data.isel(time=-1)
    ends = ends.isel(case=ends["noise"].values == ends["noise"].values.max())
    K = np.linspace(TEACHERS, 8, 61)
    fixed = {"color": COLORS[1]}
    trained = {"color": COLORS[0]}
    panel.plot(K, fixed_law(K), **fixed, label="fixed readouts, law")
    panel.plot(
        data["fixed_hidden"],
        data["fixed"],
        "s",
        **fixed,
        markerfacecolor="white",
        label="extra from zero",
    )
    panel.plot(
        data["generic_hidden"], data["generic"], "x", **fixed, label="generic starts"
    )
    panel.plot(
        K,
        trained_law(TEACHERS**2 / K),
        **trained,
        linestyle=DASHES[1],
        label="trained, $1/K$",
    )
    panel.plot(
        data["split_hidden"],
        data["split"],
        "^",
        **trained,
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
    """The sum of squared readouts along time, of all starts."""
    most_noise = data["noise"].max()
    for look, (K, noise) in enumerate(_groups(data)):
        part = data.isel(case=_in_group(data, K, noise), time=slice(1, None))
        dashes = 0 if noise == most_noise else 1
        line = line_of(look, dashes) | {"linewidth": 1.1}
        first, *others = share(part).values
        label = f"$K = {K}$, $\\sigma = {noise:g}$"
        panel.plot(part["time"], first, **line, label=label)
        for curve in others:
            panel.plot(part["time"], curve, **line)
    panel.axhline(1.0, color=INK, linewidth=0.8, linestyle=DASHES[2])
    panel.set(
        xlabel=TIME, ylabel=r"$\frac{K}{4}\sum_k v_k^2$", xscale="log", yscale="log"
    )
    panel.set_yticks([1, 2, 4], ["1", "2", "4"])
    panel.set_yticks([], minor=True)
    outside_legend(panel)
    label_panel(panel, "the slow drift to an equal split, all starts")


def _draw_readouts(panel: Any, data: "Dataset") -> None:
    """The readouts of the start that is farthest from the equal split in the end."""
    noisiest = data["noise"].values == data["noise"].values.max()
    farthest = int(np.argmax(share(data.isel(time=-1)).values * noisiest))
    case = data.isel(case=farthest, time=slice(1, None))
    K = int(case["hidden"])
    for unit in range(K):
        line = line_of(unit, dashes=unit % TEACHERS)
        readout = case["readout"].isel(unit=unit)
        panel.plot(case["time"], readout, **line, label=f"$v_{unit + 1}$")
    panel.axhline(TEACHERS / K, color=INK, linewidth=0.8, linestyle=DASHES[2])
    panel.set(xlabel=TIME, ylabel="readouts $v_k$", xscale="log")
    outside_legend(panel)
    start = int(case["start_seed"])
    label_panel(panel, f"$K = {K}$, start {start}; dotted: equal split, $2/K$")


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
        title="both layers learn: theory and runs, and what label noise leaves of "
        "the error",
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
