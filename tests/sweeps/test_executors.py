"""Serial, processes and a real Dask cluster:

the same bytes, the same failures, the same sentences.
"""

import gc
import importlib
import os
import subprocess
import sys
from collections import deque

import numpy as np
import pytest

from tests.sweeps import toys
from tests.sweeps.clusters import PATHS, dask_cluster, is_running, wait_until
from tests.sweeps.toys import run
from tutelage import InputError
from tutelage.sweeps import run as run_module
from tutelage.sweeps.run import executor_of
from tutelage.sweeps.store import Store, Task

COUNT = 8


def sweep(folder, name, compute=toys.numbers, workers=None, retry=False, **payload):
    """A report, and the files of a sweep of eight chunks."""
    tasks = toys.tasks(COUNT, **payload)
    report = run(
        toys.store(folder, COUNT), tasks, compute, name, workers=workers, retry=retry
    )
    return report, toys.files(folder)


@pytest.fixture(scope="module")
def serial_files(tmp_path_factory):
    return sweep(tmp_path_factory.mktemp("serial") / "s", "serial", bad=[0.2, 1.0])[1]


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_the_bytes_of_serial(tmp_path, serial_files, workers):
    log = tmp_path / "log"
    report, files = sweep(
        tmp_path / "s", "processes", workers=workers, bad=[0.2, 1.0], log=str(log)
    )
    assert files == serial_files
    assert (
        report.computed,
        report.kept,
        Store(tmp_path / "s").status().points_failed,
    ) == (COUNT, 0, 2)
    assert len(toys.workers(log)) <= workers
    assert not any(map(is_running, toys.workers(log)))


def test_a_dask_cluster_gives_the_bytes_of_serial(tmp_path, serial_files, two_workers):
    log = tmp_path / "log"
    report, files = sweep(
        tmp_path / "s", two_workers, bad=[0.2, 1.0], log=str(log), seconds=0.05
    )
    assert files == serial_files
    assert (report.computed, Store(tmp_path / "s").status().points_failed) == (COUNT, 2)
    assert len(toys.workers(log)) == 2


@pytest.mark.parametrize("name", ["serial", "processes", "dask"])
def test_an_error_of_the_computation_is_recorded_and_not_tried_again(
    tmp_path, name, two_workers
):
    where = two_workers if name == "dask" else name
    _report, _ = sweep(tmp_path / "s", where, toys.raises, log=str(tmp_path / "log"))
    assert sorted(toys.begun(tmp_path / "log")) == list(range(COUNT))
    assert Store(tmp_path / "s").status().errors == {
        "ZeroDivisionError: of no use at all": 5 * COUNT - 2
    }
    assert Store(tmp_path / "s").status().complete
    sweep(tmp_path / "s", where, toys.raises, log=str(tmp_path / "log"))
    assert len(toys.begun(tmp_path / "log")) == COUNT, (
        "what has failed is finished, too"
    )


def test_what_has_failed_is_computed_again_on_request(tmp_path, serial_files):
    tasks = toys.tasks(COUNT, log=str(tmp_path / "log"), bad=[0.2])
    run(toys.store(tmp_path / "s", COUNT), tasks, toys.numbers, "serial")
    again = toys.tasks(COUNT, log=str(tmp_path / "log"))
    report = run(
        toys.store(tmp_path / "s", COUNT), again, toys.numbers, "serial", retry=True
    )
    assert toys.begun(tmp_path / "log") == [*range(COUNT), 0]
    assert (
        report.computed,
        report.kept,
        Store(tmp_path / "s").status().points_failed,
    ) == (1, COUNT - 1, 0)
    assert len(toys.files(tmp_path / "s")) == COUNT


def test_a_second_run_computes_nothing(tmp_path):
    first, files = sweep(tmp_path / "s", "serial", log=str(tmp_path / "log"))
    second, same = sweep(tmp_path / "s", "processes", log=str(tmp_path / "log"))
    assert files == same
    assert (first.computed, second.computed, second.kept) == (COUNT, 0, COUNT)
    assert toys.begun(tmp_path / "log") == list(range(COUNT))


def test_a_script_without_a_guard_can_sweep(tmp_path):
    """multiprocessing would run the script again in each worker."""
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.sweeps import toys\n"
        f"print(toys.run(toys.store({str(tmp_path / 's')!r}, 2), toys.tasks(2), toys.numbers, 'processes').computed)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": PATHS},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)


def threads_of(task):
    """What a worker may use (a compute function is a function of a module, so this one is)."""
    one = (
        "multi_thread_eigen=false" in os.environ["XLA_FLAGS"]
        and os.environ["OMP_NUM_THREADS"] == "1"
    )
    return {"one": ((), np.array([one]))}


def test_a_worker_uses_one_core():
    ((_, chunk),) = executor_of("processes", 1)(threads_of, deque([Task(0, (0,), {})]))
    assert chunk["one"][1].all()


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        (
            "threads",
            {},
            "executor is 'threads'; it must be one of 'serial', 'processes', 'dask', 'slurm', or the address",
        ),
        ("processes", {"cluster": {"queue": "long"}}, "only 'slurm' takes them"),
        ("tcp://127.0.0.1:9", {"workers": 2}, "has its own number. Leave it out"),
        ("slurm", {}, "say how many workers SLURM is to start"),
        ("slurm", {"workers": 2}, "no sbatch here; run this on a login node"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, name, more, said):
    with pytest.raises(InputError, match=said):
        run(toys.store(tmp_path / "s", 2), toys.tasks(2), toys.numbers, name, **more)
    assert toys.files(tmp_path / "s") == {}


def test_no_scheduler_at_the_address(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(
        InputError, match=r"no Dask scheduler responds at tcp://127.0.0.1:9; start one"
    ):
        run(
            toys.store(tmp_path / "s", 2),
            toys.tasks(2),
            toys.numbers,
            "tcp://127.0.0.1:9",
        )


def test_without_dask_a_sentence_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for name in ("dask", "tcp://127.0.0.1:9"):
        with pytest.raises(
            InputError,
            match=r'needs Dask; install it by: pip install "tutelage\[cluster\]"',
        ):
            run(toys.store(tmp_path / "s", 2), toys.tasks(2), toys.numbers, name)


def test_workers_of_another_version_are_refused(tmp_path, two_workers, monkeypatch):
    monkeypatch.setattr(run_module, "__version__", "9.9.9")
    with pytest.raises(
        InputError,
        match=r"workers cannot compute .*a worker has tutelage .*, and the sweep 9.9.9",
    ):
        run(toys.store(tmp_path / "s", 2), toys.tasks(2), toys.numbers, two_workers)


def test_workers_that_lack_a_module_stop_the_sweep(tmp_path, two_workers, monkeypatch):
    (tmp_path / "only_here.py").write_text("def compute(task): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    compute = importlib.import_module("only_here").compute
    with pytest.raises(
        InputError,
        match=r"the Dask workers cannot compute .*No module named .only_here.*; fix them and run the sweep again",
    ):
        run(toys.store(tmp_path / "s", 2), toys.tasks(2), compute, two_workers)
    assert toys.files(tmp_path / "s") == {}


@pytest.mark.full
def test_a_local_dask_cluster_gives_the_bytes_of_serial_and_leaves_nothing_running(
    tmp_path, serial_files
):
    log = tmp_path / "log"
    assert (
        sweep(
            tmp_path / "s", "dask", workers=2, bad=[0.2, 1.0], log=str(log), seconds=0.1
        )[1]
        == serial_files
    )
    wait_until(lambda: not any(map(is_running, toys.workers(log))), "the workers end")


@pytest.mark.full
def test_a_scheduler_file_is_an_address_and_late_workers_are_waited_for(
    tmp_path, serial_files
):
    with dask_cluster(tmp_path, workers=0) as cluster:
        cluster.add_worker()
        assert (
            sweep(tmp_path / "s", str(tmp_path / "scheduler.json"), bad=[0.2, 1.0])[1]
            == serial_files
        )


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """A SLURM of this machine:

    `sbatch` starts the job's script at once, `scancel` ends it.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    job = f"{tmp_path}/job.sh"
    start = f'cp "$1" {job}; setsid bash {job} >{tmp_path}/job.log 2>&1 & echo "Submitted batch job $!"'
    (folder / "sbatch").write_text(f"#!/bin/bash\n{start}\n")
    (folder / "scancel").write_text('#!/bin/bash\nkill -- "-$1"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", PATHS)


@pytest.mark.filterwarnings(
    "ignore:unclosed cluster", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # dask-jobqueue's
@pytest.mark.parametrize("options", [{}, {"memory": "1GB", "nonsense": 3}])
def test_options_that_the_cluster_refuses(tmp_path, sbatch, options):
    with pytest.raises(
        InputError,
        match=r"the cluster options .* are not valid .*; fix the .cluster. table",
    ) as caught:
        run(
            toys.store(tmp_path / "s", 2),
            toys.tasks(2),
            toys.numbers,
            "slurm",
            workers=1,
            cluster=options,
        )
    assert "\n" not in str(caught.value)
    del caught
    # dask-jobqueue's half-built cluster complains now, where that is ignored
    gc.collect()


def test_slurm_is_asked_for_jobs_with_one_core_each(tmp_path, sbatch):
    """The job's script is dask-jobqueue's and really runs; only the queue is missing."""
    tasks = toys.tasks(COUNT, log=str(tmp_path / "log"))
    options = {"memory": "1GB", "queue": "long", "walltime": "00:10:00"}
    run(
        toys.store(tmp_path / "s", COUNT),
        tasks,
        toys.numbers,
        "slurm",
        workers=1,
        cluster=options,
    )
    assert Store(tmp_path / "s").status().complete
    script = (tmp_path / "job.sh").read_text()
    for line in ("#SBATCH -p long", "#SBATCH -t 00:10:00", "export OMP_NUM_THREADS=1"):
        assert line in script
    wait_until(
        lambda: not any(map(is_running, toys.workers(tmp_path / "log"))), "the job ends"
    )


def test_asking_for_slurm_leaves_ctrl_c_as_it_was():
    """In a process of its own: the import that changes it happens once."""
    program = """
import signal
from tutelage.sweeps.run import _dask
_dask('dask_jobqueue', 'slurm')
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
import importlib, dask_jobqueue.runner
importlib.reload(dask_jobqueue.runner)
assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler, "there is nothing to put back any more"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
