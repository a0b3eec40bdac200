"""Hessian spectra of quadratic networks at their critical points.

The tables of the source's appendix (sec. 7.2.2) against numerical eigenvalues, and what
the tables leave out. Everything here is in the source's units: loss without 1/2 (risk =
2 e_g, eigenvalues twice ours) and weights J = W / sqrt(N).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, INK, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SAME = 1e-8  # eigenvalues this close are one
POINTS = ("tabula rasa", "plateau", "zero error", "all aligned")
GAPS = ("printed", "classes", "halved", "gradient", "flat", "tangent")

# A row of a printed spectrum: formula, eigenvalue, multiplicity.
Row = tuple[str, float, int]


def printed_table(name: str, p: int, p_teacher: int, dim: int) -> list[Row]:
    """Return the source's spectrum at one of its four points (sec. 7.2.2)."""
    if name == "tabula rasa":
        return list(_tabula_rasa_rows(p, p_teacher, dim))
    if name == "plateau":
        return list(_plateau_rows(p, p_teacher, dim))
    if name == "zero error":
        return list(_zero_error_rows(p, p_teacher, dim))
    return list(_all_aligned_rows(p, p_teacher, dim))


def _tabula_rasa_rows(p: int, k: int, n: int) -> Iterator[Row]:
    """The spectrum at W = 0."""
    yield "-4/p (1 + 2/p*)", -4 / p * (1 + 2 / k), p * k
    yield "-4/p", -4 / p, p * (n - k)


def _plateau_rows(p: int, k: int, n: int) -> Iterator[Row]:
    """The spectrum where p students are orthogonal to the teachers."""
    pairs = p * (p - 1) // 2
    yield "-8/(p p*)", -8 / (p * k), p * k
    yield "0", 0.0, p * (n - k - p) + pairs
    yield "16/(p(p+2))", 16 / (p * (p + 2)), pairs + p - 1
    yield "8/p", 8 / p, 1


def _zero_error_rows(p: int, k: int, n: int) -> Iterator[Row]:
    """The spectrum at a solution."""
    unused = p - k
    flat = (n - k) * unused + k * unused + k * (k - 1) // 2
    yield "0", 0.0, flat
    yield "8/(p p*)", 8 / (p * k), k * (n - k)
    yield "16/(p p*)", 16 / (p * k), k * (k + 1) // 2 - 1
    yield "8(2+p*)/(p p*)", 8 * (2 + k) / (p * k), 1


def _all_aligned_rows(p: int, k: int, n: int) -> Iterator[Row]:
    """The spectrum where all students share one direction, that of a teacher."""
    yield "-8(p*+2)/(3 p p*)", -8 * (k + 2) / (3 * p * k), (k - 1) * (p - 1)
    yield "-8(p*-1)/(3 p p*)", -8 * (k - 1) / (3 * p * k), (n - k) * (p - 1)
    yield "0", 0.0, p + k - 2
    yield "8/(p p*)", 8 / (p * k), n - k
    yield "8(2+p*)/(p p*)", 8 * (2 + k) / (p * k), 1


def place(name: str, p: int, p_teacher: int) -> tuple[int, int]:
    """Return (s, r) of one of the source's four points."""
    places = {
        "tabula rasa": (0, 0),
        "plateau": (0, p),
        "zero error": (p_teacher, 0),
        "all aligned": (1, 0),
    }
    return places[name]


def risk(J: np.ndarray, J_teacher: np.ndarray) -> float:
    """Return the population risk, eq. 23."""
    p = len(J)
    k = len(J_teacher)
    Q = J @ J.T
    rho = J @ J_teacher.T
    trace = np.trace(Q)
    constant = (k + 2) / k
    linear = 2 / p * trace
    cross = 4 / (p * k) * np.sum(rho**2)
    squares = trace**2 + 2 * np.sum(Q**2)
    return float(constant - linear - cross + squares / p**2)


def gradient(J: np.ndarray, J_teacher: np.ndarray) -> np.ndarray:
    """Return the gradient of the risk, eq. 24."""
    p = len(J)
    k = len(J_teacher)
    Q = J @ J.T
    rho = J @ J_teacher.T
    repulsion = np.trace(Q) * J + 2 * Q @ J
    return -4 / p * (J + 2 / k * rho @ J_teacher - repulsion / p)


def hessian(J: np.ndarray, J_teacher: np.ndarray) -> np.ndarray:
    """Return the Hessian of the risk, eq. 25, as a matrix (p N, p N)."""
    p, n = J.shape
    k = len(J_teacher)
    Q = J @ J.T
    identity = np.eye(n)
    # The block that every student has by itself.
    alone = (1 - np.trace(Q) / p) * identity
    alone = alone + 2 / k * J_teacher.T @ J_teacher
    alone = alone - 2 / p * J.T @ J
    # Blocks of pairs of students.
    pairs = np.einsum("ab,ij->aibj", Q, identity)
    pairs = pairs + np.einsum("bi,aj->aibj", J, J)
    pairs = pairs + np.einsum("ai,bj->aibj", J, J)
    whole = 2 / p * pairs - np.einsum("ab,ij->aibj", np.eye(p), alone)
    return 4 / p * whole.reshape(p * n, p * n)


def points_of(
    p: int, p_teacher: int, dim: int
) -> "tutelage_papers.quadratic.CriticalPoints":
    """Return all classes of critical points, in the source's setting."""
    student = tu.Network(p, "quadratic", readout=1 / p)
    teacher = tu.Network(p_teacher, "quadratic", readout=1 / p_teacher)
    return tutelage_papers.quadratic.critical_points(tu.Problem(student, teacher), dim)


def units(
    point: "tutelage_papers.quadratic.CriticalPoint", seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return W and W* of a random member of a class, divided by sqrt(N)."""
    W, W_teacher = point.weights(seed)
    return W / np.sqrt(point.dim), W_teacher / np.sqrt(point.dim)


def spectrum_of(
    point: "tutelage_papers.quadratic.CriticalPoint", seed: int
) -> np.ndarray:
    """Return the numerical eigenvalues of eq. 25 at a random member of a class."""
    J, J_teacher = units(point, seed)
    return np.linalg.eigvalsh(hessian(J, J_teacher))


def compute_8(
    widths: list[list[int]],
    shown: list[int],
    search: list[int],
    searches: int,
    seed: int,
) -> "Dataset":
    """Return spectra of all classes for all widths.

    With the four tables of one width (`shown`), what is beyond them, and a blind search for
    critical points.
    """
    import xarray as xr

    rows = [_one_width(p, k, n, seed) for p, k, n in widths]
    data = xr.Dataset()
    for name in rows[0]:
        data[name] = ("width", [row[name] for row in rows])
    for column, name in enumerate(("p", "p_teacher", "N")):
        values = [width[column] for width in widths]
        data = data.assign_coords({name: ("width", values)})
    p, k, n = shown
    zeros = _search(search, searches, seed)
    data = data.merge(_tables(p, k, n, seed))
    data = data.merge(_beyond_the_tables(p, k, n, seed))
    return data.assign(zeros)


def _one_width(p: int, k: int, n: int, seed: int) -> dict[str, float]:
    """Gaps between predicted and numerical spectra, of the worst class, and counts."""
    gaps: dict[str, list[float]] = {name: [0.0] for name in GAPS}
    points = points_of(p, k, n)
    named = _named_places(p, k)
    for point in points:
        J, J_teacher = units(point, seed)
        eigenvalues = np.linalg.eigvalsh(hessian(J, J_teacher))
        gaps["classes"].append(_largest_gap(2 * _predicted(point), eigenvalues))
        gaps["gradient"].append(float(np.max(np.abs(gradient(J, J_teacher)))))
        name = named.get((point.aligned, point.orthogonal))
        if name is not None:
            listed = _listed(printed_table(name, p, k, n))
            gaps["printed"].append(_largest_gap(listed, eigenvalues))
            # Negative control: eigenvalues of a loss with 1/2.
            gaps["halved"].append(float(np.max(np.abs(listed - eigenvalues / 2))))
        if point.name == "zero error":
            null = int(np.sum(np.abs(eigenvalues) < SAME))
            tangent = _tangent_rank(J)
            gaps["tangent"].append(abs(tangent - (p * k - k * (k + 1) / 2)))
            gaps["flat"].append(abs(null - tangent - (n - k) * (p - k)))
    row: dict[str, float] = {name: max(values) for name, values in gaps.items()}
    row["count"] = len(points)
    row["mixed"] = sum(point.aligned > 0 and point.orthogonal > 0 for point in points)
    row["ratio"] = _down_over_null(spectrum_of(points[0, min(p, n - k)], seed))
    row["minima"] = sum(point.index == 0 for point in points)
    return row


def _named_places(p: int, k: int) -> dict[tuple[int, int], str]:
    """The (s, r) of those of the source's four points that exist at this width."""
    if p < k:
        return {}
    names = list(POINTS)
    if k == 1:
        # One teacher: "all aligned" is "zero error".
        names.remove("all aligned")
    return {place(name, p, k): name for name in names}


def _predicted(point: "tutelage_papers.quadratic.CriticalPoint") -> np.ndarray:
    """The spectrum of a class, each eigenvalue as often as it occurs."""
    values = [eigenvalue.value for eigenvalue in point.spectrum]
    counts = [eigenvalue.multiplicity for eigenvalue in point.spectrum]
    return np.repeat(values, counts)


def _listed(table: list[Row]) -> np.ndarray:
    """A printed spectrum in ascending order, each eigenvalue as often as it occurs."""
    values = [value for _, value, _ in table]
    counts = [multiplicity for _, _, multiplicity in table]
    return np.sort(np.repeat(values, counts))


def _largest_gap(listed: np.ndarray, eigenvalues: np.ndarray) -> float:
    """The largest distance between two spectra; infinite if their sizes differ."""
    if listed.size != eigenvalues.size:
        return np.inf
    return float(np.max(np.abs(listed - eigenvalues)))


def _down_over_null(eigenvalues: np.ndarray) -> float:
    """The number of negative eigenvalues over that of null ones (eq. 29)."""
    down = np.sum(eigenvalues < -SAME)
    null = np.sum(np.abs(eigenvalues) < SAME)
    if null == 0:
        return np.nan
    return float(down / null)


def _tangent_rank(J: np.ndarray) -> int:
    """Rank of Psi -> Psi W over antisymmetric Psi."""
    p, n = J.shape
    moves = [np.zeros((p, n))]
    for a in range(p):
        for b in range(a):
            move = np.zeros((p, n))
            move[a] = J[b]
            move[b] = -J[a]
            moves.append(move)
    return int(np.linalg.matrix_rank(np.array(moves).reshape(-1, p * n), tol=SAME))


def _tables(p: int, k: int, n: int, seed: int) -> "Dataset":
    """The four spectra of one network: eigenvalues, and counts at printed ones."""
    import xarray as xr

    points = points_of(p, k, n)
    spectra = []
    names = []
    listed = []
    expected = []
    counted = []
    for name in POINTS:
        eigenvalues = spectrum_of(points[place(name, p, k)], seed)
        spectra.append(eigenvalues)
        for formula, value, multiplicity in printed_table(name, p, k, n):
            names.append(f"{name}: {formula}")
            listed.append(value)
            expected.append(multiplicity)
            counted.append(int(np.sum(np.abs(eigenvalues - value) < SAME)))
    data = xr.Dataset(coords={"row": names, "point": list(POINTS)})
    data["listed"] = ("row", listed)
    data["expected"] = ("row", expected)
    data["counted"] = ("row", counted)
    data["values"] = (("point", "index"), spectra)
    data["shown"] = ("letter", [p, k, n])
    return data


def _beyond_the_tables(p: int, k: int, n: int, seed: int) -> "Dataset":
    """Measurements beyond the tables, for one network.

    All classes; the Hessian of the library's landscape; how the risk grows where it is
    flat; fewer students than teachers; eq. 29 at p = N; a misprint.
    """
    import xarray as xr

    points = points_of(p, k, n)
    solution, solution_teacher = units(points[k, 0], seed)
    data = xr.Dataset()
    data["class_risk"] = ("class", [2 * point.error for point in points])
    data["class_down"] = ("class", [point.index / point.parameters for point in points])
    data["class_s"] = ("class", [point.aligned for point in points])
    data["class_r"] = ("class", [point.orthogonal for point in points])
    data["verb_gap"] = _landscape_gap(points, n, seed)
    data["order_flat"] = _order(solution, solution_teacher, merely=True)
    data["order_up"] = _order(solution, solution_teacher, merely=False)
    data = data.assign(_fewer_students(k, n, seed))
    data = data.assign(_square_student(k, n, seed))
    data["misprint_gradient"] = _misprint_gradient(points[0, p - 1], p, seed)
    return data


def _landscape_gap(
    points: "tutelage_papers.quadratic.CriticalPoints", n: int, seed: int
) -> float:
    """Largest gap between eq. 25 and the Hessian of tu.analysis.landscape."""
    W, W_teacher = points[1, 1].weights(seed)
    by_verb = 2 * tu.analysis.landscape(points.problem, W, W_teacher).hessian()
    printed = hessian(W / np.sqrt(n), W_teacher / np.sqrt(n))
    return np.max(np.abs(by_verb - printed))


def _fewer_students(k: int, n: int, seed: int) -> dict[str, Any]:
    """Risk and curvature at the best fit of one student fewer than teachers."""
    best = points_of(k - 1, k, n)[k - 1, 0]
    risks = [risk(*units(best, seed + i)) for i in range(20)]
    return {
        "fewer_risk": np.mean(risks),
        "fewer_spread": np.ptp(risks),
        "fewer_predicted": 2 * best.error,
        "fewer_lowest": spectrum_of(best, seed)[0],
    }


def _square_student(k: int, n: int, seed: int) -> dict[str, Any]:
    """Eq. 29 at p = N, where p orthogonal students do not fit: measured and printed."""
    side = min(n, 20)
    crowded = spectrum_of(points_of(side, k, side)[0, side - k], seed)
    down = np.sum(crowded < -SAME)
    null = np.sum(np.abs(crowded) < SAME)
    return {
        "square_ratio": down / null,
        "square_printed": k / (side / 2 - k - 1 / 2),
    }


def _misprint_gradient(
    alone: "tutelage_papers.quadratic.CriticalPoint", p: int, seed: int
) -> float:
    """The largest entry of the gradient where the printed stationarity puts alpha.

    The equation is printed as 1 - r/p - 2 alpha/p = 0.
    """
    lengths = np.sqrt((p - alone.orthogonal) / 2 / alone.beta)
    J, J_teacher = units(alone, seed)
    return np.max(np.abs(gradient(lengths * J, J_teacher)))


def _order(J: np.ndarray, J_teacher: np.ndarray, *, merely: bool) -> float:
    """The power of the distance with which the risk grows.

    A unit turns away from the teachers: an idle one (merely=True: a merely flat direction)
    or a working one.
    """
    left, _, right = np.linalg.svd(J)
    unit = left[:, -1] if merely else left[:, 0]
    outside = right[-1]
    near = risk(J + 0.01 * np.outer(unit, outside), J_teacher)
    far = risk(J + 0.02 * np.outer(unit, outside), J_teacher)
    return float(np.log(far / near) / np.log(2))


def _search(widths: list[int], searches: int, seed: int) -> dict[str, Any]:
    """Zeros of the gradient from random places.

    How far each is, in risk, from the nearest predicted class, and how many are mixed.
    """
    from scipy.optimize import least_squares

    p, k, n = widths
    points = points_of(p, k, n)
    rng = np.random.default_rng(seed)
    J_teacher = np.eye(n)[:k]

    def slope(weights: np.ndarray) -> np.ndarray:
        return gradient(weights.reshape(p, n), J_teacher).ravel()

    tight: dict[str, Any] = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    gaps = []
    mixed = 0
    for scale in np.linspace(0.2, 1.5, searches):
        start = scale * rng.standard_normal(p * n)
        minimum = least_squares(slope, start, **tight)
        if minimum.cost < 1e-20:
            reached = risk(minimum.x.reshape(p, n), J_teacher)
            distances = [abs(2 * point.error - reached) for point in points]
            nearest = points.points[int(np.argmin(distances))]
            gaps.append(min(distances))
            mixed += nearest.aligned > 0 and nearest.orthogonal > 0
    return {"search_gap": max(gaps), "search_found": len(gaps), "search_mixed": mixed}


def claims_8(data: "Dataset") -> Iterator[Claim]:
    """Compare the tables row by row, all widths, and what the source leaves out."""
    yield from _table_claims(data)
    yield from _spectrum_claims(data)
    yield from _flat_claims(data)
    yield from _mixed_claims(data)
    yield from _fewer_claims(data)
    yield from _misprint_claims(data)


def _table_claims(data: "Dataset") -> Iterator[Claim]:
    """Each row of the four printed tables of one network."""
    p, _, n = data["shown"].values.tolist()
    for name in data["row"].values:
        row = data.sel(row=name)
        value = float(row["listed"])
        words = f"{name} = {value:.6g}, how many of {p} x {n}"
        yield close(words, row["counted"], row["expected"], absolute=0.0)


def _spectrum_claims(data: "Dataset") -> Iterator[Claim]:
    """Spectra of every class at every width."""
    count = data.sizes["width"]
    widths = f"{count} triples (p, p*, N)"
    yield at_least("how many triples (p, p*, N) are compared", count, 12)
    words = f"printed tables, {widths}: largest gap of an eigenvalue"
    yield at_most(words, data["printed"].max(), 1e-9)
    yield at_least(
        "the same with half of each eigenvalue, which must fail",
        data["halved"][data["p"] >= data["p_teacher"]].min(),
        1e-2,
    )
    classes = int(data["count"].sum())
    words = f"all {classes} classes (s, r), {widths}: largest gap"
    yield at_most(words, data["classes"].max(), 1e-9)
    words = "eq. 25 against the Hessian of tu.analysis.landscape (halved loss)"
    yield at_most(words, data["verb_gap"], 1e-9)
    gaps = np.abs(data["ratio"] - _eq_29(data))
    words = "eq. 29, negative over null eigenvalues: largest gap"
    yield at_most(words, gaps[_fits(data)].max(), 1e-9)


def _eq_29(data: "Dataset") -> Any:
    """Negative over null eigenvalues on the plateau, as printed, (width,)."""
    k = data["p_teacher"]
    return k / (data["N"] - k - data["p"] / 2 - 1 / 2)


def _fits(data: "Dataset") -> Any:
    """True where p students orthogonal to p* teachers fit into N dimensions."""
    return (data["p"] + data["p_teacher"] <= data["N"]) & np.isfinite(data["ratio"])


def _flat_claims(data: "Dataset") -> Iterator[Claim]:
    """Directions without curvature at zero error: tangent ones and merely flat ones."""
    words = "zero error: rank of the tangent space, p p* - p*(p*+1)/2: largest gap"
    yield at_most(words, data["tangent"].max(), 0.0)
    words = "zero error: merely flat directions, (N-p*)(p-p*): largest gap"
    yield at_most(words, data["flat"].max(), 0.0)
    words = "risk along a merely flat direction grows with the power"
    yield close(words, data["order_flat"], 4.0, absolute=0.01)
    words = "risk along a positive direction grows with the power"
    yield close(words, data["order_up"], 2.0, absolute=0.01)


def _mixed_claims(data: "Dataset") -> Iterator[Claim]:
    """Critical points that are both aligned and orthogonal, which the source omits."""
    words = "mixed points (s, r): largest entry of the gradient at any class"
    yield at_most(words, data["gradient"].max(), 1e-10)
    none_mixed = at_most(
        "classes of critical points with s > 0 and r > 0",
        data["mixed"].sum(),
        0.0,
        says="three fundamental classes",
    )
    yield refuted(
        none_mixed,
        evidence="their gradient vanishes, their predicted spectra equal the numerical "
        "ones, a blind search finds them",
    )
    words = "blind search: mixed points among the zeros of the gradient"
    yield above(words, data["search_mixed"], 0.0)
    words = "blind search: largest gap in risk to the nearest class (s, r)"
    yield at_most(words, data["search_gap"], 1e-8)
    words = "classes without a way down, at each triple"
    yield close(words, data["minima"].mean(), 1.0, absolute=0.0)


def _fewer_claims(data: "Dataset") -> Iterator[Claim]:
    """The best fit of fewer students than teachers is a minimum and a manifold."""
    k = int(data["shown"][1])
    words = f"p = {k - 1} < p* = {k}: risk of the best fit"
    yield close(words, data["fewer_risk"], data["fewer_predicted"], rel=1e-9)
    words = "p < p*: spread of the risk over its manifold"
    yield at_most(words, data["fewer_spread"], 1e-10)
    yield at_least("p < p*: lowest eigenvalue there", data["fewer_lowest"], -1e-9)


def _misprint_claims(data: "Dataset") -> Iterator[Claim]:
    """Eq. 29 at p = N, and the printed stationarity equation."""
    measured = data["square_ratio"]
    at_square = close("eq. 29 at p = N", measured, data["square_printed"], rel=0.01)
    yield refuted(
        at_square,
        evidence="p students orthogonal to each other and to p* teachers need "
        "p + p* <= N; measured at rank N - p*",
    )
    words = "gradient where the printed 1 - rank/p - 2 alpha/p = 0 puts alpha"
    yield refuted(
        at_most(words, data["misprint_gradient"], 1e-10),
        evidence="rank/p lacks alpha; with it alpha = p/(2 + rank), as printed right "
        "after, and the gradient vanishes",
    )


def draw_8(data: "Dataset") -> "Figure":
    """Draw four spectra, all classes, and eq. 29."""
    p, k, n = data["shown"].values.tolist()
    title = (
        "Curvature of the population risk at the critical points of a quadratic network"
    )
    small = (
        f"Loss without 1/2. Spectra: $p = {p}$, $p^* = {k}$, $N = {n}$; "
        "rings: the printed tables; dots: numerical."
    )
    figure, axes = panel_grid(2, 3, title, small, height=2.6)
    for panel, name in zip(axes.ravel(), POINTS, strict=False):
        _draw_spectrum(panel, data, name)
    _draw_classes(axes[1, 1], data)
    _draw_ratio(axes[1, 2], data)
    return figure


def _draw_spectrum(panel: Any, data: "Dataset", name: str) -> None:
    """Eigenvalues with their multiplicities, and those of the printed table."""
    eigenvalues = np.round(data["values"].sel(point=name).values, 7)
    values, counts = np.unique(eigenvalues, return_counts=True)
    colors = [_color_of(value) for value in values]
    panel.vlines(values, 0.5, counts, color=colors, linewidth=1.4)
    panel.scatter(values, counts, color=colors, s=14, zorder=3)
    printed = [i for i, row in enumerate(data["row"].values) if row.startswith(name)]
    listed = data["listed"][printed]
    expected = data["expected"][printed]
    ring = {"color": INK, "markersize": 8, "markerfacecolor": "none"}
    panel.plot(listed, expected, "o", **ring)
    panel.axvline(0.0, color=INK, linewidth=0.7)
    panel.set(yscale="log", ylim=(0.5, 3 * counts.max()))
    panel.set(xlabel="eigenvalue", ylabel="multiplicity")
    panel.margins(x=0.12)
    label_panel(panel, name)


def _color_of(eigenvalue: float) -> str:
    """The color of a direction that leads down, is flat, or leads up."""
    if eigenvalue < 0:
        return COLORS[1]
    if eigenvalue == 0:
        return FAINT
    return COLORS[0]


def _draw_classes(panel: Any, data: "Dataset") -> None:
    """Risk of every class against the share of directions that lead down."""
    s = data["class_s"].values
    r = data["class_r"].values
    kinds = {
        "plateaus $(0, r)$": s == 0,
        "aligned $(s, 0)$": (r == 0) & (s > 0),
        "mixed $(s, r)$": (s > 0) & (r > 0),
    }
    for look, (label, chosen) in enumerate(kinds.items()):
        marks = {
            "marker": MARKERS[look],
            "color": COLORS[look],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 5,
        }
        down = data["class_down"][chosen]
        panel.plot(down, data["class_risk"][chosen], label=label, **marks)
    panel.set(
        xlabel="share of directions that lead down",
        ylabel=r"risk $\mathcal{R}$",
        xlim=(-0.04, 1.05),
    )
    panel.legend(loc="upper left", handlelength=1.0)
    label_panel(panel, "all critical points")


def _draw_ratio(panel: Any, data: "Dataset") -> None:
    """Negative over null eigenvalues on the plateau against eq. 29."""
    k = data["p_teacher"].values
    fits = _fits(data).values
    ratio = data["ratio"].values
    predicted = _eq_29(data).values
    line = np.linspace(0, 1.05 * predicted[fits].max(), 2)
    panel.plot(line, line, color=FAINT, linestyle=DASHES[2])
    for look, width in enumerate(np.unique(k[fits])):
        chosen = fits & (k == width)
        marks = {"color": COLORS[look % len(COLORS)], "markerfacecolor": "white"}
        marker = MARKERS[look % len(MARKERS)]
        label = f"$p^* = {width}$"
        panel.plot(predicted[chosen], ratio[chosen], marker, label=label, **marks)
    panel.set(
        xlabel=r"eq. 29: $p^*/(N - p^* - p/2 - 1/2)$",
        ylabel="negative / null, numerical",
    )
    panel.legend(loc="upper left", handlelength=1.0)
    label_panel(panel, "the plateau")


# Triples [p, p*, N].
SMALL_WIDTHS = [
    [1, 1, 5],
    [2, 2, 7],
    [3, 3, 9],
    [4, 4, 10],
    [2, 1, 6],
    [3, 1, 8],
    [6, 1, 10],
    [3, 2, 8],
    [4, 2, 9],
    [5, 2, 9],
    [5, 3, 10],
    [6, 3, 12],
    [5, 4, 11],
    [2, 3, 8],
    [1, 3, 6],
]
LARGE_WIDTHS = [
    *SMALL_WIDTHS,
    [6, 3, 60],
    [8, 3, 40],
    [10, 5, 40],
    [12, 8, 30],
    [16, 8, 26],
]

FIGURES = (
    Replica(
        id="quad-8",
        source="quad",
        figure="eq. 29, sec. 7.2",
        title="Hessian spectra at every critical point",
        full={
            "widths": LARGE_WIDTHS,
            "shown": [6, 3, 60],
            "search": [3, 2, 6],
            "searches": 200,
            "seed": 1,
        },
        quick={
            "widths": SMALL_WIDTHS,
            "shown": [6, 3, 20],
            "search": [2, 2, 4],
            "searches": 60,
            "seed": 1,
        },
        compute=compute_8,
        draw=draw_8,
        claims=claims_8,
    ),
)
