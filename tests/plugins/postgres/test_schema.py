"""The tables: created once, by any number of processes, and never by an older hilum."""

import pytest
import trio
from engines import fact, prompt
from hilum.errors import StoreError
from hilum.store import SessionInfo
from hilum_postgres import PostgresStore, schema

INFO = SessionInfo(id="s1", workspace="/w")


async def test_many_stores_create_the_tables_at_once(url: str) -> None:
    """The first use from several machines at the same time sets the database up once."""
    stores = [PostgresStore(url) for _ in range(6)]
    async with trio.open_nursery() as nursery:
        for store in stores:
            nursery.start_soon(store.list)
    log = await stores[0].create(INFO)
    log.append([fact(1)])
    await log.flush()
    assert [info.events for info in await stores[1].list()] == [1]
    for store in stores:
        await store.close()


async def test_newer_tables_are_refused(make_store, postgres, url: str) -> None:
    """An old hilum changes nothing in a database that a newer one has set up."""
    await make_store().list()
    postgres.execute(url, "INSERT INTO hilum.versions (version) VALUES (%s)", schema.VERSION + 1)
    with pytest.raises(StoreError, match="newer hilum") as caught:
        await make_store().list()
    assert caught.value.hint == "Update hilum."


async def test_titles_and_texts_with_any_character(make_store) -> None:
    """NUL, which PostgreSQL's texts do not allow, and what only looks like a wildcard."""
    store = make_store()
    log = await store.create(INFO)
    log.append([prompt(1, "a\0b")])
    await log.flush()
    assert (await store.info("s1")).title == "a\ufffdb"
    await store.rename("s1", "x\0%_\\")
    assert (await store.info("s1")).title == "x\ufffd%_\\"
    assert await store.read("s1") == [prompt(1, "a\0b")]
    with pytest.raises(StoreError):
        await store.info("s\0")


async def test_missing_and_damaged_events_are_named(make_store, postgres, url: str) -> None:
    """A gap or a line that is none is an error of that session, and never a shorter log."""
    store = make_store()
    for name in ("gap", "end", "line"):
        log = await store.create(SessionInfo(id=name, workspace="/w"))
        log.append([fact(seq) for seq in range(1, 6)])
        await log.close()
    find = "(SELECT number FROM hilum.sessions WHERE id = %s)"
    postgres.execute(url, f"DELETE FROM hilum.events WHERE seq = 3 AND session = {find}", "gap")
    postgres.execute(url, f"DELETE FROM hilum.events WHERE seq = 5 AND session = {find}", "end")
    change = f"UPDATE hilum.events SET data = 'x' WHERE seq = 2 AND session = {find}"
    postgres.execute(url, change, "line")
    for name, seq in (("gap", 3), ("end", 5), ("line", 2)):
        for action in (store.read, store.open):
            with pytest.raises(StoreError, match=f"Event {seq} of session {name} is damaged"):
                await action(name)
    assert len(await store.read_raw("line")) == 5
    for name in ("gap", "end", "line"):
        await store.delete(name)


async def test_view_shows_events_as_json(make_store, postgres, url: str) -> None:
    """Other programs read the log with SQL."""
    log = await make_store().create(INFO)
    log.append([fact(1), fact(2)])
    await log.flush()
    rows = postgres.execute(url, "SELECT session, seq, event::jsonb->>'type' FROM hilum.log")
    assert sorted(rows) == [("s1", 1, "plugin_event"), ("s1", 2, "plugin_event")]


async def test_view_survives_damage_and_characters_without_a_place_in_jsonb(
    make_store, postgres, url: str
) -> None:
    """NUL is replaced, an escaped backslash before ``u0000`` is not, and damage is NULL."""
    log = await make_store().create(INFO)
    texts = ["a\0\0b", "\\u0000", "\\\\\0", "damaged"]
    log.append([fact(seq, text) for seq, text in enumerate(texts, 1)])
    await log.flush()
    postgres.execute(url, "UPDATE hilum.events SET data = %s WHERE seq = 4", b"\xff\x00\xaa")
    rows = postgres.execute(url, "SELECT event->'data'->>'text' FROM hilum.log ORDER BY seq")
    assert rows == [("a\ufffd\ufffdb",), ("\\u0000",), ("\\\\\ufffd",), (None,)]
