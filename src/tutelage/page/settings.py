"""The table of the explorer's controls, and the problem that their values describe.

The table is the single source: the page builds its controls from it, the server checks
against it, and the address of a page holds the values that differ from the defaults. A
page without a server has the part of the table that theory.js covers.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tomli_w

import tutelage as tu
from tutelage import checks
from tutelage.errors import InputError
from tutelage.plot.style import is_log_spaced
from tutelage.problem.problem import require_problem
from tutelage.problem.serialize import parsed
from tutelage.problem.start import require_start, start_from_table
from tutelage.problem.traits import MIXTURES, TASKS
from tutelage.times import times_from_table

POINTS = 201  # recorded times
GIVEN = "as given"  # the start whose overlaps a page carries
Value = str | bool | int | float
Values = dict[str, Any]  # by control; each has its kind


@dataclass(frozen=True)
class Control:
    """One control of the explorer.

    kind: choice, flag, count (whole number), number; log: a slider that is even in the
    logarithm. only: it is shown when other controls have this value, or one of these.
    """

    name: str
    words: str
    kind: str
    default: Value
    least: float = 0
    most: float = 0
    log: bool = False
    options: tuple[str, ...] = ()
    group: str = ""
    only: Mapping[str, Value | tuple[str, ...]] = field(default_factory=dict)

    def check(self, value: object) -> Value:
        """Return the value as this control can hold it; raise InputError if not."""
        if self.kind == "choice":
            return checks.known(self.name, value, self.options)
        if self.kind == "flag":
            return checks.as_flag(self.name, value)
        number = math.nan  # which is in no range
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = value
        in_range = self.least <= number <= self.most
        kind = "number"
        if self.kind == "count":
            kind = "whole number"
            if in_range and number == int(number):
                return int(number)
        elif in_range:
            return float(number)
        raise InputError(
            f"{self.name} is {checks.shown(value)}; it must be a {kind} from "
            f"{self.least:g} to {self.most:g}."
        )


ACTIVATIONS = ("erf", "relu", "linear", "quadratic", "tanh", "gelu")
LOSSES = ("squared", "huber", "absolute", "logistic", "hinge")
LABELS = ("real", "sign", "logistic")

GRADIENT = "gradient"
FEEDBACK = "feedback alignment"
DROPOUT = "dropout"
RULES = (GRADIENT, FEEDBACK, DROPOUT)

ISOTROPIC = "isotropic"
DECAYING = "power law"
DIGITS = "digits"
CLUSTERS = "two clusters"
XOR = "XOR"
INPUTS = (ISOTROPIC, DECAYING, DIGITS, CLUSTERS, XOR)

RANDOM_WEIGHTS = "random weights"
ASYMMETRIC = "asymmetric"
STARTS = (RANDOM_WEIGHTS, ASYMMETRIC)

# Conditions under which a control is shown.
POWER_LAW = {"spectrum": DECAYING}
MEANS = {"spectrum": (CLUSTERS, XOR)}
# A teacher labels the samples; clusters have labels of their own.
TAUGHT = {"spectrum": (ISOTROPIC, DECAYING, DIGITS)}
ONE_TASK = {"tasks": "one"}
TWO_TASKS = {"tasks": "two"}
# Two tasks start from the asymmetric overlaps.
RANDOM = {"start": RANDOM_WEIGHTS} | ONE_TASK


MAIN_CONTROLS = (
    Control(
        name="lr",
        words="learning rate η",
        kind="number",
        default=0.5,
        least=1e-3,
        most=20,
        log=True,
        group="Main",
    ),
)

NETWORK_CONTROLS = (
    Control(
        name="activation",
        words="activation",
        kind="choice",
        default="erf",
        options=ACTIVATIONS,
        group="Networks",
    ),
    Control(
        name="students",
        words="student units K",
        kind="count",
        default=3,
        least=1,
        most=12,
        group="Networks",
    ),
    Control(
        name="teachers",
        words="teacher units M",
        kind="count",
        default=3,
        least=1,
        most=12,
        group="Networks",
        only=TAUGHT,
    ),
    Control(
        name="train_readout",
        words="train the readout, too",
        kind="flag",
        default=False,
        group="Networks",
    ),
    Control(
        name="readout",
        words="initial readout v",
        kind="number",
        default=1.0,
        least=-2,
        most=2,
        group="Networks",
        only={"train_readout": True},
    ),
)

TASK_CONTROLS = (
    Control(
        name="tasks",
        words="tasks",
        kind="choice",
        default="one",
        options=("one", "two"),
        group="Tasks",
        only=TAUGHT,
    ),
    Control(
        name="switch",
        words="switch at α",
        kind="number",
        default=100.0,
        least=1,
        most=1e5,
        log=True,
        group="Tasks",
        only=TWO_TASKS | TAUGHT,
    ),
    Control(
        name="similarity",
        words="similarity of the teachers",
        kind="number",
        default=0.0,
        least=-1,
        most=1,
        group="Tasks",
        only=TWO_TASKS | TAUGHT,
    ),
)

LEARNING_CONTROLS = (
    Control(
        name="noise",
        words="label noise σ",
        kind="number",
        default=0.0,
        least=0,
        most=2,
        group="Learning",
        only={"labels": "real"} | TAUGHT,
    ),
    Control(
        name="batch",
        words="batch",
        kind="count",
        default=1,
        least=1,
        most=1000,
        log=True,
        group="Learning",
    ),
    Control(
        name="decay",
        words="weight decay",
        kind="number",
        default=0.0,
        least=0,
        most=1,
        group="Learning",
    ),
    Control(
        name="labels",
        words="labels",
        kind="choice",
        default="real",
        options=LABELS,
        group="Learning",
        only=TAUGHT,
    ),
    Control(
        name="loss",
        words="loss",
        kind="choice",
        default="squared",
        options=LOSSES,
        group="Learning",
    ),
    Control(
        name="rule",
        words="rule",
        kind="choice",
        default=GRADIENT,
        options=RULES,
        group="Learning",
    ),
    Control(
        name="keep",
        words="kept units, share",
        kind="number",
        default=0.8,
        least=0.1,
        most=1,
        group="Learning",
        only={"rule": DROPOUT},
    ),
)

INPUT_AND_START_CONTROLS = (
    Control(
        name="spectrum",
        words="inputs",
        kind="choice",
        default=ISOTROPIC,
        options=INPUTS,
        group="Inputs and start",
    ),
    Control(
        name="distance",
        words="norm of the means",
        kind="number",
        default=2.0,
        least=0.1,
        most=5,
        group="Inputs and start",
        only=MEANS,
    ),
    Control(
        name="beta",
        words="exponent β",
        kind="number",
        default=1.0,
        least=0.05,
        most=3,
        group="Inputs and start",
        only=POWER_LAW,
    ),
    Control(
        name="levels",
        words="levels L",
        kind="count",
        default=16,
        least=2,
        most=512,
        log=True,
        group="Inputs and start",
        only=POWER_LAW,
    ),
    Control(
        name="start",
        words="start",
        kind="choice",
        default=RANDOM_WEIGHTS,
        options=STARTS,
        group="Inputs and start",
        only=ONE_TASK,
    ),
    Control(
        name="scale",
        words="size of the weights",
        kind="number",
        default=0.1,
        least=1e-6,
        most=3,
        log=True,
        group="Inputs and start",
        only=RANDOM,
    ),
    Control(
        name="seed",
        words="seed",
        kind="count",
        default=0,
        least=0,
        most=999,
        group="Inputs and start",
        only=RANDOM,
    ),
)

SIMULATION_CONTROLS = (
    Control(
        name="dim",
        words="input dimension N",
        kind="count",
        default=1000,
        least=10,
        most=1_000_000,
        log=True,
        group="Finite networks",
    ),
    Control(
        name="runs",
        words="simulated runs",
        kind="count",
        default=3,
        least=0,
        most=20,
        group="Finite networks",
    ),
    Control(
        name="band",
        words="band of single networks",
        kind="flag",
        default=True,
        group="Finite networks",
    ),
)

TIME_CONTROLS = (
    Control(
        name="end",
        words="last time α",
        kind="number",
        default=300.0,
        least=1,
        most=1e6,
        log=True,
        group="Time",
    ),
    Control(
        name="log_time",
        words="logarithmic times",
        kind="flag",
        default=False,
        group="Time",
    ),
)

CONTROLS = (
    *MAIN_CONTROLS,
    *NETWORK_CONTROLS,
    *TASK_CONTROLS,
    *LEARNING_CONTROLS,
    *INPUT_AND_START_CONTROLS,
    *SIMULATION_CONTROLS,
    *TIME_CONTROLS,
)
BY_NAME = {control.name: control for control in CONTROLS}


@dataclass(frozen=True)
class Settings:
    """One value for every control.

    toml: a problem file in place of the controls of problem, start and times; or "".
    start_overlaps: overlaps that no control describes, for a page without a server: r,
    q, t of all levels and v, as flat lists; or None.
    """

    values: Values
    toml: str = ""
    start_overlaps: Values | None = None

    @classmethod
    def read(cls, table: object) -> "Settings":
        """Settings from plain data.

        Names and values are checked; what is not there has its default.
        """
        if not isinstance(table, Mapping):
            raise InputError(
                f"the settings are {checks.shown(table)}; they must be a table of "
                "names and values."
            )
        for name in table:
            if name not in BY_NAME and name != "toml":
                raise InputError(
                    f"there is no control {checks.shown(name)}; there are "
                    f"{', '.join(BY_NAME)}."
                )
        values = {}
        for name, control in BY_NAME.items():
            values[name] = control.check(table.get(name, control.default))
        toml = checks.as_kind("the problem file", table.get("toml", ""), str, "text")
        return cls(values, toml)

    @classmethod
    def of(
        cls,
        problem: tu.Problem,
        start: tu.Start | None = None,
        times: object = None,
        overlaps: bool = True,
    ) -> "Settings":
        """The settings that show this problem.

        They are values of the controls if these can describe it, otherwise its file.
        overlaps: a start that no control describes becomes `start_overlaps`; otherwise
        it needs the file, too.
        """
        require_problem(problem, "explore", needs=(TASKS, MIXTURES))
        if start is None:
            start = tu.random_start(problem, dim=problem.inputs.usual_dim)
        else:
            start = require_start(start)
        if times is None:
            times = BY_NAME["end"].default
        recorded = checks.as_times(times)
        end = float(recorded[-1])
        log_time = is_log_spaced(recorded)

        settings = cls._by_controls(problem, start, end, log_time)
        if settings is not None and (settings.start_overlaps is None or overlaps):
            return settings
        times_table = {"end": end, "points": POINTS, "log": log_time}
        file = _problem_file(problem, _start_table(start), times_table)
        return cls.read({"toml": file})

    @classmethod
    def _by_controls(
        cls, problem: tu.Problem, start: tu.Start, end: float, log_time: bool
    ) -> "Settings | None":
        """The settings without a file; None if no controls describe the problem."""
        try:
            table = _controls_of(problem.to_dict())
            table["dim"] = start.dim or problem.inputs.usual_dim
            settings = cls.read(table | {"end": end, "log_time": log_time})
            # The controls do not cover everything that a problem can have.
            if settings.problem().to_dict() == problem.to_dict():
                return settings._with_start(problem, start)
        except (InputError, KeyError, TypeError):
            pass  # no control has this value, or no control is for it
        return None

    def _with_start(self, problem: tu.Problem, start: tu.Start) -> "Settings":
        """These settings with another start: one of the control's, or its overlaps."""
        overlaps = _overlaps_of(problem, start)
        for name in BY_NAME["start"].options:
            named = replace(self, values=self.values | {"start": name})
            with suppress(InputError):  # random weights may need a larger N
                named_overlaps = _overlaps_of(problem, named.first(problem))
                if all(
                    np.array_equal(overlaps[letter], named_overlaps[letter])
                    for letter in overlaps
                ):
                    return named
        lists = {letter: np.ravel(array).tolist() for letter, array in overlaps.items()}
        return replace(self, start_overlaps=lists)

    def as_toml(self) -> str:
        """A problem file for `tutelage solve` and `tutelage compare`."""
        if self.toml:
            return self.toml
        tables = self._tables()
        return _problem_file(self.problem(), tables.start, tables.times)

    def _tables(self) -> "_Tables":
        """The tables of the problem file, as far as there is one.

        Start and times that are not in it follow the controls.
        """
        problem: Values = {}
        if self.toml:
            problem = parsed(self.toml)
        times_of_controls = {
            "end": self["end"],
            "points": POINTS,
            "log": self["log_time"],
        }
        start = problem.pop("start", self._start_of_controls())
        times = problem.pop("times", times_of_controls)
        for name, table in (("start", start), ("times", times)):
            if not isinstance(table, dict):
                raise InputError(
                    f"{name} is {checks.shown(table)} in the problem file; it must be "
                    f"a table, [{name}]."
                )
        return _Tables(problem, start, times)

    def _start_of_controls(self) -> Values:
        """The table [start] that the controls describe."""
        # Two tasks start from the asymmetric overlaps.
        if self["start"] == RANDOM_WEIGHTS and self["tasks"] == "one":
            return {
                "dim": self["dim"],
                "scale": self["scale"],
                "seed": self["seed"],
            }
        return {"kind": "asymmetric", "dim": self["dim"]}

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def changed(self) -> Values:
        """The values that differ from the defaults."""
        return {
            name: value
            for name, value in self.values.items()
            if value != BY_NAME[name].default
        }

    def problem(self) -> tu.Problem:
        """The problem that these values, or the file, describe."""
        if self.toml:
            # A file may not name functions of any module.
            return tu.Problem.from_dict(self._tables().problem)
        student = tu.Network(
            self["students"],
            self["activation"],
            readout=self._readout(),
            train_readout=self["train_readout"],
        )
        teacher = self._teacher()
        labels = None
        noise = 0.0
        if teacher is not None:
            labels = self["labels"]
            if labels == "real":
                noise = self["noise"]
        return tu.Problem(
            student,
            teacher,
            loss=self["loss"],
            labels=labels,
            rule=self._rule(),
            inputs=self._inputs(),
            optimizer=tu.SGD(
                self["lr"], batch=self["batch"], weight_decay=self["decay"]
            ),
            noise=noise,
        )

    def _readout(self) -> np.ndarray | None:
        """The initial readout; None is the default of `Network`."""
        signs = np.ones(self["students"])
        is_xor = self["spectrum"] == XOR
        if is_xor:  # its labels need readouts of both signs
            signs[1::2] = -1.0
        if self["train_readout"]:
            return self["readout"] * signs
        if is_xor:
            return signs
        return None

    def _teacher(self) -> "tu.Network | tu.Tasks | None":
        """The teacher, or the two tasks; None for clusters, which have labels."""
        if self["spectrum"] in (CLUSTERS, XOR):
            return None
        teacher = tu.Network(self["teachers"], self["activation"])
        if self["tasks"] == "one":
            return teacher
        return tu.Tasks(
            [teacher, teacher],
            tu.Switch(self["switch"]),
            similarity=self["similarity"],
        )

    def _rule(self) -> "tu.rules.Rule | str":
        if self["rule"] == FEEDBACK:
            return tu.rules.FeedbackAlignment()
        if self["rule"] == DROPOUT:
            return tu.rules.Dropout(self["keep"])
        return "gradient"

    def _inputs(self) -> "tu.Inputs":
        spectrum = self["spectrum"]
        if spectrum == DECAYING:
            return tu.PowerLaw(self["beta"], self["levels"])
        if spectrum == DIGITS:
            return digit_spectrum()
        if spectrum == CLUSTERS:
            return tu.Mixture.two_gaussians(self["distance"])
        if spectrum == XOR:
            return tu.Mixture.xor(self["distance"])
        return tu.Isotropic()

    def first(self, problem: tu.Problem) -> tu.Start:
        """The `Start` of these settings.

        Measured inputs have their own N, whatever the control says.
        """
        table = {"dim": problem.inputs.usual_dim} | self._tables().start
        known_dim = problem.inputs.known_dim
        if known_dim is not None and "start" not in parsed(self.toml):
            table["dim"] = known_dim
        return start_from_table(problem, table)

    def times(self) -> np.ndarray:
        """The times to record."""
        return times_from_table({"points": POINTS} | self._tables().times)


class _Tables(NamedTuple):
    """The contents of a problem file: problem, and the tables [start] and [times]."""

    problem: Values
    start: Values
    times: Values


def _overlaps_of(problem: tu.Problem, start: tu.Start) -> dict[str, np.ndarray]:
    """The overlaps r, q, t of all levels and the readout v, by letter."""
    r, q, t = start.blocks(problem)
    return {
        "r": np.asarray(r),
        "q": np.asarray(q),
        "t": np.asarray(t),
        "v": np.asarray(start.readout_of(problem)),
    }


def _start_table(start: tu.Start) -> Values:
    """The table [start] of a problem file: the overlaps, as far as they are known."""
    table = {}
    for name in ("R", "Q", "T", "readout", "bias", "dim"):
        value = getattr(start, name)
        if value is not None:
            table[name] = np.asarray(value).tolist()
    return table


def _problem_file(problem: tu.Problem, start: Values, times: Values) -> str:
    """The text of a problem file with its tables [start] and [times]."""
    tables = tomli_w.dumps({"start": start, "times": times})
    return f"{problem.to_toml().rstrip()}\n\n{tables}"


def _controls_of(data: Values) -> Values:
    """Values of the controls for a problem as plain data.

    They leave out what the controls do not cover: the caller compares the problems.
    """
    student = data.get("student", {})
    teacher = data.get("teacher", {})
    optimizer = data.get("optimizer", {})
    inputs = data.get("inputs", {})
    rule = data.get("rule", {})
    if not isinstance(rule, dict):
        rule = {"kind": rule}
    # Some controls are called as their argument of the problem or of one of its parts.
    arguments = data | student | optimizer | inputs | rule
    # Inputs have arguments with the names of these controls, too.
    of_start = ("dim", "scale", "seed")
    names = [name for name in BY_NAME if name not in of_start]
    values = {name: arguments[name] for name in names if name in arguments}
    values["students"] = student["hidden"]
    values["decay"] = optimizer.get("weight_decay", 0.0)
    values["rule"] = rule.get("kind", GRADIENT)
    if values["rule"] == "feedback_alignment":
        values["rule"] = FEEDBACK
    names_of_laws = {"power_law": DECAYING, "spectrum": DIGITS}
    values["spectrum"] = names_of_laws.get(inputs["kind"], inputs["kind"])
    if "teachers" not in teacher:
        values["teachers"] = teacher["hidden"]
        return values
    values["teachers"] = teacher["teachers"][0]["hidden"]
    values["tasks"] = "two"
    values["switch"] = teacher["schedule"]["times"][0]
    values["similarity"] = teacher.get("similarity", 0.0)
    return values


@lru_cache(maxsize=1)
def digit_spectrum() -> tu.Spectrum:
    """Return the spectrum of the handwritten digits in few levels, for any N."""
    pixels = tu.digits().reshape(-1, 64)
    measured = tu.Spectrum.from_covariance(np.cov(pixels.T), 16)
    return tu.Spectrum(measured.eigenvalues, measured.fractions)


# What theory.js covers

# The browser has no simulation and no averages over points.
NOT_LOCAL = ("labels", "loss", "keep", "distance", "runs", "band")
# Smaller ranges of the other controls.
LOCAL_RANGE: dict[str, dict[str, Any]] = {
    "activation": {"options": ("erf", "linear", "quadratic")},
    "rule": {"options": (GRADIENT, FEEDBACK)},
    "spectrum": {"options": (ISOTROPIC, DECAYING, DIGITS)},
    "students": {"most": 6},
    "teachers": {"most": 6},
    "levels": {"most": 16},
    "noise": {"only": {}},
}
LOCAL_CONTROLS = tuple(
    replace(control, **LOCAL_RANGE.get(control.name, {}))
    for control in CONTROLS
    if control.name not in NOT_LOCAL
)


def is_local(settings: Settings) -> bool:
    """Return True if the solver in the browser covers these settings."""
    if settings.toml or {"labels", "loss"} & settings.changed().keys():
        return False
    try:
        for control in LOCAL_CONTROLS:
            control.check(settings[control.name])
    except InputError:
        return False
    return True


class Preset(NamedTuple):
    """Named settings to begin with.

    words: what to look at, for presets that guide the reader.
    """

    name: str
    settings: Values
    words: str = ""


TWO = {"students": 2, "teachers": 2}
APART = {"start": ASYMMETRIC}

# With words that guide the reader.
GUIDED_PRESETS = (
    Preset(
        "The plateau",
        {},
        "Three student units learn from three teacher units. They first become nearly "
        "identical, and the error stalls on the symmetric plateau. Then each unit "
        "specializes on a different teacher unit, and the error falls to zero.",
    ),
    Preset(
        "Who decides the escape?",
        TWO | {"end": 600.0, "dim": 1_000_000, "runs": 0},
        "On the plateau only tiny differences between the units grow. Here they come "
        "from random weights of a million inputs. Lower N or change the seed: larger "
        "differences end the plateau earlier.",
    ),
    Preset(
        "Too large a learning rate",
        APART | {"lr": 2.5, "end": 200.0},
        "Every step adds noise of order η² to the weights. Beyond the critical rate "
        "it adds more error than the gradient removes: zero error is unstable. Lower "
        "the rate to 1.5 and below: the error falls to zero again.",
    ),
    Preset(
        "Label noise and extra units",
        APART
        | {"students": 5, "teachers": 2, "noise": 0.3, "end": 2000.0, "band": False},
        "Noisy labels keep the error above zero, at a floor that grows with the "
        "learning rate. Units that the task does not need fit the noise. Pin the "
        "curve, then lower K to 2: the floor falls to a quarter.",
    ),
    Preset(
        "A power law melts the plateau",
        TWO
        | POWER_LAW
        | {
            "lr": 0.2,
            "scale": 0.01,
            "end": 2000.0,
            "log_time": True,
            "band": False,
        },
        "Directions of large variance are learned first, those of small variance "
        "later, so the error falls like a power of time. Hardly anything is left of "
        "the plateau. Pin the curve, then set the inputs to isotropic: the plateau "
        "returns.",
    ),
    Preset(
        "Forgetting",
        TWO_TASKS
        | {
            "students": 2,
            "teachers": 1,
            "train_readout": True,
            "lr": 1.0,
            "end": 200.0,
            "runs": 1,
        },
        "The student learns one teacher, then another one; each task has its own "
        "readout. After the switch the first layer turns to the second teacher, and "
        "the error of task 1 rises. Raise the similarity to 0.9: much less is "
        "forgotten.",
    ),
    Preset(
        "Feedback alignment",
        APART
        | {
            "rule": FEEDBACK,
            "train_readout": True,
            "readout": -1.0,
            "teachers": 2,
            "lr": 0.3,
        },
        "The error returns to the first layer through fixed weights, not through the "
        "readout. The readout starts with the wrong sign. It turns first, until it is "
        "aligned with the feedback; then the error falls.",
    ),
    Preset(
        "XOR",
        {
            "spectrum": XOR,
            "activation": "quadratic",
            "students": 4,
            "train_readout": True,
            "readout": 0.5,
            "lr": 0.1,
            "scale": 0.3,
            "end": 60.0,
            "runs": 1,
        },
        "Four Gaussian clusters: those at ±b₁ have the label 1, those at ±b₂ the "
        "label −1. No single direction tells the labels apart, so the error stays at "
        "1/2 at first. Then units with a positive readout turn to b₁, the others to "
        "b₂.",
    ),
)

# Close to figures that `tutelage replicate` checks, then other problems.
PLAIN_PRESETS = (
    Preset(
        "primer-1: theory and experiment", APART | {"dim": 784, "end": 100.0, "runs": 5}
    ),
    Preset(
        "primer-2: the specialization transition",
        TWO | {"scale": 0.2, "end": 400.0, "dim": 100_000, "runs": 0},
    ),
    Preset(
        "primer-4: both layers trained",
        APART
        | {
            "students": 4,
            "teachers": 2,
            "train_readout": True,
            "lr": 0.2,
            "noise": 0.1,
            "end": 2000.0,
            "dim": 500,
        },
    ),
    Preset(
        "notes-3: ReLU",
        TWO | APART | {"activation": "relu", "lr": 0.3, "end": 60.0, "dim": 500},
    ),
    Preset(
        "notes-6: stop early with noisy labels",
        TWO | APART | {"noise": 0.5, "lr": 1.5, "end": 100.0},
    ),
    Preset(
        "bign-1: a million inputs", APART | {"dim": 1_000_000, "end": 20.0, "runs": 1}
    ),
    Preset(
        "power-1: a power law",
        TWO
        | POWER_LAW
        | {
            "lr": 0.1,
            "levels": 32,
            "scale": 0.01,
            "dim": 1024,
            "end": 1000.0,
            "band": False,
        },
    ),
    Preset(
        "real data: spectrum of digits",
        TWO
        | {"spectrum": DIGITS, "lr": 0.2, "end": 1000.0, "log_time": True, "runs": 1},
    ),
    Preset(
        "two clusters: logistic loss",
        {
            "students": 2,
            "spectrum": CLUSTERS,
            "loss": "logistic",
            "end": 30.0,
            "runs": 1,
        },
    ),
    Preset(
        "a classifier",
        TWO
        | APART
        | {"loss": "logistic", "labels": "sign", "lr": 1.0, "end": 50.0, "runs": 1},
    ),
)

PRESETS = GUIDED_PRESETS + PLAIN_PRESETS


def explorer_table(settings: Settings, local: bool = False) -> Values:
    """Return controls, presets and first values for explorer.js.

    local: only those that the solver in the browser covers.
    """
    controls = CONTROLS
    presets = PRESETS
    if local:
        controls = LOCAL_CONTROLS
        presets = tuple(
            preset for preset in PRESETS if is_local(Settings.read(preset.settings))
        )
    control_tables = [asdict(control) for control in controls]
    initial = settings.changed()
    if settings.toml:
        initial |= {"toml": settings.toml, "file": "problem.toml"}
    if settings.start_overlaps is not None:
        # The overlaps are one more option of the start.
        initial["start"] = GIVEN
        for table in control_tables:
            if table["name"] == "start":
                table["options"] = (GIVEN, *table["options"])
                table["only"] = {}
    return {
        "controls": control_tables,
        "presets": [preset._asdict() for preset in presets],
        "initial": initial,
    }
