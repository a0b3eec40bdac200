"""Results on disk, found again by content.

A second run computes nothing, and a stopped run continues where it was. The file ID.nc
of a figure carries a key, the hash of all that its numbers depend on: its id and
parameters, the version of tutelage and of the libraries below it, the code of the
library and that of the figure's own module. The code of the command line and of other
modules of figures does not count (figures never import each other; a test says so). A
file with another key is stale and is computed again.
"""

import hashlib
import json
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tutelage
from tutelage import __version__
from tutelage_papers.registry import MODULES, Replica

if TYPE_CHECKING:
    from xarray import Dataset

SCHEMA = "tutelage-replica/1"
BELOW = ("jax", "diffrax", "numba", "numpy", "scipy")
LIBRARY = Path(tutelage.__file__).parent
PAPERS = Path(__file__).parent
ABOVE = ("cli", "explorer", "sweeps")  # parts of the library on which no figure depends
DRAWINGS = (".png", ".pdf", ".svg", ".html")
CODE = {".py", ".html", ".css", ".js"}


def key(replica: Replica, quick: bool) -> str:
    """Return the hash of all that a figure depends on."""
    module = sys.modules[replica.compute.__module__]
    content = {
        "id": replica.id,
        "parameters": replica.parameters(quick),
        "versions": _versions(),
        "library": _library(),
        "figure": _digest([Path(str(module.__file__))]),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _versions() -> dict[str, str]:
    return {"tutelage": __version__} | {name: version(name) for name in BELOW}


@cache
def _library() -> str:
    figures = [PAPERS / "figures" / f"{name.replace('.', '/')}.py" for name in MODULES]
    files = []
    for path in _code(LIBRARY):
        if path.relative_to(LIBRARY).parts[0] not in ABOVE:
            files.append(path)
    for path in _code(PAPERS):
        if path not in figures:
            files.append(path)
    return _digest(files)


def _code(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix in CODE]


def _digest(files: list[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def write(data: "Dataset", path: Path, attributes: dict[str, Any]) -> None:
    """Store a dataset with these attributes, complete or not at all.

    Drawings of the data that was there before are removed first.
    """
    for ending in DRAWINGS:
        path.with_suffix(ending).unlink(missing_ok=True)
    version_of_file = {"schema": SCHEMA, "tutelage_version": __version__}
    stored = data.assign_attrs(version_of_file | attributes)
    # Made in memory, written in one go and renamed: a reader never sees half of a file.
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(stored.to_netcdf(engine="h5netcdf"))
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # not the temporary name
        raise


def read(path: Path) -> "Dataset | None":
    """Return the dataset of a file that `write` wrote, whatever its key.

    None: there is none.
    """
    if not path.is_file():
        return None
    try:
        import xarray as xr

        data = xr.load_dataset(path, engine="h5netcdf")
        ours = data.attrs.get("schema") == SCHEMA and float(data.attrs["seconds"]) >= 0
    except Exception:  # not a file of ours, or changed: it is computed anew
        return None
    return data if ours else None
