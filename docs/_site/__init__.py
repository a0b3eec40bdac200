"""Extensions of Sphinx: code blocks that run, and pages generated from the library.

blocks    ```python blocks of a page are run, and their output is shown below them
runner    the one process that runs them
outputs   writes the output of blocks into the pages, for readers without a build
notebooks the chapters of the course and the examples as notebooks
diagrams  the drawings of the course
gallery   the figures of the registry with their claims
errata    errata of the sources, each line tied to a claim or a test
reference the public names and the commands
docstring our plain docstrings as reStructuredText
examples  the scripts with their output
punctuation  no line begins with the comma after a formula
"""
