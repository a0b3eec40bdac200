"""The one result type of theory and simulation.

Inside it is a pytree, so that `solve` can be jitted, batched and differentiated whole;
at the edge it is a labeled `xarray.Dataset` (docs/schema.md) and a NetCDF file.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._html import card, properties, sparkline
from tutelage.errors import InputError, Status, status_message
from tutelage.problem import Problem, Start
from tutelage.result import citations, storage, tables
from tutelage.result.attached import attached
from tutelage.result.observables import Observable
from tutelage.times import steps_at
from tutelage.training.rules import FeedbackAlignment
from tutelage.training.schedules import rate_at

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Trajectory(eqx.Module):
    """Order parameters and error against time alpha = steps / N.

    times: (time,). variables: named arrays (..., time, ...); R, Q, readout (r, q per
    level, bias) for a `Problem`, the user's own names for `Equations`. error: (...,
    time), e_g, or for labels that are classes the probability of a wrong one; for
    `Tasks` error and loss have a last axis of tasks, (..., time, task). After a
    divergence only the times before it are kept; under vmap and in simulations, where
    other members go on, the rest is NaN and `status_code` says so. loss: the population
    training loss, label noise included (NaN for rules without a loss). steps: taken by
    the solver, or by each run of a simulation.

    curves: what a theory records besides, (..., time) by name, such as a training error;
    each is an attribute, too. observables: what these curves are. estimates: bounds on
    the numerical error of any recorded quantity, by its name.
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
    curves: dict[str, np.ndarray] = eqx.field(default_factory=dict)
    observables: tuple[Observable, ...] = eqx.field(static=True, default=())
    estimates: dict[str, np.ndarray] = eqx.field(default_factory=dict)

    def __getattr__(self, name: str) -> np.ndarray:
        """Return a curve of the theory by name (called for unknown attributes)."""
        curves = vars(self).get("curves", {})
        if name in curves:
            return curves[name]
        message = f"a Trajectory has no {name!r}"
        if not name.startswith("_"):
            message += _missing_curve(name, curves)
        raise AttributeError(message)

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a variable or a curve by name, such as "R" or "error"."""
        curves = {"error": self.error, "loss": self.loss} | self.curves
        if name not in self.variables and curves.get(name) is not None:
            return curves[name]
        if name not in self.variables:
            message = f"this trajectory has no {name!r}; it has "
            message += f"{', '.join([*self.variables, *curves])}."
            if name in ("r", "q"):
                message += (
                    " Solve again with keep='blocks' to keep the overlaps per level."
                )
            raise InputError(message)
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
        """Student readouts v, (..., time, K), or (..., time, outputs, K).

        With separate heads there is one for each task.
        """
        return self["readout"]

    @property
    def bias(self) -> Float[np.ndarray, "*lead time K"]:
        """Student biases b, (..., time, K)."""
        return self["bias"]

    @property
    def tasks(self) -> int | None:
        """The number of tasks, the last axis of `error`; None without `Tasks`."""
        if self.problem is not None:
            tasks = self.problem.several_tasks
            return None if tasks is None else tasks.count
        # the problem is not known, because no file holds it: the shapes tell
        R = self.variables.get("R")
        shape = np.shape(self.error)
        if self.kind == "equations" or R is None or np.ndim(R) != len(shape) + 1:
            return None
        return shape[-1] if shape[:-1] == np.shape(R)[:-2] else None

    def task(self, task: int) -> "Trajectory":
        """Return one task alone, counted from 0, as analyses of curves need it.

        It has the error, the loss and the head of the task, and its columns of R and r.
        It has no problem: its dynamics is that of all tasks together.
        """
        teacher = None if self.problem is None else self.problem.several_tasks
        if teacher is None or self.tasks is None:
            raise InputError(
                "this trajectory has no tasks, or its problem is not known; "
                "solve a Problem with Tasks."
            )
        if checks.as_count("task", task, least=0) >= self.tasks:
            raise InputError(
                f"task is {task}; this trajectory has tasks 0 to {self.tasks - 1}."
            )
        units = teacher.units(task)
        variables = dict(self.variables)
        for name in ("R", "r"):
            if name in variables:
                variables[name] = variables[name][..., units]
        if "T" in variables:
            variables["T"] = variables["T"][..., units, units]
        if teacher.heads == "separate":
            task_axis = np.ndim(self.error) - 1
            variables["readout"] = self.readout.take(task, task_axis)
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
        """Error in each class of a `Mixture`, (..., time, class); `error` averages them."""
        problem = self.problem
        has_classes = problem is not None and problem.inputs.classes is not None
        if self.start is None or not has_classes:
            raise InputError(
                "this trajectory has no errors of classes; "
                "solve or simulate one Problem with a Mixture."
            )
        return attached("class_errors")(self)

    @property
    def alignment(self) -> Float[np.ndarray, "*lead time"]:
        """Cosine between readout and feedback, (..., time).

        Only the rule `FeedbackAlignment` has it.
        """
        problem = self.problem
        if problem is None or not isinstance(problem.rule, FeedbackAlignment):
            raise InputError(
                "only the rule FeedbackAlignment has an alignment; "
                "use rule=rules.FeedbackAlignment(f)."
            )
        xp: Any = jnp if checks.is_traced(self) else np
        shape = np.shape(problem.student.readout)
        axes = tuple(range(-len(shape), 0))  # of the readout, after those of time
        v = self.readout
        f = xp.broadcast_to(problem.rule.feedback, shape)
        norms = xp.sqrt(xp.sum(v**2, axis=axes) * xp.sum(f**2))
        return xp.sum(v * f, axis=axes) / norms

    @property
    def dim(self) -> int | None:
        """N of a simulation, or of the start of a solve; None: there is none."""
        settings = dict(self.settings)
        if "dim" in settings:
            return settings["dim"]
        return None if self.start is None else self.start.dim

    @property
    def steps_per_time(self) -> int | None:
        """Steps in one unit of time: N, unless the theory counts its time in steps."""
        if self.problem is not None and self.problem.optimizer.counts_steps:
            return 1
        return self.dim

    @property
    def step(self) -> Int[np.ndarray, " time"]:
        """Steps of a simulation, such as ceil(alpha N), at which each time was recorded."""
        if self.kind != "simulation" or self.steps_per_time is None:
            raise InputError(
                "only a simulation counts steps; a solve has no N. Use .times."
            )
        return steps_at(self.times, self.steps_per_time)

    @property
    def finished(self) -> bool:
        """True if the last asked time was reached, by every member."""
        return bool(np.all(np.asarray(self.status_code) == Status.FINISHED))

    @property
    def status(self) -> str:
        """Finished, or what happened, when, at which learning rate, and what to do."""
        if checks.is_traced(self.status_code):
            return "traced"
        codes = np.ravel(self.status_code)
        end_times = np.ravel(self.end_time)
        if codes.size == 1:
            return status_message(int(codes[0]), float(end_times[0]), self._last_rate())
        unfinished = np.flatnonzero(codes)
        if unfinished.size == 0:
            members = "runs" if self.kind == "simulation" else "solutions"
            return f"finished ({codes.size} {members})"
        first = unfinished[0]
        message = status_message(int(codes[first]), float(end_times[first]), None)
        return (
            f"{unfinished.size} of {codes.size} did not finish; "
            f"number {first} {message}"
        )

    def _last_rate(self) -> str | None:
        """Return the learning rate at the end of a single curve; None if unknown."""
        if self.problem is None:
            return None
        rate = np.asarray(
            rate_at(self.problem.optimizer.lr, jnp.asarray(self.end_time))
        )
        return f"{rate:.6g}" if rate.ndim == 0 else None

    @property
    def has_validity(self) -> bool:
        """True if the theory of the problem has a `validity` report about this solve."""
        return attached("has_validity")(self)

    @cached_property
    def validity(self) -> Any:
        """Report of how far the limit can be trusted, by the theory of the problem.

        Computed when first asked for.
        """
        self._require_single_solve("validity")
        return attached("validity")(self)

    @property
    def accuracy(self) -> float | None:
        """Relative error that sampled averages leave in `error`, at the worst time.

        With 95% confidence it is below this. Errors below 1% of the largest one are
        judged by that size. None: nothing is sampled, or it was not estimated. On a
        data set it is one standard error of the least accurate curve, relative to the
        largest entry of that curve.
        """
        return dict(self.settings).get("accuracy")

    @property
    def sampling_error(self) -> Float[np.ndarray, " time"]:
        """Bound on what averages over a quasi-random set leave in `error`, (time,).

        With 95% confidence the deviation is below it. Estimated by eight solves, each
        with one of the eight scramblings of the set; zero where nothing is sampled.
        """
        return self.sampling_errors.get("error", np.zeros_like(self.error))

    @cached_property
    def sampling_errors(self) -> dict[str, np.ndarray]:
        """Bounds as `sampling_error` for error, R, Q and other quantities, by name.

        These are the `estimates` of the solve, or are computed now. Empty where nothing
        is sampled.
        """
        if self.estimates:
            return dict(self.estimates)
        self._require_single_solve("sampling_errors")
        return attached("error_estimates")(self)

    def _require_single_solve(self, report: str) -> None:
        """Refuse a report about anything but one solve."""
        is_solve = (
            self.kind == "theory"
            and self.problem is not None
            and self.start is not None
        )
        is_single_curve = self.tasks is None and np.ndim(self.error) == 1
        if not is_solve or not is_single_curve or checks.is_traced(self):
            raise InputError(
                f"this trajectory has no {report} report; only a single solve has one, "
                "not several tasks, jit, grad or vmap. Compare with runs (`compare`)."
            )

    def to_dataset(self) -> "xarray.Dataset":
        """Return labeled data, as docs/schema.md describes."""
        return storage.to_dataset(self)

    @classmethod
    def from_dataset(cls, dataset: "xarray.Dataset") -> "Trajectory":
        """Return the trajectory that `to_dataset` wrote."""
        return cls(**storage.from_dataset(dataset))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table with a row for each recorded time, of each run or member.

        The index is the time, or (run, time). Columns are error, loss and the entries
        of the variables, counted from one: R_12, Q_11, readout_2, and r_1_12 on level 1
        where there are several levels. A simulation begins with the number of steps.
        """
        return tables.to_pandas(self)

    def save(self, path: str | Path) -> Path:
        """Write a file, all or nothing, and return its path.

        A name ending in .nc becomes NetCDF, which `load` reads; .csv the table of
        `to_pandas`, which does not contain the problem.
        """
        return tables.save(self, path)

    def cite(self) -> citations.References:
        """Return the papers behind this result as `References`.

        Print them, or use `.bibtex`.
        """
        return citations.behind_trajectory(self)

    def widget(self) -> Any:
        """Return the explorer at this solve, as a page that a notebook shows inline.

        Move a control, and the browser solves again. Where the browser cannot solve the
        problem, and for simulations, the page shows the curve with a slider for time.
        """
        return attached("widget")(self)

    def plot(
        self,
        *,
        ax: "Axes | None" = None,
        title: str | None = None,
        time: str = "alpha",
        floors: bool = False,
    ) -> "Figure":
        """Draw error, overlaps and trained readouts against time with Matplotlib.

        See `plot.plot_trajectory`. ax: draw only the learning curve, into these axes,
        and return them. title: "" leaves the head out. time: "alpha", "steps" or
        "samples". floors: also draw where training ends and the smallest error that
        its samples allow (`analysis.floors`).
        """
        draw = attached("plot")
        return draw(self, ax=ax, title=title, time=time, floors=floors)

    def _repr_html_(self) -> str:
        shapes = {name: np.shape(value) for name, value in self.variables.items()}
        if checks.is_traced(self):
            return card("Trajectory", words=f"traced: {shapes}")
        error = np.asarray(self.error)
        curves = error
        lead = error.shape[:-1]
        if self.tasks is not None:
            curves = np.moveaxis(error, -1, 0).reshape(-1, error.shape[-2])
            lead = error.shape[:-2]
        times = np.asarray(self.times).reshape(-1, np.shape(self.times)[-1])[0]
        title = f"Trajectory: {self.kind}"
        if lead:
            title += f", {self.status_code.size} curves"
        return card(title, sparkline(times, curves), properties(self._rows(times)))

    def _rows(self, times: np.ndarray) -> list[tuple[str, str]]:
        """Return the rows of the table in a notebook: a name and a text."""
        rows = [("status", self.status)]
        if self.problem is not None:
            K, M = np.shape(self.R)[-2:]
            references = "teacher units"
            if self.problem.inputs.classes is not None:
                references = "teacher units and class means"
            network = f"K = {K} student units, M = {M} {references}"
            if self.tasks is not None and self.tasks > 1:
                network += f", {self.tasks} tasks"
            rows.append(("network", network))
        if self.dim is not None:
            rows.append(("N", str(self.dim)))
        span = f"{times.size} from {times.min():g} to {times.max():g}"
        rows.append(("times", span))
        values = self.variables | self.curves
        recorded = [f"{name} {np.shape(x)}" for name, x in values.items()]
        rows.append(("recorded", ", ".join(recorded)))
        if "validity" in self.__dict__:  # it has been computed
            first, *others = self.validity.lines()
            rows.append(("validity", first))
            rows += [("", line) for line in others]
        if self.problem is not None:
            rows.append(("problem", repr(self.problem)))
        return rows

    def __repr__(self) -> str:
        shapes = {name: tuple(np.shape(x)) for name, x in self.variables.items()}
        count = np.shape(self.times)[-1]
        return f"<Trajectory {self.kind}: {count} times, {shapes}, {self.status}>"


def _missing_curve(name: str, curves: dict[str, np.ndarray]) -> str:
    """Return what a message about an unknown attribute adds."""
    if not curves:
        return f".{checks.nearest(name, dir(Trajectory))}"
    return f"; its curves are {', '.join(curves)}."


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
    >>> erf = tu.Network(2, "erf")
    >>> problem = tu.Problem(erf, erf, optimizer=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=10.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = theory.save(folder + "/theory.nc")
    ...     print(tu.load(path).times[-1])
    10.0
    """
    return Trajectory(**storage.from_dataset(storage.read(path), str(path)))
