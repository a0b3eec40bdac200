"""A closed system of differential equations with an error: what `solve` integrates. `Equations` holds custom functions."""

from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PyTree

from tutelage._types import Array, ArrayLike
from tutelage.checks import as_array, require_finite
from tutelage.errors import InputError, cause, kind_of

State: TypeAlias = PyTree[Array]  # any tree of arrays
_name_of = partial(jax.tree_util.keystr, simple=True, separator=".")  # of a part of a state, empty for the whole


class ClosedSystem(eqx.Module):
    """A system of differential equations: its drift, what to record, and the error of what was recorded.

    Subclass it to `solve` a system whose state is any tree of arrays, with parameters as fields (those that
    are not real numbers, such as a size, with `eqx.field(static=True)`). `Equations` is shorter where two functions are
    enough. All methods must be written with jax.numpy.

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> from tutelage.dynamics import ClosedSystem
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
        """d state / d alpha."""

    @abstractmethod
    def observe(self, state: State) -> dict[str, Array]:
        """The named quantities that a trajectory keeps."""

    @abstractmethod
    def error(self, observed: dict[str, Array]) -> Float[Array, ""]:
        """The error of one observation, a single number."""

    def error_and_loss(self, observed: dict[str, Array], t: ArrayLike) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The error, and the population training loss at time t: NaN where there is none."""
        error = self.error(observed)
        return error, jnp.full_like(error, jnp.nan)

    def initial_state(self, start: PyTree) -> State:
        """The initial values as a state of float arrays, after a first call of all functions to check them."""
        if start is None:
            what = list(getattr(self, "names", ())) or "its state"
            raise InputError(f"{type(self).__name__} has no default initial condition; give the initial values of {what}.")

        def checked(path: tuple[Any, ...], value: object) -> Array:
            return jnp.asarray(as_array(_name_of(path) or "start", value, require_finite))

        # a list is an array of numbers, not a part of the state's structure
        state = jax.tree_util.tree_map_with_path(checked, start, is_leaf=lambda x: isinstance(x, list))
        self._check(state)
        return state

    def _check(self, state: State) -> None:
        try:
            drift = jax.eval_shape(self.drift, jnp.zeros(()), state)
            observed = jax.eval_shape(self.observe, state)
            if not isinstance(observed, dict):
                raise InputError(f"observe returns a value {kind_of(observed)}; it must return a dictionary of arrays.")
            error = jax.eval_shape(self.error, observed)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(f"the equations fail on their initial values ({cause(problem)}).") from None
        if jax.tree.structure(drift) != jax.tree.structure(state):
            raise InputError("the drift has another structure than the state; return one derivative for each part of it.")
        for (path, have), want in zip(jax.tree_util.tree_leaves_with_path(drift), jax.tree.leaves(state), strict=True):
            if have.shape != want.shape:
                name = _name_of(path) or "the state"
                raise InputError(f"the drift of {name} has shape {have.shape}; the variable has shape {want.shape}.")
        if error.shape != ():
            raise InputError(f"the error of a state has shape {error.shape}; it must be one number.")

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        """Times up to `end` at which the drift jumps, or changes so quickly that the solver must not step across."""
        return None

    def drift_and_error_rate(self, t: ArrayLike, state: State) -> tuple[State, Float[Array, ""]]:
        """The drift, and d error / d alpha along it."""
        drift = self.drift(t, state)
        return drift, jax.jvp(lambda s: self.error(self.observe(s)), (state,), (drift,))[1]


class Equations(ClosedSystem):
    """A custom system: names of its variables, drift(t, state) and error(state).

    `state` unpacks in the order of the names (`m, q = state`, or `state.m`); drift returns the derivatives in that order.
    Variables are numbers or arrays. Both functions must be written with jax.numpy.

    >>> import tutelage as tu
    >>> decay = tu.Equations(("x",), drift=lambda t, s: (-s.x,), error=lambda s: s.x**2)
    >>> float(tu.solve(decay, {"x": 1.0}, times=[0.0, 1.0]).error[-1].round(6))
    0.135335
    """

    names: tuple[str, ...] = eqx.field(static=True)
    user_drift: Callable[[Array, State], State]
    user_error: Callable[[State], Array]

    def __init__(self, names: Sequence[str], drift: Callable[[Array, State], State], error: Callable[[State], Array]):
        if isinstance(names, str) or not names or not all(isinstance(n, str) and n.isidentifier() for n in names):
            raise InputError(f"names is {names!r}; it must be a list of variable names such as ('m', 'q').")
        if len(set(names)) != len(names) or any(n.startswith("_") for n in names):
            raise InputError(f"names is {list(names)}; they must differ from each other and not begin with '_'.")
        for what, function in {"drift": drift, "error": error}.items():
            if not callable(function):
                raise InputError(f"{what} is {function!r}; it must be a function.")
        self.names, self.user_drift, self.user_error = tuple(names), drift, error

    def initial_state(self, start: PyTree) -> State:
        """The initial values, given by name or in order, as a state; and a first call of both functions to check them."""
        if start is None:
            return super().initial_state(start)
        values = [start.get(n) for n in self.names] if isinstance(start, dict) else list(start)
        unknown = sorted(set(start) - set(self.names)) if isinstance(start, dict) else []
        if unknown or len(values) != len(self.names) or any(v is None for v in values):
            given = sorted(start) if isinstance(start, dict) else f"{len(values)} values"
            raise InputError(f"start gives {given}; the equations need {list(self.names)}.")
        return super().initial_state(_state_of(self.names)(*map(as_array, self.names, values)))

    def drift(self, t: ArrayLike, state: State) -> State:
        out = self.user_drift(jnp.asarray(t), state)
        out = [out[n] for n in self.names] if isinstance(out, dict) else list(out)
        if len(out) != len(self.names):
            raise InputError(f"drift returned {len(out)} derivatives; the equations have {len(self.names)} variables.")
        return _state_of(self.names)(*(jnp.asarray(d, float) for d in out))

    def observe(self, state: State) -> dict[str, Array]:
        return state._asdict()

    def error(self, observed: dict[str, Array]) -> Float[Array, ""]:
        return jnp.asarray(self.user_error(_state_of(self.names)(**observed)), float)


@cache
def _state_of(names: tuple[str, ...]) -> Callable[..., Any]:
    """The tuple with these names: one type for all solves, so that equal equations share a program."""
    return namedtuple("State", names)
