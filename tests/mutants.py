"""Mutation testing: change one operator or number of a formula; do the tests notice?

    python -m tests.mutants --count 60 --seed 0
    python -m tests.mutants --list --files stream/moments/averages.py

A mutant is a copy of the package with one change: + for -, * for /, < for <=, a number
one larger, a sign dropped. It is killed if a test of its file fails, and survives if all
pass. Survivors are printed with their lines: each is a missing test, or a change that
makes no difference. Tools such as mutmut exchange functions while a program runs, which
machine code by numba and traced functions of JAX do not notice; here the text of a file
is changed before Python starts.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tutelage"
COPY = ROOT / "output" / "mutants"
PYTEST = ("-m", "pytest", "-x", "-q", "-n", "0", "-m", "not full")
LONGEST = 900.0  # seconds; a mutant that never ends is killed

# The tests of each file, those that fail fastest first.
TESTS = {
    "stream/moments/averages.py": (
        "tests/public/test_moments.py",
        "tests/stream/moments/test_erf.py",
        "tests/stream/moments/test_polynomial.py",
        "tests/stream/moments/test_relu.py",
    ),
    "stream/moments/matrices.py": (
        "tests/public/test_moments.py",
        "tests/analysis/single_steps/test_drift_matrices.py",
        "tests/stream/test_error.py",
        "tests/stream/test_order_parameters.py",
        "tests/stream/test_tasks.py",
        "tests/stream/test_mixture.py",
    ),
    "stream/order_parameters.py": (
        "tests/stream/test_order_parameters.py",
        "tests/test_facts.py",
        "tests/stream/test_spectra.py",
        "tests/stream/test_tasks.py",
        "tests/stream/test_mixture.py",
    ),
    "stream/committee_kernel.py": (
        "tests/stream/test_committee.py",
        "tests/test_facts.py",
    ),
    "simulation/numba_kernels.py": (
        "tests/public/test_simulate.py",
        "tests/simulation/test_weights_loop.py",
        "tests/simulation/test_same_law.py",
        "tests/simulation/test_simulate.py",
    ),
    "comparison/gaps.py": (
        "tests/comparison/test_gaps.py",
        "tests/comparison/test_verdict.py",
    ),
    "comparison/verdict.py": (
        "tests/comparison/test_verdict.py",
        "tests/comparison/test_escape.py",
    ),
    "comparison/escape.py": ("tests/comparison/test_escape.py",),
    "comparison/scatter.py": ("tests/comparison/test_scatter.py",),
}

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


class Mutant(NamedTuple):
    """One change: the place of its node in a walk through the tree, and what it reads."""

    file: str
    line: int
    node: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Every possible change of a file, in the order of its tree."""
    tree = ast.parse(source)
    skipped = without_effect(tree)
    found = []
    for index, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        changed = changed_node(node)
        if changed is not None:
            before = ast.unparse(node)
            mutant = Mutant(file, node.lineno, index, before, ast.unparse(changed))
            found.append(mutant)
    return found


def without_effect(tree: ast.AST) -> set[int]:
    """Nodes in annotations, messages and arguments of decorators, which compute nothing."""
    parts: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            parts += node.decorator_list
            parts += [node.returns] if node.returns is not None else []
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
            parts.append(node)
        if isinstance(node, ast.BinOp) and holds_text(node):
            parts.append(node)
    return {id(inner) for part in parts for inner in ast.walk(part)}


def holds_text(node: ast.AST) -> bool:
    """True if an expression joins pieces of text."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.JoinedStr):
            return True
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            return True
    return False


def changed_node(node: ast.AST) -> ast.AST | None:
    """The mutated copy of a node; None if it is of another kind."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.BinOp) and type(changed.op) in OPERATORS:
        changed.op = OPERATORS[type(changed.op)]()
        return changed
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in OPERATORS:
        changed.ops[0] = OPERATORS[type(changed.ops[0])]()
        return changed
    if isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.USub):
        changed.op = ast.UAdd()
        return changed
    if isinstance(changed, ast.Constant) and type(changed.value) in (int, float):
        changed.value = changed.value + 1
        return changed
    return None


def mutated(source: str, mutant: Mutant) -> str:
    """The text of a file with one change."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    target = nodes[mutant.node]
    changed = changed_node(target)
    assert changed is not None
    for field in ("op", "ops", "value"):
        if hasattr(changed, field) and not isinstance(
            getattr(changed, field), ast.expr
        ):
            setattr(target, field, getattr(changed, field))
    return ast.unparse(tree)


def sample(files: list[str], count: int, seed: int) -> list[Mutant]:
    """So many mutants of each file in turn, drawn at random without replacement."""
    generator = random.Random(seed)
    piles = []
    for file in files:
        pile = mutants_of(file, (PACKAGE / file).read_text())
        generator.shuffle(pile)
        piles.append(pile)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(piles):
        for pile in piles:
            if pile and len(chosen) < count:
                chosen.append(pile.pop())
    return chosen


def run_tests(file: str) -> bool:
    """True if all tests of a file pass on the copy of the package."""
    environment = os.environ | {
        "PYTHONPATH": str(COPY),
        "OPENBLAS_NUM_THREADS": "1",
        "TUTELAGE_CACHE": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(COPY / "numba"),
    }
    command = [sys.executable, *PYTEST, *TESTS[file]]
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def results(mutants: list[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether the tests noticed it."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(
        PACKAGE, COPY / "tutelage", ignore=shutil.ignore_patterns("__pycache__")
    )
    for file in sorted({mutant.file for mutant in mutants}):
        if not run_tests(file):
            sys.exit(f"the tests of {file} fail without a mutant")
    for mutant in mutants:
        source = (PACKAGE / mutant.file).read_text()
        place = COPY / "tutelage" / mutant.file
        place.write_text(mutated(source, mutant))
        killed = not run_tests(mutant.file)
        place.write_text(source)
        yield mutant, killed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", default=list(TESTS), choices=TESTS)
    parser.add_argument(
        "--list", action="store_true", help="print the mutants, run none"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    chosen = sample(options.files, options.count, options.seed)
    if options.list:
        print("\n".join(str(mutant) for mutant in chosen))
        return 0
    killed_count = 0
    total = 0
    begin = time.monotonic()
    for mutant, killed in results(chosen):
        total += 1
        killed_count += killed
        print(f"{'killed  ' if killed else 'SURVIVED'} {mutant}", flush=True)
        if time.monotonic() - begin > 60.0 * options.minutes:
            break
    print(f"{killed_count} of {total} mutants killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
