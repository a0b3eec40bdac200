"""All critical points of a quadratic network with orthonormal teachers.

And the whole spectrum at each. With J = W / sqrt(N) and isotropic inputs the error of
y = v sum_k lambda_k^2 depends on one matrix, E = v* J*^T J* - v J^T J:

    e_g = (tr E)^2 / 2 + tr E^2,     gradient -2 v J (tr E + 2 E)

(Bocchi et al. 2026, whose loss has no factor 1/2: their risk is 2 e_g, their readouts
v = 1/p and v* = 1/p*). The gradient vanishes where E = -tau/2, tau = tr E, on the rows of J.
Then J^T J has the eigenvalue alpha in s directions of the teachers' span and beta in r
directions orthogonal to it, and nothing else:

    tau = 2 v* (p* - s) / (2 + s + r),   beta = tau / 2v,   alpha = beta + v*/v,
    e_g = d^2 / (2 + s + r) + d v*,      d = v* (p* - s).

These classes (s, r), s + r <= p, r <= N - p*, r = 0 once s = p*, are all there are:
s = r = 0 is tabula rasa, (0, r) the plateaus, (s, 0) the aligned points with s = p* the
solution; the others are mixed. With J = sum_i sqrt(g_i) m_i u_i^T the Hessian falls apart
(T: the teachers' directions that are not used, V: the rest of the inputs, M: units
orthogonal to all m_i):

    m_i u_j:   4 v^2 (g_i + g_j) on what is symmetric, 0 on rotations; diagonal plus rank
               one for i = j
    m_i T:     0 (i in s), -4 v v* (i in r)
    m_i V:     4 v v* (i in s), 0 (i in r)
    M u_i:     0
    M T:       -2 v (tau + 2 v*)
    M V:       -2 v tau

Only (s, r) = (min(p, p*), 0) has no way down: there are no bad minima.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tutelage import InputError, Problem, checks
from tutelage.analysis import Curvature, Landscape, landscape
from tutelage_papers.assumptions import quadratic_readouts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Families of directions, as `landscape` names them.
EQUAL_ERROR = "along equal error"
MERELY_FLAT = "merely flat"


@dataclass(frozen=True)
class SpectrumCheck:
    """A predicted spectrum against a numerical one.

    Largest gap of an eigenvalue, gap of e_g, gradient, and two counts of each kind.
    """

    name: str
    eigenvalue_gap: float
    error_gap: float
    gradient: float
    down: tuple[int, int]
    flat: tuple[int, int]
    along: tuple[int, int]

    @property
    def passed(self) -> bool:
        """True if everything agrees, to 1e-8."""
        gaps = max(self.eigenvalue_gap, self.error_gap, self.gradient)
        equal_counts = all(
            predicted == found for _, (predicted, found) in self._counts()
        )
        return gaps < 1e-8 and equal_counts

    def __str__(self) -> str:
        counts = []
        for kind, (predicted, found) in self._counts():
            if predicted == found:
                counts.append(f"{kind} {predicted} = {found}")
            else:
                counts.append(f"{kind} {predicted} but {found} found")
        verdict = "agrees" if self.passed else "DIFFERS"
        return (
            f"{self.name}: {verdict}; eigenvalues to {self.eigenvalue_gap:.1e}, "
            f"e_g to {self.error_gap:.1e}; {', '.join(counts)}"
        )

    def _counts(self) -> list[tuple[str, tuple[int, int]]]:
        return [
            ("down", self.down),
            ("flat", self.flat),
            ("along equal error", self.along),
        ]


@dataclass(frozen=True)
class CriticalPoint:
    """A class of critical points; its curvatures are predicted.

    aligned: s, teacher directions in use. orthogonal: r, other directions in use.
    """

    problem: Problem
    dim: int
    aligned: int
    orthogonal: int

    @property
    def name(self) -> str:
        """tabula rasa, plateau, aligned, zero error, best fit or mixed."""
        p, p_teacher = self._widths
        s = self.aligned
        r = self.orthogonal
        if s == p_teacher:
            return "zero error"
        if s == p:
            return "best fit"
        if s and r:
            return f"mixed: {s} aligned, {r} orthogonal"
        if s:
            return f"aligned with {s} of {p_teacher}"
        if r:
            return f"plateau of rank {r}"
        return "tabula rasa"

    @property
    def _widths(self) -> tuple[int, int]:
        return self.problem.student.hidden, self.problem.labeler.hidden

    @property
    def _readouts(self) -> tuple[float, float]:
        return quadratic_readouts(self.problem, "critical_points")

    @property
    def _tau(self) -> float:
        _, p_teacher = self._widths
        _, v_teacher = self._readouts
        missing = p_teacher - self.aligned
        return 2 * v_teacher * missing / (2 + self.aligned + self.orthogonal)

    @property
    def beta(self) -> float:
        """Squared length, in W^T W / N, of each direction orthogonal to the teachers."""
        return self._tau / (2 * self._readouts[0])

    @property
    def alpha(self) -> float:
        """Squared length, in W^T W / N, of each direction in the teachers' span."""
        v, v_teacher = self._readouts
        return self.beta + v_teacher / v

    @property
    def error(self) -> float:
        """e_g; the risk of a loss without 1/2 is twice this."""
        _, p_teacher = self._widths
        _, v_teacher = self._readouts
        missing = v_teacher * (p_teacher - self.aligned)
        return missing**2 / (2 + self.aligned + self.orthogonal) + missing * v_teacher

    @property
    def manifold_dimension(self) -> int:
        """Dimension of the manifold of critical points of this class, all of equal error.

        p k - k (k+1)/2 from rotations of the k = s + r directions among the students,
        s (p* - s) + r (N - p* - r) from the choice of the directions themselves.
        """
        p, p_teacher = self._widths
        s = self.aligned
        r = self.orthogonal
        k = s + r
        rotations = p * k - k * (k + 1) // 2
        choices = s * (p_teacher - s) + r * (self.dim - p_teacher - r)
        return rotations + choices

    @property
    def spectrum(self) -> tuple[Curvature, ...]:
        """Every eigenvalue of the Hessian with multiplicity and family, lowest first.

        As `landscape` counts them.
        """
        curvatures = []
        for value, multiplicity, family in [*self._between(), *self._away()]:
            if multiplicity > 0:
                curvatures.append(Curvature(value, multiplicity, family))
        return tuple(sorted(curvatures, key=lambda c: (c.value, c.family)))

    def _between(self) -> Iterator[tuple[float, int, str]]:
        """Directions m_i u_j, from the vectors to each other."""
        s = self.aligned
        r = self.orthogonal
        a = self.alpha
        b = self.beta
        unit = 4 * self._readouts[0] ** 2
        k = s + r
        yield (
            0.0,
            k * (k - 1) // 2,
            f"{EQUAL_ERROR}: student units rotate among themselves",
        )
        yield (
            unit * 2 * a,
            s * (s + 1) // 2 - (s > 0),
            "aligned directions change shape",
        )
        yield (
            unit * 2 * b,
            r * (r + 1) // 2 - (r > 0),
            "orthogonal directions change shape",
        )
        yield unit * (a + b), s * r, "aligned and orthogonal directions mix"
        if s and r:
            cross = np.sqrt(a * b * s * r)
            matrix = np.array([[a * (2 + s), cross], [cross, b * (2 + r)]])
            low, high = np.linalg.eigvalsh(unit * matrix)
            yield float(low), 1, "aligned norms against orthogonal norms"
            yield float(high), 1, "all norms"
        elif s:
            yield unit * (a * (2 + s)), 1, "all norms"
        elif r:
            yield unit * (b * (2 + r)), 1, "all norms"

    def _away(self) -> Iterator[tuple[float, int, str]]:
        """Directions that bring in new inputs, or units that do nothing yet."""
        p, p_teacher = self._widths
        v, v_teacher = self._readouts
        s = self.aligned
        r = self.orthogonal
        tau = self._tau
        missing = p_teacher - s
        rest = self.dim - p_teacher - r
        idle = p - s - r
        yield 0.0, s * missing, f"{EQUAL_ERROR}: other directions of the teachers' span"
        yield (
            -4 * v * v_teacher,
            r * missing,
            "orthogonal directions turn to missing teachers",
        )
        yield 4 * v * v_teacher, s * rest, "aligned directions leave the teachers' span"
        yield 0.0, r * rest, f"{EQUAL_ERROR}: other orthogonal directions"
        yield 0.0, idle * (s + r), f"{EQUAL_ERROR}: idle units take their share"
        yield (
            -2 * v * (tau + 2 * v_teacher),
            idle * missing,
            "idle units turn to missing teachers",
        )
        family = "idle units grow anywhere else"
        if not missing:
            family = f"{MERELY_FLAT}: {family}"
        yield -2 * v * tau, idle * rest, family

    @property
    def parameters(self) -> int:
        """p N, the number of directions."""
        return self._widths[0] * self.dim

    @property
    def index(self) -> int:
        """The number of directions that lead downwards."""
        return sum(c.multiplicity for c in self.spectrum if c.value < 0)

    @property
    def flat(self) -> int:
        """The number of directions without curvature."""
        return sum(c.multiplicity for c in self.spectrum if c.value == 0)

    @property
    def merely_flat(self) -> int:
        """The number of flat directions that leave the manifold of equal error.

        The error grows along them at fourth order.
        """
        return self.flat - self.manifold_dimension

    def weights(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return W (p, N) and W* (p*, N) of a random member of the class."""
        rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
        p, p_teacher = self._widths
        s = self.aligned
        r = self.orthogonal
        # In many dimensions only the directions in use are drawn.
        directions = self.dim if self.dim < 64 else p_teacher + r
        inputs = _random_columns(rng, self.dim, directions).T
        units = _random_columns(rng, p, s + r)
        # The aligned directions mix teachers.
        mixing = _random_columns(rng, p_teacher, p_teacher)
        used = np.concatenate([inputs[:s], inputs[p_teacher : p_teacher + r]])
        lengths = np.sqrt([self.alpha] * s + [self.beta] * r)
        root = np.sqrt(self.dim)
        return root * (units * lengths) @ used, root * mixing @ inputs[:p_teacher]

    def landscape(self, seed: int = 0) -> Landscape:
        """Return the numerical landscape at `weights(seed)`."""
        return landscape(self.problem, *self.weights(seed))

    def check(self, seed: int = 0) -> SpectrumCheck:
        """Compare what is predicted with the numerical landscape of a random member."""
        return compare_spectra(self, self.landscape(seed))

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw the predicted spectrum."""
        from tutelage.plot import plot_landscape

        return plot_landscape(self, title=title)

    def __str__(self) -> str:
        s = self.aligned
        r = self.orthogonal
        lines = [f"{self.name} (s = {s}, r = {r}): e_g = {self.error:.6g}"]
        for c in self.spectrum:
            lines.append(f"{c.value:>13.6g}  x {c.multiplicity:<7d} {c.family}")
        lines.append(
            f"of {self.parameters} directions {self.index} lead down and {self.flat} are "
            f"flat: {self.manifold_dimension} along the manifold of these points, "
            f"{self.merely_flat} merely flat"
        )
        return "\n".join(lines)


def _random_columns(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Orthonormal columns in random directions."""
    Q, _ = np.linalg.qr(rng.standard_normal((rows, columns)))
    return Q


def compare_spectra(point: CriticalPoint, found: Landscape) -> SpectrumCheck:
    """Compare a class of critical points with the landscape at one of them."""
    values = [c.value for c in point.spectrum]
    counts = [c.multiplicity for c in point.spectrum]
    predicted = np.repeat(values, counts)
    measured = found.eigenvalues()
    gap = np.inf
    if predicted.size == measured.size:
        gap = float(np.max(np.abs(predicted - measured)))
    return SpectrumCheck(
        name=point.name,
        eigenvalue_gap=gap,
        error_gap=abs(point.error - found.error),
        gradient=found.gradient_norm,
        down=(point.index, found.index),
        flat=(point.flat, found.flat),
        along=(point.manifold_dimension, found.orbit),
    )


@dataclass(frozen=True)
class CriticalPoints:
    """All classes of critical points of a problem in N dimensions; `points[s, r]` is one of them."""

    problem: Problem
    dim: int
    points: tuple[CriticalPoint, ...]

    def __getitem__(self, place: tuple[int, int]) -> CriticalPoint:
        """The class with s aligned and r orthogonal directions."""
        for point in self.points:
            if (point.aligned, point.orthogonal) == place:
                return point
        p = self.problem.student.hidden
        p_teacher = self.problem.labeler.hidden
        raise InputError(
            f"there is no critical point with (s, r) = {place}; s must be at most "
            f"{p_teacher}, s + r at most {p}, r at most {self.dim - p_teacher}, and 0 at "
            "zero error."
        )

    def __iter__(self) -> Iterator[CriticalPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw the error against the share of directions that lead down.

        The higher a saddle, the more of them.
        """
        from tutelage_papers.quadratic.plots import plot_critical_points

        return plot_critical_points(self, title=title)

    def __str__(self) -> str:
        lines = [
            f"{'s':>3} {'r':>3} {'e_g':>11} {'down':>7} {'flat':>7} {'manifold':>9}  class"
        ]
        for c in self.points:
            place = f"{c.aligned:>3} {c.orthogonal:>3}"
            counts = f"{c.index:>7} {c.flat:>7} {c.manifold_dimension:>9}"
            lines.append(f"{place} {c.error:>11.6g} {counts}  {c.name}")
        return "\n".join(lines)


def critical_points(problem: Problem, dim: int) -> CriticalPoints:
    """Return all critical points of e_g for a quadratic network, highest first.

    With orthonormal teachers in `dim` dimensions, equal positive readouts (1/p and 1/p* in
    the paper), and isotropic inputs. Each comes with its error and its whole Hessian
    spectrum in closed form, `.weights()` to realize it and `.check()` to compare with the
    numerical landscape.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.quadratic.quadratic_network(3, 2).problem
    >>> points = tutelage_papers.quadratic.critical_points(problem, dim=20)
    >>> len(points.points), points[2, 0].error                     # both teachers found
    (8, 0.0)
    """
    quadratic_readouts(problem, "critical_points")
    p = problem.student.hidden
    p_teacher = problem.labeler.hidden
    gram = problem.labeler.gram
    if gram is not None:
        gap = np.max(np.abs(np.asarray(gram) - np.eye(p_teacher)))
        if gap > 1e-12:
            raise InputError(
                "the teacher's gram is not the identity; critical_points needs orthonormal "
                "ones. Leave gram out."
            )
    dim = checks.as_count("dim", dim, least=p_teacher)
    classes = []
    for s in range(min(p, p_teacher) + 1):
        # Nothing is left to find once all teachers are.
        most = min(p - s, dim - p_teacher) if s < p_teacher else 0
        for r in range(most + 1):
            classes.append(CriticalPoint(problem, dim, s, r))
    highest_first = sorted(classes, key=lambda c: -c.error)
    return CriticalPoints(problem, dim, tuple(highest_first))
