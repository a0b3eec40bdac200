"""Does the theory, which knows only means and covariances of my data, predict SGD on the data themselves?

1797 handwritten digits, 8 x 8 pixels, ten classes. A softmax student learns them from a
stream of images, drawn with replacement. The theory is that of ten Gaussian classes.
The gap between the two is measured and split into its causes.
"""

import sys
import warnings
from pathlib import Path

import tutelage as tu

TIMES = tu.log_times(0.2, 20, 11)


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print the reports; return final errors and the parts of their gap."""
    warnings.simplefilter(
        "ignore", tu.errors.ValidityWarning
    )  # the report has its number
    data = tu.from_data(*tu.digits(labels=True), levels=16)
    problem = data.problem(
        tu.Network(10, "linear", outputs=10), optimizer=tu.SGD(lr=0.05)
    )
    found = data.compare(problem, TIMES, runs=20)
    print(data, found, sep="\n\n")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tu.plot.save_figure(
        found.plot(title="Ten digits: theory and SGD on the images"),
        folder / "theory_of_my_data.png",
    )
    parts = {name: float(part[-1]) for name, (part, _) in found.causes().items()}
    return {
        "theory": float(found.theory.error[-1]),
        "gap": float(found.gap()[0][-1]),
    } | parts


if __name__ == "__main__":
    main(*sys.argv[1:])
