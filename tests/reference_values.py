"""Writes docs/reference-values.json: digits that any code of this theory can test against.

    python -m tests.reference_values

No value comes from the library. They are closed forms, evaluated with 40 digits, and
solutions of the second implementation (tests/naive.py) at two tolerances; the stated
uncertainty is at least ten times their difference.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from tests import naive

FILE = Path(__file__).parents[1] / "docs" / "reference-values.json"
FORMAT = "tutelage-reference-values/1"
UNITS = (
    "fields w . x / sqrt(N) with x of variance one; units g(x): erf is erf(x / sqrt(2)), "
    "relu max(x, 0), quadratic x^2, linear x; "
    "output sum_k v_k g(field_k), v_k = 1 unless given; loss (y - yhat)^2 / 2; "
    "R = W W*^T / N, Q = W W^T / N, T = W* W*^T / N; time alpha = steps / N; "
    "error e_g = E[(y - yhat)^2] / 2 without label noise, or the probability of a wrong "
    "sign for labels 'sign'"
)
CLOSED = 1e-12  # uncertainty of a closed form, rounded to a float
Case = dict[str, Any]

mpmath.mp.dps = 40


def cases() -> Iterator[Case]:
    """All entries of the file."""
    yield from errors()
    yield from critical_rates()
    yield linear_curve()
    yield from curves()


def networks(activation: str, K: int, M: int, **more: Any) -> Case:
    """A problem as plain data, as `Problem.from_dict` reads it."""
    student = {"hidden": K, "activation": activation}
    teacher = {"hidden": M, "activation": activation}
    for network, name in ((student, "readout"), (teacher, "teacher_readout")):
        if name in more:
            network["readout"] = more.pop(name)
    return {"student": student, "teacher": teacher, **more}


# The error at given overlaps, in closed form.


def errors() -> Iterator[Case]:
    R = [[0.4, 0.1], [0.05, 0.3]]
    Q = [[0.5, 0.1], [0.1, 0.4]]
    T = [[1.0, 0.2], [0.2, 1.5]]
    v = [1.0, -0.5]
    yield error_case(
        "erf-error",
        networks("erf", 2, 2, readout=v),
        (R, Q, T),
        population_error(erf_product, R, Q, T, v, [1, 1]),
        "Saad and Solla, Phys. Rev. Lett. 74, 4337 (1995), eq. of e_g; arcsin form",
    )
    yield error_case(
        "relu-error",
        networks("relu", 2, 2),
        (R, Q, T),
        population_error(relu_product, R, Q, T, [1, 1], [1, 1]),
        "arc-cosine kernel of order one, Cho and Saul, NeurIPS (2009)",
    )
    K = 3
    plateau_R = (np.ones((K, K)) / np.sqrt(K * (2 * K - 1))).tolist()
    plateau_Q = (np.ones((K, K)) / (2 * K - 1)).tolist()
    half = mpmath.mpf(1) / (2 * K)
    yield error_case(
        "erf-plateau",
        networks("erf", K, K),
        (plateau_R, plateau_Q, np.eye(K).tolist()),
        K / mpmath.pi * (mpmath.pi / 6 - K * mpmath.asin(half)),
        "symmetric plateau of small learning rates, (K / pi)(pi / 6 - K arcsin(1 / 2K)), "
        "Saad and Solla, Phys. Rev. E 52, 4225 (1995)",
    )
    rho = mpmath.mpf(3) / 5 / mpmath.sqrt(mpmath.mpf(4) / 5)
    yield error_case(
        "perceptron-error",
        networks("linear", 1, 1, labels="sign", rule="perceptron"),
        ([[0.6]], [[0.8]], [[1.0]]),
        mpmath.acos(rho) / mpmath.pi,
        "angle between the vectors over pi",
    )


def error_case(
    name: str, problem: Case, overlaps: Any, value: Any, source: str
) -> Case:
    R, Q, T = overlaps
    return {
        "name": name,
        "quantity": "error",
        "problem": problem,
        "overlaps": {"R": R, "Q": Q, "T": T},
        "values": {"error": float(value)},
        "uncertainty": CLOSED,
        "source": source,
    }


def population_error(product: Any, R: Any, Q: Any, T: Any, v: Any, w: Any) -> Any:
    """E[(sum_m w_m g(rho_m) - sum_k v_k g(lambda_k))^2] / 2 by sums over pairs."""
    C = [[*q, *r] for q, r in zip(Q, R, strict=True)]
    C += [[*r, *t] for r, t in zip(np.transpose(R).tolist(), T, strict=True)]
    weights = [-mpmath.mpf(x) for x in v] + [mpmath.mpf(x) for x in w]
    total = mpmath.mpf(0)
    for a, of_a in enumerate(weights):
        for b, of_b in enumerate(weights):
            total += (
                of_a * of_b * product(*map(mpmath.mpf, (C[a][a], C[a][b], C[b][b])))
            )
    return total / 2


def erf_product(a: Any, c: Any, b: Any) -> Any:
    """E[g(x) g(y)] for g = erf(x / sqrt 2)."""
    return 2 / mpmath.pi * mpmath.asin(c / mpmath.sqrt((1 + a) * (1 + b)))


def relu_product(a: Any, c: Any, b: Any) -> Any:
    """E[max(x, 0) max(y, 0)]."""
    r = c / mpmath.sqrt(a * b)
    angle = mpmath.acos(min(r, mpmath.mpf(1)))
    bracket = mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)
    return mpmath.sqrt(a * b) / (2 * mpmath.pi) * bracket


# Critical learning rates.


def critical_rates() -> Iterator[Case]:
    yield {
        "name": "linear-critical-rate",
        "quantity": "critical learning rate",
        "problem": networks("linear", 1, 1),
        "values": {"rate": 2.0},
        "uncertainty": 1e-8,
        "source": "dQ/dalpha contains (eta^2 - 2 eta) Q",
    }
    yield {
        "name": "erf-critical-rate",
        "quantity": "critical learning rate",
        "problem": networks("erf", 1, 1),
        "values": {"rate": float(mpmath.pi * mpmath.sqrt(mpmath.mpf(5) / 3))},
        "uncertainty": 1e-8,
        "source": "pi sqrt(5 / 3) for one unit with T = 1, "
        "Biehl and Schwarze, J. Phys. A 28, 643 (1995)",
    }


# Learning curves.


def linear_curve() -> Case:
    """One linear unit:

    dR = eta (1 - R), dQ = 2 eta (R - Q) + eta^2 (1 - 2R + Q + s^2).
    """
    eta = mpmath.mpf("0.8")
    s2 = mpmath.mpf("0.04")
    R0 = mpmath.mpf("0.1")
    Q0 = mpmath.mpf("0.5")
    times = [0.0, 0.5, 2.0, 10.0]
    # d (R, Q, 1) = M (R, Q, 1)
    M = mpmath.matrix(
        [
            [-eta, 0, eta],
            [2 * eta - 2 * eta**2, eta**2 - 2 * eta, eta**2 * (1 + s2)],
            [0, 0, 0],
        ]
    )
    states = [mpmath.expm(M * t) * mpmath.matrix([R0, Q0, 1]) for t in times]
    problem = networks("linear", 1, 1, optimizer={"lr": 0.8}, noise=0.2)
    return {
        "name": "linear-curve",
        "quantity": "curve",
        "problem": problem,
        "overlaps": {"R": [[0.1]], "Q": [[0.5]], "T": [[1.0]]},
        "times": times,
        "values": {
            "error": [float((1 - 2 * s[0] + s[1]) / 2) for s in states],
            "R": [[[float(s[0])]] for s in states],
            "Q": [[[float(s[1])]] for s in states],
        },
        "uncertainty": 1e-9,
        "source": "closed linear equations, by a matrix exponential",
    }


START = {
    "R": [[0.3, 0.1], [0.05, 0.2]],
    "Q": [[0.4, 0.1], [0.1, 0.5]],
    "T": [[1.0, 0.0], [0.0, 1.0]],
}
TIMES = [0.0, 1.0, 5.0, 20.0]


def curves() -> Iterator[Case]:
    yield curve("erf-curve", "erf", naive.Erf, {"lr": 0.5}, noise=0.1)
    yield curve(
        "erf-batch-and-decay",
        "erf",
        naive.Erf,
        {"lr": 1.0, "batch": 3, "weight_decay": 0.05},
    )
    yield curve("erf-trained-readout", "erf", naive.Erf, {"lr": 0.5, "readout_lr": 0.3})
    yield curve("quadratic-curve", "quadratic", naive.Wick(2), {"lr": 0.02}, noise=0.1)


def curve(
    name: str, activation: str, family: Any, optimizer: Case, noise: float = 0.0
) -> Case:
    """A curve of two student and two teacher units, at two tolerances."""
    R, Q, T = (np.array(START[letter]) for letter in "RQT")
    settings = {
        "lr": optimizer["lr"],
        "sigma": noise,
        "batch": optimizer.get("batch", 1),
        "decay": optimizer.get("weight_decay", 0.0),
        "readout_lr": optimizer.get("readout_lr", 0.0),
    }
    found = [
        naive.solve(
            family, R, Q, T, np.ones(2), np.ones(2), times=TIMES, rtol=rtol, **settings
        )
        for rtol in (1e-10, 1e-12)
    ]
    (rough, rough_error), ((R, Q, v), error) = found
    differences = [np.abs(a - b).max() for a, b in zip(rough, (R, Q, v), strict=True)]
    worst = max(*differences, np.abs(rough_error - error).max())
    problem = networks(activation, 2, 2, optimizer=optimizer, noise=noise)
    values = {"error": error.tolist(), "R": R.tolist(), "Q": Q.tolist()}
    if settings["readout_lr"]:
        problem["student"]["train_readout"] = True
        values["readout"] = v.tolist()
    return {
        "name": name,
        "quantity": "curve",
        "problem": problem,
        "overlaps": START,
        "times": TIMES,
        "values": values,
        "uncertainty": float(f"{max(10 * worst, 1e-9):.0e}"),
        "source": "textbook averages and DOP853 at rtol 1e-12 (tests/naive.py)",
    }


def content() -> str:
    """The text of the file."""
    entries = []
    for case in cases():
        rows = [f"  {json.dumps(key)}: {json.dumps(x)}" for key, x in case.items()]
        entries.append(" {\n" + ",\n".join(rows) + "\n }")
    head = f'{{"format": {json.dumps(FORMAT)},\n"units": {json.dumps(UNITS)},\n'
    return head + '"cases": [\n' + ",\n".join(entries) + "\n]}\n"


if __name__ == "__main__":
    FILE.write_text(content())
