"""Which learning rate leaves the plateau with the fewest samples? By solving, averaged over starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FastestEscape:
    """paper_lr: the best rate (of a loss without 1/2); time: mean alpha at which the loss is halved there.

    on_plateau: the rate at which overlaps grow fastest on the plateau, closed form. lrs, times: all rates that were tried.
    """

    paper_lr: float
    time: float
    on_plateau: float
    lrs: np.ndarray
    times: np.ndarray

    def plot(self, *, title: str | None = None) -> "Figure":
        """Samples needed against the learning rate."""
        from tutelage.plot.quadratic import plot_fastest_escape

        return plot_fastest_escape(self, title=title)

    def __str__(self) -> str:
        return (
            f"the loss halves first at eta = {self.paper_lr:.4g} (lr = {2 * self.paper_lr:.4g}): alpha = {self.time:.4g}; "
            f"growth on the plateau alone is fastest at {self.on_plateau:.4g}"
        )


def search(halved: Callable[[float], float], low: float, high: float, on_plateau: float, accuracy: float) -> FastestEscape:
    """The rate between low and high at which `halved`, the mean time, is least."""
    from scipy.optimize import minimize_scalar

    tried: dict[float, float] = {}

    def time(lr: float) -> float:
        tried[lr] = halved(lr)
        return tried[lr] if np.isfinite(tried[lr]) else np.finfo(float).max

    minimize_scalar(time, bounds=(low, high), method="bounded", options={"xatol": accuracy * on_plateau})
    lrs = np.array(sorted(tried))
    times = np.array([tried[lr] for lr in lrs])
    best = int(np.argmin(times))
    return FastestEscape(float(lrs[best]), float(times[best]), on_plateau, lrs, times)
