"""The length of a plateau from its height, its spread and one time constant.

Eqs. 12 and 117 of Worschech and Rosenow 2024, after Biehl et al. 1996:
    alpha_P - alpha_0 = tau (D - ln(sigma_J^2) / 2 + ln(N) / 2),
with D = ln(B / c), c = sigma_P / sigma_J and B = |R(alpha_0) - R(alpha_P)|. Their
sigma_P is measured on the plateau, so it contains the N^(-1/2) of random initial
weights already; the term ln(N) / 2 counts it twice. Without this term sigma_J drops
out, and
    alpha_P - alpha_0 = tau ln(B / sigma_P).
The plateau ends where an entry of R has grown to e times its height, so
B = (e - 1) R(alpha_0). Two units never reach that: e times their height, 0.41, is more
than the 1 that R ends at. They need a smaller factor.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import InputError, Problem, Trajectory, checks
from tutelage_papers.power_law.plateau_formulas import plateau_formulas

LARGEST_SPREAD = 0.1  # of the height: beyond it the units have parted already
ROUNDING = 1e-13  # of the height: below it the units are equal


@dataclass(frozen=True)
class PlateauLength:
    """The time that a committee stays on its plateau after the time `begin`.

    height: mean entry of R at `begin`. spread: sigma_P, the root mean square distance
    of the rows of R from their mean there. deviation: B. time_constant: tau of the
    overlaps. observed: the recorded time after `begin` at which an entry of R first
    exceeds `factor` times the height, None if there is none. dim: N of the initial
    condition, None if it has none.
    """

    problem: Problem
    begin: float
    height: float
    spread: float
    deviation: float
    factor: float
    time_constant: float
    observed: float | None
    dim: int | None

    @property
    def length(self) -> float:
        """The corrected length, tau ln(B / sigma_P)."""
        return self.time_constant * float(np.log(self.deviation / self.spread))

    @property
    def end(self) -> float:
        """The time at which the plateau ends, alpha_P."""
        return self.begin + self.length

    @property
    def printed_length(self) -> float:
        """The length of eqs. 12 and 117 as printed, tau ln(N) / 2 longer."""
        if self.dim is None:
            raise InputError(
                "the initial condition has no dim; eqs. 12 and 117 as printed contain "
                "ln(N). Give it one, as in random_start(problem, dim=N)."
            )
        return self.length + self.time_constant * float(np.log(self.dim)) / 2

    def __str__(self) -> str:
        observed = "the curve does not leave it within its times"
        if self.observed is not None:
            observed = f"the curve leaves it at {self.observed:.5g}"
        return (
            f"plateau at R = {self.height:.5g}, units apart by {self.spread:.3g} at "
            f"{self.begin:.5g}\nlength {self.length:.5g} with a time constant of "
            f"{self.time_constant:.4g}: it ends at {self.end:.5g}; {observed}"
        )


def plateau_length(
    theory: Trajectory,
    begin: float,
    *,
    factor: float = np.e,
    time_constant: float | None = None,
) -> PlateauLength:
    """Predict how long a committee stays on its plateau, from one time on it.

    Equations 12 and 117 of arXiv 2410.09005 without their term ln(N) / 2.

    Parameters
    ----------
    theory : Trajectory
        One curve of a problem of `committee`, from `solve`.
    begin : float
        A time on the plateau, alpha_0; the first recorded time from it on is used.
    factor : float
        The plateau ends where an entry of R reaches this multiple of its height. With
        two units e is too large; 1.5 will do.
    time_constant : float, optional
        That of the overlaps; default: eq. 15 (`plateau_formulas`). The exact one of
        these teachers is `symmetric_plateau(problem, start).time_constant`.

    Returns
    -------
    PlateauLength

    Examples
    --------
    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(beta=0.25, levels=2)
    >>> problem = tutelage_papers.power_law.committee(3, inputs=inputs, lr=1.0)
    >>> start = tu.random_start(problem, dim=7000, scale=0.01)
    >>> theory = tu.solve(problem, start, tu.linear_times(600), gradient_flow=True)
    >>> found = tutelage_papers.power_law.plateau_length(theory, begin=60.0)
    >>> bool(abs(found.end / found.observed - 1) < 0.1)
    True
    """
    problem = _problem_of(theory)
    start = theory.start
    if start is None:
        raise InputError(
            "this trajectory has lost its start, and with it its teachers; solve again."
        )
    if time_constant is None:
        time_constant = plateau_formulas(problem, start).time_constant
    checks.require_positive("time_constant", time_constant)
    times = np.asarray(theory.times)
    begin = float(checks.as_array("begin", begin))
    if not times[0] <= begin < times[-1]:
        raise InputError(
            f"begin is {begin:g}; it must be a time on the plateau, between "
            f"{times[0]:g} and {times[-1]:g}, the recorded times."
        )
    first = int(np.searchsorted(times, begin))
    R = np.asarray(theory.R)
    height = float(np.mean(R[first]))
    spread = float(np.sqrt(np.mean((R[first] - R[first].mean(axis=0)) ** 2)))
    _require_plateau(height, spread, float(times[first]))
    _require_reachable(float(factor), height, np.asarray(theory.T))
    is_left = R[first:].max(axis=(1, 2)) > factor * height
    observed = float(times[first + np.argmax(is_left)]) if is_left.any() else None
    return PlateauLength(
        problem=problem,
        begin=float(times[first]),
        height=height,
        spread=spread,
        deviation=(factor - 1) * height,
        factor=float(factor),
        time_constant=float(time_constant),
        observed=observed,
        dim=start.dim,
    )


def _problem_of(theory: object) -> Problem:
    """Return the problem of a single curve."""
    if not isinstance(theory, Trajectory) or not isinstance(theory.problem, Problem):
        raise InputError(
            f"theory is {checks.shown(theory)}; give what solve returned for a problem "
            "of committee."
        )
    if np.ndim(theory.error) != 1:
        raise InputError(
            f"theory has {np.shape(theory.error)[0]} members; plateau_length takes one "
            "curve. Solve one problem."
        )
    return theory.problem


def _require_plateau(height: float, spread: float, time: float) -> None:
    """Raise unless the units are nearly equal, aligned with the teachers and apart."""
    if height <= 0 or spread > LARGEST_SPREAD * height:
        raise InputError(
            f"at {time:g} the mean of R is {height:.3g} and the units are apart by "
            f"{spread:.3g}; on the plateau this is at most {LARGEST_SPREAD:g} of the "
            "mean. Choose another begin."
        )
    if spread < ROUNDING * height:
        raise InputError(
            f"at {time:g} all units are equal, so they never leave the plateau. Begin "
            "with unequal units, as random_start does."
        )


def _require_reachable(factor: float, height: float, T: np.ndarray) -> None:
    """Raise unless R, which ends at the entries of T, reaches factor times height."""
    largest = float(np.max(T)) / height
    if not 1 < factor < largest:
        raise InputError(
            f"factor is {factor:.4g}; it must be above 1 and below {largest:.4g}, "
            "because R ends at the teachers' own overlaps. For two units use 1.5."
        )
