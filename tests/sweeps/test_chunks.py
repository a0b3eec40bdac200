"""Chunks: every point once, equal shapes together, the same whoever asks."""

from dataclasses import replace

import numpy as np

from tests.sweeps.questions import spec_of
from tutelage.sweeps.spec import BATCH, COPIES, LOOPED, MEMORY, shape_of, tasks_of

OVER = {
    "student.hidden": [2, 3],
    "lr": [0.1, 0.2, 0.3],
    "student.activation": ["erf", "relu"],
}


def chunks(spec):
    return [task.points for task in tasks_of(spec)]


def groups(spec):
    return chunks(replace(spec, points_per_chunk=spec.count))


def test_every_point_is_in_one_chunk():
    spec = spec_of(over=OVER, points_per_chunk=2)
    found = chunks(spec)
    assert sorted(np.concatenate(found).tolist()) == list(range(12))
    assert max(len(chunk) for chunk in found) == 2


def test_a_chunk_has_one_shape_and_a_shape_has_as_few_chunks_as_it_can():
    spec = spec_of(over=OVER, points_per_chunk=2)
    for chunk in chunks(spec):
        assert len({shape_of(spec.problem_at(spec.point(i))) for i in chunk}) == 1
    assert [len(group) for group in groups(spec)] == [3, 3, 3, 3]
    assert len(chunks(spec)) == 8


def test_numbers_do_not_make_a_shape():
    spec = spec_of(
        over={
            "lr": [0.1, 0.2],
            "noise": [0.0, 1.0],
            "batch": [1, 2],
            "weight_decay": [0.0, 0.1],
        }
    )
    assert len(groups(spec)) == 1


def test_a_schedule_does():
    spec = spec_of(
        over={"lr": [0.1, {"kind": "power_decay", "initial": 0.5, "exponent": 0.3}]}
    )
    assert len(groups(spec)) == 2


def test_a_list_is_grouped_like_a_grid():
    listed = [spec_of(over=OVER).point(i) for i in range(12)]
    grid = spec_of(over=OVER, points_per_chunk=4)
    flat = spec_of(over=None, points=listed, points_per_chunk=4)
    assert chunks(grid) == chunks(flat)
    for one, other in zip(tasks_of(grid), tasks_of(flat), strict=True):
        assert one.points == other.points
        assert [grid.point(i) for i in one.points] == other.payload["spec"].points


def test_sizes():
    assert spec_of().points_per_chunk == BATCH
    assert spec_of(starts=4).points_per_chunk == BATCH // 4
    assert spec_of(starts=10 * BATCH).points_per_chunk == 1
    assert spec_of(measure=["escape_time"]).points_per_chunk == LOOPED
    assert spec_of(measure=["simulated_error"]).points_per_chunk == LOOPED


def test_memory_bounds_the_size():
    """K = M = 12: 302 numbers at each of 20000 times."""
    over = {"student.hidden, teacher.hidden": [2, 12]}
    size = spec_of(over=over, times=np.linspace(0, 1, 20000)).points_per_chunk
    assert size == MEMORY // (8 * 20000 * (144 + 144 + 12 + 2) * COPIES)
    assert 1 <= size < BATCH
