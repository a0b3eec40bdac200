"""A loss, labels, a rule, an activation and noise as a user would keep them in a module."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

import tutelage as tu

NUMBER = 3.0


def log_cosh(output, label):
    return jnp.log(jnp.cosh(label - output))


def product(rho, xi):
    return jnp.sign(rho[0] * rho[-1])


def sometimes_wrong(rho, xi):
    return jnp.where(xi < 0.1, -1.0, 1.0) * jnp.sign(rho[0])


def swish(x):
    return x / (1 + jnp.exp(-x))


def heavy_tails(u):
    return np.asarray(stats.t(3).ppf(u)) * 0.1


class Cubic(tu.losses.Loss):
    """|label - output|^3 times a scale."""

    scale: float = 1.0

    def __call__(self, output, label):
        return self.scale * jnp.abs(label - output) ** 3


class Clipped(tu.Rule):
    """The error of each unit, cut at a limit."""

    limit: float = 1.0

    def update(self, sample, parameters, context):
        return self.result(
            jnp.clip(sample.label - sample.student, -self.limit, self.limit), parameters
        )


class Forgetful(tu.Rule):
    """Keeps nothing of what it was given."""

    def __init__(self, limit=1.0):
        pass

    def update(self, sample, parameters, context):
        return self.result(sample.label - sample.student, parameters)


class Holder:
    """A function that lives in a class."""

    @staticmethod
    def loss(output, label):
        return (label - output) ** 4
