"""A server whose users only look at a session keeps nobody else from working in it."""

import os
import signal
from pathlib import Path

import pytest
import trio
from engines import Engine, facts
from hilum import StoreError
from hilum.errors import E_BUSY
from hilum.store import SessionInfo
from hilum_postgres import PostgresStore
from hilum_serve import hub
from hilum_serve.tokens import add_token
from postgres_server import PostgresServer
from served import serving
from server_groups import find_free_port

PLUGINS = ("files", "guard", "plan", "shell", "store", "postgres")
HOLD = """
async def main():
    store = make_store()
    log = await store.create(SessionInfo(id=sys.argv[3], workspace=sys.argv[4]))
    log.append([event(1)])
    await log.flush()
    say("ready")
    await trio.to_thread.run_sync(sys.stdin.readline)
"""
SESSION = "20260101-120000-00000001"


def serve(folder: Path):
    """Start a server that works in a folder."""
    tokens = folder.parent / "tokens.json"
    token = add_token(tokens, "eva", "administer")
    port = find_free_port()
    return token, serving(folder, port=port, plugins=PLUGINS, tokens_file=tokens)


async def test_session_that_was_looked_at_can_be_opened_elsewhere(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is released soon after the last request, and not after serve.idle_minutes."""
    monkeypatch.setenv("HILUM_POSTGRES_URL", url)
    monkeypatch.setattr(hub, "READ_SECONDS", 0.2)
    project = tmp_path / "project"
    project.mkdir()
    store = PostgresStore(url)
    log = await store.create(SessionInfo(id=SESSION, workspace=str(project)))
    log.append(facts(3))
    await log.close()
    token, starting = serve(project)
    async with starting as served:
        served.token = token
        async with served.client() as client:
            created = await client.post("/api/sessions", json={"workspace": str(project)})
            answer = await client.get(f"/api/sessions/{SESSION}/events")
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["events"]) >= 3
            with trio.fail_after(5):
                while await store.is_open(SESSION):  # noqa: ASYNC110 (another kernel's store)
                    await trio.sleep(0.02)
            log = await store.open(SESSION)
            await log.close()
            # Whoever began a session here works in it.
            assert await store.is_open(created.json()["id"])
    await store.close()


async def test_looking_does_not_end_the_run_of_a_process_without_a_connection(
    tmp_path: Path, postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may return; only who wants to write takes its session over."""
    monkeypatch.setenv("HILUM_POSTGRES_URL", url)
    project = tmp_path / "project"
    project.mkdir()
    engine = Engine("postgres", url)
    process = engine.start(HOLD, SESSION, str(project))
    assert process.stdout
    assert await trio.to_thread.run_sync(process.stdout.readline) == "ready\n"
    token, starting = serve(project)
    async with starting as served:
        served.token = token
        os.kill(process.pid, signal.SIGSTOP)
        postgres.execute(
            url,
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l"
            " WHERE l.locktype = 'advisory' AND l.database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        store = PostgresStore(url)
        async with served.client() as client:
            with trio.fail_after(5):
                while (await store.find_holders([SESSION]))[SESSION].holds:  # noqa: ASYNC110
                    await trio.sleep(0.02)
            answer = await client.get(f"/api/sessions/{SESSION}/events")
            assert answer.status_code == 409
            assert "lost its connection" in answer.text
            assert postgres.execute(url, "SELECT epoch FROM hilum.sessions") == [(1,)]
            os.kill(process.pid, signal.SIGKILL)
            with trio.fail_after(5):
                while await store.is_open(SESSION):  # noqa: ASYNC110 (the system ends it)
                    await trio.sleep(0.02)
            answer = await client.get(f"/api/sessions/{SESSION}/events")
            assert answer.status_code == 200, answer.text
            with pytest.raises(StoreError) as caught:
                await store.open(SESSION)
            assert caught.value.code == E_BUSY
        await store.close()
    engine.close()
