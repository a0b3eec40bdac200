"""`tutelage explore`: move a slider, watch a network learn."""

from typing import Annotated

from cyclopts import Parameter

from tutelage.cli.flags import Switch, Whole


def explore(
    *,
    port: Whole = None,
    browser: Annotated[bool, Parameter(negative="--no-browser", show_default=False)] = True,
    json: Switch = False,
) -> int:
    """A page on this machine on which every change of a control solves the theory again.

    It shows the learning curve with its phases, the overlaps at the time of the slider, simulated networks beside the
    theory, and the critical and best learning rates. It answers to this machine only. Ctrl-C ends it.

    Example: tutelage explore --port 8765 --no-browser

    Parameters
    ----------
    port: int
        Where to listen (default: a free port).
    browser: bool
        Open the page in a browser (the default).
    json: bool
        Print the address as JSON on standard output, and nothing else.
    """
    from tutelage.cli.compile_cache import keep_compiled_programs
    from tutelage.explorer.launch import serve

    keep_compiled_programs()  # through the environment, which the processes that solve inherit
    serve(port, browser, json)
    return 0
