"""Content of spans: prompts, answers, arguments and results, in the form of the conventions.

All texts come from the log, so hilum has already removed the secrets that it detected.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hilum import events as ev
from hilum.events import Event
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall
from hilum_trace import Span

from hilum_otel import conventions as names
from hilum_otel.records import Attributes

Message = dict[str, Any]


class ContentCollector:
    """Collects the content of the spans that have not been exported.

    A model call's input contains the messages that are new since the agent's previous call. The
    whole conversation in each span would let the exported data grow with the square of its length.

    Args:
        limit: Maximum number of characters of each text.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spans: dict[int, Attributes] = {}
        # What the next model call of an agent will read, by the name of the agent.
        self._unread: dict[str, list[Message]] = {}
        self._prompts: dict[str, ev.PromptFrozen] = {}
        self._steering: dict[str, str] = {}

    def apply(self, event: Event, span: Span) -> None:
        """Collect the content of an event, which belongs to a span."""
        match event:
            case ev.RunStarted():
                message = self._text_message("user", event.message.request)
                self._add(span, names.INPUT_MESSAGES, [message])
                self._unread.setdefault(event.agent, []).append(message)
            case ev.SteeringQueued():
                self._steering[event.id] = event.text
            case ev.PromptFrozen():
                self._prompts[event.agent] = event
            case ev.RoundEnded():
                self._add_notes(event)
            case ev.ModelStarted():
                self._add_input(event, span)
            case ev.ModelAnswered():
                self._add(span, names.OUTPUT_MESSAGES, [self._answer(event.message)])
            case ev.ModelUsed():
                if event.asked:
                    asked = self._text_message("user", event.asked)
                    self._add(span, names.INPUT_MESSAGES, [asked])
                if event.message is not None:
                    self._add(span, names.OUTPUT_MESSAGES, [self._answer(event.message)])
            case ev.CallStarted():
                self._set(span, names.TOOL_ARGUMENTS, event.call.arguments)
            case ev.CallDone():
                self._add_result(event, span)
            case ev.RunEnded():
                self._end_run(event, span)
            case _:
                pass

    def take(self, span: Span) -> Attributes:
        """Return and forget the content of a span."""
        return self._spans.pop(span.id, {})

    def shorten(self, text: str) -> str:
        """Return the beginning of a text, with no more characters than the limit."""
        return text if len(text) <= self._limit else f"{text[: self._limit - 1]}…"

    def _end_run(self, event: ev.RunEnded, span: Span) -> None:
        if event.text:
            answer = self._text_message("assistant", event.text)
            answer["finish_reason"] = "stop"
            self._add(span, names.OUTPUT_MESSAGES, [answer])
        if event.agent != "main":
            # A sub-agent that was stopped never reads what it has not read.
            self._unread.pop(event.agent, None)
            self._prompts.pop(event.agent, None)

    def _add_notes(self, event: ev.RoundEnded) -> None:
        unread = self._unread.setdefault(event.agent, [])
        for note in event.notes:
            unread.append(self._text_message("system", note))
        for identity in event.steering:
            text = self._steering.pop(identity, "")
            if text:
                unread.append(self._text_message("user", text))

    def _add_input(self, event: ev.ModelStarted, span: Span) -> None:
        unread = self._unread.pop(event.agent, [])
        if unread:
            self._add(span, names.INPUT_MESSAGES, unread)
        prompt = self._prompts.pop(event.agent, None)
        if prompt is not None and prompt.layers:
            parts = [self._text_part(layer.text) for layer in prompt.layers]
            self._add(span, names.SYSTEM_INSTRUCTIONS, parts)
        if prompt is not None and prompt.tools:
            tools = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": self.shorten(tool.description),
                    "parameters": self._shorten_texts(tool.parameters),
                }
                for tool in prompt.tools
            ]
            self._add(span, names.TOOL_DEFINITIONS, tools)

    def _add_result(self, event: ev.CallDone, span: Span) -> None:
        text = self.shorten(event.result.text)
        self._set(span, names.TOOL_RESULT, text)
        part = {"type": "tool_call_response", "id": event.result.call_id, "response": text}
        message = {"role": "tool", "parts": [part]}
        self._unread.setdefault(event.agent, []).append(message)

    def _answer(self, message: AssistantMessage) -> Message:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, Text):
                parts.append(self._text_part(part.text))
            elif isinstance(part, Thinking) and part.text:
                parts.append({"type": "reasoning", "content": self.shorten(part.text)})
            elif isinstance(part, ToolCall):
                parts.append(
                    {
                        "type": "tool_call",
                        "id": part.id,
                        "name": part.name,
                        "arguments": self._parse(part.arguments),
                    }
                )
        reason = names.STOP_REASONS[message.stop]
        return {"role": "assistant", "parts": parts, "finish_reason": reason}

    def _parse(self, arguments: str) -> Any:
        """Return the arguments of a call as data; as text if they are long or invalid."""
        if len(arguments) > self._limit:
            return self.shorten(arguments)
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments

    def _shorten_texts(self, data: Any) -> Any:
        """Return plain data with shortened texts; the names of its fields stay as they are."""
        if isinstance(data, str):
            return self.shorten(data)
        if isinstance(data, dict):
            return {name: self._shorten_texts(value) for name, value in data.items()}
        if isinstance(data, list):
            return [self._shorten_texts(value) for value in data]
        return data

    def _text_part(self, text: str) -> dict[str, Any]:
        return {"type": "text", "content": self.shorten(text)}

    def _text_message(self, role: str, text: str) -> Message:
        return {"role": role, "parts": [self._text_part(text)]}

    def _set(self, span: Span, name: str, text: str) -> None:
        self._spans.setdefault(span.id, {})[name] = self.shorten(text)

    def _add(self, span: Span, name: str, items: list[dict[str, Any]]) -> None:
        # The attributes of spans cannot be nested, so the conventions have JSON texts instead.
        self._spans.setdefault(span.id, {})[name] = msgspec.json.encode(items).decode()
