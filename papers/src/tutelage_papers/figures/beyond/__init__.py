"""Figures of: Beyond the four sources."""
