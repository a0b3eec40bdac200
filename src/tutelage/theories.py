"""The table of theories, which `tu.solve` and the other verbs ask in order.

A new theory is one folder and one row of `TABLE`. A theory of your own is registered:

    tu.theories.register(MyTheory())
"""

from tutelage.dataset.theory import FiniteDataSet
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem
from tutelage.problem.traits import said_instead
from tutelage.result.observables import Observable
from tutelage.stream.theory import FreshSamples
from tutelage.theory import Simulator, Theory

__all__ = [
    "TABLE",
    "Observable",
    "Theory",
    "covering",
    "register",
    "theory_of",
    "unregister",
]


class _FreshSamples(FreshSamples):
    """The row of fresh samples; a solve does not wait for the import of its simulator."""

    @property
    def simulator(self) -> Simulator:
        from tutelage.simulation.simulate import simulate_stream

        return simulate_stream


class _FiniteDataSet(FiniteDataSet):
    """The row of a finite data set, with its simulator imported when it is needed."""

    @property
    def simulator(self) -> Simulator:
        from tutelage.simulation.data_sets import simulate_data_set

        return simulate_data_set


# In the order in which they are asked.
TABLE: list[Theory] = [
    _FreshSamples(),
    _FiniteDataSet(),
]


def register(theory: Theory) -> Theory:
    """Add a theory at the end of the table and return it.

    Parameters
    ----------
    theory : Theory
        It is asked after the theories that are in the table.

    Returns
    -------
    Theory
    """
    if not isinstance(theory, Theory):
        raise InputError(
            f"register is given {kind_of(theory)}; give a Theory, such as MyTheory()."
        )
    TABLE.append(theory)
    return theory


def unregister(theory: Theory) -> None:
    """Remove a theory that was registered."""
    TABLE.remove(theory)


def covering(problem: Problem) -> Theory | None:
    """Return the first theory that lacks nothing for this problem, or None."""
    for theory in TABLE:
        if not theory.missing(problem):
            return theory
    return None


def theory_of(problem: object, function: str = "solve") -> Theory:
    """Return the first theory that lacks nothing for this problem.

    Raise `InputError` if there is none, with what each theory lacks. function: the name
    of the caller, for messages.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem is {kind_of(problem)}; {function} takes a tutelage Problem."
        )
    theory = covering(problem)
    if theory is not None:
        return theory
    missing = {theory.name: theory.missing(problem) for theory in TABLE}
    fewest = min(len(traits) for traits in missing.values())
    reasons = []
    for name, traits in missing.items():
        reason = f"the theory of {name} needs "
        reason += " and ".join(trait.remedy for trait in traits)
        # what the problem has instead, where the way is shortest
        if len(traits) == fewest:
            reason += f" ({said_instead(problem, traits)})"
        reasons.append(reason)
    raise InputError(f"no theory covers this problem: {'; '.join(reasons)}.")


def curve_names() -> tuple[str, ...]:
    """Return the names of the curves that the theories of the table may record."""
    names = []
    for theory in TABLE:
        names += [observable.name for observable in theory.observables]
    return tuple(dict.fromkeys(names))
