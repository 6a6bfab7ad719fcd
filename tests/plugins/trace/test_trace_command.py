"""The command `hilum trace` on the sessions of a real store."""

import json
import os
import re
import sqlite3
from pathlib import Path

import jsonschema
import pytest
import trio
from hilum import UsageError, tool
from hilum import events as ev
from hilum.errors import StoreError
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum.store import SessionInfo, spell_folder
from hilum.testing import open_bench, plugin, use
from hilum_cli.terminal import Out
from hilum_store import SqliteStore
from hilum_trace.following import Follower, follow
from hilum_trace.spans import FORGOTTEN, SpanFold
from hilum_trace.trace_command import main
from hilum_trace.tree import Painter
from msgspec.structs import replace

# The schema of speedscope 1.25.0 (MIT).
SCHEMA = Path(__file__).with_name("speedscope_schema.json")


def make_run(run, prompt, name="read_file", arguments="{}"):
    """The events of a run with one call."""
    call = ToolCall(f"c-{run}", name, arguments)
    return [
        (1.0, run, ev.PromptQueued(text=prompt)),
        (1.0, run, ev.RunStarted(text=prompt, message=UserMessage((Text(prompt),)))),
        (0.5, run, ev.ModelStarted(turn=1, model="a/b")),
        (
            2.0,
            run,
            ev.ModelAnswered(
                message=AssistantMessage((call,), "a/b", "calls"),
                usage=Usage(1000, 500, output=10, cost=0.25),
                first=0.5,
                seconds=2.0,
            ),
        ),
        (0.25, run, ev.CallStarted(call=call, plugin="files")),
        (4.0, run, ev.CallDone(result=ToolResult(call.id, name, (Text("E_X: no"),), "E_X"))),
        (0.1, run, ev.RoundEnded()),
        (0.1, run, ev.RunEnded(state="completed")),
    ]


def number(parts, session="s"):
    """Events with their numbers and times."""
    at = 1_700_000_000.0
    events = [ev.SessionOpened(seq=1, at=at, session=session, workspace="/w")]
    for wait, run, event in parts:
        at += wait
        events.append(replace(event, seq=len(events) + 1, at=at, agent="main", run=run))
    return events


def write(path, session, workspace, events):
    async def work():
        store = SqliteStore(path)
        log = await store.create(SessionInfo(session, spell_folder(workspace)))
        log.append(events)
        await log.close()
        await store.close()

    trio.run(work)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A workspace with an older session `one` and a newer session `two` of two runs."""
    data = tmp_path / "data"
    data.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HILUM_DATA", str(data))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(work)
    path = data / "sessions.db"
    write(path, "one", os.path.realpath(work), number(make_run("r1", "Old prompt.")))
    parts = make_run("r1", "First prompt.") + make_run("r2", "Second prompt.", "act")
    write(path, "two", os.path.realpath(work), number(parts, "two"))
    return tmp_path


def run(capfd, *argv):
    """Run the command, and return its lines."""
    assert main(list(argv)) == 0
    return capfd.readouterr().out.splitlines()


def test_the_last_session_of_the_folder_is_shown_as_a_tree(folder, capfd):
    lines = run(capfd)
    assert re.fullmatch(
        r" +18 s  two  17 events · 2\.0k in \(50% cached\), 20 out, \$0\.50"
        r" · waited: 1\.0 s for first chunks",
        lines[0],
    )
    assert [line[13:].split("  ·")[0] for line in lines if "Second" in line or "act" in line] == [
        "  queued Second prompt.",
        "  run Second prompt.  1.0k in (50% cached), 10 out, $0.25 · waited: 500 ms for first chunks",
        "      act  {} · ran for 0 ms · E_X: no",
    ]
    assert "      model a/b  1.0k in (50% cached), 10 out, $0.25 · first chunk after 500 ms" in [
        line[13:] for line in lines
    ]
    assert not any("\x1b" in line for line in lines)


def test_a_session_is_named_by_the_beginning_of_its_id(folder, capfd):
    assert any("Old prompt." in line for line in run(capfd, "on"))


def test_one_run_by_number_id_or_position(folder, capfd):
    for name in ("2", "r2", "last"):
        lines = run(capfd, "--run", name)
        assert "run Second prompt." in lines[0]
        assert not any("First" in line for line in lines)


def test_the_slowest_spans_come_first_with_their_places(folder, capfd):
    lines = run(capfd, "--slowest", "3")
    assert [line[:11].strip() for line in lines] == ["4.2 s", "4.2 s", "2.0 s"]
    assert "read_file  run 1, turn 1 ·" in lines[0]


def test_the_flame_view_fits_its_width(folder, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = run(capfd, "--flame", "--run", "1")
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].startswith("[run First prompt.")
    assert "[read_file 4.2 s" in lines[2]
    assert lines[2].index("[read_file") > lines[2].index("[mod")
    assert lines[-1].startswith("0 ms")
    assert lines[-1].endswith("6.9 s")


def test_json_has_every_span_and_every_event(folder, capfd):
    data = json.loads("\n".join(run(capfd, "--json")))
    owned = sorted(seq for span in data["spans"] for seq in span["events"])
    assert owned == [*range(1, 18)]
    assert data["session"] == "two"
    (turn, _) = [span for span in data["spans"] if span["kind"] == "turn"]
    assert turn["total"]["input"] == 1000


def test_files_are_written_once_and_overwritten_only_on_request(folder, capfd):
    assert run(capfd, "--speedscope", "p.json")[0].startswith("Wrote p.json")
    profile = json.loads((folder / "work" / "p.json").read_text())
    jsonschema.validate(profile, json.loads(SCHEMA.read_text()))
    with pytest.raises(UsageError, match=r"p\.json exists"):
        main(["--speedscope", "p.json"])
    run(capfd, "--html", "p.json", "--force")
    assert (folder / "work" / "p.json").read_text().startswith("<!doctype html>")
    with pytest.raises(UsageError, match="cannot be written"):
        main(["--html", "missing/p.html"])


def test_keys_do_not_leave_the_machine(folder, capfd):
    key = "sk-ant-api03-" + "Ab1" * 20
    parts = make_run("r1", f"Use {key} please.")
    write(folder / "data" / "sessions.db", "key", os.path.realpath(folder / "work"), number(parts))
    run(capfd, "key", "--html", "p.html")
    assert key not in (folder / "work" / "p.html").read_text()
    assert key not in "\n".join(run(capfd, "key", "--json"))


@pytest.mark.parametrize("before", [20, 100, 110, 118, 380, 395, 470])
def test_no_part_of_a_key_is_left_where_a_text_was_cut(folder, capfd, before):
    """Texts are searched for keys before they are cut, also where the cut is in a key."""
    key = "sk-ant-api03-" + "Ab1" * 30
    text = "x" * before + f" {key} " + "y" * 400
    parts = make_run("r1", text, arguments=json.dumps({"a": text}))
    parts[-1] = (0.1, "r1", ev.RunEnded(state="failed", code="E_X", error=text))
    write(folder / "data" / "sessions.db", "key", os.path.realpath(folder / "work"), number(parts))
    run(capfd, "key", "--html", "p.html")
    run(capfd, "key", "--speedscope", "p.json")
    written = [(folder / "work" / name).read_text() for name in ("p.html", "p.json")]
    for output in (*written, "\n".join(run(capfd, "key", "--json"))):
        assert "Ab1Ab1" not in output
        assert "sk-ant" not in output


def test_a_key_that_is_longer_than_what_is_shown_leaves_nothing(folder, capfd):
    """And neither does one behind it, which moves up when the first one is replaced."""
    lines = "\n".join("MIIEow" + "Q7" * 29 for _ in range(30))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    parts = make_run("r1", f"Use {key} and sk-ant-api03-{'Ab1' * 30} please. " + "z" * 20_000)
    write(folder / "data" / "sessions.db", "key", os.path.realpath(folder / "work"), number(parts))
    text = "\n".join(run(capfd, "key", "--json"))
    assert "MIIEow" not in text
    assert "Ab1Ab1" not in text
    assert "REDACTED" in text


def test_texts_of_the_session_do_not_reach_the_terminal_raw(folder, capfd):
    evil = "\x1b]0;title\x07\x1b[2J\u202e"
    parts = make_run("r1", f"x{evil}", f"act{evil}", json.dumps({"a": evil}) + evil)
    write(folder / "data" / "sessions.db", "evil", os.path.realpath(folder / "work"), number(parts))
    for options in ([], ["--flame"], ["--slowest", "5"], ["--json"]):
        text = "\n".join(run(capfd, "evil", *options))
        assert not set("\x1b\x07\u202e") & set(text)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--flame", "--json"], "--flame and --json exclude each other"),
        (["--slowest", "0"], "--slowest must be at least 1"),
        (["--run", "3"], "The session has no run '3'"),
        (["--run", "1", "--json"], "--json always covers the whole session"),
    ],
)
def test_options_that_make_no_sense_are_refused(folder, argv, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        main(argv)


def test_unknown_sessions_and_empty_folders_are_errors(folder, tmp_path):
    with pytest.raises(StoreError, match="There is no session 'nine'"):
        main(["nine"])
    with pytest.raises(StoreError, match="There are no sessions in"):
        main(["-C", str(tmp_path)])


def test_a_session_without_runs_has_a_tree_but_no_flame_view(folder, capfd):
    path = folder / "data" / "sessions.db"
    write(path, "empty", "/elsewhere", number([]))
    assert len(run(capfd, "empty")) == 1
    with pytest.raises(UsageError, match="The session has no runs"):
        main(["empty", "--flame"])


def test_a_long_session_shows_the_turns_of_its_last_run_only(folder, capfd):
    parts = [part for count in range(60) for part in make_run(f"r{count}", f"Prompt {count}.")]
    write(folder / "data" / "sessions.db", "long", "/elsewhere", number(parts))
    lines = run(capfd, "long")
    assert sum("turn 1" in line for line in lines) == 1
    assert lines[-1].startswith("59 runs are shown without their turns")
    assert sum("turn 1" in line for line in run(capfd, "long", "--all")) == 60


def test_unread_entries_are_named_on_standard_error(folder, capfd):
    path = folder / "data" / "sessions.db"
    events = number([(1.0, "r1", ev.StopAsked())])
    write(path, "new", "/elsewhere", events)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE events SET data = ? WHERE key = (SELECT max(key) FROM events)",
            (b'{"type": "dreamt", "seq": 2}',),
        )
    connection.close()
    assert main(["new"]) == 0
    error = capfd.readouterr().err
    assert "does not know: dreamt (1)" in error
    assert "update hilum" in error


def damage(path, seq, data=b"\xff"):
    """Change an event of the newest session behind the store's back."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE events SET data = ? WHERE key = (SELECT max(key >> 32) FROM events) << 32 | ?",
            (data, seq),
        )
    connection.close()


@pytest.mark.parametrize("options", [[], ["--flame"], ["--slowest", "3"], ["--json"]])
def test_of_a_damaged_log_the_rest_is_shown_before_the_error(folder, capfd, options):
    damage(folder / "data" / "sessions.db", 5)
    with pytest.raises(StoreError, match=r"The log is damaged at entry 5\.") as raised:
        main(["two", *options])
    assert raised.value.code == "E_STORE"
    out = capfd.readouterr().out
    assert ("run 2, turn 1" if options[:1] == ["--slowest"] else "Second prompt.") in out


def test_a_page_of_a_damaged_log_is_written_and_names_the_damage(folder, capfd):
    damage(folder / "data" / "sessions.db", 5)
    with pytest.raises(StoreError):
        main(["two", "--html", "p.html"])
    assert "The log is damaged at entry 5." in (folder / "work" / "p.html").read_text()


def follow_to_the_end(capfd, monkeypatch):
    """Follow the session `two`, which no process has open; return the output."""
    monkeypatch.setattr("hilum_trace.following.POLL_SECONDS", 0.01)
    monkeypatch.setattr("hilum_trace.following.CHECK_SECONDS", 0.05)
    assert main(["two", "--follow"]) == 0
    return capfd.readouterr()


def test_following_names_events_of_a_newer_version_once(folder, capfd, monkeypatch):
    for seq in (5, 6, 13):
        line = {"type": "dreamt\x1b[2J", "seq": seq, "at": 1.0}
        damage(folder / "data" / "sessions.db", seq, json.dumps(line).encode())
    shown = follow_to_the_end(capfd, monkeypatch)
    assert "end of run Second prompt." in shown.out
    assert shown.err.count("does not know events of the type") == 1
    assert "\x1b" not in shown.err


@pytest.mark.parametrize("seq", [1, 5, 17])
def test_following_a_damaged_log_ends_with_an_error(folder, capfd, monkeypatch, seq):
    """The damage is also reported at once, because the session may run for hours."""
    damage(folder / "data" / "sessions.db", seq)
    with pytest.raises(StoreError, match=f"damaged at entry {seq}"):
        follow_to_the_end(capfd, monkeypatch)
    shown = capfd.readouterr()
    assert shown.err.startswith("hilum: E_STORE: The log is damaged: ")
    assert "run Second prompt." in shown.out


def test_following_a_log_whose_end_is_missing_ends_with_an_error(folder, capfd, monkeypatch):
    path = folder / "data" / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE key = (SELECT max(key) FROM events)")
    connection.close()
    with pytest.raises(StoreError, match="damaged at entry 17"):
        follow_to_the_end(capfd, monkeypatch)
    assert "event 17 is missing" in capfd.readouterr().err


async def test_following_a_session_that_is_deleted_ends_with_an_error(folder, monkeypatch):
    monkeypatch.setattr("hilum_trace.following.POLL_SECONDS", 0.01)
    store = SqliteStore(folder / "data" / "sessions.db")
    errors = []

    async def follow_it():
        try:
            await follow(store, "two", Painter(), Out(1))
        except StoreError as error:
            errors.append(error.message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow_it)
        await store.delete("two")
    await store.close()
    assert errors == ["There is no session 'two'."]


@tool(risk="read")
async def act() -> str:
    """Act."""
    return "acted"


async def test_following_shows_a_running_session_until_it_closes(tmp_path, monkeypatch, capfd):
    """Two tasks of one process here; the store is the same file for other processes."""
    monkeypatch.setattr("hilum_trace.following.POLL_SECONDS", 0.01)
    monkeypatch.setattr("hilum_trace.following.CHECK_SECONDS", 0.05)
    path = tmp_path / "sessions.db"
    writing = SqliteStore(path)
    reading = SqliteStore(path)
    tools = plugin("tools", act)
    async with (
        trio.open_nursery() as nursery,
        open_bench(tools, answers=[use("act"), "Done."], store=writing) as kit,
    ):
        session = kit.session.id
        nursery.start_soon(follow, reading, session, Painter(), Out(1))
        await kit.run("Please act.")
    text = capfd.readouterr().out
    lines = [line.split("  ")[-1].strip() for line in text.splitlines()]
    assert (
        lines.index("run Please act.")
        < lines.index("turn 1")
        < lines.index("end of run Please act.")
    )
    assert any("act" in line and "ms" in line for line in text.splitlines())
    await writing.close()
    await reading.close()


async def test_following_shows_what_is_written_just_before_the_session_closes(
    folder, monkeypatch, capfd
):
    """Between the last read of the log and the check whether a process has it open."""
    monkeypatch.setattr("hilum_trace.following.POLL_SECONDS", 0.01)
    monkeypatch.setattr("hilum_trace.following.CHECK_SECONDS", 0.05)
    store = SqliteStore(folder / "data" / "sessions.db")
    events = number(make_run("r1", "Late prompt."), "three")
    log = await store.create(SessionInfo("three", spell_folder(folder / "work")))
    log.append(events[:5])

    read_state = store.is_open

    async def close_at_check(session):
        if (await store.info(session)).events == 5:
            log.append(events[5:])
            await log.close()
        return await read_state(session)

    monkeypatch.setattr(store, "is_open", close_at_check)
    await follow(store, "three", Painter(), Out(1))
    await store.close()
    text = capfd.readouterr().out
    assert "end of run Late prompt." in text
    assert "E_INTERRUPTED" not in text


def test_a_follower_keeps_no_spans_of_turns_that_ended():
    """And what it prints is the same as that of a follower that keeps everything."""
    events = number([part for count in range(50) for part in make_run(f"r{count}", "Prompt.")])
    forgetful = Follower(Painter())
    complete = Follower(Painter())
    complete.fold = SpanFold()
    lines = [forgetful.apply([event]) for event in events]
    assert lines == [complete.apply([event]) for event in events]
    kept = [span.kind for span in forgetful.fold.trace.spans if span is not FORGOTTEN]
    assert kept.count("turn") <= 1
    assert kept.count("tool") <= 1
    assert not forgetful.fold._state.actors["main"].calls


def test_a_follower_prints_each_end_once():
    follower = Follower(Painter())
    events = number(make_run("r1", "Prompt."))
    lines = [line for event in events for line in follower.apply([event])]
    assert [line[13:].split("  ")[0] or line[13:] for line in lines].count("run Prompt.") == 1
    assert sum("end of run" in line for line in lines) == 1
    # The model and the call are shown when they begin, and when they end.
    assert sum("model a/b" in line for line in lines) == 2
    calls = [line for line in lines if "read_file" in line]
    assert len(calls) == 2
    assert calls[0].startswith(" " * 13)
    assert "4.2 s" in calls[1]


def test_a_follower_shows_what_was_killed():
    follower = Follower(Painter())
    follower.apply(number(make_run("r1", "Prompt.")[:5]))
    call, run = follower.finish()
    assert "read_file" in call
    assert "E_INTERRUPTED" in call
    assert "end of run Prompt." in run
    assert "E_INTERRUPTED" in run
