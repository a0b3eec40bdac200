"""Leaving a plateau: the escape time of one start, and its law over starts and data.

plateau_path (a small asymmetry, up to and along the plateau) -> exits (the nonlinear end) -> times, law (the verbs)
thresholds: when a recorded curve has escaped
"""
