"""Fixed points of the dynamics, their modes, and learning rates near perfect learning.

symmetry (subspaces of symmetric states) -> modes (rates, vectors, names) -> fixed_point; learning_rates: critical and best
rates, decay rates and noise floors, from the linear dynamics around perfect learning (dynamics/perfect_learning.py).
"""
