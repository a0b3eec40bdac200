"""Random problems as plain data: numbers, words and arrays. `packaged.py` hands them to the package, `plain.py` learns them.

A rate is a number or ("kind", numbers...). Vectors are coordinates in an orthonormal frame of each eigenspace, divided by
the square root of its dimension: overlaps are their products. One seed gives one problem.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.adversarial import functions

LONG = ("vectors", "velocities")
UNSAID = (None, False)


@dataclass(frozen=True)
class Case:
    seed: int
    student: str
    teacher: str
    v: np.ndarray  # (K,)
    v_teacher: np.ndarray  # (M,)
    b: np.ndarray | None
    b_teacher: np.ndarray | None
    # ("isotropic",), ("power law", beta, levels) or ("levels", eigenvalues, fractions,
    # normalize)
    spectrum: tuple
    vectors: tuple  # per level (K + M, d): students first
    velocities: tuple  # per level (K, d): of the momentum in a single step
    dim: int  # fractions times this are whole numbers
    lr: Any
    readout_lr: Any = None
    bias_lr: Any = None
    train_readout: bool = False
    train_bias: bool = False
    batch: int = 1
    decay: float = 0.0
    momentum: float = 0.0
    slow: tuple | None = None  # (gamma, k or None)
    mask: np.ndarray | None = None  # (K, L)
    spherical: bool = False
    noise: float = 0.0
    time: float = 0.0  # of the single step
    tags: tuple = field(default=())

    def __str__(self):
        """All but the vectors, which the seed gives."""
        shown = {
            k: v.tolist() if isinstance(v, np.ndarray) else v
            for k, v in vars(self).items()
            if k not in LONG
        }
        return ", ".join(
            f"{name}={value}" for name, value in shown.items() if value not in UNSAID
        )

    @property
    def K(self):
        return self.v.size

    @property
    def M(self):
        return self.v_teacher.size

    @property
    def levels(self):
        """Eigenvalues and fractions."""
        kind, *rest = self.spectrum
        if kind == "isotropic":
            return np.ones(1), np.ones(1)
        if kind == "power law":
            lam = np.arange(1.0, rest[1] + 1) ** -(1 + rest[0])
            return lam / lam.mean(), np.full(rest[1], 1 / rest[1])
        lam = np.asarray(rest[0], float)
        p = np.asarray(rest[1], float)
        normalize = rest[2]
        return lam / (p @ lam if normalize else 1.0), p

    def overlaps(self):
        """r, q, t per level."""
        gram = np.stack([x @ x.T for x in self.vectors])
        K = self.K
        return gram[:, :K, K:], gram[:, :K, :K], gram[:, K:, K:]

    def dims(self, N):
        """Whole numbers of dimensions per level: largest remainders."""
        exact = self.levels[1] * N
        whole = np.floor(exact + 1e-9).astype(int)
        for level in np.argsort(whole - exact, kind="stable")[: N - whole.sum()]:
            whole[level] += 1
        return whole


def draw(seed, hard=False, bounded=False):
    """The problem of a seed. hard: with the functions of HARD.

    bounded: without those whose runs have heavy tails.
    """
    rng = np.random.default_rng([seed, 18])
    sizes = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (3, 2), (2, 3), (1, 3)]
    K, M = sizes[rng.integers(len(sizes))]
    student, teacher = _functions(rng, hard, bounded)
    spectrum, dim = _spectrum(rng)
    case = Case(
        seed=seed,
        student=student,
        teacher=teacher,
        v=_readout(rng, K),
        v_teacher=_readout(rng, M),
        b=rng.normal(0, 0.6, K) if rng.random() < 0.35 else None,
        b_teacher=rng.normal(0, 0.6, M) if rng.random() < 0.25 else None,
        spectrum=spectrum,
        vectors=(),
        velocities=(),
        dim=dim,
        lr=1.0,
        train_readout=bool(rng.random() < 0.4),
        batch=int(rng.choice([1, 1, 1, 2, 3, 5])),
        noise=float(rng.choice([0.0, rng.uniform(0.05, 0.8)])),
        time=float(rng.uniform(0.05, 1.5)),
    )
    case = _changed(case, train_bias=bool(case.b is not None and rng.random() < 0.6))
    case = _with_vectors(rng, case)
    return _with_rates(rng, _with_algorithm(rng, case))


def _changed(case, **changes):
    return Case(**(vars(case) | changes))


def _functions(rng, hard, bounded):
    """A student that can learn, and a teacher of any kind; half of the time the same function."""
    groups = [functions.CLOSED, functions.SMOOTH, functions.CUSTOM, functions.KINKS]
    chances = [0.35, 0.2, 0.2, 0.25]
    if not bounded and rng.random() < 0.08:
        groups = [functions.STEEP]
        chances = [1.0]
    if hard and rng.random() < 0.4:
        groups = [functions.HARD]
        chances = [1.0]
    student = str(rng.choice(list(groups[rng.choice(len(groups), p=chances)])))
    if rng.random() < 0.45:
        return student, student
    pool = [*functions.CLOSED, *functions.SMOOTH, *functions.CUSTOM, *functions.KINKS]
    if rng.random() < 0.35:
        pool = [*functions.JUMPS]
    if hard and rng.random() < 0.4:
        pool = [*functions.HARD_JUMPS]
    return student, str(rng.choice(pool))


def _spectrum(rng):
    """A spectrum, and a dimension in which every level is whole."""
    kind = rng.random()
    if kind < 0.35:
        return ("isotropic",), int(rng.integers(60, 120))
    if kind < 0.55:
        levels = int(rng.integers(2, 6))
        return ("power law", float(rng.uniform(0.1, 1.5)), levels), levels * int(
            rng.integers(60 // levels, 120 // levels)
        )
    dim = int(rng.integers(60, 120))
    levels = int(rng.integers(2, 5))
    cuts = np.sort(rng.choice(np.arange(1, dim), levels - 1, replace=False))
    whole = np.diff(cuts, prepend=0, append=dim)
    lam = np.exp(rng.uniform(np.log(0.03), np.log(3.0), levels))
    if rng.random() < 0.2:
        lam[1] = lam[0]  # two levels with one eigenvalue
    return (
        "levels",
        lam.tolist(),
        (whole / dim).tolist(),
        bool(rng.random() < 0.8),
    ), dim


def _readout(rng, units):
    kind = rng.integers(3)
    if kind == 0:
        return np.ones(units)
    size = rng.uniform(0.3, 1.5, units)
    return size if kind == 1 else size * rng.choice([-1, 1], units)


def _with_vectors(rng, case):
    """Correlated teachers and students of any length, in every level; sometimes close to the teacher, or coinciding."""
    K = case.K
    M = case.M
    whole = np.round(case.levels[1] * case.dim).astype(int)
    length = np.exp(rng.uniform(np.log(0.3), np.log(1.6), K + M))
    kind = rng.choice(
        ["generic", "near", "coinciding", "opposite"], p=[0.75, 0.15, 0.05, 0.05]
    )
    vectors = []
    velocities = []
    for n in whole:
        d = min(n, 2 * K + M)
        x = rng.standard_normal((K + M, d)) / np.sqrt(d) * length[:, None]
        if kind == "near":
            x[:K] = x[K + np.arange(K) % M] + 0.1 * x[:K]
        if kind in ("coinciding", "opposite") and K > 1:
            x[1] = x[0] if kind == "coinciding" else -x[0]
        vectors.append(x)
        velocities.append(rng.standard_normal((K, d)) * 0.4 / np.sqrt(d))
    return _changed(
        case, vectors=tuple(vectors), velocities=tuple(velocities), tags=(str(kind),)
    )


def _with_algorithm(rng, case):
    """Momentum of both kinds, decay, frozen components, the sphere."""
    kind = rng.random()
    changes = {}
    if kind < 0.15:
        changes["momentum"] = float(rng.uniform(0.1, 0.7))
    elif kind < 0.3:
        changes["slow"] = (float(np.exp(rng.uniform(np.log(0.5), np.log(6)))), None)
    if rng.random() < 0.2 and "slow" not in changes:
        changes["spherical"] = True
    elif rng.random() < 0.4:
        changes["decay"] = float(rng.uniform(0.02, 0.5))
    if rng.random() < 0.25:
        mask = rng.random((case.K, case.levels[0].size)) < 0.6
        mask[0, 0] = True
        changes["mask"] = mask
    return _changed(case, **changes)


def _with_rates(rng, case):
    """Rates at which a network changes by order one per unit time, whatever its functions: measured on a few samples."""
    from tests.adversarial.plain import speeds

    first, second, head, bias = speeds(case, rng)
    wanted = rng.uniform(0.3, 1.0)
    size = (
        (np.sqrt(first**2 + 4 * second * wanted) - first) / (2 * second)
        if second > 0
        else wanted / first
    )
    size = float(min(size, 5.0) * (1 - case.momentum))
    changes = {"lr": _rate(rng, size)}
    if case.train_readout:
        own = rng.random() < 0.5 or size * head > 1
        changes["readout_lr"] = (
            _rate(rng, float(min(rng.uniform(0.2, 1.0) / head, 3.0))) if own else None
        )
    if case.train_bias:
        own = rng.random() < 0.5 or size * bias > 1
        changes["bias_lr"] = (
            _rate(rng, float(min(rng.uniform(0.2, 1.0) / bias, 3.0))) if own else None
        )
    if case.slow is not None and rng.random() < 0.4:
        changes["slow"] = (case.slow[0], _rate(rng, float(case.slow[0] * size)))
    return _changed(case, **changes)


def _rate(rng, size):
    """A constant (half of the time) or a schedule that begins at `size`."""
    kind = rng.choice(
        ["constant", "power", "steps", "lines", "cosine", "wave"],
        p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1],
    )
    if kind == "constant":
        return size
    if kind == "power":
        return "power", size, float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.3, 3.0))
    if kind == "steps":
        times = np.sort(rng.uniform(0.1, 1.4, 2))
        return (
            "steps",
            times.tolist(),
            (
                size * np.array([1.0, rng.uniform(0.2, 1.2), rng.uniform(0.1, 1.0)])
            ).tolist(),
        )
    if kind == "lines":
        times = np.sort(rng.uniform(0.0, 1.4, 3))
        return "lines", times.tolist(), (size * rng.uniform(0.3, 1.0, 3)).tolist()
    if kind == "cosine":
        return (
            "cosine",
            size,
            float(rng.uniform(0.5, 3.0)),
            float(size * rng.uniform(0, 0.4)),
        )
    return "wave", size, float(rng.uniform(1, 5))
