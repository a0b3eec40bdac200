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
    return any(job.future is not None and job.future.running() for job in pool._jobs)


async def messages_of(pool):
    """All messages of the answer to a request."""
    return [message async for message in pool.answer("curve", {})]


def test_the_work_of_a_closed_or_changed_page_is_ended(monkeypatch):
    monkeypatch.setattr(server, "compute_answer", work_forever)
    monkeypatch.setattr(server, "prepare", None)

    async def close_a_page():
        pool = Pool(1, grace=0.05)
        before, asked = process_of(pool), asyncio.create_task(messages_of(pool))
        await until(lambda: is_under_way(pool))
        asked.cancel()
        await until(lambda: not before.is_alive())
        pool.close()

    run(close_a_page)


def test_a_superseded_request_may_end_its_part(monkeypatch):
    """It may be a compilation that the next request needs: its process is left alone for a moment of grace."""
    monkeypatch.setattr(server, "compute_answer", work_forever)
    monkeypatch.setattr(server, "prepare", None)

    async def forget():
        pool = Pool(1, grace=60.0)
        before, asked = process_of(pool), asyncio.create_task(messages_of(pool))
        await until(lambda: is_under_way(pool))
        asked.cancel()
        await asyncio.sleep(0.5)
        alive = before.is_alive()
        pool.close()
        return alive

    assert run(forget)


class Silent:
    """A pool that takes requests and never answers."""

    def __init__(self):
        self.asked, self.left = [], []

    async def answer(self, kind, values):
        self.asked.append(kind)
        try:
            yield await asyncio.Event().wait()
        finally:
            self.left.append(kind)


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

        await until(lambda: explorer.details.left == explorer.details.asked)

    run(ask)
    return explorer.details


def test_an_abandoned_download_is_not_computed():
    pool = download("GET", ["http.request", "http.disconnect"])
    assert pool.left == pool.asked == ["curve.nc"]


def test_headers_alone_cost_nothing():
    assert download("HEAD", ["http.request"]).asked == []


def die(pipe, kind, values):
    """A process that the system ends, as when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_lost_process_is_said_and_replaced(monkeypatch):
    monkeypatch.setattr(server, "compute_answer", die)
    monkeypatch.setattr(server, "prepare", None)

    async def lose():
        pool = Pool(1, grace=1.0)
        messages = [message for _ in range(2) for message in await messages_of(pool)]
        alive = process_of(pool).is_alive()
        pool.close()
        return messages, alive

    messages, alive = run(lose)
    assert [json.loads(message)["sentence"] for message in messages] == [server.LOST] * 2
    assert alive


def test_a_request_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(server, "compute_answer", work_forever)
    monkeypatch.setattr(server, "prepare", None)
    monkeypatch.setattr(server, "LIMIT", 0.2)

    async def wait():
        pool = Pool(1, grace=1.0)
        messages = await messages_of(pool)
        pool.close()
        return messages

    assert [json.loads(message)["sentence"] for message in run(wait)] == [server.TOO_LONG]
