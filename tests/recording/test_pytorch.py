"""The loop of docs/how-to/from-pytorch.md, in PyTorch itself."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-pytorch.md"


def loop():
    """The block of the page that needs PyTorch."""
    blocks = re.findall(
        r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    (block,) = blocks
    return block


def test_the_loop_is_short_and_complete():
    code = loop()
    compile(code, PAGE.name, "exec")
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) <= 30
    for name in ("torch.nn.Linear", "tu.Recorder", "tu.compare", "loss.backward"):
        assert name in code


@pytest.mark.full
def test_a_loop_of_pytorch_follows_the_theory(tmp_path):
    """In a process of its own: the block changes the default type of PyTorch."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed; pip install '.[torch]' to run its loop")
    script = tmp_path / "loop.py"
    script.write_text(loop())
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("agree"), done.stdout
