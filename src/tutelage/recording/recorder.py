"""`Recorder`: called in any training loop, it keeps the overlaps of the weights.

Only overlaps are kept, so that a record costs K (K + M) numbers for each level,
whatever N is. Weights w follow the library's convention, fields w . x / sqrt(N);
`conventions` converts those of other programs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Numbers
from tutelage.conventions import as_numpy
from tutelage.errors import InputError, Status, kind_of
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import start_from_weights, weights_by_level
from tutelage.recording.recorded import (
    SUPPORTED,
    Outcome,
    RecordedOverlaps,
    assembled,
    common_start,
    field_weights,
)
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.prepare import drift_rate
from tutelage.times import steps_at

COMMON_CAUSE = (
    "The run diverged, or a learning rate misses a factor 1/N (see tu.conventions)."
)


class Record(NamedTuple):
    """The overlaps per level, the readout and the biases after `step` steps."""

    step: int
    r: Float[np.ndarray, "L K M"]
    q: Float[np.ndarray, "L K K"]
    readout: np.ndarray
    bias: Float[np.ndarray, " K"]


class Recorder:
    """Record the overlaps of student and teacher weights in a training loop.

    Call it as `recorder(step, weights)` with the number of steps taken so far: with 0
    before the first update. `runs` returns what was recorded as `simulate` would.

    Parameters
    ----------
    problem : Problem
        What the loop learns; it gives the error at the recorded overlaps.
    teacher_weights : array (M, N)
        W*, in the convention of the library: the fields are w . x / sqrt(N).
    times : array, optional
        Times alpha to record, as in `solve`: calls at other steps than ceil(alpha N)
        return at once. Default: every call is recorded.

    Attributes
    ----------
    dim : int
        N.
    steps : list of int
        The recorded steps.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, optimizer=tu.SGD(lr=0.5))
    >>> rng = np.random.default_rng(0)
    >>> N = 100
    >>> teacher = rng.standard_normal((1, N))
    >>> W = 0.1 * rng.standard_normal((1, N))
    >>> recorder = tu.Recorder(problem, teacher, times=[0.0, 1.0, 2.0])
    >>> for step in range(2 * N + 1):
    ...     recorder(step, W)
    ...     x = rng.standard_normal(N)
    ...     gap = (teacher - W) @ x / np.sqrt(N)
    ...     W = W + 0.5 / np.sqrt(N) * np.outer(gap, x)
    >>> runs = recorder.runs()
    >>> runs.times, runs.error.shape
    (array([0., 1., 2.]), (1, 3))
    """

    def __init__(
        self,
        problem: Problem,
        teacher_weights: Numbers,
        *,
        times: Numbers | Sequence[float] | None = None,
    ):
        self.problem = require_problem(problem, "Recorder", needs=SUPPORTED)
        if drift_rate(problem):
            raise InputError(
                "the teachers of the problem drift, so their weights change; Recorder "
                "takes one array of teacher weights. Use teachers without drift."
            )
        self._teacher = checks.as_array(
            "teacher_weights",
            as_numpy(teacher_weights),
            shapes=[("M", "N")],
            fix="One row per teacher unit.",
        )
        basis = problem.inputs.basis
        columns = np.shape(self._teacher)[-1:]
        if basis is not None:
            columns = (basis.shape[1],)
        elif problem.inputs.known_dim is not None:
            columns = (problem.inputs.known_dim,)
        probe = np.ones((problem.student.hidden, *columns))
        start = start_from_weights(problem, probe, self._teacher)
        start.blocks(problem)  # it refuses a teacher with other overlaps than its gram
        levels = weights_by_level(problem, probe, self._teacher)
        self.dim: int = sum(w.shape[1] for w in levels.student)
        self.t: Float[np.ndarray, "L M M"] = _overlaps(levels.teacher, levels.teacher)
        self.times: Float[np.ndarray, " time"] | None = None
        self._wanted: list[int] | None = None
        self._next = 0  # the place of the next wanted step
        if times is not None:
            self.times = checks.as_times(times)
            steps = steps_at(self.times, self.dim)
            self._wanted = [int(step) for step in np.unique(steps)]
        self.records: list[Record] = []
        self.status = Status.FINISHED
        self._start: Start | None = None

    @property
    def steps(self) -> list[int]:
        """The recorded steps."""
        return [record.step for record in self.records]

    @property
    def start(self) -> Start:
        """The initial condition of this run, for `solve`."""
        if self._start is None:
            raise InputError(
                "step 0 was not recorded, so the initial condition is not known; "
                "call recorder(0, weights) before the first update."
            )
        return self._start

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        until = ""
        if self.records:
            until = f" up to step {self.records[-1].step}"
        return f"<Recorder of {len(self)} states{until}, N = {self.dim}>"

    def __call__(
        self,
        step: int,
        weights: Numbers,
        *,
        readout: Numbers | None = None,
        bias: Numbers | None = None,
    ) -> None:
        """Record the weights after `step` steps.

        A call that raises records nothing and loses nothing.

        Parameters
        ----------
        step : int
            The number of updates made so far; it must increase from call to call.
        weights : array (K, N)
            W: NumPy, JAX, or a PyTorch tensor on any device.
        readout, bias : array, optional
            Needed if the student of the problem trains them.
        """
        step = checks.as_count("step", step, least=0)
        if not self._is_wanted(step):
            return
        W = as_numpy(weights)
        self._require_shape(W)
        self._require_finite(step, weights=W, readout=readout, bias=bias)
        levels = weights_by_level(self.problem, W, self._teacher)
        v = self._readout(readout)
        b = self._bias(bias)
        with np.errstate(over="ignore", invalid="ignore"):
            r = _overlaps(levels.student, levels.teacher)
            q = _overlaps(levels.student, levels.student)
        self._require_finite(step, weights=q)  # squares of finite weights may overflow
        record = Record(
            step=step,
            r=r,
            q=(q + q.swapaxes(-1, -2)) / 2,
            readout=v,
            bias=b,
        )
        if step == 0:
            start = start_from_weights(self.problem, W, self._teacher, readout=v)
            self._start = Start(
                start.R, start.Q, start.T, v, self._initial_bias(b), dim=self.dim
            )
        self.records.append(record)
        self._next += 1

    def runs(self, *others: "Recorder") -> Trajectory:
        """Return the recorded runs as one `Trajectory`, as `simulate` does.

        Parameters
        ----------
        *others : Recorder
            Recorders of further runs of the same problem, at the same steps. A run
            that ended early is NaN from there on, and `status_code` marks it.

        Returns
        -------
        Trajectory
        """
        return trajectory_of([self, *others])

    def _is_wanted(self, step: int) -> bool:
        """Return True if this step is to be recorded; refuse steps out of order."""
        last = -1
        if self.records:
            last = self.records[-1].step
        if self._wanted is not None:
            if self._next == len(self._wanted) or step < self._wanted[self._next]:
                if step <= last and step in self._wanted:
                    raise _out_of_order(step, last)
                return False
            missed = self._wanted[self._next]
            if step > missed:
                raise InputError(
                    f"step {missed} (alpha = {missed / self.dim:g}) was not recorded, "
                    f"and the loop is at step {step}; call the recorder at every step, "
                    "or leave out times."
                )
            return True
        if step <= last:
            raise _out_of_order(step, last)
        return True

    def _require_shape(self, W: Any) -> None:
        """Refuse weights of another shape; name a transposed matrix."""
        hidden = self.problem.student.hidden
        columns = np.shape(self._teacher)[-1]
        if self.problem.inputs.known_dim is not None:
            basis = self.problem.inputs.basis
            columns = self.dim if basis is None else basis.shape[1]
        fix = f"The problem has {hidden} student units, and N is {columns}."
        if hidden != columns and np.shape(W) == (columns, hidden):
            fix = "Transpose them: Keras and Flax keep kernels as (inputs, units)."
        checks.as_array("weights", W, shapes=[(hidden, columns)], fix=fix)

    def _require_finite(self, step: int, **arrays: Any) -> None:
        """Refuse NaN and infinity, and mark the run as diverged."""
        for name, values in arrays.items():
            if values is None:
                continue
            array = checks.as_array(name, as_numpy(values))
            if not np.all(np.isfinite(array)):
                self.status = Status.DIVERGED
                bad = array[~np.isfinite(array)].flat[0]
                kept = f"The {len(self)} states before are kept: recorder.runs()."
                raise InputError(
                    f"{name} contain {bad:g} at step {step}; every entry must be a "
                    f"finite number. {COMMON_CAUSE} {kept}"
                )

    def _readout(self, readout: Any) -> np.ndarray:
        """Return the readout, in the shape that the problem has."""
        student = self.problem.student
        shape = self.problem.readout_shape
        if readout is None:
            if student.train_readout:
                raise InputError(
                    "readout is None, and the student of the problem trains it; call "
                    "recorder(step, weights, readout=v)."
                )
            return np.broadcast_to(np.asarray(student.readout), shape)
        v = as_numpy(readout)
        if np.shape(v) == (1, *shape):  # of a layer with one output
            v = v[0]
        return checks.as_array("readout", v, shapes=[shape])

    def _bias(self, bias: Any) -> np.ndarray:
        """Return the biases; zero where the student has none."""
        student = self.problem.student
        if bias is None:
            if student.train_bias:
                raise InputError(
                    "bias is None, and the student of the problem trains it; call "
                    "recorder(step, weights, bias=b)."
                )
            if student.bias is None:
                return np.zeros(student.hidden)
            return np.asarray(student.bias)
        b = checks.as_array("bias", as_numpy(bias), shapes=[(student.hidden,)])
        if not self.problem.biased and np.any(b != 0):
            raise InputError(
                f"bias is {checks.shown(b)}, and the student of the problem has none; "
                "give it to the problem, Network(..., bias=, train_bias=True)."
            )
        return b

    def _initial_bias(self, bias: np.ndarray) -> np.ndarray | None:
        return bias if self.problem.biased else None


def _out_of_order(step: int, last: int) -> InputError:
    """The error for a step that is not after the last recorded one."""
    return InputError(
        f"step is {step} after step {last}; steps must increase. "
        "Use one Recorder for each run."
    )


def _overlaps(
    left: list[np.ndarray], right: list[np.ndarray]
) -> Float[np.ndarray, "L a b"]:
    """Return overlaps per dimension of each level."""
    return np.stack([x @ y.T / x.shape[1] for x, y in zip(left, right, strict=True)])


def _require_recorders(recorders: Sequence[object]) -> Iterator[Recorder]:
    """Yield the recorders; refuse anything else."""
    for recorder in recorders:
        if not isinstance(recorder, Recorder):
            raise InputError(
                f"runs got a value {kind_of(recorder)}; give it recorders of other "
                "runs, first.runs(second, third)."
            )
        yield recorder


def trajectory_of(recorders: Sequence[Recorder]) -> Trajectory:
    """Return the runs of several recorders."""
    all_recorders = list(_require_recorders(recorders))
    longest = max(all_recorders, key=len)
    _require_records(all_recorders, longest)
    problem = longest.problem
    times = _times_of(longest)
    steps = steps_at(times, longest.dim)
    r = np.stack([_by_time(one, steps, "r") for one in all_recorders])
    q = np.stack([_by_time(one, steps, "q") for one in all_recorders])
    t = np.stack([one.t for one in all_recorders])
    weights = field_weights(problem, longest.dim)
    T = np.einsum("l,...lab->...ab", weights, t)
    if problem.unseen is not None:
        T = T + np.asarray(problem.unseen)
    overlaps = RecordedOverlaps(
        R=np.einsum("l,...lab->...ab", weights, r),
        Q=np.einsum("l,...lab->...ab", weights, q),
        T=T,
        r=r,
        q=q,
        t=t,
        readout=np.stack([_by_time(one, steps, "readout") for one in all_recorders]),
        bias=np.stack([_by_time(one, steps, "bias") for one in all_recorders]),
    )
    starts = [one.start for one in all_recorders if 0 in one.steps]
    start = None
    if len(starts) == len(all_recorders):
        start = common_start(starts)
    return assembled(
        problem,
        times,
        overlaps,
        longest.dim,
        start,
        _outcome(all_recorders, longest, times),
    )


def _require_records(recorders: list[Recorder], longest: Recorder) -> None:
    """Refuse runs without records, of different problems, or at different steps."""
    for number, recorder in enumerate(recorders, 1):
        if len(recorder) == 0:
            raise InputError(
                f"recorder {number} has no records; call recorder(step, weights) in "
                "the training loop first."
            )
        same_problem = eqx.tree_equal(recorder.problem, longest.problem) is True
        if recorder.problem is not longest.problem and not same_problem:
            raise InputError(
                f"recorder {number} is about another problem; runs of one trajectory "
                "share it. Make all recorders with the same Problem."
            )
        if recorder.dim != longest.dim:
            raise InputError(
                f"recorder {number} has N = {recorder.dim}, and another one "
                f"N = {longest.dim}; runs of one trajectory share N."
            )
        if recorder.steps != longest.steps[: len(recorder)]:
            differing = zip(recorder.steps, longest.steps, strict=False)
            step, other = next((a, b) for a, b in differing if a != b)
            raise InputError(
                f"recorder {number} has step {step} where another one has step "
                f"{other}; all must record the same steps. "
                "Make them with the same `times`."
            )


def _times_of(recorder: Recorder) -> Float[np.ndarray, " time"]:
    """Return the recorded times: those asked for, else step / N."""
    last = recorder.records[-1].step
    if recorder.times is None:
        return np.array(recorder.steps) / recorder.dim
    return recorder.times[steps_at(recorder.times, recorder.dim) <= last]


def _by_time(recorder: Recorder, steps: np.ndarray, name: str) -> np.ndarray:
    """Return one quantity at these steps; NaN where the run had ended."""
    records: dict[int, Record] = {record.step: record for record in recorder.records}
    shape = np.shape(getattr(recorder.records[0], name))
    values = np.full((steps.size, *shape), np.nan)
    for place, step in enumerate(steps):
        if int(step) in records:
            values[place] = getattr(records[int(step)], name)
    return values


def _outcome(
    recorders: list[Recorder], longest: Recorder, times: np.ndarray
) -> Outcome:
    """Return how the runs ended; one with fewer records than another ended early."""
    status = []
    for recorder in recorders:
        code = recorder.status
        if code == Status.FINISHED and not _is_complete(recorder, longest):
            code = Status.INTERRUPTED
        status.append(code)
    codes = np.array(status, dtype=int)
    steps = np.array([one.records[-1].step for one in recorders], dtype=np.int64)
    ends = np.where(codes == Status.FINISHED, times[-1], steps / longest.dim)
    return Outcome(status=codes, end_time=ends, steps=steps)


def _is_complete(recorder: Recorder, longest: Recorder) -> bool:
    """Return True if a run has all records: as many as others, and up to `times`."""
    if len(recorder) < len(longest):
        return False
    if recorder.times is None:
        return True
    last = steps_at(recorder.times[-1:], recorder.dim)[0]
    return recorder.records[-1].step >= last
