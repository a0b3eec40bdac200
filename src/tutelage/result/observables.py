"""Descriptions of recorded curves, so that files and figures need not know a theory."""

from typing import NamedTuple


class Observable(NamedTuple):
    """A curve that a theory or a simulation records besides the error and the loss.

    Attributes
    ----------
    name : str
        The name in `Trajectory.curves` and in files, such as "train_error".
    words : str
        What it is, for legends and files.
    panel : str
        "error" or "loss" if figures draw it next to that curve; "" if they do not.
    """

    name: str
    words: str
    panel: str = ""
