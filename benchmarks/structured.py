"""Many levels and units: time and memory of one process each.

A laptop should run them, below 8 GiB.
"""

import json
import os
import subprocess
import sys

from benchmarks.measure import OPTIONS, pick, record

HEAD = """
import json, os, resource, sys, time, warnings
import numpy as np
import tutelage as tu
import tutelage_papers
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
now = time.perf_counter if sys.argv[1] == "wall" else time.process_time
"""
TAIL = """
taken = []
for _ in range(int(sys.argv[2])):
    began = now()
    out = work()
    taken.append(now() - began)
row = {
    "first": taken[0],
    "seconds": min(taken),
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "steps": int(np.max(out.steps)),
    "solver": dict(out.settings).get("solver", ""),
}
print(json.dumps(row))
"""
LEVELS = """
network = tu.Network(2, "erf")
inputs = tu.PowerLaw(1.0, {levels})
problem = tu.Problem(network, network, inputs=inputs, optimizer=tu.SGD(0.1))
start = tu.random_start(problem, dim=10**9, scale=0.5, seed=0)
times = tu.log_times(1.0, {end}, 51)
work = lambda: tu.solve(problem, start, times, rtol=1e-6)
"""
FLOW = """
problem = tutelage_papers.power_law.committee(40, inputs=tu.PowerLaw(1.0, 512), lr=0.01)
weights = 1e-6 * rng.standard_normal((40, 512)), rng.standard_normal((40, 512))
times = tu.log_times(1.0, 5e4, 101)
flow = tutelage_papers.power_law.weight_flow
work = lambda: flow(problem, weights, times).trajectory
"""
FORTY = """
problem = tutelage_papers.power_law.committee(40, inputs=tu.PowerLaw(1.0, 512), lr=0.01)
start = tu.random_start(problem, dim=51_200, scale=0.01, seed=0)
options = dict(rtol=1e-6, max_steps={steps}, solver="explicit")
work = lambda: tu.solve(problem, start, [0.0, 1e6], **options)
"""


def alone(code: str, repeats: int) -> dict:
    """Run in a process of its own."""
    command = [sys.executable, "-c", HEAD + code + TAIL, OPTIONS["clock"], str(repeats)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ
    )
    return json.loads(done.stdout.splitlines()[-1])


def many_levels():
    """Record a power law with 1024 levels to alpha = 10^4, and its growth."""
    levels = pick(1024, 1024, 8)
    ends = pick((1e3, 1e4, 1e5), (1e3, 1e4), (10.0, 100.0))
    rows = {}
    for end in ends:
        rows[end] = alone(LEVELS.format(levels=levels, end=end), pick(3, 2, 1))
    growth = rows[ends[1]]["seconds"] / rows[ends[0]]["seconds"]
    for end, row in rows.items():
        note = (
            f"first {row['first']:.1f} s, {row['steps']} steps, {row['solver']}, "
            f"peak {row['peak']:.2f} GiB"
        )
        aim = {}
        if end == ends[1]:
            aim["target"] = "< 10 s, slower than linear in alpha"
            aim["met"] = row["seconds"] < 10 and growth < 10
            note += f"; {growth:.2f} times the time of a tenth of alpha"
        record(
            f"L={levels}, beta=1, K=M=2, eta=.1, alpha={end:g}, rtol 1e-6",
            row["seconds"],
            note=note,
            **aim,
        )


def many_units():
    """Record K = M = 40 on 512 levels: memory with the full eta^2 term.

    Gradient flow of the weights is recorded, too.
    """
    if OPTIONS["size"] == "tiny":
        return
    steps = pick(30, 5, 1)
    row = alone(FORTY.format(steps=steps), 1)
    record(
        f"K=M=40, L=512, {steps} adaptive steps with G",
        row["seconds"],
        note=f"compilation included, peak {row['peak']:.2f} GiB",
        rate=row["peak"],
        unit="GiB",
        target="< 8 GiB on the CPU",
        met=row["peak"] < 8,
    )
    if OPTIONS["size"] == "full":
        row = alone(FLOW, 1)
        record(
            "weight_flow, K=M=40, L=N=512, alpha=5x10^4",
            row["seconds"],
            note=f"peak {row['peak']:.2f} GiB, compilation included",
        )


ALL = (many_levels, many_units)
