"""Every example runs as a user runs it, gives the right answer and draws its figure.

The expected numbers come from elsewhere: another function, a formula, networks against theory, a published value. `make docs`
runs this file before it builds the page that shows the examples.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _site import examples as page  # noqa: E402

pytestmark = pytest.mark.site

FOLDER = ROOT / "examples"
LARGEST = 90  # lines of at most 88 columns


def run(name):
    """What main() of an example returns.

    Its figure must be there, and stays for the page of examples.
    """
    answer = page.run(name)
    assert (page.RESULTS / f"{name}.png").stat().st_size > 10_000
    return answer


def test_choose_a_learning_rate():
    answer = run("choose_a_learning_rate")
    assert answer["critical"] == pytest.approx(2.3068277, abs=1e-6)
    assert answer["rate"] == pytest.approx(
        0.588, rel=0.05
    )  # what optimize finds as the best constant rate
    assert answer["error"] == pytest.approx(1.845e-3, rel=0.01)
    assert answer["networks"] == pytest.approx(answer["error"], rel=0.1)
    assert (
        "best constant rate"
        in (page.RESULTS / "choose_a_learning_rate.txt").read_text()
    )


def test_plateau_and_escape():
    answer = run("plateau_and_escape")
    assert answer["fixed_point"] == pytest.approx(0.01464485, rel=1e-6)
    assert answer["height"] == pytest.approx(answer["fixed_point"], rel=0.01)
    assert answer["predicted"] == pytest.approx(
        answer["solved"], abs=1.5
    )  # recorded times are one apart
    assert answer["predicted_later"] == pytest.approx(answer["solved_later"], abs=1.5)
    assert answer["solved_later"] - answer["solved"] == pytest.approx(
        np.log(10) / 0.031618, rel=0.05
    )
    assert (page.RESULTS / "plateau_and_escape.html").stat().st_size < 3_000_000


def test_theory_of_my_data():
    answer = run("theory_of_my_data")
    assert answer["gap"] == pytest.approx(
        0.027, abs=0.005
    )  # digits toward other digits are skewed
    assert answer["not Gaussian"] == pytest.approx(answer["gap"], abs=0.01)
    assert abs(answer["covariances"]) < 0.01
    assert sum(
        answer[name] for name in ("finite N", "covariances", "not Gaussian")
    ) == pytest.approx(answer["gap"])


def test_overparameterize_with_noise():
    answer = run("overparameterize_with_noise")
    for students, (error, formula) in answer.items():
        assert error == pytest.approx(formula, rel=0.1), (
            students
        )  # the formula is of first order in eta
    errors = [answer[students][0] for students in (2, 3, 4)]
    assert errors == sorted(errors)


def test_design_a_schedule():
    answer = run("design_a_schedule")
    assert 4 < answer["gain"] < 5.66  # fifteen pieces gain 5.66
    assert answer["networks"] == pytest.approx(answer["error"], rel=0.1)
    assert answer["networks_gain"] == pytest.approx(answer["gain"], rel=0.2)


def test_own_activation():
    answer = run("own_activation")
    a, b = (
        np.random.default_rng(0)
        .multivariate_normal([0, 0], [[0.6, 0.5], [0.5, 1.0]], 400_000)
        .T
    )
    products = a / (1 + a**2) * b / (1 + b**2)
    assert answer["average"] == pytest.approx(
        products.mean(), abs=5 * products.std() / np.sqrt(products.size)
    )
    assert answer["average"] == pytest.approx(answer["finer"], rel=1e-7)
    assert answer["z"] < 4.5


def test_phase_diagram():
    answer = run("phase_diagram")
    assert answer["critical"] == pytest.approx(2.3068277, abs=1e-6)
    assert answer["lost"] == pytest.approx(
        answer["critical"], rel=0.12
    )  # rates are 26% apart
    assert 0.5 < answer["share"] < 0.7
    assert answer["error_at_low_noise"] == pytest.approx(
        answer["floor_at_low_noise"], rel=0.02
    )


def test_forget_and_replay():
    answer = run("forget_and_replay")
    assert 0.15 < answer["worst"] < 0.45
    for name in ("without", "with"):
        assert answer[f"networks_{name}"] == pytest.approx(
            answer[name], abs=5 * answer[f"error_{name}"]
        )
    assert answer["with"] < 0.2 * answer["without"]


def test_a_million_inputs():
    answer = run("a_million_inputs")
    assert answer["z"] < 4.5
    assert 1e-5 < answer["sd"] < 2e-4  # about 0.07 / sqrt(N)
    assert answer["error"] == pytest.approx(answer["theory"], abs=5 * answer["sd"])


def test_examples_are_short():
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(names) == 9
    for name in names:
        lines = (FOLDER / f"{name}.py").read_text().splitlines()
        assert len(lines) <= LARGEST, f"{name} has {len(lines)} lines"
        assert f"def test_{name}(" in Path(__file__).read_text()


def test_the_page_shows_every_example():
    assert sorted(page.ORDER) == sorted(path.stem for path in FOLDER.glob("*.py"))
    table = (ROOT / "docs" / "examples.md").read_text()
    for name in page.ORDER:
        text = "\n".join(page.section(name, None))
        assert text.startswith("## ")
        assert f"python examples/{name}.py" in text
        assert f"examples/{name}.py" in table
