"""The command runs as in tests/cli.

It runs in an empty folder, with the settings of the test process left alone.
"""

from tests.cli.conftest import folder, tutelage

__all__ = ["folder", "tutelage"]
