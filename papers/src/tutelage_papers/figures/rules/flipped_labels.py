"""One unit learns the sign of its teacher from labels of which some are flipped.

A constant rate leaves an error that stays, a floor. With the rate a/alpha the student w
settles along the teacher, w = R w* + u, and for a loss with a finite minimum s =
|u|^2/N obeys

    ds/dalpha = -2 a h s/alpha + a^2 G/alpha^2

(h: mean curvature of the loss there, G: mean squared update), so that
error sqrt(alpha) -> sqrt(s alpha)/(pi R), least for a = 1/h: sqrt(G)/(pi h R).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import GUIDE, draw_band, legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WITHIN = 0.01  # of an error
# Floors at a constant rate by the share of flips, and for AdaTron by the rate, too.
PERCEPTRON = {0.1: 0.20485, 0.2: 0.29518}
LOGISTIC = {0.1: 0.0898, 0.2: 0.1609}
ADATRON = {0.1: {1.0: 0.2076, 0.1: 0.0868}, 0.2: {1.0: 0.2800, 0.1: 0.1203}}
# Limits of error sqrt(alpha) for the best prefactor, by the share of flips.
BEST = {
    "hinge": {0.1: 0.331, 0.2: 0.534},
    "logistic": {0.1: 0.350, 0.2: 0.574},
    "squared": {0.1: 0.384, 0.2: 0.584},
    "Hebb": {0.1: 0.499, 0.2: 0.665},
}
ADATRON_RATES = (1.0, 0.1)
LOSSES = ("hinge", "logistic", "squared")
# Rate of Hebb's rule: its Q grows as (rate alpha)^2, its late error is that of any
# rate.
SLOW = 0.01


def one_unit(
    flip: float, lr: float, falls: bool = False, timescale: float = 1.0, **rule: Any
) -> "tu.Problem":
    """A linear unit whose labels are flipped with probability `flip`.

    The rate is lr, or lr / (1 + alpha/timescale) if it falls. One program serves both:
    a constant rate is a decay with exponent zero.
    """
    unit = tu.Network(1, "linear")
    exponent = 1.0 if falls else 0.0
    optimizer = tu.SGD(lr=tu.schedules.PowerDecay(lr, exponent, timescale))
    labels = tu.labels.Sign(flip=flip)
    return tu.Problem(unit, unit, optimizer=optimizer, labels=labels, **rule)


def compute_2(
    flips: list[float],
    rates: list[float],
    R: float,
    Q: float,
    end: float,
    last: float,
    far: float,
    factors: list[float],
    points: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return errors at constant and falling rates, and runs.

    X_late: errors at constant rates up to the time `last`. X_far: at falling rates up
    to `far`. The runs end at `end`. factors: prefactors a of the rate a/alpha, times
    1/h. perceptron_falling: the perceptron with rate 1/alpha.
    """
    import xarray as xr

    start = tu.Start([[R]], [[Q]])
    times = tu.linear_times(end, points)
    late = np.geomspace(0.1, last, points)
    distant = np.geomspace(0.1, far, points)
    fall = np.geomspace(0.1, 10 * last, points)

    def error(problem: "tu.Problem", when: Any) -> np.ndarray:
        return np.asarray(tu.solve(problem, start, when).error)

    parts: list[Dataset] = []
    for p in flips:
        part = _runs(p, start, dim, times, runs, seed)
        perceptron = [error(one_unit(p, lr, rule="perceptron"), late) for lr in rates]
        part["perceptron_late"] = (("rate", "late"), perceptron)
        part["perceptron_falling"] = ("fall", _falling_perceptron(p, R, Q, fall))
        logistic = error(one_unit(p, 1.0, loss="logistic"), late)
        part["logistic_late"] = ("late", logistic)
        # AdaTron by its own equations, and a check of them by the general theory.
        adatron = [_adatron(p, lr, R, Q, late) for lr in ADATRON_RATES]
        part["adatron_late"] = (("adatron_rate", "late"), adatron)
        part["adatron_check"] = ("time", _adatron(p, 1.0, R, Q, times))
        part["adatron"] = ("time", error(one_unit(p, 1.0, rule="adatron"), times))
        part["hebb_far"] = ("far", error(one_unit(p, SLOW, rule="hebbian"), distant))
        scan = [
            [error(_falling(loss, p, factor), distant) for factor in factors]
            for loss in LOSSES
        ]
        part["scan"] = (("loss", "factor", "far"), scan)
        part["law"] = ("loss", [_best(loss, p)[1] for loss in LOSSES])
        parts.append(part)
    data = xr.concat(parts, dim=xr.DataArray(flips, dims="flip"))
    data["dim"] = dim
    data["runs"] = runs
    return data.assign_coords(
        flip=flips,
        rate=rates,
        late=late,
        far=distant,
        fall=fall,
        loss=list(LOSSES),
        adatron_rate=list(ADATRON_RATES),
        factor=factors,
    )


def _runs(
    flip: float, start: "tu.Start", dim: int, times: Any, runs: int, seed: int
) -> "Dataset":
    """Perceptron and logistic loss at rate one against networks."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    problems = {
        "perceptron": one_unit(flip, 1.0, rule="perceptron"),
        "logistic": one_unit(flip, 1.0, loss="logistic"),
    }
    parts: list[Dataset] = []
    for place, problem in enumerate(problems.values()):
        parts.append(
            against_runs(
                problem, start, dim=dim, times=times, runs=runs, seed=seed + place
            )
        )
    return xr.concat(parts, dim=xr.DataArray(list(problems), dims="rule", name="rule"))


def _adatron(flip: float, lr: float, R: float, Q: float, times: Any) -> np.ndarray:
    """The error of AdaTron by its own equations for the cosine c and ln Q.

    Q goes to zero and c does not. Rate and flips are part of the state, so that one
    program serves all.
    """
    names = ["cosine", "log_Q", "lr", "flip"]
    system = tu.Equations(names, _adatron_drift, _adatron_error)
    start = [R / np.sqrt(Q), np.log(Q), lr, flip]
    return np.asarray(tu.solve(system, start, times).error)


def _adatron_drift(time: Any, state: Any) -> tuple[Any, ...]:
    """The slopes of c, ln Q, and of the rate and the flips, which stay.

    With t = arccos c, E[lambda^2 1(rho lambda < 0)] = Q k and
    E[lambda rho 1(rho lambda < 0)] = sqrt(Q) m, where k = (t - c sin t)/pi and
    m = (c t - sin t)/pi.
    """
    import jax.numpy as jnp

    c = state.cosine
    lr = state.lr
    flip = state.flip
    angle = jnp.arccos(c)
    sine = jnp.sqrt(1 - c**2)
    k = (angle - c * sine) / jnp.pi
    m = (c * angle - sine) / jnp.pi
    # A flipped label is wrong where the teacher's sign is right.
    square = (1 - flip) * k + flip * (1 - k)
    product = (1 - flip) * m + flip * (c - m)
    shrinks = (lr - lr**2 / 2) * square
    return c * shrinks - lr * product, -2 * shrinks, 0.0 * lr, 0.0 * flip


def _adatron_error(state: Any) -> Any:
    import jax.numpy as jnp

    return jnp.arccos(state.cosine) / jnp.pi


def _falling_perceptron(flip: float, R: float, Q: float, times: Any) -> np.ndarray:
    """The error of the perceptron with rate 1/(1 + alpha).

    It is solved in r = R/rate, q = Q/rate^2 and the time u = ln(1 + alpha), where its
    limit is at rest.
    """
    system = tu.Equations(["r", "q", "flip"], _perceptron_drift, _perceptron_error)
    solved = tu.solve(
        system, [R, Q, flip], np.log1p(times), solver="implicit", rtol=1e-6, atol=1e-9
    )
    return np.asarray(solved.error)


def _perceptron_drift(u: Any, state: Any) -> tuple[Any, ...]:
    """The slopes of r and q, and of the flips, which stay.

    With c = r/sqrt(q): E[delta rho] = (1 - 2p - c)/sqrt(2 pi), E[delta lambda] =
    sqrt(Q) ((1 - 2p) c - 1)/sqrt(2 pi), and G is the share of labels that the student
    does not have.
    """
    import jax.numpy as jnp

    kept = 1 - 2 * state.flip
    root = np.sqrt(2 * np.pi)
    error = _perceptron_error(state)
    c = jnp.cos(jnp.pi * error)
    along = (kept - c) / root
    own = jnp.sqrt(state.q) * (kept * c - 1) / root
    wrong = state.flip + kept * error
    dr = jnp.exp(u) * along + state.r
    dq = jnp.exp(u) * (2 * own + wrong) + 2 * state.q
    return dr, dq, 0.0 * state.flip


def _perceptron_error(state: Any) -> Any:
    import jax.numpy as jnp

    across = jnp.sqrt(jnp.maximum(state.q - state.r**2, 1e-12))
    return jnp.arctan2(across, state.r) / jnp.pi


def _falling(loss: str, flip: float, factor: float) -> "tu.Problem":
    """The problem with the rate a/alpha, a = 1 / (factor * its best timescale)."""
    timescale = factor * _best(loss, flip)[0]
    return one_unit(flip, 1.0, falls=True, timescale=timescale, loss=loss)


def _best(loss: str, flip: float) -> tuple[float, float]:
    """The best prefactor 1/h of the rate a/alpha, and its limit of error sqrt(alpha).

    The limit is sqrt(G) / (pi h R).
    """
    laws = {"squared": _squared_law, "hinge": _hinge_law, "logistic": _logistic_law}
    R, h, G = laws[loss](flip)
    return float(1 / h), float(np.sqrt(G) / (np.pi * h * R))


def _squared_law(flip: float) -> tuple[Any, Any, Any]:
    """R, h and G of squared loss at its minimum."""
    R = (1 - 2 * flip) * np.sqrt(2 / np.pi)
    return R, 1.0, 1 - R**2


def _hinge_law(flip: float) -> tuple[Any, Any, Any]:
    """R, h and G of hinge loss at its minimum."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def slope(x: float) -> Any:
        return (1 - flip) * (norm.pdf(0) - norm.pdf(1 / x)) - flip * norm.pdf(0)

    R: Any = brentq(slope, 0.1, 50.0)
    h = (1 - flip) * 2 * norm.pdf(1 / R) / R
    G = (1 - flip) * (2 * norm.cdf(1 / R) - 1) + flip
    return R, h, G


def _logistic_law(flip: float) -> tuple[Any, Any, Any]:
    """R, h and G of logistic loss at its minimum."""
    from scipy.optimize import brentq
    from scipy.special import expit

    def slope(x: float) -> float:
        return _half_normal_mean(
            lambda z: z * ((1 - flip) * expit(-x * z) - flip * expit(x * z))
        )

    R: Any = brentq(slope, 0.1, 50.0)
    h = _half_normal_mean(lambda z: expit(R * z) * expit(-R * z))
    G = _half_normal_mean(
        lambda z: (1 - flip) * expit(-R * z) ** 2 + flip * expit(R * z) ** 2
    )
    return R, h, G


def _half_normal_mean(f: Any) -> float:
    """The mean of f over |rho|, the absolute field of the teacher."""
    from scipy.integrate import quad
    from scipy.stats import norm

    return 2 * quad(lambda z: f(z) * norm.pdf(z), 0.0, 12.0, epsabs=1e-12)[0]


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Floors at constant rates, and limits for rates that fall as 1/alpha."""
    from tutelage_papers.bands import inside_claims

    for flip in data["flip"].values:
        part = data.sel(flip=flip)
        p = float(flip)
        name = f"p = {p:g}"
        for lr in part["rate"].values:
            yield close(
                f"{name}: floor of the perceptron at rate {lr:g}",
                part["perceptron_late"].sel(rate=lr)[-1],
                PERCEPTRON[p],
                rel=WITHIN,
            )
        yield close(
            f"{name}: the perceptron with rate 1/alpha returns to it",
            part["perceptron_falling"][-1],
            PERCEPTRON[p],
            rel=WITHIN,
        )
        for lr, floor in ADATRON[p].items():
            yield close(
                f"{name}: floor of AdaTron at rate {lr:g}",
                part["adatron_late"].sel(adatron_rate=lr)[-1],
                floor,
                rel=WITHIN,
            )
        yield at_most(
            f"{name}: AdaTron by cosine and ln Q against the solve of the problem",
            np.abs(part["adatron_check"] - part["adatron"]).max(),
            1e-6,
        )
        yield close(
            f"{name}: floor of logistic loss at rate 1",
            part["logistic_late"][-1],
            LOGISTIC[p],
            rel=WITHIN,
        )
        yield from _limits(part, p)
        for rule in part["rule"].values:
            yield from inside_claims(part.sel(rule=rule), f"{name}: {rule}")


def _limits(part: "Dataset", p: float) -> Iterator[Claim]:
    """error sqrt(alpha) at the last time.

    It is that of the best prefactor for losses, and that of any rate for Hebb's rule.
    """
    root = np.sqrt(float(part["far"][-1]))
    for name, limit in BEST.items():
        if name == "Hebb":
            error = float(part["hebb_far"][-1])
        else:
            error = float(part["scan"].sel(loss=name)[:, -1].min())
        law = _law(part, name, p)
        words = f"p = {p:g}: {name}, error sqrt(alpha)"
        yield close(
            f"{words} at the end, best prefactor",
            error * root,
            limit[p],
            rel=WITHIN,
            evidence=f"the law gives {law:.4f}",
        )
        yield close(f"{words} over its law", error * root / law, 1.0, rel=WITHIN)


def _law(part: "Dataset", name: str, p: float) -> float:
    """The limit of error sqrt(alpha) of a loss or of Hebb's rule."""
    if name == "Hebb":
        return float(1 / ((1 - 2 * p) * np.sqrt(2 * np.pi)))
    return float(part["law"].sel(loss=name))


def draw_2(data: "Dataset") -> "Figure":
    """Constant rates for both shares of flips, and laws of falling rates."""
    small = (
        f"Left, middle: constant rates; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; dotted gray: floors. "
        "Right: rate a/α with the best a; dotted gray: laws."
    )
    title = "Flipped labels: floors, and rates that fall"
    figure, axes = panel_grid(1, 3, title, small, height=3.2, width=11.0)
    for panel, p in zip(axes[0], data["flip"].values, strict=False):
        _draw_floors(panel, data.sel(flip=p), float(p))
        label_panel(panel, f"a share p = {p:g} of the labels flipped")
    _draw_laws(axes[0, 2], data)
    return figure


def _draw_laws(panel: Any, data: "Dataset") -> None:
    """error sqrt(alpha) of all losses, for both shares of flips."""
    far = data["far"].values
    after = far >= 10.0
    for place, p in enumerate(data["flip"].values):
        part = data.sel(flip=p)
        for look, name in enumerate(BEST):
            if name == "Hebb":
                error = part["hebb_far"].values
            else:
                error = part["scan"].sel(loss=name, factor=1.0).values
            scaled = error * np.sqrt(far)
            line = line_of(look, dashes=place)
            panel.plot(far[after], scaled[after], **line, label=f"{name}, p = {p:g}")
            panel.axhline(_law(part, name, p), **GUIDE, linewidth=0.8)
    panel.set(
        xlabel=TIME,
        ylabel=r"error $\times\,\sqrt{\alpha}$",
        xscale="log",
        ylim=(0.28, 0.9),
    )
    label_panel(panel, r"rates that fall as $1/\alpha$")
    outside_legend(panel)


def _draw_floors(panel: Any, part: "Dataset", p: float) -> None:
    """Constant rates at one share of flips, with the floors that they reach."""
    late = part["late"].values
    times = part["time"].values[1:]
    curves = {
        "perceptron": part["perceptron_late"].sel(rate=1.0),
        "logistic": part["logistic_late"],
    }
    for look, (name, curve) in enumerate(curves.items()):
        runs = part.sel(rule=name).isel(time=slice(1, None))
        mean = runs["error_mean"]
        error = runs["error_se"]
        draw_band(panel, times, runs["error"], mean, error, look=look, dashes=0)
        panel.plot(late, curve, color=COLORS[look], label=rf"{name}, $\eta$ = 1")
    panel.plot(
        part["fall"],
        part["perceptron_falling"],
        color=COLORS[0],
        linestyle=DASHES[1],
        label=r"perceptron, $\eta$ = 1/(1 + $\alpha$)",
    )
    for look, lr in enumerate(part["adatron_rate"].values, start=2):
        curve = part["adatron_late"].sel(adatron_rate=lr)
        label = rf"AdaTron, $\eta$ = {lr:g}"
        panel.plot(late, curve, color=COLORS[look], label=label)
    for floor in (PERCEPTRON[p], LOGISTIC[p], *ADATRON[p].values()):
        panel.axhline(floor, **GUIDE, linewidth=0.8)
    panel.set(xlabel=TIME, ylabel="share of wrong classes", xscale="log", yscale="log")
    legend_below(panel, columns=1)


PRINTED: dict[str, Any] = {
    "flips": [0.1, 0.2],
    "R": 0.1,
    "Q": 0.5,
    "end": 20.0,
    "last": 1000.0,
    "far": 1e6,
    "points": 41,
    "dim": 500,
    "seed": 11,
}

FIGURES = (
    Replica(
        id="rules-2",
        source="rules",
        figure="flipped labels",
        title="labels of which some are flipped: floors at constant rates, and rates "
        "that fall as 1/alpha",
        full=PRINTED
        | {
            "rates": [0.3, 1.0, 3.0],
            "factors": [0.6, 0.8, 1.0, 1.25, 1.6],
            "runs": 200,
        },
        quick=PRINTED | {"rates": [1.0, 3.0], "factors": [0.7, 1.0, 1.4], "runs": 60},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
