"""The linear network, exactly solvable: one unit on any spectrum, at any rate, also at finite N.

rank_one (eigensystem) -> relaxation (mean square dynamics; clock: limit or steps) -> network (the verb), modes
power_sum: its error on a power law as sum, integral and bounds.  features: only some of the raw inputs trained; turned: the
same in a random basis, for large N.  spectrum_fit: is a spectrum a power law?  teacher_moments: how random teachers differ.
"""

from tutelage.papers.power_law.raw_features import RawFeatures, raw_features
from tutelage.analysis.linear.modes import LinearModes
from tutelage.analysis.linear.network import LinearNetwork, linear_network
from tutelage.papers.power_law.power_law_sum import PowerLawSum
from tutelage.analysis.linear.spectrum_fit import SpectralExponent, spectral_exponent
from tutelage.papers.power_law.teacher_moments import TeacherMoments, teacher_moments
from tutelage.papers.power_law.random_basis import random_basis_floors

__all__ = [
    "LinearModes",
    "LinearNetwork",
    "PowerLawSum",
    "RawFeatures",
    "SpectralExponent",
    "TeacherMoments",
    "linear_network",
    "random_basis_floors",
    "raw_features",
    "spectral_exponent",
    "teacher_moments",
]
