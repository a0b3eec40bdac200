"""The adversarial suite by hand: python -m tests.adversarial --first 0 --count 200."""

import argparse
import sys
from time import perf_counter

from tests.adversarial.checks import summary, survey


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=200, help="how many seeds")
    parser.add_argument(
        "--hard",
        action="store_true",
        help="with functions that defeat careless quadrature",
    )
    options = parser.parse_args()
    begin = perf_counter()

    def report(scores):
        case = scores.case
        word = "ALARM " if scores.alarming else ""
        functions = f"{case.K} {case.student} from {case.M} {case.teacher}"
        print(
            f"{word}{scores.kind:5} {case.seed:4} |z| {scores.largest:5.2f} {functions} ({perf_counter() - begin:.0f} s)"
        )
        if scores.alarming:
            print(scores)
        sys.stdout.flush()

    done = survey(
        range(options.first, options.first + options.count), options.hard, report
    )
    print(summary(done))
    return int(any(scores.alarming for scores in done))


if __name__ == "__main__":
    sys.exit(main())
