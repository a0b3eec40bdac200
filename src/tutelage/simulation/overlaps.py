"""The exact law of finite-N SGD at a cost that does not depend on N.

SGD on Gaussian inputs is a Markov chain on the overlaps alone. Held in coordinates of
the vectors' own span (prepare.py), one step needs, per level, a standard normal e for
each coordinate in use, and of the n_l - w_l other dimensions only their length: a chi
variable c with as many degrees of freedom. With delta_k = Delta v_k g'(lambda_k),

    lambda = sum_l sqrt(p_l lam_l) (coordinates . e_l)
    coordinates += (eta/N) sqrt(lam_l/p_l) delta e_l
    one new column (eta/N) sqrt(lam_l/p_l) delta c_l

and a rotation folds the new column back into Z. For a batch, B new columns with
Bartlett's factor; since they enter only through the K x K matrix delta delta^T, K
columns are enough. This is the law of the overlaps of real weights, not an
approximation to it: N = 10^6 costs as much as N = 100.

Runs step one by one in numba, or all together in one JAX program: custom functions,
GPUs and thousands of runs.
"""

from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Float

from tutelage.progress import progress_bar
from tutelage.simulation import draws, prepare
from tutelage.simulation.method import Method
from tutelage.simulation.numba_kernels import Samples
from tutelage.simulation.runs import (
    Ended,
    Records,
    Request,
    Runs,
    ShouldContinue,
    stream,
)
from tutelage.stream.order_parameters import as_arrays

# Coordinate updates (steps x levels x batch) between two reports of progress, and the
# least number of steps.
STRETCH = 2**16
SHORTEST_STRETCH = 64
# Random numbers that are drawn at a time in JAX, and for how many steps at most.
NUMBERS_ON_CPU = 2**20
NUMBERS_ON_GPU = 2**26
MOST_STEPS = 1024
# the kernel draws everything
NOTHING_GIVEN = Samples(
    x=np.zeros((0, 0, 0, 0)), unseen=np.zeros((0, 0, 0)), moves=np.zeros((0, 0, 0))
)


class OverlapsMethod(Method):
    """The exact law of the overlaps: `run` computes one run, `run_together` all."""

    def __init__(self, request: Request):
        problem = request.problem
        dims = request.dims
        layout = prepare.level_layout(problem, dims)
        super().__init__(request, layout, given=False)
        self.initial_states = [
            prepare.place_start(problem, start, dims, layout)
            for start in request.starts
        ]

    def run(
        self, index: int, records: Records, should_continue: ShouldContinue
    ) -> Ended:
        """Compute run `index` and write its records."""
        state = self.initial_states[index % len(self.initial_states)]
        rng = stream(self.request.seed, index)
        stretches = self._stretches()
        return self.in_numba(state, rng, stretches, records, should_continue)

    def _stretches(self) -> Iterator[tuple[int, int, Samples]]:
        """Yield the first step and the end of each stretch, with no given samples."""
        updates_of_step = self.layout.width.size * self.constants.batch
        size = max(SHORTEST_STRETCH, STRETCH // updates_of_step)
        for first in range(0, max(self.last, 1), size):
            yield first, min(first + size, self.last), NOTHING_GIVEN

    def run_together(self, progress: bool) -> Runs:
        """Compute all runs in one program, on one device."""
        runs = self.request.runs
        records = self.request.empty_records()
        problem = as_arrays(self.request.problem)
        width = int(self.layout.width.max())
        samples_of_step = runs * self.constants.batch * self.layout.width.size
        numbers_of_step = samples_of_step * (width + 2)
        on_cpu = jax.default_backend() == "cpu"
        numbers = NUMBERS_ON_CPU if on_cpu else NUMBERS_ON_GPU
        block = max(1, min(numbers // numbers_of_step, MOST_STEPS, self.last))
        keys = draws.run_keys(self.request.seed, runs)
        blocks = (
            draws.from_counters(self.step, problem, keys, np.asarray(first), block)
            for first in range(0, self.last, block)
        )
        with progress_bar(
            self.last * runs, "simulating", progress, unit=" steps", unit_scale=True
        ) as bar:

            def should_continue(taken: int) -> bool:
                bar.update(taken * runs - bar.n)
                return True

            status, taken = self.in_jax(
                self.initial_states, runs, block, blocks, records, should_continue
            )
        return records, status, taken

    def level_overlaps(
        self,
        a: Float[np.ndarray, "*lead L A W"],
        b: Float[np.ndarray, "*lead L B columns"],
    ) -> Float[np.ndarray, "*lead L A B"]:
        """Return a b^T: each level has its own coordinates."""
        return a[..., : b.shape[-1]] @ b.mT
