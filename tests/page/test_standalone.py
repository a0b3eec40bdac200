"""The page that solves by itself, in a real browser without a network:

its numbers are those of `solve`, and it is usable.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import tutelage as tu
from tests.page.test_page import opened, wait_until
from tutelage import InputError
from tutelage.page.presets import LOCAL_CONTROLS, PRESETS, is_local
from tutelage.page.settings import Settings

# (activation, K, units of each task, levels, readout is trained, feedback alignment)
SHAPES = [
    ("erf", 3, (3,), 1, False, False),
    ("erf", 2, (3,), 16, True, False),
    ("erf", 6, (6,), 1, False, False),
    ("erf", 2, (1, 1), 1, True, False),
    ("erf", 3, (2,), 1, True, True),
    ("linear", 3, (2,), 4, True, False),
    ("quadratic", 2, (3,), 1, True, False),
    ("quadratic", 2, (1, 2), 2, False, False),
]
EACH = 5
SETTLED = "tutelageExplorer.settled()"


def random_problem(shape, seed):
    """A problem with generic overlaps, readouts and rates:

    as tutelage has it, and as theory.js has it.
    """
    rng = np.random.default_rng(seed)
    activation, K, units, L, trained, aligned = shape
    n = K + sum(units)
    M = sum(units)
    inputs = (
        tu.Isotropic()
        if L == 1
        else tu.Spectrum(rng.uniform(0.3, 3.0, L), rng.dirichlet(np.full(L, 5.0)))
    )
    vectors = rng.standard_normal((L, n, 3 * n)) / np.sqrt(3 * n)
    vectors[:, :K] *= 0.6
    gram = vectors @ np.swapaxes(vectors, 1, 2)
    r = gram[:, :K, K:]
    q = gram[:, :K, :K]
    t = gram[:, K:, K:]
    v = rng.uniform(0.5, 1.5, (len(units), K))
    v_teacher = rng.uniform(0.5, 1.5, M)
    lr = rng.uniform(0.1, 0.6) * (0.1 if activation == "quadratic" else 1.0)
    noise = rng.uniform(0.0, 0.5)
    batch = int(rng.integers(1, 5))
    decay = rng.uniform(0.0, 0.03)
    feedback = rng.uniform(0.5, 1.5, K)
    parts = np.split(v_teacher, np.cumsum(units)[:-1])
    teachers = [tu.Network(len(part), activation, readout=part) for part in parts]
    problem = tu.Problem(
        tu.Network(K, activation, train_readout=trained),
        teachers[0] if len(units) == 1 else tu.Tasks(teachers, tu.Switch(8.3)),
        rule=tu.rules.FeedbackAlignment(feedback) if aligned else "gradient",
        inputs=inputs,
        optimizer=tu.SGD(lr, batch=batch, weight_decay=decay),
        noise=noise,
    )
    one = (lambda x: x[0]) if L == 1 else (lambda x: x)
    start = tu.Start(
        R=one(r), Q=one(q), T=one(t), readout=v[0] if len(units) == 1 else v
    )
    plain = {
        "activation": activation,
        "K": K,
        "units": units,
        "lam": inputs.eigenvalues.tolist(),
        "fractions": inputs.fractions.tolist(),
        **{
            "lr": lr,
            "noise": noise,
            "batch": batch,
            "decay": decay,
            "trainReadout": trained,
            "switchAt": 8.3,
        },
        "vTeacher": v_teacher.tolist(),
        "feedback": feedback.tolist() if aligned else None,
    }
    first = {
        name: x.ravel().tolist() for name, x in {"r": r, "q": q, "t": t, "v": v}.items()
    }
    return problem, start, {"problem": plain, "start": first}


SOLVE = """cases => {
  const { tables: { method } } = JSON.parse(document.getElementById("data").textContent);
  return cases.map(({ problem, start, times }) => {
    const found = tutelageTheory.solve(problem, start, times, method);
    for (const name of ["R", "Q", "v"]) found[name] = found[name].map((x) => [...x]);
    return found;
  });
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tu.page.standalone().save(
        tmp_path_factory.mktemp("standalone") / "explorer.html"
    )


@pytest.fixture
def page(browser, file):
    with opened(browser, file, reduced_motion="reduce") as page:
        wait_until(page, SETTLED)
        yield page
        assert page.heard == [file.as_uri()], (
            "only the page itself is asked for, and nothing is complained about"
        )


def test_forty_random_problems_are_solved_as_by_solve(page):
    times = tu.linear_times(20.0, 41)
    made = [
        random_problem(shape, 100 * i + j)
        for i, shape in enumerate(SHAPES)
        for j in range(EACH)
    ]
    answers = page.evaluate(
        SOLVE, [plain | {"times": times.tolist()} for *_, plain in made]
    )
    assert len(answers) == 40
    for (problem, start, _), found in zip(made, answers, strict=True):
        theory = tu.solve(problem, start, times)
        assert found["finished"]
        for name, value in {
            "R": theory.R,
            "Q": theory.Q,
            "v": theory.readout,
            "error": theory.error,
        }.items():
            np.testing.assert_allclose(
                found[name],
                np.reshape(value, (times.size, -1)),
                rtol=0,
                atol=1e-6,
                err_msg=name,
            )


def test_a_wrong_formula_would_be_noticed(page):
    """A negative control: a label noise that is off by a thousandth."""
    problem, start, plain = random_problem(SHAPES[0], 7)
    times = tu.linear_times(20.0, 41)
    plain["problem"]["noise"] *= 1.001
    (found,) = page.evaluate(SOLVE, [plain | {"times": times.tolist()}])
    assert (
        np.max(np.abs(np.ravel(found["error"]) - tu.solve(problem, start, times).error))
        > 1e-6
    )


def test_an_error_near_perfect_learning_keeps_its_digits(page):
    """Where the error is a difference of equal numbers:

    1e-13, next to numbers of order one.
    """
    plain = {
        "K": 2,
        "units": [2],
        "lam": [1.0],
        "fractions": [1.0],
        "lr": 0.0,
        "noise": 0.0,
        "batch": 1,
        "decay": 0.0,
    }
    plain |= {
        "activation": "erf",
        "trainReadout": False,
        "switchAt": 0,
        "vTeacher": [1.0, 1.0],
        "feedback": None,
    }
    small = 1e-6
    R = np.array([[0.0, 1 - small], [1.0, 0.0]])
    Q = np.diag([(1 - small) ** 2, 1.0])
    start = {
        "r": R.ravel().tolist(),
        "q": Q.ravel().tolist(),
        "t": [1.0, 0.0, 0.0, 1.0],
        "v": [1.0, 1.0],
    }
    (found,) = page.evaluate(
        SOLVE, [{"problem": plain, "start": start, "times": [0.0, 1.0]}]
    )
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )
    assert found["error"][0][0] == pytest.approx(
        float(tu.generalization_error(problem, R, Q)), rel=1e-6
    )
    assert 1e-14 < found["error"][0][0] < 1e-12


CONTENT = """cases => {
  const { tables } = JSON.parse(document.getElementById("data").textContent);
  return cases.map((settings) => tutelageLocal(tables).content(settings));
}"""
CHOSEN = [
    {"students": 2, "teachers": 2, "seed": 3},
    {"lr": 1.1, "seed": 12, "end": 100.0},
    {"students": 4, "teachers": 2, "noise": 0.4, "start": "asymmetric", "dim": 77},
    {"activation": "linear", "lr": 5.0, "end": 100.0},
    {"activation": "linear", "teachers": 2, "log_time": True, "decay": 0.02},
    {"spectrum": "digits", "students": 2, "teachers": 2, "end": 50.0, "seed": 5},
    {"activation": "quadratic", "lr": 0.05, "students": 2, "teachers": 2, "end": 60.0},
    {"students": 1, "teachers": 1, "train_readout": True, "readout": 0.3},
    {
        "tasks": "two",
        "students": 3,
        "teachers": 2,
        "similarity": -0.4,
        "switch": 50.0,
        "train_readout": True,
    },
    *(
        preset.settings
        for preset in PRESETS
        if is_local(Settings.read(preset.settings)) and preset.words
    ),
]


FEW_CHOSEN = [
    CHOSEN[0],
    CHOSEN[3],
    CHOSEN[5],
    {"students": 2, "teachers": 1, "tasks": "two", "train_readout": True, "end": 200.0},
]


@pytest.mark.filterwarnings("ignore::tutelage.errors.DivergenceWarning")
@pytest.mark.parametrize(
    "given",
    [FEW_CHOSEN, pytest.param(CHOSEN, marks=pytest.mark.full)],
    ids=["some", "all"],
)
def test_curve_maps_and_phases_of_settings_are_those_of_the_library(page, given):
    """Also that a seed draws the same random weights here and there."""
    from tutelage.explorer.answer import theory_of
    from tutelage.page.document import trajectory_content

    chosen = [Settings.read(values) for values in given]
    found = page.evaluate(CONTENT, [dict(settings.values) for settings in chosen])
    for settings, data in zip(chosen, found, strict=True):
        expected = trajectory_content(theory_of(settings))
        assert data.keys() == expected.keys()
        for name in (
            "title",
            "conditions",
            "note",
            "log_time",
            "log_error",
            "frames",
            "time_name",
            "error_name",
        ):
            assert data[name] == expected[name], (settings.changed(), name)
        assert data["warning"][:20] == expected["warning"][:20]
        if data["warning"]:  # where it ends depends on the last step
            assert data["times"][-1] == pytest.approx(expected["times"][-1], rel=0.05)
            at_ours = np.interp(expected["times"], data["times"], np.log(data["error"]))
            np.testing.assert_allclose(
                at_ours[:150], np.log(expected["error"][:150]), atol=1e-3
            )
        else:
            same = {"rtol": 2e-5, "atol": 1e-6}
            np.testing.assert_allclose(data["times"], expected["times"], rtol=1e-5)
            np.testing.assert_allclose(data["error"], expected["error"], **same)
            for ours, theirs in zip(data["maps"], expected["maps"], strict=True):
                assert {**ours, "values": 0, "bound": 0} == {
                    **theirs,
                    "values": 0,
                    "bound": 0,
                }
                assert ours["bound"] == pytest.approx(theirs["bound"], rel=2e-3)
                np.testing.assert_allclose(ours["values"], theirs["values"], **same)
        assert [p["name"] for p in data["phases"]] == [
            p["name"] for p in expected["phases"]
        ], settings.changed()
        assert [p["color"] for p in data["phases"]] == [
            p["color"] for p in expected["phases"]
        ]
        spacing = (
            data["times"][-1] / 200
            if not data["log_time"]
            else 0.05 * data["times"][-1]
        )
        np.testing.assert_allclose(
            [p["start"] for p in data["phases"]],
            [p["start"] for p in expected["phases"]],
            atol=spacing,
        )


def test_the_script_describes_the_settings(page):
    """code.js is the one place that writes Python, for pages with and without a server."""
    given = [
        *CHOSEN,
        {
            "spectrum": "power law",
            "levels": 4,
            "beta": 0.5,
            "log_time": True,
            "batch": 4,
            "decay": 0.01,
        },
        {"rule": "dropout", "keep": 0.7, "train_readout": True, "readout": -0.5},
        {"loss": "logistic", "labels": "sign", "activation": "relu", "runs": 0},
        {"spectrum": "two clusters", "distance": 1.5, "loss": "hinge", "noise": 0.3},
        {"spectrum": "XOR", "distance": 2.5, "activation": "relu"},
    ]
    chosen = [Settings.read(settings) for settings in given]
    texts = page.evaluate(
        "cases => cases.map(tutelageExplorer.script)",
        [dict(s.values) for s in chosen],
    )
    for settings, text in zip(chosen, texts, strict=True):
        scope = {}
        exec(
            "\n".join(
                line
                for line in text.splitlines()
                if not line.startswith(("theory", "runs", "print"))
            ),
            scope,
        )
        expected = settings.problem()
        assert scope["problem"].to_dict() == expected.to_dict(), text
        np.testing.assert_allclose(scope["times"], settings.times(), rtol=1e-12)
        for a, b in zip(
            scope["start"].blocks(expected),
            settings.first(expected).blocks(expected),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.full
def test_the_script_runs(page, capsys):
    chosen = Settings.read(
        {
            "students": 2,
            "teachers": 2,
            "end": 5.0,
            "dim": 50,
            "start": "asymmetric",
            "runs": 4,
        }
    )
    exec(page.evaluate("tutelageExplorer.script", dict(chosen.values)), {})
    assert "agree" in capsys.readouterr().out


def test_a_slider_moves_the_curve_at_once(page):
    """Far below a second even where the machine is busy; benchmarks/explorer.py measures it."""
    taken = page.evaluate(
        """async () => {
          const slider = document.getElementById("slider-lr");
          const began = performance.now();
          slider.value = Number(slider.value) + 20;
          slider.dispatchEvent(new Event("input", { bubbles: true }));
          while (!tutelageExplorer.settled()) await new Promise((resolve) => setTimeout(resolve, 1));
          return performance.now() - began;
        }"""
    )
    assert taken < 1000
    drawn = page.evaluate("document.getElementById('curve').data[0].y.at(-1)")
    settings = Settings.read({"lr": page.evaluate("tutelageExplorer.values().lr")})
    problem = settings.problem()
    assert drawn == pytest.approx(
        float(tu.solve(problem, settings.first(problem), settings.times()).error[-1]),
        rel=1e-5,
    )
    assert f"lr={settings['lr']}" in page.url.split("#")[1]


def test_curves_are_pinned_and_named_by_what_differs(page):
    page.click("#pin")
    page.evaluate("tutelageExplorer.change({lr: 0.8, noise: 0.1})")
    wait_until(page, SETTLED)
    page.click("#pin")
    page.evaluate("tutelageExplorer.change({lr: 0.8, noise: 0.2})")
    wait_until(page, SETTLED)
    names = [
        "learning rate η 0.5, label noise σ 0",
        "learning rate η 0.8, label noise σ 0.1",
    ]
    assert [
        item.removesuffix(" ✕") for item in page.locator("#pins li").all_inner_texts()
    ] == names
    traces = "document.getElementById('curve').data.filter((t) => t.line?.dash === 'dash').map((t) => t.name)"
    assert page.evaluate(traces) == names
    page.locator("#pins button").first.click()
    assert page.evaluate(traces) == ["label noise σ 0.1"]
    for _ in range(8):
        page.locator("#pin").evaluate("(button) => button.click()")
    assert page.locator("#pins li").count() == 6
    assert page.locator("#pin").is_disabled()


def test_presets_guide(page):
    for preset in PRESETS:
        if not is_local(Settings.read(preset.settings)):
            assert page.locator(f'#preset option[value="{preset.name}"]').count() == 0
            continue
        page.select_option("#preset", preset.name)
        wait_until(page, SETTLED)
        assert page.inner_text("#story") == preset.words
        assert page.inner_text("#seen").endswith(".")
        assert page.inner_text("#state") == ""


TITLES = {
    path.stem: path.read_text(encoding="utf-8").splitlines()[0]
    for path in Path("docs/learn").glob("*.md")
}
EQUATIONS = """cases => cases.map((settings) => {
  const place = document.createElement("div");
  tutelageFormulas.show(place, settings);
  return { text: [...place.querySelectorAll("math")].map((math) => math.textContent), chapter: tutelageFormulas.chapter(settings) };
})"""


def test_the_equations_follow_the_settings(page):
    shapes = [
        {"activation": name}
        for name in ("erf", "relu", "linear", "quadratic", "tanh", "gelu")
    ]
    more = [
        {"spectrum": "power law", "decay": 0.1, "batch": 4, "train_readout": True},
        {"rule": "feedback alignment"},
        {"rule": "dropout"},
        {"loss": "logistic", "labels": "sign"},
        {"spectrum": "XOR"},
        {"tasks": "two"},
        {"noise": 0.1},
        {"train_readout": True},
        {"students": 2},
    ]
    found = page.evaluate(
        EQUATIONS, [dict(Settings.read(given).values) for given in shapes + more]
    )
    joined = [" ".join(each["text"]) for each in found]
    assert all("undefined" not in text and text.count("dα") >= 2 for text in joined)
    assert "(1+Ckk)(1+Caa)" in joined[0]
    assert "arcsin" in joined[1]
    assert "Jka=4Cka" in joined[3]
    assert "η2bλlG" in joined[6]  # (eta^2 / b) lam_l G
    assert "−ηκrl" in joined[6]
    assert "Akj=fk" in joined[7]
    assert "P(sign" in joined[9]
    files = {each["chapter"]["file"]: each["chapter"]["title"] for each in found}
    assert len(files) == 9
    assert all(TITLES[Path(file).stem].endswith(title) for file, title in files.items())
    assert page.locator("#formulas math").count() > 5
    page.evaluate("tutelageExplorer.change({tasks: 'two'})")
    wait_until(page, SETTLED)
    assert "Continual learning" in page.inner_text("#chapter")


def saved(page, button, path):
    with page.expect_download() as download:
        page.click(button)
    download.value.save_as(path)
    return path


def test_notebook_and_page_of_these_settings_are_kept(page, browser, tmp_path):
    page.evaluate(
        "tutelageExplorer.change({lr: 0.8, students: 2, teachers: 2, start: 'asymmetric', end: 40})"
    )
    wait_until(page, SETTLED)
    notebook = json.loads(
        saved(page, "#notebook", tmp_path / "problem.ipynb").read_text(encoding="utf-8")
    )
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (
        4,
        6,
    )
    code = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    scope = {}
    exec(code[0], scope)
    assert (
        scope["problem"].to_dict()
        == Settings.read({"lr": 0.8, "students": 2, "teachers": 2}).problem().to_dict()
    )
    assert "tu.solve(problem, start, times)" in code[1]
    assert "tu.compare(theory, runs)" in code[2]
    drawn = page.evaluate("document.getElementById('curve').data[0].y")
    kept = saved(page, "#itself", tmp_path / "again.html")
    with opened(browser, kept, reduced_motion="reduce") as again:
        wait_until(again, SETTLED)
        assert again.evaluate("tutelageExplorer.values()") == page.evaluate(
            "tutelageExplorer.values()"
        )
        assert again.evaluate("document.getElementById('curve').data[0].y") == drawn
        assert again.heard == [kept.as_uri()]
    assert kept.stat().st_size < 2_500_000
    page.heard[1:] = [
        heard for heard in page.heard[1:] if not heard.startswith("blob:")
    ]


def test_a_given_start_is_in_the_script(browser, tmp_path):
    for problem in (
        tu.Problem(tu.Network(2), tu.Network(3), inputs=tu.PowerLaw(1.0, 2)),
        tu.Problem(tu.Network(1), tu.Network(1)),
    ):
        start = tu.random_start(problem, dim=60, scale=0.5, seed=4)
        file = tu.page.standalone(problem, start, 25.0).save(tmp_path / "given.html")
        with opened(browser, file, reduced_motion="reduce") as page:
            wait_until(page, SETTLED)
            scope = {}
            exec(
                page.evaluate(
                    "tutelageExplorer.script(tutelageExplorer.values())"
                ).split("theory =")[0],
                scope,
            )
            drawn = page.evaluate("document.getElementById('curve').data[0].y")
        for a, b in zip(
            scope["start"].blocks(problem), start.blocks(problem), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        np.testing.assert_allclose(
            drawn, tu.solve(problem, start, tu.linear_times(25.0)).error, rtol=1e-4
        )


MARKER = """() => {
  const center = (element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  };
  return center(document.querySelector("#curve .points path"));
}"""
PLAYED = """() => new Promise((resolve) => {
  tutelagePage.setTime(60);
  tutelagePage.play();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const { x, y, width, height } = document.querySelector("#playhead circle").getBoundingClientRect();
    tutelagePage.pause();
    resolve([x + width / 2, y + height / 2]);
  }));
})"""


@pytest.mark.parametrize("log", [False, True], ids=["linear", "log"])
def test_the_marker_of_play_is_where_that_of_the_chart_is(page, log):
    page.evaluate(f"tutelageExplorer.change({{log_time: {str(log).lower()}}})")
    wait_until(page, SETTLED)
    played = page.evaluate(PLAYED)
    np.testing.assert_allclose(
        played, page.evaluate(MARKER), atol=6
    )  # pixels: it has moved on by up to a recorded time


def test_pointing_at_the_curve_moves_the_heat_maps(page):
    before = page.evaluate("document.getElementById('map-R').data[0].z")
    box = page.locator("#curve .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    wait_until(page, "Number(document.getElementById('time').value) > 150")
    assert page.evaluate("document.getElementById('map-R').data[0].z") != before


def test_it_opens_in_motion_and_stops_after_the_escape(browser, file):
    with opened(browser, file) as page:
        wait_until(
            page,
            "document.getElementById('play').getAttribute('aria-pressed') === 'true'",
        )
        page.wait_for_timeout(700)
        assert page.evaluate("Number(document.getElementById('time').value)") > 0
        page.evaluate(
            "tutelageExplorer.change({lr: 0.6})"
        )  # whoever moves a control, stops it
        wait_until(
            page,
            "document.getElementById('play').getAttribute('aria-pressed') === 'false'",
        )


HOSTILE = [
    "lr=1e999&students=2.5&activation=relu&noise=<script>alert(1)</script>",
    "__proto__=1&constructor=x&lr=NaN&rule=dropout&tasks=three",
    "lr=javascript:alert(1)&students=999&end=&dim=-1",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_the_address_is_numbers_and_known_words(browser, file, tmp_path, text):
    with opened(browser, file, reduced_motion="reduce") as page:
        page.goto("about:blank")
        page.goto(f"{file.as_uri()}#{text}")
        wait_until(page, SETTLED)
        assert page.evaluate("tutelageExplorer.values()") == {
            c.name: c.default for c in LOCAL_CONTROLS
        }
        assert "left out" in page.inner_text("#remarks")
        assert (
            page.evaluate("document.querySelectorAll('script').length") == 8
        )  # those of the page and no other
        assert not [
            heard for heard in page.heard if "console" in heard or "error" in heard
        ]


def test_the_address_and_the_arguments_set_the_controls(browser, tmp_path):
    file = tu.page.standalone(students=2, teachers=2, lr=1.2).save(
        tmp_path / "two.html"
    )
    with opened(browser, file, reduced_motion="reduce") as page:
        wait_until(page, SETTLED)
        assert page.evaluate("tutelageExplorer.values().lr") == 1.2
        page.goto("about:blank")
        page.goto(f"{file.as_uri()}#lr=0.7&log_time=true&start=asymmetric")
        wait_until(page, SETTLED)
        values = page.evaluate("tutelageExplorer.values()")
        assert (values["lr"], values["log_time"], values["students"]) == (0.7, True, 3)


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (390, 844)])
def test_nothing_is_wider_than_the_window(browser, file, size):
    with opened(browser, file, size, reduced_motion="reduce") as page:
        wait_until(page, SETTLED)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.locator("#slider-lr").is_visible()
        if (
            size[0] < 1000
        ):  # on a phone the curve and the main slider are on the first screen
            box = page.locator("#curve").bounding_box()
            assert box["y"] + box["height"] / 2 < size[1]


CUT = """() => {
  const cut = [];
  const shown = (element) => element.checkVisibility() && element.textContent.trim() !== "";
  for (const element of document.querySelectorAll("button, label, h1, h2, p, summary, #formulas > div")) {
    const wider = element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline";
    if (shown(element) && wider) cut.push(element.textContent);
  }
  for (const chart of document.querySelectorAll(".chart")) {
    const around = chart.getBoundingClientRect();
    for (const text of chart.querySelectorAll("svg text")) {
      const { left, right, top, bottom, width } = text.getBoundingClientRect();
      const inside = left > around.left - 2 && right < around.right + 2 && top > around.top - 2 && bottom < around.bottom + 2;
      if (width > 0 && !inside) cut.push(`${chart.id}: ${text.textContent}`);
    }
  }
  return cut;
}"""
LOOKED_AT = [
    {},
    {"students": 4, "teachers": 2, "train_readout": True},
    {"students": 6, "teachers": 6, "spectrum": "power law", "decay": 0.1, "batch": 4},
    {"tasks": "two", "students": 2, "teachers": 1, "train_readout": True},
]


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_no_label_is_cut(browser, file, size):
    with opened(browser, file, size, reduced_motion="reduce") as page:
        for given in LOOKED_AT:
            page.evaluate(
                "(more) => tutelageExplorer.change(more)",
                dict(Settings.read(given).values),
            )
            page.evaluate("document.getElementById('equations').open = true")
            wait_until(page, SETTLED)
            page.wait_for_timeout(300)
            assert page.evaluate(CUT) == [], given
        page.evaluate(
            "document.querySelector('h1').style.cssText = 'width: 5rem; white-space: nowrap'"
        )  # a negative control
        assert len(page.evaluate(CUT)) == 1


CONTRAST = """() => {
  const light = (c) => { const x = c / 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
  const brightness = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const color = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const found = color(getComputedStyle(e).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *:not(script):not(svg *):not(option):not(optgroup)")) {
    const text = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!text || !element.checkVisibility() || element.closest("svg, .js-plotly-plot, :disabled")) continue;
    const [a, b] = [color(getComputedStyle(element).color), behind(element)].map(brightness);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${element.tagName} ${element.textContent.slice(0, 30)} ${ratio.toFixed(1)}`);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(browser, file, scheme):
    with opened(browser, file, color_scheme=scheme, reduced_motion="reduce") as page:
        wait_until(page, SETTLED)
        page.click("#pin")
        assert page.evaluate(CONTRAST) == []
        page.evaluate(
            "document.getElementById('story').style.color = 'rgb(128, 128, 128)'"
        )  # a negative control
        assert len(page.evaluate(CONTRAST)) == 1


def test_every_control_has_a_name(page):
    nameless = """() => [...document.querySelectorAll("input, select, button")].filter((e) => e.checkVisibility() && !(
      e.labels?.length || e.getAttribute("aria-label") || e.textContent.trim())).map((e) => e.outerHTML)"""
    assert page.evaluate(nameless) == []


@pytest.mark.parametrize("notebook", [False, True], ids=["website", "notebook"])
def test_the_page_inside_another_one(browser, file, tmp_path, notebook):
    outside = tmp_path / "outside.html"
    frame = f'<iframe src="{file.as_uri()}" width="1200" height="700"></iframe>'
    outside.write_text(tu.page.standalone()._repr_html_() if notebook else frame)
    with opened(browser, outside, reduced_motion="reduce") as page:
        inside = page.frames[1]
        wait_until(inside, SETTLED)
        assert (
            inside.evaluate("document.getElementById('curve').data[0].y.length") == 201
        )
        assert not [
            heard for heard in page.heard if "console" in heard or "error:" in heard
        ]


def test_one_file_below_its_limit_and_settings_beyond_it_are_refused(file):
    assert file.stat().st_size < 2_500_000
    assert "http-equiv" in file.read_text()[:400]
    for settings in (
        {"activation": "relu"},
        {"students": 7},
        {"loss": "logistic", "labels": "sign"},
        {"rule": "dropout"},
    ):
        with pytest.raises(InputError, match=r"up to 6 units.*Use `tutelage explore`"):
            tu.page.standalone(**settings)
    with pytest.raises(InputError, match="there is no control"):
        tu.page.standalone(learning=0.5)


def test_the_command_writes_it(tmp_path, capsys):
    from tutelage.cli.app import main

    path = tmp_path / "explorer.html"
    assert main(["explore", "--static", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(path)}
    assert path.read_text(encoding="utf-8") == tu.page.standalone()
    assert main(["explore", "--static", str(path), "--port", "8000"]) == 2
    assert "has no port" in capsys.readouterr().err
