"""Converts events of a session into lines of ``--output-format stream-json``.

``output`` declares the lines. Some lines do not have the names of their events, because the
names in the output are part of a stable schema, whereas events may be renamed or split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hilum import events as ev
from hilum.messages import ToolCall, Usage

from hilum_cli import output
from hilum_cli.output import Line, arguments_of, tokens

_Fields = dict[str, Any]


def delta_line(delta: ev.Delta) -> Line:
    """Return the line for a chunk of output."""
    return _copy_fields(output.DeltaLine, delta, {"at": 0.0})


def event_line(event: ev.Event, *, include_prompt: bool) -> Line | None:
    """Return the line for an event.

    The result is ``None`` for the event that opens the session, because the face writes that line.

    Args:
        event: The event.
        include_prompt: Whether to include the texts of the system prompt, tools and context.
    """
    if isinstance(event, ev.SessionOpened):
        return None
    line = _LINES.get(type(event))
    if line is None:
        return _kernel_event_line(event)
    get_fields = _CONVERTED_FIELDS.get(type(event))
    if get_fields is None:
        return _copy_fields(line, event, {})
    return _copy_fields(line, event, get_fields(event, include_prompt))


def _copy_fields(line: type[Line], event: ev.Event | ev.Delta, converted: _Fields) -> Line:
    """Create a line from ``converted`` and from the event's fields with the same names."""
    fields = dict(converted)
    for name in line.__struct_fields__:
        if name not in fields:
            fields[name] = _convert(getattr(event, name))
    return line(**fields)


def _convert(value: Any) -> Any:
    """Convert the value of an event's field to the form used in lines."""
    if isinstance(value, ToolCall):
        return _call_data(value)
    if isinstance(value, Usage):
        return tokens(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _call_data(call: ToolCall) -> output.ToolCallData:
    arguments, invalid = arguments_of(call.arguments)
    return output.ToolCallData(
        id=call.id, name=call.name, arguments=arguments, invalid_arguments=invalid
    )


def _kernel_event_line(event: ev.Event) -> Line:
    """Return a ``plugin_event`` line named ``kernel.…`` for an event without a line of its own.

    A new kernel event therefore does not require a new version of the schema.
    """
    data = msgspec.to_builtins(event)
    name = f"kernel.{data.pop('type')}"
    for common in Line.__struct_fields__:
        data.pop(common, None)
    return _copy_fields(output.PluginEventLine, event, {"name": name, "data": data})


# --- fields of lines that an event has under another name, or in another form ---------------------


def _run_started(event: ev.RunStarted, include_prompt: bool) -> _Fields:
    context = []
    # The first part of a prompt is the user's text.
    for part in event.message.parts[1:]:
        text = getattr(part, "text", "")
        shown = text if include_prompt else ""
        context.append(output.ContextData(source=part.source, characters=len(text), text=shown))
    repeats = event.repeats.previous if event.repeats is not None else ""
    return {"context": context, "retries": "", "repeats": repeats}


def _run_retried(event: ev.RunRetried, include_prompt: bool) -> _Fields:
    return {"text": "", "context": [], "retries": event.previous, "repeats": ""}


def _prompt_built(event: ev.PromptFrozen, include_prompt: bool) -> _Fields:
    layers = []
    for layer in event.layers:
        text = layer.text if include_prompt else ""
        layers.append(output.Layer(name=layer.name, characters=len(layer.text), text=text))
    tools = []
    for spec in event.tools:
        description = spec.description if include_prompt else ""
        parameters = spec.parameters if include_prompt else {}
        tools.append(
            output.ToolData(name=spec.name, description=description, parameters=parameters)
        )
    return {"layers": layers, "tools": tools}


def _model_started(event: ev.ModelStarted, include_prompt: bool) -> _Fields:
    return {"estimated_tokens": event.estimate}


def _model_answered(event: ev.ModelAnswered, include_prompt: bool) -> _Fields:
    message = event.message
    calls = [_call_data(call) for call in message.calls]
    return {"model": message.model, "text": message.text, "calls": calls, "stop": message.stop}


def _call_started(event: ev.CallStarted, include_prompt: bool) -> _Fields:
    if event.original is None:
        return {"original": None}
    written = msgspec.structs.replace(event.call, arguments=event.original)
    return {"original": _call_data(written)}


def _call_done(event: ev.CallDone, include_prompt: bool) -> _Fields:
    result = event.result
    return {
        "call_id": result.call_id,
        "name": result.name,
        "state": "failed" if result.code else "completed",
        "code": result.code,
        "result": result.text,
        "data": result.data,
    }


def _round_ended(event: ev.RoundEnded, include_prompt: bool) -> _Fields:
    return {"shortened": list(event.shortened)}


def _compacted(event: ev.Compacted, include_prompt: bool) -> _Fields:
    return {"removed": event.upto, "shortened": len(event.thinned)}


_LINES: dict[type[ev.Event], type[Line]] = {
    ev.SessionChanged: output.SessionChangedLine,
    ev.AgentStarted: output.AgentStartedLine,
    ev.RunStarted: output.RunStartedLine,
    ev.RunRetried: output.RunStartedLine,
    ev.PromptFrozen: output.PromptBuiltLine,
    ev.ModelStarted: output.ModelStartedLine,
    ev.ModelFailed: output.ModelFailedLine,
    ev.ModelAnswered: output.ModelAnsweredLine,
    ev.ModelUsed: output.ModelUsedLine,
    ev.ApprovalAsked: output.ApprovalAskedLine,
    ev.ApprovalShown: output.ApprovalShownLine,
    ev.ApprovalAnswered: output.ApprovalAnsweredLine,
    ev.CallStarted: output.CallStartedLine,
    ev.CallDone: output.CallDoneLine,
    ev.RoundEnded: output.NotesLine,
    ev.Compacted: output.CompactedLine,
    ev.StateChanged: output.StateChangedLine,
    ev.UserNeeded: output.UserNeededLine,
    ev.ErrorRaised: output.ErrorLine,
    ev.PluginFault: output.FaultLine,
    ev.PluginEvent: output.PluginEventLine,
    ev.RunEnded: output.RunEndedLine,
}
_CONVERTED_FIELDS: dict[type[ev.Event], Callable[[Any, bool], _Fields]] = {
    ev.RunStarted: _run_started,
    ev.RunRetried: _run_retried,
    ev.PromptFrozen: _prompt_built,
    ev.ModelStarted: _model_started,
    ev.ModelAnswered: _model_answered,
    ev.CallStarted: _call_started,
    ev.CallDone: _call_done,
    ev.RoundEnded: _round_ended,
    ev.Compacted: _compacted,
}
