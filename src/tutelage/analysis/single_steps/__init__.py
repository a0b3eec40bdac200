"""Single steps of SGD: their mean in the limit, and what they do at finite N.

drift_matrices (the mean); step_moments (measured and predicted) -> concentration (how they scale with N)
"""
