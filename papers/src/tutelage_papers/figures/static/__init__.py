"""Figures of inputs that are not one Gaussian: mixtures, hidden manifolds, real data."""
