"""Runs from recorded arrays: weights, or overlaps alone."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Numbers
from tutelage.conventions import as_numpy
from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.recording.recorded import (
    SUPPORTED,
    Outcome,
    RecordedOverlaps,
    assembled,
    common_start,
    field_weights,
)
from tutelage.recording.recorder import Recorder, trajectory_of
from tutelage.result.trajectory import Trajectory
from tutelage.times import steps_at


def runs_from_weights(
    times: Numbers,
    weights: Numbers,
    teacher_weights: Numbers,
    problem: Problem,
    *,
    readout: Numbers | None = None,
    bias: Numbers | None = None,
) -> Trajectory:
    """Return recorded weights of training runs as `simulate` returns its runs.

    Parameters
    ----------
    times : array (time,)
        Times alpha = steps / N of the records (`conventions.alpha` converts steps).
    weights : array (run, time, K, N) or (time, K, N)
        W of several runs, or of one; the fields are w . x / sqrt(N).
    teacher_weights : array (M, N)
        W*.
    problem : Problem
        What was learned; it gives the error at the overlaps.
    readout, bias : array (run, time, ...) or (time, ...), optional
        Needed if the student of the problem trains them.

    Returns
    -------
    Trajectory

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"))
    >>> rng = np.random.default_rng(0)
    >>> weights = rng.standard_normal((5, 3, 2, 50))
    >>> runs = tu.runs_from_weights(
    ...     [0.0, 1.0, 2.0], weights, rng.standard_normal((2, 50)), problem
    ... )
    >>> runs.R.shape
    (5, 3, 2, 2)
    """
    problem = require_problem(problem, "runs_from_weights", needs=SUPPORTED)
    known_times = _as_times(times)
    count = known_times.size
    hidden = problem.student.hidden
    W = checks.as_array(
        "weights",
        as_numpy(weights),
        shapes=[(count, hidden, "N"), ("runs", count, hidden, "N")],
        fix=f"There are {count} times and {hidden} student units.",
    )
    W = W.reshape(-1, *W.shape[-3:])
    runs = W.shape[0]
    shape_of_readout = problem.readout_shape
    v = _by_run("readout", readout, runs, count, shape_of_readout)
    b = _by_run("bias", bias, runs, count, (hidden,))
    recorders = []
    for run in range(runs):
        recorder = Recorder(problem, teacher_weights, times=known_times)
        steps = steps_at(known_times, recorder.dim)
        _, places = np.unique(steps, return_index=True)
        for place in places:
            recorder(
                int(steps[place]),
                W[run, place],
                readout=None if v is None else v[run, place],
                bias=None if b is None else b[run, place],
            )
        recorders.append(recorder)
    return trajectory_of(recorders)


def runs_from_overlaps(
    times: Numbers,
    R: Numbers,
    Q: Numbers,
    problem: Problem,
    *,
    dim: int,
    T: Numbers | None = None,
    readout: Numbers | None = None,
    bias: Numbers | None = None,
) -> Trajectory:
    """Return recorded overlaps of training runs as `simulate` returns its runs.

    Parameters
    ----------
    times : array (time,)
        Times alpha = steps / N of the records.
    R, Q : array (run, time, K, M) and (run, time, K, K)
        Covariances of the fields, w_k . w*_m / N and w_k . w_l / N for isotropic
        inputs; without the first axis for one run. For inputs with several levels also
        overlaps per level, (run, time, L, K, M) and (run, time, L, K, K).
    problem : Problem
        What was learned; it gives the error at the overlaps.
    dim : int
        N of the runs.
    T : array (M, M) or (L, M, M), optional
        Teacher overlaps. Default: the gram of the teacher, else the identity.
    readout, bias : array (run, time, ...) or (time, ...), optional
        Needed if the student of the problem trains them.

    Returns
    -------
    Trajectory

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "erf"), tu.Network(1, "erf"))
    >>> R = np.array([0.0, 0.5, 0.9]).reshape(3, 1, 1)
    >>> Q = np.array([0.1, 0.5, 1.0]).reshape(3, 1, 1)
    >>> runs = tu.runs_from_overlaps([0.0, 1.0, 2.0], R, Q, problem, dim=500)
    >>> runs.error.round(3)
    array([[0.196, 0.088, 0.036]])
    """
    problem = require_problem(problem, "runs_from_overlaps", needs=SUPPORTED)
    known_times = _as_times(times)
    count = known_times.size
    N = checks.as_count("dim", dim)
    students = _student_overlaps(R, Q, problem, count, N)
    runs = len(students.R)
    T_given = _as_teacher_overlaps(T, problem)
    t = _teacher_levels(problem, students, T_given)
    teacher = np.einsum("l,lab->ab", field_weights(problem, N), t)
    if problem.unseen is not None:
        teacher = teacher + np.asarray(problem.unseen)
    overlaps = RecordedOverlaps(
        R=students.R,
        Q=students.Q,
        T=np.broadcast_to(teacher, (runs, *teacher.shape)),
        r=students.r,
        q=students.q,
        t=np.broadcast_to(t, (runs, *t.shape)),
        readout=_or_untrained(problem, "readout", readout, runs, count),
        bias=_or_untrained(problem, "bias", bias, runs, count),
    )
    start = None
    if known_times[0] == 0:
        start = common_start(_starts(problem, overlaps, T_given, N))
    steps = steps_at(known_times, N)
    outcome = Outcome(
        status=np.zeros(runs, dtype=int),
        end_time=np.full(runs, known_times[-1]),
        steps=np.full(runs, steps[-1]),
    )
    return assembled(problem, known_times, overlaps, N, start, outcome)


class StudentOverlaps(NamedTuple):
    """R and Q of the fields, and r and q per level where they are known."""

    R: Float[np.ndarray, "run time K M"]
    Q: Float[np.ndarray, "run time K K"]
    r: Float[np.ndarray, "run time L K M"] | None
    q: Float[np.ndarray, "run time L K K"] | None


def _student_overlaps(
    R: Any, Q: Any, problem: Problem, count: int, dim: int
) -> StudentOverlaps:
    """Return checked overlaps of the student, with an axis of runs."""
    K = problem.student.hidden
    M = problem.references.hidden
    L = problem.inputs.levels
    shapes = [(count, K, M), ("runs", count, K, M), ("runs", count, L, K, M)]
    fix = f"There are {count} times, {K} student and {M} teacher units."
    r = _as_recorded("R", R, shapes, fix)
    shapes = [(*r.shape[:-1], K)]
    q = _as_recorded("Q", Q, shapes, f"R has shape {r.shape}.")
    checks.require_gram("Q", q)
    weights = field_weights(problem, dim)
    if r.ndim == 5:
        return StudentOverlaps(
            R=np.einsum("l,...lab->...ab", weights, r),
            Q=np.einsum("l,...lab->...ab", weights, q),
            r=r,
            q=q,
        )
    if problem.inputs.classes is not None:
        raise InputError(
            f"R has shape {r.shape}, and the inputs are a mixture; the error of a "
            "mixture needs overlaps per level, (run, time, L, K, M)."
        )
    fields_R = r.reshape(-1, count, K, M)
    fields_Q = q.reshape(-1, count, K, K)
    if L > 1:
        return StudentOverlaps(R=fields_R, Q=fields_Q, r=None, q=None)
    return StudentOverlaps(
        R=fields_R,
        Q=fields_Q,
        r=fields_R[:, :, None] / weights.sum(),
        q=fields_Q[:, :, None] / weights.sum(),
    )


def _as_teacher_overlaps(T: Any, problem: Problem) -> np.ndarray | None:
    """Return T as it was given, checked."""
    M = problem.references.hidden
    return checks.as_array(
        "T",
        None if T is None else as_numpy(T),
        checks.require_gram,
        shapes=[(M, M), (problem.inputs.levels, M, M)],
        optional=True,
    )


def _first_overlaps(
    problem: Problem, overlaps: StudentOverlaps | RecordedOverlaps, run: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return R and Q of a run at the first time, as `Start` takes them."""
    if problem.inputs.levels == 1 or overlaps.r is None or overlaps.q is None:
        return overlaps.R[run, 0], overlaps.Q[run, 0]
    return overlaps.r[run, 0], overlaps.q[run, 0]


def _teacher_levels(
    problem: Problem, students: StudentOverlaps, T: np.ndarray | None
) -> Float[np.ndarray, "L M M"]:
    """Return the teacher overlaps per level; refuse those that vectors cannot have."""
    R, Q = _first_overlaps(problem, students, 0)
    _, _, t = Start(R, Q, T).blocks(problem)
    shape = (problem.inputs.levels, *np.shape(t)[-2:])
    return np.broadcast_to(np.asarray(t, dtype=float), shape)


def _starts(
    problem: Problem, overlaps: RecordedOverlaps, T: np.ndarray | None, dim: int
) -> list[Start]:
    """Return the initial condition of each run."""
    starts = []
    for run in range(len(overlaps.R)):
        R, Q = _first_overlaps(problem, overlaps, run)
        bias = overlaps.bias[run, 0] if problem.biased else None
        starts.append(Start(R, Q, T, overlaps.readout[run, 0], bias, dim=dim))
    return starts


def _as_times(times: Any) -> Float[np.ndarray, " time"]:
    """Return the recorded times; unlike `solve`, one number is not a range."""
    values = checks.as_array("times", as_numpy(times))
    checks.require_increasing("times", values)
    return values


def _as_recorded(name: str, values: Any, shapes: list[Any], fix: str) -> np.ndarray:
    """Convert a recorded array; a number that is not finite names its place."""
    array = checks.as_array(name, as_numpy(values), shapes=shapes, fix=fix)
    bad = ~np.isfinite(array)
    if np.any(bad):
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{name} contains {array[place]:g} at {place}; every entry must be a finite "
            "number. Leave out the run, or the times from there on."
        )
    return array


def _by_run(
    name: str, values: Any, runs: int, count: int, shape: tuple[int, ...]
) -> np.ndarray | None:
    """Return a readout or biases as (run, time, ...); None if none were given."""
    if values is None:
        return None
    shapes = [(count, *shape), (runs, count, *shape)]
    fix = f"There are {runs} runs and {count} times."
    array = _as_recorded(name, values, shapes, fix)
    return np.broadcast_to(array, (runs, count, *shape))


def _or_untrained(
    problem: Problem, name: str, values: Any, runs: int, count: int
) -> np.ndarray:
    """Return a readout or biases as (run, time, ...); by default those of the student."""
    student = problem.student
    if name == "readout":
        default = student.readout
        shape = problem.readout_shape
        is_trained = student.train_readout
    else:
        default = np.zeros(student.hidden) if student.bias is None else student.bias
        shape = (student.hidden,)
        is_trained = student.train_bias
    array = _by_run(name, values, runs, count, shape)
    if array is not None:
        return array
    if is_trained:
        raise InputError(
            f"{name} is None, and the student of the problem trains it; "
            f"give {name}= with an axis of times."
        )
    return np.broadcast_to(np.asarray(default, dtype=float), (runs, count, *shape))
