"""The SDK of OpenTelemetry. This is the only module that imports it, which takes 0.2 seconds.

Only ``closers`` wait for the network: the SDK queues what it is given, and threads of the SDK export
it. A full queue drops the oldest.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hilum import __version__
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Histogram
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.util.re import parse_env_headers

from hilum_otel import conventions as names
from hilum_otel.records import Attributes, LogEntry, SpanKey, SpanRecord
from hilum_otel.settings import OtelSettings
from hilum_otel.stoppable_session import StoppableSession

_SCOPE = "hilum"
_NANOSECONDS = 1_000_000_000
_SEVERITIES = {
    "INFO": SeverityNumber.INFO,
    "WARN": SeverityNumber.WARN,
    "ERROR": SeverityNumber.ERROR,
}
_MAX_FAILURE = 300  # characters
_QUEUE_SIZE = 2048  # the default of the SDK
# A span with content can have 100,000 characters, and an export makes several copies of a batch.
# Collectors refuse requests of more than 20 MB.
_QUEUE_SIZE_WITH_CONTENT = 512
_BATCH_SIZE_WITH_CONTENT = 64
# Traces whose sampling is remembered. A trace is a prompt, so the others have ended long ago.
_MAX_SAMPLED = 1000

Headers = Mapping[str, str] | None


class _GivenIds(IdGenerator):
    """Returns the ids of the span that is about to be created."""

    def __init__(self) -> None:
        self.next = SpanKey(1, 1)

    def generate_trace_id(self) -> int:
        return self.next.trace

    def generate_span_id(self) -> int:
        return self.next.span


class _FailureHandler(logging.Handler):
    """Keeps the SDK's messages about failed exports, by thread.

    Without a handler, Python would print the messages into the user's terminal. The handler is never
    removed, because threads that were abandoned when hilum closed may still fail.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        # The last message says that the export failed, and only the one before says why.
        texts = getattr(self._thread, "texts", [])
        self._thread.texts = [" ".join(record.getMessage().split()), *texts][:2]

    def take(self) -> str:
        """Return and forget the messages of the thread that calls."""
        texts = getattr(self._thread, "texts", [])
        self._thread.texts = []
        return " ".join(texts)[:_MAX_FAILURE]


_FAILURES = _FailureHandler()
logging.getLogger("opentelemetry").addHandler(_FAILURES)
Report = Callable[[bool, str], None]


class _Queue:
    """Counts what is put into a queue of the SDK and taken from it, to know what was dropped.

    The SDK itself only writes a message, and not each time.

    Args:
        size: Number of items that the queue can contain.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.dropped = 0
        # Each is changed by one thread only.
        self._added = 0
        self._taken = 0

    def add(self) -> None:
        """Count an item that was put into the queue."""
        self._added += 1
        self.dropped = max(self.dropped, self._added - self._taken - self.size)

    def take(self, count: int) -> None:
        """Count items that the SDK's thread took from the queue."""
        self._taken += count


class _ReportingExporter:
    """Reports whether each export succeeded, in the thread of the export.

    It comes before an exporter of the SDK in the bases of a class. The exporters name and type what
    they export differently, and always pass it as the first argument.
    """

    def __init__(
        self, report: Report, endpoint: str | None, headers: Headers, queue: _Queue | None = None
    ) -> None:
        self._http_session = _make_session()
        super().__init__(endpoint=endpoint, headers=headers, session=self._http_session)  # type: ignore[call-arg]
        self._report = report
        self._queue = queue

    def export(self, batch: Any, *options: Any, **named_options: Any) -> Any:
        if self._queue is not None:
            self._queue.take(len(batch))
        result = super().export(batch, *options, **named_options)  # type: ignore[misc]
        # The enumerations of the three signals have the same names.
        failure = "" if self._http_session is None else self._http_session.failure
        self._report(result.name == "SUCCESS", failure)
        return result


class _SpanExporter(_ReportingExporter, OTLPSpanExporter):  # type: ignore[misc]
    pass


class _MetricExporter(_ReportingExporter, OTLPMetricExporter):  # type: ignore[misc]
    pass


class _LogExporter(_ReportingExporter, OTLPLogExporter):
    pass


class Pipeline:
    """Exports records with the SDK.

    Attributes:
        failure: Why the last failed export failed; empty if none failed.
        has_failed: Set when an export has failed.
        closers: Functions that export what is queued of each signal, and end the threads of the
            SDK. They block while the endpoint is slow, until ``stop`` is called.

    Args:
        settings: The settings; the SDK itself reads the ``OTEL_…`` variables.
        environ: The environment.

    Raises:
        ValueError: A variable or the headers are invalid.
    """

    def __init__(self, settings: OtelSettings, environ: Mapping[str, str]) -> None:
        self.failure = ""
        self.has_failed = threading.Event()
        self.closers: list[Callable[[], None]] = []
        self._exporters: list[OTLPSpanExporter | OTLPMetricExporter | OTLPLogExporter] = []
        self._ids = _GivenIds()
        self._sampled: dict[int, bool] = {}
        # The queues of the signals that are exported.
        self._span_queue: _Queue | None = None
        self._log_queue: _Queue | None = None
        try:
            self._start(settings, environ)
        except BaseException:
            # The signals before the one that failed have threads already.
            self.stop()
            for close in self.closers:
                close()
            raise

    def _start(self, settings: OtelSettings, environ: Mapping[str, str]) -> None:
        resource = _make_resource(environ)
        base = settings.endpoint.rstrip("/")
        headers = parse_env_headers(settings.headers, liberal=True) or None
        traces_url, metrics_url, logs_url = (
            f"{base}/v1/{signal}" if base else None for signal in ("traces", "metrics", "logs")
        )
        size = _QUEUE_SIZE_WITH_CONTENT if settings.content else _QUEUE_SIZE
        # The exit handlers of the SDK would wait for a dead endpoint when Python ends.
        self._tracers = TracerProvider(
            resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        if settings.traces and environ.get("OTEL_TRACES_EXPORTER") != "none":
            queue = _Queue(_read_size(environ, "OTEL_BSP_MAX_QUEUE_SIZE", size))
            self._span_queue = queue
            spans = _SpanExporter(self._report, traces_url, headers, queue)
            self._exporters.append(spans)
            # Without a size, the SDK reads the variable.
            batch_size = None
            if settings.content and not environ.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"):
                batch_size = min(_BATCH_SIZE_WITH_CONTENT, queue.size)
            span_processor = BatchSpanProcessor(
                spans, max_queue_size=queue.size, max_export_batch_size=batch_size
            )
            self.closers.append(span_processor.shutdown)
            self._tracers.add_span_processor(span_processor)
        readers: list[MetricReader] = []
        if settings.metrics and environ.get("OTEL_METRICS_EXPORTER") != "none":
            metrics = _MetricExporter(self._report, metrics_url, headers)
            self._exporters.append(metrics)
            reader = PeriodicExportingMetricReader(metrics)
            self.closers.append(reader.shutdown)
            readers.append(reader)
        self._meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self._loggers = LoggerProvider(resource, shutdown_on_exit=False)
        if settings.logs and environ.get("OTEL_LOGS_EXPORTER") != "none":
            queue = _Queue(_read_size(environ, "OTEL_BLRP_MAX_QUEUE_SIZE", size))
            self._log_queue = queue
            logs = _LogExporter(self._report, logs_url, headers, queue)
            self._exporters.append(logs)
            log_processor = BatchLogRecordProcessor(logs, max_queue_size=queue.size)
            self.closers.append(log_processor.shutdown)
            self._loggers.add_log_record_processor(log_processor)
        self._tracer = self._tracers.get_tracer(_SCOPE, __version__)
        self._log = self._loggers.get_logger(_SCOPE, __version__)
        self._create_instruments()

    def stop(self) -> None:
        """End the exports and the waits between their attempts, without blocking.

        What is queued is lost. The threads of the SDK end once ``closers`` have been called.
        """
        for exporter in self._exporters:
            exporter.shutdown()

    def _report(self, is_exported: bool, reason: str) -> None:
        text = _FAILURES.take()
        if not is_exported:
            self.failure = reason or text or "The export failed."
            self.has_failed.set()

    def _create_instruments(self) -> None:
        meter = self._meters.get_meter(_SCOPE, __version__)
        self._histograms: dict[str, Histogram] = {}

        def seconds(
            name: str, description: str, buckets: Sequence[float] = names.SECONDS_BUCKETS
        ) -> None:
            self._histograms[name] = meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=buckets
            )

        seconds(names.INFERENCE_DURATION, "Duration of a model call, with its retries.")
        seconds(names.INFERENCE_FIRST_CHUNK, "Time to the first chunk of a response.")
        seconds(names.OPERATION_DURATION, "Duration of an operation.")
        seconds(names.OPERATION_FIRST_CHUNK, "Time to the first chunk of a response.")
        seconds(
            names.INVOKE_AGENT_DURATION,
            "Duration of a run of an agent.",
            names.AGENT_SECONDS_BUCKETS,
        )
        seconds(names.EXECUTE_TOOL_DURATION, "Duration of a tool call.")
        self._histograms[names.TOKEN_USAGE] = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens of a model call.",
            explicit_bucket_boundaries_advisory=names.TOKENS_BUCKETS,
        )
        counters = {
            names.INFERENCE_INPUT_TOKENS: "Number of input tokens.",
            names.INFERENCE_OUTPUT_TOKENS: "Number of output tokens.",
            names.INFERENCE_CACHE_READ_TOKENS: "Number of input tokens read from the cache.",
            names.INFERENCE_CACHE_WRITE_TOKENS: "Number of input tokens written to the cache.",
            names.INFERENCE_REASONING_TOKENS: "Number of output tokens used for reasoning.",
        }
        self._counters = {
            name: meter.create_counter(name, "{token}", description)
            for name, description in counters.items()
        }

    def record(self, metric: str, value: float, attributes: Attributes) -> None:
        """Record a value of a metric."""
        if metric in self._counters:
            self._counters[metric].add(value, attributes)
        else:
            self._histograms[metric].record(value, attributes)

    def export_span(self, record: SpanRecord) -> None:
        """Queue a span, unless the sampler that ``OTEL_TRACES_SAMPLER`` names drops its trace."""
        if self._span_queue is None or not self._is_sampled(record.key.trace, record.name):
            return
        self._ids.next = record.key
        span = self._tracer.start_span(
            record.name,
            context=_make_context(record.parent),
            kind=SpanKind.CLIENT if record.is_client else SpanKind.INTERNAL,
            attributes=record.attributes,
            links=[Link(_make_span_context(key)) for key in record.links],
            start_time=_nanoseconds(record.start),
        )
        for name, at, attributes in record.events:
            span.add_event(name, attributes, _nanoseconds(at))
        if record.error:
            span.set_status(Status(StatusCode.ERROR, record.message or record.error))
        is_queued = span.is_recording()  # a sampler may also drop a single span
        span.end(_nanoseconds(record.end))
        if is_queued:
            self._span_queue.add()

    def _is_sampled(self, trace: int, name: str) -> bool:
        """Return the decision for a whole trace: children are exported before their parents."""
        known = self._sampled.get(trace)
        if known is None:
            result = self._tracers.sampler.should_sample(None, trace, name)
            known = result.decision is not Decision.DROP
            if len(self._sampled) >= _MAX_SAMPLED:
                del self._sampled[next(iter(self._sampled))]
            self._sampled[trace] = known
        return known

    def export_log(self, entry: LogEntry) -> None:
        """Queue a log record."""
        if self._log_queue is None:
            return
        self._log.emit(
            LogRecord(
                timestamp=_nanoseconds(entry.at),
                context=_make_context(entry.span),
                severity_text=entry.severity,
                severity_number=_SEVERITIES[entry.severity],
                body=entry.body,
                attributes=entry.attributes,
                event_name=entry.name,
            )
        )
        self._log_queue.add()

    @property
    def dropped(self) -> int:
        """Number of spans and log records that did not fit into the queues."""
        queues = (self._span_queue, self._log_queue)
        return sum(queue.dropped for queue in queues if queue is not None)


def _read_size(environ: Mapping[str, str], name: str, default: int) -> int:
    """Return the size of a queue; the default if the variable is no number, as in the SDK."""
    try:
        return int(environ.get(name, ""))
    except ValueError:
        return default


def _make_session() -> StoppableSession | None:
    """Return the HTTP client of an exporter, unless a variable names another."""
    # The exporter uses the session of a credential provider only if it is given none.
    if any(name.endswith("_CREDENTIAL_PROVIDER") for name in os.environ):
        return None
    return StoppableSession()


def _make_resource(environ: Mapping[str, str]) -> Resource:
    attributes = {"service.version": __version__}
    # Explicit attributes would override those of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
    chosen = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in chosen:
        attributes["service.name"] = "hilum"
    return Resource.create(attributes)


def _nanoseconds(at: float) -> int:
    return int(at * _NANOSECONDS)


def _make_span_context(key: SpanKey) -> SpanContext:
    return SpanContext(key.trace, key.span, is_remote=True, trace_flags=TraceFlags(1))


def _make_context(key: SpanKey | None) -> Context:
    """Return a context with a span, or an empty one, so that the caller's context is not used."""
    if key is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(_make_span_context(key)), Context())
