"""`tutelage explore`: a local page on which every move of a control solves the theory again.

    page.settings -> answer               -> workers          -> server     -> page/explorer.js
    what the         curve, rates, escape,   processes that      websocket,    controls; the same charts as on
    controls say     band, runs, files       can be stopped      files         a page that was saved

A page holds one websocket. It sends its settings; the answer comes in parts, the curve first. A newer request of the same
page cancels the older one, and a process that does not stop in time is replaced.
"""

import json
import socket
import webbrowser

from tutelage.errors import InputError

HOST = "127.0.0.1"


def listen(port: int | None) -> socket.socket:
    """A socket on this port, or on a free one."""
    here = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        here.bind((HOST, port or 0))
        here.listen()  # from now on a request waits rather than fails
    except (OSError, OverflowError) as error:
        here.close()
        reason = getattr(error, "strerror", None) or "there is no such port"
        raise InputError(
            f"--port {port} cannot be used ({reason}); leave it out for a free one, or give another from 1024 to 65535."
        ) from None
    return here


def serve(port: int | None = None, browser: bool = True, as_json: bool = False) -> None:
    """Serve the explorer until it is interrupted; as_json: its address for a program, not for a reader."""
    try:
        import uvicorn
        import websockets  # noqa: F401  (uvicorn imports it when it runs)

        from tutelage.explorer.server import MOST_TEXT, build_app
    except ImportError as error:
        missing = f"tutelage explore needs {error.name}, which is not installed"
        raise InputError(f'{missing}; install it by: pip install "tutelage[explore]".') from None
    here = listen(port)
    free = int(here.getsockname()[1])
    address = f"http://{HOST}:{free}/"
    config = uvicorn.Config(
        build_app(free), log_level="warning", ws="websockets-sansio", ws_max_size=MOST_TEXT, timeout_graceful_shutdown=1
    )
    print(json.dumps({"address": address}) if as_json else f"tutelage explorer: {address}  (Ctrl-C ends it)", flush=True)
    if browser:
        webbrowser.open(address)
    uvicorn.Server(config).run(sockets=[here])
