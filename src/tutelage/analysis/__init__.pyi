from .continual import (
    BestReplay,
    Forgetting,
    Interference,
    NodeReuse,
    Savings,
    Transfer,
    best_replay,
    forgetting,
    interference,
    node_reuse,
    savings,
    transfer,
)
from .curve_phases import EarlyStopping, Phase, Phases, Specialization, early_stopping, phases, specialization
from .curve_plateaus import Plateau, Plateaus, plateaus
from .escapes import EscapeDistribution, EscapeTime, escape_distribution, escape_time
from .fixed_points import FixedPoint, fixed_point
from .landscapes import Curvature, Landscape, landscape
from .learning_rates import (
    BestRate,
    CriticalRate,
    DecayRate,
    NoiseFloor,
    best_constant_rate,
    critical_learning_rate,
    decay_rate,
    noise_floor,
)
from .modes import Mode
from .noise import Fluctuations, fluctuations
from .power_laws import Exponent, SpectralExponent, fit_exponent, spectral_exponent
from .result import RunResults
from .single_steps import StepMoments, drift_matrices, step_moments

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
