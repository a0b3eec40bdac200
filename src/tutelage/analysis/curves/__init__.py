"""What a curve shows: a trajectory is read, nothing is solved.

curve (one recorded curve) -> plateau (departure: how it is left), specialize -> phase; stopping; per_run: for every run
scaling: the exponent of a power law; lines: a straight line with an honest error, beneath it.
"""
