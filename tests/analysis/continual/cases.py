"""Two tasks that follow each other."""

import numpy as np

import tutelage as tu

ONE = tu.Network(1, "erf")
START = tu.Start(
    R=[[0.05, 0.02], [-0.01, 0.03]],
    Q=[[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)
TIMES = tu.linear_times(120, 481)


def two_tasks(schedule, similarity=0.5, **options):
    tasks = tu.Tasks([ONE, ONE], schedule, similarity=similarity, **options)
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=1.0)
    )


SIMILARITIES = np.linspace(0.0, 0.98, 50)
LINE = tu.schedules.Linear


def first_below(times, error, target):
    return times[np.argmax(error <= target)]
