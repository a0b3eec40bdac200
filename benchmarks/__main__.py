"""`make bench`: run all parts, or those named, and keep the numbers as JSON.

python -m benchmarks [core hand rules optimizers cold finite structured growth sweeps
sweeps_phase explorer gpu] [--quick] [--clock cpu]
"""

import argparse
import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import jax
from rich.console import Console
from rich.table import Table

from benchmarks.measure import GROWTH, OPTIONS, ROWS, about

# Columns of a terminal that the table needs; the lines before it say the same.
WIDE = 140
ON_CPU = (
    "core",
    "hand",
    "rules",
    "optimizers",
    "cold",
    "finite",
    "structured",
    "growth",
    "sweeps",
    "sweeps_phase",
    "explorer",
)


def main() -> None:
    options = read_options()
    OPTIONS.update(clock=options.clock, size="quick" if options.quick else "full")
    parts = options.parts
    if not parts:
        parts = ON_CPU if jax.default_backend() == "cpu" else ("gpu",)
    console = Console()
    before = about()
    for name in parts:
        if find_spec(f"benchmarks.{name}") is None:
            console.print(f"there is no part {name!r}")
            continue
        for part in import_module(f"benchmarks.{name}").ALL:
            done = len(ROWS)
            with console.status(part.__doc__ or part.__name__):
                run_part(name, part)
            write(options.out, before)
            for row in ROWS[done:]:
                words = [cell for cell in cells(row) if cell]
                console.print("  ".join(words), highlight=False)
    if console.width >= WIDE:
        console.print(table())
    console.print(verdicts(), highlight=False)
    console.print(
        f"{before['device']}, {before['cores']} cores, load {before['load']:.1f}, "
        f"clock: {before['clock']}"
    )
    console.print(f"written to {options.out}")


def run_part(name, part) -> None:
    """Run a part; one that fails must not lose the others."""
    try:
        part()
    except Exception as error:
        failure = {
            "name": f"{name}.{part.__name__}",
            "note": f"failed: {error}",
            "verdict": "missed",
        }
        ROWS.append(failure)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes, fewer repeats"
    )
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: for a machine that is busy otherwise",
    )
    parser.add_argument("--out", type=Path, default=Path("output/benchmarks.json"))
    return parser.parse_args()


def write(path: Path, before: dict) -> None:
    """Store the rows so far, with the machine as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"about": before, "rows": ROWS, "growth": GROWTH}
    path.write_text(json.dumps(content, indent=1, default=float) + "\n")


def verdicts() -> str:
    """Return the number of targets that are met, and the names of the others."""
    judged = [row for row in ROWS if row.get("verdict")]
    missed = [row["name"] for row in judged if row["verdict"] == "missed"]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} targets met"]
    lines += [f"missed: {name}" for name in missed]
    return "\n".join(lines)


def table() -> Table:
    out = Table(
        "work",
        "measured",
        "baseline",
        "ratio",
        "error",
        "target",
        "verdict",
        "note",
        title="tutelage benchmarks",
    )
    for row in ROWS:
        out.add_row(*cells(row))
    return out


def cells(row: dict) -> list[str]:
    """Return a row in words.

    These are measured, baseline, ratio, error, target, verdict and note (with the
    reason of a miss).
    """
    measured = ""
    if "value" in row:
        measured = f"{row['value']:.3g} {row['unit']}"
    if row.get("unit", "s") != "s":
        measured += f" ({row['seconds']:.3g} s)"
    notes = [text for text in (row.get("note"), row.get("reason")) if text]
    return [
        row["name"],
        measured,
        _number(row, "baseline_seconds", ".3g", " s"),
        _number(row, "ratio", ".3g"),
        _number(row, "error", ".0e"),
        row.get("target", ""),
        row.get("verdict") or "",
        ". ".join(notes),
    ]


def _number(row: dict, name: str, form: str, unit: str = "") -> str:
    """A number of a row in words; nothing if it was not measured."""
    value = row.get(name)
    if value is None:
        return ""
    return format(value, form) + unit


if __name__ == "__main__":
    main()
