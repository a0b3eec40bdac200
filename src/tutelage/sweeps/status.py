"""How far a sweep is, in numbers and in words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MOST_ERRORS = 5


@dataclass(frozen=True)
class StoreStatus:
    """The state of a folder. errors: how often each error, the commonest ones; writer: who works on it now, or None."""

    folder: str
    chunks: int
    chunks_done: int
    points: int
    points_done: int
    points_failed: int
    errors: dict[str, int]
    damaged: int
    writer: str | None
    version: str

    @property
    def complete(self) -> bool:
        """Whether every chunk is there."""
        return self.chunks_done == self.chunks

    def __str__(self) -> str:
        share = 100 * self.points_done // max(self.points, 1)
        lines = [
            f"{self.folder}: {self.points_done} of {self.points} points ({share} %), "
            f"{self.chunks_done} of {self.chunks} chunks, tutelage {self.version}"
        ]
        if self.writer is not None:
            lines.append(f"  running: {self.writer}")
        elif not self.complete:
            lines.append("  not running; run the same sweep into the same folder to go on")
        if self.damaged:
            lines.append(f"  {counted(self.damaged, 'damaged chunk')}, computed again at the next run")
        if self.points_failed:
            lines.append(f"  {counted(self.points_failed, 'point')} failed:")
            lines += [f"    {count} x {error}" for error, count in self.errors.items()]
        return "\n".join(lines)


def commonest(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The errors of all chunks together, the commonest first."""
    total: Counter[str] = Counter()
    for errors in counts:
        total.update(errors)
    return dict(total.most_common(MOST_ERRORS))


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
