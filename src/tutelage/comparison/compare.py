"""`compare`: do the runs follow the theory?"""

from typing import Any

from tutelage import checks
from tutelage.comparison.comparison import Comparison
from tutelage.comparison.escape import find_escape
from tutelage.comparison.expected import expected_gaps
from tutelage.comparison.gaps import FINEST, Gap, measure
from tutelage.comparison.matching import match
from tutelage.comparison.pairing import Pair, pair
from tutelage.comparison.resolved import noticeable_change, with_shift
from tutelage.comparison.scatter import predicted_scatter
from tutelage.comparison.verdict import AGREE, BIASED, decide
from tutelage.trajectory import Trajectory
from tutelage.validity import Validity


def compare(theory: Trajectory, runs: Trajectory, *, fluctuations: bool = True) -> Comparison:
    """Hold the mean over runs against the theory, quantity by quantity and time by time, and say whether they agree.

    theory: what `solve` returned (or `load`); runs: what `simulate` returned for the same problem, start and times. Of
    one's own `Equations`, give runs of the same names as a Trajectory with a leading run axis.

    Hidden units are matched first. Each gap gets a standard error, a z-score and the gap of order 1/N that a right theory
    leaves; the verdict is "agree", "agree within the expected finite-N bias", "differ: ..." or, where noise rather than the
    start decides the escape from a plateau, says that and compares times of escape. docs/compare.md has the criteria.
    fluctuations: also predict how far the errors of single runs scatter, where that takes a second or two.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> theory = tu.solve(problem, start, times=tu.linear_times(10, 11))
    >>> runs = tu.simulate(problem, start, times=tu.linear_times(10, 11), runs=10, seed=1)
    >>> result = tu.compare(theory, runs, fluctuations=False)
    >>> result.agrees, result.verdict.outcome
    (True, 'agree')
    """
    together, matching = match(with_shift(pair(theory, runs), theory))
    gaps = _gaps(together, float(dict(theory.settings).get("rtol", FINEST)))
    validity = _validity(theory, together)
    escape = find_escape(together, validity)
    swapped = 0 if matching is None else matching.count
    predict = checks.as_flag("fluctuations", fluctuations)
    verdict = decide(gaps, together.times, escape, swapped, together.count)
    right = AGREE in (verdict.outcome, verdict.before) or BIASED in (verdict.outcome, verdict.before)
    return Comparison(
        theory=theory,
        runs=runs,
        times=together.times,
        count=together.count,
        dim=together.dim,
        gaps=gaps,
        matching=matching,
        escape=escape,
        validity=validity,
        scatter=predicted_scatter(together, theory, escape) if predict else None,
        verdict=verdict,
        noticeable=noticeable_change(together, theory, gaps, verdict.counted) if right else None,
        notes=(*together.notes, *_notes(together, swapped, escape)),
    )


def _gaps(together: Pair, rtol: float) -> dict[str, Gap]:
    expected, out = expected_gaps(together), {}
    for name in together.compared:
        sides = together.theory[name], together.runs[name]
        out[name] = measure(name, *sides, expected.gaps[name], expected.rough, together.shift.get(name), rtol)
    return out


def _validity(theory: Trajectory, together: Pair) -> Validity | None:
    """The theory's own report."""
    return None if theory.problem is None or theory.start is None else theory.validity


def _notes(together: Pair, swapped: int, escape: Any) -> tuple[str, ...]:
    notes = []
    if together.gradient_flow:
        notes.append("the theory is gradient flow: without the terms of order eta^2 that the runs have")
    if 1 < together.count < 5:
        notes.append(f"{together.count} runs give a standard error that is itself uncertain; run 10 or more")
    if swapped and (escape is None or not escape.by_noise):
        notes.append(f"{swapped} of {together.count} runs had their hidden units relabeled before averaging")
    return tuple(notes)
