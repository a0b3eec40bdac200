"""Learning rules: what one sample does to the student.

base (Rule, Sample, Update) -> gradient (backpropagation on any loss), classical (Hebbian, Perceptron, AdaTron)
"""

from typing import Any

from tutelage import checks
from tutelage._errors import InputError
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


def as_rule(value: Any) -> Rule:
    """A rule from its name, or as it is."""
    if isinstance(value, Rule):
        return value
    if isinstance(value, str):
        return NAMED[checks.known("rule", value, NAMED)]()
    if isinstance(value, type) and issubclass(value, Rule):
        raise InputError(f"rule is the class {value.__name__}; make one, such as {value.__name__}().")
    raise InputError(
        f"rule is {checks.shown(value)}; it must be a name ({', '.join(NAMED)}) or a Rule. Subclass tutelage.Rule and "
        "define update(sample, parameters, context)."
    )
