"""Rules that files and names of this repository follow, checked without running it.

`python -m tests.lint` prints one line, file:line: message, for each place that breaks a
rule, and exits with status 1 if there is one; `make lint` calls it. Each rule has its
negative control in `tests/test_lint.py`.

    layers.py       a layer imports only layers to its left
    papers.py       papers import public names only, and the library never imports papers
    docstrings.py   files and public names have docstrings, public functions an example
    pages.py        links resolve, names in backticks exist, how-to pages are complete
    course.py       chapters are in order, with exercises and outputs
    words.py        pages, messages and docstrings use the words of the field
    suite.py        tests/public imports public names only
"""
