"""A figure that costs nothing, and counts how often it is computed and drawn."""

from collections import Counter

import xarray as xr
from matplotlib.figure import Figure

from tutelage_papers import Replica, at_most, close, refuted

CALLS: Counter = Counter()


def compute(size, slope):
    CALLS["compute"] += 1
    return xr.Dataset(
        {"y": ("x", [slope * i for i in range(size)])}, coords={"x": range(size)}
    ).assign(slope=slope)


def draw(data):
    CALLS["draw"] += 1
    figure = Figure(figsize=(3, 2), layout="constrained")
    figure.subplots().plot(data["x"], data["y"])
    return figure


def refuse(data):
    raise RuntimeError("no ink")


def claims(data):
    slope = float(data["slope"])
    said = close("slope of eq. 7", slope, 3.0, rel=0.01, says="the slope is <three>")
    return [
        close("slope", slope, 2.0, rel=1e-9),
        at_most("rows", data.sizes["x"], 10),
        refuted(said, evidence="the slope is 2 for every size & start"),
    ]


def toy(name="toy-1", slope=2.0, draw=draw, compute=compute, page=None):
    return Replica(
        id=name,
        source="beyond",
        figure="Fig. 7",
        title="a line & its slope",
        full={"size": 8, "slope": slope},
        quick={"size": 4, "slope": slope},
        compute=compute,
        draw=draw,
        claims=claims,
        page=page,
    )
