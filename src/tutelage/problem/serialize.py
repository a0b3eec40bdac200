"""A problem as plain data: the same dictionary serves TOML, JSON and the attributes of a NetCDF file.

Only numbers, words and lists are stored. A function of a module is stored as "module:function" and imported only if the
reader allows that module; any other function cannot be stored, and the message names it. A custom input law is stored as
its spectrum, a `HiddenManifold` of a matrix by the squared singular values. Of a spectrum measured on data the eigenvectors
and the center are not stored (they are as large as the data's covariance, and the theory never uses them); its levels,
scale, dropped directions and dimension are, exactly.
"""

import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, cast

import equinox as eqx
import jax
import numpy as np

from tutelage import checks, labels, losses, rules
from tutelage._types import NumpyOrJax, Table
from tutelage.errors import InputError
from tutelage.problem import activation as activations
from tutelage.problem import inputs as input_laws
from tutelage.problem import schedules
from tutelage.problem.hidden_manifold import HiddenManifold
from tutelage.problem.mixture import Mixture
from tutelage.problem.network import Network
from tutelage.problem.sgd import SGD, USUAL_LR, SlowMomentum
from tutelage.problem.tasks import NAMED as TASK_SCHEDULES
from tutelage.problem.tasks import Drift, Tasks

if TYPE_CHECKING:
    from tutelage.problem.problem import Problem

Part: TypeAlias = eqx.Module  # Network, Tasks, SGD, Inputs, Loss, Labels, Rule
Plain: TypeAlias = bool | int | float | str | list[Any] | Table | None


class LearningPart(NamedTuple):
    """A part of the learning rule in a file: a word, or a table with that word as its kind."""

    base: type[eqx.Module]
    named: Mapping[str, type[eqx.Module]]
    wrapper: type[losses.Function] | type[labels.Function] | None  # makes a part of a function
    convert: Callable[[object], Part]  # makes a part of a word, a function or a part
    default: str


LEARNING = {
    "loss": LearningPart(losses.Loss, losses.NAMED, losses.Function, losses.as_loss, "squared"),
    "labels": LearningPart(labels.Labels, labels.NAMED, labels.Function, labels.as_labels, "real"),
    "rule": LearningPart(rules.Rule, rules.NAMED, None, rules.as_rule, "gradient"),
}
INPUTS = {
    "isotropic": input_laws.Isotropic,
    "power_law": input_laws.PowerLaw,
    "spectrum": input_laws.Spectrum,
    "mixture": Mixture,
    "hidden_manifold": HiddenManifold,
}
NAMES = ("noise", "loss", "labels", "rule", "student", "teacher", "inputs", "sgd")
PARTS = NAMES[1:]
RATES = ("lr", "readout_lr", "bias_lr")
IN_TIME = (*RATES, "k", "weight_decay", "noise", "flip", "keep", "strength", "fraction", "shares")  # they may be schedules
FUNCTIONS = ("activation", "function", "schedule", *IN_TIME)  # fields that may be custom functions
INSIDE = ("schedule", "drift")  # parts of tasks whose fields have names of their own
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """What a constructor takes, by name."""
    found = inspect.signature(cls.__init__).parameters.items()
    return {name: p for name, p in found if name != "self" and p.kind not in VARIADIC}


def arguments(part: Part) -> list[str]:
    """The names that the constructor of a part takes; of tasks, also those inside schedule and drift ("schedule.times")."""
    names = list(parameters(type(part)))
    for inner in INSIDE if isinstance(part, Tasks) else ():
        value = getattr(part, inner)
        names += [f"{inner}.{name}" for name in parameters(type(value))] if _is_task_part(value) else []
    return names


def _values(part: Part) -> Table:
    """The constructor arguments that would build this part again."""
    if isinstance(part, input_laws.Spectrum):
        given = part.eigenvalues * part.scale if part.normalize else part.eigenvalues
        return {"eigenvalues": given, "fractions": part.fractions, "normalize": part.normalize}
    if isinstance(part, Mixture):
        laws = part.laws[0] if len(part.laws) == 1 else part.laws
        same = {name: getattr(part, name) for name in ("coefficients", "gram", "labels")}
        return same | {"weights": part.probabilities, "inputs": laws}
    if isinstance(part, input_laws.PowerLaw):
        return {"beta": part.beta, "levels": part.count}
    if isinstance(part, HiddenManifold):
        own = {name: getattr(part, name) for name in ("features", "activation", "dim_latent", "dim", "seed")}
        return own | {"levels": part.most_levels}
    found = {name: getattr(part, name) for name in parameters(type(part)) if name != "gram" or not isinstance(part, Tasks)}
    if isinstance(part, Tasks):
        found["gram"] = part.given_gram
    if isinstance(part, Network):
        if isinstance(part.activation.function, activations.ActivationPerUnit):
            found["activation"] = part.activation.function.units
        if part.outputs == part.hidden > 1 and not checks.is_traced(part.readout):
            found["readout"] = None if np.array_equal(part.readout, np.eye(part.hidden)) else part.readout
    return found


def rebuild(part: Part, **changes: object) -> Part:
    """The same part with some constructor arguments changed.

    Changing the width keeps a readout or bias that is the same for all units, as the scalar that it was given as.
    Changing the number of eigenvalues keeps equal fractions; others must then be given anew.
    """
    if isinstance(part, Tasks):
        changes = _inside_tasks(part, changes)
    given: Table = {**_values(part), **changes}
    if isinstance(part, input_laws.Spectrum) and "fractions" not in changes and np.size(given["eigenvalues"]) != part.levels:
        given["fractions"] = None if _common(part.fractions) is not part.fractions else part.fractions
    if isinstance(part, Network) and "hidden" in changes:
        given |= {name: _common(given[name]) for name in ("readout", "bias") if name not in changes}
    if "function" in changes:
        found = "random" if isinstance(part, labels.Function) else "jumps"
        if found not in changes:
            given.pop(found, None)  # it is found out anew
    constructor: Callable[..., Part] = part.__class__
    return constructor(**given)


def _is_task_part(value: object) -> bool:
    return isinstance(value, (Drift, *TASK_SCHEDULES.values()))


def _inside_tasks(part: Tasks, changes: Table) -> Table:
    """Changes of tasks, those inside schedule and drift made; a new similarity replaces a gram, and a gram a similarity."""
    whole = {name: value for name, value in changes.items() if "." not in name}
    for inner in INSIDE:
        own = {name.partition(".")[2]: value for name, value in changes.items() if name.startswith(f"{inner}.")}
        if own:
            whole[inner] = rebuild(cast(Part, whole.get(inner, getattr(part, inner))), **own)
    for new, old in (("similarity", "gram"), ("gram", "similarity")):
        if whole.get(new) is not None:
            whole.setdefault(old, None)
    return whole


def _common(value: NumpyOrJax | None) -> NumpyOrJax | float | None:
    """The entry that all entries of a vector equal, else the value itself."""
    if value is None or checks.is_traced(value):
        return value
    array = np.asarray(value)
    return array.flat[0] if array.ndim == 1 and np.all(array == array.flat[0]) else value


def problem_to_dict(problem: "Problem") -> Table:
    """All of a problem that differs from its defaults, as numbers, words, lists and tables."""
    checks.require_untraced("the problem", "a file", problem)
    parts = {name: getattr(problem, name) for name in LEARNING}
    if isinstance(problem.labels, labels.Function):
        parts["labels"] = problem.labels.unless_found(problem.task(0).label_fields)
    if isinstance(problem.loss, losses.Function):
        parts["loss"] = problem.loss.unless_found(problem.student.outputs)
    learning = {name: _learning_to_plain(name, part) for name, part in parts.items()}
    return {
        "noise": _plain("noise", problem.noise),
        **{name: value for name, value in learning.items() if value != LEARNING[name].default},
        "student": _compact(problem.student),
        **({} if problem.teacher is None else {"teacher": _teacher_to_dict(problem.teacher)}),
        "inputs": _inputs_to_dict(problem.inputs),
        "sgd": _compact(problem.sgd),
    }


def _teacher_to_dict(teacher: Network | Tasks) -> Table:
    """A teacher as a table; of tasks the teacher of each, and the schedule, are tables inside it."""
    if isinstance(teacher, Network):
        return _compact(teacher)
    out: Table = {"teachers": [_compact(one) for one in teacher.teachers]}
    return out | _compact(teacher, ("teachers",))


def _learning_to_plain(name: str, part: Part) -> str | Table:
    """A word; with parameters, a table with that word as its kind."""
    named, wrapper = LEARNING[name].named, LEARNING[name].wrapper
    word = next((word for word, cls in named.items() if type(part) is cls), None)
    wrapped = wrapper is not None and type(part) is wrapper
    if word is None:
        own = getattr(part, "function", None) if wrapped else type(part)
        word = path_of(own)
        if word is None:
            what = f"the function {_name(own)!r}" if wrapped else f"your own class {_name(own)}"
            raise InputError(f"{name} is {what}; a file can only hold {', '.join(named)}, or what a module has by name.")
    try:
        options = _compact(part, ("function",) if wrapped else ())
    except AttributeError as error:
        raise InputError(
            f"{name} is {word!r}, which does not keep the argument {error.name!r}; keep it as a field."
        ) from None
    return {"kind": word} | options if options else word


def _learning_from_plain(name: str, value: Plain, allow: tuple[str, ...]) -> Part:
    base, named, wrapper, convert, _ = LEARNING[name]
    options = dict(value) if isinstance(value, dict) else {}
    word = options.pop("kind", None) if isinstance(value, dict) else value
    for option in set(options) & set(IN_TIME):
        options[option] = _function(f"{option} in [{name}]", _revive(option, options[option], name), allow)
    if not is_path(word):
        return _build(name, named[checks.known(f"{name}.kind" if options else name, word, named)], options)
    found = imported(name, word, allow)
    if isinstance(found, type) and issubclass(found, base):
        return _build(name, found, options)
    if isinstance(found, type) or (wrapper is None and not isinstance(found, base)):
        raise InputError(
            f"{name} is {word!r}, which is not a {base.__name__}; give a subclass of tutelage's {base.__name__}."
        )
    if wrapper is None or isinstance(found, base):
        return convert(found)
    for option in options:
        checks.known(f"a name in [{name}]", option, [n for n in parameters(wrapper) if n != "function"])
    return _build(name, wrapper, options | {"function": found})


def _name(value: object) -> str:
    return getattr(value, "__name__", type(value).__name__)


def plain(name: str, value: object) -> Plain:
    """A value of the problem as numbers, words, lists and tables; `revived` is its inverse."""
    if isinstance(value, input_laws.Inputs):
        return _inputs_to_dict(value)
    if name in LEARNING and not isinstance(value, str | dict):
        return _learning_to_plain(name, LEARNING[name].convert(value))
    if isinstance(value, dict):
        return {key: plain(key, part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(name, part) for part in value]
    return _plain(name, value)


def revived(name: str, value: Plain, allow: tuple[str, ...] = ()) -> object:
    """What `Problem.replace` takes under this name ("lr", "sgd.lr", "inputs"), from plain data."""
    if name == "inputs":
        return _inputs_from_dict(dict(_table("inputs", value)), allow)
    if name in LEARNING:
        return _learning_from_plain(name, value, allow)
    field = name.rpartition(".")[2]
    built = _revive(field, value)
    return _function(name, value, allow) if built is value and field in FUNCTIONS else built


def _function(where: str, value: object, allow: tuple[str, ...]) -> object:
    """A value that may be a custom function, or a list of such."""
    if isinstance(value, list):
        return tuple(_function(where, one, allow) for one in value)
    return imported(where, value, allow) if is_path(value) else value


def _inputs_to_dict(inputs: input_laws.Inputs) -> Table:
    """A law with a name by its arguments; any other (a spectrum, a custom class) by its levels."""
    kind = next((name for name, cls in INPUTS.items() if type(inputs) is cls), "spectrum")
    if isinstance(inputs, Mixture):
        laws = [_inputs_to_dict(law) for law in inputs.laws]
        return {"kind": kind, **_compact(inputs, ("inputs",)), "inputs": laws[0] if len(laws) == 1 else laws}
    if kind != "spectrum":
        return {"kind": kind, **_compact(inputs.without_basis())}
    levels = {name: _plain(name, getattr(inputs, name)) for name in ("eigenvalues", "fractions")}
    scale, dropped = getattr(inputs, "scale", 1.0), getattr(inputs, "dropped", 0)
    measured = {"dropped": dropped, "known_dim": inputs.known_dim} if inputs.known_dim is not None else {}
    # where a scale is given, the eigenvalues are already divided by it
    normalize = getattr(inputs, "normalize", False)
    return {"kind": kind, **levels, "normalize": normalize, "scale": _plain("scale", scale), **measured}


def is_named(inputs: input_laws.Inputs) -> bool:
    """Whether a file holds the law itself, so that its own numbers can be put back."""
    return type(inputs) in INPUTS.values()


def _inputs_from_dict(table: Table, allow: tuple[str, ...] = ()) -> Part:
    law = INPUTS[checks.known("inputs.kind", table.pop("kind", "isotropic"), INPUTS)]
    if law is Mixture and "inputs" in table:
        laws = table["inputs"] if isinstance(table["inputs"], list) else [table["inputs"]]
        built = [_inputs_from_dict(dict(_table("inputs.inputs", one)), allow) for one in laws]
        table["inputs"] = built[0] if len(built) == 1 else built
    if law is HiddenManifold and "activation" in table:
        table = table | {"activation": _function("the activation in [inputs]", table["activation"], allow)}
    if law is not input_laws.Spectrum:
        return _build("inputs", law, table)
    known_dim = None if "known_dim" not in table else checks.as_count("inputs.known_dim", table.pop("known_dim"))
    dropped = checks.as_count("inputs.dropped", table.pop("dropped", 0), least=0)
    scale = table.pop("scale", None)
    normalize = checks.as_flag("inputs.normalize", table.get("normalize", True))
    spectrum = _build("inputs", law, table | ({} if scale is None else {"normalize": False}))
    assert isinstance(spectrum, input_laws.Spectrum)
    if scale is not None:
        scale = checks.as_array("inputs.scale", scale)
        checks.require_shape("inputs.scale", scale, ())
        checks.require_positive("inputs.scale", scale)
        spectrum = spectrum._with(scale=np.float64(scale), normalize=normalize)
    return spectrum._with(dropped=dropped, _known_dim=known_dim)


def problem_from_dict(cls: "type[Problem]", data: Table, allow: str | Iterable[str] = ()) -> "Problem":
    """The problem that a table describes, every name and value checked. allow: modules that may be imported for it."""
    allow = as_modules(allow)
    if not isinstance(data, dict):
        raise InputError(
            f"the problem is {checks.shown(data)}; it must be a table with student, teacher, inputs, sgd and noise."
        )
    for name in data:
        checks.known("a name in the problem", name, NAMES)
    inputs = _inputs_from_dict(dict(_table("inputs", data.get("inputs", {}))), allow)
    by_class = isinstance(inputs, Mixture) and inputs.labels is not None
    missing = [name for name in ("student", "teacher") if name not in data and not (name == "teacher" and by_class)]
    if missing:
        raise InputError(
            f"the problem has no [{missing[0]}] table; it must have one, such as hidden = 3, activation = 'erf'."
        )
    sgd = {"lr": USUAL_LR} | {name: _sgd(name, value, allow) for name, value in _table("sgd", data.get("sgd", {})).items()}
    parts: Table = {
        "student": _network("student", data["student"], allow),
        "teacher": _teacher(data["teacher"], allow) if "teacher" in data else None,
        "inputs": inputs,
        "sgd": _build("sgd", SGD, sgd),
        "noise": _function("noise", _revive("noise", data.get("noise", 0.0), ""), allow),
    }
    parts |= {name: _learning_from_plain(name, data[name], allow) for name in LEARNING if name in data}
    return cls(**parts)


def _network(where: str, table: object, allow: tuple[str, ...]) -> Part:
    table = dict(_table(where, table))
    if "activation" in table:
        table["activation"] = _function(f"the activation in [{where}]", table["activation"], allow)
    return _build(where, Network, table)


def _teacher(table: object, allow: tuple[str, ...]) -> Part:
    """A network, or tasks if the table has a list of teachers."""
    if not isinstance(table, dict) or "teachers" not in table:
        return _network("teacher", table, allow)
    table = dict(table)
    if not isinstance(table["teachers"], list):
        raise InputError(
            f"teachers is {checks.shown(table['teachers'])} in [teacher]; it must be a list of tables, one for each task."
        )
    table["teachers"] = [_network("teacher.teachers", teacher, allow) for teacher in table["teachers"]]
    for name in INSIDE:
        if name in table:
            table[name] = _function(f"{name} in [teacher]", _revive(name, table[name]), allow)
    return _build("teacher", Tasks, table)


def read_json(text: str) -> Table:
    """The dictionary that JSON text holds."""
    text = checks.as_text("the JSON of the problem", text, fix="Read the file first.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"the text is not JSON: {error.msg[:1].lower()}{error.msg[1:]} (at {where}).") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the JSON of the problem cannot be read: {checks.unreadable(error)}.") from None


def read_toml(text: str) -> Table:
    """The dictionary that TOML text holds."""
    text = checks.as_text("the TOML of the problem", text, fix="Read the file first.")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if text.endswith(".toml") and "\n" not in text:
            raise InputError(
                f"{text!r} is the name of a file; give its text: Problem.from_toml(pathlib.Path({text!r}).read_text())."
            ) from None
        message = " ".join(str(error).rstrip(".").split())
        raise InputError(f"the text is not TOML: {message[:1].lower()}{message[1:]}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the TOML of the problem cannot be read: {checks.unreadable(error)}.") from None


def to_toml(data: Table) -> str:
    """TOML of a dictionary of scalars, lists and tables: all that a problem needs."""
    scalars = [f"{k} = {_toml(v)}" for k, v in data.items() if not isinstance(v, dict)]
    tables = [
        f"\n[{k}]\n" + "\n".join(f"{a} = {_toml(b)}" for a, b in v.items()) for k, v in data.items() if isinstance(v, dict)
    ]
    return "\n".join(scalars + tables) + "\n"


def _toml(value: Plain) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value)


def _compact(part: Part, without: tuple[str, ...] = ()) -> Table:
    """The arguments that differ from their defaults, and the activation; a readout or bias common to all as one number."""
    signature = parameters(type(part))
    usual = {name: p.default for name, p in signature.items()}
    if isinstance(part, Network) and part.outputs == 1:
        usual["readout"] = 1.0
    out = {}
    for name, value in _values(part).items():
        if name in without:
            continue
        plain = _plain(name, _common(value) if name in ("readout", "bias") else value)
        always = name == "activation" or usual[name] is inspect.Parameter.empty
        if plain is not None and (always or plain != usual[name]):
            out[name] = plain
    return out


def _plain(name: str, value: object) -> Plain:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, activations.Activation):
        return _activation_word(value)
    if isinstance(value, SlowMomentum):
        return {name: _plain(name, v) for name, v in (("gamma", value.gamma), ("k", value.k)) if v is not None}
    if isinstance(value, eqx.Module):
        if isinstance(value, Drift):
            return {"rate": _plain("rate", value.rate)}
        kind = next((k for k, cls in (schedules.NAMED | TASK_SCHEDULES).items() if type(value) is cls), None)
        if kind is not None:
            return {"kind": kind} | {k: _plain(k, v) for k, v in vars(value).items() if v is not None}
    if callable(value):
        path = path_of(value) if name.rpartition(".")[2] in FUNCTIONS else None
        if path is None:
            allowed = "a number or " + ("" if name == "noise" else "a built-in schedule or ")
            raise InputError(
                f"{name} is your own function; a file can only hold {allowed}a function that a module has by name."
            )
        return path
    if isinstance(value, tuple):
        return [_plain(name, v) for v in value]
    array = np.asarray(jax.device_get(value))
    return array.item() if array.ndim == 0 else array.tolist()


def _activation_word(value: activations.Activation) -> str:
    if activations.NAMED.get(value.name) == value:
        return value.name
    function = getattr(value.function, "function", value.function)  # what was recorded
    path = path_of(function)
    if path is None or activations.as_activation(function) != value:
        raise InputError(
            f"the activation {value.name!r} is your own function; a file can only hold a named one, or a function that a "
            "module has by name."
        )
    return path


def _revive(name: str, value: Plain, part: str = "sgd") -> object:
    """A schedule or slow momentum from its table, or a list of them; anything else as it is. part: where it stands."""
    if isinstance(value, list) and name == "shares":
        return [_revive(name, one, part) for one in value]
    if not isinstance(value, dict) or name not in (*IN_TIME, *INSIDE, "momentum"):
        return value
    if name == "drift":
        return _build("teacher.drift", Drift, value)
    if name == "schedule":
        kind = checks.known("teacher.schedule.kind", value.get("kind"), TASK_SCHEDULES)
        inside = {k: _revive(k, v, "teacher.schedule") for k, v in value.items() if k != "kind"}
        return _build("teacher.schedule", TASK_SCHEDULES[kind], inside)
    if name == "momentum":
        return _build("sgd.momentum", SlowMomentum, {k: _revive(k, v) for k, v in value.items()})
    where = f"{part}.{name}".removeprefix(".")
    kind = checks.known(f"{where}.kind", value.get("kind"), schedules.NAMED)
    inside = {"rate": _revive("lr", value["rate"])} if kind == "restarted" and "rate" in value else {}
    return _build(where, schedules.NAMED[kind], {k: v for k, v in value.items() if k != "kind"} | inside)


def _sgd(name: str, value: Plain, allow: tuple[str, ...]) -> object:
    """An argument of SGD; a learning rate or weight decay may be "module:function", a function of time."""
    return imported(f"{name} in [sgd]", value, allow) if name in IN_TIME and is_path(value) else _revive(name, value)


def _build(where: str, cls: type[Part], value: object) -> Part:
    """A part from the arguments of its constructor, every name checked."""
    taken, table = parameters(cls), _table(where, value)
    for name in table:
        checks.known(f"a name in [{where}]", name, taken)
    missing = [n for n, p in taken.items() if p.default is inspect.Parameter.empty and n not in table]
    if missing:
        raise InputError(f"[{where}] lacks {', '.join(missing)}; it must have a value.")
    constructor: Callable[..., Part] = cls
    try:
        return constructor(**table)
    except InputError as error:
        raise InputError(f"in [{where}], {error}") from None


def _table(where: str, value: object) -> Table:
    if not isinstance(value, dict):
        raise InputError(f"{where} is {checks.shown(value)}; it must be a table of names and values.")
    return value


def is_path(value: object) -> TypeGuard[str]:
    """Is this the text "module:function"?"""
    return isinstance(value, str) and ":" in value


def path_of(value: object) -> str | None:
    """The text "module:name" of a function or class, if importing that gives it back; None for local functions."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value else None


def paths_in(data: object) -> list[str]:
    """Every "module:function" in a tree of plain data."""
    if isinstance(data, dict):
        return [path for value in data.values() for path in paths_in(value)]
    if isinstance(data, list | tuple):
        return [path for value in data for path in paths_in(value)]
    return [data] if is_path(data) else []


def modules_in(data: object) -> tuple[str, ...]:
    """The modules that a tree of plain data names."""
    return tuple(dict.fromkeys(path.partition(":")[0] for path in paths_in(data)))


def as_modules(allow: object) -> tuple[str, ...]:
    """Names of modules, checked."""
    given = allow if isinstance(allow, Iterable) and not isinstance(allow, str) else (allow,)
    names = list(given)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"allow is {checks.shown(allow)}; it must be a list of names of modules.")
    return tuple(str(name) for name in names)


def imported(where: str, path: str, allow: Iterable[str]) -> Callable[..., object]:
    """What "module:function" names, if the user allows that module."""
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise InputError(f"{where} is {path!r}; a custom function must be given as 'module:function'.")
    if module not in allow:
        raise InputError(
            f"{where} is {path!r} and you have not allowed the module {module!r}; give allow=[{module!r}], or --import "
            f"{module} on the command line, if you trust it."
        )
    try:
        value: object = import_module(module)
    except Exception as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(
            f"{where} is {path!r} and its module cannot be imported ({said}); fix it, or put its folder into PYTHONPATH."
        ) from None
    for part in name.split("."):
        if not hasattr(value, part):
            near = checks.nearest(part, [known for known in dir(value) if not known.startswith("_")])
            raise InputError(f"{where} is {path!r}; the module has no {name!r}.{near}")
        value = getattr(value, part)
    if not callable(value):
        raise InputError(f"{where} is {path!r}, which is {checks.shown(value)}; it must be a function.")
    return value
