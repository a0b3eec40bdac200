"""One answer per run: what a verb that reads a curve returns for a trajectory with a run axis."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12  # runs whose line is printed


@dataclass(frozen=True)
class RunResults:
    """The answers of all runs, in their order: a sequence. `numbers(name)` collects a field; `marks` the times found.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=200)
    >>> runs = tu.simulate(problem, start, times=tu.linear_times(200), runs=3)
    >>> per_run = tu.analysis.specialization(runs)
    >>> len(per_run), per_run.numbers("transition_time").shape
    (3, (3,))
    """

    answers: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, run: int) -> Any:
        return self.answers[run]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.answers)

    def numbers(self, name: str) -> np.ndarray:
        """A number of each answer by its name, (run,); NaN where a run has none."""
        if not all(hasattr(answer, name) for answer in self.answers):
            have = [n for n in dir(self.answers[0]) if isinstance(getattr(self.answers[0], n), float) and n[0] != "_"]
            raise InputError(f"these answers have no {name!r}; their numbers are {', '.join(have)}.")
        return np.array([_number(getattr(answer, name), name) for answer in self.answers])

    @property
    def marks(self) -> dict[str, np.ndarray]:
        """The times that each run's answer marks, by name: (run,), NaN where a run has none."""
        names = dict.fromkeys(name for answer in self.answers for name in answer.marks)
        return {name: np.array([answer.marks.get(name, np.nan) for answer in self.answers]) for name in names}

    def plot(self, *, title: str | None = None) -> "Figure":
        """Every run's learning curve with its marks, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.per_run import plot_per_run

        return plot_per_run(self, title=title)

    def __str__(self) -> str:
        lines = [f"{len(self)} runs"]
        for name, times in self.marks.items():
            found = times[np.isfinite(times)]
            spread = f" ± {found.std(ddof=1):.3g} (mean ± sd)" if found.size > 1 else ""
            span = f", from {found.min():.4g} to {found.max():.4g}" if found.size > 1 else ""
            lines.append(f"{name}: {found.size} of {len(self)} runs, at {found.mean():.4g}{spread}{span}")
        lines += [f"run {i}: {str(answer).splitlines()[0]}" for i, answer in enumerate(self.answers[:SHOWN])]
        return "\n".join(lines + [f"... and {len(self) - SHOWN} more"] * (len(self) > SHOWN))


def _number(value: Any, name: str) -> float:
    if value is None:
        return np.nan
    if np.ndim(value) or isinstance(value, str):
        raise InputError(f"{name} is not a single number; loop over the runs instead: [a.{name} for a in answers].")
    return float(value)
