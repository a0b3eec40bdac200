"""How a student learns: what one sample asks for, and how the weights follow.

losses: the function to minimize. rules: one sample -> one update. optimizers: updates ->
steps of the weights. schedules: rates and other numbers that change in time.
"""
