"""Traits of a problem, on which closed forms, solvers and analyses may rely.

A function lists the traits that it needs. One message says what a problem has in place of
the missing ones, and what would help.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks, randomness
from tutelage._types import Array
from tutelage.errors import InputError, explained
from tutelage.problem import labels
from tutelage.training import losses, rules
from tutelage.training.optimizers import SGD, Muon

if TYPE_CHECKING:
    from tutelage.problem.problem import Problem


def has_closed_form(rule: rules.Rule) -> bool:
    """Return True if the rule's averages for squared loss have a closed form.

    A sample that is used once is backpropagation.
    """
    closed = (rules.Gradient, rules.FeedbackAlignment, rules.Dropout)
    uses_samples_once = type(rule) is rules.Reuse and rule.times == 1
    return type(rule) in closed or uses_samples_once


def is_affine_in_label(rule: rules.Rule) -> bool:
    """Return True if the update for squared loss is an affine function of the label.

    The difference of two squared errors is one too.
    """
    return has_closed_form(rule) or type(rule) is rules.NodePerturbation


class Trait(NamedTuple):
    """A property that a function may need.

    holds: the test of a problem. instead: what a problem without the trait has, with
    names in braces that `said_instead` fills in. remedy: what to use.
    """

    holds: "Callable[[Problem], bool]"
    instead: str
    remedy: str


def _has_one_activation(problem: "Problem") -> bool:
    student = problem.student.activation
    teacher = problem.tasks[0].labeler.activation
    return ", " not in student.name + teacher.name


def _has_smooth_update(problem: "Problem") -> bool:
    rule = problem.optimizer.averaged_rule(problem.rule)
    if rule.jumps:
        return False
    if not rule.uses_loss:
        return True
    return not problem.loss.jumps and problem.student.activation.smooth


def _has_infinite_scatter(problem: "Problem") -> bool:
    """Return True if steps of Q, squares of errors, have an infinite variance."""
    if problem.noise_law is None or randomness.has_fourth_moment(problem.noise_law):
        return False
    return not problem.rule.uses_loss or not losses.has_bounded_slope(problem.loss)


def _has_plain_steps(problem: "Problem") -> bool:
    optimizer = problem.optimizer
    if not isinstance(optimizer, SGD):
        return False
    return optimizer.clip is None and optimizer.clip_coordinates is None


def _has_continuous_steps(problem: "Problem") -> bool:
    optimizer = problem.optimizer
    if optimizer.takes_signs_of_samples:
        return False
    return not optimizer.averages_batches or _has_smooth_update(problem)


def _learns_outside_vectors(problem: "Problem") -> bool:
    student = problem.student
    return student.train_readout or (problem.biased and student.train_bias)


def _has_weight_decay(problem: "Problem") -> bool:
    decay = problem.optimizer.weight_decay
    return callable(decay) or float(decay) != 0


TRAITS: dict[str, Trait] = {
    "fresh samples": Trait(
        holds=lambda p: p.data is None and p.optimizer.on_stream,
        instead="{reuse}",
        remedy="optimizer=SGD(lr) on fresh samples, without data",
    ),
    "one task": Trait(
        holds=lambda p: p.several_tasks is None,
        instead="it has {tasks} (Tasks) in place of a teacher",
        remedy="one teacher (a Network)",
    ),
    "one Gaussian": Trait(
        holds=lambda p: p.inputs.classes is None,
        instead="its inputs are a mixture of {classes} classes",
        remedy="inputs of one Gaussian",
    ),
    "squared": Trait(
        holds=lambda p: type(p.loss) is losses.Squared,
        instead="the loss is {loss!r}, not 'squared'",
        remedy="loss='squared'",
    ),
    "gradient": Trait(
        holds=lambda p: type(p.rule) is rules.Gradient,
        instead="the rule is {rule}, not the gradient",
        remedy="rule='gradient'",
    ),
    "closed rule": Trait(
        holds=lambda p: has_closed_form(p.optimizer.averaged_rule(p.rule)),
        instead="the averages of the rule {rule} have no closed form",
        remedy="rule='gradient', FeedbackAlignment or Dropout",
    ),
    "real": Trait(
        holds=lambda p: type(p.labels) is labels.Real and not p.has_noise_law,
        instead="{labels}",
        remedy="labels='real' with a number as noise",
    ),
    "single output": Trait(
        holds=lambda p: p.student.outputs == 1 and p.references.outputs == 1,
        instead="the networks have {outputs} outputs",
        remedy="outputs=1",
    ),
    "one activation": Trait(
        holds=_has_one_activation,
        instead="the units of a network have different activations",
        remedy="one activation for all units",
    ),
    "finite scatter": Trait(
        holds=lambda p: not _has_infinite_scatter(p),
        instead=(
            "the label noise has an infinite fourth moment, "
            "and with it the variance of Q over networks"
        ),
        remedy="noise with lighter tails, or a loss with a bounded slope (loss='huber')",
    ),
    "smooth": Trait(
        holds=_has_smooth_update,
        instead="the update jumps as a function of the student's fields",
        remedy="a smooth loss and activation",
    ),
    "differentiable": Trait(
        holds=lambda p: (
            not (p.rule.uses_loss and p.loss.jumps and p.student.train_readout)
        ),
        instead="the slope of the loss {loss!r} jumps and the readout learns",
        remedy="train_readout=False or a smooth loss",
    ),
    "plain SGD": Trait(
        holds=_has_plain_steps,
        instead="the optimizer is {optimizer}",
        remedy="optimizer=SGD(lr) without clipping",
    ),
    "sum of samples": Trait(
        holds=lambda p: p.optimizer.adds_samples,
        instead="a step of {optimizer} is not a sum over its samples",
        remedy="SGD(lr), RMSprop(lr), Adam(lr) or AdaGrad(lr)",
    ),
    "unscaled readout": Trait(
        holds=lambda p: not (p.optimizer.has_scales and _learns_outside_vectors(p)),
        instead="the readout or the biases learn by {optimizer}",
        remedy="train_readout=False and train_bias=False, or optimizer=SGD(lr)",
    ),
    "settling scales": Trait(
        holds=lambda p: not p.optimizer.sums_squares,
        instead="the scale of {optimizer} grows without end",
        remedy="optimizer=RMSprop(lr), which forgets old gradients",
    ),
    "steady steps": Trait(
        holds=lambda p: not p.optimizer.corrects_start,
        instead="the bias correction of {optimizer} changes its steps in time",
        remedy="optimizer=RMSprop(lr) with the same memory",
    ),
    "steps without jumps": Trait(
        holds=_has_continuous_steps,
        instead="updates jump, and averages of {optimizer} have no derivative there",
        remedy=(
            "a batch of two samples or more, with a smooth rule, loss and activation"
        ),
    ),
    "steps at equal units": Trait(
        # The polar factor of a gradient matrix has no derivative where it loses rank.
        holds=lambda p: not isinstance(p.optimizer, Muon),
        instead="steps of {optimizer} jump where units are equal, as on a plateau",
        remedy="SGD(lr), RMSprop(lr) or Adam(lr)",
    ),
    "constant rates": Trait(
        holds=lambda p: not p.schedules,
        instead="{changing} is a schedule",
        remedy="constant learning rates (lr=0.5)",
    ),
    "fixed momentum": Trait(
        holds=lambda p: p.optimizer.slow_momentum is None,
        instead="momentum is a SlowMomentum",
        remedy="a fixed momentum (momentum=0.9)",
    ),
    "no momentum": Trait(
        holds=lambda p: not p.optimizer.has_momentum,
        instead="the problem has momentum",
        remedy="momentum=0",
    ),
    "free norms": Trait(
        holds=lambda p: not p.optimizer.spherical,
        instead="spherical is True (weights of fixed length)",
        remedy="spherical=False",
    ),
    "all levels": Trait(
        holds=lambda p: p.optimizer.trainable is None,
        instead="some levels are frozen (trainable)",
        remedy="trainable=None",
    ),
    "no weight decay": Trait(
        holds=lambda p: not _has_weight_decay(p),
        instead="the weights decay (weight_decay)",
        remedy="weight_decay=0",
    ),
    "visible teacher": Trait(
        holds=lambda p: p.unseen is None,
        instead="the inputs do not carry all of the teacher's fields (unseen)",
        remedy="a teacher without unseen",
    ),
    "no biases": Trait(
        holds=lambda p: not p.biased,
        instead="the units have biases",
        remedy="units without biases",
    ),
    "fixed readout": Trait(
        holds=lambda p: not p.student.train_readout,
        instead="the readout learns too",
        remedy="train_readout=False",
    ),
}

# Words that are not traits: a function that lists one supports several tasks, mixtures,
# every optimizer of the stream, or every theory. All other functions need the trait
# behind the word.
TASKS = "tasks"
MIXTURES = "mixtures"
OPTIMIZERS = "optimizers"
ANY_THEORY = "any theory"
NEEDED_UNLESS_LISTED = {
    TASKS: "one task",
    MIXTURES: "one Gaussian",
    OPTIMIZERS: "plain SGD",
    ANY_THEORY: "fresh samples",
}

# Groups of traits that functions list together. CLOSED: drift and noise have closed forms.
# VISIBLE: for what assumes that zero error exists.
CLASSIC = (
    "one task",
    "one Gaussian",
    "squared",
    "gradient",
    "real",
    "single output",
    "one activation",
)
CLOSED = tuple("closed rule" if name == "gradient" else name for name in CLASSIC)
VISIBLE = (*CLASSIC, "visible teacher")
SMOOTH = ("differentiable", "single output")
CONSTANT_RATES = ("constant rates", "fixed momentum", "free norms")

# Rules of a single unit that learn from labels -1 and 1.
CLASSICAL_RULES = (rules.Perceptron, rules.AdaTron, rules.Hebbian, rules.Reinforce)


def missing_traits(problem: "Problem", needed: Iterable[str]) -> list[str]:
    """Return the needed traits that the problem does not have."""
    return [name for name in needed if not TRAITS[name].holds(problem)]


def require_traits(problem: "Problem", function: str, needed: Iterable[str]) -> None:
    """Raise InputError if the problem lacks a trait that the function needs."""
    listed = tuple(needed)
    required = []
    for word, trait in NEEDED_UNLESS_LISTED.items():
        if word not in listed and trait not in listed:
            required.append(trait)
    required += [name for name in listed if name not in NEEDED_UNLESS_LISTED]
    missing = missing_traits(problem, required)
    if missing:
        remedies = " and ".join(TRAITS[name].remedy for name in missing)
        raise InputError(
            f"{function} does not support this problem: "
            f"{said_instead(problem, missing)}. It needs {remedies}; `solve` does not."
        )


def said_instead(problem: "Problem", missing: Iterable[str | Trait]) -> str:
    """Say in words what a problem has in place of the missing traits."""
    traits = [TRAITS[trait] if isinstance(trait, str) else trait for trait in missing]
    tasks = getattr(problem.teacher, "count", 1)
    label_law = f"the labels are {type(problem.labels).__name__}"
    if problem.has_noise_law:
        label_law = "the label noise has a quantile function"
    reuse = f"the optimizer is {problem.optimizer}"
    if problem.data is not None:
        reuse = "it uses a data set again and again (data)"
    template = ", and ".join(trait.instead for trait in traits)
    return template.format(
        tasks=f"{tasks} task{'s' * (tasks > 1)}",
        classes=getattr(problem.inputs, "classes", 1),
        loss=losses.loss_name(problem.loss),
        rule=type(problem.rule).__name__,
        labels=label_law,
        outputs=max(problem.student.outputs, problem.references.outputs),
        changing=next(iter(problem.schedules), ""),
        optimizer=problem.optimizer,
        reuse=reuse,
    )


def require_fit(problem: "Problem") -> None:
    """Refuse a loss, labels, a rule and outputs that do not fit each other."""
    _require_noise_fits(problem)
    _require_labels_fit(problem)
    _require_loss_fits(problem)
    _require_rule_fits(problem)
    is_built_in = (
        losses.as_loss.word(problem.loss),
        labels.as_labels.word(problem.labels),
        rules.as_rule.word(problem.rule),
    )
    if None in is_built_in:
        _require_update(problem)


def _require_noise_fits(problem: "Problem") -> None:
    """Refuse noise on labels that are not real, or by a law on several outputs."""
    noise = problem.noise
    is_noisy = callable(noise) or (not checks.is_traced(noise) and np.any(noise != 0))
    if is_noisy and not isinstance(problem.labels, labels.Real):
        raise InputError(
            f"noise is {checks.shown(noise)} and the labels are "
            f"{type(problem.labels).__name__}; use labels='real', "
            "or labels.Sign(flip=0.1) for wrong labels."
        )
    if problem.noise_law is not None:
        if problem.student.outputs > 1:
            raise InputError(
                "noise is a function and there are several outputs; "
                "give a number, the noise of each output."
            )
        _require_quantile_function(problem.noise_law)


def _require_labels_fit(problem: "Problem") -> None:
    """Refuse labels that do not fit the outputs of teacher and student."""
    kind = problem.labels.kind
    teacher_outputs = problem.labeler.outputs
    if kind == "sign" and teacher_outputs > 1:
        raise InputError(
            f"the labels are signs and the teacher has {teacher_outputs} outputs; "
            "use labels='argmax'."
        )
    if kind == "class" and teacher_outputs < 2:
        raise InputError(
            "labels is 'argmax' and the teacher has one output; "
            "give it several: Network(3, outputs=3)."
        )
    is_custom = isinstance(problem.labels, labels.Function)
    if not is_custom and problem.student.outputs != teacher_outputs:
        raise InputError(
            f"the student has {problem.student.outputs} outputs and the teacher "
            f"{teacher_outputs}; they must be equal."
        )


def _require_loss_fits(problem: "Problem") -> None:
    """Refuse a loss that does not fit the labels or the outputs."""
    targets = problem.loss.targets if problem.rule.uses_loss else "real"
    loss_name = losses.loss_name(problem.loss)
    kind = problem.labels.kind
    outputs = problem.student.outputs
    is_custom = isinstance(problem.labels, labels.Function)
    if not is_custom and targets not in ("real", kind):
        needed = {
            "sign": "labels -1 and 1; use labels='sign'",
            "class": "classes; use labels='argmax' and several outputs",
        }
        raise InputError(
            f"the loss {loss_name!r} and labels of kind {kind!r} do not fit: "
            f"it needs {needed[targets]}."
        )
    if targets == "class" and outputs < 2:
        raise InputError(
            f"the loss {loss_name!r} needs two outputs or more and the student has one; "
            "use loss='logistic'."
        )
    if targets == "sign" and outputs > 1:
        raise InputError(
            f"the loss {loss_name!r} needs one output, the student has {outputs}; "
            "use cross_entropy."
        )


def _require_rule_fits(problem: "Problem") -> None:
    """Refuse a rule that does not fit the labels, the student or SGD."""
    rule = problem.rule
    name = type(rule).__name__
    kind = problem.labels.kind
    is_custom = isinstance(problem.labels, labels.Function)
    if type(rule) in CLASSICAL_RULES and not is_custom and kind != "sign":
        raise InputError(
            f"the rule {name} needs labels -1 and 1, not of kind {kind!r}; "
            "use labels='sign'."
        )
    if isinstance(rule, rules.Reinforce) and problem.student.hidden > 1:
        raise InputError(
            f"the rule Reinforce is for one unit and the student has "
            f"{problem.student.hidden}; use Network(1)."
        )
    optimizer = problem.optimizer
    if rule.uses_norm and not checks.is_traced(optimizer.batch) and optimizer.batch > 1:
        raise InputError(
            f"the rule {name} learns from one sample at a time and batch is "
            f"{optimizer.batch}; use batch=1."
        )
    if rule.uses_norm and optimizer.has_momentum:
        raise InputError(
            f"the rule {name} holds for plain SGD and the problem has momentum; "
            "use momentum=0."
        )
    if not _has_plain_steps(problem) and rule.samples > 1:
        raise InputError(
            f"the rule {name} learns from episodes of {rule.samples} samples and the "
            f"optimizer is {optimizer}; use optimizer=SGD(lr)."
        )
    if isinstance(rule, rules.FeedbackAlignment):
        shape = np.shape(problem.student.readout)
        fix = "One number per readout weight, or one for all."
        checks.require_shape("feedback", rule.feedback, (), shape, fix=fix)


def _require_quantile_function(noise: Callable[..., object]) -> None:
    """Refuse a noise law that is not increasing and finite at three probabilities."""
    fix = "it must be a quantile function of an array, such as scipy.stats.t(3).ppf."
    with explained("noise is a function that fails on [0.1, 0.5, 0.9]", fix):
        values = np.asarray(noise(np.array([0.1, 0.5, 0.9])), dtype=float)
    is_finite = values.shape == (3,) and np.all(np.isfinite(values))
    if not is_finite or np.any(np.diff(values) < 0):
        raise InputError(
            f"noise is a function that is not increasing and finite on (0, 1); {fix}"
        )


def _require_update(problem: "Problem") -> None:
    """Refuse custom labels, losses and rules that fail on one sample.

    JAX must be able to trace them, and they return finite numbers of the right shapes.
    """
    # this module needs problems
    from tutelage.problem.sample import context_of, normals_needed, updates_of

    rule = problem.rule
    name = type(rule).__name__
    K = problem.student.hidden
    M = problem.labeler.hidden
    samples = rule.samples
    tried_labels = _some_labels(problem)
    fields = jnp.full((samples, K), 0.2)
    rho = jnp.full((samples, M), 0.3)
    if rule.uses_loss:
        output = problem.student.output(fields[0])
        losses.require_usable(problem.loss, output, tried_labels)
    law = rule.randomness(0.0)
    if law is not None and not isinstance(law, rules.Law):
        raise InputError(
            f"the randomness of the rule {name} is {checks.shown(law)}; it must be None "
            "or a law, such as rules.Discrete([0.0, 1.0], [0.5, 0.5])."
        )
    label = jnp.broadcast_to(tried_labels[0], (samples, *tried_labels.shape[1:]))
    normals = jnp.zeros((samples, normals_needed(problem)))
    parameters = rules.Parameters(
        readout=jnp.asarray(problem.student.readout),
        bias=None if problem.student.bias is None else fields[0],
    )
    overlaps = (jnp.zeros((K, M)), jnp.eye(K), jnp.eye(M))
    context = context_of(problem, lr=1.0, overlaps=overlaps)

    def try_update() -> rules.Update:
        return updates_of(problem, fields, rho, label, normals, parameters, context)

    fix = (
        "update(sample, parameters, context) must be written with jax.numpy and return "
        "self.result(delta, parameters)."
    )
    with explained(f"the rule {name} fails on one sample", fix):
        update = jax.eval_shape(try_update)
    if not isinstance(update, rules.Update):
        raise InputError(
            f"the rule {name} returns no Update; "
            "it must return self.result(delta, parameters)."
        )
    _require_update_fits(update, name, parameters, (samples, K))


def _require_update_fits(
    update: rules.Update,
    rule_name: str,
    parameters: rules.Parameters,
    shape: tuple[int, int],
) -> None:
    """Refuse an update whose arrays do not fit the sample or the parameters.

    update: of the samples of one step. parameters: those that the rule has read. shape:
    of delta.
    """
    for field in ("along", "along_teacher"):
        if getattr(update, field) is not None:
            raise InputError(
                f"the rule {rule_name} returns an Update with {field}; terms along the "
                "weights are not supported yet. Leave it out."
            )
    if jax.tree.structure(update.parameters) != jax.tree.structure(parameters):
        raise InputError(
            f"the rule {rule_name} returns other parameters than it has read; the "
            "Update needs a change of each of them, such as those of "
            "self.result(delta, parameters)."
        )
    _require_update_shape(rule_name, "delta", update.delta.shape, shape)
    changes = zip(
        jax.tree.leaves_with_path(update.parameters),
        jax.tree.leaves(parameters),
        strict=True,
    )
    for (path, change), value in changes:
        what = f"change of the {jax.tree_util.keystr(path, simple=True)}"
        samples = shape[0]
        _require_update_shape(
            rule_name, what, change.shape, (samples, *jnp.shape(value))
        )


def _require_update_shape(
    rule_name: str, what: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Refuse an array of the updates of samples, the first axis, with another shape."""
    if shape == expected:
        return
    # what the rule has returned has an axis of samples only if an episode has several
    is_whole = what == "delta" and expected[0] > 1
    first = 0 if is_whole else 1
    raise InputError(
        f"the rule {rule_name} returns a {what} of shape {shape[first:]}; "
        f"it must be {expected[first:]}."
    )


def _some_labels(problem: "Problem") -> Float[Array, " count *outputs"]:
    """Return noiseless labels of some teacher fields, known to be usable."""
    law = problem.labels
    source = law.function if isinstance(law, labels.Function) else type(law)
    name = checks.name_of(source)
    rng = np.random.default_rng(0)
    fields = jnp.asarray(rng.standard_normal((16, problem.labeler.hidden)))

    def truth(rho: Array) -> Array:
        return jnp.asarray(law.truth(problem.labeler.output(rho), rho), float)

    fix = (
        "label(output, rho, xi, noise) must be written with jax.numpy and return a number "
        "or a vector."
    )
    with explained(f"the labels {name!r} fail on one sample", fix):
        tried = jax.vmap(truth)(fields)
    outputs = problem.student.outputs
    checks.require_shape(
        f"a label of {name!r}",
        tried[0],
        () if outputs == 1 else (outputs,),
        fix=f"One number for each of the student's outputs "
        f"({outputs} output{'s' * (outputs > 1)}).",
    )
    _require_signs(problem, name, tried)
    return tried


def _require_signs(problem: "Problem", labels_name: str, tried: Array) -> None:
    """Refuse labels other than -1 and 1 where the loss or the rule needs these."""
    if problem.rule.uses_loss:
        needs_signs = problem.loss.targets == "sign"
        learner = f"the loss {losses.loss_name(problem.loss)!r}"
    else:
        needs_signs = type(problem.rule) in CLASSICAL_RULES
        learner = f"the rule {type(problem.rule).__name__}"
    if not needs_signs or checks.is_traced(tried):
        return
    values = np.asarray(tried)
    others = values[np.abs(values) != 1]
    if others.size:
        raise InputError(
            f"{learner} needs labels -1 and 1, and {labels_name!r} has {others[0]:g}; "
            "use jnp.where(condition, 1.0, -1.0)."
        )
