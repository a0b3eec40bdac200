"""A described problem in the package's words:

the only file of this suite that touches the theory and the simulation.
"""

import warnings
from unittest.mock import patch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tutelage as tu
from tutelage.stream import OrderParameters, Overlaps, Velocity


def relu(x):
    """Not the function of that name."""
    return jnp.where(x > 0, x, 0.3 * x)


FUNCTIONS = {  # those that the package does not know by name, written with JAX
    "sine": lambda x: jnp.sin(x) + 0.1 * x,
    "cosine": lambda x: jnp.cos(1.3 * x),
    "bump": lambda x: x * jnp.exp(-(x**2) / 2),
    "arctan": lambda x: jnp.arctan(2 * x),
    "swish": jax.nn.silu,
    "log_square": lambda x: jnp.log1p(x**2),
    "leaky": lambda x: jax.nn.leaky_relu(x, 0.2),
    "absolute": jnp.abs,
    "clipped": lambda x: jnp.clip(x, -1.0, 1.0),
    "shifted_relu": lambda x: jax.nn.relu(x - 0.7),
    "dead_zone": lambda x: jnp.sign(x) * jax.nn.relu(jnp.abs(x) - 0.5),
    "exponential_unit": jax.nn.elu,
    "softsign": jax.nn.soft_sign,
    "signed_square": lambda x: x * jnp.abs(x) / 2,
    "two_kinks": lambda x: jax.nn.relu(x + 1.1) - 1.7 * jax.nn.relu(x - 0.4),
    "step": lambda x: jnp.where(x > 0.3, 1.0, 0.0),
    "levels": lambda x: jnp.clip(jnp.round(x), -2.0, 2.0),
    "jump_and_slope": lambda x: x + jnp.sign(x),
    "window": lambda x: jnp.where(jnp.abs(x) < 0.8, 1.0, 0.0),
    "jump_and_kink": lambda x: jax.nn.relu(x) + 0.8 * jnp.heaviside(x + 0.5, 0.5),
    "fast_sine": lambda x: jnp.sin(5 * x),
    "cubic": lambda x: x**3 - 3 * x,
    "far_kink": lambda x: jnp.maximum(x, -9.0) / 3,
    "erf_of_x": jax.scipy.special.erf,
    "leaky_called_relu": relu,
    "fine_levels": lambda x: jnp.round(5 * x) / 5,
    "cube_and_sign": lambda x: x**3 + jnp.sign(x),
    "small_jump": lambda x: x + 0.1 * jnp.sign(x),
}


def rate(described):
    if described is None or isinstance(described, float):
        return described
    kind, *a = described
    schedules = {
        "power": tu.schedules.PowerDecay,
        "steps": tu.schedules.Piecewise,
        "lines": tu.schedules.Interpolated,
        "cosine": tu.schedules.Cosine,
    }
    return (
        schedules[kind](*a)
        if kind in schedules
        else lambda t: a[0] * (1 + 0.5 * jnp.sin(a[1] * t))
    )


def inputs(case):
    kind, *rest = case.spectrum
    if kind == "isotropic":
        return tu.Isotropic()
    return (
        tu.PowerLaw(*rest)
        if kind == "power law"
        else tu.Spectrum(rest[0], rest[1], normalize=rest[2])
    )


def problem(case):
    """The `Problem` of a case."""
    momentum = (
        case.momentum
        if case.slow is None
        else tu.SlowMomentum(case.slow[0], rate(case.slow[1]))
    )
    student, teacher = (
        FUNCTIONS.get(name, name) for name in (case.student, case.teacher)
    )
    return tu.Problem(
        tu.Network(
            case.K,
            student,
            readout=case.v,
            train_readout=case.train_readout,
            bias=case.b,
            train_bias=case.train_bias,
        ),
        tu.Network(case.M, teacher, readout=case.v_teacher, bias=case.b_teacher),
        inputs=inputs(case),
        optimizer=tu.SGD(
            rate(case.lr),
            batch=case.batch,
            weight_decay=case.decay,
            readout_lr=rate(case.readout_lr),
            bias_lr=rate(case.bias_lr),
            momentum=momentum,
            trainable=trainable(case),
            spherical=case.spherical,
        ),
        noise=case.noise,
    )


def trainable(case):
    """The mask; a list of levels where all units agree."""
    if case.mask is None or np.any(case.mask != case.mask[0]):
        return case.mask
    return np.flatnonzero(case.mask[0])


def start(case):
    """Overlaps per level; those of one level are covariances of fields."""
    parts = case.overlaps()
    return (
        tu.Start(*(x[0] for x in parts)) if len(case.vectors) == 1 else tu.Start(*parts)
    )


@eqx.filter_jit
def _drift(system, t, state):
    return system.drift(t, state), system.error(system.observe(state))


def drift(case, gradient_flow=False):
    """The theory's d/dalpha of everything at the case's state and time, and its e_g."""
    r, q, t = (jnp.asarray(x) for x in case.overlaps())
    p = problem(case)
    bias = (
        jnp.zeros(case.K)
        if case.b is None and p.biased
        else None
        if case.b is None
        else jnp.asarray(case.b)
    )
    velocity = None
    if case.slow is not None:
        pairs = list(zip(case.vectors, case.velocities, strict=True))
        parts = [(o @ x[case.K :].T, x[: case.K] @ o.T, o @ o.T) for x, o in pairs]
        velocity = Velocity(
            *(jnp.asarray(np.stack(part)) for part in zip(*parts, strict=True))
        )
    state = Overlaps(r, q, jnp.asarray(case.v), bias, velocity)
    d, error = _drift(
        OrderParameters(p, t, gradient_flow), jnp.asarray(case.time), state
    )
    out = {"r": d.r, "q": d.q, "error": error}
    out |= {"v": d.readout} if case.train_readout else {}
    out |= {"b": d.bias} if case.train_bias else {}
    if case.slow is not None:
        out |= {"U": d.velocity.teacher, "V": d.velocity.student, "W2": d.velocity.own}
    return {name: np.asarray(x) for name, x in out.items()}


def _named(trajectory, case):
    names = {"R": "R", "Q": "Q", "r": "r", "q": "q"}
    names |= ({"v": "readout"} if case.train_readout else {}) | (
        {"b": "bias"} if case.train_bias else {}
    )
    return {short: np.asarray(trajectory[name]) for short, name in names.items()}


def solved(case, times, **options):
    """The theory's curves:

    {name: (times, ...)}, to a thousandth; units may start alike here.
    """
    accuracy = {
        "rtol": 1e-4,
        "atol": 1e-5,
        "quadrature": tu.Quadrature(nodes=48, points=2**13),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
        warnings.simplefilter(
            "ignore", tu.errors.ValidityWarning
        )  # a rule coarser than the default: what is asked for here
        return _named(
            tu.solve(
                problem(case), start(case), times, keep="blocks", **accuracy, **options
            ),
            case,
        )


def simulated(case, N, times, runs, seed):
    """The package's own networks by the method of overlaps: {name: (run, times, ...)}.

    Their errors are left out: each is a quadrature that takes longer than the run, and `drift` judges it.
    """
    errors = "tutelage.simulation.recorded_error.errors_at_records"
    with patch(errors, lambda problem, R, *rest: np.zeros((2, *R.shape[:-2]))):
        done = tu.simulate(
            problem(case),
            start(case),
            dim=N,
            times=times,
            runs=runs,
            seed=seed,
            keep="blocks",
        )
    assert done.finished
    return _named(done, case)
