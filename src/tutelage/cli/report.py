"""A trajectory for people (a table) and for programs (JSON)."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from tutelage.plot.words import problem_in_words, settings_in_words

SHOWN = 6  # the largest matrix printed in full


def print_curve(trajectory: Any) -> None:
    """The problem, the error at three times, the overlaps at the end, and how it ended."""
    from rich.table import Table

    who, how = problem_in_words(trajectory.problem)
    console = _console()
    console.print(who, style="bold")
    console.print(", ".join([how, *settings_in_words(trajectory)]).replace("$", "").replace("N=", "N = "))
    console.print()
    times = np.asarray(trajectory.times)
    picked = sorted({0, len(times) // 2, len(times) - 1})
    curve = Table.grid(padding=(0, 3))
    curve.add_row("alpha", *(f"{times[i]:g}" for i in picked))
    curve.add_row("e_g", *(f"{trajectory.error[i]:.4g}" for i in picked))
    console.print(curve)
    console.print()
    console.print(_matrices(trajectory, f"alpha = {times[-1]:g}"))
    console.print()
    print_field("status", [trajectory.status])


def print_field(name: str, lines: list[str]) -> None:
    """A name, and beside it one or several lines."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=8)
    for i, line in enumerate(lines):
        table.add_row("" if i else name, line)
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _matrices(trajectory: Any, when: str) -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 5))
    parts = [("R", trajectory.R[-1]), ("Q", trajectory.Q[-1])]
    if trajectory.problem.student.train_readout:
        parts.append(("readout", trajectory.readout[-1][:, None]))
    table.add_row(*(f"{name} at {when}" for name, _ in parts))
    table.add_row(*(_matrix(value) for _, value in parts))
    return table


def _matrix(values: np.ndarray) -> str:
    if max(values.shape) > SHOWN:
        size = " x ".join(map(str, values.shape))
        return f"{size} entries from {values.min():.4g} to {values.max():.4g}"
    return "\n".join("".join(f"{x:>9.4f}" if abs(x) < 1e4 else f"{x:>10.2e}" for x in row) for row in values)


def to_json(trajectory: Any, start: dict[str, Any], validity: Any, files: list[str]) -> str:
    """One JSON object; numbers that JSON cannot hold become null."""
    last = {name: trajectory[name][-1] for name in ("R", "Q", "readout", "bias") if name in trajectory.variables}
    return json.dumps(
        _plain(
            {
                "problem": trajectory.problem.to_dict(),
                "start": start,
                "settings": dict(trajectory.settings),
                "status": trajectory.status,
                "finished": trajectory.finished,
                "times": trajectory.times,
                "error": trajectory.error,
                "final": last,
                "validity": None if validity is None else asdict(validity),
                "files": files,
            }
        ),
        allow_nan=False,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value
