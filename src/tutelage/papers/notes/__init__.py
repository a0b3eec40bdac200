"""What the notes on online SGD assume and work out: `concentration` (the conditions of the limit) and `linear_regression`."""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
