"""The public interface, and nothing behind it: what must stay when the code is rewritten.

Every public name is used in some test here (`test_every_name.py`). Numbers are facts of
the literature, closed forms, or digits of independent code where one is named.
"""
