"""Processes that all pages share: the newest request of each page, one at a time, and none for longer than a limit.

A page has at most one request under way; a newer one stops it. What was stopped may go on to the end of its part (perhaps
a compilation that the next request needs), until somebody waits for its process or its page is closed: then the process is
replaced after a moment of grace, as is one that works beyond the limit. There is no other way to end a compilation or a
long solve.
"""

import asyncio
import json
import multiprocessing
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from tutelage.explorer.worker import work

LIMIT = 180.0  # seconds for one request
TOO_LONG = f"This took longer than {LIMIT:.0f} seconds and was stopped. Make the problem smaller, or use `tutelage solve`."
LOST = "The process that computes has ended unexpectedly (out of memory?); a new one was started. Make the problem smaller."

Deliver = Callable[[bool, Any], None]


@dataclass(eq=False)
class Request:
    """One request of one page. deliver(is_last, message) is called in the event loop, never after a newer request."""

    page: Hashable
    number: int
    kind: str
    values: dict[str, Any]
    deliver: Deliver
    stopped: bool = False

    def send(self, last: bool, message: Any) -> None:
        if not self.stopped:
            self.deliver(last, message)


@dataclass(eq=False)
class Worker:
    """One process, and the request that it works on."""

    process: Any
    pipe: Connection
    request: Request | None = None
    hurried: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def rest(self) -> None:
        self.request, self.hurried = None, False
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


class Pool:
    """Use inside a running event loop: `open`, `ask`, `forget`, `leave`, `close`."""

    def __init__(self, count: int, grace: float):
        """grace: seconds that a stopped request has left when another one waits, or its page is closed."""
        self._count, self._grace = count, grace
        self._numbers = 0
        self._waiting: dict[Hashable, Request] = {}
        self._workers: list[Worker] = []

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = [self._hire() for _ in range(self._count)]

    def close(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.rest()
            worker.process.kill()

    def ask(self, page: Hashable, kind: str, values: dict[str, Any], deliver: Deliver) -> None:
        """Answer this request, and no older one of the same page."""
        self.forget(page)
        self._numbers += 1
        self._waiting[page] = Request(page, self._numbers, kind, values, deliver)
        self._give_out()

    def forget(self, page: Hashable) -> None:
        """Stop what this page has asked for."""
        self._waiting.pop(page, None)
        for worker in self._workers:
            if worker.request is not None and worker.request.page == page and not worker.request.stopped:
                worker.request.stopped = True
                self._tell(worker, None)

    def leave(self, page: Hashable) -> None:
        """This page is closed: end what it has asked for."""
        self.forget(page)
        for worker in self._workers:
            if worker.request is not None and worker.request.page == page:
                self._hurry(worker)

    def _give_out(self) -> None:
        for page in list(self._waiting):
            worker = next((w for w in self._workers if w.request is None), None)
            if worker is None:
                return self._hurry(*self._workers)
            request = worker.request = self._waiting.pop(page)
            worker.timers.append(self._loop.call_later(LIMIT, self._replace, worker, request))
            self._tell(worker, (request.number, request.kind, request.values))

    def _hurry(self, *workers: Worker) -> None:
        """Whichever of these works on what nobody wants any more has a moment left."""
        for worker in workers:
            if worker.request is not None and worker.request.stopped and not worker.hurried:
                worker.hurried = True
                worker.timers.append(self._loop.call_later(self._grace, self._replace, worker, worker.request))

    @staticmethod
    def _tell(worker: Worker, message: Any) -> None:
        with suppress(OSError):  # it has just ended; `_lost` follows
            worker.pipe.send(message)

    def _hire(self) -> Worker:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        worker = Worker(process, ours)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: Worker) -> None:
        """In a thread of its own: carry what a process sends into the event loop."""
        try:
            while True:
                self._call(self._received, worker, *worker.pipe.recv())
        except (EOFError, OSError):
            self._call(self._lost, worker)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def _received(self, worker: Worker, number: int, last: bool, message: Any) -> None:
        request = worker.request
        if request is None or request.number != number:
            return
        if last:
            worker.rest()
        request.send(last, message)
        if last:
            self._give_out()

    def _replace(self, worker: Worker, request: Request) -> None:
        """End a process that still works on this request."""
        if worker.request is request:
            self._dismiss(worker, TOO_LONG)

    def _lost(self, worker: Worker) -> None:
        """A process has ended by itself."""
        if worker in self._workers:
            self._dismiss(worker, LOST)

    def _dismiss(self, worker: Worker, sentence: str) -> None:
        request = worker.request
        worker.rest()
        worker.process.kill()
        self._workers[self._workers.index(worker)] = self._hire()
        if request is not None:
            request.send(True, json.dumps({"part": "error", "sentence": sentence}))
        self._give_out()
