"""Plans a compaction: which results to shorten and where to cut the conversation.

Planning needs neither a model nor the disk; for 100,000 tokens, it takes a few milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import attrs
from hilum import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    estimate,
)

from hilum_memory.shortening import find_short_arguments, split_ends

HEAD_CHARACTERS = 1_200
TAIL_CHARACTERS = 600
# Approximate number of tokens in a screenshot; each provider counts images in its own way.
IMAGE_TOKENS = 1_200
# A shortened result may take up this fraction (1/n) of the budget. In a small window, 1,800
# characters of dense text would be too many.
THIN_SHARE = 20


@attrs.frozen
class CompactionPlan:
    """A planned compaction.

    Attributes:
        upto: Messages before this index are summarized; 0 keeps all messages.
        thinned: The texts that replace results, by call id.
        size: Number of tokens in the kept messages, without the summary.
    """

    upto: int
    thinned: Mapping[str, str]
    size: int


@attrs.define
class CompactionPlanner:
    """A planner of one compaction.

    Args:
        messages: The conversation.
        sizes: The number of tokens in each message.
        measure: Function that returns the number of tokens in a text.
        factor: Ratio of the model's tokens to estimated tokens.
        over: Length, in characters, above which a result is shortened.
        recent: Number of recent turns whose results are kept complete if they fit.
        handle: Whether the agent can read results again.
        never: Names of tools whose results are not shortened, but may be replaced by the summary.
        request: Index of the request that is always kept; its tokens are not counted.
    """

    messages: Sequence[Message]
    sizes: Sequence[int]
    measure: Callable[[str], int] = estimate
    factor: float = 1.0
    over: int = 4_000
    recent: int = 4
    handle: bool = True
    never: Collection[str] = ()
    request: int | None = None
    starts: list[int] = attrs.field(init=False)
    _repeated: set[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # A cut before a tool message would separate results from their calls, which providers
        # reject.
        kept = UserMessage | AssistantMessage
        self.starts = [
            index for index, message in enumerate(self.messages) if isinstance(message, kept)
        ]
        ids = Counter(result.call_id for result in _find_results(self.messages))
        # Some providers number the calls in each response from zero, so ids can repeat.
        self._repeated = {identity for identity, count in ids.items() if count > 1}

    def plan(self, budget: int, reserve: int, *, cut: bool = False) -> CompactionPlan:
        """Plan a compaction.

        Args:
            budget: Target size in tokens, which is half of the available size.
            reserve: Number of tokens reserved for a summary.
            cut: Whether to cut even if shortening results would be enough.
        """
        # Shorten old results first: the model rarely needs them again, and the conversation's text
        # is kept.
        tail = self._recent_from(budget - reserve)
        thinned = self._thin(tail, max(budget // THIN_SHARE, 50))
        sizes = self._sizes_with(thinned)
        if thinned and not cut and sum(sizes) <= budget:
            return CompactionPlan(0, thinned, sum(sizes))
        upto = self._cut(sizes, budget - reserve)
        # The results of the last turn alone may exceed the window, so they are shortened as well.
        # The budget is half of the available size, so up to twice the budget still fits the window.
        if sum(sizes[upto:]) > 2 * budget - reserve:
            thinned |= self._thin_hard(upto, 2 * budget - reserve)
            sizes = self._sizes_with(thinned)
        left = {result.call_id for result in _find_results(self.messages[upto:])}
        # Results that the summary replaces need no shortened text.
        thinned = {i: text for i, text in thinned.items() if i in left}
        return CompactionPlan(upto, thinned, sum(sizes[upto:]))

    def _recent_from(self, room: int) -> int:
        """Return the index at which the recent turns that fit begin; at least one turn is kept."""
        answers = [i for i in self.starts if isinstance(self.messages[i], AssistantMessage)]
        turns = answers or self.starts or [0]
        for start in turns[-self.recent :]:
            if sum(self.sizes[start:]) <= room:
                return start
        return turns[-1]

    def _cut(self, sizes: Sequence[int], room: int) -> int:
        """Return the index at which to cut so that the rest fits; the last turn is always kept."""
        total = 0
        place = self.starts[-1] if self.starts else 0
        starts = set(self.starts)
        for index in range(len(sizes) - 1, -1, -1):
            total += sizes[index]
            if total > room:
                break
            if index in starts:
                place = index
        # A summary of a single message would not be shorter than the message.
        first = 1 if isinstance(self.messages[0], NoteMessage) else 0
        if place == first or (place == first + 1 and self.request == first):
            return 0
        return place

    def _thin(self, tail: int, limit: int) -> dict[str, str]:
        """Shorten each large result before the recent turns to a token limit.

        Results that the recent turns use are kept complete.
        """
        results = _find_results(self.messages[:tail])
        big = {result.call_id: result for result in results if self._is_big(result, limit)}
        # A call id shared by two results cannot identify the shortened one.
        left_alone = self._find_needed(tail, big) | self._repeated
        return {i: self._thin_to(big[i], limit) for i in big if i not in left_alone}

    def _is_big(self, result: ToolResult, limit: int) -> bool:
        if result.name in self.never:
            return False
        # An image takes as many tokens as a long text.
        if any(isinstance(part, Image) for part in result.parts):
            return True
        return len(result.text) > self.over or self.measure(result.text) > 3 * limit

    def _thin_to(self, result: ToolResult, limit: int) -> str:
        """Return the text of a result, shortened to a token limit."""
        text = result.text
        fitting = len(text) * limit // max(self.measure(text), 1)
        size = min(HEAD_CHARACTERS + TAIL_CHARACTERS, fitting)
        return thin_result(result, size * 2 // 3, size // 3, handle=self.handle)

    def _find_needed(self, tail: int, among: Mapping[str, ToolResult]) -> set[str]:
        """Return the newest results about each file or path that recent turns mention.

        Args:
            tail: Index at which the recent turns begin.
            among: The large results, by call id.
        """
        if not among:
            return set()
        recent = "\n".join(_get_own_text(message) for message in self.messages[tail:])
        newest: dict[str, str] = {}
        for call in _find_calls(self.messages[:tail]):
            if call.id not in among:
                continue
            for value in find_short_arguments(call):
                # Other short arguments, such as words in a query, may occur in recent turns by
                # chance.
                if _is_path_like(value) and value in recent:
                    newest[value] = call.id
        return set(newest.values())

    def _thin_hard(self, upto: int, room: int) -> dict[str, str]:
        """Shorten even the last results, each to an equal share, so that they fit."""
        left = _find_results(self.messages[upto:])
        results = [result for result in left if result.call_id not in self._repeated]
        rest = sum(self.sizes[upto:]) - sum(map(self._cost, results))
        # Assume only three characters per token, so that texts in any script fit.
        characters = int((room - rest) * 3 / self.factor)
        share = max(characters // max(len(results), 1), 300)
        # The notice between the two parts needs about 200 characters.
        head = share * 2 // 3 - 150
        tail = share // 3 - 50
        thinned = {}
        for result in results:
            if len(result.text) > share or self._cost(result) > share:
                thinned[result.call_id] = thin_result(result, head, tail, handle=self.handle)
        return thinned

    def _cost(self, result: ToolResult) -> int:
        image_tokens = _count_images(result) * IMAGE_TOKENS
        return self.measure(result.text) + int(image_tokens * self.factor)

    def _sizes_with(self, thinned: Mapping[str, str]) -> list[int]:
        sizes = list(self.sizes)
        if not thinned:
            return sizes
        for index, message in enumerate(self.messages):
            for result in _find_results([message]):
                text = thinned.get(result.call_id)
                if text is not None:
                    sizes[index] -= self._cost(result) - self.measure(text)
            # Sizes are estimates, so the estimated saving may exceed the size of the message.
            sizes[index] = max(sizes[index], 1)
        return sizes


def thin_result(result: ToolResult, head: int, tail: int, *, handle: bool) -> str:
    """Return a result's beginning and end, with a notice about the omitted part in between."""
    text = result.text
    first = text
    last = ""
    if len(text) > head + tail:
        first, last = split_ends(text, max(head, 0), max(tail, 0))
    gone = []
    left_out = len(text) - len(first) - len(last)
    if left_out:
        gone.append(f"{left_out:,} of {len(text):,} characters")
    images = _count_images(result)
    if images:
        gone.append(f"{images} image{'s' * (images > 1)}")
    back = ""
    if handle:
        back = (
            f'; recall_result(id="{result.call_id}") reads all of it, and searches it with pattern='
        )
    notice = f"[… {' and '.join(gone)} left out to make room{back} …]"
    return f"{first}\n{notice}\n{last}".strip("\n")


def _get_own_text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return "\n".join([message.text, *(call.arguments for call in message.calls)])
    if isinstance(message, UserMessage):
        return message.request
    return ""


def _count_images(result: ToolResult) -> int:
    return sum(isinstance(part, Image) for part in result.parts)


def _find_results(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in messages:
        if isinstance(message, ToolMessage):
            yield from message.results


def _find_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.calls


def _is_path_like(value: str) -> bool:
    return "." in value or "/" in value
