"""The best learning rates, tasks and other numbers in time: `optimize` and `greedy`.

controls.py      the numbers of a problem that a protocol may control
arguments.py     checks of the arguments
objectives.py    the integral of the error, and the time to a level
search.py        the objective as a function of a point
evaluation.py    value and slopes of a point
descents.py      a descent from a point to an optimum, and the test that it is one
candidates.py    the protocols from which descents begin
optimization.py  `optimize`
result.py        `OptimalProtocol`
greedy_rate.py   `greedy`
"""

from tutelage.analysis.protocols.greedy_rate import greedy
from tutelage.analysis.protocols.optimization import optimize
from tutelage.analysis.protocols.result import OptimalProtocol

__all__ = ["OptimalProtocol", "greedy", "optimize"]
