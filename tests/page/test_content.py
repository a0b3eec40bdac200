"""What the page is made of:

data of a stated schema, in one text that nothing in the data can break.
"""

import dataclasses
import json
import re

import equinox as eqx
import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair
from tutelage import InputError
from tutelage.page.document import (
    MOST_FRAMES,
    MOST_NUMBERS,
    _frames,
    page_of,
    trajectory_content,
)

SCHEMA = {
    *("title", "conditions", "note", "warning", "time_name", "error_name", "log_time"),
    *("log_error", "times", "error", "phases", "maps"),
    *("frames", "runs", "band", "escape", "code"),
}


def data_of(text):
    return json.loads(
        re.search(
            r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL
        )[1]
    )


def test_schema(theory):
    content = trajectory_content(theory)
    assert content.keys() == SCHEMA
    assert len(content["times"]) == len(content["error"]) == 151
    assert content["title"] == "2 erf units learn from 2 erf units"
    assert [m["name"] for m in content["maps"]] == ["R", "Q"]
    for m in content["maps"]:
        assert np.shape(m["values"]) == (
            151,
            len(m["rows"]["labels"]),
            len(m["columns"]["labels"]),
        )
        assert np.max(np.abs(m["values"])) <= m["bound"] * 1.01
    names = [p["name"] for p in content["phases"]]
    assert names == ["search", "symmetric plateau", "specialization", "convergence"]
    assert [p["start"] for p in content["phases"][1:]] == [
        p["end"] for p in content["phases"][:-1]
    ]
    assert "symmetric plateau from" in page_of(content)


def test_numbers_are_those_of_the_trajectory(theory):
    content = trajectory_content(theory)
    np.testing.assert_allclose(content["error"], theory.error, rtol=1e-5)
    R, Q = (np.array(m["values"]) for m in content["maps"])
    np.testing.assert_allclose(R, theory.R[:, [1, 0]], rtol=1e-5)
    np.testing.assert_allclose(Q, theory.Q[:, [1, 0]][:, :, [1, 0]], rtol=1e-5)


def test_students_stand_beside_their_teachers(theory):
    content = trajectory_content(theory)
    R = content["maps"][0]
    assert R["rows"] == {"name": "student", "labels": ["2", "1"]}
    assert R["columns"] == {"name": "teacher", "labels": ["1", "2"]}
    assert np.argmax(R["values"][-1], axis=1).tolist() == [0, 1]
    assert "order of the teacher units" in content["note"]


def test_what_is_trained_is_shown_and_what_is_not_is_not(theory):
    moving = np.stack([np.ones(151), np.linspace(1.0, 2.0, 151)], axis=1)
    trained = eqx.tree_at(lambda t: t.variables["readout"], theory, moving)
    maps = trajectory_content(trained)["maps"]
    assert [m["name"] for m in maps] == ["R", "Q", "v"]
    assert maps[2]["values"][-1] == [[2.0], [1.0]]


def test_a_run_is_chosen():
    start = tu.Start(R=[[0.5, 0.1], [0.0, 0.4]], Q=[[0.5, 0.1], [0.1, 0.4]])
    runs = tu.simulate(
        pair(2, 2), start, dim=100, times=tu.linear_times(20.0, 41), runs=3, seed=1
    )
    with pytest.raises(InputError, match=r"3 runs; the page shows one curve.*run=0"):
        tu.page.trajectory_page(runs)
    content = trajectory_content(runs, run=2)
    np.testing.assert_allclose(content["error"], runs.error[2], rtol=1e-5)
    assert content["conditions"].endswith("run 2")


def test_long_records_are_thinned_evenly():
    frames = _frames(5000, 8)
    assert (frames[0], frames[-1], frames.size) == (0, 4999, MOST_FRAMES)
    assert set(np.diff(frames)) == {4, 5} or set(np.diff(frames)) == {5}
    assert _frames(151, 8).tolist() == list(range(151))
    assert _frames(1001, 2 * 30**2).size * 2 * 30**2 <= MOST_NUMBERS
    with pytest.raises(InputError, match=r"20000 overlaps; a page shows at most 7500"):
        _frames(1001, 20_000)


def test_one_page_that_nothing_in_its_data_breaks(theory):
    title = 'a </script><script>alert("x")</script> & <b>'
    text = tu.page.trajectory_page(theory, title)
    assert data_of(text)["title"] == title
    assert "<script>alert" not in text
    assert len(text.encode()) < 3_000_000
    assert not re.search(r'(src|href)="(?!data:)', text.split("<script>")[0])
    assert "Content-Security-Policy" in text.split("<title>")[0]


def test_saved_whole(theory, tmp_path):
    path = tu.page.trajectory_page(theory, title="A curve").save(tmp_path / "a.html")
    assert path == tmp_path / "a.html"
    assert path.read_text(encoding="utf-8") == tu.page.trajectory_page(
        theory, "A curve"
    )
    with pytest.raises(InputError, match=r"a.png is HTML; its name must end in .html"):
        tu.page.trajectory_page(theory).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="does not exist"):
        tu.page.trajectory_page(theory).save(tmp_path / "nowhere" / "a.html")


def test_a_curve_that_diverged_says_so(theory):
    codes = np.asarray(tu.errors.Status.DIVERGED), np.asarray(300.0)
    content = trajectory_content(
        eqx.tree_at(lambda t: (t.status_code, t.end_time), theory, codes)
    )
    assert content["warning"].startswith("The solve diverged at alpha = 300")
    json.dumps(content, allow_nan=False)


def test_what_has_no_overlaps_is_refused(theory):
    own = dataclasses.replace(theory, kind="equations")
    with pytest.raises(InputError, match=r"overlaps R and Q.*plot_trajectory"):
        tu.page.trajectory_page(own)
    with pytest.raises(
        InputError, match="of type str; give what solve or simulate returned"
    ):
        tu.page.trajectory_page("theory.nc")


def tasks_at(similarity, schedule=None):
    tasks = tu.Tasks(
        [tu.Network(1, "erf")] * 2, schedule or tu.Switch(10.0), similarity=similarity
    )
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=1.0)
    )
    start = tu.Start(
        R=[[0.05, 0.02], [-0.01, 0.03]],
        Q=[[0.3, 0.02], [0.02, 0.2]],
        readout=[[0.3, 0.1], [0.2, -0.1]],
    )
    return tu.solve(problem, start, tu.linear_times(20.0, 21))


def test_several_tasks_have_a_curve_each_and_the_phases_of_their_schedule():
    theory = tasks_at(0.5)
    content = trajectory_content(theory)
    assert content.keys() == SCHEMA | {"tasks"}
    assert [task["name"] for task in content["tasks"]] == ["task 1", "task 2"]
    np.testing.assert_allclose(
        np.transpose([task["error"] for task in content["tasks"]]),
        theory.error,
        rtol=1e-5,
    )
    assert content["error"] == content["tasks"][0]["error"]
    assert [(p["name"], p["start"], p["end"]) for p in content["phases"]] == [
        ("task 1", 0.0, 10.0),
        ("task 2", 10.0, 20.0),
    ]
    R, _, v = content["maps"]
    assert R["columns"] == {"name": "task", "labels": ["1", "2"]}
    np.testing.assert_allclose(
        np.swapaxes(v["values"], 1, 2), theory.readout, rtol=1e-5
    )
    mixed = trajectory_content(tasks_at(0.5, tu.Interleave([0.25, 0.75])))
    assert [p["name"] for p in mixed["phases"]] == ["25% task 1 + 75% task 2"]


def test_trajectories_that_differ_in_one_number():
    curves = [tasks_at(V) for V in (0.0, 0.5)]
    data = data_of(tu.page.trajectory_page(curves, over={"similarity": [0.0, 0.5]}))
    assert data["variants"]["labels"] == ["0", "0.5"]
    second = data["variants"]["list"][1]
    np.testing.assert_allclose(
        second["tasks"][1]["error"], curves[1].error[:, 1], rtol=1e-5
    )
    assert "similarity 0.5" in second["conditions"]
    for over, message in (
        (None, "name the one number"),
        ({"V": [0.0]}, "1 values of V for 2 trajectories"),
        ({"a": [1], "b": [2]}, "name the one number"),
    ):
        with pytest.raises(InputError, match=message):
            tu.page.trajectory_page(curves, over=over)
