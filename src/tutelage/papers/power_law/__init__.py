"""Linear and committee networks on power-law spectra: closed forms and conventions of arXiv 2410.09005.

overlap_moments (its order parameters), plateau_formulas (its closed forms), reduced_system (four overlaps per level),
power_law_sum (the linear network's error as sum, integral and bounds), teacher_moments (how random teachers differ),
raw_features and random_basis_floors (only some of the raw inputs learn).
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
