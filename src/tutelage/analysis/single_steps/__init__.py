"""Single steps of SGD: their mean in the limit (drift_matrices), and what they do at finite N (step_moments)."""
