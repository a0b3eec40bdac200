"""Trajectories at the edge:

labeled data and files that come back as they were, or a sentence that says why not.
"""

import json
import os
import re
import stat
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tutelage as tu
from tests.problem.messages import require_refusal
from tutelage.result import storage

TIMES = np.linspace(0.0, 4.0, 9)
SCHEMA_PAGE = Path(__file__).parents[2] / "docs" / "schema.md"
PLAIN = tu.Problem(
    tu.Network(1, "linear"), tu.Network(1, "linear"), optimizer=tu.SGD(0.5), noise=0.3
)
ALONE = tu.Start(R=[[0.1]], Q=[[1.0]])
RICH = tu.Problem(
    tu.Network(2, "he2", readout=0.7, train_readout=True, train_bias=True),
    tu.Network(1, "linear"),
    inputs=tu.PowerLaw(1.0, 3),
    optimizer=tu.SGD(0.2),
    noise=0.1,
)
VECTOR = tu.Problem(
    tu.Network(
        2,
        "linear",
        outputs=3,
        readout=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
        train_readout=True,
    ),
    tu.Network(1, "linear", outputs=3, readout=[[1.0], [0.5], [0.2]]),
    optimizer=tu.SGD(0.2),
)
SIGNS = tu.Problem(
    tu.Network(1, "linear"),
    tu.Network(1, "linear"),
    optimizer=tu.SGD(0.5),
    loss="logistic",
    labels=tu.labels.Sign(flip=0.1),
)


def pair():
    """Two coupled variables of one's own, one of them an array."""
    return tu.Equations(
        ("x", "T"), lambda t, s: (-s.x, -jnp.mean(s.x) * s.T), lambda s: jnp.sum(s.x**2)
    )


def batch():
    def member(lr, overlap):
        return tu.solve(
            PLAIN.replace(lr=lr),
            tu.Start(R=overlap, Q=[[1.0]]),
            times=TIMES,
            gradient="forward",
        )

    return jax.vmap(member)(
        jnp.array([0.1, 0.5, 1.9]), jnp.array([[[0.1]], [[0.2]], [[0.3]]])
    )


def diverged():
    with pytest.warns(tu.errors.DivergenceWarning):
        return tu.solve(PLAIN.replace(lr=8.0), ALONE, times=TIMES)


TASKS = tu.Problem(
    tu.Network(2, "linear"),
    tu.Tasks([tu.Network(1, "linear"), tu.Network(2, "linear")], tu.Switch(0.5)),
)
MAKE = {
    "one level": lambda: tu.solve(PLAIN, ALONE, times=TIMES),
    "levels, bias, readout": lambda: tu.solve(
        RICH, tu.random_start(RICH, dim=50, seed=1), times=TIMES
    ),
    "equations": lambda: tu.solve(pair(), {"x": [1.0, 2.0], "T": 0.5}, times=TIMES),
    "batch": batch,
    "diverged": diverged,
    "runs": lambda: tu.simulate(PLAIN, ALONE, dim=50, times=TIMES, runs=3),
    "outputs": lambda: tu.solve(
        VECTOR, tu.random_start(VECTOR, dim=50, seed=1), times=TIMES[:3], rtol=1e-4
    ),
    "signs": lambda: tu.solve(SIGNS, ALONE, times=TIMES[:3], rtol=1e-4),
    "tasks": lambda: tu.simulate(
        TASKS, tu.asymmetric_start(TASKS), dim=20, times=TIMES[:3], runs=2
    ),
}
_made = {}


@pytest.fixture(params=MAKE)
def trajectory(request):
    """One trajectory of each kind, solved once."""
    return made(request.param)


def made(name):
    return _made.setdefault(name, MAKE[name]()) if name not in _made else _made[name]


def require_same(ours, theirs):
    assert list(ours.variables) == list(theirs.variables)
    assert np.array_equal(
        theirs.times, np.asarray(ours.times).reshape(-1, len(theirs.times))[0]
    )

    def arrays(t):
        return (
            t.variables,
            t.error,
            t.loss,
            t.status_code,
            t.end_time,
            t.steps,
            t.T,
        )

    for a, b in zip(
        jax.tree.leaves(arrays(ours)), jax.tree.leaves(arrays(theirs)), strict=True
    ):
        assert np.array_equal(a, b, equal_nan=True)
        assert np.asarray(a).dtype == b.dtype
    for name in ("kind", "settings", "status", "finished"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_a_dataset_gives_the_trajectory_back(trajectory):
    require_same(trajectory, tu.Trajectory.from_dataset(trajectory.to_dataset()))


def test_a_file_gives_the_trajectory_back(trajectory, tmp_path):
    path = trajectory.save(tmp_path / "a.nc")
    assert path == tmp_path / "a.nc"
    back = tu.load(path)
    require_same(trajectory, back)
    assert back.to_dataset().identical(trajectory.to_dataset())
    assert os.listdir(tmp_path) == ["a.nc"]


def test_the_error_is_stored_under_the_name_of_its_metric():
    assert made("one level").to_dataset().error.long_name == "generalization error e_g"
    signs = made("signs").to_dataset()
    assert signs.error.long_name == "probability of a wrong class"
    assert np.all(
        signs.loss > signs.error
    )  # ln 2 at least where nothing is known; a negative control: not e_g + noise^2/2


def test_a_readout_of_several_outputs_has_their_dimension(tmp_path):
    trajectory = made("outputs")
    start = tu.Start(
        trajectory.start.R,
        trajectory.start.Q,
        trajectory.start.T,
        readout=np.ones((3, 2)),
        dim=50,
    )
    dataset = eqx.tree_at(
        lambda t: t.start, trajectory, start, is_leaf=lambda x: x is trajectory.start
    ).to_dataset()
    assert dataset.readout.dims == ("time", "output", "student")
    assert dataset.start_readout.dims == ("output", "student")
    assert tu.Trajectory.from_dataset(dataset).start.readout.shape == (3, 2)


@pytest.mark.parametrize(
    "name", ["one level", "levels, bias, readout", "diverged", "outputs", "signs"]
)
def test_the_problem_and_the_start_come_back_whole(name, tmp_path):
    trajectory = made(name)
    back = tu.load(trajectory.save(tmp_path / "a.nc"))
    assert eqx.tree_equal(back.problem, trajectory.problem)
    assert eqx.tree_equal(back.start, trajectory.start)
    assert np.array_equal(back.loss, trajectory.loss)


def test_the_members_of_a_batch_come_back(tmp_path):
    trajectory = made("batch")
    dataset = trajectory.to_dataset()
    assert dataset["optimizer.lr"].dims == ("batch",)
    assert dataset["optimizer.lr"].values.tolist() == [0.1, 0.5, 1.9]
    assert dataset.error.sel(time=2.0).shape == (3,)
    back = tu.load(trajectory.save(tmp_path / "a.nc"))
    assert np.array_equal(back.problem.optimizer.lr, trajectory.problem.optimizer.lr)
    assert np.array_equal(back.start.R, trajectory.start.R)
    assert np.array_equal(back.loss, trajectory.loss)
    assert np.asarray(back.problem.noise) == 0.3


@pytest.mark.parametrize("transform", [jax.vmap, eqx.filter_vmap])
def test_a_batch_is_not_taken_for_levels(transform):
    """Batched overlaps have as many axes as overlaps per level; only one of the two they are."""
    shape = jax.ShapeDtypeStruct((4,), float)
    problem = PLAIN.replace(inputs=tu.PowerLaw(1.0, 4), **{"teacher.gram": np.eye(1)})

    def member(lr):
        start = tu.Start(R=lr * jnp.ones((1, 1)), Q=[[1.0]])
        curve = lr * jnp.ones(3)
        number = jnp.zeros(())
        return tu.Trajectory(np.arange(3.0), {"R": curve[:, None, None]}, curve, number.astype(int), number, number,
                             problem=problem.replace(lr=lr), start=start)  # fmt: skip

    batched = transform(member)(jnp.linspace(0.1, 0.4, shape.shape[0]))
    dataset = batched.to_dataset()
    assert dataset.start_R.dims == ("batch", "student", "teacher")
    assert json.loads(dataset.problem)["teacher"]["gram"] == [[1.0]]
    assert json.loads(dataset.problem)["optimizer"] == {"kind": "sgd", "lr": 0.1}
    assert np.allclose(
        tu.Trajectory.from_dataset(dataset).start.R.ravel(), dataset["optimizer.lr"]
    )


def test_a_batch_of_different_times_is_refused():
    trajectory = made("batch")
    times = np.asarray(trajectory.times) + np.arange(3.0)[:, None]
    with pytest.raises(tu.InputError) as caught:
        eqx.tree_at(lambda t: t.times, trajectory, times).to_dataset()
    require_refusal(caught.value, "times differ")


def test_a_problem_with_one_s_own_function_keeps_its_curves(tmp_path):
    plain = made("one level")
    own = eqx.tree_at(
        lambda t: t.problem, plain, PLAIN.replace(**{"teacher.activation": jnp.sin})
    )
    back = tu.load(own.save(tmp_path / "a.nc"))
    assert back.problem is None
    assert np.array_equal(back.R, plain.R)
    assert np.array_equal(own.to_dataset().loss, plain.loss)
    stored = json.loads(own.to_dataset().attrs["problem"])
    assert "jax.numpy:sin" in stored["not_stored"]
    assert stored["problem"]["teacher"]["activation"] == "jax.numpy:sin"
    assert "Network(1, 'sin')" in stored["repr"]
    assert tu.Trajectory.from_dataset(back.to_dataset()).R.shape == plain.R.shape


def test_a_trajectory_without_any_time_left_is_still_stored(tmp_path):
    with pytest.warns(tu.errors.DivergenceWarning):
        empty = tu.solve(PLAIN.replace(lr=8.0), ALONE, times=TIMES + 50)
    assert len(empty.times) == 0
    assert tu.load(empty.save(tmp_path / "a.nc")).R.shape == (0, 1, 1)


def test_traced_trajectories_are_refused():
    solved = made(
        "one level"
    )  # outside the trace: what is kept for other tests must not be traced
    with pytest.raises(tu.InputError) as caught:
        jax.jit(
            lambda x: (
                eqx.tree_at(lambda t: t.error, solved, x).to_dataset().error.values
            )
        )(jnp.zeros(9))
    require_refusal(caught.value, "traced")


@pytest.mark.parametrize("name", ["error", "time", "steps", "x_0"])
def test_a_variable_with_a_name_of_the_file_is_refused(name):
    curve = np.ones(3)
    end = np.zeros(())
    variables = {"x": np.ones((3, 2)), name: curve}
    trajectory = tu.Trajectory(
        np.arange(3.0), variables, curve, end.astype(int), end, end, kind="equations"
    )
    with pytest.raises(tu.InputError) as caught:
        trajectory.to_dataset()
    require_refusal(caught.value, repr(name), "Rename")


# The page docs/schema.md says what is written, no more and no less.


def page_table(title):
    section = SCHEMA_PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return rows[2:]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def written():
    """Every kind of dataset, with all that can be in one."""
    full = tu.Start(R=[[0.1]], Q=[[1.0]], T=[[1.0]], readout=[1.0], bias=[0.0], dim=30)
    everything = eqx.tree_at(lambda t: t.start, made("one level"), full)
    runs = jax.tree.map(
        lambda x: np.asarray(x)[None],
        (everything.variables, everything.error, everything.loss),
    )
    simulated = eqx.tree_at(lambda t: (t.variables, t.error, t.loss), everything, runs)
    object.__setattr__(simulated, "kind", "simulation")
    return [
        t.to_dataset() for t in (*(made(name) for name in MAKE), everything, simulated)
    ]


def test_the_page_lists_the_dimensions_that_are_written():
    listed = {name for row in page_table("Dimensions") for name in names_in(row[0])}
    assert {str(d) for ds in written() for d in ds.dims} - {"x_0"} == listed


def test_the_page_lists_the_variables_that_are_written_with_their_dimensions():
    listed = {names_in(row[0])[0]: names_in(row[1]) for row in page_table("Variables")}
    found = {}
    for ds in written():
        if ds.attrs["kind"] == "equations":
            continue
        for name, variable in ds.data_vars.items():
            if str(name).endswith(storage.ESTIMATE):
                assert variable.dims == ds[str(name).removesuffix("_estimate")].dims
                continue
            lead = [
                d for d in variable.dims if d not in ("batch", "run", "output", "task")
            ]
            short = [
                d for d in lead if not (str(name).startswith("start_") and d == "level")
            ]
            found.setdefault(str(name), []).append(short)
    assert set(found) == set(listed)
    for name, dims in listed.items():
        assert [d for d in dims if d != "lead"] in found[name], name
        assert all(d == found[name][0] for d in found[name]), name


def test_the_page_lists_the_coordinates_and_attributes_that_are_written():
    listed = {names_in(row[0])[0] for row in page_table("Coordinates")}
    assert {str(c) for ds in written() for c in ds.coords} == listed
    attributes = [names_in(row[0])[0] for row in page_table("Attributes")]
    assert all(list(ds.attrs) == attributes for ds in written())
    assert storage.SCHEMA in SCHEMA_PAGE.read_text()


def test_attributes_say_who_wrote_it_and_what():
    attrs = made("levels, bias, readout").to_dataset().attrs
    assert (attrs["schema"], attrs["tutelage_version"], attrs["kind"]) == (
        "tutelage-trajectory/3",
        tu.__version__,
        "theory",
    )
    assert eqx.tree_equal(tu.Problem.from_json(attrs["problem"]), RICH)
    assert (attrs["dim"], attrs["status"]) == (50, "finished")
    assert json.loads(attrs["settings"])["gradient_flow"] is False


def test_plain_xarray_reads_the_file(tmp_path):
    trajectory = made("levels, bias, readout")
    with xr.open_dataset(
        trajectory.save(tmp_path / "a.nc"), engine="h5netcdf"
    ) as dataset:
        assert np.array_equal(dataset.R.sel(time=1.0), trajectory.R[2])
        assert np.array_equal(dataset.eigenvalue, RICH.inputs.eigenvalues)
        assert dataset.q.dims == ("time", "level", "student", "student_2")


# Writing is all or nothing.


@pytest.mark.parametrize("stage", ["in the middle", "before the move"])
def test_a_failed_write_leaves_nothing_and_spoils_nothing(stage, tmp_path, monkeypatch):
    good = made("one level")
    kept = good.save(tmp_path / "kept.nc").read_bytes()

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync" if stage == "in the middle" else "replace", refuse)
    for name in ("kept.nc", "new.nc"):
        with pytest.raises(OSError, match="disk full"):
            good.save(tmp_path / name)
    assert os.listdir(tmp_path) == ["kept.nc"]
    assert (tmp_path / "kept.nc").read_bytes() == kept


def test_an_interrupt_leaves_no_part_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    trajectory = made("one level")
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trajectory.save(tmp_path / "a.nc")
    assert os.listdir(tmp_path) == []


def test_a_file_replaces_an_older_one_and_can_be_read_by_others(tmp_path):
    made("diverged").save(tmp_path / "a.nc")
    made("one level").save(tmp_path / "a.nc")
    assert tu.load(tmp_path / "a.nc").finished
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(os.stat(tmp_path / "a.nc").st_mode) == stat.S_IMODE(
        os.stat(tmp_path / "plain").st_mode
    )


@pytest.mark.parametrize(
    ("name", "mention"), [("no/such/a.nc", "does not exist"), ("", "folder")]
)
def test_a_place_that_cannot_hold_a_file_is_refused(name, mention, tmp_path):
    with pytest.raises(tu.InputError) as caught:
        made("one level").save(tmp_path / name)
    require_refusal(caught.value, mention)


# Reading: nothing but our own files, and never code.


def test_reading_runs_no_pickle(tmp_path, monkeypatch):
    import pickle

    path = made("one level").save(tmp_path / "a.nc")

    def refuse(*_, **__):
        raise AssertionError("a file was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert tu.load(path).finished


def foreign_files(folder):
    import h5py

    (folder / "text.nc").write_text("time error\n0 1\n")
    (folder / "empty.nc").touch()
    xr.Dataset({"error": ("time", [1.0, 0.5])}).to_netcdf(
        folder / "foreign.nc", engine="h5netcdf"
    )
    with h5py.File(folder / "plain.h5", "w") as file:
        file["group/values"] = np.arange(3.0)
    return {
        "text.nc": "not a NetCDF file",
        "empty.nc": "not a NetCDF file",
        "foreign.nc": "no schema",
        "plain.h5": "plain.h5",
    }


def test_foreign_files_are_refused_in_one_sentence(tmp_path):
    for name, mention in foreign_files(tmp_path).items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(tu.InputError) as caught:
                tu.load(tmp_path / name)
        require_refusal(caught.value, mention, name)


def test_a_truncated_file_is_refused(tmp_path):
    path = made("levels, bias, readout").save(tmp_path / "a.nc")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(tu.InputError) as caught:
        tu.load(path)
    require_refusal(caught.value, "a.nc")


def test_a_newer_schema_is_refused_as_newer(tmp_path):
    dataset = (
        made("one level").to_dataset().assign_attrs(schema="tutelage-trajectory/4")
    )
    storage.write(dataset, tmp_path / "a.nc")
    for read in (
        lambda: tu.load(tmp_path / "a.nc"),
        lambda: tu.Trajectory.from_dataset(dataset),
    ):
        with pytest.raises(tu.InputError) as caught:
            read()
        require_refusal(
            caught.value,
            "'tutelage-trajectory/4'",
            "reads 'tutelage-trajectory/3'",
            "Update",
        )


def test_an_old_schema_is_refused_and_the_message_says_what_to_do():
    dataset = (
        made("one level").to_dataset().assign_attrs(schema="tutelage-trajectory/1")
    )
    with pytest.raises(tu.InputError) as caught:
        tu.Trajectory.from_dataset(dataset)
    require_refusal(caught.value, "'tutelage-trajectory/1'", "Compute it again")


@pytest.mark.parametrize(
    "name", ["error", "loss", "R", "time", "steps", "kind", "problem"]
)
def test_a_dataset_that_lost_a_part_is_refused_by_its_name(name):
    dataset = made("one level").to_dataset().drop_vars(name, errors="ignore")
    dataset.attrs.pop(name, None)
    with pytest.raises(tu.InputError) as caught:
        tu.Trajectory.from_dataset(dataset)
    require_refusal(caught.value, repr(name))


def test_a_missing_variable_is_named_with_what_there_is():
    fields = made("equations")
    with pytest.raises(tu.InputError) as caught:
        fields["r"]
    require_refusal(caught.value, "'r'", "x")
    assert np.all(np.isnan(fields.loss))
