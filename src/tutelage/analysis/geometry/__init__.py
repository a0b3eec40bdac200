"""The loss landscape in the space of weights: hessian (gradient and curvature from the overlaps) -> landscape."""
