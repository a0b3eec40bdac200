"""Every figure that can be replicated: where it comes from, its parameters as data, and
three functions.

A module of figures ends with a table, `FIGURES`, and is named in `MODULES`; that is all it
takes to add one (CONTRIBUTING.md shows the skeleton). Modules of figures use the public names
of the library only and never import each other, and importing them loads no JAX, so that
listing the figures is quick.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tutelage import InputError
from tutelage_papers.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# Modules of tutelage_papers.figures.
MODULES = (
    "primer.finite_networks",
    "primer.transition",
    "primer.large_starts",
    "primer.both_layers",
    "primer.limits",
    "power.plateau_lengths",
    "power.learning_curves",
    "power.scaled_features",
    "power.raw_coordinates",
    "power.plateau_heights",
    "power.escape_rates",
    "power.decay",
    "power.linear_sum",
    "power.feature_modes",
    "power.real_data",
    "power.floors",
    "power.plateau_moments",
    "power.teacher_spread",
    "power.crossover",
    "power.exponents",
    "notes.regression",
    "notes.concentration",
    "notes.relu",
    "notes.ingredients",
    "notes.schedule",
    "notes.phases",
    "quad.finite_networks",
    "quad.learning_rates",
    "quad.implicit_bias",
    "quad.counting",
    "quad.overparameterization",
    "quad.spectra",
    "quad.noisy_solutions",
    "quad.other_settings",
    "beyond.noise_floor",
    "beyond.error_bars",
    "beyond.escapes",
    "beyond.million",
    "beyond.soft_modes",
    "beyond.initialization",
    "beyond.copies",
    "beyond.large_width",
    "rules.one_unit",
    "rules.flipped_labels",
    "rules.committee",
    "rules.heavy_tails",
    "rules.feedback_alignment",
    "rules.dropout",
    "rules.reinforce",
    "rules.reuse",
    "rules.sampling",
    "tasks.similarity",
    "tasks.replay",
    "tasks.transfer",
    "tasks.drift",
    "inputs.exclusive_or",
    "inputs.hidden_manifold",
    "inputs.random_features",
    "inputs.real_images",
    "control.protocols",
    "optimizers.curves",
    "optimizers.best_rates",
    "optimizers.power_law",
    "optimizers.memory",
    "data.overfitting",
    "data.epochs",
    "data.linear_unit",
    "data.logistic",
    "data.batches",
    "static.minima",
    "static.bayes",
    "static.samples",
    "static.exponents",
)

SOURCES = {
    "primer": "A primer on the analytical learning dynamics of nonlinear neural networks",
    "power": "Online learning with power-law spectra",
    "notes": "Notes on the dynamical analysis of online SGD in high dimension",
    "quad": "Online learning of quadratic networks",
    "beyond": "Beyond the four sources",
    "rules": "Learning rules: any loss, any label, any update",
    "tasks": "Tasks over time: continual learning, replay, transfer, drift",
    "inputs": "Inputs that are not one Gaussian: mixtures, hidden manifolds, data",
    "control": "Optimal protocols: tasks, rates, dropout and noise under control",
    "optim": "Optimizers: sign-SGD, RMSprop, Adam, AdaGrad and Muon",
    "data": "A finite data set: epochs, overfitting, early stopping",
    "static": "Where learning ends: minima, smallest errors, thresholds, exponents",
}


@dataclass(frozen=True)
class Replica:
    """One published figure and what it takes to replicate it.

    id: "primer-1". source: a key of `SOURCES`. figure: its number there. title: one line in
    words. full, quick: the parameters as numbers, words and lists: those printed in the
    source, and a cheaper set for the tests. compute: called as compute(**parameters), does
    all the work and returns a Dataset that holds all that the other two need. draw: Dataset
    -> Figure, called in the style of the library. claims: Dataset -> every `Claim`, as a
    list or a generator. Both are quick: they only read. page: Dataset -> HTML, for a figure
    that is also an interactive page.
    """

    id: str
    source: str
    figure: str
    title: str
    full: Mapping[str, Any]
    quick: Mapping[str, Any]
    compute: Callable[..., "Dataset"]
    draw: Callable[["Dataset"], "Figure"]
    claims: Callable[["Dataset"], Iterable[Claim]]
    page: Callable[["Dataset"], str] | None = None

    def parameters(self, quick: bool) -> dict[str, Any]:
        """Return the parameters of one of the two versions."""
        return dict(self.quick if quick else self.full)

    def name(self, quick: bool) -> str:
        """Return the stem of the names of its files."""
        return f"{self.id}-quick" if quick else self.id

    def command(self, quick: bool) -> str:
        """Return the command that computes and draws it."""
        command = f"tutelage replicate {self.id}"
        if quick:
            command += " --quick"
        return command


def replicas() -> dict[str, Replica]:
    """Return all figures by id: source by source, and within each by their numbers."""
    figures: list[Replica] = []
    for name in MODULES:
        figures += import_module(f"tutelage_papers.figures.{name}").FIGURES
    return {figure.id: figure for figure in sorted(figures, key=_place)}


def _place(figure: Replica) -> tuple[int, int]:
    """The place of the source, and the number of the figure within it.

    Figures that are not numbered within their source have number 0: they stay in the order
    of `MODULES`.
    """
    source = list(SOURCES).index(figure.source)
    name, _, number = figure.id.rpartition("-")
    if name == figure.source:
        return source, int(number)
    return source, 0


def find(ids: list[str] | tuple[str, ...]) -> list[Replica]:
    """Return the figures of these ids; an unknown one raises InputError."""
    from difflib import get_close_matches

    known = replicas()
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" The nearest is {near[0]!r}." if near else ""
            allowed = ", ".join(known)
            raise InputError(
                f"there is no figure {name!r}; it must be one of {allowed}.{hint}"
            )
    return [known[name] for name in dict.fromkeys(ids)]
