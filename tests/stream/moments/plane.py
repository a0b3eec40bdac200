"""Averages over one student and one teacher field in plain NumPy: Gauss-Legendre panels in the plane of the two fields.

Breaks of the functions are parallel to the axes there, so panels can end at them. No derivative of the teacher's function
is needed: with Delta = g*(rho) - g(lambda), Stein's lemma gives A and B of
    dR = eta (A r + B t), dQ = 2 eta (A q + B r) + ...  as  C (A, B) = (E[lambda g' Delta], E[rho g' Delta]).
"""

import numpy as np


def line(s, breaks, panels=48, nodes=16, reach=9.0):
    ends = np.unique(
        np.concatenate([np.linspace(-reach * s, reach * s, panels + 1), breaks])
    )
    ends = ends[np.abs(ends) <= reach * s]
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def matrices(g, slope, teacher, C, student_breaks=(), teacher_breaks=(), panels=48):
    """A, B and G of one student and one teacher with readouts one and covariance C."""
    C = np.asarray(C)
    (x, wx), (y, wy) = (
        line(np.sqrt(C[0, 0]), student_breaks, panels),
        line(np.sqrt(C[1, 1]), teacher_breaks, panels),
    )
    P = np.linalg.inv(C)
    exponent = -0.5 * (
        P[0, 0] * x[:, None] ** 2 + 2 * P[0, 1] * x[:, None] * y + P[1, 1] * y**2
    )
    weight = (
        wx[:, None] * wy * np.exp(exponent) / (2 * np.pi * np.sqrt(np.linalg.det(C)))
    )
    force = weight * slope(x)[:, None] * (teacher(y) - g(x)[:, None])
    A, B = np.linalg.solve(C, [np.sum(force * x[:, None]), np.sum(force * y)])
    G = np.sum(weight * (slope(x)[:, None] * (teacher(y) - g(x)[:, None])) ** 2)
    return A, B, G
