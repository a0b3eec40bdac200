"""What one sample does to the student, as machine code: the twin of problem/sample.py for everything built in.

A label, a loss, a rule and an activation are codes (layout.py), each with its number or coefficients. All randomness of a
label comes from one standard normal number z, as in problem/sample.py.
"""

import math

from tutelage.simulation.layout import (
    ABSOLUTE,
    ADATRON,
    ERF,
    GELU,
    GRADIENT,
    HEBBIAN,
    HUBER,
    LOGISTIC,
    POLYNOMIAL,
    REAL_LABEL,
    RELU,
    SIGMOID,
    SIGN,
    SIGN_LABEL,
    SQUARED,
    TANH,
)
from tutelage.simulation.machine_code import compiled, inlined


@compiled
def value(code, coefficients, x):
    """g(x)."""
    if code == ERF:
        return math.erf(x * 0.7071067811865476)
    if code == POLYNOMIAL:
        total = 0.0
        for i in range(coefficients.size - 1, -1, -1):
            total = total * x + coefficients[i]
        return total
    if code == RELU:
        return max(x, 0.0)
    if code == SIGN:
        return 1.0 if x > 0 else -1.0 if x < 0 else 0.0
    if code == TANH:
        return math.tanh(x)
    if code == GELU:
        return 0.5 * x * (1.0 + math.erf(x * 0.7071067811865476))
    if code == SIGMOID:
        return 0.5 * (1.0 + math.tanh(0.5 * x))
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@compiled
def slope(code, coefficients, x):
    """g'(x)."""
    if code == ERF:
        return 0.7978845608028654 * math.exp(-0.5 * x * x)
    if code == POLYNOMIAL:
        total = 0.0
        for i in range(coefficients.size - 1, 0, -1):
            total = total * x + i * coefficients[i]
        return total
    if code == RELU:
        return 1.0 if x > 0 else 0.0
    if code == SIGN:
        return 0.0
    if code == TANH:
        g = math.tanh(x)
        return 1.0 - g * g
    if code == GELU:
        return 0.5 * (1.0 + math.erf(x * 0.7071067811865476)) + 0.3989422804014327 * x * math.exp(-0.5 * x * x)
    g = 0.5 * (1.0 + math.tanh(0.5 * x))
    return g * (1.0 - g) if code == SIGMOID else g


@compiled
def label(code, number, output, z):
    """The label for a teacher output. number: noise; the z above which a sign is flipped; or the slope of the link."""
    if code == REAL_LABEL:
        return output + number * z
    if code == SIGN_LABEL:
        side = -1.0 if output < 0.0 else 1.0
        return -side if z > number else side
    u = 0.5 * math.erfc(-0.7071067811865476 * z)
    return 1.0 if u * (1.0 + math.exp(-number * output)) < 1.0 else -1.0


@compiled
def descent(code, number, output, label):
    """psi, minus the derivative of the loss by the output. number: Huber's delta."""
    gap = label - output
    if code == SQUARED:
        return gap
    if code == LOGISTIC:
        return label / (1.0 + math.exp(label * output))
    if code == HUBER:
        return max(min(gap, number), -number)
    if code == ABSOLUTE:
        return 1.0 if gap > 0.0 else -1.0 if gap < 0.0 else 0.0
    return label if label * output < 1.0 else 0.0


@compiled
def classical(code, number, field, label):
    """delta of a unit with this field under the Hebbian, Perceptron and AdaTron rules. number: the margin."""
    if code == HEBBIAN:
        return label
    if code == ADATRON:
        return -field if label * field < 0.0 else 0.0
    return label if label * field < number else 0.0


@inlined
def respond(rule, heads, student_fields, teacher_fields, z, delta):
    """One sample: fills delta_k, adds to the sums that move the heads, and returns label - output.

    What is returned is huge, or no number, in a run that diverges. The classical rules look at fields: their sum stands for
    the output.
    """
    output = 0.0
    for m in range(teacher_fields.size):
        rho = teacher_fields[m] + rule.teacher_bias[m]
        output += rule.teacher_readout[m] * value(rule.teacher, rule.teacher_coefficients, rho)
    y = label(rule.label, rule.label_number, output, z)
    output = 0.0
    if rule.update != GRADIENT:
        for k in range(student_fields.size):
            field = student_fields[k] + heads.bias[k]
            delta[k] = classical(rule.update, rule.update_number, field, y)
            heads.bias_force[k] += delta[k]
            output += field
        return y - output
    for k in range(student_fields.size):
        g = value(rule.student, rule.student_coefficients, student_fields[k] + heads.bias[k])
        output += heads.readout[k] * g
        delta[k] = g
    psi = descent(rule.loss, rule.loss_number, output, y)
    for k in range(student_fields.size):
        heads.readout_force[k] += psi * delta[k]
        pull = slope(rule.student, rule.student_coefficients, student_fields[k] + heads.bias[k])
        delta[k] = psi * heads.readout[k] * pull
        heads.bias_force[k] += delta[k]
    return y - output
