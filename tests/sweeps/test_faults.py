"""Real faults:

processes killed at random moments, workers lost, a full disk, two writers. Finished
work is always kept.
"""

import errno
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from typing import ClassVar

import pytest

from tests.sweeps import toys
from tests.sweeps.clusters import (
    ROOT,
    dask_cluster,
    descendants,
    is_running,
    kill,
    wait_until,
)
from tests.sweeps.toys import run
from tutelage import InputError, _pool
from tutelage.errors import TutelageWarning
from tutelage.sweeps.store import Store, name_end, only_writer


@pytest.fixture(autouse=True)
def nothing_left_running():
    yield
    while Program.started:
        process = Program.started.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Program:
    """A sweep that runs as a process of its own, in a process group of its own (python -m tests.sweeps.toys)."""

    started: ClassVar[list] = []

    def __init__(self, folder, count, executor="processes", **asked):
        self.folder, self.count = folder / "s", count
        self.log, self.announced, self._stderr = (
            folder / "log",
            folder / "announced",
            folder / "stderr-0",
        )
        asked |= {
            "folder": str(self.folder),
            "count": count,
            "executor": executor,
            "log": str(self.log),
        }
        self._asked = json.dumps(asked | {"announced": str(self.announced)})
        self.process = None

    def start(self):
        self._stderr = self._stderr.with_name(
            f"stderr-{len(self.started) + 1}"
        )  # Python clears up after killed ones later
        with open(
            self._stderr, "w"
        ) as stderr:  # a pipe would be held open by workers that are left behind
            command = [sys.executable, "-m", "tests.sweeps.toys", self._asked]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stderr=stderr, start_new_session=True
            )
        self.started.append(self.process)
        return self

    def run(self):
        """To its end; the exit code and what was said on standard error."""
        self.start()
        return self.wait()

    def wait(self):
        return self.process.wait(), self._stderr.read_text()

    def announcements(self):
        return (
            [int(line) for line in self.announced.read_text().split()]
            if self.announced.exists()
            else []
        )

    def kill(self, group: bool):
        (os.killpg if group else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait()


def expected(folder, count, **payload):
    """The files of a sweep that nothing happened to."""
    run(toys.store(folder, count), toys.tasks(count, **payload), toys.numbers, "serial")
    return toys.files(folder)


def torn(folder):
    """The chunks whose bytes are not those that were to be written."""
    if not (folder / "spec.json").exists():
        return []
    key = Store(folder).key
    files = (folder / "chunks").glob("*.nc")
    return [
        path.name
        for path in files
        if not path.name.endswith(name_end(path.read_bytes(), key))
    ]


@pytest.mark.full
@pytest.mark.parametrize("kills", [3, 25])
def test_killed_at_random_moments_and_resumed(tmp_path, kills):
    """Every second time the workers are left alive: they have to end by themselves."""
    moments = random.Random(kills)
    program = Program(tmp_path, count=30 * kills, workers=2, payload={"seconds": 0.03})
    done_before = {}
    for number in range(kills):
        begun = len(toys.begun(program.log))
        program.start()
        if moments.random() < 0.8:  # else: perhaps before it has begun
            wait_until(
                lambda: len(toys.begun(program.log)) > begun, "the sweep goes on"
            )
        time.sleep(moments.uniform(0.0, 0.3))
        program.kill(group=number % 2 == 0)
        wait_until(
            lambda: not any(map(is_running, toys.workers(program.log))),
            "the workers have ended",
        )
        announced = program.announcements()
        assert not number or len(announced) < program.count, (
            "the sweep was finished before the last kill"
        )
        if program.folder.exists():
            assert torn(program.folder) == []
            assert set(announced) <= listing(program.folder)
        for chunk in announced:
            done_before.setdefault(chunk, len(toys.begun(program.log)))
    assert program.run() == (0, "")
    for chunk, line in done_before.items():
        assert chunk not in toys.begun(program.log)[line:], (
            "what was announced is not computed again"
        )
    assert len(program.announcements()) == len(set(program.announcements())), (
        "nothing is announced twice"
    )
    assert toys.files(program.folder) == expected(tmp_path / "whole", program.count)


def listing(folder):
    return set(Store(folder).done) if (folder / "spec.json").exists() else set()


def test_interrupted_from_the_keyboard(tmp_path):
    """Ctrl-C goes to the whole group, as a terminal sends it:

    one sentence, no word from the workers, none left.
    """
    program = Program(tmp_path, count=20, workers=2, payload={"seconds": 0.2}).start()
    wait_until(lambda: len(program.announcements()) >= 2, "two chunks are there")
    os.killpg(program.process.pid, signal.SIGINT)
    _, said = program.wait()
    kept = len(Store(program.folder).done)
    assert said.count("Traceback") == 1, said
    assert said.endswith(
        f"KeyboardInterrupt: {kept} of 20 chunks are kept in {program.folder}; run the same sweep again to resume.\n"
    )
    assert kept >= len(program.announcements()) >= 2
    assert not any(map(is_running, toys.workers(program.log)))


def kill_who_begins(chunk, log):
    """In a thread: kill the process that has begun this chunk, once."""

    def watch():
        wait_until(lambda: chunk in toys.begun(log), f"chunk {chunk} is begun")
        line = next(
            line
            for line in log.read_text().splitlines()
            if line.split()[0] == str(chunk)
        )
        kill(int(line.split()[1]))

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_a_worker_killed_in_the_middle_of_a_task_is_replaced(tmp_path):
    log = tmp_path / "log"
    killer = kill_who_begins(2, log)
    report = run(
        toys.store(tmp_path / "s", 6),
        toys.tasks(6, log=str(log), seconds=0.5),
        toys.numbers,
        "processes",
        workers=2,
    )
    killer.join()
    assert sorted(toys.begun(log)) == [0, 1, 2, 2, 3, 4, 5]
    assert report.notices == (
        "a worker was killed by SIGKILL during chunk 2, which is given to another.",
    )
    assert Store(tmp_path / "s").status().points_failed == 0
    assert toys.files(tmp_path / "s") == expected(tmp_path / "whole", 6)


@pytest.mark.full
def test_a_dask_worker_killed_in_the_middle_of_a_task_is_not_missed(tmp_path):
    log = tmp_path / "log"
    with dask_cluster(tmp_path) as cluster:
        killer = kill_who_begins(2, log)
        run(
            toys.store(tmp_path / "s", 6),
            toys.tasks(6, log=str(log), seconds=0.5),
            toys.numbers,
            cluster.address,
        )
        killer.join()
        assert sum(is_running(worker.pid) for worker in cluster.workers) == 1
    assert toys.begun(log).count(2) == 2
    assert Store(tmp_path / "s").status().points_failed == 0
    assert toys.files(tmp_path / "s") == expected(tmp_path / "whole", 6)


DASK_LOST = "lost with its workers 3 times (the last one was lost; out of memory?)"


def recorded_as_failed(folder, chunk, error):
    """That chunk only, all of its points; and the others are as ever."""
    status = Store(folder).status()
    assert status.complete
    assert status.points_failed == toys.CHUNK
    _, kept = Store(folder).read(chunk)
    assert kept["failure"][1].tolist() == [error] * toys.CHUNK
    whole = expected(folder.with_name("whole"), status.chunks)
    different = {
        name.split("-")[1] for name in toys.files(folder).keys() ^ whole.keys()
    }
    assert different == {f"{chunk:06d}"}


@pytest.mark.full
def test_a_chunk_that_kills_three_workers_is_recorded_and_the_rest_goes_on(tmp_path):
    log = tmp_path / "log"
    store = toys.store(tmp_path / "s", 6)
    tasks = toys.tasks(6, log=str(log), deadly=[2])
    run(store, tasks, toys.deadly, "processes", workers=2)
    assert toys.begun(log).count(2) == 3
    assert len(toys.begun(log)) == 8, "the tasks of other workers were not touched"
    error = "lost with its workers 3 times (the last one was killed by SIGKILL; out of memory?)"
    recorded_as_failed(tmp_path / "s", 2, error)
    assert run(store, tasks, toys.deadly, "processes").computed == 0
    assert (
        run(store, toys.tasks(6), toys.numbers, "processes", retry=True).computed == 1
    )
    assert toys.files(tmp_path / "s") == toys.files(tmp_path / "whole")


@pytest.mark.full
def test_a_chunk_that_kills_dask_workers_is_recorded_and_the_rest_goes_on(tmp_path):
    """A scheduler has its own number of allowed losses; here none, so that four workers are enough."""
    log = tmp_path / "log"
    with dask_cluster(
        tmp_path, workers=4, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0"
    ) as cluster:
        run(
            toys.store(tmp_path / "s", 6),
            toys.tasks(6, log=str(log), deadly=[2]),
            toys.deadly,
            cluster.address,
        )
    assert toys.begun(log).count(2) == 3
    recorded_as_failed(tmp_path / "s", 2, DASK_LOST)


@pytest.mark.full
def test_a_local_dask_cluster_replaces_its_workers(tmp_path):
    log = tmp_path / "log"
    tasks = toys.tasks(6, log=str(log), deadly=[2])
    run(toys.store(tmp_path / "s", 6), tasks, toys.deadly, "dask", workers=2)
    assert toys.begun(log).count(2) == 3
    recorded_as_failed(tmp_path / "s", 2, DASK_LOST)


@pytest.mark.full
def test_a_killed_sweep_takes_its_local_dask_cluster_with_it(tmp_path):
    program = Program(
        tmp_path, count=40, executor="dask", workers=2, payload={"seconds": 0.2}
    ).start()
    wait_until(lambda: len(program.announcements()) >= 2, "two chunks are there")
    family = descendants(program.process.pid)
    assert len(family) >= 3, "two workers and who looks after them"
    program.kill(group=False)
    wait_until(lambda: not any(map(is_running, family)), "all of them have ended")
    assert torn(program.folder) == []


@pytest.mark.full
def test_a_scheduler_that_ends_stops_the_sweep_with_a_sentence(tmp_path):
    store = toys.store(tmp_path / "s", 40)
    with dask_cluster(tmp_path) as cluster:

        def watch():
            wait_until(
                lambda: len(toys.begun(tmp_path / "log")) >= 4, "the sweep goes on"
            )
            cluster.scheduler.kill()

        killer = threading.Thread(target=watch)
        killer.start()
        with pytest.raises(
            InputError,
            match="the Dask scheduler has ended or has no workers; finished work is saved",
        ):
            run(
                store,
                toys.tasks(40, log=str(tmp_path / "log"), seconds=0.2),
                toys.numbers,
                cluster.address,
            )
        killer.join()
    assert run(store, toys.tasks(40), toys.numbers, "serial").kept >= 1
    assert toys.files(tmp_path / "s") == expected(tmp_path / "whole", 40)


def test_workers_that_cannot_start_stop_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(
        _pool.Child, "__reduce__", lambda self: (os._exit, (1,))
    )  # a new process ends as it is read
    with pytest.raises(
        InputError,
        match=r"no worker process can be started \(the last one ended with exit code 1\)",
    ):
        run(
            toys.store(tmp_path / "s", 6),
            toys.tasks(6),
            toys.numbers,
            "processes",
            workers=2,
        )
    assert toys.files(tmp_path / "s") == {}


FULL = "{folder} cannot be written to ({why}); 3 of 6 chunks are kept. Fix that and run it again to go on.\n"


def test_a_full_disk_is_one_sentence_and_an_intact_store(tmp_path):
    """The system refuses to write more than a limit into a file, in the middle of the fourth chunk."""
    program = Program(
        tmp_path, count=6, executor="serial", limit=100_000, payload={"heavy": [3]}
    )
    assert program.run() == (
        1,
        FULL.format(folder=program.folder, why="File too large"),
    )
    _resumes_after_a_full_disk(program, tmp_path)


def _resumes_after_a_full_disk(program, tmp_path):
    assert program.announcements() == [0, 1, 2]
    assert torn(program.folder) == []
    assert (
        sorted(toys.files(program.folder))
        == sorted(expected(tmp_path / "whole", 6, heavy=[3]))[:3]
    )
    program = Program(tmp_path, count=6, executor="serial", payload={"heavy": [3]})
    assert program.run() == (0, "")
    assert toys.begun(program.log) == [0, 1, 2, 3, 3, 4, 5]
    assert toys.files(program.folder) == toys.files(tmp_path / "whole")


@pytest.mark.full
def test_a_full_file_system_too(tmp_path):
    """A file system of 600 kB: in a namespace of its own, where that is permitted."""
    place = tmp_path / "small"
    place.mkdir()
    program = Program(tmp_path, count=6, executor="serial", payload={"heavy": [3]})
    program.folder = place / "s"
    command = program_command(program)
    script = f"mount -t tmpfs -o size=600k none {place} && {command}; code=$?; cp -r {place}/s {tmp_path}/s; exit $code"
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run(
        [*unshare, f"mount -t tmpfs none {place}"], capture_output=True
    ).returncode:
        pytest.skip("no file system may be mounted here")
    done = subprocess.run([*unshare, script], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        1,
        FULL.format(folder=program.folder, why="No space left on device"),
    )
    program.folder = tmp_path / "s"
    _resumes_after_a_full_disk(program, tmp_path)


def program_command(program):
    asked = json.loads(program._asked) | {"folder": str(program.folder)}
    return f"{sys.executable} -m tests.sweeps.toys '{json.dumps(asked)}'"


@pytest.mark.full  # the test below has the message in one process
def test_a_second_process_on_the_same_folder_is_refused(tmp_path):
    first = Program(tmp_path, count=6, workers=1, payload={"seconds": 0.3}).start()
    wait_until(lambda: toys.begun(first.log), "the first has begun")
    (tmp_path / "second").mkdir()
    second = Program(tmp_path / "second", count=6, executor="serial")
    second._asked = json.dumps(
        json.loads(second._asked) | {"folder": str(first.folder)}
    )
    code, said = second.run()
    owner = f"{first.folder} is being written to by process {first.process.pid} on {os.uname().nodename} since "
    assert code == 1
    assert said.startswith(owner)
    datetime.fromisoformat(
        said.removeprefix(owner).removesuffix(
            "; wait for it, stop it, or give another folder.\n"
        )
    )
    assert toys.begun(second.log) == []
    assert first.wait() == (0, "")
    assert toys.files(first.folder) == expected(tmp_path / "whole", 6)


def test_a_lock_left_behind_is_taken_over(tmp_path):
    """By a process that was killed; and one that names a process that lives, but does not hold it."""
    program = Program(tmp_path, count=6, workers=1, payload={"seconds": 0.3}).start()
    wait_until(lambda: toys.begun(program.log), "it has begun")
    program.kill(group=False)
    writer = program.folder / "writer.txt"
    assert writer.read_text().startswith(f"process {program.process.pid} on ")
    with only_writer(program.folder):
        assert writer.read_text().startswith(f"process {os.getpid()} on ")
        with (
            pytest.raises(InputError, match=f"by process {os.getpid()} on"),
            only_writer(program.folder),
        ):
            pass
    assert not writer.exists()
    writer.write_text(f"process {os.getpid()} on elsewhere since then")
    with only_writer(program.folder):
        pass


def test_two_runs_in_one_process_are_refused_too(tmp_path):
    store = toys.store(tmp_path / "s", 2)
    with (
        store.writing(),
        pytest.raises(InputError, match="is being written to by process"),
    ):
        run(toys.store(tmp_path / "s", 2), toys.tasks(2), toys.numbers, "serial")


def test_a_folder_that_cannot_be_written_to(tmp_path):
    store = toys.store(tmp_path / "s", 2)
    (tmp_path / "s" / "lock").unlink()
    (tmp_path / "s" / "lock").mkdir()
    with pytest.raises(InputError, match=r"lock cannot be opened .*; fix that"):
        run(store, toys.tasks(2), toys.numbers, "serial")


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch):
    store = toys.store(tmp_path / "s", 2)

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.warns(
        TutelageWarning,
        match="keeps no locks; see to it yourself that only one process writes there",
    ):
        report = run(store, toys.tasks(2), toys.numbers, "serial")
    assert report.computed == 2
