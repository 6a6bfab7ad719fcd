"""Compaction: measuring what fits in the model's window, and shortening the rest of a conversation.

The user's request in the current run and the last turn are always kept: ``apply_compaction``
applies every compaction, including those that plugins plan, and no plan can drop the request. The
functions here are pure; the loop decides when to compact and logs the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from hilum.errors import RETRYABLE, UsageError
from hilum.messages import (
    AssistantMessage,
    Compaction,
    Image,
    Message,
    NoteMessage,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from hilum.models import ModelInfo
from hilum.tokens import IMAGE, estimate

# A conversation is compacted at this share of the window (without the reserve for the response):
# models lose track before their window is full, and the summary must also fit.
COMPACT_AT = 0.8
# A compacted conversation may take this share of the available tokens, so that several turns fit
# afterwards, even in a small window.
TARGET = 0.4
# The tool with which an agent reads omitted text. The model is told about it only if the agent has
# it.
RECALL = "recall_result"

Measure = Callable[[str], int]


def reserve(info: ModelInfo) -> int:
    """Return how many tokens of a model's window are reserved for its response."""
    # For some models, the maximum output is as large as the window, which would leave no room for
    # the request.
    return min(info.max_output, info.window // 2)


def room(info: ModelInfo, head: int) -> int:
    """Return how many tokens messages may take before they are compacted.

    Args:
        info: The model.
        head: Number of tokens in the system prompt and the tools.
    """
    usable = info.window - reserve(info)
    share = int(usable * COMPACT_AT) - head
    # In a small window, the system prompt and the tools alone may take most of the share
    # ``COMPACT_AT``, which would leave almost nothing for messages.
    free = (usable - head) * 3 // 4
    small = min(free, int(info.window * COMPACT_AT) - head)
    return max(share, small)


def least_room(info: ModelInfo) -> int:
    """Return how many tokens a run needs for a summary and one turn."""
    return info.window // 10


def window_error(info: ModelInfo, prompt: int, tools: int, request: int) -> UsageError:
    """Create the error for a window that cannot hold the system prompt, the tools and the request.

    Args:
        info: The model.
        prompt: Number of tokens in the system prompt.
        tools: Number of tokens in the tools.
        request: Number of tokens in the user's request.
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
        ways.insert(0, "shorten the request, or put it in a file and name the file")
    elif tools >= prompt:
        ways.insert(
            0, "leave out plugins and MCP servers whose tools you do not need (plugins.block)"
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
        limit: Approximate maximum size of the result, in tokens.
        measure: A function that returns the number of tokens in a text.
        note: A function that returns the note, given how many characters are left out and where
            they begin.
    """
    size = len(text) * limit // max(measure(text), 1) - len(note(len(text), len(text)))
    while True:
        size = max(size, 0)
        head = _whole_lines(text[: size * 2 // 3])
        tail = _from_whole_line(text[len(text) - size // 3 :])
        left_out = note(len(text) - len(head) - len(tail), len(head))
        outcome = f"{head}\n{left_out}\n{tail}".strip("\n")
        # Dense parts of a text have more tokens per character than the average.
        if size < 50 or measure(outcome) <= limit:
            return outcome
        size = size * 4 // 5


def _whole_lines(head: str) -> str:
    """Remove a text's last, incomplete line, if more than half of the text remains."""
    cut = head.rfind("\n")
    return head[: cut + 1] if cut > len(head) // 2 else head


def _from_whole_line(tail: str) -> str:
    """Remove a text's first, incomplete line, if more than half of the text remains."""
    cut = tail.find("\n")
    return tail[cut + 1 :] if 0 <= cut < len(tail) // 2 else tail


def result_note(result: ToolResult, why: str, recall: str) -> Callable[[int, int], str]:
    """Return a function that writes the note in a shortened result.

    The note states how much is left out, the full size, why the result was shortened, and how to
    read the rest.

    Args:
        result: The complete result, which is kept in the session's log.
        why: The reason why the result was shortened.
        recall: The tool that reads results from the log; empty if the agent has none.
    """
    total = len(result.text)
    lines = result.text.count("\n") + (not result.text.endswith("\n"))
    unit = "line" if lines == 1 else "lines"

    def note(count: int, start: int) -> str:
        if recall:
            more = f'{recall}(id="{result.call_id}", offset={start}) reads on'
        else:
            more = "none of your tools reads it"
        return (
            f"[… {count:,} of {total:,} characters left out {why}; the whole result"
            f" ({lines:,} {unit}) is in the session log: {more} …]"
        )

    return note


def shorten_results(
    results: Sequence[ToolResult], window: int, free: int, measure: Measure, *, recall: str
) -> dict[str, str]:
    """Return shortened texts for results that are too large for the window, by call id.

    Args:
        results: The results of a round, in call order.
        window: The model's window in tokens.
        free: Number of tokens that messages may still take before a compaction.
        measure: A function that returns the number of tokens in a text.
        recall: How the agent calls the tool that reads the rest; empty if the agent has no such
            tool.
    """
    shortened = {}
    for result in results:
        # One result may take at most a quarter of the free tokens; otherwise a few large results in
        # a row would cause a compaction at every second turn.
        limit = max(window // 20, min(window // 4, free // 4))
        cost = 0
        # A character takes at most four tokens, so a short result need not be measured.
        if len(result.text) * 4 > limit:
            cost = measure(result.text)
        if cost > limit:
            note = result_note(result, "because the result is too large for the window", recall)
            shortened[result.call_id] = shorten(result.text, limit, measure, note)
            cost = limit
        free -= cost
    return shortened


def replace_texts(message: Message, texts: Mapping[str, str], *, images: bool = False) -> Message:
    """Return a message with new texts for some of its results.

    Args:
        message: The message.
        texts: The new texts, by call id.
        images: Whether a result whose text is replaced keeps its images.
    """
    if not isinstance(message, ToolMessage) or not texts:
        return message
    results = []
    for result in message.results:
        text = texts.get(result.call_id)
        if text is not None:
            kept = [part for part in result.parts if images and isinstance(part, Image)]
            result = replace(result, parts=(Text(text, f"tool:{result.name}"), *kept))
        results.append(result)
    return ToolMessage(tuple(results))


def message_size(message: UserMessage, measure: Measure) -> int:
    """Return the estimated number of tokens in a user's message."""
    return sum(measure(part.text) if isinstance(part, Text) else IMAGE for part in message.parts)


def without_context(message: UserMessage) -> UserMessage:
    """Return a user's message without the context that was gathered for it."""
    own = tuple(part for part in message.parts if not part.source.startswith("context:"))
    return replace(message, parts=own)


def fit_request(message: UserMessage, space: int, measure: Measure) -> UserMessage:
    """Return the user's request in the form that a compacted conversation keeps.

    If the message takes more than a quarter of ``space``, the context that was gathered for it is
    dropped. If the text of the message alone takes more than half of ``space``, only the beginning
    and the end of the text are kept, with a note between them.

    Args:
        message: The request.
        space: Number of tokens that all messages together may take.
        measure: A function that returns the number of tokens in a text.
    """
    if message_size(message, measure) <= space // 4:
        return message
    own = without_context(message)
    if message_size(own, measure) <= space // 2:
        return own
    text = "\n\n".join(part.text for part in own.parts if isinstance(part, Text))

    def note(count: int, start: int) -> str:
        return (
            f"[… {count:,} of {len(text):,} characters of the user's request left out: too large"
            " for the window …]"
        )

    images = [part for part in own.parts if isinstance(part, Image)]
    limit = space // 2 - len(images) * IMAGE
    if limit < space // 4:  # the images would leave too little room for the text
        images = []
        limit = space // 2
    if measure(text) > limit:
        text = shorten(text, limit, measure, note)
    # A joined text counts as the user's only if all of its parts are the user's; otherwise text
    # from another program would gain the user's authority.
    source = "piped" if any(part.source == "piped" for part in own.parts) else "user"
    return replace(own, parts=(Text(text, source), *images))


# --- compaction -----------------------------------------------------------------------------------


def cut_point(messages: Sequence[Message], upto: int) -> int:
    """Return the last index at or before ``upto`` where the conversation can be cut.

    No cut separates a call from its result, because providers reject a result without its call. The
    last turn is never cut off.
    """
    upto = max(min(upto, len(messages) - 1), 0)
    while upto > 0 and not isinstance(messages[upto], UserMessage | AssistantMessage):
        upto -= 1
    return upto


def apply_compaction(
    messages: Sequence[Message],
    plan: Compaction,
    request: int | None,
    quoted: UserMessage | None = None,
) -> tuple[list[Message], int | None]:
    """Apply a compaction; the request of the current run is always kept.

    Args:
        messages: The conversation.
        plan: The compaction.
        request: Index of the request that must be kept; ``None`` if there is no such request.
        quoted: The shortened request, if the original is too large to be kept in full.

    Returns:
        The conversation, and the index of the request in it.
    """
    whole: list[Message] = [NoteMessage(plan.summary)] if plan.summary else []
    place = None
    for index in kept_indices(len(messages), plan.upto, request):
        if index == request:
            place = len(whole)
        message = messages[index]
        # A request that is kept although it is older has no results.
        whole.append(replace_texts(message, plan.thinned))
    if place is not None and quoted is not None:
        whole[place] = quoted
    return whole, place


def ended_early(state: str, code: str) -> bool:
    """Return whether a run ended early and may be retried, so that compactions keep its request.

    Args:
        state: The state in which the run ended.
        code: The code of its error.
    """
    if state in ("stopped", "timed_out"):
        return True
    return state == "failed" and code in RETRYABLE


def kept_indices(count: int, upto: int, request: int | None) -> list[int]:
    """Return the indices of the messages that a compaction keeps, in order.

    Args:
        count: Number of messages.
        upto: The first message that the summary does not replace.
        request: Index of the request that must be kept; ``None`` if there is no such request.
    """
    # A damaged log may contain any number.
    upto = min(max(upto, 0), count)
    kept = list(range(upto, count))
    if request is not None and request < upto:
        kept.insert(0, request)
    return kept


def plain_compaction(
    messages: Sequence[Message],
    sizes: Sequence[int],
    budget: int,
    *,
    request: int | None = None,
    measure: Measure = estimate,
    recall: str = "",
) -> Compaction:
    """Plan a compaction without a model.

    Old results are shortened first; then a summary replaces the oldest messages.

    Args:
        messages: The conversation.
        sizes: Number of tokens in each message.
        budget: Number of tokens that the conversation may take after the compaction.
        request: Index of the request that is always kept.
        measure: A function that returns the number of tokens in a text.
        recall: How the agent calls the tool that reads the rest of a result; empty if the agent has
            no such tool.
    """
    starts = [
        index
        for index, message in enumerate(messages)
        if isinstance(message, UserMessage | AssistantMessage)
    ]
    last = starts[-1] if starts else 0
    shortener = _Shortener(messages, sizes, measure, recall, request)
    thinned = shortener.shorten(0, last, max(budget // 10, 50))
    if thinned and shortener.total(0, thinned) <= budget:
        return Compaction(thinned=thinned)
    # After the request, the rest of the budget is for the summary and for the turns that are kept.
    left = budget // 2
    if request is None:
        left = max(budget, left)
    else:
        left = max(budget - sizes[request], left)
    # The last quarter of this budget is for the summary.
    for_turns = left * 3 // 4
    # As many of the latest turns are kept as fit.
    upto = last
    for start in reversed(starts):
        if shortener.total(start, thinned, request=False) > for_turns:
            break
        upto = start
    if shortener.total(upto, thinned, request=False) > for_turns:
        count = max(len(_results(messages[upto:])), 1)
        thinned |= shortener.shorten(upto, len(messages), max(left // (2 * count), 30))
    if shortener.total(upto, thinned, request=False) > left:
        # Even the calls in the last turn are too large, so only the summary mentions them.
        upto = len(messages)
    dropped = [message for index, message in enumerate(messages[:upto]) if index != request]
    summary = _summarize(dropped, max(left // 4, 100), measure)
    staying = {result.call_id for result in _results(messages[upto:])}
    # Texts for dropped results are left out, because they would only make the event larger.
    texts = {call_id: text for call_id, text in thinned.items() if call_id in staying}
    return Compaction(upto if dropped else 0, summary, texts)


def _results(messages: Iterable[Message]) -> list[ToolResult]:
    """Return all tool results in the given messages."""
    results: list[ToolResult] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            results += message.results
    return results


class _Shortener:
    """A helper that shortens the results in a conversation and measures the conversation's size."""

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
        ids = Counter(result.call_id for result in _results(messages))
        # Some servers number the calls in each response from 1, so a text for one id would replace
        # several results.
        self._repeated = {call_id for call_id, count in ids.items() if count > 1}

    def shorten(self, begin: int, end: int, limit: int) -> dict[str, str]:
        """Return shorter texts, by call id, for results that exceed twice the limit."""
        texts = {}
        for result in _results(self._messages[begin:end]):
            if result.call_id not in self._repeated and self._cost(result) > 2 * limit:
                note = result_note(result, "to make room", self._recall)
                texts[result.call_id] = shorten(result.text, limit, self._measure, note)
        return texts

    def total(self, begin: int, texts: Mapping[str, str], *, request: bool = True) -> int:
        """Return the number of tokens from a message to the end, with or without the request."""
        total = 0
        for index in range(begin, len(self._messages)):
            if request or index != self._request:
                total += self._size(index, texts)
        return total

    def _size(self, index: int, texts: Mapping[str, str]) -> int:
        """Return the number of tokens in a message whose results have the given texts."""
        size = self._sizes[index]
        for result in _results([self._messages[index]]):
            text = texts.get(result.call_id)
            if text is not None:
                size -= self._cost(result) - self._measure(text)
        return max(size, 1)

    def _cost(self, result: ToolResult) -> int:
        images = sum(isinstance(part, Image) for part in result.parts)
        return self._measure(result.text) + IMAGE * images


def _summarize(dropped: Sequence[Message], limit: int, measure: Measure) -> str:
    """Summarize dropped messages in a few lines.

    The summary quotes the user's last requests, the agent's last texts and the agent's last calls.
    """
    lines = [f"{len(dropped)} earlier messages were dropped to fit the window."]
    # The summary of an earlier compaction must not be lost.
    if dropped and isinstance(dropped[0], NoteMessage):
        lines.append(f"Before that: {dropped[0].text[:2_000]}")
    requests = [message for message in dropped if isinstance(message, UserMessage)]
    for request in requests[-3:]:
        parts = without_context(request).parts
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        lines.append(f"The user asked: {text[:1_000]}")
    answers = [message for message in dropped if isinstance(message, AssistantMessage)]
    texts = [answer.text for answer in answers if answer.text]
    lines += [f"You said: {text[:300]}" for text in texts[-3:]]
    calls = answers[-1].calls if answers else ()
    lines += [f"You called {call.name}: {call.arguments[:200]}" for call in calls]
    summary = "\n".join(lines)

    def note(count: int, start: int) -> str:
        return "[…]"

    if measure(summary) <= limit:
        return summary
    return shorten(summary, limit, measure, note)
