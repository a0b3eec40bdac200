"""What is seen of a running sweep: nothing, or a bar with rate, time left and failures so far. Silent unless asked for."""

import sys
import threading
from typing import Any, Protocol

from tutelage.sweeps.outcome import Outcome, Task

SECONDS_BETWEEN_TICKS = 1.0
MOST_SHOWN = 5  # different errors; all are kept with their points


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
    """A bar on standard error where that is a terminal; notices, and the first few errors, in lines of their own."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._ended = threading.Event()
        self._failed = 0
        self._errors: set[str] = set()

    def begin(self, points: int, kept: int) -> None:
        from tqdm import tqdm

        clock = "[{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
        self._bar = tqdm(
            total=points,
            initial=kept,
            desc="sweeping",
            bar_format=f"{{desc}}: {{percentage:3.0f}}% |{{bar}}| {{n_fmt}}/{{total_fmt}} points {clock}",
            unit=" points",
            smoothing=0.1,
            leave=False,
            disable=None,
        )
        self._clock = threading.Thread(target=self._tick, daemon=True)
        self._clock.start()

    def _tick(self) -> None:
        """The clock goes on while nothing comes: the first chunk of a shape waits for its compilation."""
        while not self._ended.wait(SECONDS_BETWEEN_TICKS):
            self._bar.refresh()

    def done(self, task: Task, outcome: Outcome) -> None:
        for failure in outcome.failures:
            if failure.error not in self._errors and len(self._errors) < MOST_SHOWN:
                self._errors.add(failure.error)
                self.notice(f"points fail: {failure.error}")
        self._failed += len(outcome.failures)
        if self._failed:
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update(len(task.points))

    def notice(self, sentence: str) -> None:
        from tqdm import tqdm

        tqdm.write(f"note: {sentence}", file=sys.stderr)

    def end(self) -> None:
        self._ended.set()
        self._clock.join()
        self._bar.close()
