"""A problem as plain data, which TOML, JSON and the attributes of NetCDF files hold.

A part is stored as a table of the constructor arguments that differ from their defaults,
with its `kind` where several classes can stand. A function of a module is stored as
"module:function" and imported only if the reader allows that module; any other function
cannot be stored. A custom input law is stored as its spectrum, without eigenvectors.
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

from tutelage import checks
from tutelage._part import Choice, Part, by_name, parameters, special_arguments
from tutelage._types import Table
from tutelage.errors import InputError
from tutelage.problem import activation as activations
from tutelage.problem import labels
from tutelage.problem.data_set import DataSet
from tutelage.problem.inputs import (
    HiddenManifold,
    Inputs,
    Isotropic,
    PowerLaw,
    Spectrum,
)
from tutelage.problem.mixture import Mixture
from tutelage.problem.network import Network
from tutelage.problem.tasks import NAMED_TASK_SCHEDULES, Drift, Tasks
from tutelage.training import losses, rules, schedules
from tutelage.training.optimizers import DEFAULT_LR, OPTIMIZERS, Optimizer, SlowMomentum

Built = TypeVar("Built")
Plain: TypeAlias = bool | int | float | str | list[Any] | Table | None

LEARNING: dict[str, Choice[Any]] = {
    choice.name: choice for choice in (losses.as_loss, labels.as_labels, rules.as_rule)
}
INPUTS = by_name(Isotropic, PowerLaw, Spectrum, Mixture, HiddenManifold)
PARTS = (
    "loss",
    "labels",
    "rule",
    "student",
    "teacher",
    "inputs",
    "optimizer",
    "data",
)
NAMES = ("noise", *PARTS)
A_TABLE = "a table of names and values"
# The kind of a table that names none.
DEFAULT_KINDS = {
    "inputs": "isotropic",
    "inputs.inputs": "isotropic",
    "optimizer": "sgd",
}
# The classes of the table under a dotted name: one class, or several by their kind. Any
# other table with a kind is a schedule.
CLASSES: dict[str, type[Part] | Mapping[str, type[Part]]] = {
    "student": Network,
    "teacher": Network,
    "teacher.teachers": Network,
    "teacher.schedule": NAMED_TASK_SCHEDULES,
    "teacher.drift": Drift,
    "inputs": INPUTS,
    "inputs.inputs": INPUTS,
    "optimizer": OPTIMIZERS,
    "optimizer.momentum": SlowMomentum,
    "data": DataSet,
}


def plain(name: str, value: object) -> Plain:
    """Return a value of a problem as numbers, words, lists and tables.

    `revived` is the inverse.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {key: plain(key, entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(name, entry) for entry in value]
    if isinstance(value, activations.Activation):
        return _activation_to_plain(value)
    if name in LEARNING and callable(value):
        value = LEARNING[name](value)
    if isinstance(value, Part):
        return _part_to_plain(name, value)
    if callable(value):
        return _require_path(name, value)
    return np.asarray(jax.device_get(value)).tolist()


def _part_to_plain(name: str, part: Part) -> str | Table:
    """Return a table of the arguments that differ from their defaults.

    A loss, labels or a rule without such arguments is a word.
    """
    if isinstance(part, Inputs):
        part = _storable_inputs(part)
    options = special_arguments(part)
    choice = _choice_of(part)
    if choice is None:
        kind = _kind_of(part)
    else:
        kind = choice.word(part)
        if kind is None:
            is_wrapped = type(part) is choice.wrapper
            kind = _require_path(
                name, options.pop("function") if is_wrapped else type(part)
            )
    table = {argument: plain(argument, value) for argument, value in options.items()}
    if choice is not None and not table:
        return str(kind)
    if kind is None:
        return table
    return {"kind": kind} | table


def _storable_inputs(inputs: Inputs) -> Inputs:
    """Return the law that a file keeps: without eigenvectors, of a built-in class."""
    if is_named(inputs):
        return inputs.without_basis()
    return Spectrum(
        inputs.eigenvalues,
        inputs.fractions,
        normalize=False,
        known_dim=inputs.known_dim,
    )


def _choice_of(part: Part) -> Choice[Any] | None:
    """Return the `Choice` of a loss, labels or a rule; None for other parts."""
    for choice in LEARNING.values():
        if isinstance(part, choice.base):
            return choice
    return None


def _kind_of(part: Part) -> str | None:
    """Return the name of a part's class in files; None if the place of a table says it."""
    kind = _kind_among(_classes_by_kind(), part)
    if kind is None and isinstance(part, Optimizer):
        raise InputError(
            f"the optimizer {type(part).__name__} has no name in files; give its class "
            "one, as kind = 'my_optimizer'."
        )
    return kind


def _classes_by_kind() -> dict[str, type[Part]]:
    """Return every class that a table of a file names by its `kind`.

    Losses, labels and rules are named by a word in place of a table.
    """
    return {**schedules.NAMED_SCHEDULES, **NAMED_TASK_SCHEDULES, **INPUTS, **OPTIMIZERS}


def _kind_among(named: Mapping[str, type[Part]], part: Part) -> str | None:
    """Return the name of a part's class in a table of classes, or None."""
    for word, cls in named.items():
        if type(part) is cls:
            return word
    return None


def is_named(inputs: Inputs) -> bool:
    """Return True if a file holds the law itself, so that its numbers can be restored."""
    return type(inputs) in INPUTS.values()


def _activation_to_plain(value: activations.Activation) -> str:
    """Return the name of an activation, or "module:function" of its function."""
    if activations.NAMED_ACTIVATIONS.get(value.name) == value:
        return value.name
    # a recording keeps the function it was made of
    function = getattr(value.function, "function", value.function)
    path = _require_path("activation", function)
    if activations.as_activation(function) != value:
        raise InputError(
            f"the activation {value.name!r} declares more than {path!r}; "
            "a file holds only the function."
        )
    return path


def _require_path(name: str, value: object) -> str:
    """Return "module:name" of a function or class; refuse local ones."""
    path = path_of(value)
    if path is None:
        kind = "class" if isinstance(value, type) else "function"
        raise InputError(
            f"{name} is your own {kind} {checks.name_of(value)!r}; "
            "a file holds only what a module has by name."
        )
    return path


def to_toml(data: Table) -> str:
    """Return TOML with one line for each number, list and inner table.

    tomli-w writes one line for each entry of a list.
    """
    lines = []
    for name, value in data.items():
        if not isinstance(value, dict):
            lines.append(f"{name} = {_toml(value)}")
    for name, table in data.items():
        if isinstance(table, dict):
            lines.append(f"\n[{name}]")
            lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Plain) -> str:
    """Return one value as TOML on one line."""
    if isinstance(value, dict):
        entries = [f"{name} = {_toml(entry)}" for name, entry in value.items()]
        return "{ " + ", ".join(entries) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def problem_arguments(data: Table, allow: str | Iterable[str] = ()) -> Table:
    """Return the constructor arguments of the problem that a table describes.

    Every name is checked. allow: modules that may be imported for functions.
    """
    modules = as_modules(allow)
    must = "a table with student, teacher, inputs, optimizer"
    checks.as_kind("the problem", data, dict, must)
    if "sgd" in data:
        raise InputError(
            "the problem has a table [sgd]; it is called [optimizer] now. Rename it, and "
            "add kind = 'sgd'."
        )
    for name in data:
        checks.known("a name in the problem", name, NAMES)
    inputs = checks.as_kind("inputs", data.get("inputs", {}), dict, A_TABLE)
    optimizer = checks.as_kind("optimizer", data.get("optimizer", {}), dict, A_TABLE)
    is_mixture = inputs.get("kind") == "mixture"
    for name in ("student", "teacher"):
        may_be_absent = name == "teacher" and is_mixture
        if name not in data and not may_be_absent:
            raise InputError(
                f"the problem has no [{name}] table; "
                "it must have one, such as hidden = 3, activation = 'erf'."
            )
    complete = data | {"inputs": inputs, "optimizer": {"lr": DEFAULT_LR} | optimizer}
    return {name: _read(name, value, modules) for name, value in complete.items()}


def revived(name: str, value: Plain, allow: tuple[str, ...] = ()) -> object:
    """Return the value that `Problem.replace` takes under a name, from plain data.

    The name is that of a change, such as "lr", "optimizer.lr" or "inputs".
    """
    if name not in NAMES:
        for dotted in CLASSES:
            if dotted.endswith(f".{name}"):
                return _read(dotted, value, allow)
    return _read(name, value, allow)


def _read(where: str, value: Plain, allow: tuple[str, ...]) -> Any:
    """Return the object of plain data under a dotted name, such as "optimizer.lr".

    It is a part, a function of a module, or the plain data itself.
    """
    if isinstance(value, list) and any(isinstance(x, str | dict) for x in value):
        return [_read(where, entry, allow) for entry in value]
    if where in LEARNING:
        return _read_learning(where, value, allow)
    if where in NAMES and where != "noise":
        value = checks.as_kind(where, value, dict, A_TABLE)
    if is_path(value):
        return imported(where, value, allow)
    if not isinstance(value, dict):
        return value
    classes = CLASSES.get(where)
    if where == "teacher" and "teachers" in value:
        classes = Tasks
    if classes is None:
        if "kind" not in value:
            return value
        classes = schedules.NAMED_SCHEDULES
    options = dict(value)
    if isinstance(classes, type):
        return build(where, classes, options, allow)
    kind = options.pop("kind", DEFAULT_KINDS.get(where))
    kind = checks.known(f"{where}.kind", kind, classes)
    return build(where, classes[kind], options, allow)


def _read_learning(name: str, value: Plain, allow: tuple[str, ...]) -> Part:
    """Return the loss, labels or rule of a word or a table."""
    choice = LEARNING[name]
    options = dict(value) if isinstance(value, dict) else {"kind": value}
    kind = options.pop("kind", None)
    if not is_path(kind):
        what = f"{name}.kind" if options else name
        word = checks.known(what, kind, choice.named)
        return build(name, choice.named[word], options, allow)
    custom: Any = imported(name, kind, allow)
    is_class = isinstance(custom, type)
    cls = custom if is_class else choice.wrapper
    if cls is None or not issubclass(cls, choice.base):
        base = choice.base.__name__
        raise InputError(
            f"{name} is {kind!r}, which is not a {base}; "
            f"give a subclass of tutelage's {base}."
        )
    if is_class:
        return build(name, cls, options, allow)
    return build(name, cls, options, allow, function=custom)


def build(
    where: str,
    cls: type[Built],
    table: Table,
    allow: tuple[str, ...] = (),
    **given: object,
) -> Built:
    """Return a part, or an initial condition, from a table of constructor arguments.

    given: arguments that a table cannot have.
    """
    accepted = {name: p for name, p in parameters(cls).items() if name not in given}
    for name in table:
        checks.known(f"a name in [{where}]", name, accepted)
    missing = []
    for name, parameter in accepted.items():
        if parameter.default is inspect.Parameter.empty and name not in table:
            missing.append(name)
    if missing:
        raise InputError(f"[{where}] lacks {', '.join(missing)}; it must have a value.")
    arguments = {
        name: _read(f"{where}.{name}", value, allow) for name, value in table.items()
    }
    constructor: Callable[..., Built] = cls
    try:
        return constructor(**arguments, **given)
    except InputError as error:
        raise InputError(f"in [{where}], {error}") from None


def parsed(text: str, form: str = "TOML") -> Table:
    """Return the dictionary that TOML or JSON text holds."""
    must = "text. Read the file first"
    text = checks.as_kind(f"the {form} of the problem", text, str, must)
    if text.endswith(".toml") and "\n" not in text:
        raise InputError(
            f"{text!r} is the name of a file; give its text: Path({text!r}).read_text()."
        )
    loads = tomllib.loads if form == "TOML" else json.loads
    try:
        return loads(text)
    except RecursionError:
        raise InputError(
            f"the {form} of the problem is nested too deeply; "
            "a problem needs three levels."
        ) from None
    except ValueError as error:  # bad syntax, a number with too many digits
        message = " ".join(str(error).rstrip(".").split())
        sentence = message[:1].lower() + message[1:]
        raise InputError(f"the text is not {form}: {sentence}.") from None


def is_path(value: object) -> TypeGuard[str]:
    """Return True for the text "module:function"."""
    return isinstance(value, str) and ":" in value


def path_of(value: object) -> str | None:
    """Return "module:name" of a function or class, None if it cannot be imported."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    try:
        importable = attrgetter(str(name))(sys.modules[str(module)])
    except (AttributeError, KeyError):
        return None
    if importable is not value or module == "__main__":
        return None
    return f"{module}:{name}"


def paths_in(data: object) -> list[str]:
    """Return every "module:function" in a tree of plain data."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list | tuple):
        return [path for entry in data for path in paths_in(entry)]
    return [data] if is_path(data) else []


def modules_in(data: object) -> tuple[str, ...]:
    """Return the modules that a tree of plain data names, each once."""
    modules = [path.partition(":")[0] for path in paths_in(data)]
    return tuple(dict.fromkeys(modules))


def as_modules(allow: object) -> tuple[str, ...]:
    """Convert `allow` to a tuple of names of modules."""
    if isinstance(allow, Iterable) and not isinstance(allow, str):
        names = list(allow)
    else:
        names = [allow]
    if not all(isinstance(name, str) for name in names):
        raise InputError(
            f"allow is {checks.shown(allow)}; it must be a list of names of modules."
        )
    return tuple(str(name) for name in names)


def imported(where: str, path: str, allow: Iterable[str]) -> Callable[..., object]:
    """Return the function or class "module:function", if its module is allowed."""
    module_name, _, name = path.partition(":")
    words = (*module_name.split("."), *name.split("."))
    if not all(word.isidentifier() for word in words):
        raise InputError(
            f"{where} is {path!r}; a custom function must be given as 'module:function'."
        )
    if module_name not in allow:
        raise InputError(
            f"{where} is {path!r} and {module_name!r} is not allowed; "
            f"give allow=[{module_name!r}] or --import {module_name}."
        )
    try:
        module = import_module(module_name)
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{where} is {path!r}, which cannot be imported ({reason}); "
            "fix it, or set PYTHONPATH."
        ) from None
    try:
        value = attrgetter(name)(module)
    except AttributeError:
        public = [known for known in dir(module) if not known.startswith("_")]
        raise InputError(
            f"{where} is {path!r}; the module has no {name!r}."
            f"{checks.nearest(name, public)}"
        ) from None
    must = "a function"
    return checks.as_kind(f"{where} is {path!r}, which", value, Callable, must)
