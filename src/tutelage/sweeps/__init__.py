"""Sweeps: the same measures at thousands of problems, on a laptop or a cluster, with nothing lost.

sweep -> spec            -> engine              -> result
         points, chunks     computes and keeps     all chunks as one Dataset,
                            what is missing        with figures
The engine gives tasks to executors (serial, processes, Dask), which call compute (measures: the numbers of a point), and keeps
each chunk in the store: a folder that is whole whenever the sweep is interrupted.

Sweeps are tested on Linux. Locks and processes are those of portable libraries; macOS and Windows are not tested.
"""
