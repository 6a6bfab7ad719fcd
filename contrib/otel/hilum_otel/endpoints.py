"""Checks where telemetry goes, before the SDK fails with a message that explains nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from hilum_otel.settings import OtelSettings

_PROTOCOL = "http/protobuf"
_GRPC_PORT = 4317


def find_problem(settings: OtelSettings, environ: Mapping[str, str]) -> str:
    """Return why hilum cannot export as the settings and variables say; empty if it can."""
    if not settings.endpoint:
        for name, protocol in _read_variables(settings, environ, "PROTOCOL"):
            if protocol != _PROTOCOL:
                return f"hilum exports over HTTP ({_PROTOCOL}), but {name} is {protocol}."
    for name, url in _read_endpoints(settings, environ):
        if not _is_http(url):
            # The URL is not shown, because it may contain a password.
            return f"{name} is not a URL that begins with http:// or https://."
    return ""


def find_suspicion(settings: OtelSettings, environ: Mapping[str, str]) -> str:
    """Return what probably makes an export fail, as a further sentence; empty if nothing does."""
    for _, url in _read_endpoints(settings, environ):
        if urlsplit(url).port == _GRPC_PORT:
            return f" Port {_GRPC_PORT} usually expects gRPC; for HTTP, use port 4318."
    return ""


def _read_endpoints(
    settings: OtelSettings, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if settings.endpoint:
        yield "otel.endpoint", settings.endpoint
    else:
        yield from _read_variables(settings, environ, "ENDPOINT")


def _read_variables(
    settings: OtelSettings, environ: Mapping[str, str], what: str
) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the variables that apply to the signals that are exported."""
    signals = {"TRACES": settings.traces, "METRICS": settings.metrics, "LOGS": settings.logs}
    for signal, is_exported in signals.items():
        if not is_exported or environ.get(f"OTEL_{signal}_EXPORTER") == "none":
            continue
        for name in (f"OTEL_EXPORTER_OTLP_{signal}_{what}", f"OTEL_EXPORTER_OTLP_{what}"):
            value = environ.get(name, "").strip()
            if value:
                yield name, value
                break


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or a bracket is missing
        return False
