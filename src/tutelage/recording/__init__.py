"""Training runs of other programs as trajectories, next to the theory.

    recorder, runs                 -> recorded
    weights of a loop, arrays         overlaps of several runs as one `Trajectory`

What a loop in PyTorch, JAX or NumPy records is what `simulate` returns, so that
`compare`, `plot` and `save` take it.
"""

from tutelage.recording.recorder import Recorder
from tutelage.recording.runs import runs_from_overlaps, runs_from_weights

__all__ = ["Recorder", "runs_from_overlaps", "runs_from_weights"]
