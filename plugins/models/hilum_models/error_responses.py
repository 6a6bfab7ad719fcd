"""Converts unsuccessful HTTP responses into ``ModelError``.

This module is loaded together with the HTTP client, because its import of ``email`` takes
milliseconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from hilum.errors import ModelError

from hilum_models.failures import (
    MAX_SEARCHED,
    Endpoint,
    classify,
    clean_message,
    extract_error,
    refuses_tools,
)

_RETRY_DELAY = rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"'


def response_error(
    status: int, headers: Mapping[str, str], body: bytes, endpoint: Endpoint
) -> ModelError:
    """Return the error for an unsuccessful response."""
    message, codes = extract_error(body)
    message = message[:MAX_SEARCHED]
    kind = classify(status, f"{message} {codes[:MAX_SEARCHED]}")
    wait = _read_wait(headers, body)
    # A temporary limit does not mean an empty account, whatever the message says.
    if kind == "quota" and wait is not None and status != 402:
        kind = "rate_limit"
    shown = clean_message(message, endpoint)
    answered = f"{endpoint.provider} answered {status}"
    return ModelError(
        f"{answered}: {shown}" if shown else f"{answered} without a reason.",
        kind=kind,
        status=status,
        retry_after=wait,
        hint=_response_hint(kind, status, headers, message, endpoint),
    )


def _response_hint(
    kind: str, status: int, headers: Mapping[str, str], message: str, endpoint: Endpoint
) -> str:
    if kind == "auth":
        return endpoint.key_hint
    if kind == "quota":
        return endpoint.quota_hint
    # Servers use this status for both an unknown model and an unknown path.
    if status in (404, 405):
        name = repr(endpoint.model)
        return f"Check the model's name {name} and the base URL, which often ends in /v1."
    # Redirects are not followed: they would carry the key to another server.
    if 300 <= status < 400:
        address = headers.get("location", "elsewhere")
        return f"The base URL of {endpoint.provider} redirects to {address}; use that address."
    if kind == "request" and refuses_tools(message):
        section = f'[models.models."{endpoint.provider}/{endpoint.model}"]'
        return f'Set tool_protocol = "text" under {section}.'
    return ""


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the waiting time, in seconds, that the provider requests, or ``None``.

    The header is ``retry-after-ms``, or ``retry-after`` with seconds or a date (RFC 9110, 10.2.3).
    """
    try:
        milliseconds = headers.get("retry-after-ms")
        if milliseconds:
            return max(float(milliseconds) / 1000, 0.0)
        value = headers.get("retry-after")
        if not value:
            return None
        return max(_seconds_until(value), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds_until(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return parsedate_to_datetime(value).timestamp() - time.time()


def _read_wait(headers: Mapping[str, str], body: bytes) -> float | None:
    wait = read_retry_after(headers)
    if wait is not None:
        return wait
    # Google sends the waiting time in the body.
    found = re.search(_RETRY_DELAY, body)
    return float(found[1]) if found else None
