"""An OTLP/HTTP receiver on the loopback interface, which decodes what it receives."""

import gzip
import ssl
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trio
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

SERVICES = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}


def read_value(value):
    """Return an attribute's value."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [read_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


def read_attributes(pairs):
    """Return attributes as a mapping."""
    return {pair.key: read_value(pair.value) for pair in pairs}


class Received:
    """What a receiver received.

    Attributes:
        requests: Paths and headers.
        status: The status of the responses.
    """

    def __init__(self):
        self.requests = []
        self.messages = []
        self.raw = b""
        self.status = 200
        self.url = ""
        self.arrived = threading.Condition()

    def _of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]

    @property
    def resources(self):
        found = [r for m in self._of(ExportTraceServiceRequest) for r in m.resource_spans]
        return [read_attributes(each.resource.attributes) for each in found]

    @property
    def spans(self):
        resources = [r for m in self._of(ExportTraceServiceRequest) for r in m.resource_spans]
        return [span for r in resources for scope in r.scope_spans for span in scope.spans]

    @property
    def metrics(self):
        resources = [r for m in self._of(ExportMetricsServiceRequest) for r in m.resource_metrics]
        found = [metric for r in resources for scope in r.scope_metrics for metric in scope.metrics]
        return {metric.name: metric for metric in found}

    @property
    def logs(self):
        resources = [r for m in self._of(ExportLogsServiceRequest) for r in m.resource_logs]
        return [log for r in resources for scope in r.scope_logs for log in scope.log_records]

    async def wait_for_span(self, name):
        """Wait until a span of a name was received."""

        def has_arrived():
            return any(span.name == name for span in self.spans)

        def wait():
            with self.arrived:
                return self.arrived.wait_for(has_arrived, timeout=20)

        assert await trio.to_thread.run_sync(wait)

    def named(self, name):
        """Return the only span of a name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span


@contextmanager
def receive(status=200, headers=(), certificate=None):
    """Yield what a receiver receives; its URL is ``url``.

    ``headers`` are further headers of its responses, as pairs. With a ``certificate`` of trustme, the
    receiver speaks TLS.
    """
    received = Received()
    received.status = status

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request, response = SERVICES[self.path]
            message = request()
            message.ParseFromString(body)
            with received.arrived:
                received.requests.append((self.path, dict(self.headers)))
                if received.status == 200:
                    received.messages.append(message)
                    received.raw += body
                    received.arrived.notify_all()
            answer = response().SerializeToString()
            self.send_response(received.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def handle(self):
            # A client that does not trust the certificate ends the connection.
            with suppress(ssl.SSLError, ConnectionError):
                super().handle()

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def get_request(self):
            client, address = super().get_request()
            if context is None:
                return client, address
            try:
                # Of a client that is gone already, Python would leave a socket open.
                client.getpeername()
                return context.wrap_socket(client, server_side=True), address
            except OSError:
                client.close()
                raise

    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(context)
    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http" if context is None else "https"
        received.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
