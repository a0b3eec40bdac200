"""`tutelage explore` and `tu.explore`: a local page on which every move of a control solves the theory again.

`answer.py` computes what the page shows, in a process; `server.py` has the pages and the processes. A page sends its settings
over a websocket; the answer comes in parts, the curve first. A newer request of the same page cancels the older one.
"""

import json
import socket
import sys
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

from tutelage.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tutelage.page.document import Page
    from tutelage.page.settings import Settings
    from tutelage.problem import Problem, Start

HOST = "127.0.0.1"


def explore(
    problem: "Problem | None" = None, start: "Start | None" = None, times: "ArrayLike | None" = None
) -> "Page | None":
    """Open the explorer at a problem: move a control, and the theory is solved again.

    Parameters
    ----------
    problem, start, times : Problem, Start, array_like, optional
        What the explorer shows first, as `solve` takes them (times: the last one, or all). Without a problem it begins with
        its default settings.

    Returns
    -------
    Page or None
        In a notebook, a page that the cell shows inline; the browser solves the theory, no server runs. A problem that the
        browser cannot solve raises `InputError`, which says how to start the explorer with a server. Elsewhere the server
        starts and opens the page; Ctrl-C ends it.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> tu.explore(problem, times=200.0)                       # doctest: +SKIP
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):  # as that of Jupyter
        from tutelage.page.document import standalone

        return standalone(problem, start, times)
    from tutelage.page.settings import Settings

    begun = Settings.read({}) if problem is None else Settings.of(problem, start, times, overlaps=False)
    with suppress(KeyboardInterrupt):  # Ctrl-C ends the server, and the script goes on
        serve(initial=begun)
    return None


def serve(port: int | None = None, browser: bool = True, as_json: bool = False, initial: "Settings | None" = None) -> None:
    """Serve the explorer until it is interrupted. as_json: its address for a program, not for a reader. initial: first settings."""
    try:
        import uvicorn
        import websockets  # noqa: F401  (uvicorn imports it when it runs)

        from tutelage.explorer.server import MOST_TEXT, build_app
    except ImportError as error:
        missing = f"tutelage explore needs {error.name}, which is not installed"
        raise InputError(f'{missing}; install it by: pip install "tutelage[explore]".') from None
    try:
        if not 0 <= (port or 0) < 2**16:
            raise OSError(None, "there is no such port")
        here = socket.create_server((HOST, port or 0))  # from now on a request waits rather than fails
    except OSError as error:
        reason = str(error.strerror).split(" (while")[0]
        fix = "leave it out for a free one, or give another from 1024 to 65535"
        raise InputError(f"--port {port} cannot be used ({reason}); {fix}.") from None
    free = int(here.getsockname()[1])
    address = f"http://{HOST}:{free}/"
    options = {"log_level": "warning", "ws": "websockets-sansio", "ws_max_size": MOST_TEXT, "timeout_graceful_shutdown": 1}
    config = uvicorn.Config(build_app(free, initial), **options)
    print(json.dumps({"address": address}) if as_json else f"tutelage explorer: {address}  (Ctrl-C ends it)", flush=True)
    if browser:
        webbrowser.open(address)
    uvicorn.Server(config).run(sockets=[here])
