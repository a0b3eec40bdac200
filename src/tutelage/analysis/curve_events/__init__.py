"""Events on a learning curve: plateaus, specialization, smallest error, named phases.

plateau_search.py  `plateaus`
unit_matching.py   `specialization`
smallest_error.py  `early_stopping`
named_phases.py    `phases`
"""

from tutelage.analysis.curve_events.named_phases import Phase, Phases, phases
from tutelage.analysis.curve_events.plateau_search import (
    Plateau,
    Plateaus,
    plateaus,
)
from tutelage.analysis.curve_events.smallest_error import (
    EarlyStopping,
    early_stopping,
)
from tutelage.analysis.curve_events.unit_matching import (
    Specialization,
    SubspaceSpecialization,
    specialization,
)

__all__ = [
    "EarlyStopping",
    "Phase",
    "Phases",
    "Plateau",
    "Plateaus",
    "Specialization",
    "SubspaceSpecialization",
    "early_stopping",
    "phases",
    "plateaus",
    "specialization",
]
