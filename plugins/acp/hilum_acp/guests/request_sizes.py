"""The size of a program's request to a model: the tokens that it is expected to use."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hilum import estimate

from hilum_acp.guests.request_filter import PDF, Files, make_refusal
from hilum_acp.guests.request_formats import FORMATS, restrict_request

IMAGE_TOKENS = 1_200
"""Tokens of an image, before the provider has counted it."""
PAGE_TOKENS = 3_000
"""Tokens of a page of a PDF, which providers read as text and as an image."""
PDF_BYTES_PER_TOKEN = 4
"""Bytes in a token of a PDF. In a scan, there are more; a compressed text may have fewer."""
MAX_PDF_TOKENS = 1_000_000
"""Tokens of a PDF that fills the largest windows; no model reads a larger one."""
MAX_ANSWERS = 128
"""Number of answers to one request."""


class RequestSize(NamedTuple):
    """The tokens that a request is expected to use.

    Attributes:
        input: Estimated number of tokens in the request.
        output: Maximum number of tokens in all answers together.
    """

    input: int
    output: int


def limit_output(request: dict[str, Any], format_name: str, max_output: int, name: str = "") -> int:
    """Write the longest answer that is reserved into a request, and return its tokens.

    Args:
        request: The restricted request, which is changed.
        format_name: The format.
        max_output: Maximum number of tokens in an answer, also if the request asks for more.
        name: The field that the server knows, into which the limit is written; the format's first
            if empty. A server may ignore the others, so they are left out.

    Raises:
        RequestRefused: The request asks for too many answers, or its limit for thinking is no number.
    """
    known = FORMATS[format_name]
    place = request
    if known.config:
        place = request[known.config] = request.get(known.config) or {}
    given = [place.pop(each, None) for each in known.limits]
    limits = [limit for limit in given if limit is not None]
    longest: int = min([max_output, *limits])
    place[name or known.limits[0]] = longest
    for part, field in known.thinking:
        _limit_thinking(place, part, field, longest)
    answers: int = place.get(known.answers) or 1
    if answers > MAX_ANSWERS:
        raise make_refusal(known.answers, f"is more than {MAX_ANSWERS}")
    return answers * longest


def _limit_thinking(request: dict[str, Any], part: str, field: str, longest: int) -> None:
    """Lower a limit for the thinking of a model below that of the answer, which contains it."""
    options = request.get(part)
    if not isinstance(options, dict) or options.get(field) is None:
        return
    given = options[field]
    # A server may read a number from a text.
    if isinstance(given, bool) or not isinstance(given, int):
        raise make_refusal(f"{part}.{field}", "is not an integer")
    if given >= longest:
        options[field] = longest - 1


def measure_input(request: dict[str, Any], format_name: str) -> int:
    """Return the expected tokens of a restricted request. Blocks."""
    files = Files(are_kept=False)
    texts = restrict_request(request, format_name, files)
    return estimate(msgspec.json.encode(texts)) + sum(
        _estimate_file(media_type, length) for media_type, length in files.found
    )


def _estimate_file(media_type: str, length: int) -> int:
    """Return the expected tokens of a file from its length in base64."""
    if media_type != PDF:
        return IMAGE_TOKENS
    size = length * 3 // 4
    return min(max(size // PDF_BYTES_PER_TOKEN, PAGE_TOKENS), MAX_PDF_TOKENS)
