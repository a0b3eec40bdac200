"""Compiled programs kept between processes: a second `tutelage solve` of a shape neither traces nor compiles.

JAX's own cache keeps what XLA made of a program, but wants it traced again to find it: that, and the import of what it is
traced with, takes longer than all the rest. Here a program is found by the text of what it was made from (described.py);
what cannot be described is not kept.

The environment variable TUTELAGE_PROGRAMS names the folder. The command line sets it (cli/compile_cache.py); anybody may,
together with EQX_ON_ERROR=nan, for a program that calls Python when something goes wrong cannot be kept. A file that is
damaged, or from elsewhere, is replaced. Loading a program runs what is in its file, as importing a module does: the folder
is made for this user alone, and nothing is read that another user could have written.
"""

import os
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jaxlib.lapack import prepare_lapack_call

from tutelage.checks import is_traced
from tutelage._files import is_private, whole_file
from tutelage.integrate.described import Indescribable, describe, device, is_array, setting

FOLDER = "TUTELAGE_PROGRAMS"
ENDING = ".program"
MOST = 200  # files in the folder: those unused for longest give way
CALLBACK = b"python_cpu_callback"  # a program with this belongs to its process


def kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eqx.filter_jit`; outside transformations, where a folder is chosen, its programs come from there and go there."""
    jitted, programs, lock = eqx.filter_jit(function), {}, threading.Lock()

    @wraps(function)
    def call(*args: Any) -> Any:
        folder = _folder()
        if folder is None or is_traced(args):
            return jitted(*args)
        try:
            description = describe(function, args)
        except Indescribable:
            return jitted(*args)
        arrays = [leaf for leaf in jax.tree.leaves(args) if is_array(leaf)]
        with lock:
            if description not in programs:
                path = folder / (sha256(description.encode()).hexdigest()[:40] + ENDING)
                found = _found(path, description, arrays)
                if found is not None:
                    programs[description], first = found
                    return first
                programs[description] = _made(path, description, function, args)
        return programs[description](arrays)

    return call


class Program:
    """A compiled function of arrays, and the structure of its result."""

    def __init__(self, compiled: Any, result: Any):
        self.compiled, self.structure = compiled, jax.tree.structure(result)

    def __call__(self, arrays: list[Any]) -> Any:
        return jax.tree.unflatten(self.structure, self.compiled(*arrays))


def _folder() -> Path | None:
    """The chosen one; None where nothing can be kept. Programs of other devices than the processor stay JAX's to keep."""
    name = os.environ.get(FOLDER)
    if not name or os.environ.get("EQX_ON_ERROR") not in ("nan", "off") or setting("jax_disable_jit"):
        return None
    return Path(name) if setting("jax_default_device") is None and device().platform == "cpu" else None


def _found(path: Path, description: str, arrays: list[Any]) -> tuple[Program, Any] | None:
    """The program of a file, with its first answer; None if there is none, or if it is not as it was written."""
    try:
        if not (is_private(path.parent) and is_private(path)):
            return None
        told, result, payload, *trees = pickle.loads(zlib.decompress(path.read_bytes()))  # which knows damage
        if told != description:
            return None
        if b"lapack" in payload:
            prepare_lapack_call("getrf", np.dtype(float))  # JAX does this when it compiles; without it the process ends
        program = Program(deserialize_and_load(payload, *trees, execution_devices=[device()]), result)
        first = jax.block_until_ready(program(arrays))
        os.utime(path)
    except Exception:  # whatever is wrong with the file: the answer can be computed without it
        return None
    return program, first


def _made(path: Path, description: str, function: Callable[..., Any], args: Any) -> Program:
    """The program, compiled now, and kept if it can be."""
    leaves, tree = jax.tree.flatten(args)
    results: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        given = iter(arrays)
        result = function(*jax.tree.unflatten(tree, [next(given) if is_array(leaf) else leaf for leaf in leaves]))
        results.append(jax.tree.map(lambda _: 0, result))
        return jax.tree.leaves(result)

    flat.__name__ = function.__name__
    lowered = jax.jit(flat).lower(*(leaf for leaf in leaves if is_array(leaf)))
    with _without_other_cache():
        compiled = lowered.compile()
    try:
        payload, *trees = serialize(compiled)
        if CALLBACK not in payload:
            _write(path, zlib.compress(pickle.dumps((description, results[-1], payload, *trees)), level=1))
    except Exception:  # no space, no permission, a device whose programs cannot be written
        pass
    return Program(compiled, results[-1])


@contextmanager
def _without_other_cache() -> Iterator[None]:
    """JAX's own cache is not asked: a program that came from there lacks what it takes to be written again."""
    before = setting("jax_enable_compilation_cache")
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        reset_cache()
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        reset_cache()


def _write(path: Path, content: bytes) -> None:
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(folder):
        return
    with whole_file(path) as temporary, open(temporary, "xb", opener=_for_this_user) as file:
        file.write(content)
    for old in sorted(folder.glob(f"*{ENDING}"), key=lambda file: -file.stat().st_mtime)[MOST:]:
        old.unlink(missing_ok=True)


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
