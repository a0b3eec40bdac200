"""Learning rules: what one sample does to the student.

base (Rule, Sample, Update) -> gradient (backpropagation on any loss, feedback alignment, dropout, sample reuse, node
perturbation), classical (Hebbian, Perceptron, AdaTron), reinforce (the RL perceptron)
"""

from tutelage._part import Choice
from tutelage.randomness import Discrete, Law, Normal, PerUnit, Quantile
from tutelage.rules.base import Context, Parameters, Rule, Sample, Update
from tutelage.rules.classical import AdaTron, Hebbian, Perceptron
from tutelage.rules.gradient import Dropout, FeedbackAlignment, Gradient, NodePerturbation, Reuse
from tutelage.rules.reinforce import Reinforce

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

NAMED: dict[str, type[Rule]] = {
    "gradient": Gradient,
    "hebbian": Hebbian,
    "perceptron": Perceptron,
    "adatron": AdaTron,
    "feedback_alignment": FeedbackAlignment,
    "dropout": Dropout,
    "reinforce": Reinforce,
    "node_perturbation": NodePerturbation,
    "reuse": Reuse,
}
OTHERS = "or a Rule: subclass tutelage.Rule and define update(sample, parameters, context)"
as_rule = Choice("rule", Rule, NAMED, "gradient", OTHERS)
