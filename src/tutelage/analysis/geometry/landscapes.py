"""The landscape at a point: error, gradient and all curvatures of the population error in the space of weights.

print(tu.analysis.landscape(problem, W, W_teacher))
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.geometry.curvature import EQUAL_ERROR, Curvature, spectrum_of
from tutelage.analysis.geometry.hessian import Hessian, hessian_at, span_of
from tutelage.analysis.geometry.orbit import orbit_of
from tutelage.analysis.geometry.smoothness import require_second_derivative
from tutelage.averages import Quadrature, as_rule
from tutelage.problem import Problem
from tutelage.problem.arguments import require_problem
from tutelage.problem.start import weights_by_level

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CRITICAL = 1e-7  # a gradient below this, in units of the largest curvature times the size of the weights, is none
LARGEST = 4000  # rows of a matrix that is formed as a whole


@dataclass(frozen=True)
class Landscape:
    """What `landscape` found; coordinates are W / sqrt(N) (docs/how-to/landscape.md).

    error: e_g. gradient: (K, N). spectrum: every eigenvalue of the Hessian, lowest first, as `Curvature` (value,
    multiplicity, family). orbit: dimension of the manifold of equal error that symmetries make through this point.
    dim: N. shape: the Hessian itself, in parts.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.papers.quadratic.quadratic_network(2, 2).problem
    >>> W = np.sqrt(5) * np.eye(2, 5)
    >>> here = tu.analysis.landscape(problem, W, W)
    >>> round(here.error, 12), here.index, here.flat
    (0.0, 0, 1)
    """

    problem: Problem
    error: float
    gradient: np.ndarray
    spectrum: tuple[Curvature, ...]
    orbit: int
    dim: int
    size: float
    shape: Hessian

    @property
    def gradient_norm(self) -> float:
        """Euclidean length of the gradient."""
        return float(np.linalg.norm(self.gradient))

    @property
    def is_critical(self) -> bool:
        """Does the gradient vanish, up to rounding?"""
        return self.gradient_norm <= CRITICAL * self.size

    @property
    def parameters(self) -> int:
        """K N: how many directions there are (those in which the inputs do not vary left out)."""
        return self.shape.A.shape[0] * self.dim

    @property
    def index(self) -> int:
        """How many directions lead downwards."""
        return sum(c.multiplicity for c in self.spectrum if c.value < 0)

    @property
    def flat(self) -> int:
        """How many directions have no curvature."""
        return sum(c.multiplicity for c in self.spectrum if c.value == 0)

    @property
    def merely_flat(self) -> int:
        """Flat directions that no symmetry explains: the error may change along them, but not to second order."""
        self._require_critical("merely_flat")
        return self.flat - sum(c.multiplicity for c in self.spectrum if c.family.startswith(EQUAL_ERROR))

    @property
    def kind(self) -> str:
        """minimum, maximum or saddle in words, or that it is no critical point."""
        if not self.is_critical:
            return "not a critical point"
        positive = any(c.value > 0 for c in self.spectrum)
        if self.index:
            return "saddle" if positive else "maximum"
        return "minimum" if positive else "flat to second order"

    def eigenvalues(self) -> np.ndarray:
        """All K N eigenvalues, lowest first."""
        return np.repeat([c.value for c in self.spectrum], [c.multiplicity for c in self.spectrum])

    def hessian(self) -> np.ndarray:
        """The whole matrix (K N, K N), students first; rows and columns are those of W.ravel()."""
        if self.gradient.size > LARGEST:
            raise InputError(
                f"the Hessian has {self.gradient.size} rows; at most {LARGEST} are written out. Use .spectrum instead."
            )
        dense, basis = self.shape.dense(), self.problem.inputs.basis
        if basis is None:
            return dense
        K, n = self.shape.A.shape[0], self.dim
        return np.einsum("knjm,na,mb->kajb", dense.reshape(K, n, K, n), basis, basis).reshape(self.gradient.size, -1)

    def directions(self, curvature: Curvature) -> np.ndarray:
        """Orthonormal directions (count, K, N) of an eigenvalue inside the span of students and teachers."""
        if curvature.level is not None or curvature.directions is None:
            raise InputError(
                f"{curvature.family!r} means every direction orthogonal to students and teachers; ask for a curvature "
                "inside their span, or use curvature.directions, the combinations of students."
            )
        return _in_inputs(self.problem, self.shape.in_weights(curvature.directions))

    def plot(self, *, title: str | None = None) -> "Figure":
        """The spectrum as a figure: curvatures, how many directions share them, and what these do."""
        from tutelage.plot.landscape import plot_landscape

        return plot_landscape(self, title=title)

    def _require_critical(self, what: str) -> None:
        if not self.is_critical:
            raise InputError(
                f"the gradient is {self.gradient_norm:.3g}; {what} needs a critical point, where it is 0. Move the weights."
            )

    def __str__(self) -> str:
        lines = [f"{self.kind}: e_g = {self.error:.6g}, gradient {self.gradient_norm:.2g}"]
        lines += [f"{c.value:>13.6g}  x {c.multiplicity:<7d} {c.family}" for c in self.spectrum]
        down, flat = self.index, self.flat
        count = self.parameters
        lines.append(f"of {count} directions {down} lead down, {flat} are flat, {count - down - flat} lead up")
        if self.is_critical and flat:
            mere = self.merely_flat
            lines.append(f"of the flat ones {flat - mere} lead along equal error, {mere} are merely flat")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Landscape: {self.kind}, e_g = {self.error:.6g}, {self.index} of {self.parameters} directions down>"


def landscape(
    problem: Problem, weights: Any, teacher_weights: Any, *, readout: Any = None, quadrature: Quadrature | None = None
) -> Landscape:
    """Error, gradient and Hessian of e_g with respect to the first-layer weights W (K, N), at W and W* (M, N).

    Derivatives are taken in W / sqrt(N), so that curvatures do not depend on N, and a direction of curvature h shrinks as
    exp(-lr h alpha) under gradient flow. Any activation, any spectrum; the cost does not depend on N, for directions outside
    the span of students and teachers share K curvatures a level. readout: v, if not the problem's.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.papers.quadratic.quadratic_network(2, 2).problem
    >>> W = np.sqrt(5) * np.eye(2, 5)
    >>> tu.analysis.landscape(problem, W, W).kind
    'minimum'
    """
    v, quadrature = _readout(require_problem(problem, "landscape"), readout), as_rule(quadrature)
    W, W_teacher = weights_by_level(problem, weights, teacher_weights)
    span = span_of(problem, W, W_teacher)
    if span.students.size > LARGEST:
        raise InputError(
            f"students and teachers span {span.lam.size} directions on {span.outside.size} levels; their Hessian would have "
            f"{span.students.size} rows, of at most {LARGEST}. Use fewer levels."
        )
    require_second_derivative(problem, span.students * np.sqrt(span.lam), span.teachers * np.sqrt(span.lam))
    shape = hessian_at(problem, span, v, quadrature)
    orbit = orbit_of(problem, span, v)
    gradient = _in_inputs(problem, shape.in_weights(shape.gradient))
    largest = max(float(np.max(np.abs(np.linalg.eigvalsh(m)), initial=0.0)) for m in (shape.matrix, shape.A))
    size = largest * max(float(np.linalg.norm(span.students)), float(np.linalg.norm(span.teachers)))
    critical = float(np.linalg.norm(gradient)) <= CRITICAL * size
    moves = len(orbit.inside) + sum(len(x) * n for x, n in zip(orbit.outside, span.outside, strict=True))
    dim = int(sum(w.shape[1] for w in W))
    return Landscape(problem, shape.error, gradient, spectrum_of(shape, orbit, critical), int(moves), dim, size, shape)


def _in_inputs(problem: Problem, directions: np.ndarray) -> np.ndarray:
    """From the eigenbasis to the coordinates in which the weights were given."""
    basis = problem.inputs.basis
    return directions if basis is None else directions @ basis


def _readout(problem: Problem, readout: Any) -> np.ndarray:
    v = problem.student.readout if readout is None else checks.as_array("readout", readout)
    checks.require_untraced("the readout", "landscape", v)
    checks.require_shape("readout", v, (problem.student.hidden,), fix="One number per student unit.")
    checks.require_finite("readout", v)
    return np.asarray(v, float)
