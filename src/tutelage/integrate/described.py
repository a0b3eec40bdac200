"""What a compiled program depends on, as text: equal texts are equal programs, so that one can be kept under its text.

Numbers are data to a program: of an array only shape and type are told. All else is told in full: the structure of the
arguments and the fields that are no data, the text of this package, the versions of what it is built on, the machine, and
every setting of JAX. What its name does not tell apart (functions and classes of one's own) cannot be described.
"""

import os
import platform
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from sys import implementation, modules
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.problem.activation import NAMED

BUILT_ON = ("jax", "jaxlib", "numpy", "equinox", "diffrax", "optimistix", "lineax")
LAYERS = (
    ".",
    "rules",
    "problem",
    "averages",
    "moments",
    "dynamics",
    "integrate",
)  # of this package: their text decides what is compiled
FLAGS = ("XLA_FLAGS", "EQX_ON_ERROR")
OF_A_THREAD = ("jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans", "jax_debug_infs")
HARMLESS = ("cache", "log", "traceback")  # in the names of settings that change no number
POLYNOMIAL = NAMED["linear"].function.__code__  # shared by all polynomials; they differ in their coefficients


class Indescribable(Exception):
    """Something whose name does not say what it computes."""


def describe(function: Callable[..., Any], args: Any) -> str:
    """The text of a function of this package, applied to these arguments."""
    return "\n".join((f"{function.__module__}.{function.__qualname__}", _value(args), _settings(), *_surroundings()))


def device() -> Any:
    """Where programs run."""
    return jax.local_devices()[0]


def is_array(leaf: Any) -> bool:
    """Is it data?"""
    return isinstance(leaf, np.ndarray | jax.Array)


def _value(value: Any, fixed: bool = False) -> str:
    """fixed: within a field that is no data, where an array would have to be told in full."""
    if is_array(value) and not fixed:
        if isinstance(value, jax.Array) and value.devices() != {device()}:
            raise Indescribable
        return f"{value.dtype}{list(value.shape)}{getattr(value, 'weak_type', False)}"
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) in (tuple, list):
        return f"{type(value).__name__}[{', '.join(_value(each, fixed) for each in value)}]"
    if type(value) is dict:
        return f"dict[{', '.join(f'{_value(name)}: {_value(each, fixed)}' for name, each in value.items())}]"
    if is_dataclass(type(value)) and _at_home(type(value), ("tutelage",)):
        return f"{_name(type(value))}({', '.join(_fields(value, fixed))})"
    if callable(value) and _at_home(value, ("tutelage", "jax")):
        return _name(value)
    if getattr(value, "__code__", None) is POLYNOMIAL:
        return f"polynomial{[cell.cell_contents for cell in value.__closure__ or ()]}"
    raise Indescribable


def _fields(value: Any, fixed: bool) -> list[str]:
    return [
        f"{field.name}={_value(getattr(value, field.name), fixed or field.metadata.get('static', False))}"
        for field in fields(value)
    ]


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _at_home(thing: Any, packages: tuple[str, ...]) -> bool:
    """Does its name lead to it, in a package whose version or text is told?"""
    module, name = getattr(thing, "__module__", None) or "", getattr(thing, "__qualname__", "")
    return module.split(".")[0] in packages and getattr(modules.get(module), name, None) is thing


def _settings() -> str:
    """What may change while a process lives: JAX's settings, some of which a thread may have for itself."""
    values = jax.config.values
    own = [f"{name}={setting(name)}" for name in OF_A_THREAD] + [f"{name}={os.environ.get(name)}" for name in FLAGS]
    return f"{jnp.result_type(float)} {own} {[values[name] for name in _told_settings()]}"


@lru_cache
def _told_settings() -> tuple[str, ...]:
    return tuple(name for name in jax.config.values if not any(word in name for word in HARMLESS))


def setting(name: str) -> Any:
    """A setting of JAX, as it is in this thread now."""
    return getattr(jax.config, name, jax.config.values[name])


@lru_cache
def _surroundings() -> tuple[str, ...]:
    """What may not: the machine, the versions and the text of this package."""
    here, package = device(), Path(__file__).parents[1]
    text = sha256()
    for path in sorted(path for layer in LAYERS for path in (package / layer).glob("*.py")):
        text.update(path.name.encode() + path.read_bytes())
    return (
        f"{implementation.cache_tag} {platform.machine()} {_processor()}",
        f"{here.platform} {here.device_kind} {here.client.platform_version}",
        " ".join(f"{name} {version(name)}" for name in BUILT_ON),
        text.hexdigest(),
    )


def _processor() -> str:
    """What it can do: a program with instructions of another one would not run."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return " ".join(line for line in first if line.startswith(("model name", "flags", "Features", "CPU ")))
