"""Theory against the network itself: gaps, standard errors, and a verdict in words. docs/compare.md states the criteria.

pairing  -> matching        -> expected    -> gaps     -> escape        -> scatter      -> verdict    -> comparison
do they     hidden units in    the gap of     z-scores    who decides     of single       in words      the result, with
belong?     the same order     order 1/N                  the escape?     runs                          table, figure, page
"""

from tutelage.comparison.compare import compare
from tutelage.comparison.comparison import Comparison
from tutelage.comparison.gaps import Gap

__all__ = ["Comparison", "Gap", "compare"]
