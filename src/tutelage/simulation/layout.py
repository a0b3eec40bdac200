"""The plain data that the compiled loops work on: constants, and arrays changed in place.

Tuples of arrays and numbers, because numba compiles those as they are. Labels, losses, rules and activations are codes.
"""

from typing import NamedTuple

import numpy as np

POLYNOMIAL, ERF, RELU, SIGN, TANH, GELU, SIGMOID, SOFTPLUS = range(8)
REAL_LABEL, SIGN_LABEL, LOGISTIC_LABEL = range(3)
SQUARED, ABSOLUTE, HUBER, LOGISTIC, HINGE = range(5)
GRADIENT, HEBBIAN, PERCEPTRON, ADATRON = range(4)
UNKNOWN = -1  # what the compiled loops do not have


class Rule(NamedTuple):
    """The constants of a step. decay: kappa / N. keep: what a momentum keeps. beta: the same for readout and biases.

    student, teacher: codes of activations. label, loss, update: codes, each with the number that it needs (response.py).
    draws: a label is random, so that it takes a standard normal number.
    """

    student: int
    student_coefficients: np.ndarray
    teacher: int
    teacher_coefficients: np.ndarray
    teacher_readout: np.ndarray
    teacher_bias: np.ndarray
    label: int
    label_number: float
    draws: bool
    loss: int
    loss_number: float
    update: int
    update_number: float
    dim: int
    batch: int
    decay: float
    momentum: bool
    keep: float
    beta: float
    train_readout: bool
    train_bias: bool
    spherical: bool


class Heads(NamedTuple):
    """Readout and biases with their momenta, and the sums over the batch that will move them. All (K,)."""

    readout: np.ndarray
    bias: np.ndarray
    readout_momentum: np.ndarray
    bias_momentum: np.ndarray
    readout_force: np.ndarray
    bias_force: np.ndarray


class Blocks(NamedTuple):
    """Levels of the spectrum as the overlaps method sees them (coordinates.py); arrays of length L, mask (L, K)."""

    width: np.ndarray
    dof: np.ndarray
    field: np.ndarray
    step: np.ndarray
    share: np.ndarray
    eigenvalue: np.ndarray
    mask: np.ndarray


class Records(NamedTuple):
    """What to keep: step counts, and the arrays (time, ...) that receive the state then. r, q: empty when not kept."""

    steps: np.ndarray
    R: np.ndarray
    Q: np.ndarray
    r: np.ndarray
    q: np.ndarray
    readout: np.ndarray
    bias: np.ndarray
