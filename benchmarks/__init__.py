"""Measured speed, as ratios to a baseline timed in the same run. Entry point: `make bench`."""
