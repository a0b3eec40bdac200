from .curves.exponents import Exponent, fit_exponent
from .curves.phases import Phase, Phases, phases
from .curves.plateaus import Plateau, Plateaus, plateaus
from .curves.run_results import RunResults
from .curves.specialization import Specialization, specialization
from .curves.stopping import EarlyStopping, early_stopping
from .escape.law import EscapeDistribution, escape_distribution
from .escape.times import EscapeTime, escape_time
from .fixed_points import (
    BestRate,
    CriticalRate,
    DecayRate,
    FixedPoint,
    Mode,
    NoiseFloor,
    best_constant_rate,
    critical_learning_rate,
    decay_rate,
    fixed_point,
    noise_floor,
)
from .geometry.curvature import Curvature
from .geometry.landscapes import Landscape, landscape
from .linear import LinearModes, LinearNetwork, linear_network
from .linear.spectrum_fit import SpectralExponent, spectral_exponent
from .noise.fluctuation import Fluctuations, fluctuations
from .single_steps.concentrations import Concentration, concentration
from .single_steps.step_moments import StepMoments, step_moments
from .structured.asymptotic_decay import AsymptoticDecay, asymptotic_decay
from .structured.response import drift_matrices
from .structured.symmetric_flow import SymmetricFlow, symmetric_flow
from .structured.symmetric_plateau import SymmetricPlateau, symmetric_plateau
from .structured.weight_flow import WeightFlow, weight_flow

__all__ = [
    "AsymptoticDecay",
    "BestRate",
    "Concentration",
    "CriticalRate",
    "Curvature",
    "DecayRate",
    "EarlyStopping",
    "EscapeDistribution",
    "EscapeTime",
    "Exponent",
    "FixedPoint",
    "Fluctuations",
    "Landscape",
    "LinearModes",
    "LinearNetwork",
    "Mode",
    "NoiseFloor",
    "Phase",
    "Phases",
    "Plateau",
    "Plateaus",
    "RunResults",
    "Specialization",
    "SpectralExponent",
    "StepMoments",
    "SymmetricFlow",
    "SymmetricPlateau",
    "WeightFlow",
    "asymptotic_decay",
    "best_constant_rate",
    "concentration",
    "critical_learning_rate",
    "decay_rate",
    "drift_matrices",
    "early_stopping",
    "escape_distribution",
    "escape_time",
    "fit_exponent",
    "fixed_point",
    "fluctuations",
    "landscape",
    "linear_network",
    "noise_floor",
    "phases",
    "plateaus",
    "specialization",
    "spectral_exponent",
    "step_moments",
    "symmetric_flow",
    "symmetric_plateau",
    "weight_flow",
]
