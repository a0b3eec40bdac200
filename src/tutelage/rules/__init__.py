"""Learning rules: what one sample does to the student.

base (Rule, Sample, Update) -> gradient (backpropagation on any loss), classical (Hebbian, Perceptron, AdaTron)
"""

from tutelage import checks
from tutelage.randomness import Discrete, Law, Normal, Quantile
from tutelage.rules.base import Context, Parameters, Rule, Sample, Update
from tutelage.rules.classical import AdaTron, Hebbian, Perceptron
from tutelage.rules.gradient import Gradient

__all__ = [
    "AdaTron",
    "Context",
    "Discrete",
    "Gradient",
    "Hebbian",
    "Law",
    "Normal",
    "Parameters",
    "Perceptron",
    "Quantile",
    "Rule",
    "Sample",
    "Update",
    "as_rule",
]

NAMED: dict[str, type[Rule]] = {
    "gradient": Gradient,
    "hebbian": Hebbian,
    "perceptron": Perceptron,
    "adatron": AdaTron,
}


def as_rule(value: object) -> Rule:
    """A rule from its name, or as it is."""
    allowed = "or a Rule: subclass tutelage.Rule and define update(sample, parameters, context)"
    return checks.as_part("rule", value, Rule, NAMED, allowed, None)
