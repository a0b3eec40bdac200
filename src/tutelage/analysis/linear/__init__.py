"""The linear network, exactly solvable: one unit on any spectrum, at any learning rate, also at finite N.

rank_one (eigensystem) -> relaxation (mean-square dynamics, in the limit or step by step) -> linear_network
The names below are the parts from which other closed solutions are built (`tutelage.papers.power_law`).
"""

from tutelage.analysis.linear.linear_network import no_steady_state, require_linear
from tutelage.analysis.linear.relaxation import Relaxation, at_times, log_slope

__all__ = ["Relaxation", "at_times", "log_slope", "no_steady_state", "require_linear"]
