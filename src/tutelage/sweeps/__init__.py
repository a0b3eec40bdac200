"""Sweeps: the same measures at thousands of problems, on a laptop or a cluster, with nothing lost.

sweep -> spec            -> run                 -> sweep
         points, chunks     computes and keeps     all chunks as one Dataset,
                            what is missing        with figures
`run` gives tasks to an executor (serial, processes, Dask), which calls `compute` (measures: the numbers of a point), and keeps
each chunk in the store: a folder that is whole whenever the sweep is interrupted. Tested on Linux only.
"""
