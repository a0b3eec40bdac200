"""Mutation testing: change one operator or number of a formula; do the tests notice?

    python -m tests.mutants --count 60 --seed 0
    python -m tests.mutants --list --files stream/moments/averages.py

Several processes or machines share a sample; each shard has its own copy of the package.
Their outputs are added to one table:

    python -m tests.mutants --count 400 --seed 0 --shard 3/16 > shard-3.txt
    python -m tests.mutants --add shard-*.txt

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
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tutelage"
COPIES = ROOT / "output" / "mutants"  # one copy of the package for each shard
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
        "tests/stream/test_perfect_learning.py",
        "tests/training/test_dropout.py",
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
        "tests/simulation/test_optimizers.py",
        "tests/dataset/test_simulate.py",
        "tests/simulation/test_same_law.py",
        "tests/simulation/test_simulate.py",
        "tests/simulation/test_tasks.py",
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


class Shard(NamedTuple):
    """One of several equal shares of a sample; written 3/16, counted from one."""

    index: int
    count: int

    @classmethod
    def read(cls, text: str) -> "Shard":
        index, _, count = text.partition("/")
        shard = cls(int(index), int(count))
        if not 1 <= shard.index <= shard.count:
            raise ValueError(text)
        return shard

    def share(self, mutants: list[Mutant]) -> list[Mutant]:
        """The mutants of this shard: every count-th one of the sample."""
        return mutants[self.index - 1 :: self.count]

    @property
    def copy(self) -> Path:
        """The folder of this shard's copy of the package."""
        return COPIES / f"{self.index}-of-{self.count}"


def run_tests(file: str, folder: Path) -> bool:
    """True if all tests of a file pass on the copy of the package in a folder."""
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "OPENBLAS_NUM_THREADS": "1",
        "TUTELAGE_CACHE": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
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


def results(
    mutants: list[Mutant], folder: Path, *, checked: bool
) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether the tests noticed it.

    Unless `checked`, the tests of each file first run without a mutant: they must pass.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        PACKAGE, folder / "tutelage", ignore=shutil.ignore_patterns("__pycache__")
    )
    files = [] if checked else sorted({mutant.file for mutant in mutants})
    for file in files:
        if not run_tests(file, folder):
            sys.exit(f"the tests of {file} fail without a mutant")
    for mutant in mutants:
        source = (PACKAGE / mutant.file).read_text()
        place = folder / "tutelage" / mutant.file
        place.write_text(mutated(source, mutant))
        killed = not run_tests(mutant.file, folder)
        place.write_text(source)
        yield mutant, killed


KILLED = "killed   "
SURVIVED = "SURVIVED "


def table(lines: Iterable[str]) -> str:
    """Killed mutants by file and in all, counted from printed lines; the survivors."""
    killed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    survivors = []
    for line in lines:
        if not line.startswith((KILLED, SURVIVED)):
            continue
        file = line.split(maxsplit=1)[1].partition(":")[0]
        total[file] += 1
        if line.startswith(KILLED):
            killed[file] += 1
        else:
            survivors.append(line.strip())
    rows = [f"{killed[file]} of {total[file]} {file}" for file in sorted(total)]
    summary = f"{killed.total()} of {total.total()} mutants killed"
    return "\n".join([*sorted(survivors), *rows, summary])


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=60, help="mutants of the sample")
    parser.add_argument("--seed", type=int, default=0, help="which sample is drawn")
    parser.add_argument("--files", nargs="+", default=list(TESTS), choices=TESTS)
    parser.add_argument(
        "--shard",
        type=Shard.read,
        default=Shard(1, 1),
        metavar="K/COUNT",
        help="run only this share of the sample: 1/16 to 16/16 are the whole sample",
    )
    parser.add_argument(
        "--checked",
        action="store_true",
        help="the tests are known to pass without a mutant: do not run them first",
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop after this time"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the mutants, run none"
    )
    parser.add_argument(
        "--add", nargs="+", type=Path, metavar="FILE", help="add outputs of shards"
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.add:
        outputs = [file.read_text().splitlines() for file in options.add]
        print(table(line for output in outputs for line in output))
        return 0
    chosen = options.shard.share(sample(options.files, options.count, options.seed))
    if options.list:
        print("\n".join(str(mutant) for mutant in chosen))
        return 0
    begin = time.monotonic()
    printed = []
    for mutant, killed in results(chosen, options.shard.copy, checked=options.checked):
        printed.append(f"{KILLED if killed else SURVIVED}{mutant}")
        print(printed[-1], flush=True)
        if time.monotonic() - begin > 60.0 * options.minutes:
            break
    # The lines of survivors and files end with one line for all.
    print(table(printed).rpartition("\n")[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
