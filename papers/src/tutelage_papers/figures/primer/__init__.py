"""Figures of: A primer on the analytical learning dynamics of nonlinear neural networks."""
