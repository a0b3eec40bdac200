"""Figures of: Online learning with power-law spectra."""
