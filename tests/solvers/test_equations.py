"""A user's own closed system through the same solver."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problems import generic_overlaps, linear_regression, pair
from tutelage.solvers import ClosedSystem

TIMES = np.linspace(0, 10, 21)


def test_linear_regression_equals_the_built_in():
    own = tu.solve(
        linear_regression(noise_variance=0.1, lr=0.5, ridge=0.01),
        {"m": 0.0, "q": 0.1},
        TIMES,
    )
    problem = pair(1, 1, "linear", lr=0.5, noise=np.sqrt(0.1), weight_decay=0.01)
    built_in = tu.solve(problem, tu.Start([[0.0]], [[0.1]]), TIMES)
    np.testing.assert_allclose(own["m"], built_in.R[:, 0, 0], atol=1e-8)
    np.testing.assert_allclose(own["q"], built_in.Q[:, 0, 0], atol=1e-8)
    np.testing.assert_allclose(own.error, built_in.error, atol=1e-8)


def relu_system(T, lr, sigma):
    """Two ReLU students and one teacher by hand, from arc-cosine kernels; fields (l1, l2, r)."""

    def kernel(a, b, c):
        angle = jnp.arccos(jnp.clip(c / jnp.sqrt(a * b), -1, 1))
        return (
            jnp.sqrt(a * b)
            * (jnp.sin(angle) + (jnp.pi - angle) * jnp.cos(angle))
            / (2 * jnp.pi)
        )

    def step_step(a, b, c):
        return (jnp.pi - jnp.arccos(jnp.clip(c / jnp.sqrt(a * b), -1, 1))) / (
            2 * jnp.pi
        )

    def corner(a, b, c):
        return jnp.sqrt(jnp.maximum(a * b - c**2, 0)) / (2 * jnp.pi * a)

    def step_relu_relu(C, a, b, c):
        """E[theta_a z_b+ z_c+]."""
        s = jnp.sqrt(jnp.diagonal(C))
        r = lambda i, j: jnp.clip(C[i, j] / (s[i] * s[j]), -1, 1)  # noqa: E731
        root = lambda x: jnp.sqrt(jnp.maximum(1 - x**2, 0))  # noqa: E731
        orthant = 1 / 8 + (
            jnp.arcsin(r(a, b)) + jnp.arcsin(r(a, c)) + jnp.arcsin(r(b, c))
        ) / (4 * jnp.pi)
        return s[b] * s[c] * (
            r(b, c) * orthant + (root(r(b, c)) + r(a, b) * root(r(a, c)) + r(a, c) * root(r(a, b))) / (4 * jnp.pi)
        )  # fmt: skip

    def step_step_square(C):
        """E[theta_1 theta_2 (z_3+)^2]."""
        s = jnp.sqrt(jnp.diagonal(C))
        x = C[0, 1] / (s[0] * s[1])
        y = C[0, 2] / (s[0] * s[2])
        z = C[1, 2] / (s[1] * s[2])
        orthant = 1 / 8 + (jnp.arcsin(x) + jnp.arcsin(y) + jnp.arcsin(z)) / (4 * jnp.pi)
        cross = (2 * y * z - x * (y**2 + z**2)) / jnp.sqrt(1 - x**2)
        return s[2] ** 2 * (
            orthant
            + (y * jnp.sqrt(1 - y**2) + z * jnp.sqrt(1 - z**2) + cross) / (4 * jnp.pi)
        )

    def joint(Q, M):
        return jnp.block([[Q, M[:, None]], [M[None], jnp.full((1, 1), T)]])

    def drift(t, state):
        Q, M = state
        C = joint(Q, M)
        w = (-1.0, -1.0, 1.0)
        pull = [[0.0] * 3 for _ in range(2)]
        for i in range(2):
            for a in range(3):
                for c in range(3):
                    bend = 0.0 if c == i else corner(C[i, i], C[c, c], C[i, c])
                    slope = 0.5 if c == i else step_step(C[i, i], C[c, c], C[i, c])
                    pull[i][a] = pull[i][a] + w[c] * (C[i, a] * bend + C[a, c] * slope)
        fourth = [[0.0] * 2 for _ in range(2)]
        for i in range(2):
            for j in range(2):
                noise = 0.5 if i == j else step_step(C[0, 0], C[1, 1], C[0, 1])
                fourth[i][j] = sigma**2 * noise
                for c in range(3):
                    for d in range(3):
                        if i != j and c == d == 2:
                            value = step_step_square(C)
                        else:
                            value = step_relu_relu(C, j if i in (c, d) else i, c, d)
                        fourth[i][j] = fourth[i][j] + w[c] * w[d] * value
        dM = lr * jnp.array([pull[0][2], pull[1][2]])
        dQ = jnp.array(
            [[lr * (pull[i][k] + pull[k][i]) + lr**2 * fourth[i][k] for k in range(2)] for i in range(2)]
        )  # fmt: skip
        return dQ, dM

    def error(state):
        Q, M = state
        C = joint(Q, M)
        w = (-1.0, -1.0, 1.0)
        pair = lambda a, b: C[a, a] / 2 if a == b else kernel(C[a, a], C[b, b], C[a, b])  # noqa: E731
        return sum(w[a] * w[b] * pair(a, b) for a in range(3) for b in range(3)) / 2

    return tu.Equations(("Q", "M"), drift, error)


# formulas of ReLU are compared in test_solve_naive.py, equations by hand above
@pytest.mark.full
def test_a_relu_network_written_by_hand_equals_the_built_in():
    R, Q, T = generic_overlaps(2, 1, seed=3)
    own = tu.solve(
        relu_system(T[0, 0], 0.5, 0.1), {"Q": Q, "M": R[:, 0]}, TIMES, rtol=1e-10
    )
    built_in = tu.solve(
        pair(2, 1, "relu", noise=0.1), tu.Start(R, Q, T), TIMES, rtol=1e-10
    )
    np.testing.assert_allclose(own["Q"], built_in.Q, atol=1e-8)
    np.testing.assert_allclose(own["M"], built_in.R[..., 0], atol=1e-8)
    np.testing.assert_allclose(own.error, built_in.error, atol=1e-8)


def test_state_is_given_by_name_or_in_order_and_time_enters():
    system = tu.Equations(
        ("x", "y"),
        lambda t, s: {"x": s.y, "y": -s.x + 0 * t},
        lambda s: s.x**2 + s.y**2,
    )
    by_name = tu.solve(system, {"y": 0.0, "x": 1.0}, [0, np.pi])
    in_order = tu.solve(system, (1.0, 0.0), [0, np.pi])
    assert by_name["x"][-1] == pytest.approx(-1.0, abs=1e-7)
    np.testing.assert_array_equal(by_name["x"], in_order["x"])
    assert by_name.kind == "equations"


BAD = {
    "names is 'm'": lambda: tu.Equations("m", lambda t, s: s, lambda s: 0.0),
    "they must differ": lambda: tu.Equations(("m", "m"), lambda t, s: s, lambda s: 0.0),
    "drift is 3": lambda: tu.Equations(("m",), 3, lambda s: 0.0),
    "the equations need": lambda: tu.solve(linear_regression(), {"m": 0.0}),
    "no default initial condition": lambda: tu.solve(linear_regression()),
    "fail on their initial values": lambda: tu.solve(
        tu.Equations(("m",), lambda t, s: (s.k,), lambda s: s.m), [0.0]
    ),
    "has shape": lambda: tu.solve(
        tu.Equations(("m",), lambda t, s: (jnp.ones(2),), lambda s: s.m), [0.0]
    ),
    "one number": lambda: tu.solve(
        tu.Equations(("m",), lambda t, s: s, lambda s: s.m * jnp.ones(2)), [0.0]
    ),
    "custom equations have none": lambda: tu.solve(
        linear_regression(),
        {"m": 0.0, "q": 1.0},
        quadrature=tu.Quadrature(nodes=32),
    ),
    "derivatives": lambda: tu.solve(
        tu.Equations(("m",), lambda t, s: (s.m, s.m), lambda s: s.m), [0.0]
    ),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_equations(sentence):
    with pytest.raises(tu.InputError, match=sentence):
        BAD[sentence]()


class Oscillator(ClosedSystem):
    """A third kind of closed system:

    x' = p, p' = -omega^2 x, kicked by a constant force from t = 1 on.
    """

    omega: float
    kick: float = 0.0

    def drift(self, t, state):
        return {
            "p": -(self.omega**2) * state["x"] + jnp.where(t >= 1.0, self.kick, 0.0),
            "x": state["p"],
        }

    def observe(self, state):
        return {
            "x": state["x"],
            "energy": jnp.sum(state["p"] ** 2 + (self.omega * state["x"]) ** 2) / 2,
        }

    def error(self, observed):
        return observed["energy"]

    def switches(self, end):
        return jnp.array([1.0])


START = {"x": [1.0, 0.5], "p": [0.0, 0.0]}


@pytest.mark.full  # test_extending.py solves one as its page says
def test_a_closed_system_of_any_kind_is_solved():
    """Against the cosine; and its parameters can be differentiated."""
    theory = tu.solve(Oscillator(2.0), START, TIMES)
    np.testing.assert_allclose(
        theory["x"], np.cos(2 * TIMES)[:, None] * [1.0, 0.5], atol=1e-7
    )
    np.testing.assert_allclose(theory.error, 2.5, atol=1e-6)
    assert (theory.kind, theory.problem, theory.finished) == ("equations", None, True)
    last = lambda omega: tu.solve(Oscillator(omega), START, [0.0, 1.0])["x"][-1, 0]  # noqa: E731
    np.testing.assert_allclose(jax.grad(last)(2.0), -np.sin(2.0), atol=1e-6)


def test_a_closed_system_may_switch():
    after = TIMES[TIMES >= 1] - 1
    kicked = tu.solve(Oscillator(2.0, kick=3.0), START, TIMES)["x"][TIMES >= 1, 0]
    np.testing.assert_allclose(
        kicked, np.cos(2 * (after + 1)) + 0.75 * (1 - np.cos(2 * after)), atol=1e-6
    )


def test_a_closed_system_is_stored(tmp_path):
    theory = tu.solve(Oscillator(2.0), START, TIMES)
    theory.save(tmp_path / "x.nc")
    np.testing.assert_array_equal(tu.load(tmp_path / "x.nc")["x"], theory["x"])


class Wrong(Oscillator):
    what: str = eqx.field(static=True, default="")

    def drift(self, t, state):
        right = super().drift(t, state)
        return {"structure": right["x"], "shape": right | {"x": right["x"][0]}}.get(
            self.what, right
        )

    def observe(self, state):
        return state["x"] if self.what == "observe" else super().observe(state)

    def error(self, observed):
        return observed[{"fails": "y", "vector": "x"}.get(self.what, "energy")]


@pytest.mark.parametrize(
    ("what", "start", "words"),
    [
        ("structure", START, "another structure than the state"),
        ("shape", START, "the drift of x has shape"),
        ("observe", START, "must return a dictionary"),
        ("fails", START, "fail on their initial values"),
        ("vector", START, "must be one number"),
        ("vector", None, "Wrong has no default initial condition"),
        ("vector", {"x": "a", "p": 0.0}, "must be a number"),
        ("vector", {"x": np.nan, "p": 0.0}, "finite"),
    ],
)
def test_a_wrong_closed_system_gets_one_message(what, start, words):
    with pytest.raises(tu.InputError, match=words):
        tu.solve(Wrong(2.0, what=what), start, 1.0)


def sampled_relu(points, lr=0.5, declared=True):
    """One ReLU unit that learns from another: all averages over a fixed set of samples."""
    from scipy.stats import norm, qmc

    normals = norm.ppf(qmc.Sobol(2, seed=0).random(points))
    e_teacher, e_student = jnp.asarray(normals).T

    def drift(t, s):
        rho = e_teacher
        own = jnp.sqrt(jnp.maximum(s.q - s.r**2, 1e-12))
        lam = s.r * rho + own * e_student
        error = jax.nn.relu(rho) - jax.nn.relu(lam)
        delta = jnp.where(lam > 0, error, 0.0)
        dr = lr * jnp.mean(delta * rho)
        dq = 2 * lr * jnp.mean(delta * lam) + lr**2 * jnp.mean(delta**2)
        return dr, dq

    def error(s):
        return (1.0 - s.r) ** 2 / 4

    counted = points if declared else None
    return tu.Equations(("r", "q"), drift, error, points=counted)


def test_a_sampled_drift_is_not_resolved_below_its_stairs():
    """The steps of a drift that averages a jump collapse at the usual tolerance."""
    points = 2**12
    start = {"r": 0.3, "q": 0.5}
    aware = tu.solve(sampled_relu(points), start, [0.0, 10.0])
    unaware = tu.solve(sampled_relu(points, declared=False), start, [0.0, 10.0])
    assert aware.steps < unaware.steps / 3
    problem = pair(1, 1, "relu", lr=0.5)
    built_in = tu.solve(problem, tu.Start([[0.3]], [[0.5]]), [0.0, 10.0])
    for name, values in (("r", built_in.R), ("q", built_in.Q)):
        assert aware[name][-1] == pytest.approx(values[-1, 0, 0], rel=0.01)
    assert aware["r"][-1] == pytest.approx(unaware["r"][-1], rel=2e-3)


def test_the_number_of_points_is_checked():
    with pytest.raises(tu.InputError, match="points is -1"):
        tu.Equations(("x",), lambda t, s: (-s.x,), lambda s: s.x, points=-1)
