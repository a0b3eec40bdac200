"""Sweeps: the same measures at thousands of problems.

`sweep` makes a spec (points, chunks). `run` gives the missing chunks to an executor
(serial, processes, Dask), which calls `compute` (`measures`: the numbers of a point),
and keeps each in the `store`. `sweep` labels all chunks as one Dataset.
"""
