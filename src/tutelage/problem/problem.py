"""`Problem`: a student, a teacher, the inputs and a learning rule."""

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
from tutelage.problem import serialize
from tutelage.problem.data_set import DataSet
from tutelage.problem.inputs import Inputs, Isotropic, Spectrum
from tutelage.problem.labels import Function as FunctionLabels
from tutelage.problem.labels import Labels, as_labels
from tutelage.problem.mixture import UNIT, Mixture
from tutelage.problem.network import Network
from tutelage.problem.serialize import LEARNING, PARTS
from tutelage.problem.tasks import Tasks
from tutelage.problem.traits import (
    CLOSED,
    CONSTANT_RATES,
    NEEDED_UNLESS_LISTED,
    TRAITS,
    VISIBLE,
    missing_traits,
    require_fit,
    require_traits,
)
from tutelage.training.losses import Function as FunctionLoss
from tutelage.training.losses import Loss, as_loss
from tutelage.training.optimizers import (
    DEFAULT_LR,
    SGD,
    GradientDescent,
    Optimizer,
)
from tutelage.training.rules import Rule, as_rule
from tutelage.training.schedules import (
    is_schedule,
    rate_at,
    require_rate_on,
    schedules_of,
)

# a standard deviation, or a quantile function
Noise: TypeAlias = Float[NumpyOrJax, ""] | Callable[[np.ndarray], np.ndarray]


class Problem(Part, ResultCard):
    """A student learns a teacher's labels (Saad and Solla 1995).

        y = sum_m v*_m g*(w*_m . x / sqrt(N)) + noise z
        yhat = sum_k v_k g(w_k . x / sqrt(N)),    loss (y - yhat)^2 / 2

    x is Gaussian with the spectrum of `inputs`, z is standard Gaussian. Each step uses
    a fresh batch, or with `data` samples of a finite data set. N is not part of the
    problem: `solve` takes the limit, `simulate` takes `dim`. `replace` changes any part
    by name.

    Parameters
    ----------
    student : Network
        The network that learns.
    teacher : Network or Tasks, optional
        The network that labels; `Tasks` for several teachers over time; None if the classes
        of a `Mixture` have labels.
    inputs : Inputs
        The law of the inputs: `Isotropic()`, `PowerLaw`, `Spectrum`, `Mixture`,
        `HiddenManifold`.
    optimizer : Optimizer
        How updates move the weights: `SGD(lr)`, or another one of `tu.optimizers`.
        Default: `SGD(lr=0.5)`.
    noise : float, schedule or function
        Standard deviation of the noise on real labels, or a quantile function such as
        `scipy.stats.t(3).ppf`.
    loss : str, Loss or function
        The function to minimize; "squared", "logistic", "hinge", "huber", "absolute",
        "cross_entropy", a loss such as `losses.Huber(0.5)`, or a JAX function
        loss(output, label).
    labels : str, Labels or function
        The law of the labels given the teacher's fields; "real" (output plus noise),
        "sign", "logistic" (Bernoulli), "argmax", labels such as `labels.Sign(flip=0.1)`, or
        a JAX function label(rho, xi).
    rule : str or Rule
        The update by one sample; "gradient", "hebbian", "perceptron", "adatron", or a
        `Rule` such as `rules.Dropout(0.8)`.
    data : DataSet, optional
        A finite data set, used again and again. Default: every sample is fresh.

    Examples
    --------
    >>> import tutelage as tu
    >>> student, teacher = tu.Network(2, "erf"), tu.Network(2, "erf")
    >>> tu.Problem(student, teacher, optimizer=tu.SGD(lr=0.5))   # doctest: +NORMALIZE_WHITESPACE
    Problem(student=Network(2, 'erf'), teacher=Network(2, 'erf'), inputs=Isotropic(),
            optimizer=SGD(lr=0.5), noise=0)
    """

    student: Network
    # Most callers know which kind the next ones are: a Network, Tasks, or None where the
    # classes of a mixture have labels; a law of inputs; a `Noise`.
    teacher: Any
    inputs: Any
    optimizer: Optimizer
    noise: Any
    loss: Loss
    labels: Labels
    rule: Rule
    data: DataSet | None

    def __init__(
        self,
        student: Network,
        teacher: Network | Tasks | None = None,
        inputs: Inputs | None = None,
        optimizer: Optimizer | None = None,
        noise: Noise | float = 0.0,
        *,
        loss: str | Loss | Callable[[Array, Array], Array] = "squared",
        labels: str | Labels | Callable[[Array, Array], Array] | None = None,
        rule: str | Rule = "gradient",
        data: DataSet | None = None,
    ):
        a_network = "a Network, such as Network(3, 'erf')"
        law = Isotropic() if inputs is None else inputs
        self.student = checks.as_kind("student", student, Network, a_network)
        has_classes = isinstance(law, Inputs) and law.classes is not None
        if teacher is None and has_classes:
            self.teacher = None
        else:
            self.teacher = checks.as_kind(
                "teacher", teacher, Network | Tasks, a_network
            )
        a_law = "a law of inputs, such as Isotropic()"
        self.inputs = checks.as_kind("inputs", law, Inputs, a_law)
        optimizer = SGD(DEFAULT_LR) if optimizer is None else optimizer
        self.optimizer = checks.as_kind(
            "optimizer", optimizer, Optimizer, "an optimizer, such as SGD(lr)"
        )
        self.noise = checks.as_number(
            "noise", noise, checks.require_nonnegative, schedule=True
        )
        self.loss = as_loss(loss)
        self.rule = as_rule(rule)
        self.labels = as_labels(self._usual_labels() if labels is None else labels)
        if data is not None:
            data = checks.as_kind("data", data, DataSet, "a DataSet(ratio) or None")
        self.data = data
        self._check()
        if isinstance(self.labels, FunctionLabels) and self.labels.random is None:
            self.labels = self.labels.for_fields(self.task(0).label_fields)
        for task in self.tasks:
            require_fit(task.in_class())
        if isinstance(self.loss, FunctionLoss):
            self.loss = self.loss.for_outputs(self.student.outputs)

    def _check(self) -> None:
        """Refuse networks, inputs and SGD that do not fit each other."""
        if self.inputs.classes is not None:
            self._check_mixture(self.inputs)
        units = self.student.hidden + self.references.hidden
        levels = self.inputs.levels
        checks.require_memory(
            f"the overlaps of {units} vectors on {levels} level{'s' * (levels != 1)}",
            levels * units**2,
            "Use fewer hidden units or levels.",
        )
        self._check_student()
        teacher = self.teacher
        if teacher is not None and np.ndim(teacher.gram) == 3:
            self._check_gram_per_level()
        if isinstance(teacher, Network):
            teacher.require_fixed()
        self.optimizer.check_student(self.student.hidden)
        if self.several_tasks is not None and self.optimizer.averages_batches:
            raise InputError(
                f"the teacher has several tasks (Tasks) and the optimizer is "
                f"{self.optimizer}, whose steps depend on a batch as a whole; use "
                "SignSGD with batch=1, RMSprop, Adam, AdaGrad or SGD."
            )
        if isinstance(self.optimizer, GradientDescent) and self.data is None:
            raise InputError(
                "the optimizer is GradientDescent and the problem has no data; "
                "give data=DataSet(ratio), or optimizer=SGD(lr) for fresh samples."
            )
        self.trainable_mask()

    def _check_student(self) -> None:
        """Refuse a student without a gradient, or with arguments of a teacher."""
        activation = self.student.activation
        if not activation.trainable and self.rule.uses_loss:
            raise InputError(
                f"the student's activation is {activation.name!r}; it has no gradient, "
                "so only a teacher can use it."
            )
        for name in ("gram", "unseen"):
            if getattr(self.student, name) is not None:
                raise InputError(
                    f"{name} is set on the student; only the teacher has one. "
                    "Give the student's overlaps to Start."
                )

    def _check_gram_per_level(self) -> None:
        """Refuse a teacher's gram whose levels are not those of the inputs."""
        if self.inputs.is_latent:
            raise InputError(
                "the teacher's gram has several levels; "
                "for a HiddenManifold give latent overlaps (M, M)."
            )
        M = self.teacher.hidden
        checks.require_shape(
            "the teacher's gram",
            self.teacher.gram,
            (self.inputs.levels, M, M),
            fix="One matrix per level.",
        )

    def _check_mixture(self, mixture: Mixture) -> None:
        """Refuse a mixture that is not labeled by either its classes or one teacher."""
        if not TRAITS["plain SGD"].holds(self):
            raise InputError(
                f"the inputs are a mixture and the optimizer is {self.optimizer}, which "
                "mixtures do not support; use optimizer=SGD(lr)."
            )
        teacher = self.teacher
        has_labels = mixture.labels is not None
        if self.several_tasks is not None:
            raise InputError(
                "a mixture does not support several tasks (Tasks); "
                "give one teacher, or Mixture(labels=...)."
            )
        if teacher is not None and has_labels:
            raise InputError(
                "the mixture has labels and there is a teacher; "
                "only one of them can label. Leave one out."
            )
        if teacher is None and not has_labels:
            raise InputError(
                "nothing labels the samples; give Mixture(labels=...), "
                "one label for each class, or a teacher."
            )
        if teacher is not None and teacher.unseen is not None:
            raise InputError(
                "the teacher has an unseen part, which mixtures do not support; "
                "leave one of them out."
            )
        if has_labels and isinstance(self.labels, FunctionLabels):
            raise InputError(
                "labels is a function of teacher fields and the classes have labels; "
                "give a teacher."
            )
        targets = self.targets
        if self.labels.kind != "sign" or targets is None or checks.is_traced(targets):
            return
        if np.any(np.abs(targets) != 1):
            raise InputError(
                f"the labels of the classes are {checks.shown(mixture.labels)}; "
                "labels='sign' and this loss need -1 and 1."
            )

    def _usual_labels(self) -> str:
        """Return the default of `labels`: real, or what the loss needs of classes."""
        has_classes = self.inputs.classes is not None
        by_class = has_classes and self.inputs.labels is not None
        if not by_class or not self.rule.uses_loss:
            return "real"
        words = {"sign": "sign", "class": "argmax"}
        return words.get(self.loss.targets, "real")

    def trainable_mask(self) -> Float[np.ndarray, "L K"] | None:
        """Return 1 for the levels of student vectors that learn, 0 for frozen ones.

        It is None if everything learns.
        """
        if self.optimizer.trainable is None:
            return None
        trainable = np.asarray(self.optimizer.trainable)
        levels = self.inputs.levels
        hidden = self.student.hidden
        if trainable.dtype != bool:  # a list of levels
            if trainable.min() < 0 or trainable.max() >= levels:
                raise InputError(
                    f"trainable names the levels {trainable.tolist()}; "
                    f"there are levels 0 to {levels - 1}."
                )
            trainable = np.isin(np.arange(levels), trainable)
        fix = "(levels,) or (hidden, levels)."
        checks.require_shape(
            "trainable", trainable, (levels,), (hidden, levels), fix=fix
        )
        by_level = np.atleast_2d(trainable).T
        return np.broadcast_to(by_level, (levels, hidden)).astype(float)

    @property
    def has_noise_law(self) -> bool:
        """True if the label noise is given by a quantile function."""
        return callable(self.noise) and not is_schedule(self.noise)

    @property
    def schedules(self) -> dict[str, Any]:
        """All numbers that change in time, by name, except tasks' probabilities."""
        schedules: Table = {}
        for part in (self.optimizer, self.optimizer.momentum, self.labels, self.rule):
            if isinstance(part, Part):
                schedules |= schedules_of(part)
        if is_schedule(self.noise):
            schedules["noise"] = self.noise
        return schedules

    def require_rates_on(
        self, times: Float[np.ndarray, " S"], *, solved: bool = True
    ) -> None:
        """Refuse a schedule that leaves its range, or is not one number, at any time.

        solved: also warn of features that the solver may miss.
        """
        if self.several_tasks is not None:
            self.several_tasks.require_probabilities_on(times)
        for name, rate in self.schedules.items():
            require_rate_on(name, rate, times, solved=solved)

    def labeled_at(self, t: ArrayLike) -> "Problem":
        """Return the problem with noise and flips of its labels as numbers at time t."""
        changes: Table = {}
        if is_schedule(self.noise):
            changes["noise"] = rate_at(self.noise, t)
        rates = schedules_of(self.labels)
        if rates:
            values = {name: rate_at(rate, t) for name, rate in rates.items()}
            changes["labels"] = with_fields(self.labels, **values)
        return with_fields(self, **changes) if changes else self

    @property
    def samples_per_step(self) -> int:
        """Samples that one step averages over: the batch, times those of an episode."""
        return self.optimizer.batch * self.rule.samples

    @property
    def references(self) -> Any:
        """The network whose vectors belong to the columns of R.

        It is the teacher, the teachers of all `Tasks`, or `Mixture.references`.
        """
        if self.inputs.classes is None:
            return self.teacher
        outputs = (self.student if self.teacher is None else self.teacher).outputs
        class_labels = self.inputs.labels
        if self.teacher is None and class_labels is not None and class_labels.ndim == 2:
            outputs = class_labels.shape[1]
        return self.inputs.references(self.teacher, outputs)

    @property
    def targets(self) -> Float[NumpyOrJax, "classes ..."] | None:
        """The label of each class of a mixture, which replaces the teacher's output.

        It is None where a teacher labels.
        """
        if self.inputs.classes is None:
            return None
        return self.inputs.targets(self.references.outputs)

    def in_class(self, label: Float[NumpyOrJax, "*outputs"] | None = None) -> "Problem":
        """Return the problem within one class of a mixture: one Gaussian.

        label: of the class; default: that of the first. Without a mixture it is the problem
        itself.
        """
        if self.inputs.classes is None:
            return self
        teacher = self.teacher
        if teacher is not None:
            bias = np.zeros(teacher.hidden) if teacher.bias is None else teacher.bias
            teacher = with_fields(teacher, bias=bias, gram=None)
        else:
            if label is None and self.targets is not None:
                label = self.targets[0]
            assert label is not None
            # a unit with field 1, whose readout is the label
            teacher = with_fields(
                UNIT,
                outputs=self.references.outputs,
                readout=label[..., None],
                bias=np.ones(1),
            )
        return with_fields(self, teacher=teacher, inputs=self.inputs.laws[0])

    @property
    def label_fields(self) -> int:
        """The number of fields that a label is made of: those of the teacher's units."""
        return 0 if self.teacher is None else self.teacher.hidden

    @property
    def tasks(self) -> "tuple[Problem, ...]":
        """The problems of single tasks; the problem itself if it has no `Tasks`."""
        if self.several_tasks is None:
            return (self,)
        count = self.several_tasks.count
        return tuple(self.task(number) for number in range(count))

    @property
    def several_tasks(self) -> Tasks | None:
        """The `Tasks` in place of a teacher; None if there is one teacher or none."""
        return self.teacher if isinstance(self.teacher, Tasks) else None

    def task(self, task: int) -> "Problem":
        """Return the problem of one task; the problem itself if it has no `Tasks`."""
        tasks = self.several_tasks
        if tasks is None:
            return self
        teacher = tasks.teachers[task]
        if self.inputs.is_latent and tasks.given_gram is not None:
            units = tasks.units(task)
            teacher = teacher.changed(gram=tasks.given_gram[units, units])
        return with_fields(self, teacher=teacher)

    @property
    def unseen(self) -> Float[NumpyOrJax, "M M"] | None:
        """The covariance of the part of the teacher's fields that no input carries.

        It is None if the inputs carry all.
        """
        if self.inputs.classes is not None:
            return None
        if self.teacher.unseen is not None or not self.inputs.is_latent:
            return self.teacher.unseen
        gram = self.teacher.gram
        latent = np.eye(self.teacher.hidden) if gram is None else gram
        return self.inputs.unseen_share * latent

    def all_seen(self) -> "Problem":
        """Return the problem with a teacher of which the inputs carry everything.

        A `HiddenManifold` becomes its spectrum.
        """
        if self.unseen is None:
            return self
        is_latent = self.inputs.is_latent
        teachers = []
        for task in self.tasks:
            gram = None if is_latent else task.teacher.gram
            teachers.append(with_fields(task.teacher, unseen=None, gram=gram))
        teacher = teachers[0]
        if self.several_tasks is not None:
            teacher = with_fields(self.several_tasks, teachers=tuple(teachers))
        inputs = self.inputs
        if is_latent:
            inputs = Spectrum(inputs.eigenvalues, inputs.fractions, normalize=False)
        return with_fields(self, teacher=teacher, inputs=inputs)

    @property
    def readout_shape(self) -> tuple[int, ...]:
        """The shape of the student's readout: (K,) or (outputs, K).

        Separate heads have a leading axis of tasks.
        """
        shape = np.shape(self.student.readout)
        tasks = self.several_tasks
        if tasks is not None and tasks.heads == "separate":
            return (tasks.count, *shape)
        return shape

    @property
    def closed_form(self) -> bool:
        """True if drift and noise of the step have closed forms for some activations.

        This needs squared loss, one real output with Gaussian noise, and a simple rule.
        """
        return not missing_traits(self, CLOSED)

    @property
    def biased(self) -> bool:
        """True if any hidden unit has a bias."""
        return self.student.bias is not None or self.references.bias is not None

    def require_traits(self, function: str, traits: Iterable[str]) -> None:
        """Raise `InputError` if the problem lacks a trait that a function needs.

        For authors of analyses and closed forms. One task, one Gaussian, plain SGD and
        fresh samples are needed, too, unless `traits` has "tasks", "mixtures",
        "optimizers" or "any theory".

        Parameters
        ----------
        function : str
            The name of the function, for the message.
        traits : iterable of str
            The traits, such as "squared", "fixed readout" or "constant rates"; an unknown
            one raises the list of all.

        Examples
        --------
        >>> import tutelage as tu
        >>> problem = tu.Problem(tu.Network(2, train_readout=True), tu.Network(2))
        >>> problem.require_traits("my_formula", ["squared"])
        >>> try:
        ...     problem.require_traits("my_formula", ["fixed readout"])
        ... except tu.InputError as error:
        ...     print(str(error).partition(". ")[0])
        my_formula does not support this problem: the readout learns too
        """
        listed = [
            checks.known("a trait", trait, (*TRAITS, *NEEDED_UNLESS_LISTED))
            for trait in traits
        ]
        require_traits(self, function, listed)

    def replace(self, **changes: object) -> "Problem":
        """Return the problem with some fields changed at once.

        `problem.replace(noise=0.1, lr=0.3)` changes whole parts, or their fields by name; a
        name that two parts share needs its part, such as "student.hidden".

        >>> import tutelage as tu
        >>> problem = tu.Problem(tu.Network(2), tu.Network(2))
        >>> wider = {"student.hidden": 4, "student.readout": [1, 1, 1, 2]}
        >>> problem.replace(lr=0.3, **wider).student
        Network(4, 'erf', readout=[1.0, 1.0, 1.0, 2.0])
        """
        converted = {
            name: LEARNING[name](value) if name in LEARNING else value
            for name, value in changes.items()
        }
        parts = self.arguments()
        parts |= {name: value for name, value in converted.items() if name in PARTS}
        names = list(parts)
        for part in PARTS:
            if parts[part] is not None:
                names += [f"{part}.{name}" for name in argument_names(parts[part])]
        full_names = {_full_name(names, n): value for n, value in converted.items()}
        return self.changed(**full_names)

    def to_dict(self) -> Table:
        """Return the fields that differ from their defaults as plain data.

        The spectrum of data loses its eigenvectors.
        """
        checks.require_untraced("the problem", "a file", self)
        table = {}
        for name in serialize.NAMES:
            value = serialize.plain(name, getattr(self, name))
            is_default = name in LEARNING and value == LEARNING[name].default
            if value is not None and not is_default:
                table[name] = value
        return table

    @classmethod
    def from_dict(cls, data: Table, allow: Sequence[str] = ()) -> "Problem":
        """Return the problem that `to_dict` wrote.

        allow: modules that may be imported for functions "module:function".
        """
        return cls(**serialize.problem_arguments(data, allow))

    def to_json(self) -> str:
        """Return the problem as JSON text, as NetCDF files carry it."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str, allow: Sequence[str] = ()) -> "Problem":
        """Return the problem that `to_json` wrote; allow: as in `from_dict`."""
        return cls.from_dict(serialize.parsed(text, "JSON"), allow)

    def to_toml(self) -> str:
        """Return the problem as TOML text, as `tutelage solve problem.toml` reads it."""
        return serialize.to_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str, allow: Sequence[str] = ()) -> "Problem":
        """Return the problem that `to_toml`, or a person, wrote; allow: as in `from_dict`."""
        return cls.from_dict(serialize.parsed(text), allow)

    def __repr__(self) -> str:
        words = []
        for name, value in vars(self).items():
            choice = LEARNING.get(name)
            if name == "data" and value is None:
                continue
            if choice is None or choice.word(value) != choice.default:
                words.append(f"{name}={checks.shown(value)}")
        return f"Problem({', '.join(words)})"


def _full_name(names: list[str], name: str) -> str:
    """Return the dotted name of a change, such as "optimizer.lr" for "lr".

    names: all of them, such as "noise", "optimizer", "optimizer.lr", "teacher.schedule.times".
    """
    if name in names:
        return name
    parts = [part for part in PARTS if f"{part}.{name}" in names]
    if len(parts) == 1:
        return f"{parts[0]}.{name}"
    if parts:
        raise InputError(
            f"{name!r} exists in {' and '.join(parts)}; "
            f"say which, as {parts[0] + '.' + name!r}."
        )
    part = name.partition(".")[0]
    candidates = [known for known in names if known.startswith(f"{part}.")]
    if not candidates:
        candidates = [known.partition(".")[2] or known for known in names]
    return checks.known("the name of a change", name, dict.fromkeys(candidates))


def require_problem(
    problem: object, verb: str, needs: Iterable[str] = VISIBLE
) -> Problem:
    """Return a problem with known numbers and the traits that the function needs.

    verb: the function's name, for messages.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem is {kind_of(problem)}; {verb} takes a tutelage Problem."
        )
    checks.require_untraced("the problem", verb, problem)
    require_traits(problem, verb, needs)
    return problem


def with_constant_rates(
    problem: object, verb: str, needs: Iterable[str] = VISIBLE
) -> Problem:
    """Return a problem with constant learning rates and the needed traits."""
    return require_problem(problem, verb, (*needs, *CONSTANT_RATES))
