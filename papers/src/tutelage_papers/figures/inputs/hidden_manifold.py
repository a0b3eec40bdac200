"""Inputs on a hidden manifold: the theory against SGD on x = sigma(F c / sqrt(D)) itself, and the floor of the error.

The student is tested on fresh x, so that Gaussian equivalence is tested too. The floor: with the share u of the teacher's
fields unseen, E[g(rho) | visible part] = erf(visible part / sqrt(2 (1 + u))) is a student of the same width, and leaves
    e_g = (M / pi) (pi/6 - arcsin((1 - u) / 2)).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SIGMAS = ("sign", "erf", "relu")
WIDE = 200  # N of the floors; the ratio alone matters


def floor(unseen: Any, units: int = 2) -> Any:
    """The least error of erf students of `units` orthonormal erf teachers."""
    return units / np.pi * (np.pi / 6 - np.arcsin((1 - unseen) / 2))


def features_of(name: str, fields: np.ndarray) -> np.ndarray:
    """sigma, centered, written out once more."""
    from scipy.special import erf

    if name == "sign":
        return np.sign(fields)
    return (
        erf(fields / np.sqrt(2))
        if name == "erf"
        else np.maximum(fields, 0.0) - 1 / np.sqrt(2 * np.pi)
    )


def tested_sgd(
    name: str,
    F: Any,
    W: Any,
    beta: Any,
    lr: float,
    steps: np.ndarray,
    runs: int,
    tests: int,
    seed: int,
) -> np.ndarray:
    """e_g on fresh x (runs, time) of plain SGD on x, all networks from the weights W; each has its own samples."""
    from scipy.special import erf

    (N, D), rng, W, errors = (
        F.shape,
        np.random.default_rng(seed),
        np.repeat(W[None], runs, axis=0),
        [],
    )

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        c = rng.standard_normal((count, D))
        return features_of(name, c @ F.T / np.sqrt(D)), erf(
            c @ beta.T / np.sqrt(2 * D)
        ).sum(axis=1)

    def tested(w: np.ndarray) -> float:
        x, y = draw(tests)
        return float(np.mean((y - erf(x @ w.T / np.sqrt(2 * N)).sum(axis=1)) ** 2) / 2)

    for step in range(steps[-1] + 1):
        if step in steps:
            errors.append([tested(w) for w in W])
        x, y = draw(runs)
        fields = np.einsum("rkn,rn->rk", W, x) / np.sqrt(N)
        delta = (
            (y - erf(fields / np.sqrt(2)).sum(axis=1))[:, None]
            * np.sqrt(2 / np.pi)
            * np.exp(-(fields**2) / 2)
        )
        W += lr / np.sqrt(N) * delta[:, :, None] * x[:, None]
    return np.array(errors).T


def compute_2(
    lr: float,
    share: float,
    ratios: list[float],
    scale: float,
    end: float,
    points: int,
    dim: int,
    runs: int,
    tests: int,
    features: str,
    flow_end: float,
    seed: int,
) -> "Dataset":
    """Theory with and without the unseen part and measured errors for one D/N; floors for all D/N."""
    import xarray as xr

    rng = np.random.default_rng(seed)
    D = round(share * dim)
    F = rng.standard_normal((dim, D))
    beta = rng.standard_normal((2, D))
    W = scale * rng.standard_normal((2, dim))
    steps = np.unique(np.linspace(0, end * dim, points).round().astype(int))
    curves: dict[str, list[Any]] = {
        "error": [],
        "blind": [],
        "measured": [],
        "unseen": [],
        "flow": [],
    }
    for i, name in enumerate(SIGMAS):
        inputs = tu.HiddenManifold(F, name, levels=dim)
        teacher = tu.Network(
            2, "erf", gram=beta @ beta.T / D, unseen=inputs.unseen_part(beta)
        )
        problem = tu.Problem(tu.Network(2, "erf"), teacher, inputs, tu.SGD(lr))
        start = tu.start_from_weights(problem, W, beta)
        theory = tu.solve(problem, start, steps / dim)
        blind = problem.replace(**{"teacher.unseen": np.zeros((2, 2))})
        curves["error"].append(theory.error)
        curves["blind"].append(tu.solve(blind, start, steps / dim).error)
        curves["measured"].append(
            tested_sgd(
                name, inputs.features, W, beta, lr, steps, runs, tests, seed + 1 + i
            )
        )
        floors = []
        unseen = []
        for ratio in ratios:
            wide = tu.HiddenManifold(features, name, round(ratio * WIDE), dim=WIDE)
            limit = tu.Problem(
                tu.Network(2, "erf"), tu.Network(2, "erf"), wide, tu.SGD(lr)
            )
            times = np.concatenate([[0.0], np.geomspace(1.0, flow_end, 20)])
            floors.append(
                float(
                    tu.solve(
                        limit, tu.asymmetric_start(limit), times, gradient_flow=True
                    ).error[-1]
                )
            )
            unseen.append(float(wide.unseen_share))
        curves["flow"].append(floors)
        curves["unseen"].append(unseen)
    both = ("sigma", "time")
    return xr.Dataset(
        {
            "error": (both, np.array(curves["error"])),
            "blind": (both, np.array(curves["blind"])),
            "measured": (both, np.array([x.mean(axis=0) for x in curves["measured"]])),
            "measured_se": (
                both,
                np.array(
                    [x.std(axis=0, ddof=1) / np.sqrt(runs) for x in curves["measured"]]
                ),
            ),
            "flow": (("sigma", "ratio"), np.array(curves["flow"])),
            "unseen": (("sigma", "ratio"), np.array(curves["unseen"])),
            "features": features,
            **{"dim": dim, "dim_latent": D, "runs": runs, "lr": lr},
        },
        coords={"time": steps / dim, "sigma": list(SIGMAS), "ratio": ratios},
    )


def claims_2(data: "Dataset") -> list[Claim]:
    """Within three standard errors at the end and nearly everywhere; not so without the unseen part; the floors."""
    claims = []
    for name in SIGMAS:
        one = data.sel(sigma=name)
        z, z_blind = (
            (one["measured"] - one[theory]) / one["measured_se"]
            for theory in ("error", "blind")
        )
        claims += [
            at_most(
                f"{name}: |z| of the test error on fresh x at the end",
                abs(float(z[-1])),
                3.0,
            ),
            at_most(
                f"{name}: largest |z| along the curve", float(np.abs(z).max()), 4.0
            ),
            above(
                f"{name}: |z| of the theory without the unseen part, which must fail",
                abs(float(z_blind[-1])),
                3.0,
            ),
        ]
        gap = np.abs(one["flow"] / floor(one["unseen"]) - 1)
        claims.append(
            below(
                f"{name}: largest relative gap between the floor and that of the unseen part",
                float(gap.max()),
                0.01,
            )
        )
    rises = float(data["unseen"].diff("ratio").min())
    return [
        *claims,
        above("least rise of the unseen share between two D/N", rises, 0.0),
    ]


def draw_2(data: "Dataset") -> "Figure":
    """Curves with measured errors, and floors against D/N."""
    small = (
        f"Two erf units, rate {float(data['lr']):g}. Left: N = {int(data['dim'])}, D = {int(data['dim_latent'])}; thin: theory without the "
        f"unseen part; marks: {int(data['runs'])} networks, fresh x, ± 2 s.e. Right: {data['features'].item()} F; marks: gradient flow."
    )
    figure, axes = panel_grid(
        1, 2, "Inputs on a hidden manifold", small, height=3.2, width=10.5
    )
    left, right = axes[0]
    for i, name in enumerate(SIGMAS):
        one = data.sel(sigma=name)
        look = {"color": COLORS[i], "linestyle": DASHES[i]}
        left.plot(one["time"], one["error"], label=name, **look)
        left.plot(
            one["time"],
            one["blind"],
            color=COLORS[i],
            linestyle=DASHES[i],
            linewidth=0.8,
            alpha=0.4,
        )
        left.errorbar(
            one["time"],
            one["measured"],
            2 * one["measured_se"],
            fmt="o",
            markersize=3,
            color=COLORS[i],
        )
        right.plot(data["ratio"], floor(one["unseen"]), label=name, **look)
        right.plot(data["ratio"], one["flow"], "o", color=COLORS[i], markersize=4)
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(xlabel="latent dimension, D/N", ylabel=r"floor of $\epsilon$")
    for panel, text in zip(axes[0], ("learning", "floors"), strict=True):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    return figure


PRINTED: dict[str, Any] = {"lr": 0.5, "share": 0.5, "scale": 0.5, "seed": 82}

FIGURES = (
    Replica(
        id="inputs-2",
        source="inputs",
        figure="hidden manifold",
        title="Inputs on a hidden manifold: test error on real samples, and its floor",
        full=PRINTED
        | {
            "ratios": [0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0],
            "end": 10.0,
            "points": 11,
            "dim": 800,
            "runs": 12,
            "tests": 10_000,
            "features": "random",
            "flow_end": 3000.0,
        },
        quick=PRINTED
        | {
            "ratios": [0.1, 0.5, 1.0, 2.0],
            "end": 6.0,
            "points": 4,
            "dim": 400,
            "runs": 12,
            "tests": 5_000,
            "features": "orthogonal",
            "flow_end": 1500.0,
        },
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
