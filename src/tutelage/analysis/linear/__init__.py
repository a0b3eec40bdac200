"""The linear network, exactly solvable: one unit on any spectrum, at any rate, also at finite N.

rank_one (eigensystem) -> relaxation (mean square dynamics; clock: limit or steps) -> network (the verb), modes
power_sum: its error on a power law as sum, integral and bounds.  features: only some of the raw inputs trained.
"""

from tutelage.analysis.linear.features import RawFeatures, raw_features
from tutelage.analysis.linear.modes import LinearModes
from tutelage.analysis.linear.network import LinearNetwork, linear_network
from tutelage.analysis.linear.power_sum import PowerLawSum

__all__ = ["LinearModes", "LinearNetwork", "PowerLawSum", "RawFeatures", "linear_network", "raw_features"]
