"""One unit learns the sign of its teacher from labels of which some are flipped: floors, and rates that fall as 1/alpha.

A constant rate leaves an error that stays. With the rate a/alpha the student w settles along the teacher, w = R w* + u, and
for a loss with a finite minimum s = |u|^2/N obeys ds/dalpha = -2 a h s/alpha + a^2 G/alpha^2 (h: mean curvature of the loss
there, G: mean squared update), so that error sqrt(alpha) -> sqrt(s alpha)/(pi R), least for a = 1/h: sqrt(G)/(pi h R).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WITHIN = 0.01  # of an error
PERCEPTRON = {0.1: 0.20485, 0.2: 0.29518}
LOGISTIC = {0.1: 0.0898, 0.2: 0.1609}
ADATRON = {0.1: {1.0: 0.2076, 0.1: 0.0868}, 0.2: {1.0: 0.2800, 0.1: 0.1203}}
BEST = {
    "hinge": {0.1: 0.331, 0.2: 0.534},
    "logistic": {0.1: 0.350, 0.2: 0.574},
    "squared": {0.1: 0.384, 0.2: 0.584},
    "Hebb": {0.1: 0.499, 0.2: 0.665},
}
LOSSES = ("hinge", "logistic", "squared")
SLOW = 0.01  # rate of Hebb's rule: its Q grows as (rate alpha)^2, its late error is that of any rate


def one_unit(
    flip: float, lr: float, falls: bool = False, timescale: float = 1.0, **rule: Any
) -> "tu.Problem":
    """A linear unit whose labels are flipped with probability `flip`; rate lr, or lr / (1 + alpha/timescale).

    One program serves both kinds of rates: a constant one is a decay with exponent zero.
    """
    unit = tu.Network(1, "linear")
    rate = tu.schedules.PowerDecay(lr, 1.0 if falls else 0.0, timescale)
    return tu.Problem(
        unit, unit, optimizer=tu.SGD(lr=rate), labels=tu.labels.Sign(flip=flip), **rule
    )


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
    """Errors at constant rates up to `last` (X_late), at falling rates up to `far` (X_far), and runs up to `end`.

    factors: prefactors a of the rate a/alpha, times 1/h. falling: the perceptron with rate 1/alpha.
    """
    import xarray as xr

    start = tu.Start([[R]], [[Q]])
    times = tu.linear_times(end, points)
    late = np.geomspace(0.1, last, points)
    distant = np.geomspace(0.1, far, points)

    fall = np.geomspace(0.1, 10 * last, points)

    def error(problem: "tu.Problem", when: Any) -> np.ndarray:
        return np.asarray(tu.solve(problem, start, when).error)

    perceptron = [
        [error(one_unit(p, lr, rule="perceptron"), late) for lr in rates] for p in flips
    ]
    logistic = [error(one_unit(p, 1.0, loss="logistic"), late) for p in flips]
    scan = [
        [[error(_falling(name, p, f), distant) for f in factors] for p in flips]
        for name in LOSSES
    ]
    adatron = [[_adatron(p, lr, R, Q, late) for lr in ADATRON[p]] for p in flips]
    variables: dict[str, Any] = {
        "perceptron_late": (("flip", "rate", "late"), np.array(perceptron)),
        "perceptron_falling": (
            ("flip", "fall"),
            np.array([_falling_perceptron(p, R, Q, fall) for p in flips]),
        ),
        "logistic_late": (("flip", "late"), np.array(logistic)),
        "adatron_late": (("flip", "adatron_rate", "late"), np.array(adatron)),
        "adatron_check": (
            ("flip", "time"),
            np.array([_adatron(p, 1.0, R, Q, times) for p in flips]),
        ),
        "adatron": (
            ("flip", "time"),
            np.array([error(one_unit(p, 1.0, rule="adatron"), times) for p in flips]),
        ),
        "hebb_far": (
            ("flip", "far"),
            np.array(
                [error(one_unit(p, SLOW, rule="hebbian"), distant) for p in flips]
            ),
        ),
        "scan": (("loss", "flip", "factor", "far"), np.array(scan)),
        "law": (
            ("loss", "flip"),
            np.array([[_best(name, p)[1] for p in flips] for name in LOSSES]),
        ),
    }
    data = xr.Dataset(
        variables,
        coords={
            "flip": flips,
            "rate": rates,
            "late": late,
            "far": distant,
            "fall": fall,
        },
    )
    bands = xr.concat(
        [_runs(p, start, dim, times, runs, seed) for p in flips],
        dim=xr.DataArray(flips, dims="flip"),
    )
    return (
        xr.merge([data, bands])
        .assign_coords(loss=list(LOSSES), adatron_rate=[1.0, 0.1], factor=factors)
        .assign(dim=dim, runs=runs)
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
    parts = [
        against_runs(p, start, dim=dim, times=times, runs=runs, seed=seed + i)
        for i, p in enumerate(problems.values())
    ]
    return xr.concat(parts, dim=xr.DataArray(list(problems), dims="rule", name="rule"))


def _adatron(flip: float, lr: float, R: float, Q: float, times: Any) -> np.ndarray:
    """The error of AdaTron by its own equations for the cosine c and ln Q: Q goes to zero and c does not."""
    system = tu.Equations(
        ["cosine", "log_Q", "lr", "flip"], _adatron_drift, _adatron_error
    )
    return np.asarray(
        tu.solve(system, [R / np.sqrt(Q), np.log(Q), lr, flip], times).error
    )


def _adatron_drift(time: Any, state: Any) -> tuple[Any, ...]:
    """With t = arccos c, E[lambda^2 1(rho lambda < 0)] = Q k and E[lambda rho 1(rho lambda < 0)] = sqrt(Q) m, where
    k = (t - c sin t)/pi and m = (c t - sin t)/pi. Rate and flips are part of the state, so that one program serves all."""
    import jax.numpy as jnp

    c = state.cosine
    lr = state.lr
    flip = state.flip
    angle = jnp.arccos(c)
    sine = jnp.sqrt(1 - c**2)
    k = (angle - c * sine) / jnp.pi
    m = (c * angle - sine) / jnp.pi
    square = (1 - flip) * k + flip * (1 - k)
    product = (1 - flip) * m + flip * (c - m)
    shrinks = (lr - lr**2 / 2) * square
    return c * shrinks - lr * product, -2 * shrinks, 0.0 * lr, 0.0 * flip


def _adatron_error(state: Any) -> Any:
    import jax.numpy as jnp

    return jnp.arccos(state.cosine) / jnp.pi


def _falling_perceptron(flip: float, R: float, Q: float, times: Any) -> np.ndarray:
    """The error of the perceptron with rate 1/(1 + alpha), in r = R/rate, q = Q/rate^2 and the time u = ln(1 + alpha):
    there its limit is at rest."""
    system = tu.Equations(["r", "q", "flip"], _perceptron_drift, _perceptron_error)
    solved = tu.solve(
        system, [R, Q, flip], np.log1p(times), solver="implicit", rtol=1e-6, atol=1e-9
    )
    return np.asarray(solved.error)


def _perceptron_drift(u: Any, state: Any) -> tuple[Any, ...]:
    """With c = r/sqrt(q): E[delta rho] = (1 - 2p - c)/sqrt(2 pi), E[delta lambda] = sqrt(Q) ((1 - 2p) c - 1)/sqrt(2 pi), and
    G is the share of labels that the student does not have."""
    import jax.numpy as jnp

    kept = 1 - 2 * state.flip
    root = np.sqrt(2 * np.pi)
    error = _perceptron_error(state)
    c = jnp.cos(jnp.pi * error)
    along = (kept - c) / root
    own = jnp.sqrt(state.q) * (kept * c - 1) / root
    wrong = state.flip + kept * error
    return (
        jnp.exp(u) * along + state.r,
        jnp.exp(u) * (2 * own + wrong) + 2 * state.q,
        0.0 * state.flip,
    )


def _perceptron_error(state: Any) -> Any:
    import jax.numpy as jnp

    return (
        jnp.arctan2(jnp.sqrt(jnp.maximum(state.q - state.r**2, 1e-12)), state.r)
        / jnp.pi
    )


def _falling(name: str, flip: float, factor: float) -> "tu.Problem":
    return one_unit(
        flip, 1.0, falls=True, timescale=factor * _best(name, flip)[0], loss=name
    )


def _best(name: str, flip: float) -> tuple[float, float]:
    """The best prefactor 1/h of the rate a/alpha, and the limit of error sqrt(alpha) that it has."""
    from scipy import integrate, optimize
    from scipy.special import expit
    from scipy.stats import norm

    def mean(f: Any) -> float:  # over |rho|
        return (
            2 * integrate.quad(lambda z: f(z) * norm.pdf(z), 0.0, 12.0, epsabs=1e-12)[0]
        )

    along: Any
    if name == "squared":
        along = (1 - 2 * flip) * np.sqrt(2 / np.pi)
        h = 1.0
        G = 1 - along**2
    elif name == "hinge":

        def hinge_slope(x):
            return (1 - flip) * (norm.pdf(0) - norm.pdf(1 / x)) - flip * norm.pdf(0)

        along = optimize.brentq(hinge_slope, 0.1, 50.0)
        h = (1 - flip) * 2 * norm.pdf(1 / along) / along
        G = (1 - flip) * (2 * norm.cdf(1 / along) - 1) + flip
    else:

        def logistic_slope(x):
            return mean(
                lambda z: z * ((1 - flip) * expit(-x * z) - flip * expit(x * z))
            )

        along = optimize.brentq(logistic_slope, 0.1, 50.0)
        h = mean(lambda z: expit(along * z) * expit(-along * z))
        G = mean(
            lambda z: (1 - flip) * expit(-along * z) ** 2 + flip * expit(along * z) ** 2
        )
    return float(1 / h), float(np.sqrt(G) / (np.pi * h * along))


def claims_2(data: "Dataset") -> list[Claim]:
    """Floors at constant rates, and limits for rates that fall as 1/alpha."""
    from tutelage_papers.bands import inside_claims

    claims = []
    for p in (float(p) for p in data["flip"]):
        part = data.sel(flip=p)
        name = f"p = {p:g}"
        for lr in part["rate"].values:
            floor = float(part["perceptron_late"].sel(rate=lr)[-1])
            claims.append(
                close(
                    f"{name}: floor of the perceptron at rate {lr:g}",
                    floor,
                    PERCEPTRON[p],
                    rel=WITHIN,
                )
            )
        back = float(part["perceptron_falling"][-1])
        claims.append(
            close(
                f"{name}: the perceptron with rate 1/alpha returns to it",
                back,
                PERCEPTRON[p],
                rel=WITHIN,
            )
        )
        for lr, expected in ADATRON[p].items():
            floor = float(part["adatron_late"].sel(adatron_rate=lr)[-1])
            claims.append(
                close(
                    f"{name}: floor of AdaTron at rate {lr:g}",
                    floor,
                    expected,
                    rel=WITHIN,
                )
            )
        gap = float(np.abs(part["adatron_check"] - part["adatron"]).max())
        claims.append(
            at_most(
                f"{name}: AdaTron by cosine and ln Q against the solve of the problem",
                gap,
                1e-6,
            )
        )
        floor = float(part["logistic_late"][-1])
        claims.append(
            close(
                f"{name}: floor of logistic loss at rate 1",
                floor,
                LOGISTIC[p],
                rel=WITHIN,
            )
        )
        claims += _limits(part, p)
        for rule in part["rule"].values:
            claims += inside_claims(part.sel(rule=rule), f"{name}: {rule}")
    return claims


def _limits(part: "Dataset", p: float) -> list[Claim]:
    """error sqrt(alpha) at the last time: of the best prefactor for losses, of any rate for Hebb's rule."""
    root = np.sqrt(float(part["far"][-1]))
    claims = []
    for name in BEST:
        what = f"p = {p:g}: {name}, error sqrt(alpha)"
        if name == "Hebb":
            found = float(part["hebb_far"][-1]) * root
            law = 1 / ((1 - 2 * p) * np.sqrt(2 * np.pi))
        else:
            found = float(part["scan"].sel(loss=name)[:, -1].min()) * root
            law = float(part["law"].sel(loss=name))
        evidence = f"the law gives {law:.4f}"
        claims.append(
            close(
                f"{what} at the end, best prefactor",
                found,
                BEST[name][p],
                rel=WITHIN,
                evidence=evidence,
            )
        )
        claims.append(close(f"{what} over its law", found / law, 1.0, rel=WITHIN))
    return claims


def draw_2(data: "Dataset") -> "Figure":
    """Constant rates for both shares of flips, and error sqrt(alpha) for rates that fall."""
    small = (
        f"Left, middle: constant rates; marks: mean of {int(data['runs'])} runs, N = {int(data['dim'])}; "
        "dotted gray: floors. Right: rate a/α with the best a; dotted gray: laws."
    )
    figure, axes = panel_grid(
        1,
        3,
        "Flipped labels: floors, and rates that fall",
        small,
        height=3.2,
        width=11.0,
    )
    for panel, p in zip(axes[0], data["flip"].values, strict=False):
        _draw_floors(panel, data.sel(flip=p), float(p))
        label_panel(panel, f"a share p = {p:g} of the labels flipped")
    right = axes[0, 2]
    far = data["far"].values
    after = far >= 10.0
    for i, p in enumerate(data["flip"].values):
        part = data.sel(flip=p)
        for look, name in enumerate(BEST):
            if name == "Hebb":
                error = part["hebb_far"].values
                law = 1 / ((1 - 2 * p) * np.sqrt(2 * np.pi))
            else:
                error = part["scan"].sel(loss=name, factor=1.0).values
                law = float(part["law"].sel(loss=name))
            label = f"{name}, p = {p:g}"
            right.plot(
                far[after],
                (error * np.sqrt(far))[after],
                color=COLORS[look],
                linestyle=DASHES[i],
                label=label,
            )
            right.axhline(law, color=FAINT, linestyle=DASHES[2], linewidth=0.8)
    right.set(
        xlabel=TIME,
        ylabel=r"error $\times\,\sqrt{\alpha}$",
        xscale="log",
        ylim=(0.28, 0.9),
    )
    label_panel(right, r"rates that fall as $1/\alpha$")
    outside_legend(right)
    return figure


def _draw_floors(panel: Any, part: "Dataset", p: float) -> None:
    late = part["late"].values
    times = part["time"].values
    curves = {
        "perceptron": part["perceptron_late"].sel(rate=1.0),
        "logistic": part["logistic_late"],
    }
    for look, (name, curve) in enumerate(curves.items()):
        runs = part.sel(rule=name)
        columns = (runs[f"error{ending}"].values[1:] for ending in ("", "_mean", "_se"))
        draw_band(panel, times[1:], *columns, look=look, dashes=0)
        panel.plot(late, curve, color=COLORS[look], label=rf"{name}, $\eta$ = 1")
    falling = part["perceptron_falling"]
    panel.plot(
        part["fall"],
        falling,
        color=COLORS[0],
        linestyle=DASHES[1],
        label=r"perceptron, $\eta$ = 1/(1 + $\alpha$)",
    )
    for look, lr in enumerate(part["adatron_rate"].values, start=2):
        panel.plot(
            late,
            part["adatron_late"].sel(adatron_rate=lr),
            color=COLORS[look],
            label=rf"AdaTron, $\eta$ = {lr:g}",
        )
    for floor in (PERCEPTRON[p], LOGISTIC[p], *ADATRON[p].values()):
        panel.axhline(floor, color=FAINT, linestyle=DASHES[2], linewidth=0.8)
    panel.set(xlabel=TIME, ylabel="share of wrong classes", xscale="log", yscale="log")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)


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
        title="labels of which some are flipped: floors at constant rates, and rates that fall as 1/alpha",
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
