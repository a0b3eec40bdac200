"""A sweep as a TOML file: a problem file, and beside it what changes and what is measured.

measure = ["final_error", "noise_floor"]          starts, runs, seed, gradient_flow, rtol, solver, points_per_chunk
[over]                                            lr = [0.1, 0.2]
noise = { from = 0.0, to = 1.0, count = 11 }      even values; log = true: evenly spaced in the logarithm
[[points]]                                        or points one by one
[start]   dim, scale; or R, Q, T, ...; or kind = "asymmetric"
[times]   end, points, log
[cluster] for --executor slurm: queue, account, walltime, memory, ...
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.cli.problem_file import PROBLEM, TIMES_NAMES, read_toml, require_table

OPTIONS = ("measure", "starts", "runs", "seed", "gradient_flow", "rtol", "solver", "points_per_chunk")
TABLES = ("over", "points", "start", "times", "cluster")
MOST_VALUES = 10**6
RANGE = ("from", "to", "count", "log")


def read_sweep_file(path: Path, imports: Sequence[str] = ()) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The problem, the arguments of `sweep`, and the options of a cluster, all names of ours checked.

    imports: modules whose functions the file may name.
    """
    from tutelage import Problem, checks
    from tutelage.cli.request import build_times
    from tutelage.problem.own import imported, paths_in

    data = read_toml(path, "a sweep file")
    for name in data:
        checks.known(f"a name in {path}", name, (*OPTIONS, *TABLES, *PROBLEM))
    for name in ("over", "start", "times", "cluster"):
        require_table(path, name, data.get(name, {}))
    for name in data.get("times", {}):
        checks.known("a name in [times]", name, TIMES_NAMES)
    problem = Problem.from_dict({name: data[name] for name in PROBLEM if name in data}, imports)
    for path_ in paths_in(data.get("measure", [])):
        imported("a measure", path_, imports)
    arguments = {name: data[name] for name in (*OPTIONS, "points", "start") if name in data}
    if "over" in data:
        arguments["over"] = {name: _values(name, values) for name, values in flat(data["over"]).items()}
    return (
        problem,
        arguments | {"imports": tuple(imports), "times": build_times(data.get("times", {}))},
        data.get("cluster", {}),
    )


def flat(table: dict[str, Any]) -> dict[str, Any]:
    """Dotted names: TOML reads student.hidden = [2, 3] as a table in a table."""
    out: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and not set(value) & {"from", "to", "count"}:
            out |= {f"{name}.{inner}": part for inner, part in flat(value).items()}
        else:
            out[name] = value
    return out


def _values(name: str, values: Any) -> Any:
    """A list as it is; a range as its values."""
    from tutelage import checks

    if not isinstance(values, dict):
        return values
    for key in values:
        checks.known(f"a name in the range of {name}", key, RANGE)
    missing = [key for key in ("from", "to", "count") if key not in values]
    if missing:
        raise InputError(f"the range of {name} lacks {missing[0]}; say {{ from = 0.1, to = 1.0, count = 10 }}.")
    first, last = (float(checks.as_array(f"{key} in the range of {name}", values[key])) for key in ("from", "to"))
    count = checks.as_count(f"count in the range of {name}", values["count"], least=2, most=MOST_VALUES)
    if not checks.as_flag(f"log in the range of {name}", values.get("log", False)):
        return np.linspace(first, last, count)
    if first <= 0 or last <= 0:
        raise InputError(f"the range of {name} is from {first:g} to {last:g} with log = true; both must be positive.")
    return np.geomspace(first, last, count)
