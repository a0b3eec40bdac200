"""A process that computes one task at a time and ends when its parent does, however that ends.

Into the pipe go pickled (compute, payload); out of it comes True, once it is ready, and then an Outcome or WorkerError
each, or a string: why it cannot work at all.
"""

import os
import pickle
import queue
import sys
import threading
from multiprocessing.connection import Connection

from tutelage.sweeps.executors.attempt import attempt, in_words
from tutelage.sweeps.outcome import Outcome, WorkerError


def work(descriptor: int) -> None:
    """Answer until the other end of the pipe is closed."""
    pipe = Connection(descriptor)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, messages), daemon=True).start()
    pipe.send(True)
    while True:
        pipe.send(_answer(messages.get()))


def _listen(pipe: Connection, messages: "queue.SimpleQueue[bytes]") -> None:
    """In a thread of its own, so that the end of the parent is noticed in the middle of a task."""
    try:
        while True:
            messages.put(pipe.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def _answer(message: bytes) -> Outcome | WorkerError | str:
    try:
        compute, payload = pickle.loads(message)
    except Exception as error:
        return in_words(error)
    return attempt(compute, payload)


if __name__ == "__main__":
    work(int(sys.argv[1]))
