"""Places: files replaced whole or not at all, and near names for what is missing."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hilum import ToolError, Workspace
from hilum.errors import E_FILE_NOT_FOUND, E_PATH_TRAVERSAL, E_STALE
from hilum_files.paths import find_similar_paths, open_file, replace_file
from hilum_files.text import quote

SECRET = b"outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace folder with a file, and a secret beside it."""
    root = tmp_path / "proj"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print('hello')\n")
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil" / "main.py").write_bytes(SECRET)
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


@contextmanager
def running(step: Callable[[], None]) -> Iterator[None]:
    """Repeat a step in a thread as fast as it goes."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            step()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# --- near -----------------------------------------------------------------------------------------


def test_missing_file_suggests_near_paths(workspace: Workspace) -> None:
    """A file in another folder and a misspelt one are suggested."""
    for path in ("main.py", "src/mian.py", "lib/main.py"):
        with pytest.raises(ToolError) as caught:
            open_file(workspace, path).__enter__()
        assert caught.value.code == E_FILE_NOT_FOUND
        assert "'src/main.py'" in caught.value.hint


def test_looking_for_near_paths_is_bounded(workspace: Workspace, root: Path) -> None:
    """In a folder of 1,500 files a miss is answered from a part of them, and skipped folders are
    not looked into.
    """
    for number in range(1500):
        (root / "src" / f"module_{number}.py").touch()
    (root / "node_modules").mkdir()
    (root / "node_modules" / "wanted.js").touch()
    assert find_similar_paths(workspace, "src/modul_77.py")
    assert find_similar_paths(workspace, "wanted.js") == []


def test_near_paths_never_come_from_outside(workspace: Workspace) -> None:
    """Names beside the workspace are not given away."""
    assert find_similar_paths(workspace, "secret.txt") == []
    with pytest.raises(ToolError):
        find_similar_paths(workspace, "../secret.tx")


# --- replace --------------------------------------------------------------------------------------


def test_links_out_are_refused(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    """Links to a file and to a folder outside are not written through, chained or not."""
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to("..")
    (root / "chain").symlink_to("file")
    for path in ("file", "chain", "folder/secret.txt", "folder/new.txt"):
        with pytest.raises(ToolError) as caught:
            replace_file(workspace, path, b"x")
        assert caught.value.code == E_PATH_TRAVERSAL
    assert (tmp_path / "secret.txt").read_bytes() == SECRET
    assert not (tmp_path / "new.txt").exists()


def test_a_link_stays(workspace: Workspace, root: Path) -> None:
    """A write through a link changes what it points to."""
    (root / "link").symlink_to("src/main.py")
    assert replace_file(workspace, "link", b"new\n") == root / "src" / "main.py"
    assert (root / "link").is_symlink()
    assert (root / "src" / "main.py").read_bytes() == b"new\n"


def test_swapped_folder_never_takes_a_write(
    workspace: Workspace, root: Path, tmp_path: Path, trials: Callable[[int, int], int]
) -> None:
    """While a thread swaps a folder for a link out, no write lands outside."""
    outside = tmp_path / "outside"
    outside.mkdir()

    def swap() -> None:
        (root / "real").rename(root / "swap")
        (root / "swap").rename(root / "real")
        (root / "swap").symlink_to(outside)
        (root / "swap").unlink()

    (root / "real").mkdir()
    with running(swap):
        for _ in range(trials(200, 1000)):
            try:
                replace_file(workspace, "swap/name", b"x", make=False)
            except ToolError:
                pass
    assert list(outside.iterdir()) == []


def test_special_files_are_not_replaced(workspace: Workspace, root: Path) -> None:
    """Folders and pipes are refused."""
    os.mkfifo(root / "pipe")
    for path in (".", "src", "pipe"):
        with pytest.raises(ToolError, match="is a"):
            replace_file(workspace, path, b"x")


def test_write_makes_parents_or_not(workspace: Workspace, root: Path) -> None:
    """Missing folders are made unless that is not wanted."""
    replace_file(workspace, "a/b/c.txt", b"x")
    assert (root / "a/b/c.txt").read_bytes() == b"x"
    with pytest.raises(ToolError) as caught:
        replace_file(workspace, "d/e.txt", b"x", make=False)
    assert caught.value.code == E_FILE_NOT_FOUND


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o027)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
def test_write_keeps_the_mode(workspace: Workspace, root: Path) -> None:
    """An existing file keeps its mode, a new one gets what the umask leaves."""
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    replace_file(workspace, "run.sh", b"#!/bin/sh\nexit\n")
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
    replace_file(workspace, "new.txt", b"")
    assert stat.S_IMODE((root / "new.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_write_keeps_the_owner(workspace: Workspace, root: Path) -> None:
    """Root in a container does not take the user's files over."""
    os.chown(root / "src" / "main.py", 1234, 1234)
    replace_file(workspace, "src/main.py", b"x")
    assert (root / "src" / "main.py").stat().st_uid == 1234


def test_hard_links_are_broken(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    """A write through a hard link to an outside file leaves that file alone."""
    os.link(tmp_path / "secret.txt", root / "hard")
    replace_file(workspace, "hard", b"mine")
    assert (tmp_path / "secret.txt").read_bytes() == SECRET


def test_readers_see_the_old_or_the_new_content(workspace: Workspace, root: Path) -> None:
    """While a file is written over and over, every read gives one whole version, and no temporary
    file stays.
    """
    versions = [letter * 50_000 for letter in (b"a", b"b")]
    replace_file(workspace, "file", versions[0])

    def write() -> None:
        for version in versions:
            replace_file(workspace, "file", version)

    with running(write):
        for _ in range(300):
            with open_file(workspace, "file") as file:
                assert file.read() in versions
    assert sorted(entry.name for entry in root.iterdir()) == ["file", "src"]


def test_read_only_file_is_left_alone(workspace: Workspace, root: Path) -> None:
    """A file that nobody may write is not replaced, although its folder would allow it."""
    (root / "src" / "main.py").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        replace_file(workspace, "src/main.py", b"x")


def test_stale_file_is_left_alone(workspace: Workspace, root: Path) -> None:
    """A file that changed, or went, since its status was taken is not overwritten."""
    status = (root / "src" / "main.py").stat()
    (root / "src" / "main.py").write_text("somebody else was here\n")
    with pytest.raises(ToolError) as caught:
        replace_file(workspace, "src/main.py", b"x", expected=status)
    assert caught.value.code == E_STALE
    (root / "src" / "main.py").unlink()
    with pytest.raises(ToolError):
        replace_file(workspace, "src/main.py", b"x", expected=status)


def test_odd_names(workspace: Workspace, root: Path) -> None:
    """Names with newlines, Unicode and bytes that are no text work, and errors about them can be
    encoded.
    """
    for name in ("a\nb", "dürüm 🥙.txt", "-rf", "\udcff"):
        replace_file(workspace, name, b"x")
        assert (root / name).read_bytes() == b"x"
    with pytest.raises(ToolError) as caught:
        open_file(workspace, "missing\udcff\n").__enter__()
    assert str(caught.value).encode()


def test_nothing_is_left_open(workspace: Workspace, open_files) -> None:
    """Successes and failures alike give all descriptors back."""
    before = open_files()
    for path in ("src/main.py", "src", "../x", "src/main.py/x"):
        try:
            replace_file(workspace, path, b"x")
        except ToolError:
            pass
    assert not open_files() - before


def test_without_openat(
    workspace: Workspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where folders cannot be held open, as on Windows, the same calls work on whole paths and are
    checked before.
    """
    monkeypatch.setattr("hilum.workspace._HAS_OPENAT", False)
    replace_file(workspace, "a/b.txt", b"x")
    with open_file(workspace, "a/b.txt") as file:
        assert file.read() == b"x"
    (root / "out").symlink_to(tmp_path)
    for path in ("out/secret.txt", "../secret.txt"):
        with pytest.raises(ToolError), open_file(workspace, path):
            pass
    with pytest.raises(ToolError, match=r"no 'a/c\.txt'"), open_file(workspace, "a/c.txt"):
        pass


def test_write_that_is_killed_leaves_no_temporary_file(tmp_path):
    """What is written has no name until it is whole, so that a crash leaves the old file and
    nothing else.
    """
    (tmp_path / "a.txt").write_text("old")
    code = (
        "import os, signal, sys; from pathlib import Path; from hilum import Workspace; from hilum_files import paths;"
        "os.fchmod = lambda *_: os.kill(os.getpid(), signal.SIGKILL);"
        "paths.replace_file(Workspace(Path(sys.argv[1])), 'a.txt', b'new')"
    )
    assert (
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode
        == -signal.SIGKILL
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a.py", "'a.py'"),
        ("it's.py", "'it's.py'"),
        ("back\\slash.py", "'back\\slash.py'"),
        ("two\nlines.py", r"'two\nlines.py'"),
        ("new\n\\.py", r"'new\n\\.py'"),
    ],
)
def test_a_name_in_a_message_is_escaped_once(name: str, shown: str) -> None:
    """A backslash in a name stays one backslash; only odd characters become escapes."""
    assert quote(name) == shown
    assert quote(name).count("\n") == 0


def test_the_errors_about_a_file_quote_its_name(tmp_path: Path) -> None:
    """Here of a folder where a file should be, whose name has a backslash."""
    (tmp_path / "back\\slash").mkdir()
    with pytest.raises(ToolError, match=re.escape(r"'back\slash' is a folder")):
        replace_file(Workspace(tmp_path), "back\\slash", b"x")
