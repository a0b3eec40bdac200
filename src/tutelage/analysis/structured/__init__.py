"""Gradient flow on structured inputs: what the spectrum of the data does to plateaus, escapes and late decay.

drift_matrices (A and B of the mean drift, and their derivatives) -> symmetric_plateau, asymptotic_decay, gradient_flow
"""
