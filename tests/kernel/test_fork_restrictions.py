"""A copy of earlier events allows no more than the session allows now."""

from __future__ import annotations

import pytest
from hilum import StoreError, tool
from hilum.events import ApprovalAsked, RunEnded
from hilum.testing import plugin, use


@tool
def execute(n: int = 0) -> str:
    """Execute."""
    return "executed"


TOOLS = plugin("tools", execute)


async def test_a_revoked_approval_stays_revoked_in_a_copy_of_earlier_events(bench):
    kit = await bench(TOOLS, answers=[use("execute", n=1), "ok"], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    granted = next(event.seq for event in kit.events if isinstance(event, RunEnded))
    assert kit.session.grants == {"execute"}
    kept = await kit.kernel.fork(kit.session.id, granted)
    assert kit.session.revoke("execute")
    copies = [await kit.kernel.fork(kit.session.id, granted)]
    copies.append(await kit.kernel.fork(copies[0], granted))
    copies.append(await kit.kernel.fork(kit.session.id))
    for copy in copies:
        async with kit.kernel.open_session(resume=copy) as session:
            assert session.grants == frozenset()
    async with kit.kernel.open_session(resume=kept) as session:
        assert session.grants == {"execute"}


async def test_a_copy_can_leave_out_lasting_approvals(bench):
    kit = await bench(TOOLS, answers=[use("execute", n=1), "ok"], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    whole = await kit.kernel.fork(kit.session.id, grants=False)
    part = await kit.kernel.fork(kit.session.id, kit.session.journal.last - 1, grants=False)
    for copy in (whole, part, await kit.kernel.fork(whole)):
        async with kit.kernel.open_session(resume=copy) as session:
            assert session.grants == frozenset()
    assert kit.session.grants == {"execute"}


async def test_a_stricter_policy_stays_in_a_copy_of_earlier_events(bench):
    kit = await bench(TOOLS, approve="auto")
    kit.session.set(approve="ask_first")
    kit.session.set(approve="auto")
    free = kit.session.journal.last
    kit.session.set(approve="readonly")
    strict = kit.session.journal.last
    kit.session.set(approve="ask_first")
    for upto, expected in (
        (free, "ask_first"),
        (strict, "readonly"),
        (None, "ask_first"),
        (1, "ask_first"),
    ):
        copy = await kit.kernel.fork(kit.session.id, upto)
        async with kit.kernel.open_session(resume=copy) as session:
            assert session.approve == expected, upto


async def test_a_copy_of_events_before_a_looser_policy_has_the_policy_of_the_settings(bench):
    kit = await bench(TOOLS, approve="ask_first")
    before = kit.session.journal.last
    kit.session.set(approve="auto")
    copy = await kit.kernel.fork(kit.session.id, before)
    async with kit.kernel.open_session(resume=copy) as session:
        assert session.approve == "ask_first"
    copy = await kit.kernel.fork(kit.session.id)
    async with kit.kernel.open_session(resume=copy) as session:
        assert session.approve == "auto"


async def test_damage_after_the_copied_events_restricts_the_copy(bench, monkeypatch):
    """The copy can be made, but nobody knows which approvals were revoked later."""
    kit = await bench(TOOLS, answers=[use("execute", n=1), "ok"], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    kit.session.set(approve="auto")
    upto = kit.session.journal.last
    kit.session.set(approve="ask_first")
    read = kit.kernel.store.read

    async def read_damaged(session, after=0, limit=1000):
        if session == kit.session.id and after + limit > upto:
            raise StoreError("The session is damaged.")
        return await read(session, after, limit)

    monkeypatch.setattr(kit.kernel.store, "read", read_damaged)
    with pytest.raises(StoreError):
        await kit.kernel.fork(kit.session.id)
    copy = await kit.kernel.fork(kit.session.id, upto, queued=False)
    async with kit.kernel.open_session(resume=copy) as session:
        assert (session.grants, session.approve) == (frozenset(), "readonly")
