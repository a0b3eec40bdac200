"""Samples as a problem: the statistics that the theory uses, and what it leaves out.

measure.py        `from_data`: samples, and perhaps labels, become an input law,
                  class means or a fitted teacher
reading.py        samples and labels as given, read in pieces
class_moments.py  counts, means and covariances of each class
population.py     eigenvalues of the law behind a sample
field_shape.py    skewness and kurtosis of fields
result.py         `Data`, the result
gap.py            `Data.compare`: SGD on the samples next to the theory, by laws.py
                  (samples and Gaussian stand-ins) and training.py
"""

from tutelage.data.gap import DataComparison
from tutelage.data.measure import from_data
from tutelage.data.result import Data

__all__ = ["Data", "DataComparison", "from_data"]
