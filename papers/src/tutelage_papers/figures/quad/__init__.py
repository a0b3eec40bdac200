"""Figures of: Online learning of quadratic networks."""
