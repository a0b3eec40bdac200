from .conventions import committee
from .linear.linear_network import LinearModes, LinearNetwork, linear_network
from .linear.linear_weights import LinearWeights, linear_weights
from .overlap_moments import Moments, overlap_moments
from .plateau_formulas import PlateauFormulas, plateau_formulas
from .plateau_length import PlateauLength, plateau_length
from .power_law_sum import PowerLawSum
from .raw_features import RawFeatures, random_basis_floors, raw_features
from .reduced_system import ReducedSystem, reduced_system
from .structured.asymptotic_decay import AsymptoticDecay, asymptotic_decay
from .structured.gradient_flow import (
    SymmetricFlow,
    WeightFlow,
    symmetric_flow,
    weight_flow,
)
from .structured.symmetric_plateau import SymmetricPlateau, symmetric_plateau
from .teacher_moments import TeacherMoments, teacher_moments

__all__ = [
    "AsymptoticDecay",
    "LinearModes",
    "LinearNetwork",
    "LinearWeights",
    "Moments",
    "PlateauFormulas",
    "PlateauLength",
    "PowerLawSum",
    "RawFeatures",
    "ReducedSystem",
    "SymmetricFlow",
    "SymmetricPlateau",
    "TeacherMoments",
    "WeightFlow",
    "asymptotic_decay",
    "committee",
    "linear_network",
    "linear_weights",
    "overlap_moments",
    "plateau_formulas",
    "plateau_length",
    "random_basis_floors",
    "raw_features",
    "reduced_system",
    "symmetric_flow",
    "symmetric_plateau",
    "teacher_moments",
    "weight_flow",
]
