"""The table of the explorer's controls.

The table is the single source: the page builds its controls from it, the server checks
against it, and the address of a page holds the values that differ from the defaults.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tutelage import checks
from tutelage.errors import InputError

Value = str | bool | int | float


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
