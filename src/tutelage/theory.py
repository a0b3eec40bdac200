"""The interface of a theory: the problems it covers, its solver and simulator.

A theory solves the problems that have the traits it needs. `theories.py` lists all of
them; `tu.solve`, `tu.solve_batch` and `tu.simulate` ask them in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.problem.start import require_start
from tutelage.problem.traits import TRAITS, Trait
from tutelage.result.observables import Observable
from tutelage.result.trajectory import Trajectory

Simulator = Callable[..., Trajectory]


class Theory(ABC):
    """A theory of learning: which problems it covers, and how it solves them.

    Subclass it, name the traits it needs, and give `solve`; the table in `theories.py`
    then has one row for it. A simulator of the same problems is part of the row.

    Attributes
    ----------
    name : str
        The theory in words, as in "the theory of fresh samples".
    needs : sequence of str or Trait
        The traits of the problems that it solves: names in `problem.traits.TRAITS`, or
        `Trait` objects.
    observables : sequence of Observable
        The curves that it may record besides the error and the loss.

    Parameters
    ----------
    simulator : function, optional
        simulate(problem, start, *, dim, times, runs, seed, ...) of finite networks.
    """

    name: ClassVar[str]
    needs: ClassVar[Sequence[str | Trait]] = ()
    observables: ClassVar[Sequence[Observable]] = ()

    def __init__(self, simulator: Simulator | None = None):
        self._simulator = simulator

    def missing(self, problem: Problem) -> tuple[Trait, ...]:
        """Return the traits that the problem lacks; none if the theory solves it."""
        needed = [TRAITS[x] if isinstance(x, str) else x for x in self.needs]
        return tuple(trait for trait in needed if not trait.holds(problem))

    def initial(self, problem: Problem, start: Start) -> Any:
        """Return the state at time zero: by default r, q and t of each level."""
        return require_start(start).blocks(problem)

    @abstractmethod
    def solve(
        self, problem: Problem, start: Start | None, times: Any, **options: Any
    ) -> Trajectory:
        """Return the curve of the theory.

        `tu.solve` passes only the options that differ from its defaults. The parameters
        of this function say which there are; all others are refused.
        """

    @property
    def simulator(self) -> Simulator | None:
        """The function that trains finite networks on these problems, if there is one."""
        return self._simulator

    def solve_batch(self, problem: Problem, over: Any, **options: Any) -> Trajectory:
        """Solve many problems that differ in numbers."""
        raise InputError(
            f"the theory of {self.name} has no solve_batch; call solve once for each "
            "problem, or use sweep."
        )

    @property
    def side_by_side(self) -> bool:
        """True if a sweep may solve many points in one program of `stream`."""
        return False

    def has_validity(self, trajectory: Trajectory) -> bool:
        """Return True if `validity` has a report about this solve."""
        return False

    def validity(self, trajectory: Trajectory) -> Any:
        """Return the report of how far one solve can be trusted."""
        raise InputError(
            f"the theory of {self.name} has no validity report; compare with runs "
            "(`compare`)."
        )

    def error_estimates(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return bounds on the numerical error of curves that were not recorded."""
        return {}
