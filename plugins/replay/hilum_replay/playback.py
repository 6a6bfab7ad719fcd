"""Plays a cassette: takes requests, checks them, gives the answers in their order."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import msgspec
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall
from hilum_guard import Redactor

from hilum_replay.cassette import Cassette, Exchange, Sent
from hilum_replay.matching import RULES, Asked, Matcher, Mode, Rule
from hilum_replay.places import Places

HINT = "If the change is meant, record the cassette again with `hilum run --record FILE`."


@attrs.define
class _Talk:
    """A recorded conversation and how far it was played.

    ``count`` is the number of messages of the request that the last answer went to: a request of
    that length which says the same is that request again (a retry, or a session that was resumed
    before it had the answer).
    """

    agent: str
    indices: list[int]
    played: int = 0
    count: int = -1
    bound: str | None = None
    items: tuple[Sent, ...] = ()


class Playback:
    """A cassette being played.

    Answers are taken in the order of each conversation, whatever others do meanwhile.

    Args:
        cassette: What to play.
        places: Where the workspace is now; the current folder by default.
        mode: How strictly requests are compared: ``strict``, ``text`` or ``shape``.
        redactor: What to take out of requests before they are compared.
        rules: What is forgiven in the mode ``text``.
    """

    def __init__(
        self,
        cassette: Cassette,
        *,
        places: Places | None = None,
        mode: Mode = "text",
        redactor: Redactor | None = None,
        rules: Sequence[Rule] = RULES,
    ) -> None:
        self.cassette = cassette
        self.places = places or Places.here()
        self._matcher = Matcher(self.places, redactor or Redactor(), mode, rules)
        self._answers: dict[int, Exchange] = {}
        self._next = 0
        talks: dict[str, list[int]] = {}
        for index, exchange in enumerate(cassette.exchanges):
            talks.setdefault(exchange.agent, []).append(index)
        self._ids = {call.id for exchange in cassette.exchanges for call in exchange.answer.calls}
        self._talks = [_Talk(agent, indices) for agent, indices in talks.items()]

    @property
    def left(self) -> int:
        """How many exchanges were not played yet.

        Those beside a conversation need not come where the window is larger.
        """
        talks = [talk for talk in self._talks if not self._aside(talk)]
        return sum(len(talk.indices) for talk in talks) - max(
            self._next, sum(talk.played for talk in talks)
        )

    def exchange(self, index: int) -> Exchange:
        """An exchange with this machine's paths in its answer."""
        known = self._answers.get(index)
        if known is None:
            exchange = self.cassette.exchanges[index]
            known = msgspec.structs.replace(
                exchange, answer=_concrete(exchange.answer, self.places)
            )
            self._answers[index] = known
        return known

    def take_next(self) -> int:
        """Take the next exchange of all, without looking at the request.

        Raises:
            ModelError: ``request``, all were played.
        """
        if self._next >= len(self.cassette.exchanges):
            raise self._over("one more request came")
        self._next += 1
        return self._next - 1

    def take(self, asked: Asked, agent: str = "") -> int:
        """Take the exchange that a request belongs to; gives its index.

        Args:
            asked: What the request newly says.
            agent: Who asks, where that is known.

        Raises:
            ModelError: ``request``, it is not what was recorded, or all was played; the message
                says where it differs.
        """
        agent = agent or asked.key
        talks = self._candidates(agent, asked.wire)
        for talk in talks:
            again = talk.count == asked.count and not self._differences(
                talk, talk.played - 1, asked
            )
            # Of a request beside the conversation little is compared: only the very same is that
            # one again.
            if again and (not self._aside(talk) or talk.items == asked.items):
                return talk.indices[talk.played - 1]
        first: tuple[_Talk, list[str]] | None = None
        for talk in talks:
            for position in _positions(talk, asked):
                found = self._differences(talk, position, asked)
                if not found:
                    talk.played = position + 1
                    talk.count = asked.count
                    talk.bound = agent
                    talk.items = asked.items if self._aside(talk) else ()
                    return talk.indices[position]
                # The most telling difference is the one from a conversation that is under way.
                if first is None or (first[0].played == 0 and talk.played > 0):
                    first = talk, found
        if first is None:
            raise self._over(_gist(asked.items))
        talk, found = first
        number = talk.indices[talk.played] + 1
        whose = f" (agent {talk.agent})" if len(self._talks) > 1 else ""
        message = (
            f"The request is not exchange {number} of {len(self.cassette.exchanges)} of the"
            f" cassette{whose}: "
        )
        raise ModelError(message + "\n  ".join(found) + "\n", kind="request", status=400, hint=HINT)

    def _aside(self, talk: _Talk) -> bool:
        return self.cassette.exchanges[talk.indices[0]].aside

    def _candidates(self, agent: str, wire: bool) -> list[_Talk]:
        """The conversations a request may belong to, likeliest first."""
        bound = [talk for talk in self._talks if talk.bound == agent]
        free = [talk for talk in self._talks if talk.bound is None]
        if (
            wire
        ):  # a first message is no sure sign: others may begin alike, and a trim takes it away
            return bound + free + [talk for talk in self._talks if talk.bound not in (agent, None)]
        return bound or [talk for talk in free if talk.agent == agent] or free

    def _differences(self, talk: _Talk, position: int, asked: Asked) -> list[str]:
        exchanges = [self.cassette.exchanges[index] for index in talk.indices[: position + 1]]
        expected = exchanges.pop()
        if asked.wire:
            while exchanges and not (
                exchanges[-1].answer.calls or exchanges[-1].answer.text.strip()
            ):
                # No wire can hold an empty answer: what was asked before it still seems new.
                expected = msgspec.structs.replace(
                    expected, sent=exchanges.pop().sent + expected.sent
                )
            asked = self._recall(exchanges[-1].answer, asked) if exchanges else asked
        return self._matcher.differences(expected, asked)

    def _recall(self, answer: AssistantMessage, asked: Asked) -> Asked:
        """Return results the recorded ids of their calls: a gateway may have had to change them."""
        recorded = [call.id for call in answer.calls]
        if self._ids.intersection(asked.echo):
            ids = {}
        else:
            ids = dict(zip(asked.echo, recorded, strict=False))
        unnamed = iter(recorded)
        items: list[Sent] = []
        for item in asked.items:
            if item.kind == "result":
                call = ids.get(item.call, item.call) if item.call else next(unnamed, "")
                item = msgspec.structs.replace(item, call=call)
            items.append(item)
        return attrs.evolve(asked, items=tuple(items))

    def _over(self, what: str) -> ModelError:
        total = len(self.cassette.exchanges)
        message = (
            f"The cassette is at its end: all of its {total} exchanges were played, and {what}."
        )
        return ModelError(message, kind="request", status=400, hint=HINT)


def _positions(talk: _Talk, asked: Asked) -> list[int]:
    """Where in a conversation a request may be: next, or, when play begins in its middle, after
    that many answers.
    """
    places = [talk.played] if talk.played < len(talk.indices) else []
    if talk.played == 0 and asked.answers and asked.answers < len(talk.indices):
        places.append(asked.answers)
    return places


def _gist(items: Sequence[Sent]) -> str:
    """What a request says, in a few words."""
    item = next(
        (item for item in items if item.kind == "user" and not item.source),
        items[-1] if items else Sent("user"),
    )
    line = item.text.strip().split("\n")[0][:100]
    if item.kind == "result":
        return f"a request came with the result of call {item.call}"
    return f"a request came: {line!r}"


def _concrete(answer: AssistantMessage, places: Places) -> AssistantMessage:
    parts: list[Text | Thinking | ToolCall] = []
    for part in answer.parts:
        if isinstance(part, ToolCall):
            parts.append(
                msgspec.structs.replace(part, arguments=places.concrete_json(part.arguments))
            )
        else:
            parts.append(msgspec.structs.replace(part, text=places.concrete(part.text)))
    return msgspec.structs.replace(answer, parts=tuple(parts))
