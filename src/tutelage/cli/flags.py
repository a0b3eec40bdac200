"""The flags that commands share, in groups. None means: as in the problem file, else the default that the help names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

PROBLEM, START, TIMES, METHOD, OUTPUT = (
    Group(name, sort_key=i) for i, name in enumerate(("Problem", "Start", "Times", "Method", "Output"))
)


def _whole(_: Any, tokens: Sequence[Any]) -> int:
    """Only a whole number: 2.5 units are not rounded to two."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value} is not a whole number.") from None


Whole = Annotated[int | None, Parameter(converter=_whole, n_tokens=1)]
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


@Parameter(name="*", group=PROBLEM)
@dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    """What is learned, from what, how."""

    student_units: Annotated[Whole, Parameter(alias="-K")] = None
    """Hidden units of the student (default 3)."""
    teacher_units: Annotated[Whole, Parameter(alias="-M")] = None
    """Hidden units of the teacher (default 3)."""
    activation: str | None = None
    """erf, relu, linear, quadratic, tanh, ... of the student (default erf)."""
    teacher_activation: str | None = None
    """That of the teacher (default: the same; with a file, as in the file)."""
    lr: float | None = None
    """Learning rate (default 0.5)."""
    noise: float | None = None
    """Standard deviation of the label noise (default 0)."""
    batch: Whole = None
    """Samples per step (default 1)."""
    weight_decay: float | None = None
    """Weight decay of the first layer (default 0)."""
    train_readout: bool | None = None
    """The student's readout learns too."""
    beta: float | None = None
    """Power-law inputs: the l-th eigenvalue falls as l^-(1 + beta). Needs --levels."""
    levels: Whole = None
    """Power-law inputs: the number of eigenvalues."""


@Parameter(name="*", group=START)
@dataclass(frozen=True, kw_only=True)
class StartFlags:
    """Learning begins at the overlaps of random weights."""

    dim: Whole = None
    """Input dimension N of the random weights (default 1000)."""
    scale: float | None = None
    """Standard deviation of the student's weights; the teacher's is 1 (default 0.1)."""
    seed: Whole = None
    """Which random weights (default 0)."""


@Parameter(name="*", group=TIMES)
@dataclass(frozen=True, kw_only=True)
class TimeFlags:
    """When to look: alpha = steps / N."""

    times: float | None = None
    """The last time (default 300)."""
    points: Whole = None
    """How many times to record (default 201)."""
    log_times: bool | None = None
    """Evenly spaced in the logarithm, over four decades."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class SolveFlags:
    """How the equations are solved."""

    gradient_flow: Switch = False
    """Terms of first order in the learning rate only."""
    rtol: float = 1e-8
    """Relative tolerance per step."""
    solver: str = "explicit"
    """explicit, or implicit for stiff spectra."""
    validity: Annotated[bool, Parameter(show_default=False)] = True
    """Report where the limit may be trusted."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where the answer goes."""

    out: Path | None = None
    """Write the trajectory to this NetCDF file (.nc)."""
    plot: Path | None = None
    """Draw it into this figure (.png, .pdf or .svg)."""
    json: Switch = False
    """Print JSON on standard output, and nothing else."""
    quiet: Switch = False
    """Print no table; notes and errors remain."""
    progress: Switch = False
    """Show how far a long solve has come (compiles anew, without the cache)."""
