"""The whole question in one object: who learns from whom, from which inputs, how."""

from dataclasses import fields
from typing import Any

import equinox as eqx
import numpy as np

from tutelage import _checks
from tutelage._errors import InputError
from tutelage._types import ArrayLike
from tutelage.problem import serialise
from tutelage.problem.inputs import Inputs, Isotropic
from tutelage.problem.network import Network
from tutelage.problem.sgd import SGD


class Problem(eqx.Module):
    """student learns from teacher on Gaussian inputs by sgd; labels carry Gaussian noise of standard deviation `noise`.

    >>> import tutelage as tu
    >>> tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    Problem(student=Network(2, 'erf'), teacher=Network(2, 'erf'), inputs=Isotropic(), sgd=SGD(lr=0.5), noise=0)
    """

    student: Network
    teacher: Network
    inputs: Inputs
    sgd: SGD
    noise: ArrayLike

    def __init__(
        self, student: Network, teacher: Network, inputs: Inputs | None = None, sgd: SGD | None = None, noise: Any = 0.0
    ):
        self.student = student
        self.teacher = teacher
        self.inputs = Isotropic() if inputs is None else inputs
        self.sgd = SGD(0.1) if sgd is None else sgd
        self.noise = _checks.as_array("noise", noise)
        self._check()

    def _check(self) -> None:
        for name, kind in (("student", Network), ("teacher", Network), ("inputs", Inputs), ("sgd", SGD)):
            if not isinstance(getattr(self, name), kind):
                given = type(getattr(self, name)).__name__
                raise InputError(f"{name} is of type {given}; it must be a tutelage {kind.__name__}.")
        _checks.require_shape("noise", self.noise, ())
        _checks.require_nonnegative("noise", self.noise)
        if not self.student.activation.trainable:
            raise InputError(
                f"the student's activation is {self.student.activation.name!r}, which has no gradient to learn from; "
                "use it for the teacher, or give the student 'erf'."
            )
        if self.student.gram is not None:
            raise InputError("gram is set on the student; only the teacher has one. Give the student's overlaps to Start.")
        if self.teacher.train_readout or self.teacher.train_bias:
            raise InputError("the teacher has train_readout or train_bias set; only the student learns. Unset it.")
        if self.teacher.gram is not None and np.ndim(self.teacher.gram) == 3:
            shape = (self.inputs.levels, self.teacher.hidden, self.teacher.hidden)
            _checks.require_shape("the teacher's gram", self.teacher.gram, shape, fix="One matrix per level.")
        self.trainable_mask()

    def trainable_mask(self) -> np.ndarray | None:
        """(L, K) of zeros and ones: does this level of this student vector learn? None: everything does."""
        if self.sgd.trainable is None:
            return None
        chosen = np.asarray(self.sgd.trainable)
        levels, hidden = self.inputs.levels, self.student.hidden
        if chosen.dtype != bool:
            if chosen.min() < 0 or chosen.max() >= levels:
                raise InputError(
                    f"trainable names the levels {chosen.tolist()}; this spectrum has levels 0 to {levels - 1}."
                )
            return np.repeat(np.isin(np.arange(levels), chosen)[:, None], hidden, axis=1).astype(float)
        _checks.require_shape("trainable", chosen, (levels,), (hidden, levels), fix="(levels,) or (hidden, levels).")
        mask = chosen[:, None] if chosen.ndim == 1 else chosen.T
        return np.broadcast_to(mask, (levels, hidden)).astype(float)

    @property
    def biased(self) -> bool:
        """Do any hidden units have biases?"""
        return self.student.bias is not None or self.teacher.bias is not None

    def replace(self, **changes: Any) -> "Problem":
        """The same problem with some fields changed: whole parts, or their fields by name.

        `problem.replace(noise=0.1, lr=0.3)`; a name that two parts share needs its part:
        `problem.replace(**{"student.hidden": 4})`.
        """
        problem = self
        for name, value in changes.items():
            problem = _replaced(problem, _path(self, name), value)
        return problem

    def to_dict(self) -> dict[str, Any]:
        return serialise.problem_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Problem":
        return serialise.problem_from_dict(cls, data)

    def to_json(self) -> str:
        return serialise.to_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "Problem":
        return cls.from_dict(serialise.read_json(text))

    def to_toml(self) -> str:
        """The problem as TOML text, as `tutelage solve problem.toml` reads it."""
        return serialise.to_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str) -> "Problem":
        return cls.from_dict(serialise.read_toml(text))

    def __repr__(self) -> str:
        noise = (
            "traced"
            if _checks.is_traced(self.noise)
            else np.array2string(np.asarray(self.noise), formatter={"float": "{:g}".format})
        )
        return (
            f"Problem(student={self.student}, teacher={self.teacher}, inputs={self.inputs}, sgd={self.sgd}, noise={noise})"
        )


PARTS = ("student", "teacher", "inputs", "sgd")


def _path(problem: Problem, name: str) -> tuple[str, ...]:
    """Where a name lives: ("noise",), ("sgd", "lr"), ..."""
    if name in PARTS or name == "noise":
        return (name,)
    part, _, field = name.rpartition(".")
    holders = [p for p in (PARTS if not part else (part,)) if p in PARTS and field in _field_names(getattr(problem, p))]
    if len(holders) == 1:
        return holders[0], field
    if holders:
        raise InputError(f"{name!r} exists in {' and '.join(holders)}; say which, as {{'{holders[0]}.{name}': ...}}.")
    names = ["noise", *PARTS, *(f for p in PARTS for f in _field_names(getattr(problem, p)))]
    return _checks.known("the name of a change", name, dict.fromkeys(names))


def _field_names(part: Any) -> list[str]:
    return serialise.arguments(part)


def _replaced(problem: Problem, path: tuple[str, ...], value: Any) -> Problem:
    if len(path) == 1:
        return Problem(**{f.name: getattr(problem, f.name) for f in fields(problem)} | {path[0]: value})
    part = getattr(problem, path[0])
    rebuilt = serialise.rebuild(part, **{path[1]: value})
    return _replaced(problem, (path[0],), rebuilt)
