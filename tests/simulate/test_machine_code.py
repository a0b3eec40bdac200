"""Cached machine code runs only with the layout that it was compiled for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tutelage

RESPOND = """
from tutelage.simulation.compiled import advance_overlaps
from tutelage.simulation.machine_code import DIGEST
print(DIGEST, advance_overlaps.py_func.__qualname__.endswith(DIGEST))
"""
LOAD = """
import numpy as np
from tutelage.simulation.compiled import onto_sphere
from tutelage.simulation.layout import Blocks
blocks = Blocks(
    width=np.array([1]), dof=np.array([1]), field=np.array([7.0]), step=np.array([11.0]), share=np.array([0.5]),
    eigenvalue=np.array([13.0]), mask=np.ones((1, 1)),
)
students = np.array([[[3.0]]])
onto_sphere(blocks, students, np.array([2.0]))
print(students.item(), sum(onto_sphere.stats.cache_hits.values()))
"""


def moved(folder: Path) -> tuple[float, int]:
    """A unit vector brought to length: share * x^2 = 2, so x = 2. And how often cached machine code was loaded."""
    value, hits = printed(folder, LOAD)
    return float(value), int(hits)


def printed(folder: Path, code: str) -> list[str]:
    """The words that a fresh process prints with the package in this folder."""
    environment = os.environ | {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_a_new_order_of_fields_is_compiled_again(tmp_path):
    """Same length, share and step exchanged: stale code would read the step, 11, for the share."""
    shutil.copytree(Path(tutelage.__file__).parent, tmp_path / "tutelage", ignore=shutil.ignore_patterns("__pycache__"))
    assert moved(tmp_path) == (2.0, 0)
    assert moved(tmp_path) == (2.0, 1)  # the cache works
    layout = tmp_path / "tutelage" / "simulate" / "layout.py"
    text = layout.read_text()
    first, second = "    step: np.ndarray\n", "    share: np.ndarray\n"
    assert text.count(first + second) == 1
    layout.write_text(text.replace(first + second, second + first))
    assert moved(tmp_path) == (2.0, 0)


def test_a_changed_response_renames_the_loops_that_contain_it(tmp_path):
    """numba looks at the file of the loop alone; the response of a sample is in another."""
    shutil.copytree(Path(tutelage.__file__).parent, tmp_path / "tutelage", ignore=shutil.ignore_patterns("__pycache__"))
    before, named = printed(tmp_path, RESPOND)
    assert named == "True"
    response = tmp_path / "tutelage" / "simulate" / "response.py"
    text = response.read_text()
    assert text.count("label * output < 1.0") == 1
    response.write_text(text.replace("label * output < 1.0", "label * output < 2.0"))
    after, named = printed(tmp_path, RESPOND)
    assert (after != before, named) == (True, "True")
