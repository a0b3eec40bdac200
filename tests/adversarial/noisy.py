"""Random problems with noisy labels against the mean of one step, in plain NumPy.

Laws with heavy tails, several outputs with each loss, students near their teacher, and
rare events of a label function. The mean over the noise is exact where the loss is
squared (by the moments of the law) or the events are rare (by their probability).
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import erf

SAMPLES = 4000
CHUNKS = 50
RARE = 1e-3  # probability of a wrong label
WRONG = -20.0  # factor of a wrong label

ACTIVATIONS = {
    "erf": (
        lambda x: erf(x / np.sqrt(2)),
        lambda x: np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2),
    ),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
}
SLOPES = {
    "squared": lambda d: d,
    "absolute": np.sign,
    "huber": lambda d: np.clip(d, -0.3, 0.3),
    "log cosh": np.tanh,
    "insensitive": lambda d: np.sign(d) * (np.abs(d) > 0.2),
}
LAWS = {
    "t(3)": stats.t(3),
    "t(2.5)": stats.t(2.5),
    "lognormal": stats.lognorm(1.0),
}


@dataclass(frozen=True)
class NoisyCase:
    seed: int
    activation: str
    loss: str
    noise: float | str  # a standard deviation, the name of a law, or "rare"
    students: np.ndarray  # (K, K + M)
    teachers: np.ndarray  # (M, K + M)
    v: np.ndarray  # (outputs, K)
    v_teacher: np.ndarray  # (outputs, M)
    near: bool

    def __str__(self):
        outputs, K = self.v.shape
        words = f"{K} {self.activation} from {len(self.teachers)}, {outputs} outputs"
        near = ", near the teacher" if self.near else ""
        return f"{self.seed}: {words}, {self.loss}, noise {self.noise}{near}"


def draw(seed):
    """The problem of a seed."""
    rng = np.random.default_rng([seed, 39])
    M = int(rng.integers(1, 3))
    near = bool(rng.random() < 0.3)
    K = M if near else int(rng.integers(1, 3))
    outputs = int(rng.choice([1, 2]))
    noise = float(rng.uniform(0.1, 1.0))
    if outputs == 1 and rng.random() < 0.6:
        noise = str(rng.choice([*LAWS, "rare"]))
    x = rng.standard_normal((K + M, K + M)) / np.sqrt(K + M)
    x *= rng.uniform(0.5, 1.4, (K + M, 1))
    v = rng.uniform(0.4, 1.2, (outputs, K))
    v_teacher = rng.uniform(0.4, 1.2, (outputs, M))
    if near:
        x[:K] = x[K:] + rng.choice([0.01, 0.03, 0.1]) * x[:K]
        v = v_teacher
    return NoisyCase(
        seed=seed,
        activation=str(rng.choice(list(ACTIVATIONS))),
        loss=str(rng.choice(list(SLOPES))),
        noise=noise,
        students=x[:K],
        teachers=x[K:],
        v=v,
        v_teacher=v_teacher,
        near=near,
    )


def one_step(case, seed=0, noise=None):
    """Mean and standard error of dR and dQ of one step at rate 1, flat."""
    rng = np.random.default_rng([case.seed, seed, 40])
    found = np.array(
        [_one_chunk(case, rng, noise or case.noise) for _ in range(CHUNKS)]
    )
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(CHUNKS)


def _one_chunk(case, rng, noise):
    g, slope = ACTIVATIONS[case.activation]
    z = rng.standard_normal((SAMPLES, case.students.shape[1]))
    student = z @ case.students.T
    teacher = z @ case.teachers.T
    clean = g(teacher) @ case.v_teacher.T
    output = g(student) @ case.v.T
    psi, pairs = _slopes(case.loss, clean, output, noise, rng)
    steep = slope(student)
    delta = (psi @ case.v) * steep
    half = delta.T @ student / SAMPLES
    sent = np.einsum("ck,scd,dl->skl", case.v, pairs, case.v)
    G = np.mean(sent * steep[:, :, None] * steep[:, None, :], axis=0)
    dR = delta.T @ teacher / SAMPLES
    return np.concatenate([dR.ravel(), (half + half.T + G).ravel()])


def _slopes(loss, clean, output, noise, rng):
    """The mean of psi (s, c) and of psi psi^T (s, c, c) given the fields, or one draw."""
    descent = SLOPES[loss]
    outer = lambda x: x[:, :, None] * x[:, None, :]  # noqa: E731
    if noise == "rare":
        right = descent(clean - output)
        wrong = descent(WRONG * clean - output)
        psi = (1 - RARE) * right + RARE * wrong
        return psi, (1 - RARE) * outer(right) + RARE * outer(wrong)
    if isinstance(noise, str):
        law = LAWS[noise]
        if loss == "squared":
            psi = clean + law.mean() - output
            return psi, outer(psi) + law.var()
        xi = law.rvs(clean.shape, random_state=rng)
    else:
        xi = noise * rng.standard_normal(clean.shape)
    psi = descent(clean + xi - output)
    return psi, outer(psi)
