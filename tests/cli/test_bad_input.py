"""Whatever is wrong with the input:

exit code 2, one sentence on stderr, nothing on stdout, nothing written.
"""

import pytest

TWO = "[student]\nhidden = 2\n[teacher]\nhidden = 2\n"
FILES = {
    "a = \n": "line 1",
    TWO + "[optimizer]\nlr = \n": "line 6",
    "studnet = 3\n" + TWO: "student",
    "student = 3\n": "[student]",
    "noise = 1\n": "[student]",
    "noise = 'loud'\n" + TWO: "noise",
    "noise = 1979-05-27\n" + TWO: "noise",
    "[student]\nhiden = 2\n[teacher]\nhidden = 2\n": "'hidden'",
    "[student]\nhidden = 2\nactivation = 5\n[teacher]\nhidden = 2\n": "activation",
    TWO + "[inputs]\nkind = [1]\n": "kind",
    TWO + "[optimizer]\nlr = { kind = 'cosin', initial = 1 }\n": "'cosine'",
    TWO + "[start]\ndimm = 3\n": "'dim'",
    TWO + "[start]\nR = [[0, 0], [0, 0]]\n": "Q",
    TWO + "[start]\nR = [[0, 0], [0]]\nQ = [[1, 0], [0, 1]]\n": "R",
    TWO + "[start]\nR = [[5, 0], [0, 0]]\nQ = [[1, 0], [0, 1]]\n": "eigenvalue",
    TWO + "[start]\nR = [[0, 0], [0, 0]]\nQ = [[1, 0], [0, 1]]\nseed = 3\n": "seed",
    TWO + "[start]\nseed = 1.5\n": "seed",
    "start = 3\n" + TWO: "[start]",
    TWO + "[times]\nendd = 3\n": "'end'",
    "loss = 'logistc'\n" + TWO: "'logistic'",
    "labels = { kind = 'sign', flip = 2 }\n" + TWO: "probability",
    "loss = 'os:system'\n" + TWO: "--import os",
    TWO + "[optimizer]\nlr = 'os:system'\n": "--import os",
    TWO + "[times]\nend = 'late'\n": "last time",
    TWO + "[times]\nlog = 3\n": "log",
    TWO + "[times]\npoints = 1.5\n": "points",
}
LINES = {
    "sove": "solve",
    "solve missing.toml": "missing.toml",
    "solve .": "Is a directory",
    "solve a.toml b.toml": "b.toml",
    "solve --lrr 1": "Did you mean --lr?",
    "solve --learning-rate 1": "Did you mean --lr?",
    "compare --end=3": "Did you mean --times?",
    "simulate --solver stiff": "tutelage simulate has no option --solver.",
    "sweep stats x": "unexpected argument 'x'; see 'tutelage sweep --help'.",
    "sweep --out": "--out",
    "solve --lr": "--lr",
    "solve --lr fast": "fast",
    "solve --lr 0": "positive",
    "solve --lr nan": "nan",
    "solve --noise -1": "noise",
    "solve --loss logistc": "'logistic'",
    "solve --loss logistic": "labels='sign'",
    "solve --labels sgn": "'sign'",
    "solve --rule perceptron": "labels='sign'",
    "solve --flip 1.5": "probability",
    "solve --flip 0.1 --labels logistic": "--flip",
    "solve --loss os:system": "--import os",
    "solve --loss no_module:f --import no_module": "no_module",
    "simulate --loss os:system": "--import os",
    "compare --labels os:system": "--import os",
    "solve --batch 0": "batch",
    "solve --weight-decay -1": "weight_decay",
    "solve -K 0": "hidden units",
    "solve -K 1.5": "1.5",
    "solve --outputs 0": "outputs",
    "solve --outputs 3 -K 4": "give readout of shape (3, 4)",
    "solve --outputs 2 -K 2": "give readout of shape (2, 3)",
    "solve --labels argmax --loss cross_entropy": "one output",
    "solve --activation erff": "'erf'",
    "solve --activation sign": "sign",
    "solve --beta 1": "[inputs] lacks levels",
    "solve --levels 3": "[inputs] lacks beta",
    "solve --beta 1 --levels 20 --dim 10": "20",
    "solve --dim 0": "dim",
    "solve --seed -1": "seed",
    "solve --scale -1": "scale",
    "solve --times 0": "last time",
    "solve --times inf": "last time",
    "solve --points 1": "points",
    "solve --points 2 --log-times": "points",
    "solve --solver fast": "explicit",
    "solve --rtol 0": "rtol",
    "solve --out x.png": ".nc",
    "solve --plot x.jpg": ".png",
    "solve --plot x": ".png",
    "solve --out absent/x.nc": "absent",
    "solve --plot absent/x.png": "absent",
    "solve --plot taken.png": "folder",
    "solve --out taken.nc": "folder",
    "solve --out /proc/x.nc": "/proc cannot be written",
}


def check(tutelage, folder, argv, words):
    outputs = [
        part
        for name, value in (("--out", "no.nc"), ("--plot", "no.png"))
        if name not in argv
        for part in (name, value)
    ]
    before = sorted(folder.rglob("*"))
    ending = tutelage(
        *argv, *(outputs if argv[0] == "solve" and argv[-1] != "--lr" else ())
    )
    assert (ending.code, ending.stdout) == (2, "")
    assert ending.stderr.startswith("error: ")
    assert ending.stderr.count("\n") == 1
    assert words in ending.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("text", "words"), FILES.items())
def test_bad_file(tutelage, folder, text, words):
    (folder / "p.toml").write_text(text)
    check(tutelage, folder, ["solve", "p.toml"], words)


@pytest.mark.parametrize(("line", "words"), LINES.items())
def test_bad_flag(tutelage, folder, line, words):
    (folder / "taken.png").mkdir()
    (folder / "taken.nc").mkdir()
    check(tutelage, folder, line.split(), words)


def test_file_that_is_not_text(tutelage, folder):
    (folder / "p.toml").write_bytes(b"\xff\xfe\x00")
    check(tutelage, folder, ["solve", "p.toml"], "not a text file")


def test_disk_that_fills_up_meanwhile(tutelage, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "x.png")

    monkeypatch.setattr("tutelage.plot.save_figure", full)
    ending = tutelage(
        "solve",
        "-K",
        "2",
        "-M",
        "2",
        "--times",
        "5",
        "--points",
        "11",
        "--quiet",
        "--plot",
        "x.png",
    )
    said = "error: x.png cannot be written: No space left on device. Fix that, or give another place.\n"
    assert (ending.code, ending.stderr) == (2, said)
