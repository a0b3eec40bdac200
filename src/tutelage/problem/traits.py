"""Traits of a problem: what closed forms, solvers and analyses may rely on, and the messages about what is missing."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks, labels, losses, randomness, rules
from tutelage._types import Array
from tutelage.errors import InputError, explained
from tutelage.problem.mixture import Mixture
from tutelage.problem.schedules import SlowMomentum
from tutelage.problem.tasks import Tasks

if TYPE_CHECKING:
    from tutelage.problem.problem import Problem


def has_closed_form(rule: rules.Rule) -> bool:
    """Do the averages of the rule for squared loss have a closed form? A sample that is used once is backpropagation."""
    closed = (rules.Gradient, rules.FeedbackAlignment, rules.Dropout)
    return type(rule) in closed or (type(rule) is rules.Reuse and rule.times == 1)


def is_affine_in_label(rule: rules.Rule) -> bool:
    """Is the update for squared loss an affine function of the label? So is the difference of two squared errors."""
    return has_closed_form(rule) or type(rule) is rules.NodePerturbation


# not traits: a function that lists one of them supports several tasks, or mixtures; all others need the trait behind it
TASKS, MIXTURES = "tasks", "mixtures"
UNLESS = {TASKS: "one task", MIXTURES: "one Gaussian"}
TRAITS: "dict[str, Callable[[Problem], bool]]" = {
    "one task": lambda p: not isinstance(p.teacher, Tasks),
    "one Gaussian": lambda p: not isinstance(p.inputs, Mixture),
    "squared": lambda p: type(p.loss) is losses.Squared,
    "gradient": lambda p: type(p.rule) is rules.Gradient,
    "closed rule": lambda p: has_closed_form(p.rule),
    "real": lambda p: type(p.labels) is labels.Real and not p.has_noise_law,
    "single output": lambda p: p.student.outputs == 1 and p.references.outputs == 1,
    "one activation": lambda p: ", " not in p.student.activation.name + p.tasks[0].references.activation.name,
    "finite scatter": lambda p: not _has_infinite_scatter(p),
    "smooth": lambda p: not (p.rule.jumps or (p.rule.uses_loss and (p.loss.jumps or not p.student.activation.smooth))),
    "differentiable": lambda p: not (p.rule.uses_loss and p.loss.jumps and p.student.train_readout),
    "constant rates": lambda p: not p.schedules(),
    "fixed momentum": lambda p: not isinstance(p.sgd.momentum, SlowMomentum),
    "no momentum": lambda p: not isinstance(p.sgd.momentum, SlowMomentum) and float(p.sgd.momentum) == 0,
    "free norms": lambda p: not p.sgd.spherical,
    "all levels": lambda p: p.sgd.trainable is None,
    "no weight decay": lambda p: not callable(p.sgd.weight_decay) and float(p.sgd.weight_decay) == 0,
    "visible teacher": lambda p: p.unseen is None,
    "no biases": lambda p: not p.biased,
    "fixed readout": lambda p: not p.student.train_readout,
}
MESSAGES = {  # what a problem has instead of a trait, with names in braces, and what to ask for
    "one task": ("it has {tasks} (Tasks) in place of a teacher", "one teacher (a Network)"),
    "one Gaussian": ("its inputs are a mixture of {classes} classes", "inputs of one Gaussian"),
    "squared": ("the loss is {loss!r}, not 'squared'", "loss='squared'"),
    "gradient": ("the rule is {rule}, not the gradient", "rule='gradient'"),
    "closed rule": ("the averages of the rule {rule} have no closed form", "rule='gradient', FeedbackAlignment or Dropout"),
    "real": ("{labels}", "labels='real' with a number as noise"),
    "single output": ("the networks have {outputs} outputs", "outputs=1"),
    "one activation": ("the units of a network have different activations", "one activation for all units"),
    "finite scatter": (
        "the label noise has an infinite fourth moment, and with it the variance of Q over networks",
        "noise with lighter tails, or a loss with a bounded slope (loss='huber')",
    ),
    "smooth": ("the update jumps as a function of the student's fields", "a smooth loss and activation"),
    "differentiable": (
        "the slope of the loss {loss!r} jumps and the readout learns",
        "train_readout=False or a smooth loss",
    ),
    "constant rates": ("{changing} is a schedule", "constant learning rates (lr=0.5)"),
    "fixed momentum": ("momentum is a SlowMomentum", "a fixed momentum (momentum=0.9)"),
    "no momentum": ("the problem has momentum", "momentum=0"),
    "free norms": ("spherical is True (weights of fixed length)", "spherical=False"),
    "all levels": ("some levels are frozen (trainable)", "trainable=None"),
    "no weight decay": ("the weights decay (weight_decay)", "weight_decay=0"),
    "visible teacher": ("the inputs do not carry all of the teacher's fields (unseen)", "a teacher without unseen"),
    "no biases": ("the units have biases", "units without biases"),
    "fixed readout": ("the readout learns too", "train_readout=False"),
}
CLASSIC = ("one task", "one Gaussian", "squared", "gradient", "real", "single output", "one activation")
CLOSED = tuple("closed rule" if name == "gradient" else name for name in CLASSIC)  # closed drift and noise
VISIBLE = (*CLASSIC, "visible teacher")  # for what assumes that zero error exists
SMOOTH = ("differentiable", "single output")
CONSTANT_RATES = ("constant rates", "fixed momentum", "free norms")
CLASSICAL = (rules.Perceptron, rules.AdaTron, rules.Hebbian, rules.Reinforce)  # they learn from labels -1 and 1


def missing_traits(problem: "Problem", needed: Iterable[str]) -> list[str]:
    """The traits among these that the problem does not have."""
    return [name for name in needed if not TRAITS[name](problem)]


def require_traits(problem: "Problem", function: str, needed: Iterable[str]) -> None:
    """Raise InputError if the problem lacks a trait that the function needs."""
    needed = tuple(needed)
    usual = tuple(trait for word, trait in UNLESS.items() if word not in needed and trait not in needed)
    missing = missing_traits(problem, (*usual, *(name for name in needed if name not in UNLESS)))
    if missing:
        has, needs = said_instead(problem, missing), " and ".join(MESSAGES[name][1] for name in missing)
        raise InputError(f"{function} does not support this problem: {has}. It needs {needs}; `solve` does not.")


def _has_infinite_scatter(problem: "Problem") -> bool:
    """Whether steps of Q, which are squares of errors, have an infinite variance."""
    noise = problem.noise
    if not problem.has_noise_law or randomness.has_fourth_moment(noise):  # pyright: ignore
        return False
    return not (problem.rule.uses_loss and losses.has_bounded_slope(problem.loss))


def said_instead(problem: "Problem", missing: Iterable[str]) -> str:
    """What a problem has instead of these traits."""
    p, tasks = problem, getattr(problem.teacher, "count", 1)
    return ", and ".join(MESSAGES[name][0] for name in missing).format(
        tasks=f"{tasks} task{'s' * (tasks > 1)}",
        classes=getattr(p.inputs, "classes", 1),
        loss=losses.loss_name(p.loss),
        rule=type(p.rule).__name__,
        labels="the label noise has a quantile function" if p.has_noise_law else f"the labels are {type(p.labels).__name__}",
        outputs=max(p.student.outputs, p.references.outputs),
        changing=next(iter(p.schedules()), ""),
    )


def require_fit(problem: "Problem") -> None:
    """Loss, labels, rule and outputs must fit each other."""
    p, sgd, rule_name, loss_name = problem, problem.sgd, type(problem.rule).__name__, losses.loss_name(problem.loss)
    teacher_outputs, student_outputs, kind = p.teacher.outputs, p.student.outputs, p.labels.kind
    own, real = isinstance(p.labels, labels.Function), isinstance(p.labels, labels.Real)
    targets = p.loss.targets if p.rule.uses_loss else "real"
    if not real and (callable(p.noise) or (not checks.is_traced(p.noise) and np.any(p.noise != 0))):
        given = f"noise is {checks.shown(p.noise)} and the labels are {type(p.labels).__name__}"
        raise InputError(f"{given}; use labels='real', or labels.Sign(flip=0.1) for wrong labels.")
    if p.has_noise_law and student_outputs > 1:
        raise InputError("noise is a function and there are several outputs; give a number, the noise of each output.")
    if p.has_noise_law:
        _require_quantiles(p.noise)
    if kind == "sign" and teacher_outputs > 1:
        raise InputError(f"the labels are signs and the teacher has {teacher_outputs} outputs; use labels='argmax'.")
    if kind == "class" and teacher_outputs < 2:
        raise InputError("labels is 'argmax' and the teacher has one output; give it several: Network(3, outputs=3).")
    if not own and student_outputs != teacher_outputs:
        raise InputError(f"the student has {student_outputs} outputs and the teacher {teacher_outputs}; they must be equal.")
    if not own and targets not in ("real", kind):
        made = {"sign": "labels -1 and 1; use labels='sign'", "class": "classes; use labels='argmax' and several outputs"}
        raise InputError(f"the loss {loss_name!r} and labels of kind {kind!r} do not fit: it needs {made[targets]}.")
    if targets == "class" and student_outputs < 2:
        raise InputError(f"the loss {loss_name!r} needs two outputs or more and the student has one; use loss='logistic'.")
    if targets == "sign" and student_outputs > 1:
        raise InputError(f"the loss {loss_name!r} needs one output, the student has {student_outputs}; use cross_entropy.")
    if type(p.rule) in CLASSICAL and not own and kind != "sign":
        raise InputError(f"the rule {rule_name} needs labels -1 and 1, not of kind {kind!r}; use labels='sign'.")
    if isinstance(p.rule, rules.Reinforce) and p.student.hidden > 1:
        raise InputError(f"the rule Reinforce is for one unit and the student has {p.student.hidden}; use Network(1).")
    if p.rule.uses_norm and not checks.is_traced(sgd.batch) and sgd.batch > 1:
        raise InputError(f"the rule {rule_name} learns from one sample at a time and batch is {sgd.batch}; use batch=1.")
    slow = isinstance(sgd.momentum, SlowMomentum)
    if p.rule.uses_norm and (slow or (not checks.is_traced(sgd.momentum) and float(sgd.momentum) > 0)):
        raise InputError(f"the rule {rule_name} holds for plain SGD and the problem has momentum; use momentum=0.")
    if isinstance(p.rule, rules.FeedbackAlignment):
        shape = np.shape(p.student.readout)
        checks.require_shape("feedback", p.rule.feedback, (), shape, fix="One number per readout weight, or one for all.")
    words = losses.as_loss.word(p.loss), labels.as_labels.word(p.labels), rules.as_rule.word(p.rule)
    if None in words:
        _require_update(problem)


def _require_quantiles(noise: Callable[..., object]) -> None:
    fix = "it must be a quantile function of an array, such as scipy.stats.t(3).ppf."
    with explained("noise is a function that fails on [0.1, 0.5, 0.9]", fix):
        values = np.asarray(noise(np.array([0.1, 0.5, 0.9])), dtype=float)
    if values.shape != (3,) or not np.all(np.isfinite(values)) or np.any(np.diff(values) < 0):
        raise InputError(f"noise is a function that is not increasing and finite on (0, 1); {fix}")


def _require_update(problem: "Problem") -> None:
    """Labels, loss and rule can be traced, and return finite numbers of the right shapes."""
    from tutelage.problem.sample import context_of, normals_needed, updates_of  # which need problems

    p, tried, K, M, S = problem, _some_labels(problem), problem.student.hidden, problem.teacher.hidden, problem.rule.samples
    fields, rho = jnp.full((S, K), 0.2), jnp.full((S, M), 0.3)
    if p.rule.uses_loss:
        losses.require_usable(p.loss, p.student.output(fields[0]), tried)
    name, law = type(p.rule).__name__, p.rule.randomness(0.0)
    if law is not None and not isinstance(law, rules.Law):
        given = f"the randomness of the rule {name} is {checks.shown(law)}"
        raise InputError(f"{given}; it must be None or a law, such as rules.Discrete([0.0, 1.0], [0.5, 0.5]).")
    label, normals = jnp.broadcast_to(tried[0], (S, *tried.shape[1:])), jnp.zeros((S, normals_needed(p)))
    parameters = rules.Parameters(jnp.asarray(p.student.readout), None if p.student.bias is None else fields[0])
    context = context_of(p, lr=1.0, overlaps=(jnp.zeros((K, M)), jnp.eye(K), jnp.eye(M)))
    fix = "update(sample, parameters, context) must be written with jax.numpy and return self.result(delta, parameters)."
    with explained(f"the rule {name} fails on one sample", fix):
        update = jax.eval_shape(lambda: updates_of(p, fields, rho, label, normals, parameters, context))
    if not isinstance(update, rules.Update) or not isinstance(update.parameters, rules.Parameters):
        raise InputError(f"the rule {name} returns no Update; it must return self.result(delta, parameters).")
    found = {"delta": (update.delta, (K,)), "change of the readout": (update.parameters.readout, parameters.readout.shape)}
    for what, (value, shape) in found.items():
        if value.shape[1:] != shape:
            raise InputError(f"the rule {name} returns a {what} of shape {value.shape[1:]}; it must be {shape}.")


def _some_labels(problem: "Problem") -> Float[Array, " count *outputs"]:
    """Noiseless labels (count, ...) of some teacher fields, once they are known to be usable."""
    p, named = problem, problem.labels.function if isinstance(problem.labels, labels.Function) else type(problem.labels)
    name = checks.name_of(named)
    fields = jnp.asarray(np.random.default_rng(0).standard_normal((16, p.teacher.hidden)))
    fix = "label(output, rho, xi, noise) must be written with jax.numpy and return a number or a vector."
    with explained(f"the labels {name!r} fail on one sample", fix):
        tried = jax.vmap(lambda rho: jnp.asarray(p.labels.truth(p.teacher.output(rho), rho), float))(fields)
    outputs = p.student.outputs
    fix = f"One number for each of the student's outputs ({outputs} output{'s' * (outputs > 1)})."
    checks.require_shape(f"a label of {name!r}", tried[0], () if outputs == 1 else (outputs,), fix=fix)
    needs_signs = p.loss.targets == "sign" if p.rule.uses_loss else type(p.rule) in CLASSICAL
    if needs_signs and not checks.is_traced(tried) and np.any(np.abs(tried) != 1):
        what = f"the loss {losses.loss_name(p.loss)!r}" if p.rule.uses_loss else f"the rule {type(p.rule).__name__}"
        wrong = np.asarray(tried)[np.abs(tried) != 1][0]
        raise InputError(f"{what} needs labels -1 and 1, and {name!r} has {wrong:g}; use jnp.where(condition, 1.0, -1.0).")
    return tried
