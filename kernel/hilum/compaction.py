"""Compaction: how much of a conversation fits the model's window, and what goes where it does not.

The user's request of the current run and the last turn always stay: ``compacted`` applies every
compaction, whoever planned it, and no plan can drop the request. Everything here is pure; the loop
decides when to compact, and logs the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
from hilum_tokens import IMAGE, estimate

from hilum.errors import UsageError
from hilum.messages import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Text,
    ToolMessage,
    ToolResult,
    Trim,
    UserMessage,
)
from hilum.models import ModelInfo

# Share of the window, without the reserve for the answer, at which a conversation is compacted:
# models lose track before their window is full, and the summary must fit as well.
COMPACT_AT = 0.8
# Share of the room to compact to: what is left takes several turns, even in a small window.
TARGET = 0.4
# The tool with which an agent reads what was left out; named to the model only where the agent has
# it.
RECALL = "recall_result"

Measure = Callable[[str], int]


def reserve(info: ModelInfo) -> int:
    """Return the tokens of a model's window that are kept free for its answer."""
    return min(info.max_output, info.window // 2)


def room(info: ModelInfo, head: int) -> int:
    """Return the tokens that messages may take before they are compacted.

    Args:
        info: The model.
        head: Tokens of system prompt and tools.
    """
    usable = info.window - reserve(info)
    share = int(usable * COMPACT_AT) - head
    # In a small window the prompt takes so much that 80 % of the rest would leave next to nothing
    # for messages.
    small = min((usable - head) * 3 // 4, int(info.window * COMPACT_AT) - head)
    return max(share, small)


def least_room(info: ModelInfo) -> int:
    """Return the tokens that a run needs besides prompt, tools and request: a summary and one
    turn.
    """
    return info.window // 10


def window_error(info: ModelInfo, prompt: int, tools: int, request: int) -> UsageError:
    """Create the error for a window that cannot hold prompt, tools and request.

    Args:
        info: The model.
        prompt: Tokens of the system prompt.
        tools: Tokens of the tools.
        request: Tokens of the user's request.
    """
    kept = reserve(info)
    message = (
        f"The window of {info.name} ({info.window:,} tokens) cannot hold this run: the system"
        f" prompt takes {prompt:,}, the tools {tools:,}, the request {request:,}, the answer needs"
        f" {kept:,}, and a summary with one turn {least_room(info):,}."
    )
    setting = f'models.models."{info.name}".window'
    ways = [f"set {setting} if the window is larger", "choose a model with a larger window"]
    if request > max(prompt, tools):
        ways.insert(0, "shorten the request, or put it into a file and name that")
    elif tools >= prompt:
        ways.insert(
            0, "leave out plugins and MCP servers whose tools you do not need (--no-plugin NAME)"
        )
    else:
        ways.insert(0, "leave out rules and skills that you do not need")
    hint = "; or ".join(ways)
    return UsageError(message, code="E_WINDOW", hint=hint[0].upper() + hint[1:] + ".")


# --- pieces of text -------------------------------------------------------------------------------


def shorten(text: str, limit: int, measure: Measure, note: Callable[[int, int], str]) -> str:
    """Return the beginning and the end of a text, with a note between them.

    Args:
        text: The text.
        limit: Tokens that the outcome may take, about.
        measure: Returns the tokens of a text.
        note: Returns the note, given how many characters are left out and where they begin.
    """
    size = len(text) * limit // max(measure(text), 1) - len(note(len(text), len(text)))
    while True:
        size = max(size, 0)
        head = text[: size * 2 // 3]
        tail = text[len(text) - size // 3 :] if size >= 3 else ""
        cut = head.rfind("\n")
        if cut > len(head) // 2:
            head = head[: cut + 1]
        if 0 <= (cut := tail.find("\n")) < len(tail) // 2:
            tail = tail[cut + 1 :]
        outcome = f"{head}\n{note(len(text) - len(head) - len(tail), len(head))}\n{tail}".strip(
            "\n"
        )
        # Dense parts of a text take more tokens than its average.
        if size < 50 or measure(outcome) <= limit:
            return outcome
        size = size * 4 // 5


def result_note(result: ToolResult, why: str, recall: str) -> Callable[[int, int], str]:
    """Return what writes the note in a shortened result: how much is missing, why, and how to read
    it.
    """
    total = len(result.text)

    def note(count: int, start: int) -> str:
        if recall:
            more = f'; {recall}(id="{result.call_id}", offset={start}) returns more'
        else:
            more = ""
        return f"[… {count:,} of {total:,} characters left out {why}{more} …]"

    return note


def shorten_results(
    results: Sequence[ToolResult], window: int, free: int, measure: Measure, *, recall: str
) -> dict[str, str]:
    """Return the texts that replace results too large for the window, by call id.

    One result never takes more than a quarter of the window, nor more than a quarter of what is
    free: a few large results in a row would otherwise compact the conversation at every second
    turn.

    Args:
        results: The results of a round, in call order.
        window: The model's window in tokens.
        free: Tokens that messages may still take before they are compacted.
        measure: Returns the tokens of a text.
        recall: How the agent calls the tool that fetches back what is left out; empty where it has
            none.
    """
    shortened = {}
    for result in results:
        text = result.text
        limit = max(window // 20, min(window // 4, free // 4))
        # A character takes four tokens at most: most results need not be measured.
        if len(text) * 4 > limit:
            cost = measure(text)
        else:
            cost = 0
        if cost > limit:
            note = result_note(result, "because the result is too large for the window", recall)
            text = shortened[result.call_id] = shorten(text, limit, measure, note)
            cost = limit
        free -= cost
    return shortened


def replace_texts(message: Message, texts: Mapping[str, str], *, images: bool = False) -> Message:
    """Return a message whose results have these texts, by call id.

    Args:
        message: The message.
        texts: The new texts.
        images: Whether the images of such a result stay.
    """
    if not isinstance(message, ToolMessage) or not texts:
        return message
    results = []
    for result in message.results:
        text = texts.get(result.call_id)
        if text is not None:
            kept = [part for part in result.parts if images and isinstance(part, Image)]
            result = msgspec.structs.replace(
                result, parts=(Text(text, f"tool:{result.name}"), *kept)
            )
        results.append(result)
    return ToolMessage(tuple(results))


def message_size(message: UserMessage, measure: Measure) -> int:
    """Return the tokens of a user's message, estimated."""
    return sum(measure(part.text) if isinstance(part, Text) else IMAGE for part in message.parts)


def without_context(message: UserMessage) -> UserMessage:
    """Return a user's message without the context that was gathered for it."""
    own = tuple(part for part in message.parts if not part.source.startswith("context:"))
    return msgspec.structs.replace(message, parts=own)


def fit_request(message: UserMessage, space: int, measure: Measure) -> UserMessage:
    """Return the user's request as it stays in a compacted conversation: in full, unless it takes
    too much of the room.

    Context that was gathered for it goes where the whole takes over a quarter of the room. A text
    that takes over half of it by itself is quoted: its beginning and its end, saying so.

    Args:
        message: The request.
        space: Tokens that all messages may take.
        measure: Returns the tokens of a text.
    """
    if message_size(message, measure) <= space // 4:
        return message
    own = without_context(message)
    if message_size(own, measure) <= space // 2:
        return own
    texts = "\n\n".join(part.text for part in own.parts if isinstance(part, Text))

    def note(count: int, start: int) -> str:
        return (
            f"[… {count:,} of {len(texts):,} characters of the user's request left out: too large"
            " for the window …]"
        )

    images = [part for part in own.parts if isinstance(part, Image)]
    limit = space // 2 - len(images) * IMAGE
    if limit < space // 4:
        images = []
        limit = space // 2
    quoted = shorten(texts, limit, measure, note) if measure(texts) > limit else texts
    return msgspec.structs.replace(own, parts=(Text(quoted), *images))


# --- compaction -----------------------------------------------------------------------------------


def cut_point(messages: Sequence[Message], upto: int) -> int:
    """Return where to cut at or before ``upto``, so that no call is split from its result and the
    last turn stays.
    """
    upto = max(min(upto, len(messages) - 1), 0)
    while upto > 0 and not isinstance(messages[upto], UserMessage | AssistantMessage):
        upto -= 1
    return upto


def compacted(
    messages: Sequence[Message], trim: Trim, request: int | None, quoted: UserMessage | None = None
) -> tuple[list[Message], int | None]:
    """Apply a compaction; the request of the current run stays, whatever it says.

    Args:
        messages: The conversation.
        trim: What to do.
        request: Index of the request that must stay, ``None`` for none.
        quoted: What replaces the request, where it is too large to stay in full.

    Returns:
        The conversation, and where the request is in it.
    """
    kept = [replace_texts(message, trim.thinned) for message in messages[trim.upto :]]
    first: list[Message] = [NoteMessage(trim.summary)] if trim.summary else []
    if request is None:
        return [*first, *kept], None
    place = len(first)
    if request < trim.upto:
        kept.insert(0, messages[request])
    else:
        place += request - trim.upto
    whole = [*first, *kept]
    if quoted is not None:
        whole[place] = quoted
    return whole, place


def plain_trim(
    messages: Sequence[Message],
    sizes: Sequence[int],
    budget: int,
    *,
    request: int | None = None,
    measure: Measure = estimate,
    recall: str = "",
) -> Trim:
    """Plan a compaction without any model: shorten old results, then drop the oldest messages,
    saying so.

    Args:
        messages: The conversation.
        sizes: Tokens of each message.
        budget: Tokens to come down to.
        request: Index of the request that stays in any case.
        measure: Returns the tokens of a text.
        recall: How the agent calls the tool that fetches back what is left out; empty where it has
            none.
    """
    starts = [
        i
        for i, message in enumerate(messages)
        if isinstance(message, UserMessage | AssistantMessage)
    ]
    last = starts[-1] if starts else 0
    shares = _Shares(messages, sizes, measure, recall, request)
    thinned = shares.shorten(0, last, max(budget // 10, 50))
    if thinned and shares.total(0, thinned) <= budget:
        return Trim(thinned=thinned)
    # The rest is for the summary and for the turns that stay.
    left = max(budget - (sizes[request] if request is not None else 0), budget // 2)
    upto = last
    for start in reversed(starts):
        if shares.total(start, thinned, request=False) > left * 3 // 4:
            break
        upto = start
    if shares.total(upto, thinned, request=False) > left * 3 // 4:
        count = sum(len(m.results) for m in messages[upto:] if isinstance(m, ToolMessage))
        thinned |= shares.shorten(upto, len(messages), max(left // (2 * max(count, 1)), 30))
    if shares.total(upto, thinned, request=False) > left:
        # Even the calls of the last turn are too large: they are told of in the summary only.
        upto = len(messages)
    dropped = [message for i, message in enumerate(messages[:upto]) if i != request]
    summary = _summarize(dropped, max(left // 4, 100), measure)
    stay = {r.call_id for m in messages[upto:] if isinstance(m, ToolMessage) for r in m.results}
    return Trim(
        upto if dropped else 0, summary, {i: text for i, text in thinned.items() if i in stay}
    )


class _Shares:
    """Shortens results and says what a conversation takes then."""

    def __init__(
        self,
        messages: Sequence[Message],
        sizes: Sequence[int],
        measure: Measure,
        recall: str,
        request: int | None,
    ) -> None:
        self._messages = messages
        self._sizes = sizes
        self._measure = measure
        self._recall = recall
        self._request = request
        ids = Counter(r.call_id for m in messages if isinstance(m, ToolMessage) for r in m.results)
        # Some servers number their calls anew in each answer: a text for one id would replace
        # several results.
        self._repeated = {identity for identity, count in ids.items() if count > 1}

    def shorten(self, begin: int, end: int, limit: int) -> dict[str, str]:
        texts = {}
        for message in self._messages[begin:end]:
            for result in message.results if isinstance(message, ToolMessage) else ():
                if result.call_id not in self._repeated and self._cost(result) > 2 * limit:
                    note = result_note(result, "to make room", self._recall)
                    texts[result.call_id] = shorten(result.text, limit, self._measure, note)
        return texts

    def total(self, begin: int, texts: Mapping[str, str], *, request: bool = True) -> int:
        """Return the tokens from a message on, with or without the request."""
        total = 0
        for index in range(begin, len(self._messages)):
            if index == self._request and not request:
                continue
            size = self._sizes[index]
            message = self._messages[index]
            for result in message.results if isinstance(message, ToolMessage) else ():
                if result.call_id in texts:
                    size -= self._cost(result) - self._measure(texts[result.call_id])
            total += max(size, 1)
        return total

    def _cost(self, result: ToolResult) -> int:
        return self._measure(result.text) + IMAGE * sum(
            isinstance(part, Image) for part in result.parts
        )


def _summarize(dropped: Sequence[Message], limit: int, measure: Measure) -> str:
    """Write what was dropped in a few lines: what the user asked, what the agent said, called and
    got.
    """
    first = f"{len(dropped)} earlier messages were dropped to fit the window."
    lines = []
    if dropped and isinstance(dropped[0], NoteMessage):
        lines.append(f"Before that: {dropped[0].text[:2_000]}")
    asked = [without_context(message) for message in dropped if isinstance(message, UserMessage)]
    for message in asked[-3:]:
        text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        lines.append(f"The user asked: {text[:1_000]}")
    answers = [message for message in dropped if isinstance(message, AssistantMessage)]
    lines += [f"You said: {message.text[:300]}" for message in answers if message.text][-3:]
    lines += (
        [f"You called {call.name}: {call.arguments[:200]}" for call in answers[-1].calls]
        if answers
        else []
    )
    text = "\n".join([first, *lines])

    def note(count: int, start: int) -> str:
        return "[…]"

    if measure(text) <= limit:
        return text
    return shorten(text, limit, measure, note)
