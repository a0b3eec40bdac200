"""Exponents and weak recovery of ten targets, against a direct computation.

The second route puts fields on a grid of equal probability, sorts their labels into cells
and averages Hermite polynomials over each cell.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, panel_grid
from tutelage_papers.claims import Claim, above, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

DEGREES = 5
SMALL = 0.05  # a coefficient of the second route below this counts as zero


class Target(NamedTuple):
    """A label as a function of fields: (n, units) -> (n,), and what is expected.

    recovery: the ratio of weak recovery, NaN where only the second route gives it.
    """

    units: int
    label: Callable[[Any, Any], Any]
    information: int
    generative: int
    recovery: float


def _sign(x: Any, xp: Any) -> Any:
    return xp.where(x < 0, -1.0, 1.0)


TARGETS = {
    "z": Target(1, lambda z, xp: z[0], 1, 1, 0.0),
    "sign z": Target(1, lambda z, xp: _sign(z[0], xp), 1, 1, 0.0),
    "tanh 2z": Target(1, lambda z, xp: xp.tanh(2 * z[0]), 1, 1, 0.0),
    "max(z, 0)": Target(1, lambda z, xp: xp.maximum(z[0], 0.0), 1, 1, 0.0),
    "z²": Target(1, lambda z, xp: z[0] ** 2, 2, 2, 0.5),
    "|z|": Target(1, lambda z, xp: xp.abs(z[0]), 2, 2, 0.5),
    "sign(z² − 1)": Target(1, lambda z, xp: _sign(z[0] ** 2 - 1, xp), 2, 2, np.nan),
    "z³ − 3z": Target(1, lambda z, xp: z[0] ** 3 - 3 * z[0], 3, 1, 0.0),
    "sign(z₁ z₂)": Target(2, lambda z, xp: _sign(z[0] * z[1], xp), 2, 2, np.pi**2 / 4),
    "sign z₁ + sign z₂": Target(
        2, lambda z, xp: _sign(z[0], xp) + _sign(z[1], xp), 1, 1, 0.0
    ),
}


def problem_of(target: Target) -> "tu.Problem":
    """Return a problem whose labels are this target."""
    import jax.numpy as jnp

    def label(rho: Any, xi: Any) -> Any:
        return target.label(rho, jnp)

    return tu.Problem(
        tu.Network(1, "linear"),
        tu.Network(target.units, "linear"),
        labels=tu.labels.Function(label),
    )


def directly(target: Target, points: int, cells: int) -> tuple[int, int, float]:
    """Return both exponents and the ratio of weak recovery by cells of labels."""
    from scipy.special import eval_hermitenorm, factorial, ndtri

    per_field = points if target.units == 1 else int(np.sqrt(points))
    axis = ndtri((np.arange(per_field) + 0.5) / per_field)
    fields = [x.ravel() for x in np.meshgrid(*([axis] * target.units))]
    y = np.asarray(target.label(fields, np), float)
    values, cell = np.unique(np.round(y, 9), return_inverse=True)
    if len(values) > cells:
        order = np.argsort(y, kind="stable")
        cell = np.empty(len(y), int)
        cell[order] = np.arange(len(y)) * cells // len(y)
    weight = np.bincount(cell) / len(y)
    standard = (y - y.mean()) / y.std()

    def of_cells(x: np.ndarray) -> np.ndarray:
        return np.bincount(cell, x) / np.bincount(cell)

    information = 0
    generative = 0
    for degree in range(1, DEGREES + 1):
        label_part = 0.0
        given_part = 0.0
        for first in range(degree + 1 if target.units == 2 else 1):
            degrees = (degree - first, first)[: target.units]
            product = np.ones(len(y))
            for z, k in zip(fields, degrees, strict=True):
                product = product * eval_hermitenorm(k, z) / np.sqrt(factorial(k))
            label_part += float(np.mean(standard * product)) ** 2
            given_part += float(weight @ of_cells(product) ** 2)
        if information == 0 and label_part > SMALL**2:
            information = degree
        if generative == 0 and given_part > SMALL**2:
            generative = degree
    if generative == 1:
        return information, generative, 0.0
    count = target.units
    G = np.empty((len(weight), count, count))
    for a in range(count):
        for b in range(count):
            G[:, a, b] = of_cells(fields[a] * fields[b]) - float(a == b)
    operator = sum(w * np.kron(g, g) for w, g in zip(weight, G, strict=True))
    strength = float(np.max(np.linalg.eigvalsh(np.asarray(operator))))
    return information, generative, 1 / strength


def compute_6(points: int, cells: int) -> "Dataset":
    """Compute the table by the library and by the second route."""
    import xarray as xr

    rows = []
    routes = []
    for target in TARGETS.values():
        problem = problem_of(target)
        rows.append(
            [
                int(tu.analysis.information_exponent(problem)),
                int(tu.analysis.generative_exponent(problem)),
                float(tu.analysis.weak_recovery(problem)),
            ]
        )
        routes.append(directly(target, points, cells))
    names = ["information exponent", "generative exponent", "weak recovery"]
    return xr.Dataset(
        {
            "table": (("target", "quantity"), np.array(rows, float)),
            "route": (("target", "quantity"), np.array(routes, float)),
        },
        coords={"target": list(TARGETS), "quantity": names},
    )


def claims_6(data: "Dataset") -> Iterator[Claim]:
    """The table agrees with what is known and with the second route."""
    for name, target in TARGETS.items():
        information, generative, recovery = data["table"].sel(target=name).values
        route = data["route"].sel(target=name).values
        yield close(
            f"{name}: information exponent", information, target.information, absolute=0
        )
        yield close(
            f"{name}: generative exponent", generative, target.generative, absolute=0
        )
        yield close(
            f"{name}: information exponent by cells", route[0], information, absolute=0
        )
        yield close(
            f"{name}: generative exponent by cells", route[1], generative, absolute=0
        )
        if np.isfinite(target.recovery):
            yield close(
                f"{name}: weak recovery", recovery, target.recovery, absolute=2e-3
            )
        yield close(
            f"{name}: weak recovery by cells", route[2], recovery, absolute=0.02
        )
    # a control: pairs of fields need more samples than one field
    table = data["table"].sel(quantity="weak recovery")
    yield above(
        "weak recovery of sign(z₁ z₂) over that of z² (control)",
        table.sel(target="sign(z₁ z₂)") / table.sel(target="z²"),
        4.0,
    )


def draw_6(data: "Dataset") -> "Figure":
    """Exponents and ratios of weak recovery of the targets."""
    small = "Bars: library; marks: averages over cells of labels, a second route."
    figure, axes = panel_grid(
        1,
        3,
        "Which targets are found, and when",
        small,
        height=3.4,
        width=10.0,
        sharey=True,
    )
    places = np.arange(data.sizes["target"])[::-1]
    for column, (panel, name) in enumerate(
        zip(axes[0], data["quantity"].values, strict=True)
    ):
        panel.barh(
            places,
            data["table"].sel(quantity=name),
            color=COLORS[column],
            height=0.55,
        )
        panel.plot(
            data["route"].sel(quantity=name), places, "o", color="black", markersize=4
        )
        panel.set_xlabel(str(name) if column < 2 else "weak recovery, $n/N$")
        panel.set_xlim(left=-0.08)
    axes[0, 0].set_yticks(places, [str(x) for x in data["target"].values])
    return figure


FIGURES = (
    Replica(
        id="static-6",
        source="static",
        figure="exponents",
        title="Exponents and weak recovery of ten targets",
        full={"points": 4_000_000, "cells": 2000},
        quick={"points": 250_000, "cells": 400},
        compute=compute_6,
        draw=draw_6,
        claims=claims_6,
    ),
)
