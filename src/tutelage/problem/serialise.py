"""A problem as plain data: the same dictionary serves TOML, JSON and the attributes of a NetCDF file.

Only numbers, words and lists are stored, so reading never runs code. A user's own function cannot be stored; the error
says so by name.
"""

import inspect
import json
import tomllib
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tutelage import _checks
from tutelage._errors import InputError
from tutelage.problem import activation as activations
from tutelage.problem import inputs as input_laws
from tutelage.problem import schedules
from tutelage.problem.network import Network
from tutelage.problem.sgd import SGD, SlowMomentum

INPUTS = {"isotropic": input_laws.Isotropic, "power_law": input_laws.PowerLaw, "spectrum": input_laws.Spectrum}
# Where the constructor's word and the stored field differ.
FIELDS = {"levels": "count", "normalise": None}


def arguments(part: Any) -> list[str]:
    """The names that the constructor of a part takes."""
    return [name for name in inspect.signature(type(part).__init__).parameters if name != "self"]


def values(part: Any) -> dict[str, Any]:
    """The constructor arguments that would build this part again."""
    if isinstance(part, input_laws.Spectrum):
        return {"eigenvalues": part.eigenvalues, "fractions": part.fractions, "normalise": False}
    names = {name: FIELDS.get(name, name) if isinstance(part, input_laws.PowerLaw) else name for name in arguments(part)}
    return {name: getattr(part, field) for name, field in names.items()}


def rebuild(part: Any, **changes: Any) -> Any:
    """The same part with some constructor arguments changed.

    Changing the width keeps a readout or bias that is the same for all units, as the scalar that it was given as.
    """
    kept = values(part)
    if isinstance(part, Network) and "hidden" in changes:
        kept = {name: _common(value) if name in ("readout", "bias") else value for name, value in kept.items()}
    return type(part)(**kept | changes)


def _common(value: Any) -> Any:
    if value is None or _checks.is_traced(value):
        return value
    array = np.asarray(value)
    return array.flat[0] if array.ndim and np.all(array == array.flat[0]) else value


def problem_to_dict(problem: Any) -> dict[str, Any]:
    if _checks.is_traced(problem):
        raise InputError("the problem holds traced values; store it outside jit, grad and vmap.")
    law = next(name for name, cls in INPUTS.items() if isinstance(problem.inputs, cls))
    return {
        "noise": _plain("noise", problem.noise),
        "student": _compact(problem.student, readout=1.0),
        "teacher": _compact(problem.teacher, readout=1.0),
        "inputs": {"kind": law, **_compact(problem.inputs)},
        "sgd": _compact(problem.sgd),
    }


def problem_from_dict(cls: type, data: dict[str, Any]) -> Any:
    if not isinstance(data, dict):
        raise InputError(
            f"a problem is a table with student, teacher, inputs, sgd and noise; this is {type(data).__name__}."
        )
    allowed = ("noise", "student", "teacher", "inputs", "sgd")
    for name in data:
        _checks.known("a name in the problem", name, allowed)
    missing = [name for name in ("student", "teacher") if name not in data]
    if missing:
        raise InputError(f"the problem has no [{missing[0]}] table; add one, such as hidden = 3, activation = 'erf'.")
    inputs = dict(_table("inputs", data.get("inputs", {"kind": "isotropic"})))
    law = INPUTS[_checks.known("inputs.kind", inputs.pop("kind", "isotropic"), INPUTS)]
    return cls(
        student=_build("student", Network, data["student"]),
        teacher=_build("teacher", Network, data["teacher"]),
        inputs=_build("inputs", law, inputs),
        sgd=_build("sgd", SGD, {"lr": 0.1} | {k: _revive(k, v) for k, v in _table("sgd", data.get("sgd", {})).items()}),
        noise=data.get("noise", 0.0),
    )


def to_json(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)


def read_json(text: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None


def read_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {str(error).rstrip('.')}.") from None


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


def _compact(part: Any, **uniform: Any) -> dict[str, Any]:
    """The arguments of a part that differ from their defaults."""
    signature = inspect.signature(type(part).__init__).parameters
    out = {}
    for name, value in values(part).items():
        plain = _plain(name, value)
        default = signature[name].default
        common = uniform.get(name)
        if plain is None or (default is not inspect.Parameter.empty and plain == default):
            continue
        if common is not None and np.all(np.asarray(plain) == common):
            continue
        out[name] = plain
    return out


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, activations.Activation):
        if activations.NAMED.get(value.name) is not value:
            raise InputError(f"the activation {value.name!r} is your own function; a file can only hold a named one.")
        return value.name
    if isinstance(value, SlowMomentum):
        return {name: _plain(name, v) for name, v in (("gamma", value.gamma), ("k", value.k)) if v is not None}
    if isinstance(value, eqx.Module):
        kind = next((k for k, cls in schedules.NAMED.items() if type(value) is cls), None)
        if kind is not None:
            return {"kind": kind} | {k: _plain(k, v) for k, v in vars(value).items()}
    if callable(value):
        raise InputError(f"{name} is your own function; a file can only hold a number or a built-in schedule.")
    if isinstance(value, tuple):
        return [_plain(name, v) for v in value]
    array = np.asarray(jax.device_get(value))
    return array.item() if array.ndim == 0 else array.tolist()


def _revive(name: str, value: Any) -> Any:
    """A schedule or slow momentum from its table; anything else as it is."""
    if not isinstance(value, dict):
        return value
    table = {k: _revive(k, v) for k, v in value.items()}
    if name == "momentum":
        return _build("sgd.momentum", SlowMomentum, table)
    kind = _checks.known(f"sgd.{name}.kind", table.pop("kind", None), schedules.NAMED)
    return _build(f"sgd.{name}", schedules.NAMED[kind], table)


def _build(where: str, cls: type, table: Any) -> Any:
    allowed = [n for n in inspect.signature(cls.__init__).parameters if n != "self"]
    for name in _table(where, table):
        _checks.known(f"a name in [{where}]", name, allowed)
    try:
        return cls(**table)
    except TypeError:
        missing = [
            n
            for n, p in inspect.signature(cls.__init__).parameters.items()
            if n != "self" and p.default is inspect.Parameter.empty and n not in table
        ]
        raise InputError(f"[{where}] lacks {', '.join(missing)}; add it.") from None


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is {value!r}; it must be a table of names and values.")
    return value
