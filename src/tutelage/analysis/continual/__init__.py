"""Continual learning: forgetting, transfer, relearning and shared units.

Arguments and arrays count tasks and units from 0; words and figures count them from
one.

task_curves.py          errors of tasks, and when tasks begin and are left
forgetting_of_tasks.py  `forgetting`, and `interference` by similarity
learning_times.py       `transfer` and `savings`
replay.py               `best_replay`
units.py                `node_reuse`
"""

from tutelage.analysis.continual.forgetting_of_tasks import (
    Forgetting,
    Interference,
    forgetting,
    interference,
)
from tutelage.analysis.continual.learning_times import (
    Savings,
    Transfer,
    savings,
    transfer,
)
from tutelage.analysis.continual.replay import BestReplay, best_replay
from tutelage.analysis.continual.units import NodeReuse, node_reuse

__all__ = [
    "BestReplay",
    "Forgetting",
    "Interference",
    "NodeReuse",
    "Savings",
    "Transfer",
    "best_replay",
    "forgetting",
    "interference",
    "node_reuse",
    "savings",
    "transfer",
]
