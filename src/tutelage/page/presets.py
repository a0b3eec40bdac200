"""Named settings, and what the page needs of controls, presets and first values.

A page without a server has the part of the controls that theory.js covers.
"""

from dataclasses import asdict, replace
from typing import Any, NamedTuple

from tutelage.errors import InputError
from tutelage.page.controls import (
    ASYMMETRIC,
    CLUSTERS,
    CONTROLS,
    DECAYING,
    DIGITS,
    FEEDBACK,
    GRADIENT,
    ISOTROPIC,
    POWER_LAW,
    TWO_TASKS,
    XOR,
)
from tutelage.page.settings import Settings, Values

GIVEN = "as given"  # the start whose overlaps a page carries

# The browser has no simulation and no averages over points.
NOT_LOCAL = ("labels", "loss", "keep", "distance", "runs", "band")

# Smaller ranges of the other controls.
LOCAL_RANGE: dict[str, dict[str, Any]] = {
    "activation": {"options": ("erf", "linear", "quadratic")},
    "rule": {"options": (GRADIENT, FEEDBACK)},
    "spectrum": {"options": (ISOTROPIC, DECAYING, DIGITS)},
    "students": {"most": 6},
    "teachers": {"most": 6},
    "levels": {"most": 16},
    "noise": {"only": {}},
}
LOCAL_CONTROLS = tuple(
    replace(control, **LOCAL_RANGE.get(control.name, {}))
    for control in CONTROLS
    if control.name not in NOT_LOCAL
)


def is_local(settings: Settings) -> bool:
    """Return True if the solver in the browser covers these settings."""
    if settings.toml or {"labels", "loss"} & settings.changed().keys():
        return False
    try:
        for control in LOCAL_CONTROLS:
            control.check(settings[control.name])
    except InputError:
        return False
    return True


class Preset(NamedTuple):
    """Named settings to begin with.

    words: what to look at, for presets that guide the reader.
    """

    name: str
    settings: Values
    words: str = ""


TWO = {"students": 2, "teachers": 2}
APART = {"start": ASYMMETRIC}

# With words that guide the reader.
GUIDED_PRESETS = (
    Preset(
        "The plateau",
        {},
        "Three student units learn from three teacher units. They first become nearly "
        "identical, and the error stalls on the symmetric plateau. Then each unit "
        "specializes on a different teacher unit, and the error falls to zero.",
    ),
    Preset(
        "Who decides the escape?",
        TWO | {"end": 600.0, "dim": 1_000_000, "runs": 0},
        "On the plateau only tiny differences between the units grow. Here they come "
        "from random weights of a million inputs. Lower N or change the seed: larger "
        "differences end the plateau earlier.",
    ),
    Preset(
        "Too large a learning rate",
        APART | {"lr": 2.5, "end": 200.0},
        "Every step adds noise of order η² to the weights. Beyond the critical rate "
        "it adds more error than the gradient removes: zero error is unstable. Lower "
        "the rate to 1.5 and below: the error falls to zero again.",
    ),
    Preset(
        "Label noise and extra units",
        APART
        | {"students": 5, "teachers": 2, "noise": 0.3, "end": 2000.0, "band": False},
        "Noisy labels keep the error above zero, at a floor that grows with the "
        "learning rate. Units that the task does not need fit the noise. Pin the "
        "curve, then lower K to 2: the floor falls to a quarter.",
    ),
    Preset(
        "A power law melts the plateau",
        TWO
        | POWER_LAW
        | {
            "lr": 0.2,
            "scale": 0.01,
            "end": 2000.0,
            "log_time": True,
            "band": False,
        },
        "Directions of large variance are learned first, those of small variance "
        "later, so the error falls like a power of time. Hardly anything is left of "
        "the plateau. Pin the curve, then set the inputs to isotropic: the plateau "
        "returns.",
    ),
    Preset(
        "Forgetting",
        TWO_TASKS
        | {
            "students": 2,
            "teachers": 1,
            "train_readout": True,
            "lr": 1.0,
            "end": 200.0,
            "runs": 1,
        },
        "The student learns one teacher, then another one; each task has its own "
        "readout. After the switch the first layer turns to the second teacher, and "
        "the error of task 1 rises. Raise the similarity to 0.9: much less is "
        "forgotten.",
    ),
    Preset(
        "Feedback alignment",
        APART
        | {
            "rule": FEEDBACK,
            "train_readout": True,
            "readout": -1.0,
            "teachers": 2,
            "lr": 0.3,
        },
        "The error returns to the first layer through fixed weights, not through the "
        "readout. The readout starts with the wrong sign. It turns first, until it is "
        "aligned with the feedback; then the error falls.",
    ),
    Preset(
        "XOR",
        {
            "spectrum": XOR,
            "activation": "quadratic",
            "students": 4,
            "train_readout": True,
            "readout": 0.5,
            "lr": 0.1,
            "scale": 0.3,
            "end": 60.0,
            "runs": 1,
        },
        "Four Gaussian clusters: those at ±b₁ have the label 1, those at ±b₂ the "
        "label −1. No single direction tells the labels apart, so the error stays at "
        "1/2 at first. Then units with a positive readout turn to b₁, the others to "
        "b₂.",
    ),
)

# Close to figures that `tutelage replicate` checks, then other problems.
PLAIN_PRESETS = (
    Preset(
        "primer-1: theory and experiment", APART | {"dim": 784, "end": 100.0, "runs": 5}
    ),
    Preset(
        "primer-2: the specialization transition",
        TWO | {"scale": 0.2, "end": 400.0, "dim": 100_000, "runs": 0},
    ),
    Preset(
        "primer-4: both layers trained",
        APART
        | {
            "students": 4,
            "teachers": 2,
            "train_readout": True,
            "lr": 0.2,
            "noise": 0.1,
            "end": 2000.0,
            "dim": 500,
        },
    ),
    Preset(
        "notes-3: ReLU",
        TWO | APART | {"activation": "relu", "lr": 0.3, "end": 60.0, "dim": 500},
    ),
    Preset(
        "notes-6: stop early with noisy labels",
        TWO | APART | {"noise": 0.5, "lr": 1.5, "end": 100.0},
    ),
    Preset(
        "bign-1: a million inputs", APART | {"dim": 1_000_000, "end": 20.0, "runs": 1}
    ),
    Preset(
        "power-1: a power law",
        TWO
        | POWER_LAW
        | {
            "lr": 0.1,
            "levels": 32,
            "scale": 0.01,
            "dim": 1024,
            "end": 1000.0,
            "band": False,
        },
    ),
    Preset(
        "real data: spectrum of digits",
        TWO
        | {"spectrum": DIGITS, "lr": 0.2, "end": 1000.0, "log_time": True, "runs": 1},
    ),
    Preset(
        "two clusters: logistic loss",
        {
            "students": 2,
            "spectrum": CLUSTERS,
            "loss": "logistic",
            "end": 30.0,
            "runs": 1,
        },
    ),
    Preset(
        "a classifier",
        TWO
        | APART
        | {"loss": "logistic", "labels": "sign", "lr": 1.0, "end": 50.0, "runs": 1},
    ),
)
PRESETS = GUIDED_PRESETS + PLAIN_PRESETS


def explorer_table(settings: Settings, local: bool = False) -> Values:
    """Return controls, presets and first values for explorer.js.

    local: only those that the solver in the browser covers.
    """
    controls = CONTROLS
    presets = PRESETS
    if local:
        controls = LOCAL_CONTROLS
        presets = tuple(
            preset for preset in PRESETS if is_local(Settings.read(preset.settings))
        )
    control_tables = [asdict(control) for control in controls]
    initial = settings.changed()
    if settings.toml:
        initial |= {"toml": settings.toml, "file": "problem.toml"}
    if settings.start_overlaps is not None:
        # The overlaps are one more option of the start.
        initial["start"] = GIVEN
        for table in control_tables:
            if table["name"] == "start":
                table["options"] = (GIVEN, *table["options"])
                table["only"] = {}
    return {
        "controls": control_tables,
        "presets": [preset._asdict() for preset in presets],
        "initial": initial,
    }
