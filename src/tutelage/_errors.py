"""What the library says when something is wrong.

One sentence each: what was given, what is allowed, how to fix it. `InputError` is a `ValueError`, so ordinary handlers
catch it; the command line turns it into exit code 2.
"""


class InputError(ValueError):
    """The input cannot be meant: nothing was computed, nothing was written."""


class TutelageWarning(UserWarning):
    """The computation ran, but its result needs this sentence beside it."""


class DivergenceWarning(TutelageWarning):
    """The solution left every bound (or the solver gave up); what came before is kept."""


class SymmetryWarning(TutelageWarning):
    """The start has an exact symmetry that the dynamics can never break."""


class ValidityWarning(TutelageWarning):
    """The limit, or a quadrature, is used where it is not accurate."""
