"""The index equals the files, whatever happens to files, processes and the database."""

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from hilum import StoreError
from hilum_semantic_search.database import DamagedIndex, IndexFolder
from hilum_semantic_search.reader_process import FileReader
from hilum_semantic_search.store import IndexStore
from index_content import dump

CODE = """
class {name}:
    def first_{name}(self):
        return "{word}"

    def second(self):
        return {number}
"""


def make_file(chosen: random.Random) -> str:
    name = chosen.choice(["Alpha", "Beta", "Gamma"])
    word = chosen.choice(["lemon", "cherry", "walnut"])
    return CODE.format(name=name, word=word, number=chosen.randrange(9)) * chosen.randrange(1, 4)


def change(root: Path, chosen: random.Random) -> None:
    """Make one random change of the files."""
    names = ["a.py", "b.py", "c.md", "sub/d.py", "sub/e.js", "sub/deep/f.py", "g.sh"]
    path = root / chosen.choice(names)
    what = chosen.randrange(9)
    path.parent.mkdir(parents=True, exist_ok=True)
    if what < 4:
        path.write_text(make_file(chosen))
    elif what == 4:
        path.unlink(missing_ok=True)
    elif what == 5 and path.exists():
        path.rename(root / chosen.choice([name for name in names if (root / name).parent.is_dir()]))
    elif what == 6 and path.exists():
        # The same size and modification time; only the time of the inode's change differs.
        status = path.stat()
        text = path.read_text()
        path.write_text(text.replace("lemon", "melon").replace("cherry", "cherty"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif what == 7:
        (root / ".gitignore").write_text(chosen.choice(["", "sub/\n", "*.py\n", "a.py\n"]))
    elif what == 8:
        path.write_bytes(chosen.choice([b"\0binary", b"", b"x" * 9000, b"  \n"]))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.slow(cases=3)
async def test_after_random_changes_the_index_equals_a_new_one(index, root, tmp_path, seed):
    chosen = random.Random(seed)
    indexer = index.indexer()
    for _ in range(6):
        for _ in range(chosen.randrange(1, 6)):
            change(root, chosen)
        await indexer.update()
    kept = dump(index.store)
    index.store.folder = IndexFolder(root, tmp_path / "other")
    await index.indexer().update()
    assert dump(index.store) == kept


async def test_an_update_without_changes_starts_no_reader(index, write):
    write({"a.py": "def one(): pass\n"})
    await trio.sleep(0.06)  # until a further change would show in the file's times
    indexer = index.indexer()
    first = await indexer.update()
    assert (first.changed, first.removed) == (1, 0)
    index.started.clear()
    second = await indexer.update()
    assert (second.changed, second.removed) == (0, 0)
    assert [Path(argv[0]).name for argv in index.started] == ["rg"]


async def test_ignored_and_secret_files_are_not_indexed(index, write):
    write(
        {
            ".gitignore": "build/\n",
            "build/out.py": "def wanted(): pass\n",
            ".env": "TOKEN=wanted\n",
            "id_rsa": "wanted\n",
            "credentials.json": '{"wanted": 1}\n',
            "a.py": "def wanted(): pass\n",
            ".git/hooks/x.py": "def wanted(): pass\n",
        }
    )
    await index.indexer().update()
    assert index.find("wanted") == [("a.py", "wanted")]
    status = index.store.read_status()
    assert status.skipped["secret"] >= 2


async def test_a_file_that_becomes_ignored_leaves_the_index(index, write):
    write({"a.py": "def wanted(): pass\n"})
    await index.indexer().update()
    write({".gitignore": "a.py\n"})
    await index.indexer().update()
    assert index.find("wanted") == []


async def test_links_are_not_followed(index, root, write, tmp_path):
    """Neither to files nor to folders outside, nor in circles."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("def wanted(): pass\n")
    write({"a.py": "def own(): pass\n"})
    (root / "file.py").symlink_to(outside / "secret.py")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "self").symlink_to("self")
    await index.indexer().update()
    assert index.paths() == {"a.py"}


async def test_a_folder_that_becomes_a_link_during_the_update_is_not_followed(
    index, root, write, tmp_path
):
    """The reader opens each folder of a path without following links."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.py").write_text("def wanted(): pass\n")
    write({"sub/x.py": "def own(): pass\n", "a.py": "def first(): pass\n"})
    indexer = index.indexer()
    read = indexer._separate_secrets

    def swap(batch):
        (root / "sub").rename(root / "old")
        (root / "sub").symlink_to(outside)
        return read(batch)

    indexer._separate_secrets = swap
    await indexer.update()
    assert index.find("wanted") == []
    assert index.find("first") == [("a.py", "first")]


async def test_hostile_names_are_indexed_as_any_other(index, root):
    names = [
        b"new\nline.py",
        b"tab\t.py",
        b"-rf.py",
        b"quote'\".py",
        b"caf\xe9.py",  # not UTF-8
        b"\xf0\x9f\x98\x80.py",
        b"%s{}.py",
        b"\x1b[31m.py",
        b" .py",
        b"a" * 200 + b".py",
    ]
    for name in names:
        (root / os.fsdecode(name)).write_text("def wanted(): pass\n")
    await index.indexer().update()
    with index.store.folder.open() as connection:
        found = {path for (path,) in connection.execute("SELECT path FROM files")}
    assert found == set(names)
    assert len(index.find("wanted", limit=50)) == len(names)


async def test_special_files_and_unsuitable_files_are_left_out(index, root, write):
    os.mkfifo(root / "pipe.py")
    write(
        {
            "big.py": "# wanted\n" * 200_000,
            "min.js": "var wanted=1;" * 1000,
            "bin.py": b"wanted\0\0",
            "image.png": b"wanted",
            "lib.min.js": "var wanted = 1\n",
            "package-lock.json": '{\n "wanted": 1\n}\n',
            "deep.py": "x = " + "(" * 5000 + ")" * 5000 + "\n# wanted\n",
            "nested.py": "\n".join("    " * n + "if x:" for n in range(90)) + "\n# wanted deep\n",
            "ok.py": "def wanted(): pass\n",
        }
    )
    with trio.fail_after(60):
        await index.indexer().update()
    assert {path for path, _ in index.find("wanted", limit=50)} <= {"ok.py", "deep.py", "nested.py"}
    assert ("ok.py", "wanted") in index.find("wanted", limit=50)


async def test_an_unreadable_file_is_read_as_soon_as_it_can_be(index, root, write):
    write({"a.py": "def wanted(): pass\n"})
    (root / "a.py").chmod(0)
    if os.access(root / "a.py", os.R_OK):
        pytest.skip("this user may read every file")
    await index.indexer().update()
    assert index.find("wanted") == []
    (root / "a.py").chmod(0o600)
    await index.indexer().update()
    assert index.find("wanted") == [("a.py", "wanted")]


async def test_a_reader_that_dies_costs_one_file(index, write, monkeypatch):
    """A file on which the process ends is left out; the others of its batch are indexed."""
    write({f"f{n}.py": f"def wanted{n}(): pass\n" for n in range(5)})
    read = FileReader.read

    async def read_or_die(self, paths, seconds):
        if b"f3.py" in paths:
            os.kill(self._lines.process.pid, signal.SIGKILL)
        return await read(self, paths, seconds)

    monkeypatch.setattr(FileReader, "read", read_or_die)
    await index.indexer().update()
    assert index.paths() == {"f0.py", "f1.py", "f2.py", "f4.py"}
    assert index.store.read_status().skipped == {"too complex": 1}


async def test_the_number_and_the_size_of_files_are_limited(index, write):
    write({f"deep/f{n}.py": "def wanted(): pass\n" for n in range(5)})
    write({"top.py": "def wanted(): pass\n", "large.py": "# wanted\n" * 200})
    result = await index.indexer(max_files=2, max_file_size=1000).update()
    assert result.left_out == 4
    assert "top.py" in index.paths()
    assert "large.py" not in index.paths()
    assert len(index.paths()) == 2


async def test_only_the_user_can_read_the_index(index, write):
    old = os.umask(0)
    try:
        write({"a.py": "x = 1\n"})
        await index.indexer().update()
    finally:
        os.umask(old)
    folder = index.store.folder
    for path in (folder.path, folder.path.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in folder.path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


# --- damage ---------------------------------------------------------------------------------------


def overwrite(database: Path, how: str) -> None:
    if how == "no database":
        database.write_bytes(b"hello " * 1000)
    elif how == "cut off":
        os.truncate(database, database.stat().st_size // 2)
    elif how == "empty":
        database.write_bytes(b"")
    elif how == "other program":
        database.unlink()
        other = sqlite3.connect(database)
        other.execute("CREATE TABLE t (x)")
        other.execute("PRAGMA application_id = 7")
        other.commit()
        other.close()
    elif how == "newer version":
        other = sqlite3.connect(database)
        other.execute("PRAGMA user_version = 99")
        other.commit()
        other.close()
    elif how == "missing table":
        other = sqlite3.connect(database)
        other.execute("DROP TABLE chunks")
        other.commit()
        other.close()
    elif how == "bad texts":
        other = sqlite3.connect(database)
        other.execute("UPDATE files SET words = x'00'")
        other.commit()
        other.close()
    else:
        chosen = random.Random(how)
        data = bytearray(database.read_bytes())
        for _ in range(chosen.randrange(1, 400)):
            data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        database.write_bytes(data)


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    "how",
    [
        "no database",
        "cut off",
        "empty",
        "other program",
        "newer version",
        "missing table",
        "bad texts",
    ],
)
async def test_a_damaged_index_is_built_anew(index, write, how):
    files = {f"f{n}.py": f"def wanted{n}(): pass\n" * 50 for n in range(20)}
    write(files)
    await index.indexer().update()
    good = dump(index.store)
    overwrite(index.store.folder.database, how)
    # Touched files are removed from the index first, which needs their texts in it.
    write(dict(files))
    result = await index.indexer().update()
    assert result.rebuilt or how == "empty"
    assert dump(index.store) == good


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.slow(cases=4)
async def test_flipped_bits_are_damage_or_have_no_effect(index, write, seed):
    """Nothing but the errors of an index is raised, and after a replacement all is well."""
    files = {f"f{n}.py": f"def wanted{n}(): pass\n" * 50 for n in range(20)}
    write(files)
    await index.indexer().update()
    good = dump(index.store)
    overwrite(index.store.folder.database, f"bits {seed}")
    write(dict(files))
    await index.indexer().update()
    try:
        index.find("wanted")
        index.store.read_status()
        same = dump(index.store) == good
    except DamagedIndex:
        same = False
    if not same:
        index.store.folder.replace()
        await index.indexer().update()
        assert dump(index.store) == good


async def test_a_full_disk_is_an_error_with_advice(index, write, monkeypatch):
    write({"a.txt": "".join(f"word{n} more{n}\n" for n in range(5000))})
    opened = IndexFolder._connect

    def full(self):
        connection = opened(self)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(IndexFolder, "_connect", full)
    with pytest.raises(StoreError, match="could not be written") as caught:
        await index.indexer().update()
    assert "hilum index --clear" in caught.value.hint


async def test_a_folder_in_place_of_the_database_is_an_error(index, write):
    write({"a.py": "x = 1\n"})
    index.store.folder.database.mkdir(parents=True)
    with pytest.raises((StoreError, DamagedIndex)):
        await index.indexer().update()


# --- several processes ----------------------------------------------------------------------------

PROGRAM = """
import sys
from hilum_semantic_search.command import main
raise SystemExit(main(["-C", sys.argv[1]]))
"""


def start(root: Path, cache: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "HILUM_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_processes_build_one_index(root, write, tmp_path):
    """At once: nothing fails, and each file is indexed once."""
    write({f"p{n % 7}/f{n}.py": make_file(random.Random(n)) for n in range(300)})
    running = [start(root, tmp_path / "cache") for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    both = dump(IndexStore(IndexFolder(root, tmp_path / "cache")))
    alone = start(root, tmp_path / "other")
    alone.communicate(timeout=60)
    assert dump(IndexStore(IndexFolder(root, tmp_path / "other"))) == both
    read = [int(text.split()[0].replace(",", "")) for text in outputs if "files were read" in text]
    assert sum(read) == 300


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow(cases=1)
def test_killed_while_indexing(root, write, tmp_path, seed):
    """SIGKILL at a random instant: the next run completes the index, and no process is left."""
    write({f"p{n % 7}/f{n}.py": make_file(random.Random(n)) * 5 for n in range(200)})
    cache = tmp_path / "cache"
    process = start(root, cache)
    time.sleep(random.Random(seed).uniform(0.3, 1.2))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store = IndexStore(IndexFolder(root, cache))
    if store.folder.exists():
        with suppress(DamagedIndex):
            dump(store)  # checks the integrity of what was written
    again = start(root, cache)
    output, _ = again.communicate(timeout=60)
    assert again.returncode == 0, output
    assert "damaged" not in output
    other = start(root, tmp_path / "other")
    other.communicate(timeout=60)
    assert dump(store) == dump(IndexStore(IndexFolder(root, tmp_path / "other")))
