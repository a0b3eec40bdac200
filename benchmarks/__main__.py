"""`make bench`: run everything, print the table, keep the numbers as JSON in output/."""

import json
import os
import platform
from pathlib import Path

import jax
from rich.console import Console
from rich.table import Table

import tutelage as tu
from benchmarks import core, explorer, finite


def main() -> None:
    console = Console()
    for part in (*core.ALL, *finite.ALL, *explorer.ALL):
        with console.status(part.__doc__ or part.__name__):
            part()
    table = Table("work", "seconds", "baseline", "ratio", "error", "note", title="tutelage benchmarks")
    for row in core.ROWS:
        show = lambda value, form: "" if value is None else format(value, form)  # noqa: E731
        table.add_row(
            row["name"], show(row["seconds"], ".4f"), show(row["baseline_seconds"], ".3f"), show(row["ratio"], ".1f"),
            show(row["error"], ".1e"), row["note"],
        )  # fmt: skip
    console.print(table)
    folder = Path("output")
    folder.mkdir(exist_ok=True)
    about = {"tutelage": tu.__version__, "jax": jax.__version__, "python": platform.python_version()}
    about |= {"device": str(jax.devices()[0]), "cores": os.cpu_count(), "load": os.getloadavg()}
    (folder / "benchmarks.json").write_text(json.dumps({"about": about, "rows": core.ROWS}, indent=1, default=float))
    console.print(f"device {about['device']}, {about['cores']} cores, load {about['load'][0]:.1f}")
    console.print(f"written to {folder / 'benchmarks.json'}")


if __name__ == "__main__":
    main()
