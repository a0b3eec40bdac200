"""Data as rows of numbers: arrays of images, .npy files of any size, and the digits that come with the package."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError

NUMBERS = "iuf"  # kinds of real numbers
CHUNK = 2**23  # numbers held at a time while a covariance is measured


def digits() -> np.ndarray:
    """1797 handwritten digits, (1797, 8, 8), values 0 to 16: the example of real data (source: problem/data/README.md).

    >>> import tutelage as tu
    >>> tu.digits().shape
    (1797, 8, 8)
    """
    with np.load(Path(__file__).parent / "data" / "digits.npz") as file:
        return file["images"].astype(float)


def as_rows(data: Any) -> np.ndarray:
    """Samples as rows (samples, N) of an array of samples, or of a .npy file, which stays on disk; images are flattened."""
    if isinstance(data, str | os.PathLike):
        data = _on_disk(Path(data))
    elif not isinstance(data, np.ndarray) or data.dtype.kind not in NUMBERS:
        data = checks.as_array("data", data)
    checks.require_untraced("data", "a measured spectrum", data)
    if data.ndim < 2 or data.shape[0] < 2 or data.size == 0:
        raise InputError(
            f"data has shape {data.shape}; it must be (samples, features), or images (samples, height, width), two samples "
            "or more."
        )
    return data.reshape(data.shape[0], -1)


def mean_and_covariance(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the rows, piece by piece: a file larger than memory is read once. Shifted by the first row, so nothing cancels."""
    count, N = rows.shape
    shift = np.asarray(rows[0], dtype=float)
    total, square = np.zeros(N), np.zeros((N, N))
    step = max(1, CHUNK // N)
    for first in range(0, count, step):
        piece = np.asarray(rows[first : first + step], dtype=float)
        checks.require_finite("data", piece)
        piece = piece - shift
        total += piece.sum(axis=0)
        square += piece.T @ piece
    mean = total / count
    covariance = square / count - np.outer(mean, mean)
    return shift + mean, (covariance + covariance.T) / 2


def _on_disk(path: Path) -> np.ndarray:
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}; data must be an array or the name of a .npy file.") from None
    except (ValueError, OSError, EOFError):
        data = None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in NUMBERS:
        raise InputError(f"{str(path)!r} is no .npy file of numbers; write one with numpy.save(name, array).")
    return data
