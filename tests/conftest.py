"""Compile quickly: most of a test's time is XLA's, spent on speed that a short solve does not need.

Without LLVM's optimisations and the newer emitters of fused loops a solve compiles in less than half the time and gives the
same numbers to rounding. JAX reads the flags when it first compiles, and the commands that tests start inherit them. Flags
that are given already are left alone: `make test-full` gives none (XLA_FLAGS=), so that it runs what a user runs.
"""

import os
from importlib.metadata import version

KNOWN_TO = "0.10."  # XLA ends the process at a flag it does not know
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

if version("jaxlib").startswith(KNOWN_TO):
    os.environ.setdefault("XLA_FLAGS", FLAGS)
