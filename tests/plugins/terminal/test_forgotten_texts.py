"""Texts that a conversation keeps, and when it forgets them."""

from types import SimpleNamespace

import trio
import trio.testing
from hilum_terminal.face import Face
from hilum_terminal.options import ChatOptions
from hilum_terminal.waiting_items import WaitingItems
from hilum_view import Proposal


async def test_looking_at_the_waiting_items_changes_nothing():
    """A plan that the user edited belongs to one proposal, and is not lost by a look at the list."""
    actor = SimpleNamespace(proposal=Proposal(run="r1", text="The plan"), queued={})
    view = SimpleNamespace(waiting=[], lead_actor=actor)
    session = SimpleNamespace(journal=SimpleNamespace(broken=None))
    items = WaitingItems(session, view, lambda: "")
    items.edit_plan("My plan")
    assert [item.text for item in items.items(0.0)] == ["My plan"]
    # A queued prompt hides the plan until it is taken back.
    actor.queued = {"r2": "Another idea"}
    assert items.items(0.0) == []
    assert items.plan == ""
    actor.queued = {}
    assert [item.text for item in items.items(0.0)] == ["My plan"]
    actor.proposal = Proposal(run="r3", text="Another plan")
    assert [(item.text, item.edited) for item in items.items(0.0)] == [("Another plan", False)]
    await trio.lowlevel.checkpoint()


async def test_an_invalid_edit_is_forgotten_when_its_call_no_longer_waits(
    tmp_path, nursery, monkeypatch
):
    face = Face(ChatOptions(workspace=tmp_path, environ={}))
    journal = SimpleNamespace(broken=None)
    face.conversation.session = SimpleNamespace(journal=journal, agents={}, runs={})
    face.show_waiting = lambda items: None
    nursery.start_soon(face.commands.watch_waiting_items)
    actor = SimpleNamespace(proposal=None, queued={})
    view = SimpleNamespace(waiting=[], lead_actor=actor)
    face.conversation.view = view
    face.commands.note_waiting()
    await trio.testing.wait_all_tasks_blocked()
    view.waiting.append(SimpleNamespace(id="a1"))
    face.commands._forms = {"a1": "half", "a2": "half"}
    monkeypatch.setattr(face.commands._waiting, "items", lambda offset: [])
    face.commands.note_waiting()
    await trio.testing.wait_all_tasks_blocked()
    assert face.commands._forms == {"a1": "half"}
