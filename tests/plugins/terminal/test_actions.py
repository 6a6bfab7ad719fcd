"""The order in which commands are carried out and messages are sent."""

import pytest
import trio
import trio.testing
from hilum_terminal.face import Face
from hilum_terminal.options import ChatOptions
from hilum_terminal.plain_face import PlainFace, _OpenQuestion


@pytest.fixture
async def face(tmp_path, monkeypatch):
    """A face whose agent is working, with a command ``/slow`` that ends when told to."""
    face = Face(ChatOptions(workspace=tmp_path, environ={}))
    conversation = face.conversation
    monkeypatch.setattr(type(conversation), "is_working", property(lambda self: True))
    face.sent = []
    face.ending = trio.Event()

    async def steer(text):
        face.sent.append(text)

    async def run(text):
        await face.ending.wait()
        face.sent.append(text)

    monkeypatch.setattr(conversation, "steer", steer)
    monkeypatch.setattr(face.commands, "run", run)
    monkeypatch.setattr(face.commands, "keeps_conversation", lambda text: text == "/doctor")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(face._act)
        nursery.start_soon(face._send_messages)
        yield face
        nursery.cancel_scope.cancel()


async def test_a_message_does_not_wait_for_a_command_that_only_shows_something(face):
    face.submit("/doctor")
    await trio.testing.wait_all_tasks_blocked()
    face.submit("Stop using npm.")
    await trio.testing.wait_all_tasks_blocked()
    assert face.sent == ["Stop using npm."]


async def test_a_message_waits_for_a_command_that_changes_the_conversation(face):
    """It is listed meanwhile, and Alt-Up takes it back."""
    face.submit("/clear")
    await trio.testing.wait_all_tasks_blocked()
    for text in ("one", "two", "three"):
        face.submit(text)
    await trio.testing.wait_all_tasks_blocked()
    assert face.sent == []
    assert face.unsent_messages == ["one", "two", "three"]
    assert face.take_last_message() == "three"
    face.ending.set()
    await trio.testing.wait_all_tasks_blocked()
    assert face.sent == ["/clear", "one", "two"]


async def test_a_command_that_changes_the_conversation_waits_for_earlier_messages(
    face, monkeypatch
):
    arrived = trio.Event()

    async def steer(text):
        await arrived.wait()
        face.sent.append(text)

    monkeypatch.setattr(face.conversation, "steer", steer)
    face.ending.set()
    face.submit("one")
    face.submit("/clear")
    await trio.testing.wait_all_tasks_blocked()
    assert face.sent == []
    arrived.set()
    await trio.testing.wait_all_tasks_blocked()
    assert face.sent == ["one", "/clear"]


async def test_a_stop_returns_the_messages_of_both_queues_in_order(face, monkeypatch):
    async def steer(text):
        await trio.sleep_forever()

    monkeypatch.setattr(face.conversation, "steer", steer)
    face.submit("one")
    face.submit("two")
    face.submit("/clear")
    face.submit("three")
    await trio.testing.wait_all_tasks_blocked()
    face._stop()
    assert face.composer.editor.text == "one\n\ntwo\n\nthree"


@pytest.mark.parametrize("way", ["/quit", "signal"])
async def test_every_way_to_leave_cancels_the_open_question(tmp_path, way):
    """Otherwise, the command that asks would keep the program from ending."""
    face = PlainFace(ChatOptions(workspace=tmp_path, environ={}))
    question = _OpenQuestion(secret=False, allows=bool)
    face._question = question
    if way == "/quit":
        face.commands.quit()
    else:
        face._leave_by_signal(15)
    assert question.answered.is_set()
    assert face.conversation._left
