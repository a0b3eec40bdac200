"""A core install: without the web server, Dask and notebooks everything else works, and commands say what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = ("starlette", "uvicorn", "websockets", "distributed", "dask", "dask_jobqueue", "ipykernel", "ipywidgets")
SWEEP = """
measure = ["critical_learning_rate"]
[student]
hidden = 1
[teacher]
hidden = 1
[over]
lr = [0.5, 1.0]
"""


def core_install(folder, program):
    """Run a program as if no extra were installed."""
    hide = f"import sys\nfor name in {EXTRAS}:\n    sys.modules[name] = None\n"
    return subprocess.run([sys.executable, "-c", hide + program], cwd=folder, capture_output=True, text=True)


def command(folder, *arguments):
    """A command as typed."""
    return core_install(folder, f"from tutelage.cli import main\nsys.exit(main({list(arguments)}))\n")


def test_the_library_and_its_help_need_no_extra(tmp_path):
    program = """
import tutelage as tu
problem = tu.Problem(tu.Network(1), tu.Network(1))
theory = tu.solve(problem, tu.random_start(problem, dim=100, seed=0), times=[0.0, 1.0])
swept = tu.sweep(problem, {"lr": [0.5]}, "critical_learning_rate")
from tutelage.cli import main
assert main(["--help"]) == 0
assert main(["explore", "--help"]) == 0
assert main(["sweep", "--help"]) == 0
"""
    done = core_install(tmp_path, program)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_explorer_says_what_to_install(tmp_path):
    done = command(tmp_path, "explore", "--no-browser")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert 'tutelage explore needs uvicorn, which is not installed; install it by: pip install "tutelage[explore]"' in line


@pytest.mark.parametrize("executor", ["dask", "slurm"])
def test_dask_executors_say_what_to_install(tmp_path, executor):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    done = command(tmp_path, "sweep", "sweep.toml", "--out", "swept", "--executor", executor)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert f'executor {executor!r} needs Dask; install it by: pip install "tutelage[cluster]"' in line
    assert not (tmp_path / "swept").exists()


def test_the_messages_name_extras_that_exist():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"explore", "cluster", "notebook", "all"} <= set(extras)
    assert {requirement.split(">")[0] for name in ("explore", "cluster") for requirement in extras[name]} == {
        *("starlette", "uvicorn", "websockets"),
        *("distributed", "dask-jobqueue"),
    }
