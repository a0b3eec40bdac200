"""Exactly this problem, to take away: as Python, and as a file for the command line."""

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
    problem = settings.problem()
    if settings["start"] == "random weights":
        start = [f"{name} = {settings[name]!r}" for name in ("dim", "scale", "seed")]
    else:
        first = settings.first(problem)
        start = [f"dim = {settings['dim']}", *(f"{name} = {getattr(first, name).tolist()}" for name in ("R", "Q"))]
    log = "true" if settings["log_time"] else "false"
    times = [f"end = {settings['end']!r}", f"points = {POINTS}", f"log = {log}"]
    return "\n".join([problem.to_toml().rstrip(), "", "[start]", *start, "", "[times]", *times, ""])
