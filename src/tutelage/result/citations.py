"""The papers behind a result, from one table of works: bibliography.toml.

`REASONS` says which trait of a problem a work stands for. docs/bibliography.md is written
from the same table (docs/_site/bibliography.py).
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from tutelage._html import bullets, card
from tutelage._version import __version__
from tutelage.problem import (
    Drift,
    GradientDescent,
    HiddenManifold,
    Mixture,
    Network,
    PowerLaw,
    Problem,
    Replay,
    Tasks,
)
from tutelage.problem.activation import NAMED_ACTIVATIONS
from tutelage.training import rules
from tutelage.training.optimizers import SGD, AdaGrad, Adam, Muon, RMSprop, SignSGD

TABLE = Path(__file__).with_name("bibliography.toml")
# The fields of BibTeX for each kind of work: its name there, and ours.
ENTRY_TYPES = {
    "article": "article",
    "book": "book",
    "inproceedings": "inproceedings",
    "preprint": "misc",
    "software": "software",
}
FIELDS = {
    "title": "title",
    "journal": "journal",
    "conference": "booktitle",
    "volume": "volume",
    "page": "pages",
    "publisher": "publisher",
    "arxiv": "eprint",
    "version": "version",
    "license": "license",
}


@dataclass(frozen=True)
class Work:
    """A paper, a book or a program.

    `published` is where it appeared, in words; with `marked`, names are in Markdown.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    title: str
    year: int
    subject: str = ""
    note: str = ""
    edited: bool = False
    journal: str = ""
    conference: str = ""
    volume: str = ""
    page: str = ""
    publisher: str = ""
    arxiv: str = ""
    version: str = ""
    license: str = ""

    def __str__(self) -> str:
        return self.text()

    def text(self, mark: str = "") -> str:
        """Return the reference as one line; mark: around names, "*" for Markdown."""
        names = self.authors[-1]
        if len(self.authors) > 1:
            names = f"{', '.join(self.authors[:-1])} and {names}"
        if self.edited:
            names += " (ed.)"
        if self.kind == "book":
            parts = [names, f"{mark}{self.title}{mark}", self.publisher]
        elif self.kind == "preprint":
            parts = [names, self.title, f"arXiv:{self.arxiv}"]
        elif self.kind == "software":
            parts = [names, self.title, f"version {self.version}"]
        elif self.kind == "inproceedings":
            parts = [names, self.title, f"{mark}{self.conference}{mark}"]
        else:
            place = f"{mark}{self.journal}{mark} {self.volume}"
            parts = [names, self.title, place, self.page]
        return f"{', '.join(parts)} ({self.year})"

    @property
    def bibtex(self) -> str:
        """The entry for BibTeX."""
        people = "editor" if self.edited else "author"
        names = " and ".join(self.authors)
        if self.kind == "software":
            names = f"{{{names}}}"  # not a person's name
        fields = {people: names}
        for name, bibtex_name in FIELDS.items():
            value = getattr(self, name)
            if value:
                fields[bibtex_name] = value
        if self.arxiv:
            fields["archiveprefix"] = "arXiv"
        fields["year"] = str(self.year)
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        head = f"@{ENTRY_TYPES[self.kind]}{{{self.key},"
        return "\n".join([head, *lines, "}"])


@dataclass(frozen=True)
class References:
    """Works with the reason for each; `print` shows text, `.bibtex` has the entries.

    Attributes
    ----------
    works : tuple of Work
        Each has key, authors, title, year and more, and `.bibtex`.
    reasons : tuple of str
        What each work is cited for.
    """

    works: tuple[Work, ...]
    reasons: tuple[str, ...]

    @property
    def bibtex(self) -> str:
        """All entries for BibTeX."""
        return "\n\n".join(work.bibtex for work in self.works)

    def lines(self) -> list[str]:
        """Return one line per work: the reference, and what it is cited for."""
        pairs = zip(self.works, self.reasons, strict=True)
        return [f"{work}: {reason}" for work, reason in pairs]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        entries = f"<details><summary>BibTeX</summary><pre>{escape(self.bibtex)}</pre>"
        return card("References", bullets(self.lines()), f"{entries}</details>")


@cache
def bibliography() -> dict[str, Work]:
    """Return all works by their keys."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    works = [
        Work(**entry | {"authors": tuple(entry["authors"])}) for entry in table["work"]
    ]
    return {work.key: work for work in works}


def _software() -> Work:
    return Work(
        key="tutelage",
        kind="software",
        authors=("The tutelage developers",),
        title="tutelage: exact learning dynamics of neural networks",
        year=2026,
        version=__version__,
        license="Apache-2.0",
    )


def _has(part: str, kind: Any) -> Callable[[Problem], bool]:
    return lambda problem: isinstance(getattr(problem, part), kind)


def _has_tasks_with(kind: Any) -> Callable[[Problem], bool]:
    def holds(problem: Problem) -> bool:
        tasks = problem.several_tasks
        if tasks is None:
            return False
        return isinstance(tasks.schedule, kind) or isinstance(tasks.drift, kind)

    return holds


def _activation(name: str) -> Callable[[Problem], bool]:
    return lambda problem: problem.student.activation == NAMED_ACTIVATIONS[name]


# The works behind a problem: key, what it is cited for, and when.
def _uses_one_scale(problem: Problem) -> bool:
    return isinstance(problem.optimizer, AdaGrad) and problem.optimizer.norm


def _clips(problem: Problem) -> bool:
    optimizer = problem.optimizer
    if not isinstance(optimizer, SGD):
        return False
    return optimizer.clip is not None or optimizer.clip_coordinates is not None


REASONS: tuple[tuple[str, str, Callable[[Problem], bool]], ...] = (
    ("saad1995exact", "order-parameter equations", lambda problem: True),
    ("biehl1995learning", "order-parameter equations", lambda problem: True),
    (
        "goldt2019dynamics",
        "student and teacher of different sizes",
        lambda problem: problem.student.hidden != problem.references.hidden,
    ),
    (
        "richert2022soft",
        "more student than teacher units",
        lambda problem: (
            isinstance(problem.teacher, Network)
            and problem.student.hidden > problem.teacher.hidden
        ),
    ),
    (
        "riegler1995online",
        "trained readouts",
        lambda problem: problem.student.train_readout,
    ),
    ("cho2009kernel", "averages of ReLU units", _activation("relu")),
    ("bocchi2026escape", "quadratic networks", _activation("quadratic")),
    ("goldt2020modeling", "hidden manifold", _has("inputs", HiddenManifold)),
    ("refinetti2021classifying", "Gaussian mixtures", _has("inputs", Mixture)),
    (
        "yoshida2019data",
        "equations for correlated inputs",
        lambda problem: problem.inputs.classes is None and problem.inputs.levels > 1,
    ),
    ("worschech2024analyzing", "power-law spectra", _has("inputs", PowerLaw)),
    (
        "refinetti2021align",
        "feedback alignment",
        _has("rule", rules.FeedbackAlignment),
    ),
    ("patel2023rl", "learning from rewards", _has("rule", rules.Reinforce)),
    ("xiao2024exact", "the limit of sign-SGD", _has("optimizer", SignSGD)),
    ("bernstein2018signsgd", "sign-SGD", _has("optimizer", SignSGD)),
    ("kingma2015adam", "Adam", _has("optimizer", Adam)),
    ("tieleman2012lecture", "RMSprop", _has("optimizer", RMSprop)),
    ("duchi2011adaptive", "AdaGrad", _has("optimizer", AdaGrad)),
    ("collins2024high", "the limit of AdaGrad-norm", _uses_one_scale),
    ("jordan2024muon", "Muon", _has("optimizer", Muon)),
    ("marshall2024clip", "the limit of clipped gradients", _clips),
    (
        "mignacco2020dynamical",
        "samples that are used again: dynamical mean-field theory",
        lambda problem: problem.data is not None,
    ),
    (
        "celentano2021high",
        "gradient descent on a data set",
        lambda problem: isinstance(problem.optimizer, GradientDescent),
    ),
    (
        "paquette2021sgd",
        "a linear unit on a data set",
        lambda problem: (
            problem.data is not None
            and problem.student.activation.polynomial == (0.0, 1.0)
        ),
    ),
    ("lee2021continual", "several tasks", _has("teacher", Tasks)),
    ("mori2025optimal", "replay", _has_tasks_with(Replay)),
    ("straat2018statistical", "drifting teachers", _has_tasks_with(Drift)),
)
FINITE_SIZE = (
    ("barber1996finite", "fluctuations at finite N"),
    ("wang2017scaling", "convergence to the limit of large N"),
)
STIFF = ("steinebach2023construction", "the stiff solver")


def behind_trajectory(trajectory: Any) -> References:
    """Return the works behind a `Trajectory`, this library first."""
    return _references(_reasons_of(trajectory))


def behind_analysis(keys: Iterable[str]) -> References:
    """Return works by their keys, this library first; each is cited for its note."""
    return _references([(key, bibliography()[key].note) for key in keys])


def behind_comparison(theory: Any, runs: Any) -> References:
    """Return the works behind a comparison of a theory with its runs."""
    reasons = [*_reasons_of(theory), *_reasons_of(runs)]
    if theory.problem is not None:
        reasons += FINITE_SIZE
    return _references(reasons)


def _reasons_of(trajectory: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys of works, and what each is cited for."""
    problem = trajectory.problem
    if problem is not None:
        for key, reason, holds in REASONS:
            if holds(problem):
                yield key, reason
    if dict(trajectory.settings).get("solver") == "stiff":
        yield STIFF


def _references(reasons: Any) -> References:
    """Return references without repetition."""
    cited = dict.fromkeys(reasons)
    works = [bibliography()[key] for key, _ in cited]
    return References(
        works=(_software(), *works),
        reasons=("this library", *(reason for _, reason in cited)),
    )
