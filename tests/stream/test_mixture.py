"""Gaussian mixtures:

digits, one step by quadrature, plain NumPy SGD, and what users do with them.
"""

import jax
import numpy as np
import pytest
from scipy.special import erf, expit
from scipy.stats import norm

import tutelage as tu
from tests.problem.messages import require_refusal
from tests.simulation import laws
from tutelage.plot.labels import problem_in_words
from tutelage.problem import mixture as mixtures
from tutelage.simulation import recorded_error

XOR_START = tu.Start(
    R=[[0.2, 0.05], [-0.1, 0.1], [0.05, 0.2], [0.02, -0.15]],
    Q=[
        [0.112, -0.002, 0.004, -0.004],
        [-0.002, 0.093, 0.002, -0.007],
        [0.004, 0.002, 0.107, -0.001],
        [-0.004, -0.007, -0.001, 0.095],
    ],
    readout=[0.5, 0.4, -0.5, -0.4],
)
SPECTRA = [
    tu.Spectrum([2.5, 0.25], [1 / 3, 2 / 3]),
    tu.Spectrum([0.4, 1.3], [1 / 3, 2 / 3]),
]
S = np.array([[1.0, 0.3], [-0.6, 0.5]])
GRAM = np.array([[4.0, 0.5], [0.5, 2.0]])
P = [0.3, 0.7]
# levels that differ: class means of fields are not weighted by eigenvalues
BY_LEVEL = tu.Start(
    R=[[[0.9, 0.3], [-0.4, 0.5]], [[0.1, 0.0], [0.0, 0.1]]],
    Q=[[[0.7, 0.1], [0.1, 0.6]], [[0.4, 0.1], [0.1, 0.3]]],
)
TWO = tu.Start(R=[[0.3, 0.1], [-0.1, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
WITH_TEACHER = tu.Start(
    R=[[0.3, 0.3, 0.1], [0.1, -0.1, 0.2]],
    Q=[[0.5, 0.1], [0.1, 0.4]],
    T=[[1.0, 0.6, -0.4], [0.6, 4.0, 0.5], [-0.4, 0.5, 2.0]],
)


def labeled(**changes):
    """Two classes with spectra and labels of their own."""
    given = {"loss": "logistic", "optimizer": tu.SGD(lr=1.0)} | changes
    inputs = tu.Mixture(S, GRAM, P, SPECTRA, labels=[1, -1])
    return tu.Problem(tu.Network(2, "erf", train_readout=True), inputs=inputs, **given)


def taught(activation="erf"):
    """The same inputs, labeled by a teacher."""
    teacher = tu.Network(1, activation)
    return tu.Problem(
        tu.Network(2, "erf"),
        teacher,
        tu.Mixture(S, GRAM, P, SPECTRA),
        tu.SGD(lr=1.0),
        0.1,
    )


def test_exclusive_or_has_the_known_digits():
    student = tu.Network(4, "quadratic", train_readout=True)
    problem = tu.Problem(student, inputs=tu.Mixture.xor(2.0), optimizer=tu.SGD(lr=0.1))
    theory = tu.solve(problem, XOR_START, [0.0, 5.0, 10.0, 20.0])
    np.testing.assert_allclose(
        theory.error[1:], [0.424265357, 0.343177533, 0.306108464], rtol=0, atol=2e-9
    )
    np.testing.assert_allclose(theory.loss, theory.error)


def test_one_unit_obeys_its_drift_by_quadrature():
    """Logistic regression on two Gaussians of norm 2:

    the first change of R and Q, by quadrature over one field.
    """
    problem = tu.Problem(
        tu.Network(1, "linear"),
        inputs=tu.Mixture.two_gaussians(2.0),
        loss="logistic",
        optimizer=tu.SGD(lr=0.5),
    )
    R = 0.3
    Q = 0.5
    h = 1e-4
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    delta = expit(
        -(R + np.sqrt(Q) * z)
    )  # of the class with label 1; the other is its mirror image
    d = w @ delta
    A = w @ (delta * z) / np.sqrt(Q)
    G = w @ delta**2
    theory = tu.solve(problem, tu.Start(R=[[R]], Q=[[Q]]), [0.0, h])
    slopes = (theory.R[1, 0, 0] - R) / h, (theory.Q[1, 0, 0] - Q) / h
    right = 0.5 * (d * 4.0 + A * R), 2 * 0.5 * (d * R + A * Q) + 0.25 * G
    np.testing.assert_allclose(slopes, right, rtol=1e-3)
    assert (
        abs(slopes[0] - 0.5 * (d + A * R)) > 0.1
    )  # a mean of norm one would give another
    np.testing.assert_allclose(
        theory.error,
        norm.cdf(-theory.R[:, 0, 0] / np.sqrt(theory.Q[:, 0, 0])),
        rtol=1e-9,
    )


def plain_sgd(problem, start, dim, end, runs, seed):
    """SGD on weights with NumPy, all runs at once; returns R, Q, r without the eigenvalues, readouts at the end, per run."""
    rng = np.random.default_rng(seed)
    K = 2
    lr = float(problem.optimizer.lr)
    dims = problem.inputs.level_dims(dim)
    lam = np.repeat(np.stack([law.eigenvalues for law in SPECTRA]), dims, axis=1)
    r, q, t = (np.asarray(x) for x in start.blocks(problem))
    M = t.shape[1]
    parts = []
    for i, n in enumerate(dims):
        gram = np.block([[t[i], r[i].T], [r[i], q[i]]])
        values, vectors = np.linalg.eigh(gram)
        frame = np.linalg.qr(rng.standard_normal((n, M + K)))[0]
        parts.append(np.sqrt(n) * (vectors * np.sqrt(np.maximum(values, 0))) @ frame.T)
    whole = np.concatenate(parts, axis=1)
    teachers = whole[:M]
    W = np.repeat(whole[None, M:], runs, axis=0)
    v = np.ones((runs, K))
    units = problem.label_fields
    means = S @ teachers[units:] / np.sqrt(dim)

    def g(x):
        return erf(x / np.sqrt(2))

    def slope(x):
        return np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)

    for _ in range(round(end * dim)):
        c = (rng.random(runs) > P[0]).astype(int)
        x = means[c] + np.sqrt(lam[c]) * rng.standard_normal((runs, dim))
        fields = np.einsum("skn,sn->sk", W, x) / np.sqrt(dim)
        output = np.sum(v * g(fields), axis=1)
        if units:
            y = g(x @ teachers[:units].T / np.sqrt(dim))[
                :, 0
            ] + 0.1 * rng.standard_normal(runs)
            push = y - output
        else:
            y = np.array([1.0, -1.0])[c]
            push = y * expit(-y * output)
        W += (
            lr
            / np.sqrt(dim)
            * (push[:, None] * v * slope(fields))[:, :, None]
            * x[:, None]
        )
        if problem.student.train_readout:
            v += lr / dim * push[:, None] * g(fields)
    weights = np.asarray(problem.inputs.eigenvalues)
    levels = np.repeat(weights, dims)
    R = np.einsum("skn,mn,n->skm", W, teachers, levels) / dim
    Q = np.einsum("skn,sjn,n->skj", W, W, levels) / dim
    return R, Q, v


def worst_gap(values, theory):
    """The largest z-score of the mean over runs, beyond a gap of order 1/N."""
    se = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.max(np.abs(values.mean(axis=0) - theory) / se)


@pytest.mark.parametrize(
    ("make", "start"), [(labeled, BY_LEVEL), (taught, WITH_TEACHER)]
)
def test_theory_follows_plain_sgd(make, start):
    """Class-dependent spectra, means that a teacher shares:

    60 networks of 300 inputs, written in plain NumPy.
    """
    problem = make()
    R, Q, v = plain_sgd(problem, start, dim=300, end=3.0, runs=60, seed=5)
    theory = tu.solve(problem, start, [0.0, 3.0], rtol=1e-4)
    gaps = [
        worst_gap(R, theory.R[-1]),
        worst_gap(Q[:, [0, 0, 1], [0, 1, 1]], theory.Q[-1][[0, 0, 1], [0, 1, 1]]),
    ]
    if problem.student.train_readout:
        gaps.append(worst_gap(v, theory.readout[-1]))
    assert max(gaps) < 4.0, gaps
    exchanged = problem.replace(
        inputs=tu.Mixture(S, GRAM, P, SPECTRA[::-1], labels=problem.inputs.labels)
    )
    wrong = tu.solve(exchanged, start, [0.0, 3.0], rtol=1e-4)
    assert (
        max(worst_gap(R, wrong.R[-1]), worst_gap(Q, wrong.Q[-1])) > 5.0
    )  # the test has power


def long(*case):
    return pytest.param(*case, marks=pytest.mark.full)


@pytest.mark.parametrize(
    ("make", "batch"),
    [(taught, 1), long(labeled, 3), long(labeled, 1), long(taught, 3)],
)
def test_overlap_chain_and_weights_follow_one_law(make, batch, monkeypatch):
    if (
        make is taught
    ):  # the law of the states is tested; the error at each of them takes most of the time
        skipped = lambda problem, r, *rest: 2 * (np.zeros((*r.shape[:-3], 2)),)  # noqa: E731
        monkeypatch.setattr(recorded_error, "errors_at_records", skipped)
    problem = make().replace(batch=batch)
    start = TWO if make is labeled else WITH_TEACHER
    asked = {"dim": 24, "times": [0.0, 0.5, 2.0], "runs": 150}
    chain = tu.simulate(problem, start, method="overlaps", seed=1, **asked)
    weights = tu.simulate(problem, start, method="weights", seed=2, **asked)
    assert laws.probability(chain, weights) > laws.LEVEL
    np.testing.assert_allclose(chain.error[:, 0], weights.error[:, 0], rtol=1e-9)
    if batch == 1:
        assert (
            laws.probability(
                tu.simulate(problem, start, together=True, seed=3, **asked), weights
            )
            > laws.LEVEL
        )


@pytest.mark.full
@pytest.mark.parametrize("make", [labeled, taught])
def test_overlap_chain_and_weights_follow_one_law_in_many_runs(make):
    problem = make()
    start = TWO if make is labeled else WITH_TEACHER
    asked = {"dim": 24, "times": [0.0, 0.5, 2.0], "runs": 3000}
    chain, weights = (
        tu.simulate(problem, start, method=m, seed=s, **asked)
        for m, s in (("overlaps", 1), ("weights", 2))
    )
    assert laws.probability(chain, weights) > laws.LEVEL
    other = problem.replace(lr=1.1)
    assert (
        laws.probability(
            chain, tu.simulate(other, start, method="weights", seed=3, **asked)
        )
        < laws.LEVEL
    )


def test_compare_accepts_a_right_mixture_and_refuses_a_wrong_rate():
    problem = labeled()
    times = tu.linear_times(4.0, 9)
    runs = tu.simulate(problem, TWO, dim=600, times=times, runs=30, seed=4)
    assert tu.compare(tu.solve(problem, TWO, times), runs, fluctuations=False).agrees
    wrong = tu.solve(problem.replace(lr=1.3), TWO, times)
    object.__setattr__(wrong, "problem", problem)  # claims to be the right one
    assert not tu.compare(wrong, runs, fluctuations=False).agrees


def test_errors_of_classes_average_to_the_error():
    problem = labeled()
    theory = tu.solve(problem, TWO, [0.0, 4.0])
    assert theory.class_errors.shape == (2, 2)
    np.testing.assert_allclose(theory.class_errors @ P, theory.error, rtol=1e-12)
    assert theory.class_errors[-1, 0] != theory.class_errors[-1, 1]
    runs = tu.simulate(problem, TWO, dim=60, times=[0.0, 1.0], runs=3)
    np.testing.assert_allclose(runs.class_errors @ P, runs.error, rtol=1e-9)
    other = tu.Problem(tu.Network(1), tu.Network(1))
    with pytest.raises(tu.InputError, match="Mixture") as caught:
        _ = tu.solve(other, tu.asymmetric_start(other), [0.0, 1.0]).class_errors
    assert "classes" in str(caught.value)


def test_softmax_learns_the_corners_of_a_simplex():
    """Cross-entropy on three classes; the sampled error stays above the best possible one and the units' sum is conserved."""
    student = tu.Network(3, "linear", outputs=3)
    problem = tu.Problem(
        student,
        inputs=tu.Mixture.simplex(3, 2.0),
        loss="cross_entropy",
        optimizer=tu.SGD(lr=0.5),
    )
    theory = tu.solve(
        problem, tu.Start(R=np.zeros((3, 3)), Q=0.1 * np.eye(3)), [0.0, 2.0, 10.0]
    )
    rng = np.random.default_rng(0)
    means = np.linalg.cholesky(problem.inputs.mean_overlaps() + 1e-9 * np.eye(3))
    x = means[0] + rng.standard_normal((200_000, 3))
    best = np.mean(np.argmax(x @ means.T, axis=1) != 0)
    assert theory.error[0] > 0.6
    assert best < theory.error[-1] < best + 0.03
    np.testing.assert_allclose(theory.R[-1].sum(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize(
    "mode", ["forward", pytest.param("reverse", marks=pytest.mark.full)]
)
def test_derivatives_are_those_of_differences(mode):
    problem = tu.Problem(
        tu.Network(1, "linear"), inputs=tu.Mixture.two_gaussians(2.0), loss="logistic"
    )
    start = tu.Start(R=[[0.1]], Q=[[0.5]])

    def final(lr, norm):
        gram = (
            norm**2 * np.ones((1, 1))
            if isinstance(norm, float)
            else (norm**2).reshape(1, 1)
        )
        return tu.solve(
            problem.replace(**{"lr": lr, "inputs.gram": gram}),
            start,
            [0.0, 1.0],
            gradient=mode,
        ).error[-1]

    found = {"forward": jax.jacfwd, "reverse": jax.grad}[mode](final, argnums=(0, 1))(
        0.5, 2.0
    )
    h = 1e-4
    by_rate = (final(0.5 + h, 2.0) - final(0.5 - h, 2.0)) / (2 * h)
    by_norm = (final(0.5, 2.0 + h) - final(0.5, 2.0 - h)) / (2 * h)
    np.testing.assert_allclose(found, [by_rate, by_norm], rtol=1e-5)


def test_files_hold_a_mixture(tmp_path):
    for problem, start in ((labeled(), TWO), (taught(), WITH_TEACHER)):
        again = tu.Problem.from_toml(problem.to_toml())
        assert again.to_dict() == problem.to_dict()
        theory = tu.solve(problem, start, [0.0, 0.1])
        loaded = tu.load(theory.save(tmp_path / "theory.nc"))
        np.testing.assert_array_equal(loaded.error, theory.error)
        np.testing.assert_allclose(loaded.class_errors, theory.class_errors)
        np.testing.assert_allclose(
            tu.solve(again, start, [0.0, 0.1]).error, theory.error, rtol=1e-12
        )


def test_labels_follow_the_loss_and_a_name_replaces_any_part():
    assert type(labeled().labels) is tu.labels.Sign
    assert type(labeled(loss="squared").labels) is tu.labels.Real
    changed = labeled().replace(weights=[0.5, 0.5], lr=0.2)
    assert changed.inputs.probabilities.tolist() == [0.5, 0.5]
    assert "mixture of 2 classes" in str(problem_in_words(labeled()))


def test_means_given_as_vectors_have_their_overlaps_on_every_level():
    rng = np.random.default_rng(0)
    spectrum = tu.Spectrum([3.0, 0.5], [0.2, 0.8])
    means = rng.standard_normal((3, 50)) / np.sqrt(50)
    mixture = tu.Mixture.from_means(means, inputs=spectrum, labels=[1, -1, 1])
    np.testing.assert_allclose(mixture.gram[0], means[:, :10] @ means[:, :10].T / 0.2)
    np.testing.assert_allclose(mixture.mean_overlaps(), means @ means.T)


@pytest.mark.parametrize(
    ("make", "mentions"),
    [
        (lambda: tu.Mixture([1.0, 2.0], [[1.0]]), ("coefficients", "(2,)")),
        (
            lambda: tu.Mixture([[1.0], [-1.0]], [[1.0, 0.0], [0.0, 1.0]]),
            ("gram", "(1, 1)"),
        ),
        (lambda: tu.Mixture([[1.0], [-1.0]], [[-1.0]]), ("gram", "eigenvalue")),
        (
            lambda: tu.Mixture([[1.0], [-1.0]], [[1.0]], weights=[0.5, 0.6]),
            ("weights", "sum 1"),
        ),
        (
            lambda: tu.Mixture([[1.0], [-1.0]], [[1.0]], labels=[1, 1, -1]),
            ("labels", "(3,)"),
        ),
        (lambda: tu.Mixture([[1.0], [-1.0]], [[np.nan]]), ("gram", "nan")),
        (
            lambda: tu.Mixture([[1.0], [-1.0]], [[1.0]], inputs=[tu.Isotropic()] * 3),
            ("3 laws", "2 classes"),
        ),
        (
            lambda: tu.Mixture(
                [[1.0], [-1.0]], [[1.0]], inputs=[tu.Isotropic(), SPECTRA[0]]
            ),
            ("fractions",),
        ),
        (lambda: tu.Mixture.from_means(3 * np.ones((2, 1000))), ("norm", "sqrt(N)")),
        (lambda: tu.Mixture([[1.0]], [[1e4]]), ("norm 100", "sqrt(N)")),
        (lambda: tu.Problem(tu.Network(1)), ("teacher",)),
        (
            lambda: tu.Problem(tu.Network(1), inputs=tu.Mixture([[1.0]], [[1.0]])),
            ("labels",),
        ),
        (
            lambda: tu.Problem(tu.Network(1), tu.Network(1), inputs=tu.Mixture.xor()),
            ("teacher", "labels"),
        ),
        (
            lambda: labeled().replace(**{"inputs.labels": [1, 2]}),
            ("labels", "-1 and 1"),
        ),
        (
            lambda: tu.Problem(
                tu.Network(3, "linear", outputs=3),
                inputs=tu.Mixture([[1.0], [-1.0]], [[1.0]], labels=[0, 5]),
                loss="cross_entropy",
            ),
            ("labels", "from 0 to 2"),
        ),
        (
            lambda: tu.Problem(
                tu.Network(1), tu.Tasks([tu.Network(1)]), tu.Mixture([[1.0]], [[1.0]])
            ),
            ("Tasks",),
        ),
        (lambda: tu.analysis.fixed_point(labeled(), TWO), ("mixture",)),
        (lambda: tu.generalization_error(labeled(), TWO.R, TWO.Q), ("mixture",)),
        (
            lambda: tu.analysis.drift_matrices(labeled(), TWO.R, TWO.Q, np.eye(2)),
            ("mixture",),
        ),
        (
            lambda: tu.simulate(
                labeled(), TWO, inputs=np.ones((50, 60)), times=[0.0, 0.1]
            ),
            ("mixture",),
        ),
        (
            lambda: tu.solve(
                labeled(), tu.Start(R=TWO.R, Q=TWO.Q, T=np.eye(2)), [0.0, 1.0]
            ),
            ("T", "gram"),
        ),
    ],
)
def test_bad_input_gets_one_message(make, mentions):
    with pytest.raises(tu.InputError) as caught:
        make()
    require_refusal(caught.value, *mentions)


def test_a_norm_of_thirty_is_the_largest_mean():
    assert tu.Mixture([[1.0]], [[mixtures.LARGEST_NORM**2]]).classes == 1


def test_batches_and_sweeps_solve_mixtures_as_solve_does():
    problem = tu.Problem(
        tu.Network(1, "linear"), inputs=tu.Mixture.two_gaussians(2.0), loss="logistic"
    )
    start = tu.Start(R=[[0.1]], Q=[[0.5]])
    rates = [0.2, 0.5]
    times = [0.0, 1.0]
    single = [
        float(tu.solve(problem.replace(lr=lr), start, times).error[-1]) for lr in rates
    ]
    batch = tu.solve_batch(problem, {"lr": np.array(rates)}, start, times)
    np.testing.assert_allclose(batch.error[:, -1], single, rtol=1e-6)
    swept = tu.sweep(problem, {"lr": rates}, start=start, times=times)
    np.testing.assert_allclose(swept["final_error"].values, single, rtol=1e-6)


@pytest.mark.parametrize("method", ["overlaps", "weights"])
def test_noise_of_each_class_has_its_own_spectrum(method):
    """One class moves the student, the other hardly does:

    q grows on the levels of the first class only.
    """
    spectra = [tu.Spectrum([1.9, 0.1], [0.5, 0.5]), tu.Spectrum([0.1, 1.9], [0.5, 0.5])]
    inputs = tu.Mixture([[1.0], [-1.0]], [[0.01]], inputs=spectra, labels=[3.0, 0.0])
    problem = tu.Problem(
        tu.Network(1, "linear"), inputs=inputs, optimizer=tu.SGD(lr=0.3)
    )
    start = tu.Start(R=[[0.0]], Q=[[1e-6]])
    runs = tu.simulate(
        problem, start, dim=200, times=[0.0, 0.2], runs=10, seed=1, method=method
    )
    theory = tu.solve(problem, start, [0.0, 0.2])
    assert theory.q[-1, 0, 0, 0] > 10 * theory.q[-1, 1, 0, 0]
    np.testing.assert_allclose(runs.q[:, -1].mean(axis=0), theory.q[-1], rtol=0.25)
