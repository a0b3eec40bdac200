"""`Part`: the base class of networks, input laws, losses, labels, rules and schedules.

A part is described by the arguments of its constructor. Files, `Problem.replace` and
reprs all follow from these arguments.
"""

import inspect
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Self, TypeVar

import equinox as eqx
import numpy as np

from tutelage import checks
from tutelage._types import Table
from tutelage.errors import InputError

Kind = TypeVar("Kind", bound="Part")


class Part(eqx.Module):
    """A component of a problem that can be rebuilt from its constructor arguments.

    A subclass keeps each argument as a field of the same name, or defines `arguments`.
    """

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse an unknown argument and suggest the nearest known one."""
        known_names = parameters(cls)
        unknown = [name for name in given if name not in known_names]
        accepts_any_name = inspect.getfullargspec(cls.__init__).varkw is not None
        if unknown and not accepts_any_name:
            checks.known(f"an argument of {cls.__name__}", unknown[0], known_names)
        return super().__new__(cls)

    def arguments(self) -> Table:
        """Return the constructor arguments that build this part again."""
        try:
            return {name: getattr(self, name) for name in parameters(type(self))}
        except AttributeError as error:
            raise InputError(
                f"{type(self).__name__} does not keep {error.name!r}; "
                "keep it as a field."
            ) from None

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other arguments.

        A dotted name, such as "schedule.times", changes an argument of a part that is
        an argument of this one.
        """
        # A change without a dot replaces an argument: its inner name is empty.
        changes_by_argument = defaultdict(dict)
        for name, value in changes.items():
            argument, _, inner_name = name.partition(".")
            changes_by_argument[argument][inner_name] = value
        arguments = self.arguments()
        for argument, inner_changes in changes_by_argument.items():
            value = inner_changes.pop("", arguments.get(argument))
            if inner_changes:
                value = value.changed(**inner_changes)
            arguments[argument] = value
        return type(self)(**arguments)

    def __repr__(self) -> str:
        try:
            displayed = special_arguments(self)
        except InputError:
            fields = vars(self)
            displayed = {
                name: fields[name] for name in fields if fields[name] is not None
            }
        words = [f"{name}={checks.shown(value)}" for name, value in displayed.items()]
        return f"{type(self).__name__}({', '.join(words)})"


@dataclass(frozen=True)
class Choice(Generic[Kind]):
    """Converter of user input to a loss, a label law or a rule.

    The input may be a name, the part itself, or a function.

    Parameters
    ----------
    name : str
        The argument's name in messages, such as "loss".
    base : type
        The class of the result.
    named : dict
        The built-in classes by name.
    default : str
        The name of the default.
    others : str
        The alternatives to a name, in words, for messages.
    wrapper : type, optional
        The class that makes a part of a function.
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
            name = checks.known(self.name, value, self.named)
            return self.named[name]()
        if isinstance(value, type) and issubclass(value, self.base):
            raise InputError(
                f"{self.name} is the class {value.__name__}; "
                f"make one, such as {value.__name__}()."
            )
        if self.wrapper is None or not callable(value) or isinstance(value, eqx.Module):
            raise InputError(
                f"{self.name} is {checks.shown(value)}; "
                f"give a name ({', '.join(self.named)}), {self.others}."
            )
        make: Any = self.wrapper
        return make(value)

    def word(self, part: Part) -> str | None:
        """Return the name of a built-in part, or None for any other one."""
        for word, cls in self.named.items():
            if type(part) is cls:
                return word
        return None


@cache
def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Return the named parameters of a constructor, without self."""
    signature = inspect.signature(cls.__init__)
    after_self = list(signature.parameters.values())[1:]
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p for p in after_self if p.kind not in variadic}


def argument_names(part: object) -> list[str]:
    """Return the names that `Part.changed` accepts, dotted inside other parts."""
    names = list(parameters(type(part)))
    dotted = []
    for name in names:
        inner = getattr(part, name, None)
        if isinstance(inner, Part):
            dotted += [f"{name}.{argument}" for argument in argument_names(inner)]
    return names + dotted


def by_name(*classes: type[Kind]) -> dict[str, type[Kind]]:
    """Return classes by their names in files: PowerDecay is "power_decay"."""
    table = {}
    for cls in classes:
        with_underscores = re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__)
        table[with_underscores.lower()] = cls
    return table


def special_arguments(part: Part) -> Table:
    """Return the constructor arguments that differ from their defaults."""
    defaults = parameters(type(part))
    return {
        name: value
        for name, value in part.arguments().items()
        if not _is_default(value, defaults[name].default)
    }


def _is_default(value: Any, default: Any) -> bool:
    """Compare an argument with its default: numbers by value, objects by identity."""
    if value is None or default is None:
        return value is default
    if checks.is_traced(value) or callable(value) or isinstance(value, eqx.Module):
        return value is default
    return np.array_equal(value, default)


def common_entry(value: Any) -> Any:
    """Return the number that all entries of a vector equal, else the value itself."""
    if value is None or checks.is_traced(value):
        return value
    array = np.asarray(value)
    if array.ndim == 1 and np.all(array == array[0]):
        return array[0]
    return value
