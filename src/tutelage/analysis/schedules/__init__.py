"""The best learning-rate schedule: by gradients through the solve, against the best constant and the greedy one."""
