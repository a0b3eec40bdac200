"""The local server: one page, one websocket for each page, three files to keep. It answers to this machine only.

Requests that name another host (a rebound domain) or come from another origin or site are refused before anything else is
read.

All pages share the processes of two pools. A newer request of a page stops the older one, as does closing the page. What was
stopped has a moment of grace to end its part (perhaps a compilation that the next request needs). Then its process is
replaced, as is one that works beyond the limit: there is no other way to end a compilation or a long solve. The command keeps
compiled programs on disk, so that a new process does not begin from nothing.
"""

import asyncio
import json
import multiprocessing
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import BrokenExecutor, Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

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

Deliver = Callable[[bool, Any], None]


# The processes.


@dataclass(eq=False)
class Job:
    """A request of a page. deliver(is_last, message) is called in the event loop, never after a newer request."""

    page: Hashable
    kind: str
    values: Values
    deliver: Deliver
    stopped: bool = False
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


class Pool:
    """Use inside a running event loop: `open`, `ask`, `forget`, `close`."""

    def __init__(self, count: int, grace: float):
        """grace: seconds that a stopped request has left."""
        self._count, self._grace = count, grace
        self._jobs: dict[Job, asyncio.Task[None]] = {}  # those that wait or are under way

    def open(self) -> None:
        self._workers = {_pool.Worker(prepare=prepare) for _ in range(self._count)}
        self._free: asyncio.Queue[_pool.Worker] = asyncio.Queue()
        for worker in self._workers:
            self._free.put_nowait(worker)

    def close(self) -> None:
        workers, self._workers = self._workers, set()
        _pool.end_all(list(workers))
        for job in self._jobs:
            if job.future is not None:
                job.future.cancel()  # which closes its pipe

    def ask(self, page: Hashable, kind: str, values: Values, deliver: Deliver) -> None:
        """Answer this request, and no older one of the same page."""
        self.forget(page)
        job = Job(page, kind, values, deliver)
        self._jobs[job] = asyncio.create_task(self._answer(job))

    def forget(self, page: Hashable) -> None:
        """Stop what this page has asked for."""
        for job in self._jobs:
            if job.page == page and not job.stopped:
                job.stop()
                asyncio.get_running_loop().call_later(self._grace, self._cancel, job)

    def _cancel(self, job: Job) -> None:
        """End the process that works on this request. One that has not begun stops by itself when it does."""
        if job.future is not None and job.future.running():
            job.future.cancel()
        elif job in self._jobs:
            asyncio.get_running_loop().call_later(max(self._grace, 0.1), self._cancel, job)

    async def _answer(self, job: Job) -> None:
        """Give the request to a worker, and its page what the worker sends and how it ends."""
        worker, error = await self._free.get(), None
        for _ in range(2):  # the first process may have ended while it had nothing to do
            if job.stopped:
                break
            job.pipe, theirs = multiprocessing.Pipe()
            future = job.future = worker.submit(compute_answer, theirs, job.kind, job.values, timeout=LIMIT)
            future.add_done_callback(lambda _, pipe=theirs: pipe.close())
            with suppress(EOFError, OSError), job.pipe as pipe:  # closed at the other end when the future is done
                while True:
                    job.send(False, await asyncio.to_thread(pipe.recv))
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
            job.send(True, error_part(TOO_LONG if isinstance(error, TimeoutError) else LOST))
        elif job.future is not None and not job.future.cancelled():
            job.send(True, job.future.result())


# The pages.


def only_from_here(app: ASGIApp, port: int) -> ASGIApp:
    """The application without requests for another host, or from another origin or site.

    A browser says with every request which site asks (Sec-Fetch-Site). Another site may open the page by a link, as a
    document of its own. It cannot ask for files, which take long to compute, nor show the page inside its own.
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
        explorer.curves.open()
        explorer.details.open()
        yield
        explorer.curves.close()
        explorer.details.close()

    routes = [Route("/", explorer.page), Route("/file/{name}", explorer.file), WebSocketRoute("/live", explorer.live)]
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(only_from_here, port=port)])


class Explorer:
    """What the routes do.

    Curves have processes of their own, so that a slider never waits for details that are still compiled or computed.
    """

    def __init__(self, initial: Settings | None = None) -> None:
        self.initial = initial or Settings.read({})
        self.curves = Pool(2, grace=1.5)
        self.details = Pool(1, grace=20.0)
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
        answer: asyncio.Future[str | bytes] = asyncio.get_running_loop().create_future()

        async def closed() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        page, gone = object(), asyncio.create_task(closed())
        self.details.ask(page, name, settings.as_data(), lambda last, message: answer.set_result(message))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else b""
        finally:
            gone.cancel()
            self.details.forget(page)

    async def live(self, socket: WebSocket) -> None:
        """One page: requests in, parts of answers out, until it closes."""
        await socket.accept()  # also to refuse: a browser hides why a connection was never opened
        if self.pages >= MOST_PAGES:
            return await socket.close(1013, f"{MOST_PAGES} pages are open already. Close one, then reload this page.")
        self.pages += 1
        page = OpenPage(self.curves, self.details)
        sender = asyncio.create_task(page.send_all(socket))
        try:
            with suppress(WebSocketDisconnect, KeyError):  # KeyError: bytes instead of text
                while True:
                    page.take(await socket.receive_text())
        finally:
            self.pages -= 1
            page.stop()
            sender.cancel()


class OpenPage:
    """One open page: its newest request, and the parts of the answer that have not left yet."""

    def __init__(self, curves: Pool, details: Pool):
        self.curves, self.details = curves, details
        self.out: asyncio.Queue[str] = asyncio.Queue()
        self.later: asyncio.TimerHandle | None = None

    def take(self, text: str) -> None:
        """A request, or what claims to be one. Nothing of an older one is sent any more."""
        number = None
        try:
            number, given, optimized = _understand(text)
            values = Settings.read(given).as_data()
        except InputError as error:
            return self._put(number, error_part(str(error)))

        def put(last: bool, part: str) -> None:
            self._put(number, part)

        def put_curve(last: bool, part: str) -> None:
            self._put(number, part)
            if last and json.loads(part)["part"] != "error":
                self.later = asyncio.get_running_loop().call_later(QUIET, ask_details)

        def ask_details() -> None:
            self._put(number, json.dumps({"part": "doing", "words": "waiting for a free process", "share": 0.0}))
            self.details.ask(self, "details", values, put)

        if optimized is not None:
            return self.details.ask(self, f"optimize {optimized}", values, put)
        self.stop()
        return self.curves.ask(self, "curve", values, put_curve)

    def stop(self) -> None:
        """Nobody waits any more for what was asked."""
        self.curves.forget(self)
        self.details.forget(self)
        if self.later is not None:
            self.later.cancel()
        while not self.out.empty():
            self.out.get_nowait()

    def _put(self, number: int | None, part: str) -> None:
        self.out.put_nowait(f'{{"id":{json.dumps(number)},"answer":{part}}}')

    async def send_all(self, socket: WebSocket) -> None:
        """Send what there is, as it comes."""
        while True:
            await socket.send_text(await self.out.get())


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
