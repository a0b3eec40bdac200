"""The loss landscape in the space of weights, for any activation, spectrum and N.

hessian (gradient and curvature from the overlaps) -> orbit (directions of equal error) -> curvature (values with names)
-> landscapes (the verb). smoothness: where second derivatives exist.
"""
