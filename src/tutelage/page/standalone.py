"""The explorer as one page without a server: its controls move a theory that is solved in the browser (theory.js)."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tutelage.errors import InputError
from tutelage.integrate import dormand_prince
from tutelage.page.document import Page, explorer_page, trajectory_page
from tutelage.page.settings import (
    LOCAL_CONTROLS,
    NOT_LOCAL,
    Control,
    Settings,
    Value,
    controls_as_data,
    digit_spectrum,
    is_local,
    presets_as_data,
)
from tutelage.plot.style import COLORS, FAINT, PHASE_COLORS, write_text
from tutelage.problem import Problem, Start
from tutelage.trajectory import Trajectory

GIVEN = "as given"  # the start whose overlaps the page carries


def standalone(
    problem: Problem | None = None, start: Start | str | None = None, times: ArrayLike | None = None, **settings: Value
) -> Page:
    """The explorer as one HTML page that solves by itself: it needs no server, no network and no installation.

    The page covers erf, linear and quadratic networks with up to 6 units each, squared loss, one or two tasks, and isotropic
    or power-law inputs with up to 16 levels. Put it on a website, or show it inside another page: `<iframe src="...">`.

    Parameters
    ----------
    problem, start, times : Problem, Start, array_like, optional
        What the page shows first, as `solve` takes them. Without a problem the page begins with the default settings. A
        start may also be a word of the control: "random weights" or "asymmetric".
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
    if isinstance(start, str):
        start, settings = None, settings | {"start": start}
    if problem is None and (start is not None or times is not None):
        raise InputError("start or times is given without a problem; give the problem first, or settings such as lr=0.3.")
    begun = Settings.read({}) if problem is None else Settings.of(problem, start, times)
    given = None if "start" in settings else begun.given
    chosen = replace(Settings.read(begun.values | settings), toml=begun.toml, given=given)
    if not is_local(chosen):
        raise InputError(
            "a page without a server solves erf, linear and quadratic networks of up to 6 units with squared loss and up to 16 "
            f"levels; {'these settings need' if problem is None else 'this problem needs'} more. Use `tutelage explore`"
            f"{'' if problem is None else ' and drop a file with problem.to_toml() onto its page'}."
        )
    names = ("nodes", "stages", "errors", "weights")
    method = {name: getattr(dormand_prince, name.upper()).tolist() for name in names}
    spectrum = digit_spectrum()
    digits = {"lam": spectrum.eigenvalues.tolist(), "fractions": spectrum.fractions.tolist()}
    controls = LOCAL_CONTROLS if chosen.given is None else tuple(map(_with_given_start, LOCAL_CONTROLS))
    table = {
        "controls": controls_as_data(controls),
        "presets": presets_as_data(local=True),
        "initial": {name: value for name, value in chosen.changed().items() if name not in NOT_LOCAL}
        | ({} if chosen.given is None else {"start": GIVEN}),
        "tables": {"method": method, "phaseColors": PHASE_COLORS, "colors": COLORS, "faint": FAINT, "digits": digits}
        | {"given": chosen.given},
    }
    return explorer_page(table, local=True)


def _with_given_start(control: Control) -> Control:
    """The control of the start with one more choice: the overlaps that were given."""
    return replace(control, options=(GIVEN, *control.options), only={}) if control.name == "start" else control


def trajectory_widget(trajectory: Trajectory) -> Page:
    """The explorer at the problem, start and times of a solve; where it cannot solve in the browser, the page of the curve."""
    problem, start = trajectory.problem, trajectory.start
    if trajectory.kind == "theory" and problem is not None and np.ndim(trajectory.times) == 1:
        with suppress(InputError):
            return standalone(problem, start, trajectory.times)
    return trajectory_page(trajectory)


def save_standalone(
    path: str | Path,
    problem: Problem | None = None,
    start: Start | str | None = None,
    times: ArrayLike | None = None,
    **settings: Value,
) -> Path:
    """Write `standalone` as a file, complete or not there at all; returns the path.

    >>> import tutelage as tu
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tu.page.save_standalone(pathlib.Path(folder) / "explorer.html", lr=0.3).name
    'explorer.html'
    """
    return write_text(path, standalone(problem, start, times, **settings))
