"""From a problem file and flags to the arguments of the library: problem, initial condition and times. Flags win.

The file is TOML: what `Problem.to_toml` writes, and two optional tables.

    [start]   dim, scale, seed (random weights)    or R, Q, T, readout, bias (overlaps; dim if they belong to one)
    [times]   end, points, log

Whatever is wrong with a file ends in one message.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tutelage.cli.flags import CompareStartFlags, ProblemFlags, StartFlags, TimeFlags, given
from tutelage.errors import InputError

if TYPE_CHECKING:
    from tutelage._types import Table
    from tutelage.problem import Problem, Start

DEFAULTS = {"student": {"hidden": 3}, "teacher": {"hidden": 3}, "noise": 0.0}
PROBLEM = ("noise", "loss", "labels", "rule", "student", "teacher", "inputs", "sgd")
STARTS = ("asymmetric", "random")


@dataclass(frozen=True)
class Request:
    """Arguments of the library; `start_table` is the initial condition as it was given, for the record."""

    problem: "Problem"
    start: "Start"
    times: np.ndarray
    start_table: "Table"


def read_request(path: Path | None, problem: ProblemFlags, start: StartFlags, times: TimeFlags) -> Request:
    """Read, merge and check the problem file and the flags."""
    tables = dict(DEFAULTS) if path is None else read_problem_file(path)
    from_file = "start" in tables
    start_table = dict(tables.pop("start", {})) | given(dim=start.dim, scale=start.scale, seed=start.seed)
    times_table = dict(tables.pop("times", {})) | given(end=times.times, points=times.points, log=times.log_times)
    tables = problem.applied_to(tables, alone=path is None)
    from tutelage import Problem
    from tutelage.problem.start import start_from_table
    from tutelage.times import times_from_table

    try:
        built = Problem.from_dict(tables, problem.imports or ())
        if isinstance(start, CompareStartFlags):
            first = build_compare_start(built, start_table, from_file, start.start)
        else:
            first = start_from_table(built, start_table)
        return Request(built, first, times_from_table(times_table), start_table)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # a value of an unexpected kind is not a crash
        where = "the command line" if path is None else str(path)
        raise InputError(f"{where} holds a value of the wrong kind ({error}).") from None


def read_problem_file(path: Path) -> "Table":
    """The tables of the file, with every name of ours checked; the library checks those of the problem."""
    from tutelage import checks
    from tutelage.problem.start import START_NAMES

    data = read_toml(path)
    for name in data:
        checks.known(f"a name in {path}", name, (*PROBLEM, "start", "times"))
    for table in ("start", "times", "student", "teacher", "inputs", "sgd"):
        require_table(path, table, data.get(table, {}))
    for name in data.get("start", {}):
        checks.known("a name in [start]", name, START_NAMES)
    return data


def read_toml(path: Path, what: str = "a problem file") -> "Table":
    """What a TOML file holds."""
    from tutelage import checks

    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of {what}.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; give the name of {what} (TOML).") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {str(error).rstrip('.')}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file; {what} is TOML.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {checks.unreadable(error)}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def require_table(path: Path, name: str, value: object) -> "Table":
    """The value, if it is a table."""
    from tutelage import checks

    if not isinstance(value, dict):
        raise InputError(f"{name} is {checks.shown(value)} in {path}; it must be a table, [{name}].")
    return value


def build_compare_start(problem: "Problem", table: "Table", from_file: bool, kind: str | None) -> "Start":
    """The initial condition of a comparison: as a file gives it, else of the given kind. N is always known."""
    from tutelage import Start, asymmetric_start, checks
    from tutelage.problem.start import start_from_table

    overlaps = "R" in table or "Q" in table
    if kind is not None:
        checks.known("--start", kind, STARTS)
        if overlaps:
            raise InputError(
                f"the file gives an initial condition by its overlaps, and --start {kind} another; leave one of them out."
            )
    dim = table.get("dim") or problem.inputs.usual_dim
    if overlaps or kind == "random" or (kind is None and from_file):
        given = {name: value for name, value in table.items() if name != "seed"}  # a seed next to overlaps: of the runs
        start = start_from_table(problem, given if overlaps else table | {"dim": dim})
        return start if start.dim is not None else Start(start.R, start.Q, start.T, start.readout, start.bias, dim=dim)
    if "scale" in table:
        raise InputError("--scale is the size of random weights; it goes with --start random.")
    return asymmetric_start(problem, dim)
