"""Figures of optimal protocols: tasks, learning rates, dropout and noise under control."""
