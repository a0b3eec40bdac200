"""The page in a real browser:

what is drawn is what `solve` gives, whatever is moved and however quickly.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.explorer.conftest import BASE, LivePage, Server, address_of
from tests.page.test_standalone import CONTRAST
from tutelage.page.controls import CONTROLS
from tutelage.page.settings import Settings


def solved(**changes):
    """The theory of these settings."""
    settings = Settings.read(BASE | changes)
    problem = settings.problem()
    return tu.solve(problem, settings.first(problem), settings.times())


def assert_drawn(live, **changes):
    assert_is(live, solved(**changes), 1 if changes.get("log_time") else 0)


def assert_is(live, theory, first=0):
    """The curve on the page is this one, from its first or second time on."""
    x, y = live.drawn()
    np.testing.assert_allclose(x, theory.times[first:], rtol=1e-5)
    np.testing.assert_allclose(
        y, theory.error[first:], rtol=1e-5, atol=1e-7
    )  # solved to 1e-7, as what is looked at


OVERLAPS_ARE_DRAWN = """() => {
  const [shown, map] = [tutelagePage.data(), document.getElementById("map-R").data[0]];
  return JSON.stringify(map.z) === JSON.stringify(shown.maps[0].values[Number(document.getElementById("time").value)]);
}"""
MOVES = [
    *(
        {"lr": 1.3},
        {"noise": 0.4},
        {"batch": 5},
        {"decay": 0.05},
        {"end": 45.0},
        {"log_time": True},
    ),
    {"start": "random weights", "scale": 0.5, "seed": 7, "dim": 300},
]
SHAPES = [
    {"activation": "linear"},
    {"students": 3},
    {"teachers": 3},
    {"train_readout": True},
    {"spectrum": "power law", "levels": 3},
    {"rule": "feedback alignment", "train_readout": True, "readout": 0.5},
    {"rule": "dropout", "keep": 0.7},
    {"loss": "huber", "students": 1, "teachers": 1},
    {"spectrum": "digits"},
    {"spectrum": "XOR", "students": 1, "end": 2.0},
]


WHOLE = {
    control.name for control in CONTROLS if control.kind == "count" and not control.log
}


def test_every_control_that_is_data_changes_the_curve_as_it_should(server, live):
    live.open(address_of(server))
    assert_drawn(live)
    for move in MOVES:
        live.change(**(Settings.read({}).values | BASE | move))
        assert_drawn(live, **move)


def test_every_control_of_the_shape_changes_the_curve_as_it_should(server, live):
    moves = [{"activation": "linear"} | move for move in SHAPES]
    theories = [
        solved(**move) for move in moves
    ]  # before: a page that waits is told more than its curve, shape by shape
    live.open(address_of(server, activation="linear"))
    for move, theory in zip(moves, theories, strict=True):
        live.change(**(Settings.read({}).values | BASE | move))
        assert_is(live, theory)


def test_the_form_itself_moves_the_curve(server, live):
    """Through the elements that a reader uses:

    number, slider, box, list; and through the keyboard.
    """
    live.open(address_of(server))
    page = live.page
    page.fill("#control-lr", "0.9")
    page.keyboard.press("Tab")
    live.wait()
    assert_drawn(live, lr=0.9)
    page.focus("#slider-noise")
    page.keyboard.press("PageUp")
    live.wait()
    noise = float(page.input_value("#control-noise"))
    assert noise > 0
    assert_drawn(live, lr=0.9, noise=noise)
    page.check("#control-log_time")
    live.wait()
    assert_drawn(live, lr=0.9, noise=noise, log_time=True)
    page.select_option("#control-start", "random weights")
    live.wait()
    assert page.is_visible("#control-seed")
    page.wait_for_function(OVERLAPS_ARE_DRAWN, timeout=10_000)
    assert_drawn(live, lr=0.9, noise=noise, log_time=True, start="random weights")


def test_an_arrow_key_moves_every_slider_by_one_value(server, live):
    """Also where many positions of a slider share a whole number, as for K and M."""
    live.open(
        address_of(
            server,
            activation="linear",
            spectrum="power law",
            levels=2,
            start="random weights",
        )
    )
    page = live.page
    for control in Settings.read({}).values:
        slider = page.locator(f"#slider-{control}")
        if not slider.count() or not slider.is_visible():
            continue
        field = page.locator(f"#control-{control}")
        slider.focus()
        before = float(field.input_value())
        page.keyboard.press("ArrowRight")
        assert float(field.input_value()) > before, control
        assert float(slider.get_attribute("aria-valuetext")) == float(
            field.input_value()
        )
        page.keyboard.press("ArrowLeft")
        if control in WHOLE:
            assert float(field.input_value()) == before, control
    page.focus("#slider-students")
    page.keyboard.press("ArrowUp")
    assert page.input_value("#control-students") == "3"


LATE = "which => document.body.dataset.late === which"


def test_a_curve_of_other_settings_is_dimmed_and_says_so(server, live):
    huge = {
        "students": 12,
        "teachers": 12,
        "spectrum": "power law",
        "levels": 512,
        "end": 1e6,
        "activation": "gelu",
    }
    live.open(address_of(server))
    page = live.page
    heading = ".curve h2"
    opacity = "getComputedStyle(document.getElementById('curve')).opacity"
    page.wait_for_function(LATE, arg="")
    assert page.inner_text(heading) == "Learning curve"
    page.evaluate("more => tutelageExplorer.change(more)", huge)
    page.wait_for_function(LATE, arg="previous")
    page.wait_for_function(f"() => {opacity} < 0.5")
    assert page.inner_text(heading) == "Learning curve of the previous settings"
    page.wait_for_function("() => !document.getElementById('progress').hidden")
    assert "Solving" in page.inner_text("#state")
    live.change(**(Settings.read({}).values | BASE))
    page.wait_for_function(f"() => {opacity} === '1'")
    assert page.inner_text(heading) == "Learning curve"


def test_a_link_brings_the_state_back(server, live, browser):
    live.open(address_of(server, lr=0.77, noise=0.3))
    live.change(decay=0.02)
    again = LivePage(browser).open(live.page.url)
    assert again.page.evaluate("tutelageExplorer.values()") == live.page.evaluate(
        "tutelageExplorer.values()"
    )
    assert again.drawn() == live.drawn()
    assert_drawn(again, lr=0.77, noise=0.3, decay=0.02)
    again.page.close()


def test_two_hundred_quick_moves_end_in_the_last_one(server, live):
    live.open(address_of(server))
    live.page.evaluate(
        """async () => {
          const slider = document.getElementById("slider-lr");
          for (let i = 0; i < 200; i++) {
            slider.value = 400 + ((i * 37) % 200);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((resolve) => setTimeout(resolve, 4));
          }
        }"""
    )
    live.wait()
    lr = live.page.evaluate("tutelageExplorer.values().lr")
    assert lr == float(live.page.input_value("#control-lr"))
    assert_drawn(live, lr=lr)


KEEP_WORDS = """
window.said = [];
document.addEventListener("DOMContentLoaded", () => {
  const state = document.getElementById("state");
  new MutationObserver(() => window.said.push(state.textContent)).observe(state, { childList: true });
});
"""
NOW = (
    "simulating network 2 of 2",
    "critical and best learning rate",
    "band of single networks",
    "time of escape",
)


def test_runs_band_marks_and_diagram(server, live):
    page = live.page
    page.add_init_script(KEEP_WORDS)
    live.open(address_of(server, runs=2, band=True, dim=300)).wait_for_all()
    said = page.evaluate("window.said")
    assert [f"Theory solved. Now: {words}." in said for words in NOW] == [True] * len(
        NOW
    ), said
    assert page.inner_text("#state") == ""
    assert page.is_hidden("#progress")
    traces = page.evaluate("document.getElementById('curve').data.length")
    assert traces == 2 + 2 + 2  # curve, marker; two runs; both edges of the band
    assert page.inner_text("#marks").split() == ["best", "critical"]
    before = page.eval_on_selector_all(
        "#diagram .edge", "edges => edges.map(e => e.getAttribute('stroke-width'))"
    )
    assert len(before) == 4
    page.evaluate("tutelagePage.setTime(200)")
    assert (
        page.eval_on_selector_all(
            "#diagram .edge", "edges => edges.map(e => e.getAttribute('stroke-width'))"
        )
        != before
    )
    assert "2 simulated networks" in page.inner_text("#legend")


def test_a_preset_and_a_divergence(server, live):
    live.open(address_of(server, activation="linear", lr=5.0, end=100.0))
    assert "diverged" in live.page.inner_text("#warning")
    assert live.drawn()[0][-1] < 1.0
    live.change(lr=0.5)
    assert live.page.is_hidden("#warning")


DROP = """([name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


def test_a_problem_file_is_dropped_onto_the_page(server, live):
    live.open(address_of(server, end=10.0))
    page = live.page
    problem = tu.Problem(
        tu.Network(2, "erf"),
        tu.Network(2, "erf"),
        optimizer=tu.SGD(lr=0.9),
        noise=0.3,
    )
    start = "[start]\nR = [[0.3, 0.2], [0.2, 0.275]]\nQ = [[0.23, 0.1], [0.1, 0.25]]\n"
    page.evaluate(DROP, ["mine.toml", f"{problem.to_toml()}\n{start}"])
    page.wait_for_function("() => !document.getElementById('given').hidden")
    live.wait()
    first = tu.Start(R=[[0.3, 0.2], [0.2, 0.275]], Q=[[0.23, 0.1], [0.1, 0.25]])
    assert_is(live, tu.solve(problem, first, tu.linear_times(10.0)))
    assert page.inner_text("#given-name") == "mine.toml"
    assert page.is_hidden("#control-lr")
    live.change(end=12.0)
    assert_is(live, tu.solve(problem, first, tu.linear_times(12.0)))
    page.evaluate(DROP, ["bad.toml", "noise = "])
    page.wait_for_function("() => document.body.dataset.state === 'error'")
    assert "not TOML" in page.inner_text("#state")
    page.click("#given-close")
    live.wait()
    assert_drawn(live, end=12.0)


def test_the_best_schedule_is_drawn_and_its_curve_pinned(server, live):
    given = {"activation": "linear", "students": 1, "teachers": 1, "noise": 0.5}
    live.open(address_of(server, **given)).wait_for_all()
    page = live.page
    assert page.is_hidden("#protocol")
    assert page.is_hidden("#optimize-tasks")
    page.click("#optimize-lr")
    assert page.locator("#optimize-lr").is_disabled()
    assert page.inner_text("#state").startswith(
        ("Searching", "Theory solved. Now: searching")
    )
    live.wait_for_all()
    assert "times smaller" in page.inner_text("#protocol figcaption")
    points = page.get_attribute("#protocol polyline", "points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights[-1] > heights[0]  # downwards: the rate falls
    assert page.locator("#pins li").all_inner_texts() == ["best η over time ✕"]
    pinned = page.evaluate(
        "document.getElementById('curve').data.find((t) => t.line?.dash === 'dash').y"
    )
    assert pinned[-1] < 0.5 * live.drawn()[1][-1]
    assert page.evaluate(CONTRAST) == []
    live.change(lr=0.4)
    assert page.is_hidden("#protocol")
    assert page.locator("#pins li").count() == 1


def test_several_tasks_have_a_curve_and_a_run_each(server, live):
    given = {
        "tasks": "two",
        "teachers": 1,
        "switch": 10.0,
        "similarity": 0.5,
        "train_readout": True,
        "runs": 1,
        "dim": 200,
    }
    live.open(address_of(server, **given))
    live.wait_for_all()
    theory = solved(**given)
    shown = live.page.evaluate("tutelagePage.data().tasks.map((task) => task.error)")
    np.testing.assert_allclose(np.transpose(shown), theory.error, rtol=1e-5)
    assert live.page.evaluate("tutelagePage.data().runs.length") == 2
    assert "After the switch at time 10" in live.page.inner_text("#seen")
    assert live.page.evaluate(
        "tutelagePage.data().phases.map((phase) => phase.start)"
    ) == [0, 10]


def test_the_kept_page_needs_no_server(server, live, browser, tmp_path):
    live.open(address_of(server, runs=1, dim=200)).wait_for_all()
    with live.page.expect_download(timeout=60_000) as download:
        live.page.click("#file-html")
    path = tmp_path / "page.html"
    download.value.save_as(path)
    assert path.stat().st_size < 3_000_000
    kept = LivePage(browser)
    requests = []
    kept.page.context.set_offline(True)
    kept.page.on("request", lambda request: requests.append(request.url))
    kept.page.goto(path.as_uri())
    assert kept.drawn() == live.drawn()
    assert kept.page.evaluate("document.getElementById('curve').data.length") == 3
    kept.page.fill("#time", "150")
    assert kept.page.inner_text("#now-time") == "15"
    assert [
        url for url in requests if not url.startswith(("file:", "data:", "blob:"))
    ] == []
    assert kept.complaints == []
    kept.page.close()


def test_the_explorer_is_kept_at_these_settings(server, live, browser, tmp_path):
    live.open(address_of(server, lr=0.8, noise=0.2, runs=2))
    with live.page.expect_download(timeout=60_000) as download:
        live.page.click("#file-explorer")
    path = tmp_path / "explorer.html"
    download.value.save_as(path)
    kept = LivePage(browser)
    kept.page.context.set_offline(True)
    kept.page.goto(path.as_uri())
    for _ in range(100):
        if kept.page.evaluate("tutelageExplorer.settled()"):
            break
        kept.page.wait_for_timeout(50)
    np.testing.assert_allclose(kept.drawn()[1], live.drawn()[1], rtol=1e-4)
    assert kept.complaints == []
    kept.page.close()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_pictures_are_kept(server, live, tmp_path, kind):
    live.open(address_of(server))
    with live.page.expect_download() as download:
        live.page.click(f"#{kind}")
    path = tmp_path / f"picture.{kind}"
    download.value.save_as(path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"<svg")


def test_netcdf_is_the_trajectory(server, live, tmp_path):
    live.open(address_of(server, lr=0.6))
    with live.page.expect_download() as download:
        live.page.click("#file-nc")
    path = tmp_path / "curve.nc"
    download.value.save_as(path)
    np.testing.assert_allclose(tu.load(path).error, solved(lr=0.6).error, rtol=1e-9)


def test_a_stopped_server_is_announced(cache, browser):
    server = Server(cache)
    page = LivePage(browser)
    try:
        page.open(address_of(server))
    finally:
        _, error = server.stop()
    page.wait_stopped()
    assert "server has stopped" in page.page.inner_text("#state")
    assert "Traceback" not in error
    page.page.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080), (390, 844)])
def test_nothing_is_wider_than_the_window(server, browser, width, height):
    page = LivePage(browser, viewport={"width": width, "height": height})
    page.open(address_of(server))
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.locator("#form").is_visible() == (
        width > 1000
    )  # on a phone the controls are folded
    assert page.complaints == []
    page.page.close()
