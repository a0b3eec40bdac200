"""The points of a sweep: names such as "lr" or "student.hidden" with their values, and the problem at each point.

A name is one that `Problem.replace` takes, or "dim" and "scale", which belong to the start. Several names joined by commas
("student.hidden, teacher.hidden") take the same value. Values are plain data (numbers, words, lists, tables), so that a
point is the same in a file, in another process and on another machine.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.problem import Problem, serialize
from tutelage.problem.own import modules_in

OF_START = ("dim", "scale")  # names that belong to the start rather than to the problem


def parts_of(name: str) -> tuple[str, ...]:
    """The names that take one value: "a, b" are two."""
    return tuple(part.strip() for part in name.split(","))


def known_names(problem: Problem) -> dict[str, str]:
    """Every name that a sweep over this problem can change, with its full name; shared ones only with their part."""
    fields = [(part, field) for part in serialize.PARTS for field in serialize.arguments(getattr(problem, part))]
    plain = [field for _, field in fields]
    names = {name: name for name in ("noise", "inputs", *serialize.LEARNING, *OF_START)}
    names |= {field: f"{part}.{field}" for part, field in fields if plain.count(field) == 1}
    return names | {f"{part}.{field}": f"{part}.{field}" for part, field in fields}


def require_known(problem: Problem, names: Sequence[str]) -> None:
    """Refuse a name that nothing has, that two parts share, or that is there twice."""
    known, seen = known_names(problem), {}
    for part in (part for name in names for part in parts_of(name)):
        if part not in known:
            raise InputError(_unknown(part, known))
        if known[part] in seen:
            raise InputError(f"over names {seen[known[part]]} and {part}, which are the same; leave one out.")
        seen[known[part]] = part


def _unknown(part: str, known: Mapping[str, str]) -> str:
    owners = [name for name in known if name.endswith(f".{part}")]
    if owners:
        return f"over names {part!r}, which {len(owners)} parts have; say {owners[0]!r}, or {', '.join(owners)!r} for all."
    shortest = dict.fromkeys(next(name for name, full in known.items() if full == target) for target in known.values())
    hint = checks.nearest(part, shortest)
    return f"over names {part!r}, which a sweep cannot change here; it can change {', '.join(shortest)}.{hint}"


def plain_values(name: str, values: Any) -> list[Any]:
    """The values of an axis as plain data, at least one, none twice."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple | range):
        raise InputError(f"over gives {name} the value {checks.shown(values)}; it must be a list of values.")
    plain = [serialize.plain(name, value) for value in values]
    if not plain:
        raise InputError(f"over gives {name} no values; it must have at least one.")
    seen: set[str] = set()
    for value in plain:
        if _label(value) in seen:
            raise InputError(f"over gives {name} the value {checks.shown(value)} twice; each value must occur once.")
        seen.add(_label(value))
    return plain


def _label(value: Any) -> str:
    """Equal for equal values, also for lists and tables."""
    return json.dumps(value, sort_keys=True)


def problem_at(base: Problem, point: Mapping[str, Any], allow: tuple[str, ...] = ()) -> Problem:
    """The problem with the values of this point; those of the start are left out. allow: modules that may be imported."""
    changes = {}
    for name, value in point.items():
        for part in parts_of(name):
            if part not in OF_START:
                changes[part] = serialize.revived(part, value, allow)
    return base.replace(**changes)


def start_values(point: Mapping[str, Any]) -> dict[str, Any]:
    """What the point says about its start: dim, scale."""
    return {part: value for name, value in point.items() for part in parts_of(name) if part in OF_START}


@dataclass(frozen=True)
class Points:
    """All points in their order: a grid (the last axis runs fastest), or a list.

    axes: names with their values, of a grid. listed: the points themselves, of a list; all with the same names.
    """

    axes: dict[str, list[Any]]
    listed: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return (len(self.listed),) if self.listed is not None else tuple(len(values) for values in self.axes.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What changes."""
        return tuple(self.axes) if self.listed is None else tuple(self.listed[0])

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The values of one point."""
        if self.listed is not None:
            return dict(self.listed[index])
        places = np.unravel_index(index, self.shape)
        return {name: values[place] for (name, values), place in zip(self.axes.items(), places, strict=True)}

    def choices(self) -> dict[str, list[Any]]:
        """The values that each name takes, each once."""
        if self.listed is None:
            return self.axes
        return {name: list({_label(point[name]): point[name] for point in self.listed}.values()) for name in self.names}

    def codes(self) -> np.ndarray:
        """(points, names): which of its choices each name takes at each point."""
        if self.listed is None:
            return np.stack(np.unravel_index(np.arange(len(self)), self.shape), axis=1)
        places = {name: {_label(v): i for i, v in enumerate(values)} for name, values in self.choices().items()}
        return np.array([[place[_label(point[name])] for name, place in places.items()] for point in self.listed])


def given_modules(problem: Mapping[str, Any], over: Any, listed: Any) -> tuple[str, ...]:
    """The modules of functions that are given themselves, in the problem or as values; not those that a text names."""
    axes = [over] if isinstance(over, Mapping) else listed if isinstance(listed, list | tuple) else []
    pairs = [(name, value) for axis in axes if isinstance(axis, Mapping) for name, value in axis.items()]
    each = [(name, one) for name, value in pairs for one in (value if isinstance(value, list | tuple) else [value])]
    given = [serialize.plain(parts_of(str(name))[0], one) for name, one in each if callable(one)]
    return modules_in([problem, given])


def as_points(problem: Problem, over: Any, listed: Any, allow: tuple[str, ...] = ()) -> Points:
    """The points of a sweep as the user gave them, every name and kind of value checked."""
    if (over is None) == (listed is None):
        given = "neither over nor points" if over is None else "both over and points"
        raise InputError(f"a sweep was given {given}; give over={{'lr': [0.1, 0.2]}}, or points=[{{'lr': 0.1}}, ...].")
    if listed is not None:
        return Points({}, _as_list(problem, listed))
    if not isinstance(over, Mapping) or not over:
        raise InputError(
            f"over is {checks.shown(over)}; it must be names with lists of values, such as {{'lr': [0.1, 0.2]}}."
        )
    require_known(problem, tuple(over))
    axes = {", ".join(parts_of(name)): plain_values(name, values) for name, values in over.items()}
    for name, values in axes.items():
        for value in values:
            _require_possible(problem, name, value, allow)
    return Points(axes)


def _as_list(problem: Problem, listed: Any) -> list[dict[str, Any]]:
    if isinstance(listed, Mapping | str) or not isinstance(listed, Sequence) or not listed:
        raise InputError(f"points is {checks.shown(listed)}; it must be a list of points, such as [{{'lr': 0.1}}].")
    for i, point in enumerate(listed):
        if not isinstance(point, Mapping) or set(point) != set(listed[0]):
            raise InputError(f"point {i} is {checks.shown(point)}; every point must name the same as point 0.")
    require_known(problem, tuple(listed[0]))
    return [{name: serialize.plain(name, point[name]) for name in listed[0]} for point in listed]


def _require_possible(problem: Problem, name: str, value: Any, allow: tuple[str, ...]) -> None:
    try:
        if name == "dim":
            checks.as_count("dim", value)
        elif name == "scale":
            checks.require_nonnegative("scale", checks.as_array("scale", value))
        else:
            problem_at(problem, {name: value}, allow)
    except InputError as error:
        raise InputError(f"over gives {name} the value {checks.shown(value)}: {error}") from None
