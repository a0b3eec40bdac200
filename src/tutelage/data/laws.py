"""Laws of samples next to each other: the data themselves, and Gaussian stand-ins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from tutelage.problem import Problem
from tutelage.problem.sample import normals_needed

if TYPE_CHECKING:
    from tutelage.data.result import Data


@dataclass(frozen=True, eq=False)
class SampleLaw:
    """A law of samples, which bring their labels (`labeled`) or get a teacher's.

    roots: of the Gaussian covariance of each class, standard deviations (C, D) or
    matrices (C, D, D); None: the data themselves.
    """

    data: "Data"
    problem: Problem
    roots: np.ndarray | None

    @property
    def size(self) -> int:
        """The number of samples of the data."""
        return len(self.data.held[0])

    @property
    def labeled(self) -> bool:
        """True if the samples bring their labels."""
        return self.data.labels is not None

    def samples(
        self,
        which: Int[np.ndarray, "*n"],
        rng: np.random.Generator,
        noise: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs that stand for given rows of the data, and random numbers.

        The numbers are those of label and rule, after labels if the law is labeled.
        """
        inputs_of_data, labels_of_data = self.data.held
        labels = labels_of_data[which]
        classes = np.zeros(which.shape, dtype=int)
        if self.data.classes is not None:
            classes = labels
        if self.roots is None:
            x = inputs_of_data[which]
        else:
            x = self._gaussian_inputs(self.roots, classes, rng)
            labels = self._fitted_labels(x, labels, rng)
        normals = normals_needed(self.problem)
        xi = noise.standard_normal((*which.shape, normals))
        if not self.labeled:
            return x, xi
        if self.data.classes is not None:
            labels = np.asarray(self.problem.targets, dtype=float)[classes]
        if labels.ndim != xi.ndim:
            labels = labels[..., None]
        return x, np.concatenate([labels, xi], axis=-1)

    def _gaussian_inputs(
        self, roots: np.ndarray, classes: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return Gaussian inputs of the given classes."""
        x = rng.standard_normal((*classes.shape, self.data.dim))
        if roots.ndim == 2:
            x = x * roots[classes]
        else:
            for c, root in enumerate(roots):
                x[classes == c] = x[classes == c] @ root.T
        x += self.data.means[classes]
        return x

    def _fitted_labels(
        self, x: np.ndarray, labels: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the fitted teacher's labels for inputs x; without it, those given."""
        data = self.data
        teacher = data.teacher_weights
        if self.roots is not None and self.roots.ndim == 2:
            teacher = data.grouped_teacher
        if teacher is None:
            return labels
        unseen = np.sqrt(1 - data.explained) * rng.standard_normal(labels.shape)
        return x @ teacher[0] / np.sqrt(data.dim) + unseen
