"""What a provider's refusal means: status, headers and body become one ``ModelError``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from hilum.errors import ModelError

# The words the providers use for a prompt that does not fit; they have no common code for it.
# Patterns are compiled by the first failure that is read.
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
# Google uses the same words for a limit for each minute, and says when it ends.
_PASSES = r"(?i)RESOURCE_EXHAUSTED|retryDelay|per.?minute"
_RETRY_DELAY = rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"'
_NO_TOOLS = (
    r"(?i)(does(n't| not)|do(n't| not)) support (the )?(use of )?(native )?(tool|function)"
    r"|(tool|function).{0,12}call\w* (is|are) not (supported|enabled|available)"
    r"|(tools|functions) (is|are) not supported|no endpoints found that support"
    r" tool|tool.?choice.*parser"
    r"|enable-auto-tool-choice|unsupported parameter\W+(tools|functions)\b"
)
_BAD_KEY = r"(?i)api[_ ]key[_ ](not valid|invalid)|API_KEY_INVALID|invalid.api.key"
# Vendors quote the refused key, partly masked: nothing that looks like one is repeated.
_KEYS = r"\b(sk|gsk|xai|pplx|key|AIza|Bearer\s)[-_*A-Za-z0-9.…]{8,}|[A-Za-z0-9_-]{0,40}\*{3,}[A-Za-z0-9_*-]*"
LONGEST = 600
MOST_READ = 6_000


class Who(msgspec.Struct, frozen=True):
    """Who answered, for messages.

    Attributes:
        provider: The provider's name.
        model: The model's name at the provider; empty where the request was for none.
        key_env: The variable that holds the key; empty where there is none.
        key: The key, so that it can be kept out of messages.
    """

    provider: str
    model: str = ""
    key_env: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return f"Who({self.provider}/{self.model})"  # and never the key


def clean(text: str, who: Who) -> str:
    """One line of text without keys, at most 600 characters."""
    text = text[:MOST_READ]
    if who.key:
        # A short one would be found in ordinary words.
        if len(who.key) >= 8:
            text = text.replace(who.key, "***")
        else:
            text = text
    text = re.sub(_KEYS, "***", " ".join(text.split()))
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 1] + "…"


def own_words(body: bytes) -> tuple[str, str]:
    """Return the provider's message and its code (both may be empty) from the body of a refusal."""
    text = body.decode("utf-8", "replace").strip()[:MOST_READ]
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        if re.match(r"(?i)\s*<(!doctype|html|head|body|\?xml)", text):
            title = re.search(r"(?is)<title[^>]*>(.*?)</title>", text)
            return ("an HTML page" + (f" titled “{title[1].strip()}”" if title else "")), ""
        return text, ""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return text, ""
    error = value.get("error") or value
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return text, ""
    codes = [str(error[name]) for name in ("code", "type", "status") if error.get(name)]
    for detail in error.get("details") or () if isinstance(error.get("details"), list) else ():
        if isinstance(detail, dict) and detail.get("reason"):
            codes.append(str(detail["reason"]))
    message = error.get("message") or error.get("detail") or error.get("msg") or text
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message}: {metadata['raw']}"  # OpenRouter: what the provider behind it said
    return (
        message if isinstance(message, str) else msgspec.json.encode(message).decode()
    ), " ".join(codes)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the provider asks to wait: ``retry-after-ms``, or ``retry-after`` as seconds or as a
    date.
    """
    try:
        value = headers.get("retry-after-ms")
        if value:
            return max(float(value) / 1000, 0.0)
        value = headers.get("retry-after")
        if not value:
            return None
        try:
            return max(float(value), 0.0)
        except ValueError:
            import time
            from email.utils import parsedate_to_datetime

            return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def refusal(status: int, headers: Mapping[str, str], body: bytes, who: Who) -> ModelError:
    """Return what an HTTP status other than success means."""
    words, code = own_words(body)
    words = words[:MOST_READ]
    code = code[:MOST_READ]
    said = clean(words, who)
    kind = _kind(status, f"{words} {code}")
    hint = ""
    wait = retry_after(headers)
    if wait is None and (found := re.search(_RETRY_DELAY, body)):
        wait = float(found[1])
    if kind == "quota" and wait is not None and status != 402:
        kind = "rate_limit"
    if kind == "auth":
        hint = key_hint(who)
    elif kind == "quota":
        hint = (
            f"The account at {who.provider} has no credit left: add some, or choose another model."
        )
    elif status in (404, 405):
        hint = f"Check the model's name {who.model!r} and the base URL, which often ends in /v1."
    elif 300 <= status < 400:
        hint = (
            f"The base URL of {who.provider} redirects to {headers.get('location', 'elsewhere')};"
            " set that one."
        )
    elif kind == "request" and refuses_tools(words):
        hint = f'Set tool_protocol = "text" under [models.models."{who.provider}/{who.model}"].'
    answered = f"{who.provider} answered {status}"
    return ModelError(
        f"{answered}: {said}" if said else f"{answered} without saying why.",
        kind=kind,
        status=status,
        retry_after=wait,
        hint=hint,
    )


def refuses_tools(words: str) -> bool:
    """Return whether a provider says that a model cannot call tools."""
    return bool(re.search(_NO_TOOLS, words))


def reported(words: str, code: str, who: Who, status: int = 0) -> ModelError:
    """Return what an error event in a stream means."""
    kind = _kind(status or _STATUS.get(code, 500), f"{words} {code}")
    said = clean(words or code or "no reason given", who)
    hint = key_hint(who) if kind == "auth" else ""
    if kind == "quota":
        hint = (
            f"The account at {who.provider} has no credit left: add some, or choose another model."
        )
    return ModelError(
        f"{who.provider} broke off the answer: {said}", kind=kind, status=status, hint=hint
    )


_STATUS = {
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


def _kind(status: int, words: str) -> str:
    if status == 402 or (
        status == 429 and re.search(_QUOTA, words) and not re.search(_PASSES, words)
    ):
        return "quota"
    if status == 429:
        return "rate_limit"
    if status == 413 or (status in (400, 422) and re.search(_TOO_LONG, words)):
        return "too_long"
    if status in (401, 403) or (status == 400 and re.search(_BAD_KEY, words)):
        return "auth"
    if status in (408, 409, 425) or status >= 500:
        # llama.cpp and vLLM report an overlong prompt as 500 in some versions: a retry would not
        # help.
        if status == 500 and re.search(_TOO_LONG, words):
            return "too_long"
        return "server"
    return "request"


def key_hint(who: Who) -> str:
    """Return which key is missing or refused."""
    if not who.key_env:
        return f"{who.provider} wants a key: set key_env under [models.providers.{who.provider}]."
    if not who.key:
        return f"Set {who.key_env} to your key for {who.provider}."
    return f"The key in {who.key_env} was refused: check that it is valid and may use this model."
