"""An archive of modules gives what Python would have imported, only faster."""

import json
import marshal
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hilum import module_archive

PROGRAM = """
import json, sys
from hilum import module_archive

module_archive._find_archive = lambda command: sys.argv[1]
module_archive.MAX_MISSES = module_archive.MAX_MISSING_TEXTS = 0
sys.path[:0] = sys.argv[2:]
module_archive.use_archive("run")
import single
import package.inner

def from_archive(module):
    return type(module.__spec__.loader).__name__ == "_ArchiveLoader"

facts = {name: [from_archive(module), module.VALUE, module.__file__, module.__cached__]
         for name, module in (("single", single), ("inner", package.inner))}
facts["package"] = [from_archive(package), package.__path__, package.__package__]
import inspect
facts["source"] = inspect.getsource(package.inner)
facts["texts"] = single.describe()
module_archive.save_archive()
print(json.dumps(facts))
"""
SINGLE = """
import re
from typing import NamedTuple
import attrs
import os
VALUE = 1
SECRET = re.compile("y" + os.environ["SECRET"])

@attrs.frozen
class Point:
    x: int
    y: int = 2

class Pair(NamedTuple):
    left: "int"
    right: "str" = "b"

PATTERN = re.compile(r"(?P<first>a+)|(b)", re.IGNORECASE)

CONSTANTS = ("constant o[f] a module",)

def find(secret):
    assert all(re.search(constant, "constant of a module") for constant in CONSTANTS)
    assert re.search(r"in (a) function", "in a function")
    return re.compile(f"x{secret}").search(f"x{secret}") is not None

def describe():
    found = PATTERN.match("AA")
    return [
        repr(Point(1)), Point(1) == Point(1, 2), hash(Point(1)) == hash(Point(1)), Pair(1),
        found.groupdict(), PATTERN.flags, PATTERN.groups, PATTERN.match("b").group(2),
        find("s3cret"),
    ]
"""


class Modules:
    """A folder with modules, and programs that import them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "modules"
        self.archive = folder / "run.modules"
        (self.folder / "package").mkdir(parents=True)
        self.write("single.py", SINGLE)
        self.write("package/__init__.py", "")
        self.write("package/inner.py", "VALUE = 1\n")
        self.first = folder / "first"
        self.first.mkdir()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def run(self, *options: str) -> dict[str, list[object]]:
        """Return what a program found that imports the modules and then saves an archive."""
        argv = [sys.executable, *options, "-c", PROGRAM, self.archive, self.first, self.folder]
        env = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["SECRET"] = "hunter2"
        done = subprocess.run(argv, capture_output=True, check=True, timeout=60, env=env)
        facts: dict[str, list[object]] = json.loads(done.stdout)
        return facts


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


def is_archived(facts: dict[str, list[object]], name: str) -> object:
    return facts[name][0]


def test_modules_of_an_archive_are_as_python_imports_them(modules: Modules):
    before = modules.run()
    after = modules.run()
    for name in ("single", "inner", "package"):
        assert not is_archived(before, name)
        assert is_archived(after, name)
        assert before[name][1:] == after[name][1:]
    assert before["source"] == after["source"] == "VALUE = 1\n"
    assert before["texts"] == after["texts"]
    assert before["texts"][-1] is True


def test_an_archive_that_has_everything_is_not_written_again(modules: Modules):
    """What was imported before the archive was opened is not missing in it."""
    modules.run()
    before = modules.archive.stat()
    modules.run()
    after = modules.archive.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_only_patterns_in_the_source_are_kept(modules: Modules):
    """One that a function or a module builds may contain a secret."""
    modules.run()
    data = modules.archive.read_bytes()
    assert b"(?P<first>a+)" in data
    compiled = data[int.from_bytes(data[-8:], "big") :]
    assert b"in (a) function" in compiled
    assert b"constant o[f] a module" in compiled
    assert b"xs3cret" not in data
    assert b"hunter2" not in data


def test_a_changed_module_is_imported_anew(modules: Modules):
    modules.run()
    modules.write("package/inner.py", "VALUE = 12\n")
    facts = modules.run()
    assert facts["inner"][:2] == [False, 12]
    assert is_archived(facts, "single")
    # The archive was written again.
    assert modules.run()["inner"][:2] == [True, 12]


def test_a_module_with_the_same_size_but_another_time_is_imported_anew(modules: Modules):
    modules.run()
    path = modules.folder / "package" / "inner.py"
    path.write_text("VALUE = 2\n")
    os.utime(path, (1, 1))
    assert modules.run()["inner"][:2] == [False, 2]


def test_a_new_module_earlier_on_the_path_takes_precedence(modules: Modules):
    modules.run()
    (modules.first / "single.py").write_text(SINGLE.replace("VALUE = 1", "VALUE = 3"))
    facts = modules.run()
    assert facts["single"][:2] == [False, 3]


def test_a_new_package_in_the_place_of_a_module_takes_precedence(modules: Modules):
    modules.run()
    (modules.folder / "package" / "inner").mkdir()
    modules.write("package/inner/__init__.py", "VALUE = 4\n")
    assert modules.run()["inner"][:2] == [False, 4]


END = 12  # bytes: the checksum of the index, and its place


def seal(content: bytes, index: bytes) -> bytes:
    """Return an archive whose checksum is right."""
    checksum = zlib.crc32(index).to_bytes(4, "big")
    return content + index + checksum + len(content).to_bytes(8, "big")


@pytest.mark.parametrize(
    "damage",
    [
        "empty",
        "short",
        "header",
        "version",
        "index",
        "one byte",
        "place",
        "bytecode",
        "other objects",
    ],
)
def test_a_damaged_archive_is_no_obstacle_and_is_replaced(modules: Modules, damage: str):
    modules.run()
    data = bytearray(modules.archive.read_bytes())
    place = int.from_bytes(data[-8:], "big")
    match damage:
        case "empty":
            data = bytearray()
        case "short":
            del data[len(data) // 2 :]
        case "header":
            data = bytearray(len(data))
        case "version":
            data[:16] = b"hilum modules 2\n"
        case "index":
            data[place : place + 1000] = bytes(1000)
        case "one byte":
            data[place + 2000] ^= 1
        case "place":
            data[-8:] = (len(data) - END - 5).to_bytes(8, "big")
        case "bytecode":
            data[16:place] = bytes(place - 16)
        case "other objects":
            data[16:place] = (marshal.dumps(7) * place)[: place - 16]
    modules.archive.write_bytes(data)
    assert modules.run()["inner"][1] == 1
    if damage not in ("bytecode", "other objects"):
        assert is_archived(modules.run(), "inner")


def test_texts_of_another_version_are_no_obstacle(modules: Modules):
    modules.run()
    data = modules.archive.read_bytes()
    place = int.from_bytes(data[-8:], "big")
    parts = list(marshal.loads(data[place:-END]))
    for compiled in (b"garbage", b"", marshal.dumps(1), marshal.dumps(({}, {}, {})), b"\x00" * 9):
        parts[3] = compiled
        modules.archive.write_bytes(seal(data[:place], marshal.dumps(tuple(parts))))
        assert modules.run()["inner"][1] == 1


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_something_else_in_the_place_of_an_archive_is_no_obstacle(modules: Modules, kind: str):
    if kind == "folder":
        modules.archive.mkdir()
    elif kind == "pipe":
        os.mkfifo(modules.archive)
    else:
        modules.archive.symlink_to("missing")
    assert modules.run()["inner"][1] == 1
    assert modules.run()["inner"][1] == 1


def test_an_archive_that_must_not_be_read_is_no_obstacle(modules: Modules):
    modules.run()
    modules.archive.chmod(0)
    assert modules.run()["inner"][1] == 1


def test_nothing_is_written_where_python_may_not_write_bytecode(modules: Modules):
    modules.run("-B")
    assert not modules.archive.exists()


def test_bytecode_that_is_compared_by_content_is_not_archived(modules: Modules):
    argv = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    subprocess.run([*argv, modules.folder], check=True)
    modules.run()
    assert modules.archive.exists()
    assert not is_archived(modules.run(), "inner")


def test_old_archives_are_removed(tmp_path: Path):
    for number in range(9):
        path = tmp_path / f"run-{number}.modules"
        path.write_text("")
        os.utime(path, (number, number))
    # A killed process has left one of these; the other is still being written.
    unfinished = tmp_path / "run-0.modules.1"
    unfinished.write_text("")
    os.utime(unfinished, (1, 1))
    (tmp_path / "run-1.modules.2").write_text("")
    module_archive._remove_old(str(tmp_path))
    assert not unfinished.exists()
    (tmp_path / "run-1.modules.2").unlink()
    assert len(list(tmp_path.iterdir())) == module_archive._MAX_ARCHIVES
    assert not (tmp_path / "run-0.modules").exists()
