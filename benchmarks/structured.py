"""Many levels: time and memory of one process each, as a laptop would see them (acceptance: below 8 GiB)."""

import json
import subprocess
import sys

from benchmarks.core import record

HEAD = """
import json, resource, time
import numpy as np
import tutelage as tu
rng = np.random.default_rng(0)
begin = time.perf_counter()
"""
TAIL = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"seconds": time.perf_counter() - begin, "peak": peak, "error": float(out.error[-1])}))
"""
CASES = {
    "solve L=1024, K=M=2, alpha=10^4": """
problem = tu.scaled_committee(2, inputs=tu.PowerLaw(1.0, 1024), lr=0.01)
start = tu.random_start(problem, dim=102_400, scale=0.01, seed=0)
out = tu.solve(problem, start, tu.log_times(1.0, 1e4, 101), rtol=1e-6)
""",
    "weight_flow L=N=512, K=M=40, alpha=5x10^4": """
problem = tu.scaled_committee(40, inputs=tu.PowerLaw(1.0, 512), lr=0.01)
weights = 1e-6 * rng.standard_normal((40, 512)), rng.standard_normal((40, 512))
out = tu.weight_flow(problem, weights, tu.log_times(1.0, 5e4, 101)).trajectory
""",
    "solve L=512, K=M=40, alpha=3, with G": """
problem = tu.scaled_committee(40, inputs=tu.PowerLaw(1.0, 512), lr=0.01)
start = tu.random_start(problem, dim=51_200, scale=0.01, seed=0)
out = tu.solve(problem, start, [0.0, 3.0], rtol=1e-5)
""",
}


def many_levels_and_units():
    """Each case in a process of its own, compilation included."""
    for name, code in CASES.items():
        done = subprocess.run([sys.executable, "-c", HEAD + code + TAIL], check=True, capture_output=True, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        record(name, row["seconds"], note=f"peak {row['peak']:.2f} GiB, e_g = {row['error']:.3g}")


ALL = (many_levels_and_units,)
