"""tutelage: the exact learning dynamics of two-layer neural networks.

State a problem, solve its theory (order-parameter ODEs), simulate the network itself, compare:

    problem = tu.Problem(tu.Network(3, "erf"), tu.Network(3, "erf"), sgd=tu.SGD(lr=0.5), noise=0.1)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    theory = tu.solve(problem, start, times=tu.linear_times(300))
    runs = tu.simulate(problem, start, times=tu.linear_times(300), runs=20)
    print(tu.compare(theory, runs))

Float64 is switched on at import (TUTELAGE_X64=0 keeps JAX's own setting). A name is loaded when first used, so that
`tutelage --help` does not wait for JAX; a new public name goes into `_HOMES`, the imports below it and `__all__`.
"""

import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING
from typing import Any as _Any

from tutelage._precision import enable_float64 as _enable_float64
from tutelage._version import __version__

_enable_float64()

# Where each public name lives, in the order of the flow.
_HOMES = {
    "tutelage._errors": (
        "InputError",
        "TutelageWarning",
        "DivergenceWarning",
        "SymmetryWarning",
        "ValidityWarning",
        "Status",
    ),
    "tutelage.problem": (
        *("Problem", "Network", "Activation", "SGD", "SlowMomentum", "Constant", "PowerDecay", "Piecewise"),
        *("Interpolated", "Cosine", "Inputs", "Isotropic", "PowerLaw", "Spectrum"),
        *("Start", "asymmetric_start", "random_start", "start_from_weights"),
    ),
    "tutelage.problem.images": ("digits",),
    "tutelage.averages": ("Quadrature",),
    "tutelage.moments": ("Sampled",),
    "tutelage.rules": ("Rule",),
    "tutelage.dynamics": ("ClosedSystem", "Equations", "generalization_error", "linear_regression"),
    "tutelage.trajectory": ("Trajectory", "load"),
    "tutelage.validity": ("Validity",),
    "tutelage.times": ("linear_times", "log_times"),
    "tutelage._solve": ("solve",),
    "tutelage._solve_batch": ("solve_batch",),
    "tutelage.simulate": ("simulate",),
    "tutelage.analysis.fixed_points.modes": ("Mode",),
    "tutelage.analysis.fixed_points.find": ("fixed_point",),
    "tutelage.analysis.fixed_points.result": ("FixedPoint",),
    "tutelage.analysis.fixed_points.learning_rates": (
        *("critical_learning_rate", "CriticalRate", "decay_rate", "DecayRate", "best_constant_rate", "BestRate"),
    ),
    "tutelage.analysis.fixed_points.noise_floors": ("noise_floor", "NoiseFloor"),
    "tutelage.analysis.linear": (
        *("linear_network", "LinearNetwork", "LinearModes"),
        *("PowerLawSum", "raw_features", "RawFeatures", "random_basis_floors"),
        *("spectral_exponent", "SpectralExponent", "teacher_moments", "TeacherMoments"),
    ),
    "tutelage.analysis.curves.run_results": ("RunResults",),
    "tutelage.analysis.curves.plateaus": ("plateaus", "Plateaus", "Plateau"),
    "tutelage.analysis.curves.specialization": ("specialization", "Specialization"),
    "tutelage.analysis.curves.phases": ("phases", "Phases", "Phase"),
    "tutelage.analysis.curves.stopping": ("early_stopping", "EarlyStopping"),
    "tutelage.analysis.schedules.design": ("optimize",),
    "tutelage.analysis.schedules.result": ("OptimalSchedule",),
    "tutelage.analysis.curves.exponents": ("fit_exponent", "Exponent"),
    "tutelage.analysis.geometry.landscapes": ("landscape", "Landscape"),
    "tutelage.analysis.geometry.curvature": ("Curvature",),
    "tutelage.papers.quadratic.stationary_points": ("critical_points", "CriticalPoints", "CriticalPoint"),
    "tutelage.papers.quadratic.spectrum_check": ("SpectrumCheck",),
    "tutelage.papers.quadratic.bias": ("implicit_bias", "ImplicitBias", "BiasPath"),
    "tutelage.papers.quadratic.manifold": ("solution_manifold", "SolutionManifold"),
    "tutelage.papers.quadratic.ordered": ("quadratic_curves", "QuadraticCurves"),
    "tutelage.papers.quadratic.preset": ("quadratic_network", "QuadraticNetwork"),
    "tutelage.analysis.escape.times": ("escape_time", "EscapeTime"),
    "tutelage.analysis.escape.law": ("escape_distribution", "EscapeDistribution"),
    "tutelage.analysis.noise.fluctuation": ("fluctuations", "Fluctuations"),
    "tutelage.analysis.single_steps.concentrations": ("concentration", "Concentration"),
    "tutelage.analysis.single_steps.step_moments": ("step_moments", "StepMoments"),
    "tutelage.problem.committee": ("committee",),
    "tutelage.papers.power_law.overlap_moments": ("overlap_moments", "Moments"),
    "tutelage.papers.power_law.plateau_formulas": ("plateau_formulas", "PlateauFormulas"),
    "tutelage.analysis.structured.symmetric_plateau": ("symmetric_plateau", "SymmetricPlateau"),
    "tutelage.analysis.structured.asymptotic_decay": ("asymptotic_decay", "AsymptoticDecay"),
    "tutelage.papers.power_law.reduced_system": ("reduced_system", "ReducedSystem"),
    "tutelage.analysis.structured.weight_flow": ("weight_flow", "WeightFlow"),
    "tutelage.analysis.structured.symmetric_flow": ("symmetric_flow", "SymmetricFlow"),
    "tutelage.compare": ("compare", "Comparison"),
    "tutelage.page": ("trajectory_page", "save_page"),
    "tutelage.sweeps.verbs": ("sweep", "open_sweep"),
    "tutelage.sweeps.result": ("Sweep",),
}
_SUBMODULES = ("averages", "labels", "losses", "plot", "rules")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from tutelage import averages, labels, losses, plot, rules
    from tutelage._errors import DivergenceWarning, InputError, Status, SymmetryWarning, TutelageWarning, ValidityWarning
    from tutelage._solve import solve
    from tutelage._solve_batch import solve_batch
    from tutelage.analysis.curves.run_results import RunResults
    from tutelage.analysis.curves.phases import Phase, Phases, phases
    from tutelage.analysis.curves.plateaus import Plateau, Plateaus, plateaus
    from tutelage.analysis.curves.exponents import Exponent, fit_exponent
    from tutelage.analysis.curves.specialization import Specialization, specialization
    from tutelage.analysis.curves.stopping import EarlyStopping, early_stopping
    from tutelage.analysis.escape.law import EscapeDistribution, escape_distribution
    from tutelage.analysis.escape.times import EscapeTime, escape_time
    from tutelage.analysis.fixed_points import (
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
    from tutelage.analysis.geometry.curvature import Curvature
    from tutelage.analysis.geometry.landscapes import Landscape, landscape
    from tutelage.analysis.linear import (
        LinearModes,
        LinearNetwork,
        PowerLawSum,
        RawFeatures,
        SpectralExponent,
        TeacherMoments,
        linear_network,
        random_basis_floors,
        raw_features,
        spectral_exponent,
        teacher_moments,
    )
    from tutelage.analysis.noise.fluctuation import Fluctuations, fluctuations
    from tutelage.papers.quadratic.bias import BiasPath, ImplicitBias, implicit_bias
    from tutelage.papers.quadratic.manifold import SolutionManifold, solution_manifold
    from tutelage.papers.quadratic.ordered import QuadraticCurves, quadratic_curves
    from tutelage.papers.quadratic.preset import QuadraticNetwork, quadratic_network
    from tutelage.papers.quadratic.spectrum_check import SpectrumCheck
    from tutelage.papers.quadratic.stationary_points import CriticalPoint, CriticalPoints, critical_points
    from tutelage.analysis.schedules.design import optimize
    from tutelage.analysis.schedules.result import OptimalSchedule
    from tutelage.analysis.single_steps.concentrations import Concentration, concentration
    from tutelage.analysis.single_steps.step_moments import StepMoments, step_moments
    from tutelage.analysis.structured.symmetric_flow import SymmetricFlow, symmetric_flow
    from tutelage.problem.committee import committee
    from tutelage.analysis.structured.symmetric_plateau import SymmetricPlateau, symmetric_plateau
    from tutelage.analysis.structured.weight_flow import WeightFlow, weight_flow
    from tutelage.papers.power_law.plateau_formulas import PlateauFormulas, plateau_formulas
    from tutelage.analysis.structured.asymptotic_decay import AsymptoticDecay, asymptotic_decay
    from tutelage.papers.power_law.overlap_moments import Moments, overlap_moments
    from tutelage.papers.power_law.reduced_system import ReducedSystem, reduced_system
    from tutelage.averages import Quadrature
    from tutelage.comparison import Comparison, compare
    from tutelage.dynamics import ClosedSystem, Equations, generalization_error, linear_regression
    from tutelage.moments import Sampled
    from tutelage.page import save_page, trajectory_page
    from tutelage.problem import (
        SGD,
        Activation,
        Constant,
        Cosine,
        Inputs,
        Interpolated,
        Isotropic,
        Network,
        Piecewise,
        PowerDecay,
        PowerLaw,
        Problem,
        SlowMomentum,
        Spectrum,
        Start,
        asymmetric_start,
        random_start,
        start_from_weights,
    )
    from tutelage.problem.images import digits
    from tutelage.rules import Rule
    from tutelage.simulation import simulate
    from tutelage.sweeps.result import Sweep
    from tutelage.sweeps.verbs import open_sweep, sweep
    from tutelage.times import linear_times, log_times
    from tutelage.trajectory import Trajectory, load
    from tutelage.validity import Validity

__all__ = [
    "SGD",
    "Activation",
    "SymmetricFlow",
    "BestRate",
    "BiasPath",
    "ClosedSystem",
    "SymmetricPlateau",
    "Comparison",
    "Concentration",
    "Constant",
    "Cosine",
    "CriticalPoint",
    "CriticalPoints",
    "CriticalRate",
    "Curvature",
    "DecayRate",
    "DivergenceWarning",
    "EarlyStopping",
    "StepMoments",
    "Equations",
    "EscapeDistribution",
    "EscapeTime",
    "Exponent",
    "FixedPoint",
    "Fluctuations",
    "ImplicitBias",
    "InputError",
    "Inputs",
    "Interpolated",
    "Isotropic",
    "Landscape",
    "AsymptoticDecay",
    "LinearModes",
    "LinearNetwork",
    "Mode",
    "Moments",
    "Network",
    "NoiseFloor",
    "RunResults",
    "Phase",
    "Phases",
    "Piecewise",
    "Plateau",
    "PlateauFormulas",
    "Plateaus",
    "PowerDecay",
    "PowerLaw",
    "PowerLawSum",
    "Problem",
    "QuadraticCurves",
    "QuadraticNetwork",
    "Quadrature",
    "RawFeatures",
    "ReducedSystem",
    "Rule",
    "Sampled",
    "OptimalSchedule",
    "SlowMomentum",
    "SolutionManifold",
    "Specialization",
    "SpectralExponent",
    "Spectrum",
    "SpectrumCheck",
    "Start",
    "Status",
    "Sweep",
    "SymmetryWarning",
    "TeacherMoments",
    "Trajectory",
    "TutelageWarning",
    "Validity",
    "ValidityWarning",
    "WeightFlow",
    "__version__",
    "symmetric_flow",
    "asymmetric_start",
    "averages",
    "best_constant_rate",
    "symmetric_plateau",
    "compare",
    "concentration",
    "critical_learning_rate",
    "critical_points",
    "decay_rate",
    "optimize",
    "digits",
    "early_stopping",
    "step_moments",
    "escape_distribution",
    "escape_time",
    "fit_exponent",
    "fixed_point",
    "fluctuations",
    "generalization_error",
    "implicit_bias",
    "labels",
    "landscape",
    "asymptotic_decay",
    "linear_network",
    "linear_regression",
    "linear_times",
    "load",
    "log_times",
    "losses",
    "noise_floor",
    "open_sweep",
    "overlap_moments",
    "phases",
    "plateau_formulas",
    "plateaus",
    "plot",
    "quadratic_curves",
    "quadratic_network",
    "random_basis_floors",
    "random_start",
    "raw_features",
    "reduced_system",
    "rules",
    "save_page",
    "committee",
    "simulate",
    "solution_manifold",
    "solve",
    "solve_batch",
    "specialization",
    "spectral_exponent",
    "start_from_weights",
    "sweep",
    "teacher_moments",
    "trajectory_page",
    "weight_flow",
]


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _import_module(f"tutelage.{name}")
    if name not in _HOME_OF:
        package = _sys.modules[__name__]  # with it Python asks "Did you mean ...?"
        raise AttributeError(f"module 'tutelage' has no attribute {name!r}", name=name, obj=package)
    value = getattr(_import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(_ModuleType):
    """`tutelage.solve` is the verb, also after its module of the same name has been imported."""

    def __setattr__(self, name: str, value: _Any) -> None:
        if not (name in _HOME_OF and isinstance(value, _ModuleType)):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
