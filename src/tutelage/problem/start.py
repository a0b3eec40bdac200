"""Initial conditions: overlaps at time zero, given, of random or of given weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._html import card, matrix
from tutelage._types import Numbers, NumpyOrJax, Table
from tutelage.errors import InputError, kind_of
from tutelage.problem.inputs import HiddenManifold, Inputs, LatentInputs
from tutelage.problem.problem import Problem
from tutelage.problem.sample import unseen_root
from tutelage.problem.serialize import build

Blocks: TypeAlias = tuple[
    Float[NumpyOrJax, "L K M"], Float[NumpyOrJax, "L K K"], Float[NumpyOrJax, "L M M"]
]
OVERLAPS = ("R", "Q", "T", "readout", "bias")

# Coefficients of `asymmetric_start`: the share of every teacher vector in a student
# vector, what is added for the unit's own teacher, and the squared length beyond them.
COMMON_SHARE = 0.2
OWN_SHARE = 0.1
ORTHOGONAL_NORM = 0.1


class Start(eqx.Module):
    """An initial condition: the overlaps at time zero.

    Overlaps without a level axis are those of all levels.

    Parameters
    ----------
    R : array (K, M)
        Covariance of student and teacher fields; or r per level, (L, K, M). For `Tasks`
        M counts the units of all teachers.
    Q : array (K, K)
        Covariance of student fields; or q per level, (L, K, K).
    T : array (M, M), optional
        Covariance of teacher fields; or t per level. Default: the gram of the teacher,
        else the identity.
    readout, bias : array, optional
        Initial v, (K,) or (outputs, K), (tasks, K) for separate heads of `Tasks`, and
        b. Default: those of the problem.
    dim : int, optional
        N, if the overlaps belong to one.

    Examples
    --------
    >>> import tutelage as tu
    >>> R = [[0.3, 0.2], [0.2, 0.3]]
    >>> start = tu.Start(R=R, Q=[[0.4, 0.1], [0.1, 0.4]], dim=1000)
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
        self.R = checks.as_array(
            "R", R, checks.require_finite, shapes=[("K", "M"), ("levels", "K", "M")]
        )
        *levels, K, M = self.R.shape
        shape_of_R = f"R has shape {self.R.shape}."
        self.Q = checks.as_array(
            "Q", Q, checks.require_gram, shapes=[(*levels, K, K)], fix=shape_of_R
        )
        self.T = checks.as_array(
            "T",
            T,
            checks.require_gram,
            shapes=[(*levels, M, M), (M, M)],
            fix=shape_of_R,
            optional=True,
        )
        self.readout = checks.as_array(
            "readout",
            readout,
            checks.require_finite,
            shapes=[(K,), ("outputs", K), ("tasks", "outputs", K)],
            fix="One number per student unit (and output, and task).",
            optional=True,
        )
        self.bias = checks.as_array(
            "bias",
            bias,
            checks.require_finite,
            shapes=[(K,)],
            fix="One number per student unit.",
            optional=True,
        )
        self.dim = None if dim is None else checks.as_count("dim", dim)
        if self.T is not None and np.ndim(self.T) == np.ndim(self.R):
            _require_joint_gram(self.R, self.Q, self.T)

    def _repr_html_(self) -> str:
        if checks.is_traced(self):
            return card("Start", words="traced")
        *_, K, M = np.shape(self.R)
        title = f"Start: initial overlaps, K = {K}, M = {M}"
        if self.dim is not None:
            title += f", N = {self.dim}"
        given = [name for name in OVERLAPS if getattr(self, name) is not None]
        return card(title, *(matrix(name, getattr(self, name)) for name in given))

    def without_dim(self) -> "Start":
        """Return the same overlaps, which belong to no N."""
        if self.dim is None:
            return self
        return Start(self.R, self.Q, self.T, self.readout, self.bias)

    def readout_of(self, problem: Problem) -> Float[NumpyOrJax, "*outputs K"]:
        """Return the initial readout: as given, else that of the student.

        Separate heads begin with the student's readout each.
        """
        if self.readout is not None:
            return self.readout
        readout = problem.student.readout
        xp: Any = jnp if checks.is_traced(readout) else np
        return xp.broadcast_to(readout, problem.readout_shape)

    def bias_of(self, problem: Problem) -> Float[NumpyOrJax, " K"] | None:
        """Return the initial biases: as given, else those of the student.

        They are None if no unit of the problem has a bias.
        """
        bias = problem.student.bias if self.bias is None else self.bias
        if bias is None and problem.biased:
            return np.zeros(problem.student.hidden)
        return bias

    def blocks(self, problem: Problem) -> Blocks:
        """Return the overlaps r, q, t on the levels of a problem, after checks."""
        levels = problem.inputs.levels
        K = problem.student.hidden
        M = problem.references.hidden
        fix = (
            f"The problem has {K} student and {M} teacher units "
            f"on {levels} level{'s' * (levels > 1)}."
        )
        checks.require_shape("R of the Start", self.R, (K, M), (levels, K, M), fix=fix)
        if self.readout is not None:
            self._require_readout_of(problem)
        T = _teacher_overlaps(self, problem)
        r, q, t = (_on_each_level(problem.inputs, x) for x in (self.R, self.Q, T))
        if np.ndim(T) == np.ndim(self.R):
            _require_joint_gram(self.R, self.Q, T)
        else:
            _require_joint_gram(r, q, t)
        if problem.optimizer.spherical and not checks.is_traced(q):
            _require_lengths(problem.inputs, q)
        return r, q, t

    def _require_readout_of(self, problem: Problem) -> None:
        """Refuse a readout that does not have the shape of the problem's."""
        readout: Any = self.readout
        has_heads = len(problem.readout_shape) > np.ndim(problem.student.readout)
        checks.require_shape(
            "the readout of the Start",
            readout,
            problem.readout_shape,
            fix="It has one head for each task." if has_heads else "",
        )


def _require_lengths(inputs: Inputs, q: NumpyOrJax) -> None:
    """Refuse student vectors of length zero, which cannot be kept on a sphere."""
    squares = np.einsum("l,lkk->k", np.asarray(inputs.fractions), np.asarray(q))
    if np.any(squares <= 0):
        unit = int(np.argmin(squares)) + 1
        raise InputError(
            f"student unit {unit} has norm 0 and spherical is True; "
            "give it a positive Q."
        )


# No method of `Start`: Equinox wraps methods at each call.
def _teacher_overlaps(start: Start, problem: Problem) -> Float[NumpyOrJax, "*L M M"]:
    """Return T from the start or the teacher's gram, which must agree."""
    gram = problem.references.gram
    inputs = problem.inputs
    T = start.T
    if isinstance(inputs, LatentInputs):
        latent = np.eye(problem.references.hidden) if gram is None else gram
        return _visible_overlaps(inputs, latent, T)
    if gram is None:
        return np.eye(problem.references.hidden) if T is None else T
    if T is None:
        return gram
    is_mixture = inputs.classes is not None
    if not checks.is_traced(gram, T, inputs):
        # The overlaps of a mixture's teacher, with the class means too, come from the
        # start alone: only those of the means are compared.
        first = problem.label_fields if is_mixture else 0
        difference = _on_each_level(inputs, gram) - _on_each_level(inputs, T)
        gap = float(np.max(np.abs(difference)[..., first:, first:]))
        if gap > 1e-9 * max(1.0, float(np.max(np.abs(gram)))):
            raise InputError(
                f"T of the Start and the teacher's gram differ by {gap:.3g}; "
                "they must be equal. Give one."
            )
    return T if is_mixture else gram


def _visible_overlaps(
    inputs: LatentInputs, latent: NumpyOrJax, T: Any
) -> Float[NumpyOrJax, "L M M"]:
    """Return t of each level for a teacher of the latent vector.

    The overlaps are as given for each level, else those of a typical teacher.
    """
    if T is not None and not checks.is_traced(latent, T, inputs):
        if T.ndim == 3:
            out_of_reach = np.abs(T)[inputs.visible == 0]
            if np.any(out_of_reach > 1e-9 * np.max(np.abs(T))):
                raise InputError(
                    "T of the Start is not zero on directions that the features do not "
                    "reach; leave T out."
                )
        elif not np.allclose(latent, T, rtol=0, atol=1e-9):
            raise InputError(
                "T of the Start is not that of the latent teacher; "
                "give it to the teacher, Network(M, gram=T)."
            )
    if T is not None and T.ndim == 3:
        return T
    return inputs.visible[:, None, None] * latent


def _require_joint_gram(r: NumpyOrJax, q: NumpyOrJax, t: NumpyOrJax) -> None:
    """Refuse overlaps that no real vectors have."""
    if not checks.is_traced((r, q, t)):
        joint = np.block([[q, r], [np.swapaxes(r, -1, -2), t]])
        name = "the joint Gram matrix [[Q, R], [R^T, T]] of the Start"
        checks.require_gram(name, joint)


def _on_each_level(inputs: Inputs, overlaps: NumpyOrJax) -> Any:
    """Return overlaps with a level axis.

    Field covariances belong to equal overlaps on all levels. The mean eigenvalue is
    one, unless the user kept the spectrum unnormalized.
    """
    if overlaps.ndim == 3:
        return overlaps
    return (overlaps / inputs.weights.sum()) * np.ones((inputs.levels, 1, 1))


def random_start(
    problem: Problem, dim: int | None = None, scale: float = 0.1, seed: int = 0
) -> Start:
    """Return the overlaps of random weights.

    Student entries are N(0, scale^2), teacher entries N(0, 1) (or the teacher has its
    given gram). The cost does not depend on N: the law of the Gram matrix is sampled,
    not the vectors.

    Parameters
    ----------
    problem : Problem
        Its shapes, spectrum and gram are used.
    dim : int, optional
        N of the weights. The fluctuations of order N^(-1/2) in R break the symmetry
        later. None: the limit N -> infinity, R = 0 and Q = scale^2 I, from which units
        never specialize (`solve` warns).
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
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    >>> start.R.round(4)
    array([[-0.0022, -0.0073],
           [-0.004 , -0.0006]])
    """
    width = checks.as_number("scale", scale, checks.require_nonnegative)
    rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
    if dim is None:
        return _infinite_random_start(problem, width)
    dims = problem.inputs.level_dims(dim)
    gram = problem.references.gram
    checks.require_untraced("the teacher's gram", "random_start", gram)
    K = problem.student.hidden
    if problem.inputs.is_latent:
        t = _random_latent_overlaps(problem, rng, dims)
        r, q = _random_students(rng, K, dims, t)
    elif gram is None:
        M = problem.references.hidden
        joint = np.stack([_wishart(rng, K + M, n) / n for n in dims])
        r = joint[:, :K, K:]
        q = joint[:, :K, :K]
        t = joint[:, K:, K:]
    else:
        r, q = _random_students(
            rng, K, dims, _on_each_level(problem.inputs, np.asarray(gram))
        )
        t = None  # that of the problem
    return _measured(problem, r * width, q * width**2, t, dim=int(dims.sum()))


def _infinite_random_start(problem: Problem, width: NumpyOrJax) -> Start:
    """Return the overlaps of random weights in the limit N -> infinity."""
    K = problem.student.hidden
    M = problem.references.hidden
    mean = problem.inputs.weights.sum()
    is_random = problem.references.gram is None
    is_latent = problem.inputs.is_latent
    return Start(
        R=np.zeros((K, M)),
        Q=width**2 * mean * np.eye(K),
        T=mean * np.eye(M) if is_random and not is_latent else None,
    )


def start_from_table(problem: Problem, table: Table) -> Start:
    """Make the initial condition of the table [start] of a file.

    The table has the arguments of random weights (dim, scale, seed), overlaps (R, Q and
    more), or kind = "asymmetric".
    """
    if any(name in table for name in OVERLAPS):
        return build("start", Start, table)
    for name in table:
        allowed = ("kind", "dim", "scale", "seed", *OVERLAPS)
        checks.known("a name in [start]", name, allowed)
    kind = checks.known(
        "the kind of start", table.get("kind", "random"), ("random", "asymmetric")
    )
    dim = table.get("dim", problem.inputs.usual_dim)
    if kind == "random":
        options = {name: table[name] for name in ("scale", "seed") if name in table}
        return random_start(problem, dim=dim, **options)
    if "scale" in table:
        raise InputError(
            "scale is given and the Start is asymmetric; only random weights have one. "
            "Use --start random."
        )
    return asymmetric_start(problem, dim)


def asymmetric_start(problem: Problem, dim: int | None = None) -> Start:
    """Return overlaps in which student unit k is closest to teacher unit k.

    Each student vector is a mixture of all teacher vectors, with a little more of one,
    plus an orthogonal part (k counted from 0):

        w_k = sum_m a_km w*_m + orthogonal,    a_km = 0.2 + 0.1 (1 - k/2K) [m = k mod M]
        R = a T,    Q = a T a^T + 0.1

    The asymmetry does not shrink with N, so the initial condition, not SGD noise,
    determines when and in which permutation the units specialize. The factor
    (1 - k/2K) makes any two units different.

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
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> tu.asymmetric_start(problem).R
    array([[0.3  , 0.2  ],
           [0.2  , 0.275]])
    """
    K = problem.student.hidden
    M = problem.references.hidden
    units = np.arange(K)
    a = np.full((K, M), COMMON_SHARE)
    a[units, units % M] += OWN_SHARE * (1 - units / (2 * K))
    gram = problem.references.gram
    T = np.eye(M) if gram is None else np.asarray(gram, dtype=float)
    latent = problem.latent_inputs
    if latent is not None:
        T = latent.visible[:, None, None] * T
    R = a @ T
    Q = R @ a.T + ORTHOGONAL_NORM * np.eye(K)
    return Start(R=R, Q=(Q + np.swapaxes(Q, -1, -2)) / 2, dim=dim)


def _measured(
    problem: Problem,
    r: NumpyOrJax,
    q: NumpyOrJax,
    t: Any,
    dim: int,
    readout: Numbers | None = None,
) -> Start:
    """Make a start from overlaps per level; a single level gives field covariances."""
    if problem.inputs.levels == 1:
        mean = problem.inputs.weights.sum()
        r = r[0] * mean
        q = q[0] * mean
        if t is not None:
            t = t[0] * mean
    symmetric_q = (q + q.swapaxes(-1, -2)) / 2
    return Start(R=r, Q=symmetric_q, T=t, readout=readout, dim=dim)


def _random_latent_overlaps(
    problem: Problem, rng: np.random.Generator, dims: Int[np.ndarray, " L"]
) -> Float[np.ndarray, "L M M"]:
    """Sample t of each level for random latent teacher vectors.

    The vectors are turned so that their unseen part is exactly that of the problem.
    """
    inputs = problem.inputs
    assert isinstance(inputs, HiddenManifold)
    M = problem.references.hidden
    sampled = np.stack([_wishart(rng, M, n) / n for n in dims])
    latent_only = max(0, inputs.dim_latent - inputs.dim)  # directions of no input
    unseen = np.einsum("l,lmn->mn", inputs.unseen_by_level, sampled)
    unseen = unseen + _wishart(rng, M, latent_only) / inputs.dim_latent
    root = np.asarray(unseen_root(problem))
    turn = root @ np.linalg.inv(np.linalg.cholesky(unseen))
    return inputs.visible[:, None, None] * (turn @ sampled @ turn.T)


def _wishart(
    rng: np.random.Generator, count: int, n: int
) -> Float[np.ndarray, "count count"]:
    """Sample the Gram matrix of `count` standard normal vectors in n dimensions."""
    if n < count:
        vectors = rng.standard_normal((count, n))
        return vectors @ vectors.T
    # Bartlett's factor
    factor = np.tril(rng.standard_normal((count, count)), -1)
    factor[np.diag_indices(count)] = np.sqrt(rng.chisquare(n - np.arange(count)))
    return factor @ factor.T


def _random_students(
    rng: np.random.Generator,
    K: int,
    dims: Int[np.ndarray, " L"],
    t: Float[np.ndarray, "L M M"],
) -> tuple[Float[np.ndarray, "L K M"], Float[np.ndarray, "L K K"]]:
    """Sample the overlaps r and q of K random student vectors with given teachers."""
    overlaps = [
        _students_on_level(rng, K, n, teacher)
        for n, teacher in zip(dims, t, strict=True)
    ]
    return np.stack([r for r, _ in overlaps]), np.stack([q for _, q in overlaps])


def _students_on_level(
    rng: np.random.Generator, K: int, n: int, teacher: np.ndarray
) -> tuple[Float[np.ndarray, "K M"], Float[np.ndarray, "K K"]]:
    """Sample r and q on a level of n dimensions, for a given teacher's Gram matrix."""
    values, vectors = np.linalg.eigh(teacher)
    keep = values > 1e-12 * max(values.max(), 1e-300)
    # coordinates of the teacher vectors in their own span
    root = vectors[:, keep] * np.sqrt(values[keep])
    rank = root.shape[1]
    if rank > n:
        raise InputError(
            f"the teacher's gram has rank {rank} and a level has {n} dimensions; "
            f"it needs {rank}. Raise dim."
        )
    inside = rng.standard_normal((K, rank))
    r = inside @ root.T / np.sqrt(n)
    q = (inside @ inside.T + _wishart(rng, K, n - rank)) / n
    return r, q


def start_from_weights(
    problem: Problem,
    weights: Numbers,
    teacher_weights: Numbers,
    *,
    readout: Numbers | None = None,
) -> Start:
    """Return the exact overlaps, per eigenspace, of weights W (K, N) and W* (M, N).

    Parameters
    ----------
    problem : Problem
        Its spectrum determines the eigenspaces.
    weights : array (K, N)
        W. The columns are input coordinates: those of the data if the spectrum was
        measured (`from_data`), else the eigenvectors, level by level in the order of
        the spectrum.
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
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> W = np.random.default_rng(0).standard_normal((2, 50))
    >>> start = tu.start_from_weights(problem, W, W)
    >>> np.allclose(start.R, W @ W.T / 50)
    True
    """
    if problem.hidden_manifold is not None:
        _require_unseen_part(problem, problem.hidden_manifold, teacher_weights)
    W, W_teacher = weights_by_level(problem, weights, teacher_weights)
    return _measured(
        problem,
        r=_overlaps_by_level(W, W_teacher),
        q=_overlaps_by_level(W, W),
        t=_overlaps_by_level(W_teacher, W_teacher),
        dim=sum(w.shape[1] for w in W),
        readout=readout,
    )


def _require_unseen_part(
    problem: Problem, inputs: HiddenManifold, beta: Numbers
) -> None:
    """Refuse latent teacher vectors whose unseen part is not that of the problem."""
    measured = inputs.unseen_part(beta)
    declared = np.asarray(problem.unseen)
    if measured.shape != declared.shape:
        return  # `weights_by_level` refuses another number of vectors
    gap = float(np.max(np.abs(measured - declared)))
    if gap > 1e-6:
        raise InputError(
            "the unseen parts of teacher_weights and of the problem "
            f"differ by {gap:.3g}; "
            "they must agree. Use Network(M, gram=beta @ beta.T / D, "
            "unseen=inputs.unseen_part(beta))."
        )


def _overlaps_by_level(
    left: list[Float[np.ndarray, "a n"]], right: list[Float[np.ndarray, "b n"]]
) -> Float[np.ndarray, "L a b"]:
    """Return the overlaps of two sets of vectors on each level, per dimension."""
    overlaps = [x @ y.T / x.shape[1] for x, y in zip(left, right, strict=True)]
    return np.stack(overlaps)


class WeightsByLevel(NamedTuple):
    """Weights in the eigenbasis of the inputs, one array for each level."""

    student: list[Float[np.ndarray, "K n"]]
    teacher: list[Float[np.ndarray, "M n"]]


def weights_by_level(
    problem: Problem, weights: Numbers, teacher_weights: Numbers
) -> WeightsByLevel:
    """Check W and W*, and project both on the eigenspaces of the inputs."""
    inputs = problem.inputs
    checks.require_untraced(
        "one of the weights",
        "the projection on eigenspaces",
        weights,
        teacher_weights,
        inputs,
    )
    W = _checked_weights("weights", weights, problem.student.hidden)
    W_teacher = _checked_weights(
        "teacher_weights", teacher_weights, problem.references.hidden
    )
    if isinstance(inputs, HiddenManifold):
        W_teacher = inputs.visible_teacher(W_teacher)
    dim = W.shape[1]
    if W_teacher.shape[1] != dim:
        raise InputError(
            f"weights have {dim} columns and teacher_weights {W_teacher.shape[1]}; "
            "both must have N."
        )
    if inputs.basis is not None:
        columns = inputs.basis.shape[1]
        if dim != columns:
            raise InputError(
                f"weights have {dim} columns; the data of this spectrum has {columns}."
            )
        W = W @ inputs.basis.T
        W_teacher = W_teacher @ inputs.basis.T
    elif inputs.known_dim is not None:
        raise InputError(
            f"{inputs!r} has no eigenvectors, as from a file; "
            "measure it again with from_data."
        )
    edges = np.cumsum(inputs.level_dims(W.shape[1]))[:-1]
    return WeightsByLevel(
        student=np.split(W, edges, axis=1), teacher=np.split(W_teacher, edges, axis=1)
    )


def _checked_weights(name: str, values: Numbers, units: int) -> Any:
    """Convert weights to an array (units, N)."""
    return checks.as_array(
        name,
        values,
        checks.require_finite,
        shapes=[(units, "N")],
        fix="One row per unit.",
    )


def require_start(start: object) -> Start:
    """Return the start; refuse anything else."""
    if not isinstance(start, Start):
        raise InputError(
            f"start is {kind_of(start)}; "
            "make one with Start, random_start or start_from_weights."
        )
    return start


def require_pair(weights: object) -> tuple[Numbers, Numbers]:
    """Return W and W_teacher; refuse anything but two arrays."""
    if not isinstance(weights, Sequence) or len(weights) != 2:
        raise InputError(
            f"weights is {kind_of(weights)}; "
            "it must be a pair (W, W_teacher) of shapes (K, N) and (M, N)."
        )
    return weights[0], weights[1]
