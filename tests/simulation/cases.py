"""Problems small enough that every finite-N term matters, one for each part of the step."""

import jax
import jax.numpy as jnp
import numpy as np

import tutelage as tu


def start(K: int, M: int, levels: int | None = None) -> tu.Start:
    """An asymmetric start, the same in all levels or different in each."""
    rng = np.random.default_rng(7)

    def one() -> tuple[np.ndarray, ...]:
        vectors = rng.standard_normal((K + M, 3 * (K + M))) / np.sqrt(3 * (K + M))
        gram = vectors @ vectors.T
        return gram[:K, K:], gram[:K, :K], gram[K:, K:]

    parts = [one() for _ in range(levels or 1)]
    R, Q, T = (np.stack(x) if levels else x[0] for x in zip(*parts, strict=True))
    return tu.Start(R=R, Q=Q, T=T)


def softened(x: jax.Array) -> jax.Array:
    """A function of the user's own."""
    return jnp.sin(x) + 0.1 * x


FOUR = tu.Spectrum([3.0, 1.5, 0.7, 0.2], [0.125, 0.25, 0.25, 0.375])


CASES = {
    "erf with noise": (
        tu.Problem(
            tu.Network(3, "erf"),
            tu.Network(2, "erf", readout=[1.0, 0.6]),
            optimizer=tu.SGD(1.5),
            noise=0.5,
        ),
        start(3, 2),
        16,
    ),
    "quadratic": (
        tu.Problem(
            tu.Network(2, "quadratic", readout=0.5),
            tu.Network(2, "quadratic", readout=0.5),
            optimizer=tu.SGD(0.08),
        ),
        start(2, 2),
        24,
    ),
    "relu, readout trained": (
        tu.Problem(
            tu.Network(2, "relu", train_readout=True),
            tu.Network(2, "relu"),
            optimizer=tu.SGD(0.5),
            noise=0.1,
        ),
        start(2, 2),
        16,
    ),
    "four levels": (  # the first level has 4 dimensions: fewer than its vectors
        tu.Problem(
            tu.Network(2, "erf"),
            tu.Network(2, "erf"),
            inputs=FOUR,
            optimizer=tu.SGD(1.0),
            noise=0.2,
        ),
        start(2, 2, 4),
        32,
    ),
    "batch of two": (
        tu.Problem(
            tu.Network(3, "erf"),
            tu.Network(2, "erf"),
            optimizer=tu.SGD(1.5, batch=2),
            noise=0.3,
        ),
        start(3, 2),
        16,
    ),
    "batch of five": (
        tu.Problem(
            tu.Network(2, "erf"),
            tu.Network(2, "erf"),
            inputs=FOUR,
            optimizer=tu.SGD(2.5, batch=5),
            noise=0.5,
        ),
        start(2, 2, 4),
        40,
    ),
    "decay and schedule": (
        tu.Problem(
            tu.Network(2, "erf"),
            tu.Network(2, "sign"),
            optimizer=tu.SGD(tu.schedules.Cosine(1.5, 3.0, 0.2), weight_decay=0.4),
        ),
        start(2, 2),
        16,
    ),
    "momentum": (
        tu.Problem(
            tu.Network(2, "erf", train_readout=True),
            tu.Network(2, "erf"),
            optimizer=tu.SGD(0.4, momentum=0.7, weight_decay=0.2, batch=2),
            noise=0.3,
        ),
        start(2, 2),
        20,
    ),
    "slow momentum": (
        tu.Problem(
            tu.Network(2, "erf"),
            tu.Network(1, "erf"),
            optimizer=tu.SGD(1.0, momentum=tu.SlowMomentum(3.0), weight_decay=0.1),
            noise=0.2,
        ),
        start(2, 1),
        16,
    ),
    "sphere, frozen parts, biases": (
        tu.Problem(
            tu.Network(2, "tanh", bias=[0.1, -0.2], train_bias=True),
            tu.Network(2, "gelu", bias=0.3),
            inputs=FOUR,
            optimizer=tu.SGD(
                1.0,
                spherical=True,
                trainable=[[True, True, False, True], [True, True, True, True]],
            ),
        ),
        start(2, 2, 4),
        32,
    ),
}
