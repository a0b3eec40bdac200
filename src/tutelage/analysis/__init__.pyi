from .continual import Forgetting, Savings, Transfer, forgetting, savings, transfer
from .curves.curve import RunResults
from .curves.early_stopping import EarlyStopping, early_stopping
from .curves.exponents import Exponent, SpectralExponent, fit_exponent, spectral_exponent
from .curves.phases import Phase, Phases, phases
from .curves.plateaus import Plateau, Plateaus, plateaus
from .curves.specialization import Specialization, specialization
from .escape.escape_distribution import EscapeDistribution, escape_distribution
from .escape.escape_time import EscapeTime, escape_time
from .fixed_points.fixed_point import FixedPoint, fixed_point
from .fixed_points.learning_rates import (
    BestRate,
    CriticalRate,
    DecayRate,
    NoiseFloor,
    best_constant_rate,
    critical_learning_rate,
    decay_rate,
    noise_floor,
)
from .fixed_points.modes import Mode
from .geometry.landscape import Curvature, Landscape, landscape
from .noise.fluctuations import Fluctuations, fluctuations
from .single_steps.drift_matrices import drift_matrices
from .single_steps.step_moments import StepMoments, step_moments
from .task_designs import BestReplay, Interference, NodeReuse, best_replay, interference, node_reuse

__all__ = [
    "BestRate",
    "BestReplay",
    "CriticalRate",
    "Curvature",
    "DecayRate",
    "EarlyStopping",
    "EscapeDistribution",
    "EscapeTime",
    "Exponent",
    "FixedPoint",
    "Fluctuations",
    "Forgetting",
    "Interference",
    "Landscape",
    "Mode",
    "NodeReuse",
    "NoiseFloor",
    "Phase",
    "Phases",
    "Plateau",
    "Plateaus",
    "RunResults",
    "Savings",
    "Specialization",
    "SpectralExponent",
    "StepMoments",
    "Transfer",
    "best_constant_rate",
    "best_replay",
    "critical_learning_rate",
    "decay_rate",
    "drift_matrices",
    "early_stopping",
    "escape_distribution",
    "escape_time",
    "fit_exponent",
    "fixed_point",
    "fluctuations",
    "forgetting",
    "interference",
    "landscape",
    "node_reuse",
    "noise_floor",
    "phases",
    "plateaus",
    "savings",
    "specialization",
    "spectral_exponent",
    "step_moments",
    "transfer",
]
