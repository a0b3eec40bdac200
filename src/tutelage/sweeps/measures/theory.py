"""Learning curves of the theory, and where they end. A solve that diverges is NaN from there on; `status` says so."""

from typing import Any

import numpy as np

from tutelage.storage import DIMS, LONG
from tutelage.sweeps.measures.base import Case, Measure

ERROR, LOSS = LONG["error"], LONG["loss"]


def _overlaps(case: Case, at_end: bool) -> dict[str, Any]:
    prefix, names = ("final_" if at_end else ""), ("R", "Q")
    values = {name: np.asarray(case.solved.variables[name]) for name in names}
    return {f"{prefix}{name}": case.at_end(value) if at_end else value for name, value in values.items()}


def _of_time(name: str, words: str, values: Any, needs: str) -> Measure:
    return Measure(name, values, {name: ("time",)}, frozenset({needs}), {name: words})


def _at_end(name: str, words: str, values: Any) -> Measure:
    return Measure(name, values, {name: ()}, frozenset({"end"}), {name: words})


THEORY = (
    _of_time("error", ERROR, lambda case: {"error": case.solved.error}, "curve"),
    _of_time("loss", LOSS, lambda case: {"loss": case.solved.loss}, "curve"),
    _at_end("final_error", f"{ERROR} at the end", lambda case: {"final_error": case.at_end(case.solved.error)}),
    _at_end("final_loss", f"{LOSS}, at the end", lambda case: {"final_loss": case.at_end(case.solved.loss)}),
    Measure(
        "overlaps",
        lambda case: _overlaps(case, at_end=False),
        {name: ("time", *DIMS[name]) for name in ("R", "Q")},
        frozenset({"curve", "overlaps"}),
        {name: LONG[name] for name in ("R", "Q")},
    ),
    Measure(
        "final_overlaps",
        lambda case: _overlaps(case, at_end=True),
        {f"final_{name}": DIMS[name] for name in ("R", "Q")},
        frozenset({"end", "overlaps"}),
        {f"final_{name}": f"{LONG[name]} at the end" for name in ("R", "Q")},
    ),
)
