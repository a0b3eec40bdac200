"""The learning rules: how one sample updates the student, and the base class `Rule`.

tu.Problem(student, teacher, rule=tu.rules.Dropout(0.8))
"""

from tutelage.training.rules import (
    AdaTron,
    Context,
    Discrete,
    Dropout,
    FeedbackAlignment,
    Gradient,
    Hebbian,
    Law,
    NodePerturbation,
    Normal,
    Parameters,
    Perceptron,
    PerUnit,
    Quantile,
    Reinforce,
    Reuse,
    Rule,
    Sample,
    Update,
)

__all__ = [
    "AdaTron",
    "Context",
    "Discrete",
    "Dropout",
    "FeedbackAlignment",
    "Gradient",
    "Hebbian",
    "Law",
    "NodePerturbation",
    "Normal",
    "Parameters",
    "PerUnit",
    "Perceptron",
    "Quantile",
    "Reinforce",
    "Reuse",
    "Rule",
    "Sample",
    "Update",
]
