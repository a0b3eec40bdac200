"""Committees that learn from structured inputs: what the spectrum of the data does to plateaus, escapes and late decay.

committees (the normalization of the power-law paper), moments (its order parameters) -> formulas (its closed forms)
response (how the mean force answers to unequal units) -> common_student (the exact plateau of any teacher, any spectrum)
late (near perfect learning, in the weights), reduced (the same systems for alike units, as small matrices)
flow_in_weights (gradient flow with K x N numbers, any L up to N), chebyshev (the solver that makes it quick)
alike (gradient flow of K = M alike units with four numbers per level, any K)
"""
