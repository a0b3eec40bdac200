"""A core install:

without the web server, Dask and notebooks everything else works, and commands say what
to install.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "starlette",
    "uvicorn",
    "websockets",
    "distributed",
    "dask",
    "dask_jobqueue",
    "ipykernel",
    "ipywidgets",
)
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
    return subprocess.run(
        [sys.executable, "-c", hide + program],
        cwd=folder,
        capture_output=True,
        text=True,
    )


COMMANDS = {
    "explore": ["explore", "--no-browser"],
    **{
        x: ["sweep", "sweep.toml", "--out", f"swept-{x}", "--executor", x]
        for x in ("dask", "slurm")
    },
}
ALL = """
import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from tutelage.cli import main
endings = {}
for name, arguments in COMMANDS.items():
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
        code = main(arguments)
    endings[name] = code, out.getvalue(), error.getvalue()
print(json.dumps(endings))
"""


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    """Code, output and errors of each command, in one process:

    starting it takes most of the time. And its folder.
    """
    folder = tmp_path_factory.mktemp("core")
    (folder / "sweep.toml").write_text(SWEEP)
    done = core_install(folder, f"COMMANDS = {COMMANDS}\n{ALL}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def test_the_library_and_its_help_need_no_extra(tmp_path):
    program = """
import tutelage as tu
problem = tu.Problem(tu.Network(1), tu.Network(1))
start = tu.random_start(problem, dim=100, seed=0)
theory, runs = tu.solve(problem, start, times=[0.0, 1.0]), tu.simulate(problem, start, times=[0.0, 1.0], runs=1)
assert "diffrax" not in sys.modules  # half a second, which erf committees do not need
swept = tu.sweep(problem, {"lr": [0.5]}, "critical_learning_rate")
from tutelage.cli import main
assert main(["--help"]) == 0
assert main(["explore", "--help"]) == 0
assert main(["sweep", "--help"]) == 0
"""
    done = core_install(tmp_path, program)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_explorer_says_what_to_install(endings):
    code, out, error = endings[0]["explore"]
    assert (code, out) == (2, "")
    (line,) = error.strip().splitlines()
    assert (
        'tutelage explore needs uvicorn, which is not installed; install it by: pip install "tutelage[explore]"'
        in line
    )


@pytest.mark.parametrize("executor", ["dask", "slurm"])
def test_dask_executors_say_what_to_install(endings, executor):
    (code, out, error), folder = endings[0][executor], endings[1]
    assert (code, out) == (2, "")
    (line,) = error.strip().splitlines()
    assert (
        f'executor {executor!r} needs Dask; install it by: pip install "tutelage[cluster]"'
        in line
    )
    assert not (folder / f"swept-{executor}").exists()


def test_the_messages_name_extras_that_exist():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {"explore", "cluster", "notebook", "all"} <= set(extras)
    assert {
        requirement.split(">")[0]
        for name in ("explore", "cluster")
        for requirement in extras[name]
    } == {
        *("starlette", "uvicorn", "websockets"),
        *("distributed", "dask-jobqueue"),
    }
