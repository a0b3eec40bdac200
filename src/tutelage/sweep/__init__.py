"""Sweeps: the same question asked at thousands of problems, on a laptop or a cluster, with nothing lost."""
