"""Operations that show the conversation: entries, events and results of calls."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from hilum.errors import E_UNKNOWN
from hilum.events import encode

from hilum_serve.api.shared_types import Seq
from hilum_serve.api.work import find_card
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem

MAX_ENTRIES = 500
MAX_EVENTS = 1_000
MAX_EVENT_BYTES = 1_000_000
"""Size of a page of events as JSON, unless its first event is larger."""
EVENTS_AT_ONCE = 50
MAX_RESULT = 200_000
"""Maximum number of characters of a result in one answer."""


class EntriesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which entries to return.

    Attributes:
        before: Id of the entry before which they are; 0 for the newest ones.
        limit: Maximum number of entries.
    """

    before: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ENTRIES)] = 200


class EntryPage(msgspec.Struct, frozen=True):
    """Entries of a conversation, oldest first, as in the vocabulary ``view``.

    Attributes:
        entries: The entries; long texts are cut.
        first: Id of the first entry; 0 if there are none before it.
        last: Last sequence number that the entries contain.
    """

    entries: list[dict[str, Any]]
    first: int
    last: int


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which events to return.

    Attributes:
        after: Sequence number of the last event that the client has.
        limit: Maximum number of events.
    """

    after: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EVENTS)] = 500


class EventPage(msgspec.Struct, frozen=True):
    """Events of a session, in order.

    Attributes:
        events: The events; fewer than were asked for if they are large. The next page begins after
            the last of them.
        last: Last sequence number of the session.
    """

    events: list[dict[str, Any]]
    last: int


class ResultQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of a result to return.

    Attributes:
        offset: Number of characters to leave out at the beginning.
        limit: Maximum number of characters.
        entry: Id of the call's entry; null for the last call with the id.
    """

    offset: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULT)] = MAX_RESULT
    entry: Seq | None = None


class ResultText(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the result of a call.

    Attributes:
        call: Id of the call.
        name: Name of the tool.
        arguments: The arguments with which the call runs, as JSON text.
        code: The error code; empty for success.
        text: The part of the text.
        offset: Number of characters before it.
        total: Number of characters of the whole text.
        data: The tool's data for faces.
    """

    call: str
    name: str
    arguments: str
    code: str
    text: str
    offset: int
    total: int
    data: dict[str, Any]


@operation(
    "GET",
    "/api/sessions/{session}/entries",
    rights="watch",
    query=EntriesQuery,
    returns=EntryPage,
)
async def list_entries(call: Call[EntriesQuery, None]) -> EntryPage:
    """Return a page of the conversation's entries."""
    hosted = call.hosted
    await hosted.catch_up()
    # An entry's id is its index.
    entries = hosted.view.entries
    end = call.query.before or len(entries)
    found = entries[max(end - call.query.limit, 0) : end]
    first = found[0].id if found else 0
    return EntryPage(hosted.feed.describe_entries(found), first, hosted.view.seq)


@operation(
    "GET",
    "/api/sessions/{session}/events",
    rights="watch",
    query=EventsQuery,
    returns=EventPage,
)
async def list_events(call: Call[EventsQuery, None]) -> EventPage:
    """Return a page of the session's events."""
    hosted = call.hosted
    hosted.check_reached(call.query.after)
    found: list[dict[str, Any]] = []
    after = call.query.after
    size = 0
    while len(found) < call.query.limit and size < MAX_EVENT_BYTES:
        limit = min(call.query.limit - len(found), EVENTS_AT_ONCE)
        events = await call.hub.store.read(hosted.id, after, limit)
        for event in events:
            size += len(encode(event))
            if found and size > MAX_EVENT_BYTES:
                break
            found.append(msgspec.to_builtins(event))
            after = event.seq
        if len(events) < limit:
            break
    return EventPage(found, hosted.last)


@operation(
    "GET",
    "/api/sessions/{session}/calls/{call}/result",
    rights="watch",
    query=ResultQuery,
    returns=ResultText,
)
async def get_result(call: Call[ResultQuery, None]) -> ResultText:
    """Return the whole text of a call's result, in parts."""
    await call.hosted.catch_up()
    offset = call.query.offset
    card = find_card(call.hosted, call.path["call"], call.query.entry)
    if card is None:
        raise Problem(404, E_UNKNOWN, "There is no such call in this session.")
    text = card.text
    return ResultText(
        call=card.call.id,
        name=card.call.name,
        arguments=card.arguments,
        code=card.code,
        text=text[offset : offset + call.query.limit],
        offset=offset,
        total=len(text),
        data=card.data,
    )
