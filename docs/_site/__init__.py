"""What the site needs beyond Sphinx: code blocks that run, and pages that are generated from the library itself.

blocks    ```python blocks of a page are run, and their output is shown below them
runner    the one process that runs them
outputs   writes what blocks print and draw into the pages of the course, for readers without a build
notebooks the chapters of the course and the examples as notebooks
diagrams  the drawings of the course
gallery   the figures of the registry with their claims
errata    what the sources print and what holds, each line tied to a claim or a test
reference the public names and the commands
docstring our plain docstrings as reStructuredText
examples  the scripts with what they print and draw
punctuation  no line begins with the comma after a formula
"""
