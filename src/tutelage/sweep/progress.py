"""What is seen of a running sweep: nothing, or a bar with rate, time left and failures so far. Silent unless asked for."""

import sys
from collections import Counter
from typing import Any, Protocol

from tutelage.sweep.outcome import Outcome, Task


class Progress(Protocol):
    """Told what happens, in this order: begin, any number of `done` and `notice`, end."""

    def begin(self, points: int, kept: int) -> None:
        """points: of the sweep; kept: those of earlier runs."""
        ...

    def done(self, task: Task, outcome: Outcome) -> None:
        """This chunk is on the disk."""
        ...

    def notice(self, sentence: str) -> None:
        """Something happened that does not stop the sweep."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


class Silent:
    """Says nothing."""

    def begin(self, points: int, kept: int) -> None: ...

    def done(self, task: Task, outcome: Outcome) -> None: ...

    def notice(self, sentence: str) -> None: ...

    def end(self) -> None: ...


class Bar:
    """A bar on standard error where that is a terminal; notices and errors in lines of their own, each error once."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._failed = 0
        self._errors: Counter[str] = Counter()

    def begin(self, points: int, kept: int) -> None:
        from tqdm import tqdm

        layout = "{desc}: {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} points [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        self._bar = tqdm(
            total=points,
            initial=kept,
            desc="sweeping",
            bar_format=layout,
            unit=" points",
            smoothing=0.1,
            leave=False,
            disable=None,
        )

    def done(self, task: Task, outcome: Outcome) -> None:
        new = {failure.error for failure in outcome.failures} - set(self._errors)
        self._errors.update(failure.error for failure in outcome.failures)
        for error in sorted(new):
            self.notice(f"points fail: {error}")
        self._failed += len(outcome.failures)
        if self._failed:
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update(len(task.points))

    def notice(self, sentence: str) -> None:
        from tqdm import tqdm

        tqdm.write(f"note: {sentence}", file=sys.stderr)

    def end(self) -> None:
        self._bar.close()
