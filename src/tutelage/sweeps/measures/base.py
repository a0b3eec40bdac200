"""What a measure is, and what it can read at a point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# What a measure can need; what nobody needs is not computed.
NEEDS = ("problem", "start", "end", "curve", "overlaps", "runs")


@dataclass(frozen=True)
class Measure:
    """values: from a `Case` to its numbers, by the names of the variables. dims: of each variable, after point and start.

    needs: some of NEEDS; a measure that needs the problem alone is computed once for all starts. looped: does it take
    seconds rather than share a batched solve? words: what it is, for labels.
    """

    name: str
    values: "Callable[[Case], Mapping[str, Any]]"
    dims: Mapping[str, tuple[str, ...]]
    needs: frozenset[str]
    words: Mapping[str, str]
    looped: bool = False

    @property
    def per_start(self) -> bool:
        """Does the number depend on the start?"""
        return self.needs != {"problem"}


@dataclass
class Case:
    """One point with one of its starts. solved: its theory, as `solve` would give it; None where no measure needs it."""

    problem: Any
    start: Any
    solved: Any
    simulate: Callable[[], Any]
    gradient_flow: bool = False

    @cached_property
    def runs(self) -> Any:
        """Finite networks from this start, simulated when first asked for."""
        return self.simulate()

    @property
    def diverged(self) -> bool:
        """Did the theory stop before its last time?"""
        return self.solved is not None and not self.solved.finished

    def at_end(self, values: np.ndarray) -> np.ndarray:
        """The last entry of a curve; NaN if the solve did not get there."""
        return np.full(values.shape[1:], np.nan) if self.diverged else values[-1]
