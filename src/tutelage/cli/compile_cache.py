"""Compiled programs kept between runs, so that the second `tutelage solve` of a shape starts at once.

The solver's programs are kept whole (integrate/kept.py), all others in JAX's own cache: it has them traced again, but not
compiled. Both keep only programs without callbacks into Python. Equinox's run-time errors are such callbacks, unless they
are turned into NaN; `solve` reads the solver's result code in either mode, so no NaN passes for an answer. Only the command
line does this: a library should not choose a folder for its user. TUTELAGE_CACHE=0 switches it off.
"""

import os
import sys
import tempfile
from pathlib import Path

from tutelage._files import is_private
from tutelage._xla import compile_sooner


def keep_compiled_programs() -> None:
    """Set JAX's cache up through the environment; does nothing once JAX is there, or where no folder can be written."""
    compile_sooner()
    if os.environ.get("TUTELAGE_CACHE", "1") == "0" or "jax" in sys.modules:
        return
    folder = _writable_folder()
    if folder is None:
        return
    os.environ.setdefault("TUTELAGE_PROGRAMS", str(folder / "programs"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("EQX_ON_ERROR", "nan")


def _writable_folder() -> Path | None:
    """Our folder, with one for JAX in it. Loading a program runs it: None if another user could have put one there."""
    try:
        folder = _user_cache() / "tutelage"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "xla").mkdir(mode=0o700, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return folder if is_private(folder) and is_private(folder / "xla") else None
    except (OSError, RuntimeError):  # no home, no permission, no space
        return None


def _user_cache() -> Path:
    """Where this platform wants caches."""
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
