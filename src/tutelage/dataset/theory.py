"""The theory of a finite data set: from a problem and a start to a `Trajectory`."""

import warnings
from collections.abc import Iterable

import numpy as np

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.dataset.accuracy import estimate
from tutelage.dataset.estimates import Estimate, error_bound
from tutelage.dataset.setting import Setting, has_kernels, setting_of
from tutelage.dataset.solver import Curves
from tutelage.dataset.stability import require_stable
from tutelage.errors import DivergenceWarning, Status, ValidityWarning
from tutelage.problem import Problem, Start, random_start
from tutelage.problem.data_support import ON_DATA
from tutelage.problem.start import require_start
from tutelage.problem.traits import Trait
from tutelage.randomness import Quantile
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.data_sets import OBSERVABLES, epochs_at
from tutelage.simulation.recorded_error import errors_at_records
from tutelage.stream.moments import Sampled
from tutelage.stream.solve import keeps_blocks
from tutelage.theory import Theory
from tutelage.training.losses import has_bounded_slope

USUAL_ACCURACY = 5e-3
# A solve warns if its error is so many times the one that was asked for.
WARNED = 2.0


class FiniteDataSet(Theory):
    """Training that uses a finite data set again and again: averages over sample paths."""

    name = "a finite data set"
    needs = (
        *ON_DATA,
        Trait(
            holds=has_kernels,
            instead="its loss or the student's activation is a custom function",
            remedy="a named loss and activation",
        ),
    )
    observables = OBSERVABLES

    def solve(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        problem: Problem,
        start: Start | None = None,
        times: ArrayLike = 100.0,
        *,
        moments: Sampled | None = None,
        accuracy: float | None = USUAL_ACCURACY,
        keep: str | None = None,
        progress: bool = False,
    ) -> Trajectory:
        """Return the exact curves of training on a data set in the limit of large N.

        Parameters
        ----------
        problem : Problem
            One with `data`.
        start : Start, optional
            Default: `random_start(problem, dim=1000)`.
        times : array or float
            As in `tutelage.solve`; of gradient descent they count steps.
        moments : Sampled, optional
            `Sampled(paths, seed)` fixes the number of sample paths and their seed.
        accuracy : float, optional
            The standard error of each recorded array, relative to its largest entry,
            for which paths and time steps are chosen. Default: 5e-3.
        keep : str, optional
            "blocks" or "fields", as in `tutelage.solve`.
        progress : bool
            Show a progress bar.

        Returns
        -------
        Trajectory
            With `train_error`, `train_loss` and `epochs`. `estimates` has 95% bounds on
            the errors of all recorded arrays.
        """
        paths = None
        seed = 0
        if moments is not None:
            must = "a Sampled(paths, seed)"
            sampled: Sampled = checks.as_kind("moments", moments, Sampled, must)
            paths = sampled.points
            seed = sampled.seed
        goal = USUAL_ACCURACY
        if accuracy is not None:
            goal = checks.as_positive("accuracy", accuracy)
        return solve_on_data_set(
            problem,
            start,
            checks.as_times(times),
            accuracy=goal,
            seed=seed,
            paths=paths,
            keep=keeps_blocks(problem, keep),
            progress=checks.as_flag("progress", progress),
        )


def solve_on_data_set(
    problem: Problem,
    start: Start | None,
    times: np.ndarray,
    *,
    accuracy: float,
    seed: int,
    paths: int | None,
    keep: bool,
    progress: bool,
) -> Trajectory:
    """Return the curves of a problem with data, after checking problem and start."""
    checks.require_untraced("the problem", "solve with a data set", problem)
    if start is None:
        start = random_start(problem, dim=problem.inputs.usual_dim)
    start = require_start(start)
    checks.require_untraced("the initial condition", "solve with a data set", start)
    problem.require_rates_on(times)
    require_stable(problem)
    if problem.noise_law is not None and not has_bounded_slope(problem.loss):
        Quantile(problem.noise_law).mean_and_variance()  # refuses an infinite variance
    setting = setting_of(problem, start)
    found = estimate(setting, times, accuracy, seed, paths, progress)
    trajectory = _trajectory(setting, start, times, found, seed, keep)
    for sentence in _caveats(found, accuracy, paths):
        warnings.warn(sentence, ValidityWarning, stacklevel=3)
    if trajectory.status_code == Status.DIVERGED:
        sentence = f"the solve {trajectory.status}"
        warnings.warn(sentence, DivergenceWarning, stacklevel=3)
    return trajectory


def _caveats(found: Estimate, accuracy: float, paths: int | None) -> Iterable[str]:
    """Yield a sentence if the solve was interrupted or its accuracy not reached."""
    reached = found.reached()
    if found.interrupted:
        yield (
            f"Ctrl-C ended the solve after {found.plan.all_paths} sample paths; the "
            f"standard error of these curves is {reached:.1e} of their largest entries."
        )
    elif paths is None and reached > WARNED * accuracy:
        yield (
            f"the standard error of these curves is {reached:.1e} of their largest "
            f"entries; accuracy={accuracy:g} was asked for. Solve for fewer epochs."
        )


def _trajectory(
    setting: Setting,
    start: Start,
    times: np.ndarray,
    found: Estimate,
    seed: int,
    keep: bool,
) -> Trajectory:
    """Return the trajectory of an estimate, cut at a divergence."""
    problem = setting.problem
    curves = found.curves
    finite = np.isfinite(curves.Q.reshape(len(times), -1)).all(axis=1)
    count = len(times) if finite.all() else int(np.argmin(finite))
    status = Status.FINISHED
    if not finite.all():
        status = Status.INTERRUPTED if found.interrupted else Status.DIVERGED
    end_time = float(times[-1])
    if status != Status.FINISHED:
        end_time = float(times[count - 1])
    variables = _variables(setting, curves, keep)
    bounds = found.bounds()
    estimates = _variables(setting, bounds, keep)
    estimates |= {"train_error": bounds.train_error, "train_loss": bounds.train_loss}
    error, loss, error_bounds = _errors(setting, found, times)
    grid = found.plan.grids[-1]
    plan = found.plan
    settings = (
        ("paths", plan.all_paths),
        ("scramblings", plan.scramblings + plan.coarse_scramblings),
        ("seed", seed),
        ("time_step", grid.longest),
        ("accuracy", found.reached()),
    )
    estimates |= error_bounds
    return Trajectory(
        times=times[:count],
        variables={name: value[:count] for name, value in variables.items()},
        error=error[:count],
        loss=loss[:count],
        status_code=np.asarray(int(status)),
        end_time=np.asarray(end_time),
        steps=np.asarray(grid.cells),
        T=setting.field_T,
        problem=problem,
        start=start,
        settings=settings,
        curves={
            "train_error": curves.train_error[:count],
            "train_loss": curves.train_loss[:count],
            "epochs": epochs_at(problem, times[:count]),
        },
        observables=OBSERVABLES,
        estimates={name: bound[:count] for name, bound in estimates.items()},
    )


def _variables(setting: Setting, curves: Curves, keep: bool) -> dict[str, np.ndarray]:
    """Return what is recorded, by name, of curves or of bounds on their errors.

    R and Q of the fields are sums over levels, and so are the bounds.
    """
    share = setting.fractions[:, None, None]
    variables = {
        "R": np.einsum("l,tlkm->tkm", setting.eigenvalues, curves.R),
        "Q": np.einsum("l,tlkj->tkj", setting.eigenvalues, curves.Q),
        "readout": curves.readout,
    }
    if setting.problem.biased:
        variables["bias"] = curves.bias
    if keep:
        variables["r"] = curves.R / share
        variables["q"] = curves.Q / share
    return variables


def _errors(
    setting: Setting, found: Estimate, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return error and loss of the curves on fresh samples, and bounds on their errors."""
    single = [found.curves, found.second_order]
    groups = [*found.groups]
    parts = [Curves(*(np.stack(pair) for pair in zip(*single, strict=True))), *groups]
    sizes = [len(part.train_loss) for part in parts]
    stacked = Curves(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    errors, losses = errors_at_records(
        setting.problem,
        R=np.einsum("l,ntlkm->ntkm", setting.eigenvalues, stacked.R),
        Q=np.einsum("l,ntlkj->ntkj", setting.eigenvalues, stacked.Q),
        T=setting.field_T,
        readout=stacked.readout,
        bias=stacked.bias,
        times=times,
    )
    gain = max(found.gains)
    bounds = {}
    for name, values in (("error", errors), ("loss", losses)):
        members = np.split(values, np.cumsum(sizes)[:-1])[1:]
        step_error = gain * (values[0] - values[1])
        bounds[name] = error_bound(members, step_error)
    return errors[0], losses[0], bounds
