"""Leaving a plateau: the escape time of one start, and its law over starts and data."""
