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
    "tutelage.dynamics": ("ClosedSystem", "Equations", "generalisation_error", "linear_regression"),
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
    "tutelage.analysis.curves.per_run": ("PerRun",),
    "tutelage.analysis.curves.plateau": ("plateaus", "Plateaus", "Plateau"),
    "tutelage.analysis.curves.specialise": ("specialisation", "Specialisation"),
    "tutelage.analysis.curves.phase": ("phases", "Phases", "Phase"),
    "tutelage.analysis.curves.stopping": ("early_stopping", "EarlyStopping"),
    "tutelage.analysis.schedules.design": ("design_schedule",),
    "tutelage.analysis.schedules.result": ("ScheduleDesign",),
    "tutelage.analysis.curves.scaling": ("fit_exponent", "Exponent"),
    "tutelage.analysis.geometry.landscapes": ("landscape", "Landscape"),
    "tutelage.analysis.geometry.curvature": ("Curvature",),
    "tutelage.analysis.quadratic.stationary_points": ("critical_points", "CriticalPoints", "CriticalPoint"),
    "tutelage.analysis.quadratic.spectrum_check": ("SpectrumCheck",),
    "tutelage.analysis.quadratic.bias": ("implicit_bias", "ImplicitBias", "BiasPath"),
    "tutelage.analysis.quadratic.manifold": ("solution_manifold", "SolutionManifold"),
    "tutelage.analysis.quadratic.ordered": ("quadratic_curves", "QuadraticCurves"),
    "tutelage.analysis.quadratic.preset": ("quadratic_network", "QuadraticNetwork"),
    "tutelage.analysis.escape.times": ("escape_time", "EscapeTime"),
    "tutelage.analysis.escape.law": ("escape_distribution", "EscapeDistribution"),
    "tutelage.analysis.noise.fluctuation": ("fluctuations", "Fluctuations"),
    "tutelage.analysis.single_steps.concentrations": ("concentration", "Concentration"),
    "tutelage.analysis.single_steps.step_moments": ("empirical_drift", "EmpiricalDrift"),
    "tutelage.analysis.structured.committees": ("scaled_committee",),
    "tutelage.analysis.structured.moments": ("overlap_moments", "Moments"),
    "tutelage.analysis.structured.formulas": ("plateau_formulas", "PlateauFormulas"),
    "tutelage.analysis.structured.common_student": ("common_plateau", "CommonPlateau"),
    "tutelage.analysis.structured.late": ("late_decay", "LateDecay"),
    "tutelage.analysis.structured.reduced": ("reduced_system", "ReducedSystem"),
    "tutelage.analysis.structured.flow_in_weights": ("weight_flow", "WeightFlow"),
    "tutelage.analysis.structured.alike": ("alike_flow", "AlikeFlow"),
    "tutelage.compare": ("compare", "Comparison"),
    "tutelage.page": ("trajectory_page", "save_page"),
    "tutelage.sweep.verbs": ("sweep", "open_sweep"),
    "tutelage.sweep.result": ("Sweep",),
}
_SUBMODULES = ("averages", "labels", "losses", "plot", "rules")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from tutelage import averages, labels, losses, plot, rules
    from tutelage._errors import DivergenceWarning, InputError, Status, SymmetryWarning, TutelageWarning, ValidityWarning
    from tutelage._solve import solve
    from tutelage._solve_batch import solve_batch
    from tutelage.analysis.curves.per_run import PerRun
    from tutelage.analysis.curves.phase import Phase, Phases, phases
    from tutelage.analysis.curves.plateau import Plateau, Plateaus, plateaus
    from tutelage.analysis.curves.scaling import Exponent, fit_exponent
    from tutelage.analysis.curves.specialise import Specialisation, specialisation
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
    from tutelage.analysis.quadratic.bias import BiasPath, ImplicitBias, implicit_bias
    from tutelage.analysis.quadratic.manifold import SolutionManifold, solution_manifold
    from tutelage.analysis.quadratic.ordered import QuadraticCurves, quadratic_curves
    from tutelage.analysis.quadratic.preset import QuadraticNetwork, quadratic_network
    from tutelage.analysis.quadratic.spectrum_check import SpectrumCheck
    from tutelage.analysis.quadratic.stationary_points import CriticalPoint, CriticalPoints, critical_points
    from tutelage.analysis.schedules.design import design_schedule
    from tutelage.analysis.schedules.result import ScheduleDesign
    from tutelage.analysis.single_steps.concentrations import Concentration, concentration
    from tutelage.analysis.single_steps.step_moments import EmpiricalDrift, empirical_drift
    from tutelage.analysis.structured.alike import AlikeFlow, alike_flow
    from tutelage.analysis.structured.committees import scaled_committee
    from tutelage.analysis.structured.common_student import CommonPlateau, common_plateau
    from tutelage.analysis.structured.flow_in_weights import WeightFlow, weight_flow
    from tutelage.analysis.structured.formulas import PlateauFormulas, plateau_formulas
    from tutelage.analysis.structured.late import LateDecay, late_decay
    from tutelage.analysis.structured.moments import Moments, overlap_moments
    from tutelage.analysis.structured.reduced import ReducedSystem, reduced_system
    from tutelage.averages import Quadrature
    from tutelage.compare import Comparison, compare
    from tutelage.dynamics import ClosedSystem, Equations, generalisation_error, linear_regression
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
    from tutelage.simulate import simulate
    from tutelage.sweep.result import Sweep
    from tutelage.sweep.verbs import open_sweep, sweep
    from tutelage.times import linear_times, log_times
    from tutelage.trajectory import Trajectory, load
    from tutelage.validity import Validity

__all__ = [
    "SGD",
    "Activation",
    "AlikeFlow",
    "BestRate",
    "BiasPath",
    "ClosedSystem",
    "CommonPlateau",
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
    "EmpiricalDrift",
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
    "LateDecay",
    "LinearModes",
    "LinearNetwork",
    "Mode",
    "Moments",
    "Network",
    "NoiseFloor",
    "PerRun",
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
    "ScheduleDesign",
    "SlowMomentum",
    "SolutionManifold",
    "Specialisation",
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
    "alike_flow",
    "asymmetric_start",
    "averages",
    "best_constant_rate",
    "common_plateau",
    "compare",
    "concentration",
    "critical_learning_rate",
    "critical_points",
    "decay_rate",
    "design_schedule",
    "digits",
    "early_stopping",
    "empirical_drift",
    "escape_distribution",
    "escape_time",
    "fit_exponent",
    "fixed_point",
    "fluctuations",
    "generalisation_error",
    "implicit_bias",
    "labels",
    "landscape",
    "late_decay",
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
    "scaled_committee",
    "simulate",
    "solution_manifold",
    "solve",
    "solve_batch",
    "specialisation",
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
