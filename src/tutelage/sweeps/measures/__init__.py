"""What can be computed at a point, by name.

    error, loss, final_error, final_loss, overlaps, final_overlaps                of the theory
    simulated_error, simulated_final_error, run_error, run_final_error            of finite networks
    noise_floor, escape_time.rate, plateaus.longest.length, ...                   any verb, and which number of its answer
    my_module:my_function                                                         one's own

`resolve` finds a measure; a new one of the first two kinds goes into the table of its module.
"""

from tutelage.sweeps.measures.answers import AS_NUMBER, is_verb, own_measure, verb_measure, verbs
from tutelage.sweeps.measures.base import Case, Measure
from tutelage.sweeps.measures.simulated import SIMULATED
from tutelage.sweeps.measures.theory import THEORY

__all__ = ["Case", "Measure", "resolve"]

TABLE = {measure.name: measure for measure in (*THEORY, *SIMULATED)}


def resolve(name: str, functions: dict | None = None) -> Measure:
    """The measure of this name. functions: the user's own that cannot be imported by name."""
    from tutelage import checks
    from tutelage._errors import InputError

    checks.as_text("a measure", name, fix="Give a name or a function.")
    if name in TABLE:
        return TABLE[name]
    if ":" in name:
        return own_measure(name, functions or {})
    if is_verb(name.partition(".")[0]):
        return verb_measure(name)
    numbers = [verb if verb in AS_NUMBER else f"{verb}.<number>" for verb in verbs()]
    raise InputError(
        f"{name!r} is no measure; give one of {', '.join(TABLE)}, a verb with the number to take of its answer "
        f"({', '.join(numbers)}), or your own function as 'module:function'.{checks.nearest(name, [*TABLE, *verbs()])}"
    )
