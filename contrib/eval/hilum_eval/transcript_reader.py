"""Reads what hilum did in an attempt from the log of its session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import msgspec
from hilum.events import (
    AnyEvent,
    ApprovalAnswered,
    ApprovalAsked,
    CallDone,
    CallStarted,
    Compacted,
    ModelAnswered,
    ModelUsed,
    RoundEnded,
    RunEnded,
    RunStarted,
)

from hilum_eval.attempt import Usage
from hilum_eval.observability import measure_observability
from hilum_eval.transcript import Approval, Call, Compaction, Transcript

MAX_TEXT = 4_000
"""Maximum number of characters of a result that a transcript contains."""
_MAIN = "main"


def read_transcript(
    events: Sequence[AnyEvent], *, session: str = "", requests: int = 0
) -> Transcript:
    """Return what happened in a session.

    Args:
        events: The events of the session.
        session: Its id.
        requests: Number of requests that the model's server has answered; 0 if it is unknown.
    """
    reader = _TranscriptReader()
    for event in events:
        reader.add(event)
    last = reader.last_end
    return Transcript(
        answers=tuple(reader.answers),
        calls=tuple(reader.calls.values()),
        approvals=tuple(reader.approvals),
        compactions=tuple(reader.compactions),
        notes=tuple(reader.notes),
        usage=_measure_usage(events, reader),
        observed=measure_observability(events, requests),
        code=last.code if last else "",
        reason=last.error if last else "",
        session=session,
    )


class _TranscriptReader:
    """What was read so far."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.calls: dict[tuple[str, str, str], Call] = {}
        self.approvals: list[Approval] = []
        self.compactions: list[Compaction] = []
        self.notes: list[str] = []
        self.turns = 0
        self.last_end: RunEnded | None = None
        self._prompts = 0
        self._asked: dict[str, ApprovalAsked] = {}

    def add(self, event: AnyEvent) -> None:
        """Add an event."""
        match event:
            case RunStarted() if event.agent == _MAIN:
                self._prompts += 1
            case ModelAnswered():
                self._add_answer(event)
            case CallStarted():
                call = self._find_call(event, event.call.id)
                self._store(event, event.call.id, call, started=event.at, writes=_writes(event))
            case CallDone():
                result = event.result
                call = self._find_call(event, result.call_id)
                writes = call.writes and result.changed
                text = result.text[:MAX_TEXT]
                self._store(
                    event,
                    result.call_id,
                    call,
                    tool=call.tool or result.name,
                    code=result.code,
                    text=text,
                    ended=event.at,
                    writes=writes,
                )
            case ApprovalAsked():
                self._asked[event.id] = event
            case ApprovalAnswered() if event.id in self._asked:
                self._add_approval(event)
            case Compacted():
                self.compactions.append(
                    Compaction(
                        cause=event.cause,
                        before=event.before,
                        summary=event.summary,
                        turn=self.turns,
                    )
                )
            case RoundEnded():
                self.notes.extend(event.notes)
            case RunEnded() if event.agent == _MAIN:
                self.answers.append(event.text or event.commentary)
                self.last_end = event

    def _add_answer(self, event: ModelAnswered) -> None:
        self.turns += 1
        for call in event.message.calls:
            self.calls[event.agent, event.run, call.id] = Call(
                tool=call.name,
                arguments=_read_arguments(call.arguments),
                turn=self.turns,
                prompt=self._prompts,
                agent=event.agent,
            )

    def _add_approval(self, event: ApprovalAnswered) -> None:
        asked = self._asked[event.id]
        self.approvals.append(
            Approval(
                tool=asked.call.name,
                arguments=_read_arguments(asked.call.arguments),
                accepted=event.accepted,
                reason=event.reason,
                by=event.by,
            )
        )

    def _find_call(self, event: AnyEvent, identity: str) -> Call:
        found = self.calls.get((event.agent, event.run, identity))
        return found or Call(tool="", turn=self.turns, prompt=self._prompts, agent=event.agent)

    def _store(self, event: AnyEvent, identity: str, call: Call, **changes: Any) -> None:
        self.calls[event.agent, event.run, identity] = attrs.evolve(call, **changes)


def _writes(event: CallStarted) -> bool:
    return event.risk != "read"


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _measure_usage(events: Sequence[AnyEvent], reader: _TranscriptReader) -> Usage:
    """Return the usage of a session; its calls are counted by ``count_calls``."""
    requests = [event for event in events if isinstance(event, ModelAnswered | ModelUsed)]
    costs = [event.usage.cost for event in requests]
    ends = [event for event in events if isinstance(event, RunEnded) and event.agent == _MAIN]
    return Usage(
        turns=reader.turns,
        input_tokens=sum(event.usage.input for event in requests),
        cached_tokens=sum(event.usage.cached for event in requests),
        output_tokens=sum(event.usage.output for event in requests),
        dollars=_add_costs(costs),
        seconds=sum(event.seconds for event in ends),
        model_seconds=sum(event.seconds for event in requests),
    )


def _add_costs(costs: Iterable[float | None]) -> float | None:
    """Return the sum; ``None`` if a cost is unknown, because a partial sum would look cheap."""
    known = []
    for cost in costs:
        if cost is None:
            return None
        known.append(cost)
    return sum(known)
