"""`tutelage sweep` and `tutelage sweep status`, as their user meets them."""

import json

import numpy as np
import pytest
import xarray as xr

import tutelage as tu

FILE = """
measure = ["final_error", "noise_floor"]
rtol = 1e-6
noise = 0.1
[student]
hidden = 1
[teacher]
hidden = 1
[start]
R = [[0.2]]
Q = [[0.3]]
[times]
end = 10
points = 3
[over]
optimizer.lr = [0.3, 9.0]
noise = { from = 0.1, to = 0.4, count = 3, log = true }
"""


@pytest.fixture
def file(folder):
    (folder / "s.toml").write_text(FILE)
    return "s.toml"


def test_a_sweep_into_a_folder_and_its_status(tutelage, file, folder):
    ending = tutelage(
        "sweep", file, "--out", "here", "--executor", "serial", "--plot", "a.png"
    )
    assert ending.code == 0
    for words in (
        "6 points: optimizer.lr (2), noise (3)",
        "final_error:",
        "3 with a note",
        "here/sweep.nc",
        "a.png",
    ):
        assert words in ending.stdout
    data = xr.load_dataset(folder / "here" / "sweep.nc", engine="h5netcdf")
    assert data["noise"].values == pytest.approx([0.1, 0.2, 0.4])
    problem = tu.Problem(tu.Network(1), tu.Network(1), optimizer=tu.SGD(0.3), noise=0.2)
    alone = tu.solve(problem, tu.Start(R=[[0.2]], Q=[[0.3]]), 10.0, rtol=1e-6)
    assert data["final_error"].sel({"optimizer.lr": 0.3}).values[1] == pytest.approx(
        float(alone.error[-1]), rel=1e-5
    )
    assert "unstable" in data["note"].values[1, 0]
    status = tutelage("sweep", "status", "here")
    assert status.code == 0
    assert "6 of 6 points (100 %)" in status.stdout
    answer = json.loads(tutelage("sweep", "status", "here", "--json").stdout)
    assert (answer["points_done"], answer["complete"]) == (6, True)


def test_json_and_resuming(tutelage, file):
    first = json.loads(tutelage("sweep", file, "--executor", "serial", "--json").stdout)
    assert first["folder"] == "output/s"
    assert first["axes"]["optimizer.lr"] == [0.3, 9.0]
    assert first["measures"]["noise_floor"]["missing"] == 3
    assert (first["computed"], first["kept"]) == (1, 0)
    assert set(first["notes"]) == {"3", "4", "5"}
    again = json.loads(tutelage("sweep", file, "--executor", "serial", "--json").stdout)
    assert (again["computed"], again["kept"]) == (0, 1)
    assert again["measures"] == first["measures"]


def test_a_changed_file_is_refused(tutelage, file, folder):
    tutelage("sweep", file, "--out", "here", "--executor", "serial", "--quiet")
    (folder / file).write_text("seed = 3\n" + FILE)
    refused = tutelage("sweep", file, "--out", "here", "--executor", "serial")
    assert (refused.code, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert "differs in seed" in refused.stderr


def test_failed_points_give_exit_code_one(tutelage, folder):
    (folder / "s.toml").write_text(
        FILE.replace("optimizer.lr = [0.3, 9.0]", "student.hidden = [1, 2]")
    )
    ending = tutelage("sweep", "s.toml", "--executor", "serial")
    assert ending.code == 1
    assert "3 failed" in ending.stdout
    assert "points fail" in ending.stderr


BAD = {
    "mesure = ['error']\n" + FILE: "'measure'",
    FILE.replace("noise = {", "nois = {"): "The nearest is 'noise'",
    FILE.replace("count = 3, ", ""): "count",
    FILE.replace("from = 0.1", "from = 0.0"): "positive",
    FILE.replace("count = 3", "count = 1"): "count",
    FILE.replace("[0.3, 9.0]", "0.3"): "list of values",
    FILE.replace("[0.3, 9.0]", "[]"): "at least one",
    FILE.replace('"final_error"', '"finalerror"'): "The nearest is 'final_error'",
    FILE.replace("R = [[0.2]]\n", ""): "lacks R",
    FILE.replace("R = [[0.2]]", "R = [['a']]"): "R",
    FILE.replace("R = [[0.2]]\nQ = [[0.3]]", "scale = -1"): "scale",
    FILE.replace("end = 10", "endd = 10"): "'end'",
    FILE.replace("[teacher]", "[teachers]"): "teacher",
    FILE.replace("rtol = 1e-6", "rtol = 'fine'"): "rtol",
    FILE + "[cluster]\nqueue = ": "not TOML",
    "over = 3\n" + FILE.partition("[over]")[0]: "[over]",
    FILE.partition("[over]")[0]: "neither over nor points",
}


@pytest.mark.parametrize(("text", "words"), BAD.items(), ids=BAD.values())
def test_a_bad_file_gets_one_sentence(tutelage, folder, text, words):
    (folder / "bad.toml").write_text(text)
    ending = tutelage("sweep", "bad.toml", "--out", "here")
    assert (ending.code, ending.stdout) == (2, "")
    assert ending.stderr.count("\n") == 1
    assert words in ending.stderr
    assert not (folder / "here").exists()


LINES = {
    "sweep": "SPEC",
    "sweep missing.toml": "missing.toml",
    "sweep s.toml --executor fast": "'processes'",
    "sweep s.toml --workers 0": "workers",
    "sweep s.toml --plot a.jpg": ".png",
    "sweep s.toml --wrong": "--wrong",
    "sweep status": "FOLDER",
    "sweep status nowhere": "nowhere",
    "sweep status .": "not the folder of a sweep",
}


@pytest.mark.parametrize(("line", "words"), LINES.items(), ids=LINES)
def test_a_bad_command_line_gets_one_sentence(tutelage, file, line, words):
    ending = tutelage(*line.split())
    assert (ending.code, ending.stdout) == (2, "")
    assert ending.stderr.count("\n") == 1
    assert words.lower() in ending.stderr.lower()


def test_points_one_by_one(tutelage, folder):
    (folder / "p.toml").write_text(
        FILE.partition("[over]")[0] + "[[points]]\nlr = 0.3\n[[points]]\nlr = 0.6\n"
    )
    assert (
        tutelage(
            "sweep", "p.toml", "--out", "here", "--executor", "serial", "--quiet"
        ).code
        == 0
    )
    data = xr.load_dataset(folder / "here" / "sweep.nc", engine="h5netcdf")
    assert data["final_error"].dims == ("point",)
    assert data["lr"].values.tolist() == [0.3, 0.6]
    assert np.isfinite(data["final_error"].values).all()


OWN = """
measure = ["tests.sweeps.questions:ratio"]
loss = "tests.problem.own_learning:log_cosh"
[student]
hidden = 1
activation = "linear"
[teacher]
hidden = 1
activation = "linear"
[over]
lr = [0.3]
"""


@pytest.mark.parametrize(
    "allowed", ["tests.sweeps.questions", "tests.problem.own_learning"]
)
def test_functions_need_their_modules_allowed(tutelage, folder, allowed):
    (folder / "s.toml").write_text(OWN)
    ending = tutelage("sweep", "s.toml", "--import", allowed)
    assert (ending.code, ending.stdout) == (2, "")
    other = {
        "tests.sweeps.questions": "own_learning",
        "tests.problem.own_learning": "questions",
    }[allowed]
    assert (
        f"--import tests.{'problem' if other == 'own_learning' else 'sweeps'}.{other}"
        in ending.stderr
    )
    assert not (folder / "output").exists()


def test_a_sweep_over_flips(tutelage, folder):
    (folder / "s.toml").write_text(
        "measure = ['final_error', 'final_loss']\nloss = 'logistic'\nlabels = 'sign'\nrtol = 1e-5\n"
        "[student]\nhidden = 1\nactivation = 'linear'\n[teacher]\nhidden = 1\nactivation = 'linear'\n"
        "[start]\nR = [[0.2]]\nQ = [[0.3]]\n[times]\nend = 1\npoints = 2\n[over]\nflip = [0.1, 0.3]\n"
    )
    assert (
        tutelage(
            "sweep", "s.toml", "--out", "here", "--executor", "serial", "--quiet"
        ).code
        == 0
    )
    data = xr.load_dataset(folder / "here" / "sweep.nc", engine="h5netcdf")
    assert data.final_error.long_name == "probability of a wrong class at the end"
    one = tu.Network(1, "linear")
    for flip in (0.1, 0.3):
        problem = tu.Problem(one, one, loss="logistic", labels=tu.labels.Sign(flip))
        alone = tu.solve(problem, tu.Start(R=[[0.2]], Q=[[0.3]]), [0.0, 1.0], rtol=1e-5)
        assert float(data.final_loss.sel(flip=flip)) == pytest.approx(
            float(alone.loss[-1]), rel=1e-4
        )
        assert float(data.final_error.sel(flip=flip)) == pytest.approx(
            float(alone.error[-1]), rel=1e-4
        )
