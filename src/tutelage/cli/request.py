"""From a problem file and flags to the arguments of the library: problem, start and times. Flags win."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.cli.flags import ProblemFlags, StartFlags, TimeFlags
from tutelage.cli.problem_file import read_problem_file

DEFAULTS = {"student": {"hidden": 3}, "teacher": {"hidden": 3}, "sgd": {"lr": 0.5}, "noise": 0.0}


@dataclass(frozen=True)
class Request:
    """What the library is asked; `start_table` is how the start was said, for the record."""

    problem: Any
    start: Any
    times: np.ndarray
    start_table: dict[str, Any]


def read_request(
    path: Path | None,
    problem: ProblemFlags,
    start: StartFlags,
    times: TimeFlags,
    begin: Callable[[Any, dict[str, Any], bool], Any] | None = None,
) -> Request:
    """Read, merge and check everything that a command is told.

    begin: builds the start from the problem, its table, and whether a file gave one (default: `build_start`).
    """
    tables = dict(DEFAULTS) if path is None else read_problem_file(path)
    from_file = "start" in tables
    start_table = dict(tables.pop("start", {})) | _given(dim=start.dim, scale=start.scale, seed=start.seed)
    times_table = dict(tables.pop("times", {})) | _given(end=times.times, points=times.points, log=times.log_times)
    tables = _override(tables, problem, alone=path is None)
    where = "the command line" if path is None else str(path)
    from tutelage import Problem

    built = _built(where, lambda: Problem.from_dict(tables, problem.imports or ()))
    first = _built(where, lambda: begin(built, start_table, from_file) if begin else build_start(built, start_table))
    return Request(built, first, _built(where, lambda: build_times(times_table)), start_table)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _built(where: str, build: Callable[[], Any]) -> Any:
    """What `build` returns; a value of a kind that nobody expected is the file's fault, not a crash."""
    try:
        return build()
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where} holds a value of the wrong kind ({error}).") from None


def _override(tables: dict[str, Any], flags: ProblemFlags, alone: bool) -> dict[str, Any]:
    """The tables with the flags written into them. Alone: no file says what the teacher's activation is."""
    teacher_activation = flags.teacher_activation or (flags.activation if alone else None)
    changes = {
        "student": _given(hidden=flags.student_units, activation=flags.activation, train_readout=flags.train_readout),
        "teacher": _given(hidden=flags.teacher_units, activation=teacher_activation),
        "sgd": _given(lr=flags.lr, batch=flags.batch, weight_decay=flags.weight_decay),
        "inputs": _given(beta=flags.beta, levels=flags.levels),
    }
    merged = tables | {name: tables.get(name, {}) | change for name, change in changes.items() if change}
    if changes["inputs"]:
        merged["inputs"] = _power_law(tables.get("inputs", {}), changes["inputs"])
    labels = flags.labels if flags.flip is None else _flipped(flags.labels or tables.get("labels", "sign"), flags.flip)
    return merged | _given(noise=flags.noise, loss=flags.loss, labels=labels, rule=flags.rule)


def _flipped(labels: Any, flip: float) -> dict[str, Any]:
    """Sign labels with this probability of a wrong one."""
    kind = labels.get("kind") if isinstance(labels, dict) else labels
    if kind != "sign":
        raise InputError(
            f"--flip is given and the labels are {kind!r}; only sign labels are flipped. Leave one of them out."
        )
    return {"kind": "sign", "flip": flip}


def _power_law(table: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    kept = table if table.get("kind") == "power_law" else {"kind": "power_law"}
    merged = kept | change
    missing = [f"--{name}" for name in ("beta", "levels") if name not in merged]
    if missing:
        raise InputError(f"power-law inputs need --beta and --levels; {missing[0]} is missing.")
    return merged


def build_start(problem: Any, table: dict[str, Any]) -> Any:
    """A start from random weights (dim, scale, seed) or from given overlaps (R, Q and more)."""
    from tutelage import Start, random_start

    overlaps = {name: table[name] for name in ("R", "Q", "T", "readout", "bias") if name in table}
    if not overlaps:
        return random_start(problem, **{"dim": problem.inputs.usual_dim} | table)
    drawn = [name for name in ("scale", "seed") if name in table]
    if drawn:
        raise InputError(
            f"the start gives overlaps ({', '.join(overlaps)}) and {drawn[0]}; only random weights have {drawn[0]}."
        )
    missing = [name for name in ("R", "Q") if name not in overlaps]
    if missing:
        raise InputError(f"[start] lacks {missing[0]}; give R and Q, or dim, scale and seed for random weights.")
    return Start(**overlaps, dim=table.get("dim"))


def build_times(table: dict[str, Any]) -> np.ndarray:
    """Even times from 0 to end, or even in the logarithm."""
    from tutelage import checks
    from tutelage.times import MOST_TIMES, times_up_to

    end = checks.as_positive("the last time", table.get("end", 300.0))
    log = checks.as_flag("log in [times]", table.get("log", False))
    least = 3 if log else 2
    points = checks.as_count("points (the number of times)", table.get("points", 201), least=least, most=MOST_TIMES)
    return times_up_to(end, points, log)
