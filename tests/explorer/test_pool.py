"""Work for nobody is ended: requests of closed pages and abandoned downloads."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request

from tutelage.explorer import pool as pools
from tutelage.explorer.pool import Pool
from tutelage.explorer.server import Explorer


def work_forever(pipe):
    """A process that answers no request and hears no wish to stop."""
    while True:
        time.sleep(60)


def run(function):
    """A coroutine function, in a thread of its own: the browser of other tests keeps an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(function())).result()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_the_work_of_a_closed_page_is_ended(monkeypatch):
    monkeypatch.setattr(pools, "work", work_forever)

    async def close_a_page():
        pool = Pool(1, grace=0.05)
        pool.open()
        before = pool._workers[0].process
        pool.ask("page", "curve", {}, lambda last, message: None)
        pool.leave("page")
        await until(lambda: not before.is_alive())
        pool.close()

    run(close_a_page)


def test_a_superseded_request_may_end_its_part(monkeypatch):
    """It may be a compilation that the next request needs: nobody is waiting, so its process is left alone."""
    monkeypatch.setattr(pools, "work", work_forever)

    async def forget():
        pool = Pool(1, grace=0.0)
        pool.open()
        pool.ask("page", "curve", {}, lambda last, message: None)
        pool.forget("page")
        await asyncio.sleep(0.1)
        alive = pool._workers[0].process.is_alive()
        pool.close()
        return alive

    assert run(forget)


class Silent(Pool):
    """A pool that takes requests and never answers."""

    def __init__(self):
        super().__init__(1, grace=1.0)
        self.asked, self.left = [], []

    def ask(self, page, kind, values, deliver):
        self.asked.append(page)

    def leave(self, page):
        self.left.append(page)


def download(method, messages):
    """Ask for a file over a connection that brings these messages, and then nothing; returns the pool that was asked."""
    explorer = Explorer()
    explorer.details = Silent()
    messages = iter(messages)
    scope = {"type": "http", "method": method, "path_params": {"name": "curve.nc"}, "query_string": b"lr=0.5", "headers": []}

    async def receive():
        for message in messages:
            return {"type": message}
        return await asyncio.Event().wait()

    async def ask():
        async with asyncio.timeout(10):
            await explorer.file(Request(scope, receive))

    run(ask)
    return explorer.details


def test_an_abandoned_download_is_not_computed():
    pool = download("GET", ["http.request", "http.disconnect"])
    assert len(pool.asked) == 1
    assert pool.left == pool.asked


def test_headers_alone_cost_nothing():
    assert download("HEAD", ["http.request"]).asked == []
