"""Processes that work for this one: programs of their own with one core each.

They are not started by `multiprocessing`, which would run the user's script again in each of them. They never get the
Ctrl-C of the terminal: it is for this process, which ends them.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


def start(module: str, arguments: Sequence[str], *, pass_fds: Sequence[int] = (), **environment: str) -> subprocess.Popen:
    """Run a module as a program, with our own import path and one core. environment: more variables for it."""
    paths = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    with _interrupts_held_back():
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            env=os.environ | one_core() | paths | environment,
        )


def one_core() -> Mapping[str, str]:
    """The environment of a worker that uses one core: the others have workers of their own.

    NPROC is what XLA takes for the number of cores, for its pool of threads. On a GPU, which they share, the first worker
    would take most of the memory for itself.
    """
    libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return dict.fromkeys(libraries, "1") | {"XLA_FLAGS": flags, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """A process started inside never gets a Ctrl-C of its own: it inherits that the signal is held back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
