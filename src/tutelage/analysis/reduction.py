"""The smallest network that a trained student amounts to: copies merged, dead units out.

Student units that end as copies of each other act as one unit with the sum of their
readouts, and units without an output can go (expand and cluster: Simsek et al. 2021,
Martinelli et al. 2023). Units of one cluster have nearly the same direction. With
g(lambda_k) = g(lambda) + g'(lambda) (lambda_k - lambda) their sum is v g(lambda) to
first order for
    v = sum_k v_k,    w = sum_k v_k w_k / v.
The new vectors are combinations C of the old ones, so their overlaps are C R and
C Q C^T: no weights are needed.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.result import RunResults, curve_of
from tutelage.analysis.subspaces import has_rotations
from tutelage.errors import InputError, require_fields
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.result.trajectory import Trajectory
from tutelage.stream.moments.integrals import I2
from tutelage.stream.order_parameters import generalization_error

NEEDED = (
    "one task",
    "one Gaussian",
    "real",
    "single output",
    "one activation",
    "no biases",
)
LEAST_SUM = 0.5  # of the sum of sizes: below it readouts cancel, and sizes are weights


@dataclass(frozen=True, repr=False)
class Reduced(ResultCard):
    """A student without copies and dead units.

    Attributes
    ----------
    problem : Problem
        The problem with the smaller student, to solve, simulate or analyze further.
    start : Start
        The final state of the trajectory for this student.
    error, full_error : float
        e_g of the smaller student, and that of the full one.
    units : array (K,)
        The new unit that each student unit became part of, counted from 0; -1 for a
        dead one.
    combination : array (new units, K)
        C: the new first-layer vectors in terms of the old ones.
    """

    problem: Problem
    start: Start
    error: float
    full_error: float
    units: Int[np.ndarray, " K"]
    combination: Float[np.ndarray, "new K"]

    @property
    def dead(self) -> np.ndarray:
        """The student units that were dropped, counted from 0."""
        return np.flatnonzero(self.units < 0)

    def __repr__(self) -> str:
        return f"<Reduced: {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        count = self.combination.shape[0]
        lines = [
            f"{self.units.size} student units act as {count}: error {self.error:.4g}, "
            f"full student {self.full_error:.4g}"
        ]
        for new in range(count):
            members = np.flatnonzero(self.units == new) + 1
            names = ", ".join(str(member) for member in members)
            readout = float(np.asarray(self.start.readout)[new])
            lines.append(f"new unit {new + 1}: units {names}, readout {readout:.4g}")
        if self.dead.size:
            names = ", ".join(str(unit + 1) for unit in self.dead)
            lines.append(f"dropped: units {names}")
        return "\n".join(lines)


def reduced(
    trajectory: Trajectory,
    run: int | None = None,
    *,
    cosine: float = 0.9,
    dead: float = 0.01,
) -> Reduced | RunResults:
    """Merge copies among the final student units and drop those that do nothing.

    Parameters
    ----------
    trajectory : Trajectory
        What `solve` or `simulate` returned for a student without biases. With several
        levels solve with keep="blocks".
    run : int, optional
        One run of a simulation; default: every run.
    cosine : float
        Units are merged if the mean cosine between their clusters is at least this
        (average linkage). A unit with an odd or even activation can be a mirrored copy.
    dead : float
        A unit is dropped if the size of its output, |v| sqrt(E[g^2]), is at most this
        share of the largest one.

    Returns
    -------
    Reduced or RunResults

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> student = tu.Network(3, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5))
    >>> R = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> start = tu.Start(R, R @ R.T, readout=[0.3, 0.7, 1.0])
    >>> found = tu.analysis.reduced(tu.solve(problem, start, [0.0, 1.0]))
    >>> found.problem.student.hidden, bool(found.error < 1e-12)
    (2, True)
    """
    needed = ("times", "variables", "error", "problem", "start")
    require_fields("reduced", trajectory, needed, "what solve or simulate returned")
    problem = require_problem(trajectory.problem, "reduced", NEEDED)
    if has_rotations(problem):
        raise InputError(
            f"units of {problem.student.activation.name!r} can rotate among themselves "
            "without a change of the output, so none is a copy. specialization compares "
            "their span with that of the teacher."
        )
    for name, value in (("cosine", cosine), ("dead", dead)):
        if not 0 <= float(checks.as_array(name, value)) <= 1:
            raise InputError(f"{name} is {value:g}; it must be between 0 and 1.")
    if run is not None or np.ndim(trajectory.error) <= 1:
        return _reduced_run(trajectory, problem, run, cosine, dead)
    count = int(np.prod(np.shape(trajectory.error)[:-1]))
    found = (
        _reduced_run(trajectory, problem, index, cosine, dead) for index in range(count)
    )
    return RunResults(tuple(found))


def _reduced_run(
    trajectory: Trajectory,
    problem: Problem,
    run: int | None,
    cosine: float,
    dead: float,
) -> Reduced:
    """Return the reduction of one curve."""
    curve = curve_of(trajectory, run, "reduced", least_times=1)
    variables = {name: values[-1] for name, values in curve.variables.items()}
    Q = variables["Q"]
    readout = variables.get("readout", np.asarray(problem.student.readout))
    units, signs = _clusters(problem, Q, readout, cosine, dead)
    combination, new_readout = _merged(problem, readout, units, signs)
    smaller = problem.replace(
        **{
            "student.hidden": len(new_readout),
            "student.readout": new_readout,
        }
    )
    # overlaps per level, (L, ...); one level has those of the fields
    r = combination @ _per_level(variables, "r", "R", problem)
    q = combination @ _per_level(variables, "q", "Q", problem) @ combination.T
    start = trajectory.start
    teacher = None if start is None else start.T
    R = combination @ variables["R"]
    error = generalization_error(smaller, R, combination @ Q @ combination.T, curve.T)
    return Reduced(
        problem=smaller,
        start=Start(r, q, teacher, readout=new_readout),
        error=float(error),
        full_error=float(curve.error[-1]),
        units=units,
        combination=combination,
    )


def _per_level(
    variables: dict[str, np.ndarray], name: str, total: str, problem: Problem
) -> np.ndarray:
    """Return overlaps per level (L, ...), from the fields if there is one level."""
    if name in variables:
        return variables[name]
    weights = np.asarray(problem.inputs.weights)
    if weights.size > 1:
        raise InputError(
            f"this trajectory has no {name!r}, the overlaps of each of its "
            f"{weights.size} levels. Solve again with keep='blocks'."
        )
    return variables[total][None] / weights[0]


def _clusters(
    problem: Problem, Q: np.ndarray, readout: np.ndarray, cosine: float, dead: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cluster of each unit, -1 for dead ones, and its sign in it."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    activation = problem.student.activation
    squared = np.diagonal(Q)
    equal_fields = squared[:, None, None] * np.ones((2, 2))
    second_moment = np.asarray(I2(activation, equal_fields))
    size = np.abs(readout) * np.sqrt(np.maximum(second_moment, 0.0))
    alive = np.flatnonzero(size > dead * np.max(size))
    if alive.size == 0:
        raise InputError(
            "no student unit has an output, so nothing is left to merge. Train first."
        )
    units = np.full(readout.size, -1)
    signs = np.ones(readout.size)
    if alive.size == 1:
        units[alive] = 0
        return units, signs
    lengths = np.sqrt(squared[alive])
    cosines = Q[np.ix_(alive, alive)] / np.multiply.outer(lengths, lengths)
    may_mirror = activation.parity != 0
    distance = 1 - (np.abs(cosines) if may_mirror else cosines)
    np.fill_diagonal(distance, 0.0)
    distance = np.maximum((distance + distance.T) / 2, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    labels = fcluster(tree, 1 - cosine, criterion="distance")
    # new units are numbered in the order of their first members
    order = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    units[alive] = [order[label] for label in labels]
    if may_mirror:
        for place, unit in enumerate(alive):
            first = int(np.argmax(units[alive] == units[unit]))
            signs[unit] = -1.0 if cosines[place, first] < 0 else 1.0
    return units, signs


def _merged(
    problem: Problem, readout: np.ndarray, units: np.ndarray, signs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return C, the new vectors in terms of the old ones, and the new readouts."""
    count = int(units.max()) + 1
    combination = np.zeros((count, units.size))
    new_readout = np.zeros(count)
    # v g(-x) = -v g(x) of a mirrored unit with an odd g
    facing = readout * signs if problem.student.activation.parity < 0 else readout
    for new in range(count):
        members = np.flatnonzero(units == new)
        new_readout[new] = np.sum(facing[members])
        share = facing[members]
        if abs(np.sum(share)) < LEAST_SUM * np.sum(np.abs(share)):
            share = np.abs(share)
        combination[new, members] = signs[members] * share / np.sum(share)
    return combination, new_readout
