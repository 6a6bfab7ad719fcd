"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("otel")
class OtelSettings:
    """Where telemetry is sent, and what it contains. Without an endpoint, nothing is sent."""

    # A project must not choose where data about the user's work goes, so it can set none of this.
    enabled: bool = setting(
        default=False,
        project=False,
        help=(
            "Whether to export to the endpoint that the variables OTEL_EXPORTER_OTLP_… name, or to "
            "http://localhost:4318 if they name none."
        ),
    )
    endpoint: str = setting(
        default="",
        project=False,
        help=(
            "URL of an OTLP/HTTP receiver without /v1/traces, such as http://localhost:4318. If "
            "set, hilum exports to it."
        ),
    )
    headers: str = setting(
        default="",
        secret=True,
        help="HTTP headers for the endpoint, as name=value pairs separated by commas.",
    )
    traces: bool = setting(default=True, project=False, help="Whether to export traces.")
    metrics: bool = setting(default=True, project=False, help="Whether to export metrics.")
    logs: bool = setting(default=True, project=False, help="Whether to export errors and notices.")
    content: bool = setting(
        default=False,
        project=False,
        help=(
            "Whether to export prompts, answers, arguments, results and error texts, without the "
            "secrets that hilum detected."
        ),
    )
    content_limit: int = setting(
        default=20_000,
        minimum=100,
        project=False,
        help="Maximum number of characters of each exported text.",
    )
    flush_timeout: float = setting(
        default=3.0,
        minimum=0,
        project=False,
        help="Maximum number of seconds that closing hilum waits for the last export.",
    )
