"""Figures of: Notes on the dynamical analysis of online SGD in high dimension."""
