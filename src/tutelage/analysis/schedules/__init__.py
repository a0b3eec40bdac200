"""The best learning-rate schedule: by gradients through the solve, against the best constant and the greedy one.

search (schedules as points of a space), greedy_rate (locally the best) -> design (the verb) -> result
"""
