"""Gradient flow on structured inputs: what the spectrum of the data does to plateaus, escapes and late decay.

response (derivatives of the matrices A and B of the mean drift) -> symmetric_plateau, asymptotic_decay, gradient_flow
"""
