"""The best learning-rate schedule: search (greedy rates, schedules as points, descent) -> optimize."""
