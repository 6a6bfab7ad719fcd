"""The operation that searches a conversation for a text.

Only what people look for is searched: prompts, answers, thinking, and the arguments and results of
calls, of all agents. The entries are those of the session's view, so that an entry's id is the same
as everywhere else, and a running session is searched like any other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
import trio
from hilum.errors import E_BAD_ARGS
from hilum_view import Answer, AnyEntry, Card, Prompt

from hilum_serve.api.shared_types import MAX_IN_ADDRESS, Seq
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem

MAX_HITS = 500
MAX_HITS_PER_FIELD = 100
MAX_WORDS = 40
MAX_SPACES = 40
"""Maximum number of blanks and line breaks in a text that one blank of the query stands for."""
MAX_SECONDS = 0.25
"""Seconds after which a request returns what it has found; the client asks for the rest."""
WINDOW = 64_000
"""Characters that are searched at once: the interpreter is blocked meanwhile."""
BEFORE = 40
AFTER = 80
"""Characters of an excerpt before and after a hit."""
Field = Literal["text", "attached", "thinking", "arguments", "result"]
searches = trio.CapacityLimiter(2)


class SearchQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to search for, and where.

    Attributes:
        q: The text. Upper and lower case are the same, and a blank is any blanks or line breaks.
        before: Id of the entry before which to search; 0 for the whole conversation.
        after: Id of the oldest entry to search.
        limit: Number of hits after which the page ends; the hits of an entry stay together.
    """

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_IN_ADDRESS)]
    before: Seq = 0
    after: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_HITS)] = 100


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A place with the text.

    Attributes:
        entry: Id of the entry.
        agent: Name of the agent whose conversation contains the entry.
        field: Part of the entry: text, attached, thinking, arguments or result. Arguments are
            searched as ``name: value`` lines, a text as it is and any other value as JSON.
        tool: Name of the tool; empty if the entry is no call.
        index: Number of hits before it in the same field.
        position: Number of characters before it in the field.
        excerpt: The hit with a little text around it, on one line.
    """

    entry: int
    agent: str
    field: Field
    tool: str
    index: int
    position: int
    excerpt: str


class SearchPage(msgspec.Struct, frozen=True):
    """Hits in a conversation, the newest entry first; within an entry, in the order of its text.

    Attributes:
        hits: The hits.
        before: Id with which the search continues; 0 if it is complete.
        last: Last sequence number that was searched.
    """

    hits: list[SearchHit]
    before: int
    last: int


def compile_query(query: str) -> re.Pattern[str]:
    """Return a pattern for the text of a query.

    Raises:
        Problem: It has no or too many words (400).
    """
    words = query.split()
    if not 0 < len(words) <= MAX_WORDS:
        raise Problem(
            400,
            E_BAD_ARGS,
            f"A search needs 1 to {MAX_WORDS} words; this one has {len(words)}.",
            "Search for a part of the text.",
        )
    # The number of blanks is limited, so that a window can overlap the next one by a whole hit.
    blanks = rf"\s{{1,{MAX_SPACES}}}"
    return re.compile(blanks.join(re.escape(_fold_case(word)) for word in words))


def _fold_case(text: str) -> str:
    """Return a text in lower case, with the same length.

    A pattern that ignores case would try each position anew, which takes long if words repeat a
    character; one for texts in lower case does not.
    """
    return text.replace("İ", "I").lower()


def search_entries(
    entries: Sequence[AnyEntry],
    pattern: re.Pattern[str],
    limit: int,
    seconds: float = MAX_SECONDS,
) -> tuple[list[SearchHit], int]:
    """Search entries from the last to the first one.

    Args:
        entries: The entries.
        pattern: What to search for; see ``compile_query``.
        limit: Number of hits after which the search ends.
        seconds: Time limit. At least one entry is searched.

    Returns:
        The hits, and the id of the last entry that was searched; 0 if all were searched.
    """
    end = time.monotonic() + seconds
    hits: list[SearchHit] = []
    for entry in reversed(entries):
        hits += _search_entry(entry, pattern)
        is_full = len(hits) >= limit or time.monotonic() >= end
        if is_full and entry is not entries[0]:
            return hits, entry.id
    return hits, 0


def _search_entry(entry: AnyEntry, pattern: re.Pattern[str]) -> Iterator[SearchHit]:
    tool = entry.call.name if isinstance(entry, Card) else ""
    for field, text in _read_fields(entry):
        for index, (start, end) in enumerate(_find(text, pattern)):
            yield SearchHit(
                entry=entry.id,
                agent=entry.agent,
                field=field,
                tool=tool,
                index=index,
                position=start,
                excerpt=_cut_excerpt(text, start, end),
            )


def _read_fields(entry: AnyEntry) -> Iterator[tuple[Field, str]]:
    """Yield the texts of an entry in the order in which a page shows them."""
    if isinstance(entry, Prompt):
        yield "text", entry.typed or entry.text
        yield "attached", entry.attached
    elif isinstance(entry, Answer) and entry.state != "dropped":
        # ``str`` would join the pieces in place, while the feed may be adding one.
        yield "thinking", entry.thinking.head(len(entry.thinking))
        yield "text", entry.text.head(len(entry.text))
    elif isinstance(entry, Card):
        yield "arguments", make_arguments_readable(entry.arguments)
        yield "result", entry.text


def make_arguments_readable(arguments: str) -> str:
    """Return arguments with one ``name: value`` per line; as they are if they are no JSON object."""
    try:
        values: Any = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments
    if not isinstance(values, dict):
        return arguments
    lines = []
    for name, value in values.items():
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines.append(f"{name}: {shown}")
    return "\n".join(lines)


def _find(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield where a text contains the pattern, in windows, because each one blocks other threads."""
    overlap = MAX_IN_ADDRESS + MAX_WORDS * MAX_SPACES
    count = 0
    start = 0
    while start < len(text):
        border = start + WINDOW
        following = border
        for match in pattern.finditer(_fold_case(text[start : border + overlap])):
            if start + match.start() >= border:
                break
            yield start + match.start(), start + match.end()
            count += 1
            if count == MAX_HITS_PER_FIELD:
                return
            following = max(border, start + match.end())
        start = following


def _cut_excerpt(text: str, start: int, end: int) -> str:
    first = max(start - BEFORE, 0)
    last = min(end + AFTER, len(text))
    excerpt = " ".join(text[first:last].split())
    head = "…" if first > 0 else ""
    tail = "…" if last < len(text) else ""
    return f"{head}{excerpt}{tail}"


@operation(
    "GET",
    "/api/sessions/{session}/search",
    rights="watch",
    query=SearchQuery,
    returns=SearchPage,
)
async def search_session(call: Call[SearchQuery, None]) -> SearchPage:
    """Search prompts, answers, thinking and calls of a session for a text."""
    pattern = compile_query(call.query.q)
    hosted = call.hosted
    await hosted.catch_up()
    view = hosted.view
    last = view.seq
    # An entry's id is its index. The list is copied here, because the feed adds to it.
    found = view.entries[call.query.after : call.query.before or len(view.entries)]
    hits, before = await trio.to_thread.run_sync(
        search_entries, found, pattern, call.query.limit, limiter=searches
    )
    return SearchPage(hits, before, last)
