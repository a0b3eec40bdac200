"""`tutelage explore` and `tu.explore`: a local page that solves at every change.

`answer.py` computes what the page shows, in a process; `server.py` has the pages and
the processes. A page sends its settings over a websocket; the answer comes in parts,
the curve first. A newer request of the same page cancels the older one.
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
    problem: "Problem | None" = None,
    start: "Start | None" = None,
    times: "ArrayLike | None" = None,
) -> "Page | None":
    """Open the explorer at a problem: move a control, and the theory is solved again.

    Parameters
    ----------
    problem, start, times : Problem, Start, array_like, optional
        The first settings, as `solve` takes them (times: the last one, or all). Without
        a problem the explorer begins with its default settings.

    Returns
    -------
    Page or None
        In a notebook, a page that the cell shows inline; the browser solves the theory,
        no server runs. A problem that the browser cannot solve raises `InputError`,
        which says how to start the explorer with a server. Elsewhere the server starts
        and opens the page; Ctrl-C ends it.

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> tu.explore(problem, times=200.0)                       # doctest: +SKIP
    """
    if _in_notebook():
        from tutelage.page.document import standalone

        return standalone(problem, start, times)
    from tutelage.page.settings import Settings

    if problem is None:
        initial = Settings.read({})
    else:
        initial = Settings.of(problem, start, times, overlaps=False)
    with suppress(
        KeyboardInterrupt
    ):  # Ctrl-C ends the server, and the script continues
        serve(initial=initial)
    return None


def _in_notebook() -> bool:
    """Return True in a shell with a kernel, such as that of Jupyter."""
    ipython = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)
    if get_shell is None:
        return False
    return hasattr(get_shell(), "kernel")


def serve(
    port: int | None = None,
    browser: bool = True,
    as_json: bool = False,
    initial: "Settings | None" = None,
) -> None:
    """Serve the explorer until it is interrupted.

    as_json: print its address for a program, not for a reader. initial: first settings.
    """
    try:
        import uvicorn
        import websockets  # noqa: F401  (uvicorn imports it when it runs)

        from tutelage.explorer.server import MOST_TEXT, build_app
    except ImportError as error:
        raise InputError(
            f"tutelage explore needs {error.name}, which is not installed; "
            'install it by: pip install "tutelage[explore]".'
        ) from None
    listener = _listener(port)
    actual_port = int(listener.getsockname()[1])
    address = f"http://{HOST}:{actual_port}/"
    config = uvicorn.Config(
        build_app(actual_port, initial),
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=MOST_TEXT,
        timeout_graceful_shutdown=1,
    )
    if as_json:
        print(json.dumps({"address": address}), flush=True)
    else:
        print(f"tutelage explorer: {address}  (Ctrl-C ends it)", flush=True)
    if browser:
        webbrowser.open(address)
    uvicorn.Server(config).run(sockets=[listener])


def _listener(port: int | None) -> socket.socket:
    """Return a socket that listens on this port, or on a free one.

    From now on a request waits rather than fails.
    """
    try:
        if not 0 <= (port or 0) < 2**16:
            raise OSError(None, "there is no such port")
        return socket.create_server((HOST, port or 0))
    except OSError as error:
        reason = str(error.strerror).split(" (while")[0]
        raise InputError(
            f"--port {port} cannot be used ({reason}); "
            "leave it out for a free one, or give another from 1024 to 65535."
        ) from None
