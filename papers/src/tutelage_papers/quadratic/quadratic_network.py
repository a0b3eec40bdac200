"""The setting of Bocchi et al. 2026 (arXiv:2604.03068), and its closed forms.

With its conventions translated. Theirs: readouts 1/p and 1/p*, orthonormal teachers, loss
Delta^2, time t = eta alpha, risk R. Ours: loss Delta^2 / 2, so

    lr = 2 eta,   alpha = t / eta,   risk = 2 e_g,   eigenvalues of their Hessian = 2 x ours.

Small rates (gradient flow), small overlaps, all in t:

    norms of all units alike (eqs. 9, 10): q' = (8/p) q (1 - (1 + 2/p) q), logistic, to
        p/(p+2), with rate 8/p
    differences of norms, and overlaps of students, decay with rate 16/(p(p+2))
        (eqs. 11, 12, where the sign is lost)
    overlaps with teachers grow with rate 8/(p p*) (eq. 12)
    loss on leaving the plateau (eq. 13): (R(0) - R(t)) / R(0)
        = 4/(p p*) sum rho^2 (exp(16 t/(p p*)) - 1) / R(0)

The plateau at finite learning rates, and the rate that leaves it fastest (`PlateauAtRate`,
`FastestEscape`). With x = 2 eta / p (eta of a loss without 1/2, readouts 1/p and 1/p*),
students at Q = q, no overlaps, and every term,

    q' / q = (8/p) [ a - b q + c q^2 ],
    a = 1 + x (1 + 2/p*),  b = (1 + 2/p) (1 + 2x),  c = x (1 + 2/p) (1 + 4/p)

per unit of t = eta alpha. The lower root is the plateau; there is none if 4 a c > b^2, that
is beyond

    (1 + 2/p) - 8 x/p - 8 x^2 (1/p + 1/p* + 4/(p p*)) = 0,

where norms diverge. Overlaps with teachers grow as (4/p) (1 + 2/p* - (1 + 2/p) q) in t.
Their growth in alpha, 2 x (...), is a function of x whose maximum depends on p only through
1/p: the fastest rate, p x / 2, is affine in p for large p. Beyond

    x = (2/p*) / (m^2 (p+4)/(p+2) - m),   m = 1 + 2/p*

they do not grow at all (p* > 2): SGD noise makes students so long that the plateau is
stable. For p* = 2 that is where norms diverge, for p* = 1 they diverge before.

Escape times at finite N (`SeedNoise`). On the way to the plateau and along it every overlap
grows at the same rate g and is fed by the noise of SGD,

    d rho = g rho dalpha + sqrt(D/N) dW,   D = lr^2 4 v^2 E[Delta^2 lambda^2 u^2]

(fields of a student, a teacher), so that rho is that of a noiseless network that began at
rho(0) + xi sqrt(V/N), V = int D exp(-2 int g). Each draw of xi has a learning curve of its
own (quadratic_curves.py). Without overlaps all fields are independent, and (readouts 1/p,
1/p*, eta of a loss without 1/2)

    D = 16 eta^2/p^2 q [ (p*+2)(p*+4)/p*^2 - 2 q (p*+2)(p+2)/(p p*) + q^2 (p+2)(p+4)/p^2 ].

Leading order in 1/N and in the overlaps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import SGD, InputError, Network, Problem, Start, checks
from tutelage_papers.quadratic.quadratic_curves import QuadraticCurves, quadratic_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 801  # times at which a curve is looked at for the time of its half
HALF_TIMES = 4.0  # e-folding times that a half may take beyond ln(1 / overlap)
NOISE_TIMES = 40.0  # e-folding times of the overlaps over which noise is collected


# The plateau at a finite learning rate


@dataclass(frozen=True)
class PlateauAtRate:
    """The plateau at a finite learning rate.

    norm: squared length of every student. growth, relaxation: of teacher overlaps and of the
    common norm, in alpha. risk: 2 e_g there. Rates of a loss without 1/2: fastest_lr, at
    which growth is largest; standstill_lr, beyond which there is none; largest_lr, beyond
    which norms diverge.
    """

    norm: float
    growth: float
    relaxation: float
    risk: float
    fastest_lr: float
    standstill_lr: float
    largest_lr: float

    def __str__(self) -> str:
        return (
            f"at this rate: norms {self.norm:.6g}, risk {self.risk:.6g}, overlaps grow as "
            f"exp({self.growth:.5g} alpha)\n"
            f"growth is fastest at eta = {self.fastest_lr:.4g} and ends at "
            f"{self.standstill_lr:.4g}; norms diverge beyond {self.largest_lr:.4g}"
        )


def plateau_at(students: int, teachers: int, paper_lr: float) -> PlateauAtRate:
    """Return the plateau at this rate; refused where there is none."""
    p = students
    x = 2 * paper_lr / students
    largest = largest_rate(students, teachers)
    if paper_lr > largest:
        raise InputError(
            f"paper_lr is {paper_lr:g}; beyond {largest:.4g} the norms of {students} "
            "student units diverge and there is no plateau. Lower it."
        )
    q = _norm(p, teachers, x)
    _, b, c = coefficients(p, teachers, x)
    risk = (1 - q) ** 2 + 2 * (q**2 / p + 1 / teachers)
    return PlateauAtRate(
        norm=q,
        growth=_growth(p, teachers, x),
        relaxation=4 * x * q * (b - 2 * c * q),
        risk=risk,
        fastest_lr=fastest_rate(p, teachers),
        standstill_lr=standstill_rate(p, teachers),
        largest_lr=largest,
    )


def largest_rate(students: int, teachers: int) -> float:
    """Return the rate beyond which the norms diverge before anything is learned.

    Of a loss without 1/2.
    """
    p = students
    k = teachers
    square = 8 * (1 / p + 1 / k + 4 / (p * k))
    linear = 8 / p
    constant = 1 + 2 / p
    x = (-linear + np.sqrt(linear**2 + 4 * square * constant)) / (2 * square)
    return float(p * x / 2)


def standstill_rate(students: int, teachers: int) -> float:
    """Return the rate beyond which overlaps do not grow, or there is no plateau."""
    if teachers <= 2:
        return largest_rate(students, teachers)
    m = 1 + 2 / teachers
    return float(students / teachers / (m**2 * (students + 4) / (students + 2) - m))


def fastest_rate(students: int, teachers: int) -> float:
    """Return the rate at which overlaps with teachers grow fastest in samples."""
    from scipy.optimize import minimize_scalar

    top = 2 * largest_rate(students, teachers) / students
    options = {"xatol": 1e-10 * top}
    best: Any = minimize_scalar(
        lambda x: -_growth(students, teachers, x),
        bounds=(0.0, top),
        method="bounded",
        options=options,
    )
    return float(students * best.x / 2)


def coefficients(p: int, k: int, x: float) -> tuple[float, float, float]:
    """Return a, b and c of the module's docstring."""
    a = 1 + x * (1 + 2 / k)
    b = (1 + 2 / p) * (1 + 2 * x)
    c = x * (1 + 2 / p) * (1 + 4 / p)
    return a, b, c


def _norm(p: int, k: int, x: float) -> float:
    """The lower root, written so that it survives x -> 0."""
    a, b, c = coefficients(p, k, x)
    return float(2 * a / (b + np.sqrt(max(b**2 - 4 * a * c, 0.0))))


def _growth(p: int, k: int, x: float) -> float:
    """Growth rate of teacher overlaps, in alpha."""
    return 2 * x * (1 + 2 / k - (1 + 2 / p) * _norm(p, k, x))


# The learning rate that leaves the plateau with the fewest samples, by solving


@dataclass(frozen=True)
class FastestEscape:
    """The learning rate that leaves the plateau with the fewest samples.

    paper_lr: the best rate (of a loss without 1/2); time: mean alpha at which the loss is
    halved there. on_plateau: the rate at which overlaps grow fastest on the plateau, closed
    form. lrs, times: all rates that were tried.
    """

    paper_lr: float
    time: float
    on_plateau: float
    lrs: np.ndarray
    times: np.ndarray

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw the samples needed against the learning rate."""
        from tutelage_papers.quadratic.plots import plot_fastest_escape

        return plot_fastest_escape(self, title=title)

    def __str__(self) -> str:
        return (
            f"the loss halves first at eta = {self.paper_lr:.4g} "
            f"(lr = {2 * self.paper_lr:.4g}): alpha = {self.time:.4g}; growth on the plateau "
            f"alone is fastest at {self.on_plateau:.4g}"
        )


def search_rate(
    halved: Callable[[float], float],
    low: float,
    high: float,
    on_plateau: float,
    accuracy: float,
) -> FastestEscape:
    """Return the rate between low and high at which `halved`, the mean time, is least."""
    from scipy.optimize import minimize_scalar

    tried: dict[float, float] = {}

    def time(lr: float) -> float:
        tried[lr] = halved(lr)
        if np.isfinite(tried[lr]):
            return tried[lr]
        return np.finfo(float).max

    minimize_scalar(
        time,
        bounds=(low, high),
        method="bounded",
        options={"xatol": accuracy * on_plateau},
    )
    lrs = np.array(sorted(tried))
    times = np.array([tried[lr] for lr in lrs])
    best = int(np.argmin(times))
    return FastestEscape(
        paper_lr=float(lrs[best]),
        time=float(times[best]),
        on_plateau=on_plateau,
        lrs=lrs,
        times=times,
    )


# Noise of SGD on the plateau: escape times at finite N


@dataclass(frozen=True)
class SeedNoise:
    """The noise of SGD as an overlap at time zero.

    variance: N times its variance. growth: of overlaps on the plateau.
    """

    variance: float
    growth: float

    def start_to_noise(self, overlaps: np.ndarray, dim: int) -> float:
        """Return the size of the overlaps at the start, over that of the noise."""
        return float(np.sqrt(np.mean(np.square(overlaps)) * dim / self.variance))


def seed_noise(
    students: int, teachers: int, paper_lr: float, norm: float = 1.0
) -> SeedNoise:
    """Return the noise that SGD adds to overlaps, carried back to time zero.

    From students of squared length `norm`.
    """
    from scipy.integrate import solve_ivp

    p = students
    k = teachers
    eta = paper_lr
    x = 2 * paper_lr / students
    a, b, c = coefficients(p, k, x)

    def growth(q: float) -> float:
        return 2 * x * (1 + 2 / k - (1 + 2 / p) * q)

    def rates(_: float, state: np.ndarray) -> list[float]:
        q, grown, _ = state
        norm_rate = 4 * x * q * (a - b * q + c * q**2)
        noise_rate = diffusion(p, k, eta, q) * np.exp(-2 * grown)
        return [norm_rate, growth(q), noise_rate]

    end = NOISE_TIMES / (2 * x * 2 / k)
    path = solve_ivp(
        rates, (0.0, end), [norm, 0.0, 0.0], method="LSODA", rtol=1e-9, atol=1e-14
    )
    q, _, V = path.y[:, -1]
    if not path.success or not np.isfinite(V) or growth(q) <= 0:
        raise InputError(
            f"paper_lr is {eta:g}; overlaps do not grow on the plateau at this rate. Lower "
            "it."
        )
    return SeedNoise(float(V), float(growth(q)))


def diffusion(p: int, k: int, eta: float, q: float) -> float:
    """Return N Var of one overlap per unit of alpha, at Q = q and no overlaps."""
    teachers = (k + 2) * (k + 4) / k**2
    mixed = (k + 2) * (p + 2) / (p * k)
    students = (p + 2) * (p + 4) / p**2
    return 16 * eta**2 / p**2 * q * (teachers - 2 * q * mixed + q**2 * students)


def noisy_overlaps(
    overlaps: np.ndarray, noise: SeedNoise, dim: int, samples: int, seed: int
) -> np.ndarray:
    """Return overlaps (samples, p, p*) of noiseless networks.

    They escape as networks of N = dim inputs do.
    """
    rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
    shape = (checks.as_count("samples", samples), *overlaps.shape)
    size = np.sqrt(noise.variance / checks.as_count("dim", dim))
    return overlaps + size * rng.standard_normal(shape)


# The setting of the paper


@dataclass(frozen=True)
class QuadraticNetwork:
    """A quadratic network as Bocchi et al. 2026 have it.

    With its starts, exact curves and closed forms. students p, teachers p*, paper_lr: eta of
    their loss, which lacks the 1/2: lr = 2 eta, risk = 2 e_g. Rates are per unit of their
    time t = eta alpha.
    """

    students: int
    teachers: int
    paper_lr: float

    @property
    def problem(self) -> Problem:
        """The problem in our conventions: lr = 2 eta."""
        p = self.students
        p_teacher = self.teachers
        student = Network(p, "quadratic", readout=1 / p)
        teacher = Network(p_teacher, "quadratic", readout=1 / p_teacher)
        return Problem(student, teacher, optimizer=SGD(lr=2 * self.paper_lr))

    def start(
        self, overlap: float = 0.01, seed: int = 0, *, norm: float = 1.0
    ) -> Start:
        """Return a start as in eq. 8.

        Orthogonal students of squared length `norm`, orthonormal teachers, Gaussian overlaps
        of this size.
        """
        overlap = float(checks.as_array("overlap", overlap))
        norm = float(checks.as_array("norm", norm))
        rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
        rho = overlap * rng.standard_normal((self.students, self.teachers))
        return Start(R=rho, Q=norm * np.eye(self.students), T=np.eye(self.teachers))

    def alpha(self, t: Any) -> Any:
        """Return our time, of the paper's."""
        return np.asarray(t) / self.paper_lr

    def t(self, alpha: Any) -> Any:
        """Return the paper's time eta alpha, of ours."""
        return np.asarray(alpha) * self.paper_lr

    @property
    def plateau_norm(self) -> float:
        """Squared length of every student on the plateau, small rates: p/(p+2)."""
        return self.students / (self.students + 2)

    def norm_at(self, t: Any, first: float = 1.0) -> Any:
        """Return the squared length of students that start alike, small rates: logistic.

        Without overlaps.
        """
        rest = self.plateau_norm
        decay = np.exp(-8 / self.students * np.asarray(t))
        return rest / (1 + (rest / first - 1) * decay)

    @property
    def overlap_rate(self) -> float:
        """Growth of overlaps with teachers on the plateau."""
        return 8 / (self.students * self.teachers)

    @property
    def student_rate(self) -> float:
        """Rate of overlaps between students, and of differences of norms, on the plateau.

        Negative: they decay.
        """
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

    def loss_reduction(
        self, t: Any, squares: Any = None, *, overlap: float | None = None
    ) -> Any:
        """Return the relative fall of the risk at t after the onset of the plateau (eq. 13).

        As long as it is small. squares: sum of rho^2 at t = 0, of one start. overlap:
        instead, the mean over starts of this size, p p* overlap^2.
        """
        if (squares is None) == (overlap is None):
            raise InputError(
                "loss_reduction needs squares (of one start) or overlap (of an average); "
                "give one of them."
            )
        pairs = self.students * self.teachers
        if overlap is not None:
            squares = pairs * np.square(overlap)
        gone = 4 / pairs * np.asarray(squares)
        return gone * np.expm1(16 / pairs * np.asarray(t)) / (self.plateau_risk - gone)

    def plateau(self) -> PlateauAtRate:
        """Return the plateau at this learning rate, eta^2 terms included."""
        return plateau_at(self.students, self.teachers, self.paper_lr)

    def curves(
        self, start: Any, t: Any, *, gradient_flow: bool = False
    ) -> QuadraticCurves:
        """Return exact curves from a start in order (or several).

        At times given as the paper's t.
        """
        return quadratic_curves(
            self.problem, start, self.alpha(t), gradient_flow=gradient_flow
        )

    def half_times(self, starts: Any) -> np.ndarray:
        """Return the time in alpha at which the loss of each start is halved; inf: never.

        Starts in order, as `start` makes them.
        """
        rate = plateau_at(self.students, self.teachers, self.paper_lr).growth
        if rate <= 0:
            return np.full(len(starts), np.inf)
        least = min(float(np.max(np.abs(np.asarray(x.R)))) for x in starts)
        times = np.linspace(0.0, (np.log(1 / least) + HALF_TIMES) / rate, POINTS)
        curves = quadratic_curves(self.problem, list(starts), times)
        return curves.time_below(curves.error[..., 0] / 2)

    def fastest(
        self,
        *,
        overlap: float = 0.01,
        starts: int = 20,
        seed: int = 0,
        accuracy: float = 0.003,
    ) -> FastestEscape:
        """Return the learning rate that halves the loss with the fewest samples.

        Averaged over starts, by solving.
        """
        count = checks.as_count("starts", starts)
        several = [self.start(overlap, seed + i) for i in range(count)]
        best = fastest_rate(self.students, self.teachers)
        top = min(1.3 * best, 0.98 * standstill_rate(self.students, self.teachers))

        def halved(lr: float) -> float:
            network = QuadraticNetwork(self.students, self.teachers, lr)
            return float(np.mean(network.half_times(several)))

        return search_rate(halved, 0.5 * best, top, best, accuracy)

    def seed_noise(self, norm: float = 1.0) -> SeedNoise:
        """Return the noise that SGD adds to the first overlaps.

        It tells who decides the escape, the start or the noise.
        """
        return seed_noise(self.students, self.teachers, self.paper_lr, norm)

    def escape_times(
        self, start: Start, dim: int, *, samples: int = 300, seed: int = 0
    ) -> np.ndarray:
        """Return the law of the times at which networks halve their loss, (samples,).

        Networks of N = dim inputs, from one start.
        """
        norm = float(np.asarray(start.Q)[0, 0])
        rho = noisy_overlaps(
            np.asarray(start.R), self.seed_noise(norm), dim, samples, seed
        )
        return self.half_times([Start(R=x, Q=start.Q, T=start.T) for x in rho])

    def plot(
        self, *, overlap: float = 0.01, seed: int = 0, title: str | None = None
    ) -> "Figure":
        """Draw risk and order parameters from one start, with the closed forms."""
        from tutelage_papers.quadratic.plots import plot_quadratic_network

        end = 1.6 * np.log(1 / overlap) / self.overlap_rate
        curves = self.curves(self.start(overlap, seed), np.linspace(0, end, 401))
        return plot_quadratic_network(self, curves, title=title)

    def __str__(self) -> str:
        eta = self.paper_lr
        growth = 16 / (self.students * self.teachers)
        lines = [
            f"quadratic network, p = {self.students}, p* = {self.teachers}, readouts 1/p, "
            f"1/p*: eta = {eta:g} of a loss without 1/2 is lr = {2 * eta:g}; "
            "t = eta alpha; risk = 2 e_g",
            f"norm learning: to {self.plateau_norm:.6g}, rate {-self.norm_rate:.4g} in t",
            f"plateau: risk {self.plateau_risk:.6g}; student overlaps decay with rate "
            f"{-self.student_rate:.4g}, teacher overlaps grow with rate "
            f"{self.overlap_rate:.4g}",
            f"escape: the risk falls by 4 overlap^2 exp({growth:.4g} t)",
            str(self.plateau()),
        ]
        return "\n".join(lines)


def quadratic_network(
    students: int, teachers: int, paper_lr: float = 0.01
) -> QuadraticNetwork:
    """Return a quadratic network in the setting of Bocchi et al. 2026.

    Its problem, starts, closed forms and exact curves. paper_lr: the learning rate as that
    paper counts it, of a loss without 1/2; ours (`problem.optimizer.lr`) is twice that.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> network = tutelage_papers.quadratic.quadratic_network(3, 2)
    >>> network.plateau_norm, network.overlap_rate
    (0.6, 1.3333333333333333)
    """
    lr = checks.as_array("paper_lr", paper_lr)
    checks.require_shape("paper_lr", lr, ())
    checks.require_positive("paper_lr", lr)
    return QuadraticNetwork(
        checks.as_count("students", students),
        checks.as_count("teachers", teachers),
        float(lr),
    )
