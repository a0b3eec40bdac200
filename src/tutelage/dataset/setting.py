"""The problem as plain numbers, as the theory of a data set needs it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage.dataset import path_kernel
from tutelage.dataset.path_kernel import Model
from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.problem.activation import NAMED_ACTIVATIONS, Activation
from tutelage.problem.sample import labels_of
from tutelage.training import losses


@dataclass(frozen=True)
class Setting:
    """A problem and its start, as the solver reads them.

    R, Q, T are sums over the dimensions of a level, divided by N; a `Start` divides by
    those of the level.
    """

    problem: Problem
    model: Model
    ratio: float
    eigenvalues: Float[np.ndarray, " L"]
    fractions: Float[np.ndarray, " L"]
    R: Float[np.ndarray, "L K M"]
    Q: Float[np.ndarray, "L K K"]
    T: Float[np.ndarray, "L M M"]
    readout: Float[np.ndarray, " K"]
    bias: Float[np.ndarray, " K"]

    @property
    def hidden(self) -> int:
        """K, the number of student units."""
        return self.R.shape[1]

    @property
    def reference_covariance(self) -> Float[np.ndarray, "M M"]:
        """The covariance of the teacher's fields, as far as inputs carry them."""
        return np.einsum("l,lmn->mn", self.eigenvalues, self.T)

    @property
    def field_T(self) -> Float[np.ndarray, "M M"]:
        """The covariance of the teacher's fields, with the unseen part."""
        T = self.reference_covariance
        if self.problem.unseen is None:
            return T
        return T + np.asarray(self.problem.unseen, dtype=float)

    def labels(
        self, rho: Float[np.ndarray, "S M"], normals: Float[np.ndarray, "S draws"]
    ) -> Float[np.ndarray, " S"]:
        """Return the stored labels of samples with these fields of the teacher."""
        return np.asarray(labels_of(self.problem, rho, normals), dtype=float)


def has_kernels(problem: Problem) -> bool:
    """Return True if the machine code has the student's activation and the loss."""
    return (
        _activation_code(problem.student.activation) is not None
        and losses.as_loss.word(problem.loss) in path_kernel.LOSSES
    )


def _activation_code(activation: Activation) -> int | None:
    """Return the code of an activation; None if the machine code does not have it."""
    if activation.polynomial is not None:
        return path_kernel.POLYNOMIAL
    if NAMED_ACTIVATIONS.get(activation.name) != activation:
        return None
    if activation.name not in path_kernel.ACTIVATIONS:
        return None
    return path_kernel.ACTIVATIONS.index(activation.name)


def update_jumps(problem: Problem) -> bool:
    """Return True if delta is not a continuous function of the fields."""
    return problem.loss.jumps or not problem.student.activation.smooth


def setting_of(problem: Problem, start: Start) -> Setting:
    """Return the numbers of a problem and its start."""
    r, q, t = (np.asarray(x, dtype=float) for x in start.blocks(problem))
    fractions = np.asarray(problem.inputs.fractions, dtype=float)
    share = fractions[:, None, None]
    eigenvalues = np.asarray(problem.inputs.eigenvalues, dtype=float)
    T = share * t
    covariance = np.einsum("l,lmn->mn", eigenvalues, T)
    values = np.linalg.eigvalsh(covariance)
    if values[0] <= 1e-9 * values[-1]:
        raise InputError(
            "the teacher's units are linearly dependent (T is singular); the theory of "
            "a data set needs independent ones. Merge units with equal weights."
        )
    activation = problem.student.activation
    code = _activation_code(activation)
    assert code is not None
    number = 0.0
    if isinstance(problem.loss, losses.Huber):
        number = float(np.asarray(problem.loss.delta))
    model = Model(
        activation=code,
        coefficients=np.array(activation.polynomial or [0.0], dtype=float),
        loss=path_kernel.LOSSES.index(losses.loss_name(problem.loss)),
        loss_number=number,
        by_class=problem.labels.metric == "class",
        jumps=update_jumps(problem),
    )
    bias = start.bias_of(problem)
    if bias is None:
        bias = np.zeros(problem.student.hidden)
    assert problem.data is not None
    return Setting(
        problem=problem,
        model=model,
        ratio=float(np.asarray(problem.data.ratio)),
        eigenvalues=eigenvalues,
        fractions=fractions,
        R=share * r,
        Q=share * q,
        T=T,
        readout=np.array(start.readout_of(problem), dtype=float),
        bias=np.array(bias, dtype=float),
    )
