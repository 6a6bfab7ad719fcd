"""What each store does for its users, whichever engine keeps the sessions."""

import pytest
import trio
from engines import Engine, fact, facts, prompt
from hilum.errors import E_BUSY, E_INTERNAL, E_UNKNOWN, StoreError
from hilum.events import AnyEvent, StateChanged
from hilum.store import SessionInfo, Store
from msgspec.structs import replace


async def test_events_come_back_as_they_were_appended(store: Store) -> None:
    """Order, pages and content survive, in an open log and without a lease."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    assert log.last == 0
    log.append([fact(1, "ä\U0001f600\0")])
    log.append([fact(2), prompt(3, "Do it")])
    log.append([])
    assert log.last == 3
    await log.flush()
    assert log.read() == [fact(1, "ä\U0001f600\0"), fact(2), prompt(3, "Do it")]
    assert log.read(after=1, limit=1) == [fact(2)]
    assert log.read(after=3) == []
    assert list(await store.read("s1", after=2)) == [prompt(3, "Do it")]
    assert list(await store.read("s1", limit=2)) == [fact(1, "ä\U0001f600\0"), fact(2)]


async def test_description_follows_the_events(store: Store) -> None:
    """The first prompt gives the title, the main agent's state is the session's, and events are
    counted.
    """
    made = SessionInfo(id="s1", workspace="/w", kind="headless", created=5.0, forked="s0")
    log = await store.create(made)
    assert await store.info("s1") == made
    log.append(
        [
            prompt(1, "First  prompt"),
            StateChanged(seq=2, agent="main", state="thinking", previous="idle"),
        ]
    )
    log.append(
        [prompt(3, "Second"), StateChanged(seq=4, agent="helper", state="failed", previous="idle")]
    )
    await log.flush()
    info = await store.info("s1")
    assert info == replace(
        made, title="First prompt", state="thinking", events=4, updated=info.updated
    )
    assert info.updated > 5.0


async def test_title_given_by_the_user_stays(store: Store) -> None:
    """Renaming works while the session is open, and no prompt overwrites the name."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    await store.rename("s1", "Mine")
    log.append([prompt(1, "Do it")])
    await log.flush()
    assert (await store.info("s1")).title == "Mine"
    await store.rename("s", "")
    log.append([prompt(2, "Again")])
    await log.flush()
    assert (await store.info("s1")).title == "Again"


async def test_list_shows_the_last_used_first(store: Store) -> None:
    """All sessions or those of a workspace, by last use."""
    for name, workspace, used in (("a", "/w", 1.0), ("b", "/v", 3.0), ("c", "/w", 2.0)):
        await (await store.create(SessionInfo(id=name, workspace=workspace, updated=used))).close()
    assert [info.id for info in await store.list()] == ["b", "c", "a"]
    assert [info.id for info in await store.list("/w")] == ["c", "a"]
    assert list(await store.list("/nowhere")) == []


async def test_session_is_named_by_any_unambiguous_beginning(store: Store) -> None:
    """The id itself always wins; an unknown or ambiguous name is an error."""
    for name in ("ab", "abc", "xyz", "x_z"):
        await (await store.create(SessionInfo(id=name, workspace="/w"))).close()
    assert (await store.info("ab")).id == "ab"
    assert (await store.info("xy")).id == "xyz"
    assert (await store.info("x_")).id == "x_z"
    for name in ("a", "", "q", "%", "abcd"):
        with pytest.raises(StoreError) as caught:
            await store.info(name)
        assert caught.value.code == E_UNKNOWN


async def test_ambiguous_name_lists_the_candidates(store: Store, engine: Engine) -> None:
    """The hint says which sessions could be meant, but not all of a thousand."""
    for number in range(10):
        await (await store.create(SessionInfo(id=f"s{number}", workspace="/w"))).close()
    with pytest.raises(StoreError, match="More than one session begins with 's'") as caught:
        await store.open("s")
    assert caught.value.hint == "Use a longer part of the id: s0, s1, s2, s3, s4, s5, s6, s7, …."


async def test_log_continues_where_it_ended(engine: Engine) -> None:
    """Another store finds everything, and numbers go on."""
    first = engine.make_store()
    (await first.create(SessionInfo(id="s1", workspace="/w"))).append(facts(3))
    await first.close()
    second = engine.make_store()
    log = await second.open("s1")
    assert (log.last, log.read()) == (3, facts(3))
    log.append(facts(2, after=3))
    await log.flush()
    assert (log.durable, (await second.info("s1")).events) == (5, 5)
    await second.close()


async def test_ten_thousand_events_at_once(store: Store) -> None:
    """A fork writes a whole log in one transaction, and it is read in pages."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    events = facts(10_000)
    log.append(events)
    found: list[AnyEvent] = []
    while page := log.read(after=len(found)):
        assert len(page) == 1000
        found += page
    assert found == events


async def test_sessions_do_not_see_each_other(store: Store) -> None:
    """Logs of neighbouring sessions stay apart, also after one was deleted."""
    logs = [await store.create(SessionInfo(id=name, workspace="/w")) for name in "abc"]
    for number, log in enumerate(logs):
        log.append(facts(number + 1))
        await log.flush()
    await logs[1].close()
    await store.delete("b")
    assert [len(await store.read(name)) for name in "ac"] == [1, 3]
    again = await store.create(SessionInfo(id="b", workspace="/w"))
    assert (again.last, again.read()) == (0, [])


@pytest.mark.parametrize("numbers", [[2], [0], [1, 3], [1, 1]])
async def test_gap_in_the_numbers_is_refused(
    store: Store, engine: Engine, numbers: list[int]
) -> None:
    """A log never gets a hole: nothing is written, and the right event can follow."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    with pytest.raises(StoreError) as caught:
        log.append([fact(number) for number in numbers])
    assert caught.value.code == E_INTERNAL
    log.append([fact(1)])
    assert log.read() == [fact(1)]


async def test_taken_id_is_refused(store: Store, engine: Engine) -> None:
    """Making a session never touches one that exists."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append(facts(1))
    with pytest.raises(StoreError, match="already a session s1"):
        await store.create(SessionInfo(id="s1", workspace="/v"))
    assert (await store.info("s1")).workspace == "/w"
    log.append(facts(1, after=1))


async def test_closed_store_says_so(engine: Engine) -> None:
    """Neither the store nor its logs can be used after it was closed, and closing twice is
    harmless.
    """
    store = engine.make_store()
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append(facts(1))
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="store is closed"):
        await store.list()
    with pytest.raises(StoreError, match="log of session s1 is closed") as caught:
        log.append(facts(1, after=1))
    assert caught.value.code == E_BUSY
    with pytest.raises(StoreError, match="log of session s1 is closed"):
        log.read()


async def test_cancelled_close_still_closes(engine: Engine) -> None:
    """A store closes within a cancelled scope, and gives its leases back."""
    store = engine.make_store()
    await store.create(SessionInfo(id="s1", workspace="/w"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.close()
    other = engine.make_store()
    await other.open("s1")
    await other.close()
