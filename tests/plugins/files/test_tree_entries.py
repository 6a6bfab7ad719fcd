"""The entries of a tree: what is packed is unpacked unchanged, and takes little memory."""

import os
import random
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hilum_files.journal.content_store import hash_content
from hilum_files.journal.tree import find_differences
from hilum_files.journal.tree_entries import (
    Node,
    Tree,
    TreeEntry,
    decode_entries,
    encode_entries,
    is_same_content,
    make_inode_stamp,
    make_stamp,
    read_stamp,
)

HASHES = (
    "",
    "h",
    "?12.-5.7",
    "?special 3",
    "AB",
    "ab ",
    "0" * 40,
    hash_content(b"x"),
    "?größer",
)


def make_status(
    mode: int = 0o100644, inode: int = 1, size: int = 3, modified: int = 5, changed: int = 6
) -> os.stat_result:
    """Return a status with times in nanoseconds."""
    times = {"st_mtime_ns": modified, "st_ctime_ns": changed}
    return os.stat_result((mode, inode, 1, 1, 0, 0, size, 0, 0, 0), times)


def make_entry(chance: random.Random) -> TreeEntry:
    """Return a random entry."""
    status = make_status(
        chance.choice((0o100644, 0o120777, 0o104755)),
        chance.choice((0, 1, 2**63, 2**64 - 1)),
        chance.choice((0, 1, 10**12)),
        chance.choice((-(10**18), 0, 10**18, 15 * 10**18)),
        chance.choice((-1, 0, 10**18)),
    )
    stamp = chance.choice((b"", make_inode_stamp(status), make_stamp(status)))
    kind = chance.choice(("file", "link", "folder", "skipped"))
    return TreeEntry(Node(kind, chance.choice((0, 0o644, 0o7777)), chance.choice(HASHES)), stamp)


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_behaves_as_a_dictionary(seed):
    chance = random.Random(seed)
    names = ["a", "a/b", "ü", os.fsdecode(b"\xff\xfe"), "a b", "-", ""]
    expected: dict[str, TreeEntry] = {}
    tree = Tree()
    earlier = Tree()
    for _ in range(200):
        name = chance.choice(names)
        what = chance.random()
        if what < 0.5:
            expected[name] = tree[name] = make_entry(chance)
        elif what < 0.7:
            assert tree.pop(name, None) == expected.pop(name, None)
        elif what < 0.8:
            earlier = tree.copy()
        elif what < 0.9 and name in earlier:
            tree.copy_entry(name, earlier)
            expected[name] = earlier[name]
        else:
            assert tree.get(name) == expected.get(name)
            assert (name in tree) == (name in expected)
        assert dict(tree.items()) == expected
        assert len(tree) == len(expected)
        assert sorted(tree.hashes()) == sorted(
            e.node.hash for e in expected.values() if e.node.hash
        )
        changed = {n for n in {*tree, *earlier} if tree.get(n) != earlier.get(n)}
        assert sorted(tree.find_differing(earlier)) == sorted(changed)
        differences = {
            n: (e, t)
            for n in changed
            if (e := getattr(earlier.get(n), "node", None))
            != (t := getattr(tree.get(n), "node", None))
        }
        assert {n: (e, t) for n, e, t in find_differences(earlier, tree)} == differences
    saved = Tree(earlier)
    decode_entries(encode_entries(tree, {*tree, *earlier}), saved)
    assert saved == tree


def test_an_entry_is_copied_only_if_the_whole_stamp_is_the_same():
    status = make_status()
    source = Tree(
        {
            "same": TreeEntry(Node("file", 0o644, HASHES[-2]), make_stamp(status)),
            "unsettled": TreeEntry(Node("file", 0o644, HASHES[-2])),
            # The hash continues a shorter stamp so that both together look like the longer one.
            "shorter": TreeEntry(
                Node("file", 0o644, make_stamp(status)[8:].hex()), make_stamp(status)[:8]
            ),
        }
    )
    tree = Tree()
    assert tree.copy_if_unchanged("same", source, make_stamp(status))
    assert not tree.copy_if_unchanged("same", source, make_stamp(make_status(size=4)))
    assert not tree.copy_if_unchanged("unsettled", source, make_stamp(status))
    assert not tree.copy_if_unchanged("shorter", source, make_stamp(status))
    assert not tree.copy_if_unchanged("missing", source, make_stamp(status))
    assert dict(tree.items()) == {"same": source["same"]}


def test_the_content_is_the_same_if_only_the_mode_was_changed():
    stamp = make_stamp(make_status(modified=-7))
    assert is_same_content(stamp, make_status(mode=0o100600, modified=-7, changed=9))
    assert not is_same_content(stamp, make_status(modified=-7, size=4))
    assert not is_same_content(stamp, make_status(modified=8))
    assert not is_same_content(b"", make_status())
    assert read_stamp(make_inode_stamp(make_status())) is None


@pytest.mark.parametrize("seed", range(10))
def test_damaged_data_is_reported(seed):
    """Data that can be decoded gives entries that can be used."""
    chance = random.Random(seed)
    tree = Tree({str(number): make_entry(chance) for number in range(20)})
    data = encode_entries(tree, tree.keys())
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        found = Tree()
        try:
            decode_entries(bytes(damaged), found)
        except msgspec.DecodeError:
            continue
        assert all(isinstance(entry.node.hash, str) for entry in found.values())


def test_the_form_of_an_older_version_is_reported():
    rows = [(b"a", Node("file", 0o644, "h"), (1, 2, 3, 4, 5))]
    with pytest.raises(msgspec.DecodeError):
        decode_entries(msgspec.msgpack.encode(rows), Tree())


def test_an_entry_takes_at_most_250_bytes(tmp_path: Path):
    """The tree of a large project is held for the whole session."""
    status = make_status()
    count = 20_000
    tracemalloc.start()
    try:
        tree = Tree()
        for number in range(count):
            name = f"src/package{number % 50}/module{number:06}.py"
            tree[name] = TreeEntry(Node("file", 0o644, hash_content(b"x")), make_stamp(status))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tree) == count
    assert taken / count < 250
