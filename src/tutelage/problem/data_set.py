"""`DataSet`: a fixed number of samples that training uses again and again."""

from typing import Any

import equinox as eqx

from tutelage import checks
from tutelage._part import Part
from tutelage._types import ArrayLike

# The orders in which SGD visits the samples of a data set.
REPLACEMENT = "replacement"
EPOCHS = "epochs"
ORDERS = (REPLACEMENT, EPOCHS)


def _as_order(order: Any) -> str:
    """Convert `order`; refuse an unknown word."""
    return checks.known("order", order, ORDERS)


class DataSet(Part):
    """A data set of n = ratio N samples, drawn once with their labels.

    Label noise and flips belong to the stored labels: a sample has the same label at
    every visit. Each run of `simulate` draws its own data set.

    Parameters
    ----------
    ratio : float
        n / N, the number of samples per input dimension.
    order : str
        The samples that SGD visits: "replacement" draws each one at random from all,
        "epochs" shuffles the data set anew for each epoch and visits every sample once.

    Examples
    --------
    >>> import tutelage as tu
    >>> erf = tu.Network(2, "erf")
    >>> problem = tu.Problem(erf, erf, noise=0.3, data=tu.DataSet(ratio=4.0))
    >>> problem.data
    DataSet(ratio=4)
    >>> problem.replace(ratio=2.0).data
    DataSet(ratio=2)
    """

    ratio: ArrayLike = checks.number_field("ratio", checks.require_positive)
    order: str = eqx.field(static=True, converter=_as_order, default=REPLACEMENT)
