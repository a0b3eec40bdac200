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
    loss: str | None = None
    """squared, logistic, hinge, huber, absolute, cross_entropy, or module:function (default squared)."""
    labels: str | None = None
    """real (the teacher's output), sign, logistic, argmax, or module:function (default real)."""
    flip: float | None = None
    """Sign labels, each wrong with this probability."""
    rule: str | None = None
    """gradient, hebbian, perceptron, adatron, or module:class (default gradient)."""
    imports: Annotated[list[str] | None, Parameter(name="--import", negative="")] = None
    """A module whose functions the problem may name as module:function; can be given several times."""
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
    """Input dimension N (default 1000)."""
    scale: float | None = None
    """Standard deviation of the student's weights; the teacher's is 1 (default 0.1)."""
    seed: Whole = None
    """Which random draw (default 0)."""


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
class TheoryFlags:
    """How the equations are solved."""

    gradient_flow: Switch = False
    """Terms of first order in the learning rate only."""
    rtol: float | None = None
    """Relative tolerance per step (default 1e-8)."""
    solver: str = "auto"
    """explicit, stiff (for wide spectra), implicit, or auto: stiff where explicit would clearly be slower."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class SolveFlags(TheoryFlags):
    """How the equations are solved, and whether their limit is checked."""

    validity: Annotated[bool, Parameter(show_default=False)] = True
    """Report where the limit may be trusted."""


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """How the finite network is simulated."""

    runs: Whole = None
    """How many networks (default 20)."""
    method: str | None = None
    """overlaps (each step costs the same at any N) or weights (default overlaps)."""
    long: Switch = False
    """Simulate even if it is estimated to take more than a day."""


@Parameter(name="*", group=START)
@dataclass(frozen=True, kw_only=True)
class CompareStartFlags(StartFlags):
    """Where theory and runs begin."""

    start: str | None = None
    """asymmetric: each unit nearer to one teacher, so that the start decides the escape; random: random weights (default
    asymmetric; with a file, as in the file)."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class TalkFlags:
    """What is printed."""

    json: Switch = False
    """Print JSON on standard output, and nothing else."""
    quiet: Switch = False
    """Print no table; notes and errors remain."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class FolderFlags(TalkFlags):
    """Where a report goes."""

    out_dir: Path = Path("output/compare")
    """Folder for the figure, the page and both trajectories; made if it is not there."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputFlags(TalkFlags):
    """Where the answer goes."""

    out: Path | None = None
    """Write the trajectory to this NetCDF file (.nc)."""
    plot: Path | None = None
    """Draw it into this figure (.png, .pdf or .svg)."""
    progress: Switch = False
    """Show how far a long solve has come (compiles anew, without the cache)."""
