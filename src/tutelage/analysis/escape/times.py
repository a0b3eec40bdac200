"""When does a network leave its plateau? Predicted from the unstable mode and the start's projection on it.

Units that are nearly alike stay so on a plateau, while what tells them apart grows as exp(rate alpha). The escape ends a
plateau when the error falls for good below half of the plateau's (below its geometric mean with the error at the end, where
that is higher: `thresholds`). So

    time = (1 / rate) ln(constant / amplitude),

amplitude: the start's asymmetry as it acts on the plateau, counted back to time zero; constant: the size at which growth
ends in the fall. The start is never solved through its escape: its symmetric part is solved, its asymmetry is carried
linearly beside it until it has grown to a small fixed size, and the exit from there depends on its direction only.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.escape.exits import chosen_teachers, flat_errors, follow_exit
from tutelage.analysis.escape.plateau_path import LAUNCH, plateau_path
from tutelage.analysis.fixed_points import FixedPoint
from tutelage.problem import Problem, Start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNSEEN = 1e-9  # share of an asymmetry below which it holds nothing that grows


@dataclass(frozen=True)
class EscapeTime:
    """The predicted escape from a plateau.

    time: the predicted escape, (1/rate) ln(constant / amplitude). rate: growth of the asymmetry on the plateau.
    slope: how much later an e-th of the asymmetry escapes; 1/rate for small ones, some per cent more or less as long as the
    slow symmetric modes (q_ii - q_ij) have not come to rest. asymmetry: size of what tells units of the start apart
    (Euclidean norm over all overlaps). amplitude: what it amounts to on the plateau, counted back to time zero. threshold:
    the error below which the network has escaped. teachers: the teacher that each unit chooses. times, errors, sizes: the
    predicted learning curve, and the size of the asymmetry up to its launch (NaN after).

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=1.5))
    >>> start = tu.Start(R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> escape = tu.analysis.escape_time(problem, start)
    >>> escape.teachers, round(escape.scaled(0.1) - escape.time, 1)        # ten times more symmetric
    ((0, 1), 30.0)
    """

    time: float
    rate: float
    slope: float
    amplitude: float
    asymmetry: float
    threshold: float
    plateau: FixedPoint
    teachers: tuple[int, ...]
    times: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray

    @property
    def constant(self) -> float:
        """c in time = (1/rate) ln(c / amplitude): depends on the direction of the asymmetry, hardly on its size."""
        return self.amplitude * float(np.exp(self.rate * self.time))

    @property
    def per_log_dim(self) -> float:
        """1/(2 rate): random weights have an asymmetry of order N^(-1/2) and escape later by this much times ln N."""
        return 1 / (2 * self.rate)

    def scaled(self, factor: float) -> float:
        """The time of escape if the start's asymmetry were `factor` times as large."""
        value = checks.as_array("factor", factor)
        checks.require_shape("factor", value, ())
        checks.require_positive("factor", value)
        return self.time - self.slope * float(np.log(value))

    def plot(self, *, title: str | None = None) -> "Figure":
        """The predicted curve and the growth of the asymmetry, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.escapes import plot_escape_time

        return plot_escape_time(self, title=title)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"escape at alpha = {self.time:.5g}: the error falls below {self.threshold:.4g} "
                f"(plateau {self.plateau.error:.4g})",
                f"growth: exp({self.rate:.5g} alpha), {len(self.plateau.unstable)} growing "
                f"mode{'s' * (len(self.plateau.unstable) > 1)}",
                f"start: asymmetry {self.asymmetry:.3g}, which acts as {self.amplitude:.3g} on the plateau; "
                f"alpha = ln({self.constant:.3g} / {self.amplitude:.3g}) / {self.rate:.5g}",
                f"a tenth of the asymmetry: {self.slope * np.log(10):.4g} later; random weights in N dimensions: "
                f"{self.per_log_dim:.4g} ln N later",
                f"units 1, 2, ... choose the teachers {', '.join(str(m + 1) for m in self.teachers)}",
            ]
        )

    def __repr__(self) -> str:
        return f"<EscapeTime: {self.time:.6g}, rate {self.rate:.6g}, amplitude {self.amplitude:.3g}>"


def escape_time(problem: Problem, start: Start, *, gradient_flow: bool = False) -> EscapeTime:
    """When the solved curve from this start leaves its plateau, without solving it through the escape.

    The start must be nearly symmetric: units alike up to an asymmetry (R_1m - R_2m, Q_11 - Q_22, ...) of at most about
    0.25. Within 0.5% of the solved time for asymmetries up to 0.1, and within 5% up to 0.25 (tests). Constant learning
    rates, any activation, spectrum, batch, weight decay, label noise, trained readouts.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=1.5))
    >>> start = tu.Start(R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> escape = tu.analysis.escape_time(problem, start)
    >>> round(escape.time, 1), round(escape.rate, 4)
    (45.6, 0.0764)
    """
    path = plateau_path(problem, start, gradient_flow=checks.as_flag("gradient_flow", gradient_flow))
    b, asymmetry = path.amplitudes(path.start), float(np.linalg.norm(path.start - path.path[0]))
    if np.linalg.norm(b) <= UNSEEN * asymmetry:
        raise InputError(
            "what tells the units of this start apart does not grow on the plateau (it lies on its stable manifold), so the "
            "start never escapes. Give the rows of R different directions."
        )
    path.require_small(b)
    exit_ = follow_exit(path, b)
    sizes, before = path.sizes(b), path.times < exit_.launch_time
    launch_size = max(LAUNCH, float(sizes.min()))
    return EscapeTime(
        time=exit_.time,
        rate=path.rate,
        slope=follow_exit(path, b / np.e).time - exit_.time,
        amplitude=launch_size * float(np.exp(-path.rate * exit_.launch_time)),
        asymmetry=asymmetry,
        threshold=exit_.threshold,
        plateau=path.plateau,
        teachers=tuple(int(m) for m in chosen_teachers(path, exit_.last[None])[0]),
        times=np.concatenate([path.times[before], exit_.times]),
        errors=np.concatenate([np.asarray(flat_errors(path.system, path.like, path.path))[before], exit_.errors]),
        sizes=np.concatenate([sizes[before], [launch_size], np.full(exit_.times.size - 1, np.nan)]),
    )
