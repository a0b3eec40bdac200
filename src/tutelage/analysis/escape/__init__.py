"""Escape from a plateau: plateau_path (a small asymmetry along the plateau) -> escape_time -> escape_distribution."""
