"""Files that the user's editor has open: unsaved text is read, kept and restored."""

from contextlib import asynccontextmanager
from pathlib import Path

import hilum_files
import pytest
import trio
import trio.testing
from hilum import ToolError, hookimpl
from hilum.events import ApprovalAsked
from hilum.testing import open_bench, use
from hilum_files import editor_texts


class Editor:
    """An editor whose texts are in memory.

    Attributes:
        texts: The texts of open files.
        saves: Whether a write reaches the disk.
        accepts: Whether a write is carried out.
        change: Called before each write.
    """

    can_write_in_editor = True

    def __init__(self):
        self.texts = {}
        self.saves = True
        self.accepts = True
        self.written = []
        self.reads = 0
        self.on_read = lambda: None

    async def read_in_editor(self, path):
        self.reads += 1
        self.on_read()
        if path in self.texts:
            return self.texts[path]
        return path.read_text().replace("\r\n", "\n") if path.is_file() else None

    async def write_in_editor(self, path, text):
        if not self.accepts:
            return False
        self.written.append(path.name)
        self.texts[path] = text
        if self.saves:
            path.write_text(text, newline="")
        return True


class EditorPlugin:
    def __init__(self, editor):
        self.editor = editor

    @hookimpl
    def open_session(self, session):
        return self.editor


@asynccontextmanager
async def opened(*answers, files, **options):
    """Open a bench with an editor."""
    editor = Editor()
    plugins = (hilum_files, EditorPlugin(editor))
    async with open_bench(*plugins, answers=[*answers, "Done."], files=files, **options) as b:
        yield b, editor, Path(b.session.workspace.root)


def read(path="a.txt"):
    return use("read_file", path=path)


def edit(old, new, path="a.txt"):
    return use("edit_file", path=path, old_string=old, new_string=new)


async def test_the_agent_reads_and_edits_the_unsaved_text():
    async with opened(read(), edit("typed", "edited"), files={"a.txt": "saved\n"}) as (
        b,
        editor,
        root,
    ):
        editor.texts[root / "a.txt"] = "saved\ntyped\n"
        await b.run("Go")
        assert b.results[0].text == "1 | saved\n2 | typed"
        assert (root / "a.txt").read_text() == "saved\nedited\n"
        assert editor.written == ["a.txt"]
        await b.session.plugin(hilum_files.Changes).undo()
        assert (root / "a.txt").read_text() == "saved\ntyped\n"


@pytest.mark.parametrize(
    "call",
    [
        edit("saved", "x"),
        use("write_file", path="a.txt", content="x\n"),
        use("delete_file", path="a.txt"),
    ],
)
async def test_unsaved_text_that_the_agent_has_not_seen_is_kept(call):
    async with opened(read(), call, files={"a.txt": "saved\n"}) as (b, editor, root):

        def type_after_reading():
            if len(b.results) == 1:
                editor.texts[root / "a.txt"] = "saved\ntyped\n"

        editor.on_read = type_after_reading
        await b.run("Go")
        assert b.results[1].code == "E_STALE"
        assert (root / "a.txt").read_text() == "saved\n"
        assert not editor.written


async def test_text_that_is_typed_between_the_check_and_the_write_is_kept():
    async with opened(read(), edit("saved", "x"), files={"a.txt": "saved\n"}) as (b, editor, root):

        def type_late():
            # The reads: read_file, edit_file, and the one before the write.
            if editor.reads == 3:
                editor.texts[root / "a.txt"] = "saved\ntyped\n"

        editor.on_read = type_late
        await b.run("Go")
        assert b.results[1].code == "E_STALE"
        assert "in the editor" in b.results[1].text
        assert (root / "a.txt").read_text() == "saved\n"


async def test_newlines_and_the_byte_order_mark_survive_an_editor_that_normalizes():
    content = "\ufeffone\r\ntwo\r\n".encode()
    async with opened(read(), edit("two", "2"), files={"a.txt": content}) as (b, _, root):
        await b.run("Go")
        assert b.results[1].code == "", b.results[1].text
        assert (root / "a.txt").read_bytes() == "\ufeffone\r\n2\r\n".encode()


async def test_an_editor_that_does_not_save_leaves_the_change_on_the_disk():
    async with opened(read(), edit("one", "1"), files={"a.txt": "one\n"}) as (b, editor, root):
        editor.saves = False
        await b.run("Go")
        assert (root / "a.txt").read_text() == "1\n"
        await b.session.plugin(hilum_files.Changes).undo()
        assert (root / "a.txt").read_text() == "one\n"


async def test_an_editor_that_refuses_a_write_keeps_unsaved_text():
    async with opened(
        read(), edit("typed", "x"), edit("saved", "y"), files={"a.txt": "saved\n"}
    ) as (b, editor, root):
        editor.accepts = False
        editor.texts[root / "a.txt"] = "saved\ntyped\n"
        await b.run("Go")
        assert b.results[1].code == "E_STALE"
        assert (root / "a.txt").read_text() == "saved\n"
        assert editor.texts[root / "a.txt"] == "saved\ntyped\n"


async def test_without_unsaved_text_hilum_writes_what_the_editor_refuses():
    async with opened(read(), edit("one", "1"), files={"a.txt": "one\n"}) as (b, editor, root):
        editor.accepts = False
        await b.run("Go")
        assert (root / "a.txt").read_text() == "1\n"


async def test_a_new_file_and_its_folder():
    async with opened(
        use("write_file", path="new/b.txt", content="x\n"), files={"a.txt": "one\n"}
    ) as (b, editor, root):
        await b.run("Go")
        assert (root / "new" / "b.txt").read_text() == "x\n"
        assert editor.written == ["b.txt"]


async def test_while_a_command_runs_hilum_writes_itself():
    """The editor would follow a link that the command puts in place of a folder."""
    async with opened(
        read(),
        edit("one", "1"),
        read("b.txt"),
        edit("typed", "x", "b.txt"),
        files={"a.txt": "one\n", "b.txt": "two\n"},
    ) as (b, editor, root):
        editor.texts[root / "b.txt"] = "two\ntyped\n"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(b.session.processes.run, ["sleep", "60"])
            with trio.fail_after(20):
                while not b.session.processes.alive:  # noqa: ASYNC110  (a process has no event for it)
                    await trio.sleep(0.01)
            await b.run("Go")
            nursery.cancel_scope.cancel()
        assert (root / "a.txt").read_text() == "1\n"
        assert not editor.written
        assert b.results[3].code == "E_STALE"
        assert (root / "b.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    ("purpose", "advice"),
    [
        ("command", "Wait until no command runs, or ask the user to save the file."),
        ("service", "Ask the user to save the file."),
    ],
)
async def test_a_change_that_cannot_reach_the_editor_is_refused_before_the_question(
    purpose, advice
):
    content = use("write_file", path="a.txt", content="x\n")
    async with opened(
        read(), edit("typed", "x"), content, files={"a.txt": "one\n"}, approve="ask_first"
    ) as (b, editor, root):
        editor.texts[root / "a.txt"] = "one\ntyped\n"
        async with b.session.processes.open(["sleep", "60"], purpose=purpose):
            await b.run("Go")
        for result in b.results[1:]:
            assert result.code == "E_STALE"
            assert advice in result.text
        assert not b.of(ApprovalAsked)
        assert not editor.written
        assert (root / "a.txt").read_text() == "one\n"


async def test_text_that_the_user_typed_is_not_blamed_on_an_earlier_edit_of_the_agent():
    async with opened(
        read(), edit("one", "1"), edit("1", "2"), edit("1", "3"), files={"a.txt": "one\n"}
    ) as (b, editor, root):

        def change_after_editing():
            if len(b.results) == 2:
                editor.texts[root / "a.txt"] = "1\ntyped\n"
            elif len(b.results) == 3:
                editor.texts.clear()
                (root / "a.txt").write_text("1\nsaved\n")

        editor.on_read = change_after_editing
        await b.run("Go")
        assert "(in the user's editor, where it is not saved)" in b.results[2].text
        assert "a.txt changed since you last saw it; nothing" in b.results[3].text


async def test_a_process_that_only_looks_is_no_reason_to_bypass_the_editor():
    async with opened(read(), edit("typed", "x"), files={"a.txt": "one\n"}) as (b, editor, root):
        editor.texts[root / "a.txt"] = "one\ntyped\n"
        async with b.session.processes.open(["sleep", "60"], purpose="look"):
            await b.run("Go")
        assert editor.written == ["a.txt"]
        assert (root / "a.txt").read_text() == "one\nx\n"


async def test_a_change_waits_for_a_check_and_ends_one_that_takes_long(monkeypatch):
    monkeypatch.setattr(editor_texts, "CHECK_SECONDS", 0.2)
    async with opened(read(), edit("typed", "x"), files={"a.txt": "one\n"}) as (b, editor, root):
        editor.texts[root / "a.txt"] = "one\ntyped\n"
        ended = []

        async def check():
            with pytest.raises(ToolError, match="about to be changed"):
                await b.session.processes.run(["sleep", "60"], purpose="check")
            ended.append(list(editor.written))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(check)
            await b.run("Go")
        assert ended == [[]]
        assert editor.written == ["a.txt"]


async def test_no_process_starts_while_the_editor_writes_a_file():
    async with opened(read(), edit("one", "1"), files={"a.txt": "one\n"}) as (b, editor, _):
        order = []

        async def start_command():
            await b.session.processes.run(["true"])
            order.append("command")

        async def write(path, text):
            nursery.start_soon(start_command)
            await trio.testing.wait_all_tasks_blocked()
            order.append(f"write beside {b.session.processes.alive} processes")
            path.write_text(text)
            return True

        editor.write_in_editor = write
        async with trio.open_nursery() as nursery:
            await b.run("Go")
        assert order == ["write beside 0 processes", "command"]


@pytest.mark.parametrize("has_written", [True, False])
async def test_a_write_that_is_not_confirmed_counts_if_it_happened(has_written):
    async with opened(read(), edit("one", "1"), files={"a.txt": "one\n"}) as (b, editor, root):

        async def write(path, text):
            if has_written:
                path.write_text(text)
            raise ToolError("The editor did not confirm it.", code="E_TIMEOUT")

        editor.write_in_editor = write
        await b.run("Go")
        assert b.results[1].code == ("" if has_written else "E_TIMEOUT")
        assert (root / "a.txt").read_text() == ("1\n" if has_written else "one\n")


async def test_an_editor_that_does_not_respond_is_no_reason_to_write():
    async with opened(read(), edit("one", "1"), files={"a.txt": "one\n"}) as (b, editor, root):

        def fail():
            if editor.reads > 1:
                raise ToolError("The editor did not answer.", code="E_TIMEOUT")

        editor.on_read = fail
        await b.run("Go")
        assert b.results[1].code == "E_TIMEOUT"
        assert (root / "a.txt").read_text() == "one\n"
