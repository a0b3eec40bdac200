"""Errors and warnings.

A message says in one line what was given, what is allowed, how to fix it. `InputError`
is a `ValueError`, so ordinary handlers catch it; the command line turns it into exit
code 2.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

__all__ = [
    "DivergenceWarning",
    "InputError",
    "Status",
    "SymmetryWarning",
    "TutelageWarning",
    "ValidityWarning",
]

# The first sentence of an exception is quoted if it is short and has none of these.
LONGEST_QUOTE = 120
INTERNAL_MARKS = ("<", "0x", "tracer", "traced", "NoneType")


class InputError(ValueError):
    """The input is not valid: nothing was computed, nothing was written."""


class TutelageWarning(UserWarning):
    """The computation ran; read its result with this message."""


class DivergenceWarning(TutelageWarning):
    """The overlaps diverged (or the solver gave up); what came before is kept."""


class SymmetryWarning(TutelageWarning):
    """The initial condition has an exact symmetry that the dynamics can never break."""


class ValidityWarning(TutelageWarning):
    """The limit of large N, or a quadrature, is used where it is not accurate."""


def cause(error: BaseException) -> str:
    """Describe what a user's function raised, for a message about it.

    It is the type, and the first sentence if that is short and plain.
    """
    name = type(error).__name__
    first_line = str(error).strip().split("\n")[0]
    sentence = first_line.split(". ")[0].rstrip(".")
    is_internal = any(mark in sentence for mark in INTERNAL_MARKS)
    if is_internal or not 0 < len(sentence) <= LONGEST_QUOTE:
        return name
    return f"{name}, {sentence}"


@contextmanager
def explained(what: str, fix: str) -> Iterator[None]:
    """Turn what a user's function raises into one message: "WHAT (CAUSE); FIX"."""
    try:
        yield
    except Exception as error:
        raise InputError(f"{what} ({cause(error)}); {fix}") from None


def kind_of(value: object) -> str:
    """Describe a value of the wrong kind: "start is None", "start is of type int"."""
    return "None" if value is None else f"of type {type(value).__name__}"


def require_fields(
    verb: str, result: object, fields: Iterable[str], source: str
) -> None:
    """Refuse a result without these fields, by which the verb reads it.

    source: what returns a right one.
    """
    if all(hasattr(result, field) for field in fields):
        return
    value = "None" if result is None else f"a value {kind_of(result)}"
    raise InputError(f"{verb} got {value}; give it {source}.")


class Status(IntEnum):
    """Result codes; `status_message` says what each means and what to do."""

    FINISHED = 0
    DIVERGED = 1
    MAX_STEPS = 2
    FAILED = 3
    INTERRUPTED = 4


def status_message(code: int, end_time: float, lr: str | None) -> str:
    """Return one sentence with the time, the learning rate and the fix.

    lr: None if it is not known here.
    """
    when = f"at alpha = {end_time:.6g}"
    if lr is not None:
        when += f" with learning rate {lr}"
    if code == Status.FAILED and end_time <= 0:
        # rates of change this large, or NaN, are not a matter of the solver
        fix = "Lower the learning rate."
        if lr is None:
            fix = "Lower the learning rate, and check that the drift is finite."
        return (
            f"stopped {when}: even the shortest step changes the state too much. {fix}"
        )
    messages = {
        Status.FINISHED: "finished",
        Status.DIVERGED: (
            f"diverged {when}: the overlaps grow without limit. "
            "Lower the learning rate."
        ),
        Status.MAX_STEPS: (
            f"stopped {when}: max_steps was used up. "
            "Raise max_steps, loosen rtol, or try solver='stiff'."
        ),
        Status.FAILED: (
            f"stopped {when}: the solver found no acceptable step. "
            "Try solver='stiff' or a larger rtol."
        ),
        Status.INTERRUPTED: f"interrupted {when}: finished results are saved.",
    }
    return messages[Status(code)]
