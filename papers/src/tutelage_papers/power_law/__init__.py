"""Linear and committee networks on power-law spectra (arXiv 2410.09005).

Closed forms and conventions.

conventions (`committee`, its normalization), overlap_moments (its order parameters)
linear (one linear unit, exactly), power_law_sum (its error as sum, integral and bounds)
structured (plateaus, gradient flow and late decay of committees on any spectrum)
plateau_formulas (closed forms), reduced_system (four overlaps per level)
teacher_moments (how random teachers differ)
raw_features and random_basis_floors (only some of the raw inputs learn)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
