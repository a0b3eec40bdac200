"""A problem as plain data: the same dictionary serves TOML, JSON and the attributes of a NetCDF file.

A part is stored as a table of the constructor arguments that differ from their defaults, with its `kind` where several classes
can stand. A function of a module is stored as "module:function" and imported only if the reader allows that module; any other
function cannot be stored. A custom input law is stored as its spectrum, without eigenvectors.
"""

import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeAlias, TypeGuard, TypeVar

import jax
import numpy as np

from tutelage import checks, labels, losses, rules
from tutelage._part import Choice, Part, by_name, parameters, special_arguments
from tutelage._types import Table
from tutelage.errors import InputError
from tutelage.problem import activation as activations
from tutelage.problem import schedules
from tutelage.problem.inputs import HiddenManifold, Inputs, Isotropic, PowerLaw, Spectrum
from tutelage.problem.mixture import Mixture
from tutelage.problem.network import Network
from tutelage.problem.schedules import SGD, USUAL_LR, SlowMomentum
from tutelage.problem.tasks import NAMED as TASK_SCHEDULES
from tutelage.problem.tasks import Drift, Tasks

Built = TypeVar("Built")
Plain: TypeAlias = bool | int | float | str | list[Any] | Table | None
LEARNING: dict[str, Choice[Any]] = {choice.name: choice for choice in (losses.as_loss, labels.as_labels, rules.as_rule)}
INPUTS = by_name(Isotropic, PowerLaw, Spectrum, Mixture, HiddenManifold)
NAMES = ("noise", "loss", "labels", "rule", "student", "teacher", "inputs", "sgd")
PARTS = NAMES[1:]
TABLE = "a table of names and values"
# what the table under a dotted name describes: one class, or one of several kinds; any other table with a kind is a schedule
PLACES: dict[str, type[Part] | Mapping[str, type[Part]]] = {
    "student": Network,
    "teacher": Network,
    "teacher.teachers": Network,
    "teacher.schedule": TASK_SCHEDULES,
    "teacher.drift": Drift,
    "inputs": INPUTS,
    "inputs.inputs": INPUTS,
    "sgd": SGD,
    "sgd.momentum": SlowMomentum,
}


def plain(name: str, value: object) -> Plain:
    """A value of the problem as numbers, words, lists and tables; `revived` is its inverse."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {key: plain(key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(name, one) for one in value]
    if isinstance(value, activations.Activation):
        return _activation_word(value)
    value = LEARNING[name](value) if name in LEARNING and callable(value) else value
    if isinstance(value, Part):
        return _part_to_plain(name, value)
    if callable(value):
        return _path(name, value)
    return np.asarray(jax.device_get(value)).tolist()


def _part_to_plain(name: str, part: Part) -> str | Table:
    """A table of the arguments that differ from their defaults; a loss, labels or a rule without such arguments is a word."""
    if isinstance(part, Inputs) and is_named(part):
        part = part.without_basis()
    elif isinstance(part, Inputs):
        part = Spectrum(part.eigenvalues, part.fractions, normalize=False, known_dim=part.known_dim)
    options = special_arguments(part)
    choice = next((one for one in LEARNING.values() if isinstance(part, one.base)), None)
    named = schedules.NAMED | TASK_SCHEDULES | INPUTS if choice is None else choice.named
    kind = next((word for word, cls in named.items() if type(part) is cls), None)
    if choice is not None and kind is None:
        kind = _path(name, options.pop("function") if type(part) is choice.wrapper else type(part))
    table = {argument: plain(argument, value) for argument, value in options.items()}
    if choice is not None and not table:
        return str(kind)
    return table if kind is None else {"kind": kind} | table


def is_named(inputs: Inputs) -> bool:
    """Whether a file holds the law itself, so that its own numbers can be put back."""
    return type(inputs) in INPUTS.values()


def _activation_word(value: activations.Activation) -> str:
    if activations.NAMED.get(value.name) == value:
        return value.name
    function = getattr(value.function, "function", value.function)  # what was recorded
    path = _path("activation", function)
    if activations.as_activation(function) != value:
        raise InputError(f"the activation {value.name!r} declares more than {path!r}; a file holds only the function.")
    return path


def _path(name: str, value: object) -> str:
    if (path := path_of(value)) is not None:
        return path
    kind = "class" if isinstance(value, type) else "function"
    raise InputError(f"{name} is your own {kind} {checks.name_of(value)!r}; a file holds only what a module has by name.")


def to_toml(data: Table) -> str:
    """TOML with one line for each number, list and part of a table (tomli-w writes one for each entry of a list)."""
    scalars = [f"{name} = {_toml(value)}" for name, value in data.items() if not isinstance(value, dict)]
    tables = [(name, table) for name, table in data.items() if isinstance(table, dict)]
    lines = [f"\n[{name}]\n" + "\n".join(f"{k} = {_toml(v)}" for k, v in table.items()) for name, table in tables]
    return "\n".join(scalars + lines) + "\n"


def _toml(value: Plain) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def problem_arguments(data: Table, allow: str | Iterable[str] = ()) -> Table:
    """The arguments of the problem that a table describes, every name checked. allow: modules that may be imported for it."""
    modules = as_modules(allow)
    for name in checks.as_kind("the problem", data, dict, "a table with student, teacher, inputs, sgd"):
        checks.known("a name in the problem", name, NAMES)
    inputs, sgd = (checks.as_kind(name, data.get(name, {}), dict, TABLE) for name in ("inputs", "sgd"))
    for name in ("student", "teacher"):
        if name not in data and (name == "student" or inputs.get("kind") != "mixture"):
            raise InputError(f"the problem has no [{name}] table; it must have one, such as hidden = 3, activation = 'erf'.")
    whole = data | {"inputs": inputs, "sgd": {"lr": USUAL_LR} | sgd}
    return {name: _read(name, value, modules) for name, value in whole.items()}


def revived(name: str, value: Plain, allow: tuple[str, ...] = ()) -> object:
    """What `Problem.replace` takes under this name ("lr", "sgd.lr", "inputs"), from plain data."""
    full = next((known for known in PLACES if known.endswith(f".{name}") and name not in NAMES), name)
    return _read(full, value, allow)


def _read(where: str, value: Plain, allow: tuple[str, ...]) -> Any:
    """The value that a file has under a dotted name ("sgd.lr"): a part, a function of a module, anything else as it is."""
    if isinstance(value, list) and any(isinstance(one, str | dict) for one in value):
        return [_read(where, one, allow) for one in value]
    if where in LEARNING:
        return _read_learning(where, value, allow)
    if where in NAMES and where != "noise":
        value = checks.as_kind(where, value, dict, TABLE)
    if is_path(value):
        return imported(where, value, allow)
    if not isinstance(value, dict):
        return value
    place = Tasks if where == "teacher" and "teachers" in value else PLACES.get(where)
    if place is None and "kind" not in value:
        return value
    options, kinds = dict(value), place or schedules.NAMED
    if isinstance(kinds, type):
        return build(where, kinds, options, allow)
    kind = checks.known(f"{where}.kind", options.pop("kind", "isotropic" if kinds is INPUTS else None), kinds)
    return build(where, kinds[kind], options, allow)


def _read_learning(name: str, value: Plain, allow: tuple[str, ...]) -> Part:
    choice, options = LEARNING[name], dict(value) if isinstance(value, dict) else {"kind": value}
    word, given = options.pop("kind", None), {}
    if is_path(word):
        cls: Any = imported(name, word, allow)
        if not isinstance(cls, type):
            cls, given = choice.wrapper, {"function": cls}
    else:
        cls = choice.named[checks.known(f"{name}.kind" if options else name, word, choice.named)]
    if cls is None or not issubclass(cls, choice.base):
        kind = choice.base.__name__
        raise InputError(f"{name} is {word!r}, which is not a {kind}; give a subclass of tutelage's {kind}.")
    return build(name, cls, options, allow, **given)


def build(where: str, cls: type[Built], table: Table, allow: tuple[str, ...] = (), **given: object) -> Built:
    """A part, or an initial condition, from the arguments of its constructor. given: those that the table cannot have."""
    taken = {name: p for name, p in parameters(cls).items() if name not in given}
    for name in table:
        checks.known(f"a name in [{where}]", name, taken)
    missing = [n for n, p in taken.items() if p.default is inspect.Parameter.empty and n not in table]
    if missing:
        raise InputError(f"[{where}] lacks {', '.join(missing)}; it must have a value.")
    arguments = {name: _read(f"{where}.{name}", value, allow) for name, value in table.items()}
    constructor: Callable[..., Built] = cls
    try:
        return constructor(**arguments, **given)
    except InputError as error:
        raise InputError(f"in [{where}], {error}") from None


def parsed(text: str, form: str = "TOML") -> Table:
    """The dictionary that TOML or JSON text holds."""
    text = checks.as_kind(f"the {form} of the problem", text, str, "text. Read the file first")
    if text.endswith(".toml") and "\n" not in text:
        raise InputError(f"{text!r} is the name of a file; give its text: Path({text!r}).read_text().")
    try:
        return (tomllib if form == "TOML" else json).loads(text)
    except RecursionError:
        raise InputError(f"the {form} of the problem is nested too deeply; a problem needs three levels.") from None
    except ValueError as error:  # bad syntax, a number with too many digits
        message = " ".join(str(error).rstrip(".").split())
        raise InputError(f"the text is not {form}: {message[:1].lower()}{message[1:]}.") from None


def is_path(value: object) -> TypeGuard[str]:
    """Is this the text "module:function"?"""
    return isinstance(value, str) and ":" in value


def path_of(value: object) -> str | None:
    """The text "module:name" of a function or class, if importing that gives it back; None for local functions."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    try:
        found = attrgetter(str(name))(sys.modules[str(module)])
    except (AttributeError, KeyError):
        return None
    return f"{module}:{name}" if found is value and module != "__main__" else None


def paths_in(data: object) -> list[str]:
    """Every "module:function" in a tree of plain data."""
    if isinstance(data, dict | list | tuple):
        values = data.values() if isinstance(data, dict) else data
        return [path for value in values for path in paths_in(value)]
    return [data] if is_path(data) else []


def modules_in(data: object) -> tuple[str, ...]:
    """The modules that a tree of plain data names."""
    return tuple(dict.fromkeys(path.partition(":")[0] for path in paths_in(data)))


def as_modules(allow: object) -> tuple[str, ...]:
    """Names of modules, checked."""
    names = list(allow) if isinstance(allow, Iterable) and not isinstance(allow, str) else [allow]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"allow is {checks.shown(allow)}; it must be a list of names of modules.")
    return tuple(map(str, names))


def imported(where: str, path: str, allow: Iterable[str]) -> Callable[..., object]:
    """What "module:function" names, if the user allows that module."""
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise InputError(f"{where} is {path!r}; a custom function must be given as 'module:function'.")
    if module not in allow:
        raise InputError(f"{where} is {path!r} and {module!r} is not allowed; give allow=[{module!r}] or --import {module}.")
    try:
        found = import_module(module)
    except Exception as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(f"{where} is {path!r}, which cannot be imported ({said}); fix it, or set PYTHONPATH.") from None
    try:
        value = attrgetter(name)(found)
    except AttributeError:
        near = checks.nearest(name, [known for known in dir(found) if not known.startswith("_")])
        raise InputError(f"{where} is {path!r}; the module has no {name!r}.{near}") from None
    return checks.as_kind(f"{where} is {path!r}, which", value, Callable, "a function")
