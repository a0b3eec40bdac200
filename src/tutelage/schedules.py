"""Learning rates that change in time, and `optimize`: the schedule that makes the error smallest.

    tu.SGD(lr=tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=10.0))

Any JAX function of the time alpha is a schedule too.
"""

from tutelage.analysis.schedule_search import OptimalSchedule, optimize
from tutelage.problem.schedules import Constant, Cosine, Interpolated, Piecewise, PowerDecay, Restarted

__all__ = ["Constant", "Cosine", "Interpolated", "OptimalSchedule", "Piecewise", "PowerDecay", "Restarted", "optimize"]
