"""The linear network, exactly solvable: one unit on any spectrum, at any rate, also at finite N.

rank_one (eigensystem) -> relaxation (mean square dynamics; time_scale: limit or steps) -> network (the verb), modes
spectrum_fit: is a spectrum a power law?
"""

from tutelage.analysis.linear.modes import LinearModes
from tutelage.analysis.linear.network import LinearNetwork, linear_network, no_steady_state, require_linear
from tutelage.analysis.linear.relaxation import Relaxation
from tutelage.analysis.linear.spectrum_fit import SpectralExponent, spectral_exponent
from tutelage.analysis.linear.time_scale import at_times, log_slope

__all__ = [
    "LinearModes",
    "LinearNetwork",
    "Relaxation",
    "SpectralExponent",
    "at_times",
    "linear_network",
    "log_slope",
    "no_steady_state",
    "require_linear",
    "spectral_exponent",
]
