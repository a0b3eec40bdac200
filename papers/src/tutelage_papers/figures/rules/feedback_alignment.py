"""Direct feedback alignment: the error returns through fixed weights f.

The readouts v learn to point along them.
"""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import (
    draw_error,
    draw_wrong_error,
    legend_below,
    line_of,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}
# By time: the error of "large v, same sign".
DIGITS = {3.0: 0.07042411, 15.0: 0.01594848, 30.0: 0.01299754, 60.0: 0.00503420}
# Readout at first, and feedback.
CASES = {
    "small v": ([0.05, -0.05], [1.0, 0.5]),
    "large v, other sign": ([0.6, 0.4], [1.0, -0.5]),
    "large v, same sign": ([0.6, 0.4], [1.0, 0.5]),
}
ALIGNED = 0.9


def aligned(
    readout: list[float], feedback: list[float], lr: float, train_readout: bool = True
) -> "tu.Problem":
    """Two erf units learn from two others; readouts learn at half the rate."""
    student = tu.Network(2, "erf", readout=readout, train_readout=train_readout)
    teacher = tu.Network(2, "erf")
    rule = tu.rules.FeedbackAlignment(feedback)
    optimizer = tu.SGD(lr, readout_lr=lr / 2)
    return tu.Problem(student, teacher, optimizer=optimizer, rule=rule)


def compute_5(
    lr: float,
    end: float,
    points: int,
    last: float,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return theory of three cases, runs of the first, and signs of readouts.

    agree: whether v takes the signs of f, for eight pairs. gap: between the rule and
    backpropagation with fixed readouts equal to f.
    """
    from tutelage_papers.bands import against_runs

    start = tu.Start(**START)
    times = tu.linear_times(end, points)
    long = np.linspace(0.0, last, points)
    curves = [tu.solve(aligned(v, f, lr), start, times) for v, f in CASES.values()]
    agree = []
    for readout in ([0.6, 0.4], [0.05, -0.05]):
        for first, second in product((1.0, -1.0), (0.5, -0.5)):
            feedback = [first, second]
            late = tu.solve(aligned(readout, feedback, lr), start, long)
            agree.append(np.all(np.sign(late.readout[-1]) == np.sign(feedback)))
    fixed = aligned([1.0, 1.2], [1.0, 1.2], lr, train_readout=False)
    by_feedback = tu.solve(fixed, start, times)
    by_gradient = tu.solve(fixed.replace(rule="gradient"), start, times)
    data = against_runs(
        aligned(*CASES["small v"], lr),
        start,
        dim=dim,
        times=tu.linear_times(runs_end, 11),
        runs=runs,
        seed=seed,
    )
    data["case"] = list(CASES)
    data["late"] = times
    data["case_error"] = (("case", "late"), np.array([x.error for x in curves]))
    data["alignment"] = (("case", "late"), np.array([x.alignment for x in curves]))
    data["agree"] = ("pair", np.array(agree, dtype=float))
    data["gap"] = np.abs(by_feedback.error - by_gradient.error).max()
    return data.assign(dim=dim, runs=runs)


def _first(data: "Dataset", reached: Any) -> float:
    """The first time at which a condition holds; the last time if it never does."""
    holds = np.asarray(reached)
    place = np.argmax(holds) if holds.any() else -1
    return float(data["late"].values[place])


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """Digits, signs, alignment before or after learning, and backpropagation.

    Backpropagation is the special case of fixed readouts that are equal to f.
    """
    from tutelage_papers.bands import inside_claims

    error = data["case_error"]
    digits = error.sel(case="large v, same sign")
    for time, expected in DIGITS.items():
        at_time = digits.sel(late=time, method="nearest")
        yield close(f"e_g({time:g})", at_time, expected, rel=1e-5)
    yield close(
        "pairs of v and f whose readouts take the signs of f, of 8",
        data["agree"].sum(),
        8,
        rel=1e-9,
    )
    words = f"time of cosine {ALIGNED:g}"
    versus = f"{words}, against that of half the error"
    turned, half = _turned_and_half(data, "small v")
    yield below(f"small v: {versus}", turned, half)
    yield close(f"small v: {words}", turned, 0.8, absolute=0.15)
    yield close("small v: time of half the error", half, 2.7, absolute=0.15)
    turned, half = _turned_and_half(data, "large v, other sign")
    yield above(f"large v, other sign: {versus}", turned, half)
    yield at_most(
        "fixed readouts equal to f: largest gap to backpropagation", data["gap"], 1e-10
    )
    yield from inside_claims(data, f"small v, N = {int(data['dim'])}")


def _turned_and_half(data: "Dataset", case: str) -> tuple[float, float]:
    """The times at which v is aligned with f, and at which half the error is left."""
    part = data.sel(case=case)
    error = part["case_error"]
    turned = _first(data, part["alignment"] > ALIGNED)
    half = _first(data, error < error.isel(late=0) / 2)
    return turned, half


def _in_words(case: str) -> str:
    """The initial readouts and the feedback of a case."""
    readout, feedback = CASES[str(case)]
    v = ", ".join(f"{x:g}" for x in readout)
    f = ", ".join(f"{x:g}" for x in feedback)
    return f"$v$ = ({v}) at first, $f$ = ({f})"


def draw_5(data: "Dataset") -> "Figure":
    """Cosine between readout and feedback, the error, and runs of the first case."""
    small = (
        "Two erf units learn from two. Right: line: theory; marks: mean of "
        f"{int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors "
        "of it."
    )
    title = "Direct feedback alignment"
    figure, axes = panel_grid(1, 3, title, small, height=3.0, width=10.5)
    cosines, errors, networks = axes[0]
    for look, case in enumerate(data["case"].values):
        line = line_of(look) | {"label": _in_words(case)}
        cosines.plot(data["late"], data["alignment"].sel(case=case), **line)
        errors.plot(data["late"], data["case_error"].sel(case=case), **line)
    cosines.axhline(ALIGNED, color=FAINT, linewidth=0.8)
    draw_error(networks, data, label=_in_words("small v"))
    draw_wrong_error(networks, data)
    cosines.set(xlabel=TIME, ylabel="cosine of $v$ and $f$")
    errors.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    networks.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    label_panel(cosines, "alignment")
    label_panel(errors, "learning")
    label_panel(networks, "networks")
    for panel in axes[0]:
        legend_below(panel, columns=1)
    return figure


PRINTED: dict[str, Any] = {
    "lr": 1.0,
    "end": 60.0,
    "points": 601,
    "last": 300.0,
    "seed": 5,
}

FIGURES = (
    Replica(
        id="rules-5",
        source="rules",
        figure="feedback alignment",
        title="Direct feedback alignment: readouts turn towards the feedback",
        full=PRINTED | {"runs_end": 10.0, "dim": 1000, "runs": 200},
        quick=PRINTED | {"runs_end": 4.0, "dim": 400, "runs": 60},
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
)
