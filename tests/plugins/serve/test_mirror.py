"""The client's copy of a session: pieces of output by offset, and the end of its readers."""

import pytest
import trio
from hilum import HilumError
from hilum.events import Delta, ModelAnswered, ModelStarted, PromptQueued
from hilum.messages import AssistantMessage, Text
from hilum.store import SessionInfo
from hilum_serve.mirror import Mirror, MirrorReader


@pytest.fixture
async def mirror():
    """Return a mirror that has received one event."""
    made = Mirror(SessionInfo(id="x", workspace="/"))
    assert made.add_event(ModelStarted(model="m", seq=1, agent="main", run="r"))
    return made


def piece(offset, text):
    """Return a piece of an answer, as a stream contains it."""
    about = {"seq": 1, "agent": "main", "run": "r", "kind": "text"}
    return {**about, "offset": offset, "text": text}


async def read(reader):
    """Return what a reader gets without waiting."""
    found = []
    with trio.move_on_after(0):
        async for item in reader:
            found.append(item)
    return found


async def texts(reader):
    return [item.text for item in await read(reader) if isinstance(item, Delta)]


async def test_pieces_that_arrive_again_are_added_once(mirror):
    reader = MirrorReader(mirror, 0, True)
    mirror.add_delta(piece(0, "one "))
    assert await texts(reader) == ["one "]
    for again in (piece(0, "one "), piece(0, "one two "), piece(2, "e two"), piece(6, "o three")):
        mirror.add_delta(again)
    assert "".join(await texts(reader)) == "two three"
    assert await texts(MirrorReader(mirror, 0, True)) == ["one two three"]


async def test_output_whose_middle_is_lost_continues_behind_it(mirror):
    reader = MirrorReader(mirror, 0, True)
    mirror.add_delta(piece(0, "one "))
    assert await texts(reader) == ["one "]
    mirror.add_delta(piece(1_000, "later "))
    mirror.add_delta(piece(1_000, "later on"))
    assert "".join(await texts(reader)) == "later on"
    # A new reader must not take the two parts for one text.
    assert await texts(MirrorReader(mirror, 0, True)) == ["later on"]


async def test_an_event_replaces_the_output_that_led_to_it(mirror):
    mirror.add_delta(piece(0, "one"))
    message = AssistantMessage((Text("one"),))
    assert mirror.add_event(ModelAnswered(message=message, seq=2, agent="main", run="r"))
    assert await texts(MirrorReader(mirror, 0, True)) == []


async def test_events_are_added_once_and_in_order(mirror):
    queued = PromptQueued(text="x", seq=2, agent="main", run="r")
    assert not mirror.add_event(PromptQueued(text="y", seq=3, agent="main", run="r"))
    assert mirror.add_event(queued)
    assert mirror.add_event(queued)
    assert [event.seq for event in await read(MirrorReader(mirror, 0, False))] == [1, 2]
    assert mirror.last == 2


async def test_readers_get_everything_before_the_error(mirror):
    reader = MirrorReader(mirror, 0, False)
    mirror.close(HilumError("The token has ended.", code="E_TOKEN"))
    mirror.close()
    assert (await anext(reader)).seq == 1
    with pytest.raises(HilumError) as caught:
        await anext(reader)
    assert caught.value.code == "E_TOKEN"


async def test_readers_end_without_an_error(mirror):
    mirror.close()
    assert [event.seq async for event in MirrorReader(mirror, 0, True)] == [1]
