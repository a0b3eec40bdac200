"""The process of a command: settings of JAX, Ctrl-C, notes of the library, progress.

JAX's cache keeps the compiled programs, so that a second `tutelage solve` of a shape
does not compile; TUTELAGE_CACHE=0 turns it off. It keeps only programs without
callbacks into Python, so that Equinox's run-time errors are turned into NaN; `solve`
reads the solver's result code in either mode. A library should not choose a folder or
compiler options: only the commands do.

On a CPU, XLA runs a small loop as one kernel; raising that limit makes a solve of few
units faster. XLA's newer emitters of fused loops compile for 40% longer without a gain
here. An option that XLA does not know ends the process, so these are set for known
versions only, and never where XLA_FLAGS holds others.
"""

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tutelage._files import is_private
from tutelage.errors import TutelageWarning

WHOLE_LOOPS = (
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=65536"
)
OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false"
UNOPTIMIZED = "--xla_backend_optimization_level=0"
# Pieces are compiled side by side, and take more time in all.
IN_ONE_PIECE = "--xla_cpu_parallel_codegen_split_count=1"
KNOWN_TO = "0.10."  # jaxlib 0.11 has only the newer emitters
INTERRUPT_CODE = 130
INTERRUPTED = "interrupted."


def keep_compiled_programs() -> None:
    """Set JAX's cache up through the environment.

    It does nothing once JAX is imported, or if no folder can be written.
    """
    _set_flags(WHOLE_LOOPS, OLDER_EMITTERS)
    if os.environ.get("TUTELAGE_CACHE", "1") == "0" or "jax" in sys.modules:
        return
    folder = _writable_folder()
    if folder is not None:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("EQX_ON_ERROR", "nan")


def compile_quickly() -> None:
    """Compile without LLVM's optimizations, for short computations.

    It takes less than half the time; results are equal up to rounding.
    """
    _set_flags(WHOLE_LOOPS, OLDER_EMITTERS, UNOPTIMIZED, IN_ONE_PIECE)


def _set_flags(*flags: str) -> None:
    # imported here: it takes a tenth of the time of `tutelage --help`
    from importlib.metadata import version

    present = os.environ.get("XLA_FLAGS", "").split()
    ours = (WHOLE_LOOPS, OLDER_EMITTERS, UNOPTIMIZED, IN_ONE_PIECE)
    if any(flag not in ours for flag in present):
        return
    if version("jaxlib").startswith(KNOWN_TO):
        os.environ["XLA_FLAGS"] = " ".join(dict.fromkeys((*present, *flags)))


def _writable_folder() -> Path | None:
    """Return a folder for this user alone, None if there is none.

    Loading a program runs it: another user must not be able to put one there.
    """
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("tutelage", appauthor=False) / "programs"
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        is_safe = is_private(folder.parent) and is_private(folder)
    except (OSError, RuntimeError):  # no home, no permission, no space
        return None
    return folder if is_safe else None


@contextmanager
def leave_on_interrupt() -> Iterator[None]:
    """Return a context in which Ctrl-C ends the process at once.

    It prints one line and exits with code 130. A KeyboardInterrupt would not do: JAX's
    callbacks may swallow it and compute on, or crash the process at its exit. Use the
    context where no file is open.
    """

    def leave(*_: object) -> None:
        if sys.stderr.isatty():
            os.write(2, b"\r\x1b[2K")  # clear the line of the progress bar
        os.write(2, f"{INTERRUPTED}\n".encode())
        os._exit(INTERRUPT_CODE)

    usual = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def notes() -> Iterator[None]:
    """Return a context in which a warning of the library is one line, 'note: ...'."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", TutelageWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            file: str,
            line: int,
            *more: Any,
        ) -> None:
            if issubclass(category, TutelageWarning):
                print(f"note: {' '.join(str(message).split())}", file=sys.stderr)
            else:
                usual(message, category, file, line, *more)

        warnings.showwarning = show
        yield


def working(what: str) -> AbstractContextManager[Any]:
    """Return a context in which a line on a terminal names the work.

    It shows no percentage: that takes calls from the compiled program, which then could
    not be cached.
    """
    from tutelage.progress import progress_bar

    return progress_bar(
        None, what, sys.stderr.isatty(), bar_format="{desc} ...", delay=0
    )
