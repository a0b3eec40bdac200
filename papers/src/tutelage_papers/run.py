"""From a figure to its result: computed or found, drawn, and judged.

Results stay in a folder, where later runs find them. `tutelage replicate` computes several figures in several processes.
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
    """A figure with its numbers. seconds: what computing took, also if it was found. files: by ending, without the dot."""

    replica: Replica
    quick: bool
    data: "Dataset"
    seconds: float
    claims: tuple[Claim, ...]
    files: dict[str, Path]
    computed: bool

    @property
    def failed(self) -> bool:
        """Does any claim fail?"""
        return any(claim.verdict == FAIL for claim in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
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
    """The result of a figure in a folder, which must exist: found there by content, else computed and stored.

    formats: drawings to make (png, pdf, svg). around: a context for the computation, such as a sign of life;
    it is called with the id.
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
        parameters = json.dumps(replica.parameters(quick))
        cache.write(
            data,
            path,
            {
                "replica": replica.id,
                "key": key,
                "seconds": seconds,
                "parameters": parameters,
            },
        )
    else:
        seconds = float(data.attrs["seconds"])
    drawings = {ending: path.with_suffix(f".{ending}") for ending in formats}
    _draw(replica, data, drawings)
    files = (
        {"nc": path} | drawings | _write_page(replica, data, path.with_suffix(".html"))
    )
    return Result(
        replica, quick, data, seconds, tuple(replica.claims(data)), files, fresh
    )


def _draw(replica: Replica, data: "Dataset", drawings: dict[str, Path]) -> None:
    """The drawings that are not there yet; those of older data were removed when it was replaced."""
    missing = [path for path in drawings.values() if not path.is_file()]
    if not missing:
        return
    from tutelage.plot import save_figure, style

    with style():
        figure = replica.draw(data)
    for path in missing:
        save_figure(figure, path)


def _write_page(replica: Replica, data: "Dataset", path: Path) -> dict[str, Path]:
    """The page of its own, for a figure that has one, if it is not there yet."""
    if replica.page is None:
        return {}
    if not path.is_file():
        from tutelage.plot import write_text

        write_text(path, replica.page(data))
    return {"html": path}


def is_kept(replica: Replica, folder: Path, quick: bool) -> bool:
    """Does the folder hold the numbers of this figure, as its parameters and code are now?"""
    data = cache.read(folder / f"{replica.name(quick)}.nc")
    return data is not None and data.attrs.get("key") == cache.key(replica, quick)


def found(
    replica: Replica, folder: Path, quick: bool
) -> tuple[str, float | None, tuple[Claim, ...]]:
    """What a folder holds of a figure: "done", "stale" (its code or parameters changed) or "", seconds, and its claims."""
    data = cache.read(folder / f"{replica.name(quick)}.nc")
    if data is None:
        return "", None, ()
    if data.attrs.get("key") != cache.key(replica, quick):
        return "stale", float(data.attrs["seconds"]), ()
    return "done", float(data.attrs["seconds"]), tuple(replica.claims(data))


def count(claims: "tuple[Claim, ...] | list[Claim]") -> dict[str, int]:
    """How many claims have each verdict."""
    return {
        verdict: sum(claim.verdict == verdict for claim in claims)
        for verdict in VERDICTS
    }
