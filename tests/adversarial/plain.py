"""SGD on weights, and the mean of one step, in plain NumPy: the definition of the model and nothing else.

    Delta = y - yhat,   w_k += (eta/sqrt N) mean[Delta v_k g'(lambda_k) x] - (eta kappa/N) w_k,
    v_k += (eta_v/N) mean[Delta g(lambda_k)],   b_k += (eta_b/N) mean[Delta v_k g'(lambda_k)]
No integral, no Stein lemma, no A, B, G. `one_step` draws the fields of a single step for N to infinity, level by level;
`learn` moves the weights of many networks at once.
"""

import numpy as np

from tests.adversarial.functions import slope, value


def rate(described, t):
    """A rate at time t."""
    if described is None or isinstance(described, float):
        return described
    kind, *a = described
    if kind == "power":
        return a[0] / (1 + t / a[2]) ** a[1]
    if kind == "steps":
        return a[1][sum(t >= switch for switch in a[0])]
    if kind == "lines":
        return np.exp(np.interp(t, a[0], np.log(a[1])))
    if kind == "cosine":
        return a[2] + (a[0] - a[2]) * (1 + np.cos(np.pi * min(t / a[1], 1.0))) / 2
    return a[0] * (1 + 0.5 * np.sin(a[1] * t))


def rates(case, t):
    """eta, eta_v, eta_b, k."""
    lr = rate(case.lr, t)
    heads = [
        lr if own is None else rate(own, t) for own in (case.readout_lr, case.bias_lr)
    ]
    k = (
        None
        if case.slow is None
        else case.slow[0] * lr
        if case.slow[1] is None
        else rate(case.slow[1], t)
    )
    return lr, *heads, k


def respond(case, student_fields, teacher_fields, v, b, xi):
    """Fields (..., K) and (..., M) to Delta (...), g (..., K), delta (..., K) and the error without noise."""
    fields = student_fields if b is None else student_fields + b
    labels = (
        value(
            case.teacher,
            teacher_fields + (0 if case.b_teacher is None else case.b_teacher),
        )
        @ case.v_teacher
    )
    g = value(case.student, fields)
    clean = labels - np.sum(v * g, axis=-1)
    error = clean + case.noise * xi
    return error, g, error[..., None] * v * slope(case.student, fields), clean


def student_bias(case):
    return np.zeros(case.K) if case.b is None and case.b_teacher is not None else case.b


def level_fields(case, samples, rng):
    """Contributions of each level to all fields (students, teachers, momenta):

    (L, samples, 2K + M).
    """
    out = []
    for lam, p, x, velocity in zip(
        *case.levels, case.vectors, case.velocities, strict=True
    ):
        z = rng.standard_normal((samples, x.shape[1]))
        out.append(np.sqrt(p * lam) * z @ np.concatenate([x, velocity]).T)
    return np.stack(out)


def one_step(case, samples, chunks, seed):
    """The mean of one step times N, for N to infinity:

    {name: (chunks, ...)}, independent estimates of the same numbers.
    """
    rng = np.random.default_rng([*seed, 1])
    parts = [_one_chunk(case, samples, rng) for _ in range(chunks)]
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


def _one_chunk(case, samples, rng):
    K, M, (lam, p) = case.K, case.M, case.levels
    eta, eta_v, eta_b, k = rates(case, case.time)
    if case.slow is None:
        eta, eta_v, eta_b = (x / (1 - case.momentum) for x in (eta, eta_v, eta_b))
    z = level_fields(case, samples, rng)
    fields = z.sum(axis=0)
    xi = rng.standard_normal(samples)
    error, g, delta, clean = respond(
        case, fields[:, :K], fields[:, K : K + M], case.v, student_bias(case), xi
    )
    force = (
        np.einsum("sk,lsa->lka", delta, z) / samples / p[:, None, None]
    )  # on what each vector of a level sees
    G = lam[:, None, None] * (delta.T @ delta) / samples / case.batch
    mask = np.ones((K, lam.size)) if case.mask is None else case.mask * 1.0
    mask = mask.T[:, :, None]
    r, q, _ = case.overlaps()
    out = {"error": np.mean(clean**2) / 2}
    if case.train_readout:
        out["v"] = eta_v * np.mean(error[:, None] * g, axis=0)
    if case.train_bias:
        out["b"] = eta_b * np.mean(delta, axis=0)
    if case.slow is None:
        dr = eta * mask * (force[..., K : K + M] - case.decay * r)
        half = eta * mask * (force[..., :K] - case.decay * q)
        dq = half + half.swapaxes(1, 2) + eta**2 * mask * G * mask.swapaxes(1, 2)
        if case.spherical:
            mu = np.einsum("l,lkk->k", p, dq) / (2 * np.einsum("l,lkk->k", p, q))
            dr = dr - mu[:, None] * r
            dq = dq - (mu[:, None] + mu) * q
        return out | {"r": dr, "q": dq}
    gamma = case.slow[0]
    U, V, W2 = velocity_overlaps(case)
    push = k * mask * (force - case.decay * np.concatenate([q, r, V], axis=2))
    on_own = push[..., K + M :]
    out |= {"r": U, "q": V + V.swapaxes(1, 2), "U": push[..., K : K + M] - gamma * U}
    out["V"] = W2 - gamma * V + push[..., :K].swapaxes(1, 2)
    out["W2"] = (
        on_own
        + on_own.swapaxes(1, 2)
        - 2 * gamma * W2
        + k**2 * mask * G * mask.swapaxes(1, 2)
    )
    return out


def velocity_overlaps(case):
    """U = Om.W* (K, M), V = W.Om (student first), W2 = Om.Om, per level."""
    K = case.K
    U = np.stack(
        [o @ x[K:].T for x, o in zip(case.vectors, case.velocities, strict=True)]
    )
    V = np.stack(
        [x[:K] @ o.T for x, o in zip(case.vectors, case.velocities, strict=True)]
    )
    return U, V, np.stack([o @ o.T for o in case.velocities])


def speeds(case, rng):
    """Relative change of q per unit of eta and of eta^2, and of the heads per unit of their rates."""
    K, M, (lam, p) = case.K, case.M, case.levels
    z = level_fields(case, 4000, rng)
    fields = z.sum(axis=0)
    b = student_bias(case)
    _, g, delta, _ = respond(
        case, fields[:, :K], fields[:, K : K + M], case.v, b, rng.standard_normal(4000)
    )
    _, q, t = case.overlaps()
    size = (
        p @ np.trace(q, axis1=1, axis2=2) / K
        + 0.3 * p @ np.trace(t, axis1=1, axis2=2) / M
    )
    slopes = slope(case.student, fields[:, :K] + (0 if b is None else b))
    steep = np.sum(case.v**2 * slopes**2, axis=1)
    curve = np.max(steep.mean() * lam)  # decay rate of an error in w
    force = np.einsum("sk,lsk->lk", delta, z[..., :K]) / 4000 / p[:, None]
    first = max(2 * np.abs(force).max() / size, 0.5 * curve)
    second = np.max(lam) * np.max(np.mean(delta**2, axis=0)) / case.batch / size
    return (
        first,
        max(second, 0.25 * curve**2 / case.batch),
        np.sum(g**2, axis=1).mean(),
        steep.mean(),
    )


def learn(case, N, steps, runs, seed):
    """SGD on weights, `runs` networks at once:

    {name: (run, len(steps), ...)} of r, q (per level), R, Q, v and b.
    """
    rng = np.random.default_rng([*seed, N, 2])
    K, (lam, _), whole = case.K, case.levels, case.dims(N)
    both = np.concatenate(
        [
            np.pad(x * np.sqrt(n), ((0, 0), (0, n - x.shape[1])))
            for x, n in zip(case.vectors, whole, strict=True)
        ],
        axis=1,
    )
    root = np.repeat(np.sqrt(lam), whole)
    mask = (
        np.ones((K, N))
        if case.mask is None
        else np.repeat(case.mask * 1.0, whole, axis=1)
    )
    W = np.repeat(both[None, :K], runs, axis=0)
    teacher = both[K:]
    v = np.tile(case.v, (runs, 1))
    b = np.tile(np.zeros(K) if case.b is None else case.b, (runs, 1))
    Om = np.zeros_like(W)
    v_Om = np.zeros_like(v)
    b_Om = np.zeros_like(b)
    norm = np.sum(W**2, axis=2, keepdims=True)
    records = [_record(case, W, teacher, v, b, lam, whole)] if 0 in steps else []
    for step in range(max(steps)):
        eta, eta_v, eta_b, k = rates(case, step / N)
        x = rng.standard_normal((runs, case.batch, N)) * root
        xi = rng.standard_normal((runs, case.batch))
        fields = x @ W.swapaxes(1, 2) / np.sqrt(N), x @ teacher.T / np.sqrt(N)
        error, g, delta, _ = respond(case, *fields, v[:, None], b[:, None], xi)
        gradient = mask * (
            delta.swapaxes(1, 2) @ x / (np.sqrt(N) * case.batch) - case.decay / N * W
        )
        if case.slow is None:
            Om = case.momentum * Om + gradient
            W = W + eta * Om
        else:
            Om = (1 - case.slow[0] / N) * Om + k * gradient
            W = W + Om / N
        if case.spherical:
            W = W * np.sqrt(norm / np.sum(W**2, axis=2, keepdims=True))
        if case.train_readout:
            v_Om = case.momentum * v_Om + np.mean(error[..., None] * g, axis=1) / N
            v = v + eta_v * v_Om
        if case.train_bias:
            b_Om = case.momentum * b_Om + np.mean(delta, axis=1) / N
            b = b + eta_b * b_Om
        if step + 1 in steps:
            records.append(_record(case, W, teacher, v, b, lam, whole))
    return {
        name: np.stack([record[name] for record in records], axis=1)
        for name in records[0]
    }


def _record(case, W, teacher, v, b, lam, whole):
    ends = np.cumsum(whole)
    spans = [slice(end - n, end) for end, n in zip(ends, whole, strict=True)]
    r = np.stack([W[..., s] @ teacher[:, s].T for s in spans], axis=1)
    q = np.stack([W[..., s] @ W[..., s].swapaxes(1, 2) for s in spans], axis=1)
    seen = {
        "R": np.einsum("l,rlab->rab", lam, r) / whole.sum(),
        "Q": np.einsum("l,rlab->rab", lam, q) / whole.sum(),
    }
    seen |= {"r": r / whole[:, None, None], "q": q / whole[:, None, None]}
    return (
        seen
        | ({"v": v} if case.train_readout else {})
        | ({"b": b} if case.train_bias else {})
    )
