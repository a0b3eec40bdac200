"""Numbers and files that no machine can serve:

one message and exit code 2, before anything is allocated.
"""

import pytest

import tutelage as tu
from tests.problem.messages import require_refusal

TWO = "[student]\nhidden = 2\n[teacher]\nhidden = 2\n"
DEEP = 100_000
LINES = {
    "-K 100000": "hidden",
    "-M 1000000000": "hidden",
    "-K 10000 -M 10000 --beta 1 --levels 1000": "GiB",
    "--points 100000000": "points",
    "--beta 1 --levels 1000000000": "levels",
    "--points 9000000 -K 400 -M 400": "GiB",
    "--dim 100000000000000000000000": "dim",
    "--seed 99999999999999999999999": "seed",
}
FILES = {
    "[student]\nhidden = 1000000000\n[teacher]\nhidden = 2\n": "hidden",
    TWO + "[inputs]\nkind = 'power_law'\nbeta = 1.0\nlevels = 1000000000\n": "levels",
    TWO + "[times]\npoints = 1000000000\n": "points",
    "noise = " + "[" * DEEP + "]" * DEEP + "\n" + TWO: "nested",
    "noise = " + "[" * 50 + "]" * 50 + "\n" + TWO: "noise",
    "a" + ".a" * 2000 + " = 1\n" + TWO: "",
    TWO + "[optimizer]\nlr = " + "{ a = " * 3000 + "1" + " }" * 3000 + "\n": "",
    "noise = " + "9" * 5000 + "\n" + TWO: "digits",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("command", ["solve", "simulate"])
def test_a_huge_flag(tutelage, folder, command, line):
    check(tutelage(command, *line.split()), folder, LINES[line])


@pytest.mark.parametrize("text", FILES, ids=lambda text: text[:30])
def test_a_huge_file(tutelage, folder, text):
    (folder / "p.toml").write_text(text)
    check(tutelage("solve", "p.toml"), folder, FILES[text], "p.toml")


def test_many_runs_are_too_many_records(tutelage, folder):
    check(tutelage("simulate", "--runs", "1000000000", "--long"), folder, "GiB")


def test_a_huge_batch(tutelage, folder):
    check(tutelage("simulate", "--batch", "1000000000000", "--long"), folder, "batch")


def check(ending, folder, words, *files):
    assert (ending.code, ending.stdout) == (2, "")
    assert ending.stderr.count("\n") == 1
    assert ending.stderr.startswith("error: ")
    assert words in ending.stderr
    assert len(ending.stderr) < 500
    assert sorted(path.name for path in folder.iterdir()) == list(files)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (tu.Problem.from_json, "[" * DEEP + "]" * DEEP),
        (tu.Problem.from_json, '{"noise": ' + "9" * 5000 + "}"),
        (tu.Problem.from_toml, "noise = " + "[" * DEEP + "]" * DEEP),
        (tu.Problem.from_toml, "noise = " + "9" * 5000),
    ],
    ids=["deep JSON", "long JSON", "deep TOML", "long TOML"],
)
def test_a_huge_text(read, text):
    with pytest.raises(tu.InputError) as caught:
        read(text)
    require_refusal(caught.value)
