"""Quadratic networks, where everything can be said in closed form.

critical_points (all of them, with spectra, checked against the numerical landscape)
solution_manifold (how many solutions) -> implicit_bias (which of them learning chooses)
quadratic_curves (exact, mode by mode) -> quadratic_network (the setting of the source:
closed forms of norm learning, plateau and escape, the best rate, escape times at finite N)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
