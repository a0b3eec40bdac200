"""Chunks: points that are computed together, and kept in one file.

Points of equal shape (hidden units, levels, activations: whatever makes another program) are put together, in their order,
`points_per_chunk` at a time. The size is part of the spec: it never depends on who computes, so neither do the numbers.

By default a chunk holds as many points as make BATCH solves (of one start each), or LOOPED where a measure is computed point
by point, but never more than fit into MEMORY:

    bytes per point = 8 starts times (K M + K^2 + K + 2) COPIES (1 + runs, if simulated)
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.problem import Problem
from tutelage.sweeps.measures import resolve
from tutelage.sweeps.outcome import Task
from tutelage.sweeps.spec import SweepSpec

BATCH, LOOPED = 64, 8  # solves per chunk: enough to share one program's start, few enough to be lost without regret
MEMORY = 2**28  # bytes that the curves of one chunk may take
COPIES = 4  # of a curve while it is computed: padded times, the program's and ours


def points_per_chunk(spec: SweepSpec) -> int:
    """The default: see the module docstring."""
    measures = [resolve(name) for name in spec.measure]
    starts = spec.starts or 1
    looped = any(measure.looped for measure in measures)
    simulated = any("runs" in measure.needs for measure in measures)
    sizes = [_numbers(problem) for problem in _one_of_each_shape(spec)]
    curves = 8 * starts * len(spec.times) * max(sizes, default=1) * COPIES * (1 + spec.runs * simulated)
    return max(1, min((LOOPED if looped else BATCH) // starts, MEMORY // curves))


def _numbers(problem: Problem) -> int:
    """Recorded at each time."""
    K, M = problem.student.hidden, problem.teacher.hidden
    return K * M + K * K + K + 2


def _one_of_each_shape(spec: SweepSpec) -> list[Problem]:
    """A problem of every shape that can be built."""
    built = []
    for name, values in spec.all_points.choices().items():
        for shape in dict.fromkeys(_shapes(spec, name, values)):
            value = values[_shapes(spec, name, values).index(shape)]
            try:
                built.append(spec.problem_at({name: value}))
            except InputError:
                continue
    return [spec.base, *built]


def groups(spec: SweepSpec) -> list[np.ndarray]:
    """The numbers of the points of each shape, in their order; shapes in the order in which they first occur.

    A name's values are told apart by the shape that each gives alone; what cannot stand alone is a shape of its own.
    """
    points = spec.all_points
    shapes = [_shapes(spec, name, values) for name, values in points.choices().items()]
    kinds = [np.array([list(dict.fromkeys(of)).index(shape) for shape in of]) for of in shapes]
    codes = points.codes()
    rows = np.stack([kind[codes[:, i]] for i, kind in enumerate(kinds)], axis=1)
    _, first, label = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return [np.flatnonzero(label.ravel() == i) for i in np.argsort(first)]


def _shapes(spec: SweepSpec, name: str, values: list[Any]) -> list[str]:
    return [_shape(spec, name, value) for value in values]


def _shape(spec: SweepSpec, name: str, value: Any) -> str:
    """What must be equal for two problems to be members of one batch, as text."""
    try:
        return shape_of(spec.problem_at({name: value}))
    except InputError:
        return repr(value)


def shape_of(problem: Any) -> str:
    """The structure of a problem: everything but its numbers."""
    import jax

    leaves, structure = jax.tree.flatten(problem)
    return f"{structure} {[repr(leaf) if callable(leaf) else np.shape(leaf) for leaf in leaves]}"


def chunks(spec: SweepSpec) -> list[np.ndarray]:
    """The numbers of the points of each chunk."""
    size = spec.points_per_chunk
    return [group[i : i + size] for group in groups(spec) for i in range(0, group.size, size)]


def tasks(spec: SweepSpec, functions: dict[str, Any] | None = None) -> Iterator[Task]:
    """Every chunk as a task. functions: the user's own that have no place of their own to be imported from."""
    table = spec.to_dict()
    listed = table.pop("points")
    for index, numbers in enumerate(chunks(spec)):
        payload = {"spec": table | {"points": None}, "points": numbers.tolist()}
        if listed is not None:
            payload["values"] = [listed[number] for number in numbers]
        if functions:
            payload["functions"] = functions
        if spec.imports:
            payload["imports"] = spec.imports
        yield Task(index, payload, tuple(numbers.tolist()))
