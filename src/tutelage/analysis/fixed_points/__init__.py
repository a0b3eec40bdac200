"""Where learning rests, and how fast it comes or leaves.

symmetry (subspaces of alike units), roots (the search), modes (mode_names: what they do) -> find (the verb) -> result
learning_rates, noise_floors: the dynamics near perfect learning (dynamics/perfect_learning.py), by rate and by noise.
constant_rates: what is asked of a problem before it can rest.
"""

from tutelage.analysis.fixed_points.constant_rates import with_constant_rates
from tutelage.analysis.fixed_points.find import fixed_point
from tutelage.analysis.fixed_points.learning_rates import (
    BestRate,
    CriticalRate,
    DecayRate,
    best_constant_rate,
    critical_learning_rate,
    decay_rate,
)
from tutelage.analysis.fixed_points.modes import Mode
from tutelage.analysis.fixed_points.noise_floors import NoiseFloor, noise_floor
from tutelage.analysis.fixed_points.result import FixedPoint

__all__ = [
    "BestRate",
    "CriticalRate",
    "DecayRate",
    "FixedPoint",
    "Mode",
    "NoiseFloor",
    "best_constant_rate",
    "critical_learning_rate",
    "decay_rate",
    "fixed_point",
    "noise_floor",
    "with_constant_rates",
]
