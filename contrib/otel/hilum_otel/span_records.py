"""Converts the spans of ``hilum_trace`` to the spans of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Container, Mapping

from hilum_trace import Span, Trace

from hilum_otel import conventions as names
from hilum_otel.records import Attributes, SpanKey, SpanRecord, make_id

# A session can last for weeks, and turns, queues and orders have no counterpart in the conventions.
# Their children become children of the span around them.
_LEFT_OUT = frozenset({"session", "agent", "queue", "turn", "order"})
_OPERATIONS = {
    "run": names.INVOKE_AGENT,
    "model": names.CHAT,
    "plugin_model": names.CHAT,
    "tool": names.EXECUTE_TOOL,
}


def is_exported(span: Span) -> bool:
    """Return whether a span is exported."""
    return span.kind not in _LEFT_OUT


def find_exported(trace: Trace, span: Span) -> Span | None:
    """Return a span, or the nearest span around it that is exported; ``None`` if there is none."""
    found: Span | None = span
    while found is not None and not is_exported(found):
        found = _parent(trace, found)
    return found


def make_key(trace: Trace, span: Span) -> SpanKey:
    """Return the ids of a span.

    All spans of a prompt are one trace, with the runs of sub-agents and with what happens while the
    prompt is queued. The ids depend on the session,
    the run and the position in the log, so that a resumed session continues its traces.
    """
    outermost = span
    ancestor: Span | None = span
    while ancestor is not None:
        if ancestor.kind in ("run", "queue"):
            outermost = ancestor
        ancestor = _parent(trace, ancestor)
    prompt = outermost.run or f"span {outermost.id}"
    return SpanKey(
        make_id(f"{trace.session}/{prompt}", 16), make_id(f"{trace.session}/{span.id}", 8)
    )


def make_record(
    trace: Trace,
    span: Span,
    runs: Mapping[str, Span],
    *,
    tools: Container[str],
    content: Attributes,
    message: str,
) -> SpanRecord:
    """Return the record of an ended span.

    Args:
        runs: The runs so far, by id.
        tools: Names of the session's tools.
        content: The content of the span; empty if no content is exported.
        message: The text of its error; empty if no content is exported.
    """
    around = _parent(trace, span)
    parent = None if around is None else find_exported(trace, around)
    tool = _find_tool_name(span, tools)
    record = SpanRecord(
        key=make_key(trace, span),
        name=_make_name(span, tool),
        start=span.start,
        end=span.start + span.seconds,
        attributes=_make_attributes(trace, span, tool),
        parent=None if parent is None else make_key(trace, parent),
        is_client=span.kind in ("model", "plugin_model"),
        error=span.error,
        message=message,
    )
    record.attributes.update(content)
    for attempt in span.attempts:
        if attempt.error and attempt.end is not None:
            failed: Attributes = {
                names.ERROR_TYPE: attempt.error,
                names.REQUEST_MODEL: names.split_model(attempt.model)[1],
                "hilum.action": attempt.action,
                "hilum.wait": attempt.wait,
            }
            record.events.append(("hilum.model_failed", attempt.end, failed))
    previous = runs.get(span.facts.get("previous", "")) if span.kind == "run" else None
    if previous is not None:
        record.links.append(make_key(trace, previous))
    return record


def make_model_attributes(span: Span) -> Attributes:
    """Return the attributes of a model call that metrics also have."""
    # A plugin's call is named after its purpose.
    model = span.facts.get("model", "") if span.kind == "plugin_model" else span.name
    provider, name = names.split_model(model)
    attributes: Attributes = {
        names.OPERATION: names.CHAT,
        names.PROVIDER: provider,
        names.REQUEST_MODEL: name,
    }
    if span.error:
        attributes[names.ERROR_TYPE] = span.error
    return attributes


def _parent(trace: Trace, span: Span) -> Span | None:
    return None if span.parent is None else trace.spans[span.parent]


def _find_tool_name(span: Span, tools: Container[str]) -> str:
    """Return the name of a call's tool, if the tool exists.

    A model can call anything. Only names of tools are no content.
    """
    has_started = "plugin" in span.facts
    return span.name if has_started or span.name in tools else "unknown"


def _make_name(span: Span, tool: str) -> str:
    match span.kind:
        case "run":
            return f"{names.INVOKE_AGENT} {names.general_name(span.agent)}"
        case "model" | "plugin_model":
            return f"{names.CHAT} {make_model_attributes(span)[names.REQUEST_MODEL]}"
        case "tool":
            return f"{names.EXECUTE_TOOL} {tool}"
        case "approval":
            return f"{span.kind} {tool}"
        case "question":
            return span.kind  # its name is what the agent asks, which is content
        case _:
            return f"{span.kind} {span.name}"


def _make_attributes(trace: Trace, span: Span, tool: str) -> Attributes:
    attributes: Attributes = {names.CONVERSATION: trace.session, "hilum.kind": span.kind}
    if span.kind in _OPERATIONS:
        attributes[names.OPERATION] = _OPERATIONS[span.kind]
    if span.agent:
        attributes[names.AGENT_NAME] = names.general_name(span.agent)
        attributes["hilum.agent"] = span.agent
    if span.run:
        attributes["hilum.run"] = span.run
    if span.error:
        attributes[names.ERROR_TYPE] = span.error
    for wait, seconds in span.waits.items():
        attributes[f"hilum.wait.{wait}"] = seconds
    facts = span.facts
    match span.kind:
        case "run":
            provider, model = names.split_model(facts.get("model", ""))
            if model:
                attributes[names.PROVIDER] = provider
                attributes[names.REQUEST_MODEL] = model
            _copy(facts, attributes, "mode", "state", "turns")
        case "model" | "plugin_model":
            attributes.update(make_model_attributes(span))
            _add_usage(span, attributes)
            _copy(facts, attributes, "turn", "purpose")
        case "tool":
            attributes[names.TOOL_NAME] = tool
            attributes[names.TOOL_TYPE] = "function"
            attributes[names.TOOL_CALL_ID] = facts.get("call", "")
            _copy(facts, attributes, "plugin", "risk")
        case "approval":
            _copy(facts, attributes, "risk", "accepted", "by")
        case "compaction":
            _copy(facts, attributes, "before", "summarized", "thinned")
        case "hook":
            _copy(facts, attributes, "plugin")
        case _:
            pass
    return attributes


def _add_usage(span: Span, attributes: Attributes) -> None:
    usage = span.usage
    attributes[names.REQUEST_STREAM] = True
    attributes[names.INPUT_TOKENS] = usage.input
    attributes[names.OUTPUT_TOKENS] = usage.output
    optional = {
        names.CACHE_READ_TOKENS: usage.cached,
        names.CACHE_WRITE_TOKENS: usage.cache_write,
        names.REASONING_TOKENS: usage.reasoning,
    }
    for name, count in optional.items():
        if count:
            attributes[name] = count
    if usage.cost is not None:
        attributes["hilum.cost_usd"] = usage.cost
    if "model" in span.waits:
        attributes[names.TIME_TO_FIRST_CHUNK] = span.waits["model"]
    if span.facts.get("stop") in names.STOP_REASONS:
        attributes[names.FINISH_REASONS] = [names.STOP_REASONS[span.facts["stop"]]]
    elif span.error:
        attributes[names.FINISH_REASONS] = ["error"]
    if span.retries:
        attributes["hilum.retries"] = span.retries
    if span.breaks:
        attributes["hilum.prefix_breaks"] = [known.cause for known in span.breaks]


def _copy(facts: Mapping[str, object], attributes: Attributes, *keys: str) -> None:
    for key in keys:
        value = facts.get(key)
        if isinstance(value, str | bool | int | float):
            attributes[f"hilum.{key}"] = value
