"""Mutation testing: shards of a sample, and the table of their outputs."""

import ast
import itertools

from tests import mutants

SOURCE = "def f(x):\n    return x + 2 * x\n"


def test_every_operator_and_number_of_a_formula_is_a_mutant():
    found = mutants.mutants_of("a.py", SOURCE)
    texts = {ast.unparse(ast.parse(mutants.mutated(SOURCE, m)).body[0]) for m in found}
    bodies = {text.partition("return ")[2] for text in texts}
    assert bodies == {"x - 2 * x", "x + 2 / x", "x + 3 * x"}


def test_shards_share_the_sample_without_overlap():
    sample = mutants.sample(["comparison/gaps.py"], count=20, seed=3)
    shards = [mutants.Shard(index, 3).share(sample) for index in (1, 2, 3)]
    assert sorted(itertools.chain(*shards)) == sorted(sample)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_shards_use_separate_copies_of_the_package():
    assert mutants.Shard.read("1/2").copy != mutants.Shard.read("2/2").copy


def test_outputs_of_shards_add_to_one_table():
    killed = mutants.Mutant("a.py", 3, 0, "x + 1", "x - 1")
    survivor = mutants.Mutant("b.py", 7, 0, "x < 1", "x <= 1")
    first = [f"{mutants.KILLED}{killed}", "1 of 1 mutants killed"]
    second = [f"{mutants.SURVIVED}{survivor}", f"{mutants.KILLED}{killed}"]
    assert mutants.table([*first, *second]).splitlines() == [
        "SURVIVED b.py:7: x < 1  ->  x <= 1",
        "2 of 2 a.py",
        "0 of 1 b.py",
        "2 of 3 mutants killed",
    ]
