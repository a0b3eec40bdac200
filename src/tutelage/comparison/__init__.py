"""Theory against finite networks: gaps, standard errors, and a verdict in words. docs/compare.md states the criteria.

pairing             -> expected    -> noise                -> verdict              -> compare, report
same problem, times    the gap of     escape times, and       z-scores and the        the result, with
and order of units     order 1/N      scatter of the runs     decision in words       table, figure and page
"""

from tutelage.comparison.compare import Comparison, compare
from tutelage.comparison.verdict import Gap

__all__ = ["Comparison", "Gap", "compare"]
