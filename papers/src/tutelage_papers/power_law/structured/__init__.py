"""Gradient flow on structured inputs: plateaus, escapes and late decay by spectrum.

response (derivatives of the matrices A and B of the mean drift)
-> symmetric_plateau, asymptotic_decay, gradient_flow
"""
