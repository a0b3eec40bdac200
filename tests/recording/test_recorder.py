"""Recorder: overlaps of a loop's weights, several runs, bad calls that lose nothing."""

import numpy as np
import pytest

import tutelage as tu
from tutelage.errors import Status

N = 40
ERF = tu.Network(2, "erf")
PROBLEM = tu.Problem(ERF, ERF, optimizer=tu.SGD(lr=0.5))


def weights(seed, K=2, dim=N):
    return np.random.default_rng(seed).standard_normal((K, dim))


TEACHER = weights(0)


def recorded(count=4, problem=PROBLEM, **options):
    recorder = tu.Recorder(problem, TEACHER, **options)
    for step in range(count):
        recorder(step * N, weights(step + 1))
    return recorder


def test_overlaps_and_error_are_those_of_the_weights():
    runs = recorded().runs()
    assert runs.kind == "simulation"
    np.testing.assert_allclose(runs.times, [0.0, 1.0, 2.0, 3.0])
    for i in range(4):
        W = weights(i + 1)
        np.testing.assert_allclose(runs.R[0, i], W @ TEACHER.T / N, rtol=1e-12)
        np.testing.assert_allclose(runs.Q[0, i], W @ W.T / N, rtol=1e-12)
        e_g = tu.generalization_error(
            PROBLEM, W @ TEACHER.T / N, W @ W.T / N, TEACHER @ TEACHER.T / N
        )
        assert runs.error[0, i] == pytest.approx(float(e_g), rel=1e-10)
    assert runs.dim == N
    np.testing.assert_array_equal(runs.step, [0, N, 2 * N, 3 * N])


def test_the_start_is_that_of_the_first_weights():
    recorder = recorded()
    expected = tu.start_from_weights(PROBLEM, weights(1), TEACHER)
    np.testing.assert_allclose(recorder.start.R, expected.R)
    np.testing.assert_allclose(recorder.start.T, expected.T)
    assert recorder.start.dim == N
    theory = tu.solve(PROBLEM, recorder.start, recorder.runs().times)
    assert theory.error[0] == pytest.approx(recorder.runs().error[0, 0], rel=1e-9)


def test_weights_may_be_changed_in_place_after_a_call():
    recorder = tu.Recorder(PROBLEM, TEACHER)
    W = weights(1)
    recorder(0, W)
    W *= 0.0
    recorder(1, W)
    assert recorder.runs().Q[0, 0, 0, 0] > 0
    assert recorder.runs().Q[0, 1, 0, 0] == 0


def test_times_choose_the_steps():
    recorder = tu.Recorder(PROBLEM, TEACHER, times=[0.0, 0.51, 1.0])
    for step in range(N + 1):
        recorder(step, weights(step))
    assert recorder.steps == [0, 21, 40]  # ceil(0.51 * 40) = 21
    np.testing.assert_array_equal(recorder.runs().times, [0.0, 0.51, 1.0])


def test_close_times_share_a_record():
    recorder = tu.Recorder(PROBLEM, TEACHER, times=[0.0, 0.001, 0.02])
    recorder(0, weights(0))
    recorder(1, weights(1))
    R = recorder.runs().R[0]
    assert recorder.steps == [0, 1]
    np.testing.assert_array_equal(R[1], R[2])


class Tensor:
    """As PyTorch's: the array protocol works after detach() and cpu() only."""

    def __init__(self, array, grad=True, device="cuda"):
        self.array = array
        self.grad = grad
        self.device = device

    def detach(self):
        return Tensor(self.array, grad=False, device=self.device)

    def cpu(self):
        return Tensor(self.array, grad=self.grad, device="cpu")

    def __array__(self, dtype=None, copy=None):
        if self.grad or self.device != "cpu":
            raise RuntimeError("can't convert this tensor to numpy")
        return np.array(self.array, dtype=dtype)


def test_tensors_of_other_libraries_are_recorded():
    import jax.numpy as jnp

    W = weights(1)
    expected = recorded(1).runs().Q
    for values in (Tensor(W), jnp.asarray(W), W.tolist()):
        recorder = tu.Recorder(PROBLEM, Tensor(TEACHER))
        recorder(0, values)
        np.testing.assert_allclose(recorder.runs().Q, expected, rtol=1e-12)
    units = tu.conventions.Convention(dim=N)
    np.testing.assert_allclose(units.weights(Tensor(W)), np.sqrt(N) * W)


def test_readouts_and_biases():
    student = tu.Network(2, "erf", train_readout=True, train_bias=True)
    problem = tu.Problem(student, ERF)
    recorder = tu.Recorder(problem, TEACHER)
    v = np.array([[0.5, -1.0]])  # of a layer with one output
    recorder(0, weights(1), readout=v, bias=[0.1, 0.2])
    runs = recorder.runs()
    np.testing.assert_array_equal(runs.readout[0, 0], v[0])
    np.testing.assert_array_equal(runs.bias[0, 0], [0.1, 0.2])
    start = recorder.start
    np.testing.assert_array_equal(start.readout, v[0])
    np.testing.assert_array_equal(start.bias, [0.1, 0.2])
    theory = tu.solve(problem, start, [0.0, 1.0])
    assert theory.error[0] == pytest.approx(runs.error[0, 0], rel=1e-6)


MEAN = 2 * weights(5, K=1) / np.sqrt(np.mean(weights(5, K=1) ** 2))
MIXTURE = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])


@pytest.mark.parametrize(
    ("problem", "references"),
    [
        (tu.Problem(ERF, ERF, inputs=tu.Spectrum([1.6, 0.4], [0.5, 0.5])), TEACHER),
        (tu.Problem(ERF, inputs=MIXTURE, loss="logistic"), MEAN),
    ],
    ids=["levels", "classes"],
)
def test_levels_and_classes_are_those_of_simulate(problem, references):
    """At time zero, `simulate` from given weights records the same numbers."""
    recorder = tu.Recorder(problem, references)
    recorder(0, weights(1))
    own = recorder.runs()
    pair = (weights(1), references)
    theirs = tu.simulate(problem, weights=pair, times=[0.0], runs=1)
    for name in ("R", "Q", "r", "q"):
        np.testing.assert_allclose(own[name], theirs[name], rtol=1e-12)
    np.testing.assert_allclose(own.error, theirs.error, rtol=1e-9)
    np.testing.assert_allclose(own.loss, theirs.loss, rtol=1e-9)


def test_runs_of_other_optimizers_are_recorded():
    """The error follows from the overlaps, whatever moved the weights."""
    problem = tu.Problem(ERF, ERF, optimizer=tu.optimizers.SignSGD(lr=0.1))
    runs = recorded(2, problem=problem).runs()
    np.testing.assert_allclose(runs.error, recorded(2).runs().error, rtol=1e-12)


def test_several_recorders_are_several_runs():
    other = tu.Recorder(PROBLEM, TEACHER)
    for step in range(4):
        other(step * N, weights(1 if step == 0 else step + 10))
    runs = recorded().runs(other)
    assert runs.error.shape == (2, 4)
    assert runs.finished
    assert runs.start is not None  # both begin with the same weights


def test_runs_of_different_initial_weights_have_no_common_start():
    other = tu.Recorder(PROBLEM, TEACHER)
    for step in range(4):
        other(step * N, weights(step + 20))
    assert recorded().runs(other).start is None


def test_runs_are_saved_drawn_and_loaded(tmp_path):
    runs = recorded().runs(recorded())
    again = tu.load(runs.save(tmp_path / "runs.nc"))
    np.testing.assert_array_equal(again.error, runs.error)
    assert again.settings == runs.settings
    assert again.problem.to_dict() == runs.problem.to_dict()
    assert runs.plot(time="steps").axes[-1].get_xlabel() == "steps"


# What goes wrong: one message each, and nothing that was recorded is lost.


def test_a_diverged_run_keeps_what_came_before():
    recorder = recorded(3)
    bad = weights(9)
    bad[1, 3] = np.nan
    with pytest.raises(tu.InputError, match=r"contain nan at step 120.*states before"):
        recorder(120, bad)
    runs = recorder.runs()
    assert runs.times.size == 3
    assert runs.status_code[0] == Status.DIVERGED
    complete = recorded(4)
    both = complete.runs(recorder)
    assert both.error.shape == (2, 4)
    assert np.isnan(both.error[1, 3])
    np.testing.assert_array_equal(both.error[1, :3], both.error[0, :3])
    assert list(both.status_code) == [Status.FINISHED, Status.DIVERGED]


def test_weights_whose_squares_overflow_have_diverged():
    recorder = recorded(2)
    with pytest.raises(tu.InputError, match="contain inf at step 200"):
        recorder(200, 1e200 * weights(1))
    assert recorder.runs().times.size == 2


def test_a_run_that_was_interrupted_is_marked():
    shorter = recorded(2)
    runs = recorded(4).runs(shorter)
    assert list(runs.status_code) == [Status.FINISHED, Status.INTERRUPTED]
    assert runs.end_time[1] == 1.0
    waits = tu.Recorder(PROBLEM, TEACHER, times=[0.0, 1.0, 2.0])
    for step in range(N + 1):
        waits(step, weights(1))
    assert waits.runs().status_code[0] == Status.INTERRUPTED
    np.testing.assert_array_equal(waits.runs().times, [0.0, 1.0])


@pytest.mark.parametrize(
    ("step", "values", "message"),
    [
        (160, weights(1).T, "Transpose them: Keras and Flax"),
        (160, weights(1, K=3), r"shape \(3, 40\).*2 student units, and N is 40"),
        (160, weights(1, dim=41), r"it must have shape \(2, 40\)"),
        (160, weights(1)[0], r"has shape \(40,\)"),
        (160, "words", "weights is"),
        (120, weights(1), "step is 120 after step 120; steps must increase"),
        (40, weights(1), "Use one Recorder for each run"),
        (1.5, weights(1), "whole number"),
        (-1, weights(1), "whole number"),
    ],
)
def test_a_bad_call_records_nothing_and_loses_nothing(step, values, message):
    recorder = recorded(4)
    before = recorder.runs()
    with pytest.raises(tu.InputError, match=message):
        recorder(step, values)
    np.testing.assert_array_equal(recorder.runs().R, before.R)
    recorder(200, weights(7))
    assert len(recorder) == 5


def test_a_loop_that_skips_a_time_is_stopped():
    recorder = tu.Recorder(PROBLEM, TEACHER, times=[0.0, 0.5, 1.0])
    recorder(0, weights(1))
    with pytest.raises(
        tu.InputError, match=r"step 20 \(alpha = 0.5\) was not recorded"
    ):
        recorder(30, weights(2))
    assert len(recorder) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tu.Recorder("problem", TEACHER), "Problem"),
        (lambda: tu.Recorder(PROBLEM, weights(0, K=3)), r"teacher_weights has shape"),
        (lambda: tu.Recorder(PROBLEM, None), "teacher_weights is"),
        (lambda: tu.Recorder(PROBLEM, np.full((2, N), np.nan)), "finite"),
        (lambda: tu.Recorder(PROBLEM, TEACHER, times=[1.0, 0.0]), "must increase"),
        (lambda: tu.Recorder(PROBLEM, TEACHER).runs(), "has no records"),
        (
            lambda: tu.Recorder(
                tu.Problem(ERF, tu.Network(2, "erf", gram=np.eye(2))), TEACHER
            ),
            "the teacher's gram differ",
        ),
        (lambda: recorded().runs("other"), "recorders of other"),
        (lambda: tu.Recorder(PROBLEM, TEACHER).start, "step 0 was not recorded"),
    ],
)
def test_bad_recorders(make, message):
    with pytest.raises(tu.InputError, match=message):
        make()


def test_runs_must_share_problem_size_and_steps():
    first = recorded()
    slower = recorded(problem=PROBLEM.replace(lr=0.1))
    with pytest.raises(tu.InputError, match="recorder 2 is about another problem"):
        first.runs(slower)
    wider = tu.Recorder(PROBLEM, weights(0, dim=50))
    for step in range(4):
        wider(step * N, weights(step, dim=50))
    with pytest.raises(tu.InputError, match="N = 50"):
        first.runs(wider)
    shifted = tu.Recorder(PROBLEM, TEACHER)
    for step in range(4):
        shifted(step * N + (step > 1), weights(step))
    with pytest.raises(tu.InputError, match=r"step 81 where another one has step 80"):
        first.runs(shifted)


def test_what_a_problem_trains_must_be_recorded():
    trained = tu.Problem(tu.Network(2, "erf", train_readout=True), ERF)
    recorder = tu.Recorder(trained, TEACHER)
    with pytest.raises(tu.InputError, match=r"readout is None.*readout=v"):
        recorder(0, weights(1))
    with pytest.raises(tu.InputError, match=r"readout has shape \(3,\)"):
        recorder(0, weights(1), readout=[1, 2, 3])
    with pytest.raises(tu.InputError, match="readout contain nan"):
        recorder(0, weights(1), readout=[1, np.nan])
    biased = tu.Problem(tu.Network(2, "erf", train_bias=True), ERF)
    with pytest.raises(tu.InputError, match="bias is None"):
        tu.Recorder(biased, TEACHER)(0, weights(1))
    with pytest.raises(tu.InputError, match=r"has none; give it to the problem"):
        tu.Recorder(PROBLEM, TEACHER)(0, weights(1), bias=[1.0, 0.0])


def test_drifting_teachers_are_not_recorded():
    drift = tu.Tasks([ERF], drift=tu.Drift(0.1))
    with pytest.raises(tu.InputError, match="drift"):
        tu.Recorder(tu.Problem(ERF, drift), TEACHER)
