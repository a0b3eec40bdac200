"""XLA's flags:

none by import, some for commands and for quick figures, and only where no others are
given.
"""

import os
import subprocess
import sys

import pytest

from tutelage.cli import process as c

KNOWN = (
    __import__("importlib.metadata").metadata.version("jaxlib").startswith(c.KNOWN_TO)
)
COMMAND = f"{c.WHOLE_LOOPS} {c.OLDER_EMITTERS}" if KNOWN else ""
QUICK = f"{COMMAND} {c.UNOPTIMIZED} {c.IN_ONE_PIECE}" if KNOWN else ""


def flags_after(code: str, **environment: str) -> str:
    inherited = {
        name: value for name, value in os.environ.items() if name != "XLA_FLAGS"
    }
    code += "; print(os.environ.get('XLA_FLAGS', ''))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os, tutelage, jax; tutelage.solve", ""),
        (
            "import os; from tutelage.cli import process as c; c.keep_compiled_programs()",
            COMMAND,
        ),
        (
            "import os; from tutelage.cli import process as c; c.compile_quickly()",
            QUICK,
        ),
    ],
    ids=["import", "command", "quick figure"],
)
def test_flags_unless_others_are_given(code, expected):
    assert flags_after(code) == expected
    assert (
        flags_after(code, XLA_FLAGS="--xla_cpu_enable_fast_math=false")
        == "--xla_cpu_enable_fast_math=false"
    )


def test_a_version_that_may_not_know_a_flag_is_not_given_it(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(c, "KNOWN_TO", "0.0.")
    c.compile_quickly()
    assert "XLA_FLAGS" not in os.environ


def test_import_chooses_no_cache_and_changes_only_the_precision():
    code = (
        "import os, jax; environment, precision = dict(os.environ), jax.config.jax_enable_x64; import tutelage; "
        "tutelage.solve; now = jax.config.jax_enable_x64; "
        "print(jax.config.jax_compilation_cache_dir, dict(os.environ) == environment, precision, now)"
    )
    assert (
        flags_after(code, JAX_ENABLE_X64="0").split("\n")[0] == "None True False True"
    )
