"""The exact law of finite-N SGD at a cost that does not depend on N.

SGD on Gaussian inputs is a Markov chain on the overlaps alone. Held in coordinates of the vectors' own span
(prepare.py), one step needs, per level, a standard normal e for each coordinate in use, and of the n_l - w_l other
dimensions only their length: a chi variable c with as many degrees of freedom. With delta_k = Delta v_k g'(lambda_k),
    lambda = sum_l sqrt(p_l lam_l) (coordinates . e_l),
    coordinates += (eta/N) sqrt(lam_l/p_l) delta e_l,    one new column (eta/N) sqrt(lam_l/p_l) delta c_l,
and a rotation folds the new column back into Z. For a batch, B new columns with Bartlett's factor; since they enter only
through the K x K matrix delta delta^T, K columns are enough. This is the law of the overlaps of real weights, not an
approximation to it: N = 10^6 costs what N = 100 does.

Runs step one by one in numba, or all together in one JAX program: custom functions, GPUs and thousands of runs.
"""

import jax
import numpy as np
from jaxtyping import Float

from tutelage.dynamics.order_parameters import as_arrays
from tutelage.progress import progress_bar
from tutelage.simulation import draws, prepare
from tutelage.simulation.method import Method
from tutelage.simulation.numba_kernels import Samples
from tutelage.simulation.runs import Ended, GoesOn, Records, Request, Runs, stream

STRETCH = 2**16  # coordinate updates (steps x levels x batch) between two looks at the watch
ON_CPU, ON_GPU = 2**20, 2**26  # random numbers that are drawn at a time in JAX
STEPS = 1024  # and at most for so many steps
DRAWN = Samples(np.zeros((0, 0, 0, 0)), np.zeros((0, 0, 0)), np.zeros((0, 0, 0)))  # by the kernel


class OverlapsMethod(Method):
    """`run` is one of the runs, `run_together` all."""

    def __init__(self, request: Request):
        problem, dims = request.problem, request.dims
        super().__init__(request, prepare.level_layout(problem, dims), given=False)
        self.placed = [prepare.place_start(problem, start, dims, self.layout) for start in request.starts]

    def run(self, index: int, records: Records, goes_on: GoesOn) -> Ended:
        """Run `index`, written into its records."""
        placed, last = self.placed[index % len(self.placed)], self.last
        size = max(64, STRETCH // (self.layout.width.size * self.constants.batch))
        stretches = ((first, min(first + size, last), DRAWN) for first in range(0, max(last, 1), size))
        return self.in_numba(placed, stream(self.request.seed, index), stretches, records, goes_on)

    def run_together(self, progress: bool) -> Runs:
        """All runs in one program, on one device."""
        runs, records, problem = self.request.runs, self.request.empty_records(), as_arrays(self.request.problem)
        numbers = runs * self.constants.batch * self.layout.width.size * (int(self.layout.width.max()) + 2)
        fitting = (ON_CPU if jax.default_backend() == "cpu" else ON_GPU) // numbers
        block, keys = max(1, min(fitting, STEPS, self.last)), draws.run_keys(self.request.seed, runs)
        drawn = (draws.from_counters(self.step, problem, keys, np.asarray(n), block) for n in range(0, self.last, block))
        with progress_bar(self.last * runs, "simulating", progress, unit=" steps", unit_scale=True) as bar:

            def goes_on(taken: int) -> bool:
                bar.update(taken * runs - bar.n)
                return True

            return records, *self.in_jax(self.placed, runs, block, drawn, records, goes_on)

    def level_overlaps(
        self, a: Float[np.ndarray, "*lead L A W"], b: Float[np.ndarray, "*lead L B columns"]
    ) -> Float[np.ndarray, "*lead L A B"]:
        """a b^T: each level has its own coordinates."""
        return a[..., : b.shape[-1]] @ b.mT
