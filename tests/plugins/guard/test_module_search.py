"""The search for what test runners load remembers a project, and finds the same as a first search."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import pytest
import trio
from hilum_guard import folder_listings, new_files, session_guard
from hilum_guard.commands import module_finder, python_imports
from hilum_guard.commands.loaded_files import Loaded, find_loaded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

PIECES = st.sampled_from(
    "import|from|import |from a import b|import a, b as c|from . import d|from .e import (f,\n g)"
    "|important|importlib|__import__|import path|sys.path|exec(|pytest_plugins|'x'|'y.py'|run_path"
    "| |\t|\n|;|:|a|b.c|..x|(|)|,| as |#|_|é".split("|")
)


@given(st.lists(PIECES, max_size=14).map("".join))
@example("from importlib import x\nimport y; import z")
@example("x = 1\nimport\timport\n")
def test_statements_are_those_that_the_whole_expression_finds(text: str) -> None:
    expected: dict[str, None] = {}
    for origin, _, plain in python_imports._IMPORT.findall(text):
        names = [each.split(" as ")[0].strip() for each in plain.split(",")]
        expected.update(dict.fromkeys(names if plain else [origin]))
    found = [f"{'.' * level}{name}" for level, name, _ in python_imports.find_imports(text).modules]
    assert list(dict.fromkeys(found)) == list(expected)


@pytest.mark.parametrize(
    "code",
    [
        "import runpy", "x = exec (y)", "pytest_plugins = z", "sys. path[0]", "site.addsitedir(a)",
        "__import__('b')", "from importlib import reload", "import imp", "from sys import path",
        "import path", "a.path.insert(0, b)",
    ],
)  # fmt: skip
def test_code_that_loads_by_name_shows_its_texts(code: str) -> None:
    has_texts = bool(python_imports.find_imports(f"{code}\nname = 'm'\n").texts)
    assert has_texts


# --- changes between two searches -----------------------------------------------------------------

FILES = (
    "test_a.py", "conftest.py", "m.py", "n.py", "p/__init__.py", "p/m.py", "p/test_b.py", "q/m.py",
    "q/r/n.py", "src/n.py", "p/r/__init__.py", ".hidden/m.py", "site/sitecustomize.py", "data.txt",
)  # fmt: skip
CODES = (
    "import m\n", "from p import m, n\n", "from . import m\n", "from p.r import n\n", "import p\n",
    "import sys\nsys.path.insert(0, 'q')\nimport m\n", "import sys; sys.path.append('../q/r')\nimport n\n",
    "import importlib\nimportlib.import_module('n')\n", "import runpy\nrunpy.run_path('q/m.py')\n",
    "import runpy\nrunpy.run_path('data.txt')\n", "", "from q import r\nimport q.r.n\n",
    "import sys\nsys.path.append('/nowhere/x')\nfrom linked import m\n",
)  # fmt: skip
COMMANDS = (
    ("pytest",),
    ("pytest", "p"),
    ("python", "-m", "p.m"),
    ("python", "-c", "import m, n"),
    ("python", "test_a.py"),
    ("unittest",),
)
CHANGES = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(FILES), st.sampled_from(CODES)),
    st.tuples(st.just("remove"), st.sampled_from(FILES), st.just("")),
    st.tuples(st.just("link"), st.just("linked"), st.sampled_from(("p", "q", "q/r"))),
    st.tuples(st.just("track"), st.sampled_from(FILES[:3]), st.just("")),
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository whose files are all old, so that new ones are those that are not tracked."""
    monkeypatch.setattr(new_files, "find_start", lambda: 4e9)
    # Every change gets a time stamp of its own (see ``change``).
    monkeypatch.setattr(folder_listings, "_TICK", -1)
    yield make_repository(tmp_path.resolve())
    forget()


def make_repository(parent: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=parent))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


REMEMBERED: tuple[dict[Any, Any], ...] = (
    module_finder._projects,
    folder_listings._listings,
    folder_listings._selected,
    new_files._tops,
)


def forget() -> None:
    for cache in REMEMBERED:
        cache.clear()


def change(root: Path, kind: str, name: str, text: str) -> None:
    path = root / name
    if kind == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    elif kind == "remove":
        path.unlink(missing_ok=True)
    elif kind == "link":
        path.unlink(missing_ok=True)
        path.symlink_to(root / text)
    else:
        (root / name).touch()
        subprocess.run(["git", "add", name], cwd=root, check=True)
    wait_for_tick(root.parent / "tick")


def wait_for_tick(path: Path) -> None:
    """Return when a change gets another time stamp than those before."""
    path.write_text("")
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.write_text("")


def search(root: Path, words: tuple[str, ...]) -> Loaded:
    environment = {"PYTHONPATH": "site"}
    return find_loaded(words[0], words, [str(root)], environment, str(root))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(CHANGES, min_size=3, max_size=12))
def test_a_search_after_changes_finds_what_a_first_one_finds(
    root: Path, changes: list[tuple[str, str, str]]
) -> None:
    root = make_repository(root.parent)
    for name in FILES[:8]:
        change(root, "write", name, CODES[len(name) % len(CODES)])
    for kind, name, text in changes:
        change(root, kind, name, text)
        remembered = [search(root, words) for words in COMMANDS]
        known = [dict(each) for each in REMEMBERED]
        forget()
        assert remembered == [search(root, words) for words in COMMANDS]
        forget()
        for cache, content in zip(REMEMBERED, known, strict=True):
            cache.update(content)


def test_a_folder_that_becomes_a_package_is_searched_anew(root: Path) -> None:
    change(root, "write", "test_a.py", "import p.m\n")
    change(root, "write", "p/m.py", "")
    assert len(search(root, ("pytest",)).paths) == 2
    change(root, "write", "p/__init__.py", "")
    assert str(root / "p/__init__.py") in search(root, ("pytest",)).paths


def test_a_second_search_reads_no_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(root, "write", "test_a.py", "import m\n")
    change(root, "write", "m.py", "")
    first = search(root, ("pytest",))
    assert [os.path.basename(path) for path in first.paths] == ["test_a.py", "m.py"]
    monkeypatch.setattr(module_finder, "find_imports", None)
    monkeypatch.setattr(folder_listings, "_read", None)
    assert search(root, ("pytest",)) == first


def test_a_change_within_a_tick_of_the_clock_is_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for number in range(50):
        (root / f"test_{number}.py").write_text("")
        assert len(search(root, ("pytest",)).paths) == number + 1


async def test_the_tests_are_read_after_the_first_call(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the model works on the result, so that the first run of the tests starts at once."""
    read, done = session_guard._read_tests, trio.Event()

    def read_and_report(root: str, find_temporary_folder: Callable[[], str]) -> None:
        read(root, find_temporary_folder)
        trio.from_thread.run_sync(done.set)

    monkeypatch.setattr(session_guard, "_read_tests", read_and_report)
    kit = await bench(hilum_guard, hilum_files, approve="auto", files={"test_a.py": "import m\n"})
    await kit.call("read_file", path="test_a.py")
    with trio.fail_after(20):
        await done.wait()
    path = str(kit.session.workspace.root / "test_a.py")
    assert any(
        path in {file for file, _ in each.files} for each in module_finder._projects.values()
    )
