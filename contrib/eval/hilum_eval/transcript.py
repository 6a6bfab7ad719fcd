"""What an agent did in one attempt, as verifiers and scores read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hilum_eval.attempt import Usage


@attrs.frozen(kw_only=True)
class Call:
    """A tool call.

    Args:
        tool: Name of the tool.
        arguments: The arguments that the model wrote; empty if they are not valid JSON.
        code: Error code; empty if the call succeeded.
        text: The beginning of the result, as the model read it.
        turn: Number of the model's answer that made the call, counted from 1.
        prompt: Number of the user's prompt, counted from 1.
        started: Unix time at which the call began; 0 if it never ran.
        ended: Unix time at which the call ended.
        writes: Whether the call may have changed something.
        agent: Name of the agent, if there are several.
    """

    tool: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    code: str = ""
    text: str = ""
    turn: int = 0
    prompt: int = 0
    started: float = 0.0
    ended: float = 0.0
    writes: bool = False
    agent: str = "main"


@attrs.frozen(kw_only=True)
class Approval:
    """A question whether a call may run, with its answer.

    Args:
        tool: Name of the tool.
        arguments: The arguments of the call.
        accepted: Whether the user allowed the call.
        reason: The reason of a rejection.
        by: Who decided: ``user``, ``timeout``, ``headless`` or ``stop``.
    """

    tool: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    accepted: bool = False
    reason: str = ""
    by: str = ""


@attrs.frozen(kw_only=True)
class Compaction:
    """A compaction of the conversation.

    Args:
        cause: Its cause, such as ``window``.
        before: Tokens of the conversation before.
        summary: The summary that replaces the older part of the conversation.
        turn: Number of the model's last answer before.
    """

    cause: str = ""
    before: int = 0
    summary: str = ""
    turn: int = 0


@attrs.frozen(kw_only=True)
class Transcript:
    """What an agent did in one attempt.

    Args:
        answers: The final answer to each prompt, in order.
        calls: The tool calls, in the order in which the model made them.
        approvals: The calls that needed an approval.
        compactions: The compactions of the conversation.
        notes: What the agent's program told the model besides results.
        usage: What the attempt consumed; the calls are counted later.
        observed: Share of the required events, spans, durations and costs in the trace, 0 to 1;
            ``None`` if the agent has no trace.
        code: Error code of the failed run; empty if the agent ended normally.
        reason: Why the run failed.
        broken: Whether the agent could not even start, so that the attempt says nothing about it.
        session: Id of the session, for ``hilum trace``.
    """

    answers: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    approvals: tuple[Approval, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    observed: float | None = None
    code: str = ""
    reason: str = ""
    broken: bool = False
    session: str = ""

    @property
    def answer(self) -> str:
        """The last answer."""
        return self.answers[-1] if self.answers else ""
