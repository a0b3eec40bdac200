"""The start from which theory and runs pass the plateau together."""

from typing import Any

from tutelage._errors import InputError
from tutelage.cli.request import build_start

KINDS = ("asymmetric", "random")


def build_compare_start(problem: Any, table: dict[str, Any], from_file: bool, kind: str | None) -> Any:
    """The start of a comparison: as a file gives it, else the kind asked for. N is always known."""
    from tutelage import Start, checks, asymmetric_start

    overlaps = "R" in table or "Q" in table
    if kind is not None:
        checks.known("--start", kind, KINDS)
        if overlaps:
            raise InputError(f"the file gives a start by its overlaps, and --start {kind} another; leave one of them out.")
    dim = table.get("dim") or problem.inputs.usual_dim
    if overlaps or kind == "random" or (kind is None and from_file):
        start = build_start(problem, table | {"dim": dim} if not overlaps else _without_seed(table))
        return start if start.dim is not None else Start(start.R, start.Q, start.T, start.readout, start.bias, dim=dim)
    if "scale" in table:
        raise InputError("--scale is the size of random weights; it goes with --start random.")
    return asymmetric_start(problem, dim)


def _without_seed(table: dict[str, Any]) -> dict[str, Any]:
    """A seed given with overlaps is that of the runs."""
    return {name: value for name, value in table.items() if name != "seed"}
