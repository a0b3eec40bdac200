"""The local server: one page, one websocket for each page, three files to keep. It answers to this machine only.

What was stopped has a moment of grace to end its part (perhaps a compilation that the next request needs). Then its process
is replaced, as is one that works beyond the limit: there is no other way to end a compilation or a long solve.
"""

import asyncio
import json
import multiprocessing
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

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
from tutelage.explorer.answer import compute_answer, error_part, prepare
from tutelage.page.document import explorer_page
from tutelage.page.settings import Settings, Values, explorer_table

HTML = "text/html; charset=utf-8"
MEDIA = {"curve.nc": "application/x-netcdf", "page.html": HTML, "explorer.html": HTML}  # the files to keep (answer.FILES)
MOST_PAGES = 16  # open at the same time
MOST_TEXT = 65_536  # characters of one message
QUIET = 0.4  # seconds without a newer request after which a page is told more than the curve
LIMIT = 180.0  # seconds for one request
TOO_LONG = f"This took longer than {LIMIT:.0f} seconds and was stopped. Make the problem smaller, or use `tutelage solve`."
LOST = "The process that computes has ended unexpectedly (out of memory?); a new one was started. Make the problem smaller."


@dataclass(eq=False)
class Job:
    """A request under way, and the messages of its answer; None is after the last."""

    kind: str
    values: Values
    messages: asyncio.Queue[str | bytes | None] = field(default_factory=asyncio.Queue)
    stopped: bool = False
    future: Future | None = None
    pipe: Connection | None = None


class Pool:
    """Processes that answer requests. Make it inside a running event loop, and close it. grace: seconds left when stopped."""

    def __init__(self, count: int, grace: float):
        self._grace = grace
        self._jobs: dict[Job, asyncio.Task[None]] = {}  # those that wait or are under way
        self._workers = {_pool.Worker(prepare=prepare) for _ in range(count)}
        self._free: asyncio.Queue[_pool.Worker] = asyncio.Queue()
        for worker in self._workers:
            self._free.put_nowait(worker)

    def close(self) -> None:
        """End all processes."""
        workers, self._workers = self._workers, set()
        _pool.end_all(list(workers))
        for job in self._jobs:
            if job.future is not None:
                job.future.cancel()  # which closes its pipe

    async def answer(self, kind: str, values: Values) -> AsyncGenerator[str | bytes]:
        """The messages of an answer, as they come. To close the generator is to stop the work."""
        job = Job(kind, values)
        self._jobs[job] = asyncio.create_task(self._work(job))
        try:
            while (message := await job.messages.get()) is not None:
                yield message
        finally:
            job.stopped = True
            if job in self._jobs:
                with suppress(OSError):  # its process has just ended
                    if job.pipe is not None:
                        job.pipe.send(None)
                asyncio.get_running_loop().call_later(self._grace, self._cancel, job)

    def _cancel(self, job: Job) -> None:
        """End the process that works on this request. One that has not begun stops by itself when it does."""
        if job.future is not None and job.future.running():
            job.future.cancel()
        elif job in self._jobs:
            asyncio.get_running_loop().call_later(max(self._grace, 0.1), self._cancel, job)

    async def _work(self, job: Job) -> None:
        """Give the request to a worker, and keep what the worker sends and how it ends."""
        worker, error = await self._free.get(), None
        for _ in range(2):  # the first process may have ended while it had nothing to do
            if job.stopped:
                break
            job.pipe, theirs = multiprocessing.Pipe()
            future = job.future = worker.submit(compute_answer, theirs, job.kind, job.values, timeout=LIMIT)
            future.add_done_callback(lambda _, pipe=theirs: pipe.close())
            with suppress(EOFError, OSError), job.pipe as pipe:  # closed at the other end when the future is done
                while True:
                    job.messages.put_nowait(await asyncio.to_thread(pipe.recv))
            error = None if future.cancelled() else future.exception()
            if _pool.is_lost(future) and worker in self._workers:
                self._workers.remove(worker)
                await asyncio.to_thread(worker.end)
                worker = _pool.Worker(prepare=prepare)
                self._workers.add(worker)
            if not isinstance(error, BrokenExecutor):
                break
        del self._jobs[job]
        self._free.put_nowait(worker)
        if error is not None:
            job.messages.put_nowait(error_part(TOO_LONG if isinstance(error, TimeoutError) else LOST))
        elif job.future is not None and not job.future.cancelled():
            job.messages.put_nowait(job.future.result())
        job.messages.put_nowait(None)


def only_from_here(app: ASGIApp, port: int) -> ASGIApp:
    """The application without requests for another host (a rebound domain), or from another origin or site.

    Another site (Sec-Fetch-Site) may open the page by a link. It cannot ask for files, which take long to compute, nor show
    the page inside its own.
    """
    ours = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    def is_ours(scope: Scope) -> bool:
        headers = Headers(scope=scope)
        hosts, sites = headers.getlist("host"), headers.getlist("sec-fetch-site")
        link = scope["path"] == "/" and headers.getlist("sec-fetch-dest") == ["document"]
        return (
            len(hosts) == 1
            and hosts[0] in ours
            and all(origin in {f"http://{host}" for host in ours} for origin in headers.getlist("origin"))
            and (link or all(site in ("same-origin", "none") for site in sites))  # none: an address that was typed
        )

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

    routes = [Route("/", explorer.page), Route("/file/{name}", explorer.file), WebSocketRoute("/live", explorer.live)]
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

    async def file(self, request: Request) -> Response:
        """One of the files to keep, for the settings in the address."""
        name = request.path_params["name"]
        if name not in MEDIA:
            return PlainTextResponse(f"There is no file {name!r}; there are {', '.join(MEDIA)}.\n", status_code=404)
        try:
            settings = Settings.from_query(dict(request.query_params))
        except InputError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        content = b"" if request.method == "HEAD" else await self._computed(request, name, settings)
        if isinstance(content, str):
            return PlainTextResponse(json.loads(content)["sentence"] + "\n", status_code=400)
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Response(content, media_type=MEDIA[name], headers=headers)

    async def _computed(self, request: Request, name: str, settings: Settings) -> bytes | str:
        """The file, or a message as JSON; empty as soon as nobody waits for it any more."""

        async def closed() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        async def computed() -> bytes | str:
            parts = [part async for part in self.details.answer(name, settings.as_data())]
            return parts[-1] if parts else b""

        gone, answer = asyncio.create_task(closed()), asyncio.create_task(computed())
        await asyncio.wait({gone, answer}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        return b"" if answer.cancel() else answer.result()

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
                        number, given, optimized = _understand(text)
                        values = Settings.read(given).as_data()
                    except InputError as error:
                        await _send(socket, number, error_part(str(error)))
                        continue
                    answering.cancel()
                    answering = asyncio.create_task(self._answer(socket, number, values, optimized))
        finally:
            self.pages -= 1
            answering.cancel()

    async def _answer(self, socket: WebSocket, number: int, values: Values, optimized: str | None) -> None:
        """Send the curve, and the details once the page is left alone; or the best schedule of what is optimized."""

        async def send_all(pool: Pool, kind: str) -> str | bytes:
            part = ""
            async with aclosing(pool.answer(kind, values)) as parts:
                async for part in parts:
                    await _send(socket, number, part)
            return part

        with suppress(WebSocketDisconnect):
            if optimized is not None:
                await send_all(self.details, f"optimize {optimized}")
            elif await send_all(self.curves, "curve") == json.dumps({"part": "curve done"}):
                await asyncio.sleep(QUIET)
                await _send(
                    socket, number, json.dumps({"part": "doing", "words": "waiting for a free process", "share": 0.0})
                )
                await send_all(self.details, "details")


async def _send(socket: WebSocket, number: int | None, part: str | bytes) -> None:
    await socket.send_text(f'{{"id":{json.dumps(number)},"answer":{part}}}')


def _understand(text: str) -> tuple[int, object, str | None]:
    """A request: its number, its settings, and what is to be optimized, or None for the curve."""
    try:
        if len(text) > MOST_TEXT:
            raise ValueError
        request = json.loads(text)
        number, optimized = request["id"], request.get("optimize")
        if type(number) is not int or abs(number) >= 2**53 or optimized not in (None, "lr", "tasks"):
            raise ValueError
        return number, request["settings"], optimized
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError('a request must be JSON such as {"id": 1, "settings": {"lr": 0.5}}.') from None
