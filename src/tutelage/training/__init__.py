"""The training of a student: losses, learning rules, optimizers and schedules.

losses: the function to minimize. rules: one sample -> one update. optimizers: updates
-> steps of the weights. schedules: rates and other numbers that change in time.
"""
