"""Flags and the problem file that they override, as arguments of the library.

The file is what `Problem.to_toml` writes, with two optional tables: [start] (dim,
scale, seed; or R, Q, T, readout, bias and dim; or kind = "asymmetric" and dim) and
[times] (end, points, log). A flag that is None means: as in the file, else the default
that the help names. A new flag of a problem is a field of `ProblemFlags` and an entry
of `ProblemFlags.applied_to`.
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
TABLES = (
    "student",
    "teacher",
    "inputs",
    "optimizer",
    "start",
    "times",
    "over",
    "cluster",
)
PROBLEM = Group("Problem", sort_key=0)
START = Group("Initial condition", sort_key=1)
TIMES = Group("Times", sort_key=2)
METHOD = Group("Method", sort_key=3)
OUTPUT = Group("Output", sort_key=4)


def _whole(_: type, tokens: Sequence[Token]) -> int:
    """Return a whole number: 2.5 units are not rounded to two."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value} is not a whole number.") from None


WHOLE = Parameter(converter=_whole, n_tokens=1)
Whole = Annotated[int | None, WHOLE]
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


def given_values(**values: object) -> "Table":
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*", group=PROBLEM)
@dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    """Flags of the problem: student, teacher, inputs and learning rule."""

    student_units: Annotated[Whole, Parameter(alias="-K")] = None
    """Hidden units of the student (default 3)."""
    teacher_units: Annotated[Whole, Parameter(alias="-M")] = None
    """Hidden units of the teacher (default 3)."""
    activation: str | None = None
    """Activation of the student: erf, relu, linear, quadratic, tanh, ... (default
    erf)."""
    teacher_activation: str | None = None
    """Activation of the teacher (default: that of the student; with a file, as in the
    file)."""
    outputs: Whole = None
    """Outputs of student and teacher, one per hidden unit (default 1)."""
    train_readout: bool | None = None
    """Train the readout of the student, too."""
    labels: str | None = None
    """real (the teacher's output), sign, logistic, argmax, or module:function (default
    real)."""
    noise: float | None = None
    """Standard deviation of the label noise (default 0)."""
    flip: float | None = None
    """Probability that a sign label is wrong (default 0)."""
    loss: str | None = None
    """squared, logistic, hinge, huber, absolute, cross_entropy, or module:function
    (default squared)."""
    rule: str | None = None
    """gradient, hebbian, perceptron, adatron, dropout, feedback_alignment, or
    module:class (default gradient)."""
    imports: Annotated[list[str] | None, Parameter(name="--import", negative="")] = None
    """Allow the problem to name functions of this module as module:function; can be
    repeated."""
    optimizer: str | None = None
    """sgd, sign_sgd, rmsprop, adam, adagrad or muon (default sgd)."""
    lr: float | None = None
    """Learning rate (default 0.5)."""
    memory: float | None = None
    """Time over which rmsprop and adam average squared gradients, in units of alpha:
    1 / (N (1 - beta2)) (default 1)."""
    batch: Whole = None
    """Samples per step (default 1)."""
    weight_decay: float | None = None
    """Weight decay of the first layer (default 0)."""
    beta: float | None = None
    """Power-law inputs: eigenvalue l decays as l^-(1 + beta). Needs --levels."""
    levels: Whole = None
    """Power-law inputs: number of eigenvalues. Needs --beta."""

    def applied_to(self, tables: "Table", alone: bool) -> "Table":
        """Return the tables of a problem with these flags written into them.

        alone: there is no file.
        """
        like_student = self.activation if alone else None
        changes = {
            "student": given_values(
                hidden=self.student_units,
                activation=self.activation,
                train_readout=self.train_readout,
                outputs=self.outputs,
            ),
            "teacher": given_values(
                hidden=self.teacher_units,
                activation=self.teacher_activation or like_student,
                outputs=self.outputs,
            ),
            "optimizer": given_values(
                kind=self.optimizer,
                lr=self.lr,
                memory=self.memory,
                batch=self.batch,
                weight_decay=self.weight_decay,
            ),
            "inputs": given_values(beta=self.beta, levels=self.levels),
        }
        if changes["inputs"] and tables.get("inputs", {}).get("kind") != "power_law":
            tables = tables | {"inputs": {"kind": "power_law"}}
        merged = dict(tables)
        for name, change in changes.items():
            if change:
                merged[name] = tables.get(name, {}) | change
        return merged | given_values(
            noise=self.noise,
            loss=self.loss,
            labels=self._labels(tables),
            rule=self.rule,
        )

    def _labels(self, tables: "Table") -> "str | Table | None":
        """Return the labels that the flags give; --flip makes them sign labels."""
        if self.flip is None:
            return self.labels
        labels = self.labels or tables.get("labels", "sign")
        kind = labels
        if isinstance(labels, dict):
            kind = labels.get("kind")
        if kind != "sign":
            raise InputError(
                f"--flip is given for {kind!r} labels; only sign labels are flipped. "
                "Leave one out."
            )
        return {"kind": "sign", "flip": self.flip}


@Parameter(name="*", group=START)
@dataclass(frozen=True, kw_only=True)
class StartFlags:
    """Flags of the initial condition."""

    start: str | None = None
    """random (random weights) or asymmetric (each unit is nearer to one teacher, so
    that the initial condition determines the escape). Default: as in the file; without
    one, random in solve, asymmetric in simulate and compare."""
    dim: Whole = None
    """Input dimension N (default 1000)."""
    scale: float | None = None
    """Standard deviation of the student's initial weights; the teacher's is 1 (default
    0.1)."""
    seed: Whole = None
    """Seed of the random numbers (default 0)."""


@Parameter(name="*", group=TIMES)
@dataclass(frozen=True, kw_only=True)
class TimeFlags:
    """Flags of the recorded times, alpha = steps / N."""

    times: float | None = None
    """The last time (default 300)."""
    points: Whole = None
    """Number of recorded times (default 201)."""
    log_times: bool | None = None
    """Space the times evenly in the logarithm, over four decades."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class TheoryFlags:
    """Flags of the solver of the equations."""

    gradient_flow: Switch = False
    """Keep only the terms of first order in the learning rate."""
    rtol: float | None = None
    """Relative tolerance per step of the solver (default 1e-8)."""
    accuracy: float | None = None
    """Relative error of the curve that sampled averages may leave: more points are
    taken until it is reached, or until the curve would cost more than some seconds
    (default 1e-3; for a data set 5e-3)."""
    solver: str = "auto"
    """explicit, stiff (for wide spectra), implicit, or auto: stiff if explicit would
    clearly be slower."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Flags of the simulation of finite networks."""

    runs: Annotated[int, WHOLE] = 20
    """Number of simulated networks."""
    method: str | None = None
    """overlaps (the cost of a step does not depend on N) or weights (default: overlaps,
    except for optimizers that act on single coordinates)."""
    long: Switch = False
    """Simulate even if it is estimated to take more than a day."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class TalkFlags:
    """Flags of the printed output."""

    json: Switch = False
    """Print JSON on standard output, and nothing else."""
    quiet: Switch = False
    """Print no table, only notes and errors."""

    @property
    def talks(self) -> bool:
        """True if tables are printed."""
        return not (self.json or self.quiet)


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputFlags(TalkFlags):
    """Flags of the printed output and of the files."""

    out: Path | None = None
    """Write the trajectory to this NetCDF file (.nc)."""
    plot: Path | None = None
    """Draw the trajectory into this file (.png, .pdf or .svg)."""


@dataclass(frozen=True)
class Request:
    """Arguments of the library.

    start_table: the initial condition as it was given, for the record.
    """

    problem: "Problem"
    start: "Start"
    times: "np.ndarray"
    start_table: "Table"


def read_request(
    path: Path | None,
    problem: ProblemFlags,
    start: StartFlags,
    times: TimeFlags,
    *,
    finite: bool = False,
) -> Request:
    """Read, merge and check the problem file and the flags.

    finite: for simulations, which begin asymmetric by default, at a known N; a seed
    next to overlaps is that of the runs.
    """
    from tutelage import Problem
    from tutelage.problem.serialize import NAMES
    from tutelage.problem.start import OVERLAPS, start_from_table
    from tutelage.times import times_from_table

    tables = dict(DEFAULTS)
    if path is not None:
        tables = read_file(path, (*NAMES, "start", "times"))
    kind = start.start
    if finite and kind is None and "start" not in tables:
        kind = "asymmetric"
    start_table = tables.pop("start", {})
    start_table |= given_values(
        kind=kind, dim=start.dim, scale=start.scale, seed=start.seed
    )
    times_table = tables.pop("times", {})
    times_table |= given_values(
        end=times.times, points=times.points, log=times.log_times
    )
    tables = problem.applied_to(tables, alone=path is None)
    built = Problem.from_dict(tables, problem.imports or ())
    start_arguments = dict(start_table)
    if finite:
        start_arguments = {"dim": built.inputs.usual_dim} | start_table
        if set(OVERLAPS) & set(start_arguments):
            start_arguments.pop("seed", None)
    return Request(
        problem=built,
        start=start_from_table(built, start_arguments),
        times=times_from_table(times_table),
        start_table=start_table,
    )


def read_file(
    path: Path, names: tuple[str, ...], what: str = "a problem file"
) -> "Table":
    """Return the tables of a TOML file, which may have these names.

    The library checks their content.
    """
    from tutelage import checks
    from tutelage.problem.serialize import parsed

    try:
        data = parsed(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise _not_readable(path, "it is not a text file", what) from None
    except OSError as error:
        raise _not_readable(path, error.strerror, what) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name, value in data.items():
        checks.known(f"a name in {path}", name, names)
        if name in TABLES and not isinstance(value, dict):
            raise InputError(
                f"{name} is {checks.shown(value)} in {path}; "
                f"it must be a table, [{name}]."
            )
    return data


def _not_readable(path: Path, reason: str | None, what: str) -> InputError:
    return InputError(
        f"{path} cannot be read ({reason}); give the name of {what} (TOML)."
    )
