"""What a command is asked: flags, and a problem file that they override, as arguments of the library.

The file is what `Problem.to_toml` writes, with two optional tables: [start] (dim, scale, seed; or R, Q, T, readout, bias and
dim; or kind = "asymmetric" and dim) and [times] (end, points, log). A flag that is None means: as in the file, else the default
that the help names. A new flag of a problem is a field of `ProblemFlags` and an entry of `ProblemFlags.applied_to`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, Token

from tutelage.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from tutelage._types import Table
    from tutelage.problem import Problem, Start

DEFAULTS = {"student": {"hidden": 3}, "teacher": {"hidden": 3}, "noise": 0.0}
TABLES = ("student", "teacher", "inputs", "sgd", "start", "times", "over", "cluster")
PROBLEM, START, TIMES, METHOD, OUTPUT = (
    Group(name, sort_key=i) for i, name in enumerate(("Problem", "Initial condition", "Times", "Method", "Output"))
)


def _whole(_: type, tokens: Sequence[Token]) -> int:
    """Only a whole number: 2.5 units are not rounded to two."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value} is not a whole number.") from None


WHOLE = Parameter(converter=_whole, n_tokens=1)
Whole = Annotated[int | None, WHOLE]
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


def given(**values: object) -> "Table":
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*", group=PROBLEM)
@dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    """What is learned, from what, how."""

    student_units: Annotated[Whole, Parameter(alias="-K")] = None
    """Hidden units of the student (default 3)."""
    teacher_units: Annotated[Whole, Parameter(alias="-M")] = None
    """Hidden units of the teacher (default 3)."""
    activation: str | None = None
    """Activation of the student: erf, relu, linear, quadratic, tanh, ... (default erf)."""
    teacher_activation: str | None = None
    """Activation of the teacher (default: that of the student; with a file, as in the file)."""
    outputs: Whole = None
    """Outputs of student and teacher, one per hidden unit (default 1)."""
    train_readout: bool | None = None
    """Train the readout of the student, too."""
    labels: str | None = None
    """real (the teacher's output), sign, logistic, argmax, or module:function (default real)."""
    noise: float | None = None
    """Standard deviation of the label noise (default 0)."""
    flip: float | None = None
    """Probability that a sign label is wrong (default 0)."""
    loss: str | None = None
    """squared, logistic, hinge, huber, absolute, cross_entropy, or module:function (default squared)."""
    rule: str | None = None
    """gradient, hebbian, perceptron, adatron, dropout, feedback_alignment, or module:class (default gradient)."""
    imports: Annotated[list[str] | None, Parameter(name="--import", negative="")] = None
    """Allow the problem to name functions of this module as module:function; can be repeated."""
    lr: float | None = None
    """Learning rate (default 0.5)."""
    batch: Whole = None
    """Samples per step (default 1)."""
    weight_decay: float | None = None
    """Weight decay of the first layer (default 0)."""
    beta: float | None = None
    """Power-law inputs: eigenvalue l decays as l^-(1 + beta). Needs --levels."""
    levels: Whole = None
    """Power-law inputs: number of eigenvalues. Needs --beta."""

    def applied_to(self, tables: "Table", alone: bool) -> "Table":
        """The tables of a problem with these flags written into them. alone: there is no file."""
        student = given(hidden=self.student_units, activation=self.activation, train_readout=self.train_readout)
        like_student = self.activation if alone else None
        teacher = given(hidden=self.teacher_units, activation=self.teacher_activation or like_student)
        changes = {
            "student": student | given(outputs=self.outputs),
            "teacher": teacher | given(outputs=self.outputs),
            "sgd": given(lr=self.lr, batch=self.batch, weight_decay=self.weight_decay),
            "inputs": given(beta=self.beta, levels=self.levels),
        }
        if changes["inputs"] and tables.get("inputs", {}).get("kind") != "power_law":
            tables = tables | {"inputs": {"kind": "power_law"}}
        labels = self.labels
        if self.flip is not None:
            labels = self.labels or tables.get("labels", "sign")
            kind = labels.get("kind") if isinstance(labels, dict) else labels
            if kind != "sign":
                raise InputError(f"--flip is given for {kind!r} labels; only sign labels are flipped. Leave one out.")
            labels = {"kind": "sign", "flip": self.flip}
        merged = tables | {name: tables.get(name, {}) | change for name, change in changes.items() if change}
        return merged | given(noise=self.noise, loss=self.loss, labels=labels, rule=self.rule)


@Parameter(name="*", group=START)
@dataclass(frozen=True, kw_only=True)
class StartFlags:
    """Where learning begins."""

    start: str | None = None
    """random (random weights) or asymmetric (each unit is nearer to one teacher, so that the initial condition determines the
    escape). Default: as in the file; without one, random in solve, asymmetric in simulate and compare."""
    dim: Whole = None
    """Input dimension N (default 1000)."""
    scale: float | None = None
    """Standard deviation of the student's initial weights; the teacher's is 1 (default 0.1)."""
    seed: Whole = None
    """Seed of the random numbers (default 0)."""


@Parameter(name="*", group=TIMES)
@dataclass(frozen=True, kw_only=True)
class TimeFlags:
    """When to record: alpha = steps / N."""

    times: float | None = None
    """The last time (default 300)."""
    points: Whole = None
    """Number of recorded times (default 201)."""
    log_times: bool | None = None
    """Space the times evenly in the logarithm, over four decades."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class TheoryFlags:
    """How the equations are solved."""

    gradient_flow: Switch = False
    """Keep only the terms of first order in the learning rate."""
    rtol: float | None = None
    """Relative tolerance per step of the solver (default 1e-8)."""
    accuracy: float | None = 1e-3
    """Relative error of the curve that sampled averages may leave: more points are taken until it is reached, or until the
    curve would cost more than some seconds."""
    solver: str = "auto"
    """explicit, stiff (for wide spectra), implicit, or auto: stiff if explicit would clearly be slower."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """How the finite network is simulated."""

    runs: Annotated[int, WHOLE] = 20
    """Number of simulated networks."""
    method: str = "overlaps"
    """overlaps (the cost of a step does not depend on N) or weights."""
    long: Switch = False
    """Simulate even if it is estimated to take more than a day."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class TalkFlags:
    """What is printed."""

    json: Switch = False
    """Print JSON on standard output, and nothing else."""
    quiet: Switch = False
    """Print no table, only notes and errors."""

    @property
    def talks(self) -> bool:
        """Whether tables are printed."""
        return not (self.json or self.quiet)


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputFlags(TalkFlags):
    """Where the result goes."""

    out: Path | None = None
    """Write the trajectory to this NetCDF file (.nc)."""
    plot: Path | None = None
    """Draw the trajectory into this file (.png, .pdf or .svg)."""


@dataclass(frozen=True)
class Request:
    """Arguments of the library; `start_table` is the initial condition as it was given, for the record."""

    problem: "Problem"
    start: "Start"
    times: "np.ndarray"
    start_table: "Table"


def read_request(
    path: Path | None, problem: ProblemFlags, start: StartFlags, times: TimeFlags, *, finite: bool = False
) -> Request:
    """Read, merge and check the problem file and the flags.

    finite: for simulations, which begin asymmetric by default, at a known N; a seed next to overlaps is that of the runs.
    """
    from tutelage import Problem
    from tutelage.problem.serialize import NAMES
    from tutelage.problem.start import OVERLAPS, start_from_table
    from tutelage.times import times_from_table

    tables = dict(DEFAULTS) if path is None else read_file(path, (*NAMES, "start", "times"))
    kind = "asymmetric" if finite and start.start is None and "start" not in tables else start.start
    start_table = tables.pop("start", {}) | given(kind=kind, dim=start.dim, scale=start.scale, seed=start.seed)
    times_table = tables.pop("times", {}) | given(end=times.times, points=times.points, log=times.log_times)
    tables = problem.applied_to(tables, alone=path is None)
    built = Problem.from_dict(tables, problem.imports or ())
    table = {"dim": built.inputs.usual_dim} | start_table if finite else dict(start_table)
    if finite and set(OVERLAPS) & set(table):
        table.pop("seed", None)
    return Request(built, start_from_table(built, table), times_from_table(times_table), start_table)


def read_file(path: Path, names: tuple[str, ...], what: str = "a problem file") -> "Table":
    """The tables of a TOML file, which may have these names; the library checks what is inside."""
    from tutelage import checks
    from tutelage.problem.serialize import parsed

    try:
        data = parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise InputError(f"{path} cannot be read ({why}); give the name of {what} (TOML).") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name, value in data.items():
        checks.known(f"a name in {path}", name, names)
        if name in TABLES and not isinstance(value, dict):
            raise InputError(f"{name} is {checks.shown(value)} in {path}; it must be a table, [{name}].")
    return data
