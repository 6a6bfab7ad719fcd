"""Reads what the agent did, which the runner writes to a file for the verifier."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call.

    Args:
        tool: Name of the tool.
        arguments: Its arguments.
        code: Error code of the result; empty if the call succeeded.
        start: When it started, in seconds.
        end: When it ended, in seconds.
        turn: Number of the model's answer that made the call, counted from 1; 0 if it is unknown.
    """

    tool: str
    arguments: Mapping[str, Any]
    code: str = ""
    start: float = 0.0
    end: float = 0.0
    turn: int = 0

    @property
    def text(self) -> str:
        """The values of the arguments, in one text."""
        return "\n".join(str(value) for value in self.arguments.values())

    @property
    def path(self) -> str:
        """The path in the arguments, with slashes; empty if the tool takes none."""
        for name, value in self.arguments.items():
            if "path" in name.lower() or name.lower() in ("file", "filename"):
                return os.path.normpath(str(value)).replace(os.sep, "/")
        return ""


@dataclass(frozen=True)
class AttemptRecord:
    """What the agent did.

    Args:
        answer: The last answer.
        calls: The tool calls, in the order of their start.
        approvals: The approvals that were asked, with the decisions.
        compactions: Number of compactions of the conversation.
        raw: The whole record.
    """

    answer: str = ""
    calls: tuple[Call, ...] = ()
    approvals: tuple[Mapping[str, Any], ...] = ()
    compactions: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict)

    def calls_about(self, *words: str) -> list[Call]:
        """Return the calls whose arguments contain all the given texts."""
        return [call for call in self.calls if all(word in call.text for word in words)]


def read_attempt() -> AttemptRecord:
    """Read the record that ``HILUM_EVAL_ATTEMPT`` names.

    Returns:
        The record; an empty one if the variable is not set.
    """
    path = os.environ.get("HILUM_EVAL_ATTEMPT")
    if not path:
        return AttemptRecord()
    raw = json.loads(Path(path).read_text("utf-8"))
    return AttemptRecord(
        answer=raw.get("answer") or "",
        calls=tuple(
            Call(
                tool=call.get("tool", ""),
                arguments=call.get("arguments") or {},
                code=call.get("code") or "",
                start=call.get("started") or 0.0,
                end=call.get("ended") or 0.0,
                turn=call.get("turn") or 0,
            )
            for call in raw.get("calls") or ()
        ),
        approvals=tuple(raw.get("approvals") or ()),
        compactions=len(raw.get("compactions") or ()),
        raw=raw,
    )
