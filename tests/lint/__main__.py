"""Print every place that breaks a rule; exit with status 1 if there is one."""

import sys

from tests.lint import (
    course,
    docstrings,
    javascript,
    layers,
    pages,
    papers,
    suite,
    words,
)

RULES = (layers, papers, docstrings, pages, course, words, suite, javascript)


def main() -> int:
    findings = [finding for rule in RULES for finding in rule.check()]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
