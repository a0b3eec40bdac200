"""`compare`: runs against the theory, as a list of analyses.

Each analysis is one module with a typed result. Most take the `Pair` of theory and
runs, or the results of analyses before them. Only the search for a missed factor takes
the trajectories as they were given, because it simulates the changed problem.
"""

from dataclasses import replace

from tutelage import checks
from tutelage.comparison.escape import find_escape
from tutelage.comparison.expected import expected_gap
from tutelage.comparison.gaps import measure_gaps, theory_accuracy
from tutelage.comparison.level_shift import LevelShift, level_shift
from tutelage.comparison.matching import Matching, match
from tutelage.comparison.missed_factors import MissedFactor, find_missed_factor
from tutelage.comparison.pairing import pair
from tutelage.comparison.power import detectable_change
from tutelage.comparison.result import Comparison
from tutelage.comparison.scatter import predict_scatter
from tutelage.comparison.verdict import Verdict, decide
from tutelage.plot.labels import capital
from tutelage.result.trajectory import Trajectory

FEW_RUNS = 5  # fewer give an uncertain standard error


def compare(
    theory: Trajectory, runs: Trajectory, *, fluctuations: bool = True
) -> Comparison:
    """Compare the mean over runs with the theory, for each quantity and time.

    Parameters
    ----------
    theory : Trajectory
        The result of `solve` (or `load`).
    runs : Trajectory
        The result of `simulate` for the same problem, initial condition and times; for
        custom `Equations` a Trajectory of the same variable names with a leading axis
        of runs.
    fluctuations : bool
        Also predict the scatter of single runs, if this takes no more than a second or
        two.

    Returns
    -------
    Comparison
        `.verdict`, `.agrees`, the gaps by name, `.plot()`, `.save_html(path)`. The
        verdict is "agree", "agree within the expected finite-N bias", "differ",
        "inconclusive after the plateau" if SGD noise determines the escape from a
        plateau, or "inconclusive" for one run. docs/compare.md states the criteria.

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> times = tu.linear_times(10, 11)
    >>> theory = tu.solve(problem, start, times=times)
    >>> runs = tu.simulate(problem, start, times=times, runs=10, seed=1)
    >>> result = tu.compare(theory, runs, fluctuations=False)
    >>> result.agrees, result.verdict.outcome, result["R"].z.shape
    (True, 'agree', (11, 2, 2))
    """
    with_scatter = checks.as_flag("fluctuations", fluctuations)
    matching = match(pair(theory, runs))
    matched = matching.pair
    expected = expected_gap(matched)
    shift = level_shift(matched)
    accuracy = theory_accuracy(matched)
    gaps = measure_gaps(matched, expected, shift, accuracy)
    validity = None
    if theory.has_validity:
        validity = theory.validity
    escape = find_escape(matched, validity)
    verdict = decide(gaps, matched.times, escape, matched.count)
    missed_factor = find_missed_factor(theory, runs, verdict)
    scatter = None
    if with_scatter:
        scatter = predict_scatter(matched, escape)
    power = detectable_change(matched, gaps, verdict)
    return Comparison(
        theory=theory,
        runs=runs,
        times=matched.times,
        count=matched.count,
        dim=matched.dim,
        gaps=gaps,
        relabeled=matching.relabeled,
        escape=escape,
        validity=validity,
        scatter=scatter,
        verdict=_explained(verdict, missed_factor),
        missed_factor=missed_factor,
        power=power,
        notes=_notes(matching, shift, accuracy.is_sampled),
    )


def _explained(verdict: Verdict, missed_factor: MissedFactor | None) -> Verdict:
    """Return the verdict with the factor that would explain it, if there is one."""
    if missed_factor is None:
        return verdict
    sentence = f"{verdict.sentence.rstrip('.')}. {capital(str(missed_factor))}"
    return replace(verdict, sentence=sentence)


def _notes(matching: Matching, shift: LevelShift, is_sampled: bool) -> tuple[str, ...]:
    """Return remarks on the verdict."""
    matched = matching.pair
    notes = list(matched.notes)
    if shift.note is not None:
        notes.append(shift.note)
    if matched.gradient_flow:
        notes.append(
            "the theory is gradient flow: without the terms of order eta^2 that the "
            "runs have"
        )
    if 1 < matched.count < FEW_RUNS:
        notes.append(
            f"{matched.count} runs give a standard error that is itself uncertain; "
            "run 10 or more"
        )
    if is_sampled:
        notes.append(
            "the theory's averages are sampled: half of their sampling error counts "
            "as a standard error, too"
        )
    if matching.count > 0:
        notes.append(
            f"{matching.count} of {matched.count} runs had their hidden units relabeled "
            "before averaging"
        )
    return tuple(notes)
