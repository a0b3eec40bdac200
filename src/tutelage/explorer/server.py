"""The local server: one page, and a websocket for each page and each file to keep.

Only this machine can reach it. What was stopped has a moment of grace to end its part
(perhaps a compilation that the next request needs). Then its process is replaced, as is
one that works beyond the limit: there is no other way to end a compilation or a long
solve.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing, suppress
from time import monotonic
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from tutelage import _pool
from tutelage.errors import InputError
from tutelage.explorer.answer import ANSWERS, Part, next_part, prepare
from tutelage.page.document import explorer_page
from tutelage.page.presets import explorer_table
from tutelage.page.settings import Settings

HOSTS = ["127.0.0.1", "localhost"]  # that a browser may ask
MOST_TEXT = 65_536  # characters of one message
# Seconds without a newer request after which a page gets more than the curve
QUIET = 0.4
LIMIT = 180.0  # seconds for one request
TOO_LONG = (
    f"This took longer than {LIMIT:.0f} seconds and was stopped. "
    "Make the problem smaller, or use `tutelage solve`."
)
LOST = (
    "The process that computes has ended unexpectedly (out of memory?); "
    "a new one was started. Make the problem smaller."
)


class Request(NamedTuple):
    """A request of a page: its number, its settings, and a name of `ANSWERS`."""

    number: int
    settings: object  # unchecked
    want: str


class Pool:
    """Processes that answer requests.

    Make it inside a running event loop, and close it. grace: seconds that are left to
    the part of an answer which is stopped.
    """

    def __init__(self, count: int, grace: float):
        self._grace = grace
        self._workers: set[_pool.Worker] = set()
        self._free: asyncio.Queue[_pool.Worker] = asyncio.Queue()
        self._releases: set[asyncio.Task[None]] = set()
        for _ in range(count):
            self._add_worker()

    def _add_worker(self) -> None:
        """Start a process; it is free when it is ready."""
        worker = _pool.Worker(prepare=prepare)
        loop = asyncio.get_running_loop()
        self._workers.add(worker)

        def set_free(_: object) -> None:
            # called in another thread
            loop.call_soon_threadsafe(self._free.put_nowait, worker)

        worker.ready.add_done_callback(set_free)

    def close(self) -> None:
        """End all processes."""
        for release in self._releases:
            release.cancel()
        _pool.end_all(list(self._workers))

    async def answer(
        self, kind: str, settings: Settings
    ) -> AsyncGenerator[str | bytes]:
        """Yield the parts of an answer as they come; closing the generator stops it.

        Raise `InputError` if there is none.
        """
        worker = await self._free.get()
        end = monotonic() + LIMIT
        part = _submit(worker, end, kind, settings)
        try:
            while True:
                await asyncio.wait([part])  # which goes on if this is canceled
                message = part.result()
                if message is None:
                    return
                yield message
                part = _submit(worker, end)
        except InputError:
            raise
        except TimeoutError:
            raise InputError(TOO_LONG) from None
        except Exception:
            raise InputError(LOST) from None
        finally:
            release = asyncio.create_task(self._release(worker, part))
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)

    async def _release(self, worker: _pool.Worker, part: asyncio.Future) -> None:
        """Free the worker once its part has ended.

        Replace it if its process was lost, or does not end within the grace.
        """
        await asyncio.wait([part], timeout=self._grace)
        if part.done() and isinstance(part.exception(), InputError | None):
            self._free.put_nowait(worker)
            return
        self._workers.remove(worker)
        await asyncio.to_thread(worker.end)
        self._add_worker()


def _submit(worker: _pool.Worker, end: float, *request: object) -> asyncio.Future:
    """Return the next part that the worker computes.

    request: kind and settings of a new answer. end: the time at which the limit is
    over.
    """
    seconds = max(end - monotonic(), 0.01)
    part = asyncio.wrap_future(worker.submit(next_part, *request, timeout=seconds))
    part.add_done_callback(_look_at_exception)
    return part


def _look_at_exception(part: asyncio.Future) -> None:
    """Retrieve the exception, else asyncio reports it if nobody waits any more."""
    if not part.cancelled():
        part.exception()


def build_app(port: int, initial: Settings | None = None) -> Starlette:
    """Return the application.

    port: that of its address. initial: settings of a page whose address has none.
    """
    origins = [f"http://{host}:{port}" for host in HOSTS]
    explorer = Explorer(origins, initial)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with (
            closing(Pool(2, grace=1.5)) as explorer.curves,
            closing(Pool(1, grace=20.0)) as explorer.details,
        ):
            yield

    routes = [Route("/", explorer.page), WebSocketRoute("/live", explorer.live)]
    # a page of another site could rebind its domain to this machine
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    return Starlette(routes=routes, lifespan=lifespan, middleware=[guard])


class Explorer:
    """The handlers of the routes.

    Curves have processes of their own, so that a slider never waits for details that
    are still compiled or computed.
    """

    curves: Pool
    details: Pool

    def __init__(self, origins: list[str], initial: Settings | None = None) -> None:
        self.origins = origins
        self.initial = initial or Settings.read({})

    async def page(self, request: HTTPRequest) -> Response:
        """Return the page; it reads its settings from its own address."""
        table = explorer_table(self.initial) | {"tables": None}
        headers = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}
        return HTMLResponse(explorer_page(table, local=False), headers=headers)

    async def live(self, socket: WebSocket) -> None:
        """Serve one page: requests in, parts of answers out, until it closes.

        A newer request stops the older one.
        """
        origins = socket.headers.getlist("origin")
        if not set(origins) <= set(self.origins):  # a page of another site
            await socket.close(1008)
            return
        await socket.accept()
        answering = asyncio.create_task(asyncio.sleep(0))
        try:
            with suppress(
                WebSocketDisconnect, KeyError
            ):  # KeyError: bytes instead of text
                while True:
                    text = await socket.receive_text()
                    answering.cancel()
                    answering = asyncio.create_task(self._answer(socket, text))
        finally:
            answering.cancel()

    async def _answer(self, socket: WebSocket, text: str) -> None:
        """Send the answer to a request, and after a curve the details.

        The details come once the page has been quiet for a moment.
        """
        number = None
        with suppress(WebSocketDisconnect):
            try:
                request = _parse_request(text)
                number = request.number
                settings = Settings.read(request.settings)
                await self._send_all(socket, number, settings, request.want)
                if request.want == "curve":
                    await asyncio.sleep(QUIET)
                    words = "waiting for a free process"
                    waiting = {"part": "doing", "words": words, "share": 0.0}
                    await _send(socket, number, waiting)
                    await self._send_all(socket, number, settings, "details")
                await _send(socket, number, {"part": "done"})
            except InputError as error:
                await _send(socket, number, {"part": "error", "sentence": str(error)})

    async def _send_all(
        self, socket: WebSocket, number: int, settings: Settings, kind: str
    ) -> None:
        """Send all parts of an answer; files are bytes."""
        pool = self.curves if kind == "curve" else self.details
        async with aclosing(pool.answer(kind, settings)) as parts:
            async for part in parts:
                if isinstance(part, bytes):
                    await socket.send_bytes(part)
                else:
                    await socket.send_text(f'{{"id":{number},"answer":{part}}}')


async def _send(socket: WebSocket, number: int | None, part: Part) -> None:
    await socket.send_json({"id": number, "answer": part})


def _parse_request(text: str) -> Request:
    """Return a request; it wants the curve if it names nothing."""
    try:
        if len(text) > MOST_TEXT:
            raise ValueError
        table = json.loads(text)
        request = Request(
            number=table["id"],
            want=table.get("want", "curve"),
            settings=table["settings"],
        )
        is_number = type(request.number) is int and abs(request.number) < 2**53
        if not is_number or request.want not in ANSWERS:
            raise ValueError
        return request
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(
            'a request must be JSON such as {"id": 1, "settings": {"lr": 0.5}}.'
        ) from None
