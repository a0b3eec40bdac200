"""Does the theory, which knows only the spectrum of my data, predict SGD on the data themselves?

1797 handwritten digits, 8 x 8 pixels. A linear unit learns a random linear teacher from a stream of images, drawn with
replacement; the theory is solved for Gaussian inputs with the digits' covariance.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tutelage as tu

TIMES = tu.linear_times(20, 41)


def main(folder: str | Path = "output/examples") -> dict[str, float]:
    """Print and return the fitted exponent of the spectrum and the largest relative gap between SGD on images and theory."""
    images = tu.digits()
    spectrum = tu.from_data(images).inputs
    fit = tu.analysis.spectral_exponent(spectrum, window=(1, 40))
    problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), inputs=spectrum, sgd=tu.SGD(lr=0.1))
    rng = np.random.default_rng(0)
    pixels = spectrum.basis.shape[1]
    W, W_teacher = 0.1 * rng.standard_normal((1, pixels)), rng.standard_normal((1, pixels))
    theory = tu.solve(problem, tu.start_from_weights(problem, W, W_teacher), TIMES)
    rows = images.reshape(len(images), -1)  # centered and scaled as the spectrum was
    steps = int(np.ceil(TIMES[-1] * spectrum.known_dim)) + 1
    streams = [rng.choice(rows, steps) for _ in range(40)]
    runs = np.concatenate(
        [tu.simulate(problem, weights=(W, W_teacher), inputs=x, times=TIMES, runs=1).error for x in streams]
    )
    flat = theory.error[0] * np.exp(-0.1 * (2 - 0.1) * TIMES)  # isotropic inputs
    gap, flat_gap = (float(np.max(np.abs(curve / runs.mean(axis=0) - 1))) for curve in (theory.error, flat))
    print(fit)
    print(f"e_g at alpha = 20: theory {theory.error[-1]:.4f}, SGD on images {runs[:, -1].mean():.4f}; largest gap {gap:.1%}")
    draw(spectrum, theory, flat, runs, Path(folder))
    return {"beta": fit.beta, "gap": gap, "flat_gap": flat_gap}


def draw(spectrum: tu.Spectrum, theory: tu.Trajectory, flat: np.ndarray, runs: np.ndarray, folder: Path) -> None:
    """The spectrum, and the learning curves."""
    folder.mkdir(parents=True, exist_ok=True)
    with tu.plot.style():
        figure = Figure(figsize=(8, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.loglog(np.arange(1, spectrum.levels + 1), spectrum.eigenvalues)
        left.set(xlabel="rank $l$", ylabel=r"eigenvalue $\lambda_l$", title="Spectrum of the digits")
        right.semilogy(TIMES, theory.error, label="theory")
        right.semilogy(TIMES, flat, ":", label="isotropic inputs")
        right.semilogy(TIMES[::4], runs.mean(axis=0)[::4], "o", label="SGD on images")
        right.set(xlabel=r"time $\alpha$ = steps / $N$", ylabel=r"error $\epsilon_g$", title="Learning from them")
        figure.legend(loc="outside right upper")
    tu.plot.save_figure(figure, folder / "spectrum_of_real_data.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
