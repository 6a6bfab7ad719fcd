"""Sessions in which the user's editor had unsaved texts, or did not write, are replayed."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hilum.events import AnyEvent, CallDone, PluginEvent
from hilum.store import MemoryStore
from hilum.testing import Bench, ScriptedModel, open_bench, use
from hilum_files import Changes as FileChanges
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.records import EDITOR
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.recording import Recording, load_recording, save_recording
from hilum_replay.sessions.session_test import run_recording
from recorded_sessions import settle
from scripted_editor import ScriptedEditor

pytestmark = pytest.mark.slow(cases=5, of="file")

PLUGINS = ("files", "search", "shell", "guard")
FORTY_DAYS = 40 * 86_400
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
# What a call does before the model's answer, with the editor and the file.
Act = Callable[[ScriptedEditor, Path], None]


class Recorder:
    """Records a session with an editor.

    Attributes:
        store: The store, in which the session can be continued.
        editor: The editor.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.editor: ScriptedEditor | None = ScriptedEditor()
        self.session = ""
        self.events: list[AnyEvent] = []

    async def run(
        self,
        *steps: tuple[Act | None, Sequence[Any]],
        files: dict[str, str | bytes] | None = None,
        undo: bool = False,
    ) -> Bench:
        """Run a prompt; before each answer, the user acts."""
        editor = self.editor

        def make_answer(act: Act | None, answer: Any) -> Any:
            def play(request: object) -> Any:
                if act is not None and editor is not None:
                    act(editor, self.folder / "workspace" / "a.txt")
                return answer

            return play

        answers = [make_answer(act, answer) for act, answer in steps]
        plugins = [*PLUGINS, *([editor] if editor is not None else [])]
        async with open_bench(
            *plugins,
            model=ScriptedModel([*answers, "Done."], window=1_000_000),
            files=files if files is not None else {},
            folder=self.folder,
            store=self.store,
            resume=self.session,
            faults=True,
        ) as bench:
            await bench.run("Go.")
            if undo:
                changes = bench.session.plugin(FileChanges)
                assert changes is not None
                await changes.undo("run", keep_going=True)
            await settle(bench)
            self.session = bench.session.id
        events: list[AnyEvent] = []
        while page := await self.store.read(self.session, len(events)):
            events += page
        self.events = events
        return bench

    @property
    def codes(self) -> list[str]:
        """The codes of the results of all calls."""
        return [each.result.code for each in self.events if isinstance(each, CallDone)]

    def read(self) -> str:
        return (self.folder / "workspace" / "a.txt").read_text()

    async def make(self) -> Recording:
        """Return the recording as it is first made, without answers from the log."""
        store = ContentStore(self.folder / "data" / "objects")
        recording = await trio.to_thread.run_sync(make_recording, self.events, store.get)
        store.close()
        return recording


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "bench")


async def check_replay(recorder: Recorder, folder: Path, monkeypatch: Any) -> Recording:
    """Check that a session is replayed identically elsewhere and later, and that all calls run."""
    recording, first = await make_repeatable(await recorder.make())
    assert not recording.header.from_log, first.replayed.events
    await trio.to_thread.run_sync(shutil.rmtree, recorder.folder)
    save_recording(recording, folder / "recording")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + FORTY_DAYS)
    loaded = load_recording(folder / "recording")
    outcome = await run_recording(loaded, folder / "some" / "other place")
    assert outcome.comparison.identical, describe(outcome.comparison)
    assert not outcome.replayed.answered
    return recording


READ = use("read_file", path="a.txt")


def edit(old: str, new: str) -> Any:
    return use("edit_file", path="a.txt", old_string=old, new_string=new)


def type_text(text: str) -> Act:
    def act(editor: ScriptedEditor, path: Path) -> None:
        editor.texts[path] = text

    return act


def save(editor: ScriptedEditor, path: Path) -> None:
    path.write_text(editor.texts.pop(path))


def at_read(number: int, act: Act) -> Act:
    """Act at one of the next reads of the editor, from 1."""

    def prepare(editor: ScriptedEditor, path: Path) -> None:
        def wait(_: Path) -> None:
            pass

        editor.on_read = [*([wait] * (number - 1)), lambda found: act(editor, found)]

    return prepare


def at_write(name: str) -> Act:
    def prepare(editor: ScriptedEditor, path: Path) -> None:
        editor.on_write = [getattr(editor, name)]

    return prepare


# --- unsaved texts --------------------------------------------------------------------------------


@pytest.mark.parametrize("undo", [False, True])
async def test_an_edit_of_an_unsaved_text_and_its_undo(recorder, tmp_path, monkeypatch, undo):
    cat = use("run_terminal_cmd", command="cat a.txt")
    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        (None, cat),
        (None, edit("typed", "edited")),
        (None, cat),
        files={"a.txt": "saved\n"},
        undo=undo,
    )
    assert recorder.codes == [""] * 4
    assert recorder.read() == ("saved\ntyped\n" if undo else "saved\nedited\n")
    recording = await check_replay(recorder, tmp_path, monkeypatch)
    assert recording.before["a.txt"] == b"saved\n"
    assert b"saved\ntyped\n" in recording.objects.values()


async def test_a_file_that_only_the_editor_has(recorder, tmp_path, monkeypatch):
    await recorder.run((type_text("draft\n"), READ), (None, edit("draft", "final")))
    assert recorder.codes == ["", ""]
    recording = await check_replay(recorder, tmp_path, monkeypatch)
    assert "a.txt" not in recording.before


async def test_newlines_and_the_byte_order_mark(recorder, tmp_path, monkeypatch):
    await recorder.run(
        (type_text("one\ntwo\ntyped\n"), READ),
        (None, edit("typed", "edited")),
        files={"a.txt": "\ufeffone\r\ntwo\r\n".encode()},
    )
    recording = await check_replay(recorder, tmp_path, monkeypatch)
    assert recording.after["a.txt"] == "\ufeffone\r\ntwo\r\nedited\r\n".encode()


# An edit reads the text at its beginning and right before it writes.
@pytest.mark.parametrize("number", [1, 2])
async def test_a_text_that_changes_before_an_edit(recorder, tmp_path, monkeypatch, number):
    await recorder.run(
        (None, READ),
        (at_read(number, type_text("saved\ntyped\n")), edit("saved", "x")),
        (None, READ),
        (None, edit("typed", "edited")),
        files={"a.txt": "saved\n"},
    )
    assert recorder.codes == ["", "E_STALE", "", ""]
    await check_replay(recorder, tmp_path, monkeypatch)


async def test_texts_that_the_user_saves_and_discards(recorder, tmp_path, monkeypatch):
    def discard(editor: ScriptedEditor, path: Path) -> None:
        editor.texts.clear()

    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        (save, edit("typed", "edited")),
        (type_text("gone\n"), READ),
        (discard, edit("edited", "x")),
        (None, READ),
        files={"a.txt": "saved\n"},
    )
    assert recorder.codes == ["", "", "", "E_STALE", ""]
    await check_replay(recorder, tmp_path, monkeypatch)


MARK = "\ufeff"


@pytest.mark.parametrize(
    "text",
    ["made\ntyped\n", "no newline | at the end", f"{MARK}one\r\n\r\ntwo\r\n", "", "\n"],
)
async def test_a_text_that_the_user_saves_and_a_read_finds(recorder, tmp_path, monkeypatch, text):
    def type_and_save(editor: ScriptedEditor, path: Path) -> None:
        path.write_bytes(text.encode())

    await recorder.run(
        (None, use("run_terminal_cmd", command="echo made > a.txt; echo made > b.txt")),
        (type_and_save, READ),
        undo=True,
    )
    # The undo leaves what the user has saved.
    assert (recorder.folder / "workspace" / "a.txt").read_bytes() == text.encode()
    assert not (recorder.folder / "workspace" / "b.txt").exists()
    recording = await check_replay(recorder, tmp_path, monkeypatch)
    assert recording.after["a.txt"] == text.encode()


async def test_a_read_that_runs_at_the_same_time_as_a_write(recorder, tmp_path, monkeypatch):
    write = use("write_file", path="a.txt", content="second\n")
    await recorder.run(
        (None, use("write_file", path="a.txt", content="first\n")),
        (None, READ + write + READ),
        (None, READ),
    )
    recording = await check_replay(recorder, tmp_path, monkeypatch)
    assert not recording.header.edits


async def test_secrets_in_an_unsaved_text_are_replaced(recorder, tmp_path):
    await recorder.run(
        (type_text(f"saved\nkey = {SECRET}\n"), READ),
        (None, edit("saved", "edited")),
        files={"a.txt": "saved\n"},
    )
    recording, outcome = await make_repeatable(await recorder.make())
    assert not outcome.comparison.failures, describe(outcome.comparison)
    save_recording(recording, tmp_path / "recording")
    files = [path for path in (tmp_path / "recording").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


# --- editors that do not do as they are asked -----------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("fail", "E_TIMEOUT"),
        ("write_and_fail", ""),
        ("write_another_and_fail", "E_TIMEOUT"),
        ("refuse", "E_STALE"),
        ("only_show", ""),
        ("format", "E_READBACK_FAIL"),
    ],
)
async def test_an_editor_that_does_not_write_as_asked(
    recorder, tmp_path, monkeypatch, outcome, code
):
    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        (at_write(outcome), edit("typed", "edited")),
        (None, use("run_terminal_cmd", command="cat a.txt")),
        (None, READ),
        (None, edit("saved", "once more")),
        files={"a.txt": "saved\n"},
        # An undo of what another program has changed since is a conflict.
        undo=outcome != "format",
    )
    assert recorder.codes[1] == code
    await check_replay(recorder, tmp_path, monkeypatch)


async def test_a_write_that_the_editor_carried_out_later(recorder, tmp_path, monkeypatch):
    def write_late(editor: ScriptedEditor, path: Path) -> None:
        path.write_text("new\n")

    write = use("write_file", path="a.txt", content="new\n")
    await recorder.run(
        (at_write("fail"), write),
        (write_late, use("write_file", path="a.txt", content="newer\n")),
        (None, READ),
        (None, edit("new", "edited")),
    )
    assert recorder.codes == ["E_TIMEOUT", "E_STALE", "", ""]
    recording = await check_replay(recorder, tmp_path, monkeypatch)
    assert "a.txt" not in recording.before


async def test_an_editor_that_does_not_respond_to_a_read(recorder, tmp_path, monkeypatch):
    def fail(editor: ScriptedEditor, path: Path) -> None:
        editor.fail(path)

    await recorder.run(
        (at_read(1, fail), READ),
        (None, READ),
        (at_read(2, fail), edit("saved", "x")),
        (None, edit("saved", "y")),
        files={"a.txt": "saved\n"},
    )
    assert recorder.codes == ["E_TIMEOUT", "", "E_TIMEOUT", ""]
    await check_replay(recorder, tmp_path, monkeypatch)


async def test_an_editor_that_writes_no_files(recorder, tmp_path, monkeypatch):
    recorder.editor.can_write_in_editor = False
    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        (None, edit("typed", "x")),
        (save, READ),
        (None, edit("typed", "y")),
        files={"a.txt": "saved\n"},
    )
    assert recorder.codes == ["", "E_STALE", "", ""]
    await check_replay(recorder, tmp_path, monkeypatch)


async def test_a_call_that_is_answered_from_the_log_shows_its_text(recorder, tmp_path):
    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        (None, edit("typed", "edited")),
        files={"a.txt": "saved\n"},
    )
    made = await recorder.make()
    header = msgspec.structs.replace(made.header, from_log={"main/call-1": "the test wants it"})
    outcome = await run_recording(msgspec.structs.replace(made, header=header), tmp_path / "work")
    assert outcome.replayed.answered == ["main/call-1"]
    assert outcome.comparison.identical, describe(outcome.comparison)


# --- several processes, and other versions --------------------------------------------------------


@pytest.mark.parametrize("is_saved", [False, True])
async def test_a_session_that_is_continued_in_the_terminal(
    recorder, tmp_path, monkeypatch, is_saved
):
    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        files={"a.txt": "saved\n"},
    )
    if is_saved:
        save(recorder.editor, recorder.folder / "workspace" / "a.txt")
    recorder.editor = None
    await recorder.run((None, edit("saved", "x")), (None, READ), (None, edit("saved", "y")))
    assert recorder.codes == [
        "",
        *(["", "", "E_NOT_FOUND"] if is_saved else ["E_STALE", "", ""]),
    ]
    await check_replay(recorder, tmp_path, monkeypatch)


async def test_a_session_of_an_earlier_version_shows_where_it_differs(recorder, tmp_path):
    await recorder.run(
        (type_text("saved\ntyped\n"), READ),
        (None, edit("typed", "edited")),
        files={"a.txt": "saved\n"},
    )
    recording = await recorder.make()
    # Those logs have no texts of the editor, and the numbers of events have no gaps.
    kept = [
        event
        for event in recording.events
        if not (isinstance(event, PluginEvent) and event.name == EDITOR)
    ]
    events = tuple(
        msgspec.structs.replace(event, seq=number) for number, event in enumerate(kept, 1)
    )
    old = msgspec.structs.replace(recording, events=events)
    outcome = await run_recording(old, tmp_path / "work")
    text = describe(outcome.comparison)
    assert outcome.comparison.failures
    assert "a.txt" in text


async def test_a_recording_without_the_text_shows_where_it_differs(recorder, tmp_path):
    """A text that the journal no longer had, or that was too large, is left out."""
    await recorder.run((type_text("saved\ntyped\n"), READ), files={"a.txt": "saved\n"})
    recording = msgspec.structs.replace(await recorder.make(), objects={})
    outcome = await run_recording(recording, tmp_path / "work")
    assert "- 2 | typed" in describe(outcome.comparison)
