"""Quadratic networks, where everything can be said in closed form.

setting (what is assumed) -> stationary_points (all of them, with spectra; spectrum_check: against the numerical landscape)
manifold (how many solutions) -> bias (which of them learning chooses)
ordered (exact curves, mode by mode) -> preset (the source's setting: closed forms of norm learning, plateau and escape),
with plateau_at_rate (at finite rates), fastest (the best rate by solving) and escape_noise (escape times at finite N)
"""
