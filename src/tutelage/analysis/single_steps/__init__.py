"""Single steps of SGD at finite N: step_moments (measured and predicted) -> concentration (how they scale with N)."""
