"""Renders errors in each vendor's format: as a response, or as an event within a stream."""

from __future__ import annotations

import msgspec

from hilum_replay.render import format_data, format_event

# Documented at https://platform.openai.com/docs/guides/error-codes.
_OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
# https://docs.anthropic.com/en/api/errors; 529 is specific to this vendor.
_ANTHROPIC_TYPES = {**_OPENAI_TYPES, 529: "overloaded_error"}
# The codes of google.rpc.Code.
_GEMINI_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
}


def render_error(api: str, status: int, text: str) -> bytes:
    """Return the body of an error response."""
    if api == "anthropic":
        type = _ANTHROPIC_TYPES.get(status, "api_error")
        return msgspec.json.encode({"type": "error", "error": {"type": type, "message": text}})
    if api == "gemini":
        name = _GEMINI_STATUSES.get(status, "INTERNAL")
        return msgspec.json.encode({"error": {"code": status, "message": text, "status": name}})
    type = _OPENAI_TYPES.get(status, "server_error")
    error = {"message": text, "type": type, "param": None, "code": None}
    return msgspec.json.encode({"error": error})


def render_error_event(api: str, text: str) -> bytes:
    """Return an error event for a stream that has begun."""
    if api == "anthropic":
        return format_event("error", error={"type": "overloaded_error", "message": text})
    if api == "responses":
        error = {"code": "server_error", "message": text}
        return format_event("response.failed", response={"status": "failed", "error": error})
    if api == "gemini":
        return format_data({"error": {"code": 503, "message": text, "status": "UNAVAILABLE"}})
    return format_data({"error": {"message": text, "type": "server_error", "code": 503}})
