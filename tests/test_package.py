"""What a newcomer and a release rely on:

the README is true, versions agree, checks are targets, packages install.
"""

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
import tutelage_papers

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
    assert len(README.splitlines()) <= 75  # of at most 100 columns
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
    assert tutelage_papers.__version__ == version
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    assert f"tutelage=={version}" in papers["dependencies"]


def test_papers_need_only_what_the_library_needs():
    """Requirements are pinned for the library; papers are installed without their own."""
    needed = {}
    for folder in (ROOT, ROOT / "papers"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        lines = project["dependencies"]
        needed[folder] = {re.split(r"[<>=\[]", line)[0] for line in lines}
    assert needed[ROOT / "papers"] - {"tutelage"} <= needed[ROOT]


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
    "papers/README.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".pre-commit-config.yaml",
)


@pytest.fixture(scope="module")
def packages():
    """Wheel and source archive of library and papers, as `make package` builds them.

    The keys are ("tutelage", ".whl"), ("tutelage_papers", ".gz") and so on.
    """
    folder = ROOT / "output" / "package"
    for old in folder.glob("*"):
        old.unlink()
    for source in (ROOT, ROOT / "papers"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", folder],
            cwd=source,
            check=True,
            capture_output=True,
        )
    return {(path.name.split("-")[0], path.suffix): path for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("package", "source"), [("tutelage", "src"), ("tutelage_papers", "papers/src")]
)
def test_the_wheel_holds_all_files_of_the_package(packages, package, source):
    wheel = packages[package, ".whl"]
    held = zipfile.ZipFile(wheel).namelist()
    tracked = subprocess.run(
        ["git", "ls-files", source],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = {line.removeprefix(f"{source}/") for line in tracked.splitlines()}
    assert expected <= set(held)
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == {
        package
    }
    assert wheel.stat().st_size < 3_000_000
    assert packages[package, ".gz"].stat().st_size < 8_000_000


@pytest.mark.full
@pytest.mark.parametrize("kind", [".whl", ".gz"])
def test_a_package_runs_the_quickstart_in_an_empty_environment(
    kind, packages, tmp_path
):
    """The library alone, which says what `tutelage replicate` needs; then with papers."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "XLA_FLAGS", "VIRTUAL_ENV")
    }
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", packages["tutelage", kind]],
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

    def replicate():
        return subprocess.run(
            [python.with_name("tutelage"), "replicate"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=clean,
        )

    alone = replicate()
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "pip install ./papers" in alone.stderr
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", packages["tutelage_papers", kind]],
        check=True,
        env=clean,
    )
    both = replicate()
    assert both.returncode == 0, both.stderr
    assert "primer-1" in both.stdout
