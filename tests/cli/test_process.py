"""What only a process of its own can show:

what is imported when, what is kept between runs, how it ends.
"""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import tutelage as tu
from tutelage.cli import process


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("JAX_", "EQX_", "TUTELAGE_"))
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env=kept | environment,
        capture_output=True,
        text=True,
    )


def test_help_does_not_wait_for_jax():
    run = python(
        "import sys; from tutelage.cli import main\n"
        "assert main(['--help']) == main(['solve', '--help']) == main(['--version']) == 0\n"
        "import tutelage.sweeps.run  # status of a sweep, and workers until they compute\n"
        "assert not {'jax', 'matplotlib', 'xarray', 'scipy'} & set(sys.modules)"
    )
    assert (run.returncode, run.stderr) == (0, "")
    for words in ("solve", "--student-units", "-K", "--plot", "--json"):
        assert words in run.stdout


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param("import tutelage, jax", marks=pytest.mark.full),
        "import jax, tutelage",
        pytest.param(
            "from tutelage.problem import Problem; import jax", marks=pytest.mark.full
        ),
    ],
)
def test_float64_whoever_imports_jax(imports):
    run = python(f"{imports}\nprint(jax.numpy.zeros(1).dtype)", JAX_ENABLE_X64="0")
    assert run.stdout == "float64\n"


def test_float64_can_be_declined():
    assert (
        python(
            "import tutelage, jax; print(jax.numpy.zeros(1).dtype)", TUTELAGE_X64="0"
        ).stdout
        == "float32\n"
    )


def test_programs_are_kept_between_runs(tmp_path):
    flags = [
        "-K",
        "1",
        "-M",
        "1",
        "--activation",
        "linear",
        "--times",
        "5",
        "--no-validity",
    ]
    command = [sys.executable, "-m", "tutelage.cli", "solve", *flags]
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("JAX_", "EQX_", "TUTELAGE_"))
    }
    cache = tmp_path / "cache"
    outputs = []
    entries = []
    for _ in range(2):
        run = subprocess.run(
            command,
            env=kept | {"XDG_CACHE_HOME": str(cache)},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert (run.returncode, run.stderr) == (0, "")
        outputs.append(run.stdout)
        entries.append(
            {
                path
                for path in (cache / "tutelage" / "programs").iterdir()
                if "integrate" in path.name
            }
        )
    assert outputs[0] == outputs[1]
    assert entries[0] == entries[1]  # found again: nothing was compiled
    assert entries[0]


def test_no_cache_folder_is_no_error(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/absent")
    assert process._writable_folder() is None


def test_cache_is_left_alone_once_jax_is_there(monkeypatch):
    import jax  # noqa: F401

    monkeypatch.delenv("TUTELAGE_CACHE")
    before = dict(os.environ)
    process.keep_compiled_programs()
    assert dict(os.environ) == before


def test_interrupt_while_jax_works():
    run = python(
        "import os, signal, time\n"
        "from tutelage.cli.process import leave_on_interrupt\n"
        "with leave_on_interrupt():\n"
        "    os.kill(os.getpid(), signal.SIGINT); time.sleep(30)"
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted.\n")


def test_a_reader_may_stop_early():
    line = f"{sys.executable} -m tutelage.cli solve --help | head -n 1"
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_no_program_is_loaded_that_another_user_could_have_written(
    tmp_path, monkeypatch
):
    """JAX's cache holds machine code: its folder must belong to this user alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = process._writable_folder()
    assert folder == tmp_path / "tutelage" / "programs"
    for place in (folder.parent, folder):
        assert place.stat().st_mode & 0o777 == 0o700
        place.chmod(0o777)
        assert process._writable_folder() is None
        place.chmod(0o700)
    assert process._writable_folder() == folder
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert process._writable_folder() is None


INTERRUPTED = """
import os, signal, sys
from tutelage.cli import main
from tutelage.simulation.overlaps import OverlapsMethod

finished, runs = OverlapsMethod.run, int(sys.argv[1])

def press(*about):
    run = finished(*about)
    press.count += 1
    if press.count == runs:
        os.kill(os.getpid(), signal.SIGINT)
    return run

press.count = 0
OverlapsMethod.run = press
sys.exit(main(sys.argv[2:]))
"""
SLOW = [
    "simulate",
    "-K",
    "1",
    "-M",
    "1",
    "--dim",
    "1000",
    "--runs",
    "200",
    "--times",
    "200",
    "--points",
    "5",
]


def interrupted(*line: str, after: int = 3) -> subprocess.CompletedProcess:
    """Ctrl-C when so many of 200 runs have ended."""
    command = [sys.executable, "-c", INTERRUPTED, str(after), *SLOW, *line]
    return subprocess.run(
        command,
        env=os.environ | {"TUTELAGE_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.full  # test_simulate.py interrupts runs without a process of their own
def test_interrupted_runs_are_counted_and_left_out(folder):
    run = interrupted("--out", "runs.nc")
    assert run.returncode == 130
    found = re.search(
        r"^interrupted: (\d+) of 200 runs are complete; the others are left out.$",
        run.stderr,
        re.MULTILINE,
    )
    assert found is not None, run.stderr
    count = int(found[1])
    assert 3 <= count < 200
    assert f"e_g, mean of {count} runs" in run.stdout
    assert "nan" not in run.stdout
    kept = tu.load("runs.nc")
    assert kept.error.shape == (count, 5)
    assert np.isfinite(kept.error).all()
    assert dict(kept.settings)["runs"] == count
    # one thread per core: a run may be complete although some before it are not
    same = (kept.error[:, None] == everything(count + (os.cpu_count() or 1))).all(
        axis=2
    )
    assert same.any(axis=1).all()
    assert same.sum() == count


def everything(count):
    """The same runs without an interruption."""
    problem = tu.Problem(tu.Network(1), tu.Network(1), optimizer=tu.SGD(0.5))
    times = np.linspace(0, 200, 5)
    begin = tu.load("runs.nc").start
    return tu.simulate(problem, begin, dim=1000, times=times, runs=count).error


@pytest.mark.full
def test_json_says_that_it_was_interrupted():
    run = interrupted("--json")
    answer = json.loads(run.stdout)
    assert (run.returncode, answer["finished"]) == (130, False)
    assert answer["status"].startswith(f"interrupted: {len(answer['error'])} of 200")
