"""What the page offers to keep, built from its settings: the curve as NetCDF, and the page itself without a server.

A file is the last of what its function yields; what comes before it is empty, and a chance to stop.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tutelage.explorer.settings import Settings


def netcdf(settings: Settings) -> Iterator[bytes]:
    """The theory's trajectory, as `Trajectory.save` writes it."""
    from tutelage.explorer.answer import theory_of

    with tempfile.TemporaryDirectory() as folder:
        yield theory_of(settings).save(Path(folder) / "curve.nc").read_bytes()


def frozen_page(settings: Settings) -> Iterator[bytes]:
    """Curve, band and runs on a page that works without a network."""
    from tutelage.explorer.answer import whole_content
    from tutelage.page.assemble import assemble

    content = {}
    for part in whole_content(settings):
        content = part
        yield b""
    yield assemble(content).encode()


FILES: dict[str, Callable[[Settings], Iterator[bytes]]] = {"curve.nc": netcdf, "page.html": frozen_page}
MEDIA = {"curve.nc": "application/x-netcdf", "page.html": "text/html; charset=utf-8"}
