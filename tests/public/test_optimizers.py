"""Every optimizer: its arguments, its file, and what it refuses."""

import pytest

import tutelage as tu

EACH = [
    tu.optimizers.SGD(0.5, clip=2.0),
    tu.optimizers.SGD(0.5, clip_coordinates=2.0),
    tu.optimizers.SignSGD(0.3, batch=2),
    tu.optimizers.RMSprop(0.3, memory=2.0, initial_scale=0.5),
    tu.optimizers.Adam(0.3, beta1=0.8, memory=2.0),
    tu.optimizers.AdaGrad(0.3, initial_scale=0.5, norm=True),
    tu.optimizers.Muon(0.3, batch=4),
]


def problem(optimizer: tu.optimizers.Optimizer, hidden: int = 2) -> tu.Problem:
    return tu.Problem(tu.Network(hidden), tu.Network(2), optimizer=optimizer)


@pytest.mark.parametrize("optimizer", EACH, ids=repr)
def test_a_file_holds_the_optimizer(optimizer: tu.optimizers.Optimizer):
    text = problem(optimizer).to_toml()
    assert f'kind = "{optimizer.kind}"' in text
    assert repr(tu.Problem.from_toml(text).optimizer) == repr(optimizer)


def test_adam_from_beta2():
    adam = tu.optimizers.Adam.from_beta2(0.3, beta1=0.8, beta2=0.99, dim=50)
    assert (float(adam.memory), float(adam.beta1)) == pytest.approx((2.0, 0.8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problem(tu.optimizers.Muon(0.3, 2), 3), "batch is 2 .* batch=3"),
        (lambda: tu.optimizers.Adam(0.3, memory=0.0), "memory is 0; .* positive"),
        (lambda: tu.optimizers.RMSprop(0.3, memory=-1.0), "memory is -1; .* positive"),
        (lambda: tu.optimizers.Adam(0.3, beta1=1.0), "beta1 is 1; .* below 1"),
        (lambda: tu.optimizers.Adam(0.3, momentum=0.9), "argument of Adam .*beta1"),
        (lambda: tu.optimizers.SignSGD(0.3, spherical=True), "argument of SignSGD"),
        (lambda: tu.SGD(0.3, clip=1.0, batch=2), "clip is 1 and batch is 2"),
        (lambda: tu.SGD(0.3, clip=0.0), "clip is 0; .* positive"),
        (
            lambda: tu.SGD(0.3, clip_coordinates=1.0, momentum=0.9),
            "clip_coordinates and momentum",
        ),
        (
            lambda: tu.SGD(0.3, clip_coordinates=1.0, spherical=True),
            "clip_coordinates and spherical",
        ),
        (lambda: tu.SGD(0.3, clip=1.0, clip_coordinates=1.0), "both given"),
    ],
)
def test_bad_input_gets_one_message(make, message):
    with pytest.raises(tu.InputError, match=message):
        make()


@pytest.mark.parametrize("optimizer", EACH, ids=repr)
def test_analyses_of_plain_sgd_refuse_it(optimizer: tu.optimizers.Optimizer):
    with pytest.raises(tu.InputError, match=f"optimizer is {type(optimizer).__name__}"):
        tu.analysis.critical_learning_rate(problem(optimizer))


@pytest.mark.parametrize("option", [{"momentum": 0.9}, {"spherical": True}], ids=str)
@pytest.mark.parametrize("kind", ["SignSGD", "RMSprop", "Adam", "AdaGrad", "Muon"])
def test_options_of_sgd_are_unknown_elsewhere(kind, option):
    name = next(iter(option))
    with pytest.raises(tu.InputError, match=f"argument of {kind} is '{name}'"):
        getattr(tu.optimizers, kind)(0.3, batch=4, **option)
