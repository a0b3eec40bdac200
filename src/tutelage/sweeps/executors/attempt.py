"""One task, computed once, wherever that is: and what becomes of an error."""

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol

from tutelage._errors import InputError
from tutelage.sweeps.outcome import Outcome, Task, WorkerError

TRIES = 3
Compute = Callable[[dict[str, Any]], Outcome]
Notice = Callable[[str], None]
Results = Generator[tuple[Task, Outcome | WorkerError], None, None]  # closed when nobody waits for the rest


class Execute(Protocol):
    """What every executor is."""

    def __call__(self, compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results: ...


def attempt(compute: Compute, payload: dict[str, Any]) -> Outcome | WorkerError:
    """The outcome, or the error in one line."""
    try:
        return compute(payload)
    except Exception as error:
        return WorkerError(in_words(error))


def in_words(error: BaseException) -> str:
    """One line."""
    sentence = " ".join(str(error).split())
    return sentence if isinstance(error, InputError) else f"{type(error).__name__}: {sentence}".rstrip(": ")
