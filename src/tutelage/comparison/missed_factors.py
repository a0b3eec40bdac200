"""Which missed factor would explain that recorded runs differ from the theory.

A training loop of another program converts weights, learning rates and time, and each
conversion has a factor that one can miss: N, sqrt(N), 2, the batch. For each of them the
finite network with this factor is simulated, by the exact law of its overlaps, and its
runs are compared with the recorded ones. A factor explains the runs if the two agree
where the theory's own problem does not. No limit of large N enters: a rate that is N
times too large is outside the theory, but not outside the simulation.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tutelage._solve import simulate
from tutelage.comparison.gaps import FINEST, z_score
from tutelage.comparison.verdict import AGREE, BIASED, LIMIT, Verdict, holds
from tutelage.errors import InputError, TutelageWarning
from tutelage.problem import Problem, Start
from tutelage.problem.activation import NAMED_ACTIVATIONS
from tutelage.recording.recorded import METHOD
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.simulate import estimated_seconds
from tutelage.times import steps_at

RUNS = 12  # simulated for each factor
SECONDS = 0.5  # of simulation for each factor; later times are left out
SAME = 1e-6  # relative difference of equal initial overlaps
COMPARED = ("R", "Q", "readout", "bias")
CLOSE = 0.05  # relative difference of a ratio from a factor that it is named after


@dataclass(frozen=True)
class MissedFactor:
    """A factor that would explain the gap. name: in short; words: what to check."""

    name: str
    words: str

    def __str__(self) -> str:
        return f"{self.name} would explain the gap ({self.words})"


class Candidate(NamedTuple):
    """A missed factor, and what the runs would be with it.

    problem, start: of the actual training. clock: actual alpha per recorded alpha.
    R, Q: the recorded overlaps in units of the actual ones.
    """

    factor: MissedFactor
    problem: Problem
    start: Start | list[Start]
    clock: float = 1.0
    R: float = 1.0
    Q: float = 1.0


class Recorded(NamedTuple):
    """The times of recorded runs, and their arrays (run, time, ...) by name."""

    times: np.ndarray
    runs: dict[str, np.ndarray]
    dim: int


def find_missed_factor(
    theory: Trajectory, runs: Trajectory, verdict: Verdict
) -> MissedFactor | None:
    """Return the factor that explains best why recorded runs differ; None if none does.

    Only runs that were recorded elsewhere can miss a factor (`Recorder`,
    `runs_from_weights`, `runs_from_overlaps`).
    """
    outcome = verdict.outcome if verdict.before is None else verdict.before
    was_recorded = dict(runs.settings).get("method") == METHOD
    if outcome in (AGREE, BIASED) or not was_recorded:
        return None
    if theory.problem is None or theory.start is None or runs.dim is None:
        return None
    start = theory.start.without_dim()
    recorded = _recorded(theory.problem, runs)
    unchanged = Candidate(MissedFactor("", ""), theory.problem, start)
    if recorded.times.size == 0 or _misfit(unchanged, recorded) is not None:
        return None
    best = None
    least = np.inf
    for candidate in _candidates(theory.problem, start, recorded):
        misfit = _misfit(candidate, recorded)
        if misfit is not None and misfit < least:
            best = candidate.factor
            least = misfit
    return best


def _recorded(problem: Problem, runs: Trajectory) -> Recorded:
    """Return the finished runs, at the times that a short simulation reaches."""
    dim = runs.dim
    assert dim is not None
    times = np.asarray(runs.times, dtype=float)
    steps = steps_at(times, dim)
    seconds = [estimated_seconds(problem, dim, n, RUNS, "overlaps", 1) for n in steps]
    kept = int(np.sum(np.asarray(seconds) <= SECONDS))
    values = {}
    for name in COMPARED:
        if name in runs.variables:
            values[name] = np.asarray(runs[name], dtype=float)[:, :kept]
    finite = [np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in values.values()]
    finished = np.all(finite, axis=0)
    if not finished.any():
        return Recorded(times[:0], {}, dim)
    values = {name: x[finished] for name, x in values.items()}
    return Recorded(times[:kept], values, dim)


def _misfit(candidate: Candidate, recorded: Recorded) -> float | None:
    """Return the mean squared z-score of recorded and simulated runs.

    It is None if the two differ.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", TutelageWarning)
            simulated = simulate(
                candidate.problem,
                candidate.start,
                dim=recorded.dim,
                times=candidate.clock * recorded.times,
                runs=RUNS,
                method="overlaps",
                seed=0,
            )
    except InputError:  # a combination that cannot be simulated
        return None
    inside = []
    scores = []
    for name, measured in recorded.runs.items():
        unit = {"R": candidate.R, "Q": candidate.Q}.get(name, 1.0)
        z = _z_scores(measured, unit * np.asarray(simulated[name], dtype=float))
        flat = z.reshape(len(z), -1)
        inside.append(np.abs(flat) < LIMIT)
        scores.append(np.ravel(flat**2))
    if not holds(inside):
        return None
    return float(np.mean(np.concatenate(scores)))


def _z_scores(measured: np.ndarray, simulated: np.ndarray) -> np.ndarray:
    """Return z-scores of the difference of two means, (time, ...); NaN counts as large.

    A single measured run is compared with the scatter of the simulated ones.
    """
    count = len(measured)
    others = len(simulated)
    variance = simulated.var(axis=0, ddof=1) / others
    if count > 1:
        variance = variance + measured.var(axis=0, ddof=1) / count
        runs = min(count, others)
    else:
        variance = variance + simulated.var(axis=0, ddof=1)
        runs = others
    largest = np.max(np.abs(measured), initial=1e-12)
    unit = np.fmax(np.sqrt(variance), FINEST * largest)
    gap = measured.mean(axis=0) - simulated.mean(axis=0)
    return np.nan_to_num(z_score(gap / unit, runs), nan=np.inf)


def _candidates(
    problem: Problem, start: Start, recorded: Recorded
) -> Iterator[Candidate]:
    """Yield the missed factors that agree with the initial overlaps."""
    if recorded.times[0] > 0 or _begins_at(start, problem, recorded):
        yield from _rates(problem, start, recorded.dim)
        yield from _clocks(problem, start)
        yield from _activations(problem, start)
        return
    yield from _units_of_weights(problem, start, recorded)
    yield from _initial_conditions(problem, start, recorded)


def _begins_at(start: Start, problem: Problem, recorded: Recorded) -> bool:
    """Return True if the runs begin at the overlaps of the theory."""
    return _begins_with(start, problem, recorded, 1.0, 1.0)


def _begins_with(
    start: Start, problem: Problem, recorded: Recorded, R: float, Q: float
) -> bool:
    """Return True if the first records are R and Q times the overlaps of a start.

    Records of different initial weights scatter around it.
    """
    unit = {"R": R, "Q": Q}
    for name, expected in _field_overlaps(start, problem).items():
        first = recorded.runs[name][:, 0]
        scatter = 0.0
        if len(first) > 1:
            scatter = LIMIT * first.std(axis=0, ddof=1) / np.sqrt(len(first))
        scaled = unit[name] * expected
        tolerance = np.maximum(scatter, SAME * np.max(np.abs(scaled)))
        if np.any(np.abs(first.mean(axis=0) - scaled) > tolerance):
            return False
    return True


def _field_overlaps(start: Start, problem: Problem) -> dict[str, np.ndarray]:
    """Return R and Q of a start, summed over levels."""
    r, q, _ = start.blocks(problem)
    weights = np.asarray(problem.inputs.weights, dtype=float)
    return {
        "R": np.einsum("l,lab->ab", weights, np.asarray(r, dtype=float)),
        "Q": np.einsum("l,lab->ab", weights, np.asarray(q, dtype=float)),
    }


def _rates(problem: Problem, start: Start, dim: int) -> Iterator[Candidate]:
    """Yield factors of the learning rate."""
    root = float(np.sqrt(dim))
    batch = problem.samples_per_step
    in_layer = "a layer with fields W . x, such as nn.Linear, takes lr / N"
    in_scaled = "fields w . x / sqrt(N) take lr itself"
    no_half = "a loss without the factor 1/2, such as nn.MSELoss, takes half the rate"
    half = "a loss with the factor 1/2 takes the whole rate"
    factors = [
        (float(dim), "a learning rate N times larger", in_layer),
        (1 / dim, "a learning rate N times smaller", in_scaled),
        (root, "a learning rate sqrt(N) times larger", in_layer),
        (1 / root, "a learning rate sqrt(N) times smaller", in_scaled),
        (2.0, "a learning rate 2 times larger", no_half),
        (0.5, "a learning rate 2 times smaller", half),
    ]
    if batch > 2:
        over_batch = "the gradient is the mean over the batch, not the sum"
        factors += [
            (float(batch), f"a learning rate {batch} times larger", over_batch),
            (1 / batch, f"a learning rate {batch} times smaller", over_batch),
        ]
    for factor, name, words in factors:
        faster = _with_rates(problem, factor, ("lr", "readout_lr", "bias_lr"))
        yield Candidate(MissedFactor(name, words), faster, start)
    if not problem.student.train_readout and not problem.student.train_bias:
        return
    in_both = "readouts and biases take lr / N in layers of either scaling"
    for factor, comparative in ((float(dim), "larger"), (1 / dim, "smaller")):
        name = f"a learning rate of readouts and biases N times {comparative}"
        faster = _with_rates(problem, factor, ("readout_lr", "bias_lr"))
        yield Candidate(MissedFactor(name, in_both), faster, start)


def _with_rates(problem: Problem, factor: float, names: tuple[str, ...]) -> Problem:
    """Return the problem with some learning rates times a factor."""
    optimizer: Any = problem.optimizer
    changes = {}
    for name in names:
        rate = getattr(optimizer, name, None)
        if rate is None and "lr" not in names:
            rate = optimizer.lr  # the default of the others
        if rate is not None:
            changes[name] = _times(factor, rate)
    return problem.replace(**changes)


def _times(factor: float, rate: Any) -> Any:
    """Return a rate times a factor, also of a schedule."""
    if not callable(rate):
        return factor * rate
    schedule: Any = rate
    return lambda t: factor * schedule(t)


def _clocks(problem: Problem, start: Start) -> Iterator[Candidate]:
    """Yield clocks that count samples where time counts steps, and the reverse."""
    batch = problem.samples_per_step
    if batch == 1:
        return
    words = f"one step uses {batch} samples, and alpha = steps / N"
    counted_samples = MissedFactor("a clock that counts samples, not steps", words)
    yield Candidate(counted_samples, problem, start, clock=1 / batch)
    slow = MissedFactor(f"a clock that is {batch} times too slow", words)
    yield Candidate(slow, problem, start, clock=float(batch))


def _activations(problem: Problem, start: Start) -> Iterator[Candidate]:
    """Yield erf(x) in place of erf(x / sqrt(2)), in both networks.

    Its fields are sqrt(2) times larger: overlaps count twice, and so does the rate.
    """
    erf = NAMED_ACTIVATIONS["erf"]
    units = (problem.student.activation, problem.labeler.activation)
    if any(unit != erf for unit in units) or problem.references.gram is not None:
        return
    if start.T is None:
        T: Any = 2 * np.eye(problem.references.hidden)
    else:
        T = 2 * np.asarray(start.T)
    doubled = Start(
        2 * np.asarray(start.R), 2 * np.asarray(start.Q), T, start.readout, start.bias
    )
    factor = MissedFactor(
        "the activation erf(x)", "the library's erf units are erf(x / sqrt(2))"
    )
    faster = _with_rates(problem, 2.0, ("lr",))
    yield Candidate(factor, faster, doubled, R=0.5, Q=0.5)


def _units_of_weights(
    problem: Problem, start: Start, recorded: Recorded
) -> Iterator[Candidate]:
    """Yield weights that were recorded in the units of another layer."""
    N = float(recorded.dim)
    root = float(np.sqrt(N))
    small = "w = sqrt(N) W for a layer with fields W . x, such as nn.Linear"
    large = "w is recorded as it is if the fields are w . x / sqrt(N)"
    units = [
        (1 / N, 1 / N, "student and teacher weights recorded without sqrt(N)", small),
        (1 / root, 1 / N, "student weights recorded without sqrt(N)", small),
        (1 / root, 1.0, "teacher weights recorded without sqrt(N)", small),
        (N, N, "student and teacher weights recorded sqrt(N) times too long", large),
        (root, N, "student weights recorded sqrt(N) times too long", large),
        (root, 1.0, "teacher weights recorded sqrt(N) times too long", large),
    ]
    for R, Q, name, words in units:
        if _begins_with(start, problem, recorded, R, Q):
            yield Candidate(MissedFactor(name, words), problem, start, R=R, Q=Q)


def _initial_conditions(
    problem: Problem, start: Start, recorded: Recorded
) -> Iterator[Candidate]:
    """Yield the problem from the initial overlaps that the runs have."""
    if problem.inputs.levels > 1:
        return  # overlaps of the fields do not determine those per level
    starts = []
    for run in range(RUNS):
        first = {name: x[run % len(x), 0] for name, x in recorded.runs.items()}
        try:
            initial = Start(
                first["R"],
                first["Q"],
                start.T,
                first.get("readout"),
                first.get("bias"),
            )
        except InputError:  # overlaps that no vectors have with these teachers
            return
        starts.append(initial)
    expected = np.trace(_field_overlaps(start, problem)["Q"])
    measured = np.trace(recorded.runs["Q"][:, 0].mean(axis=0))
    ratio = _ratio_in_words(float(np.sqrt(measured / expected)), recorded.dim)
    factor = MissedFactor(
        f"student weights that begin {ratio} times as long as in the theory",
        "check their initial norm, or solve from the `start` of the runs",
    )
    yield Candidate(factor, problem, starts)


def _ratio_in_words(ratio: float, dim: int) -> str:
    """Return a ratio of norms, by the name of a factor if it is near one."""
    root = float(np.sqrt(dim))
    named = {
        "N": float(dim),
        "sqrt(N)": root,
        "1/sqrt(N)": 1 / root,
        "1/N": 1 / dim,
    }
    for name, factor in named.items():
        if abs(ratio / factor - 1) < CLOSE:
            return name
    return f"{ratio:.3g}"
