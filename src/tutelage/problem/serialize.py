"""A problem as plain data: the same dictionary serves TOML, JSON and the attributes of a NetCDF file.

Only numbers, words and lists are stored. A function of a module is stored as "module:function" and imported only if the
reader allows that module (own.py); any other function cannot be stored, and the error says so by name. A user's own law of
the inputs is stored as the spectrum that it has. Of a spectrum measured on data the eigenvectors and the center are not
stored (they are as large as the data's covariance, and the theory never uses them); its levels, scale, dropped directions
and dimension are, exactly.
"""

import inspect
import json
import tomllib
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tutelage import checks, labels, losses, rules
from tutelage._errors import InputError
from tutelage.problem import activation as activations
from tutelage.problem import inputs as input_laws
from tutelage.problem import schedules
from tutelage.problem.network import Network
from tutelage.problem.own import as_modules, imported, is_path, path_of
from tutelage.problem.sgd import SGD, SlowMomentum

INPUTS = {"isotropic": input_laws.Isotropic, "power_law": input_laws.PowerLaw, "spectrum": input_laws.Spectrum}
NAMES = ("noise", "loss", "labels", "rule", "student", "teacher", "inputs", "sgd")
PARTS = NAMES[1:]
# Of the learning parts: the base class, the named ones, what wraps a function, what makes one of a word, the default.
LEARNING: dict[str, tuple[type, dict[str, Any], type | None, Any, str]] = {
    "loss": (losses.Loss, losses.NAMED, losses.Function, losses.as_loss, "squared"),
    "labels": (labels.Labels, labels.NAMED, labels.Function, labels.as_labels, "real"),
    "rule": (rules.Rule, rules.NAMED, None, rules.as_rule, "gradient"),
}
FUNCTIONS = ("activation", "noise", "function")  # fields that may be functions of one's own
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# Where the constructor's word and the stored field differ.
FIELDS = {"levels": "count"}


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """What a constructor takes, by name."""
    found = inspect.signature(cls.__init__).parameters.items()
    return {name: p for name, p in found if name != "self" and p.kind not in VARIADIC}


def arguments(part: Any) -> list[str]:
    """The names that the constructor of a part takes."""
    return list(parameters(type(part)))


def as_part(name: str, value: Any) -> Any:
    """A part of a problem; a loss, labels or a rule also from a word or a function."""
    return LEARNING[name][3](value) if name in LEARNING else value


def values(part: Any) -> dict[str, Any]:
    """The constructor arguments that would build this part again."""
    if isinstance(part, input_laws.Spectrum):
        given = part.eigenvalues * part.scale if part.normalize else part.eigenvalues
        return {"eigenvalues": given, "fractions": part.fractions, "normalize": part.normalize}
    names = {name: FIELDS.get(name, name) if isinstance(part, input_laws.PowerLaw) else name for name in arguments(part)}
    found = {name: getattr(part, field) for name, field in names.items()}
    if isinstance(part, Network):
        if isinstance(part.activation.function, activations.PerUnit):
            found["activation"] = part.activation.function.units
        if part.outputs > 1 and not checks.is_traced(part.readout) and _is_identity(part.readout):
            found["readout"] = None
    return found


def _is_identity(matrix: Any) -> bool:
    return np.shape(matrix)[0] == np.shape(matrix)[1] and np.array_equal(matrix, np.eye(np.shape(matrix)[0]))


def rebuild(part: Any, **changes: Any) -> Any:
    """The same part with some constructor arguments changed.

    Changing the width keeps a readout or bias that is the same for all units, as the scalar that it was given as.
    Changing the number of eigenvalues keeps equal fractions; others must then be given anew.
    """
    kept = values(part)
    if isinstance(part, input_laws.Spectrum) and np.size(changes.get("eigenvalues", part.eigenvalues)) != part.levels:
        kept["fractions"] = None if np.ndim(_common(part.fractions)) == 0 else part.fractions
    if isinstance(part, Network) and "hidden" in changes:
        kept = {name: _common(value) if name in ("readout", "bias") else value for name, value in kept.items()}
    if isinstance(part, labels.Function) and "function" in changes:
        kept.pop("random")  # found out anew
    return type(part)(**kept | changes)


def _common(value: Any) -> Any:
    if value is None or checks.is_traced(value):
        return value
    array = np.asarray(value)
    return array.flat[0] if array.ndim == 1 and np.all(array == array.flat[0]) else value


def problem_to_dict(problem: Any) -> dict[str, Any]:
    """All of a problem that differs from its defaults, as numbers, words, lists and tables."""
    checks.require_untraced("the problem", "a file", problem)
    parts = {name: getattr(problem, name) for name in LEARNING}
    if isinstance(problem.labels, labels.Function):
        parts["labels"] = problem.labels.unless_found(problem.teacher.hidden)
    learning = {name: _learning_to_plain(name, part) for name, part in parts.items()}
    return {
        "noise": _plain("noise", problem.noise),
        **{name: value for name, value in learning.items() if value != LEARNING[name][4]},
        "student": _compact(problem.student),
        "teacher": _compact(problem.teacher),
        "inputs": _inputs_to_dict(problem.inputs),
        "sgd": _compact(problem.sgd),
    }


def _learning_to_plain(name: str, part: Any) -> Any:
    """A word; with parameters of its own, a table with that word as its kind."""
    _, named, wrapper, _, _ = LEARNING[name]
    word = next((word for word, cls in named.items() if type(part) is cls), None)
    wrapped = wrapper is not None and type(part) is wrapper
    if word is None:
        own = part.function if wrapped else type(part)
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


def _learning_from_plain(name: str, value: Any, allow: tuple[str, ...]) -> Any:
    base, named, wrapper, as_one, _ = LEARNING[name]
    options = dict(value) if isinstance(value, dict) else {}
    word = options.pop("kind", None) if isinstance(value, dict) else value
    if not is_path(word):
        return _build(name, named[checks.known(f"{name}.kind" if options else name, word, named)], options)
    found = imported(name, word, allow)
    if isinstance(found, type) and issubclass(found, base):
        return _build(name, found, options)
    if isinstance(found, type) or (wrapper is None and not isinstance(found, base)):
        raise InputError(f"{name} is {word!r}, which is no {base.__name__}; give a subclass of tutelage's {base.__name__}.")
    if wrapper is None or isinstance(found, base):
        return as_one(found)
    for option in options:
        checks.known(f"a name in [{name}]", option, [n for n in parameters(wrapper) if n != "function"])
    return _build(name, wrapper, options | {"function": found})


def _name(value: Any) -> str:
    return getattr(value, "__name__", type(value).__name__)


def plain(name: str, value: Any) -> Any:
    """A value of the problem as numbers, words, lists and tables; `revived` is its inverse."""
    if isinstance(value, input_laws.Inputs):
        return _inputs_to_dict(value)
    if name in LEARNING and not isinstance(value, str | dict):
        return _learning_to_plain(name, as_part(name, value))
    if isinstance(value, dict):
        return {key: plain(key, part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(name, part) for part in value]
    return _plain(name, value)


def revived(name: str, value: Any, allow: tuple[str, ...] = ()) -> Any:
    """What `Problem.replace` takes under this name ("lr", "sgd.lr", "inputs"), from plain data."""
    if name == "inputs":
        return _inputs_from_dict(dict(_table("inputs", value)))
    if name in LEARNING:
        return _learning_from_plain(name, value, allow)
    field = name.rpartition(".")[2]
    return _function(name, value, allow) if field in FUNCTIONS else _revive(field, value)


def _function(where: str, value: Any, allow: tuple[str, ...]) -> Any:
    """A value that may be a function of one's own, or a list of such."""
    if isinstance(value, list):
        return tuple(_function(where, one, allow) for one in value)
    return imported(where, value, allow) if is_path(value) else value


def _inputs_to_dict(inputs: Any) -> dict[str, Any]:
    """A law with a name by its arguments; any other (a spectrum, a user's own class) by its levels."""
    kind = next((name for name, cls in INPUTS.items() if type(inputs) is cls), "spectrum")
    if kind != "spectrum":
        return {"kind": kind, **_compact(inputs)}
    levels = {name: _plain(name, getattr(inputs, name)) for name in ("eigenvalues", "fractions")}
    scale, dropped = getattr(inputs, "scale", 1.0), getattr(inputs, "dropped", 0)
    measured = {"dropped": dropped, "known_dim": inputs.known_dim} if inputs.known_dim is not None else {}
    # where a scale is given, the eigenvalues are already divided by it
    normalize = getattr(inputs, "normalize", False)
    return {"kind": kind, **levels, "normalize": normalize, "scale": _plain("scale", scale), **measured}


def is_named(inputs: Any) -> bool:
    """Whether a file holds the law itself, so that its own numbers can be put back."""
    return type(inputs) in INPUTS.values()


def _inputs_from_dict(table: dict[str, Any]) -> Any:
    law = INPUTS[checks.known("inputs.kind", table.pop("kind", "isotropic"), INPUTS)]
    if law is not input_laws.Spectrum:
        return _build("inputs", law, table)
    known_dim = None if "known_dim" not in table else checks.as_count("inputs.known_dim", table.pop("known_dim"))
    dropped = checks.as_count("inputs.dropped", table.pop("dropped", 0), least=0)
    scale = table.pop("scale", None)
    normalize = checks.as_flag("inputs.normalize", table.get("normalize", True))
    spectrum = _build("inputs", law, table | ({} if scale is None else {"normalize": False}))
    if scale is not None:
        scale = checks.as_array("inputs.scale", scale)
        checks.require_shape("inputs.scale", scale, ())
        checks.require_positive("inputs.scale", scale)
        spectrum = spectrum._with(scale=np.float64(scale), normalize=normalize)
    return spectrum._with(dropped=dropped, _known_dim=known_dim)


def problem_from_dict(cls: type, data: dict[str, Any], allow: Any = ()) -> Any:
    """The problem that a table describes, every name and value checked. allow: modules that may be imported for it."""
    allow = as_modules(allow)
    if not isinstance(data, dict):
        raise InputError(
            f"the problem is {checks.shown(data)}; it must be a table with student, teacher, inputs, sgd and noise."
        )
    for name in data:
        checks.known("a name in the problem", name, NAMES)
    missing = [name for name in ("student", "teacher") if name not in data]
    if missing:
        raise InputError(
            f"the problem has no [{missing[0]}] table; it must have one, such as hidden = 3, activation = 'erf'."
        )
    return cls(
        student=_network("student", data["student"], allow),
        teacher=_network("teacher", data["teacher"], allow),
        inputs=_inputs_from_dict(dict(_table("inputs", data.get("inputs", {})))),
        sgd=_build("sgd", SGD, {"lr": 0.1} | {k: _revive(k, v) for k, v in _table("sgd", data.get("sgd", {})).items()}),
        noise=_function("noise", data.get("noise", 0.0), allow),
        **{name: _learning_from_plain(name, data[name], allow) for name in LEARNING if name in data},
    )


def _network(where: str, table: Any, allow: tuple[str, ...]) -> Network:
    table = dict(_table(where, table))
    if "activation" in table:
        table["activation"] = _function(f"the activation in [{where}]", table["activation"], allow)
    return _build(where, Network, table)


def to_json(data: dict[str, Any]) -> str:
    """JSON of a dictionary, its names sorted."""
    return json.dumps(data, sort_keys=True)


def read_json(text: str) -> dict[str, Any]:
    """The dictionary that JSON text holds."""
    text = checks.as_text("the JSON of the problem", text, fix="Read the file first.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"the text is not JSON: {error.msg[:1].lower()}{error.msg[1:]} (at {where}).") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the JSON of the problem cannot be read: {checks.unreadable(error)}.") from None


def read_toml(text: str) -> dict[str, Any]:
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


def to_toml(data: dict[str, Any]) -> str:
    """TOML of a dictionary of scalars, lists and tables: all that a problem needs."""
    scalars = [f"{k} = {_toml(v)}" for k, v in data.items() if not isinstance(v, dict)]
    tables = [
        f"\n[{k}]\n" + "\n".join(f"{a} = {_toml(b)}" for a, b in v.items()) for k, v in data.items() if isinstance(v, dict)
    ]
    return "\n".join(scalars + tables) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value)


def _compact(part: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments that differ from their defaults, and the activation; a readout or bias common to all as one number."""
    signature = parameters(type(part))
    usual = {name: p.default for name, p in signature.items()}
    if isinstance(part, Network) and part.outputs == 1:
        usual["readout"] = 1.0
    out = {}
    for name, value in values(part).items():
        if name in without:
            continue
        plain = _plain(name, _common(value) if name in ("readout", "bias") else value)
        always = name == "activation" or usual[name] is inspect.Parameter.empty
        if plain is not None and (always or plain != usual[name]):
            out[name] = plain
    return out


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, activations.Activation):
        return _activation_word(value)
    if isinstance(value, SlowMomentum):
        return {name: _plain(name, v) for name, v in (("gamma", value.gamma), ("k", value.k)) if v is not None}
    if isinstance(value, eqx.Module):
        kind = next((k for k, cls in schedules.NAMED.items() if type(value) is cls), None)
        if kind is not None:
            return {"kind": kind} | {k: _plain(k, v) for k, v in vars(value).items()}
    if callable(value):
        path = path_of(value) if name.rpartition(".")[2] in FUNCTIONS else None
        if path is None:
            other = "a function that a module has by name" if name == "noise" else "a built-in schedule"
            raise InputError(f"{name} is your own function; a file can only hold a number or {other}.")
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


def _revive(name: str, value: Any) -> Any:
    """A schedule or slow momentum from its table; anything else as it is."""
    if not isinstance(value, dict) or name not in ("lr", "readout_lr", "bias_lr", "momentum", "k"):
        return value
    if name == "momentum":
        return _build("sgd.momentum", SlowMomentum, {k: _revive(k, v) for k, v in value.items()})
    kind = checks.known(f"sgd.{name}.kind", value.get("kind"), schedules.NAMED)
    return _build(f"sgd.{name}", schedules.NAMED[kind], {k: v for k, v in value.items() if k != "kind"})


def _build(where: str, cls: type, table: Any) -> Any:
    taken = parameters(cls)
    for name in _table(where, table):
        checks.known(f"a name in [{where}]", name, taken)
    missing = [n for n, p in taken.items() if p.default is inspect.Parameter.empty and n not in table]
    if missing:
        raise InputError(f"[{where}] lacks {', '.join(missing)}; it must have a value.")
    try:
        return cls(**table)
    except InputError as error:
        raise InputError(f"in [{where}], {error}") from None


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is {checks.shown(value)}; it must be a table of names and values.")
    return value
