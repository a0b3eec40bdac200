"""Comparison of the theory with finite networks. docs/compare.md states the criteria.

`compare.py` is a list of analyses. Each is one module with a typed result:

    pairing.py         Pair: theory and runs, of one problem, start and times
    matching.py        Matching: hidden units of the runs in the order of the theory
    expected.py        ExpectedGap: the finite-N gap of order 1/N, by mean_steps.py (one
                       step beyond the limit) and momentum.py
    level_shift.py     LevelShift: whole numbers of dimensions in each level
    gaps.py            Gap: standard errors and z-scores of each quantity
    escape.py          Escape: times of escape from a plateau
    verdict.py         Verdict: the decision, in a word and in a sentence
    missed_factors.py  MissedFactor: a factor that recorded runs have missed
    scatter.py         Scatter: of single runs, predicted and measured
    power.py           Power: the change of the rate that would be detected

`variants.py` solves a changed problem again, `result.py` has the `Comparison`, and
`report.py` its text and page. To add an analysis: write its module, call it in
`compare`, and add it to `Comparison` and its `remarks`.
"""

from tutelage.comparison.compare import compare
from tutelage.comparison.gaps import Gap, gaps
from tutelage.comparison.result import Comparison

__all__ = ["Comparison", "Gap", "compare", "gaps"]
