"""The result of a sweep: a Dataset with words and figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks, storage
from tutelage._errors import InputError, Status
from tutelage.sweeps.boundaries import boundary_lines
from tutelage.sweeps.spec import SweepSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


@dataclass(frozen=True)
class Sweep:
    """dataset: every measure with the axes of the sweep as dims, and start, run and time where they apply.

    spec: what was asked. folder: where it is kept, None in memory. report: what this run computed and what it found.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> print(tu.sweep(problem, {"batch": [1, 2]}, "critical_learning_rate"))
    2 points: batch (2)
    critical_learning_rate: 4.0558 to 8.1116
    """

    spec: SweepSpec = field(repr=False)
    dataset: "Dataset"
    folder: Path | None = None
    report: Any = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Any:
        """A variable of the Dataset."""
        if name not in self.dataset:
            raise InputError(f"this sweep has no {name!r}; it has {', '.join(map(str, self.dataset.data_vars))}.")
        return self.dataset[name]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of what was measured."""
        return tuple(str(name) for name in self.dataset.data_vars if name not in ("status", "end_time", "failure", "note"))

    @property
    def failures(self) -> dict[int, str]:
        """Why points have no numbers, by their number in the sweep; empty if all have."""
        return self._sentences("failure")

    @property
    def notes(self) -> dict[int, str]:
        """What is to be read beside the numbers, by the number of the point: why a verb has none, what `solve` warns of."""
        return self._sentences("note") if "note" in self.dataset else {}

    def _sentences(self, name: str) -> dict[int, str]:
        words = self.dataset[name].values.ravel()
        return {int(i): str(words[i]) for i in np.flatnonzero(words != "")}

    @property
    def diverged(self) -> int:
        """How many solves diverged (`status` says where)."""
        return int(np.sum(self.dataset["status"].values == Status.DIVERGED)) if "status" in self.dataset else 0

    def save(self, path: str | Path) -> Path:
        """Write the Dataset as one NetCDF file, all or nothing."""
        return storage.write(self.dataset, path)

    def plot(
        self, variable: str | None = None, *, at: Mapping[str, Any] | None = None, title: str | None = None
    ) -> "Figure":
        """Curves for one axis (or for times), a heat map with contours for two, as a Matplotlib figure.

        variable: which measure (default: the first). at: values at which other axes are held, {"noise": 0.1}; the nearest
        ones there are. The median over random starts is drawn, with the range of their middle half.
        """
        from tutelage.plot.sweep import plot_sweep

        chosen = self._chosen(variable, at)
        return plot_sweep(*chosen, self._held_problem(chosen[0]), title=title)

    def phase_diagram(
        self,
        variable: str | None = None,
        *,
        boundary: Any,
        level: float | None = None,
        at: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> "Figure":
        """A heat map over two axes with lines that theory draws on it.

        boundary: "critical_learning_rate", where zero error loses its stability; "noise_floor", where label noise leaves an
        error of `level` in the end; or a function from a problem to a value of the second axis. Several as a list, or with
        labels of their own as {"label": boundary}. level: this contour of the measured variable is drawn, too.
        """
        from tutelage.plot.sweep import plot_sweep

        chosen = self._chosen(variable, at)
        dims = [dim for dim in chosen[0].dims if dim not in ("start",)]
        if len(dims) != 2 or "point" in dims:
            raise InputError(
                f"a phase diagram needs two axes; {chosen[0].name} has {', '.join(dims)}. Hold others with at=."
            )
        lines = boundary_lines(self.spec, chosen[0], boundary, level)
        return plot_sweep(*chosen, self._held_problem(chosen[0]), lines=lines, level=level, title=title)

    def _chosen(self, variable: str | None, at: Mapping[str, Any] | None) -> tuple[Any, Any]:
        """The variable, and how its solves ended, with axes held where asked for."""
        if not self.variables:
            raise InputError("no point of this sweep has numbers yet; see .failures.")
        values = self[variable or self.variables[0]]
        status = self.dataset.get("status", None)
        for name, where in (at or {}).items():
            checks.known("a name in at", name, dict.fromkeys(str(dim) for dim in values.dims))
            method = "nearest" if np.issubdtype(values[name].dtype, np.number) else None
            values = values.sel({name: where}, method=method)
            if status is not None and name in status.dims:
                status = status.sel({name: where}, method=method)
        return values, status

    def _held_problem(self, values: Any) -> Any:
        """The base problem, with the axes that are held at their values."""
        names = set(self.spec.all_points.names) if self.spec.all_points.listed is None else set()
        held = {str(name): c.item() for name, c in values.coords.items() if c.ndim == 0 and name in names}
        return self.spec.problem_at(held)

    def __str__(self) -> str:
        sizes = ", ".join(
            f"{name} ({size})" for name, size in zip(self._axis_names(), self.spec.all_points.shape, strict=True)
        )
        lines = [f"{len(self.spec.all_points)} points: {sizes}"]
        for name in self.variables:
            values = self.dataset[name].values
            found = values[np.isfinite(values)]
            span = f"{found.min():.5g} to {found.max():.5g}" if found.size else "no number"
            lines.append(f"{name}: {span}")
        counts = (("diverged", self.diverged), ("with a note (see .notes)", len(self.notes)))
        counts += (("failed (see .failures)", len(self.failures)),)
        return "\n".join([*lines, *(f"{count} {what}" for what, count in counts if count)])

    def _axis_names(self) -> tuple[str, ...]:
        points = self.spec.all_points
        return points.names if points.listed is None else ("point",)
