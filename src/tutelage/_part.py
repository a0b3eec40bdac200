"""`Part`: what networks, input laws, losses, labels, rules and schedules have in common.

A part is described by the arguments of its constructor. Files, `Problem.replace` and reprs all follow from them.
"""

import inspect
import re
from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Self, TypeVar

import equinox as eqx
import numpy as np

from tutelage import checks
from tutelage._types import Table
from tutelage.errors import InputError

Kind = TypeVar("Kind", bound="Part")
Module = TypeVar("Module", bound=eqx.Module)


class Part(eqx.Module):
    """A part of a problem. It keeps each argument of its constructor as a field, or defines `arguments`."""

    def __new__(cls, *_: object, **given: object) -> Self:
        """Answer an unknown argument with the nearest one."""
        unknown = [name for name in given if name not in parameters(cls)]
        if unknown and inspect.getfullargspec(cls.__init__).varkw is None:
            checks.known(f"an argument of {cls.__name__}", unknown[0], parameters(cls))
        return super().__new__(cls)

    def arguments(self) -> Table:
        """The constructor arguments that build this part again."""
        try:
            return {name: getattr(self, name) for name in parameters(type(self))}
        except AttributeError as error:
            raise InputError(f"{type(self).__name__} does not keep {error.name!r}; keep it as a field.") from None

    def changed(self, **changes: Any) -> Self:
        """The same part with other arguments; "schedule.times" is an argument of the part `schedule` inside it."""
        given, inside = self.arguments(), defaultdict(dict)
        for name, value in changes.items():
            part, _, argument = name.partition(".")
            inside[part][argument] = value
        for name, values in inside.items():
            part = values.pop("", given.get(name))
            given[name] = part.changed(**values) if values else part
        return type(self)(**given)

    def __repr__(self) -> str:
        try:
            special = special_arguments(self)
        except InputError:
            special = {name: value for name, value in vars(self).items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={checks.shown(value)}' for name, value in special.items())})"


@dataclass(frozen=True)
class Choice(Generic[Kind]):
    """Makes a loss, labels or a rule of what the user gives: a name, the part itself, or a function.

    default: a name. others: what else than a name may be given, for messages. wrapper: makes a part of a function.
    """

    name: str
    base: type[Kind]
    named: dict[str, type[Kind]]
    default: str
    others: str
    wrapper: type[Kind] | None = None

    def __call__(self, value: object) -> Kind:
        if isinstance(value, self.base):
            return value
        if isinstance(value, str):
            return self.named[checks.known(self.name, value, self.named)]()
        if isinstance(value, type) and issubclass(value, self.base):
            raise InputError(f"{self.name} is the class {value.__name__}; make one, such as {value.__name__}().")
        if self.wrapper is None or not callable(value) or isinstance(value, eqx.Module):
            raise InputError(f"{self.name} is {checks.shown(value)}; give a name ({', '.join(self.named)}), {self.others}.")
        make: Any = self.wrapper
        return make(value)

    def word(self, part: Part) -> str | None:
        """The name of a part; None if it is not a built-in one."""
        return next((word for word, cls in self.named.items() if type(part) is cls), None)


@cache
def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """What a constructor takes, by name."""
    _, *taken = inspect.signature(cls.__init__).parameters.values()
    return {p.name: p for p in taken if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def argument_names(part: object) -> list[str]:
    """The names that `Part.changed` takes, those inside other parts with a dot."""
    own = list(parameters(type(part)))
    inside = [(name, one) for name in own if isinstance(one := getattr(part, name, None), Part)]
    return own + [f"{name}.{argument}" for name, one in inside for argument in argument_names(one)]


def by_name(*classes: type[Kind]) -> dict[str, type[Kind]]:
    """Classes by the names that files have for them: PowerDecay is "power_decay"."""
    return {re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower(): cls for cls in classes}


def special_arguments(part: Part) -> Table:
    """The arguments that differ from their defaults."""

    def usual(value: Any, default: Any) -> bool:
        if value is None or default is None or checks.is_traced(value) or callable(value) or isinstance(value, eqx.Module):
            return value is default
        return np.array_equal(value, default)

    taken = parameters(type(part))
    return {name: value for name, value in part.arguments().items() if not usual(value, taken[name].default)}


def with_fields(module: Module, **fields: object) -> Module:
    """A copy with other values in fields that the constructor does not take, such as those that were measured."""
    other = copy(module)
    for name, value in fields.items():
        object.__setattr__(other, name, value)
    return other


def common_entry(value: Any) -> Any:
    """The number that all entries of a vector equal; anything else as it is."""
    if value is None or checks.is_traced(value):
        return value
    array = np.asarray(value)
    return array[0] if array.ndim == 1 and np.all(array == array[0]) else value
