"""Hessian spectra of quadratic networks: the tables of the source's appendix against numbers, and what they leave out.

Everything here is in the source's units: loss without 1/2 (risk = 2 e_g, eigenvalues twice ours) and weights W / sqrt(N).
"""

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


def printed_table(
    name: str, p: int, p_teacher: int, dim: int
) -> list[tuple[str, float, int]]:
    """The source's spectrum at one of its four points: formula, eigenvalue, multiplicity (sec. 7.2.2)."""
    k = p_teacher
    n = dim
    tables = {
        "tabula rasa": [
            ("-4/p (1 + 2/p*)", -4 / p * (1 + 2 / k), p * k),
            ("-4/p", -4 / p, p * (n - k)),
        ],
        "plateau": [
            ("-8/(p p*)", -8 / (p * k), p * k),
            ("0", 0.0, p * (n - k - p) + p * (p - 1) // 2),
            ("16/(p(p+2))", 16 / (p * (p + 2)), p * (p - 1) // 2 + p - 1),
            ("8/p", 8 / p, 1),
        ],
        "zero error": [
            ("0", 0.0, (n - k) * (p - k) + k * (p - k) + k * (k - 1) // 2),
            ("8/(p p*)", 8 / (p * k), k * (n - k)),
            ("16/(p p*)", 16 / (p * k), k * (k + 1) // 2 - 1),
            ("8(2+p*)/(p p*)", 8 * (2 + k) / (p * k), 1),
        ],
        "all aligned": [
            ("-8(p*+2)/(3 p p*)", -8 * (k + 2) / (3 * p * k), (k - 1) * (p - 1)),
            ("-8(p*-1)/(3 p p*)", -8 * (k - 1) / (3 * p * k), (n - k) * (p - 1)),
            ("0", 0.0, p + k - 2),
            ("8/(p p*)", 8 / (p * k), n - k),
            ("8(2+p*)/(p p*)", 8 * (2 + k) / (p * k), 1),
        ],
    }
    return tables[name]


def place(name: str, p: int, p_teacher: int) -> tuple[int, int]:
    """(s, r) of the source's four points."""
    return {
        "tabula rasa": (0, 0),
        "plateau": (0, p),
        "zero error": (p_teacher, 0),
        "all aligned": (1, 0),
    }[name]


def risk(J: np.ndarray, J_teacher: np.ndarray) -> float:
    """Population risk, eq. 23."""
    (p, k), Q, rho = (len(J), len(J_teacher)), J @ J.T, J @ J_teacher.T
    squares = np.trace(Q) ** 2 + 2 * np.sum(Q**2)
    return float(
        (k + 2) / k
        - 2 / p * np.trace(Q)
        - 4 / (p * k) * np.sum(rho**2)
        + squares / p**2
    )


def gradient(J: np.ndarray, J_teacher: np.ndarray) -> np.ndarray:
    """Its gradient, eq. 24."""
    (p, k), Q, rho = (len(J), len(J_teacher)), J @ J.T, J @ J_teacher.T
    return -4 / p * (J + 2 / k * rho @ J_teacher - (np.trace(Q) * J + 2 * Q @ J) / p)


def hessian(J: np.ndarray, J_teacher: np.ndarray) -> np.ndarray:
    """Its Hessian, eq. 25, as a matrix (p N, p N)."""
    (p, n), k, Q = J.shape, len(J_teacher), J @ J.T
    alone = (
        (1 - np.trace(Q) / p) * np.eye(n)
        + 2 / k * J_teacher.T @ J_teacher
        - 2 / p * J.T @ J
    )
    pairs = (
        np.einsum("ab,ij->aibj", Q, np.eye(n))
        + np.einsum("bi,aj->aibj", J, J)
        + np.einsum("ai,bj->aibj", J, J)
    )
    whole = 2 / p * pairs - np.einsum("ab,ij->aibj", np.eye(p), alone)
    return 4 / p * whole.reshape(p * n, p * n)


def points_of(
    p: int, p_teacher: int, dim: int
) -> "tutelage_papers.quadratic.CriticalPoints":
    """All classes of critical points, in the source's setting."""
    student = tu.Network(p, "quadratic", readout=1 / p)
    teacher = tu.Network(p_teacher, "quadratic", readout=1 / p_teacher)
    return tutelage_papers.quadratic.critical_points(tu.Problem(student, teacher), dim)


def units(
    point: "tutelage_papers.quadratic.CriticalPoint", seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """W and W* of a random member, divided by sqrt(N)."""
    W, W_teacher = point.weights(seed)
    return W / np.sqrt(point.dim), W_teacher / np.sqrt(point.dim)


def compute_8(
    widths: list[list[int]],
    shown: list[int],
    search: list[int],
    searches: int,
    seed: int,
) -> "Dataset":
    """Spectra of all classes for all widths; the four tables of one of them; a blind search for critical points."""
    import xarray as xr

    rows = [_one_width(p, k, n, seed) for p, k, n in widths]
    data = xr.Dataset(
        {name: ("width", [row[name] for row in rows]) for name in rows[0]}
    )
    data = data.assign_coords(
        p=("width", [w[0] for w in widths]), p_teacher=("width", [w[1] for w in widths])
    )
    data = data.assign_coords(N=("width", [w[2] for w in widths]))
    (p, k, n), found = shown, _search(search, searches, seed)
    return (
        data.merge(_tables(p, k, n, seed))
        .merge(_beyond_the_tables(p, k, n, seed))
        .assign(found)
    )


def _one_width(p: int, k: int, n: int, seed: int) -> dict[str, float]:
    """Gaps between what is predicted and the numerical spectrum, of the worst class."""
    gaps: dict[str, list[float]] = {
        name: [0.0]
        for name in ("printed", "classes", "halved", "gradient", "flat", "tangent")
    }
    points = points_of(p, k, n)
    named = {
        place(name, p, k): name
        for name in POINTS
        if p >= k > 1 or (p >= k and name != "all aligned")
    }
    for point in points:
        J, J_teacher = units(point, seed)
        found = np.linalg.eigvalsh(hessian(J, J_teacher))
        ours = np.repeat(
            [c.value for c in point.spectrum], [c.multiplicity for c in point.spectrum]
        )
        gaps["classes"].append(float(np.max(np.abs(2 * ours - found))))
        gaps["gradient"].append(float(np.max(np.abs(gradient(J, J_teacher)))))
        if name := named.get((point.aligned, point.orthogonal)):
            table = printed_table(name, p, k, n)
            listed = np.sort(
                np.repeat([row[1] for row in table], [row[2] for row in table])
            )
            gaps["printed"].append(
                float(np.max(np.abs(listed - found)))
                if listed.size == found.size
                else np.inf
            )
            gaps["halved"].append(float(np.max(np.abs(listed - found / 2))))
        if point.name == "zero error":
            null = int(np.sum(np.abs(found) < SAME))
            tangent = _tangent_rank(J)
            gaps["tangent"].append(abs(tangent - (p * k - k * (k + 1) / 2)))
            gaps["flat"].append(abs(null - tangent - (n - k) * (p - k)))
    plateau = np.linalg.eigvalsh(hessian(*units(points[0, min(p, n - k)], seed)))
    down = np.sum(plateau < -SAME)
    null = np.sum(np.abs(plateau) < SAME)
    return {name: max(values) for name, values in gaps.items()} | {
        "count": len(points),
        "mixed": sum(c.aligned > 0 and c.orthogonal > 0 for c in points),
        "ratio": float(down / null) if null else np.nan,
        "minima": sum(c.index == 0 for c in points),
    }


def _tangent_rank(J: np.ndarray) -> int:
    """Rank of Psi -> Psi W over antisymmetric Psi."""
    p, n = J.shape
    turned = [np.zeros((p, n))]
    for a in range(p):
        for b in range(a):
            move = np.zeros((p, n))
            move[a], move[b] = J[b], -J[a]
            turned.append(move)
    return int(np.linalg.matrix_rank(np.array(turned).reshape(-1, p * n), tol=SAME))


def _tables(p: int, k: int, n: int, seed: int) -> "Dataset":
    """The four spectra of one network: numerical eigenvalues, and how many of them each printed formula has."""
    import xarray as xr

    points = points_of(p, k, n)
    values = []
    rows = []
    for name in POINTS:
        found = np.linalg.eigvalsh(hessian(*units(points[place(name, p, k)], seed)))
        values.append(found)
        for formula, value, multiplicity in printed_table(name, p, k, n):
            rows.append(
                (
                    f"{name}: {formula}",
                    value,
                    multiplicity,
                    int(np.sum(np.abs(found - value) < SAME)),
                )
            )
    names, listed, expected, counted = zip(*rows, strict=True)
    columns = {"listed": listed, "expected": expected, "counted": counted}
    return xr.Dataset(
        {name: ("row", list(column)) for name, column in columns.items()}
        | {"values": (("point", "index"), values), "shown": ("letter", [p, k, n])},
        coords={"row": list(names), "point": list(POINTS)},
    )


def _beyond_the_tables(p: int, k: int, n: int, seed: int) -> "Dataset":
    """All classes of one network; fewer students; the landscape verb; eq. 29 at p = N; how risk grows where it is flat."""
    import xarray as xr

    points = points_of(p, k, n)
    J, J_teacher = units(points[k, 0], seed)
    W, W_teacher = points[1, 1].weights(seed)
    by_verb = 2 * tu.analysis.landscape(points.problem, W, W_teacher).hessian()
    fewer = points_of(k - 1, k, n)[k - 1, 0]
    at_rest = [risk(*units(fewer, seed + i)) for i in range(20)]
    side = min(n, 20)
    square = points_of(side, k, side)[0, side - k]
    alone = points[0, p - 1]
    crowded = np.linalg.eigvalsh(hessian(*units(square, seed)))
    lengths = np.sqrt(
        (p - alone.orthogonal) / 2 / alone.beta
    )  # the stationarity equation as printed, 1 - r/p - 2 alpha/p = 0
    J_alone, T_alone = units(alone, seed)
    return xr.Dataset(
        {
            "class_risk": ("class", [2 * c.error for c in points]),
            "class_down": ("class", [c.index / c.parameters for c in points]),
            "class_s": ("class", [c.aligned for c in points]),
            "class_r": ("class", [c.orthogonal for c in points]),
            "verb_gap": np.max(
                np.abs(by_verb - hessian(W / np.sqrt(n), W_teacher / np.sqrt(n)))
            ),
            "order_flat": _order(J, J_teacher, merely=True),
            "order_up": _order(J, J_teacher, merely=False),
            "fewer_risk": np.mean(at_rest),
            "fewer_spread": np.ptp(at_rest),
            "fewer_predicted": 2 * fewer.error,
            "fewer_lowest": np.linalg.eigvalsh(hessian(*units(fewer, seed)))[0],
            "square_ratio": np.sum(crowded < -SAME) / np.sum(np.abs(crowded) < SAME),
            "square_printed": k / (side / 2 - k - 1 / 2),
            "misprint_gradient": np.max(np.abs(gradient(lengths * J_alone, T_alone))),
        }
    )


def _order(J: np.ndarray, J_teacher: np.ndarray, *, merely: bool) -> float:
    """The power of the distance with which the risk grows: an idle or a working unit turns away from the teachers."""
    left, _, right = np.linalg.svd(J)
    unit = left[:, -1] if merely else left[:, 0]
    outside = right[-1]
    steps = np.array([0.01, 0.02])
    grown = [risk(J + step * np.outer(unit, outside), J_teacher) for step in steps]
    return float(np.log(grown[1] / grown[0]) / np.log(2))


def _search(widths: list[int], searches: int, seed: int) -> dict[str, Any]:
    """Zeros of the gradient from random places: how far each is, in risk, from the nearest predicted class."""
    from scipy.optimize import least_squares

    p, k, n = widths
    points = points_of(p, k, n)
    rng = np.random.default_rng(seed)
    J_teacher = np.eye(n)[:k]
    gaps = []
    mixed = 0
    for scale in np.linspace(0.2, 1.5, searches):
        start = scale * rng.standard_normal(p * n)
        found = least_squares(
            lambda x: gradient(x.reshape(p, n), J_teacher).ravel(),
            start,
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
        )
        if found.cost < 1e-20:
            away = [
                abs(2 * c.error - risk(found.x.reshape(p, n), J_teacher))
                for c in points
            ]
            nearest = points.points[int(np.argmin(away))]
            gaps.append(min(away))
            mixed += nearest.aligned > 0 and nearest.orthogonal > 0
    return {"search_gap": max(gaps), "search_found": len(gaps), "search_mixed": mixed}


def claims_8(data: "Dataset") -> list[Claim]:
    """The printed tables, row by row; all widths; what is flat; what the source leaves out."""
    p, k, n = data["shown"].values.tolist()
    rows = [
        close(
            f"{name} = {value:.6g}, how many of {p} x {n}",
            counted,
            expected,
            absolute=0.0,
        )
        for name, value, counted, expected in zip(
            *(data[x].values for x in ("row", "listed", "counted", "expected")),
            strict=True,
        )
    ]
    widths = f"{data.sizes['width']} triples (p, p*, N)"
    eq_29 = data["p_teacher"] / (data["N"] - data["p_teacher"] - data["p"] / 2 - 1 / 2)
    fits = (data["p"] + data["p_teacher"] <= data["N"]) & np.isfinite(data["ratio"])
    mixed = int(data["mixed"].sum())
    return [
        *rows,
        at_least("how many triples (p, p*, N) are compared", data.sizes["width"], 12),
        at_most(
            f"printed tables, {widths}: largest gap of an eigenvalue",
            float(data["printed"].max()),
            1e-9,
        ),
        at_least(
            "the same with half of each eigenvalue, which must fail",
            float(data["halved"][data["p"] >= data["p_teacher"]].min()),
            1e-2,
        ),
        at_most(
            f"all {int(data['count'].sum())} classes (s, r), {widths}: largest gap",
            float(data["classes"].max()),
            1e-9,
        ),
        at_most(
            "eq. 25 against the Hessian of tu.analysis.landscape (halved loss)",
            float(data["verb_gap"]),
            1e-9,
        ),
        at_most(
            "eq. 29, negative over null eigenvalues: largest gap",
            float(np.abs(data["ratio"] - eq_29)[fits].max()),
            1e-9,
        ),
        at_most(
            "zero error: rank of the tangent space, p p* - p*(p*+1)/2: largest gap",
            float(data["tangent"].max()),
            0.0,
        ),
        at_most(
            "zero error: merely flat directions, (N-p*)(p-p*): largest gap",
            float(data["flat"].max()),
            0.0,
        ),
        close(
            "risk along a merely flat direction grows with the power",
            float(data["order_flat"]),
            4.0,
            absolute=0.01,
        ),
        close(
            "risk along a positive direction grows with the power",
            float(data["order_up"]),
            2.0,
            absolute=0.01,
        ),
        at_most(
            "mixed points (s, r): largest entry of the gradient at any class",
            float(data["gradient"].max()),
            1e-10,
        ),
        refuted(
            at_most(
                "classes of critical points with s > 0 and r > 0",
                mixed,
                0.0,
                says="three fundamental classes",
            ),
            evidence="their gradient vanishes, their predicted spectra equal the numerical ones, a blind search finds them",
        ),
        above(
            "blind search: mixed points among the zeros of the gradient",
            float(data["search_mixed"]),
            0.0,
        ),
        at_most(
            "blind search: largest gap in risk to the nearest class (s, r)",
            float(data["search_gap"]),
            1e-8,
        ),
        close(
            "classes without a way down, at each triple",
            float(data["minima"].mean()),
            1.0,
            absolute=0.0,
        ),
        close(
            f"p = {k - 1} < p* = {k}: risk of the best fit",
            float(data["fewer_risk"]),
            float(data["fewer_predicted"]),
            rel=1e-9,
        ),
        at_most(
            "p < p*: spread of the risk over its manifold",
            float(data["fewer_spread"]),
            1e-10,
        ),
        at_least("p < p*: lowest eigenvalue there", float(data["fewer_lowest"]), -1e-9),
        refuted(
            close(
                "eq. 29 at p = N",
                float(data["square_ratio"]),
                float(data["square_printed"]),
                rel=0.01,
            ),
            evidence="p students orthogonal to each other and to p* teachers need p + p* <= N; measured at rank N - p*",
        ),
        refuted(
            at_most(
                "gradient where the printed 1 - rank/p - 2 alpha/p = 0 puts alpha",
                float(data["misprint_gradient"]),
                1e-10,
            ),
            evidence="rank/p lacks alpha; with it alpha = p/(2 + rank), as printed right after, and the gradient vanishes",
        ),
    ]


def draw_8(data: "Dataset") -> "Figure":
    """Four spectra, all classes, and eq. 29."""
    p, k, n = data["shown"].values.tolist()
    title = (
        "Curvature of the population risk at the critical points of a quadratic network"
    )
    small = f"Loss without 1/2. Spectra: $p = {p}$, $p^* = {k}$, $N = {n}$; rings: the printed tables; dots: numerical."
    figure, axes = panel_grid(2, 3, title, small, height=2.6)
    for panel, name in zip(axes.ravel(), POINTS, strict=False):
        _draw_spectrum(panel, data, name)
    _draw_classes(axes[1, 1], data)
    _draw_ratio(axes[1, 2], data)
    return figure


def _draw_spectrum(panel: Any, data: "Dataset", name: str) -> None:
    values, counts = np.unique(
        np.round(data["values"].sel(point=name).values, 7), return_counts=True
    )
    colors = [COLORS[1] if v < 0 else FAINT if v == 0 else COLORS[0] for v in values]
    panel.vlines(values, 0.5, counts, color=colors, linewidth=1.4)
    panel.scatter(values, counts, color=colors, s=14, zorder=3)
    printed = [i for i, row in enumerate(data["row"].values) if row.startswith(name)]
    panel.plot(
        data["listed"][printed],
        data["expected"][printed],
        "o",
        color=INK,
        markersize=8,
        markerfacecolor="none",
    )
    panel.axvline(0.0, color=INK, linewidth=0.7)
    panel.set(
        yscale="log",
        ylim=(0.5, 3 * counts.max()),
        xlabel="eigenvalue",
        ylabel="multiplicity",
    )
    panel.margins(x=0.12)
    label_panel(panel, name)


def _draw_classes(panel: Any, data: "Dataset") -> None:
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
        }
        panel.plot(
            data["class_down"][chosen],
            data["class_risk"][chosen],
            label=label,
            markersize=5,
            **marks,
        )
    panel.set(
        xlabel="share of directions that lead down",
        ylabel=r"risk $\mathcal{R}$",
        xlim=(-0.04, 1.05),
    )
    panel.legend(loc="upper left", handlelength=1.0)
    label_panel(panel, "all critical points")


def _draw_ratio(panel: Any, data: "Dataset") -> None:
    p, k, n = (data[name].values for name in ("p", "p_teacher", "N"))
    fits = np.isfinite(data["ratio"].values) & (p + k <= n)
    predicted = k / (n - k - p / 2 - 1 / 2)
    line = np.linspace(0, 1.05 * predicted[fits].max(), 2)
    panel.plot(line, line, color=FAINT, linestyle=DASHES[2])
    for look, width in enumerate(np.unique(k[fits])):
        chosen = fits & (k == width)
        panel.plot(
            predicted[chosen],
            data["ratio"].values[chosen],
            MARKERS[look % len(MARKERS)],
            color=COLORS[look % len(COLORS)],
            markerfacecolor="white",
            label=f"$p^* = {width}$",
        )
    panel.set(
        xlabel=r"eq. 29: $p^*/(N - p^* - p/2 - 1/2)$",
        ylabel="negative / null, numerical",
    )
    panel.legend(loc="upper left", handlelength=1.0)
    label_panel(panel, "the plateau")


SMALL_WIDTHS = [
    *([1, 1, 5], [2, 2, 7], [3, 3, 9], [4, 4, 10], [2, 1, 6], [3, 1, 8], [6, 1, 10]),
    *(
        [3, 2, 8],
        [4, 2, 9],
        [5, 2, 9],
        [5, 3, 10],
        [6, 3, 12],
        [5, 4, 11],
        [2, 3, 8],
        [1, 3, 6],
    ),
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
