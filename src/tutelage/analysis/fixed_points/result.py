"""A fixed point as a result: its state, its error, its modes, and the sentence that says whether it is left."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tutelage import checks
from tutelage.analysis.fixed_points.modes import Mode, rate_in_words
from tutelage.analysis.fixed_points.roots import MARGIN
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem, Start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAR = 0.1  # a change of an overlap that is no longer small


@dataclass(frozen=True)
class FixedPoint:
    """A state at which the drift vanishes. modes: all of them, fastest growing first (flat coordinates).

    error: generalization error there. residual: the largest drift that is left. t: overlaps of the teachers per level.
    distance: how far (largest change of an overlap) the root lies from where the search for it began: the given start, the
    perfect solution without noise and decay, or the end of the approach to a plateau.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> plateau = tu.analysis.fixed_point(problem, "plateau")
    >>> plateau.stable, round(plateau.unstable[0].growth, 5)
    (False, 0.03162)
    """

    problem: Problem
    gradient_flow: bool
    state: Overlaps
    t: np.ndarray
    error: float
    residual: float
    modes: tuple[Mode, ...]
    distance: float = 0.0

    @property
    def r(self) -> np.ndarray:
        """Overlaps of students and teachers per level, (L, K, M)."""
        return np.asarray(self.state.r)

    @property
    def q(self) -> np.ndarray:
        """Overlaps of students per level, (L, K, K)."""
        return np.asarray(self.state.q)

    @property
    def R(self) -> np.ndarray:
        """Covariance of student and teacher fields, (K, M)."""
        return self._fields(self.r)

    @property
    def Q(self) -> np.ndarray:
        """Covariance of student fields, (K, K)."""
        return self._fields(self.q)

    @property
    def T(self) -> np.ndarray:
        """Covariance of teacher fields, (M, M)."""
        return self._fields(self.t)

    def _fields(self, blocks: np.ndarray) -> np.ndarray:
        return np.einsum("l,lab->ab", np.asarray(self.problem.inputs.weights), blocks)

    @property
    def readout(self) -> np.ndarray:
        """v, (K,)."""
        return np.asarray(self.state.readout)

    @property
    def bias(self) -> np.ndarray | None:
        """b, (K,), or None."""
        return None if self.state.bias is None else np.asarray(self.state.bias)

    @property
    def start(self) -> Start:
        """The fixed point as a `Start`, per level."""
        return Start(self.r, self.q, self.t, readout=self.readout, bias=self.bias)

    @property
    def _margin(self) -> float:
        return MARGIN * max((abs(mode.rate) for mode in self.modes), default=0.0)

    @property
    def unstable(self) -> tuple[Mode, ...]:
        """The modes that grow."""
        return tuple(mode for mode in self.modes if mode.growth > self._margin)

    @property
    def stable(self) -> bool:
        """Does no mode grow?"""
        return not self.unstable

    @property
    def is_far(self) -> bool:
        """Did the search end far from where it began, so that the root may not be the one that was meant?"""
        return self.distance > FAR

    @property
    def stability(self) -> str:
        """One sentence: stable, or which modes leave it and how fast."""
        if self.unstable:
            count, first = len(self.unstable), self.unstable[0]
            modes = f"{count} mode{'s' * (count > 1)}"
            return (
                f"Unstable: it is left along {modes} of {len(self.modes)}, the fastest growing as "
                f"exp({rate_in_words(first.rate).removeprefix('+')} alpha), which {first.name}."
            )
        flat = sum(abs(mode.rate) <= self._margin for mode in self.modes)
        if flat:
            return f"Not left by any mode to first order, but {flat} of {len(self.modes)} modes neither grow nor fade."
        return f"Stable: the slowest of {len(self.modes)} modes fades as exp({rate_in_words(self.modes[0].rate)} alpha)."

    def __str__(self) -> str:
        lines = [
            f"fixed point of {'gradient flow' if self.gradient_flow else 'SGD'}: e_g = {self.error:.8g}, "
            f"residual {self.residual:.1e}",
            f"R = {_shown(self.R)}",
            f"Q = {_shown(self.Q)}",
            self.stability,
        ]
        if self.is_far:
            lines.append(f"FAR: an overlap changed by {self.distance:.3g} on the way from where the search began")
        return "\n".join(lines + [f"  {mode}" for mode in self.distinct])

    @property
    def distinct(self) -> list[Mode]:
        """One mode for each rate, and for each pair of conjugates."""
        out: list[Mode] = []
        for mode in self.modes:
            if not out or (mode.rate != out[-1].rate and mode.rate != np.conj(out[-1].rate)):
                out.append(mode)
        return out

    def plot(self, *, title: str | None = None) -> "Figure":
        """The overlaps as heat maps and the modes by rate and name, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.fixed_point import plot_fixed_point

        return plot_fixed_point(self, title=title)

    def __repr__(self) -> str:
        return f"<FixedPoint: e_g = {self.error:.6g}, {len(self.unstable)} unstable of {len(self.modes)} modes>"


def _shown(matrix: np.ndarray) -> str:
    """Every entry of a small matrix, the range of a large one."""
    if matrix.size <= 16:
        return checks.shown(matrix)
    return f"{matrix.shape[0]} x {matrix.shape[1]} entries from {matrix.min():.6g} to {matrix.max():.6g}"
