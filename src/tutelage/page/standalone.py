"""The explorer as one page without a server: its controls move a theory that is solved in the browser (theory.js)."""

from pathlib import Path

from tutelage.errors import InputError
from tutelage.integrate import dormand_prince
from tutelage.page.document import Page, explorer_page
from tutelage.page.settings import (
    LOCAL_CONTROLS,
    NOT_LOCAL,
    Settings,
    Value,
    controls_as_data,
    is_local,
    presets_as_data,
)
from tutelage.plot.html import write_text
from tutelage.plot.style import COLORS, FAINT, PHASE_COLORS


def standalone(**settings: Value) -> Page:
    """The explorer as one HTML page that solves by itself: it needs no server, no network and no installation.

    The page covers erf, linear and quadratic networks with up to 6 units each, squared loss, one or two tasks, and isotropic
    or power-law inputs with up to 16 levels. Put it on a website, or show it inside another page: `<iframe src="...">`.

    Parameters
    ----------
    **settings
        Values of controls to begin with, such as `lr=0.3, students=2`; the defaults are those of `tutelage explore`.

    Returns
    -------
    Page
        The page as text. A notebook shows it inline; `save_standalone` writes it as a file.

    Examples
    --------
    >>> import tutelage as tu
    >>> page = tu.page.standalone(students=2, teachers=2, lr=1.0)
    >>> len(page) < 2_500_000
    True
    """
    chosen = Settings.read(settings)
    if not is_local(chosen):
        raise InputError(
            "a page without a server solves erf, linear and quadratic networks of up to 6 units with squared loss and up to 16 "
            "levels; these settings need more. Use `tutelage explore`."
        )
    method = {
        "nodes": dormand_prince.NODES.tolist(),
        "stages": dormand_prince.STAGES.tolist(),
        "errors": dormand_prince.ERRORS.tolist(),
        "weights": dormand_prince.WEIGHTS.tolist(),
    }
    table = {
        "controls": controls_as_data(LOCAL_CONTROLS),
        "presets": presets_as_data(LOCAL_CONTROLS),
        "initial": {name: value for name, value in chosen.changed().items() if name not in NOT_LOCAL},
        "tables": {"method": method, "phaseColors": PHASE_COLORS, "colors": COLORS, "faint": FAINT},
    }
    return explorer_page(table, local=True)


def save_standalone(path: str | Path, **settings: Value) -> Path:
    """Write `standalone` as a file, complete or not there at all; returns the path.

    >>> import tutelage as tu
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tu.page.save_standalone(pathlib.Path(folder) / "explorer.html", lr=0.3).name
    'explorer.html'
    """
    return write_text(path, standalone(**settings))
