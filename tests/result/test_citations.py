"""The papers behind a result: chosen by its traits, as text and as BibTeX."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tutelage as tu
from tutelage.result.citations import FINITE_SIZE, REASONS, STIFF, bibliography

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from _site.bibliography import PAGE, page  # noqa: E402

ERF = tu.Network(2, "erf")
RELU = tu.Network(2, "relu", train_readout=True)
MIXTURE = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
LINEAR = tu.Network(1, "linear")
STIFF_PROBLEM = tu.Problem(ERF, ERF)
BASE = {"saad1995exact", "biehl1995learning"}


def trajectory_of(problem):
    """A trajectory without a solve: only its problem and settings are read."""
    nothing = np.zeros(1)
    return tu.Trajectory(
        times=nothing,
        variables={},
        error=nothing,
        status_code=np.array(0),
        end_time=np.array(0.0),
        steps=np.array(0),
        problem=problem,
        settings=(("solver", "stiff"),) if problem is STIFF_PROBLEM else (),
    )


def keys(problem):
    """The keys that a trajectory of this problem cites, without this library."""
    cited = trajectory_of(problem).cite()
    first, *others = [work.key for work in cited.works]
    assert first == "tutelage"
    assert len(set(others)) == len(others)
    return set(others)


@pytest.mark.parametrize(
    ("problem", "more"),
    [
        (tu.Problem(ERF, ERF), set()),
        (tu.Problem(RELU, ERF.changed(activation="relu")), "cho riegler"),
        (tu.Problem(tu.Network(3, "erf"), ERF), "goldt2019 richert"),
        (tu.Problem(ERF, ERF, inputs=tu.PowerLaw(1.0, levels=3)), "worschech yoshida"),
        (tu.Problem(ERF, ERF, rule=tu.rules.FeedbackAlignment(1.0)), "align"),
        (tu.Problem(ERF, ERF, optimizer=tu.optimizers.Adam(0.3)), "kingma"),
        (tu.Problem(ERF, ERF, optimizer=tu.optimizers.RMSprop(0.3)), "tieleman"),
        (
            tu.Problem(ERF, ERF, optimizer=tu.optimizers.AdaGrad(0.3, norm=True)),
            "duchi collins",
        ),
        (
            tu.Problem(ERF, ERF, optimizer=tu.optimizers.SignSGD(0.3)),
            "xiao bernstein",
        ),
        (tu.Problem(ERF, ERF, optimizer=tu.optimizers.Muon(0.3, 2)), "jordan"),
        (tu.Problem(ERF, ERF, optimizer=tu.SGD(0.3, clip=1.0)), "marshall"),
        (STIFF_PROBLEM, "steinebach"),
        (tu.Problem(ERF, inputs=MIXTURE, loss="logistic"), "goldt2019 classifying"),
        (tu.Problem(ERF, tu.Tasks([ERF, ERF])), "lee2021 goldt2019"),
        (tu.Problem(ERF, ERF, data=tu.DataSet(2.0)), "mignacco"),
        (
            tu.Problem(
                LINEAR,
                LINEAR,
                data=tu.DataSet(2.0),
                optimizer=tu.optimizers.GradientDescent(0.1),
            ),
            "mignacco celentano paquette",
        ),
    ],
)
def test_works_follow_from_the_traits_of_the_problem(problem, more):
    others = keys(problem) - BASE
    words = more.split() if more else []
    assert len(others) == len(words)
    for word in words:
        assert any(word in key for key in others), word


def test_custom_equations_cite_the_library_alone():
    cited = trajectory_of(None).cite()
    assert [work.key for work in cited.works] == ["tutelage"]


def test_a_comparison_adds_finite_networks_once():
    problem = tu.Problem(ERF, ERF)
    start = tu.asymmetric_start(problem, dim=50)
    theory = tu.solve(problem, start, [0.0, 1.0])
    runs = tu.simulate(problem, start, times=[0.0, 1.0], runs=3)
    cited = tu.compare(theory, runs, fluctuations=False).cite()
    found = [work.key for work in cited.works]
    assert found.count("saad1995exact") == 1
    assert {key for key, _ in FINITE_SIZE} <= set(found)


def test_text_and_bibtex():
    cited = trajectory_of(tu.Problem(ERF, ERF)).cite()
    text = str(cited)
    assert "Phys. Rev. Lett. 74, 4337 (1995): order-parameter equations" in text
    entries = re.findall(r"^@(\w+)\{(\w+),$", cited.bibtex, flags=re.MULTILINE)
    assert entries[0] == ("software", "tutelage")
    assert ("article", "saad1995exact") in entries
    assert cited.bibtex.count("{") == cited.bibtex.count("}")
    assert "author = {D. Saad and S. A. Solla}," in cited.bibtex
    assert f"version = {{{tu.__version__}}}" in cited.bibtex
    assert "BibTeX" in cited._repr_html_()
    assert repr(cited) == text


def test_every_work_that_is_cited_is_in_the_table():
    cited = [key for key, *_ in (*REASONS, *FINITE_SIZE, STIFF)]
    assert set(cited) <= set(bibliography())
    for work in bibliography().values():
        assert re.fullmatch(r"[a-z]+\d{4}[a-z]+", work.key)
        assert str(work.year) in work.key
        assert work.bibtex.count("{") == work.bibtex.count("}")


def test_the_page_is_written_from_the_table():
    assert PAGE.read_text() == page(), "run python docs/_site/bibliography.py"


def test_the_library_is_cited_as_the_page_says():
    shown = (ROOT / "docs" / "citing.md").read_text()
    work = trajectory_of(None).cite().works[0]
    for value in (work.title, *work.authors, str(work.year), work.license):
        assert value in shown


def test_analyses_of_the_end_of_training_cite_their_works():
    unit = tu.Network(1, "linear")
    problem = tu.Problem(unit, unit, noise=0.3)
    found = tu.analysis.empirical_minimum(problem, 2.0, ridge=0.1)
    cited = found.cite()
    assert [work.key for work in cited.works][:2] == ["tutelage", "gardner1989three"]
    assert "candes2020phase" in cited.bibtex
    assert "separability" in str(cited)
    best = tu.analysis.bayes_optimal(problem, 2.0).cite()
    assert "PNAS* 116" not in str(best)
    assert "PNAS 116, 5451 (2019)" in str(best)
    exponent = tu.analysis.information_exponent(problem).cite()
    assert "benarous2021online" in exponent.bibtex
    # every key of every analysis is in the table
    results = [
        value
        for name in dir(tu.analysis)
        if isinstance(value := getattr(tu.analysis, name), type)
    ]
    for result in results:
        assert set(getattr(result, "sources", ())) <= set(bibliography())
