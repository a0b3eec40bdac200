"""How a computation ended: a code inside JAX, a sentence outside."""

from enum import IntEnum


class Status(IntEnum):
    """Result codes; `describe` says what each means and what to do.

    >>> import tutelage as tu
    >>> tu.Status.FINISHED.name, int(tu.Status.DIVERGED)
    ('FINISHED', 1)
    """

    FINISHED = 0
    DIVERGED = 1
    MAX_STEPS = 2
    FAILED = 3
    INTERRUPTED = 4


def describe(code: int, end_time: float, lr: str | None) -> str:
    """One sentence with the time, the learning rate (None: not known here) and the fix."""
    when = f"at alpha = {end_time:.6g}" + ("" if lr is None else f" with learning rate {lr}")
    return {
        Status.FINISHED: "finished",
        Status.DIVERGED: f"diverged {when}: the overlaps outgrew every bound. Lower the learning rate.",
        Status.MAX_STEPS: f"stopped {when}: max_steps was used up. Raise max_steps, loosen rtol, or try solver='stiff'.",
        Status.FAILED: f"stopped {when}: the solver found no acceptable step. Try solver='stiff' or a larger rtol.",
        Status.INTERRUPTED: f"interrupted {when}: what was finished is kept.",
    }[Status(code)]
