"""The progress of a running agent: its current step, its streamed output and its tool calls."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from hilum import events as ev

Kind = Literal["text", "code", "tool_call"]
Chunk = tuple[Kind, str]
MAX_ACTIONS = 500
MAX_ARGUMENTS_SHOWN = 200
# Run states that are reported as ``running``.
_QUIET_STATES = ("preparing", "thinking", "idle")


class OutputSplitter:
    """Splits streamed output into text and code at Markdown fences."""

    def __init__(self) -> None:
        self._in_code = False
        self._line = ""
        self._returned = 0

    def add(self, text: str) -> list[Chunk]:
        """Add streamed text and return the chunks whose kind is now certain."""
        found: list[Chunk] = []
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            self._end_line(found, line)
        # An incomplete line is emitted as it grows, unless it could still become a fence.
        start = self._line.lstrip()[:1]
        if self._returned or (start and start not in "`~"):
            _append(found, self._kind, self._line[self._returned :])
            self._returned = len(self._line)
        return found

    def _end_line(self, found: list[Chunk], line: str) -> None:
        fence = self._returned == 0 and line.lstrip().startswith(("```", "~~~"))
        # Both fences belong to the code, so the state changes before an opening fence is added and
        # after a closing fence is added.
        opens = fence and not self._in_code
        if opens:
            self._in_code = True
        _append(found, self._kind, line[self._returned :] + "\n")
        if fence and not opens:
            self._in_code = False
        self._returned = 0

    def end(self) -> list[Chunk]:
        """Return the text that was held back, and reset the splitter."""
        rest = self._line[self._returned :]
        kind = self._kind
        self._in_code = False
        self._line = ""
        self._returned = 0
        return [(kind, rest)] if rest else []

    @property
    def _kind(self) -> Kind:
        return "code" if self._in_code else "text"


def _append(chunks: list[Chunk], kind: Kind, text: str) -> None:
    """Append text to the last chunk if the kinds are the same; otherwise, add a new chunk."""
    if chunks and chunks[-1][0] == kind:
        chunks[-1] = kind, chunks[-1][1] + text
    elif text:
        chunks.append((kind, text))


class RunProgress:
    """The progress of a run, folded from its events.

    Args:
        turns: Maximum number of turns in the run.

    Attributes:
        status: Status shown by user interfaces; preparing and thinking count as ``running``.
        step: Current activity, as a sentence.
        progress: The share of completed todo items or, without a todo list, of turns, from 0 to 1;
            never decreases.
        answer: Text of the answer that is being streamed.
        actions: The first finished tool calls, at most ``MAX_ACTIONS``.
        tools: Number of finished tool calls.
        cost: Cost in US dollars.
        context: Number of tokens in the last request and its response.
        items: The todo list, as reported by the plugin ``plan``.
    """

    def __init__(self, turns: int) -> None:
        self._turns = max(turns, 1)
        self._splitter = OutputSplitter()
        self._output: list[Chunk] = []
        self._arguments: dict[str, str] = {}
        self.status = "running"
        self.step = "Begins."
        self.progress = 0.0
        self.answer = ""
        self.actions: list[dict[str, Any]] = []
        self.tools = 0
        self.cost = 0.0
        self.context = 0
        self.items: list[dict[str, Any]] = []

    def apply(self, event: ev.Event) -> None:
        """Apply an event from the run."""
        match event:
            case ev.ModelStarted(turn=turn):
                self._start_turn(turn)
            case ev.ModelAnswered():
                self._finish_answer(event)
            case ev.ModelUsed(usage=usage):
                self.cost += usage.cost or 0.0
            case ev.CallStarted(call=call):
                self.step = f"Running {call.name} {call.arguments[:MAX_ARGUMENTS_SHOWN]}".rstrip()
            case ev.ApprovalAsked(call=call):
                self.step = f"Waiting for your approval of {call.name}."
            case ev.CallDone():
                self._finish_call(event)
            case ev.StateChanged(state=state):
                self.status = "running" if state in _QUIET_STATES else state
            case ev.PluginEvent(name="plan.todos", data=data):
                self._update_items(data)

    def _start_turn(self, turn: int) -> None:
        self.answer = ""
        # An answer that failed may have ended inside a code block.
        self._splitter.end()
        self.step = f"Turn {turn} of {self._turns}: waiting for the model."
        if not self.items:
            # Turns are a poor estimate of progress, so a todo list takes precedence.
            self._advance((turn - 1) / self._turns)

    def _finish_answer(self, event: ev.ModelAnswered) -> None:
        # A model that does not stream sends all of its text with this event.
        self.show(event.message.text[len(self.answer) :])
        self._add_output(self._splitter.end())
        for call in event.message.calls:
            self._arguments[call.id] = call.arguments
            self._output.append(("tool_call", f"{call.name} {call.arguments}"))
        self.cost += event.usage.cost or 0.0
        self.context = event.usage.input + event.usage.output

    def _finish_call(self, event: ev.CallDone) -> None:
        self.tools += 1
        result = event.result
        arguments = self._arguments.pop(result.call_id, "")
        if len(self.actions) < MAX_ACTIONS:
            action = {
                "tool": result.name,
                "arguments": arguments[:MAX_ARGUMENTS_SHOWN],
                "code": result.code,
                "seconds": round(event.seconds, 3),
            }
            self.actions.append(action)

    def _update_items(self, data: dict[str, Any]) -> None:
        try:
            self.items = msgspec.convert(data.get("items"), list[dict[str, Any]])
        except msgspec.ValidationError:  # any plugin may write an event with this name
            return
        states = [item.get("status") for item in self.items]
        counted = [state for state in states if state not in ("cancelled", "skipped")]
        if counted:
            self._advance(counted.count("completed") / len(counted))

    def _advance(self, share: float) -> None:
        # Only a job's result may report a progress of 1.
        rounded = min(round(share, 3), 0.99)
        self.progress = max(self.progress, rounded)

    def show(self, text: str) -> None:
        """Append a chunk of the streamed answer."""
        self.answer += text
        self._add_output(self._splitter.add(text))

    def _add_output(self, chunks: list[Chunk]) -> None:
        for kind, text in chunks:
            _append(self._output, kind, text)

    def take_output(self) -> list[Chunk]:
        """Return the output added since the previous call."""
        output = self._output
        self._output = []
        return output
