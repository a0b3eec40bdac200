"""Sweeps: the same question asked at thousands of problems, on a laptop or a cluster, with nothing lost.

verbs -> spec, points -> chunks     -> engine                 -> dataset, result (boundaries)
         what is asked   in tasks      what is missing goes      all chunks as one Dataset,
                                       out and is kept           with figures
engine gives tasks to executors/, which call compute (batch: the theory at once; measures/: what is asked of it), and keeps
each outcome in the store: a folder (chunk_file, manifest, lock, status) that is whole whenever the sweep is stopped.
"""
