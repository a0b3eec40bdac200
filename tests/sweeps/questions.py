"""Small sweeps that several tests share, and a user's own measures."""

import jax.numpy as jnp
import numpy as np

import tutelage as tu
from tests.problems import pair
from tutelage.sweeps.spec import build_spec

PROBLEM = pair(2, 2, lr=0.5, noise=0.1)
START = tu.Start(R=[[0.3, 0.1], [0.05, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]], dim=200)
OPTIONS = {
    "over": {"lr": [0.4, 1.2], "noise": [0.0, 0.1, 0.3]},
    "points": None,
    "measure": ["final_error"],
    "times": [0.0, 10.0, 20.0],
    "start": None,
    "starts": None,
    "runs": 3,
    "seed": 0,
    "gradient_flow": False,
    "rtol": 1e-8,
    "solver": "auto",
    "points_per_chunk": None,
}


def spec_of(problem=PROBLEM, **changes):
    """A spec that differs from the usual one."""
    return build_spec(problem, **OPTIONS | changes)


def ratio(trajectory, problem):
    """A user's own: how much of the first error is left, in units of the rate."""
    return float(trajectory.error[-1] / trajectory.error[0] / problem.optimizer.lr)


def moody(problem):
    """Fails at some points."""
    if float(problem.noise) > 0.2:
        raise ZeroDivisionError("too noisy for me")
    return {"twice": 2 * float(problem.noise), "lr": float(problem.optimizer.lr)}


def three(problem, start, runs):
    """Reads the finite networks."""
    return np.asarray(runs.error)[:, -1].max()


def status(problem):
    """Its name is that of a variable which every sweep has."""
    return 0.0


def cauchy(u):
    """A quantile function of noise without a variance."""
    return jnp.tan(jnp.pi * (u - 0.5))
