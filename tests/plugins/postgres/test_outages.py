"""A database that is away: the loop goes on, what waits is written later, and nothing is lost."""

from contextlib import suppress

import pytest
import trio
from cut_connections import CutProxy
from engines import fact
from hilum import tool
from hilum.errors import E_INTERNAL, E_STORE, StoreError
from hilum.store import SessionInfo
from hilum.testing import open_bench, plugin, use
from hilum_postgres import PostgresStore

pytestmark = pytest.mark.slow(cases=4, of="file")

INFO = SessionInfo(id="s1", workspace="/w")
END_OTHERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def reach(condition) -> None:
    """Wait until something holds."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110 (a thread does it)
            await trio.sleep(0.01)


async def test_events_wait_for_a_server_that_is_away(own_server) -> None:
    """Appending never waits, barriers do, and the log says why; then all goes on in order."""
    url = own_server.make_database()
    store, other = PostgresStore(url), PostgresStore(url)
    log = await store.create(INFO)
    log.append([fact(1)])
    await log.flush()
    own_server.stop()
    began = trio.current_time()
    for seq in range(2, 101):
        log.append([fact(seq)])
    assert trio.current_time() - began < 1
    await reach(lambda: log.delay is not None)
    assert log.delay is not None
    assert (log.durable, log.last, log.delay.code) == (1, 100, E_STORE)
    assert len(log.read()) == 100
    with trio.move_on_after(0.3) as scope:
        await log.flush()
    assert scope.cancelled_caught
    own_server.start()
    with trio.fail_after(20):
        await log.flush()
    await reach(lambda: log.delay is None)
    assert [event.seq for event in await other.read("s1")] == list(range(1, 101))
    await store.close()
    await other.close()


async def test_killed_server_loses_nothing_that_was_durable(own_server, trials) -> None:
    """SIGKILL for the whole server in the middle of writes: what was durable is there, once."""
    url = own_server.make_database()
    store, other = PostgresStore(url), PostgresStore(url)
    log = await store.create(INFO)
    with trio.fail_after(300):
        for round_ in range(trials(2, 20)):
            async with trio.open_nursery() as nursery:

                async def write() -> None:
                    while True:
                        log.append([fact(log.last + 1, "x" * 300)])
                        await log.flush()

                nursery.start_soon(write)
                await trio.sleep(0.05 + round_ / 100)
                await trio.to_thread.run_sync(own_server.kill)
                nursery.cancel_scope.cancel()
            known = log.durable
            await trio.to_thread.run_sync(own_server.start)
            assert (await other.info("s1")).events >= known
            await log.flush()
            found: list[int] = []
            while page := await other.read("s1", len(found)):
                found += [event.seq for event in page]
            assert found == list(range(1, log.last + 1))
    await store.close()
    await other.close()


async def test_run_goes_on_after_an_outage(postgres, url) -> None:
    """A call with an effect waits for the database, one that only reads does not."""
    ran = []
    prompted = trio.Event()
    proxy = CutProxy(0)

    @tool(risk="read", effect="pure")
    async def look() -> str:
        """Look."""
        ran.append("look")
        await prompted.wait()
        proxy.target = 1  # a port where nobody answers
        proxy.cut()
        return "seen"

    @tool(risk="write", effect="once")
    async def send() -> str:
        """Send."""
        ran.append("send")
        return "sent"

    answers = [use("look"), use("send"), "All is done."]
    tools = plugin("tools", look, send)
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        proxy.port = listener.socket.getsockname()[1]
        proxy.target = postgres.port
        store = PostgresStore(url.replace(str(postgres.port), str(proxy.port)))
        async with open_bench(tools, answers=answers, store=store, approve="auto") as kit:
            run = await kit.session.prompt("x")
            prompted.set()
            await reach(lambda: kit.session.journal.delay is not None)
            with trio.move_on_after(0.5):
                await run.wait()
            assert ran == ["look"]
            proxy.target = postgres.port
            with trio.fail_after(30):
                ended = await run.wait()
            assert (ended.state, ran) == ("completed", ["look", "send"])
            assert ended.seq <= kit.session.journal.durable
        nursery.cancel_scope.cancel()


async def test_outage_timeout_ends_a_log(own_server) -> None:
    """A database that stays away ends the log with the reason; what was durable can be resumed."""
    url = own_server.make_database()
    store = PostgresStore(url, outage_timeout=0.3)
    log = await store.create(INFO)
    log.append([fact(1)])
    await log.flush()
    own_server.stop()
    log.append([fact(2)])
    with (
        trio.fail_after(20),
        pytest.raises(StoreError, match=r"gave up after 0\.3 .*cannot reach") as caught,
    ):
        await log.flush()
    assert "`hilum run --resume s1`" in caught.value.hint
    await store.close()
    own_server.start()
    again = PostgresStore(url)
    assert (await again.open("s1")).read() == [fact(1)]
    await again.close()


async def test_outage_timeout_ends_a_log_although_the_database_accepts_connections(
    postgres, url
) -> None:
    """After a failover, the server may be a standby, which refuses only writes."""
    store = PostgresStore(url, outage_timeout=1.0)
    log = await store.create(INFO)
    log.append([fact(1)])
    await log.flush()
    [(database,)] = postgres.execute(url, "SELECT current_database()")
    postgres.execute(url, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    postgres.execute(url, END_OTHERS)
    log.append([fact(2)])
    await reach(lambda: log.delay is not None)
    with trio.fail_after(20), pytest.raises(StoreError, match="read-only"):
        await log.flush()
    await store.close()
    [(connections,)] = postgres.execute(
        url, "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
    )
    assert connections < 20


async def test_nothing_waits_for_ever_for_a_frozen_server(
    own_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts connections and never answers. What was cut off keeps no lease afterwards."""
    monkeypatch.setattr("hilum_postgres.log.CLOSE_TIMEOUT", 0.2)
    monkeypatch.setattr("hilum_postgres.log.RELEASE_TIMEOUT", 0.2)
    monkeypatch.setattr("hilum_postgres.store.CLOSE_TIMEOUT", 0.2)
    url = own_server.make_database()
    store, opener, other = PostgresStore(url), PostgresStore(url), PostgresStore(url)
    log = await store.create(INFO)
    await (await store.create(SessionInfo(id="s2", workspace="/w"))).close()
    await (await opener.create(SessionInfo(id="s3", workspace="/w"))).close()
    own_server.freeze()
    began = trio.current_time()
    with trio.move_on_after(0.3) as scope:
        await store.list()
    assert scope.cancelled_caught
    with trio.move_on_after(0.3) as scope:
        await opener.open("s2")
    assert scope.cancelled_caught
    log.append([fact(1)])
    with pytest.raises(StoreError, match="1 events of session s1 could not be written"):
        await log.close()
    await store.close()
    assert trio.current_time() - began < 5
    own_server.thaw()
    with trio.fail_after(20):
        for session in ("s1", "s2"):
            while True:
                with suppress(StoreError):
                    await other.open(session)
                    break
                await trio.sleep(0.01)
    await opener.close()
    await other.close()


async def test_unexpected_error_in_the_thread_ends_the_logs(
    make_store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever for a thread that has ended, and the store can be used afterwards."""
    monkeypatch.setattr("hilum_postgres.writer.HEARTBEAT_INTERVAL", 0.1)
    store = make_store()
    log = await store.create(INFO)
    other = await store.create(SessionInfo(id="s2", workspace="/w"))
    with monkeypatch.context() as patch:
        patch.setattr("hilum_postgres.writer.socket.gethostname", _fail)
        with trio.fail_after(20), pytest.raises(StoreError, match="no name") as caught:
            await log.flush(1)
    assert caught.value.code == E_INTERNAL
    with trio.fail_after(20), pytest.raises(StoreError, match="no name"):
        await other.flush(1)
    await log.close()
    await other.close()
    with trio.fail_after(20):
        again = await store.open("s1")
    writer = again._writer
    await store.close()
    with trio.fail_after(20), pytest.raises(StoreError, match="store is closed"):
        await trio.to_thread.run_sync(writer.call, print, abandon_on_cancel=True)


def _fail() -> str:
    raise OSError("no name")


async def test_too_much_waits(own_server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: a session that cannot write ends before it fills the machine."""
    monkeypatch.setattr("hilum_postgres.log.MAX_QUEUED_EVENTS", 100)
    store = PostgresStore(own_server.make_database())
    log = await store.create(INFO)
    own_server.stop()
    with pytest.raises(StoreError, match="Too many events") as caught:
        list(map(log.append, ([fact(seq)] for seq in range(1, 1000))))
    assert caught.value.hint
    assert 100 <= log.last <= 102
    own_server.start()
    await store.close()
