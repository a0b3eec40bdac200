"""One panel per kind of quantity. A panel is a label, a list of curves and how to tell them apart.

Few curves (up to `FEW`) are named one by one; more are colored by student unit; many share one color.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage.plot.labels import outside_legend
from tutelage.plot.style import COLORS, DASHES, FAINT, stroke

FEW = 9
LAYOUT = {"R": 2, "Q": 2, "readout": 1, "bias": 1}  # known variables and their number of axes beside time
LABELS = {
    "R": "student–teacher\noverlaps $R_{km}$",
    "Q": "student–student\noverlaps $Q_{kl}$",
    "readout": "readouts $v_k$",
    "bias": "biases $b_k$",
}
LETTERS = {"readout": "v", "bias": "b"}


@dataclass(frozen=True)
class Curve:
    """values: (run, time). unit, partner: see `style.stroke`. group: its name where curves are too many to name."""

    values: np.ndarray
    label: str
    unit: int
    partner: int = 0
    group: str = ""


@dataclass(frozen=True)
class Panel:
    label: str
    curves: list[Curve]

    @property
    def values(self) -> np.ndarray:
        return np.stack([c.values for c in self.curves])


def panels_of(trajectory: Any) -> list[Panel]:
    """R and Q, readouts and biases that learn; the variables of a user's own equations."""
    lead = np.ndim(trajectory.error) - 1
    runs = {name: _runs(value, lead) for name, value in trajectory.variables.items()}
    known = [n for n, axes in LAYOUT.items() if n in runs and runs[n].ndim - 2 == axes]
    if known and trajectory.kind != "equations":
        return [Panel(LABELS[n], _named(n, runs[n])) for n in known if n in ("R", "Q") or _moves(runs[n])]
    scalars = [Curve(v, n, i, i) for i, (n, v) in enumerate((n, v) for n, v in runs.items() if v.ndim == 2)]
    arrays = [Panel(n, _entries(n, v)) for n, v in runs.items() if v.ndim > 2]
    return ([Panel(", ".join(c.label for c in scalars), scalars)] if scalars else []) + arrays


def curves_of(name: str, values: np.ndarray) -> list[Curve]:
    """The curves of one variable, (run, time, ...)."""
    if LAYOUT.get(name) == values.ndim - 2:
        return _named(name, values)
    return [Curve(values, name, 0)] if values.ndim == 2 else _entries(name, values)


def _runs(value: Any, lead: int) -> np.ndarray:
    """Leading axes as one: (run, time, ...)."""
    array = np.asarray(value, dtype=float)
    return array.reshape(-1, *array.shape[lead:])


def _moves(values: np.ndarray) -> bool:
    return bool(np.any(np.abs(values - values[:, :1]) > 1e-12))


def _named(name: str, values: np.ndarray) -> list[Curve]:
    if name == "R":
        return _entries("R", values)
    if name == "Q":
        return _gram(values)
    return [Curve(values[..., k], f"${LETTERS[name]}_{{{k + 1}}}$", k, k, f"unit {k + 1}") for k in range(values.shape[-1])]


def _entries(name: str, values: np.ndarray) -> list[Curve]:
    """One curve per entry: color from its first index, dashes from its last."""
    curves = []
    for index in np.ndindex(values.shape[2:]):
        below = _subscript(index, values.shape[2:])
        label = f"${name}_{{{below}}}$" if len(name) == 1 else f"{name} {below}"
        curves.append(Curve(values[(..., *index)], label, index[0], index[-1], f"unit {index[0] + 1}"))
    return curves


def _subscript(index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return ("" if max(shape) < 10 else ",").join(str(i + 1) for i in index)


def _gram(values: np.ndarray) -> list[Curve]:
    """The norms as solid lines, then the overlaps between different units, dashed; each pair once."""
    K = values.shape[-1]
    norms = [Curve(values[..., k, k], f"$Q_{{{_subscript((k, k), (K,))}}}$", k, 0, "norms $Q_{kk}$") for k in range(K)]
    pairs = [(k, l) for k in range(K) for l in range(k + 1, K)]
    return norms + [
        Curve(values[..., k, l], f"$Q_{{{_subscript((k, l), (K,))}}}$", K + i, 1 + i % (len(DASHES) - 1), "pairs $Q_{kl}$")
        for i, (k, l) in enumerate(pairs)
    ]


def draw_panel(axes: Any, times: np.ndarray, panel: Panel) -> None:
    """All curves (the mean over runs, where there are several) and a legend outside them."""
    many = len(panel.curves) > FEW
    groups = list(dict.fromkeys(c.group for c in panel.curves))
    seen: set[str] = set()
    for i, curve in enumerate(panel.curves):
        look = stroke(curve.unit, curve.partner) | {"markevery": spread_marks(times, i, len(panel.curves))}
        label = curve.label
        if many:
            look = shared_look(groups, curve)
            label = f"_{curve.label}" if curve.group in seen or len(groups) > len(COLORS) else curve.group
            seen.add(curve.group)
        axes.plot(times, np.mean(curve.values, axis=0), label=label, **look)
    axes.set_ylabel(panel.label)
    outside_legend(axes)


def shared_look(groups: list[str], curve: Curve) -> dict[str, Any]:
    """Line properties where curves are too many to name: one look per group."""
    place = groups.index(curve.group)
    if len(groups) > len(COLORS):
        return {"color": FAINT, "linewidth": 0.7, "alpha": 0.7}
    return {"color": COLORS[place], "linestyle": DASHES[place % len(DASHES)], "linewidth": 1.0, "alpha": 0.8}


def spread_marks(times: np.ndarray, place: int, count: int, marks: int = 6) -> list[int]:
    """About six marks per curve, those of different curves side by side rather than on top of each other."""
    last = len(times) - 1
    wanted = (np.arange(marks) + (place + 0.5) / count) / marks
    return sorted({int(round(last * w)) for w in wanted if last > 12})
