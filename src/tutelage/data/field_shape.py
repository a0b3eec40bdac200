"""Skewness and excess kurtosis of fields w.x, which are zero for Gaussian inputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class FieldShape:
    """Skewness and excess kurtosis, means over directions, with standard errors."""

    skewness: float
    kurtosis: float
    skewness_error: float
    kurtosis_error: float

    @classmethod
    def of(
        cls, fields: Sequence[Float[np.ndarray, "n k"]], drawn: bool = True
    ) -> "FieldShape":
        """Measure standardized fields (samples, directions) of groups of samples.

        The directions share their samples. Each error combines the scatter of the
        samples' shares in the mean over directions with the scatter over directions,
        if these are `drawn` at random.
        """
        count = sum(z.shape[1] for z in fields)
        skewness = np.concatenate([np.mean(z**3, axis=0) for z in fields])
        fourth = np.concatenate([np.mean(z**4, axis=0) for z in fields])
        variances = np.zeros(2)
        if drawn:
            variances = np.array([skewness.var(), fourth.var()]) / count
        for z in fields:
            shares = _moment_shares(z)
            of_group = z.shape[1] / count  # the weight of the group in the mean
            variances += (of_group * shares.std(axis=1)) ** 2 / len(z)
        skewness_error, kurtosis_error = np.sqrt(variances)
        return cls(
            skewness=float(skewness.mean()),
            kurtosis=float(fourth.mean() - 3),
            skewness_error=float(skewness_error),
            kurtosis_error=float(kurtosis_error),
        )

    def __str__(self) -> str:
        tails = f"excess kurtosis {self.kurtosis:.2f} ± {self.kurtosis_error:.2f}"
        return f"skewness {self.skewness:.2f} ± {self.skewness_error:.2f}, {tails}"


def _moment_shares(z: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "2 n"]:
    """Return the share of each sample in skewness and kurtosis.

    These are the influence functions of m3 / m2^(3/2) and m4 / m2^2. Their terms of
    lower order come from the mean and the variance, which the same samples estimate.
    """
    third = np.mean(z**3, axis=0)
    fourth = np.mean(z**4, axis=0)
    of_third = z**3 - 3 * z - 1.5 * third * (z**2 - 1)
    of_fourth = z**4 - 4 * third * z - 2 * fourth * (z**2 - 1)
    return np.stack([of_third.mean(axis=1), of_fourth.mean(axis=1)])
