"""What a trim does, decided before anybody is asked: which results are thinned, and where the
conversation is cut.

Everything here is plain computing on what is in memory; 100,000 tokens take a few milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import attrs
from hilum import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
    estimate,
)

from hilum_memory.texts import ends, values

HEAD = 1_200
TAIL = 600
IMAGE = 1_200
# Share of the budget that a thinned result takes at most: in a small window 1,800 dense characters
# are too much.
THIN_SHARE = 20


@attrs.frozen
class Plan:
    """A trim as planned.

    Attributes:
        upto: Messages before this index are summarized; 0 keeps all.
        thinned: Call id to the text that takes the place of its result.
        size: Tokens of what is kept, the summary not counted.
    """

    upto: int
    thinned: Mapping[str, str]
    size: int


@attrs.define
class Planner:
    """Plans a trim.

    Args:
        messages: The conversation.
        sizes: Tokens of each message.
        measure: Gives the tokens of a text.
        factor: Tokens for each estimated one, on the whole.
        over: Characters over which a result is thinned.
        recent: Last turns whose results stay whole where they fit.
        handle: Whether results can be fetched back.
        never: Tools whose results are not thinned while they are in the conversation.
        request: Index of the request that stays in any case; it counts nothing here.
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
        kept = UserMessage | AssistantMessage
        self.starts = [
            index for index, message in enumerate(self.messages) if isinstance(message, kept)
        ]
        ids = Counter(
            r.call_id for m in self.messages if isinstance(m, ToolMessage) for r in m.results
        )
        self._repeated = {identity for identity, count in ids.items() if count > 1}

    def plan(self, budget: int, reserve: int, *, cut: bool = False) -> Plan:
        """Plan a trim.

        Args:
            budget: Tokens to come down to; twice as many fit.
            reserve: Tokens that a summary would take.
            cut: Cut even where thinning would be enough.
        """
        tail = self._recent_from(budget - reserve)
        thinned = self._thin(tail, max(budget // THIN_SHARE, 50))
        sizes = self._sizes_with(thinned)
        if thinned and not cut and sum(sizes) <= budget:
            return Plan(0, thinned, sum(sizes))
        upto = self._cut(sizes, budget - reserve)
        if sum(sizes[upto:]) > 2 * budget - reserve:
            thinned |= self._thin_hard(upto, 2 * budget - reserve)
            sizes = self._sizes_with(thinned)
        left = self._ids(upto)
        return Plan(upto, {i: text for i, text in thinned.items() if i in left}, sum(sizes[upto:]))

    def _recent_from(self, room: int) -> int:
        """Where the last turns begin: so many as are wanted and fit, at least one."""
        turns = (
            [i for i in self.starts if isinstance(self.messages[i], AssistantMessage)]
            or self.starts
            or [0]
        )
        for start in turns[-self.recent :]:
            if sum(self.sizes[start:]) <= room:
                return start
        return turns[-1]

    def _cut(self, sizes: Sequence[int], room: int) -> int:
        """Where to cut, so that what is kept fits; the last turn is kept whatever its size."""
        total = 0
        place = self.starts[-1] if self.starts else 0
        starts = set(self.starts)
        for index in range(len(sizes) - 1, -1, -1):
            total += sizes[index]
            if total > room:
                break
            if index in starts:
                place = index
        # A summary of next to nothing is worth less than what it replaces.
        if isinstance(self.messages[0], NoteMessage):
            first = 1
        else:
            first = 0
        if place == first or (place == first + 1 and self.request == first):
            return 0
        return place

    def _thin(self, tail: int, limit: int) -> dict[str, str]:
        """Thin the big results before the last turns to a limit in tokens, but not those that the
        last turns work with.
        """
        big = {}
        for message in self.messages[:tail]:
            for result in message.results if isinstance(message, ToolMessage) else ():
                if result.name in self.never:
                    continue
                long = len(result.text) > self.over or self.measure(result.text) > 3 * limit
                if long or any(isinstance(part, Image) for part in result.parts):
                    big[result.call_id] = result
        left = big.keys() - self._needed(tail, big) - self._repeated
        return {i: self._thinned(result, limit) for i, result in big.items() if i in left}

    def _thinned(self, result: ToolResult, limit: int) -> str:
        """Shorten an old result: to its usual ends, or to less where these take more tokens than
        the limit.
        """
        text = result.text
        size = min(HEAD + TAIL, len(text) * limit // max(self.measure(text), 1))
        return thin(result, size * 2 // 3, size // 3, handle=self.handle)

    def _needed(self, tail: int, among: Mapping[str, ToolResult]) -> set[str]:
        """Ids of the newest results about what the last turns name: a file that is being edited,
        for example.
        """
        said = "\n".join(_said(message) for message in self.messages[tail:])
        about: dict[str, str] = {}
        for message in self.messages[:tail] if among else ():
            for call in message.calls if isinstance(message, AssistantMessage) else ():
                for value in values(call) if call.id in among else ():
                    if ("." in value or "/" in value) and value in said:
                        about[value] = call.id
        return set(about.values())

    def _thin_hard(self, upto: int, room: int) -> dict[str, str]:
        """Thin even the last results, so that they fit: an equal share for each."""
        results = [
            r
            for m in self.messages[upto:]
            if isinstance(m, ToolMessage)
            for r in m.results
            if r.call_id not in self._repeated
        ]
        rest = sum(self.sizes[upto:]) - sum(self._cost(r) for r in results)
        share = max(int((room - rest) * 3 / self.factor) // max(len(results), 1), 300)
        big = [r for r in results if len(r.text) > share or self._cost(r) > share]
        return {
            r.call_id: thin(r, share * 2 // 3 - 150, share // 3 - 50, handle=self.handle)
            for r in big
        }

    def _cost(self, result: ToolResult) -> int:
        images = sum(isinstance(part, Image) for part in result.parts)
        return self.measure(result.text) + int(images * IMAGE * self.factor)

    def _sizes_with(self, thinned: Mapping[str, str]) -> list[int]:
        sizes = list(self.sizes)
        if not thinned:
            return sizes
        for index, message in enumerate(self.messages):
            for result in message.results if isinstance(message, ToolMessage) else ():
                text = thinned.get(result.call_id)
                if text is not None:
                    sizes[index] -= self._cost(result) - self.measure(text)
            sizes[index] = max(sizes[index], 1)
        return sizes

    def _ids(self, upto: int) -> set[str]:
        return {
            r.call_id for m in self.messages[upto:] if isinstance(m, ToolMessage) for r in m.results
        }


def thin(result: ToolResult, head: int, tail: int, *, handle: bool) -> str:
    """Write a result briefly: its beginning, what is missing and how to get it, its end."""
    text = result.text
    first, last = ends(text, max(head, 0), max(tail, 0)) if len(text) > head + tail else (text, "")
    images = sum(isinstance(part, Image) for part in result.parts)
    if last or first != text:
        gone = [f"{len(text) - len(first) - len(last):,} of {len(text):,} characters"]
    else:
        gone = []
    gone += [f"{images} image{'s' * (images > 1)}"] if images else []
    if handle:
        back = f'; recall_result(id="{result.call_id}") gives all of it, with pattern= it searches'
    else:
        back = ""
    return f"{first}\n[… {' and '.join(gone)} left out to make room{back} …]\n{last}".strip("\n")


def _said(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return "\n".join([message.text, *(call.arguments for call in message.calls)])
    if isinstance(message, UserMessage):
        return "\n".join(
            part.text for part in message.parts if isinstance(part, Text) and part.source == "user"
        )
    return ""
