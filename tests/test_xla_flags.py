"""XLA's flags: for everybody, for commands and for quick figures, and only where no others are given."""

import os
import subprocess
import sys

import pytest

from tutelage import _xla

OLDER = (_xla.OLDER_EMITTERS,) if _xla._older_emitters_exist() else ()
LITTLE = (*OLDER, _xla.UNOPTIMIZED) if OLDER else ()


def flags_after(code: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    code += "; print(os.environ.get('XLA_FLAGS', ''))"
    run = subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os, tutelage", (_xla.WHOLE_LOOPS,)),
        ("import os, tutelage; tutelage._xla.compile_sooner()", (_xla.WHOLE_LOOPS, *OLDER)),
        ("import os, tutelage; tutelage._xla.compile_quickly()", (_xla.WHOLE_LOOPS, *LITTLE)),
    ],
    ids=["import", "command", "quick figure"],
)
def test_flags_unless_others_are_given(code, expected):
    assert flags_after(code) == " ".join(expected)
    assert flags_after(code, XLA_FLAGS="--xla_cpu_enable_fast_math=false") == "--xla_cpu_enable_fast_math=false"
    assert flags_after(code, TUTELAGE_XLA="0") == ""


def test_a_version_that_may_not_know_a_flag_is_not_given_it(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(_xla, "KNOWN_TO", "0.0.")
    _xla.compile_quickly()
    assert "XLA_FLAGS" not in os.environ


def test_xla_knows_the_limit():
    """A loop of some kilobytes is one call with the flag, and a queue of kernels without it."""
    code = (
        "import jax, tutelage, jax.numpy as jnp; "
        "loop = lambda x: jax.lax.fori_loop(0, 100, lambda i, x: jnp.sin(x * jnp.sum(x)), x); "
        "import os; print(jax.jit(loop).lower(jnp.ones((20, 20))).compile().as_text().count('small_call'))"
    )
    with_flag, without = (int(flags_after(code, TUTELAGE_XLA=on).split()[0]) for on in "10")
    assert with_flag > without == 0
