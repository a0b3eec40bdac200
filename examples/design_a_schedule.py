"""Which learning-rate schedule ends with the smallest error after 100 N samples?

Two erf units, label noise 0.1. `optimize` follows the gradient of the solved theory;
networks of 1000 inputs then try the schedule and the best constant rate.
"""

import sys
from pathlib import Path

import tutelage as tu

T_MAX = 100.0


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the gain over the best constant rate, of theory and networks."""
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5), noise=0.1
    )
    start = tu.Start(R=[[0.40, 0.05], [0.05, 0.41]], Q=[[0.5, 0.0], [0.0, 0.5]])
    edges = [0.0, 15.0, 50.0, 85.0, T_MAX]
    design = tu.schedules.optimize(
        problem, start, T_MAX, {"lr": (0.0, 5.0)}, segments=edges, shape="smooth"
    )
    constant = problem.replace(lr=design.best_constant.controls["lr"])
    designed, fixed = (
        float(
            tu.simulate(p, start, dim=1000, times=[0.0, T_MAX], runs=10, seed=0)
            .error[:, -1]
            .mean()
        )
        for p in (design.problem, constant)
    )
    print(design)
    print(
        f"ten networks of 1000 inputs: {designed:.3e} with the schedule, "
        f"{fixed:.3e} with the best constant rate"
    )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tu.plot.save_figure(design.plot(), folder / "design_a_schedule.png")
    return {
        "gain": design.gain,
        "error": design.value,
        "networks": designed,
        "networks_gain": fixed / designed,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
