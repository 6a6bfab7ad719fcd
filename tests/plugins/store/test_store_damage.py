"""Files that are not ours, broken files, folders without rights, full disks: a clear error, and the
file stays as it is.
"""

# ruff: noqa: ASYNC240  (tests may touch files directly)

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hilum import open_kernel
from hilum.errors import E_BUSY, E_STORE, StoreError
from hilum.events import (
    AgentStarted,
    AnyEvent,
    CallDone,
    CallStarted,
    ModelAnswered,
    PluginEvent,
    RoundEnded,
    SessionOpened,
)
from hilum.messages import AssistantMessage, ToolCall, ToolResult
from hilum.store import SessionInfo
from hilum_store import SqliteStore
from msgspec.structs import replace


def fact(seq: int, size: int = 0) -> PluginEvent:
    return PluginEvent(seq=seq, name="test.fact", data={"x": "x" * size})


async def fill(path: Path, sessions: int = 2, events: int = 50) -> None:
    store = SqliteStore(path)
    for number in range(sessions):
        log = await store.create(SessionInfo(id=f"s{number}", workspace="/w"))
        log.append([fact(seq, 500) for seq in range(1, events + 1)])
    await store.close()


async def refuse(path: Path) -> StoreError:
    """Use the file in every way, and expect the same clear error and an untouched file."""
    before = path.read_bytes() if path.is_file() else None
    found = []
    for use, argument in (
        ("list", ""),
        ("create", SessionInfo(id="new", workspace="/w")),
        ("open", "s0"),
    ):
        store = SqliteStore(path)
        with pytest.raises(StoreError) as caught:
            await getattr(store, use)(argument)
        await store.close()
        found.append(caught.value)
    assert len({str(error) for error in found}) == 1
    if before is not None:
        assert path.read_bytes() == before
    assert str(path) in found[0].message
    assert found[0].hint
    return found[0]


@pytest.mark.parametrize(
    "content", [b"hello\n" * 2000, b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 4096]
)
async def test_foreign_file_is_refused(path: Path, content: bytes) -> None:
    """What is no SQLite file is told as such and never overwritten."""
    path.parent.mkdir()
    path.write_bytes(content)
    error = await refuse(path)
    assert "is not a hilum session file: it is not an SQLite file" in error.message
    assert "set store.path" in error.hint


@pytest.mark.parametrize("content", [b"x", b"short"])
async def test_short_foreign_file_is_refused(path: Path, content: bytes) -> None:
    """A file of less than a page, which SQLite takes for an empty database, is not written over."""
    path.parent.mkdir()
    path.write_bytes(content)
    assert "is not a hilum session file" in (await refuse(path)).message


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("version", [0, 1, 7])
async def test_database_of_another_program_is_refused(path: Path, mode: str, version: int) -> None:
    """An SQLite file that somebody else made is not ours, whatever its version."""
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.executescript(
        f"PRAGMA journal_mode = {mode}; PRAGMA user_version = {version}; CREATE TABLE sessions (x);"
    )
    connection.close()
    error = await refuse(path)
    assert "another program created it" in error.message


async def test_newer_format_is_refused(path: Path) -> None:
    """A file of a newer hilum is left to it."""
    await fill(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    error = await refuse(path)
    assert "newer hilum (format 2, this one knows 1)" in error.message
    assert "Update hilum" in error.hint


async def test_truncated_file_is_refused(path: Path) -> None:
    """A file that lost its end is damaged; the hint says how to save what can be read."""
    await fill(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2 // 4096 * 4096])
    error = await refuse(path)
    assert "is damaged" in error.message
    assert ".recover" in error.hint


async def test_zeroed_header_is_refused(path: Path) -> None:
    """The first page full of null bytes, as after a loss of power."""
    await fill(path)
    with path.open("r+b") as file:
        file.write(b"\0" * 4096)
    assert "not an SQLite file" in (await refuse(path)).message


async def test_zeroed_schema_is_refused(path: Path) -> None:
    """A sound header over a broken first page."""
    await fill(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)
    assert "is damaged" in (await refuse(path)).message


async def test_empty_file_is_taken(path: Path) -> None:
    """A crash while the file was made leaves an empty one, which is simply used."""
    path.parent.mkdir()
    path.touch()
    await fill(path)
    store = SqliteStore(path)
    assert [info.id for info in sorted(await store.list(), key=lambda info: info.id)] == [
        "s0",
        "s1",
    ]
    assert len(await store.read("s0")) == 50
    await store.close()


async def test_crash_between_schema_and_log_mode_is_repaired(path: Path) -> None:
    """A file whose mode was changed goes back to the one that survives crashes."""
    await fill(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    store = SqliteStore(path)
    assert len(await store.list()) == 2
    assert path.with_name("sessions.db-wal").exists()
    await store.close()


async def test_page_of_a_log_is_broken(path: Path) -> None:
    """Broken pages in one log are told when it is read; another log is read to its end."""
    store = SqliteStore(path)
    for name, letter in (("sick", "S"), ("well", "W")):
        log = await store.create(SessionInfo(id=name, workspace="/w"))
        log.append(
            [
                PluginEvent(seq=seq, name="test.fact", data={"x": letter * 900})
                for seq in range(1, 101)
            ]
        )
    await store.close()
    content = bytearray(path.read_bytes())
    pages = [
        at
        for at in range(4096, len(content), 4096)
        if b"S" * 900 in content[at : at + 4096] and content[at] == 13
    ]
    middle = pages[len(pages) // 2]
    content[middle : middle + 4096] = b"\xaa" * 4096
    path.write_bytes(content)
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="is damaged"):
        await store.read("sick")
    assert len(await store.read("well")) == 100
    assert path.read_bytes() == bytes(content)
    await store.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE events SET data = x'00000000' WHERE (key & 255) = 7", "Event 7 of session s0"),
        ("UPDATE events SET data = 12 WHERE (key & 255) = 7", "Event 7 of session s0"),
        (
            'UPDATE events SET data = \'{"type": "unheard_of"}\' WHERE (key & 255) = 7',
            "Event 7 of session s0",
        ),
        ("DELETE FROM events WHERE (key & 255) = 7", "Event 7 of session s0"),
        (
            "UPDATE events SET data = (SELECT data FROM events LIMIT 1) WHERE (key & 255) = 7",
            "Event 7 of session s0",
        ),
    ],
)
async def test_damaged_event_is_named(path: Path, statement: str, message: str) -> None:
    """An event that cannot be read, is missing or is another one is named.

    What is before it and beside it is read.
    """
    await fill(path, events=20)
    connection = sqlite3.connect(path)
    connection.execute(f"{statement} AND (key >> 32) = 1")
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    log = await store.open("s0")
    for _ in range(2):
        with pytest.raises(StoreError, match=message) as caught:
            log.read()
        assert "is damaged" in caught.value.message
        assert "Other sessions are not affected" in caught.value.hint
        with pytest.raises(StoreError, match=message):
            await store.read("s0")
    assert [event.seq for event in log.read(limit=6)] == [1, 2, 3, 4, 5, 6]
    assert [event.seq for event in log.read(after=7)] == list(range(8, 21))
    assert len(await store.read("s1")) == 20
    await store.close()


async def test_path_that_is_a_folder(path: Path) -> None:
    """A folder is no session file."""
    path.mkdir(parents=True)
    assert "it is a folder" in (await refuse(path)).message


async def test_folder_that_is_a_file(tmp_path: Path) -> None:
    """Nor can a file be a folder."""
    (tmp_path / "data").write_text("mine")
    error = await refuse(tmp_path / "data" / "sessions.db")
    assert "cannot be used" in error.message
    assert (tmp_path / "data").read_text() == "mine"


# Everything is imported before the rights are gone: the interpreter itself may be out of reach
# afterwards.
UNPRIVILEGED = """
import hilum_store.sessions
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)

async def main():
    for place in sys.argv[2:]:
        store = SqliteStore(Path(place))
        try:
            await store.list()
            say("listed")
        except StoreError as error:
            say(error.code, "|", error.message, "|", error.hint)
        await store.close()
"""
# Rights of the folder and of the file, which is missing for None, and words of the message.
RIGHTS = [
    (0o555, 0o644, "the folder"),
    (0o000, 0o644, "cannot be used"),
    (0o777, 0o444, "may not be read and written"),
    (0o777, 0o000, "may not be read and written"),
    (0o555, None, "may not be written"),
]


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0,
    reason="only root can become somebody without rights",
)
async def test_missing_rights_are_told(child) -> None:  # type: ignore[no-untyped-def]
    """A folder or file that may not be read or written is told with its path, and stays as it
    is.

    One process without rights tries all of them.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        paths = [Path(place, f"data{number}", "sessions.db") for number in range(len(RIGHTS))]
        for path, (folder, file, _) in zip(paths, RIGHTS, strict=True):
            await fill(path)
            if file is None:
                path.unlink()
            else:
                path.chmod(file)
            path.parent.chmod(folder)
            for each in path.parent.rglob("*"):
                assert each.stat().st_uid == 0
        output, _ = child(UNPRIVILEGED, *map(str, paths)).communicate(timeout=60)
        told = output.splitlines()
        for line, path, (_, _, words) in zip(told, paths, RIGHTS, strict=True):
            code, message, hint = line.split(" | ")
            assert code == E_STORE
            assert words in message
            assert str(path.parent) in message
            assert "store.path" in hint


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = sys.platform == "linux" and shutil.which("mount") and os.geteuid() == 0
    if (
        not mounted
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]).returncode
    ):
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_full_disk_loses_nothing(small_disk: Path) -> None:
    """Events that do not fit are refused as a whole.

    Space freed, the log goes on, and all is there.
    """
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    store = SqliteStore(small_disk / "sessions.db")
    log = await store.create(SessionInfo(id="s1", workspace="/w"))

    def append_for_ever() -> None:
        while True:
            log.append([fact(log.last + 1, 5000), fact(log.last + 2, 5000)])

    with pytest.raises(StoreError) as caught:
        append_for_ever()
    assert "no space left" in caught.value.message
    assert "Free some space" in caught.value.hint
    last = log.last
    assert last > 10
    for _ in range(3):
        with pytest.raises(StoreError, match="no space left"):
            log.append([fact(last + 1, 300_000)])
    assert log.last == last
    assert [event.seq for event in log.read()] == list(range(1, last + 1))
    ballast.unlink()
    log.append([fact(last + 1, 5000)])
    await store.close()
    store = SqliteStore(small_disk / "sessions.db")
    assert [event.seq for event in await store.read("s1")] == list(range(1, last + 2))
    await store.close()


async def test_full_disk_at_the_first_start(small_disk: Path) -> None:
    """Where nothing can be made, the error says so, and with space it works."""
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    store = SqliteStore(small_disk / "sessions.db")
    with pytest.raises(StoreError, match=r"no space left|cannot be used|could not be") as caught:
        await store.list()
    assert caught.value.hint
    ballast.unlink()
    assert list(await store.list()) == []
    await store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
async def test_limit_on_the_size_of_files_is_told(child, path: Path) -> None:  # type: ignore[no-untyped-def]
    """A quota ends appending with a clear error; what was appended before is there for others."""
    process = child(
        """
        import resource, signal
        async def main():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
            store = SqliteStore(path)
            log = await store.create(SessionInfo(id="s1", workspace="/w"))
            try:
                while True:
                    log.append([event(log.last + 1, 5000)])
            except StoreError as error:
                say(log.last, error.code, "could not be read or written" in error.message, len(log.read()))
        """
    )
    output, _ = process.communicate(timeout=60)
    last, code, told, read = output.split()
    assert (code, told, read) == (E_STORE, "True", last)
    store = SqliteStore(path)
    assert len(await store.read("s1")) == int(last) > 10
    await store.close()


async def test_file_locked_by_another_program(path: Path, store: SqliteStore) -> None:
    """A program that keeps the file locked is told after a while.

    Nothing is written, and later it works.
    """
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log._database.writer.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="Another program keeps the session file") as caught:
        log.append([fact(1)])
    assert caught.value.code == E_BUSY
    other.execute("ROLLBACK")
    other.close()
    log.append([fact(1)])
    assert log.read() == [fact(1)]


@pytest.fixture
def killed(path: Path, child: Callable[..., "subprocess.Popen[str]"]) -> Callable[[int], None]:
    """Leave a file with a log that is not in it yet, as a killed process does, and damage it."""

    def leave(first: int) -> None:
        process = child(
            """
            async def main():
                store = SqliteStore(path)
                for number in range(3):
                    log = await store.create(SessionInfo(id=f"s{number}", workspace="/w"))
                    log.append([event(seq, 500) for seq in range(1, 200)])
                    await log.close()
                # Closing moves the events into the file; what follows stays in the log.
                await store.close()
                store = SqliteStore(path)
                log = await store.open("s0")
                log.append([event(seq, 500) for seq in range(200, 260)])
                os.kill(os.getpid(), 9)
            """
        )
        process.wait()
        content = bytearray(path.read_bytes())
        assert len(content) > 100_000
        random.seed(1)
        for at in range(first, len(content), 2):
            content[at] = random.randrange(256)
        path.write_bytes(content)

    return leave


def read_files(path: Path) -> dict[str, bytes]:
    """Return the content of the session file and of the log next to it."""
    log = path.with_name(f"{path.name}-wal")
    return {each.name: each.read_bytes() for each in (path, log)}


@pytest.mark.parametrize("first", [0, 100, 4096, 12_288])
async def test_a_damaged_file_with_a_log_is_not_changed(
    path: Path, killed: Callable[[int], None], first: int
) -> None:
    """Neither is the log that a killed process left: it may contain the only sound pages."""
    killed(first)
    before = read_files(path)
    assert before[f"{path.name}-wal"]
    messages = []
    for use in ("list", "open", "read"):
        store = SqliteStore(path)
        with contextlib.suppress(StoreError):
            await store.list()
        try:
            await getattr(store, use)(*[] if use == "list" else ["s1"])
            await store.read("s1")
            await store.read("s2")
        except StoreError as error:
            messages.append(f"{error.message} {error.hint}")
        await store.close()
        after = read_files(path)
        assert after[path.name] == before[path.name]
        # Opening a session writes its holder, which only adds to the log.
        assert after[f"{path.name}-wal"].startswith(before[f"{path.name}-wal"])
    assert messages
    assert all("It was not changed." in message for message in messages)


async def test_a_sound_file_gets_what_a_killed_process_left(
    path: Path, killed: Callable[[int], None]
) -> None:
    """The log is moved into the file when it is closed."""
    killed(1 << 40)
    before = path.read_bytes()
    store = SqliteStore(path)
    assert len(await store.read("s0", 0, 1000)) == 259
    await store.close()
    assert path.read_bytes() != before
    assert not path.with_name(f"{path.name}-wal").exists()


@pytest.mark.parametrize(
    ("kept", "hint"), [(13, "hilum sessions fork s0 --upto 13`"), (0, "`hilum trace s0`")]
)
async def test_lost_events_at_the_end_are_damage(path: Path, kept: int, hint: str) -> None:
    """Otherwise a session would continue as if the events had never happened."""
    await fill(path, events=27)
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM events WHERE (key & 255) > ? AND (key >> 32) = 1", (kept,))
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    for use in (store.read, store.open):
        with pytest.raises(StoreError, match=f"those after event {kept} are missing") as caught:
            await use("s0")
        assert caught.value.code == "E_STORE"
        assert hint in caught.value.hint
    if kept:
        assert [event.seq for event in await store.read("s0", limit=kept)] == [*range(1, kept + 1)]
    assert len(await store.read("s1")) == 27
    await store.delete("s0")
    await store.close()


async def test_a_crash_in_an_append_is_no_damage(path: Path) -> None:
    """The events and their number are written together or not at all."""
    await fill(path, events=3)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE sessions SET events = 4 WHERE number = 1")
    connection.close()
    store = SqliteStore(path)
    assert len(await store.read("s0")) == 3
    log = await store.open("s0")
    log.append([fact(4)])
    assert len(log.read()) == 4
    await store.close()


def change_row(path: Path, values: str) -> None:
    """Change the description of the first session."""
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE sessions SET {values} WHERE number = 1")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ("title = x'fffe', updated = 'abc'", "title, updated"),
        ("title = CAST(x'fffe' AS TEXT)", "title"),
        ("state = x'ff', events = 'many'", "events, state"),
    ],
)
async def test_a_damaged_description_hides_no_other_session(
    path: Path, values: str, named: str
) -> None:
    """The damaged one is named, can still be opened, and gets a sound title again."""
    await fill(path, events=3)
    change_row(path, values)
    store = SqliteStore(path)
    listed = {info.id: info.title for info in await store.list()}
    assert listed == {"s0": f"(damaged: {named})", "s1": ""}
    assert (await store.info("s0")).workspace == "/w"
    await store.rename("s0", "Sound")
    log = await store.open("s0")
    log.append([fact(4)])
    await log.close()
    change_row(path, "state = 'idle'")
    info = await store.info("s0")
    assert (info.title, info.events) == ("Sound", 4)
    await store.close()


@pytest.mark.parametrize("field", ["workspace", "kind"])
async def test_a_session_whose_rules_are_unknown_is_not_opened(path: Path, field: str) -> None:
    """Its folder and its kind determine the rules, so they must not be guessed."""
    await fill(path, events=3)
    change_row(path, f"{field} = CAST(x'fffe' AS TEXT)")
    store = SqliteStore(path)
    assert {info.id for info in await store.list()} == {"s0", "s1"}
    for use in (store.open, store.info, store.read):
        with pytest.raises(StoreError, match=f"its {field} cannot be read") as caught:
            await use("s0")
        assert "delete" in caught.value.hint
    await store.delete("s0")
    assert [info.id for info in await store.list()] == ["s1"]
    await store.close()


DEEP_JSON = b'{"type":"plugin_event","seq":3,"name":"x","data":{"x":' + b"[" * 50_000


@pytest.mark.parametrize(
    "line",
    [
        DEEP_JSON,
        DEEP_JSON + b"]" * 50_000 + b"}}",
        b'{"type":"stop_asked","seq":3,"at":1e18}',
        b'{"type":"stop_asked","seq":3,"at":-1}',
        b'{"type":"run_ended","seq":3,"state":"stopped","turns":9223372036854775808}',
        b'{"type":"stop_asked","seq":3,"agent":"\\ud83d"}',
        b'{"type":"stop_asked","seq":3,"agent":"\xff"}',
    ],
)
async def test_an_event_that_cannot_be_right_is_damage(path: Path, line: bytes) -> None:
    """Whatever is wrong with it, readers get the one error that they expect."""
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE events SET data = ? WHERE key = (1 << 32 | 3)", (line,))
        database.commit()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"Event 3 of session s0 in .* is damaged"):
        await store.read("s0")
    assert len(await store.read("s0", 0, 2)) == 2
    assert len(await store.read("s1")) == 50
    await store.close()


@pytest.mark.parametrize("value", [1e18, -1.0, float("inf"), "text", b"\xff"])
async def test_a_session_with_an_impossible_time_is_listed_as_damaged(
    path: Path, value: object
) -> None:
    """No calendar has a date for it, so a face that shows the time would fail."""
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "UPDATE sessions SET updated = ?, created = ? WHERE id = 's0'", [value] * 2
        )
        database.commit()
    store = SqliteStore(path)
    infos = {info.id: info for info in await store.list()}
    assert infos["s0"].title == "(damaged: created, updated)"
    assert (infos["s0"].created, infos["s0"].updated) == (0.0, 0.0)
    assert infos["s1"].title == ""
    await store.close()


@pytest.mark.parametrize(
    "event",
    [
        ModelAnswered(message=AssistantMessage(())),
        CallStarted(call=ToolCall("c", "act", "{}")),
        CallDone(result=ToolResult("c", "act", ())),
        RoundEnded(),
        AgentStarted(profile={"turns": "many"}),
    ],
)
async def test_a_session_with_an_event_out_of_place_is_not_resumed(
    path: Path, event: AnyEvent
) -> None:
    """The error names the event; the events before it can be copied to a new session."""
    store = SqliteStore(path)
    log = await store.create(SessionInfo(id="s", workspace=str(path.parent.parent)))
    opened = SessionOpened(session="s", workspace=str(path.parent.parent))
    events = [opened, AgentStarted(agent="main"), replace(event, agent="main")]
    log.append([replace(each, seq=seq) for seq, each in enumerate(events, 1)])
    await log.close()
    async with open_kernel([], store=store) as kernel:
        with pytest.raises(StoreError, match=r"event 3 \(\w+\) does not fit"):
            async with kernel.open_session(resume="s"):
                pass
        copy = await kernel.fork("s", 2)
        async with kernel.open_session(resume=copy) as session:
            assert list(session.agents) == ["main"]
