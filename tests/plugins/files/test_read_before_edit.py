"""Read before edit: an agent changes only what it has seen as it is."""

import os
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
from hilum import Profile, ToolError
from hilum.errors import E_STALE
from hilum.store import MemoryStore
from hilum.testing import open_bench, say
from hilum.testing import use as ask


async def test_what_was_not_read_is_not_changed(use, root: Path) -> None:
    """Editing, overwriting and deleting an existing file is refused until it was read.

    The way out is told.
    """
    (root / "a.txt").write_text("one\ntwo\n")
    for name, arguments in (
        ("edit_file", {"old_string": "one", "new_string": "1"}),
        ("write_file", {"content": "x"}),
        ("delete_file", {}),
    ):
        with pytest.raises(ToolError) as caught:
            await use(name, unread=True, path="a.txt", **arguments)
        assert caught.value.code == E_STALE
        assert "Read it first." in str(caught.value)
    assert (root / "a.txt").read_text() == "one\ntwo\n"
    await use(
        "read_file", path="a.txt", end_line=1
    )  # a part will do: the whole is known by its hash
    await use("edit_file", unread=True, path="a.txt", old_string="two", new_string="2")
    await use("edit_file", unread=True, path="./a.txt", old_string="one", new_string="1")
    await use("write_file", unread=True, path="a.txt", content="all\n")
    await use("delete_file", unread=True, path="a.txt")
    assert not (root / "a.txt").exists()


async def test_what_changed_since_is_not_changed(use, root: Path) -> None:
    """The refusal shows what changed.

    The same size and time do not deceive; reading again helps.
    """
    (root / "a.txt").write_text("one\ntwo\n")
    await use("read_file", path="a.txt")
    await use("edit_file", unread=True, path="a.txt", old_string="one", new_string="1st")
    status = (root / "a.txt").stat()
    (root / "a.txt").write_text("1st\nTWO\n")
    os.utime(root / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ToolError) as caught:
        await use("edit_file", unread=True, path="a.txt", old_string="1st", new_string="x")
    assert caught.value.code == E_STALE
    assert "Read it again.\nWhat changed:" in caught.value.hint
    assert "-two\n+TWO" in caught.value.hint
    await use("edit_file", path="a.txt", old_string="1st", new_string="x")
    assert (root / "a.txt").read_text() == "x\nTWO\n"


async def test_what_cannot_be_read_needs_no_reading(use, root: Path) -> None:
    """Binary files, other encodings and empty files: there is nothing that read_file could show."""
    (root / "a.bin").write_bytes(b"\0\1\2")
    (root / "latin").write_bytes(b"caf\xe9")
    (root / "empty").write_bytes(b"")
    for name in ("a.bin", "latin", "empty"):
        await use("write_file", unread=True, path=name, content="text\n")
        assert (root / name).read_text() == "text\n"


async def test_links_are_one_file_with_what_they_point_to(use, root: Path) -> None:
    """Read by one name, changed by another."""
    (root / "a.txt").write_text("one\n")
    (root / "link").symlink_to("a.txt")
    await use("read_file", path="link")
    await use("edit_file", unread=True, path="a.txt", old_string="one", new_string="two")
    assert (root / "a.txt").read_text() == "two\n"


async def test_each_agent_reads_for_itself() -> None:
    """What one agent has read or written another has not seen."""
    async with open_bench(hilum_files, files={"a.txt": "one\n"}) as bench:
        bench.session.add_agent(Profile("other"))
        await bench.call("read_file", path="a.txt")
        bench.model.next(
            ask("edit_file", path="a.txt", old_string="one", new_string="1"), say("Done.")
        )
        await bench.run("Edit.", agent="other")
        assert bench.result("edit_file").code == E_STALE
        assert not (
            await bench.call("edit_file", path="a.txt", old_string="one", new_string="2")
        ).code


async def test_a_command_that_changed_a_file_is_named() -> None:
    """A formatter ran: the file must be read again, and the refusal says why."""
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "one\n"}) as bench:
        await bench.call("read_file", path="a.txt")
        await bench.call("run_terminal_cmd", command="sed -i s/one/two/ a.txt")
        result = await bench.call("edit_file", path="a.txt", old_string="two", new_string="3")
        assert result.code == E_STALE
        assert "by 'sed -i s/one/two/ a.txt'" in result.text
        assert "-one\n+two" in result.text


async def test_a_resumed_session_knows_what_was_read(tmp_path: Path) -> None:
    """What agents have seen is in the log."""
    store = MemoryStore()
    async with open_bench(
        hilum_files, folder=tmp_path, store=store, files={"a.txt": "one\n", "b.txt": "one\n"}
    ) as bench:
        await bench.call("read_file", path="a.txt")
        session = bench.session.id
    async with open_bench(hilum_files, folder=tmp_path, store=store, resume=session) as bench:
        assert not (
            await bench.call("edit_file", path="a.txt", old_string="one", new_string="2")
        ).code
        assert (
            await bench.call("edit_file", path="b.txt", old_string="one", new_string="2")
        ).code == E_STALE
