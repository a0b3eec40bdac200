"""Inputs, teacher and labels of a problem as numbers.

Letters are those of docs/notation.md. A level l has eigenvalue lam_l, a share p_l of the
dimensions and teacher overlaps t_l; T = sum_l p_l lam_l t_l + unseen is the covariance
of the teacher's fields. Labels may depend on fewer fields than there are teacher units:
those of linear units are added to one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem, random_start
from tutelage.problem.labels import Function as FunctionLabels
from tutelage.problem.traits import ANY_THEORY, OPTIMIZERS, require_traits

# Neither the minimum nor the Bayes-optimal error depends on how weights are trained.
SUPPORTED = (ANY_THEORY, OPTIMIZERS, "single output")
SINGULAR = 1e-10  # smallest eigenvalue of T, in units of the largest


@dataclass(frozen=True)
class Setting:
    """Inputs and teacher of a problem.

    Attributes
    ----------
    problem
        The problem.
    lam, p
        Eigenvalues and shares of the levels.
    teacher
        Overlaps t_l of all teacher units.
    t
        Overlaps of the F fields that labels depend on, and T of these fields.
    combine
        The fields as combinations of the teacher units.
    linear
        True if labels depend on the sum of linear units: the only field is the output
        of the teacher, without its offset.
    offset
        The output of linear units at zero fields; zero otherwise.
    """

    problem: Problem
    lam: Float[np.ndarray, " L"]
    p: Float[np.ndarray, " L"]
    teacher: Float[np.ndarray, "L M M"]
    t: Float[np.ndarray, "L F F"]
    T: Float[np.ndarray, "F F"]
    combine: Float[np.ndarray, "F M"]
    linear: bool
    offset: float

    @cached_property
    def label(self) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
        """Labels of outputs, fields and normal numbers that make xi; compiled."""
        law = self.problem.labels
        noise = self.problem.noise
        random = law.law(noise)

        def one(output: jax.Array, rho: jax.Array, z: jax.Array) -> jax.Array:
            xi = None if random is None else jnp.asarray(random.from_normal(z))
            return jnp.asarray(law.label(output, rho, xi, noise), float)

        return jax.jit(jax.vmap(one))

    @property
    def fields(self) -> int:
        """The number F of fields that labels depend on."""
        return len(self.T)


def setting_of(problem: Problem) -> Setting:
    """Return the setting of a problem with one teacher and one Gaussian."""
    inputs = problem.inputs
    # r and q of this start are not used: `blocks` has the rules for t of each level
    start = random_start(problem)
    _, _, by_level = start.blocks(problem)
    teacher = np.asarray(by_level, dtype=float)
    lam = np.asarray(inputs.eigenvalues, dtype=float)
    p = np.asarray(inputs.fractions, dtype=float)
    M = problem.labeler.hidden
    unseen = np.zeros((M, M))
    if problem.unseen is not None:
        unseen = np.asarray(problem.unseen, dtype=float)
    linear = is_linear(problem) and not isinstance(problem.labels, FunctionLabels)
    offset = 0.0
    combine = np.eye(M)
    if linear:
        constant, slope = problem.labeler.activation.polynomial or (0.0, 0.0)
        readout = np.asarray(problem.labeler.readout, dtype=float)
        bias = np.zeros(M)
        if problem.labeler.bias is not None:
            bias = np.asarray(problem.labeler.bias, dtype=float)
        combine = slope * readout[None]
        offset = float(readout @ (constant + slope * bias))
    t = combine @ teacher @ combine.T
    T = np.einsum("l,lfg->fg", p * lam, t) + combine @ unseen @ combine.T
    _require_independent_fields(T)
    return Setting(
        problem=problem,
        lam=lam,
        p=p,
        teacher=teacher,
        t=t,
        T=T,
        combine=combine,
        linear=linear,
        offset=offset,
    )


def is_linear(problem: Problem) -> bool:
    """True if all teacher units are linear."""
    return len(problem.labeler.activation.polynomial or ()) == 2


def _require_independent_fields(T: Float[np.ndarray, "F F"]) -> None:
    values = np.linalg.eigvalsh(T)
    if values[0] <= SINGULAR * max(values[-1], 1e-300):
        raise InputError(
            "the covariance T of the teacher's fields is singular; give every teacher "
            "unit a direction that the others do not have (gram)."
        )


def require_one_law(problem: object, function: str) -> Problem:
    """Refuse what no analysis of the end of training supports."""
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem is {kind_of(problem)}; {function} takes a tutelage Problem."
        )
    checks.require_untraced("the problem", function, problem)
    require_traits(problem, function, SUPPORTED)
    changing = [name for name in problem.schedules if name in ("noise", "flip")]
    if changing:
        raise InputError(
            f"{changing[0]} is a schedule; {function} needs labels of one law. "
            f"Give a number."
        )
    return problem


def ratios_of(
    problem: Problem, ratio: object, function: str
) -> Float[np.ndarray, "*ratios"]:
    """Return the sample ratios n / N that are given, else that of `problem.data`."""
    if ratio is None:
        data = getattr(problem, "data", None)
        if data is None:
            raise InputError(
                f"ratio is missing and the problem has no data set; {function} needs "
                "n / N, such as ratio=3.0 or an array of ratios."
            )
        ratio = data.ratio
    values = checks.as_array(
        "ratio",
        ratio,
        checks.require_positive,
        shapes=[(), ("ratios",)],
        fix="One ratio n / N, or a list of ratios.",
    )
    checks.require_untraced("ratio", function, values)
    return values
