from .bias import BiasPath, ImplicitBias, implicit_bias
from .manifold import SolutionManifold, solution_manifold
from .ordered import QuadraticCurves, quadratic_curves
from .preset import QuadraticNetwork, quadratic_network
from .spectrum_check import SpectrumCheck
from .stationary_points import CriticalPoint, CriticalPoints, critical_points

__all__ = [
    "BiasPath",
    "CriticalPoint",
    "CriticalPoints",
    "ImplicitBias",
    "QuadraticCurves",
    "QuadraticNetwork",
    "SolutionManifold",
    "SpectrumCheck",
    "critical_points",
    "implicit_bias",
    "quadratic_curves",
    "quadratic_network",
    "solution_manifold",
]
