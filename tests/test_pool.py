"""Processes that compute for this one:

what they do, how they are lost, and that none is left.
"""

import os
import signal
from collections import deque

import pytest

from tests.sweeps.clusters import is_running, wait_until
from tutelage._pool import Worker, WorkerLost, is_lost, results


class Deadly:
    """Kills the process that pickles it:

    in the middle of a message, when it holds the lock of its channel.
    """

    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)


def act(how):
    """What an item asks for."""
    if how == "raise":
        raise ZeroDivisionError("of no use")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leave":
        os._exit(0)
    return Deadly() if how == "deadly" else os.getpid()


def all_results(items, workers=2):
    return list(results(act, deque(items), workers))


def test_losses_and_errors_are_given_with_their_items():
    found = all_results(["pid", "kill", "raise", "deadly", "leave", "pid"])
    assert sorted(item for item, _ in found) == [
        "deadly",
        "kill",
        "leave",
        "pid",
        "pid",
        "raise",
    ]
    by_item = dict(found)
    for item, how in {
        "kill": "was killed by SIGKILL",
        "deadly": "was killed by SIGKILL",
        "leave": "ended with exit code 0",
    }.items():
        assert isinstance(by_item[item], WorkerLost)
        assert str(by_item[item]) == how
    assert isinstance(by_item["raise"], ZeroDivisionError)
    assert not any(is_running(pid) for item, pid in found if item == "pid")


def test_no_more_processes_than_items_and_workers():
    assert len({pid for _, pid in all_results(["pid"] * 4, workers=1)}) == 1


def test_results_that_nobody_waits_for_are_ended():
    found = results(act, deque(["pid", "pid"]), 1)
    _, pid = next(found)
    assert is_running(pid)
    found.close()
    assert not is_running(pid)


def test_a_process_that_is_lost_while_it_has_nothing_to_do():
    worker = Worker()
    worker.ready.result(60)
    os.kill(worker.process.pid, signal.SIGKILL)
    wait_until(lambda: not worker._pool.active, "the loss is noticed")
    future = worker.submit(act, "pid")
    assert is_lost(future)
    assert worker.end() == "was killed by SIGKILL"


@pytest.mark.parametrize("end", ["cancel", "timeout"])
def test_a_task_that_is_ended_leaves_the_worker_usable(end):
    worker = Worker()
    first = worker.ready.result(60) or worker.submit(act, "pid").result(60)
    future = worker.submit(signal.pause, timeout=0.1 if end == "timeout" else None)
    wait_until(future.running, "it has begun")
    if end == "cancel":
        future.cancel()
    else:
        assert isinstance(future.exception(60), TimeoutError)
    assert worker.submit(act, "pid").result(60) != first
    wait_until(lambda: not is_running(first), "the first process has ended")
    worker.end()
