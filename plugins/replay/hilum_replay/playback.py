"""Plays a cassette: checks requests and finds their answers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import msgspec
from hilum import Redactor, make_redactor
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall

from hilum_replay.cassette import Cassette, Exchange, Sent
from hilum_replay.matching import Matcher, Mode, RequestDelta
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.rules import RULES, Rule

RECORD_AGAIN_HINT = (
    "If the change is intended, record the cassette again with `hilum run --record FILE`."
)


@attrs.define
class _PlayedConversation:
    """A recorded conversation, and how much of it has been played.

    Attributes:
        agent: The agent in the recording.
        indices: The conversation's exchanges in the cassette.
        aside: Whether its requests were sent outside a conversation, as for a summary.
        played: Number of exchanges that have been played.
        bound: The agent that plays the conversation; ``None`` before its first request.
        count: Number of messages in the request that got the last answer. A request with that
            length and the same content repeats that request: it is a retry, or comes from a session
            that was resumed before it received the answer.
        items: The items of the last request if it was outside a conversation.
    """

    agent: str
    aside: bool
    indices: list[int] = attrs.field(factory=list)
    played: int = 0
    bound: str | None = None
    count: int = -1
    items: tuple[Sent, ...] = ()

    def play(self, position: int, delta: RequestDelta, agent: str) -> int:
        """Mark an exchange as played and return its index in the cassette."""
        self.played = position + 1
        self.bound = agent
        self.count = delta.count
        self.items = delta.items if self.aside else ()
        return self.indices[position]

    def positions(self, delta: RequestDelta) -> list[int]:
        """Return the positions that a request may have in the conversation.

        The position is the next one or, if playback begins in the middle of the conversation, the
        one given by the number of answers in the request.
        """
        total = len(self.indices)
        positions = [self.played] if self.played < total else []
        if self.played == 0 and delta.answers and delta.answers < total:
            positions.append(delta.answers)
        return positions


class Playback:
    """A cassette that is being played.

    Answers are taken in the order of each conversation, independently of other conversations.

    Args:
        cassette: What to play.
        placeholders: The paths of this machine; the workspace is the current folder by default.
        mode: How strictly requests are compared: ``strict``, ``text`` or ``shape``.
        redactor: The redactor that removes secrets from requests before they are compared.
        rules: Rules for the differences to ignore in the mode ``text``.
    """

    def __init__(
        self,
        cassette: Cassette,
        *,
        placeholders: PathPlaceholders | None = None,
        mode: Mode = "text",
        redactor: Redactor | None = None,
        rules: Sequence[Rule] = RULES,
    ) -> None:
        self.cassette = cassette
        self.placeholders = placeholders or PathPlaceholders.for_this_machine()
        self._matcher = Matcher(self.placeholders, redactor or make_redactor(), mode, rules)
        self._resolved: dict[int, Exchange] = {}
        self._next = 0
        conversations: dict[str, _PlayedConversation] = {}
        self._ids: set[str] = set()
        for index, exchange in enumerate(cassette.exchanges):
            new = _PlayedConversation(exchange.agent, exchange.aside)
            conversations.setdefault(exchange.agent, new).indices.append(index)
            self._ids.update(call.id for call in exchange.answer.calls)
        self._conversations = list(conversations.values())

    @property
    def left(self) -> int:
        """The number of exchanges that have not been played yet.

        Exchanges outside a conversation, such as summaries, are not counted: if the window is
        larger than in the recording, the session may never request them.
        """
        total = 0
        played = 0
        for conversation in self._conversations:
            if not conversation.aside:
                total += len(conversation.indices)
                played += conversation.played
        # A playback takes exchanges either in order or by request, so one of the two counts is 0.
        return total - max(self._next, played)

    def exchange(self, index: int) -> Exchange:
        """Return an exchange with this machine's paths in its answer."""
        # Benchmarks play an exchange many times.
        if index not in self._resolved:
            exchange = self.cassette.exchanges[index]
            answer = _resolve_paths(exchange.answer, self.placeholders)
            self._resolved[index] = msgspec.structs.replace(exchange, answer=answer)
        return self._resolved[index]

    def take_next(self) -> int:
        """Play the next exchange without examining the request, and return its index.

        Raises:
            ModelError: ``request`` if all exchanges have been played.
        """
        if self._next >= len(self.cassette.exchanges):
            raise self._end_error("one more request came")
        self._next += 1
        return self._next - 1

    def take(self, delta: RequestDelta, agent: str = "") -> int:
        """Play the exchange to which a request belongs, and return its index.

        Args:
            delta: The new part of the request.
            agent: The agent that sends the request, if it is known.

        Raises:
            ModelError: ``request`` if the request differs from the recorded one, or if all
                exchanges have been played. The message states the difference.
        """
        agent = agent or delta.key
        candidates = self._find_candidates(agent, delta.wire)
        for conversation in candidates:
            if self._is_repeated(conversation, delta):
                return conversation.indices[conversation.played - 1]
        closest: _PlayedConversation | None = None
        differences: list[str] = []
        for conversation in candidates:
            for position in conversation.positions(delta):
                found = self._differences(conversation, position, delta)
                if not found:
                    return conversation.play(position, delta, agent)
                # The difference from a conversation that has begun is the most informative.
                if closest is None or (closest.played == 0 and conversation.played > 0):
                    closest = conversation
                    differences = found
        if closest is None:
            raise self._end_error(_summarize_request(delta.items))
        raise self._mismatch_error(closest, differences)

    def _is_repeated(self, conversation: _PlayedConversation, delta: RequestDelta) -> bool:
        """Return whether a request repeats the conversation's last one."""
        if conversation.count != delta.count:
            return False
        # Only a small part of a request outside the conversation is compared, so its items must be
        # equal.
        if conversation.aside and conversation.items != delta.items:
            return False
        return not self._differences(conversation, conversation.played - 1, delta)

    def _find_candidates(self, agent: str, wire: bool) -> list[_PlayedConversation]:
        """Return the conversations to which a request may belong, the likeliest first."""
        bound: list[_PlayedConversation] = []
        free: list[_PlayedConversation] = []
        others: list[_PlayedConversation] = []
        for conversation in self._conversations:
            if conversation.bound == agent:
                bound.append(conversation)
            elif conversation.bound is None:
                free.append(conversation)
            else:
                others.append(conversation)
        if wire:
            # A wire format does not name the agent. The first message identifies a conversation
            # only roughly: several conversations may begin with the same message, and a compaction
            # removes it.
            return bound + free + others
        if bound:
            return bound
        # The names of sub-agents may vary between sessions.
        named = [conversation for conversation in free if conversation.agent == agent]
        return named or free

    def _differences(
        self, conversation: _PlayedConversation, position: int, delta: RequestDelta
    ) -> list[str]:
        indices = conversation.indices[: position + 1]
        exchanges = [self.cassette.exchanges[index] for index in indices]
        expected = exchanges.pop()
        if delta.wire:
            # No wire format can represent an empty answer, so the items sent before one still seem
            # new.
            while exchanges and _is_empty(exchanges[-1].answer):
                sent = exchanges.pop().sent + expected.sent
                expected = msgspec.structs.replace(expected, sent=sent)
            if exchanges:
                delta = self._restore_ids(exchanges[-1].answer, delta)
        return self._matcher.differences(expected, delta)

    def _restore_ids(self, answer: AssistantMessage, delta: RequestDelta) -> RequestDelta:
        """Return results with the recorded ids, which a gateway may have had to change."""
        recorded = [call.id for call in answer.calls]
        ids: dict[str, str] = {}
        # Ids that occur in the cassette were not changed.
        if not self._ids.intersection(delta.previous_calls):
            ids = dict(zip(delta.previous_calls, recorded, strict=False))
        # Gemini's older formats have no ids; results are in the order of their calls.
        unnamed = iter(recorded)
        items: list[Sent] = []
        for item in delta.items:
            call = item.call
            if item.kind == "result":
                call = ids.get(call, call) if call else next(unnamed, "")
            items.append(msgspec.structs.replace(item, call=call))
        return attrs.evolve(delta, items=tuple(items))

    def _mismatch_error(
        self, conversation: _PlayedConversation, differences: list[str]
    ) -> ModelError:
        number = conversation.indices[conversation.played] + 1
        total = len(self.cassette.exchanges)
        whose = f" (agent {conversation.agent})" if len(self._conversations) > 1 else ""
        start = f"The request is not exchange {number} of {total} of the cassette{whose}: "
        return _request_error(start + "\n  ".join(differences) + "\n")

    def _end_error(self, what: str) -> ModelError:
        total = len(self.cassette.exchanges)
        return _request_error(
            f"The cassette has ended: all of its {total} exchanges were played, and {what}."
        )


def _request_error(message: str) -> ModelError:
    # A retry would not help, so the error has the same kind as the error for a rejected request.
    return ModelError(message, kind="request", status=400, hint=RECORD_AGAIN_HINT)


def _is_empty(answer: AssistantMessage) -> bool:
    return not answer.calls and not answer.text.strip()


def _summarize_request(items: Sequence[Sent]) -> str:
    """Return a short description of a request."""
    users = [item for item in items if item.kind == "user" and not item.source]
    item = [*users, *items[-1:], Sent("user")][0]
    if item.kind == "result":
        return f"a request came with the result of call {item.call}"
    line = item.text.strip().split("\n")[0][:100]
    return f"a request came: {line!r}"


def _resolve_paths(answer: AssistantMessage, placeholders: PathPlaceholders) -> AssistantMessage:
    parts: list[Text | Thinking | ToolCall] = []
    for part in answer.parts:
        if isinstance(part, ToolCall):
            arguments = placeholders.resolve_in_json(part.arguments)
            parts.append(msgspec.structs.replace(part, arguments=arguments))
        else:
            parts.append(msgspec.structs.replace(part, text=placeholders.resolve(part.text)))
    return msgspec.structs.replace(answer, parts=tuple(parts))
