from .overlap_moments import Moments, overlap_moments
from .plateau_formulas import PlateauFormulas, plateau_formulas
from .power_law_sum import PowerLawSum
from .raw_features import RawFeatures, random_basis_floors, raw_features
from .reduced_system import ReducedSystem, reduced_system
from .teacher_moments import TeacherMoments, teacher_moments

__all__ = [
    "Moments",
    "PlateauFormulas",
    "PowerLawSum",
    "RawFeatures",
    "ReducedSystem",
    "TeacherMoments",
    "overlap_moments",
    "plateau_formulas",
    "random_basis_floors",
    "raw_features",
    "reduced_system",
    "teacher_moments",
]
