"""Types of arrays and numbers.

docs/notation.md explains the letters: each symbol there is the name of an array here.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

Array: TypeAlias = jax.Array
ArrayLike: TypeAlias = jax.Array | np.ndarray | float | int
NumpyOrJax: TypeAlias = (
    np.ndarray | jax.Array
)  # checked numbers: NumPy unless they are traced
Numbers: TypeAlias = (
    jax.Array | np.ndarray | float | Sequence[Any]
)  # what a user may give for an array
Schedule: TypeAlias = Callable[[Array], Array]
Rate: TypeAlias = (
    NumpyOrJax | Schedule
)  # a constant learning rate, or one that changes with time
Table: TypeAlias = dict[
    str, Any
]  # plain data: numbers, words, lists and tables, by name
