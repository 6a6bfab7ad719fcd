"""What one running agent is doing: its step, its progress, its output piece by piece, what it has
done.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from hilum import events as ev

Kind = Literal["text", "code", "tool_call"]
MOST_ACTIONS = 500
SHORT = 200


class Pieces:
    """Cuts text that comes piece by piece into text and code, by the fences of Markdown."""

    def __init__(self) -> None:
        self._code = False
        self._line = ""
        self._given = 0

    def add(self, text: str) -> list[tuple[Kind, str]]:
        """Take in text; gives the pieces that are certain now."""
        found: list[tuple[Kind, str]] = []
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            fence = self._given == 0 and line.lstrip().startswith(("```", "~~~"))
            if fence and not self._code:
                self._code = True
                _join(found, "code", line + "\n")
            else:
                _join(found, "code" if self._code else "text", line[self._given :] + "\n")
                self._code ^= fence
            self._given = 0
        # A line is shown as it grows, unless it may still turn out to be a fence.
        if self._given or (self._line.lstrip() and self._line.lstrip()[0] not in "`~"):
            _join(found, "code" if self._code else "text", self._line[self._given :])
            self._given = len(self._line)
        return found

    def end(self) -> list[tuple[Kind, str]]:
        """Return what was held back, and begin anew."""
        rest = self._line[self._given :]
        code = self._code
        self._code = False
        self._line = ""
        self._given = 0
        return [("code" if code else "text", rest)] if rest else []


def _join(found: list[tuple[Kind, str]], kind: Kind, text: str) -> None:
    if found and found[-1][0] == kind:
        found[-1] = kind, found[-1][1] + text
    elif text:
        found.append((kind, text))


class Watch:
    """What a run does, as its events tell.

    Args:
        turns: Most turns it has.

    Attributes:
        status: As faces see it: preparing and thinking are ``running``.
        step: In words.
        progress: 0 to 1: todo items done, else turns used; it never falls.
        seen: The text of the answer that is on its way.
        actions: The tool calls that ended.
        tools: How many tool calls ended.
        cost: US dollars spent.
        context: Tokens of the last request.
        items: The todo list, as the plugin ``plan`` tells it.
    """

    def __init__(self, turns: int) -> None:
        self._turns = max(turns, 1)
        self._turn = 0
        self.status = "running"
        self.step = "It begins."
        self.progress = 0.0
        self.seen = ""
        self._pieces = Pieces()
        self._buffer: list[tuple[Kind, str]] = []
        self.actions: list[dict[str, Any]] = []
        self._called: dict[str, str] = {}
        self.tools = 0
        self.cost = 0.0
        self.context = 0
        self.items: list[dict[str, Any]] = []

    def apply(self, event: ev.Event) -> None:
        """Take in an event of the run."""
        match event:
            case ev.ModelStarted(turn=turn):
                self._turn = turn
                self.seen = ""
                self._pieces.end()
                self.step = f"Turn {turn} of {self._turns}: asks the model."
                if not self.items:
                    self._advance((turn - 1) / self._turns)
            case ev.ModelAnswered(message=message, usage=usage):
                self.show(message.text[len(self.seen) :])
                self._put(self._pieces.end())
                for call in message.calls:
                    self._called[call.id] = call.arguments
                    self._put([("tool_call", f"{call.name} {call.arguments}")])
                self._spent(usage.cost)
                self.context = usage.input + usage.output
            case ev.ModelUsed(usage=usage):
                self._spent(usage.cost)
            case ev.CallStarted(call=call):
                self.step = f"Runs {call.name} {call.arguments[:SHORT]}".rstrip()
            case ev.ApprovalAsked(call=call):
                self.step = f"Waits for your approval of {call.name}."
            case ev.CallDone(result=result, seconds=seconds):
                self._done(result.call_id, result.name, result.code, seconds)
            case ev.StateChanged(state=state):
                self.status = "running" if state in ("preparing", "thinking", "idle") else state
            case ev.PluginEvent(name="plan.todos", data=data):
                self._todos(data)

    def _spent(self, cost: float | None) -> None:
        self.cost += cost or 0.0

    def _done(self, call_id: str, name: str, code: str, seconds: float) -> None:
        self.tools += 1
        arguments = self._called.pop(call_id, "")
        if len(self.actions) < MOST_ACTIONS:
            action = {
                "tool": name,
                "arguments": arguments[:SHORT],
                "code": code,
                "seconds": round(seconds, 3),
            }
            self.actions.append(action)

    def _todos(self, data: dict[str, Any]) -> None:
        try:
            self.items = msgspec.convert(data.get("items"), list[dict[str, Any]])
        except msgspec.ValidationError:
            return
        counted = [
            item for item in self.items if item.get("status") not in ("cancelled", "skipped")
        ]
        if counted:
            self._advance(sum(item.get("status") == "completed" for item in counted) / len(counted))

    def _advance(self, share: float) -> None:
        self.progress = max(self.progress, min(round(share, 3), 0.99))

    def show(self, text: str) -> None:
        """Take in a piece of the answer on its way."""
        self.seen += text
        self._put(self._pieces.add(text))

    def _put(self, pieces: list[tuple[Kind, str]]) -> None:
        for kind, text in pieces:
            if kind == "tool_call":
                self._buffer.append((kind, text))
            else:
                _join(self._buffer, kind, text)

    def flush(self) -> list[tuple[Kind, str]]:
        """Return the output since the last time."""
        buffer = self._buffer
        self._buffer = []
        return buffer
