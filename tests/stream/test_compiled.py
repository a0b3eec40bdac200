"""The kernel of small committees (dynamics/committee_kernel.py):

the same curves, steps and messages as the JAX program.
"""

import jax
import numpy as np
import pytest

import tutelage as tu
from tutelage.errors import Status
from tutelage.solvers import step_kernel
from tutelage.solvers.program import (
    MAX_STEPS,
    Options,
    first_times,
    padded,
    step_tolerances,
)
from tutelage.stream import committee_kernel, program
from tutelage.stream.moments import moments_for
from tutelage.stream.order_parameters import as_arrays, initial_overlaps
from tutelage.stream.solve import prepare

TIMES = np.linspace(0.0, 60.0, 31)


def problem(
    K=2, M=2, *, student=None, teacher=None, noise=0.0, inputs=None, **optimizer
):
    inputs = tu.Isotropic() if inputs is None else inputs
    networks = (
        tu.Network(K, "erf", **(student or {})),
        tu.Network(M, **({"activation": "erf"} | (teacher or {}))),
    )
    return tu.Problem(
        *networks,
        optimizer=tu.SGD(**({"lr": 0.5} | optimizer)),
        noise=noise,
        inputs=inputs,
    )


def by_kernel(one, start, times=TIMES, flow=False, max_steps=MAX_STEPS):
    options = Options(flow, "explicit", True, max_steps=max_steps)
    moments = moments_for(one)
    assert program.has_machine_code(one, moments, options)
    return program.run_committee(
        one, moments, initial_overlaps(one, start), times, step_tolerances(), options
    )


def by_jax(one, start, times=TIMES, flow=False, max_steps=MAX_STEPS):
    options = Options(flow, "explicit", True, max_steps=max_steps)
    moments = moments_for(one)
    raw = program.integrate_equations(
        as_arrays(one),
        moments,
        initial_overlaps(one, start),
        padded(times),
        step_tolerances(),
        options,
    )
    return first_times(raw, times.size)


def gap(a, b):
    """The largest difference of two results, over all that is recorded."""
    pairs = [(a.error, b.error), (a.loss, b.loss)] + [
        (a.variables[name], b.variables[name]) for name in b.variables
    ]
    assert set(a.variables) == set(b.variables)
    return max(
        float(np.nanmax(np.abs(np.asarray(x) - np.asarray(y)))) for x, y in pairs
    )


GRAM = [[1.0, 0.3], [0.3, 2.0]]
PROBLEMS = {
    "one unit": problem(1, 1),
    "more students": problem(3, 2, noise=0.2, batch=3, lr=1.0),
    "fewer students": problem(2, 3, weight_decay=0.02, momentum=0.4),
    "readouts trained": problem(
        2, 2, student={"readout": [0.5, 1.5], "train_readout": True}, readout_lr=0.2
    ),
    "teacher's gram and readout": problem(
        2, 2, teacher={"gram": GRAM, "readout": [1.0, -2.0]}
    ),
    "sign as teacher": problem(2, 2, teacher={"activation": "sign"}),
    "unseen": problem(2, 2, teacher={"unseen": 0.2 * np.eye(2)}),
    "levels": problem(2, 2, inputs=tu.PowerLaw(0.7, 5), noise=0.1),
    "levels that differ in size": problem(
        2, 1, inputs=tu.Spectrum([0.5, 3.0, 1.0], [0.5, 0.2, 0.3], normalize=False)
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_kernel_gives_what_the_jax_program_gives(name):
    """The same steps, but for rounding; and not the same curve for a rate that is a thousandth larger."""
    one = PROBLEMS[name]
    start = tu.random_start(one, dim=500, scale=0.5)
    kernel = by_kernel(one, start)
    jax_ = by_jax(one, start)
    assert abs(int(kernel.steps) - int(jax_.steps)) <= 1
    assert kernel.status_code == Status.FINISHED
    assert gap(kernel, jax_) < 1e-8
    np.testing.assert_allclose(kernel.T, jax_.T, rtol=1e-14)
    other = one.replace(lr=one.optimizer.lr * 1.001)
    assert gap(by_kernel(other, start), jax_) > 1e-6


def test_gradient_flow_has_no_noise_term():
    one = problem(2, 2, noise=0.5, lr=2.0)
    start = tu.random_start(one, dim=500, scale=0.5)
    assert gap(by_kernel(one, start, flow=True), by_jax(one, start, flow=True)) < 1e-9
    assert gap(by_kernel(one, start), by_jax(one, start, flow=True)) > 1e-2


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_near_perfect_learning_the_error_keeps_its_digits(sign):
    """Down to 1e-12 and below, also where a student is the mirror image of a teacher and the readout makes up for it."""
    one = problem(2, 2, student={"readout": [1.0, sign]})
    start = tu.Start(
        R=np.array([[0.99, 0.01], [0.0, sign]]),
        Q=np.array([[0.99, 0.0], [0.0, 1.01]]) + 0.02 * np.eye(2),
    )
    times = np.linspace(0.0, 600.0, 16)
    kernel = by_kernel(one, start, times)
    jax_ = by_jax(one, start, times)
    assert kernel.error[-1] < 1e-11
    np.testing.assert_allclose(kernel.error, jax_.error, rtol=1e-5, atol=2e-15)


def test_perfect_and_singular_starts_are_finite():
    one = problem(2, 2)
    perfect = by_kernel(one, tu.Start(R=np.eye(2), Q=np.eye(2)))
    assert np.all(perfect.error <= 1e-28)
    equal = tu.Start(R=np.full((2, 2), 0.1), Q=np.full((2, 2), 0.2))
    assert gap(by_kernel(one, equal), by_jax(one, equal)) < 1e-9


def test_a_silent_teacher_unit_gives_no_warning():
    problem = tu.Problem(
        tu.Network(2, "erf"),
        tu.Network(2, "erf", gram=[[1.0, 0.0], [0.0, 0.0]]),
        optimizer=tu.SGD(lr=0.5),
    )
    start = tu.Start(R=[[0.2, 0.0], [0.1, 0.0]], Q=[[0.5, 0.1], [0.1, 0.5]])
    theory = tu.solve(problem, start, np.linspace(0, 20, 5))  # warnings are errors here
    assert np.all(np.isfinite(theory.error))


def test_a_solve_that_does_not_finish_ends_like_the_jax_program(monkeypatch):
    one = problem(2, 2, lr=1000.0)
    times = np.linspace(0.0, 1e10, 31)
    start = tu.random_start(one, dim=500)
    kernel = by_kernel(one, start, times)
    jax_ = by_jax(one, start, times)
    assert kernel.status_code == jax_.status_code == Status.FAILED
    np.testing.assert_array_equal(np.isnan(kernel.error), np.isnan(jax_.error))
    one = problem(2, 2, lr=3.0)
    few = by_kernel(one, start, max_steps=5)
    assert few.status_code == Status.MAX_STEPS
    assert np.isnan(few.error[-1])
    monkeypatch.setattr(
        program, "BOUND", 0.6
    )  # so that overlaps above 1.2 count as diverged
    cut = by_kernel(one, start)
    assert cut.status_code == Status.DIVERGED
    assert 0 < cut.end_time < TIMES[-1]
    np.testing.assert_array_equal(np.isnan(cut.error), cut.end_time < TIMES)


@pytest.mark.full
def test_random_problems():
    rng = np.random.default_rng(3)
    for seed in range(6):
        K = int(rng.integers(1, 4))
        M = int(rng.integers(1, 4))
        trained = bool(rng.integers(2))
        one = problem(
            K,
            M,
            student={"readout": rng.uniform(-1.5, 1.5, K), "train_readout": trained},
            teacher={"readout": rng.uniform(0.5, 1.5, M)},
            noise=float(rng.uniform(0, 0.5)),
            lr=float(rng.uniform(0.1, 1.5)),
            inputs=tu.Spectrum(rng.uniform(0.3, 2.0, 2))
            if seed % 2
            else tu.Isotropic(),
        )
        start = tu.random_start(one, dim=200, scale=0.7, seed=seed)
        theory = tu.solve(one, start, TIMES)
        again = jax.jit(
            lambda lr, one=one, start=start: (
                tu.solve(one.replace(lr=lr), start, TIMES).error
            )
        )(one.optimizer.lr)
        np.testing.assert_allclose(
            theory.error, again, rtol=1e-6, atol=1e-9, err_msg=str(seed)
        )


@pytest.mark.parametrize(
    "one",
    [
        problem(lr=tu.schedules.PowerDecay(0.5, 1.0)),
        problem(noise=tu.schedules.Linear([0.0, 1.0], [0.1, 0.2])),
        problem(momentum=tu.SlowMomentum(1.0)),
        problem(spherical=True),
        problem(student={"bias": [0.1, 0.2]}),
        tu.Problem(tu.Network(2, "relu"), tu.Network(2, "relu")),
        tu.Problem(tu.Network(2), tu.Network(2), loss="huber"),
        tu.Problem(tu.Network(2), tu.Network(2), rule=tu.rules.Dropout(0.8)),
        tu.Problem(
            tu.Network(2),
            tu.Tasks([tu.Network(1), tu.Network(1)], schedule=tu.Switch(5.0)),
        ),
    ],
)
def test_other_problems_take_the_jax_program(one):
    assert not program.has_machine_code(
        one, moments_for(one), Options(False, "explicit", True)
    )


def test_traced_numbers_and_other_solvers_take_the_jax_program():
    one = problem()
    assert not program.has_machine_code(
        one, moments_for(one), Options(False, "stiff", True)
    )
    seen = []

    def final(lr):
        seen.append(
            program.has_machine_code(
                one.replace(lr=lr), moments_for(one), Options(False, "explicit", True)
            )
        )
        return lr

    jax.make_jaxpr(final)(0.5)
    assert seen == [False]


def test_a_new_shape_compiles_nothing(monkeypatch):
    """The purpose of the kernel: XLA is not asked."""
    monkeypatch.setattr(program, "integrate_equations", None)
    compilations = []
    listen = lambda name, *_, **__: compilations.append(name)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        one = problem(5, 4, inputs=tu.PowerLaw(0.3, 7))
        tu.solve(one, tu.random_start(one, dim=700), 10.0)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not [name for name in compilations if "compile" in name]


def test_the_kernel_and_the_program_share_their_constants():
    from tutelage.solvers import dormand_prince as dp

    for name in ("STEP_STAGES", "ALL_STAGES", "ALMOST", "FIRST"):
        assert getattr(committee_kernel, name) is getattr(dp, name)
    for name in ("SAFETY", "SLOWEST", "FASTEST"):
        assert getattr(step_kernel, name) is getattr(dp, name)
    assert step_kernel.TABLEAU.stages is dp.STAGES
    assert prepare(problem(), None, TIMES)[1][0].r.shape == (1, 2, 2)
