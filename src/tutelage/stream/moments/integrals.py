"""The integrals I2, I3, I4 and J2 of the textbooks (Saad and Solla 1995).

    I2(a, b)       = E[g(a) g(b)]
    J2(a, b)       = E[g'(a) g'(b)]
    I3(a, b, c)    = E[g'(a) b g(c)]
    I4(a, b, c, d) = E[g'(a) g'(b) g(c) g(d)]

Each takes the covariance of its own fields, or Q, R and T of all fields. All values are
made of the averages that the theory uses, so they are as accurate as the theory is.
"""

from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, Numbers
from tutelage.errors import InputError
from tutelage.problem.activation import Activation, ActivationLike, as_activation
from tutelage.stream.moments.averages import Averages
from tutelage.stream.moments.matrices import averages_for, joint_covariance
from tutelage.stream.moments.quadrature import Quadrature

# One activation, or those of student and teacher.
Activations: TypeAlias = ActivationLike | tuple[ActivationLike, ActivationLike]


def I2(
    activation: Activations,
    *covariances: Numbers,
    quadrature: Quadrature | None = None,
) -> Array:
    """E[g(a) g(b)] of two fields, or of all pairs of fields.

    Parameters
    ----------
    activation : name, function, `Activation` or a pair of them
        g. A pair such as ("erf", "relu") has the activations of student and teacher:
        then a is a student field and b a teacher field.
    *covariances : array (..., 2, 2), or three arrays
        C, the covariance of (a, b); or Q (K, K), R (K, M) and T (M, M), with student
        units first.
    quadrature : Quadrature, optional
        As in `solve`, for activations without a closed form.

    Returns
    -------
    array
        One number for each covariance C. For Q, R, T the matrix (K + M, K + M) of all
        pairs, students first: its blocks are `get_I2(Q, Q, Q)`, `get_I2(R, Q, T)` and
        `get_I2(T, T, T)` of code that takes the matrices one by one.

    Examples
    --------
    >>> import tutelage as tu
    >>> print(round(float(tu.moments.I2("erf", [[1.0, 0.5], [0.5, 1.0]])), 6))
    0.160861
    >>> pairs = tu.moments.I2(("erf", "relu"), [[1.0]], [[0.5]], [[1.0]])
    >>> pairs.shape
    (2, 2)
    """
    return _integral("I2", activation, covariances, quadrature)


def J2(
    activation: Activations,
    *covariances: Numbers,
    quadrature: Quadrature | None = None,
) -> Array:
    """E[g'(a) g'(b)] of two fields, or of all pairs of student fields.

    Parameters
    ----------
    activation : name, function, `Activation` or a pair of them
        As in `I2`.
    *covariances : array (..., 2, 2), or three arrays
        C, the covariance of (a, b); or Q, R and T as in `I2`.
    quadrature : Quadrature, optional
        As in `solve`, for activations without a closed form.

    Returns
    -------
    array
        One number for each covariance C. For Q, R, T the matrix (K, K): only student
        units have slopes in the equations.

    Examples
    --------
    >>> import tutelage as tu
    >>> print(round(float(tu.moments.J2("erf", [[1.0, 0.0], [0.0, 1.0]])), 6))  # 1 / pi
    0.31831
    """
    return _integral("J2", activation, covariances, quadrature)


def I3(
    activation: Activations,
    *covariances: Numbers,
    quadrature: Quadrature | None = None,
) -> Array:
    """E[g'(a) b g(c)] of three fields, or of all triples.

    By Stein's lemma it is C_ab E[g''(a) g(c)] + C_bc E[g'(a) g'(c)].

    Parameters
    ----------
    activation : name, function, `Activation` or a pair of them
        As in `I2`; of a pair, a is a student field and c a teacher field.
    *covariances : array (..., 3, 3), or three arrays
        C, the covariance of (a, b, c); or Q, R and T as in `I2`.
    quadrature : Quadrature, optional
        As in `solve`, for activations without a closed form.

    Returns
    -------
    array
        One number for each covariance C. For Q, R, T the array (K, K + M, K + M): a is
        a student field, b and c are all fields, students first.

    Examples
    --------
    >>> import tutelage as tu
    >>> C = [[1.0, 0.2, 0.1], [0.2, 1.0, 0.3], [0.1, 0.3, 1.0]]
    >>> print(round(float(tu.moments.I3("linear", C)), 6))  # E[b c]
    0.3
    """
    return _integral("I3", activation, covariances, quadrature)


def I4(
    activation: Activations,
    *covariances: Numbers,
    quadrature: Quadrature | None = None,
) -> Array:
    """E[g'(a) g'(b) g(c) g(d)] of four fields, or of all of them.

    Parameters
    ----------
    activation : name, function, `Activation` or a pair of them
        As in `I2`; of a pair, a and b are student fields, c and d teacher fields.
    *covariances : array (..., 4, 4), or three arrays
        C, the covariance of (a, b, c, d); or Q, R and T as in `I2`.
    quadrature : Quadrature, optional
        As in `solve`, for activations without a closed form.

    Returns
    -------
    array
        One number for each covariance C. For Q, R, T the array
        (K, K, K + M, K + M): a and b are student fields, c and d all fields, students
        first.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> print(float(tu.moments.I4("linear", np.eye(4) + 0.5)))  # E[c d]
    0.5
    """
    return _integral("I4", activation, covariances, quadrature)


class _Shape(NamedTuple):
    """The fields of an integral.

    fields: their number. students: how many of them, the first ones, belong to the
    student if the activations differ.
    """

    fields: int
    students: int


SHAPES = {
    "I2": _Shape(fields=2, students=1),
    "J2": _Shape(fields=2, students=1),
    "I3": _Shape(fields=3, students=1),
    "I4": _Shape(fields=4, students=2),
}


def _integral(
    name: str,
    activation: Activations,
    covariances: tuple[Numbers, ...],
    quadrature: Quadrature | None,
) -> Array:
    """Return an integral of a few fields, or of all of them."""
    student, teacher = _activations(name, activation, len(covariances))
    if len(covariances) == 1:
        return _of_fields(name, student, teacher, covariances[0], quadrature)
    if len(covariances) == 3:
        return _of_networks(name, student, teacher, covariances, quadrature)
    raise InputError(
        f"{name} is given {len(covariances)} covariances; it takes C, the covariance "
        "of its fields, or Q, R and T. The quadrature is a keyword (quadrature=...)."
    )


def _activations(
    name: str, activation: Activations, count: int
) -> tuple[Activation, Activation]:
    """Return the activations of student and teacher; check that they have slopes."""
    if isinstance(activation, tuple):
        if len(activation) != 2:
            raise InputError(
                f"activation has {len(activation)} entries; "
                "give one activation, or a pair (student, teacher)."
            )
        student = as_activation(activation[0])
        teacher = as_activation(activation[1])
    else:
        student = as_activation(activation)
        teacher = student
    needed = []
    if name != "I2":
        needed.append(student)
    if name == "J2" and count == 1:
        needed.append(teacher)
    for g in needed:
        if not g.trainable:
            raise InputError(
                f"{name} needs the derivative of {g.name!r}, which has none; "
                "use 'erf', or I2 alone."
            )
    return student, teacher


def _of_fields(
    name: str,
    student: Activation,
    teacher: Activation,
    covariance: Numbers,
    quadrature: Quadrature | None,
) -> Array:
    """Return the integral of each covariance in an array (..., fields, fields)."""
    fields, students = SHAPES[name]
    C = jnp.asarray(checks.as_array("C", covariance))
    if C.ndim < 2 or C.shape[-2:] != (fields, fields):
        raise InputError(
            f"C has shape {C.shape}; {name} needs (..., {fields}, {fields}), "
            "the covariance of its fields, or three arrays Q, R and T."
        )
    checks.require_gram("C", C)
    averages = averages_for(
        student, teacher, students, fields - students, quadrature=quadrature
    )
    flat = C.reshape(-1, fields, fields)
    return _each(name, averages, flat).reshape(C.shape[:-2])


def _of_networks(
    name: str,
    student: Activation,
    teacher: Activation,
    covariances: tuple[Numbers, ...],
    quadrature: Quadrature | None,
) -> Array:
    """Return the integral of all choices of fields."""
    K = np.shape(covariances[0])[-1] if np.ndim(covariances[0]) else 1
    M = np.shape(covariances[2])[-1] if np.ndim(covariances[2]) else 1
    fix = "Q is (K, K), R (K, M) with student units first, T (M, M)."
    Q = checks.as_array("Q", covariances[0], shapes=[(K, K)], fix=fix)
    R = checks.as_array("R", covariances[1], shapes=[(K, M)], fix=fix)
    T = checks.as_array("T", covariances[2], shapes=[(M, M)], fix=fix)
    C = jnp.asarray(joint_covariance(R, Q, T))
    checks.require_gram("[[Q, R], [R.T, T]]", C)
    averages = averages_for(student, teacher, K, M, quadrature=quadrature)
    return _all(name, averages, C)


@eqx.filter_jit
def _each(
    name: str, averages: Averages, C: Float[Array, "count fields fields"]
) -> Float[Array, " count"]:
    """Return the integral of every covariance: its last fields are its last index."""
    places = {"I2": (0, 1), "J2": (0, 1), "I3": (0, 1, 2), "I4": (0, 1, 2, 3)}
    formulas = {"I2": _outputs, "J2": _slopes, "I3": _stein}

    def integral(covariance: Float[Array, "fields fields"]) -> Float[Array, ""]:
        if name == "I4":
            return _polarized(averages, covariance, 2, 3)[0, 1]
        return formulas[name](averages, covariance)[places[name]]

    return jax.vmap(integral)(C)


@eqx.filter_jit
def _all(name: str, averages: Averages, C: Float[Array, "n n"]) -> Array:
    """Return the integral of all choices of fields; slopes are of students."""
    if name == "I2":
        return _outputs(averages, C)
    if name == "J2":
        return _slopes(averages, C)[:, : averages.K]
    if name == "I3":
        return _stein(averages, C)
    n = C.shape[-1]
    first, second = np.triu_indices(n)
    by_pair = jax.lax.map(
        lambda pair: _polarized(averages, C, pair[0], pair[1]), (first, second)
    )
    place = np.zeros((n, n), int)
    place[first, second] = np.arange(first.size)
    place[second, first] = np.arange(first.size)
    return jnp.moveaxis(by_pair[place], (0, 1), (2, 3))


def _outputs(averages: Averages, C: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Return I2 = E[g_a g_b]."""
    return averages.outputs(C, None)


def _slopes(averages: Averages, C: Float[Array, "n n"]) -> Float[Array, "K n"]:
    """Return J2 = E[g'_i g'_a]."""
    return averages.slopes(C, None)


def _stein(averages: Averages, C: Float[Array, "n n"]) -> Float[Array, "K n n"]:
    """Return I3 = C_ib E[g''_i g_c] + C_bc E[g'_i g'_c]."""
    K = averages.K
    of_curvature = C[:K, :, None] * averages.curvatures(C, None)[:, None, :]
    of_slopes = C[None] * averages.slopes(C, None)[:, None, :]
    return of_curvature + of_slopes


def _polarized(
    averages: Averages, C: Float[Array, "n n"], c: int | Array, d: int | Array
) -> Float[Array, "K K"]:
    """Return I4 from squares: g_c g_d = ((g_c + g_d)^2 - (g_c - g_d)^2) / 4."""
    of_c = jnp.zeros(C.shape[-1]).at[c].set(1.0)
    of_d = jnp.zeros(C.shape[-1]).at[d].set(1.0)
    of_sum = averages.slopes_squared_error(C, None, of_c + of_d)
    of_difference = averages.slopes_squared_error(C, None, of_c - of_d)
    return (of_sum - of_difference) / 4
