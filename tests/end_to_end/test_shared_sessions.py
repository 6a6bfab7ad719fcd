"""Sessions in PostgreSQL: begun by one machine, listed and continued by another one."""

import json
import os
import signal

import hilum_postgres.sessions
import trio
from engines import Engine
from hilum_postgres import PostgresStore
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
