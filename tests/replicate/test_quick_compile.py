"""Quick figures are compiled quickly: flags of XLA that are set before JAX is there, and only where none are given."""

import os
import subprocess
import sys

import pytest

from tutelage.cli import compile_cache

SET = "import os, tutelage.cli.compile_cache as c; c.compile_quickly(); print(os.environ.get('XLA_FLAGS'))"


@pytest.mark.parametrize("given", [None, "--xla_cpu_enable_fast_math=false"])
def test_flags_that_are_given_are_left_alone(given):
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment |= {} if given is None else {"XLA_FLAGS": given}
    run = subprocess.run([sys.executable, "-c", SET], env=environment, capture_output=True, text=True, check=True)
    known = compile_cache.version("jaxlib").startswith(compile_cache.KNOWN_TO)
    assert run.stdout.strip() == (given or (compile_cache.FLAGS if known else "None"))


def test_nothing_is_set_once_jax_is_there_or_to_a_version_that_may_not_know_it(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setitem(sys.modules, "jax", sys)
    compile_cache.compile_quickly()
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr(compile_cache, "version", lambda name: "0.99.0")
    compile_cache.compile_quickly()
    assert "XLA_FLAGS" not in os.environ
