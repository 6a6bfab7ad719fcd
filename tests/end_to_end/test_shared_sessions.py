"""Sessions in PostgreSQL: begun by one machine, listed and continued by another one."""

import contextlib
import json
import os
import signal
import sqlite3

import hilum_postgres.sessions
import pytest
import trio
from engines import Engine, facts
from hilum.store import SessionInfo
from hilum_postgres import PostgresStore
from hilum_store import SqliteStore
from postgres_server import postgres

__all__ = ["postgres"]


async def test_another_machine_lists_reads_and_resumes(cli, asks, postgres):
    """Each machine has a data folder of its own; what they share is the database."""
    url = postgres.make_database()
    other = {"HILUM_POSTGRES_URL": url, "HILUM_DATA": str(cli.folder / "other machine")}
    (cli.workspace / "a.txt").write_text("alpha\n")
    async with cli.model(asks("read_file", path="a.txt"), "It says alpha.", "It was a.txt."):
        done = await cli(
            "run", "what is in a.txt?", "--output-format", "json", HILUM_POSTGRES_URL=url
        )
        session = done.result["session"]
        [info] = json.loads((await cli("sessions", "list", "--all", "--json", **other)).out)
        assert (info["id"], info["state"]) == (session, "completed")
        assert "It says alpha." in (await cli("sessions", "show", session, **other)).out
        done = await cli("run", "--resume", session, "which file?", **other)
        assert "It was a.txt." in done.out
    assert not (cli.folder / "other machine" / "sessions.db").exists()
    assert json.loads((await cli("sessions", "list", "--all", "--json")).out) == []
    done = await cli("sessions", "delete", session, "--yes", **other)
    assert done.code == 0
    done = await cli("sessions", "show", session, HILUM_POSTGRES_URL=url)
    assert done.code != 0


LOCKS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


AWAY = """
async def main():
    store = make_store()
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    from hilum.events import StateChanged
    log.append([StateChanged(seq=1, agent="main", state="thinking", previous="idle")])
    await log.flush()
    say("ready")
    await trio.to_thread.run_sync(sys.stdin.readline)
    log.append([event(2)])
    await log.flush()
    say("written")
    await store.close()
"""


async def test_reading_leaves_the_session_of_a_process_without_a_connection_alone(
    cli, postgres, monkeypatch
):
    """Whoever lists or shows it during a short loss of the network does not end its run."""
    url = postgres.make_database()
    engine = Engine("postgres", url)
    process = engine.start(AWAY)
    assert process.stdout
    assert process.stdin
    assert await trio.to_thread.run_sync(process.stdout.readline) == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    postgres.execute(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    with trio.fail_after(10):
        while postgres.execute(url, LOCKS) != [(0,)]:  # noqa: ASYNC110 (the server ends it)
            await trio.sleep(0.01)
    store = PostgresStore(url)
    assert await store.is_open("s1")
    state = "SELECT epoch, holder FROM hilum.sessions"
    before = postgres.execute(url, state)
    for command in (("sessions", "list", "--all"), ("sessions", "show", "s1"), ("trace", "s1")):
        done = await cli(*command, HILUM_POSTGRES_URL=url)
        assert done.code == 0
        assert "interrupted" not in done.out
    monkeypatch.setattr(hilum_postgres.sessions, "STALE", -1.0)
    assert not await store.is_open("s1")
    assert postgres.execute(url, state) == before
    os.kill(process.pid, signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.flush()
    assert await trio.to_thread.run_sync(process.stdout.readline) == "written\n"
    await store.close()
    engine.close()


async def test_unreachable_database_is_an_error_and_no_other_store_is_used(cli):
    """Sessions never go to a file because the database is away."""
    url = "postgresql://me:geheim@127.0.0.1:1/team"
    async with cli.model("Hello."):
        done = await cli("run", "hello", HILUM_POSTGRES_URL=url)
    assert done.code == 5
    assert "E_STORE" in done.err
    assert "the database team on 127.0.0.1" in done.err
    assert "geheim" not in done.err + done.out
    assert not (cli.folder / "data" / "sessions.db").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_damaged_session_is_listed_beside_the_others(cli, request, kind):
    """One damaged log is one row; events of a newer hilum are not called damage."""
    store: PostgresStore | SqliteStore
    env: dict[str, str] = {}
    if kind == "postgres":
        server = request.getfixturevalue("postgres")
        url = server.make_database()
        env["HILUM_POSTGRES_URL"] = url
        store = PostgresStore(url)
    else:
        store = SqliteStore(cli.folder / "data" / "sessions.db")
    for name in ("broken", "missing", "newer", "sound"):
        log = await store.create(SessionInfo(id=name, workspace=str(cli.workspace)))
        log.append(facts(3))
        await log.flush()
        await log.close()
    await store.close()
    newer = '{"type":"heard_of_later","seq":2,"at":1}'
    if kind == "postgres":
        where = "seq = 2 AND session = (SELECT number FROM hilum.sessions WHERE id = %s)"
        change = "UPDATE hilum.events SET data = %s WHERE "
        server.execute(url, change + where, b"\xff\x00\xaa", "broken")
        server.execute(url, change + where, newer.encode(), "newer")
        server.execute(url, "DELETE FROM hilum.events WHERE " + where, "missing")
    else:
        with contextlib.closing(sqlite3.connect(cli.folder / "data" / "sessions.db")) as database:
            change = "UPDATE events SET data = ? WHERE key = (? << 32 | 2)"
            database.execute(change, (b"\xff\x00\xaa", 1))
            database.execute("DELETE FROM events WHERE key = (2 << 32 | 2)")
            database.execute(change, (newer.encode(), 3))
            database.commit()
    done = await cli("sessions", "list", "--json", **env)
    assert done.code == 0, done.err
    assert {row["id"]: row["state"] for row in json.loads(done.out)} == {
        "broken": "damaged",
        "missing": "damaged",
        "newer": "unreadable",
        "sound": "idle",
    }
    for name, words in {
        "broken": "Event 2 of session broken",
        "missing": "it is missing",
        "newer": "does not know events of the type 'heard_of_later'",
    }.items():
        for command in ("show", "export", "fork"):
            done = await cli("sessions", command, name, **env)
            assert done.code == 5
            assert words in done.err
            assert ("is damaged" in done.err) == (name != "newer")
            assert "delete" not in done.err
    done = await cli("sessions", "fork", "broken", "--upto", "1", **env)
    assert done.code == 0


async def test_doctor_checks_the_database(cli, postgres):
    """A database that refuses the user is a failed check, and a sound one is named."""
    url = postgres.make_database()
    for address, grade, found in (
        (url, "ok", "which has no tables of hilum yet"),
        (url.replace("hilum@", "nobody:geheim@"), "fail", "refuses hilum"),
        ("postgresql://me:a/b@c@h/d", "fail", "unencoded character"),
    ):
        done = await cli("doctor", "--json", HILUM_POSTGRES_URL=address)
        [row] = [each for each in json.loads(done.out) if each["subject"] == "sessions"]
        assert row["grade"] == grade
        assert found in row["found"]
        assert "geheim" not in done.out + done.err
    assert postgres.execute(url, "SELECT to_regclass('hilum.sessions')") == [(None,)]
    assert (await cli("sessions", "list", HILUM_POSTGRES_URL=url)).code == 0
    done = await cli("doctor", "--json", HILUM_POSTGRES_URL=url)
    [row] = [each for each in json.loads(done.out) if each["subject"] == "sessions"]
    assert (row["grade"], row["found"][:20]) == ("ok", "are in the database ")
    assert "no tables" not in row["found"]
