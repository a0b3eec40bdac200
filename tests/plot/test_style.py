"""The style is ours inside its block and leaves no trace outside it."""

import matplotlib
from matplotlib.colors import to_rgb

from tutelage.plot.style import COLORS, stroke, style


def test_settings_come_back():
    before = dict(matplotlib.rcParams)
    with style():
        assert matplotlib.rcParams["font.size"] == 9.0
        assert not matplotlib.rcParams["text.usetex"]
    assert dict(matplotlib.rcParams) == before


def test_every_color_is_seen_on_white():
    for color in COLORS:
        red, green, blue = to_rgb(color)
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.75


def test_strokes_of_many_curves_are_unlike():
    looks = {
        (s["color"], s["marker"], str(s["linestyle"]))
        for s in (stroke(k, m) for k in range(7) for m in range(4))
    }
    assert len(looks) == 28
