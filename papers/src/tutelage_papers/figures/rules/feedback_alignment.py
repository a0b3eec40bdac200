"""Direct feedback alignment: the error returns through fixed weights f, and the readouts v learn to point along them."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}
DIGITS = {3.0: 0.07042411, 15.0: 0.01594848, 30.0: 0.01299754, 60.0: 0.00503420}
CASES = {  # readout at first, and feedback
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
    rule = tu.rules.FeedbackAlignment(feedback)
    return tu.Problem(
        student,
        tu.Network(2, "erf"),
        optimizer=tu.SGD(lr, readout_lr=lr / 2),
        rule=rule,
    )


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
    """Theory of three cases; runs and the wrong theory of the first; signs of eight pairs of v and f; fixed readouts."""
    from tutelage_papers.bands import against_runs

    start = tu.Start(**START)
    times = tu.linear_times(end, points)
    curves = [tu.solve(aligned(v, f, lr), start, times) for v, f in CASES.values()]
    signs = [(a, b) for a in (1.0, -1.0) for b in (0.5, -0.5)]
    agree = []
    for v in ([0.6, 0.4], [0.05, -0.05]):
        for f in signs:
            late = tu.solve(
                aligned(v, list(f), lr), start, np.linspace(0.0, last, points)
            )
            agree.append(np.all(np.sign(late.readout[-1]) == np.sign(f)))
    fixed = aligned([1.0, 1.2], [1.0, 1.2], lr, train_readout=False)
    pair = [
        tu.solve(problem, start, times)
        for problem in (fixed, fixed.replace(rule="gradient"))
    ]
    early = tu.linear_times(runs_end, 11)
    data = against_runs(
        aligned(*CASES["small v"], lr),
        start,
        dim=dim,
        times=early,
        runs=runs,
        seed=seed,
    )
    return data.assign(
        case_error=(("case", "late"), np.array([x.error for x in curves])),
        alignment=(("case", "late"), np.array([x.alignment for x in curves])),
        agree=("pair", np.array(agree, dtype=float)),
        gap=np.abs(pair[0].error - pair[1].error).max(),
        case=list(CASES),
        late=times,
        dim=dim,
        runs=runs,
    )


def _first(data: "Dataset", reached: Any) -> float:
    """The first time at which a condition holds; the last time if it never does."""
    holds = np.asarray(reached)
    return float(data["late"].values[np.argmax(holds) if holds.any() else -1])


def claims_5(data: "Dataset") -> list[Claim]:
    """Digits, signs, which comes first (alignment or learning), and backpropagation as a special case."""
    from tutelage_papers.bands import inside_claims

    error = data["case_error"]
    alignment = data["alignment"]
    digits = error.sel(case="large v, same sign")
    claims = [
        close(f"e_g({t:g})", float(digits.sel(late=t, method="nearest")), x, rel=1e-5)
        for t, x in DIGITS.items()
    ]
    claims.append(
        close(
            "pairs of v and f whose readouts take the signs of f, of 8",
            float(data["agree"].sum()),
            8,
            rel=1e-9,
        )
    )
    for case, check in (("small v", below), ("large v, other sign", above)):
        half = _first(
            data, error.sel(case=case) < error.sel(case=case).isel(late=0) / 2
        )
        turned = _first(data, alignment.sel(case=case) > ALIGNED)
        claims.append(
            check(
                f"{case}: time of cosine {ALIGNED:g}, against that of half the error",
                turned,
                half,
            )
        )
        if case == "small v":
            claims += [
                close(
                    f"{case}: time of cosine {ALIGNED:g}", turned, 0.8, absolute=0.15
                ),
                close(f"{case}: time of half the error", half, 2.7, absolute=0.15),
            ]
    claims.append(
        at_most(
            "fixed readouts equal to f: largest gap to backpropagation",
            float(data["gap"]),
            1e-10,
        )
    )
    return claims + inside_claims(data, f"small v, N = {int(data['dim'])}")


def _in_words(case: str) -> str:
    """The initial readouts and the feedback of a case."""
    v, f = (", ".join(f"{x:g}" for x in numbers) for numbers in CASES[str(case)])
    return f"$v$ = ({v}) at first, $f$ = ({f})"


def draw_5(data: "Dataset") -> "Figure":
    """Cosine between readout and feedback, the error, and runs of the first case."""
    small = (
        f"Two erf units learn from two. Right: line: theory; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; bands: ± 2 standard errors of it."
    )
    figure, axes = panel_grid(
        1, 3, "Direct feedback alignment", small, height=3.0, width=10.5
    )
    left, middle, right = axes[0]
    for i, case in enumerate(data["case"].values):
        look: dict[str, Any] = {
            "color": COLORS[i],
            "linestyle": DASHES[i],
            "label": _in_words(case),
        }
        left.plot(data["late"], data["alignment"].sel(case=case), **look)
        middle.plot(data["late"], data["case_error"].sel(case=case), **look)
    left.axhline(ALIGNED, color=FAINT, linewidth=0.8)
    draw_band(
        right,
        data["time"].values,
        data["error"],
        data["error_mean"],
        data["error_se"],
        label=_in_words("small v"),
    )
    right.plot(
        data["time"],
        data["error_wrong"],
        color=FAINT,
        linestyle=DASHES[2],
        linewidth=1.2,
        label="0.9 G",
    )
    left.set(xlabel=TIME, ylabel="cosine of $v$ and $f$")
    middle.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    for panel, text in zip(axes[0], ("alignment", "learning", "networks"), strict=True):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)
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
