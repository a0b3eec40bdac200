"""One value for every control of the explorer, and the problem that they describe."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tomli_w

import tutelage as tu
from tutelage import checks
from tutelage.errors import InputError
from tutelage.page.controls import (
    BY_NAME,
    CLUSTERS,
    DECAYING,
    DIGITS,
    DROPOUT,
    FEEDBACK,
    GRADIENT,
    RANDOM_WEIGHTS,
    XOR,
)
from tutelage.plot.style import is_log_spaced
from tutelage.problem.problem import require_problem
from tutelage.problem.serialize import parsed
from tutelage.problem.start import require_start, start_from_table
from tutelage.problem.traits import MIXTURES, TASKS
from tutelage.times import times_from_table

POINTS = 201  # recorded times
Values = dict[str, Any]  # by control; each has its kind


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
