"""One step of SGD looked at alone: its measured moments against the theory's, and how they concentrate with N.

one_step (of real weights, many times) -> step_moments (drift and diffusion), vanishing -> concentrations
"""
