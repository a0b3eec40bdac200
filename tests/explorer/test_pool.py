"""Work for nobody is ended, and what is lost or takes too long is said."""

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from tutelage import InputError
from tutelage.explorer import server
from tutelage.explorer.server import Pool
from tutelage.page.settings import Settings


def work_forever(kind, settings):
    """A process that answers no request and hears no wish to stop."""
    while True:
        time.sleep(60)


def run(function):
    """A coroutine function, in a thread of its own:

    the browser of other tests keeps an event loop in this one.
    """
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


async def begin(pool):
    """Ask for an answer; returns when its only worker has begun."""
    await until(lambda: not pool._free.empty())
    asked = asyncio.create_task(messages_of(pool))
    await until(pool._free.empty)
    await asyncio.sleep(0.3)
    return asked


async def messages_of(pool):
    """All messages of the answer to a request."""
    return [message async for message in pool.answer("curve", Settings.read({}))]


def test_the_work_of_a_closed_or_changed_page_is_ended(monkeypatch):
    monkeypatch.setattr(server, "next_part", work_forever)
    monkeypatch.setattr(server, "prepare", None)

    async def close_a_page():
        pool = Pool(1, grace=0.05)
        before = process_of(pool)
        asked = await begin(pool)
        asked.cancel()
        await until(lambda: not before.is_alive())
        pool.close()

    run(close_a_page)


def test_a_superseded_request_may_end_its_part(monkeypatch):
    """It may be a compilation that the next request needs:

    its process is left alone for a moment of grace.
    """
    monkeypatch.setattr(server, "next_part", work_forever)
    monkeypatch.setattr(server, "prepare", None)

    async def forget():
        pool = Pool(1, grace=60.0)
        before = process_of(pool)
        asked = await begin(pool)
        asked.cancel()
        await asyncio.sleep(0.5)
        alive = before.is_alive()
        pool.close()
        return alive

    assert run(forget)


def count_up(kind="", settings=None):
    """Parts without an end, each the number of its process."""
    time.sleep(0.05)
    return str(os.getpid())


def test_a_stopped_answer_leaves_its_process_to_the_next_one(monkeypatch):
    """Its compiled programs are still there."""
    monkeypatch.setattr(server, "next_part", count_up)
    monkeypatch.setattr(server, "prepare", None)

    async def stop_and_ask_again():
        pool = Pool(1, grace=5.0)
        seen = []
        for _ in range(2):
            async with aclosing(pool.answer("curve", Settings.read({}))) as parts:
                seen += [await anext(parts), await anext(parts)]
        pool.close()
        return seen

    assert len(set(run(stop_and_ask_again))) == 1


def die(kind, settings):
    """A process that the system ends, as when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_lost_process_is_said_and_replaced(monkeypatch):
    monkeypatch.setattr(server, "next_part", die)
    monkeypatch.setattr(server, "prepare", None)

    async def lose():
        pool = Pool(1, grace=1.0)
        for _ in range(2):
            with pytest.raises(InputError, match="out of memory"):
                await messages_of(pool)
        await until(lambda: not pool._free.empty())
        alive = process_of(pool).is_alive()
        pool.close()
        return alive

    assert run(lose)


def test_a_request_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(server, "next_part", work_forever)
    monkeypatch.setattr(server, "prepare", None)
    monkeypatch.setattr(server, "LIMIT", 0.2)

    async def wait():
        pool = Pool(1, grace=1.0)
        before = process_of(pool)
        with pytest.raises(InputError, match="took longer"):
            await messages_of(pool)
        await until(lambda: not before.is_alive())
        pool.close()

    run(wait)
