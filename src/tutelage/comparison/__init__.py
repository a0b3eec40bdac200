"""Theory against finite networks: gaps, standard errors, and a verdict in words. docs/compare.md states the criteria.

pairing             -> verdict                 -> expected    -> compare
same problem, times    z-scores, escapes,         the gap of     the result, with
and order of units     scatter, the decision      order 1/N      table, figure and page
"""

from tutelage.comparison.compare import Comparison, compare
from tutelage.comparison.gaps import gaps
from tutelage.comparison.verdict import Gap

__all__ = ["Comparison", "Gap", "compare", "gaps"]
