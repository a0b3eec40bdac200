"""Named places to begin: settings close to figures that `tutelage replicate` checks, and a few regimes to know."""

from typing import Any

TWO = {"students": 2, "teachers": 2}
APART = {"start": "asymmetric"}

PRESETS: dict[str, dict[str, Any]] = {
    "three units specialize": {},
    "primer-1: theory and experiment": APART | {"dim": 784, "end": 100.0, "runs": 5},
    "primer-2: the specialization transition": TWO | {"scale": 0.2, "end": 400.0, "dim": 100_000, "runs": 0},
    "primer-4: both layers trained": APART
    | {"students": 4, "teachers": 2, "train_readout": True, "lr": 0.2, "noise": 0.1, "end": 2000.0, "dim": 500},
    "notes-3: ReLU": TWO | APART | {"activation": "relu", "lr": 0.3, "end": 60.0, "dim": 500},
    "notes-6: stop early with noisy labels": TWO | APART | {"noise": 0.5, "lr": 1.5, "end": 100.0},
    "goldt-1: extra units and label noise": APART | {"students": 5, "teachers": 2, "noise": 0.3},
    "bign-1: a million inputs": APART | {"dim": 1_000_000, "end": 20.0, "runs": 1},
    "power-1: a power-law spectrum": TWO
    | {"lr": 0.1, "spectrum": "power law", "levels": 64, "scale": 0.01, "dim": 1024, "end": 1000.0},
    "a learning rate beyond the critical one": APART | {"lr": 4.0, "end": 60.0},
}
