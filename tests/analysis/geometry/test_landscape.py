"""The landscape at a point:

derivatives against an independent error, whole spectra, published numbers, what is
refused.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problem.messages import require_refusal
from tests.problems import pair
from tests.stream.moments import reference as ref
from tutelage.stream.order_parameters import averages_of

N = 8
LEVELS = tu.Spectrum([2.0, 0.5], [0.25, 0.75])
V = np.array([1.0, 0.7])


def vectors(count, seed, n=N):
    return np.random.default_rng(seed).standard_normal((count, n))


def orthonormal(count, n, seed=0):
    """Rows of squared length n."""
    return np.linalg.qr(vectors(n, seed, n))[0][:count] * np.sqrt(n)


def error_by_hand(activation, W, W_teacher, v, lam, mean=None):
    """e_g from the definition, pair by pair, with rules that have nothing in common with the library's."""
    fields = np.concatenate([W, W_teacher])
    C = fields * lam @ fields.T / fields.shape[1]
    options = {} if activation in ("relu", "leaky") else {"nodes": 129, "reach": 8}
    outputs = ref.outputs(
        ref.units(activation, activation, len(W), len(W_teacher)), C, mean, **options
    )
    w = np.concatenate([-v, np.ones(len(W_teacher))])
    return w @ outputs @ w / 2


def derivatives_by_hand(error, W, direction, step=0.01, n=N):
    """First and second derivative along a direction of W / sqrt(N):

    five-point stencils.
    """
    f = [error(W + np.sqrt(n) * x * step * direction) for x in (-2, -1, 0, 1, 2)]
    first = (f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * step)
    return first, (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * step**2)


@pytest.mark.parametrize("activation", ["erf", "tanh", "quadratic", "relu"])
@pytest.mark.parametrize(
    "inputs", [tu.Isotropic(), LEVELS], ids=["isotropic", "two levels"]
)
def test_gradient_and_hessian_are_the_derivatives_of_the_error(activation, inputs):
    W = 0.8 * vectors(2, 1)
    W_teacher = vectors(2, 2)
    problem = pair(2, 2, activation, inputs=inputs, student={"readout": V})
    lam = np.repeat(inputs.eigenvalues, inputs.level_dims(N))
    found = tu.analysis.landscape(problem, W, W_teacher)
    by_hand = lambda W: error_by_hand(activation, W, W_teacher, V, lam)  # noqa: E731
    assert found.error == pytest.approx(by_hand(W), rel=1e-8)
    for direction in vectors(2 * N, 3).reshape(-1, 2, N)[:3] / 4:
        first, second = derivatives_by_hand(by_hand, W, direction)
        assert np.sum(found.gradient * direction) == pytest.approx(first, abs=3e-7)
        assert direction.ravel() @ found.hessian() @ direction.ravel() == pytest.approx(
            second, abs=3e-6
        )


def test_hessian_with_biases_and_another_readout():
    mean = np.array([0.3, -0.4, 0.2, 0.1])
    readout = np.array([0.5, 1.1])
    problem = pair(
        2,
        2,
        "tanh",
        student={"bias": mean[:2], "readout": readout},
        teacher={"bias": mean[2:]},
    )
    W = 0.8 * vectors(2, 1)
    W_teacher = vectors(2, 2)
    found = tu.analysis.landscape(problem, W, W_teacher)
    by_hand = lambda W: error_by_hand("tanh", W, W_teacher, readout, np.ones(N), mean)  # noqa: E731
    direction = vectors(2, 5) / 4
    first, second = derivatives_by_hand(by_hand, W, direction)
    assert np.sum(found.gradient * direction) == pytest.approx(first, abs=1e-8)
    assert direction.ravel() @ found.hessian() @ direction.ravel() == pytest.approx(
        second, abs=1e-7
    )


def test_hessian_equals_automatic_differentiation_of_the_error():
    problem = pair(2, 2)
    T = vectors(2, 2) / np.sqrt(N)
    averages = averages_of(problem)
    w = np.array([-1.0, -1.0, 1.0, 1.0])

    def error(J):
        fields = jnp.concatenate([J, T])
        return w @ averages.outputs(fields @ fields.T, None) @ w / 2

    J = jnp.asarray(vectors(2, 1) / np.sqrt(N))
    found = tu.analysis.landscape(problem, J * np.sqrt(N), T * np.sqrt(N))
    np.testing.assert_allclose(found.gradient, jax.jit(jax.grad(error))(J), atol=1e-14)
    np.testing.assert_allclose(
        found.hessian(),
        jax.jit(jax.hessian(error))(J).reshape(2 * N, 2 * N),
        atol=1e-13,
    )


def test_a_finer_quadrature_is_used():
    W = 3 * vectors(2, 1)
    W_teacher = vectors(2, 2)
    usual, fine = (
        tu.analysis.landscape(pair(2, 2, "tanh"), W, W_teacher, quadrature=q)
        for q in (None, tu.Quadrature(129))
    )
    assert 0 < abs(fine.error - usual.error) < 1e-4
    np.testing.assert_allclose(fine.gradient, usual.gradient, atol=1e-3)


@pytest.mark.parametrize(
    "inputs", [tu.Isotropic(), LEVELS], ids=["isotropic", "two levels"]
)
def test_the_spectrum_holds_every_eigenvalue_of_the_whole_matrix(inputs):
    n = 16  # outside the span of four vectors in both levels
    found = tu.analysis.landscape(
        pair(2, 2, inputs=inputs, student={"readout": V}),
        vectors(2, 1, n),
        vectors(2, 2, n),
    )
    np.testing.assert_allclose(
        found.eigenvalues(), np.linalg.eigvalsh(found.hessian()), atol=1e-12
    )
    assert found.parameters == found.eigenvalues().size == 2 * n
    assert found.index == np.sum(np.linalg.eigvalsh(found.hessian()) < 0)
    for curvature in found.spectrum:
        rows = found.directions(curvature).reshape(-1, 2 * n)
        np.testing.assert_allclose(
            rows @ found.hessian(), curvature.value * rows, atol=1e-12
        )
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)


def test_curvatures_do_not_depend_on_the_dimension():
    W = vectors(2, 1)
    W_teacher = vectors(2, 2)
    wide = [np.sqrt(50) * np.pad(x, ((0, 0), (0, 49 * N))) for x in (W, W_teacher)]
    small = tu.analysis.landscape(pair(2, 2), W, W_teacher)
    large = tu.analysis.landscape(pair(2, 2), *wide)
    assert large.dim == 50 * N
    np.testing.assert_allclose(
        [c.value for c in small.spectrum], [c.value for c in large.spectrum], atol=1e-14
    )
    more = [
        b.multiplicity - a.multiplicity
        for a, b in zip(small.spectrum, large.spectrum, strict=True)
    ]
    assert sorted(more)[-2:] == [49 * N, 49 * N]
    assert sum(more) == 2 * 49 * N
    with pytest.raises(tu.InputError, match=r"use \.spectrum"):
        tu.analysis.landscape(
            pair(2, 2), *[np.pad(x, ((0, 0), (0, 4000))) for x in wide]
        ).hessian()


def test_perfect_learning_of_a_soft_committee_machine():
    """Published decay rates in the span (Saad & Solla), and (2/pi)(1/sqrt 3 +- 1/2) outside it."""
    T = orthonormal(2, N)
    found = tu.analysis.landscape(pair(2, 2), T, T)
    inside = np.linalg.eigvalsh(
        2 / np.pi * np.array([[1 / (3 * np.sqrt(3)), 1 / 4], [1 / 4, 1 / np.sqrt(3)]])
    )
    outside = 2 / np.pi * (1 / np.sqrt(3) + np.array([-0.5, 0.5]))
    assert found.kind == "minimum"
    assert [c.multiplicity for c in found.spectrum] == [2, N - 2, 2, N - 2]
    np.testing.assert_allclose(
        [c.value for c in found.spectrum], np.sort([*inside, *outside]), atol=1e-12
    )
    assert [c.family for c in found.spectrum if c.family.startswith("outside")] == [
        "outside the span, units apart",
        "outside the span, units equal",
    ]
    turned = tu.analysis.landscape(
        pair(2, 2, "tanh"), T, T
    )  # by quadrature, where students coincide with teachers
    assert turned.kind == "minimum"
    assert np.linalg.eigvalsh(turned.hessian())[0] > 0.01


def test_symmetric_plateau_of_a_soft_committee_machine():
    """Q = 1/(2K-1), R = 1/sqrt(K(2K-1)); one way down, at the published rate."""
    T = orthonormal(2, N)
    W = np.tile(T.sum(axis=0) / np.sqrt(6), (2, 1))
    found = tu.analysis.landscape(pair(2, 2), W, T)
    lowest = found.spectrum[0]
    assert found.kind == "saddle"
    assert found.index == 1
    assert lowest.value == pytest.approx(-4 / (np.pi * np.sqrt(3) * 5**1.5), rel=1e-12)
    assert lowest.family == "in the teachers' span, units apart"
    assert "1 lead down" in str(found)
    moved = tu.analysis.landscape(pair(2, 2), 1.01 * W, T)
    assert moved.kind == "not a critical point"
    with pytest.raises(tu.InputError) as refusal:
        _ = moved.merely_flat
    require_refusal(refusal.value, "gradient")


def test_relu_where_vectors_coincide():
    """At the solution the Hessian is E[g'_k g'_j x x^T], known in closed form (Safran & Shamir 2018)."""
    T = vectors(2, 4)
    found = tu.analysis.landscape(pair(2, 2, "relu"), T, T)
    w, v = (t / np.linalg.norm(t) for t in T)
    angle = np.arccos(w @ v)
    beside_w, beside_v = (
        (a - (a @ b) * b) / np.sin(angle) for a, b in ((v, w), (w, v))
    )
    cross = (
        (np.pi - angle) * np.eye(N) + np.outer(beside_w, w) + np.outer(beside_v, v)
    ) / (2 * np.pi)
    np.testing.assert_allclose(
        found.hessian(),
        np.block([[np.eye(N) / 2, cross], [cross.T, np.eye(N) / 2]]),
        atol=1e-10,
    )


def test_directions_of_equal_error_and_merely_flat_ones():
    """At a solution with a unit to spare:

    constant along the first, a fourth power along the others.
    """
    problem = pair(
        3, 2, "quadratic", student={"readout": 1 / 3}, teacher={"readout": 0.5}
    )
    # W^T W / 3 = T^T T / 2, in two dimensions of the three student units
    T = np.sqrt(N) * np.eye(2, N)
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 2))).Q
    W = np.sqrt(3 / 2) * turned @ T
    found = tu.analysis.landscape(problem, W, T)
    assert (found.flat, found.orbit, found.merely_flat) == (3 + N - 2, 3, N - 2)
    turn = np.array([[0, 0.3, -0.2], [-0.3, 0, 0.5], [0.2, -0.5, 0]])
    rotation = np.linalg.inv(np.eye(3) - turn) @ (np.eye(3) + turn)
    assert tu.analysis.landscape(problem, rotation @ W, T).error < 1e-15
    idle = next(c for c in found.spectrum if c.family.startswith("merely flat"))
    along = found.directions(idle)[0]
    steps = np.array([0.1, 0.2])
    np.testing.assert_allclose(
        np.concatenate([W, T]) @ along.T, 0.0, atol=1e-12
    )  # orthogonal to all vectors
    errors = [
        tu.analysis.landscape(problem, W + np.sqrt(N) * s * along, T).error
        for s in steps
    ]
    assert np.log2(errors[1] / errors[0]) == pytest.approx(4.0, abs=1e-6)


def test_symmetries_of_other_networks():
    T = orthonormal(2, N)
    alone = tu.analysis.landscape(
        pair(2, 2), vectors(2, 1), T
    )  # students turn around the teachers, as inputs may
    assert alone.orbit == 2 * (N - 2) - 3
    linear = tu.analysis.landscape(pair(2, 2, "linear"), T[::-1], T)
    assert linear.flat == linear.orbit == N
    idle = pair(3, 2, student={"readout": [1.0, 1.0, 0.0]})
    silent = tu.analysis.landscape(idle, np.concatenate([T, vectors(1, 9)]), T)
    assert silent.error < 1e-15
    assert silent.flat == N
    assert silent.merely_flat == 0


def test_spectra_measured_on_data():
    """Weights are given in the coordinates of the data; derivatives come back in them, flat where nothing varies."""
    data = vectors(60, 7, 4) @ vectors(4, 8, 5)  # five inputs, one of them redundant
    inputs = tu.from_data(data).inputs
    problem = pair(2, 2, inputs=inputs)
    W = vectors(2, 1, 5)
    T = vectors(2, 2, 5)
    found = tu.analysis.landscape(problem, W, T)

    def by_hand(W):
        return error_by_hand(
            "erf",
            W @ inputs.basis.T,
            T @ inputs.basis.T,
            np.ones(2),
            inputs.eigenvalues,
        )

    assert found.hessian().shape == (10, 10)
    for direction in vectors(6, 3, 5).reshape(3, 2, 5) / 4:
        first, second = derivatives_by_hand(by_hand, W, direction, n=4)
        assert np.sum(found.gradient * direction) == pytest.approx(first, abs=3e-7)
        assert direction.ravel() @ found.hessian() @ direction.ravel() == pytest.approx(
            second, abs=3e-6
        )
    constant = np.linalg.svd(inputs.basis)[2][-1]
    np.testing.assert_allclose(
        found.hessian() @ np.kron(np.eye(2), constant).T, 0.0, atol=1e-12
    )


def swish(x):
    return x / (1 + jnp.exp(-x))


def leaky(x):
    return jnp.where(x > 0, x, 0.1 * x)


@pytest.mark.parametrize(
    "function", [pytest.param(swish, marks=pytest.mark.full), leaky]
)
def test_functions_of_ones_own(function):
    W = 0.8 * vectors(2, 1)
    T = vectors(2, 2)
    problem = tu.Problem(tu.Network(2, function), tu.Network(2, function))
    found = tu.analysis.landscape(problem, W, T)
    by_hand = lambda W: error_by_hand(function.__name__, W, T, np.ones(2), np.ones(N))  # noqa: E731
    direction = vectors(2, 5) / 4
    first, second = derivatives_by_hand(by_hand, W, direction)
    assert np.sum(found.gradient * direction) == pytest.approx(first, abs=3e-7)
    assert direction.ravel() @ found.hessian() @ direction.ravel() == pytest.approx(
        second, abs=3e-6
    )
    with pytest.raises(tu.InputError) as refusal:
        tu.analysis.landscape(problem, T, T)
    require_refusal(refusal.value, "parallel", function.__name__, "Activation")


def test_what_is_refused():
    T = orthonormal(2, N)
    cases = [
        (lambda: tu.analysis.landscape("erf", T, T), ("Problem",)),
        (lambda: tu.analysis.landscape(pair(2, 2), T[:1], T), ("weights", "(2, N)")),
        (
            lambda: tu.analysis.landscape(pair(2, 2, "relu"), T * [[0.0], [1.0]], T),
            ("student unit 1", "relu"),
        ),
        (
            lambda: tu.analysis.landscape(
                pair(3, 3, inputs=tu.PowerLaw(1.0, 400)),
                vectors(3, 0, 4000),
                vectors(3, 1, 4000),
            ),
            ("levels",),
        ),
    ]
    for call, mentions in cases:
        with pytest.raises(tu.InputError) as refusal:
            call()
        require_refusal(refusal.value, *mentions)


def test_figure_names_the_lowest_families_and_counts_the_rest():
    T = orthonormal(2, N)
    found = tu.analysis.landscape(pair(2, 2), T, T)
    axes = found.plot().axes[0]
    labels = [" ".join(t.get_text().split()) for t in axes.get_yticklabels()]
    assert labels[1].endswith("outside the span, units apart")
    assert f"(×{found.spectrum[1].multiplicity})" in labels[1]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(
        [c.value for c in found.spectrum]
    )
    assert "curvature" in axes.get_xlabel()
    many = tu.analysis.landscape(pair(3, 3), vectors(3, 0), vectors(3, 1))
    axes = many.plot(title="Somewhere").axes[0]
    assert len(axes.patches) == 16
    assert f"and {len(many.spectrum) - 16} that are larger" in axes.get_xlabel()
