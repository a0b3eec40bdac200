"""Your data as a problem: which statistics the theory uses, what it throws away, and how far it is from SGD on the samples.

measure.py     `from_data`: samples, and perhaps labels, become input law, class means or a fitted teacher (`Data`)
population.py  eigenvalues of the law behind a sample
gap.py         `Data.compare`: SGD on the samples next to the theory, and where the gap comes from
"""

from tutelage.data.gap import DataComparison
from tutelage.data.measure import Data, from_data

__all__ = ["Data", "DataComparison", "from_data"]
