"""write_file and delete_file."""

import os
import stat
from contextlib import contextmanager, nullcontext
from pathlib import Path

import hilum_files
import pytest
from hilum import ToolError, Workspace
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL, E_READBACK_FAIL
from hilum_files.write_tools import _edit, _write


async def test_create_with_folders(use, root: Path) -> None:
    """A new file is made with its folders; what was done is said."""
    output = await use("write_file", path="a/b/c.py", content="x = 1\ny = 2\n")
    assert (root / "a/b/c.py").read_bytes() == b"x = 1\ny = 2\n"
    assert output.text == "Created a/b/c.py: 2 lines written."
    assert output.data["created"]
    assert output.data["diff"] == "--- /dev/null\n+++ b/a/b/c.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2\n"


async def test_overwrite_keeps_mode(use, root: Path) -> None:
    """An existing file keeps its mode and its link; the text says what it was."""
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / "link").symlink_to("run.sh")
    output = await use("write_file", path="link", content="#!/bin/sh\necho\n")
    assert output.text == "Overwrote run.sh: 2 lines written; it had 1 line."
    assert "+echo" in output.data["diff"]
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert (root / "link").is_symlink()


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\r\n"),
        (b"a\nb\n", "c\r\nd\r\n", b"c\r\nd\r\n"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\r\n", "\ufeffb\n", b"\xef\xbb\xbfb\r\n"),
        (b"\0\xff", "text\n", b"text\n"),
        (b"", "text", b"text"),
    ],
)
async def test_line_ends_and_mark_are_kept(
    use, root: Path, before: bytes, content: str, after: bytes
) -> None:
    """CRLF and the byte order mark of the old content decide, not those of the new."""
    (root / "a.txt").write_bytes(before)
    await use("write_file", path="a.txt", content=content)
    assert (root / "a.txt").read_bytes() == after


async def test_same_content_is_not_written(use, root: Path) -> None:
    """Writing what is there already touches nothing and says so."""
    (root / "a.txt").write_bytes(b"a\r\n")
    os.utime(root / "a.txt", (1, 1))
    output = await use("write_file", path="a.txt", content="a\n")
    assert "nothing was written" in output.text
    assert not output.changed
    assert (root / "a.txt").stat().st_mtime == 1


async def test_what_cannot_be_written(use, root: Path) -> None:
    """Folders, paths outside and through files, read-only files and pipes are refused.

    Nothing is made on the way.
    """
    (root / "folder").mkdir()
    (root / "file").write_text("x")
    (root / "locked").write_text("x")
    (root / "locked").chmod(0o400)
    os.mkfifo(root / "pipe")
    for path in ("folder", "new/", "../x", "file/x", "locked", "pipe", "."):
        with pytest.raises(ToolError):
            await use("write_file", path=path, content="y")
    assert sorted(os.listdir(root)) == ["file", "folder", "locked", "pipe"]
    assert not (root.parent / "x").exists()


async def test_big_files(use, root: Path) -> None:
    """A file of 30 MB is overwritten, and no diff is made of it."""
    (root / "a.log").write_bytes(b"line\n" * 6_000_000)
    output = await use("write_file", path="a.log", content="short\n")
    assert output.text == "Overwrote a.log: 1 line written; it had 30,000,000 bytes."
    assert output.data["diff"] == ""


async def test_odd_names(use, root: Path) -> None:
    """A name with a newline is written as it is and shown on one line."""
    output = await use("write_file", path="a\nb 🥙", content="x")
    assert output.text == "Created 'a\\nb 🥙': 1 line written."
    assert (root / "a\nb 🥙").read_text() == "x"


class Meddled(Workspace):
    """A workspace in which another program, say a formatter, rewrites each file as soon as hilum
    was there to write.
    """

    editor = None
    unsaved: dict[Path, bytes] = {}

    @contextmanager
    def at(self, path, *, make=False, follow=True):
        with Workspace.at(self, path, make=make, follow=follow) as place:
            yield place
        if make:
            place.path.write_text("formatted\n")

    def read_for_change(self, real, file, limit):
        return file.read(limit)

    def recording_change(self, real, data):
        return nullcontext()


def test_read_back(root: Path) -> None:
    """A file that does not hold what was written is told, for both tools."""
    (root / "a.txt").write_text("one\n")
    with pytest.raises(ToolError) as caught:
        _write(Meddled(root), "a.txt", "two\n")
    assert caught.value.code == E_READBACK_FAIL
    with pytest.raises(ToolError) as caught:
        _edit(Meddled(root), "a.txt", [("formatted", "changed")], False)
    assert caught.value.code == E_READBACK_FAIL


async def test_delete(use, root: Path, tmp_path: Path) -> None:
    """A file, an empty folder and a link itself are deleted; what a link points to stays."""
    (root / "file").write_text("x")
    (root / "folder").mkdir()
    (tmp_path / "outside").write_text("x")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to("file")
    for name, kind in (("link", "link"), ("inner", "link"), ("file", "file"), ("folder", "folder")):
        assert (await use("delete_file", path=name)).text == f"Deleted the {kind} {name}."
    assert os.listdir(root) == []
    assert (tmp_path / "outside").exists()


async def test_what_cannot_be_deleted(use, root: Path, tmp_path: Path) -> None:
    """Full folders, the workspace, missing files and paths outside are refused."""
    (root / "full").mkdir()
    (root / "full" / "file").touch()
    (root / "out").symlink_to(tmp_path)
    (tmp_path / "outside").touch()
    with pytest.raises(ToolError, match="not empty") as caught:
        await use("delete_file", path="full")
    assert caught.value.hint == "Delete its contents first."
    for path, code in (
        (".", E_BAD_ARGS),
        ("full/..", E_BAD_ARGS),
        (str(root), E_BAD_ARGS),
        ("fulll", E_FILE_NOT_FOUND),
        ("../outside", E_PATH_TRAVERSAL),
        ("out/outside", E_PATH_TRAVERSAL),
        ("..", E_PATH_TRAVERSAL),
    ):
        with pytest.raises(ToolError) as caught:
            await use("delete_file", path=path)
        assert caught.value.code == code, path
    assert (tmp_path / "outside").exists()


def test_the_tools_say_what_they_touch() -> None:
    """Risk, effect and written paths are declared, and every parameter is described."""
    declared = {t.name: (t.risk, t.effect, t.writes) for t in hilum_files.provide_tools()}
    assert declared == {
        "read_file": ("read", "pure", ()),
        "write_file": ("write", "idempotent", ("path",)),
        "edit_file": ("write", "once", ("path",)),
        "multi_edit": ("write", "once", ("path",)),
        "list_directory": ("read", "pure", ()),
        "delete_file": ("write", "once", ("path",)),
    }
    for tool in hilum_files.provide_tools():
        assert all(
            "description" in schema for schema in tool.spec.parameters["properties"].values()
        )
