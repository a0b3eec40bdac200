"""One task, computed once, wherever that is: what an error becomes, and how many threads are used."""

import os
from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol

from tutelage._errors import InputError
from tutelage.sweep.outcome import Outcome, Task, WorkerError

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
        sentence = " ".join(str(error).split())
        return WorkerError(sentence if isinstance(error, InputError) else f"{type(error).__name__}: {sentence}".rstrip(": "))


def one_thread() -> dict[str, str]:
    """The environment of a worker that uses one core: the others have workers of their own.

    NPROC is what XLA takes for the number of cores, for its pool of threads.
    """
    libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return dict.fromkeys(libraries, "1") | {"XLA_FLAGS": flags}
