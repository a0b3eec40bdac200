"""Forty problems whose numbers must stay what they are while code is rewritten.

    python -m benchmarks.forty save before.npz
    python -m benchmarks.forty compare before.npz after.npz --rtol 0

`save` computes every problem and stores all result arrays, bit by bit. `compare` says
for each problem whether the arrays are identical, else how far they differ, and exits
with status 1 on a difference above `--rtol`. Bits depend on the machine and on the
versions of the libraries, so save both files on one machine. Only public names are
used, and `learner` and `problem` below are the one place where problems are built.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from scipy import stats

import tutelage as tu

Arrays = dict[str, np.ndarray]
PROBLEMS: dict[str, Callable[[], Arrays]] = {}
TIMES = (0.0, 0.5, 2.0, 5.0, 12.0)  # short, and beyond the first transient
SMALL_ENTRY = 1e-9  # smaller entries are compared on this share of the largest one

ONE_UNIT_START = tu.Start([[0.1]], [[0.5]])
TWO_UNIT_START = tu.Start(R=[[0.3, 0.05], [0.02, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])


# Construction: the only place that names the arguments of a problem


def learner(rate: Any = 0.5, **options: Any) -> tu.SGD:
    """SGD with this learning rate and these options."""
    return tu.SGD(lr=rate, **options)


def problem(
    student: tu.Network,
    teacher: Any = None,
    *,
    inputs: tu.Inputs | None = None,
    optimizer: tu.SGD | None = None,
    **task: Any,
) -> tu.Problem:
    """A problem; task: noise, loss, labels and rule."""
    if optimizer is None:
        optimizer = learner()
    return tu.Problem(student, teacher, inputs=inputs, optimizer=optimizer, **task)


def committee(units: int = 2, activation: Any = "erf", **options: Any) -> tu.Problem:
    """A student and a teacher with equal units."""
    network = tu.Network(units, activation)
    return problem(network, network, **options)


def one_linear_unit(**options: Any) -> tu.Problem:
    """A perceptron that learns from signs, at rate 1."""
    unit = tu.Network(1, "linear")
    task = {"labels": "sign", "optimizer": learner(1.0)} | options
    return problem(unit, unit, **task)


def two_tasks(schedule: Any, heads: str = "separate", **options: Any) -> tu.Problem:
    """Two teachers of one unit over time, and a student of two units."""
    teachers = [tu.Network(1, "erf"), tu.Network(1, "erf")]
    tasks = tu.Tasks(teachers, schedule, heads, similarity=0.5, **options)
    student = tu.Network(2, "erf", train_readout=True)
    return problem(student, tasks, optimizer=learner(1.0))


def task_start() -> tu.Start:
    """The initial condition of `two_tasks` with separate heads."""
    return tu.Start(
        R=[[0.05, 0.02], [-0.01, 0.03]],
        Q=[[0.3, 0.02], [0.02, 0.2]],
        readout=[[0.3, 0.1], [0.2, -0.1]],
    )


# Results as arrays


def curves(trajectory: tu.Trajectory) -> Arrays:
    """All arrays of a trajectory."""
    arrays = {name: np.asarray(values) for name, values in trajectory.variables.items()}
    arrays["error"] = np.asarray(trajectory.error)
    arrays["steps"] = np.asarray(trajectory.steps)
    if trajectory.loss is not None:
        arrays["loss"] = np.asarray(trajectory.loss)
    return arrays


def named(prefix: str, arrays: Arrays) -> Arrays:
    """Arrays with a prefix in their names."""
    return {f"{prefix}.{name}": values for name, values in arrays.items()}


def numbers(**values: Any) -> Arrays:
    """Numbers and lists as arrays."""
    return {name: np.asarray(value) for name, value in values.items()}


def solved(task: tu.Problem, start: tu.Start | None = None, **options: Any) -> Arrays:
    """The curves of the theory, from the asymmetric start unless one is given."""
    chosen = tu.asymmetric_start(task) if start is None else start
    return curves(tu.solve(task, chosen, options.pop("times", TIMES), **options))


def forty(function: Callable[[], Arrays]) -> Callable[[], Arrays]:
    """Register a problem under the name of its function."""
    PROBLEMS[function.__name__] = function
    return function


# Networks and activations


@forty
def erf_committee() -> Arrays:
    return solved(committee(2), times=tu.linear_times(100.0, 21))


@forty
def erf_committee_with_noise_batch_and_decay() -> Arrays:
    optimizer = learner(1.0, batch=4, weight_decay=0.02)
    wide = problem(
        tu.Network(3, "erf"), tu.Network(2, "erf"), optimizer=optimizer, noise=0.2
    )
    return solved(wide, times=tu.log_times(0.1, 100.0, 21))


@forty
def erf_committee_in_jax() -> Arrays:
    """Sensitivity of the final error to the rate, by JAX."""
    start = tu.asymmetric_start(committee(2))

    def final_error(rate: Any) -> Any:
        task = committee(2, optimizer=learner(rate))
        solution = tu.solve(task, start, (0.0, 5.0), gradient="forward")
        return solution.error[-1]

    value, slope = jax.jvp(final_error, (0.5,), (1.0,))
    return numbers(value=value, slope=slope)


@forty
def relu_committee() -> Arrays:
    return solved(committee(2, "relu", optimizer=learner(0.1)))


@forty
def linear_unit_on_a_power_law() -> Arrays:
    unit = tu.Network(1, "linear")
    task = problem(unit, unit, inputs=tu.PowerLaw(beta=1.0, levels=5), noise=0.1)
    return solved(task, tu.Start([[0.0]], [[0.3]]))


@forty
def quadratic_network() -> Arrays:
    student = tu.Network(2, "quadratic", readout=1 / 2)
    teacher = tu.Network(2, "quadratic", readout=1 / 2)
    return solved(problem(student, teacher, optimizer=learner(0.02)))


@forty
def tanh_committee_by_quadrature() -> Arrays:
    return solved(committee(2, "tanh"), quadrature=tu.Quadrature(nodes=48))


@forty
def mixed_and_custom_activations() -> Arrays:
    student = tu.Network(2, ("erf", "relu"))
    teacher = tu.Network(1, "erf")
    mixed = problem(student, teacher, optimizer=learner(0.1))
    custom = problem(tu.Network(1, jnp.arctan), teacher)
    arrays = named("mixed", solved(mixed, times=(0.0, 0.5, 2.0)))
    return arrays | named("custom", solved(custom, ONE_UNIT_START))


@forty
def sign_teacher() -> Arrays:
    return solved(problem(tu.Network(2, "erf"), tu.Network(2, "sign")))


@forty
def trained_readout_under_a_power_decay() -> Arrays:
    rate = tu.schedules.PowerDecay(0.8, exponent=0.5, timescale=5.0)
    student = tu.Network(2, "erf", readout=0.5, train_readout=True)
    teacher = tu.Network(2, "erf", readout=[1.0, -0.5])
    optimizer = learner(rate, readout_lr=0.3)
    return solved(problem(student, teacher, optimizer=optimizer, noise=0.1))


@forty
def trained_biases() -> Arrays:
    student = tu.Network(2, "erf", bias=[0.1, -0.2], train_bias=True)
    teacher = tu.Network(2, "erf", bias=0.3)
    optimizer = learner(0.5, bias_lr=0.2)
    return solved(problem(student, teacher, optimizer=optimizer))


@forty
def several_outputs() -> Arrays:
    network = tu.Network(2, "erf", outputs=2)
    return solved(problem(network, network))


# Inputs


@forty
def spectrum_with_frozen_and_spherical_vectors() -> Arrays:
    inputs = tu.Spectrum([4.0, 1.0, 0.25], [0.1, 0.3, 0.6])
    frozen = learner(0.5, trainable=[0, 1])
    spherical = learner(0.5, spherical=True)
    arrays = named("frozen", solved(committee(2, inputs=inputs, optimizer=frozen)))
    return arrays | named("sphere", solved(committee(2, optimizer=spherical)))


@forty
def stiff_power_law() -> Arrays:
    inputs = tu.PowerLaw(beta=1.0, levels=12)
    return solved(committee(2, inputs=inputs), solver="stiff", times=(0.0, 1.0, 10.0))


@forty
def mixture_with_labels() -> Arrays:
    mixture = tu.Mixture.xor(norm=2.0)
    student = tu.Network(4, "quadratic", readout=[0.5, 0.4, -0.5, -0.4])
    task = problem(student, inputs=mixture, optimizer=learner(0.05))
    R = [[0.2, 0.05], [-0.1, 0.1], [0.05, 0.2], [0.02, -0.15]]
    return solved(task, tu.Start(R=R, Q=0.1 * np.eye(4)))


@forty
def mixtures_of_two_gaussians() -> Arrays:
    """Labels of the classes, and those of a teacher."""
    labeled = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    unlabeled = tu.Mixture([[1.0], [-1.0]], gram=[[1.0]], weights=[0.3, 0.7])
    by_class = problem(tu.Network(1, "linear"), inputs=labeled, loss="logistic")
    unit = tu.Network(1, "erf")
    by_teacher = problem(unit, unit, inputs=unlabeled)
    start = tu.Start(R=[[0.1, 0.05]], Q=[[0.5]], T=np.eye(2))
    arrays = named("classes", solved(by_class, ONE_UNIT_START))
    return arrays | named("teacher", solved(by_teacher, start, times=(0.0, 1.0, 3.0)))


@forty
def hidden_manifold() -> Arrays:
    inputs = tu.HiddenManifold("orthogonal", "erf", dim_latent=250, dim=1000)
    return solved(committee(2, inputs=inputs)) | numbers(
        eigenvalues=inputs.eigenvalues, unseen=inputs.unseen_share
    )


@forty
def measured_data() -> Arrays:
    data = tu.from_data(tu.digits(), levels=8)
    task = problem(tu.Network(2, "erf"), tu.Network(2, "erf"), inputs=data.inputs)
    arrays = solved(task, tu.random_start(task, dim=61, seed=1))
    runs = tu.simulate(
        task, times=(0.0, 1.0, 2.0), runs=2, seed=1, inputs=tu.digits(), workers=1
    )
    spectrum = numbers(eigenvalues=data.inputs.eigenvalues)
    return arrays | named("runs", curves(runs)) | spectrum


# Losses, labels and rules


@forty
def logistic_loss_with_flipped_signs() -> Arrays:
    inputs = tu.Spectrum([3.0, 0.5], [0.2, 0.8], normalize=False)
    labels = tu.labels.Sign(flip=0.1)
    task = one_linear_unit(loss="logistic", labels=labels, inputs=inputs)
    R = [[[0.3]], [[0.05]]]
    Q = [[[0.6]], [[0.475]]]
    return solved(task, tu.Start(R=R, Q=Q, T=np.ones((2, 1, 1))))


@forty
def hinge_absolute_and_custom_loss() -> Arrays:
    log_cosh = tu.losses.Function(
        lambda output, label: jnp.log(jnp.cosh(label - output))
    )
    unit = tu.Network(1, "erf")
    absolute = problem(unit, unit, loss="absolute", optimizer=learner(0.2))
    custom = problem(unit, unit, loss=log_cosh, noise=0.3)
    hinge = one_linear_unit(loss="hinge")
    arrays = named("absolute", solved(absolute, ONE_UNIT_START))
    arrays |= named("custom", solved(custom, ONE_UNIT_START))
    return arrays | named("hinge", solved(hinge, ONE_UNIT_START))


@forty
def huber_loss_under_heavy_tails() -> Arrays:
    law = stats.t(1.5)
    task = problem(
        tu.Network(1, "erf", readout=0.5, train_readout=True),
        tu.Network(1, "erf"),
        optimizer=learner(1.0),
        noise=lambda uniform: 0.3 * law.ppf(uniform),
        loss=tu.losses.Huber(0.5),
    )
    return solved(task, tu.Start([[0.2]], [[0.5]]), times=(0.0, 2.0), rtol=1e-5)


@forty
def cross_entropy_of_three_classes() -> Arrays:
    network = tu.Network(3, "linear", outputs=3)
    task = problem(
        network,
        network,
        optimizer=learner(1.0),
        loss="cross_entropy",
        labels="argmax",
    )
    return solved(task, times=(0.0, 1.0, 3.0), moments=tu.Sampled(2**10))


@forty
def committee_with_logistic_loss() -> Arrays:
    teacher = tu.Network(2, "erf", readout=[1.0, 0.5])
    task = problem(
        tu.Network(2, "erf"),
        teacher,
        optimizer=learner(1.0),
        loss="logistic",
        labels="sign",
    )
    return solved(task, TWO_UNIT_START, times=(0.0, 2.0), moments=tu.Sampled(2**10))


@forty
def labels_by_a_link_and_by_a_function() -> Arrays:
    bernoulli = one_linear_unit(loss="logistic", labels=tu.labels.Logistic(slope=2.0))
    cubic = tu.labels.Function(lambda rho, xi: rho[0] ** 3 / 3)
    single_index = problem(tu.Network(1, "erf"), tu.Network(1, "linear"), labels=cubic)
    arrays = named("bernoulli", solved(bernoulli, ONE_UNIT_START))
    return arrays | named("function", solved(single_index, ONE_UNIT_START))


@forty
def classical_rules() -> Arrays:
    arrays: Arrays = {}
    for rule in ("hebbian", "perceptron", "adatron"):
        arrays |= named(rule, solved(one_linear_unit(rule=rule), ONE_UNIT_START))
    return arrays


@forty
def dropout_and_feedback_alignment() -> Arrays:
    network = tu.Network(2, "erf")
    dropout = problem(network, network, rule=tu.rules.Dropout(0.8))
    trained = tu.Network(2, "erf", readout=[0.6, 0.4], train_readout=True)
    feedback = tu.rules.FeedbackAlignment([1.0, 0.5])
    alignment = problem(trained, network, rule=feedback)
    arrays = named("dropout", solved(dropout, TWO_UNIT_START))
    return arrays | named("alignment", solved(alignment, TWO_UNIT_START))


@forty
def node_perturbation_and_reuse() -> Arrays:
    unit = tu.Network(1, "erf")
    perturbed = problem(unit, unit, rule=tu.rules.NodePerturbation(0.2))
    reused = problem(unit, unit, rule=tu.rules.Reuse(2))
    arrays = named("perturbed", solved(perturbed, ONE_UNIT_START, times=(0.0, 2.0)))
    return arrays | named("reused", solved(reused, ONE_UNIT_START, times=(0.0, 2.0)))


@forty
def reinforcement_and_a_custom_rule() -> Arrays:
    class Clipped(tu.Rule):
        jumps = False

        def update(self, sample: Any, parameters: Any, context: Any) -> Any:
            delta = jnp.clip(sample.label - sample.student, -1.0, 1.0)
            return self.result(delta, parameters)

    reinforce = one_linear_unit(rule=tu.rules.Reinforce(decisions=3))
    clipped = one_linear_unit(labels="real", rule=Clipped(), noise=0.3)
    start = tu.Start([[0.3]], [[1.0]])
    arrays = named("reinforce", solved(reinforce, start))
    return arrays | named("clipped", solved(clipped, ONE_UNIT_START))


# Optimizers, tasks and custom equations


@forty
def gradient_flow_and_momentum() -> Arrays:
    arrays = named("flow", solved(committee(2), gradient_flow=True))
    heavy = committee(2, optimizer=learner(0.2, momentum=0.5))
    slow = committee(2, optimizer=learner(0.5, momentum=tu.SlowMomentum(gamma=2.0)))
    arrays |= named("fixed", solved(heavy))
    return arrays | named("slow", solved(slow))


@forty
def schedules_and_batches_of_problems() -> Arrays:
    piecewise = tu.schedules.Piecewise([2.0], [0.5, 0.1])
    cosine = tu.schedules.Cosine(0.5, end=10.0)
    arrays: Arrays = {}
    for name, rate in (("piecewise", piecewise), ("cosine", cosine)):
        arrays |= named(name, solved(committee(2, optimizer=learner(rate))))
    task = committee(2)
    rates = {"lr": [0.1, 0.5, 1.0], "noise": [0.0, 0.1, 0.2]}
    start = tu.asymmetric_start(task)
    batch = tu.solve_batch(task, rates, start, TIMES, workers=1)
    return arrays | named("batch", curves(batch))


@forty
def tasks_over_time() -> Arrays:
    switch = two_tasks(tu.Switch(6.0))
    arrays = named("switch", solved(switch, task_start()))
    mixed = two_tasks(tu.Interleave([0.3, 0.7]), "shared", drift=tu.Drift(0.05))
    start = tu.Start(R=task_start().R, Q=task_start().Q)
    arrays |= named("interleave", solved(mixed, start))
    replay = two_tasks(tu.Replay(0.2, after=6.0))
    return arrays | named("replay", solved(replay, task_start()))


@forty
def custom_equations() -> Arrays:
    oscillator = tu.Equations(
        ("x", "v"),
        drift=lambda t, state: (state.v, -4.0 * state.x - 0.1 * state.v),
        error=lambda state: state.x**2 + state.v**2,
    )
    start = {"x": 1.0, "v": 0.0}
    arrays = named("explicit", curves(tu.solve(oscillator, start, TIMES)))
    implicit = tu.solve(oscillator, start, (0.0, 1.0), solver="implicit")
    return arrays | named("implicit", curves(implicit))


# Simulations


@forty
def simulations_of_overlaps() -> Arrays:
    optimizer = learner(0.5, batch=2, weight_decay=0.01)
    inputs = tu.Spectrum([2.0, 0.5], [1 / 3, 2 / 3])
    task = committee(2, inputs=inputs, optimizer=optimizer, noise=0.1)
    start = tu.asymmetric_start(task, dim=90)
    setting = {"times": (0.0, 1.0, 5.0), "runs": 3, "seed": 5}
    loop = tu.simulate(task, start, together=False, workers=1, **setting)
    program = tu.simulate(task, start, together=True, **setting)
    momentum = committee(2, optimizer=learner(0.2, momentum=0.5))
    heavy = tu.simulate(momentum, dim=100, workers=1, **setting)
    arrays = named("numba", curves(loop))
    arrays |= named("jax", curves(program))
    return arrays | named("momentum", curves(heavy))


@forty
def simulations_of_weights() -> Arrays:
    student = tu.Network(2, "relu", train_readout=True, train_bias=True)
    task = problem(student, tu.Network(2, "relu"), optimizer=learner(0.1), noise=0.1)
    start = tu.asymmetric_start(task, dim=60)
    setting = {"times": (0.0, 1.0, 5.0), "runs": 2, "seed": 6, "method": "weights"}
    gaussian = tu.simulate(task, start, workers=1, **setting)
    signs = tu.simulate(task, start, workers=1, inputs="rademacher", **setting)
    custom = one_linear_unit(rule=tu.rules.Perceptron(margin=0.5))
    rule = tu.simulate(custom, ONE_UNIT_START, dim=60, workers=1, **setting)
    arrays = named("gaussian", curves(gaussian))
    arrays |= named("signs", curves(signs))
    return arrays | named("rule", curves(rule))


@forty
def simulations_of_tasks_and_mixtures() -> Arrays:
    tasks = two_tasks(tu.Switch(2.0))
    setting = {"times": (0.0, 1.0, 4.0), "runs": 2, "seed": 7, "workers": 1}
    arrays = named("tasks", curves(tu.simulate(tasks, task_start(), dim=80, **setting)))
    mixture = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    classes = problem(tu.Network(1, "linear"), inputs=mixture, loss="logistic")
    runs = tu.simulate(classes, ONE_UNIT_START, dim=80, **setting)
    return arrays | named("mixture", curves(runs))


# Analyses


@forty
def comparison_fluctuations_and_single_steps() -> Arrays:
    task = committee(2)
    start = tu.asymmetric_start(task, dim=300)
    times = tu.linear_times(5.0, 6)
    theory = tu.solve(task, start, times)
    runs = tu.simulate(task, start, times=times, runs=6, seed=2, workers=1)
    compared = tu.compare(theory, runs, fluctuations=False)
    bars = tu.analysis.fluctuations(task, start, times, points=256)
    step = tu.analysis.step_moments(task, start, dim=100, samples=1000)
    return numbers(
        z_R=compared["R"].z,
        z_Q=compared["Q"].z,
        sd_error=bars.sd("error"),
        sd_R=bars.sd("R"),
        drift=step.drift,
        drift_theory=step.drift_theory,
        diffusion_theory=step.diffusion_theory,
    )


@forty
def fixed_points_rates_and_landscape() -> Arrays:
    task = committee(2, noise=0.1)
    plateau = tu.analysis.fixed_point(committee(2))
    flow = tu.analysis.fixed_point(committee(2), gradient_flow=True)
    directions = np.eye(2, 4)
    weights = 2.0 * directions
    tilted = weights + 0.1 * directions[::-1]
    point = tu.analysis.landscape(committee(2), tilted, weights)
    best = tu.analysis.best_constant_rate(task)
    A, B = tu.analysis.drift_matrices(task, 0.5 * np.eye(2), np.eye(2), np.eye(2))
    return numbers(
        plateau_R=plateau.R,
        plateau_Q=plateau.Q,
        plateau_error=plateau.error,
        plateau_rates=[mode.rate for mode in plateau.modes],
        flow_Q=flow.Q,
        flow_error=flow.error,
        critical=tu.analysis.critical_learning_rate(task).rate,
        decay=tu.analysis.decay_rate(task).rate,
        best=best.learning_rate,
        floor=tu.analysis.noise_floor(task).per_variance,
        gradient=point.gradient,
        curvatures=[curvature.value for curvature in point.spectrum],
        A=A,
        B=B,
        error=tu.generalization_error(task, 0.5 * np.eye(2), np.eye(2)),
    )


@forty
def curves_plateaus_escapes_and_exponents() -> Arrays:
    task = committee(2, optimizer=learner(1.5))
    start = tu.Start(
        R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000
    )
    theory = tu.solve(task, start, tu.linear_times(150.0, 301))
    found = tu.analysis.plateaus(theory)
    specialized = tu.analysis.specialization(theory)
    escape = tu.analysis.escape_time(task, start)
    law = tu.analysis.escape_distribution(task, start, samples=20)
    phases = tu.analysis.phases(theory)
    spectrum = tu.analysis.spectral_exponent(tu.PowerLaw(beta=0.5, levels=100))
    abscissa = np.geomspace(1.0, 100.0, 31)
    fit = tu.analysis.fit_exponent(abscissa, 3.0 * abscissa**-0.5 + 0.001)
    return numbers(
        heights=[plateau.height for plateau in found],
        ends=[plateau.end for plateau in found],
        index=specialized.index,
        phase_starts=[phase.start for phase in phases],
        stopping=tu.analysis.early_stopping(theory).time,
        escape=escape.time,
        escape_rate=escape.rate,
        escape_times=law.times,
        beta=spectrum.beta,
        slope=fit.slope,
    )


@forty
def continual_learning_and_protocols() -> Arrays:
    task = two_tasks(tu.Switch(20.0))
    times = tu.linear_times(40.0, 21)
    theory = tu.solve(task, task_start(), times)
    lost = tu.analysis.forgetting(theory)
    reuse = tu.analysis.node_reuse(theory)
    moved = tu.analysis.transfer(task, task_start(), times, target=0.05)
    against = tu.analysis.interference(
        task, task_start(), times, similarity=[0.2, 0.4, 0.6, 0.8]
    )
    unit = tu.Network(1, "linear")
    noisy = problem(unit, unit, noise=0.5)
    zero = tu.Start([[0.0]], [[0.0]])
    greedy = tu.schedules.greedy(noisy, zero, t_max=10.0)
    optimal = tu.schedules.optimize(
        noisy, zero, 10.0, {"lr": (0.0, 1.0)}, segments=4, starts=1
    )
    return numbers(
        amount=lost.amount,
        shares=reuse.shares,
        after=moved.after,
        scratch=moved.scratch,
        interference=against.forgetting,
        greedy=[float(greedy(time)) for time in (0.0, 3.0, 9.0)],
        optimal=[float(optimal.schedules["lr"](time)) for time in (1.0, 4.0, 9.0)],
        value=optimal.value,
    )


@forty
def sweeps_files_and_random_starts() -> Arrays:
    task = committee(2)
    with tempfile.TemporaryDirectory() as folder:
        swept = tu.sweep(
            task,
            {"lr": [0.2, 0.5], "noise": [0.0, 0.1]},
            ["final_error", "critical_learning_rate"],
            times=TIMES,
            start="asymmetric",
            out=Path(folder) / "sweep",
            executor="serial",
        )
        theory = tu.solve(task, tu.asymmetric_start(task), TIMES)
        path = theory.save(Path(folder) / "theory.nc")
        loaded = curves(tu.load(path))
    start = tu.random_start(task, dim=500, seed=3)
    measures = {name: swept[name].values for name in swept.dataset.data_vars}
    numeric = {name: v for name, v in measures.items() if v.dtype.kind in "iuf"}
    return named("loaded", loaded) | numeric | numbers(R=start.R, Q=start.Q, T=start.T)


# Saving and comparing


def about() -> dict[str, str]:
    """The versions that the bits depend on besides the code."""
    return {
        "tutelage": tu.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {platform.processor()}".strip(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def save(path: Path, only: list[str]) -> None:
    """Compute the problems and write their arrays to one file."""
    stored: Arrays = {"about": np.asarray(json.dumps(about()))}
    for name, compute in PROBLEMS.items():
        if only and name not in only:
            continue
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tu.errors.TutelageWarning)
            arrays = compute()
        stored |= {f"{name}/{key}": values for key, values in arrays.items()}
        print(f"{name}: {len(arrays)} arrays, {time.perf_counter() - begin:.1f} s")
    np.savez_compressed(path, allow_pickle=False, **stored)
    print(f"written to {path}")


def relative_difference(before: np.ndarray, after: np.ndarray) -> float:
    """The largest relative difference of two arrays; 0 if they are bit-identical.

    Entries are compared with their own size, or with a small share of the largest
    entry if that is more. Arrays of other shapes, or NaN in other places, are
    infinitely different.
    """
    same_form = before.shape == after.shape and before.dtype == after.dtype
    if same_form and before.tobytes() == after.tobytes():
        return 0.0
    if before.shape != after.shape or {before.dtype.kind, after.dtype.kind} - set(
        "iufbc"
    ):
        return np.inf
    if before.size == 0:
        return np.inf
    both_nan = np.isnan(before) & np.isnan(after)
    equal = both_nan | (before == after)
    if np.any(~equal & ~(np.isfinite(before) & np.isfinite(after))):
        return np.inf
    old = np.where(equal, 0.0, before)
    new = np.where(equal, 0.0, after)
    largest = np.max(np.abs(np.where(np.isfinite(before), before, 0.0)))
    scale = np.maximum(np.maximum(np.abs(old), np.abs(new)), SMALL_ENTRY * largest)
    difference = np.abs(new - old) / np.where(scale > 0.0, scale, 1.0)
    # Equal numbers of unequal bits, such as 0 and -0, still count as a difference.
    return max(float(difference.max()), np.finfo(float).tiny)


def read(path: Path) -> tuple[str, dict[str, Arrays]]:
    """The arrays of a file by problem, and what the file was computed with."""
    problems: dict[str, Arrays] = {}
    with np.load(path, allow_pickle=False) as stored:
        computed_with = str(stored["about"])
        for key in stored.files:
            name, separator, quantity = key.partition("/")
            if separator:
                problems.setdefault(name, {})[quantity] = stored[key]
    return computed_with, problems


def compare(first: Path, second: Path, rtol: float) -> bool:
    """Print one line for each problem; true if no difference exceeds rtol."""
    computed_with, before = read(first)
    computed_again_with, after = read(second)
    if computed_with != computed_again_with:
        print(f"computed with {computed_with}\n     and with {computed_again_with}")
    agree = True
    for name in sorted(before.keys() | after.keys()):
        old = before.get(name, {})
        new = after.get(name, {})
        lost = sorted(old.keys() ^ new.keys())
        shared = sorted(old.keys() & new.keys())
        differences = {key: relative_difference(old[key], new[key]) for key in shared}
        largest = max(differences.values(), default=0.0)
        if lost:
            print(f"{name}: only in one file: {', '.join(lost)}")
        elif largest == 0.0:
            print(f"{name}: bit-identical ({len(shared)} arrays)")
        else:
            worst = max(differences, key=lambda key: differences[key])
            print(f"{name}: largest relative difference {largest:.1e} in {worst}")
        agree = agree and not lost and largest <= rtol
    return agree


def compile_quickly() -> None:
    """Compile without LLVM's optimizations: most of the time is compilation."""
    flags = (
        "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    )
    os.environ.setdefault("XLA_FLAGS", flags)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.forty", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser(
        "save", help="compute the problems and store the arrays"
    )
    saving.add_argument("file", type=Path)
    saving.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", choices=PROBLEMS
    )
    comparing = commands.add_parser("compare", help="compare two files")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--rtol", type=float, default=0.0)
    options = parser.parse_args(arguments)
    if options.command == "save":
        compile_quickly()
        save(options.file, options.only)
        return 0
    agree = compare(options.first, options.second, options.rtol)
    print("no difference" if agree else f"differences above rtol {options.rtol:g}")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
