"""Quadratic networks, where everything can be said in closed form.

setting (what is assumed) -> stationary_points (all of them, with spectra; spectrum_check: against the numerical landscape)
manifold (how many solutions) -> bias (which of them learning chooses)
"""
