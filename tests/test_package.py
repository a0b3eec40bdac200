"""What a newcomer and a release rely on: the README is true, versions agree, checks are targets, packages install."""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import tutelage as tu

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _site import outputs, runner  # noqa: E402

README = (ROOT / "README.md").read_text()
QUICKSTART = runner.blocks(README)[0]
TARGETS = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
)


def test_the_readme_is_short_and_leads_to_pages_that_exist():
    tagline = README.splitlines()[2]
    assert len(tagline.split()) <= 15
    assert len(README.splitlines()) <= 65
    assert len(QUICKSTART.strip().splitlines()) <= 9
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 6
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for link in links:
        assert link in tracked, (
            link
        )  # no generated page: a repository host shows what is tracked


def test_the_readme_prints_what_its_code_prints(capsys):
    exec(QUICKSTART, {})
    assert capsys.readouterr().out == outputs.printed(README)[0]


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    version, date = (
        re.search(rf"^{name}: (.*)$", citation, re.MULTILINE)[1]
        for name in ("version", "date-released")
    )
    assert version == tu.__version__
    assert f"version = {{{version}}}" in README
    assert f"## {version} ({date})" in (ROOT / "CHANGELOG.md").read_text()


def test_checks_of_the_host_are_targets_of_the_makefile():
    workflow = (ROOT / ".github" / "workflows" / "checks.yml").read_text()
    steps = re.findall(r"run: (.*)", workflow)
    assert len(steps) == 2
    assert all(step.startswith("make ") for step in steps)
    chosen = re.search(r"target: \[(.*)\]", workflow)[1].replace(",", " ").split()
    assert {"lint", "test", "test-papers", "test-pages", "docs", "test-package"} == set(
        chosen
    )
    named = set(
        re.findall(
            r"(?:`|^ {4}|entry: )make ([a-z-]+)",
            "\n".join((ROOT / f).read_text() for f in FILES),
            re.MULTILINE,
        )
    )
    assert {*chosen, "package", "test-versions"} <= TARGETS
    assert named <= TARGETS, named - TARGETS
    pairs = re.search(r"versions: \[(.*)\]", workflow)[1]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "classifiers"
    ]
    for python in re.findall(r"Python :: (3\.\d+)", str(declared)):
        assert f'"{python}:0.10"' in pairs
        assert f'"{python}:0.11"' in pairs


FILES = (
    "README.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".pre-commit-config.yaml",
)


@pytest.fixture(scope="module")
def packages():
    """The wheel and the source archive, as `make package` builds them."""
    folder = ROOT / "output" / "package"
    for old in folder.glob("*"):
        old.unlink()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return {path.suffix: path for path in folder.iterdir()}


def test_the_wheel_holds_all_files_of_the_package(packages):
    held = {
        name
        for name in zipfile.ZipFile(packages[".whl"]).namelist()
        if name.startswith("tutelage/")
    }
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.removeprefix("src/") for line in tracked.splitlines()} <= held
    assert packages[".whl"].stat().st_size < 3_000_000
    assert packages[".gz"].stat().st_size < 8_000_000


@pytest.mark.full
@pytest.mark.parametrize("kind", [".whl", ".gz"])
def test_a_package_runs_the_quickstart_in_an_empty_environment(
    kind, packages, tmp_path
):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "XLA_FLAGS", "VIRTUAL_ENV")
    }
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", packages[kind]],
        check=True,
        env=clean,
    )
    program = "import tutelage; print(tutelage.__file__)\n" + QUICKSTART
    run = subprocess.run(
        [python, "-c", program], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    place, _, printed = run.stdout.partition("\n")
    assert str(tmp_path) in place
    assert printed == outputs.printed(README)[0]
    help_text = subprocess.run(
        [python.with_name("tutelage"), "--help"],
        capture_output=True,
        text=True,
        env=clean,
    )
    assert "compare" in help_text.stdout
