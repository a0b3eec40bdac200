"""Traits of a problem: what closed forms, solvers and analyses may rely on. One table, and one function that refuses.

A function that needs more than the general theory asks `require_traits(problem, "fixed_point", SMOOTH)`; the message names
each missing trait, what the problem has instead, and what to change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage import _checks, labels, losses, rules
from tutelage._errors import InputError


@dataclass(frozen=True)
class Trait:
    """holds: does a problem have it? has: what it has instead, in words. fix: what to change."""

    holds: Callable[[Any], bool]
    has: Callable[[Any], str]
    fix: str


def _jumps(problem: Any) -> bool:
    rule = problem.rule
    return rule.jumps or (rule.gradient and (problem.loss.jumps or not problem.student.activation.smooth))


TRAITS: dict[str, Trait] = {
    "squared": Trait(
        lambda p: type(p.loss) is losses.Squared,
        lambda p: f"the loss is {losses.loss_name(p.loss)!r}, not 'squared'",
        "use loss='squared'",
    ),
    "gradient": Trait(
        lambda p: type(p.rule) is rules.Gradient,
        lambda p: f"the rule is {type(p.rule).__name__}, not the gradient of the loss",
        "use rule='gradient'",
    ),
    "real": Trait(
        lambda p: type(p.labels) is labels.Real and not callable(p.noise),
        lambda p: (
            "the label noise has a quantile function" if callable(p.noise) else f"the labels are {type(p.labels).__name__}"
        ),
        "use labels='real' with a number as noise",
    ),
    "single output": Trait(
        lambda p: p.student.outputs == 1 and p.teacher.outputs == 1,
        lambda p: f"the networks have {max(p.student.outputs, p.teacher.outputs)} outputs",
        "use outputs=1",
    ),
    "one activation": Trait(
        lambda p: ", " not in p.student.activation.name + p.teacher.activation.name,
        lambda p: "the units of a network have different activations",
        "use one activation for all units",
    ),
    "smooth": Trait(
        lambda p: not _jumps(p),
        lambda p: "the update jumps as a function of the student's fields",
        "use a smooth loss and activation",
    ),
    "differentiable": Trait(
        lambda p: not (p.rule.gradient and p.loss.jumps and p.student.train_readout),
        lambda p: f"the derivative of the loss {losses.loss_name(p.loss)!r} jumps where the trained readout says",
        "fix the readout, or use a smooth loss",
    ),
}
CLASSIC = ("squared", "gradient", "real", "single output", "one activation")
SMOOTH = ("differentiable", "single output")


def missing_traits(problem: Any, needed: Iterable[str]) -> list[str]:
    """The traits among these that the problem does not have."""
    return [name for name in needed if not TRAITS[name].holds(problem)]


def require_traits(problem: Any, function: str, needed: Iterable[str]) -> None:
    """Raise InputError if the problem lacks a trait that the function needs."""
    missing = missing_traits(problem, needed)
    if missing:
        has = ", and ".join(TRAITS[name].has(problem) for name in missing)
        fixes = " and ".join(TRAITS[name].fix for name in missing)
        raise InputError(
            f"{function} does not support this problem: {has}. To use it, {fixes}; `solve` needs no such thing."
        )


def require_fit(problem: Any) -> None:
    """Loss, labels, rule and outputs must fit each other."""
    p, loss_name = problem, losses.loss_name(problem.loss)
    teacher_outputs, student_outputs, kind = p.teacher.outputs, p.student.outputs, p.labels.kind
    own = isinstance(p.labels, labels.Function)
    if callable(p.noise) and not isinstance(p.labels, labels.Real):
        raise InputError("noise is a function, which belongs to labels='real'; leave it out, or use labels='real'.")
    if not callable(p.noise):
        noisy = not _checks.is_traced(p.noise) and np.any(np.asarray(p.noise) != 0)
        if noisy and not isinstance(p.labels, labels.Real):
            raise InputError(
                f"noise is {_checks.shown(p.noise)} and the labels are {type(p.labels).__name__}; noise belongs to "
                "labels='real'. For wrong labels use labels.Sign(flip=0.1)."
            )
    elif student_outputs > 1:
        raise InputError("noise is a function and there are several outputs; give a number, the noise of each output.")
    else:
        _require_quantiles(p.noise)
    if kind == "sign" and teacher_outputs > 1:
        raise InputError(f"the labels are signs and the teacher has {teacher_outputs} outputs; use labels='argmax'.")
    if kind == "class" and teacher_outputs < 2:
        raise InputError("labels is 'argmax' and the teacher has one output; give it several: Network(3, outputs=3).")
    if not own and student_outputs != teacher_outputs:
        raise InputError(
            f"the student has {student_outputs} outputs and the teacher {teacher_outputs}; they must be equal. Set outputs."
        )
    if p.rule.gradient and not own and p.loss.targets not in ("real", kind):
        made = {"sign": "labels -1 and 1; use labels='sign'", "class": "classes; use labels='argmax' and several outputs"}
        raise InputError(f"the loss {loss_name!r} and labels of kind {kind!r} do not fit: it needs {made[p.loss.targets]}.")
    if p.rule.gradient and p.loss.targets == "class" and student_outputs < 2:
        raise InputError(f"the loss {loss_name!r} needs two outputs or more and the student has one; use loss='logistic'.")
    if p.rule.gradient and p.loss.targets == "sign" and student_outputs > 1:
        raise InputError(
            f"the loss {loss_name!r} needs one output and the student has {student_outputs}; use cross_entropy."
        )
    if type(p.rule) in (rules.Perceptron, rules.AdaTron, rules.Hebbian) and not own and kind != "sign":
        raise InputError(
            f"the rule {type(p.rule).__name__} learns from labels -1 and 1, and the labels are of kind {kind!r}; use "
            "labels='sign'."
        )
    if own or isinstance(p.loss, losses.Function) or type(p.rule) not in rules.NAMED.values():
        _require_update(problem)


def _require_quantiles(noise: Any) -> None:
    try:
        values = np.asarray(noise(np.array([0.1, 0.5, 0.9])), dtype=float)
    except Exception as error:
        raise InputError(
            f"noise is a function that fails on [0.1, 0.5, 0.9] ({type(error).__name__}); it must be a quantile function of "
            "an array, such as scipy.stats.t(3).ppf."
        ) from None
    if values.shape != (3,) or not np.all(np.isfinite(values)) or np.any(np.diff(values) < 0):
        raise InputError(
            "noise is a function that is not increasing and finite on (0, 1); it must be a quantile function, such as "
            "scipy.stats.t(3).ppf."
        )


def _require_update(problem: Any) -> None:
    """The rule (and the loss in it) can be traced, and returns an update of the right shapes."""
    p = problem
    rho, fields = jnp.full(p.teacher.hidden, 0.3), jnp.full(p.student.hidden, 0.2)
    label = jnp.asarray(p.labels.truth(p.teacher.output(rho), rho), float)
    if isinstance(p.labels, labels.Function) and jnp.shape(label) not in ((), (p.student.outputs,)):
        raise InputError(
            f"the label function returns shape {jnp.shape(label)} and the student has {p.student.outputs} outputs; they "
            "must agree. Set the student's outputs."
        )
    if p.rule.gradient:
        losses.require_usable(p.loss, p.student.output(fields), label)
    parameters = rules.Parameters(jnp.asarray(p.student.readout), None if p.student.bias is None else fields)
    law = p.rule.randomness(0.0)
    xi = None if law is None else law.nodes(False)[0][0]
    try:
        sample = rules.Sample(fields, rho, label, xi)
        update = jax.eval_shape(lambda: p.rule.update(sample, parameters, rules.Context(p.student, p.loss)))
    except Exception as error:
        first = str(error).split("\n")[0]
        raise InputError(
            f"the rule {type(p.rule).__name__} fails on one sample ({type(error).__name__}: {first}); update(sample, "
            "parameters, context) must be written with jax.numpy and return an Update."
        ) from None
    if not isinstance(update, rules.Update) or update.delta.shape != fields.shape:
        shape = getattr(getattr(update, "delta", None), "shape", type(update).__name__)
        raise InputError(
            f"the rule {type(p.rule).__name__} returns a delta of shape {shape}; it must be {fields.shape}, one number per "
            "hidden unit."
        )
    if update.parameters.readout.shape != parameters.readout.shape:
        raise InputError(
            f"the rule {type(p.rule).__name__} moves the readout by shape {update.parameters.readout.shape}; it must be "
            f"{parameters.readout.shape}."
        )
