"""Closed systems of differential equations with an error, which `solve` integrates.

`Equations` holds custom functions.
"""

from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PyTree

from tutelage._types import Array, ArrayLike
from tutelage.checks import as_array, as_count, require_finite
from tutelage.errors import InputError, cause, kind_of

State: TypeAlias = PyTree[Array]  # any tree of arrays


def _name_of(path: tuple[Any, ...]) -> str:
    """Return the name of a part of a state; it is empty for the whole."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


class ClosedSystem(eqx.Module):
    """A system of differential equations with an error.

    It consists of its drift, the quantities to record, and the error of what was
    recorded. Subclass it to `solve` a system whose state is any tree of arrays, with
    parameters as fields (those that are not real numbers, such as a size, with
    `eqx.field(static=True)`). `Equations` is shorter where two functions are enough.
    All methods must be written with jax.numpy.

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> from tutelage.solvers import ClosedSystem
    >>> class Decay(ClosedSystem):
    ...     rate: float
    ...
    ...     def drift(self, t, state):
    ...         return {"x": -self.rate * state["x"]}
    ...
    ...     def observe(self, state):
    ...         return {"x": state["x"], "norm": jnp.sum(state["x"] ** 2)}
    ...
    ...     def error(self, observed):
    ...         return observed["norm"]
    >>> theory = tu.solve(Decay(0.5), {"x": [1.0, 1.0]}, times=[0.0, 1.0])
    >>> theory["x"].shape, float(theory.error[-1].round(6))
    ((2, 2), 0.735759)
    """

    @abstractmethod
    def drift(self, t: ArrayLike, state: State) -> State:
        """Return d state / d alpha."""

    @abstractmethod
    def observe(self, state: State) -> dict[str, Array]:
        """Return the named quantities that a trajectory keeps."""

    @abstractmethod
    def error(self, observed: dict[str, Array]) -> Float[Array, ""]:
        """Return the error of one observation, a single number."""

    def error_and_loss(
        self, observed: dict[str, Array], t: ArrayLike
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return the error, and the population training loss at time t.

        The loss is NaN if there is none.
        """
        error = self.error(observed)
        return error, jnp.full_like(error, jnp.nan)

    def initial_state(self, start: PyTree) -> State:
        """Return the initial values as a state of float arrays.

        All functions are called once to check them.
        """
        if start is None:
            variables = list(getattr(self, "names", ())) or "its state"
            raise InputError(
                f"{type(self).__name__} has no default initial condition; "
                f"give the initial values of {variables}."
            )

        def checked(path: tuple[Any, ...], value: object) -> Array:
            name = _name_of(path) or "start"
            return jnp.asarray(as_array(name, value, require_finite))

        # a list is an array of numbers, not a part of the state's structure
        state = jax.tree_util.tree_map_with_path(
            checked, start, is_leaf=lambda x: isinstance(x, list)
        )
        self._check(state)
        return state

    def _check(self, state: State) -> None:
        """Refuse functions that fail, or return values of a wrong shape."""
        try:
            drift = jax.eval_shape(self.drift, jnp.zeros(()), state)
            observed = jax.eval_shape(self.observe, state)
            if not isinstance(observed, dict):
                raise InputError(
                    f"observe returns a value {kind_of(observed)}; "
                    "it must return a dictionary of arrays."
                )
            error = jax.eval_shape(self.error, observed)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(
                f"the equations fail on their initial values ({cause(problem)})."
            ) from None
        if jax.tree.structure(drift) != jax.tree.structure(state):
            raise InputError(
                "the drift has another structure than the state; "
                "return one derivative for each part of it."
            )
        derivatives = jax.tree_util.tree_leaves_with_path(drift)
        variables = jax.tree.leaves(state)
        for (path, derivative), variable in zip(derivatives, variables, strict=True):
            if derivative.shape != variable.shape:
                name = _name_of(path) or "the state"
                raise InputError(
                    f"the drift of {name} has shape {derivative.shape}; "
                    f"the variable has shape {variable.shape}."
                )
        if error.shape != ():
            raise InputError(
                f"the error of a state has shape {error.shape}; it must be one number."
            )

    @property
    def sample_points(self) -> int:
        """The number of samples that the drift averages; 0: it is smooth.

        An average of a function that jumps moves in stairs of relative size 1 / points.
        `solve` does not resolve them.
        """
        return 0

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        """Return the times up to `end` that the solver must not step across.

        The drift jumps or changes quickly there.
        """
        return None

    def drift_and_error_rate(
        self, t: ArrayLike, state: State
    ) -> tuple[State, Float[Array, ""]]:
        """Return the drift, and d error / d alpha along it."""
        drift = self.drift(t, state)

        def error_of(state: State) -> Float[Array, ""]:
            return self.error(self.observe(state))

        _, error_rate = jax.jvp(error_of, (state,), (drift,))
        return drift, error_rate


class Equations(ClosedSystem):
    """A custom system: names of its variables, drift(t, state) and error(state).

    `state` unpacks in the order of the names (`m, q = state`, or `state.m`); drift
    returns the derivatives in that order. Variables are numbers or arrays. Both
    functions must be written with jax.numpy.

    points: give the number of samples if the drift is an average over a fixed set of
    samples of a function that jumps (a ReLU unit, a sign). Such a drift moves in stairs,
    in which the steps of `solve` would collapse at its usual tolerance.

    >>> import tutelage as tu
    >>> decay = tu.Equations(("x",), drift=lambda t, s: (-s.x,), error=lambda s: s.x**2)
    >>> float(tu.solve(decay, {"x": 1.0}, times=[0.0, 1.0]).error[-1].round(6))
    0.135335
    """

    names: tuple[str, ...] = eqx.field(static=True)
    points: int | None = eqx.field(static=True)
    user_drift: Callable[[Array, State], State]
    user_error: Callable[[State], Array]

    def __init__(
        self,
        names: Sequence[str],
        drift: Callable[[Array, State], State],
        error: Callable[[State], Array],
        *,
        points: int | None = None,
    ):
        if isinstance(names, str) or not names or not all(map(_is_name, names)):
            raise InputError(
                f"names is {names!r}; "
                "it must be a list of variable names such as ('m', 'q')."
            )
        if len(set(names)) != len(names) or any(n.startswith("_") for n in names):
            raise InputError(
                f"names is {list(names)}; "
                "they must differ from each other and not begin with '_'."
            )
        for argument, function in {"drift": drift, "error": error}.items():
            if not callable(function):
                raise InputError(f"{argument} is {function!r}; it must be a function.")
        self.names = tuple(names)
        self.points = None if points is None else as_count("points", points)
        self.user_drift = drift
        self.user_error = error

    @property
    def sample_points(self) -> int:
        return self.points or 0

    def initial_state(self, start: PyTree) -> State:
        """Return the initial values, given by name or in order, as a state.

        Both functions are called once to check them.
        """
        if start is None:
            return super().initial_state(start)
        if isinstance(start, dict):
            values = [start.get(name) for name in self.names]
            has_unknown = bool(set(start) - set(self.names))
        else:
            values = list(start)
            has_unknown = False
        is_complete = len(values) == len(self.names)
        if has_unknown or not is_complete or any(v is None for v in values):
            described = f"{len(values)} values"
            if isinstance(start, dict):
                described = str(sorted(start))
            raise InputError(
                f"start gives {described}; the equations need {list(self.names)}."
            )
        arrays = [
            as_array(name, value)
            for name, value in zip(self.names, values, strict=True)
        ]
        return super().initial_state(self._state(arrays))

    def drift(self, t: ArrayLike, state: State) -> State:
        derivatives = self.user_drift(jnp.asarray(t), state)
        if isinstance(derivatives, dict):
            derivatives = [derivatives[name] for name in self.names]
        derivatives = list(derivatives)
        if len(derivatives) != len(self.names):
            raise InputError(
                f"drift returned {len(derivatives)} derivatives; "
                f"the equations have {len(self.names)} variables."
            )
        return self._state([jnp.asarray(x, float) for x in derivatives])

    def observe(self, state: State) -> dict[str, Array]:
        return state._asdict()

    def error(self, observed: dict[str, Array]) -> Float[Array, ""]:
        state = self._state([observed[name] for name in self.names])
        return jnp.asarray(self.user_error(state), float)

    def _state(self, values: Sequence[Any]) -> State:
        """Return values in the order of the names as a state."""
        return _state_type(self.names)(*values)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier()


@cache
def _state_type(names: tuple[str, ...]) -> Callable[..., Any]:
    """Return the tuple with these names.

    It is one type for all solves, so that equal equations share a program.
    """
    return namedtuple("State", names)
