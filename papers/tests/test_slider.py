"""The page of primer-2, as `replicate` writes it, in a browser without a network."""

import numpy as np
import pytest

MOVE = """(slider, index) => {
  slider.value = index;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
}"""
SHOWN = """() => {
  const chart = (id) => document.getElementById(id);
  return {
    marker: [chart("curve").data[1].x[0], chart("curve").data[1].y[0]],
    R: chart("map-R").data[0].z, Q: chart("map-Q").data[0].z,
    phase: chart("now-phase").textContent, last: Number(chart("time").max),
  };
}"""


def test_the_slider_of_primer_2_shows_its_own_numbers(browser, quick):
    """At the start, on the plateau, where the units part, and at the end."""
    result = quick("primer-2")
    data, address, heard = result.data, result.files["html"].as_uri(), []
    times, parting = data["time"].values, int(np.argmax(data["split"].values > 0.5))
    rest = int(np.searchsorted(times, float(data["rest"])))
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.on("request", lambda request: heard.append(request.url))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.goto(address)
        phases = [
            assert_shows(page, data, index)
            for index in (0, rest, parting, times.size - 1)
        ]
        assert len(set(phases)) == 4, "each of these times is in a phase of its own"
        assert page.evaluate(SHOWN)["last"] == times.size - 1
        assert heard == [address], (
            "only the page itself is asked for, and nothing goes wrong"
        )
    finally:
        context.close()


def assert_shows(page, data, index):
    """Slide to a recorded time, and return the phase that is named.

    Marker and maps show the numbers of the figure there.
    """
    page.locator("#time").evaluate(MOVE, index)
    shown, now = page.evaluate(SHOWN), data.isel(time=index)
    assert shown["marker"] == pytest.approx(
        [float(now["time"]), float(now["error"])], rel=1e-4, abs=1e-12
    )
    np.testing.assert_allclose(shown["R"], now["R"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(shown["Q"], now["Q"], rtol=1e-4, atol=1e-6)
    return shown["phase"]
