"""Processes that all pages share: the newest request of each page, one at a time, and none for longer than a limit.

A page has at most one request under way; a newer one stops it. What was stopped may go on to the end of its part (perhaps
a compilation that the next request needs), until somebody waits for its process or its page is closed: then the process is
replaced after a moment of grace, as is one that works beyond the limit. There is no other way to end a compilation or a
long solve. The command keeps compiled programs on disk, so that a new process does not begin from nothing.
"""

import asyncio
import json
import multiprocessing
import threading
import warnings
from collections.abc import Callable, Hashable
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from tutelage import _pool
from tutelage.errors import InputError
from tutelage.page.settings import Settings, Values

LIMIT = 180.0  # seconds for one request
TOO_LONG = f"This took longer than {LIMIT:.0f} seconds and was stopped. Make the problem smaller, or use `tutelage solve`."
LOST = "The process that computes has ended unexpectedly (out of memory?); a new one was started. Make the problem smaller."

Deliver = Callable[[bool, Any], None]


# In a worker.


def prepare() -> None:
    """Import JAX and all before the first request, not during it. What warnings say is in the answers, too."""
    import tutelage.explorer.answer  # noqa: F401

    warnings.simplefilter("ignore")


def compute_answer(pipe: Connection, kind: str, values: Values) -> str | bytes:
    """The last message of an answer; what comes before it goes into the pipe. Anything that comes out of it means: stop."""
    from tutelage.explorer.answer import FILES, STREAMS

    with pipe:
        try:
            settings = Settings.read(values)
            if pipe.poll():  # stopped while this process was started
                return b""
            content: Any = b""
            for part in (STREAMS | FILES)[kind](settings):
                content = part
                if kind in STREAMS:
                    pipe.send(json.dumps(part, allow_nan=False))
                if pipe.poll():
                    break
            return json.dumps({"part": f"{kind.split()[0]} done"}) if kind in STREAMS else content
        except InputError as error:
            return _error(str(error))
        except MemoryError:
            return _error("This problem needs more memory than there is; make it smaller.")


def _error(sentence: str) -> str:
    return json.dumps({"part": "error", "sentence": sentence})


# In the server.


@dataclass(eq=False)
class Request:
    """One request of one page. deliver(is_last, message) is called in the event loop, never after a newer request."""

    page: Hashable
    kind: str
    values: Values
    deliver: Deliver
    stopped: bool = False
    hurried: bool = False
    again: bool = False  # given to a second process, the first had ended before it began
    future: Future | None = None
    pipe: Connection | None = None

    def send(self, last: bool, message: str | bytes) -> None:
        if not self.stopped:
            self.deliver(last, message)

    def stop(self) -> None:
        self.stopped = True
        if self.pipe is not None:
            with suppress(OSError):  # its process has just ended
                self.pipe.send(None)


@dataclass(eq=False)
class Slot:
    """A worker, and the request that it has."""

    worker: _pool.Worker
    request: Request | None = None


class Pool:
    """Use inside a running event loop: `open`, `ask`, `forget`, `leave`, `close`."""

    def __init__(self, count: int, grace: float):
        """grace: seconds that a stopped request has left when another one waits, or its page is closed."""
        self._count, self._grace = count, grace
        self._waiting: dict[Hashable, Request] = {}
        self._slots: list[Slot] = []

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._slots = [Slot(_pool.Worker(prepare=prepare)) for _ in range(self._count)]

    def close(self) -> None:
        slots, self._slots = self._slots, []
        _pool.end_all([slot.worker for slot in slots])

    def ask(self, page: Hashable, kind: str, values: Values, deliver: Deliver) -> None:
        """Answer this request, and no older one of the same page."""
        self.forget(page)
        self._waiting[page] = Request(page, kind, values, deliver)
        self._give_out()

    def forget(self, page: Hashable) -> None:
        """Stop what this page has asked for."""
        self._waiting.pop(page, None)
        for request in self._requests():
            if request.page == page and not request.stopped:
                request.stop()

    def leave(self, page: Hashable) -> None:
        """This page is closed: end what it has asked for."""
        self.forget(page)
        self._hurry([request for request in self._requests() if request.page == page])

    def _requests(self) -> list[Request]:
        """Those under way."""
        return [slot.request for slot in self._slots if slot.request is not None]

    def _give_out(self) -> None:
        for page in list(self._waiting):
            slot = next((slot for slot in self._slots if slot.request is None), None)
            if slot is None:
                return self._hurry(self._requests())
            request = slot.request = self._waiting.pop(page)
            request.pipe, theirs = multiprocessing.Pipe()
            request.future = slot.worker.submit(compute_answer, theirs, request.kind, request.values, timeout=LIMIT)
            request.future.add_done_callback(lambda _, pipe=theirs: pipe.close())
            threading.Thread(target=self._listen, args=(slot, request), daemon=True).start()

    def _hurry(self, requests: list[Request]) -> None:
        """Whichever of these nobody wants any more has a moment left."""
        for request in requests:
            if request.stopped and not request.hurried:
                request.hurried = True
                self._loop.call_later(self._grace, self._cancel, request)

    def _cancel(self, request: Request) -> None:
        """End the process that works on this request. One that has not begun stops by itself when it does."""
        if request.future is not None and request.future.running():
            request.future.cancel()
        elif request in self._requests():
            self._loop.call_later(max(self._grace, 0.1), self._cancel, request)

    def _listen(self, slot: Slot, request: Request) -> None:
        """In a thread of its own: carry what a process sends into the event loop, and how it ends."""
        pipe, future = request.pipe, request.future
        assert pipe is not None
        assert future is not None
        with suppress(EOFError, OSError), pipe:  # closed at the other end when the future is done
            while True:
                self._call(request.send, False, pipe.recv())
        if _pool.is_lost(future) and slot in self._slots:
            slot.worker.end()
            slot.worker = _pool.Worker(prepare=prepare)
        self._call(self._ended, slot, request, None if future.cancelled() else future.exception())

    def _call(self, function: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def _ended(self, slot: Slot, request: Request, error: BaseException | None) -> None:
        slot.request = None
        if isinstance(error, BrokenExecutor) and not request.stopped and not request.again:
            request.again = True
            self._waiting[request.page] = request
        elif error is not None:
            request.send(True, _error(TOO_LONG if isinstance(error, TimeoutError) else LOST))
        elif request.future is not None and not request.future.cancelled():
            request.send(True, request.future.result())
        self._give_out()
