"""Small problems that several tests share, so that each shape is compiled once."""

import numpy as np

import tutelage as tu


def pair(
    K,
    M,
    activation="erf",
    *,
    lr=0.5,
    teacher=None,
    noise=0.0,
    inputs=None,
    student=None,
    **optimizer,
):
    """A problem with K students and M teachers."""
    return tu.Problem(
        tu.Network(K, activation, **(student or {})),
        tu.Network(M, activation, **(teacher or {})),
        inputs=inputs,
        optimizer=tu.SGD(lr, **optimizer),
        noise=noise,
    )


def linear_regression(noise_variance=0.1, lr=0.5, ridge=0.01):
    """Custom equations: one linear unit with weight decay, m = R and q = Q."""

    def error(state):
        m, q = state
        return (1.0 - 2 * m + q) / 2

    def drift(t, state):
        m, q = state
        noise = lr**2 * (2 * error(state) + noise_variance)
        return lr * (1.0 - (1 + ridge) * m), 2 * lr * (m - (1 + ridge) * q) + noise

    return tu.Equations(("m", "q"), drift, error)


def generic_overlaps(K, M, seed=0, size=1.0):
    """Overlaps R, Q, T of K + M generic vectors."""
    vectors = np.random.default_rng(seed).standard_normal((K + M, 3 * (K + M)))
    gram = vectors @ vectors.T / vectors.shape[1]
    gram[:K] *= size
    gram[:, :K] *= size
    return gram[:K, K:], gram[:K, :K], gram[K:, K:]


def symmetric_overlaps(K, R, S, Q, C):
    """R on the diagonal, S off it; Q on the diagonal, C off it."""
    off = 1 - np.eye(K)
    return R * np.eye(K) + S * off, Q * np.eye(K) + C * off


def sample_increments(system, t, state, key, count):
    """The shares of `count` samples in a step, each level drawn by itself."""
    import jax
    import jax.numpy as jnp

    from tutelage.problem.sample import normals_needed
    from tutelage.stream.linearized import Increments, flat_shares, updates
    from tutelage.stream.moments.matrices import joint_covariance

    weights = jnp.asarray(system.problem.inputs.weights)[:, None, None]
    values, vectors = jnp.linalg.eigh(
        weights * jax.vmap(joint_covariance)(state.r, state.q, system.t)
    )
    roots = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
    key, other = jax.random.split(key)
    parts = jnp.einsum(
        "lab,clb->cla", roots, jax.random.normal(key, (count, *roots.shape[:2]))
    )
    draws = jax.random.normal(other, (count, normals_needed(system.problem)))
    (deltas, readouts, biases), rates = updates(
        system, t, state, parts.sum(axis=1), draws
    )
    moved = deltas[:, None, :, None] * parts[:, :, None, :]
    pairs = deltas[:, None, :, None] * deltas[:, None, None, :]
    increments = Increments(moved, pairs, readouts, biases)
    return flat_shares(system, rates, state, increments, jnp.ones((1, 1)))


def jacobian(system, t, state):
    """The derivative of the drift with respect to the flat coordinates, by JAX."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from tutelage.stream.order_parameters import flatten, unflatten

    def drift(x, system):
        return flatten(system.drift(jnp.asarray(t, float), unflatten(x, state)))

    return eqx.filter_jit(jax.jacfwd(drift))(flatten(state), system)


def compilations():
    """A list that grows with every program that XLA compiles in this process from now on."""
    import jax

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: (
            compiled.append(event)
            if event.endswith("backend_compile_duration")
            else None
        )
    )
    return compiled
