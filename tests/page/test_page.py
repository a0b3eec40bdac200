"""The page in a real browser, without a network:

what moves when the slider moves, and that nothing leaves the page.
"""

from contextlib import contextmanager

import numpy as np
import pytest

import tutelage as tu
from tutelage.page.document import HEAD, POLICY

STATE = """() => {
  const chart = (id) => document.getElementById(id);
  const line = chart("curve").layout.shapes.at(-1);
  return {
    marker: [chart("curve").data[1].x[0], chart("curve").data[1].y[0]], line: [line.x0, line.x1],
    R: chart("map-R").data[0].z, Q: chart("map-Q").data[0].z, axis: chart("curve").layout.yaxis.type,
    time: chart("now-time").textContent, error: chart("now-error").textContent, phase: chart("now-phase").textContent,
    slider: Number(chart("time").value), spoken: chart("time").getAttribute("aria-valuetext"),
    current: document.querySelector('#phases [aria-current="true"]').textContent,
    cells: [...document.querySelectorAll("#map-R .heatmap-label")].map((cell) => cell.textContent),
  };
}"""


@pytest.fixture(scope="module")
def file(theory, tmp_path_factory):
    return tu.page.trajectory_page(theory).save(
        tmp_path_factory.mktemp("page") / "curve.html"
    )


@contextmanager
def opened(browser, file, size=(1280, 720), **options):
    """The page, offline; what it asked for and complained about is in `.heard`."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, offline=True, **options
    )
    try:
        page = context.new_page()
        page.heard = []
        page.on("request", lambda request: page.heard.append(request.url))
        page.on(
            "console",
            lambda message: page.heard.append(
                f"console {message.type}: {message.text}"
            ),
        )
        page.on("pageerror", lambda error: page.heard.append(f"error: {error}"))
        page.goto(file.as_uri())
        yield page
    finally:
        context.close()


@pytest.fixture
def page(browser, file):
    with opened(browser, file) as page:
        yield page
        assert page.heard == [file.as_uri()], (
            "only the page itself is asked for, and nothing is complained about"
        )


def set_slider(page, index):
    page.locator("#time").evaluate(
        "(e, i) => { e.value = i; e.dispatchEvent(new Event('input', {bubbles: true})); }",
        index,
    )
    return page.evaluate(STATE)


def wait_until(page, expression, value=True):
    """Ask until the answer is this (the page's policy forbids what wait_for_function does)."""
    for _ in range(100):
        if page.evaluate(expression) == value:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{expression} is {page.evaluate(expression)}, not {value}")


def expected(theory, index):
    """What the page must show at a recorded time; students 2, 1 face teachers 1, 2."""
    order = [1, 0]
    R = theory.R[index][order]
    Q = theory.Q[index][order][:, order]
    return float(theory.times[index]), float(theory.error[index]), R, Q


def assert_shows(state, theory, index):
    time, error, R, Q = expected(theory, index)
    assert state["slider"] == index
    assert state["marker"] == pytest.approx([time, error], rel=1e-5)
    assert state["line"] == pytest.approx([time, time])
    np.testing.assert_allclose(state["R"], R, rtol=1e-5)
    np.testing.assert_allclose(state["Q"], Q, rtol=1e-5)
    assert state["cells"] == [f"{x:.3f}" for x in R.ravel()]
    assert float(state["time"]) == pytest.approx(time, rel=1e-4)
    assert float(state["error"]) == pytest.approx(error, rel=1e-3)
    phase = tu.analysis.phases(theory).at(time)
    assert (state["phase"], state["current"]) == (phase, phase)
    assert state["spoken"].endswith(phase)


def test_the_slider_moves_marker_heat_maps_and_words(page, theory):
    assert_shows(page.evaluate(STATE), theory, 0)
    seen = [set_slider(page, index) for index in (3, 20, 75, 150)]
    for state, index in zip(seen, (3, 20, 75, 150), strict=True):
        assert_shows(state, theory, index)
    assert len({state["phase"] for state in seen}) == 4
    assert (
        len({str(state["R"]) for state in seen})
        == len({str(state["Q"]) for state in seen})
        == 4
    )


def test_the_keyboard_moves_it_too(page, theory):
    page.locator("#time").focus()
    for key, index in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", 150),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert_shows(page.evaluate(STATE), theory, index)


def test_a_click_on_a_phase_or_on_the_curve_goes_there(page, theory):
    page.get_by_role("button", name="specialization").click()
    state = page.evaluate(STATE)
    begins = next(
        p.start for p in tu.analysis.phases(theory) if p.name == "specialization"
    )
    assert state["phase"] == "specialization"
    assert 0 <= state["marker"][0] - begins <= 2.0
    box = page.locator("#curve .nsewdrag").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.8)
    assert page.evaluate(STATE)["marker"][0] == pytest.approx(270.0, abs=15.0)


def test_playing_is_off_until_asked_for_and_can_be_stopped(page):
    play = page.locator("#play")
    page.wait_for_timeout(200)
    assert page.evaluate(STATE)["slider"] == 0
    play.click()
    assert (play.text_content(), play.get_attribute("aria-pressed")) == (
        "Pause",
        "true",
    )
    wait_until(page, "document.getElementById('time').value > 2")
    assert page.locator("#playhead circle").count() == 1
    play.click()
    assert page.locator("#playhead circle").count() == 0
    assert len(page.evaluate(STATE)["marker"]) == 2
    stopped = page.evaluate(STATE)["slider"]
    page.wait_for_timeout(200)
    assert page.evaluate(STATE)["slider"] == stopped
    assert play.get_attribute("aria-pressed") == "false"


def test_the_error_axis_is_logarithmic_or_linear(page, theory):
    set_slider(page, 75)
    before = page.evaluate(STATE)
    page.get_by_label("logarithmic error").uncheck()
    after = page.evaluate(STATE)
    assert (before["axis"], after["axis"]) == ("log", "linear")
    assert_shows(after, theory, 75)


def test_numbers_on_hover(page, theory):
    set_slider(page, 150)
    box = page.locator("#map-R .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.25)
    page.wait_for_selector("#map-R .hovertext")
    assert (
        page.locator("#map-R .hovertext").text_content()
        == f"R = {theory.R[150, 1, 0]:.5g}student 2, teacher 1"
    )


def test_other_data_are_drawn_by_the_same_script(page):
    """As a live page will do: three students, one more map, another record."""
    other = """() => tutelagePage.render({
      title: "Other", conditions: "", note: "", warning: "It <stopped>.",
      time_name: "t", error_name: "e", log_time: false, log_error: false,
      runs: [], band: null, escape: null, code: [], frames: [0, 1, 2],
      times: [0, 1, 2], error: [3, 2, null], phases: [{name: "search", start: 0, end: 2, color: "#888888"}],
      maps: ["R", "v"].map((name) => ({name, title: name, rows: {name: "student", labels: ["1", "2", "3"]},
        columns: {name: "", labels: ["1"]}, bound: 1,
        values: [0, 1, 2].map((t) => [[t / 4], [0], [-t / 4]])}))})"""
    page.evaluate(other)
    page.evaluate("tutelagePage.setTime(9)")
    assert page.evaluate("document.getElementById('map-v').data[0].z") == [
        [0.5],
        [0],
        [-0.5],
    ]
    assert page.locator("#map-Q").count() == 0
    assert page.locator("#now-error").text_content() == "–"
    assert page.locator("#warning").text_content() == "It <stopped>."
    assert page.locator("#time").get_attribute("max") == "2"


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)], ids=["screen", "phone"])
def test_nothing_is_wider_than_the_screen_and_the_slider_is_in_sight(
    browser, file, size
):
    with opened(browser, file, size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        for place in ("#time", "#now-phase"):
            box = page.locator(place).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size[0]
            assert box["y"] + box["height"] <= size[1]
        assert page.heard == [file.as_uri()]


INK = "document.getElementById('curve').layout.font.color"
WIDE = "Math.abs(document.querySelector('#curve svg').clientWidth - document.getElementById('curve').clientWidth) < 2"


def test_light_dark_and_paper(browser, file, theory):
    with opened(browser, file, color_scheme="dark") as page:
        wait_until(page, INK, "#e6e6e3")
        page.emulate_media(color_scheme="light")
        wait_until(page, INK, "#222")
        page.emulate_media(color_scheme="dark", media="print")
        wait_until(page, INK, "#000")
        assert page.locator("#time").is_hidden()
        page.emulate_media(color_scheme="light", media="screen")
        wait_until(page, INK, "#222")
        wait_until(page, WIDE)
        assert_shows(set_slider(page, 20), theory, 20)
        assert page.heard == [file.as_uri()]


def test_without_scripts_a_sentence_remains(browser, file):
    with opened(browser, file, java_script_enabled=False) as page:
        text = page.locator("noscript").inner_text()
        assert "need JavaScript" in text
        assert "Search from 0 to" in text


@pytest.mark.parametrize("policy", [True, False], ids=["with", "without"])
def test_a_request_would_be_noticed(browser, file, policy, tmp_path):
    """A negative control; the page's own policy already forbids the request, and the browser complains."""
    leak = tmp_path / "leak.html"
    text = file.read_text().replace("<h1", '<img src="https://example.org/x.png"><h1')
    leak.write_text(text if policy else text.replace(HEAD.format(policy=POLICY), ""))
    with opened(browser, leak) as page:
        assert len(page.heard) > 1
        assert any("console error" in heard for heard in page.heard)
        assert policy or "https://example.org/x.png" in page.heard


def test_several_tasks_and_a_second_slider(browser, tmp_path):
    """Both errors are marked and written, and the second slider exchanges the trajectory but not the time."""
    start = tu.Start(
        R=[[0.05, 0.02], [-0.01, 0.03]],
        Q=[[0.3, 0.02], [0.02, 0.2]],
        readout=[[0.3, 0.1], [0.2, -0.1]],
    )
    student = tu.Network(2, "erf", train_readout=True)
    V = [0.0, 0.5]
    tasks = [
        tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(10.0), similarity=v) for v in V
    ]
    curves = [
        tu.solve(
            tu.Problem(student, t, optimizer=tu.SGD(lr=1.0)),
            start,
            tu.linear_times(20.0, 21),
        )
        for t in tasks
    ]
    file = tu.page.trajectory_page(curves, over={"similarity": V}).save(
        tmp_path / "tasks.html"
    )
    marked = "() => document.getElementById('curve').data[1].y"
    with opened(browser, file) as page:
        state = set_slider(page, 15)
        np.testing.assert_allclose(
            page.evaluate(marked), curves[0].error[15], rtol=1e-5
        )
        assert state["phase"] == "task 2"
        assert state["error"].count(",") == 1
        page.locator("#variant").evaluate(
            "(e) => { e.value = 1; e.dispatchEvent(new Event('input', {bubbles: true})); }"
        )
        wait_until(page, "document.getElementById('variant-value').textContent", "0.5")
        np.testing.assert_allclose(
            page.evaluate(marked), curves[1].error[15], rtol=1e-5
        )
        wait_until(
            page,
            f"Math.abs(document.getElementById('map-R').data[0].z[0][0] - {curves[1].R[15, 0, 0]}) < 1e-4",
        )
        assert page.evaluate("document.getElementById('time').value") == "15"
        assert page.heard == [file.as_uri()]
