"""Converts errors and notices to log records."""

from __future__ import annotations

from hilum import events as ev
from hilum.events import Event

from hilum_otel import conventions as names
from hilum_otel.content import ContentCollector
from hilum_otel.records import Attributes, LogEntry


def make_log_entry(event: Event, session: str, content: ContentCollector | None) -> LogEntry | None:
    """Return the log record of an event; ``None`` if the event is no error and no notice.

    Args:
        session: Id of the session.
        content: Shortens the event's texts; ``None`` if the record must not contain them. Error
            texts can quote files, prompts and responses.
    """
    entry = _make_entry(event, content)
    if entry is None:
        return None
    entry.attributes[names.CONVERSATION] = session
    if event.agent:
        entry.attributes[names.AGENT_NAME] = names.general_name(event.agent)
        entry.attributes["hilum.agent"] = event.agent
    if event.run:
        entry.attributes["hilum.run"] = event.run
    return entry


def _make_entry(event: Event, content: ContentCollector | None) -> LogEntry | None:
    entry = LogEntry("", "ERROR", "", event.at, {})
    attributes = entry.attributes
    text = ""
    match event:
        case ev.ErrorRaised():
            entry.name = "hilum.error_raised"
            entry.body = "An error occurred."
            attributes[names.ERROR_TYPE] = event.code
            text = event.message
        case ev.UserNeeded():
            entry.name = "hilum.user_needed"
            entry.severity = "WARN"
            entry.body = "The user must solve a problem."
            attributes[names.ERROR_TYPE] = event.code
            text = event.message
        case ev.PluginFault():
            entry.name = "hilum.plugin_fault"
            entry.body = f"The plugin {event.plugin} failed in {event.hook}."
            attributes[names.ERROR_TYPE] = "E_PLUGIN"
            attributes["hilum.plugin"] = event.plugin
            attributes["hilum.switched_off"] = event.switched_off
            text = event.error
        case ev.ModelFailed():
            entry.name = "hilum.model_failed"
            entry.severity = "ERROR" if event.action == "give_up" else "WARN"
            entry.body = f"A request to the model {event.model} failed."
            attributes[names.ERROR_TYPE] = event.code
            attributes["hilum.action"] = event.action
            text = event.message
        case ev.RunEnded() if event.state != "completed":
            entry.name = "hilum.run_ended"
            entry.severity = "INFO" if event.state == "stopped" else "ERROR"
            entry.body = f"The run ended as {event.state}."
            attributes[names.ERROR_TYPE] = event.code or event.state
            text = event.error
        case ev.ApprovalAnswered():
            entry.name = "hilum.approval_answered"
            entry.severity = "INFO"
            verdict = "approved" if event.accepted else "rejected"
            entry.body = f"A call was {verdict} by {event.by}."
            text = event.reason
        case ev.Compacted():
            entry.name = "hilum.compacted"
            entry.severity = "INFO"
            entry.body = f"The conversation of about {event.before} tokens was compacted."
            attributes["hilum.cause"] = event.cause
        case ev.SessionChanged():
            entry.name = "hilum.session_changed"
            entry.severity = "INFO"
            entry.body = "The mode, model or approval policy was changed."
            _add_changes(event, attributes)
        case _:
            return None
    if content is not None and text:
        entry.body = content.shorten(text)
    return entry


def _add_changes(event: ev.SessionChanged, attributes: Attributes) -> None:
    for name in ("mode", "model", "approve"):
        value = getattr(event, name)
        if value is not None:
            attributes[f"hilum.{name}"] = value
