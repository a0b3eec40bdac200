"""tutelage: the exact learning dynamics of two-layer neural networks.

State a problem, solve its theory (order-parameter ODEs), simulate the network itself,
compare:

    network = tu.Network(3, "erf")
    problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5), noise=0.1)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    theory = tu.solve(problem, start, times=tu.linear_times(300))
    runs = tu.simulate(problem, start, times=tu.linear_times(300), runs=20)
    print(tu.compare(theory, runs))

More names live in namespaces: `analysis`, `schedules`, `optimizers`, `losses`, `labels`,
`rules`, `theories`, `plot` and `page`. Published figures are a separate package,
`tutelage_papers`. The public names are listed in `__init__.pyi`; each is loaded when it is
first used, so that `tutelage --help` does not wait for JAX. Importing switches float64 on
(TUTELAGE_X64=0 keeps JAX's own setting).
"""

import os
import sys

from tutelage import _attached as _attached
from tutelage._namespace import attach
from tutelage._version import __version__ as __version__

# Overlaps near perfect learning differ in the tenth digit. JAX, which takes a second to
# import, is not imported for this: it reads the environment when somebody imports it.
if os.environ.get("TUTELAGE_X64", "1") != "0":
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"
__getattr__, __dir__, __all__ = attach(__name__, __file__)
