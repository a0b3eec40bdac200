"""Programs that are kept between processes: the same numbers, the right program, and no file that can do harm."""

import os
import pickle
import subprocess
import sys
import zlib
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tutelage.integrate import described, kept
from tutelage.integrate.call import Options, as_arrays
from tutelage.integrate.described import Indescribable, describe
from tutelage.moments import moments_for


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A chosen folder; the program in it adds two numbers, and is compiled in no time."""
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "programs"))
    monkeypatch.setenv("EQX_ON_ERROR", "nan")
    return tmp_path / "programs"


TRACED = []  # one entry whenever `total` is traced


def total(numbers, factor):
    TRACED.append(factor)
    return {"total": jnp.sum(numbers["x"]) * factor, "none": None}


def compute(x=(1.0, 2.0), factor=3, times=1):
    """As a new process would: nothing is remembered but the folder. Returns the answer, and whether it was traced anew."""
    TRACED.clear()
    program = kept.kept(total)
    for _ in range(times):
        answer = program({"x": np.array(x)}, factor)
    assert answer["none"] is None
    return float(answer["total"]), bool(TRACED)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_a_program_is_traced_once(folder):
    assert compute(times=2) == (9.0, True)
    assert compute(times=2) == (9.0, False)
    assert compute(x=(5.0, 6.0)) == (33.0, False)  # numbers are data
    only_file(folder)


def test_another_shape_type_or_option_is_another_program(folder):
    assert compute() == (9.0, True)
    assert compute(x=(1.0, 2.0, 3.0)) == (18.0, True)
    assert compute(x=(1, 2)) == (9.0, True)
    assert compute(factor=4) == (12.0, True)
    assert compute(factor=4.0) == (12.0, True)
    assert len(list(folder.iterdir())) == 5


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(kept.FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    assert compute() == (9.0, True)
    assert list(tmp_path.iterdir()) == []


def test_where_errors_call_python_nothing_is_kept(folder, monkeypatch):
    monkeypatch.setenv("EQX_ON_ERROR", "raise")
    assert compute()[0] == 9.0
    assert not folder.exists()


def calling(x):
    return jax.pure_callback(lambda y: np.asarray(y) + 1, jax.ShapeDtypeStruct((), float), x)


def test_a_program_that_calls_python_is_not_kept(folder):
    assert float(kept.kept(calling)(np.array(1.0))) == 2.0
    assert not folder.exists()


def rewritten(content, change):
    return zlib.compress(pickle.dumps(change(*pickle.loads(zlib.decompress(content)))))


DAMAGED = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:1000] + bytes([content[1000] ^ 1]) + content[1001:],
    "text": lambda content: b"not a program",
    "another program": lambda content: rewritten(content, lambda told, *rest: (told + "x", *rest)),
    "another kind": lambda content: rewritten(content, lambda told, result, payload, *trees: (told, result)),
    "not executable": lambda content: rewritten(
        content, lambda told, result, payload, *trees: (told, result, payload[: len(payload) // 2], *trees)
    ),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_replaced(folder, damage):
    compute()
    path = only_file(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert compute() == (9.0, True)
    assert only_file(folder) == path
    assert compute() == (9.0, False)


def test_a_program_that_fails_when_it_runs_is_replaced(folder, monkeypatch):
    compute()

    def broken(*_, **__):
        def run(*_):
            raise jax.errors.JaxRuntimeError("a function is missing")

        return run

    with monkeypatch.context() as inside:
        inside.setattr(kept, "deserialize_and_load", broken)
        assert compute() == (9.0, True)
    assert compute() == (9.0, False)


def test_a_poor_description_would_be_noticed(folder, monkeypatch):
    """A negative control: were the arguments not told, one program would answer for another."""
    monkeypatch.setattr(described, "_value", lambda value: "anything")
    compute(factor=3)
    assert compute(factor=4) == (9.0, False)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_are_for_this_user_alone(folder):
    compute()
    assert folder.stat().st_mode & 0o777 == 0o700
    path = only_file(folder)
    assert path.stat().st_mode & 0o777 == 0o600
    for place in (path, folder):
        before = place.stat().st_mode
        place.chmod(before | 0o002)
        assert compute() == (9.0, True)
        place.chmod(before)
    assert compute() == (9.0, False)


@pytest.mark.parametrize("place", ["/proc/absent/programs", "file"])
def test_a_folder_that_cannot_be_written_is_no_error(place, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("EQX_ON_ERROR", "nan")
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / place))
    assert compute() == (9.0, True)


def test_the_oldest_programs_give_way(folder, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2)
    for age, factor in enumerate((1, 2, 3)):
        compute(factor=factor)
        for path in folder.iterdir():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10 + age))
    assert len(list(folder.iterdir())) == 2
    assert [compute(factor=factor)[1] for factor in (3, 2)] == [False, False]


def test_inside_transformations_nothing_is_kept(folder):
    assert float(jax.grad(lambda x: kept.kept(total)({"x": x}, 3)["total"])(1.0)) == 3.0
    assert not folder.exists()


# What tells programs apart


def text(problem, quadrature=None, **changes):
    usual = {"gradient_flow": False, "solver": "explicit", "keep": True, "gradient": "forward"}
    options = Options(**usual | {"max_steps": 100, "progress": False} | changes)
    moments = moments_for(problem, quadrature) if isinstance(problem, tu.Problem) else None
    return describe(total, (as_arrays(problem), moments, np.zeros(64), options))


def problem(student="erf", teacher="erf", K=2, **sgd):
    return tu.Problem(tu.Network(K, student), tu.Network(2, teacher), sgd=tu.SGD(**{"lr": 0.5} | sgd))


def test_numbers_share_a_program():
    same = [problem(), problem(lr=0.1), problem(weight_decay=0.2), problem().replace(noise=0.3)]
    assert len(set(map(text, same))) == 1


def test_no_two_problems_of_different_form_share_a_program():
    from tutelage.problem.activation import NAMED

    activations = [problem(name) for name, g in NAMED.items() if g.trainable] + [problem("erf", name) for name in NAMED]
    forms = [
        *activations,
        *(problem(lr=lr) for lr in (tu.schedules.PowerDecay(0.5), tu.schedules.Cosine(0.5, 10.0), tu.schedules.Constant(0.5))),
        *(problem(lr=tu.schedules.Piecewise(times, range(1, len(times) + 2))) for times in ([1.0], [1.0, 2.0])),
        *(problem(trainable=levels) for levels in ([0], [True])),
        problem(spherical=True),
        problem(momentum=tu.SlowMomentum(2.0)),
        problem(readout_lr=0.1),
        problem(K=3),
        *(problem().replace(inputs=inputs) for inputs in (tu.PowerLaw(1.0, 3), tu.PowerLaw(1.0, 4), tu.Spectrum([1, 2, 3]))),
        problem().replace(**{"student.train_readout": True}),
        problem().replace(**{"teacher.gram": np.eye(2)}),
    ]
    texts = [text(form) for form in forms]
    assert len(set(texts)) == len(set(map(id, texts))) - 1  # erf from erf is twice among the activations
    options = [{}, {"solver": "stiff"}, {"gradient_flow": True}, {"keep": False}, {"max_steps": 99}, {"gradient": "reverse"}]
    assert len({text(problem(), **change) for change in options}) == len(options)
    assert len({text(problem("tanh"), tu.Quadrature(nodes=nodes)) for nodes in (32, 64)}) == 2


def own_activation(x):
    return jnp.tanh(x)


class OwnRate(tu.schedules.Constant):
    pass


@pytest.mark.parametrize(
    "own",
    [
        lambda: problem(own_activation),
        lambda: problem(lambda x: jnp.tanh(2 * x)),
        lambda: problem(lr=lambda t: 0.5),
        lambda: problem(lr=OwnRate(0.5)),
        lambda: tu.papers.linear_regression(0.1),
    ],
    ids=["function", "lambda", "schedule", "class", "equations"],
)
def test_what_is_ones_own_is_not_kept(own):
    with pytest.raises(Indescribable):
        text(own())


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_an_array_that_is_no_data_is_not_mistaken_for_data():
    with pytest.raises(Indescribable):
        text(problem(), keep=np.zeros(3))


def test_versions_machine_text_and_settings_tell_programs_apart(monkeypatch, tmp_path):
    described._surroundings.cache_clear()
    texts = {text(problem())}
    changes = (
        ("version", lambda name: version(name) + ("x" if name == "diffrax" else "")),
        ("_processor", lambda: "another"),
        ("__file__", str(tmp_path / "integrate" / "described.py")),  # a package without any text
    )
    for name, value in changes:
        with monkeypatch.context() as inside:
            inside.setattr(described, name, value)
            described._surroundings.cache_clear()
            texts.add(text(problem()))
    described._surroundings.cache_clear()
    monkeypatch.setenv("XLA_FLAGS", "--xla_of_another_kind")
    texts.add(text(problem()))
    with jax.default_matmul_precision("float32"):
        texts.add(text(problem()))
    assert len(texts) == 6


# The whole of it


SOLVE = """
import sys, numpy as np, tutelage as tu
problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5))
theory = tu.solve(problem, tu.Start(R=[[0.1]], Q=[[0.5]]), times=tu.linear_times(5.0, 11))
sys.stdout.write(theory.error.tobytes().hex() + " " + str("diffrax" in sys.modules))
"""


def test_the_same_numbers_in_another_process(tmp_path):
    def solve(**environment):
        run = subprocess.run([sys.executable, "-c", SOLVE], env=os.environ | environment, capture_output=True, text=True)
        assert (run.returncode, run.stderr) == (0, "")
        return run.stdout.split()

    chosen = {kept.FOLDER: str(tmp_path / "programs"), "EQX_ON_ERROR": "nan"}
    first, again = solve(**chosen), solve(**chosen)
    assert (first[1], again[1]) == ("True", "False")
    assert first[0] == again[0]


LINEAR = """
import jax.numpy as jnp, numpy as np, tutelage
from tutelage.integrate.kept import kept
def solved(matrix):
    return jnp.linalg.solve(matrix, jnp.ones(3))
print(np.asarray(kept(solved)(np.eye(3) + 0.1)).tolist())
"""


def test_a_kept_program_may_solve_linear_equations(tmp_path):
    """LAPACK must be there before it runs: a process that only loads the program has not asked for it."""
    chosen = os.environ | {kept.FOLDER: str(tmp_path / "programs"), "EQX_ON_ERROR": "nan"}
    runs = [subprocess.run([sys.executable, "-c", LINEAR], env=chosen, capture_output=True, text=True) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    only_file(tmp_path / "programs")


def test_the_command_line_chooses_a_folder_unless_told_otherwise(tmp_path):
    code = f"import os, tutelage.cli.compile_cache as c; c.keep_compiled_programs(); print(os.environ.get({kept.FOLDER!r}))"
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("TUTELAGE_", "JAX_", "EQX_"))}
    told = []
    for choice in ({}, {"TUTELAGE_CACHE": "0"}, {kept.FOLDER: "mine"}):
        environment = plain | {"XDG_CACHE_HOME": str(tmp_path)} | choice
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        told.append(run.stdout.strip())
    assert told == [str(tmp_path / "tutelage" / "programs"), "None", "mine"]
