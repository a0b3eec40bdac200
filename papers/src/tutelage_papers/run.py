"""From a figure to its result: computed or found, drawn, and judged.

Results stay in a folder, where later runs find them. `tutelage replicate` computes
several figures in several processes.
"""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutelage_papers import cache
from tutelage_papers.claims import FAIL, VERDICTS, Claim
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from xarray import Dataset

Around = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Result:
    """A figure with its numbers.

    seconds: the time of the computation, also if the numbers were found in the folder.
    files: by ending, without the dot.
    """

    replica: Replica
    quick: bool
    data: "Dataset"
    seconds: float
    claims: tuple[Claim, ...]
    files: dict[str, Path]
    computed: bool

    @property
    def failed(self) -> bool:
        """True if any claim fails."""
        return any(claim.verdict == FAIL for claim in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """Return id, source, seconds and claims as data for JSON."""
        return {
            "id": self.replica.id,
            "source": self.replica.source,
            "seconds": self.seconds,
            "claims": [claim.to_dict() for claim in self.claims],
        }


def replicate(
    replica: Replica,
    folder: Path,
    *,
    quick: bool = False,
    formats: tuple[str, ...] = ("png",),
    around: Around = nullcontext,
) -> Result:
    """Return the result of a figure, found in a folder or computed and stored.

    The folder must exist; results in it are found by content. formats: drawings to make
    (png, pdf, svg). around: a context for the computation, such as a sign of life; it
    is called with the id.
    """
    key = cache.key(replica, quick)
    path = folder / f"{replica.name(quick)}.nc"
    data = cache.read(path)
    fresh = data is None or data.attrs.get("key") != key
    if data is None or fresh:
        began = time.perf_counter()
        with around(replica.id):
            data = replica.compute(**replica.parameters(quick))
        seconds = time.perf_counter() - began
        attributes = {
            "replica": replica.id,
            "key": key,
            "seconds": seconds,
            "parameters": json.dumps(replica.parameters(quick)),
        }
        cache.write(data, path, attributes)
    else:
        seconds = float(data.attrs["seconds"])
    drawings = {ending: path.with_suffix(f".{ending}") for ending in formats}
    _draw(replica, data, drawings)
    pages = _write_page(replica, data, path.with_suffix(".html"))
    return Result(
        replica=replica,
        quick=quick,
        data=data,
        seconds=seconds,
        claims=tuple(replica.claims(data)),
        files={"nc": path} | drawings | pages,
        computed=fresh,
    )


def _draw(replica: Replica, data: "Dataset", drawings: dict[str, Path]) -> None:
    """Make the drawings that are not there yet.

    Those of older data were removed when it was replaced.
    """
    missing = [path for path in drawings.values() if not path.is_file()]
    if not missing:
        return
    from tutelage.plot import save_figure, style

    with style():
        figure = replica.draw(data)
    for path in missing:
        save_figure(figure, path)


def _write_page(replica: Replica, data: "Dataset", path: Path) -> dict[str, Path]:
    """Write the page of a figure that has one, if it is not there yet."""
    if replica.page is None:
        return {}
    if not path.is_file():
        from tutelage.plot import write_text

        write_text(path, replica.page(data))
    return {"html": path}


def is_kept(replica: Replica, folder: Path, quick: bool) -> bool:
    """Return True if the folder has the numbers of the current parameters and code."""
    data = cache.read(folder / f"{replica.name(quick)}.nc")
    return data is not None and data.attrs.get("key") == cache.key(replica, quick)


def found(
    replica: Replica, folder: Path, quick: bool
) -> tuple[str, float | None, tuple[Claim, ...]]:
    """Return the state of a figure in a folder, its seconds and its claims.

    The state is "done", "stale" (code or parameters have changed) or "" (not there).
    """
    data = cache.read(folder / f"{replica.name(quick)}.nc")
    if data is None:
        return "", None, ()
    seconds = float(data.attrs["seconds"])
    if data.attrs.get("key") != cache.key(replica, quick):
        return "stale", seconds, ()
    return "done", seconds, tuple(replica.claims(data))


def count(claims: "tuple[Claim, ...] | list[Claim]") -> dict[str, int]:
    """Count the claims of each verdict."""
    counts: dict[str, int] = dict.fromkeys(VERDICTS, 0)
    for claim in claims:
        counts[claim.verdict] += 1
    return counts
