"""Converts providers' error messages into ``ModelError``."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from hilum.errors import ModelError

from hilum_models.json_values import decode_document, get_dicts

# Patterns for prompts that exceed the window, for which providers have no common error code. The
# patterns in this module are strings, so that they are compiled only when a request fails.
_TOO_LONG = (
    r"(?i)context.?length|context.?window|maximum context|prompt is too long|too many (input"
    r" )?tokens|input is too long"
    r"|exceed\w* (the )?(model'?s? )?(maximum |available )?(context|number of tokens|input)"
    r"|reduce the length|request_too_large|token count .*exceeds"
)
_QUOTA = (
    r"(?i)insufficient_quota|exceeded your current quota|credit"
    r" balance|insufficient.balance|billing"
)
# Google describes a per-minute limit in the same way as an empty account, but states when it ends.
_TEMPORARY_QUOTA = r"(?i)RESOURCE_EXHAUSTED|retryDelay|per.?minute"
_NO_TOOLS = (
    r"(?i)(does(n't| not)|do(n't| not)) support (the )?(use of )?(native )?(tool|function)"
    r"|(tool|function).{0,12}call\w* (is|are) not (supported|enabled|available)"
    r"|(tools|functions) (is|are) not supported|no endpoints found that support"
    r" tool|tool.?choice.*parser"
    r"|enable-auto-tool-choice|unsupported parameter\W+(tools|functions)\b"
)
_BAD_KEY = r"(?i)api[_ ]key[_ ](not valid|invalid)|API_KEY_INVALID|invalid.api.key"
# Vendors quote the rejected key, partly masked. hilum repeats nothing that looks like a key.
_KEYS = (
    r"\b(sk|gsk|xai|pplx|key|AIza|Bearer\s)[-_*A-Za-z0-9.…]{8,}"
    r"|[A-Za-z0-9_-]{0,40}\*{3,}[A-Za-z0-9_*-]*"
)
_HTML = r"(?i)\s*<(!doctype|html|head|body|\?xml)"
_TITLE = r"(?is)<title[^>]*>(.*?)</title>"
# A shorter key could match parts of ordinary words.
MIN_SECRET = 8
# Maximum number of characters to show from a provider's message.
MAX_SHOWN = 600
# Maximum number of characters to search in a provider's message; some patterns backtrack.
MAX_SEARCHED = 6_000


class Endpoint(msgspec.Struct, frozen=True):
    """The provider and the model that a request goes to, for messages.

    Attributes:
        provider: The provider's name.
        model: The model's name at the provider; empty if the request is not for a model.
        key_env: The environment variable that contains the key; empty if there is none.
        key: The key, which is removed from messages.
        key_place: Description of where the key is stored; empty if it is in ``key_env``.
    """

    provider: str
    model: str = ""
    key_env: str = ""
    key: str = ""
    key_place: str = ""

    def __repr__(self) -> str:
        # Omit the key, because representations may appear in tracebacks and logs.
        return f"Endpoint({self.provider}/{self.model})"

    @property
    def key_hint(self) -> str:
        """A hint for a missing or rejected key."""
        if self.key and self.key_place:
            return (
                f"The key in {self.key_place} was rejected: check that it is valid and may use"
                f" this model. `hilum models key {self.provider}` replaces it."
            )
        if not self.key_env:
            section = f"[models.providers.{self.provider}]"
            return (
                f"{self.provider} requires a key: run `hilum models key {self.provider}`, or set"
                f" key_env under {section}."
            )
        if not self.key:
            return (
                f"Set {self.key_env} to your key for {self.provider}, or run `hilum models key"
                f" {self.provider}`."
            )
        return (
            f"The key in {self.key_env} was rejected: check that it is valid and may use this"
            " model."
        )

    @property
    def quota_hint(self) -> str:
        """A hint for an account without credit."""
        return (
            f"Your account at {self.provider} has no credit left: add credit to it, or choose"
            " another model."
        )


def clean_message(text: str, endpoint: Endpoint) -> str:
    """Return a provider's message as one line of at most 600 characters, without keys."""
    text = text[:MAX_SEARCHED]
    # The patterns below match only the usual prefixes of keys, so the exact key is replaced first.
    if len(endpoint.key) >= MIN_SECRET:
        text = text.replace(endpoint.key, "***")
    one_line = " ".join(text.split())
    text = re.sub(_KEYS, "***", one_line)
    if len(text) <= MAX_SHOWN:
        return text
    return text[: MAX_SHOWN - 1] + "…"


# --- bodies of error responses --------------------------------------------------------------------


def extract_error(body: bytes) -> tuple[str, str]:
    """Return the message and codes from the body of an error response; both may be empty."""
    text = body.decode("utf-8", "replace").strip()[:MAX_SEARCHED]
    value = decode_document(body)
    if value is None:
        return _describe_page(text), ""
    if isinstance(value, list) and value:
        value = value[0]  # Gemini wraps the error in a list if a stream was requested
    error = value.get("error") or value if isinstance(value, dict) else None
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return text, ""
    message = _find_message(error, text)
    if not isinstance(message, str):
        message = msgspec.json.encode(message).decode()
    return message, " ".join(_find_codes(error))


def is_page(document: bytes) -> bool:
    """Return whether a document is an HTML or XML page."""
    return bool(re.match(_HTML, document[:MAX_SEARCHED].decode("utf-8", "replace")))


def _describe_page(text: str) -> str:
    """Return a text, or a description of an HTML page, as sent by intermediate proxies."""
    if not re.match(_HTML, text):
        return text
    title = re.search(_TITLE, text)
    if title is None:
        return "an HTML page"
    return f"an HTML page titled “{title[1].strip()}”"


def _find_message(error: dict[str, Any], text: str) -> Any:
    message = error.get("message") or error.get("detail") or error.get("msg") or text
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        # OpenRouter's own message is uninformative, so add the message from the underlying
        # provider.
        return f"{message}: {metadata['raw']}"
    return message


def _find_codes(error: dict[str, Any]) -> list[str]:
    fields = [error.get("code"), error.get("type"), error.get("status")]
    fields += [detail.get("reason") for detail in get_dicts(error, "details")]
    return [str(code) for code in fields if code]


# --- errors ---------------------------------------------------------------------------------------


def refuses_tools(message: str) -> bool:
    """Return whether a provider's message says that a model cannot call tools."""
    return bool(re.search(_NO_TOOLS, message))


# The HTTP status that corresponds to the code in an error event.
_EVENT_STATUS = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limit": 429,
    "RESOURCE_EXHAUSTED": 429,
    "insufficient_quota": 429,
    "authentication_error": 401,
    "permission_error": 403,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "INVALID_ARGUMENT": 400,
    "request_too_large": 413,
    "context_length_exceeded": 413,
    "overloaded_error": 529,
}


def event_error(message: str, code: str, endpoint: Endpoint, status: int = 0) -> ModelError:
    """Return the error for an error event in a stream."""
    kind = classify(status or _EVENT_STATUS.get(code, 500), f"{message} {code}")
    hint = ""
    if kind == "auth":
        hint = endpoint.key_hint
    elif kind == "quota":
        hint = endpoint.quota_hint
    shown = clean_message(message or code or "no reason given", endpoint)
    text = f"{endpoint.provider} aborted the answer: {shown}"
    return ModelError(text, kind=kind, status=status, hint=hint)


_KIND_BY_STATUS = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "server",
    409: "server",
    413: "too_long",
    425: "server",
    429: "rate_limit",
}


def classify(status: int, message: str) -> str:
    """Return the kind of a failure from its status or, if that is ambiguous, from its message."""
    kind = _KIND_BY_STATUS.get(status, "server" if status >= 500 else "request")
    # Some versions of llama.cpp and vLLM report an overlong prompt as status 500; a retry would not
    # help.
    if status in (400, 422, 500) and re.search(_TOO_LONG, message):
        return "too_long"
    if status == 400 and re.search(_BAD_KEY, message):
        return "auth"
    if status == 429 and _is_out_of_credit(message):
        return "quota"
    return kind


def _is_out_of_credit(message: str) -> bool:
    return bool(re.search(_QUOTA, message)) and not re.search(_TEMPORARY_QUOTA, message)
