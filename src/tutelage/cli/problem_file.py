"""A problem as a TOML file: what `Problem.to_toml` writes, and two optional tables beside it.

    [start]   dim, scale, seed (random weights)    or R, Q, T, readout, bias (overlaps; dim if they belong to one)
    [times]   end, points, log

Files come from outside, so whatever is wrong with one ends in a sentence.
"""

import tomllib
from pathlib import Path
from typing import Any

from tutelage._errors import InputError

PROBLEM = ("noise", "loss", "labels", "rule", "student", "teacher", "inputs", "sgd")
TABLES = (*PROBLEM, "start", "times")
START_NAMES = ("dim", "scale", "seed", "R", "Q", "T", "readout", "bias")
TIMES_NAMES = ("end", "points", "log")


def read_problem_file(path: Path) -> dict[str, Any]:
    """The tables of the file, with every name of ours checked; the library checks those of the problem."""
    from tutelage import checks

    data = read_toml(path)
    for name in data:
        checks.known(f"a name in {path}", name, TABLES)
    for table, names in (("start", START_NAMES), ("times", TIMES_NAMES)):
        for name in require_table(path, table, data.get(table, {})):
            checks.known(f"a name in [{table}]", name, names)
    for table in ("student", "teacher", "inputs", "sgd"):
        require_table(path, table, data.get(table, {}))
    return data


def read_toml(path: Path, what: str = "a problem file") -> dict[str, Any]:
    """What a TOML file holds; whatever is wrong with it is said in one sentence."""
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


def require_table(path: Path, name: str, value: Any) -> dict[str, Any]:
    """The value, if it is a table."""
    from tutelage import checks

    if not isinstance(value, dict):
        raise InputError(f"{name} is {checks.shown(value)} in {path}; it must be a table, [{name}].")
    return value
