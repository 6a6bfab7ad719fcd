"""edit_file: exact and unique, or a refusal that helps."""

import shutil
import subprocess
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hilum import ToolError, Workspace
from hilum.errors import (
    E_BAD_ARGS,
    E_FILE_NOT_FOUND,
    E_MULTIPLE_MATCHES,
    E_NOT_FOUND,
    E_PATH_TRAVERSAL,
    E_STALE,
)
from hilum_files.text import unified_diff
from hilum_files.write_tools import _edit, _write

CODE = """\
def add(a, b):
    # Adds.
    return a + b


def sub(a, b):
    # Subtracts.
    return a - b
"""


async def test_exact_edit(use, root: Path) -> None:
    """The text is replaced, and kind of match, lines and diff are reported."""
    (root / "a.py").write_text(CODE)
    output = await use(
        "edit_file",
        path="a.py",
        old_string="    return a + b\n",
        new_string="    c = a + b\n    return c\n",
    )
    assert (root / "a.py").read_text() == CODE.replace(
        "    return a + b\n", "    c = a + b\n    return c\n"
    )
    assert output.text == "Edited a.py (exact match): line 3 became lines 3-4."
    assert output.data == {
        "path": "a.py",
        "match": "exact",
        "created": False,
        "changes": [[3, 1, 2]],
        "diff": "--- a/a.py\n+++ b/a.py\n@@ -1,6 +1,7 @@\n def add(a, b):\n     # Adds.\n-    return a + b\n"
        "+    c = a + b\n+    return c\n \n \n def sub(a, b):\n",
    }


async def test_deleting_text(use, root: Path) -> None:
    """An empty new_string deletes."""
    (root / "a.py").write_text(CODE)
    output = await use("edit_file", path="a.py", old_string="    # Adds.\n", new_string="")
    assert "# Adds" not in (root / "a.py").read_text()
    assert output.text.endswith("line 2 became nothing.")


async def test_several_matches(use, root: Path) -> None:
    """More than one place, overlaps included, is refused with count and lines."""
    (root / "a.py").write_text(CODE)
    with pytest.raises(ToolError, match="2 times, at lines 1, 6") as caught:
        await use("edit_file", path="a.py", old_string="(a, b):", new_string="(b, a):")
    assert caught.value.code == E_MULTIPLE_MATCHES
    (root / "b.txt").write_text("aaa")
    with pytest.raises(ToolError, match="2 times, at lines 1, 1"):
        await use("edit_file", path="b.txt", old_string="aa", new_string="b")
    (root / "c.txt").write_text("x\n" * 1000)
    with pytest.raises(ToolError, match=r"1000 times, at lines 1, 2, .*200, …"):
        await use("edit_file", path="c.txt", old_string="x", new_string="y")
    assert (root / "a.py").read_text() == CODE


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("def subtract(a, b):\n    # Subtracts.\n", "6 | def sub(a, b):\n7 |     # Subtracts.\n"),
        ("def sub(a,b):", "6 | def sub(a, b):\nRead the file again"),
        ("2 |     # Adds!\n3 |     return a + b", "Leave out the line numbers (N | )"),
        ("completely different", "Read the file again and copy the text exactly."),
        ("\n\n\n\n", "Read the file again"),
    ],
)
async def test_no_match_shows_the_nearest_lines(use, root: Path, old: str, words: str) -> None:
    """A miss shows what is there instead, and says what to do; the file stays."""
    (root / "a.py").write_text(CODE)
    with pytest.raises(ToolError) as caught:
        await use("edit_file", path="a.py", old_string=old, new_string="x")
    assert caught.value.code == E_NOT_FOUND
    assert words in caught.value.hint
    assert (root / "a.py").read_text() == CODE


async def test_no_match_in_a_big_file_is_quick(use, root: Path) -> None:
    """The nearest lines of 50,000 are found in bounded time."""
    (root / "a.py").write_text(
        "".join(f"    value_{n} = compute({n}, {n * 7})\n" for n in range(50_000))
    )
    begun = time.process_time()
    with pytest.raises(ToolError) as caught:
        await use(
            "edit_file",
            path="a.py",
            old_string="value_777 = compute(777, 5439)\nx = 1\n",
            new_string="x",
        )
    assert "778 |     value_777 = compute(777, 5439)" in caught.value.hint
    assert time.process_time() - begun < 2


async def test_identical_strings(use, root: Path) -> None:
    """Strings that are the same, but for line ends perhaps, change nothing, and that is no
    failure.
    """
    (root / "a.py").write_text(CODE)
    for old, new in (("a + b", "a + b"), ("# Adds.\n", "# Adds.\r\n")):
        output = await use("edit_file", path="a.py", old_string=old, new_string=new)
        assert output.code == ""
        assert "Nothing was changed" in output.text
        assert not output.changed
    assert (root / "a.py").read_text() == CODE


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "\nb", "", b"a\r\nc\r\n"),
        (b"a\r\nb\r\nc", "b\nc", "d", b"a\r\nd"),
        (b"a\nb\nc\n", "a\r\nb\r\n", "x\r\n", b"x\nc\n"),
        (b"a\r\nb\nc\r\nd\r\n", "b\nc\n", "x\n", b"a\r\nx\r\nd\r\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "a\n", "c\n", b"\xef\xbb\xbfc\r\nb\r\n"),
        (b"a\rb\r\r\nc\r", "c", "d", b"a\rb\r\r\nd\r"),
        (b"one line", "line", "two\nlines", b"one two\nlines"),
        ("dürüm 🥙\r\nb\r\n".encode(), "b", "🥙", "dürüm 🥙\r\n🥙\r\n".encode()),
    ],
)
async def test_line_ends_are_kept(
    use, root: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    """Line ends do not matter for the match.

    What is not edited stays byte for byte, what is put in follows the file.
    """
    (root / "a.txt").write_bytes(before)
    await use("edit_file", path="a.txt", old_string=old, new_string=new)
    assert (root / "a.txt").read_bytes() == after


async def test_creating(use, root: Path) -> None:
    """An empty old_string makes a file if that is allowed, fills an empty one, and never touches
    another.
    """
    with pytest.raises(ToolError) as caught:
        await use("edit_file", path="new/a.txt", old_string="", new_string="x")
    assert caught.value.code == E_FILE_NOT_FOUND
    output = await use(
        "edit_file", path="new/a.txt", old_string="", new_string="x\n", create_if_missing=True
    )
    assert output.text == "Created new/a.txt: 1 line written."
    for create in (False, True):
        with pytest.raises(ToolError) as caught:
            await use(
                "edit_file",
                path="new/a.txt",
                old_string="",
                new_string="y",
                create_if_missing=create,
            )
        assert caught.value.code == E_BAD_ARGS
    with pytest.raises(ToolError) as caught:
        await use(
            "edit_file", path="b.txt", old_string="text", new_string="x", create_if_missing=True
        )
    assert caught.value.code == E_FILE_NOT_FOUND
    (root / "empty").touch()
    await use("edit_file", path="empty", old_string="", new_string="z")
    assert (root / "empty").read_text() == "z"
    with pytest.raises(ToolError) as caught:
        await use("edit_file", path="missing/b.txt", old_string="", new_string="x")
    assert caught.value.code == E_FILE_NOT_FOUND
    assert "create_if_missing" in caught.value.hint
    assert not (root / "missing").exists()


async def test_what_cannot_be_edited(use, root: Path) -> None:
    """Binary files, other encodings, huge files, folders and paths outside are refused in words."""
    (root / "bin").write_bytes(b"a\0b")
    (root / "latin").write_bytes(b"caf\xe9")
    (root / "huge").write_bytes(b"a" * 20_000_001)
    (root / "folder").mkdir()
    for path, words in (
        ("bin", "binary"),
        ("latin", "line 1 has the byte 0xe9"),
        ("huge", "cannot be edited"),
        ("folder", "is a folder"),
    ):
        with pytest.raises(ToolError, match=words):
            await use("edit_file", path=path, old_string="a", new_string="b")
    with pytest.raises(ToolError) as caught:
        await use("edit_file", path="/etc/passwd", old_string="root", new_string="x")
    assert caught.value.code == E_PATH_TRAVERSAL


class Crowded(Workspace):
    """A workspace in which another program writes to a file between its reading and its
    replacement.
    """

    editor = None
    unsaved: dict[Path, bytes] = {}

    @contextmanager
    def at(self, path, *, make=False, follow=True):
        with Workspace.at(self, path, make=make, follow=follow) as place:
            yield place
        if not make:
            with place.path.open("a") as file:
                file.write("from elsewhere\n")

    def read_for_change(self, real, file, limit):
        return file.read(limit)

    def recording_change(self, real, data):
        return nullcontext()


def test_nobody_elses_change_is_lost(root: Path) -> None:
    """A file that changed since it was read is left as it is, by edit_file and by write_file."""
    (root / "a.txt").write_text("one\n")
    for change in (
        lambda w: _edit(w, "a.txt", [("one", "two")], False),
        lambda w: _write(w, "a.txt", "two\n"),
    ):
        with pytest.raises(ToolError) as caught:
            change(Crowded(root))
        assert caught.value.code == E_STALE
    assert (root / "a.txt").read_text() == "one\n" + "from elsewhere\n" * 3


# --- text -----------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nX\nc\n"),
        ("", "new\n"),
        ("gone\n", ""),
        ("no newline", "no newline\n"),
        ("a\nb", "a\nc"),
        (
            "".join(f"{n}\n" for n in range(100)),
            "".join(f"{n}\n" for n in range(100) if n not in (3, 50, 51, 99)),
        ),
        (
            "".join(f"{n}\n" for n in range(3000)),
            "top\n" + "".join(f"{n * 2}\n" for n in range(3000)) + "end",
        ),
        ("x\n" * 500 + "y\n" + "x\n" * 500, "x\n" * 1000),
        ("odd \x0b\u2028 breaks\nb\n", "odd \x0b\u2028 breaks\nc\n"),
    ],
)
def test_diffs_apply(tmp_path: Path, before: str, after: str) -> None:
    """The program patch makes the new text of the old one and the diff."""
    (tmp_path / "f").write_text(before)
    diff = unified_diff("f", before, after)
    command = ["patch", "-s", "-p1", "-o", "out", "f"]
    subprocess.run(command, input=diff, text=True, check=True, cwd=tmp_path)
    assert (tmp_path / "out").read_text() == after
    assert unified_diff("f", after, after) == ""


def test_diff_costs_as_much_as_the_change() -> None:
    """One line changed among 100,000 is a matter of milliseconds.

    A whole file changed is bounded.
    """
    lines = [f"line {n}\n" for n in range(100_000)]
    begun = time.process_time()
    assert (
        unified_diff(
            "f", "".join(lines), "".join([*lines[:50_000], "new\n", *lines[50_001:]])
        ).count("\n")
        == 11
    )
    assert unified_diff("f", "".join(lines), "".join(f"{line[:-1]}!\n" for line in lines))
    assert time.process_time() - begun < 3


async def test_white_space_at_the_end_is_shown(use, root: Path) -> None:
    """Where spaces at the end of a changed line may be meant, they are shown."""
    (root / "a.py").write_text("x = 1  \ny = 2\n")
    with pytest.raises(ToolError) as caught:
        await use("edit_file", path="a.py", old_string="x = 1\ny = 2", new_string="x = 3\ny = 2")
    assert "1 | x = 1  \n" in caught.value.hint


async def test_the_model_is_told_that_a_match_was_not_exact(use, root: Path) -> None:
    """What differed is named, and which lines changed."""
    (root / "a.py").write_text(CODE)
    output = await use(
        "edit_file",
        path="a.py",
        old_string="# Adds. \nreturn a + b",
        new_string="# Adds. \nreturn a * b",
    )
    assert (root / "a.py").read_text() == CODE.replace("a + b", "a * b")
    assert output.text.startswith(
        "Edited a.py (not an exact match; old_string differed in: trailing blanks, indentation)"
    )
    assert "line 3 changed. Read it if in doubt." in output.text
    assert (output.data["match"], output.data["changes"]) == (
        "trailing blanks, indentation",
        [[3, 1, 1]],
    )


async def test_several_edits_at_once(use, root: Path) -> None:
    """They are applied one after another; the result names each."""
    (root / "a.py").write_text(CODE)
    edits = [
        ("a + b", "a * b"),
        ("return a * b\n", "return b * a\n"),
        ("return a - b ", "return b - a"),
    ]
    edits = [{"old_string": old, "new_string": new} for old, new in edits]
    output = await use("multi_edit", path="a.py", edits=edits)
    assert (root / "a.py").read_text() == CODE.replace("a + b", "b * a").replace("a - b", "b - a")
    assert output.text.count("line 3 changed.") == 2
    assert output.text.count(" changed.") == 3
    assert output.data["match"] == "exact; trailing blanks, indentation"


async def test_several_edits_are_all_or_none(use, root: Path) -> None:
    """One that cannot be applied is named, and the file stays."""
    (root / "a.py").write_text(CODE)
    edits = [
        {"old_string": "a + b", "new_string": "a * b"},
        {"old_string": "a / b", "new_string": "b"},
    ]
    with pytest.raises(ToolError, match="Edit 2: old_string is not in the file") as caught:
        await use("multi_edit", path="a.py", edits=edits)
    assert caught.value.code == E_NOT_FOUND
    assert (root / "a.py").read_text() == CODE
    with pytest.raises(ToolError, match="are invalid"):
        await use("multi_edit", path="a.py", edits=[])
    output = await use("multi_edit", path="a.py", edits=[{"old_string": "a", "new_string": "a"}])
    assert output.text.startswith("Nothing was changed")
    assert not output.changed
