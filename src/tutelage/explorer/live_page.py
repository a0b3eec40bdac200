"""The page of the explorer: that of a saved trajectory, with controls and a websocket instead of data."""

from importlib.resources import files

from tutelage.explorer.presets import PRESETS
from tutelage.explorer.settings import controls_as_data
from tutelage.page.assemble import assemble_live


def live_page() -> str:
    """HTML; everything but the answers is in it."""
    table = {"controls": controls_as_data(), "presets": PRESETS}
    part = files("tutelage.explorer").joinpath
    style, script, aside = (part(name).read_text(encoding="utf-8") for name in ("explorer.css", "explorer.js", "aside.html"))
    return assemble_live("tutelage explorer", aside, style, script, table)
