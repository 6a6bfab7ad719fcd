"""Converts events of a session into lines of ``--output-format stream-json``.

See ``output`` for the lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hilum import events as ev
from hilum.messages import ToolCall

from hilum_cli import output
from hilum_cli.output import Line, arguments_of, tokens


def call_data(call: ToolCall) -> output.ToolCallData:
    """Convert a tool call."""
    arguments, invalid = arguments_of(call.arguments)
    return output.ToolCallData(
        id=call.id, name=call.name, arguments=arguments, invalid_arguments=invalid
    )


def delta_line(delta: ev.Delta) -> Line:
    """Convert a chunk of output."""
    return output.DeltaLine(
        seq=delta.seq,
        agent=delta.agent,
        run=delta.run,
        kind=delta.kind,
        text=delta.text,
        call_id=delta.call_id,
    )


def event_line(event: ev.Event, *, include_prompt: bool) -> Line | None:
    """Convert an event.

    Return ``None`` for the event that opens the session, whose line is written elsewhere.

    Args:
        event: The event.
        include_prompt: Whether the texts of the system prompt, of tools and of context are
            included.
    """
    where: dict[str, Any] = {
        "seq": event.seq,
        "at": event.at,
        "agent": event.agent,
        "run": event.run,
    }
    if isinstance(event, ev.SessionOpened):
        return None
    if isinstance(event, ev.RunStarted):
        return _run_started(event, where, include_prompt)
    if isinstance(event, ev.PromptFrozen):
        return _prompt_built(event, where, include_prompt)
    convert = _CONVERTERS.get(type(event))
    if convert is not None:
        return convert(event, where)
    data = msgspec.to_builtins(event)
    name = data.pop("type")
    for key in where:
        data.pop(key, None)
    # A new event of the kernel needs no new version of the schema.
    return output.PluginEventLine(name=f"kernel.{name}", data=data, **where)


def _run_started(event: ev.RunStarted, where: dict[str, Any], include_prompt: bool) -> Line:
    context = []
    # The first part is the prompt itself.
    for part in event.message.parts[1:]:
        text = getattr(part, "text", "")
        shown = text if include_prompt else ""
        context.append(output.ContextData(source=part.source, characters=len(text), text=shown))
    return output.RunStartedLine(
        text=event.text, model=event.model, mode=event.mode, context=context, retries="", **where
    )


def _run_retried(event: ev.RunRetried, where: dict[str, Any]) -> Line:
    return output.RunStartedLine(
        text="", model=event.model, mode=event.mode, context=[], retries=event.previous, **where
    )


def _prompt_built(event: ev.PromptFrozen, where: dict[str, Any], include_prompt: bool) -> Line:
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
    return output.PromptBuiltLine(
        cause=event.cause, mode=event.mode, model=event.model, layers=layers, tools=tools, **where
    )


def _session_changed(event: ev.SessionChanged, where: dict[str, Any]) -> Line:
    return output.SessionChangedLine(
        mode=event.mode, model=event.model, approve=event.approve, **where
    )


def _agent_started(event: ev.AgentStarted, where: dict[str, Any]) -> Line:
    return output.AgentStartedLine(parent=event.parent, **where)


def _model_started(event: ev.ModelStarted, where: dict[str, Any]) -> Line:
    return output.ModelStartedLine(
        model=event.model,
        turn=event.turn,
        attempt=event.attempt,
        estimated_tokens=event.estimate,
        **where,
    )


def _model_failed(event: ev.ModelFailed, where: dict[str, Any]) -> Line:
    return output.ModelFailedLine(
        model=event.model,
        attempt=event.attempt,
        code=event.code,
        message=event.message,
        hint=event.hint,
        action=event.action,
        wait=event.wait,
        next=event.next,
        **where,
    )


def _model_answered(event: ev.ModelAnswered, where: dict[str, Any]) -> Line:
    return output.ModelAnsweredLine(
        model=event.message.model,
        text=event.message.text,
        calls=[call_data(call) for call in event.message.calls],
        stop=event.message.stop,
        usage=tokens(event.usage),
        first=event.first,
        seconds=event.seconds,
        **where,
    )


def _model_used(event: ev.ModelUsed, where: dict[str, Any]) -> Line:
    return output.ModelUsedLine(
        model=event.model,
        purpose=event.purpose,
        usage=tokens(event.usage),
        seconds=event.seconds,
        **where,
    )


def _approval_asked(event: ev.ApprovalAsked, where: dict[str, Any]) -> Line:
    return output.ApprovalAskedLine(
        id=event.id,
        call=call_data(event.call),
        risk=event.risk,
        reason=event.reason,
        scope=event.scope,
        seconds=event.seconds,
        **where,
    )


def _approval_shown(event: ev.ApprovalShown, where: dict[str, Any]) -> Line:
    return output.ApprovalShownLine(id=event.id, deadline=event.deadline, **where)


def _approval_answered(event: ev.ApprovalAnswered, where: dict[str, Any]) -> Line:
    return output.ApprovalAnsweredLine(
        id=event.id,
        accepted=event.accepted,
        reason=event.reason,
        by=event.by,
        remember=event.remember,
        **where,
    )


def _call_started(event: ev.CallStarted, where: dict[str, Any]) -> Line:
    original = None
    if event.original is not None:
        original = call_data(msgspec.structs.replace(event.call, arguments=event.original))
    return output.CallStartedLine(
        call=call_data(event.call),
        risk=event.risk,
        plugin=event.plugin,
        original=original,
        rewritten_by=list(event.rewritten_by),
        **where,
    )


def _call_done(event: ev.CallDone, where: dict[str, Any]) -> Line:
    result = event.result
    return output.CallDoneLine(
        call_id=result.call_id,
        name=result.name,
        state="failed" if result.code else "completed",
        code=result.code,
        result=result.text,
        seconds=event.seconds,
        data=result.data,
        **where,
    )


def _notes(event: ev.RoundEnded, where: dict[str, Any]) -> Line:
    return output.NotesLine(
        notes=list(event.notes), objected=event.objected, shortened=list(event.shortened), **where
    )


def _compacted(event: ev.Compacted, where: dict[str, Any]) -> Line:
    return output.CompactedLine(
        cause=event.cause,
        before=event.before,
        removed=event.upto,
        shortened=len(event.thinned),
        summary=event.summary,
        **where,
    )


def _state_changed(event: ev.StateChanged, where: dict[str, Any]) -> Line:
    return output.StateChangedLine(state=event.state, previous=event.previous, **where)


def _user_needed(event: ev.UserNeeded, where: dict[str, Any]) -> Line:
    return output.UserNeededLine(code=event.code, message=event.message, **where)


def _error(event: ev.ErrorRaised, where: dict[str, Any]) -> Line:
    return output.ErrorLine(code=event.code, message=event.message, hint=event.hint, **where)


def _fault(event: ev.PluginFault, where: dict[str, Any]) -> Line:
    return output.FaultLine(
        plugin=event.plugin,
        hook=event.hook,
        error=event.error,
        switched_off=event.switched_off,
        **where,
    )


def _plugin_event(event: ev.PluginEvent, where: dict[str, Any]) -> Line:
    return output.PluginEventLine(name=event.name, data=event.data, **where)


def _run_ended(event: ev.RunEnded, where: dict[str, Any]) -> Line:
    return output.RunEndedLine(
        state=event.state,  # type: ignore[arg-type]  # a run ends in a final state
        text=event.text,
        commentary=event.commentary,
        done=event.done,
        code=event.code,
        error=event.error,
        hint=event.hint,
        left=event.left,
        turns=event.turns,
        seconds=event.seconds,
        usage=tokens(event.usage),
        **where,
    )


_CONVERTERS: dict[type[ev.Event], Callable[[Any, dict[str, Any]], Line]] = {
    ev.SessionChanged: _session_changed,
    ev.AgentStarted: _agent_started,
    ev.RunRetried: _run_retried,
    ev.ModelStarted: _model_started,
    ev.ModelFailed: _model_failed,
    ev.ModelAnswered: _model_answered,
    ev.ModelUsed: _model_used,
    ev.ApprovalAsked: _approval_asked,
    ev.ApprovalShown: _approval_shown,
    ev.ApprovalAnswered: _approval_answered,
    ev.CallStarted: _call_started,
    ev.CallDone: _call_done,
    ev.RoundEnded: _notes,
    ev.Compacted: _compacted,
    ev.StateChanged: _state_changed,
    ev.UserNeeded: _user_needed,
    ev.ErrorRaised: _error,
    ev.PluginFault: _fault,
    ev.PluginEvent: _plugin_event,
    ev.RunEnded: _run_ended,
}
