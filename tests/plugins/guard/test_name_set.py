"""A set of many paths is a set, also of paths that are not valid UTF-8."""

import os
import random
import tracemalloc

import pytest
from hilum_guard.name_set import NameSet

PARTS = ("a", "A", "b", "ü", "日", "\ud800", os.fsdecode(b"\xff"), "/", " ", "")


@pytest.mark.parametrize("seed", range(20))
def test_it_behaves_as_a_set(seed):
    chance = random.Random(seed)
    names = ["".join(chance.choices(PARTS, k=chance.randrange(4))) for _ in range(30)]
    others = ["".join(chance.choices(PARTS, k=chance.randrange(4))) for _ in range(30)]
    found = NameSet(names)
    assert set(found) == set(names)
    assert len(found) == len(set(names))
    for each in (*names, *others):
        assert (each in found) == (each in set(names))
    assert found == set(names)
    assert found & set(others) == set(names) & set(others)


def test_an_empty_set_and_other_types():
    assert "" not in NameSet()
    assert "" in NameSet([""])
    assert 1 not in NameSet(["1"])
    assert not NameSet()


def test_a_path_takes_at_most_100_bytes():
    count = 20_000
    tracemalloc.start()
    try:
        names = NameSet(f"src/package{n % 50}/module{n:06}.py" for n in range(count))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(names) == count
    assert taken / count < 100
