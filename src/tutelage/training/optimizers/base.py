"""`Optimizer`: the arguments that all optimizers share, and their registry."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Part
from tutelage._types import Array, Numbers, Table
from tutelage.errors import InputError
from tutelage.training.rules import Rule

DEFAULT_LR = 0.5  # of a problem, a file or a command that names no learning rate

rate_field = partial(checks.number_field, schedule=True)
require_positive_rate = partial(
    checks.require_positive, fix="To freeze weights use `trainable`."
)


def as_batch(batch: Any) -> Any:
    """Convert `batch` to a count; a traced number stays as it is."""
    if checks.is_traced(batch):
        return batch
    return checks.as_count("batch", batch)


def as_static_batch(batch: Any) -> int:
    """Convert `batch` to a count that JAX may not trace."""
    return checks.as_count("batch", batch)


def _as_trainable(trainable: Numbers | None) -> tuple[Any, ...] | None:
    """Convert `trainable` to a hashable form.

    It is a tuple of level indices, or nested tuples of booleans.
    """
    if trainable is None:
        return None
    try:
        array = np.asarray(trainable)
    except ValueError:
        array = np.asarray("ragged")
    is_mask = array.dtype.kind == "b" and array.ndim in (1, 2)
    is_list_of_levels = array.dtype.kind in "iu" and array.ndim == 1
    if array.size == 0 or not (is_mask or is_list_of_levels):
        raise InputError(
            f"trainable is {checks.shown(trainable)}; "
            "give a list of levels, or a mask (levels,) or (hidden, levels)."
        )
    if array.ndim == 2:
        return tuple(tuple(row) for row in array.tolist())
    return tuple(array.tolist())


class Optimizer(Part):
    """The base class of optimizers: how the updates of samples move the weights.

    A subclass sets `kind`, its name in files and on the command line. An argument of
    this class that it does not take becomes a class variable, such as
    `batch: ClassVar[int] = 1`.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples per step.
    weight_decay : float or schedule
        kappa, of the first layer. No optimizer rescales it.
    readout_lr, bias_lr : float or schedule, optional
        eta_v and eta_b. Default: lr.
    trainable : list or mask, optional
        Indices of the levels that learn, or a mask of shape (L,) or (K, L); the rest is
        frozen. Default: all learn.
    """

    kind: ClassVar[str]
    # True if the theory of fresh samples covers it
    on_stream: ClassVar[bool] = False
    # True if times count steps, False if they count steps / N
    counts_steps: ClassVar[bool] = False
    # the vectors, besides each student vector, that its steps on weights keep: averages
    # of gradients and of their squares
    kept_vectors: ClassVar[int] = 0

    # lr and the rates below are numbers or schedules; most callers know which
    lr: Any = rate_field("lr", require_positive_rate)
    batch: int = eqx.field(converter=as_batch, default=1, kw_only=True)
    weight_decay: Any = rate_field(
        "weight_decay", checks.require_nonnegative, default=0.0, kw_only=True
    )
    readout_lr: Any = rate_field(
        "readout_lr", require_positive_rate, optional=True, default=None, kw_only=True
    )
    bias_lr: Any = rate_field(
        "bias_lr", require_positive_rate, optional=True, default=None, kw_only=True
    )
    trainable: tuple[Any, ...] | None = eqx.field(
        static=True, converter=_as_trainable, default=None, kw_only=True
    )
    # True if the theory needs the mean square of the readout's updates
    squares_readout: ClassVar[bool] = False
    # True if `batch` is fixed in a compiled program: no axis of `solve_batch`
    fixed_batch: ClassVar[bool] = False
    # True if updates are divided by a scale, which belongs to the state
    has_scales: ClassVar[bool] = False
    # True if its scale is a sum over all time
    sums_squares: ClassVar[bool] = False
    # True if it corrects the scale for the steps that it has taken
    corrects_start: ClassVar[bool] = False
    # options that only `SGD` has; they stand last, as in its constructor
    momentum: ClassVar[Any] = 0.0
    spherical: ClassVar[bool] = False

    def arguments(self) -> Table:
        """Return the constructor arguments, with `trainable` as an array."""
        arguments = super().arguments()
        if self.trainable is not None:
            arguments["trainable"] = np.asarray(self.trainable)
        return arguments

    @property
    def steps(self) -> str:
        """Return the name of its steps in the loops of simulations."""
        return self.kind

    @property
    def lag(self) -> float:
        """Return the steps over which the optimizer averages its gradients."""
        return 1.0

    @property
    def slow_momentum(self) -> Any:
        """The `SlowMomentum`, or None."""
        return None

    @property
    def fixed_momentum(self) -> Any:
        """A fixed beta; 0 if there is no momentum, or a slow one."""
        return 0.0 if self.slow_momentum is not None else self.momentum

    @property
    def has_momentum(self) -> bool:
        """True if past updates move the weights, too; False for a traced beta."""
        if self.slow_momentum is not None:
            return True
        return not checks.is_traced(self.momentum) and bool(self.momentum > 0)

    def check_student(self, hidden: int) -> None:
        """Refuse a student of so many hidden units that the optimizer cannot train."""

    @property
    def averages_batches(self) -> bool:
        """True if response and noise of a step are averages over whole batches.

        They are then made of `responses` and `step_covariance`; else of the mean update of
        a sample and its second moments.
        """
        return False

    @property
    def takes_signs_of_samples(self) -> bool:
        """True if a step is the sign of the gradient of one sample."""
        return False

    @property
    def adds_samples(self) -> bool:
        """True if a step adds the updates of its samples, times factors."""
        return not (self.averages_batches or self.takes_signs_of_samples)

    def responses(
        self, delta: Float[Array, "B K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "levels B K"]:
        """Return u, which takes the place of delta in the drift of each level.

        delta: the updates of a batch. levels: L, or 1 if all have the same u.
        """
        raise NotImplementedError

    def step_covariance(
        self, delta: Float[Array, "B K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "levels K K"]:
        """Return what takes the place of delta delta^T in the noise of each level."""
        raise NotImplementedError

    def of_parameters(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return how readout or biases move for a mean update of the batch."""
        return mean

    def sample_rule(self, rule: Rule) -> Rule:
        """Return the rule of a single sample, with what the optimizer does to it."""
        return rule

    def averaged_rule(self, rule: Rule) -> Rule:
        """Return the rule whose averages are the theory's response and noise."""
        return self.sample_rule(rule)


class Registry(Mapping[str, type[Optimizer]]):
    """All optimizers by their `kind`, found among the subclasses of `Optimizer`."""

    def _by_kind(self) -> dict[str, type[Optimizer]]:
        found: dict[str, type[Optimizer]] = {}
        waiting = [Optimizer]
        while waiting:
            cls = waiting.pop(0)
            waiting += cls.__subclasses__()
            # a class that only inherits its kind is another form of its parent
            if "kind" in vars(cls):
                found[cls.kind] = cls
        return found

    def __getitem__(self, kind: str) -> type[Optimizer]:
        return self._by_kind()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_kind())

    def __len__(self) -> int:
        return len(self._by_kind())


OPTIMIZERS = Registry()
