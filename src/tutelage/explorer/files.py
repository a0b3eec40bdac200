"""What the page offers to keep, built from its settings: the curve as NetCDF, and the page itself without a server."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from tutelage.explorer.settings import Settings


def netcdf(settings: Settings) -> bytes:
    """The theory's trajectory, as `Trajectory.save` writes it."""
    from tutelage.explorer.answer import theory_of

    with tempfile.TemporaryDirectory() as folder:
        return theory_of(settings).save(Path(folder) / "curve.nc").read_bytes()


def frozen_page(settings: Settings) -> bytes:
    """Curve, band and runs on a page that works without a network."""
    from tutelage.explorer.answer import whole_content
    from tutelage.page.assemble import assemble

    return assemble(whole_content(settings)).encode()


FILES: dict[str, Callable[[Settings], bytes]] = {"curve.nc": netcdf, "page.html": frozen_page}
MEDIA = {"curve.nc": "application/x-netcdf", "page.html": "text/html; charset=utf-8"}
