"""`Problem`: a student, a teacher, the inputs and a learning rule."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._html import ResultCard
from tutelage._part import Part, argument_names
from tutelage._types import Array, ArrayLike, NumpyOrJax, Schedule, Table
from tutelage.errors import InputError, kind_of
from tutelage.problem import serialize
from tutelage.problem.data_set import DataSet
from tutelage.problem.inputs import (
    HiddenManifold,
    Inputs,
    Isotropic,
    LatentInputs,
    Spectrum,
)
from tutelage.problem.labels import Function as FunctionLabels
from tutelage.problem.labels import Labels, Noise, as_labels
from tutelage.problem.mixture import UNIT, Mixture
from tutelage.problem.network import Network, References
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
from tutelage.randomness import QuantileFunction
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
    teacher: Network | Tasks | None
    inputs: Inputs
    optimizer: Optimizer
    noise: Noise  # or a schedule of it, which `labeled_at` makes a number
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
        noise: Noise | Schedule = 0.0,
        *,
        loss: str | Loss | Callable[[Array, Array], Array] = "squared",
        labels: str | Labels | Callable[[Array, Array], Array] | None = None,
        rule: str | Rule = "gradient",
        data: DataSet | None = None,
    ):
        a_network = "a Network, such as Network(3, 'erf')"
        law = Isotropic() if inputs is None else inputs
        self.student = checks.as_kind("student", student, Network, a_network)
        if teacher is None and isinstance(law, Mixture):
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
        if self.mixture is not None:
            self._check_mixture(self.mixture)
        units = self.student.hidden + self.references.hidden
        levels = self.inputs.levels
        checks.require_memory(
            f"the overlaps of {units} vectors on {levels} level{'s' * (levels != 1)}",
            levels * units**2,
            "Use fewer hidden units or levels.",
        )
        self._check_student()
        teacher = self.teacher
        if teacher is not None and teacher.gram is not None:
            self._check_gram(teacher.gram, teacher.hidden)
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

    def _check_gram(self, gram: NumpyOrJax, M: int) -> None:
        """Refuse a gram of M teacher units whose levels are not those of the inputs."""
        if np.ndim(gram) != 3:
            return
        if self.inputs.is_latent:
            raise InputError(
                "the teacher's gram has several levels; "
                "for a HiddenManifold give latent overlaps (M, M)."
            )
        shape = (self.inputs.levels, M, M)
        checks.require_shape(
            "the teacher's gram", gram, shape, fix="One matrix per level."
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
        by_class = self.mixture is not None and self.mixture.labels is not None
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
        return self.noise_law is not None

    @property
    def noise_law(self) -> QuantileFunction | None:
        """The quantile function of the label noise; None if the noise is Gaussian."""
        if not callable(self.noise) or is_schedule(self.noise):
            return None
        return cast(QuantileFunction, self.noise)

    @property
    def noise_deviation(self) -> ArrayLike:
        """The standard deviation of Gaussian label noise that is constant in time."""
        assert not callable(self.noise)
        return self.noise

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
            changes["noise"] = rate_at(cast(Schedule, self.noise), t)
        rates = schedules_of(self.labels)
        if rates:
            values = {name: rate_at(rate, t) for name, rate in rates.items()}
            changes["labels"] = self.labels.changed(**values)
        return self.with_parts(**changes) if changes else self

    def with_parts(self, **parts: object) -> "Problem":
        """Return the problem with other parts, which are not checked again.

        For parts of a problem that has been checked, such as one of its tasks: it is
        called within compiled programs, several times in a solve. It is the one way
        around the constructor; `replace` checks what it changes.
        """
        other = object.__new__(Problem)
        for name, part in (vars(self) | parts).items():
            object.__setattr__(other, name, part)
        return other

    @property
    def samples_per_step(self) -> int:
        """Samples that one step averages over: the batch, times those of an episode."""
        return self.optimizer.batch * self.rule.samples

    @property
    def mixture(self) -> Mixture | None:
        """The inputs if they have classes, else None."""
        return self.inputs if isinstance(self.inputs, Mixture) else None

    @property
    def latent_inputs(self) -> LatentInputs | None:
        """The inputs if the teacher reads a latent vector, else None."""
        return self.inputs if isinstance(self.inputs, LatentInputs) else None

    @property
    def hidden_manifold(self) -> HiddenManifold | None:
        """The inputs if they are a `HiddenManifold`, else None."""
        return self.inputs if isinstance(self.inputs, HiddenManifold) else None

    @property
    def labeler(self) -> Network:
        """The one network that labels: the teacher of a problem with one task.

        Classes with labels have a linear unit in its place.
        """
        if self.teacher is None:
            return UNIT
        assert isinstance(self.teacher, Network), "take a problem of `tasks`"
        return self.teacher

    @property
    def references(self) -> References:
        """The vectors that belong to the columns of R.

        They are those of the teacher, of all `Tasks`, or `Mixture.references`.
        """
        if self.mixture is None:
            assert self.teacher is not None
            return self.teacher
        outputs = (self.student if self.teacher is None else self.labeler).outputs
        class_labels = self.mixture.labels
        if self.teacher is None and class_labels is not None and class_labels.ndim == 2:
            outputs = class_labels.shape[1]
        teacher = None if self.teacher is None else self.labeler
        return self.mixture.references(teacher, outputs)

    @property
    def targets(self) -> Float[NumpyOrJax, "classes ..."] | None:
        """The label of each class of a mixture, which replaces the teacher's output.

        It is None where a teacher labels.
        """
        if self.mixture is None:
            return None
        return self.mixture.targets(self.references.outputs)

    def in_class(self, label: Float[NumpyOrJax, "*outputs"] | None = None) -> "Problem":
        """Return the problem within one class of a mixture: one Gaussian.

        label: of the class; default: that of the first. Without a mixture it is the problem
        itself.
        """
        if self.mixture is None:
            return self
        if self.teacher is not None:
            teacher = self.labeler
            bias = np.zeros(teacher.hidden) if teacher.bias is None else teacher.bias
            labeler = teacher.changed(bias=bias, gram=None)
        else:
            if label is None and self.targets is not None:
                label = self.targets[0]
            assert label is not None
            # a unit with field 1, whose readout is the label
            labeler = Network(
                1,
                "linear",
                outputs=self.references.outputs,
                readout=label[..., None],
                bias=1.0,
            )
        return self.with_parts(teacher=labeler, inputs=self.mixture.laws[0])

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
        return self.with_parts(teacher=teacher)

    @property
    def unseen(self) -> Float[NumpyOrJax, "M M"] | None:
        """The covariance of the part of the teacher's fields that no input carries.

        It is None if the inputs carry all.
        """
        if self.teacher is None or self.mixture is not None:
            return None
        if self.teacher.unseen is not None or self.latent_inputs is None:
            return self.teacher.unseen
        gram = self.teacher.gram
        latent = np.eye(self.teacher.hidden) if gram is None else gram
        return self.latent_inputs.unseen_share * latent

    def all_seen(self) -> "Problem":
        """Return the problem with a teacher of which the inputs carry everything.

        A `HiddenManifold` becomes its spectrum.
        """
        if self.unseen is None:
            return self
        is_latent = self.latent_inputs is not None
        seen = []
        for task in self.tasks:
            gram = None if is_latent else task.labeler.gram
            seen.append(task.labeler.changed(unseen=None, gram=gram))
        teacher: Network | Tasks = seen[0]
        if self.several_tasks is not None:
            teacher = self.several_tasks.changed(teachers=tuple(seen))
        inputs = self.inputs
        if is_latent:
            inputs = Spectrum(inputs.eigenvalues, inputs.fractions, normalize=False)
        return self.with_parts(teacher=teacher, inputs=inputs)

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
