"""Initial conditions: the overlaps of student and teacher at time zero, by hand, of random or of given weights."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._html import card, matrix
from tutelage._part import with_fields
from tutelage._types import Numbers, NumpyOrJax, Table
from tutelage.errors import InputError, kind_of
from tutelage.problem.inputs import HiddenManifold, Inputs
from tutelage.problem.mixture import Mixture
from tutelage.problem.problem import Problem
from tutelage.problem.sample import unseen_root
from tutelage.problem.serialize import build

Blocks: TypeAlias = tuple[Float[NumpyOrJax, "L K M"], Float[NumpyOrJax, "L K K"], Float[NumpyOrJax, "L M M"]]
OVERLAPS = ("R", "Q", "T", "readout", "bias")
SHARED, OWN, REST = 0.2, 0.1, 0.1  # `asymmetric_start`: of every teacher, more of one's own, squared length beyond them


class Start(eqx.Module):
    """An initial condition: the overlaps at time zero. Without a level axis all levels have the same overlaps.

    Parameters
    ----------
    R : array (K, M)
        Covariance of student and teacher fields; or r per level, (L, K, M). For `Tasks` M counts the units of all teachers.
    Q : array (K, K)
        Covariance of student fields; or q per level, (L, K, K).
    T : array (M, M), optional
        Covariance of teacher fields; or t per level. Default: the gram of the teacher, else the identity.
    readout, bias : array, optional
        Initial v, (K,) or (outputs, K), (tasks, K) for separate heads of `Tasks`, and b. Default: those of the problem.
    dim : int, optional
        N, if the overlaps belong to one.

    Examples
    --------
    >>> import tutelage as tu
    >>> start = tu.Start(R=[[0.3, 0.2], [0.2, 0.3]], Q=[[0.4, 0.1], [0.1, 0.4]], dim=1000)
    >>> start.R.shape, start.dim
    ((2, 2), 1000)
    """

    R: Float[NumpyOrJax, "*L K M"]
    Q: Float[NumpyOrJax, "*L K K"]
    T: Float[NumpyOrJax, "*L M M"] | None
    readout: Float[NumpyOrJax, "*outputs K"] | None
    bias: Float[NumpyOrJax, " K"] | None
    dim: int | None = eqx.field(static=True)

    def __init__(
        self,
        R: Numbers,
        Q: Numbers,
        T: Numbers | None = None,
        readout: Numbers | None = None,
        bias: Numbers | None = None,
        *,
        dim: int | None = None,
    ):
        finite, gram = checks.require_finite, checks.require_gram
        self.R = checks.as_array("R", R, finite, shapes=[("K", "M"), ("levels", "K", "M")])
        *levels, K, M = self.R.shape
        fix = f"R has shape {self.R.shape}."
        self.Q = checks.as_array("Q", Q, gram, shapes=[(*levels, K, K)], fix=fix)
        self.T = checks.as_array("T", T, gram, shapes=[(*levels, M, M), (M, M)], fix=fix, optional=True)
        shapes, fix = [(K,), ("outputs", K), ("tasks", "outputs", K)], "One number per student unit (and output, and task)."
        self.readout = checks.as_array("readout", readout, finite, shapes=shapes, fix=fix, optional=True)
        self.bias = checks.as_array("bias", bias, finite, shapes=[(K,)], fix="One number per student unit.", optional=True)
        self.dim = None if dim is None else checks.as_count("dim", dim)
        if self.T is not None and np.ndim(self.T) == np.ndim(self.R):
            _require_joint(self.R, self.Q, self.T)

    def _repr_html_(self) -> str:
        if checks.is_traced(self):
            return card("Start", words="traced")
        *_, K, M = np.shape(self.R)
        title = f"Start: initial overlaps, K = {K}, M = {M}" + ("" if self.dim is None else f", N = {self.dim}")
        return card(title, *(matrix(name, x) for name in OVERLAPS if (x := getattr(self, name)) is not None))

    def without_dim(self) -> "Start":
        """The same overlaps, belonging to no N. They have been checked before."""
        return self if self.dim is None else with_fields(self, dim=None)

    def readout_of(self, problem: Problem) -> Float[NumpyOrJax, "*outputs K"]:
        """The initial readout: as given, else that of the student, the same for all heads."""
        if self.readout is not None:
            return self.readout
        readout = problem.student.readout
        xp: Any = jnp if checks.is_traced(readout) else np
        return xp.broadcast_to(readout, problem.readout_shape)

    def bias_of(self, problem: Problem) -> Float[NumpyOrJax, " K"] | None:
        """The initial biases: as given, else those of the student; None if no unit of the problem has one."""
        bias = problem.student.bias if self.bias is None else self.bias
        return np.zeros(problem.student.hidden) if bias is None and problem.biased else bias

    def blocks(self, problem: Problem) -> Blocks:
        """The overlaps r, q, t on the levels of this problem, checked against it."""
        L, K, M = problem.inputs.levels, problem.student.hidden, problem.references.hidden
        fix = f"The problem has {K} student and {M} teacher units on {L} level{'s' * (L > 1)}."
        checks.require_shape("R of the Start", self.R, (K, M), (L, K, M), fix=fix)
        readout = problem.readout_shape
        if self.readout is not None:
            fix = "It has one head for each task." * (len(readout) > np.ndim(problem.student.readout))
            checks.require_shape("the readout of the Start", self.readout, readout, fix=fix)
        T = _teacher(self, problem)
        r, q, t = _per_level(problem.inputs, self.R, self.Q, T)
        _require_joint(*((self.R, self.Q, T) if np.ndim(T) == np.ndim(self.R) else (r, q, t)))
        if problem.sgd.spherical and not checks.is_traced(q):
            lengths = np.einsum("l,lkk->k", np.asarray(problem.inputs.fractions), np.asarray(q))
            if np.any(lengths <= 0):
                unit = int(np.argmin(lengths)) + 1
                raise InputError(f"student unit {unit} has norm 0 and spherical is True; give it a positive Q.")
        return r, q, t


def _teacher(start: Start, problem: Problem) -> Float[NumpyOrJax, "*L M M"]:
    """T, from the start or the teacher's gram, which must agree. (No method: Equinox wraps those at each call.)"""
    gram, inputs, T = problem.references.gram, problem.inputs, start.T
    if isinstance(inputs, HiddenManifold):
        return _visible_teacher(inputs, np.eye(problem.teacher.hidden) if gram is None else gram, T)
    if gram is None:
        return np.eye(problem.references.hidden) if T is None else T
    own = problem.label_fields if isinstance(inputs, Mixture) else 0  # overlaps of teacher and means are the start's to say
    if T is not None and not checks.is_traced(gram, T, inputs):
        said, given = _per_level(inputs, gram, T)
        gap = float(np.max(np.abs(said - given)[..., own:, own:]))
        if gap > 1e-9 * max(1.0, float(np.max(np.abs(gram)))):
            raise InputError(f"T of the Start and the teacher's gram differ by {gap:.3g}; they must be equal. Give one.")
    return T if T is not None and isinstance(inputs, Mixture) else gram


def _visible_teacher(inputs: HiddenManifold, latent: NumpyOrJax, T: Any) -> Float[NumpyOrJax, "L M M"]:
    """t of each level, for a teacher that looks at the latent vector: as given, else in law."""
    if T is not None and not checks.is_traced(latent, T, inputs):
        if T.ndim == 3 and np.any(np.abs(T)[inputs.visible == 0] > 1e-9 * np.max(np.abs(T))):
            raise InputError("T of the Start is not zero on directions that the features do not reach; leave T out.")
        if T.ndim == 2 and not np.allclose(latent, T, rtol=0, atol=1e-9):
            raise InputError("T of the Start is not that of the latent teacher; give it to the teacher, Network(M, gram=T).")
    return T if T is not None and T.ndim == 3 else inputs.visible[:, None, None] * latent


def _require_joint(r: NumpyOrJax, q: NumpyOrJax, t: NumpyOrJax) -> None:
    if not checks.is_traced((r, q, t)):
        joint = np.block([[q, r], [np.swapaxes(r, -1, -2), t]])
        checks.require_gram("the joint Gram matrix [[Q, R], [R^T, T]] of the Start", joint)


def _per_level(inputs: Inputs, *overlaps: NumpyOrJax) -> tuple[Any, ...]:
    """Overlaps as they are on every level; the mean of a spectrum is one, unless the user kept it unnormalized."""
    mean, ones = inputs.weights.sum(), np.ones((inputs.levels, 1, 1))
    return tuple(x if x.ndim == 3 else (x / mean) * ones for x in overlaps)


def random_start(problem: Problem, dim: int | None = None, scale: float = 0.1, seed: int = 0) -> Start:
    """The overlaps of random weights: student entries N(0, scale^2), teacher entries N(0, 1) (or its given gram).

    The cost does not depend on N: the law of the Gram matrix is sampled, not the vectors.

    Parameters
    ----------
    problem : Problem
        Its shapes, spectrum and gram are used.
    dim : int, optional
        N of the weights. The fluctuations of order N^(-1/2) in R break the symmetry later. None: the limit N ->
        infinity, R = 0 and Q = scale^2 I, from which units never specialize (`solve` warns).
    scale : float
        Standard deviation of the student weights.
    seed : int
        Of the random weights.

    Returns
    -------
    Start

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    >>> start.R.round(4)
    array([[-0.0022, -0.0073],
           [-0.004 , -0.0006]])
    """
    K, M = problem.student.hidden, problem.references.hidden
    width = checks.as_number("scale", scale, checks.require_nonnegative)
    rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
    gram, inputs, latent = problem.references.gram, problem.inputs, isinstance(problem.inputs, HiddenManifold)
    random_teacher = gram is None and not latent
    if dim is None:
        mean = inputs.weights.sum()
        T = mean * np.eye(M) if random_teacher else None
        return Start(R=np.zeros((K, M)), Q=width**2 * mean * np.eye(K), T=T)
    dims = inputs.level_dims(dim)
    checks.require_untraced("the teacher's gram", "random_start", gram)
    if random_teacher:
        joint = np.stack([_wishart(rng, K + M, n) / n for n in dims])
        r, q, t = joint[:, :K, K:], joint[:, :K, :K], joint[:, K:, K:]
    else:
        t = _random_latent(problem, rng, dims) if latent else _per_level(inputs, np.asarray(gram))[0]
        r, q = map(np.stack, zip(*(_given_teacher(rng, K, *level) for level in zip(dims, t, strict=True)), strict=True))
    return _measured(problem, r * width, q * width**2, t if random_teacher or latent else None, dim=int(dims.sum()))


def start_from_table(problem: Problem, table: Table) -> Start:
    """The table [start] of a file: random weights (dim, scale, seed), overlaps (R, Q and more), or kind = "asymmetric"."""
    if any(name in table for name in OVERLAPS):
        return build("start", Start, table)
    for name in table:
        checks.known("a name in [start]", name, ("kind", "dim", "scale", "seed", *OVERLAPS))
    dim = table.get("dim", problem.inputs.usual_dim)
    if checks.known("the kind of start", table.get("kind", "random"), ("random", "asymmetric")) == "random":
        return random_start(problem, dim=dim, **{name: table[name] for name in ("scale", "seed") if name in table})
    if "scale" in table:
        raise InputError("scale is given and the Start is asymmetric; only random weights have one. Use --start random.")
    return asymmetric_start(problem, dim)


def asymmetric_start(problem: Problem, dim: int | None = None) -> Start:
    """Student unit k is a mixture of all teacher vectors, with a little more of teacher unit k.

    w_k = sum_m a_km w*_m plus an orthogonal part, with a_km = 0.2 + 0.1 (1 - k/2K) [m = k mod M], k counted from 0. So R
    = a T and Q = a T a^T + 0.1. The asymmetry does not shrink with N, so the initial condition, not SGD noise,
    determines when and in which permutation the units specialize. The factor (1 - k/2K) makes any two units different.

    Parameters
    ----------
    problem : Problem
        Its shapes and the gram of its teacher are used.
    dim : int, optional
        N, for `simulate`.

    Returns
    -------
    Start

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> tu.asymmetric_start(problem).R
    array([[0.3  , 0.2  ],
           [0.2  , 0.275]])
    """
    K, M = problem.student.hidden, problem.references.hidden
    units = np.arange(K)
    a = np.full((K, M), SHARED)
    a[units, units % M] += OWN * (1 - units / (2 * K))
    T = np.eye(M) if problem.references.gram is None else np.asarray(problem.references.gram, dtype=float)
    T = problem.inputs.visible[:, None, None] * T if isinstance(problem.inputs, HiddenManifold) else T
    R = a @ T
    Q = R @ a.T + REST * np.eye(K)
    return Start(R=R, Q=(Q + np.swapaxes(Q, -1, -2)) / 2, dim=dim)


def _measured(problem: Problem, r: NumpyOrJax, q: NumpyOrJax, t: Any, dim: int, readout: Numbers | None = None) -> Start:
    """A start from overlaps per level; a single level is shown as plain field covariances."""
    if problem.inputs.levels == 1:
        mean = problem.inputs.weights.sum()
        r, q, t = r[0] * mean, q[0] * mean, None if t is None else t[0] * mean
    return Start(R=r, Q=(q + q.swapaxes(-1, -2)) / 2, T=t, readout=readout, dim=dim)


def _random_latent(problem: Problem, rng: np.random.Generator, dims: Int[np.ndarray, " L"]) -> Float[np.ndarray, "L M M"]:
    """t of each level for random latent teacher vectors whose unseen part is exactly that of the problem."""
    inputs, M = problem.inputs, problem.teacher.hidden
    each = np.stack([_wishart(rng, M, n) / n for n in dims])
    beyond = max(0, inputs.dim_latent - inputs.dim)  # latent directions that no input shows
    total = np.einsum("l,lmn->mn", inputs.unseen_by_level, each) + _wishart(rng, M, beyond) / inputs.dim_latent
    turn = np.asarray(unseen_root(problem)) @ np.linalg.inv(np.linalg.cholesky(total))
    return inputs.visible[:, None, None] * (turn @ each @ turn.T)


def _wishart(rng: np.random.Generator, count: int, n: int) -> Float[np.ndarray, "count count"]:
    """Gram matrix of `count` standard normal vectors in n dimensions (Bartlett's factor when there is room)."""
    if n < count:
        vectors = rng.standard_normal((count, n))
        return vectors @ vectors.T
    factor = np.tril(rng.standard_normal((count, count)), -1)
    factor[np.diag_indices(count)] = np.sqrt(rng.chisquare(n - np.arange(count)))
    return factor @ factor.T


def _given_teacher(rng: np.random.Generator, K: int, n: int, teacher: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps r (K, M) and q (K, K) of K random student vectors in n dimensions with teachers of a fixed Gram matrix."""
    values, vectors = np.linalg.eigh(teacher)
    keep = values > 1e-12 * max(values.max(), 1e-300)
    root = vectors[:, keep] * np.sqrt(values[keep])  # teacher coordinates in their own span
    rank = root.shape[1]
    if rank > n:
        raise InputError(f"the teacher's gram has rank {rank} and a level has {n} dimensions; it needs {rank}. Raise dim.")
    inside = rng.standard_normal((K, rank))
    return inside @ root.T / np.sqrt(n), (inside @ inside.T + _wishart(rng, K, n - rank)) / n


def start_from_weights(
    problem: Problem, weights: Numbers, teacher_weights: Numbers, *, readout: Numbers | None = None
) -> Start:
    """The exact overlaps, per eigenspace, of weights W (K, N) and W* (M, N).

    Parameters
    ----------
    problem : Problem
        Its spectrum determines the eigenspaces.
    weights : array (K, N)
        W. The columns are input coordinates: those of the data if the spectrum was measured (`from_data`), else the
        eigenvectors, level by level in the order of the spectrum.
    teacher_weights : array (M, N)
        W*; for a `HiddenManifold` (M, D), on the latent vector.
    readout : array, optional
        Initial readout. Default: that of the problem.

    Returns
    -------
    Start

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> W = np.random.default_rng(0).standard_normal((2, 50))
    >>> start = tu.start_from_weights(problem, W, W)
    >>> np.allclose(start.R, W @ W.T / 50)
    True
    """
    if isinstance(problem.inputs, HiddenManifold):
        found, said = problem.inputs.unseen_part(teacher_weights), np.asarray(problem.unseen)
        gap = float(np.max(np.abs(found - said))) if found.shape == said.shape else 0.0  # the shape is checked below
        if gap > 1e-6:
            given = f"the unseen parts of teacher_weights and of the problem differ by {gap:.3g}; they must agree"
            raise InputError(f"{given}. Use Network(M, gram=beta @ beta.T / D, unseen=inputs.unseen_part(beta)).")
    both = list(zip(*weights_by_level(problem, weights, teacher_weights), strict=True))
    r, q, t = (np.stack([x[a] @ x[b].T / x[a].shape[1] for x in both]) for a, b in ((0, 1), (0, 0), (1, 1)))
    return _measured(problem, r, q, t, dim=sum(w.shape[1] for w, _ in both), readout=readout)


def weights_by_level(
    problem: Problem, weights: Numbers, teacher_weights: Numbers
) -> tuple[list[Float[np.ndarray, "K n"]], list[Float[np.ndarray, "M n"]]]:
    """W and W*, checked, in the eigenbasis of the inputs: one array (units, dimensions of the level) for each level."""
    checks.require_untraced("one of the weights", "the projection on eigenspaces", weights, teacher_weights, problem.inputs)
    given = ("weights", weights, problem.student), ("teacher_weights", teacher_weights, problem.references)
    W, W_teacher = (
        checks.as_array(name, values, checks.require_finite, shapes=[(network.hidden, "N")], fix="One row per unit.")
        for name, values, network in given
    )
    if isinstance(problem.inputs, HiddenManifold):
        W_teacher = problem.inputs.visible_teacher(W_teacher)
    if W.shape[1] != W_teacher.shape[1]:
        raise InputError(f"weights have {W.shape[1]} columns and teacher_weights {W_teacher.shape[1]}; both must have N.")
    basis = problem.inputs.basis
    if basis is not None:
        if W.shape[1] != basis.shape[1]:
            raise InputError(f"weights have {W.shape[1]} columns; the data of this spectrum has {basis.shape[1]}.")
        W, W_teacher = W @ basis.T, W_teacher @ basis.T
    elif problem.inputs.known_dim is not None:
        raise InputError(f"{problem.inputs!r} has no eigenvectors, as from a file; measure it again with from_data.")
    edges = np.cumsum(problem.inputs.level_dims(W.shape[1]))[:-1]
    return np.split(W, edges, axis=1), np.split(W_teacher, edges, axis=1)


def require_start(start: object) -> Start:
    """The start, if it is one."""
    if not isinstance(start, Start):
        raise InputError(f"start is {kind_of(start)}; make one with Start, random_start or start_from_weights.")
    return start


def require_pair(weights: object) -> tuple[Numbers, Numbers]:
    """W and W_teacher, if there are two."""
    if not isinstance(weights, Sequence) or len(weights) != 2:
        raise InputError(f"weights is {kind_of(weights)}; it must be a pair (W, W_teacher) of shapes (K, N) and (M, N).")
    return weights[0], weights[1]
