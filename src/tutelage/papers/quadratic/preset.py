"""The setting of Bocchi et al. 2026 (arXiv:2604.03068), with its conventions translated and its closed forms.

Theirs: readouts 1/p and 1/p*, orthonormal teachers, loss Delta^2, time t = eta alpha, risk R. Ours: loss Delta^2 / 2, so
    lr = 2 eta,   alpha = t / eta,   risk = 2 e_g,   eigenvalues of their Hessian = 2 x ours.
Small rates (gradient flow), small overlaps, all in t:
    norms of all units alike     q' = (8/p) q (1 - (1 + 2/p) q), logistic, to p/(p+2), with rate 8/p     (eqs. 9, 10)
    differences of norms, and overlaps of students, decay with rate 16/(p(p+2))     (eqs. 11, 12, where the sign is lost)
    overlaps with teachers grow with rate 8/(p p*)                                  (eq. 12)
    loss on leaving the plateau  (R(0) - R(t)) / R(0) = 4/(p p*) sum rho^2 (exp(16 t/(p p*)) - 1) / R(0)    (eq. 13)
`plateau_at_rate.py` has what becomes of the plateau at finite rates.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.papers.quadratic.escape_noise import SeedNoise, noisy_overlaps, seed_noise
from tutelage.papers.quadratic.fastest import FastestEscape, search
from tutelage.papers.quadratic.ordered import QuadraticCurves, quadratic_curves
from tutelage.papers.quadratic.plateau_at_rate import PlateauAtRate, fastest_rate, plateau_at, standstill_rate
from tutelage.problem import SGD, Network, Problem, Start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 801  # times at which a curve is looked at for the time of its half
BEYOND = 4.0  # e-folding times that a half may take beyond ln(1 / overlap)


@dataclass(frozen=True)
class QuadraticNetwork:
    """A quadratic network as Bocchi et al. 2026 have it, with its starts, exact curves and closed forms.

    students p, teachers p*, paper_lr: eta of their loss, which lacks the 1/2: lr = 2 eta, risk = 2 e_g. Rates are per unit
    of their time t = eta alpha.

    >>> import tutelage as tu
    >>> network = tu.papers.quadratic.quadratic_network(3, 2)
    >>> round(network.plateau().fastest_lr, 4)                            # leaves the plateau first
    0.301
    """

    students: int
    teachers: int
    paper_lr: float

    @property
    def problem(self) -> Problem:
        """The problem in our conventions: lr = 2 eta."""
        p, p_teacher = self.students, self.teachers
        student, teacher = Network(p, "quadratic", readout=1 / p), Network(p_teacher, "quadratic", readout=1 / p_teacher)
        return Problem(student, teacher, sgd=SGD(lr=2 * self.paper_lr))

    def start(self, overlap: float = 0.01, seed: int = 0, *, norm: float = 1.0) -> Start:
        """Eq. 8: orthogonal students of squared length `norm`, orthonormal teachers, Gaussian overlaps of this size."""
        overlap, norm = (float(checks.as_array(name, x)) for name, x in (("overlap", overlap), ("norm", norm)))
        rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
        rho = overlap * rng.standard_normal((self.students, self.teachers))
        return Start(R=rho, Q=norm * np.eye(self.students), T=np.eye(self.teachers))

    def alpha(self, t: Any) -> Any:
        """Our time, of the paper's."""
        return np.asarray(t) / self.paper_lr

    def t(self, alpha: Any) -> Any:
        """The paper's time eta alpha, of ours."""
        return np.asarray(alpha) * self.paper_lr

    @property
    def plateau_norm(self) -> float:
        """Squared length of every student on the plateau, small rates: p/(p+2)."""
        return self.students / (self.students + 2)

    def norm_at(self, t: Any, first: float = 1.0) -> Any:
        """Squared length of students that start alike and without overlaps, small rates: logistic."""
        rest = self.plateau_norm
        return rest / (1 + (rest / first - 1) * np.exp(-8 / self.students * np.asarray(t)))

    @property
    def overlap_rate(self) -> float:
        """Growth of overlaps with teachers on the plateau."""
        return 8 / (self.students * self.teachers)

    @property
    def student_rate(self) -> float:
        """Rate of overlaps between students, and of differences between norms, on the plateau: negative, they decay."""
        return -16 / (self.students * (self.students + 2))

    @property
    def norm_rate(self) -> float:
        """Rate of the common norm beside the plateau."""
        return -8 / self.students

    @property
    def start_risk(self) -> float:
        """Risk of orthonormal students without overlaps."""
        return 2 / self.teachers + 2 / self.students

    @property
    def plateau_risk(self) -> float:
        """Risk on the plateau, small rates."""
        return 1 + 2 / self.teachers - self.plateau_norm

    def loss_reduction(self, t: Any, squares: Any = None, *, overlap: float | None = None) -> Any:
        """Eq. 13: relative fall of the risk at t after the onset of the plateau, as long as it is small.

        squares: sum of rho^2 at t = 0, of one start. overlap: instead, the mean over starts of this size, p p* overlap^2.
        """
        if (squares is None) == (overlap is None):
            raise InputError("loss_reduction needs squares (of one start) or overlap (of an average); give one of them.")
        pairs = self.students * self.teachers
        squares = pairs * np.square(overlap) if overlap is not None else np.asarray(squares)
        gone = 4 / pairs * squares
        return gone * np.expm1(16 / pairs * np.asarray(t)) / (self.plateau_risk - gone)

    def plateau(self) -> PlateauAtRate:
        """The plateau at this learning rate, eta^2 terms included."""
        return plateau_at(self.students, self.teachers, self.paper_lr)

    def curves(self, start: Any, t: Any, *, gradient_flow: bool = False) -> QuadraticCurves:
        """Exact curves from a start in order (or several), at times given as the paper's t."""
        return quadratic_curves(self.problem, start, self.alpha(t), gradient_flow=gradient_flow)

    def half_times(self, starts: Any) -> np.ndarray:
        """When the loss of each start (in order, as `start` makes them) is half its first value, in alpha; inf: never."""
        rate = plateau_at(self.students, self.teachers, self.paper_lr).growth
        if rate <= 0:
            return np.full(len(starts), np.inf)
        least = min(float(np.max(np.abs(np.asarray(x.R)))) for x in starts)
        times = np.linspace(0.0, (np.log(1 / least) + BEYOND) / rate, POINTS)
        curves = quadratic_curves(self.problem, list(starts), times)
        return curves.time_below(curves.error[..., 0] / 2)

    def fastest(self, *, overlap: float = 0.01, starts: int = 20, seed: int = 0, accuracy: float = 0.003) -> FastestEscape:
        """The learning rate at which the loss is halved with the fewest samples, averaged over starts, by solving."""
        many = [self.start(overlap, seed + i) for i in range(checks.as_count("starts", starts))]
        best = fastest_rate(self.students, self.teachers)
        top = min(1.3 * best, 0.98 * standstill_rate(self.students, self.teachers))

        def halved(lr: float) -> float:
            return float(np.mean(QuadraticNetwork(self.students, self.teachers, lr).half_times(many)))

        return search(halved, 0.5 * best, top, best, accuracy)

    def seed_noise(self, norm: float = 1.0) -> SeedNoise:
        """How much the noise of SGD adds to the first overlaps: who decides the escape, the start or the noise?"""
        return seed_noise(self.students, self.teachers, self.paper_lr, norm)

    def escape_times(self, start: Start, dim: int, *, samples: int = 300, seed: int = 0) -> np.ndarray:
        """Times (samples,) at which the loss of networks of N = dim inputs is halved, from one start; their law."""
        norm = float(np.asarray(start.Q)[0, 0])
        rho = noisy_overlaps(np.asarray(start.R), self.seed_noise(norm), dim, samples, seed)
        return self.half_times([Start(R=x, Q=start.Q, T=start.T) for x in rho])

    def plot(self, *, overlap: float = 0.01, seed: int = 0, title: str | None = None) -> "Figure":
        """Risk and order parameters from one start, with the closed forms of every phase."""
        from tutelage.plot.quadratic import plot_quadratic_network

        end = 1.6 * np.log(1 / overlap) / self.overlap_rate
        return plot_quadratic_network(self, self.curves(self.start(overlap, seed), np.linspace(0, end, 401)), title=title)

    def __str__(self) -> str:
        eta, pairs = self.paper_lr, f"p = {self.students}, p* = {self.teachers}"
        return "\n".join(
            [
                f"quadratic network, {pairs}, readouts 1/p, 1/p*: eta = {eta:g} of a loss without 1/2 is lr = {2 * eta:g}; "
                "t = eta alpha; risk = 2 e_g",
                f"norm learning: to {self.plateau_norm:.6g}, rate {-self.norm_rate:.4g} in t",
                f"plateau: risk {self.plateau_risk:.6g}; student overlaps decay with rate {-self.student_rate:.4g}, "
                f"teacher overlaps grow with rate {self.overlap_rate:.4g}",
                f"escape: the risk falls by 4 overlap^2 exp({16 / (self.students * self.teachers):.4g} t)",
                *str(self.plateau()).splitlines(),
            ]
        )


def quadratic_network(students: int, teachers: int, paper_lr: float = 0.01) -> QuadraticNetwork:
    """The setting of Bocchi et al. 2026: problem, starts, closed forms and exact curves of its quadratic networks.

    paper_lr: the learning rate as that paper counts it, of a loss without 1/2; ours (`problem.sgd.lr`) is twice that.

    >>> import tutelage as tu
    >>> network = tu.papers.quadratic.quadratic_network(3, 2)
    >>> network.plateau_norm, network.overlap_rate
    (0.6, 1.3333333333333333)
    """
    lr = checks.as_array("paper_lr", paper_lr)
    checks.require_shape("paper_lr", lr, ())
    checks.require_positive("paper_lr", lr)
    return QuadraticNetwork(checks.as_count("students", students), checks.as_count("teachers", teachers), float(lr))
