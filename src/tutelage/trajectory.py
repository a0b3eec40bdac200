"""The one result type of theory and simulation. Inside it is a pytree, so that `solve` can be jitted, batched and
differentiated whole; at the edge it is a labeled `xarray.Dataset` (docs/schema.md) and a NetCDF file.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name  # of functions in layers to the right
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks, storage
from tutelage._html import card, properties, sparkline
from tutelage.errors import InputError, Status, status_message
from tutelage.problem import Mixture, Problem, Start, Tasks
from tutelage.problem.schedules import rate_at
from tutelage.rules import FeedbackAlignment
from tutelage.times import steps_at

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Trajectory(eqx.Module):
    """Order parameters and error against time alpha = steps / N.

    times: (time,). variables: named arrays (..., time, ...); R, Q, readout (r, q per level, bias) for a `Problem`, the
    user's own names for `Equations`. error: (..., time), e_g, or for labels that are classes the probability of a wrong
    one; for `Tasks` error and loss have a last axis of tasks, (..., time, task). After a divergence only the times before
    it are kept; under vmap and in simulations, where other members go on, the rest is NaN and `status_code` says so.
    loss: the population training loss, label noise included (NaN for rules without a loss). steps: taken by the solver, or
    by each run of a simulation.
    """

    times: Float[np.ndarray, "*batch time"]
    variables: dict[str, np.ndarray]
    error: Float[np.ndarray, "*lead_time_task"]
    status_code: Int[np.ndarray, "*lead"]
    end_time: Float[np.ndarray, "*lead"]
    steps: Int[np.ndarray, "*lead"]
    T: Float[np.ndarray, "*lead M M"] | None = None
    problem: Problem | None = None
    start: Start | None = None
    loss: Float[np.ndarray, "*lead_time_task"] | None = None
    kind: str = eqx.field(static=True, default="theory")
    settings: tuple[tuple[str, Any], ...] = eqx.field(static=True, default=())

    def __getitem__(self, name: str) -> np.ndarray:
        """A variable by name."""
        if name not in self.variables:
            extra = " Solve again with keep='blocks' to keep the overlaps per level." if name in ("r", "q") else ""
            raise InputError(f"this trajectory has no {name!r}; it has {', '.join(self.variables)}.{extra}")
        return self.variables[name]

    @property
    def R(self) -> Float[np.ndarray, "*lead time K M"]:
        """Student-teacher field covariances, (..., time, K, M)."""
        return self["R"]

    @property
    def Q(self) -> Float[np.ndarray, "*lead time K K"]:
        """Student-student field covariances, (..., time, K, K)."""
        return self["Q"]

    @property
    def r(self) -> Float[np.ndarray, "*lead time L K M"]:
        """Student-teacher overlaps per level, (..., time, L, K, M)."""
        return self["r"]

    @property
    def q(self) -> Float[np.ndarray, "*lead time L K K"]:
        """Student-student overlaps per level, (..., time, L, K, K)."""
        return self["q"]

    @property
    def readout(self) -> Float[np.ndarray, "*lead K"]:
        """Student readouts v, (..., time, K), or (..., time, outputs, K); one for each task with separate heads."""
        return self["readout"]

    @property
    def bias(self) -> Float[np.ndarray, "*lead time K"]:
        """Student biases b, (..., time, K)."""
        return self["bias"]

    @property
    def tasks(self) -> int | None:
        """The number of tasks, the last axis of `error`; None without `Tasks`."""
        if self.problem is not None:
            return self.problem.teacher.count if isinstance(self.problem.teacher, Tasks) else None
        R, shape = self.variables.get("R"), np.shape(self.error)  # of a problem that no file holds
        if self.kind == "equations" or R is None or np.ndim(R) != len(shape) + 1:
            return None
        return shape[-1] if shape[:-1] == np.shape(R)[:-2] else None

    def task(self, task: int) -> "Trajectory":
        """One task alone, counted from 0: its error and loss, its head, its columns of R and r. Analyses of curves take it.

        It has no problem: its dynamics is that of all tasks together.
        """
        teacher = getattr(self.problem, "teacher", None)
        if not isinstance(teacher, Tasks) or self.tasks is None:
            raise InputError("this trajectory has no tasks, or its problem is not known; solve a Problem with Tasks.")
        if checks.as_count("task", task, least=0) >= self.tasks:
            raise InputError(f"task is {task}; this trajectory has tasks 0 to {self.tasks - 1}.")
        units, axis = teacher.units(task), np.ndim(self.error) - 1
        variables = {name: v[..., units] if name in ("R", "r") else v for name, v in self.variables.items()}
        if "T" in variables:
            variables["T"] = variables["T"][..., units, units]
        if teacher.heads == "separate":
            variables["readout"] = self.readout.take(task, axis)
        return replace(
            self,
            variables=variables,
            error=self.error[..., task],
            loss=None if self.loss is None else self.loss[..., task],
            T=None if self.T is None else self.T[..., units, units],
            problem=None,
            start=None,
        )

    @property
    def class_errors(self) -> Float[np.ndarray, "*lead time classes"]:
        """The error in each class of a `Mixture`, (..., time, class); `error` is their average."""
        if self.problem is None or self.start is None or not isinstance(self.problem.inputs, Mixture):
            raise InputError("this trajectory has no errors of classes; solve or simulate one Problem with a Mixture.")
        return resolve_name("tutelage.simulation.recorded_error:class_errors")(self)

    @property
    def alignment(self) -> Float[np.ndarray, "*lead time"]:
        """Cosine between readout and feedback, (..., time), for the rule `FeedbackAlignment`."""
        if self.problem is None or not isinstance(self.problem.rule, FeedbackAlignment):
            raise InputError("only the rule FeedbackAlignment has an alignment; use rule=rules.FeedbackAlignment(f).")
        v, shape = self.readout, np.shape(self.problem.student.readout)
        xp: Any = jnp if checks.is_traced(self) else np
        f, axes = xp.broadcast_to(self.problem.rule.feedback, shape), tuple(range(-len(shape), 0))
        return xp.sum(v * f, axis=axes) / xp.sqrt(xp.sum(v**2, axis=axes) * xp.sum(f**2))

    @property
    def dim(self) -> int | None:
        """N of a simulation, or of the weights that a solve started from; None: there is none."""
        return dict(self.settings).get("dim", None if self.start is None else self.start.dim)

    @property
    def step(self) -> Int[np.ndarray, " time"]:
        """Of a simulation: the number of steps, ceil(alpha N), after which each time was recorded."""
        if self.kind != "simulation" or self.dim is None:
            raise InputError("only a simulation counts steps; a solve has no N. Use .times.")
        return steps_at(self.times, self.dim)

    @property
    def finished(self) -> bool:
        """Did it reach the last asked time?"""
        return bool(np.all(np.asarray(self.status_code) == Status.FINISHED))

    @property
    def status(self) -> str:
        """Finished, or what happened, when, at which learning rate, and what to do."""
        if checks.is_traced(self.status_code):
            return "traced"
        codes, ends = np.ravel(self.status_code), np.ravel(self.end_time)
        if codes.size == 1:
            rate = None if self.problem is None else np.asarray(rate_at(self.problem.sgd.lr, jnp.asarray(self.end_time)))
            return status_message(
                int(codes[0]), float(ends[0]), f"{rate:.6g}" if rate is not None and rate.ndim == 0 else None
            )
        bad = np.flatnonzero(codes)
        if bad.size == 0:
            return f"finished ({codes.size} {'runs' if self.kind == 'simulation' else 'solutions'})"
        first = status_message(int(codes[bad[0]]), float(ends[bad[0]]), None)
        return f"{bad.size} of {codes.size} did not finish; number {bad[0]} {first}"

    @cached_property
    def validity(self) -> Any:
        """Where the limit is trusted and where not (see `tutelage.validity`); computed when first asked for."""
        return self._report("validity", "tutelage.validity:assess")

    @property
    def accuracy(self) -> float | None:
        """The relative error that sampled averages leave in `error`, with 95% confidence, at the worst of the times.

        Errors below 1% of the largest one are judged by that size. None: nothing is sampled, or it was not estimated.
        """
        return dict(self.settings).get("accuracy")

    @property
    def sampling_error(self) -> Float[np.ndarray, " time"]:
        """The error that averages over a quasi-random set leave in `error`, (time,): with 95% confidence it is below this.

        Estimated by eight solves, each with one of the eight scramblings of the set; zero where nothing is sampled.
        """
        return self.sampling_errors.get("error", np.zeros_like(self.error))

    @cached_property
    def sampling_errors(self) -> dict[str, np.ndarray]:
        """The same for all that was recorded, by name: error, R, Q, readout. Empty where nothing is sampled."""
        return self._report("sampling_errors", "tutelage.accuracy:sampling_errors")

    def _report(self, name: str, function: str) -> Any:
        """A report about this solve, by a function of a layer to the right."""
        one = self.kind == "theory" and self.problem is not None and self.start is not None and self.tasks is None
        if not one or np.ndim(self.error) != 1 or checks.is_traced(self):
            only = "only a single solve has one, not several tasks, jit, grad or vmap. Compare with runs (`compare`)"
            raise InputError(f"this trajectory has no {name} report; {only}.")
        return resolve_name(function)(self)

    def to_dataset(self) -> "xarray.Dataset":
        """Labeled data; docs/schema.md lists dims, coordinates and attributes."""
        return storage.to_dataset(self)

    @classmethod
    def from_dataset(cls, dataset: "xarray.Dataset") -> "Trajectory":
        """The trajectory that `to_dataset` wrote."""
        return cls(**storage.from_dataset(dataset))

    def save(self, path: str | Path) -> Path:
        """Write NetCDF, all or nothing; returns the path."""
        return storage.write(self.to_dataset(), path)

    def widget(self) -> Any:
        """The explorer at this solve, as a page that a notebook shows inline: move a control, and the browser solves again.

        Where the browser cannot solve the problem, and for simulations, the page shows the curve with a slider for time.
        """
        return resolve_name("tutelage.page.document:trajectory_widget")(self)

    def plot(self, *, ax: "Axes | None" = None, title: str | None = None) -> "Figure":
        """Error, overlaps and trained readouts against time as a Matplotlib figure (see `plot.plot_trajectory`).

        ax: draw only the learning curve, into these axes, and return them. title: "" leaves the head out.
        """
        return resolve_name("tutelage.plot:plot_trajectory")(self, ax=ax, title=title)

    def _repr_html_(self) -> str:
        shapes = {name: np.shape(value) for name, value in self.variables.items()}
        if checks.is_traced(self):
            return card("Trajectory", words=f"traced: {shapes}")
        tasks, error = self.tasks or 1, np.asarray(self.error)
        curves = np.moveaxis(error, -1, 0).reshape(-1, error.shape[-2]) if self.tasks else error
        rows = [("status", self.status)]
        if self.problem is not None:
            K, M = np.shape(self.R)[-2:]
            columns = "teacher units and class means" if isinstance(self.problem.inputs, Mixture) else "teacher units"
            rows.append(("network", f"K = {K} student units, M = {M} {columns}{f', {tasks} tasks' * (tasks > 1)}"))
        times = np.asarray(self.times).reshape(-1, np.shape(self.times)[-1])[0]
        rows += [("N", str(self.dim))] if self.dim is not None else []
        rows.append(("times", f"{times.size} from {times.min():g} to {times.max():g}"))
        rows.append(("recorded", ", ".join(f"{name} {shape}" for name, shape in shapes.items())))
        if "validity" in self.__dict__:  # it has been computed
            rows += [("" if i else "validity", line) for i, line in enumerate(self.validity.lines())]
        rows += [] if self.problem is None else [("problem", repr(self.problem))]
        count = "" if error.ndim == 1 + (tasks > 1) else f", {self.status_code.size} curves"
        return card(f"Trajectory: {self.kind}{count}", sparkline(times, curves), properties(rows))

    def __repr__(self) -> str:
        shape = {name: tuple(np.shape(value)) for name, value in self.variables.items()}
        return f"<Trajectory {self.kind}: {np.shape(self.times)[-1]} times, {shape}, {self.status}>"


def load(path: str | Path) -> Trajectory:
    """Read a trajectory that `Trajectory.save` wrote.

    Parameters
    ----------
    path : str or path
        The NetCDF file. Any other file raises InputError.

    Returns
    -------
    Trajectory

    Examples
    --------
    >>> import tempfile
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tu.solve(problem, tu.asymmetric_start(problem), times=10.0).save(folder + "/theory.nc")
    ...     print(tu.load(path).times[-1])
    10.0
    """
    return Trajectory(**storage.from_dataset(storage.read(path), str(path)))
