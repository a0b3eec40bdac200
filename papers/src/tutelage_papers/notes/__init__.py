"""Assumptions and examples of the notes on online SGD.

`concentration` measures the conditions of the limit, `linear_regression` is the worked
example.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
