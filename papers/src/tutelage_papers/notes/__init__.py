"""What the notes on online SGD assume and work out: `concentration` (the conditions of the limit) and `linear_regression`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
