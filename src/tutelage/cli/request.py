"""From a problem file and flags to the arguments of the library: problem, initial condition and times. Flags win.

The file is TOML: what `Problem.to_toml` writes, and two optional tables.

    [start]   dim, scale, seed (random weights)    or R, Q, T, readout, bias (overlaps; dim if they belong to one)
              kind = "asymmetric", dim
    [times]   end, points, log

Whatever is wrong with a file ends in one message.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tutelage.cli.flags import ProblemFlags, StartFlags, TimeFlags, given
from tutelage.errors import InputError

if TYPE_CHECKING:
    from tutelage._types import Table
    from tutelage.problem import Problem, Start

DEFAULTS = {"student": {"hidden": 3}, "teacher": {"hidden": 3}, "noise": 0.0}
PROBLEM = ("noise", "loss", "labels", "rule", "student", "teacher", "inputs", "sgd")
TABLES = ("student", "teacher", "inputs", "sgd", "start", "times", "over", "cluster")


@dataclass(frozen=True)
class Request:
    """Arguments of the library; `start_table` is the initial condition as it was given, for the record."""

    problem: "Problem"
    start: "Start"
    times: np.ndarray
    start_table: "Table"


def read_request(
    path: Path | None, problem: ProblemFlags, start: StartFlags, times: TimeFlags, *, finite: bool = False
) -> Request:
    """Read, merge and check the problem file and the flags.

    finite: for simulations. They begin asymmetric unless something else is asked for, N is always known, and a seed next to
    overlaps is that of the runs.
    """
    from tutelage import Problem
    from tutelage.problem.start import OVERLAPS, start_from_table
    from tutelage.times import times_from_table

    tables = dict(DEFAULTS) if path is None else read_file(path, (*PROBLEM, "start", "times"))
    kind = "asymmetric" if finite and start.start is None and "start" not in tables else start.start
    start_table = tables.pop("start", {}) | given(kind=kind, dim=start.dim, scale=start.scale, seed=start.seed)
    times_table = tables.pop("times", {}) | given(end=times.times, points=times.points, log=times.log_times)
    tables = problem.applied_to(tables, alone=path is None)
    try:
        built = Problem.from_dict(tables, problem.imports or ())
        table = {"dim": built.inputs.usual_dim} | start_table if finite else dict(start_table)
        if finite and set(OVERLAPS) & set(table):
            table.pop("seed", None)
        return Request(built, start_from_table(built, table), times_from_table(times_table), start_table)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # a value of an unexpected kind is not a crash
        where = "the command line" if path is None else str(path)
        raise InputError(f"{where} holds a value of the wrong kind ({error}).") from None


def read_file(path: Path, names: tuple[str, ...], what: str = "a problem file") -> "Table":
    """The tables of a TOML file, which may have these names; the library checks what is inside."""
    from tutelage import checks
    from tutelage.problem.serialize import read_toml

    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of {what}.")
    try:
        data = read_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; give the name of {what} (TOML).") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file; {what} is TOML.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name, value in data.items():
        checks.known(f"a name in {path}", name, names)
        if name in TABLES and not isinstance(value, dict):
            raise InputError(f"{name} is {checks.shown(value)} in {path}; it must be a table, [{name}].")
    return data
