"""The figures: one package for each source, one module for each figure or family of figures (registry.py lists them)."""
