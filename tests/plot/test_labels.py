"""Problems in words."""

import pytest

import tutelage as tu
from tutelage.plot import problem_in_words

ONE = tu.Network(1, "linear")


def words(**parts):
    return problem_in_words(tu.Problem(ONE, ONE, **parts))


def test_plain():
    assert words(optimizer=tu.SGD(0.5)) == (
        "One linear unit learns from one linear unit",
        "learning rate 0.5, no label noise, isotropic inputs",
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"noise": 0.3}, "label noise 0.3"),
        ({"inputs": tu.PowerLaw(1.5, 4)}, "power-law inputs (beta = 1.5, 4 levels)"),
        ({"optimizer": tu.SGD(tu.schedules.Constant(0.2))}, "learning rate 0.2"),
        (
            {"optimizer": tu.SGD(tu.schedules.PowerDecay(0.5, 0.7))},
            "learning rate PowerDecay(initial=0.5, exponent=0.7)",
        ),
        (
            {"optimizer": tu.SGD(tu.schedules.Cosine(0.5, 10.0))},
            "learning rate Cosine(initial=0.5, end=10)",
        ),
        (
            {"optimizer": tu.SGD(tu.schedules.Piecewise([1.0], [0.5, 0.1]))},
            "learning rate Piecewise(switches=[1.0], values=[0.5, 0.1])",
        ),
        (
            {
                "optimizer": tu.SGD(
                    tu.schedules.Interpolated([0, 1, 5], [0.5, 0.3, 0.1])
                )
            },
            "rate Interpolated(times=[0.0, 1.0, 5.0], values=",
        ),
        (
            {"optimizer": tu.SGD(lambda t: 0.1 + 0 * t)},
            "learning rate by a custom function",
        ),
        ({"optimizer": tu.SGD(0.1, batch=8)}, "batch 8"),
        ({"optimizer": tu.SGD(0.1, weight_decay=0.01)}, "weight decay 0.01"),
        ({"optimizer": tu.SGD(0.1, momentum=0.9)}, "momentum 0.9"),
        (
            {"optimizer": tu.SGD(0.1, momentum=tu.SlowMomentum(2.0))},
            "momentum SlowMomentum(gamma=2)",
        ),
        ({"optimizer": tu.SGD(0.1, trainable=[0])}, "trainable [0]"),
        ({"optimizer": tu.SGD(0.1, spherical=True)}, "spherical True"),
        (
            {"loss": "logistic", "labels": tu.labels.Sign(flip=0.1)},
            "logistic loss, sign labels (flip 0.1), isotropic",
        ),
        ({"rule": tu.rules.Dropout(0.8)}, "dropout rule (keep 0.8), no label noise"),
        ({"rule": "feedback_alignment"}, "feedback alignment rule"),
        ({"loss": lambda y, t: (y - t) ** 2}, "custom loss"),
    ],
)
def test_each_choice_is_named(parts, expected):
    assert expected in words(**parts)[1]
