"""The public names and commands, in the order of the reference pages."""

import sys

from tests.lint.findings import ROOT

sys.path.insert(0, str(ROOT / "docs"))

from _site.reference import all_public_names, commands, groups, help_of, value_of

__all__ = ["all_public_names", "commands", "groups", "help_of", "value_of"]
