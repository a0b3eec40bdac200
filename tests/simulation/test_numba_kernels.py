"""Cached machine code runs only with the text that it was compiled from."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import tutelage
import tutelage as tu
from tutelage.simulation import method, numba_kernels

LOAD = """
import numpy as np
from tutelage.simulation.numba_kernels import LevelLayout, onto_sphere
layout = LevelLayout(
    width=np.array([1]), dof=np.array([1]), field=np.array([7.0]), step=np.array([11.0]), share=np.array([0.5]),
    eigenvalue=np.array([[13.0]]), mask=np.ones((1, 1, 1)),
)
students = np.array([[[3.0]]])
onto_sphere(layout, students, np.array([2.0]))
print(students.item(), sum(onto_sphere.stats.cache_hits.values()))
"""


def moved(folder: Path) -> tuple[float, int]:
    """A unit vector brought to length: share * x^2 = 2, so x = 2.

    And how often cached machine code was loaded.
    """
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "NUMBA_CACHE_DIR": str(folder / "cache"),
    }
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    run = subprocess.run(
        [sys.executable, "-c", LOAD],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    value, hits = run.stdout.split()
    return float(value), int(hits)


@pytest.mark.full  # the names are tested below; this compiles the kernels three times
def test_a_new_order_of_fields_is_compiled_again(tmp_path):
    """Share and step exchanged, in a file of the same size and date:

    stale code would read the step, 11, for the share.
    """
    shutil.copytree(
        Path(tutelage.__file__).parent,
        tmp_path / "tutelage",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    assert moved(tmp_path) == (2.0, 0)
    assert moved(tmp_path) == (2.0, 1)  # the cache works
    kernels = tmp_path / "tutelage" / "simulation" / "numba_kernels.py"
    text = kernels.read_text()
    before = kernels.stat()
    first, second = (
        f'    {name}: Float[np.ndarray, " L"]\n' for name in ("step", "share")
    )
    assert text.count(first + second) == 1
    kernels.write_text(text.replace(first + second, second + first))
    os.utime(kernels, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (kernels.stat().st_size, kernels.stat().st_mtime_ns) == (
        before.st_size,
        before.st_mtime_ns,
    )
    assert moved(tmp_path) == (2.0, 0)


def outside(module: ModuleType) -> list[str]:
    """Globals of the kernels of a module that come from other files; numbers and the libraries cannot be reordered here."""
    kernels = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }
    found = [
        f"{name} itself"
        for name, kernel in kernels.items()
        if kernel.py_func.__module__ != module.__name__
    ]
    for name, kernel in kernels.items():
        used = [
            vars(module)[word]
            for word in kernel.py_func.__code__.co_names
            if word in vars(module)
        ]
        foreign = [
            x
            for x in used
            if not isinstance(x, int | float)
            and x not in (*kernels.values(), numba_kernels.np)
        ]
        found += [f"{name} uses {x}" for x in foreign if x is not numba_kernels.math]
    return found


def test_all_machine_code_comes_from_one_file():
    """The text of that file alone is in the name of what numba caches."""
    kernels = [
        value for value in vars(numba_kernels).values() if isinstance(value, Dispatcher)
    ]
    assert len(kernels) > 15
    digests = {kernel.py_func.__qualname__.rpartition("-")[2] for kernel in kernels}
    assert digests == {
        sha256(Path(numba_kernels.__file__).read_bytes()).hexdigest()[:12]
    }
    assert outside(numba_kernels) == []
    tuples = (
        numba_kernels.StepConstants,
        numba_kernels.ParameterState,
        numba_kernels.LevelLayout,
        numba_kernels.Samples,
    )
    assert {kind.__module__ for kind in tuples} == {numba_kernels.__name__}


@pytest.mark.parametrize("name", ["a function", "a table"])
def test_a_kernel_that_reaches_outside_is_found(name):
    """A negative control."""
    module = ModuleType("elsewhere")
    exec("def kernel(x):\n    return other(x)", vars(module))
    module.kernel = numba.njit(module.kernel)
    module.other = (
        numba_kernels.activate.py_func if name == "a function" else (1.0, 2.0)
    )
    assert len(outside(module)) == 1


def test_one_machine_code_serves_all_problems(monkeypatch):
    """Arrays of another order in memory would compile the loops again, which takes ten seconds."""
    seen = set()
    loop = method.advance

    def recorded(*arguments):
        seen.add(tuple(str(numba.typeof(each)) for each in arguments))
        return loop(*arguments)

    monkeypatch.setattr(method, "advance", recorded)
    erf = tu.Network(2, "erf")
    trained = tu.Network(2, "erf", train_readout=True, bias=0.1, train_bias=True)
    tasks = [
        tu.Tasks([erf, erf], tu.Switch(0.2), heads, drift=tu.Drift(0.1))
        for heads in ("separate", "shared")
    ]
    problems = [
        tu.Problem(erf, erf),
        tu.Problem(
            trained,
            tu.Network(3, "relu"),
            inputs=tu.PowerLaw(1.0, levels=2),
            optimizer=tu.SGD(lr=0.5, batch=3),
        ),
        tu.Problem(
            erf,
            tu.Network(2, "he3", unseen=0.1 * np.eye(2)),
            optimizer=tu.SGD(lr=0.1, momentum=0.5),
            noise=0.1,
        ),
        *(
            tu.Problem(tu.Network(2, "erf", train_readout=True), teachers)
            for teachers in tasks
        ),
    ]
    for problem in problems:
        for way in ("overlaps", "weights"):
            start = tu.asymmetric_start(problem, dim=20)
            tu.simulate(problem, start, dim=20, times=[0.0, 0.5], runs=1, method=way)
    assert len(seen) == 1
