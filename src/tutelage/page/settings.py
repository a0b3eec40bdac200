"""What the controls of the explorer say: one table of them, and the problem that their values describe.

The table is the single source: the page builds its controls from it, the server checks against it, and the address of a
page holds the values that differ from the defaults. A page without a server has the part of the table that theory.js covers.
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
    """One control. kind: choice, flag, count (whole number), number; log: a slider that is even in the logarithm.

    only: it is shown when other controls have this value, or one of these.
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
        """The value as this control can hold it; anything else is refused with one sentence."""
        if self.kind == "choice":
            return checks.known(self.name, value, self.options)
        if self.kind == "flag":
            return checks.as_flag(self.name, value)
        whole = self.kind == "count"
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if self.least <= number <= self.most and (not whole or number == int(number)):
            return int(number) if whole else float(number)
        kind = f"{'whole ' * whole}number from {self.least:g} to {self.most:g}"
        raise InputError(f"{self.name} is {checks.shown(value)}; it must be a {kind}.")


ACTIVATIONS = ("erf", "relu", "linear", "quadratic", "tanh", "gelu")
LOSSES = ("squared", "huber", "absolute", "logistic", "hinge")
LABELS = ("real", "sign", "logistic")
GRADIENT, FEEDBACK, DROPOUT = RULES = ("gradient", "feedback alignment", "dropout")
INPUTS = ISOTROPIC, DECAYING, DIGITS, CLUSTERS, XOR = ("isotropic", "power law", "digits", "two clusters", "XOR")
STARTS = ("random weights", "asymmetric")
POWER_LAW = {"spectrum": DECAYING}
MEANS = {"spectrum": (CLUSTERS, XOR)}
TAUGHT = {"spectrum": (ISOTROPIC, DECAYING, DIGITS)}  # a teacher labels the samples; clusters have labels of their own
ONE_TASK, TWO_TASKS = {"tasks": "one"}, {"tasks": "two"}  # two tasks start from the asymmetric overlaps
RANDOM = {"start": "random weights"} | ONE_TASK
FIRST = "Inputs and start"

CONTROLS = (
    Control("lr", "learning rate η", "number", 0.5, 1e-3, 20, log=True, group="Main"),
    Control("activation", "activation", "choice", "erf", options=ACTIVATIONS, group="Networks"),
    Control("students", "student units K", "count", 3, 1, 12, group="Networks"),
    Control("teachers", "teacher units M", "count", 3, 1, 12, group="Networks", only=TAUGHT),
    Control("train_readout", "train the readout, too", "flag", False, group="Networks"),
    Control("readout", "initial readout v", "number", 1.0, -2, 2, group="Networks", only={"train_readout": True}),
    Control("tasks", "tasks", "choice", "one", options=("one", "two"), group="Tasks", only=TAUGHT),
    Control("switch", "switch at α", "number", 100.0, 1, 1e5, log=True, group="Tasks", only=TWO_TASKS | TAUGHT),
    Control("similarity", "similarity of the teachers", "number", 0.0, -1, 1, group="Tasks", only=TWO_TASKS | TAUGHT),
    Control("noise", "label noise σ", "number", 0.0, 0, 2, group="Learning", only={"labels": "real"} | TAUGHT),
    Control("batch", "batch", "count", 1, 1, 1000, log=True, group="Learning"),
    Control("decay", "weight decay", "number", 0.0, 0, 1, group="Learning"),
    Control("labels", "labels", "choice", "real", options=LABELS, group="Learning", only=TAUGHT),
    Control("loss", "loss", "choice", "squared", options=LOSSES, group="Learning"),
    Control("rule", "rule", "choice", GRADIENT, options=RULES, group="Learning"),
    Control("keep", "kept units, share", "number", 0.8, 0.1, 1, group="Learning", only={"rule": DROPOUT}),
    Control("spectrum", "inputs", "choice", ISOTROPIC, options=INPUTS, group=FIRST),
    Control("distance", "norm of the means", "number", 2.0, 0.1, 5, group=FIRST, only=MEANS),
    Control("beta", "exponent β", "number", 1.0, 0.05, 3, group=FIRST, only=POWER_LAW),
    Control("levels", "levels L", "count", 16, 2, 512, log=True, group=FIRST, only=POWER_LAW),
    Control("start", "start", "choice", "random weights", options=STARTS, group=FIRST, only=ONE_TASK),
    Control("scale", "size of the weights", "number", 0.1, 1e-6, 3, log=True, group=FIRST, only=RANDOM),
    Control("seed", "seed", "count", 0, 0, 999, group=FIRST, only=RANDOM),
    Control("dim", "input dimension N", "count", 1000, 10, 1_000_000, log=True, group="Finite networks"),
    Control("runs", "simulated runs", "count", 3, 0, 20, group="Finite networks"),
    Control("band", "band of single networks", "flag", True, group="Finite networks"),
    Control("end", "last time α", "number", 300.0, 1, 1e6, log=True, group="Time"),
    Control("log_time", "logarithmic times", "flag", False, group="Time"),
)
BY_NAME = {control.name: control for control in CONTROLS}


@dataclass(frozen=True)
class Settings:
    """One value for every control. toml: a problem file in place of the controls of problem, start and times; or "".

    given: overlaps that no control describes, for a page without a server: r, q, t of all levels and v, as flat lists; or None.
    """

    values: Values
    toml: str = ""
    given: Values | None = None

    @classmethod
    def read(cls, given: object) -> "Settings":
        """Settings from plain data: names and values checked, defaults where nothing is said."""
        if not isinstance(given, Mapping):
            raise InputError(f"the settings are {checks.shown(given)}; they must be a table of names and values.")
        for name in given:
            if name not in BY_NAME and name != "toml":
                raise InputError(f"there is no control {checks.shown(name)}; there are {', '.join(BY_NAME)}.")
        values = {name: control.check(given.get(name, control.default)) for name, control in BY_NAME.items()}
        return cls(values, checks.as_kind("the problem file", given.get("toml", ""), str, "text"))

    @classmethod
    def of(
        cls, problem: tu.Problem, start: tu.Start | None = None, times: object = None, overlaps: bool = True
    ) -> "Settings":
        """The settings that show this problem: the controls where they can, else its file.

        overlaps: a start that no control describes is `given`; else it needs the file, too.
        """
        require_problem(problem, "explore", needs=(TASKS, MIXTURES))
        start = tu.random_start(problem, dim=problem.inputs.usual_dim) if start is None else require_start(start)
        recorded = checks.as_times(BY_NAME["end"].default if times is None else times)
        end, log = float(recorded[-1]), is_log_spaced(recorded)
        try:
            values = _controls_of(problem.to_dict()) | {"dim": start.dim or problem.inputs.usual_dim}
            found = cls.read(values | {"end": end, "log_time": log})
            if found.problem().to_dict() == problem.to_dict():
                begun = found._begun_at(problem, start)
                if begun.given is None or overlaps:
                    return begun
        except (InputError, KeyError, TypeError):
            pass  # no control has this value, or no control is for it
        known = {name: getattr(start, name) for name in ("R", "Q", "T", "readout", "bias", "dim")}
        table = {name: np.asarray(x).tolist() for name, x in known.items() if x is not None}
        return cls.read({"toml": _problem_file(problem, table, {"end": end, "points": POINTS, "log": log})})

    def _begun_at(self, problem: tu.Problem, start: tu.Start) -> "Settings":
        """The same settings with this start: one of the named ones, or its overlaps."""
        overlaps = [*start.blocks(problem), start.readout_of(problem)]
        for name in BY_NAME["start"].options:
            one = replace(self, values=self.values | {"start": name})
            with suppress(InputError):  # random weights may need a larger N
                first = one.first(problem)
                same = [*first.blocks(problem), first.readout_of(problem)]
                if all(np.array_equal(a, b) for a, b in zip(overlaps, same, strict=True)):
                    return one
        return replace(self, given={name: np.ravel(x).tolist() for name, x in zip("rqtv", overlaps, strict=True)})

    def as_toml(self) -> str:
        """A problem file: `tutelage solve problem.toml` and `tutelage compare problem.toml` read it."""
        if self.toml:
            return self.toml
        _, start, times = self._tables()
        return _problem_file(self.problem(), start, times)

    def _tables(self) -> tuple[Values, Values, Values]:
        """Problem, start and times as tables of the problem file. What is not there follows the controls."""
        data = parsed(self.toml) if self.toml else {}
        weights = {"dim": self["dim"], "scale": self["scale"], "seed": self["seed"]}
        random = self["start"] == "random weights" and self["tasks"] == "one"  # two tasks start from the asymmetric overlaps
        start = data.pop("start", weights if random else {"kind": "asymmetric", "dim": self["dim"]})
        times = data.pop("times", {"end": self["end"], "points": POINTS, "log": self["log_time"]})
        for name, table in (("start", start), ("times", times)):
            if not isinstance(table, dict):
                raise InputError(f"{name} is {checks.shown(table)} in the problem file; it must be a table, [{name}].")
        return data, start, times

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def changed(self) -> Values:
        """What differs from the defaults."""
        return {name: value for name, value in self.values.items() if value != BY_NAME[name].default}

    def problem(self) -> tu.Problem:
        """The problem that these values, or the file, describe."""
        if self.toml:
            return tu.Problem.from_dict(self._tables()[0])  # no function of any module is allowed
        s = self.values
        signs = np.resize([1.0, -1.0] if s["spectrum"] == XOR else [1.0], s["students"])  # XOR needs both
        readout = s["readout"] * signs if s["train_readout"] else signs if s["spectrum"] == XOR else None
        teacher = tu.Network(s["teachers"], s["activation"])
        if s["spectrum"] in (CLUSTERS, XOR):
            teacher = None
        elif s["tasks"] == "two":
            teacher = tu.Tasks([teacher, teacher], tu.Switch(s["switch"]), similarity=s["similarity"])
        inputs = {
            ISOTROPIC: tu.Isotropic,
            DECAYING: lambda: tu.PowerLaw(s["beta"], s["levels"]),
            DIGITS: digit_spectrum,
            CLUSTERS: lambda: tu.Mixture.two_gaussians(s["distance"]),
            XOR: lambda: tu.Mixture.xor(s["distance"]),
        }
        rules = {FEEDBACK: tu.rules.FeedbackAlignment(), DROPOUT: tu.rules.Dropout(s["keep"])}
        return tu.Problem(
            tu.Network(s["students"], s["activation"], readout=readout, train_readout=s["train_readout"]),
            teacher,
            loss=s["loss"],
            labels=s["labels"] if teacher is not None else None,
            rule=rules.get(s["rule"], "gradient"),
            inputs=inputs[s["spectrum"]](),
            sgd=tu.SGD(s["lr"], batch=s["batch"], weight_decay=s["decay"]),
            noise=s["noise"] if s["labels"] == "real" and teacher is not None else 0.0,
        )

    def first(self, problem: tu.Problem) -> tu.Start:
        """The initial condition. Measured inputs have their own N, whatever the control says."""
        table = {"dim": problem.inputs.usual_dim} | self._tables()[1]
        known = problem.inputs.known_dim
        if known is not None and "start" not in parsed(self.toml):
            table["dim"] = known
        return start_from_table(problem, table)

    def times(self) -> np.ndarray:
        """The times to record."""
        return times_from_table({"points": POINTS} | self._tables()[2])


def _problem_file(problem: tu.Problem, start: Values, times: Values) -> str:
    return f"{problem.to_toml().rstrip()}\n\n{tomli_w.dumps({'start': start, 'times': times})}"


def _controls_of(data: Values) -> Values:
    """Controls for a problem as plain data, without what they do not cover; whoever asks compares the problems."""
    student, sgd, inputs, teacher, rule = (data.get(name, {}) for name in ("student", "sgd", "inputs", "teacher", "rule"))
    rule = rule if isinstance(rule, dict) else {"kind": rule}
    same = data | student | sgd | inputs | rule  # names that are those of controls
    several, kind, law = teacher.get("teachers"), rule.get("kind", GRADIENT), inputs["kind"]
    of_start = ("dim", "scale", "seed")  # inputs have arguments of these names, too
    values = {name: same[name] for name in BY_NAME if name in same and name not in of_start} | {
        "students": student["hidden"],
        "teachers": (several or [teacher])[0]["hidden"],
        "decay": sgd.get("weight_decay", 0.0),
        "rule": {"feedback_alignment": FEEDBACK}.get(kind, kind),
        "spectrum": {"power_law": DECAYING, "spectrum": DIGITS}.get(law, law),
    }
    if several:
        switch, similarity = teacher["schedule"]["times"][0], teacher.get("similarity", 0.0)
        values |= {"tasks": "two", "switch": switch, "similarity": similarity}
    return values


@lru_cache(maxsize=1)
def digit_spectrum() -> tu.Spectrum:
    """The spectrum of the handwritten digits in few levels, for Gaussian inputs of any N."""
    pixels = tu.digits().reshape(-1, 64)
    measured = tu.Spectrum.from_covariance(np.cov(pixels.T), 16)
    return tu.Spectrum(measured.eigenvalues, measured.fractions)


# What theory.js covers: controls that it does without, and smaller ranges.
NOT_LOCAL = ("labels", "loss", "keep", "distance", "runs", "band")  # no simulation, no averages over points
LOCAL_RANGE: dict[str, dict[str, Any]] = {
    "activation": {"options": ("erf", "linear", "quadratic")},
    "rule": {"options": (GRADIENT, FEEDBACK)},
    "spectrum": {"options": (ISOTROPIC, DECAYING, DIGITS)},
    "students": {"most": 6},
    "teachers": {"most": 6},
    "levels": {"most": 16},
    "noise": {"only": {}},
}
LOCAL_CONTROLS = tuple(replace(c, **LOCAL_RANGE.get(c.name, {})) for c in CONTROLS if c.name not in NOT_LOCAL)


def is_local(settings: Settings) -> bool:
    """Does the solver in the browser cover these settings?"""
    with suppress(InputError):
        for control in LOCAL_CONTROLS:
            control.check(settings[control.name])
        return not settings.toml and not {"labels", "loss"} & settings.changed().keys()
    return False


class Preset(NamedTuple):
    """A named place to begin. words: what to look at, for the guided ones."""

    name: str
    settings: Values
    words: str = ""


TWO = {"students": 2, "teachers": 2}
APART = {"start": "asymmetric"}

PRESETS = (
    Preset(
        "The plateau",
        {},
        "Three student units learn from three teacher units. They first become nearly identical, and the error stalls on the "
        "symmetric plateau. Then each unit specializes on a different teacher unit, and the error falls to zero.",
    ),
    Preset(
        "Who decides the escape?",
        TWO | {"end": 600.0, "dim": 1_000_000, "runs": 0},
        "On the plateau only tiny differences between the units grow. Here they come from random weights of a million inputs. "
        "Lower N or change the seed: larger differences end the plateau earlier.",
    ),
    Preset(
        "Too large a learning rate",
        APART | {"lr": 2.5, "end": 200.0},
        "Every step adds noise of order η² to the weights. Beyond the critical rate it adds more error than the gradient removes: "
        "zero error is unstable. Lower the rate to 1.5 and below: the error falls to zero again.",
    ),
    Preset(
        "Label noise and extra units",
        APART | {"students": 5, "teachers": 2, "noise": 0.3, "end": 2000.0, "band": False},
        "Noisy labels keep the error above zero, at a floor that grows with the learning rate. Units that the task does not need "
        "fit the noise. Pin the curve, then lower K to 2: the floor falls to a quarter.",
    ),
    Preset(
        "A power law melts the plateau",
        TWO | POWER_LAW | {"lr": 0.2, "scale": 0.01, "end": 2000.0, "log_time": True, "band": False},
        "Directions of large variance are learned first, those of small variance later, so the error falls like a power of time. "
        "Hardly anything is left of the plateau. Pin the curve, then set the inputs to isotropic: the plateau returns.",
    ),
    Preset(
        "Forgetting",
        TWO_TASKS | {"students": 2, "teachers": 1, "train_readout": True, "lr": 1.0, "end": 200.0, "runs": 1},
        "The student learns one teacher, then another one; each task has its own readout. After the switch the first layer turns "
        "to the second teacher, and the error of task 1 rises. Raise the similarity to 0.9: much less is forgotten.",
    ),
    Preset(
        "Feedback alignment",
        APART | {"rule": FEEDBACK, "train_readout": True, "readout": -1.0, "teachers": 2, "lr": 0.3},
        "The error returns to the first layer through fixed weights, not through the readout. The readout starts with the wrong "
        "sign. It turns first, until it is aligned with the feedback; then the error falls.",
    ),
    Preset(
        "XOR",
        {"spectrum": XOR, "activation": "quadratic", "students": 4, "train_readout": True, "readout": 0.5, "lr": 0.1}
        | {"scale": 0.3, "end": 60.0, "runs": 1},
        "Four Gaussian clusters: those at ±b₁ have the label 1, those at ±b₂ the label −1. No single direction tells the labels "
        "apart, so the error stays at 1/2 at first. Then units with a positive readout turn to b₁, the others to b₂.",
    ),
    # close to figures that `tutelage replicate` checks
    Preset("primer-1: theory and experiment", APART | {"dim": 784, "end": 100.0, "runs": 5}),
    Preset("primer-2: the specialization transition", TWO | {"scale": 0.2, "end": 400.0, "dim": 100_000, "runs": 0}),
    Preset(
        "primer-4: both layers trained",
        APART | {"students": 4, "teachers": 2, "train_readout": True, "lr": 0.2, "noise": 0.1, "end": 2000.0, "dim": 500},
    ),
    Preset("notes-3: ReLU", TWO | APART | {"activation": "relu", "lr": 0.3, "end": 60.0, "dim": 500}),
    Preset("notes-6: stop early with noisy labels", TWO | APART | {"noise": 0.5, "lr": 1.5, "end": 100.0}),
    Preset("bign-1: a million inputs", APART | {"dim": 1_000_000, "end": 20.0, "runs": 1}),
    Preset(
        "power-1: a power law",
        TWO | POWER_LAW | {"lr": 0.1, "levels": 32, "scale": 0.01, "dim": 1024, "end": 1000.0, "band": False},
    ),
    Preset(
        "real data: spectrum of digits", TWO | {"spectrum": DIGITS, "lr": 0.2, "end": 1000.0, "log_time": True, "runs": 1}
    ),
    Preset("two clusters: logistic loss", {"students": 2, "spectrum": CLUSTERS, "loss": "logistic", "end": 30.0, "runs": 1}),
    Preset("a classifier", TWO | APART | {"loss": "logistic", "labels": "sign", "lr": 1.0, "end": 50.0, "runs": 1}),
)


def explorer_table(settings: Settings, local: bool = False) -> Values:
    """Controls, presets and first values for explorer.js; local: those that the solver in the browser covers."""
    controls = [asdict(control) for control in (LOCAL_CONTROLS if local else CONTROLS)]
    initial = settings.changed() | ({"toml": settings.toml, "file": "problem.toml"} if settings.toml else {})
    if settings.given is not None:  # one more start: the overlaps that were given
        initial["start"] = GIVEN
        (start,) = (control for control in controls if control["name"] == "start")
        start |= {"options": (GIVEN, *start["options"]), "only": {}}
    presets = [preset._asdict() for preset in PRESETS if not local or is_local(Settings.read(preset.settings))]
    return {"controls": controls, "presets": presets, "initial": initial}
