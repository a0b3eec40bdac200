"""The local server: one page, and a websocket for each page and each file to keep. It answers to this machine only.

What was stopped has a moment of grace to end its part (perhaps a compilation that the next request needs). Then its process
is replaced, as is one that works beyond the limit: there is no other way to end a compilation or a long solve.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing, suppress
from time import monotonic

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from tutelage import _pool
from tutelage.errors import InputError
from tutelage.explorer.answer import ANSWERS, Part, next_part, prepare
from tutelage.page.document import explorer_page
from tutelage.page.settings import Settings, explorer_table

MOST_PAGES = 16  # open at the same time
MOST_TEXT = 65_536  # characters of one message
QUIET = 0.4  # seconds without a newer request after which a page is told more than the curve
LIMIT = 180.0  # seconds for one request
TOO_LONG = f"This took longer than {LIMIT:.0f} seconds and was stopped. Make the problem smaller, or use `tutelage solve`."
LOST = "The process that computes has ended unexpectedly (out of memory?); a new one was started. Make the problem smaller."


class Pool:
    """Processes that answer requests. Make it inside a running event loop, and close it. grace: seconds left when stopped."""

    def __init__(self, count: int, grace: float):
        self._grace = grace
        self._workers: set[_pool.Worker] = set()
        self._free: asyncio.Queue[_pool.Worker] = asyncio.Queue()
        self._releases: set[asyncio.Task[None]] = set()
        for _ in range(count):
            self._add_worker()

    def _add_worker(self) -> None:
        """Start a process; it is free when it is ready."""
        worker, loop = _pool.Worker(prepare=prepare), asyncio.get_running_loop()
        self._workers.add(worker)
        worker.ready.add_done_callback(lambda _: loop.call_soon_threadsafe(self._free.put_nowait, worker))

    def close(self) -> None:
        """End all processes."""
        for release in self._releases:
            release.cancel()
        _pool.end_all(list(self._workers))

    async def answer(self, kind: str, settings: Settings) -> AsyncGenerator[str | bytes]:
        """The parts of an answer, as they come; an `InputError` says why there is none. To close the generator is to stop."""
        worker, end = await self._free.get(), monotonic() + LIMIT
        part = asyncio.wrap_future(worker.submit(next_part, kind, settings, timeout=LIMIT))
        try:
            while True:
                await asyncio.wait([part])  # which goes on if this is canceled
                if (message := part.result()) is None:
                    return
                yield message
                part = asyncio.wrap_future(worker.submit(next_part, timeout=max(end - monotonic(), 0.01)))
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
        """Free the worker once its part has ended. Replace it if its process was lost, or does not end within the grace."""
        await asyncio.wait([part], timeout=self._grace)
        if part.done() and (part.exception() is None or isinstance(part.exception(), InputError)):
            return self._free.put_nowait(worker)
        self._workers.remove(worker)
        await asyncio.to_thread(worker.end)
        self._add_worker()


def only_from_here(app: ASGIApp, port: int) -> ASGIApp:
    """The application without requests for another host (a rebound domain), or from another origin."""
    ours = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    def is_ours(scope: Scope) -> bool:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        return len(hosts) == 1 and hosts[0] in ours and {f"http://{host}" for host in ours}.issuperset(origins)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or is_ours(scope):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "another origin"})
        else:
            sentence = "This server responds only to its page on this machine.\n"
            await PlainTextResponse(sentence, status_code=403)(scope, receive, send)

    return guarded


def build_app(port: int, initial: Settings | None = None) -> Starlette:
    """The application. port: the one that it will be reached at. initial: settings of a page whose address says nothing."""
    explorer = Explorer(initial)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with closing(Pool(2, grace=1.5)) as explorer.curves, closing(Pool(1, grace=20.0)) as explorer.details:
            yield

    routes = [Route("/", explorer.page), WebSocketRoute("/live", explorer.live)]
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(only_from_here, port=port)])


class Explorer:
    """What the routes do.

    Curves have processes of their own, so that a slider never waits for details that are still compiled or computed.
    """

    curves: Pool
    details: Pool

    def __init__(self, initial: Settings | None = None) -> None:
        self.initial = initial or Settings.read({})
        self.pages = 0

    async def page(self, request: Request) -> Response:
        """The page; it reads its settings from its own address."""
        table = explorer_table(self.initial) | {"tables": None}
        headers = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}
        return HTMLResponse(explorer_page(table, local=False), headers=headers)

    async def live(self, socket: WebSocket) -> None:
        """One page: requests in, parts of answers out, until it closes. A newer request stops the older one."""
        await socket.accept()  # also to refuse: a browser hides why a connection was never opened
        if self.pages >= MOST_PAGES:
            return await socket.close(1013, f"{MOST_PAGES} pages are open already. Close one, then reload this page.")
        self.pages += 1
        answering = asyncio.create_task(asyncio.sleep(0))
        try:
            with suppress(WebSocketDisconnect, KeyError):  # KeyError: bytes instead of text
                while True:
                    number, text = None, await socket.receive_text()
                    try:
                        number, given, want = _understand(text)
                        settings = Settings.read(given)
                    except InputError as error:
                        await _send_error(socket, number, error)
                        continue
                    answering.cancel()
                    answering = asyncio.create_task(self._answer(socket, number, settings, want))
        finally:
            self.pages -= 1
            answering.cancel()

    async def _answer(self, socket: WebSocket, number: int, settings: Settings, want: str) -> None:
        """Send what is wanted; after a curve the details, too, once the page is left alone."""
        with suppress(WebSocketDisconnect):
            try:
                await self._send_all(socket, number, settings, want)
                if want == "curve":
                    await asyncio.sleep(QUIET)
                    await _send(socket, number, {"part": "doing", "words": "waiting for a free process", "share": 0.0})
                    await self._send_all(socket, number, settings, "details")
            except InputError as error:
                await _send_error(socket, number, error)

    async def _send_all(self, socket: WebSocket, number: int, settings: Settings, kind: str) -> None:
        pool = self.curves if kind == "curve" else self.details
        async with aclosing(pool.answer(kind, settings)) as parts:
            async for part in parts:
                if isinstance(part, str):
                    await socket.send_text(f'{{"id":{number},"answer":{part}}}')
                elif part:  # empty while a file is computed
                    await socket.send_bytes(part)


async def _send(socket: WebSocket, number: int | None, part: Part) -> None:
    await socket.send_json({"id": number, "answer": part})


async def _send_error(socket: WebSocket, number: int | None, error: InputError) -> None:
    await _send(socket, number, {"part": "error", "sentence": str(error)})


def _understand(text: str) -> tuple[int, object, str]:
    """A request: its number, its settings, and what is wanted of `ANSWERS`: the curve, if it says nothing."""
    try:
        if len(text) > MOST_TEXT:
            raise ValueError
        request = json.loads(text)
        number, want = request["id"], request.get("want", "curve")
        if type(number) is not int or abs(number) >= 2**53 or want not in ANSWERS:
            raise ValueError
        return number, request["settings"], want
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError('a request must be JSON such as {"id": 1, "settings": {"lr": 0.5}}.') from None
