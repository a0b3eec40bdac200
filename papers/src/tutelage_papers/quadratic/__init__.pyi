from .critical_points import (
    CriticalPoint,
    CriticalPoints,
    SpectrumCheck,
    critical_points,
)
from .implicit_bias import BiasPath, ImplicitBias, implicit_bias
from .quadratic_curves import QuadraticCurves, quadratic_curves
from .quadratic_network import QuadraticNetwork, quadratic_network
from .solution_manifold import SolutionManifold, Tangents, solution_manifold

__all__ = [
    "BiasPath",
    "CriticalPoint",
    "CriticalPoints",
    "ImplicitBias",
    "QuadraticCurves",
    "QuadraticNetwork",
    "SolutionManifold",
    "SpectrumCheck",
    "Tangents",
    "critical_points",
    "implicit_bias",
    "quadratic_curves",
    "quadratic_network",
    "solution_manifold",
]
