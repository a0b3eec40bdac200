"""Every command runs in an empty folder, and leaves the settings of the test process alone."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tutelage.cli import main


class Ending(NamedTuple):
    code: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUTELAGE_CACHE", "0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tutelage(capsys: pytest.CaptureFixture) -> Callable[..., Ending]:
    """Run one command line in this process."""

    def run(*argv: str) -> Ending:
        capsys.readouterr()
        code = main(argv)
        return Ending(code, *capsys.readouterr())

    return run
