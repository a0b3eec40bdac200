"""Training on a part of the samples, again and again, next to the theory.

This is `Data.compare` of a problem with `data`. Each run takes n = ratio N random
samples for many epochs, and its test error is measured on the other ones. The same
training on Gaussian samples of the theory's law, and of the full covariances, splits the
gap into its causes (`gap.py`). All laws start from the same weights.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage.data.laws import SampleLaw
from tutelage.data.training import InitialWeights
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.problem.sample import labels_of
from tutelage.simulation.data_sets import DataSetMethod, DataSetState, performance
from tutelage.simulation.runs import Records, Request, run_in_threads, stream
from tutelage.simulation.simulate import steps_per_time
from tutelage.simulation.weights import FRAME, INPUTS, NOISE
from tutelage.times import steps_at

# The test error of a run is measured on at most so many samples, and on at least this
# share of the data.
JUDGED = 5000
LEAST_SHARE = 0.1


class DataSetCurves(NamedTuple):
    """Errors and losses of each run at the recorded times; NaN after a divergence."""

    error: Float[np.ndarray, "run time"]
    loss: Float[np.ndarray, "run time"]
    train_error: Float[np.ndarray, "run time"]
    train_loss: Float[np.ndarray, "run time"]


class JudgedTraining(DataSetMethod):
    """Training on samples of a law; errors are measured on other samples of it."""

    def __init__(self, request: Request, law: SampleLaw):
        super().__init__(request, self._draw)
        self.law = law
        shape = (request.runs, request.steps.size)
        self.error = np.full(shape, np.nan)
        self.loss = np.full(shape, np.nan)
        self.tests: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def _draw(self, index: int, teacher: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the samples of a run, and keep others for its test error."""
        seed = self.request.seed
        order = stream(seed, index, FRAME).permutation(self.law.size)
        x, labels, _ = self._samples(index, order[: self.count], teacher, 0)
        others = order[self.count :][:JUDGED]
        self.tests[index] = self._samples(index, others, teacher, 1)
        return x, labels

    def _samples(
        self, index: int, which: Int[np.ndarray, " n"], teacher: np.ndarray, use: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inputs, labels, and labels without noise."""
        seed = self.request.seed
        inputs = stream(seed, index, INPUTS, use)
        noise = stream(seed, index, NOISE, use)
        x, xi = self.law.samples(which, inputs, noise)
        if self.law.labeled:
            labels = np.ascontiguousarray(xi[:, 0])
            return x, labels, labels
        rho = x @ teacher.T / np.sqrt(self.request.dim)
        labels = np.array(labels_of(self.problem, rho, xi), dtype=float)
        quiet = self.problem.replace(noise=0.0)
        truth = np.array(labels_of(quiet, rho, xi), dtype=float)
        return x, labels, truth

    def record(self, state: DataSetState, index: int, records: Records, place: int):
        """Record the state, and its errors on the test samples."""
        super().record(state, index, records, place)
        x, labels, truth = self.tests[index]
        fields = x @ state.student.T / np.sqrt(self.request.dim) + state.bias
        error, _ = performance(self.problem, fields, state.readout, truth)
        _, loss = performance(self.problem, fields, state.readout, labels)
        self.error[index, place] = error
        self.loss[index, place] = loss


def train_on_data_sets(
    problem: Problem,
    law: SampleLaw,
    initial: InitialWeights,
    times: Float[np.ndarray, " time"],
    runs: int,
    seed: int,
) -> DataSetCurves:
    """Return the curves of runs that take n = ratio N samples of a law each."""
    dim = law.data.dim
    assert problem.data is not None
    _require_samples(problem, law.size, dim)
    request = Request(
        problem=problem,
        method="weights",
        dim=dim,
        dims=problem.inputs.level_dims(dim),
        times=times,
        steps=steps_at(times, steps_per_time(problem, dim)),
        runs=runs,
        seed=seed,
        starts=[initial.start],
        weights=(initial.student, initial.teacher),
        inputs="gaussian",
        order=problem.data.order,
        keep=False,
    )
    training = JudgedTraining(request, law)
    records, _, _ = run_in_threads(training.run, request, None, False)
    return DataSetCurves(
        error=training.error,
        loss=training.loss,
        train_error=records.train_error,
        train_loss=records.train_loss,
    )


def _require_samples(problem: Problem, size: int, dim: int) -> None:
    """Refuse a data set that leaves too few samples for the test error."""
    assert problem.data is not None
    needed = round(float(np.asarray(problem.data.ratio)) * dim)
    most = int((1 - LEAST_SHARE) * size)
    if needed > most:
        raise InputError(
            f"{problem.data!r} takes {needed} of {size} samples, but a tenth of them "
            f"is needed for the test error; lower the ratio to {most / dim:.4g} or less."
        )
