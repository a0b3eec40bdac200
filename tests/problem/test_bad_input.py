"""Bad input is refused when it is given, in one sentence that names the value, the rule and the fix."""

import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import tutelage as tu
from tests.problem.messages import require_form, require_refusal
from tests.problems import linear_regression

NAN = float("nan")
INF = float("inf")
NET = tu.Network(2)
PROBLEM = tu.Problem(NET, NET)
START = tu.Start(R=[[0.1, 0.0], [0.0, 0.2]], Q=0.1 * np.eye(2))
TOML = "[student]\nhidden = 2\n[teacher]\nhidden = 2\n"


def problem(**parts):
    return tu.Problem(**{"student": NET, "teacher": NET} | parts)


def solve(times, start=START, **options):
    return tu.solve(PROBLEM, start, times=times, **options)


def toml(text):
    return tu.Problem.from_toml(TOML + text)


def traced_times():
    return jax.jit(lambda t: solve(t).error)(jnp.array([0.0, 1.0]))


def step(x):
    return x > 0


def total(x):
    return jnp.sum(x)


def numpy_only(x):
    return np.array([float(entry) for entry in x])


LOCAL = lambda x: jnp.sin(x)  # noqa: E731  no module has it by name
PER_LEVEL = problem(inputs=tu.PowerLaw(1.0, 3))
GRAM = problem(teacher=tu.Network(2, gram=[[1.0, 0.2], [0.2, 1.0]]))
SPHERE = problem(optimizer=tu.SGD(0.1, spherical=True))

# name: (what is called, what the message must mention)
CASES = {
    # networks
    "hidden zero": (lambda: tu.Network(0), ["hidden", "0", "1 or more"]),
    "hidden negative": (lambda: tu.Network(-3), ["hidden", "-3"]),
    "hidden fraction": (lambda: tu.Network(2.5), ["hidden", "2.5", "whole"]),
    "hidden whole float": (lambda: tu.Network(2.0), ["hidden", "2.0", "whole"]),
    "hidden bool": (lambda: tu.Network(True), ["hidden", "True"]),
    "hidden word": (lambda: tu.Network("3"), ["hidden", "'3'"]),
    "hidden None": (lambda: tu.Network(None), ["hidden", "None"]),
    "hidden array": (lambda: tu.Network(np.array([2, 3])), ["hidden", "[2, 3]"]),
    "activation unknown": (
        lambda: tu.Network(2, "eref"),
        ["activation", "'eref'", "nearest is 'erf'"],
    ),
    "activation unlike any": (
        lambda: tu.Network(2, "zzz"),
        ["activation", "'zzz'", "relu"],
    ),
    "activation number": (lambda: tu.Network(2, 3), ["activation", "3", "erf"]),
    "activation not elementwise": (
        lambda: tu.Network(2, total),
        ["total", "mixes", "each entry"],
    ),
    "activation of two numbers": (
        lambda: tu.Network(2, lambda x: jnp.stack([x, x])),
        ["<lambda>", "each entry"],
    ),
    "activation of nothing": (
        lambda: tu.Network(2, lambda x: None),
        ["no array", "real numbers"],
    ),
    "activation not JAX": (
        lambda: tu.Network(2, numpy_only),
        ["numpy_only", "jax.numpy"],
    ),
    "activation boolean": (
        lambda: tu.Network(2, step),
        ["step", "bool", "real numbers"],
    ),
    "activation infinite": (
        lambda: tu.Network(2, jnp.log),
        ["log", "finite", "x = -6"],
    ),
    "readout shape": (
        lambda: tu.Network(3, readout=[1.0, 2.0]),
        ["readout", "(2,)", "(3,)"],
    ),
    "readout NaN": (lambda: tu.Network(2, readout=NAN), ["readout", "nan", "finite"]),
    "readout word": (lambda: tu.Network(2, readout="1"), ["readout", "'1'", "number"]),
    "readout ragged": (
        lambda: tu.Network(2, readout=[[1.0], [1.0, 2.0]]),
        ["readout", "[1.0, 2.0]"],
    ),
    "readout complex": (lambda: tu.Network(2, readout=1j), ["readout", "1j"]),
    "bias infinite": (
        lambda: tu.Network(2, bias=[0.0, INF]),
        ["bias", "inf", "finite"],
    ),
    "train_readout number": (
        lambda: tu.Network(2, train_readout=1),
        ["train_readout", "1", "True or False"],
    ),
    "train_bias word": (
        lambda: tu.Network(2, train_bias="yes"),
        ["train_bias", "'yes'"],
    ),
    "gram shape": (lambda: tu.Network(2, gram=np.eye(3)), ["gram", "(3, 3)", "(2, 2)"]),
    "gram asymmetric": (
        lambda: tu.Network(2, gram=[[1, 0.5], [0.1, 1]]),
        ["gram", "0.5", "0.1", "symmetric"],
    ),
    "gram indefinite": (
        lambda: tu.Network(2, gram=[[1, 2], [2, 1]]),
        ["gram", "eigenvalue -1", "positive"],
    ),
    "gram NaN": (lambda: tu.Network(1, gram=[[NAN]]), ["gram", "nan"]),
    # inputs
    "beta negative": (lambda: tu.PowerLaw(-0.5, 4), ["beta", "-0.5", "zero or more"]),
    "beta array": (
        lambda: tu.PowerLaw([1.0, 2.0], 4),
        ["beta", "(2,)", "single number"],
    ),
    "levels zero": (lambda: tu.PowerLaw(1.0, 0), ["levels", "0"]),
    "levels bool": (lambda: tu.PowerLaw(1.0, True), ["levels", "True"]),
    "eigenvalues empty": (lambda: tu.Spectrum([]), ["eigenvalues", "(0,)"]),
    "eigenvalues scalar": (
        lambda: tu.Spectrum(1.0),
        ["eigenvalues", "single number", "(levels,)"],
    ),
    "eigenvalues zero": (
        lambda: tu.Spectrum([1.0, 0.0]),
        ["eigenvalues", "0", "positive"],
    ),
    "eigenvalues negative": (
        lambda: tu.Spectrum([1.0, -2.0]),
        ["eigenvalues", "-2", "positive"],
    ),
    "eigenvalues NaN": (lambda: tu.Spectrum([1.0, NAN]), ["eigenvalues", "nan"]),
    "fractions sum": (
        lambda: tu.Spectrum([1.0, 2.0], [0.5, 0.6]),
        ["fractions", "1.1", "sum 1"],
    ),
    "fractions shape": (
        lambda: tu.Spectrum([1.0, 2.0], [1.0]),
        ["fractions", "(1,)", "(2,)"],
    ),
    "fractions negative": (
        lambda: tu.Spectrum([1.0, 2.0], [1.5, -0.5]),
        ["fractions", "-0.5"],
    ),
    "normalize word": (
        lambda: tu.Spectrum([1.0], normalize="no"),
        ["normalize", "'no'"],
    ),
    "data one sample": (
        lambda: tu.from_data(np.ones((1, 4))),
        ["X", "(1, 4)", "two samples"],
    ),
    "data vector": (lambda: tu.from_data(np.ones(4)), ["X", "(4,)"]),
    "data without features": (lambda: tu.from_data(np.ones((5, 0))), ["X", "(5, 0)"]),
    "data NaN": (lambda: tu.from_data([[1.0, NAN], [0.0, 1.0]]).inputs, ["X", "nan"]),
    "data words": (lambda: tu.from_data([["a", "b"], ["c", "d"]]), ["X", "'a'"]),
    "data constant": (
        lambda: tu.from_data(np.ones((5, 3))),
        ["no positive eigenvalue", "variance"],
    ),
    "data too many levels": (
        lambda: tu.from_data(np.eye(4)[:, :2], levels=9),
        ["levels", "9", "2"],
    ),
    "covariance oblong": (
        lambda: tu.Spectrum.from_covariance(np.ones((2, 3))),
        ["covariance", "(2, 3)", "square"],
    ),
    "covariance negative": (
        lambda: tu.Spectrum.from_covariance(np.diag([1.0, -1.0])),
        ["covariance", "-1"],
    ),
    "dim below levels": (lambda: tu.PowerLaw(1.0, 5).level_dims(3), ["dim", "3", "5"]),
    "dim fraction": (lambda: tu.Isotropic().level_dims(2.5), ["dim", "2.5"]),
    # schedules and SGD
    "lr zero": (lambda: tu.SGD(0.0), ["lr", "0", "positive"]),
    "lr negative": (lambda: tu.SGD(-0.1), ["lr", "-0.1", "positive"]),
    "lr NaN": (lambda: tu.SGD(NAN), ["lr", "nan", "finite"]),
    "lr infinite": (lambda: tu.SGD(INF), ["lr", "inf", "finite"]),
    "lr word": (lambda: tu.SGD("0.5"), ["lr", "'0.5'", "number"]),
    "lr bool": (lambda: tu.SGD(True), ["lr", "True", "number"]),
    "lr None": (lambda: tu.SGD(None), ["lr", "None", "schedule"]),
    "lr several": (lambda: tu.SGD([0.1, 0.2]), ["lr", "(2,)", "vmap"]),
    "lr class": (
        lambda: tu.SGD(tu.schedules.PowerDecay),
        ["lr", "PowerDecay", "schedule"],
    ),
    "readout_lr negative": (lambda: tu.SGD(0.1, readout_lr=-1), ["readout_lr", "-1"]),
    "bias_lr word": (lambda: tu.SGD(0.1, bias_lr="fast"), ["bias_lr", "'fast'"]),
    "batch zero": (lambda: tu.SGD(0.1, batch=0), ["batch", "0", "1 or more"]),
    "batch bool": (lambda: tu.SGD(0.1, batch=True), ["batch", "True"]),
    "decay negative": (
        lambda: tu.SGD(0.1, weight_decay=-1e-3),
        ["weight_decay", "-0.001", "zero or more"],
    ),
    "momentum one": (lambda: tu.SGD(0.1, momentum=1.0), ["momentum", "1", "below 1"]),
    "momentum negative": (lambda: tu.SGD(0.1, momentum=-0.2), ["momentum", "-0.2"]),
    "momentum word": (lambda: tu.SGD(0.1, momentum="heavy"), ["momentum", "'heavy'"]),
    "gamma zero": (lambda: tu.SlowMomentum(0.0), ["gamma", "0", "positive"]),
    "force negative": (lambda: tu.SlowMomentum(1.0, k=-1.0), ["k", "-1", "positive"]),
    "force several": (lambda: tu.SlowMomentum(1.0, k=[1.0, 2.0]), ["k", "(2,)"]),
    "spherical with decay": (
        lambda: tu.SGD(0.1, spherical=True, weight_decay=0.1),
        ["weight_decay", "0.1", "spherical"],
    ),
    "spherical with slow": (
        lambda: tu.SGD(0.1, spherical=True, momentum=tu.SlowMomentum(1.0)),
        ["spherical", "SlowMomentum"],
    ),
    "trainable empty": (lambda: tu.SGD(0.1, trainable=[]), ["trainable", "[]"]),
    "trainable number": (lambda: tu.SGD(0.1, trainable=2), ["trainable", "2", "list"]),
    "trainable ragged": (
        lambda: tu.SGD(0.1, trainable=[[True], [True, False]]),
        ["trainable", "mask"],
    ),
    "trainable fractions": (lambda: tu.SGD(0.1, trainable=[0.5]), ["trainable", "0.5"]),
    "constant zero": (
        lambda: tu.schedules.Constant(0.0),
        ["learning rate", "0", "positive"],
    ),
    "constant several": (
        lambda: tu.schedules.Constant([0.1, 0.2]),
        ["value", "(2,)", "single number"],
    ),
    "decay exponent": (
        lambda: tu.schedules.PowerDecay(0.5, exponent=-1.0),
        ["exponent", "-1"],
    ),
    "decay timescale": (
        lambda: tu.schedules.PowerDecay(0.5, timescale=0.0),
        ["timescale", "0"],
    ),
    "cosine end": (lambda: tu.schedules.Cosine(0.5, end=-2.0), ["end", "-2"]),
    "cosine final": (
        lambda: tu.schedules.Cosine(0.5, 10.0, final=NAN),
        ["final", "nan"],
    ),
    "piecewise count": (
        lambda: tu.schedules.Piecewise([1.0], [0.5]),
        ["(1,)", "(2,)", "One value more"],
    ),
    "piecewise unsorted": (
        lambda: tu.schedules.Piecewise([2.0, 1.0], [0.5, 0.4, 0.3]),
        ["switches", "from 2 to 1", "increase"],
    ),
    "piecewise negative": (
        lambda: tu.schedules.Piecewise([1.0], [0.5, -0.1]),
        ["values", "-0.1", "zero or more"],
    ),
    "knots count": (
        lambda: tu.schedules.Interpolated([0.0, 1.0], [0.5]),
        ["(2,)", "(1,)", "each time"],
    ),
    "knots unsorted": (
        lambda: tu.schedules.Interpolated([2.0, 1.0], [0.5, 0.4]),
        ["times", "from 2 to 1", "increase"],
    ),
    "knots negative": (
        lambda: tu.schedules.Interpolated([-1.0, 1.0], [0.5, 0.4]),
        ["times", "-1", "zero or more"],
    ),
    "knots zero": (
        lambda: tu.schedules.Interpolated([0.0, 1.0], [0.5, 0.0]),
        ["values", "0", "positive"],
    ),
    # problems
    "student word": (lambda: problem(student="erf"), ["student", "'erf'", "Network"]),
    "teacher None": (lambda: problem(teacher=None), ["teacher", "None", "Network"]),
    "inputs word": (
        lambda: problem(inputs="isotropic"),
        ["inputs", "'isotropic'", "Isotropic()"],
    ),
    "optimizer number": (
        lambda: problem(optimizer=0.1),
        ["optimizer", "0.1", "SGD(lr)"],
    ),
    "noise negative": (lambda: problem(noise=-0.1), ["noise", "-0.1", "zero or more"]),
    "noise None": (lambda: problem(noise=None), ["noise", "None"]),
    "noise several": (
        lambda: problem(noise=[0.1, 0.2]),
        ["noise", "(2,)", "single number"],
    ),
    "student sign": (
        lambda: problem(student=tu.Network(2, "sign")),
        ["'sign'", "gradient", "teacher"],
    ),
    "student gram": (
        lambda: problem(student=tu.Network(2, gram=np.eye(2))),
        ["gram", "student", "teacher"],
    ),
    "teacher trained": (
        lambda: problem(teacher=tu.Network(2, train_readout=True)),
        ["train_readout", "teacher"],
    ),
    "teacher bias trained": (
        lambda: problem(teacher=tu.Network(2, train_bias=True)),
        ["train_bias", "teacher"],
    ),
    "gram levels": (
        lambda: problem(teacher=tu.Network(2, gram=np.stack([np.eye(2)] * 2))),
        ["gram", "(2, 2, 2)", "(1, 2, 2)"],
    ),
    "trainable too high": (
        lambda: problem(optimizer=tu.SGD(0.1, trainable=[1])),
        ["trainable", "[1]", "0 to 0"],
    ),
    "trainable negative": (
        lambda: problem(optimizer=tu.SGD(0.1, trainable=[-1])),
        ["trainable", "[-1]"],
    ),
    "trainable mask": (
        lambda: problem(optimizer=tu.SGD(0.1, trainable=[True] * 3)),
        ["trainable", "(3,)", "(1,)"],
    ),
    # changes
    "replace unknown": (
        lambda: PROBLEM.replace(learningrate=0.1),
        ["'learningrate'", "lr"],
    ),
    "replace misspelt": (
        lambda: PROBLEM.replace(noize=0.1),
        ["'noize'", "nearest is 'noise'"],
    ),
    "replace ambiguous": (
        lambda: PROBLEM.replace(hidden=4),
        ["'hidden'", "student and teacher", "'student.hidden'"],
    ),
    "replace wrong part": (
        lambda: PROBLEM.replace(**{"optimizer.hidden": 4}),
        ["'optimizer.hidden'", "optimizer.lr"],
    ),
    "replace bad value": (lambda: PROBLEM.replace(lr=-1.0), ["lr", "-1"]),
    # starts
    "R vector": (lambda: tu.Start(R=[0.1], Q=[[1.0]]), ["R", "(1,)", "(K, M)"]),
    "Q shape": (
        lambda: tu.Start(R=np.zeros((2, 3)), Q=np.eye(3)),
        ["Q", "(3, 3)", "(2, 2)"],
    ),
    "Q asymmetric": (
        lambda: tu.Start(R=np.zeros((2, 1)), Q=[[1, 0.3], [0.2, 1]]),
        ["Q", "0.3", "0.2", "symmetric"],
    ),
    "Q negative": (lambda: tu.Start(R=[[0.0]], Q=[[-1.0]]), ["Q", "eigenvalue -1"]),
    "R NaN": (lambda: tu.Start(R=[[NAN]], Q=[[1.0]]), ["R", "nan"]),
    "T shape": (
        lambda: tu.Start(R=[[0.0]], Q=[[1.0]], T=np.eye(2)),
        ["T", "(2, 2)", "(1, 1)"],
    ),
    "R beyond norms": (
        lambda: tu.Start(R=[[2.0]], Q=[[1.0]], T=[[1.0]]),
        ["joint", "eigenvalue -1", "sqrt"],
    ),
    "R beyond identity": (
        lambda: tu.Start([[2.0, 0], [0, 0]], np.eye(2)).blocks(PROBLEM),
        ["joint", "-1"],
    ),
    "start readout": (
        lambda: tu.Start(R=[[0.0]], Q=[[1.0]], readout=[1.0, 2.0]),
        ["readout", "(2,)", "(1,)"],
    ),
    "start dim": (lambda: tu.Start(R=[[0.0]], Q=[[1.0]], dim=0), ["dim", "0"]),
    "start units": (
        lambda: tu.Start(np.zeros((3, 2)), np.eye(3)).blocks(PROBLEM),
        ["(3, 2)", "2 student", "2 teacher"],
    ),
    "start levels": (
        lambda: tu.Start(np.zeros((2, 2, 2)), np.stack([np.eye(2)] * 2)).blocks(
            PER_LEVEL
        ),
        ["(2, 2, 2)", "3 levels"],
    ),
    "T against gram": (
        lambda: tu.Start(np.zeros((2, 2)), np.eye(2), T=np.eye(2)).blocks(GRAM),
        ["0.2", "gram", "equal"],
    ),
    "sphere of norm 0": (
        lambda: tu.Start(np.zeros((2, 2)), np.diag([1.0, 0])).blocks(SPHERE),
        ["unit 2", "norm 0", "spherical"],
    ),
    "random dim zero": (lambda: tu.random_start(PROBLEM, dim=0), ["dim", "0"]),
    "random dim below levels": (
        lambda: tu.random_start(PER_LEVEL, dim=2),
        ["dim", "2", "3 levels"],
    ),
    "random scale": (
        lambda: tu.random_start(PROBLEM, scale=-1.0),
        ["scale", "-1", "zero or more"],
    ),
    "random scales": (
        lambda: tu.random_start(PROBLEM, scale=[0.1, 0.2]),
        ["scale", "(2,)", "single number"],
    ),
    "random seed": (
        lambda: tu.random_start(PROBLEM, dim=10, seed=-1),
        ["seed", "-1", "0 or more"],
    ),
    "random rank": (lambda: tu.random_start(GRAM, dim=1), ["gram", "rank 2", "dim"]),
    "weights rows": (
        lambda: tu.start_from_weights(PROBLEM, np.ones((3, 9)), np.ones((2, 9))),
        ["weights", "(3, 9)", "(2, N)"],
    ),
    "weights columns": (
        lambda: tu.start_from_weights(PROBLEM, np.ones((2, 9)), np.ones((2, 8))),
        ["9", "8", "columns"],
    ),
    "weights NaN": (
        lambda: tu.start_from_weights(PROBLEM, np.full((2, 9), NAN), np.ones((2, 9))),
        ["weights", "nan"],
    ),
    # times and options of solve
    "times unsorted": (
        lambda: solve([0.0, 2.0, 1.0]),
        ["times", "from 2 to 1", "increase"],
    ),
    "times repeated": (
        lambda: solve([0.0, 1.0, 1.0]),
        ["times", "from 1 to 1", "increase"],
    ),
    "times negative": (lambda: solve([-1.0, 1.0]), ["times", "-1", "zero or more"]),
    "times NaN": (lambda: solve([0.0, NAN]), ["times", "nan", "finite"]),
    "times infinite": (lambda: solve(INF), ["inf", "finite"]),
    "times empty": (lambda: solve([]), ["times", "(0,)"]),
    "times None": (lambda: solve(None), ["times", "None"]),
    "times word": (lambda: solve("100"), ["times", "'100'"]),
    "times matrix": (lambda: solve([[0.0, 1.0]]), ["times", "(1, 2)"]),
    "times zero": (lambda: solve(0.0), ["0", "positive"]),
    "times traced": (traced_times, ["times", "traced"]),
    "solver unknown": (
        lambda: solve(1.0, solver="implicet"),
        ["solver", "'implicet'", "nearest is 'implicit'"],
    ),
    "gradient unknown": (
        lambda: solve(1.0, gradient="backward"),
        ["gradient", "'backward'", "reverse"],
    ),
    "keep unknown": (lambda: solve(1.0, keep=["blocks"]), ["keep", "blocks", "fields"]),
    "rtol zero": (lambda: solve(1.0, rtol=0.0), ["rtol", "0", "positive"]),
    "max_steps float": (
        lambda: solve(1.0, max_steps=1e5),
        ["max_steps", "100000.0", "whole"],
    ),
    "flow word": (lambda: solve(1.0, gradient_flow="yes"), ["gradient_flow", "'yes'"]),
    "problem word": (lambda: tu.solve("erf"), ["problem", "str", "Problem"]),
    "start dictionary": (
        lambda: solve(1.0, start={"R": 0}),
        ["start", "dict", "random_start"],
    ),
    "start mismatch": (
        lambda: solve(1.0, start=tu.Start([[0.1]], [[1.0]])),
        ["(1, 1)", "2 student"],
    ),
    "schedule negative": (
        lambda: tu.solve(problem(optimizer=tu.SGD(lambda t: 1 - t)), START, [0.0, 3.0]),
        ["lr", "-2", "time 3"],
    ),
    "schedule dips": (
        lambda: tu.solve(
            problem(optimizer=tu.SGD(lambda t: jnp.cos(t))),
            START,
            np.linspace(0, 4 * np.pi, 33),
        ),
        ["lr", "time", "zero or more"],
    ),
    "schedule shape": (
        lambda: tu.solve(problem(optimizer=tu.SGD(lambda t: jnp.ones(2))), START, 1.0),
        ["lr", "(2,)", "one number"],
    ),
    "schedule not JAX": (
        lambda: tu.solve(problem(optimizer=tu.SGD(lambda t: float(t))), START, 1.0),
        ["lr", "jax.numpy"],
    ),
    "log_times order": (lambda: tu.log_times(2.0, 1.0), ["first", "2", "1"]),
    "linear_times count": (
        lambda: tu.linear_times(1.0, 1),
        ["count", "1", "2 or more"],
    ),
    # texts
    "TOML broken": (
        lambda: tu.Problem.from_toml("noise = 0.1\nstudent = = 3\n"),
        ["TOML", "line 2"],
    ),
    "TOML file": (
        lambda: tu.Problem.from_toml("problem.toml"),
        ["name of a file", "read_text"],
    ),
    "TOML path": (lambda: tu.Problem.from_toml(None), ["TOML", "None", "text"]),
    "unknown argument of SGD": (
        lambda: tu.SGD(learning_rate=1.0),
        ["SGD", "'learning_rate'", "nearest is 'lr'"],
    ),
    "unknown argument of a rule": (
        lambda: tu.rules.Dropout(kep=0.5),
        ["Dropout", "'kep'", "nearest is 'keep'"],
    ),
    "TOML unknown name": (
        lambda: toml("[optimizer]\nlearning_rate = 1\n"),
        ["[optimizer]", "'learning_rate'", "nearest is 'lr'"],
    ),
    "TOML misspelt table": (
        lambda: toml("[optimiser]\nlr = 1\n"),
        ["'optimiser'", "nearest is 'optimizer'"],
    ),
    "TOML misspelt name": (
        lambda: toml("[optimizer]\nlr = 1\nbatchh = 2\n"),
        ["'batchh'", "nearest is 'batch'"],
    ),
    "TOML no teacher": (
        lambda: tu.Problem.from_toml("[student]\nhidden = 2\n"),
        ["[teacher]"],
    ),
    "TOML empty": (lambda: tu.Problem.from_toml(""), ["[student]"]),
    "TOML no hidden": (
        lambda: tu.Problem.from_toml("[student]\n[teacher]\nhidden = 1\n"),
        ["[student]", "hidden"],
    ),
    "TOML bad value": (
        lambda: toml("[optimizer]\nlr = -1\n"),
        ["[optimizer]", "lr is -1", "positive"],
    ),
    "TOML word value": (
        lambda: toml('[optimizer]\nlr = "fast"\n'),
        ["[optimizer]", "'fast'"],
    ),
    "TOML table value": (
        lambda: toml("[optimizer]\nbatch = { a = 1 }\n"),
        ["batch", "'a'", "whole"],
    ),
    "TOML NaN": (lambda: toml("[optimizer]\nlr = nan\n"), ["lr", "nan"]),
    "TOML not a table": (
        lambda: tu.Problem.from_toml("student = 3\nteacher = 3\n"),
        ["student", "3", "table"],
    ),
    "TOML inputs kind": (
        lambda: toml('[inputs]\nkind = "powerlaw"\n'),
        ["inputs.kind", "'powerlaw'", "'power_law'"],
    ),
    "TOML inputs lack": (
        lambda: toml('[inputs]\nkind = "power_law"\nbeta = 1.0\n'),
        ["[inputs]", "levels"],
    ),
    "TOML kind list": (lambda: toml("[inputs]\nkind = []\n"), ["inputs.kind", "[]"]),
    "TOML schedule kind": (
        lambda: toml('[optimizer]\nlr = { kind = "cos", initial = 1.0 }\n'),
        ["optimizer.lr.kind", "'cos'"],
    ),
    "TOML schedule lacks": (
        lambda: toml('[optimizer]\nlr = { kind = "cosine", initial = 1.0 }\n'),
        ["[optimizer.lr]", "end"],
    ),
    "TOML schedule value": (
        lambda: toml('[optimizer]\nlr = { kind = "constant", value = -1.0 }\n'),
        ["[optimizer.lr]", "-1"],
    ),
    "TOML momentum": (
        lambda: toml("[optimizer]\nlr = 1.0\nmomentum = { gama = 1.0 }\n"),
        ["'gama'", "'gamma'"],
    ),
    "TOML spectrum scale": (
        lambda: toml('[inputs]\nkind="spectrum"\neigenvalues=[1.0]\nscale=-1.0\n'),
        ["scale", "-1"],
    ),
    "TOML spectrum dim": (
        lambda: toml('[inputs]\nkind="spectrum"\neigenvalues=[1.0]\nknown_dim=0\n'),
        ["known_dim", "0"],
    ),
    "JSON broken": (
        lambda: tu.Problem.from_json('{"student": }'),
        ["JSON", "line 1", "column"],
    ),
    "JSON list": (lambda: tu.Problem.from_json("[1, 2]"), ["[1, 2]", "student"]),
    "JSON null": (lambda: tu.Problem.from_json("null"), ["None"]),
    "JSON bytes": (lambda: tu.Problem.from_json(b"{}"), ["text"]),
    "not stored: activation": (
        lambda: problem(student=tu.Network(2, LOCAL)).to_toml(),
        ["'<lambda>'", "function"],
    ),
    "not stored: schedule": (
        lambda: problem(optimizer=tu.SGD(lambda t: 0.1)).to_json(),
        ["lr", "function"],
    ),
    "not stored: force": (
        lambda: problem(
            optimizer=tu.SGD(0.1, momentum=tu.SlowMomentum(1.0, k=lambda t: 0.1))
        ).to_json(),
        ["k", "function"],
    ),
    # a user's own equations
    "equations word": (
        lambda: tu.Equations("m", lambda t, s: s, lambda s: s[0]),
        ["names", "'m'"],
    ),
    "equations twice": (
        lambda: tu.Equations(("m", "m"), lambda t, s: s, lambda s: s[0]),
        ["['m', 'm']"],
    ),
    "equations drift": (
        lambda: tu.Equations(("m",), None, lambda s: s[0]),
        ["drift", "None"],
    ),
    "equations start": (
        lambda: tu.solve(linear_regression(), {"m": 0.0}, 1.0),
        ["['m']", "['m', 'q']"],
    ),
    "equations no start": (
        lambda: tu.solve(linear_regression(), times=1.0),
        ["initial", "['m', 'q']"],
    ),
    "equations start NaN": (
        lambda: tu.solve(linear_regression(), [NAN, 0.0], 1.0),
        ["m", "nan"],
    ),
    # missing files
    "load None": (lambda: tu.load(None), ["path", "None"]),
    "load missing": (lambda: tu.load("nowhere.nc"), ["nowhere.nc", "no file"]),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_in_one_sentence(name):
    call, mentions = CASES[name]
    with pytest.raises(ValueError, match=r".") as caught:
        call()
    require_refusal(caught.value, *mentions)


def test_files_that_are_not_ours_are_refused(tmp_path):
    (tmp_path / "notes.nc").write_text("not a NetCDF file")
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(
        tmp_path / "foreign.nc", engine="h5netcdf"
    )
    for name, mention in (
        ("notes.nc", "not a NetCDF file"),
        ("foreign.nc", "no schema"),
        ("", "folder"),
        ("gone.nc", "no file"),
    ):
        with pytest.raises(tu.InputError) as caught:
            tu.load(tmp_path / name)
        require_refusal(caught.value, mention, str(tmp_path))


def test_the_form_itself_is_checked():
    """A negative control: messages of the wrong form do not pass."""
    for bad in (
        "lr is 0; it must be positive",
        "a; b.\nc.",
        "a; b. C. D.",
        "lr is wrong.",
        "ValueError: x; y.",
        " a; b.",
    ):
        with pytest.raises(AssertionError):
            require_form(bad)
    with pytest.raises(AssertionError):
        require_form("lr is 0; it must be positive.", "readout")


NOT_COUNTS = st.one_of(
    st.integers(max_value=0),
    st.floats(),
    st.booleans(),
    st.text(max_size=8),
    st.none(),
    st.lists(st.integers(), max_size=3),
)
NOT_NUMBERS = st.one_of(
    st.text(max_size=8),
    st.none(),
    st.booleans(),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.just([[1.0], [1.0, 2.0]]),
)
NOT_POSITIVE = st.one_of(st.floats(max_value=0.0), st.sampled_from([NAN, INF, 0, -1]))
PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)


@PROPERTY
@given(NOT_COUNTS)
def test_what_is_not_a_count_is_refused(value):
    for call in (
        tu.Network,
        lambda v: tu.SGD(0.1, batch=v),
        lambda v: tu.PowerLaw(1.0, v),
        tu.Isotropic().level_dims,
    ):
        with pytest.raises(tu.InputError) as caught:
            call(value)
        require_refusal(caught.value, "whole number")


@PROPERTY
@given(NOT_NUMBERS)
def test_what_is_not_a_number_is_refused(value):
    calls = [
        lambda v: tu.PowerLaw(v, 3),
        lambda v: problem(noise=v),
        solve,
        tu.schedules.PowerDecay,
    ]
    if value is not None:
        calls += [tu.SGD, lambda v: tu.Network(2, readout=v)]
    for call in calls:
        with pytest.raises(tu.InputError) as caught:
            call(value)
        require_refusal(caught.value, "number")


@PROPERTY
@given(NOT_POSITIVE)
def test_rates_must_be_positive_and_finite(value):
    lists = (
        lambda v: tu.schedules.Interpolated([0.0, 1.0], [0.1, v]),
        lambda v: tu.schedules.Piecewise([1.0], [0.1, v]),
    )
    allowed = lists[: 1 if value == 0 else 2]  # a step may be zero
    for call in (
        tu.SGD,
        tu.schedules.Constant,
        tu.schedules.PowerDecay,
        tu.SlowMomentum,
        *allowed,
    ):
        with pytest.raises(tu.InputError) as caught:
            call(value)
        require_refusal(caught.value)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=True)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)
CLASSES = (tu.Problem, tu.Network, tu.PowerLaw, tu.Spectrum, tu.SGD, tu.SlowMomentum)
NAMES = st.sampled_from(
    [
        "kind",
        "scale",
        "known_dim",
        "dropped",
        "unknown",
        *(n for c in CLASSES for n in inspect.signature(c).parameters),
    ]
)
PARTS = {
    "student": {"hidden": 2},
    "teacher": {"hidden": 2},
    "inputs": {"kind": "spectrum", "eigenvalues": [1.0]},
    "optimizer": {},
}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(["", *PARTS]), st.dictionaries(NAMES, JUNK, max_size=3))
def test_a_table_of_junk_gives_a_problem_or_a_sentence(part, junk):
    """No table, however odd, gets past the library as anything but a valid problem or a refusal."""
    data = {**PARTS, **junk} if not part else {**PARTS, part: {**PARTS[part], **junk}}
    try:
        built = tu.Problem.from_json(json.dumps(data))
    except tu.InputError as error:
        require_form(str(error))
    else:
        assert isinstance(built, tu.Problem)


@PROPERTY
@given(st.text(max_size=40))
def test_any_text_is_refused_as_TOML_and_JSON_in_one_sentence(text):
    for read in (tu.Problem.from_toml, tu.Problem.from_json):
        with pytest.raises(tu.InputError) as caught:
            read(text)
        require_form(str(caught.value))
