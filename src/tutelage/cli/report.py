"""A trajectory for people (a table) and for programs (JSON)."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from tutelage._errors import Status
from tutelage.plot.words import problem_in_words, settings_in_words
from tutelage.storage import error_name

SHOWN = 6  # the largest matrix printed in full


def print_curve(trajectory: Any) -> None:
    """The problem, the error at three times, the overlaps at the end, and how it ended."""
    from rich.table import Table

    who, how = problem_in_words(trajectory.problem)
    console = plain_console()
    console.print(who, style="bold")
    console.print(", ".join([how, *settings_in_words(trajectory)]).replace("$", "").replace("N=", "N = "))
    console.print()
    times, mean, chosen = np.asarray(trajectory.times), "", None
    if np.ndim(trajectory.error) > 1:
        chosen = _finished(trajectory)
        mean = f", mean of {chosen.size} runs" + (" that finished" if chosen.size < len(trajectory.error) else "")
    picked = sorted({0, len(times) // 2, len(times) - 1})
    curve = Table.grid(padding=(0, 3))
    curve.add_row("alpha", *(f"{times[i]:g}" for i in picked))
    for name, values in _curves(trajectory).items():
        shown = values if chosen is None else values[chosen].mean(axis=0)
        curve.add_row(f"{name}{mean}", *(f"{shown[i]:.4g}" for i in picked))
    console.print(curve)
    console.print()
    console.print(_matrices(trajectory, f"alpha = {times[-1]:g}"))
    console.print()
    print_field("status", [trajectory.status])


def _curves(trajectory: Any) -> dict[str, np.ndarray]:
    """The error under its name, and the training loss where there is one that says more."""
    error, loss = np.asarray(trajectory.error), np.asarray(trajectory.loss)
    name = "e_g" if trajectory.problem.labels.metric == "squared" else error_name(trajectory.problem)
    says_more = np.any(np.isfinite(loss)) and not np.array_equal(loss, error, equal_nan=True)
    return {name: error} | ({"training loss": loss} if says_more else {})


def print_field(name: str, lines: list[str]) -> None:
    """A name, and beside it one or several lines."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=8)
    for i, line in enumerate(lines):
        table.add_row("" if i else name, line)
    plain_console().print(table)


def plain_console() -> Any:
    """Standard output; brackets and colons are text, not commands."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _matrices(trajectory: Any, when: str) -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 5))
    parts = [(name, _at_end(trajectory, name, mean=True)) for name in ("R", "Q")]
    if trajectory.problem.student.train_readout:
        readout = _at_end(trajectory, "readout", mean=True)
        parts.append(("readout", readout[:, None] if readout.ndim == 1 else readout))
    table.add_row(*(f"{name} at {when}" for name, _ in parts))
    table.add_row(*(_matrix(value) for _, value in parts))
    return table


def _at_end(trajectory: Any, name: str, mean: bool = False) -> np.ndarray:
    """A variable at the last time: of each run, or the mean of those that finished."""
    values = np.asarray(trajectory[name])
    if np.ndim(trajectory.error) == 1:
        return values[-1]
    return values[_finished(trajectory), -1].mean(axis=0) if mean else values[:, -1]


def _finished(trajectory: Any) -> np.ndarray:
    """The numbers of the runs that reached the last time; all if none did."""
    finished = np.flatnonzero(np.asarray(trajectory.status_code) == Status.FINISHED)
    return finished if finished.size else np.arange(len(trajectory.error))


def _matrix(values: np.ndarray) -> str:
    if max(values.shape) > SHOWN:
        size = " x ".join(map(str, values.shape))
        return f"{size} entries from {values.min():.4g} to {values.max():.4g}"
    texts = [[f"{x:.4f}" if abs(x) < 1e4 else f"{x:.2e}" for x in row] for row in values]
    width = max(len(text) for row in texts for text in row)
    return "\n".join("  ".join(text.rjust(width) for text in row) for row in texts)


def to_json(trajectory: Any, start: dict[str, Any], validity: Any, files: list[str], interrupted: str = "") -> str:
    """One JSON object. interrupted: what Ctrl-C did, in words."""
    last = {name: _at_end(trajectory, name) for name in ("R", "Q", "readout", "bias") if name in trajectory.variables}
    return dumps(
        {
            "problem": trajectory.problem.to_dict(),
            "start": start,
            "settings": dict(trajectory.settings),
            "status": interrupted or trajectory.status,
            "finished": trajectory.finished and not interrupted,
            "times": trajectory.times,
            "error": trajectory.error,
            "error_name": error_name(trajectory.problem),
            "loss": trajectory.loss,
            "final": last,
            "validity": None if validity is None else asdict(validity),
            "files": files,
        }
    )


def dumps(answer: dict[str, Any]) -> str:
    """JSON of nested tables and arrays; numbers that JSON cannot hold become null."""
    return json.dumps(_plain(answer), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value
