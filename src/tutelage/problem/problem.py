"""`Problem`: who learns from whom, from which inputs, by which rule."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._html import ResultCard
from tutelage._part import Part, argument_names, with_fields
from tutelage._types import Array, ArrayLike, NumpyOrJax, Table
from tutelage.errors import InputError, kind_of
from tutelage.labels import Function as FunctionLabels
from tutelage.labels import Labels, as_labels
from tutelage.losses import Function as FunctionLoss
from tutelage.losses import Loss, as_loss
from tutelage.problem import serialize
from tutelage.problem.inputs import HiddenManifold, Inputs, Isotropic, Spectrum
from tutelage.problem.mixture import UNIT, Mixture
from tutelage.problem.network import Network
from tutelage.problem.schedules import SGD, USUAL_LR, is_schedule, rate_at, schedules_of
from tutelage.problem.serialize import LEARNING, PARTS
from tutelage.problem.tasks import Tasks
from tutelage.problem.traits import CLOSED, CONSTANT_RATES, VISIBLE, missing_traits, require_fit, require_traits
from tutelage.rules import Rule, as_rule

Noise: TypeAlias = Float[NumpyOrJax, ""] | Callable[[np.ndarray], np.ndarray]  # standard deviation, or quantile function


class Problem(Part, ResultCard):
    """A student learns a teacher's labels, one fresh batch at a time (Saad and Solla 1995).

        y = sum_m v*_m g*(w*_m . x / sqrt(N)) + noise z,    yhat = sum_k v_k g(w_k . x / sqrt(N)),    loss (y - yhat)^2 / 2

    x is Gaussian with the spectrum of `inputs`, z is standard Gaussian. N is not part of the problem: `solve` takes the
    limit, `simulate` takes `dim`. `replace` changes any part by name.

    Parameters
    ----------
    student : Network
        The network that learns.
    teacher : Network or Tasks, optional
        The network that labels; `Tasks` for several teachers over time; None if the classes of a `Mixture` have labels.
    inputs : Inputs
        The law of the inputs: `Isotropic()`, `PowerLaw`, `Spectrum`, `Mixture`, `HiddenManifold`.
    sgd : SGD
        Learning rate, batch, weight decay, momentum. Default: `SGD(lr=0.5)`.
    noise : float, schedule or function
        Standard deviation of the noise on real labels, or a quantile function such as `scipy.stats.t(3).ppf`.
    loss : str, Loss or function
        What is minimized; "squared", "logistic", "hinge", "huber", "absolute", "cross_entropy", a loss such as
        `losses.Huber(0.5)`, or a JAX function loss(output, label).
    labels : str, Labels or function
        How the teacher's fields become a label; "real" (output plus noise), "sign", "logistic" (Bernoulli), "argmax",
        labels such as `labels.Sign(flip=0.1)`, or a JAX function label(rho, xi).
    rule : str or Rule
        What one sample does; "gradient", "hebbian", "perceptron", "adatron", or a `Rule` such as `rules.Dropout(0.8)`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    Problem(student=Network(2, 'erf'), teacher=Network(2, 'erf'), inputs=Isotropic(), sgd=SGD(lr=0.5), noise=0)
    """

    student: Network
    teacher: Any  # a Network, Tasks, or None where the classes of a mixture have labels; most callers know which
    inputs: Any  # a law of inputs; most callers know which kind
    sgd: SGD
    noise: Any  # a `Noise`; most callers know which kind
    loss: Loss
    labels: Labels
    rule: Rule

    def __init__(
        self,
        student: Network,
        teacher: Network | Tasks | None = None,
        inputs: Inputs | None = None,
        sgd: SGD | None = None,
        noise: Noise | float = 0.0,
        *,
        loss: str | Loss | Callable[[Array, Array], Array] = "squared",
        labels: str | Labels | Callable[[Array, Array], Array] | None = None,
        rule: str | Rule = "gradient",
    ):
        network, law = "a Network, such as Network(3, 'erf')", Isotropic() if inputs is None else inputs
        by_class = teacher is None and isinstance(law, Mixture)
        self.student = checks.as_kind("student", student, Network, network)
        self.teacher = None if by_class else checks.as_kind("teacher", teacher, Network | Tasks, network)
        self.inputs = checks.as_kind("inputs", law, Inputs, "a law of inputs, such as Isotropic()")
        self.sgd = checks.as_kind("sgd", SGD(USUAL_LR) if sgd is None else sgd, SGD, "an SGD(lr)")
        self.noise = checks.as_number("noise", noise, checks.require_nonnegative, schedule=True)
        self.loss, self.rule = as_loss(loss), as_rule(rule)
        self.labels = as_labels(self._usual_labels() if labels is None else labels)
        self._check()
        if isinstance(self.labels, FunctionLabels) and self.labels.random is None:
            self.labels = self.labels.for_fields(self.task(0).label_fields)
        for each in self.tasks:
            require_fit(each.in_class())
        if isinstance(self.loss, FunctionLoss):
            self.loss = self.loss.for_outputs(self.student.outputs)

    def _check(self) -> None:
        student, teacher, inputs = self.student, self.teacher, self.inputs
        if isinstance(inputs, Mixture):
            self._check_mixture(inputs)
        units, levels = student.hidden + self.references.hidden, inputs.levels
        overlaps = f"the overlaps of {units} vectors on {levels} level{'s' * (levels != 1)}"
        checks.require_memory(overlaps, levels * units**2, "Use fewer hidden units or levels.")
        if not student.activation.trainable and self.rule.uses_loss:
            name = student.activation.name
            raise InputError(f"the student's activation is {name!r}; it has no gradient, so only a teacher can use it.")
        for name in ("gram", "unseen"):
            if getattr(student, name) is not None:
                raise InputError(
                    f"{name} is set on the student; only the teacher has one. Give the student's overlaps to Start."
                )
        if teacher is not None and np.ndim(teacher.gram) == 3:
            if isinstance(inputs, HiddenManifold):
                raise InputError("the teacher's gram has several levels; for a HiddenManifold give latent overlaps (M, M).")
            shape = (levels, teacher.hidden, teacher.hidden)
            checks.require_shape("the teacher's gram", teacher.gram, shape, fix="One matrix per level.")
        if isinstance(teacher, Network):
            teacher.require_fixed()
        self.trainable_mask()

    def _check_mixture(self, mixture: Mixture) -> None:
        """A mixture is labeled by a teacher or by its classes, whose labels must be such as loss and labels want."""
        teacher, given = self.teacher, mixture.labels is not None
        if isinstance(teacher, Tasks):
            raise InputError("a mixture does not support several tasks (Tasks); give one teacher, or Mixture(labels=...).")
        if teacher is not None and given:
            raise InputError("the mixture has labels and there is a teacher; only one of them can label. Leave one out.")
        if teacher is None and not given:
            raise InputError("nothing labels the samples; give Mixture(labels=...), one label for each class, or a teacher.")
        if teacher is not None and teacher.unseen is not None:
            raise InputError("the teacher has an unseen part, which mixtures do not support; leave one of them out.")
        if given and isinstance(self.labels, FunctionLabels):
            raise InputError("labels is a function of teacher fields and the classes have labels; give a teacher.")
        targets, signs = self.targets, self.labels.kind == "sign"
        if signs and targets is not None and not checks.is_traced(targets) and np.any(np.abs(targets) != 1):
            given = checks.shown(mixture.labels)
            raise InputError(f"the labels of the classes are {given}; labels='sign' and this loss need -1 and 1.")

    def _usual_labels(self) -> str:
        """Real labels; where the classes of a mixture have labels, those that the loss needs."""
        by_class = isinstance(self.inputs, Mixture) and self.inputs.labels is not None
        needed = self.loss.targets if by_class and self.rule.uses_loss else "real"
        return {"sign": "sign", "class": "argmax"}.get(needed, "real")

    def trainable_mask(self) -> Float[np.ndarray, "L K"] | None:
        """(L, K) of zeros and ones: does this level of this student vector learn? None: everything does."""
        if self.sgd.trainable is None:
            return None
        chosen = np.asarray(self.sgd.trainable)
        levels, hidden = self.inputs.levels, self.student.hidden
        if chosen.dtype != bool:
            if chosen.min() < 0 or chosen.max() >= levels:
                raise InputError(f"trainable names the levels {chosen.tolist()}; there are levels 0 to {levels - 1}.")
            chosen = np.isin(np.arange(levels), chosen)
        checks.require_shape("trainable", chosen, (levels,), (hidden, levels), fix="(levels,) or (hidden, levels).")
        return np.broadcast_to(np.atleast_2d(chosen).T, (levels, hidden)).astype(float)

    @property
    def has_noise_law(self) -> bool:
        """Is the label noise given by a quantile function?"""
        return callable(self.noise) and not is_schedule(self.noise)

    def schedules(self) -> dict[str, Any]:
        """All numbers that change in time, by name, except the probabilities of tasks."""
        parts = [part for part in (self.sgd, self.sgd.momentum, self.labels, self.rule) if isinstance(part, Part)]
        found: Table = {name: rate for part in parts for name, rate in schedules_of(part).items()}
        return found | {"noise": self.noise} if is_schedule(self.noise) else found

    def labeled_at(self, t: ArrayLike) -> "Problem":
        """The same problem with the noise and the flips of its labels as numbers: their values at time t."""
        changed: Table = {"noise": rate_at(self.noise, t)} if is_schedule(self.noise) else {}
        if rates := schedules_of(self.labels):
            changed["labels"] = with_fields(self.labels, **{name: rate_at(rate, t) for name, rate in rates.items()})
        return with_fields(self, **changed) if changed else self

    @property
    def samples_per_step(self) -> int:
        """Samples that one step averages over: the batch, times the samples of an episode."""
        return self.sgd.batch * self.rule.samples

    @property
    def references(self) -> Any:
        """Whose vectors the columns of R belong to: the teacher, the teachers of all `Tasks`, or `Mixture.references`."""
        if not isinstance(self.inputs, Mixture):
            return self.teacher
        outputs = (self.student if self.teacher is None else self.teacher).outputs
        if self.teacher is None and self.inputs.labels is not None and self.inputs.labels.ndim == 2:
            outputs = self.inputs.labels.shape[1]
        return self.inputs.references(self.teacher, outputs)

    @property
    def targets(self) -> Float[NumpyOrJax, "classes ..."] | None:
        """What stands for the teacher's output in each class of a mixture; None where a teacher speaks."""
        return self.inputs.targets(self.references.outputs) if isinstance(self.inputs, Mixture) else None

    def in_class(self, label: Float[NumpyOrJax, "*outputs"] | None = None) -> "Problem":
        """The problem within one class of a mixture, with its label: one Gaussian. Without a mixture, the problem itself."""
        if not isinstance(self.inputs, Mixture):
            return self
        if self.teacher is not None:
            bias = np.zeros(self.teacher.hidden) if self.teacher.bias is None else self.teacher.bias
            teacher = with_fields(self.teacher, bias=bias, gram=None)
        else:  # a unit with field 1 that always says the label
            label = self.targets[0] if label is None and self.targets is not None else label
            assert label is not None
            teacher = with_fields(UNIT, outputs=self.references.outputs, readout=label[..., None], bias=np.ones(1))
        return with_fields(self, teacher=teacher, inputs=self.inputs.laws[0])

    @property
    def label_fields(self) -> int:
        """The number of fields that a label is made of: those of the teacher's units."""
        return 0 if self.teacher is None else self.teacher.hidden

    @property
    def tasks(self) -> "tuple[Problem, ...]":
        """The problems of single tasks, each with its own teacher; the problem itself if it has no `Tasks`."""
        return tuple(self.task(s) for s in range(self.teacher.count)) if isinstance(self.teacher, Tasks) else (self,)

    def task(self, task: int) -> "Problem":
        """The problem of one task alone; the problem itself if it has no `Tasks`."""
        if not isinstance(self.teacher, Tasks):
            return self
        teacher = self.teacher.teachers[task]
        if isinstance(self.inputs, HiddenManifold) and self.teacher.given_gram is not None:
            units = self.teacher.units(task)
            teacher = teacher.changed(gram=self.teacher.given_gram[units, units])
        return with_fields(self, teacher=teacher)

    @property
    def unseen(self) -> Float[NumpyOrJax, "M M"] | None:
        """The covariance of the part of the teacher's fields that the inputs do not carry; None if they carry all."""
        if isinstance(self.inputs, Mixture):
            return None
        if self.teacher.unseen is not None or not isinstance(self.inputs, HiddenManifold):
            return self.teacher.unseen
        return self.inputs.unseen_share * (np.eye(self.teacher.hidden) if self.teacher.gram is None else self.teacher.gram)

    def all_seen(self) -> "Problem":
        """The same problem with a teacher of which the inputs carry everything; a `HiddenManifold` becomes its spectrum."""
        if self.unseen is None:
            return self
        latent = isinstance(self.inputs, HiddenManifold)
        teachers = tuple(
            with_fields(one.teacher, unseen=None, gram=None if latent else one.teacher.gram) for one in self.tasks
        )
        teacher = with_fields(self.teacher, teachers=teachers) if isinstance(self.teacher, Tasks) else teachers[0]
        inputs = Spectrum(self.inputs.eigenvalues, self.inputs.fractions, normalize=False) if latent else self.inputs
        return with_fields(self, teacher=teacher, inputs=inputs)

    @property
    def readout_shape(self) -> tuple[int, ...]:
        """The shape of the student's readout: (K,) or (outputs, K), with a leading axis of tasks for separate heads."""
        own = np.shape(self.student.readout)
        separate = isinstance(self.teacher, Tasks) and self.teacher.heads == "separate"
        return (self.teacher.count, *own) if separate else own

    @property
    def closed_form(self) -> bool:
        """Squared loss, one real output with Gaussian noise, and a rule whose drift and noise have closed forms?"""
        return not missing_traits(self, CLOSED)

    @property
    def biased(self) -> bool:
        """Do any hidden units have biases?"""
        return self.student.bias is not None or self.references.bias is not None

    def replace(self, **changes: object) -> "Problem":
        """The same problem with some fields changed at once: whole parts, or their fields by name.

        `problem.replace(noise=0.1, lr=0.3)`; a name that two parts share needs its part, such as "student.hidden".

        >>> import tutelage as tu
        >>> problem = tu.Problem(tu.Network(2), tu.Network(2))
        >>> problem.replace(**{"lr": 0.3, "student.hidden": 4, "student.readout": [1, 1, 1, 2]}).student
        Network(4, 'erf', readout=[1.0, 1.0, 1.0, 2.0])
        """
        given = {name: LEARNING[name](value) if name in LEARNING else value for name, value in changes.items()}
        parts = self.arguments() | {name: value for name, value in given.items() if name in PARTS}
        inside = [f"{part}.{name}" for part in PARTS if parts[part] is not None for name in argument_names(parts[part])]
        names = [*parts, *inside]
        return self.changed(**{_full_name(names, name): value for name, value in given.items()})

    def to_dict(self) -> Table:
        """What differs from its default, as plain numbers, words and lists. The spectrum of data loses its eigenvectors."""
        checks.require_untraced("the problem", "a file", self)
        table = {name: serialize.plain(name, getattr(self, name)) for name in serialize.NAMES}
        usual = {name: choice.default for name, choice in LEARNING.items()}
        return {name: value for name, value in table.items() if value is not None and value != usual.get(name)}

    @classmethod
    def from_dict(cls, data: Table, allow: Sequence[str] = ()) -> "Problem":
        """The problem that `to_dict` wrote. allow: modules that may be imported for functions "module:function"."""
        return cls(**serialize.problem_arguments(data, allow))

    def to_json(self) -> str:
        """The problem as JSON text, as NetCDF files carry it."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str, allow: Sequence[str] = ()) -> "Problem":
        """The problem that `to_json` wrote; allow: as in `from_dict`."""
        return cls.from_dict(serialize.parsed(text, "JSON"), allow)

    def to_toml(self) -> str:
        """The problem as TOML text, as `tutelage solve problem.toml` reads it."""
        return serialize.to_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str, allow: Sequence[str] = ()) -> "Problem":
        """The problem that `to_toml`, or a person, wrote; allow: as in `from_dict`."""
        return cls.from_dict(serialize.parsed(text), allow)

    def __repr__(self) -> str:
        usual = [name for name, choice in LEARNING.items() if choice.word(getattr(self, name)) == choice.default]
        shown = [f"{name}={checks.shown(value)}" for name, value in vars(self).items() if name not in usual]
        return f"Problem({', '.join(shown)})"


def _full_name(names: list[str], name: str) -> str:
    """The full name of what "lr" or "sgd.lr" changes, among "noise", "sgd", "sgd.lr", "teacher.schedule.times", ..."""
    if name in names:
        return name
    holders = [part for part in PARTS if f"{part}.{name}" in names]
    if len(holders) == 1:
        return f"{holders[0]}.{name}"
    if holders:
        raise InputError(f"{name!r} exists in {' and '.join(holders)}; say which, as {holders[0] + '.' + name!r}.")
    part = name.partition(".")[0]
    near = [one for one in names if one.startswith(f"{part}.")] or [one.partition(".")[2] or one for one in names]
    return checks.known("the name of a change", name, dict.fromkeys(near))


def require_problem(problem: object, verb: str, needs: Iterable[str] = VISIBLE) -> Problem:
    """The problem, if it is one, its numbers are known, and it has the traits that the function `verb` needs."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {kind_of(problem)}; {verb} takes a tutelage Problem.")
    checks.require_untraced("the problem", verb, problem)
    require_traits(problem, verb, needs)
    return problem


def with_constant_rates(problem: object, verb: str, needs: Iterable[str] = VISIBLE) -> Problem:
    """The problem, if its learning rates are constant and it has the traits in `needs`."""
    return require_problem(problem, verb, (*needs, *CONSTANT_RATES))
