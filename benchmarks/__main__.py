"""`make bench`: run all parts, or those named; print the table, keep the numbers as JSON.

python -m benchmarks [core hand rules optimizers cold finite structured growth sweeps sweeps_phase explorer gpu] [--quick] [--clock cpu]
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

WIDE = (
    140  # columns of a terminal that the table needs; the lines before it say the same
)
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
    parts = options.parts or (ON_CPU if jax.default_backend() == "cpu" else ("gpu",))
    console, before = Console(), about()
    for name in parts:
        if find_spec(f"benchmarks.{name}") is None:
            console.print(f"there is no part {name!r}")
            continue
        for part in import_module(f"benchmarks.{name}").ALL:
            done = len(ROWS)
            with console.status(part.__doc__ or part.__name__):
                try:
                    part()
                except (
                    Exception
                ) as error:  # one part that fails must not lose the others
                    ROWS.append(
                        {
                            "name": f"{name}.{part.__name__}",
                            "note": f"failed: {error}",
                            "verdict": "missed",
                        }
                    )
            write(options.out, before)
            for row in ROWS[done:]:
                console.print("  ".join(filter(None, cells(row))), highlight=False)
    if console.width >= WIDE:
        console.print(table())
    console.print(verdicts(), highlight=False)
    console.print(
        f"{before['device']}, {before['cores']} cores, load {before['load']:.1f}, clock: {before['clock']}"
    )
    console.print(f"written to {options.out}")


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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {"about": before, "rows": ROWS, "growth": GROWTH}, indent=1, default=float
        )
        + "\n"
    )


def verdicts() -> str:
    """How many targets are met, and which are not."""
    judged = [row for row in ROWS if row.get("verdict")]
    missed = [row["name"] for row in judged if row["verdict"] == "missed"]
    return f"{len(judged) - len(missed)} of {len(judged)} targets met" + "".join(
        f"\nmissed: {name}" for name in missed
    )


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
    """A row in words: measured, baseline, ratio, error, target, verdict, note (and the reason of a miss)."""
    show = lambda name, form: "" if row.get(name) is None else format(row[name], form)  # noqa: E731
    measured = f"{row['value']:.3g} {row['unit']}" if "value" in row else ""
    if row.get("unit", "s") != "s":
        measured += f" ({row['seconds']:.3g} s)"
    baseline = (
        f"{row['baseline_seconds']:.3g} s"
        if row.get("baseline_seconds") is not None
        else ""
    )
    note = ". ".join(x for x in (row.get("note", ""), row.get("reason", "")) if x)
    return [
        row["name"],
        measured,
        baseline,
        show("ratio", ".3g"),
        show("error", ".0e"),
        row.get("target", ""),
        row.get("verdict") or "",
        note,
    ]


if __name__ == "__main__":
    main()
