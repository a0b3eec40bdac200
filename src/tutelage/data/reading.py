"""Samples and labels as given: files, data sets and data frames, read in pieces."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage.errors import InputError, explained

FeatureMap: TypeAlias = Callable[[np.ndarray], Any]
CHUNK = 2**23  # numbers held at a time while moments are measured
# Names of the arrays in an .npz file.
FEATURES = ("X", "x", "data", "images", "x_train")
LABELS = ("y", "Y", "target", "labels", "y_train")


def open_samples(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y of a data set of scikit-learn, an .npz file or a data frame.

    A .npy file stays as it is.
    """
    labels_of_X: Any = None
    if isinstance(X, str | os.PathLike):
        if Path(X).suffix == ".npz":
            X, labels_of_X = _archive(Path(X))
    elif hasattr(X, "data") and hasattr(X, "target"):
        labels_of_X = X.target
        X = X.data
    if y is not None and labels_of_X is not None:
        raise InputError(
            "y is given, and X brings its own labels; "
            "leave y out, or give the features alone as X."
        )
    if y is None:
        y = labels_of_X
    return _without_frame(X), _without_frame(y)


def _without_frame(values: Any) -> Any:
    """Return the array of a data frame, else the values themselves."""
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    return values


def _archive(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Return features and labels of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except FileNotFoundError:
        raise InputError(
            f"there is no file {str(path)!r}; "
            "X must be an array or the name of a .npy or .npz file."
        ) from None
    except (ValueError, OSError, EOFError):
        raise InputError(
            f"{str(path)!r} is not an .npz file of numbers; "
            "write it with numpy.savez(name, X=X, y=y)."
        ) from None
    X = _first_named(arrays, FEATURES)
    y = _first_named(arrays, LABELS)
    if X is None and len(arrays) == 1:
        (X,) = arrays.values()
    if X is None:
        names = ", ".join(arrays) or "nothing"
        raise InputError(
            f"{str(path)!r} holds {names}; "
            f"the features must be named {', '.join(FEATURES)}."
        )
    return X, y


def _first_named(
    arrays: dict[str, np.ndarray], names: Sequence[str]
) -> np.ndarray | None:
    """Return the array of the first name that there is."""
    for name in names:
        if name in arrays:
            return arrays[name]
    return None


def as_labels(y: object, samples: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return class numbers 0, 1, ... and the classes, or real labels and None."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (samples,):
        raise InputError(
            f"y has shape {labels.shape}; it must be ({samples},), one label for each "
            "sample."
        )
    if labels.dtype.kind == "f":
        checks.require_finite("y", labels)
        return labels.astype(float), None
    is_discrete = labels.dtype.kind in "iubUS"
    if not is_discrete and not all(isinstance(label, str) for label in labels):
        raise InputError(
            f"y has type {labels.dtype}; "
            "it must hold classes (integers, booleans, words) or real numbers."
        )
    classes, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) == 1:
        raise InputError(
            f"y has one class only, {classes[0]}; a mixture needs two. "
            "Leave y out to measure the inputs."
        )
    if counts.min() < 2:
        raise InputError(
            f"class {classes[counts.argmin()]} has one sample; a covariance needs two "
            f"or more in each of the {len(classes)} classes. Leave such classes out; "
            "if y is a quantity, give it as floating-point numbers."
        )
    return which, classes


def pieces(
    rows: np.ndarray, feature_map: FeatureMap | None
) -> Iterator[Float[np.ndarray, "n N"]]:
    """Yield features of the rows, piece by piece, checked."""
    step = max(1, CHUNK // rows.shape[1])
    width = None
    for first in range(0, len(rows), step):
        piece = np.asarray(rows[first : first + step], dtype=float)
        checks.require_finite("X", piece)
        if feature_map is not None:
            piece = _mapped(piece, feature_map, width)
            width = piece.shape[1]
        yield piece


def _mapped(
    piece: np.ndarray, feature_map: FeatureMap, width: int | None
) -> Float[np.ndarray, "n N"]:
    """Return the features of a piece. width: their number in the pieces before."""
    shape = piece.shape
    failure = f"feature_map failed on rows of shape {shape}"
    with explained(failure, "it must take rows (n, features)."):
        features = np.asarray(feature_map(piece), dtype=float)
    is_table = features.ndim == 2 and features.shape[0] == shape[0]
    if not is_table or (width and features.shape[1] != width):
        needed = f"({shape[0]}, {width or 'features'})"
        raise InputError(
            f"feature_map made shape {features.shape} of rows {shape}; "
            f"it must be {needed}."
        )
    checks.require_finite("the output of feature_map", features)
    return features
