"""The plugin instance of a session: exports what happens while the session runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import Session
from hilum import events as ev
from hilum.events import Event
from hilum_trace import Span, SpanFold

from hilum_otel import conventions as names
from hilum_otel.content import ContentCollector
from hilum_otel.log_entries import make_log_entry
from hilum_otel.records import Attributes
from hilum_otel.span_records import (
    find_exported,
    is_exported,
    make_key,
    make_model_attributes,
    make_record,
)
from hilum_otel.telemetry import Telemetry

if TYPE_CHECKING:
    from hilum_otel.pipeline import Pipeline

# How often failed exports are looked for, besides the ends of runs.
REPORT_SECONDS = 5.0
# Events of a resumed session that are read without giving other tasks a turn.
_EVENTS_PER_STEP = 50


class SessionExport:
    """Reads the events of a session, and exports each span when it ends.

    Events from before the session was opened only rebuild the spans that are still open, because
    the process that wrote the events has exported the others.
    """

    def __init__(self, session: Session, telemetry: Telemetry) -> None:
        self._session = session
        self._telemetry = telemetry
        self._pipeline: Pipeline | None = None
        self._live_after = session.journal.last
        self._seq = 0
        # Spans that were exported are not needed any more, and a session may last for weeks.
        self._fold = SpanFold(forget=True)
        self._known = 0
        self._open: dict[int, Span] = {}
        # By id, the last two runs of each agent: a run may continue the one before.
        self._runs: dict[str, Span] = {}
        self._response_models: dict[int, str] = {}
        settings = telemetry.settings
        self._content = ContentCollector(settings.content_limit) if settings.content else None

    async def run(self) -> None:
        """Export until the session closes or this task is cancelled."""
        self._pipeline = await self._telemetry.load()
        if self._pipeline is None:
            self._report_failures()
            return
        async for event in self._session.events():
            assert isinstance(event, Event)
            self._apply(event)
            if self._seq % _EVENTS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()

    async def finish(self) -> None:
        """Export the events that have not been read, at the end of the session."""
        with trio.move_on_after(self._telemetry.settings.flush_timeout):
            # A session may be shorter than the import of the SDK.
            self._pipeline = await self._telemetry.load()
            if self._pipeline is None:
                self._report_failures()
                return
            while events := self._session.journal.durable_since(self._seq):
                for event in events:
                    self._apply(event)
                await trio.lowlevel.checkpoint()
        # An export may have failed since the last run.
        self._report_failures()

    async def watch(self) -> None:
        """Report failed exports while the session is idle, until this task is cancelled."""
        while True:
            await trio.sleep(REPORT_SECONDS)
            self._report_failures()

    def _apply(self, event: Event) -> None:
        self._seq = event.seq
        owner = self._fold.apply(event)
        # A long session has millions of events, whose numbers no exported span contains.
        owner.events.clear()
        trace = self._fold.trace
        for span in trace.spans[self._known :]:
            if is_exported(span):
                self._open[span.id] = span
            if span.kind == "run":
                self._add_run(span)
        self._known = len(trace.spans)
        if self._content is not None:
            self._content.apply(event, owner)
        if isinstance(event, ev.ModelAnswered) and event.message.model:
            self._response_models[owner.id] = event.message.model
        is_live = event.seq > self._live_after
        ended = [span for span in self._open.values() if span.end is not None]
        for span in ended:
            del self._open[span.id]
            content: Attributes = {}
            message = ""
            if self._content is not None:
                content = self._content.take(span)
                message = self._content.shorten(span.message)
            if is_live:
                self._export(span, content, message)
            _forget_details(span)
        if is_live:
            self._export_log(event, owner)
            if isinstance(event, ev.RunEnded):
                self._report_failures()

    def _add_run(self, run: Span) -> None:
        earlier = [known for known in self._runs.values() if known.agent == run.agent]
        for known in earlier[:-1]:
            del self._runs[known.run]
        self._runs[run.run] = run

    def _export(self, span: Span, content: Attributes, message: str) -> None:
        assert self._pipeline is not None
        record = make_record(
            self._fold.trace,
            span,
            self._runs,
            tools=self._session.tools,
            content=content,
            message=message,
        )
        answered_by = self._response_models.pop(span.id, "")
        if answered_by:
            record.attributes[names.RESPONSE_MODEL] = names.split_model(answered_by)[1]
        self._pipeline.export_span(record)
        self._record_metrics(span, record.attributes)

    def _record_metrics(self, span: Span, attributes: Attributes) -> None:
        match span.kind:
            case "model" | "plugin_model":
                self._record_inference(span, attributes)
            case "run":
                self._record_operation(names.INVOKE_AGENT_DURATION, span, attributes)
            case "tool":
                self._record_operation(names.EXECUTE_TOOL_DURATION, span, attributes)
            case _:
                pass

    def _record_inference(self, span: Span, attributes: Attributes) -> None:
        assert self._pipeline is not None
        record = self._pipeline.record
        shared = make_model_attributes(span)
        if names.RESPONSE_MODEL in attributes:
            shared[names.RESPONSE_MODEL] = attributes[names.RESPONSE_MODEL]
        record(names.INFERENCE_DURATION, span.seconds, shared)
        record(names.OPERATION_DURATION, span.seconds, shared)
        usage = span.usage
        if usage.total:
            record(names.TOKEN_USAGE, usage.input, {**shared, names.TOKEN_TYPE: "input"})
            record(names.TOKEN_USAGE, usage.output, {**shared, names.TOKEN_TYPE: "output"})
        # The conventions have no errors in the metrics that follow. Providers do not tell which of
        # the tokens are images.
        shared.pop(names.ERROR_TYPE, None)
        if "model" in span.waits:
            record(names.INFERENCE_FIRST_CHUNK, span.waits["model"], shared)
            record(names.OPERATION_FIRST_CHUNK, span.waits["model"], shared)
        shared[names.TOKEN_MODALITY] = "unknown"
        record(names.INFERENCE_INPUT_TOKENS, usage.input, shared)
        record(names.INFERENCE_OUTPUT_TOKENS, usage.output, shared)
        parts = {
            names.INFERENCE_CACHE_READ_TOKENS: usage.cached,
            names.INFERENCE_CACHE_WRITE_TOKENS: usage.cache_write,
            names.INFERENCE_REASONING_TOKENS: usage.reasoning,
        }
        for metric, count in parts.items():
            if count:
                record(metric, count, shared)

    def _record_operation(self, metric: str, span: Span, attributes: Attributes) -> None:
        assert self._pipeline is not None
        # An agent's model can change, so the conventions do not want it here.
        kept = [names.OPERATION, names.AGENT_NAME, names.TOOL_NAME, names.TOOL_TYPE]
        kept.append(names.ERROR_TYPE)
        shared = {name: attributes[name] for name in kept if name in attributes}
        self._pipeline.record(metric, span.seconds, shared)

    def _export_log(self, event: Event, owner: Span) -> None:
        assert self._pipeline is not None
        entry = make_log_entry(event, self._session.id, self._content)
        if entry is None:
            return
        place = find_exported(self._fold.trace, owner)
        if place is not None:
            entry.span = make_key(self._fold.trace, place)
        self._pipeline.export_log(entry)

    def _report_failures(self) -> None:
        """Show the user why exports fail, once for all sessions of the process."""
        if self._session.journal.closed or self._session.journal.broken:
            return
        for failure in self._telemetry.take_failures():
            error = ev.ErrorRaised(
                code="E_FAILED",
                message=failure,
                hint="Check the settings of [otel]; nothing else is affected.",
            )
            self._session.emit(error)


def _forget_details(span: Span) -> None:
    """Remove what only the export of the span itself needs, because a session can last for weeks."""
    span.attempts = []
    span.breaks = []
    span.facts = {}
    span.message = ""
    span.waits = {}
