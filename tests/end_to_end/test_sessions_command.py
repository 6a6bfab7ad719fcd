"""``hilum sessions``: what is kept can be found, read, continued, copied, renamed, exported and
deleted.
"""

import json
import sqlite3

import pytest
from hilum.events import RunEnded, decode
from hilum_replay import loads

pytestmark = pytest.mark.slow(cases=6, of="file")


@pytest.fixture
async def session(cli, asks):
    """The id of a session in which a file was read."""
    (cli.workspace / "a.txt").write_text("alpha\n")
    async with cli.model(asks("read_file", path="a.txt"), "It says alpha."):
        return (await cli("run", "what is in a.txt?", "--output-format", "json")).result["session"]


async def test_sessions_are_listed_for_this_folder_or_all(cli, session):
    """As a table and as JSON."""
    done = await cli("sessions", "list")
    assert done.out.splitlines()[1].startswith(session)
    assert "what is in a.txt?" in done.out
    elsewhere = await cli("sessions", "list", "-C", str(cli.folder))
    assert "There are no sessions" in elsewhere.out
    (info,) = json.loads((await cli("sessions", "list", "--all", "--json")).out)
    assert (info["id"], info["workspace"], info["state"]) == (
        session,
        str(cli.workspace),
        "completed",
    )


async def test_a_list_is_bounded_and_says_what_is_left_out(cli, session):
    """The newest first; --limit 0 shows all."""
    newest = (await cli("sessions", "fork", session)).out.strip()
    done = await cli("sessions", "list", "--limit", "1")
    _, row, rest = done.out.splitlines()
    assert row.startswith(newest)
    assert rest == "… and 1 older: hilum sessions list --limit 0 shows all."
    assert len((await cli("sessions", "list", "--limit", "0")).out.splitlines()) == 3
    assert len(json.loads((await cli("sessions", "list", "--limit", "1", "--json")).out)) == 1
    assert (await cli("sessions", "list", "--limit", "-1")).code == 2


async def test_a_session_is_shown_for_people_and_for_programs(cli, session):
    """By the beginning of its id."""
    text = (await cli("sessions", "show", session[:-2])).out
    assert "> what is in a.txt?" in text
    assert "✓ read_file path=a.txt" in text
    assert "It says alpha." in text
    assert '"path": "a.txt"' in (await cli("sessions", "show", session, "--full")).out
    events = [
        decode(line)
        for line in (await cli("sessions", "show", session, "--events")).out.splitlines()
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-2], RunEnded)


async def test_a_session_goes_on(cli, session):
    """sessions resume is run --resume."""
    async with cli.model("Still alpha.") as server:
        done = await cli("sessions", "resume", session, "and", "now?")
    assert (done.code, done.out) == (0, "Still alpha.\n"), done.err
    assert b"It says alpha." in server.bodies[0]


async def test_a_fork_has_the_events_up_to_a_place(cli, session):
    """And is a session of its own."""
    done = await cli("sessions", "fork", session, "--upto", "5")
    fork = done.out.strip()
    assert done.code == 0
    events = (await cli("sessions", "show", fork, "--events")).out.splitlines()
    assert len(events) == 5
    assert json.loads(events[0])["forked"] == session
    assert (await cli("sessions", "fork", session, "--upto", "0")).code == 2


async def test_a_title_and_the_end_of_a_session(cli, session):
    """Deleting is confirmed; with nobody to ask it needs --yes."""
    assert (await cli("sessions", "rename", session, "My", "title")).code == 0
    assert "My title" in (await cli("sessions", "list")).out
    refused = await cli("sessions", "delete", session)
    assert refused.code == 2
    assert "--yes" in refused.err
    async with cli.on_terminal("sessions", "delete", session) as terminal:
        await terminal.see("My title")
        terminal.type("\n")
        assert await terminal.end() == 1
    assert (await cli("sessions", "show", session)).code == 0
    assert (await cli("sessions", "delete", session, "--yes")).code == 0
    assert (await cli("sessions", "show", session)).code == 2


async def test_exports_are_complete_and_overwrite_nothing(cli, session):
    """As events, as Markdown, and as a cassette that plays."""
    lines = (await cli("sessions", "export", session)).out
    assert lines == (await cli("sessions", "show", session, "--events")).out
    file = cli.folder / "out.md"
    assert (
        await cli("sessions", "export", session, "--format", "markdown", "-o", str(file))
    ).code == 0
    assert "## User\n\n> what is in a.txt?" in file.read_text()
    again = await cli("sessions", "export", session, "-o", str(file))
    assert again.code == 2
    assert "--force" in again.err
    assert (await cli("sessions", "export", session, "-o", str(file), "--force")).code == 0
    assert file.read_text() == lines
    nowhere = await cli("sessions", "export", session, "-o", "no/such/folder.md")
    assert nowhere.code == 2
    tape = cli.folder / "tape.toml"
    tape.write_text((await cli("sessions", "export", session, "--format", "cassette")).out)
    assert len(loads(tape.read_text()).exchanges) == 2
    assert (
        await cli("run", "what is in a.txt?", "--cassette", str(tape))
    ).out == "It says alpha.\n"


async def test_a_title_cannot_drive_the_terminal(cli):
    """The first prompt is the title."""
    async with cli.model("ok"):
        await cli("run", "evil \x1b[2J title")
    for arguments in (["list"], ["show", "2"]):
        done = await cli("sessions", *arguments)
        assert "\x1b" not in done.out
        assert "\\x1b[2J" in done.out


async def test_exports_hold_no_keys(cli):
    """Neither of the prompt nor of the model's text, in any format.

    What is exported as JSON stays JSON.
    """
    key = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    async with cli.model(f"You said {key}."):
        assert (await cli("run", f"my key is {key}")).code == 0
    session = json.loads((await cli("sessions", "list", "--json")).out)[0]["id"]
    for form in ("jsonl", "markdown", "cassette"):
        done = await cli("sessions", "export", session, "--format", form)
        assert done.code == 0
        assert key not in done.out
        assert "[REDACTED:GITHUB_TOKEN]" in done.out
        if form == "jsonl":
            assert all(map(json.loads, done.out.splitlines()))


async def test_sessions_alone_lists_them(cli, session):
    """As git branch and hilum agents do; --help still explains all commands."""
    listed = await cli("sessions", "list")
    for arguments in ([], ["--all"], ["--limit", "5"]):
        done = await cli("sessions", *arguments)
        assert (done.code, done.err) == (0, "")
        assert done.out[:20] == listed.out[:20]
        assert session in done.out
    assert "export" in (await cli("sessions", "--help")).out
    wrong = await cli("sessions", "lst")
    assert wrong.code == 2


async def test_old_sessions_are_deleted_and_others_are_not(cli, session):
    """By the day of their last use, after a look at what would go."""
    path = cli.folder / "data" / "sessions.db"
    old = (await cli("sessions", "fork", session)).out.strip()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE sessions SET updated = updated - 10 * 86400 WHERE id = ?", (old,))
    connection.commit()
    connection.close()
    assert (await cli("sessions", "prune", "--days", "0")).code == 2
    assert (await cli("sessions", "prune", "--days", "11")).out == "0 sessions deleted.\n"
    assert (await cli("sessions", "prune", "--days", "9", "--dry-run")).out.startswith(old)
    assert (await cli("sessions", "prune", "--days", "9")).out == "1 session deleted.\n"
    left = json.loads((await cli("sessions", "list", "--all", "--json")).out)
    assert [info["id"] for info in left] == [session]
