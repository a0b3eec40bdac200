"""What the page offers to keep, built from its settings: Python, a problem file, the curve as NetCDF, the page itself.

A file is the last of what its function yields.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tutelage.explorer.settings import POINTS, Settings


def python_text(settings: Settings) -> str:
    """A script that solves and simulates what the page shows."""
    s = settings.values
    inputs = f"tu.PowerLaw({s['beta']!r}, {s['levels']})" if s["spectrum"] == "power law" else "tu.Isotropic()"
    student = [str(s["students"]), repr(s["activation"]), *(["train_readout=True"] if s["train_readout"] else [])]
    rule = [repr(s["lr"]), *_unless(1, batch=s["batch"]), *_unless(0.0, weight_decay=s["decay"])]
    lines = [
        "import tutelage as tu",
        "",
        "problem = tu.Problem(",
        f"    student=tu.Network({', '.join(student)}),",
        f"    teacher=tu.Network({s['teachers']}, {s['activation']!r}),",
        f"    inputs={inputs},",
        f"    sgd=tu.SGD({', '.join(rule)}),",
        f"    noise={s['noise']!r},",
        ")",
        f"start = {_start_text(s)}",
        f"times = {_times_text(s)}",
        "theory = tu.solve(problem, start, times)",
        f"runs = tu.simulate(problem, start, times=times, runs={max(1, s['runs'])})",
        "print(tu.compare(theory, runs))",
    ]
    return "\n".join(lines) + "\n"


def _unless(default: Any, **values: Any) -> list[str]:
    return [f"{name}={value!r}" for name, value in values.items() if value != default]


def _start_text(s: Any) -> str:
    if s["start"] == "random weights":
        return f"tu.random_start(problem, dim={s['dim']}, scale={s['scale']!r}, seed={s['seed']})"
    return f"tu.asymmetric_start(problem, dim={s['dim']})"


def _times_text(s: Any) -> str:
    from tutelage.times import DECADES

    end = s["end"]
    if s["log_time"]:
        return f"tu.log_times({end / 10**DECADES!r}, {end!r}, {POINTS})"
    return f"tu.linear_times({end!r}, {POINTS})"


def toml_text(settings: Settings) -> str:
    """A problem file: `tutelage solve problem.toml` and `tutelage compare problem.toml` read it."""
    import tomli_w

    problem = settings.problem()
    start = {"dim": settings["dim"]}
    if settings["start"] == "random weights":
        start |= {name: settings[name] for name in ("scale", "seed")}
    else:
        first = settings.first(problem)
        start |= {name: getattr(first, name).tolist() for name in ("R", "Q")}
    times = {"end": settings["end"], "points": POINTS, "log": settings["log_time"]}
    return f"{problem.to_toml().rstrip()}\n\n{tomli_w.dumps({'start': start, 'times': times})}"


def netcdf(settings: Settings) -> Iterator[bytes]:
    """The theory's trajectory, as `Trajectory.save` writes it."""
    from tutelage.explorer.answer import theory_of

    with tempfile.TemporaryDirectory() as folder:
        yield theory_of(settings).save(Path(folder) / "curve.nc").read_bytes()


def frozen_page(settings: Settings) -> Iterator[bytes]:
    """Curve, band and runs on a page that works without a network. What is yielded before it is empty: a chance to stop."""
    from tutelage.explorer.answer import whole_content
    from tutelage.page.document import page_of

    content = {}
    for part in whole_content(settings):
        content = part
        yield b""
    yield page_of(content).encode()


FILES: dict[str, Callable[[Settings], Iterator[bytes]]] = {"curve.nc": netcdf, "page.html": frozen_page}
MEDIA = {"curve.nc": "application/x-netcdf", "page.html": "text/html; charset=utf-8"}
