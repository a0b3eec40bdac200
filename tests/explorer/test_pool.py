"""Work for nobody is ended: requests of closed pages and abandoned downloads."""

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request

from tutelage.explorer import server
from tutelage.explorer.server import Explorer, Pool


def work_forever(pipe, kind, values):
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


def process_of(pool):
    """That of its only worker."""
    (worker,) = pool._workers
    return worker.process


def is_under_way(pool):
    """Whether its only request has begun."""
    (job,) = pool._jobs
    return job.future is not None and job.future.running()


def test_the_work_of_a_closed_or_changed_page_is_ended(monkeypatch):
    monkeypatch.setattr(server, "compute_answer", work_forever)
    monkeypatch.setattr(server, "prepare", None)

    async def close_a_page():
        pool = Pool(1, grace=0.05)
        pool.open()
        before = process_of(pool)
        pool.ask("page", "curve", {}, lambda last, message: None)
        await until(lambda: is_under_way(pool))
        pool.forget("page")
        await until(lambda: not before.is_alive())
        pool.close()

    run(close_a_page)


def test_a_superseded_request_may_end_its_part(monkeypatch):
    """It may be a compilation that the next request needs: its process is left alone for a moment of grace."""
    monkeypatch.setattr(server, "compute_answer", work_forever)
    monkeypatch.setattr(server, "prepare", None)

    async def forget():
        pool = Pool(1, grace=60.0)
        pool.open()
        before = process_of(pool)
        pool.ask("page", "curve", {}, lambda last, message: None)
        await until(lambda: is_under_way(pool))
        pool.forget("page")
        await asyncio.sleep(0.5)
        alive = before.is_alive()
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

    def forget(self, page):
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


def die(pipe, kind, values):
    """A process that the system ends, as when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_lost_process_is_said_and_replaced(monkeypatch):
    monkeypatch.setattr(server, "compute_answer", die)
    monkeypatch.setattr(server, "prepare", None)

    async def lose():
        pool, messages = Pool(1, grace=1.0), []
        pool.open()
        for _ in range(2):
            pool.ask("page", "curve", {}, lambda last, message: messages.append((last, message)))
            count = len(messages)
            await until(lambda count=count: len(messages) > count)
        alive = process_of(pool).is_alive()
        pool.close()
        return messages, alive

    messages, alive = run(lose)
    assert [(last, json.loads(message)["sentence"]) for last, message in messages] == [(True, server.LOST)] * 2
    assert alive


def test_a_request_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(server, "compute_answer", work_forever)
    monkeypatch.setattr(server, "prepare", None)
    monkeypatch.setattr(server, "LIMIT", 0.2)

    async def wait():
        pool, messages = Pool(1, grace=1.0), []
        pool.open()
        pool.ask("page", "curve", {}, lambda last, message: messages.append((last, message)))
        await until(lambda: messages)
        pool.close()
        return messages

    assert [(last, json.loads(message)["sentence"]) for last, message in run(wait)] == [(True, server.TOO_LONG)]
