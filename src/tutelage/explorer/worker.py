"""A process that answers one request at a time, part by part, and can be told to stop between two parts.

Compiling and solving cannot be interrupted from within, so the server may also replace a process that does not listen
(pool.py). The command keeps compiled programs on disk, so that a new process does not begin from nothing.

Into the pipe go requests (number, kind, values), or None: stop. Out of it come (number, is_last, message); every request is
answered by exactly one last message.
"""

import json
import os
import signal
from multiprocessing.connection import Connection
from typing import Any


def work(pipe: Connection) -> None:
    """Answer requests until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    import tutelage.explorer.answer  # noqa: F401  (JAX and all: before the first request, not during it)

    while True:
        try:
            request = pipe.recv()
            if request is not None:  # None: stop; but what it meant had ended already
                number, kind, values = request
                _answer(pipe, number, kind, values)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            os._exit(0)


def _answer(pipe: Connection, number: int, kind: str, values: dict[str, Any]) -> None:
    from tutelage._errors import InputError
    from tutelage.explorer.settings import Settings

    try:
        settings = Settings.read(values)
        if kind in ("curve", "details"):
            return _stream(pipe, number, kind, settings)
        return _compute_file(pipe, number, kind, settings)
    except InputError as error:
        sentence = str(error)
    except MemoryError:
        sentence = "This problem needs more memory than there is; make it smaller."
    return pipe.send((number, True, json.dumps({"part": "error", "sentence": sentence})))


def _stream(pipe: Connection, number: int, kind: str, settings: Any) -> None:
    from tutelage.explorer import answer

    for part in {"curve": answer.curve, "details": answer.details}[kind](settings):
        pipe.send((number, False, json.dumps(part, allow_nan=False)))
        if _is_stopped(pipe):
            break
    pipe.send((number, True, json.dumps({"part": f"{kind} done"})))


def _compute_file(pipe: Connection, number: int, kind: str, settings: Any) -> None:
    from tutelage.explorer.files import FILES

    content = b""
    for part in FILES[kind](settings):
        content = part
        if _is_stopped(pipe):
            break
    pipe.send((number, True, content))


def _is_stopped(pipe: Connection) -> bool:
    """Whether we have been told to stop; nothing else comes while we work."""
    if not pipe.poll():
        return False
    pipe.recv()
    return True
